# SPDX-License-Identifier: Apache-2.0
"""FlatBuffers that may be anybody's: every offset and length is checked against the file.

A table is an offset to a list of places, and its fields lie where these say; a field that has no
place is left out.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from hwgen.errors import InputError

_FORMATS = {"u8": "<B", "i8": "<b", "u16": "<H", "i32": "<i", "u32": "<I", "f32": "<f"}
_TYPES = {"i32": "<i4", "i64": "<i8", "f32": "<f4", "u8": "u1"}
_MOST_TABLES = 1 << 16  # of a vector


class Buffer:
    """Bytes of a file.

    Parameters
    ----------
    data : bytes
    """

    def __init__(self, data: bytes) -> None:
        self.data = data

    def number(self, at: int, form: str) -> int:
        """Return a number at a byte.

        Raises
        ------
        InputError
            If the file ends before.
        """
        return int(self._unpacked(at, form))

    def real(self, at: int) -> float:
        """Return a number in single precision; see `number`."""
        return float(self._unpacked(at, "f32"))

    def _unpacked(self, at: int, form: str) -> float:
        layout = _FORMATS[form]
        if at < 0 or at + struct.calcsize(layout) > len(self.data):
            raise InputError(f"an offset points to byte {at}, but it ends at {len(self.data)}")
        result: float = struct.unpack_from(layout, self.data, at)[0]
        return result

    def table(self, at: int) -> Table:
        """Return the table that an offset at a byte points to."""
        return Table(self, at + self.number(at, "u32"))


class Table:
    """A table.

    Parameters
    ----------
    buffer : Buffer
    at : int
        Its first byte.
    """

    def __init__(self, buffer: Buffer, at: int) -> None:
        self._buffer, self._at = buffer, at
        self._offsets = at - buffer.number(at, "i32")
        self._size = buffer.number(self._offsets, "u16")

    def _place(self, field: int) -> int:
        """Return the byte of a field, 0 if it is left out."""
        if 4 + 2 * field + 2 > self._size:
            return 0
        place = self._buffer.number(self._offsets + 4 + 2 * field, "u16")
        return self._at + place if place else 0

    def has(self, field: int) -> bool:
        """Return whether a field is there."""
        return bool(self._place(field))

    def number(self, field: int, form: str, default: int = 0) -> int:
        """Return a field that is an integer."""
        place = self._place(field)
        return self._buffer.number(place, form) if place else default

    def real(self, field: int, default: float) -> float:
        """Return a field that is a number in single precision."""
        place = self._place(field)
        return self._buffer.real(place) if place else default

    def table(self, field: int) -> Table | None:
        """Return a field that is a table."""
        place = self._place(field)
        return self._buffer.table(place) if place else None

    def _vector(self, field: int, width: int) -> tuple[int, int]:
        """Return the first byte and the length of a vector."""
        place = self._place(field)
        if not place:
            return 0, 0
        at = place + self._buffer.number(place, "u32")
        count = self._buffer.number(at, "u32")
        if at + 4 + count * width > len(self._buffer.data):
            raise InputError(
                f"a list at byte {at} has {count} elements, but it ends at {len(self._buffer.data)}"
            )
        return at + 4, count

    def numbers(self, field: int, form: str) -> NDArray[np.generic]:
        """Return a field that is a list of numbers."""
        dtype = np.dtype(_TYPES[form])
        at, count = self._vector(field, dtype.itemsize)
        return np.frombuffer(self._buffer.data, dtype, count, at)

    def text(self, field: int) -> str:
        """Return a field that is a text."""
        at, count = self._vector(field, 1)
        return self._buffer.data[at : at + count].decode("utf-8", "replace")

    def tables(self, field: int) -> list[Table]:
        """Return a field that is a list of tables."""
        at, count = self._vector(field, 4)
        if count > _MOST_TABLES:
            raise InputError(f"a list at byte {at} has {count} tables, more than {_MOST_TABLES}")
        return [self._buffer.table(at + 4 * index) for index in range(count)]
