# SPDX-License-Identifier: Apache-2.0
"""Write what was trained as a GGUF file: ternary weights as TQ1_0, the table of tokens as Q8_0.

    python -m configs.models.training.export --weights DIR --text DIR --name NAME --output FILE.gguf

The file is of the architecture ``bitnet-b1.58``; a matrix's scale is that of each of its blocks.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from configs.models.training import command
from hwgen.errors import InputError

ARCHITECTURE = "bitnet-b1.58"
#: What GGUF calls the parts of a layer.
PARTS = {
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
    "attn_norm": "attn_norm",
    "attn_sub_norm": "attn_sub_norm",
    "ffn_norm": "ffn_norm",
    "ffn_sub_norm": "ffn_sub_norm",
}
BLOCK = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType.TQ1_0][0]
"""Weights of a block of TQ1_0."""


def halves(rows: NDArray[Any], elements: int) -> NDArray[Any]:
    """Reorder rows of heads: neighbours that are turned come to lie in either half of a head."""
    heads = rows.reshape(-1, elements, *rows.shape[1:])
    return np.concatenate([heads[:, 0::2], heads[:, 1::2]], axis=1).reshape(rows.shape)


def packed(codes: NDArray[Any], scale: float) -> NDArray[np.uint8]:
    """Return ternary codes, shape (rows, columns), as TQ1_0.

    A block of zeros keeps the scale of its matrix, which a quantiser of numbers could not know.

    Raises
    ------
    InputError
        Rows are no whole blocks.
    """
    if codes.shape[-1] % BLOCK:
        raise InputError(f"rows of {codes.shape[-1]} weights are no whole blocks of {BLOCK}")
    kind = gguf.GGMLQuantizationType.TQ1_0
    data = gguf.quants.quantize(codes.astype(np.float32), kind)
    blocks = data.reshape(len(codes), -1, gguf.GGML_QUANT_SIZES[kind][1])
    blocks[..., -2:] = np.frombuffer(np.float16(scale).tobytes(), np.uint8)
    return blocks.reshape(data.shape)


def write(weights: Path, text: Path, name: str, output: Path) -> None:
    """Write `output` from what training (`weights`) and tokenising (`text`) left behind.

    Raises
    ------
    InputError
        The weights are those of a reference network, or no whole blocks.
    """
    shape = json.loads((weights / "shape.json").read_text(encoding="utf-8"))
    record = json.loads((weights / "training.json").read_text(encoding="utf-8"))
    if record["exact"]:
        raise InputError(f"{weights}: was trained with --exact, so its weights are not ternary")
    writer = gguf.GGUFWriter(output, ARCHITECTURE)
    writer.add_name(name)
    writer.add_license("Apache-2.0")
    writer.add_context_length(shape["context"])
    writer.add_embedding_length(shape["width"])
    writer.add_block_count(shape["layers"])
    writer.add_feed_forward_length(shape["hidden"])
    writer.add_head_count(shape["heads"])
    writer.add_head_count_kv(shape["kv_heads"])
    writer.add_layer_norm_rms_eps(shape["epsilon"])
    writer.add_rope_freq_base(shape["rope_base"])
    writer.add_vocab_size(shape["vocabulary"])
    _tokenizer(writer, text / "tokenizer.json")
    with np.load(weights / "weights.npz") as arrays:
        _tensors(writer, arrays, shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _tokenizer(writer: gguf.GGUFWriter, path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))["model"]
    tokens = sorted(document["vocab"], key=document["vocab"].__getitem__)
    kinds = [gguf.TokenType.CONTROL] + [gguf.TokenType.NORMAL] * (len(tokens) - 1)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in document["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(True)


def _tensors(writer: gguf.GGUFWriter, arrays: Any, shape: dict[str, Any]) -> None:
    def matrix(name: str, key: str, *, turned: bool = False) -> None:
        codes = arrays[key].T
        if turned:
            codes = halves(codes, shape["width"] // shape["heads"])
        data = packed(np.ascontiguousarray(codes), float(arrays[f"{key}.scale"]))
        writer.add_tensor(name, data, raw_dtype=gguf.GGMLQuantizationType.TQ1_0)

    kind = gguf.GGMLQuantizationType.Q8_0
    table = gguf.quants.quantize(arrays["embedding"], kind)
    writer.add_tensor("token_embd.weight", table, raw_dtype=kind)
    for layer in range(shape["layers"]):
        for part, called in PARTS.items():
            key, name = f"layers.{part}.{layer}", f"blk.{layer}.{called}.weight"
            if part.endswith("norm"):
                writer.add_tensor(name, arrays[key])
            else:
                matrix(name, key, turned=part in ("q", "k"))
    writer.add_tensor("output_norm.weight", arrays["norm"])
    matrix("output.weight", "output")


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a file by the arguments of a command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--weights", type=Path, required=True, help="what training wrote")
    parser.add_argument("--text", type=Path, required=True, help="what tokenising wrote")
    parser.add_argument("--name", required=True, help="the model's name")
    parser.add_argument("--output", type=Path, required=True, help="the file that is written")
    options = parser.parse_args(arguments)
    write(options.weights, options.text, options.name, options.output)
    sys.stdout.write(f"{options.output}: {options.output.stat().st_size:,d} bytes\n")


if __name__ == "__main__":
    command(main)
