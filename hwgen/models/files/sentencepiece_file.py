# SPDX-License-Identifier: Apache-2.0
"""`tokenizer.model` files: models of SentencePiece, which are messages of protocol buffers."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hwgen.core.files.arrays import check_regular
from hwgen.errors import InputError

FILE = "tokenizer.model"

_MOST_BYTES = 1 << 26
_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5  # types of fields
_PIECE, _TRAINER, _NORMALISER = 1, 2, 3  # fields of a model
_NAMES = {1: "t5", 2: "llama"}  # algorithms, by the names of GGUF
_CONTROL = 3

Value = int | float | bytes


def sentencepiece_document(path: Path, vocabulary: int) -> dict[str, Any]:
    """Return the document of a tokenizer.

    Parameters
    ----------
    path : Path
    vocabulary : int
        Tokens of the model.

    Raises
    ------
    InputError
        If the file is none of SentencePiece, is truncated, or has more tokens than the model.
    """
    check_regular(path, "tokenizers")
    size = path.stat().st_size
    if size > _MOST_BYTES:
        raise InputError(f"{path} has {size} bytes, more than {_MOST_BYTES}")
    tokens: list[str] = []
    scores: list[float] = []
    types: list[int] = []
    trainer: dict[int, Value] = {}
    normaliser: dict[int, Value] = {}
    try:
        for field, value in _fields(path.read_bytes()):
            if field == _PIECE and isinstance(value, bytes):
                piece = dict(_fields(value))
                tokens.append(_text(piece.get(1, b"")))
                scores.append(_real(piece.get(2, 0.0)))
                types.append(_integer(piece.get(3, 1)))
            elif field in (_TRAINER, _NORMALISER) and isinstance(value, bytes):
                (trainer if field == _TRAINER else normaliser).update(_fields(value))
    except (ValueError, struct.error, IndexError) as error:
        raise InputError(f"{path} is no readable model of SentencePiece: {error}") from None
    if not tokens:
        raise InputError(f"{path} is no readable model of SentencePiece: it has no pieces")
    if len(tokens) > vocabulary:
        raise InputError(f"{path}: has {len(tokens)} tokens, more than the model's {vocabulary}")
    kind = trainer.get(3, 1)
    if kind not in _NAMES:
        raise InputError(f"{path}: algorithm {kind!r:.20}: supported are unigram (1) and BPE (2)")
    result: dict[str, Any] = {
        "model": _NAMES[int(kind)],
        "tokens": tokens,
        "scores": scores,
        "types": types,
        "add_space": normaliser.get(3, 1) != 0,
        "remove_blanks": normaliser.get(4, 1) != 0,
        "normalises": bool(normaliser.get(2, b"")),
    }
    for key, field, default in (("unknown", 40, 0), ("begin", 41, 1), ("end", 42, 2)):
        number = _integer(trainer.get(field, default))
        if 0 <= number < len(tokens):
            result[key] = number
    return result


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """Yield the fields of a message: numbers and values."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        value: Value
        if kind == _VARINT:
            value, at = _varint(data, at)
        elif kind == _BYTES:
            length, at = _varint(data, at)
            if length > len(data) - at:
                raise ValueError(f"a field of {length} bytes, of which {len(data) - at} are left")
            value, at = data[at : at + length], at + length
        elif kind == _FLOAT:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        elif kind == _DOUBLE:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        else:
            raise ValueError(f"a field of type {kind}")
        yield key >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and where the next field begins."""
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 127) << shift
        if not byte & 128:
            return result, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _text(value: Value) -> str:
    if not isinstance(value, bytes):
        raise ValueError("a piece that is no text")
    return value.decode("utf-8", "surrogateescape")


def _real(value: Value) -> float:
    if isinstance(value, bytes) or not abs(value) < float("inf"):
        raise ValueError("a score that is no number")
    return float(value)


def _integer(value: Value) -> int:
    """Return an integer, negative ones as two's complement of 64 bits."""
    if not isinstance(value, int):
        raise ValueError("a field that is no integer")
    return value - (1 << 64) if value >> 63 else value
