# SPDX-License-Identifier: Apache-2.0
"""Import of directories with `config.json` and safetensors, as transformers writes them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hwgen.errors import InputError
from hwgen.models.files.checkpoint_config import CheckpointConfig
from hwgen.models.files.gguf_blocks import Groups
from hwgen.models.files.import_common import (
    described,
    folded,
    is_folded,
    readable,
    refused,
    write_factors,
)
from hwgen.models.files.safetensors_file import DTYPES, Stored, read_checkpoint
from hwgen.models.files.store import TOKENIZER, WEIGHTS, Writer, write_description
from hwgen.models.files.tokenizer_json import tokenizer_document
from hwgen.models.graph.decoder_shape import (
    FUSED,
    DecoderShape,
    products_of,
    row_order,
    weights_of,
)
from hwgen.models.graph.description import Description, Source
from hwgen.progress import steps

_NAMES = {
    "model.embed_tokens": "embedding",
    "model.norm": "output_norm",
    "lm_head": "output",
}
_PARTS = {
    "input_layernorm": "attention_norm",
    "post_attention_layernorm": "feed_norm",
    "self_attn.attn_sub_norm": "attention_sub_norm",
    "mlp.ffn_sub_norm": "feed_sub_norm",
    "self_attn.q_norm": "query_norm",
    "self_attn.k_norm": "key_norm",
    "self_attn.q_proj": "query",
    "self_attn.k_proj": "key",
    "self_attn.v_proj": "value",
    "self_attn.qkv_proj": "query_key_value",
    "self_attn.o_proj": "attention_output",
    "mlp.gate_proj": "gate",
    "mlp.up_proj": "up",
    "mlp.gate_up_proj": "gate_up",
    "mlp.down_proj": "down",
}
_POST_NORMS = {
    "post_attention_layernorm": "attention_post_norm",
    "pre_feedforward_layernorm": "feed_norm",
    "post_feedforward_layernorm": "feed_post_norm",
}
"""Other names of decoders with normalisations behind their parts."""

_LAYER = re.compile(r"model\.layers\.(0|[1-9][0-9]{0,5})\.(.+)")


def import_safetensors(path: Path, directory: Path) -> Description:
    """Write a model that a directory of safetensors holds into another directory.

    Parameters
    ----------
    path : Path
        With `config.json` and one or more files of safetensors.
    directory : Path
        Where the model's files are written.

    Raises
    ------
    InputError
        If a file cannot be read, or something is not supported: then all of that is listed.
    """
    config = CheckpointConfig(path / "config.json")
    shape = config.shape()
    tokenizer = tokenizer_document(path, shape.vocabulary)
    result, scales = _assigned(path, read_checkpoint(path), shape, config)
    with (directory / WEIGHTS).open("wb") as out:
        writer = Writer(out)
        for name, tensor in steps("tensors", result.items()):
            _write(writer, name, tensor, shape, scales.get(name), config)
        write_factors(writer, shape)
    source = Source(
        format="safetensors",
        file=readable(result["embedding"].path.name),
        architecture=str(config.model_type),
    )
    description = described(shape, writer.tensors, readable(path.resolve().name), source)
    write_description(directory, description)
    if tokenizer is not None:
        text = json.dumps(tokenizer)
        (directory / TOKENIZER).write_text(text + "\n", encoding="utf-8")
    return description


def _canonical(name: str, shape: DecoderShape) -> tuple[str, bool]:
    """Return hwgen's name of a tensor, empty if there is none, and whether it is its scale."""
    stem, _, kind = name.rpartition(".")
    if kind not in ("weight", "bias", "weight_scale"):
        return "", False
    bias, is_scale = ".bias" if kind == "bias" else "", kind == "weight_scale"
    if stem in _NAMES:
        return _NAMES[stem] + bias, is_scale
    match = _LAYER.fullmatch(stem)
    parts = {**_PARTS, **_POST_NORMS} if shape.post_norms else _PARTS
    if match is None or match[2] not in parts:
        return "", False
    return f"layers.{match[1]}.{parts[match[2]]}{bias}", is_scale


def _split(name: str, tensor: Stored, shape: DecoderShape) -> Iterator[tuple[str, Stored]]:
    """Yield the products that a matrix consists of, or the tensor itself."""
    bias = ".bias" if name.endswith(".bias") else ""
    layer, _, part = name.removesuffix(".bias").rpartition(".")
    rows = [products_of(shape)[each][0] for each in FUSED.get(part, ())]
    if not rows or not tensor.shape or tensor.shape[0] != sum(rows):
        yield name, tensor
        return
    first = 0
    for each, count in zip(FUSED[part], rows, strict=True):
        yield f"{layer}.{each}{bias}", tensor.rows(first, count)
        first += count


