# SPDX-License-Identifier: Apache-2.0
"""Golden models of tensor cores against MMA-Sim, a published simulator of them.

``python -m flows.bench.tensor_cores.published [--json]``, with ``pip install mmasim`` (and PyTorch)

Single steps of fp16, bf16 and fp8, with any bit patterns among the operands, and C from +0, of any
bit patterns, of moderate and of subnormal numbers.  fp16 and bf16 of Ada are two steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.bench.common import Row, parser, report, run
from flows.bench.tensor_cores.operations import Instruction, golden
from flows.bench.tensor_cores.vectors import drawn_lines
from hwgen.errors import ToolMissing

TYPES = {
    "fp16": ("f16", "float16"), "bf16": ("bf16", "bfloat16"),
    "fp8_e4m3": ("e4m3", "float8_e4m3fn"), "fp8_e5m2": ("e5m2", "float8_e5m2"),
}  # fmt: skip
"""Names of formats in PTX and in PyTorch."""

DRAWS = 40


def simulator(sim: Any, core: str, a: str, w: str, wide: bool) -> tuple[Any, int]:
    """Return MMA-Sim's instruction of two types, and the rows of its result."""
    k = 16 if wide else 32
    if core == "ada":
        return sim.MMA("Ada Lovelace", f"m16n8k{k}.f32.{a}.{w}.f32"), 16
    if core == "hopper":
        return sim.WGMMA("Hopper", f"m64n8k{k}.f32.{a}.{w}"), 64
    kind = "f16" if wide else "f8f6f4"
    return sim.TCGen05MMA("Blackwell", f"m64n8k{k}.kind::{kind}.f32.{a}.{w}"), 64


def start(rng: np.random.Generator, shape: tuple[int, int], sort: int) -> NDArray[np.uint32]:
    """Draw what accumulators begin with."""
    bits = rng.integers(0, 1 << 32, shape, dtype=np.uint64).astype(np.uint32)
    moderate = rng.integers(100, 150, shape).astype(np.uint32) << 23
    choices = (bits & 0, bits, (bits & 0x807FFFFF) | moderate, bits & 0x807FFFFF)
    return choices[sort].astype(np.uint32)


def published_rows(torch: Any, sim: Any) -> Iterator[Row]:
    """Yield tensor cores and formats."""
    for core in ("hopper", "ada", "blackwell"):
        for a, w in ((a, w) for a in TYPES for w in TYPES):
            wide = a in ("fp16", "bf16")
            if a != w and (wide or w in ("fp16", "bf16")):
                continue
            operation, m = simulator(sim, core, TYPES[a][0], TYPES[w][0], wide)
            instruction, rng = Instruction("", a, w, {}, core), np.random.default_rng(1)
            differ = size = 0
            for draw in range(DRAWS):
                lines = [
                    drawn_lines(name, count, 16 if wide else 32, f"{side}{draw}")
                    for name, count, side in ((a, m, "A"), (w, 8, "B"))
                ]
                c = start(rng, (m, 8), draw % 4)
                x, y = (
                    torch.from_numpy(part.copy()).view(getattr(torch, TYPES[name][1]))
                    for part, name in zip(lines, (a, w), strict=True)
                )
                d = operation(x, y.T, torch.from_numpy(c.view(np.float32).copy()))
                bits = d.contiguous().numpy().view(np.uint32)
                differ += int((golden(instruction, lines[0], lines[1], c) != bits).sum())
                size += bits.size
            yield {"tensor core": core, "A": a, "B": w, "results": size, "differ": differ}


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare and print."""
    chosen = parser("tensor_cores.published", __doc__).parse_args(arguments)
    try:
        import torch  # large, and for this alone
        from mmasim.nv_ptx import sim  # type: ignore[import-not-found]
    except ImportError as error:
        raise ToolMissing(f"{error}: pip install mmasim torch") from None
    report("hwgen and MMA-Sim", published_rows(torch, sim), as_json=chosen.json)


if __name__ == "__main__":
    run(main)
