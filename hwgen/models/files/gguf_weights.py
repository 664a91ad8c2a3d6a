# SPDX-License-Identifier: Apache-2.0
"""Tensors of GGUF files as weights of a model, a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.errors import InputError
from hwgen.models.files.gguf_blocks import I2_S, I2_S_TAIL, TYPES, Groups, i2_s
from hwgen.models.files.gguf_file import GgufFile, StoredTensor
from hwgen.models.files.import_common import folded, is_folded
from hwgen.models.files.store import Writer
from hwgen.models.graph.decoder_shape import DecoderShape, row_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PIECE = 1 << 23  # elements that are unpacked at once


@dataclass(frozen=True)
class Settings:
    """Reader of tensors.

    Parameters
    ----------
    i2s_layout : str
        See `I2_S_LAYOUTS`; empty: none is known.
    logit_scale : float
        Factor of logits, which the last normalisation applies.
    """

    i2s_layout: str = ""
    logit_scale: float = 1.0


def bytes_of(stored: StoredTensor) -> int:
    """Return the bytes of a tensor, 0 if its type is not known."""
    if stored.code == I2_S:
        return stored.elements // 4 + I2_S_TAIL
    kind = TYPES.get(stored.code)
    return 0 if kind is None else stored.elements // kind.elements * kind.bytes


def write_tensor(
    file: GgufFile,
    writer: Writer,
    name: str,
    stored: StoredTensor,
    shape: DecoderShape,
    scale: StoredTensor | None,
    settings: Settings,
) -> None:
    """Write a tensor, its rows in the order that operations want.

    Parameters
    ----------
    file : GgufFile
    writer : Writer
    name : str
        As operations have it.
    stored : StoredTensor
        Of a type that is read, within the file.
    shape : DecoderShape
    scale : StoredTensor, optional
        Of a number that the whole tensor is multiplied by.
    settings : Settings

    Raises
    ------
    InputError
        If a number is not finite, or a code has no meaning.
    """
    rows = stored.shape[0] if len(stored.shape) > 1 else 1
    order = np.arange(rows)
    rotated = row_order(name, shape, stored.shape[0])
    if rotated is not None and len(stored.shape) > 1:
        order = np.array(rotated)
    factor = None if scale is None else _scale(file, scale)
    if stored.code == I2_S:
        groups = _ternary(file, stored, settings.i2s_layout)
        scales = groups.scales if factor is None else groups.scales * factor
        writer.groups(name, [Groups(groups.values[order], scales)], stored.shape, "I2_S", 2)
        return
    kind = TYPES[stored.code]
    length = bytes_of(stored)
    data = file.data[stored.offset : stored.offset + length].reshape(rows, -1)
    step = max(1, _PIECE // stored.shape[-1])

    def pieces() -> Iterator[Any]:
        for start in range(0, rows, step):
            chosen = order[start : start + step]
            piece: Any = kind.rows(data[chosen])
            _check_finite(file, stored, piece, chosen, length // rows)
            if rotated is not None and len(stored.shape) == 1:
                piece = piece[:, rotated]
            if factor is not None:
                piece = _times(piece, factor)
            if kind.unpack is None:
                piece = folded(name, piece, 0.0, settings.logit_scale)
            yield piece

    if kind.unpack is None:
        origin = "F32" if is_folded(name, 0.0, settings.logit_scale) else kind.name
        writer.numbers(name, pieces(), stored.shape, origin)
    else:
        writer.groups(name, pieces(), stored.shape, kind.name, kind.bits)


def _times(piece: Any, factor: np.float32) -> Any:
    """Return rows times the scale of the whole tensor."""
    if not isinstance(piece, Groups):
        return piece.astype(np.float32) * factor
    return Groups(
        piece.values,
        piece.scales * factor,
        None if piece.offsets is None else piece.offsets * factor,
        float(factor) if factor > 0 else 1.0,
    )


def _check_finite(
    file: GgufFile, stored: StoredTensor, piece: Any, rows: NDArray[Any], row_bytes: int
) -> None:
    """Refuse a NaN or an infinity, and say where it is."""
    grouped = isinstance(piece, Groups)
    parts: list[Any] = [part for part in piece[1:3] if part is not None] if grouped else [piece]
    for array in parts:
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # an integer of 8 bits times it is finite, too
            finite = np.isfinite(array.astype(np.float32) * np.float32(128 if grouped else 1))
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            what = "scale" if grouped else "element"
            raise InputError(
                f"{file.path}: tensor {stored.name[:80]!r}: {what} {column} of row {rows[row]} is"
                f" {array[row, column]}, in the row at byte {stored.offset + rows[row] * row_bytes}"
            )


def _scale(file: GgufFile, stored: StoredTensor) -> np.float32:
    """Return the scale of a whole tensor."""
    kind = TYPES[stored.code]
    piece: Any = kind.rows(file.data[stored.offset : stored.offset + kind.bytes].reshape(1, -1))
    _check_finite(file, stored, piece, np.zeros(1, int), kind.bytes)
    return np.float32(piece[0, 0])


def _ternary(file: GgufFile, stored: StoredTensor, layout: str) -> Groups:
    """Return the weights of a tensor of type I2_S."""
    count = stored.elements // 4
    data = file.data[stored.offset : stored.offset + count + 4]
    scale = np.array(data[count:]).view("<f4")
    if not np.isfinite(scale[0]):
        raise InputError(
            f"{file.path}: tensor {stored.name[:80]!r}: its scale is {scale[0]}, at byte"
            f" {stored.offset + count}"
        )
    values = i2_s(np.asarray(data[:count]), layout)
    if values.max() > 1:
        raise InputError(
            f"{file.path}: tensor {stored.name[:80]!r}: holds the code 3, which is no ternary"
            " weight; the layout may be another one"
        )
    return Groups(values.reshape(stored.shape), scale.astype(np.float32).reshape(1, 1))
