# SPDX-License-Identifier: Apache-2.0
"""The container of GGUF: metadata and the places of tensors, believed only when checked.

Read here and not by the `gguf` package, whose reader takes the lengths in a file as they stand: a
count of 2**60 keeps it busy for ever, and what it raises names neither tensor nor tensor.  Tests
compare what is read with that package.  Nothing is allocated that the file's own length does not
cover, and no two tensors may share bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwgen.core.files.arrays import check_regular
from hwgen.errors import InputError
from hwgen.models.files.import_common import INCOMPLETE, positive_real

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAGIC = b"GGUF"
_MAX_ENTRIES = 1 << 16  # keys, and tensors
_MAX_NAME = 1 << 10
_MAX_ITEMS = 1 << 22  # of an array in the metadata: vocabularies have up to 2**18 tokens
_STRING, _ARRAY, _BOOL = 8, 9, 7
_NUMBERS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q",
    12: "<d",
}  # fmt: skip


@dataclass(frozen=True)
class StoredTensor:
    """A tensor's entry.

    Parameters
    ----------
    name : str
    shape : tuple of int
        The last index is the fastest, which GGUF itself names first.
    code : int
        Its type; see `hwgen.models.files.gguf_blocks`.
    offset : int
        Byte of the file where its data begin.
    """

    name: str
    shape: tuple[int, ...]
    code: int
    offset: int

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


class GgufFile:
    """A GGUF file, mapped into memory.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    metadata : dict
        Numbers, texts, and lists of them, by key.
    tensors : dict of StoredTensor
        Tensors by name.
    data : ndarray of uint8
        The whole file.

    Raises
    ------
    InputError
        If the file is none, is truncated, or says what cannot be.
    """

    def __init__(self, path: Path) -> None:
        import numpy as np

        check_regular(path, "models")
        self.path = path
        self.size = path.stat().st_size
        with path.open("rb") as file:
            begun = file.read(len(_MAGIC)) == _MAGIC
        if self.size < 24:
            end = f"ends after {self.size} bytes, in its header{INCOMPLETE}"
            found = f"is no GGUF file: it has {self.size} bytes"
            raise InputError(f"{path} {end if begun else found}")
        self.data: NDArray[np.uint8] = np.memmap(path, np.uint8, mode="r")
        self._at = 0
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, StoredTensor] = {}
        tensors, keys = self._header()
        for number in range(keys):
            self._entry(number)
        self._tensors(tensors)

    # -- reading ---------------------------------------------------------------------------

    def _fail(self, what: str, problem: str, at: int | None = None) -> InputError:
        tensor = self._at if at is None else at
        return InputError(f"{self.path}: {what}: {problem}, at byte {tensor}")

    def _read_bytes(self, count: int, what: str) -> bytes:
        """Return the next bytes."""
        if count > self.size - self._at:
            raise self._fail(
                what,
                f"takes {count} bytes, but the file ends after {self.size - self._at}{INCOMPLETE}",
            )
        result = self.data[self._at : self._at + count].tobytes()
        self._at += count
        return result

    def _number(self, form: str, what: str) -> Any:
        return struct.unpack(form, self._read_bytes(struct.calcsize(form), what))[0]

    def _text(self, what: str, limit: int | None = None) -> str:
        start, length = self._at, self._number("<Q", what)
        if limit is not None and length > limit:
            raise self._fail(what, f"has {length} bytes, more than {limit}", start)
        # Tokens are bytes that need be no characters; they are kept all the same.
        return self._read_bytes(length, what).decode("utf-8", "surrogateescape")

    def _header(self) -> tuple[int, int]:
        magic = self._read_bytes(4, "the header")
        if magic != _MAGIC:
            raise InputError(f"{self.path} is no GGUF file: it begins with {magic!r}")
        version = self._number("<I", "the version")
        if version not in (2, 3):
            turned = " (it may be big-endian, which is not read)" if version >> 16 else ""
            raise self._fail("the version", f"must be 2 or 3, not {version}{turned}", 4)
        tensors, keys = (self._number("<Q", what) for what in ("tensors", "keys"))
        for what, count in (("tensors", tensors), ("keys", keys)):
            if count > _MAX_ENTRIES:
                raise self._fail(what, f"must be at most {_MAX_ENTRIES}, not {count}", 8)
        return tensors, keys

    def _entry(self, number: int) -> None:
        key = self._text(f"the name of key {number}", _MAX_NAME)
        what = f"key {key[:80]!r}"
        if key in self.metadata:
            raise self._fail(what, "is there twice")
        code = self._number("<I", what)
        self.metadata[key] = self._array(what) if code == _ARRAY else self._value(code, what)

    def _value(self, code: int, what: str) -> Any:
        if code == _STRING:
            return self._text(what)
        if code not in _NUMBERS:
            raise self._fail(what, f"has the unknown type {code}", self._at - 4)
        if code == _BOOL:  # whatever is not zero is true, where `struct` takes any byte
            return self._read_bytes(1, what) != b"\0"
        return self._number(_NUMBERS[code], what)

    def _array(self, what: str) -> list[Any]:
        import numpy as np

        start = self._at
        code, count = self._number("<I", what), self._number("<Q", what)
        if count > _MAX_ITEMS:
            raise self._fail(what, f"has {count} items, more than {_MAX_ITEMS}", start)
        if code == _STRING:
            if count * 8 > self.size - self._at:
                raise self._fail(
                    what, f"has {count} texts, for which no bytes are left{INCOMPLETE}", start
                )
            return [self._text(what) for _ in range(count)]
        if code not in _NUMBERS:
            raise self._fail(what, f"is an array of the unknown type {code}", start)
        dtype = np.dtype(_NUMBERS[code])
        return list(np.frombuffer(self._read_bytes(count * dtype.itemsize, what), dtype).tolist())

    # -- tensors ---------------------------------------------------------------------------

    def _tensors(self, count: int) -> None:
        result = [self._tensor(number) for number in range(count)]
        align = self.metadata.get("general.alignment", 32)
        if type(align) is not int or not 8 <= align <= 1 << 20 or align & (align - 1):
            raise InputError(
                f"{self.path}: general.alignment must be a power of two from 8, not {align!r:.40}"
            )
        start = -(-self._at // align) * align
        for tensor in result:
            if tensor.offset % align:
                raise InputError(
                    f"{self.path}: tensor {tensor.name!r:.80}: its offset {tensor.offset} is no"
                    f" multiple of {align}"
                )
            self.tensors[tensor.name] = StoredTensor(
                tensor.name, tensor.shape, tensor.code, start + tensor.offset
            )

    def _tensor(self, number: int) -> StoredTensor:
        start = self._at
        name = self._text(f"the name of tensor {number}", _MAX_NAME)
        what = f"tensor {name[:80]!r}"
        if name in self.tensors:
            raise self._fail(what, "is there twice", start)
        count = self._number("<I", what)
        if not 1 <= count <= 4:
            raise self._fail(what, f"must have 1 to 4 dimensions, not {count}", self._at - 4)
        lengths = [self._number("<Q", what) for _ in range(count)]
        if 0 in lengths or math.prod(lengths) > 1 << 48:
            raise self._fail(what, f"cannot have the dimensions {lengths}", start)
        code, offset = self._number("<I", what), self._number("<Q", what)
        tensor = StoredTensor(name, tuple(reversed(lengths)), code, offset)
        self.tensors[name] = tensor
        return tensor

    def claim(self, sizes: Iterator[tuple[str, int]]) -> None:
        """Check that tensors lie within the file, and that no two share a byte.

        Parameters
        ----------
        sizes : iterable of (str, int)
            Names of tensors and their bytes.

        Raises
        ------
        InputError
            If one does not fit.
        """
        spans = []
        for name, count in sizes:
            tensor = self.tensors[name]
            if tensor.offset + count > self.size:
                raise InputError(
                    f"{self.path}: tensor {name[:80]!r}: takes {count} bytes from byte"
                    f" {tensor.offset}, but the file ends at {self.size}{INCOMPLETE}"
                )
            spans.append((tensor.offset, tensor.offset + count, name))
        spans.sort()
        for (_, end, first), (begin, _, second) in pairwise(spans):
            if begin < end:
                raise InputError(
                    f"{self.path}: tensors {first[:80]!r} and {second[:80]!r} share bytes, from"
                    f" byte {begin} on"
                )

    # -- metadata --------------------------------------------------------------------------

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text of the metadata."""
        return str(self._typed(key, str, default))

    def integer(self, key: str, default: int | None = None, most: int = 1 << 24) -> int:
        """Return an integer from 1 to `most` of the metadata."""
        value = self._typed(key, int, default)
        if isinstance(value, bool) or not 1 <= value <= most:
            raise InputError(f"{self.path}: {key}: must be 1..{most}, not {value!r:.40}")
        return int(value)

    def real(self, key: str, default: float | None = None) -> float:
        """Return a positive number of the metadata."""
        value = self._typed(key, (int, float), default)
        result = positive_real(value)
        if result is None:
            raise InputError(f"{self.path}: {key}: must be a positive number, not {value}")
        return result

    def _typed(self, key: str, code: Any, default: Any) -> Any:
        value = self.metadata.get(key, default)
        if value is None:
            raise InputError(f"{self.path}: the metadata lack {key}")
        if not isinstance(value, code):
            raise InputError(
                f"{self.path}: {key}: {type(value).__name__} values are not supported here"
            )
        return value
