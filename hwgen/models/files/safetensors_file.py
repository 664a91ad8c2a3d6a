# SPDX-License-Identifier: Apache-2.0
"""The container of safetensors: a JSON header and the places of tensors, checked before use.

Read here: a header is a length and a JSON object, and what a file says is believed only where the
file's own length covers it.  Pickled files are never read.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwgen.core.files.arrays import check_regular
from hwgen.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX_HEADER = 1 << 26
DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "U8": "uint8"}
"""Types that are read."""

_WIDTHS = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1,
    "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "U32": 4, "U64": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Stored:
    """A tensor of a file.

    Parameters
    ----------
    path : Path
    dtype : str
        As the file has it.
    shape : tuple of int
    offset : int
        Byte of the file where it begins.
    data : ndarray of uint8
        The file.
    """

    path: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int
    data: NDArray[np.uint8]

    def array(self) -> NDArray[Any]:
        """Return the numbers, of a type of `DTYPES`."""
        import ml_dtypes
        import numpy as np

        name = DTYPES[self.dtype]
        dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
        size = math.prod(self.shape) * dtype.itemsize
        data = self.data[self.offset : self.offset + size]
        return np.frombuffer(data.tobytes(), dtype).reshape(self.shape)


def read_safetensors(path: Path) -> dict[str, Stored]:
    """Return the tensors of a file by name.

    Raises
    ------
    InputError
        If the file is none, is truncated, or says what cannot be.
    """
    import numpy as np

    check_regular(path, "models")
    size = path.stat().st_size
    if size < 8:
        raise InputError(f"{path} is no safetensors file: it has {size} bytes")
    data = np.memmap(path, np.uint8, mode="r")
    length = int.from_bytes(data[:8].tobytes(), "little")
    if length > min(size - 8, _MAX_HEADER):
        raise InputError(f"{path}: its header takes {length} bytes, and the file has {size}")
    try:
        header = json.loads(data[8 : 8 + length].tobytes().decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: its header is no JSON: {str(error)[:100]}") from None
    if not isinstance(header, dict):
        raise InputError(f"{path}: its header must be an object")
    found, spans = {}, []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        place, end = _entry(path, name, entry, 8 + length, size)
        found[name] = Stored(path, entry["dtype"], tuple(entry["shape"]), place, data)
        spans.append((place, end, name))
    spans.sort()
    for (_, end, first), (begin, _, second) in pairwise(spans):
        if begin < end:
            raise InputError(
                f"{path}: tensors {first[:80]!r} and {second[:80]!r} share bytes, from byte"
                f" {begin} on"
            )
    return found


def _entry(path: Path, name: str, entry: Any, start: int, size: int) -> tuple[int, int]:
    """Return where a tensor begins and ends in the file."""
    where = f"{path}: tensor {name[:80]!r}"
    if not isinstance(entry, dict):
        raise InputError(f"{where}: must be an object")
    dtype: Any = entry.get("dtype")
    shape: Any = entry.get("shape")
    offsets: Any = entry.get("data_offsets")
    for key, value in (("shape", shape), ("data_offsets", offsets)):
        if not isinstance(value, list) or not all(type(n) is int and n >= 0 for n in value):
            raise InputError(f"{where}: {key} must be a list of integers")
    if not isinstance(dtype, str) or dtype not in _WIDTHS:
        raise InputError(f"{where}: its type {dtype!r:.40} is not known")
    if len(offsets) != 2 or len(shape) > 8 or 0 in shape:
        raise InputError(f"{where}: its shape {shape} and offsets {offsets} cannot be")
    needed = math.prod(shape) * _WIDTHS[dtype]
    if offsets[1] - offsets[0] != needed or start + offsets[1] > size:
        raise InputError(
            f"{where}: {shape} of {dtype} takes {needed} bytes, its offsets {offsets} say"
            f" {offsets[1] - offsets[0]}, from byte {start + offsets[0]} of {size}"
        )
    return start + offsets[0], start + offsets[1]
