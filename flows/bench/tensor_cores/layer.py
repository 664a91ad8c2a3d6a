# SPDX-License-Identifier: Apache-2.0
"""A layer of a decoder in bf16 on a GPU, its products also by a plain chain of steps, and the RTL.

``python -m flows.bench.tensor_cores.layer weights MODEL.gguf WEIGHTS.npz``
``python -m flows.bench.tensor_cores.layer gpu WEIGHTS.npz RUN.npz``
``python -m flows.bench.tensor_cores.layer rtl WEIGHTS.npz RUN.npz [--json]``

``weights`` takes the first layer of a model, rounded to bf16, and the embeddings of a text's first
tokens.  ``gpu`` runs the layer with PyTorch in bf16 on an H100 or H200 and records what enters and
leaves each product, also that of a kernel that is a plain chain of steps.  ``rtl`` computes the
products by the RTL of a core with ``accumulator: hopper``.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.bench.common import Row, parser, report, run
from flows.bench.tensor_cores.gpu import Gpu, import_torch, profiled
from flows.bench.tensor_cores.operations import BYTES, by_operation, golden
from hwgen.errors import InputError
from hwgen.formats import floating

PRODUCTS = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
"""Matrices of a layer, as GGUF names them."""

TOKENS = 16

BF16, INSTRUCTION = floating("bf16"), "mma_bf16"

CORE: dict[str, Any] = {
    "name": "layer", "family": "cube", "activation": "bf16", "weight": "bf16",
    "accumulator": "hopper", "max_k": 4096, "array": {"rows": 4, "cols": 8, "depth": 16},
}  # fmt: skip

Bits = NDArray[np.uint16]


def step_lines(bits: Bits) -> NDArray[np.uint8]:
    """Return lines of elements as bytes, filled up with zeros to whole steps."""
    rest = -bits.shape[1] % (BYTES // bits.itemsize)
    return np.ascontiguousarray(np.pad(bits, ((0, 0), (0, rest)))).view(np.uint8)


def save_weights(model: Path, output: Path) -> None:
    """Save the first layer of a model in bf16, and the embeddings of tokens."""
    import gguf  # an optional dependency

    try:
        reader = gguf.GGUFReader(model)
    except (OSError, ValueError) as error:
        raise InputError(f"{model}: {error}") from None
    tensors = {tensor.name: tensor for tensor in reader.tensors}

    def read(name: str) -> NDArray[Any]:
        if name not in tensors:
            raise InputError(f"{model}: has no {name}")
        return gguf.quants.dequantize(tensors[name].data, tensors[name].tensor_type)

    names = (*PRODUCTS, "attn_norm", "ffn_norm")
    arrays = {name: BF16.encode(read(f"blk.0.{name}.weight")) for name in names}
    embeddings = read("token_embd.weight")
    rows = np.random.default_rng(0).integers(0, len(embeddings), TOKENS)
    arrays["input"] = BF16.encode(embeddings[rows])
    fields = {
        name: int(reader.fields[f"llama.attention.{name}"].contents())
        for name in ("head_count", "head_count_kv")
    }
    fields["rope_base"] = int(reader.fields["llama.rope.freq_base"].contents())
    np.savez_compressed(output, **arrays, **fields)  # type: ignore[arg-type]


def run_on_gpu(weights: Path, output: Path) -> None:
    """Run the layer with PyTorch, and record its products."""
    torch = import_torch()
    file = np.load(weights)
    instruction = by_operation()[INSTRUCTION]
    recorded: dict[str, NDArray[Any]] = {}

    def tensor(bits: Bits) -> Any:
        return torch.from_numpy(bits.view(np.int16).copy()).cuda().view(torch.bfloat16)

    def bits_of(values: Any) -> Bits:
        return values.contiguous().view(torch.int16).cpu().numpy().view(np.uint16)

    with tempfile.TemporaryDirectory() as directory:
        gpu = Gpu.open(Path(directory))

        def product(name: str, x: Any, w: Any) -> Any:
            """Multiply `x` (m, k) by the rows of `w` (n, k)."""
            y, kernels = profiled(torch, lambda: torch.nn.functional.linear(x, w))
            x_bits, w_bits = bits_of(x), bits_of(w)
            recorded[f"{name}.x"] = x_bits
            if name not in PRODUCTS:
                recorded[f"{name}.w"] = w_bits
            recorded[f"{name}.y"] = bits_of(y)
            recorded[f"{name}.chain"] = gpu.multiply(
                instruction, step_lines(x_bits), step_lines(w_bits)
            )
            recorded[f"{name}.kernel"] = np.array(kernels)
            return y

        def normalised(x: Any, gamma: Any) -> Any:
            wide = x.float()
            scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
            return gamma * (wide * scale).to(torch.bfloat16)

        heads, kv_heads = int(file["head_count"]), int(file["head_count_kv"])
        matrices = {name: tensor(file[name]) for name in PRODUCTS}
        x = tensor(file["input"])
        size = matrices["attn_q"].shape[0] // heads
        h = normalised(x, tensor(file["attn_norm"]))
        q, k, v = (product(name, h, matrices[name]) for name in PRODUCTS[:3])
        place = torch.arange(len(x), device="cuda")[:, None].float()
        angles = place * float(file["rope_base"]) ** (
            -torch.arange(0, size, 2, device="cuda").float() / size
        )
        cos, sin = (f(angles).to(torch.bfloat16)[:, None] for f in (torch.cos, torch.sin))

        def rotated(z: Any, count: int) -> Any:
            z = z.view(len(x), count, size)
            even, odd = z[..., ::2], z[..., 1::2]
            pairs = torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1)
            return pairs.flatten(-2)

        q, k, v = rotated(q, heads), rotated(k, kv_heads), v.view(len(x), kv_heads, size)
        mask = torch.full((len(x), len(x)), float("-inf"), device="cuda").triu(1)
        mixed = []
        for head in range(heads):
            other = head * kv_heads // heads
            scores = product(f"scores_{head}", q[:, head].contiguous(), k[:, other].contiguous())
            share = torch.softmax(scores.float() * size**-0.5 + mask, -1).to(torch.bfloat16)
            mixed.append(product(f"mixed_{head}", share, v[:, other].T.contiguous()))
        x = x + product("attn_output", torch.cat(mixed, -1), matrices["attn_output"])
        h = normalised(x, tensor(file["ffn_norm"]))
        gate, up = (product(name, h, matrices[name]) for name in ("ffn_gate", "ffn_up"))
        x = x + product("ffn_down", torch.nn.functional.silu(gate) * up, matrices["ffn_down"])
        recorded["output"] = bits_of(x)
        recorded["gpu"] = np.array(f"{gpu.name}, driver {gpu.driver}, PyTorch {torch.__version__}")
    np.savez_compressed(output, **recorded)  # type: ignore[arg-type]


def recorded_products(weights: Path, recorded: Path) -> Iterator[tuple[str, Any, Bits, Bits]]:
    """Yield name, record, operands (m, k) and (n, k) of each product of a run."""
    matrices, record = np.load(weights), np.load(recorded)
    for key in record:
        if key.endswith(".x"):
            name = key[: -len(".x")]
            w = matrices[name] if name in PRODUCTS else record[f"{name}.w"]
            yield name, record, record[key], w


def rtl_rows(weights: Path, recorded: Path, only: Sequence[str] = ()) -> Iterator[Row]:
    """Yield the products of a run, by the RTL."""
    # The GPU has neither Amaranth nor a simulator.
    from flows.build.design import Design
    from flows.build.load import parse_config
    from flows.simulation.run import run_product

    design = Design.of(parse_config(json.dumps(CORE)))
    instruction = by_operation()[INSTRUCTION]
    for name, record, x, w in recorded_products(weights, recorded):
        if only and name not in only:
            continue
        result = run_product(design, BF16.decode(x), BF16.decode(w).T)
        (values,) = result.results.values()
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        by_golden = golden(instruction, step_lines(x), step_lines(w))
        chain = record[f"{name}.chain"]
        yield {
            "product": name,
            "M, K, N": f"{len(x)}, {x.shape[1]}, {len(w)}",
            "results": bits.size,
            "RTL differs from the chain": int((bits != chain).sum()),
            "golden differs": int((by_golden != chain).sum()),
            "PyTorch differs": int(
                (BF16.encode(chain.view(np.float32)) != record[f"{name}.y"]).sum()
            ),
            "cycles": result.cycles,
            "PyTorch's kernel": str(record[f"{name}.kernel"])[:120],
        }


def main(arguments: Sequence[str] | None = None) -> None:
    """Do one of the steps."""
    options = parser("tensor_cores.layer", __doc__)
    options.add_argument("step", choices=("weights", "gpu", "rtl"))
    options.add_argument("first", type=Path, metavar="FILE")
    options.add_argument("second", type=Path, metavar="FILE")
    options.add_argument("--only", nargs="*", default=(), help="products, with rtl")
    chosen = options.parse_args(arguments)
    if chosen.step == "weights":
        save_weights(chosen.first, chosen.second)
    elif chosen.step == "gpu":
        run_on_gpu(chosen.first, chosen.second)
    else:
        measured = rtl_rows(chosen.first, chosen.second, chosen.only)
        report("products of a layer in bf16", measured, as_json=chosen.json)


if __name__ == "__main__":
    run(main)
