# SPDX-License-Identifier: Apache-2.0
"""Import of GGUF files: decoders with their tokenizers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from hwgen.errors import InputError, did_you_mean
from hwgen.models.files.gguf_architectures import (
    ARCHITECTURES,
    FACTORS,
    SHORT_FACTORS,
    logit_scale_of,
    shape_of,
)
from hwgen.models.files.gguf_blocks import I2_S, I2_S_LAYOUTS, OTHERS, TYPES
from hwgen.models.files.gguf_file import GgufFile, StoredTensor
from hwgen.models.files.gguf_weights import Settings, bytes_of, write_tensor
from hwgen.models.files.import_common import described, readable, refused, write_factors
from hwgen.models.files.store import TOKENIZER, WEIGHTS, Writer, write_description
from hwgen.models.graph.decoder_shape import FUSED, DecoderShape, products_of, weights_of
from hwgen.models.graph.description import Description, Source
from hwgen.progress import steps

_NAMES = {
    "token_embd.weight": "embedding",
    "output_norm.weight": "output_norm",
    "output.weight": "output",
    "output_norm.bias": "output_norm.bias",
    FACTORS: "rope_factors",
    SHORT_FACTORS: "rope_factors",
}
_PARTS = {
    "attn_norm": "attention_norm",
    "attn_q": "query",
    "attn_k": "key",
    "attn_v": "value",
    "attn_qkv": "query_key_value",
    "attn_q_norm": "query_norm",
    "attn_k_norm": "key_norm",
    "attn_sub_norm": "attention_sub_norm",
    "attn_output": "attention_output",
    "post_attention_norm": "attention_post_norm",
    "ffn_norm": "feed_norm",
    "ffn_gate": "gate",
    "ffn_up": "up",
    "ffn_sub_norm": "feed_sub_norm",
    "ffn_down": "down",
    "post_ffw_norm": "feed_post_norm",
}


_IGNORED = ("rope.freqs", "rope_factors_long.weight")


def import_gguf(path: Path, directory: Path, i2s_layout: str | None = None) -> Description:
    """Write a model that a GGUF file holds into a directory.

    Parameters
    ----------
    path : Path
        The file.
    directory : Path
        Where the model's files are written.
    i2s_layout : str, optional
        One of `I2_S_LAYOUTS`, for tensors of type I2_S.

    Returns
    -------
    Description

    Raises
    ------
    InputError
        If the file cannot be read, or holds what is not supported: then all of that is listed.
    """
    file = GgufFile(path)
    name = file.text("general.architecture")
    architecture = ARCHITECTURES.get(name)
    if architecture is None:
        raise InputError(
            f"{path}: general.architecture: {name!r:.60} is not supported"
            f"{did_you_mean(name, ARCHITECTURES)}; supported are {', '.join(ARCHITECTURES)}. A"
            " network of another kind may be exported to ONNX"
        )
    shape = shape_of(file, name)
    result, scales = _assigned(file, shape, i2s_layout)
    if architecture.tied:
        result.pop("output", None)
    file.claim(
        (stored.name, bytes_of(stored)) for stored in file.tensors.values() if bytes_of(stored)
    )
    settings = Settings(i2s_layout or "", logit_scale_of(file, name))
    with (directory / WEIGHTS).open("wb") as out:
        writer = Writer(out)
        for tensor, stored in steps("tensors", result.items()):
            write_tensor(file, writer, tensor, stored, shape, scales.get(tensor), settings)
        write_factors(writer, shape)
    source = Source(
        format="gguf", file=readable(path.name), architecture=name,
        licence=readable(file.text("general.license", "")),
    )  # fmt: skip
    title = readable(file.text("general.name", path.stem))
    description = described(shape, writer.tensors, title, source)
    write_description(directory, description)
    tokenizer = _tokenizer(file, shape)
    if tokenizer is not None:
        (directory / TOKENIZER).write_text(json.dumps(tokenizer) + "\n", encoding="utf-8")
    return description


# -- tensors ------------------------------------------------------------------------------------


def _canonical(name: str) -> tuple[str, bool]:
    """Return hwgen's name of a tensor, empty if there is none, and whether it is its scale."""
    if name in _NAMES:
        return _NAMES[name], False
    block, layer, rest = [*name.split(".", 2), "", ""][:3]
    if block != "blk" or not re.fullmatch("0|[1-9][0-9]{0,5}", layer):
        return "", False
    part, _, kind = rest.rpartition(".")
    if part in _PARTS and kind in ("weight", "bias", "scale"):
        result = f"layers.{layer}.{_PARTS[part]}"
        return result + (".bias" if kind == "bias" else ""), kind == "scale"
    return "", False


