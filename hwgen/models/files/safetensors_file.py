# SPDX-License-Identifier: Apache-2.0
"""Safetensors files, and checkpoints that consist of several of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from hwgen.core.files.arrays import check_regular
from hwgen.errors import InputError, ToolMissing
from hwgen.models.files.import_common import INCOMPLETE
from hwgen.models.files.store import read_object

DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "U8": np.uint8}
"""Types of tensors that are read; ml_dtypes must be imported for bf16 to be a type of NumPy."""

INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.safetensors")
_CUT = ("incomplete metadata", "header too small")  # what the package says of files that are cut
_PIECE = 1 << 23  # elements that are read at once


@dataclass(frozen=True)
class Stored:
    """A tensor of a file, or some rows of one.

    Parameters
    ----------
    path : Path
    name, dtype : str
        As the file has them.
    shape : tuple of int
    file : safe_open
        The open file, mapped into memory.
    first : int
        Row of the file's tensor that is the first one here.
    """

    path: Path
    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Any
    first: int = 0

    def rows(self, first: int, count: int) -> Stored:
        """Return some of the rows as a tensor."""
        return replace(self, shape=(count, *self.shape[1:]), first=self.first + first)

    def array(self) -> NDArray[Any]:
        """Return the numbers, of a type of `DTYPES`."""
        if not self.shape:
            scalar: NDArray[Any] = self.file.get_tensor(self.name)
            return scalar
        return self._read(0, self.shape[0])

    def pieces(self, multiple: int = 1) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield pieces of the rows, and the first row of each.

        Parameters
        ----------
        multiple : int
            Number of which the rows of a piece are a multiple.
        """
        each = max(1, int(np.prod(self.shape[1:])))
        step = max(1, _PIECE // each // multiple) * multiple
        for start in range(0, self.shape[0], step):
            yield start, self._read(start, min(step, self.shape[0] - start))

    def _read(self, start: int, count: int) -> NDArray[Any]:
        at = self.first + start
        array: NDArray[Any] = self.file.get_slice(self.name)[at : at + count]
        return array

    def __str__(self) -> str:
        return f"{self.path}: tensor {self.name[:80]!r}"


def read_safetensors(path: Path) -> dict[str, Stored]:
    """Return the tensors of a file by name.

    Raises
    ------
    InputError
        If it is no such file, is truncated, or its header is wrong.
    ToolMissing
        If the package is not installed.
    """
    try:
        from safetensors import safe_open  # an optional dependency
    except ImportError:
        raise ToolMissing(
            f"{path}: needs the Python package safetensors: pip install 'hwgen[models]'"
        ) from None
    check_regular(path, "models")
    try:
        file: Any = safe_open(path, framework="numpy")
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # the package's own panics are no Exception
        text = str(error).removeprefix("Error while deserializing header: ")
        hint = INCOMPLETE if any(word in text for word in _CUT) else ""
        raise InputError(f"{path} is no readable safetensors file: {text[:200]}{hint}") from None
    return {
        name: Stored(path, name, each.get_dtype(), tuple(each.get_shape()), file)
        for name, each in slices.items()
    }


def read_checkpoint(path: Path) -> dict[str, Stored]:
    """Return the tensors of a directory by name.

    These are those of the files that its index names; without an index those of
    `model.safetensors`, or of all files if there is none.

    Raises
    ------
    InputError
        If there is no file, one is missing or cannot be read, or a tensor is not where the index
        says, or in two files.
    """
    index = path / INDEX
    places = _weight_map(index) if index.exists() else None
    if places is not None:
        files = [path / name for name in sorted(set(places.values()))]
    elif (path / _SINGLE).exists():
        files = [path / _SINGLE]
    else:
        files = sorted(path.glob("*.safetensors"))
    if not files:
        raise InputError(
            f"{path} has no *.safetensors; pickled weights (*.bin, *.pt) are not read: convert them"
        )
    _check_shards(path, files)
    result: dict[str, Stored] = {}
    for file in files:
        for name, tensor in read_safetensors(file).items():
            if name in result:
                raise InputError(
                    f"{file}: tensor {name[:80]!r} is in {result[name].path.name}, too"
                )
            result[name] = tensor
    for name, place in (places or {}).items():
        if name not in result or result[name].path.name != place:
            raise InputError(
                f"{index}: weight_map: tensor {name[:80]!r} is not in {place}; fetch the checkpoint"
                " again"
            )
    return result


def _weight_map(index: Path) -> dict[str, str]:
    """Return the file of each tensor, by an index."""
    places = read_object(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise InputError(f"{index}: weight_map: must be an object with a file for each tensor")
    for name, place in places.items():
        if not isinstance(place, str) or Path(place).name != place or "\0" in place:
            raise InputError(
                f"{index}: weight_map: {name[:80]}: must be the name of a file beside the index,"
                f" not {place!r:.80}"
            )
    return places


def _check_shards(path: Path, files: list[Path]) -> None:
    """Refuse checkpoints some of whose files are missing."""
    names = {file.name for file in files}
    for file in files:
        match = _SHARD.fullmatch(file.name)
        total = int(match[3]) if match else 0
        if match and total <= len(files) + 4096:
            names |= {f"{match[1]}-{n:05}-of-{match[3]}.safetensors" for n in range(1, total + 1)}
    missing = sorted(name for name in names if not (path / name).exists())
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise InputError(
            f"{path}: {', '.join(missing[:3])}{more} missing: the checkpoint is not complete; fetch"
            " the missing files"
        )
