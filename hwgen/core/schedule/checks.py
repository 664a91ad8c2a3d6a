# SPDX-License-Identifier: Apache-2.0
"""Checks and error messages that the schedules of all families share."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from hwgen.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.operation import Sizes
    from hwgen.core.port import Beats, StreamPort
    from hwgen.formats import Format


def check_sizes(sizes: Sizes, max_k: int, name: str) -> None:
    """Check the sizes of a product against the longest reduction of a core.

    Raises
    ------
    InputError
        If a size is below 1 or K exceeds `max_k`; `name` is that of the core.
    """
    for axis, size in sizes.items():
        if size < 1:
            raise InputError(f"{axis} must be at least 1, not {size}")
    if sizes["K"] > max_k:
        raise InputError(
            f"K = {sizes['K']} exceeds max_k = {max_k} of the configuration {name!r}; raise max_k"
            " and build again"
        )


def check_operand(name: str, array: NDArray[Any], shape: tuple[int, int], fmt: Format) -> None:
    """Check shape, dtype and values of an operand, called `name` in the message.

    Raises
    ------
    InputError
        Saying what is allowed and what was found.
    """
    if array.shape != shape:
        raise InputError(f"{name}: shape must be {shape}, not {array.shape}")
    try:
        fmt.check(array)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None


def weight_beats(image: Beats, port: StreamPort, *blocks: int) -> Beats:
    """Return packed weights in the shape in which they were packed.

    Parameters
    ----------
    image : ndarray of uint8
        What ``pack_weights`` returned, or the same bytes in any shape.
    port : StreamPort
        The port of the weights.
    *blocks : int
        Lengths of the axes before the bytes of a beat.

    Raises
    ------
    InputError
        If there are more or fewer bytes than that.
    """
    shape = (*blocks, port.beat_bytes)
    if image.size != prod(shape):
        raise InputError(
            f"packed weights: must be {' x '.join(map(str, shape))} = {prod(shape)} bytes"
            f" (beats x bytes), found {image.size}"
        )
    return image.reshape(shape)
