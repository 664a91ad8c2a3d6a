# SPDX-License-Identifier: Apache-2.0
"""Small GGUF files of decoders, made by the `gguf` package, with random weights of any type."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np

Ggml: Any = gguf.GGMLQuantizationType


@dataclass(frozen=True)
class Small:
    """A decoder to write."""

    architecture: str = "llama"
    layers: int = 2
    width: int = 64
    hidden: int = 96
    heads: int = 4
    kv_heads: int = 2
    vocabulary: int = 272
    weight_type: Any = Ggml.Q4_1
    embedding: Any = Ggml.Q8_0
    tied: bool = True
    sub_norms: bool = False
    bias: bool = False
    tokenizer: bool = True
    seed: int = 1
    tensor_scale: float = 1.0
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def elements(self) -> int:
        return self.width // self.heads


def shapes(small: Small) -> dict[str, tuple[int, ...]]:
    """Return the tensors of a decoder by the names that they have in GGUF."""
    width, hidden, keys = small.width, small.hidden, small.kv_heads * small.elements
    result: dict[str, tuple[int, ...]] = {"token_embd.weight": (small.vocabulary, width)}
    result["output_norm.weight"] = (width,)
    if not small.tied:
        result["output.weight"] = (small.vocabulary, width)
    for layer in range(small.layers):
        at = f"blk.{layer}"
        result[f"{at}.attn_norm.weight"] = result[f"{at}.ffn_norm.weight"] = (width,)
        if small.sub_norms:
            result[f"{at}.attn_sub_norm.weight"] = (width,)
            result[f"{at}.ffn_sub_norm.weight"] = (hidden,)
        for name, rows, columns in (
            ("attn_q", width, width), ("attn_k", keys, width), ("attn_v", keys, width),
            ("attn_output", width, width), ("ffn_gate", hidden, width), ("ffn_up", hidden, width),
            ("ffn_down", width, hidden),
        ):  # fmt: skip
            result[f"{at}.{name}.weight"] = (rows, columns)
            if small.bias and name in ("attn_q", "attn_k", "attn_v"):
                result[f"{at}.{name}.bias"] = (rows,)
    return result


def random_blocks(weight_type: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Return the bytes of a tensor of a type: every code, with moderate scales."""
    elements, size = gguf.GGML_QUANT_SIZES[weight_type]
    count = int(np.prod(shape)) // elements
    data = rng.integers(0, 256, (count, size), np.uint8)
    halves = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
              "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
              "IQ4_NL": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64]}  # fmt: skip
    small = 0.002 if weight_type.name.endswith(("_K", "Q8_0", "NL", "XS")) else 0.02
    for at in halves.get(weight_type.name, []):
        scale = (rng.standard_normal(count) * small).astype("<f2")
        data[:, at : at + 2] = scale.view(np.uint8).reshape(-1, 2)
    if weight_type.name == "MXFP4":
        data[:, 0] = rng.integers(118, 122, count)
    if weight_type.name == "NVFP4":
        data[:, :4] = rng.integers(8, 40, (count, 4))
    if weight_type.name == "TQ1_0":  # bytes that come from digits
        digits = rng.integers(0, 243, (count, 52))
        data[:, :52] = (digits * 256 + 242) // 243
    if weight_type.name == "TQ2_0":
        codes = rng.integers(0, 3, (count, 64, 4), np.uint8)
        data[:, :64] = (codes << np.array([0, 2, 4, 6], np.uint8)).sum(-1, dtype=np.uint8)
    return data.reshape(*shape[:-1], -1)


def plain(weight_type: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Return numbers as the bytes or the array of a type without scales."""
    values = (rng.standard_normal(shape) * 0.1).astype(np.float32)
    if weight_type == Ggml.F32:
        return values
    return (
        values.astype(np.float16)
        if weight_type == Ggml.F16
        else gguf.quants.quantize(values, weight_type)
    )


BYTES = "".join(chr(b) for b in range(33, 127))


def byte_tokens() -> list[str]:
    """Return the alphabet of byte-level tokenizers: a printable character for every byte."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = iter(range(256, 512))
    return [chr(byte) if byte in kept else chr(next(other)) for byte in range(256)]


def write_gguf(path: Path, small: Small) -> dict[str, Any]:
    """Write a file and return its tensors in single precision, as the package reads them."""
    rng = np.random.default_rng(small.seed)
    writer = gguf.GGUFWriter(path, small.architecture)
    writer.add_name("small")
    writer.add_block_count(small.layers)
    writer.add_context_length(64)
    writer.add_embedding_length(small.width)
    writer.add_feed_forward_length(small.hidden)
    writer.add_head_count(small.heads)
    writer.add_head_count_kv(small.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(small.vocabulary)
    for key, value in small.more.items():
        writer.add_key_value(key, value, gguf.GGUFValueType.get_type(value))
    if small.tokenizer:
        letters = byte_tokens()
        merges = ["Ġ t", "h e", "Ġt he", "i n", "e r", "Ġ a", "a n", "o n"]
        tokens = ["<|end|>", *letters, *("".join(merge.split()) for merge in merges)]
        tokens += [f"<unused{n}>" for n in range(small.vocabulary - len(tokens))]
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("smollm")
        writer.add_token_list(tokens)
        writer.add_token_types([3] + [1] * (len(tokens) - 1))
        writer.add_token_merges(merges)
        writer.add_eos_token_id(0)
    result = {}
    for name, shape in shapes(small).items():
        weight_type = (
            small.embedding if name.startswith(("token_embd", "output.")) else small.weight_type
        )
        if len(shape) == 1:
            data: Any = (1 + 0.1 * rng.standard_normal(shape)).astype(np.float32)
            weight_type = Ggml.F32
        elif weight_type in (Ggml.F32, Ggml.F16, Ggml.BF16):
            data = plain(weight_type, shape, rng)
        else:
            data = random_blocks(weight_type, shape, rng)
        raw = None if data.dtype in (np.float32, np.float16) else weight_type
        writer.add_tensor(name, data, raw_dtype=raw)
        result[name] = data if raw is None else gguf.quants.dequantize(data, weight_type)
        if small.tensor_scale != 1.0 and raw is not None and weight_type == small.weight_type:
            scale = np.array([small.tensor_scale], np.float32)
            writer.add_tensor(name.removesuffix("weight") + "scale", scale)
            result[name] = result[name] * scale
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return result
