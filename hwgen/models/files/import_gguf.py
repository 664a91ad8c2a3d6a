# SPDX-License-Identifier: Apache-2.0
"""Import of GGUF files: decoders of the Llama and BitNet kinds, with their tokenizers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hwgen.errors import InputError, did_you_mean
from hwgen.models.files.gguf_blocks import I2_S, I2_S_LAYOUTS, OTHERS, TYPES
from hwgen.models.files.gguf_file import GgufFile, StoredTensor
from hwgen.models.files.gguf_weights import bytes_of, write_tensor
from hwgen.models.files.import_common import described, readable, refused
from hwgen.models.files.store import TOKENIZER, WEIGHTS, Writer, write_description
from hwgen.models.graph.decoder import DecoderShape, weights_of
from hwgen.models.graph.description import Description, Source

_NAMES = {
    "token_embd.weight": "embedding",
    "output_norm.weight": "output_norm",
    "output.weight": "output",
    "rope_freqs.weight": "rope_factors",
}
_PARTS = {
    "attn_norm.weight": "attention_norm",
    "attn_q": "query",
    "attn_k": "key",
    "attn_v": "value",
    "attn_sub_norm.weight": "attention_sub_norm",
    "attn_output": "attention_output",
    "ffn_norm.weight": "feed_norm",
    "ffn_gate": "gate",
    "ffn_up": "up",
    "ffn_sub_norm.weight": "feed_sub_norm",
    "ffn_down": "down",
}


@dataclass(frozen=True)
class Architecture:
    """Properties of an architecture of decoders.

    Parameters
    ----------
    pairs : str
        See `DecoderShape`.
    gate : str
    sub_norms : bool
    tied : bool
        Whether the product of the logits always takes the embedding.
    """

    pairs: Literal["neighbours", "halves"] = "neighbours"
    gate: str = "silu"
    sub_norms: bool = False
    tied: bool = False


ARCHITECTURES = {
    "llama": Architecture(),
    "qwen2": Architecture(pairs="halves"),
    "bitnet": Architecture(pairs="halves", sub_norms=True, tied=True),
    "bitnet-25": Architecture(pairs="halves", gate="relu2", sub_norms=True, tied=True),
    "bitnet-b1.58": Architecture(pairs="halves", gate="relu2", sub_norms=True),
}
"""Decoders by ``general.architecture``."""

_IGNORED = ("rope.freqs",)


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
    shape = _shape(file, name, architecture)
    result, scales = _assigned(file, shape, i2s_layout)
    if architecture.tied:
        result.pop("output", None)
    file.claim(
        (stored.name, bytes_of(stored)) for stored in file.tensors.values() if bytes_of(stored)
    )
    with (directory / WEIGHTS).open("wb") as out:
        writer = Writer(out)
        for tensor, stored in result.items():
            write_tensor(file, writer, tensor, stored, shape, scales.get(tensor), i2s_layout)
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


# -- what the metadata say ----------------------------------------------------------------------


def _shape(file: GgufFile, name: str, architecture: Architecture) -> DecoderShape:
    """Return the decoder's sizes."""
    heads = file.integer(f"{name}.attention.head_count", most=1 << 12)
    width = file.integer(f"{name}.embedding_length", most=1 << 18)
    kv_heads = file.integer(f"{name}.attention.head_count_kv", heads, most=1 << 12)
    elements = file.integer(f"{name}.attention.key_length", max(1, width // heads), most=1 << 14)
    values = file.integer(f"{name}.attention.value_length", elements, most=1 << 14)
    turned_elements = file.integer(f"{name}.rope.dimension_count", elements, most=1 << 14)
    scaling = file.text(f"{name}.rope.scaling.type", "none")
    scale = 1.0
    if scaling == "linear":
        scale = 1.0 / file.real(f"{name}.rope.scaling.factor")
    table = file.tensors.get("token_embd.weight")
    rows = table.shape[0] if table is not None else 1
    shape = DecoderShape(
        layers=file.integer(f"{name}.block_count", most=1 << 12),
        width=width,
        hidden=file.integer(f"{name}.feed_forward_length", most=1 << 20),
        heads=heads,
        kv_heads=kv_heads,
        elements=elements,
        vocabulary=file.integer(f"{name}.vocab_size", rows),
        context=file.integer(f"{name}.context_length", most=1 << 30),
        epsilon=file.real(f"{name}.attention.layer_norm_rms_epsilon"),
        base=file.real(f"{name}.rope.freq_base", 10000.0),
        scale=scale,
        gate=architecture.gate,
        pairs=architecture.pairs,
        sub_norms=architecture.sub_norms,
        window=file.integer(f"{name}.attention.sliding_window", 1 << 30, most=1 << 30) % (1 << 30),
    )
    problems = shape.problems()
    if values != elements:
        problems.append(f"values have {values} elements a head, keys {elements}")
    if turned_elements != elements:
        problems.append(f"only {turned_elements} of {elements} elements of a head are turned")
    if scaling not in ("none", "linear"):
        problems.append(f"rope.scaling.type {scaling!r:.40}: supported are none and linear")
    if file.metadata.get(f"{name}.expert_count"):
        problems.append(
            "experts: the layer that a token takes is chosen at run time; use a dense model"
        )
    problems += [
        f"{key} is not supported"
        for key in (f"{name}.attn_logit_softcapping", f"{name}.final_logit_softcapping")
        if key in file.metadata
    ]
    if problems:
        raise refused(file.path, problems)
    return shape


def _canonical(name: str) -> tuple[str, bool]:
    """Return hwgen's name of a tensor, empty if there is none, and whether it is its scale."""
    if name in _NAMES:
        return _NAMES[name], False
    block, layer, rest = [*name.split(".", 2), "", ""][:3]
    if block != "blk" or not re.fullmatch("0|[1-9][0-9]{0,5}", layer):
        return "", False
    if rest in _PARTS:
        return f"layers.{layer}.{_PARTS[rest]}", False
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
    problems = []
    for stored in file.tensors.values():
        name, is_scale = _canonical(stored.name)
        if stored.name in _IGNORED:
            continue
        if name not in expected:
            problems.append(
                f"{stored.name[:80]}: no operation takes this tensor; supported are the products,"
                " norms and biases of the Llama and BitNet kinds"
            )
            continue
        (scales if is_scale else result)[name] = stored
        problem = _type_problem(stored, i2s_layout)
        wanted = (1,) if is_scale else expected[name][0]
        if problem:
            problems.append(problem)
        elif stored.shape != wanted:
            problems.append(f"{stored.name}: must be of shape {wanted}, not {stored.shape}")
    problems += [
        f"the tensor of {name} is missing"
        for name, (_, needed) in expected.items()
        if needed and name not in result
    ]
    if problems:
        raise refused(file.path, problems)
    return {name: result[name] for name in expected if name in result}, scales


def _type_problem(stored: StoredTensor, i2s_layout: str | None) -> str:
    """Return why a tensor's type is not read, or an empty string."""
    if stored.code == I2_S:
        if i2s_layout is None:
            return (
                f"{stored.name}: I2_S names several layouts, and the file does not say which; if"
                f" you know it, give --i2s-layout {'|'.join(I2_S_LAYOUTS)}, else convert to TQ2_0"
            )
        if stored.elements % I2_S_LAYOUTS[i2s_layout]:
            return f"{stored.name}: I2_S needs multiples of {I2_S_LAYOUTS[i2s_layout]} elements"
        return ""
    kind = TYPES.get(stored.code)
    if kind is None:
        name = OTHERS.get(stored.code, f"number {stored.code}")
        return (
            f"{stored.name}: its type {name} is not read; supported are"
            f" {', '.join(sorted(t.name for t in TYPES.values()))}: requantise it, for example"
            " to Q8_0"
        )
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
    ):  # fmt: skip
        value = file.metadata.get(f"tokenizer.ggml.{source}")
        if value is not None:
            result[key] = value
    template = file.metadata.get("tokenizer.chat_template")
    if isinstance(template, str):
        result["chat_template"] = template
    return result
