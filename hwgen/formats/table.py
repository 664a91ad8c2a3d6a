# SPDX-License-Identifier: Apache-2.0
"""All number formats by name, and arrays of any of them compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hwgen.formats.bit_planes import BINARY
from hwgen.formats.floating import FLOATS, FloatFormat
from hwgen.formats.integer import IntegerFormat, integer
from hwgen.formats.ternary import TERNARY
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NumberFormat = IntegerFormat | FloatFormat


def number_format(name: str) -> NumberFormat:
    """Return the number format called `name`; ``int1`` is -1 and 1, the weights of one bit.

    Raises
    ------
    ValueError
        If there is none.
    """
    named: dict[str, NumberFormat] = {TERNARY.name: TERNARY, BINARY.name: BINARY, **FLOATS}
    if name in named:
        return named[name]
    try:
        return integer(name)
    except ValueError as error:
        raise ValueError(f"{error}, or one of {', '.join([TERNARY.name, *FLOATS])}") from None


def differences(actual: NDArray[Any], expected: NDArray[Any]) -> NDArray[np.intp]:
    """Return the indices, a row each, at which two arrays of one dtype differ in any bit."""
    bits = np.dtype(f"u{expected.dtype.itemsize}")
    patterns = [np.ascontiguousarray(array).view(bits) for array in (actual, expected)]
    return np.argwhere(patterns[0] != patterns[1])
