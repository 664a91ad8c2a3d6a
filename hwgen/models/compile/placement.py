# SPDX-License-Identifier: Apache-2.0
"""Addresses of the arrays of a compiled network."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from hwgen.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

IMAGE, LIST, WORK = "image", "list", "work"
"""Regions: what is loaded, the command list, and what is zero at first."""


@dataclass(frozen=True)
class Array:
    """An array, or one for each layer.

    Parameters
    ----------
    name, region : str
    address : int
        Of the first one.
    bytes : int
        Of each.
    count, stride : int
        How many there are, and the bytes from one to the next.
    written : bool
        Whether the list writes it.
    """

    name: str
    region: str
    address: int
    bytes: int
    count: int = 1
    stride: int = 0
    written: bool = False

    def document(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


class Placement:
    """A memory that is filled from its first byte on.

    Parameters
    ----------
    base : int
        Address of the first byte.
    alignment : int
        Bytes that each array's address is a multiple of: a burst of the memory.

    Attributes
    ----------
    arrays : dict of Array
        By name.
    end : int
        Address behind the last byte.
    """

    def __init__(self, base: int, alignment: int) -> None:
        self.base, self.alignment, self.end = base, alignment, base
        self.arrays: dict[str, Array] = {}

    def place(self, name: str, size: int, region: str, *, written: bool = False) -> int:
        """Place an array behind the others and return its address."""
        self._add(Array(name, region, self._aligned(self.end), size, written=written))
        self.end = self.arrays[name].address + size
        return self.arrays[name].address

    def place_at(
        self, name: str, address: int, size: int, region: str, *, written: bool = False
    ) -> None:
        """Place an array at an address, where others may lie at other times."""
        self._add(Array(name, region, address, size, written=written))
        self.end = max(self.end, address + size)

    def repeat(
        self, sizes: dict[str, int], count: int, region: str, *, written: bool = False
    ) -> int:
        """Place several arrays, one behind the other, `count` times; return the stride."""
        start = at = self._aligned(self.end)
        offsets = {}
        for name, size in sizes.items():
            offsets[name] = at
            at = self._aligned(at + size)
        stride = at - start
        for name, size in sizes.items():
            self._add(Array(name, region, offsets[name], size, count, stride, written))
        self.end = start + count * stride
        return stride

    def at(self, name: str) -> int:
        """Return the address of an array."""
        return self.arrays[name].address

    def region(self, name: str) -> tuple[int, int]:
        """Return the first address of a region and the one behind its last byte."""
        result = [array for array in self.arrays.values() if array.region == name]
        ends = [each.address + (each.count - 1) * each.stride + each.bytes for each in result]
        return min(each.address for each in result), max(ends)

    def put(self, file: IO[bytes], name: str, array: NDArray[Any], number: int = 0) -> None:
        """Write an array, of layer `number`, into a file that begins at `base`."""
        place = self.arrays[name]
        assert array.nbytes == place.bytes, name
        file.seek(place.address + number * place.stride - self.base)
        file.write(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)

    def check(self, address_width: int, limit: int | None) -> None:
        """Refuse what does not fit.

        Parameters
        ----------
        address_width : int
            Bits of an address.
        limit : int or None
            Bytes of the memory behind `base`.

        Raises
        ------
        InputError
            It says by how many bytes.
        """
        size = self.end - self.base
        if limit is not None and size > limit:
            raise InputError(
                f"the network takes {size:,d} bytes, {size - limit:,d} more than the {limit:,d} of"
                " the memory (--memory-bytes)"
            )
        over = self.end - (1 << address_width)
        if over > 0:
            raise InputError(
                f"the network ends {over:,d} bytes behind the last address of {address_width} bits"
                " (memory.address_width)"
            )

    def _aligned(self, address: int) -> int:
        return -(-address // self.alignment) * self.alignment

    def _add(self, array: Array) -> None:
        if array.name in self.arrays:
            raise InputError(f"two arrays of the network are called {array.name!r:.80}")
        self.arrays[array.name] = array


@dataclass(frozen=True)
class Life:
    """An array with its lifetime.

    Parameters
    ----------
    name : str
    bytes : int
    first, last : int
        Steps that make it and that read it last.
    """

    name: str
    bytes: int
    first: int
    last: int


def place_lifetimes(lives: list[Life], alignment: int) -> Placement:
    """Return addresses from 0 on, the lowest that is free during a lifetime, largest arrays first.

    Parameters
    ----------
    lives : list of Life
    alignment : int
        Bytes that each array begins at a multiple of.
    """
    memory = Placement(0, alignment)
    taken: list[tuple[int, int, Life]] = []
    for life in sorted(lives, key=lambda each: (-each.bytes, each.first)):
        size = -(-max(life.bytes, 1) // alignment) * alignment
        at = 0
        for begin, end, other in sorted(taken, key=lambda each: each[0]):
            if other.last < life.first or life.last < other.first:
                continue
            if begin - at >= size:
                break
            at = max(at, end)
        taken.append((at, at + size, life))
        memory.place_at(life.name, at, life.bytes, WORK, written=True)
    return memory