def _assigned(
    path: Path, stored: Mapping[str, Stored], shape: DecoderShape, config: CheckpointConfig
) -> tuple[dict[str, Stored], dict[str, Stored]]:
    """Return tensors, and scales of packed ones, by hwgen's names."""
    expected = weights_of(shape)
    result: dict[str, Stored] = {}
    scales: dict[str, Stored] = {}
    problems: list[str] = []
    types: dict[str, list[str]] = {}
    for name, whole in stored.items():
        if name.endswith("rotary_emb.inv_freq"):
            continue
        if whole.dtype not in DTYPES:
            types.setdefault(whole.dtype, []).append(name[:80])
        own, is_scale = _canonical(name, shape)
        if FUSED.get(own.removesuffix(".bias").rpartition(".")[2]) and not config.family.fused:
            own = ""
        for part, tensor in _split(own, whole, shape):
            if part not in expected:
                problems.append(f"{name[:80]}: {_unexpected(own, tensor, shape)}")
                continue
            (scales if is_scale else result)[part] = tensor
            problem = _problem(tensor, expected[part][0], is_scale=is_scale)
            if problem:
                problems.append(f"{name[:80]}: {problem}")
    problems = [
        f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: the type {dtype} is"
        " not read; supported are F32, F16, BF16, and U8 of packed ternary weights"
        for dtype, names in sorted(types.items())
    ] + problems
    if config.tied:
        result.pop("output", None)
    for own, (_, needed) in expected.items():
        if own not in result and (needed or (own == "output" and config.tied is False)):
            problems.append(f"the tensor of {own} is missing")
        elif own in result and result[own].dtype == "U8" and own not in scales:
            problems.append(f"{own}: packed weights need a weight_scale")
    if problems:
        raise refused(path, problems)
    return {own: result[own] for own in expected if own in result}, scales


def _unexpected(name: str, tensor: Stored, shape: DecoderShape) -> str:
    """Return why no operation takes a tensor."""
    part = name.removesuffix(".bias").rpartition(".")[2]
    if part in FUSED:
        rows = [products_of(shape)[each][0] for each in FUSED[part]]
        return f"must have {' + '.join(map(str, rows))} rows, not {tensor.shape}"
    return "no operation takes this tensor"


def _problem(tensor: Stored, wanted: tuple[int, ...], *, is_scale: bool) -> str:
    """Return the problem of a tensor's shape or type, or an empty string."""
    rows, packed = wanted[0], tensor.dtype == "U8" and len(wanted) == 2
    if packed:
        wanted = (-(-rows // 4), wanted[1])
    if tensor.dtype == "U8" and not packed:
        return "its type U8 is that of packed matrices; supported are F32, F16 and BF16"
    if is_scale:
        one = math.prod(tensor.shape) == 1
        return "" if one else f"must be one number, not {tensor.shape}"
    if tensor.shape != wanted:
        return f"must be of shape {wanted}, not {tensor.shape}"
    return f"{rows} rows cannot be packed by four" if packed and rows % 4 else ""


def _write(
    writer: Writer,
    name: str,
    tensor: Stored,
    shape: DecoderShape,
    scale: Stored | None,
    config: CheckpointConfig,
) -> None:
    """Write a tensor, rotated pairs of heads as neighbours."""
    if tensor.dtype == "U8":
        array = unpacked(tensor.array())
        if array.max() > 1:
            raise InputError(f"{tensor}: has the code 3, which is no ternary weight")
        order = row_order(name, shape, len(array))
        array = array if order is None else array[order]
        assert scale is not None
        divisor = scale.array().astype(np.float32).reshape(1, 1)
        if not np.isfinite(divisor).all() or divisor[0, 0] == 0:
            raise InputError(f"{scale}: must be a number that is not zero, not {divisor[0, 0]}")
        writer.groups(name, [Groups(array, np.float32(1) / divisor)], array.shape, "U8 x 4", 2)
        return
    heads = row_order(name, shape, shape.elements)
    offset, factor = config.family.norm_offset, config.logit_scale()

    def pieces() -> Iterator[Any]:
        for start, piece in tensor.pieces(1 if heads is None else shape.elements):
            _check_finite(tensor, piece, start)
            if heads is not None:
                piece = piece[row_order(name, shape, len(piece))]
            yield folded(name, piece, offset, factor)

    origin = "F32" if is_folded(name, offset, factor) else tensor.dtype
    writer.numbers(name, pieces(), tensor.shape, origin)


def _check_finite(tensor: Stored, piece: Any, start: int) -> None:
    """Refuse a NaN or an infinity, and say where it is."""
    with np.errstate(invalid="ignore"):  # of bfloat16
        finite = np.isfinite(piece)
    if not finite.all():
        row, *rest = (int(i) for i in np.argwhere(~finite)[0])
        place = (tensor.first + start + row, *rest)
        raise InputError(f"{tensor}: element {place} is {piece[(row, *rest)]}")


def unpacked(data: Any) -> Any:
    """Return ternary weights of four rows a byte.

    Parameters
    ----------
    data : ndarray of uint8, shape (rows / 4, k)
        Row r, r + rows / 4, ... in bits 0, 2, 4 and 6, each one more than its value.

    Returns
    -------
    ndarray of int8, shape (rows, k)
    """
    parts = [(data >> shift & 3).astype(np.int8) - np.int8(1) for shift in (0, 2, 4, 6)]
    return np.concatenate(parts)
