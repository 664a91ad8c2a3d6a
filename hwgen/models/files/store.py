# SPDX-License-Identifier: Apache-2.0
"""Models on disk: writing what an import finds, and reading it back."""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from hwgen.core.files.arrays import check_regular
from hwgen.errors import InputError
from hwgen.models.graph.description import VERSION, WIDTHS, Description, Part, Tensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hwgen.models.files.gguf_blocks import Groups

DESCRIPTION, WEIGHTS, TOKENIZER = "model.json", "weights.bin", "tokenizer.json"
"""Files of a model."""

_ALIGN = 64
_MAX_TEXT = 1 << 28  # bytes of a JSON file


class Writer:
    """Writes `weights.bin`, tensor by tensor, never more than a piece of one in memory.

    Parameters
    ----------
    file : file object
        Open for writing bytes.

    Attributes
    ----------
    tensors : dict of Tensor
        What has been written.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._at = 0
        self.tensors: dict[str, Tensor] = {}

    def numbers(
        self, name: str, pieces: Iterable[NDArray[Any]], shape: tuple[int, ...], origin: str
    ) -> None:
        """Write a tensor of plain numbers, given in pieces in order."""
        start, dtype = self._begin(), ""
        for piece in pieces:
            dtype = piece.dtype.name
            self._write(piece)
        part = Part.model_validate({"dtype": dtype, "shape": shape, "offset": start})
        bits = 8 * WIDTHS[part.dtype]
        self.tensors[name] = Tensor(values=part, origin=origin, bits=bits)

    def groups(
        self,
        name: str,
        pieces: Iterable[Groups],
        shape: tuple[int, ...],
        origin: str,
        bits: int,
    ) -> None:
        """Write a tensor of integers with scales, given as rows in order."""
        import numpy as np

        start, dtype = self._begin(), ""
        scales, offsets, tensor_scale = [], [], 1.0
        for piece in pieces:
            dtype, tensor_scale = piece.values.dtype.name, piece.tensor_scale
            self._write(piece.values)
            scales.append(piece.scales)
            if piece.offsets is not None:
                offsets.append(piece.offsets)
        values = Part.model_validate({"dtype": dtype, "shape": shape, "offset": start})
        result: dict[str, Part] = {}
        for key, parts in (("scales", scales), ("offsets", offsets)):
            if parts:
                array = np.concatenate(parts).astype(np.float32)
                result[key] = Part(dtype="float32", shape=array.shape, offset=self._begin())
                self._write(array)
        self.tensors[name] = Tensor(
            values=values, origin=origin, bits=bits, tensor_scale=tensor_scale, **result
        )

    def _begin(self) -> int:
        """Return the byte where the next array begins."""
        self._file.write(bytes(-self._at % _ALIGN))
        self._at += -self._at % _ALIGN
        return self._at

    def _write(self, array: NDArray[Any]) -> None:
        data = array.tobytes()
        self._file.write(data)
        self._at += len(data)


def write_description(directory: Path, description: Description) -> None:
    """Write `model.json`."""
    document = description.model_dump(mode="json", exclude_defaults=True)
    document["hwgen_model"] = VERSION
    text = json.dumps(document, indent=1)
    (directory / DESCRIPTION).write_text(text + "\n", encoding="utf-8")


class Model:
    """A model that was imported.

    Parameters
    ----------
    path : Path
        Its directory.

    Attributes
    ----------
    path : Path
    description : Description

    Raises
    ------
    InputError
        If something is missing, or says what cannot be.
    """

    def __init__(self, path: Path) -> None:
        from pydantic import ValidationError

        if not path.is_dir():
            raise InputError(f"{path} is no directory; `hwgen model import` writes one")
        self.path = path
        document = read_json(path / DESCRIPTION)
        if isinstance(document, dict) and document.get("hwgen_model") != VERSION:
            raise InputError(
                f"{path / DESCRIPTION}: hwgen_model must be {VERSION}, not"
                f" {document.get('hwgen_model')!r:.40}; import the model again"
            )
        try:
            self.description = Description.model_validate(document)
        except ValidationError as error:
            item = error.errors()[0]
            place = ".".join(map(str, item["loc"]))
            raise InputError(f"{path / DESCRIPTION}: {place}: {item['msg']}") from None
        self._pages: mmap.mmap | None = None
        self._data = self._map()

    def _map(self) -> NDArray[np.uint8]:
        import numpy as np

        path = self.path / WEIGHTS
        check_regular(path, "weights")
        size = path.stat().st_size
        for name, tensor in self.description.tensors.items():
            for part in (tensor.values, tensor.scales, tensor.offsets):
                if part is not None and part.offset + part.bytes > size:
                    raise InputError(
                        f"{path}: tensor {name!r:.80} takes {part.bytes} bytes from byte"
                        f" {part.offset}, but the file ends at {size}"
                    )
        if not size:
            return np.zeros(0, np.uint8)
        with path.open("rb") as file:
            self._pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(self._pages, np.uint8)

    def forget(self) -> None:
        """Release the memory of weights that were read; they are read from the file again."""
        if self._pages is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._pages.madvise(mmap.MADV_DONTNEED)

    def digest(self) -> str:
        """Return a digest of the description and weights."""
        result = hashlib.sha256(self.description.model_dump_json().encode())
        result.update(self._data.data)
        return result.hexdigest()

    def part(self, part: Part) -> NDArray[Any]:
        """Return an array of `weights.bin`, not writable."""
        import ml_dtypes
        import numpy as np

        dtype = np.dtype(ml_dtypes.bfloat16 if part.dtype == "bfloat16" else part.dtype)
        data = self._data[part.offset : part.offset + part.bytes]
        if part.offset % dtype.itemsize:
            data = data.copy()
        return data.view(dtype).reshape(part.shape)

    def groups(self, name: str) -> Groups | None:
        """Return a tensor as integers with scales; None if it is plain numbers."""
        import numpy as np

        from hwgen.models.files.gguf_blocks import Groups

        tensor = self.description.tensors[name]
        if tensor.scales is None:
            return None
        shape = (tensor.shape[0], tensor.scales.shape[1])
        scales = np.broadcast_to(self.part(tensor.scales), shape)
        offsets = None
        if tensor.offsets is not None:
            offsets = np.broadcast_to(self.part(tensor.offsets), shape)
        return Groups(self.part(tensor.values), scales, offsets, tensor.tensor_scale)

    def numbers(self, name: str) -> NDArray[np.float32]:
        """Return a tensor in single precision."""
        import numpy as np

        groups = self.groups(name)
        if groups is not None:
            return groups.numbers()
        return self.part(self.description.tensors[name].values).astype(np.float32)

    @property
    def has_tokenizer(self) -> bool:
        """Whether there is a tokenizer's document."""
        return (self.path / TOKENIZER).exists()

    def tokenizer(self) -> dict[str, Any]:
        """Return the tokenizer's document.

        Raises
        ------
        InputError
            If the model has none.
        """
        if not self.has_tokenizer:
            raise InputError(f"{self.path} has no {TOKENIZER}: its file held no tokenizer")
        return read_object(self.path / TOKENIZER)


def read_text(path: Path) -> str:
    """Return the contents of a text file.

    Raises
    ------
    InputError
        If it is no regular file, too long, or no UTF-8.
    """
    check_regular(path, "models")
    if path.stat().st_size > _MAX_TEXT:
        raise InputError(f"{path} has {path.stat().st_size} bytes, more than {_MAX_TEXT}")
    try:
        return path.read_text(encoding="utf-8")
    except ValueError as error:
        raise InputError(f"{path} is not readable text: {str(error)[:200]}") from None


def read_json(path: Path) -> Any:
    """Return the contents of a JSON file.

    Raises
    ------
    InputError
        If it is no regular file, too long, or no JSON.
    """
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not readable JSON: {str(error)[:200]}") from None


def read_object(path: Path) -> dict[str, Any]:
    """Return the object that a JSON file holds; see `read_json`."""
    result = read_json(path)
    if not isinstance(result, dict):
        raise InputError(f"{path}: must be an object")
    return result
