# SPDX-License-Identifier: Apache-2.0
"""The row operations of vector units: what each takes, and the way it goes through the hardware.

A row passes up to three stages, one behind the other, perhaps `turned` before the first:

1. *first*: a reduction of the elements, ``a``: largest, largest magnitude, or sum;
2. *second*: ``v = f(x)`` or ``f(x - a)``, and the sum of ``v`` or of its squares, ``b``;
3. *apply*: ``v * s * g + h``, with ``s`` a function of ``b``, and the conversion of the result.

An operation leaves out what it has no use for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

First = Literal["", "sum", "max", "magnitude", "position"]
Value = Literal["x", "exp", "power", "gate"]
Second = Literal["", "values", "rescaled", "squares", "first", "given"]
Scale = Literal["", "reciprocal", "rsqrt"]
Factor = Literal["", "p", "y", "turn"]
Term = Literal["", "p", "y", "turn"]


@dataclass(frozen=True)
class Way:
    """The way of an operation through the stages.

    Parameters
    ----------
    summary : str
        What it computes.
    first : str
        What ``a`` is: nothing, the ``sum`` of the row, its largest element (``max``), its largest
        ``magnitude``, or the ``position`` of the largest.
    turned : bool
        Whether blocks of elements are multiplied by a Hadamard matrix before anything else.
    mean : bool
        Whether ``a`` is multiplied by `c1`, which is then one over the length.
    centred : bool
        Whether ``a`` is subtracted from the elements.
    value : str
        What ``v`` is: the element, its exponential, the exponential over a power of two
        (``power``), or its gate.
    second : str
        What ``b`` is: nothing, the sum of the ``values``, that of ``power``s which is shifted when
        their power of two rises (``rescaled``), of the ``squares``, ``a`` (``first``), or what port
        ``r`` gives for the row (``given``).
    epsilon : bool
        Whether `c2` is added to ``b * c1``.
    scale : str
        What ``s`` is: `c1` as it is, or a function of ``b * c1 + c2``.
    factor, term : str
        Where ``g`` and ``h`` come from: nowhere (1 and nothing), port ``p`` or port ``y``;
        ``turn``: cosine and sine of port ``p``, for pairs of elements.
    tail : bool
        Whether a beat with ``b * c1`` follows each row.
    last_only : bool
        Whether ``a`` is all that is given, one beat a row.
    """

    summary: str
    first: First = ""
    turned: bool = False
    mean: bool = False
    centred: bool = False
    value: Value = "x"
    second: Second = ""
    epsilon: bool = False
    scale: Scale = ""
    factor: Factor = ""
    term: Term = ""
    tail: bool = False
    last_only: bool = False

    @property
    def passes(self) -> int:
        """Reductions that a row waits for, one after the other."""
        return bool(self.first) + self.summed

    @property
    def summed(self) -> bool:
        """Whether ``b`` is a sum of the row."""
        return self.second in ("values", "rescaled", "squares")

    @property
    def exponential(self) -> bool:
        """Whether ``v`` are exponentials: rows of minus infinity, whose sum is zero, give zeros."""
        return self.value in ("exp", "power")

    @property
    def takes_p(self) -> bool:
        """Whether port ``p`` has a beat for each beat of ``x``."""
        return "p" in (self.factor, self.term) or self.factor == "turn"

    @property
    def takes_r(self) -> bool:
        """Whether port ``r`` has a beat for each row."""
        return self.second == "given"

    @property
    def direct(self) -> bool:
        """Whether ``b`` is there before the values of the row are."""
        return self.second in ("first", "given")

    @property
    def takes_y(self) -> bool:
        """Whether port ``y`` has a beat for each beat of ``x``."""
        return "y" in (self.factor, self.term)


def going(part: str, value: str) -> Callable[[Way], bool]:
    """Return a predicate that tells whether a field of a `Way` has a value."""
    return lambda way: bool(getattr(way, part) == value)


WAYS: dict[str, Way] = {
    "softmax": Way(
        "exp(x - max) / sum of these, times `scale`",
        first="max", centred=True, value="exp", second="values", scale="reciprocal",
    ),
    "rms_norm": Way(
        "x / sqrt(mean of squares + epsilon), times gamma",
        second="squares", epsilon=True, scale="rsqrt", factor="p",
    ),
    "layer_norm": Way(
        "(x - mean) / sqrt(variance + epsilon), times gamma, plus beta",
        first="sum", mean=True, centred=True, second="squares", epsilon=True, scale="rsqrt",
        factor="p", term="p",
    ),
    "rope": Way(
        "pairs of neighbours, turned by the angles whose cosines and sines are given",
        factor="turn", term="turn",
    ),
    "gated": Way("gate(x) times y, times `scale`", value="gate", factor="y"),
    "add": Way("x times `scale`, plus y", term="y"),
    "quantise": Way(
        "x / (largest magnitude of the row / largest integer), and this scale",
        first="magnitude", second="first", scale="reciprocal", tail=True,
    ),
    "quantise_tensor": Way("x times `scale`, one for all rows"),
    "dequantise": Way("x times `scale`, times a scale for each column", factor="p"),
    "argmax": Way(
        "the position of the first largest element of a row",
        first="position", second="first", last_only=True,
    ),
    "dequantise_rows": Way(
        "x times `scale`, times a scale for the row, times a scale for each column",
        second="given", factor="p",
    ),
    "hadamard_quantise": Way(
        "blocks of x times a Hadamard matrix, then as `quantise`",
        first="magnitude", turned=True, second="first", scale="reciprocal", tail=True,
    ),
}  # fmt: skip
"""The operations, in the order of their codes."""

ONLINE_SOFTMAX = replace(WAYS["softmax"], first="", centred=False, value="power", second="rescaled")
"""`softmax` whose maximum and sum come out of one pass over the row."""

CODES = {name: code for code, name in enumerate(WAYS)}
"""Code of an operation in a command."""

NAMED = tuple(name for name in WAYS if name != "quantise_tensor")
"""What a configuration names; `quantise` stands for both of its kinds."""