def _assigned(
    file: GgufFile, shape: DecoderShape, i2s_layout: str | None
) -> tuple[dict[str, StoredTensor], dict[str, StoredTensor]]:
    """Return tensors by hwgen's names, and scales of whole tensors by theirs.

    Raises
    ------
    InputError
        With everything that is missing, unknown, of another shape or of a type that is not read.
    """
    expected = weights_of(shape)
    result: dict[str, StoredTensor] = {}
    scales: dict[str, StoredTensor] = {}
    problems = _unread_types(file, i2s_layout)
    for stored in file.tensors.values():
        if stored.name in _IGNORED:
            continue
        problem = _type_problem(stored, i2s_layout)
        if problem:
            problems.append(problem)
        name, is_scale = _canonical(stored.name)
        for part, tensor in _split(file, name, stored, shape, is_scale=is_scale):
            if part not in expected:
                problems.append(
                    f"{stored.name[:80]}: no operation takes this tensor; supported are the"
                    " products, norms and biases of the architecture"
                )
                continue
            (scales if is_scale else result)[part] = tensor
            wanted = (1,) if is_scale else expected[part][0]
            if tensor.shape != wanted:
                problems.append(f"{stored.name}: must be of shape {wanted}, not {tensor.shape}")
    problems += [
        f"the tensor of {name} is missing"
        for name, (_, needed) in expected.items()
        if needed and name not in result
    ]
    if problems:
        raise refused(file.path, problems)
    return {name: result[name] for name in expected if name in result}, scales


def _split(
    file: GgufFile, name: str, stored: StoredTensor, shape: DecoderShape, *, is_scale: bool
) -> Iterator[tuple[str, StoredTensor]]:
    """Yield the products that a matrix consists of, or the tensor itself."""
    bias = ".bias" if name.endswith(".bias") else ""
    layer, _, part = name.removesuffix(".bias").rpartition(".")
    if part == "up" and stored.name.replace("ffn_up", "ffn_gate") not in file.tensors:
        part = "gate_up"  # of Phi-3, by the name of one of them
    rows = [products_of(shape)[each][0] for each in FUSED.get(part, ())]
    fits = stored.shape[0] == sum(rows) and stored.code in TYPES
    if not rows or not (fits or is_scale):
        yield name, stored
        return
    first = 0
    for each, count in zip(FUSED[part], rows, strict=True):
        own = f"{layer}.{each}{bias}"
        if is_scale:
            yield own, stored
            continue
        offset = stored.offset + bytes_of(stored) // stored.shape[0] * first
        yield own, replace(stored, shape=(count, *stored.shape[1:]), offset=offset)
        first += count


def _unread_types(file: GgufFile, i2s_layout: str | None) -> list[str]:
    """Return a message for each type of tensors that is not read."""
    names: dict[int, list[str]] = {}
    for stored in file.tensors.values():
        if stored.name not in _IGNORED:
            names.setdefault(stored.code, []).append(stored.name[:80])
    supported = ", ".join(sorted(kind.name for kind in TYPES.values()))
    result = []
    for code, (first, *others) in sorted(names.items()):
        if code in TYPES:
            continue
        which = f"{first} and {len(others)} more" if others else first
        if code != I2_S:
            result.append(
                f"{which}: the type {OTHERS.get(code, f'number {code}')} is not read; supported are"
                f" {supported}: requantise, for example to Q8_0"
            )
        elif i2s_layout is None:
            result.append(
                f"{which}: I2_S names several layouts, and the file does not say which; if you know"
                f" it, give --i2s-layout {'|'.join(I2_S_LAYOUTS)}, else convert to TQ2_0"
            )
    return result


def _type_problem(stored: StoredTensor, i2s_layout: str | None) -> str:
    """Return the problem of a tensor of a type that is read, or an empty string."""
    if stored.code == I2_S:
        if i2s_layout is not None and stored.elements % I2_S_LAYOUTS[i2s_layout]:
            return f"{stored.name}: I2_S needs multiples of {I2_S_LAYOUTS[i2s_layout]} elements"
        return ""
    kind = TYPES.get(stored.code)
    if kind is None:
        return ""
    if stored.shape[-1] % kind.elements:
        return (
            f"{stored.name}: rows of {stored.shape[-1]} elements are no whole blocks of"
            f" {kind.elements} of {kind.name}"
        )
    if len(stored.shape) == 1 and kind.unpack is not None:
        return f"{stored.name}: vectors must be F32, F16 or BF16, not {kind.name}"
    return ""


# -- tokenizer ----------------------------------------------------------------------------------


def _tokenizer(file: GgufFile, shape: DecoderShape) -> dict[str, Any] | None:
    """Return the tokenizer's document, None if the file has none."""
    kind = file.metadata.get("tokenizer.ggml.model")
    tokens = file.metadata.get("tokenizer.ggml.tokens")
    if kind is None or tokens is None:
        return None
    if not isinstance(tokens, list) or len(tokens) > shape.vocabulary:
        raise InputError(
            f"{file.path}: tokenizer.ggml.tokens: must be a list of at most {shape.vocabulary},"
            " one for each row of the embedding"
        )
    result: dict[str, Any] = {
        "model": file.text("tokenizer.ggml.model"),
        "pre": file.text("tokenizer.ggml.pre", ""),
        "tokens": tokens,
    }
    for key, source in (
        ("types", "token_type"), ("merges", "merges"), ("scores", "scores"),
        ("begin", "bos_token_id"), ("end", "eos_token_id"), ("unknown", "unknown_token_id"),
        ("add_begin", "add_bos_token"), ("add_space", "add_space_prefix"),
        ("remove_blanks", "remove_extra_whitespaces"),
    ):  # fmt: skip
        value = file.metadata.get(f"tokenizer.ggml.{source}")
        if value is not None:
            result[key] = value
    if file.metadata.get("tokenizer.ggml.precompiled_charsmap"):
        result["normalises"] = True
    template = file.metadata.get("tokenizer.chat_template")
    if isinstance(template, str):
        result["chat_template"] = template
    return result
