# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of decoders with random weights: ``python -m flows.bench.random_checkpoint DIR``.

They have the form of transformers: ``config.json`` and safetensors in BF16, a file for each layer
with an index. Weights are written a tensor at a time, so memory stays small.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import click
import numpy as np

from flows.bench.common import parser, run


@dataclass(frozen=True)
class Shape:
    """Shape of a Llama decoder; the defaults are those of TinyLlama 1.1B.

    Parameters
    ----------
    num_hidden_layers, hidden_size, intermediate_size : int
    num_attention_heads, num_key_value_heads, vocab_size : int
    """

    num_hidden_layers: int = 22
    hidden_size: int = 2048
    intermediate_size: int = 5632
    num_attention_heads: int = 32
    num_key_value_heads: int = 4
    vocab_size: int = 32000


SMALL = Shape(30, 576, 1536, 9, 3, 49152)
"""Shape of SmolLM2 135M."""

_PIECE = 1 << 20


def write_checkpoint(
    directory: Path, shape: Shape, seed: int = 0, context: int = 2048, *, tied: bool = False
) -> int:
    """Write a checkpoint, and return the number of its parameters.

    Parameters
    ----------
    directory : Path
        Is made.
    shape : Shape
    seed : int
    context : int
        Positions of the model.
    tied : bool
        Whether the output layer is the table of tokens.
    """
    directory.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", **asdict(shape),
        "hidden_act": "silu", "max_position_embeddings": context, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "tie_word_embeddings": tied, "torch_dtype": "bfloat16",
    }  # fmt: skip
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    width, hidden = shape.hidden_size, shape.intermediate_size
    keys = width // shape.num_attention_heads * shape.num_key_value_heads
    rng = np.random.default_rng(seed)
    files: list[dict[str, tuple[int, ...]]] = []
    for layer in range(shape.num_hidden_layers):
        sizes = {
            "input_layernorm": (width,), "post_attention_layernorm": (width,),
            "self_attn.q_proj": (width, width), "self_attn.k_proj": (keys, width),
            "self_attn.v_proj": (keys, width), "self_attn.o_proj": (width, width),
            "mlp.gate_proj": (hidden, width), "mlp.up_proj": (hidden, width),
            "mlp.down_proj": (width, hidden),
        }  # fmt: skip
        files.append({f"model.layers.{layer}.{key}.weight": size for key, size in sizes.items()})
    table = (shape.vocab_size, width)
    head = {} if tied else {"lm_head.weight": table}
    files.append({"model.embed_tokens.weight": table, "model.norm.weight": (width,), **head})
    index: dict[str, str] = {}
    total = 0
    for number, tensors in enumerate(files):
        name = f"model-{number + 1:05}-of-{len(files):05}.safetensors"
        total += _write_file(directory / name, tensors, rng)
        index |= dict.fromkeys(tensors, name)
    document = {"metadata": {"total_size": 2 * total}, "weight_map": index}
    text = json.dumps(document, indent=1) + "\n"
    (directory / "model.safetensors.index.json").write_text(text, encoding="utf-8")
    return total


def _write_file(path: Path, tensors: dict[str, tuple[int, ...]], rng: np.random.Generator) -> int:
    """Write a file of safetensors, and return the number of its elements."""
    header, end = {}, 0
    for name, shape in tensors.items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for shape in tensors.values():
            _write_numbers(file, shape, rng)
    return end // 2


def _write_numbers(file: IO[bytes], shape: tuple[int, ...], rng: np.random.Generator) -> None:
    """Write random numbers in BF16: near 1 of norms, of matrices by the length of their rows."""
    count = int(np.prod(shape))
    for part in _pieces(count):
        numbers = rng.standard_normal(part, np.float32)
        numbers = 1 + 0.1 * numbers if len(shape) == 1 else numbers / np.float32(shape[-1] ** 0.5)
        file.write((numbers.view(np.uint32) >> 16).astype("<u2").tobytes())


def _pieces(count: int) -> Iterator[int]:
    while count:
        part = min(count, _PIECE)
        yield part
        count -= part


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a checkpoint."""
    options = parser("random_checkpoint", __doc__)
    options.add_argument("directory", type=Path, metavar="DIR")
    options.add_argument("--small", action="store_true", help="shape of SmolLM2 135M, not 1.1B")
    chosen = options.parse_args(arguments)
    shape = SMALL if chosen.small else Shape()
    count = write_checkpoint(chosen.directory, shape, tied=chosen.small)
    click.echo(f"{chosen.directory}: {count:,d} parameters")


if __name__ == "__main__":
    run(main)
