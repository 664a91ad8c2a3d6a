# SPDX-License-Identifier: Apache-2.0
"""Matrix products of PyTorch on an H100 or H200 against a plain chain of tensor-core steps.

``python -m flows.bench.tensor_cores.libraries [--json]``

A library is free to cut K into parts that are added afterwards, or to add in single precision now
and then.  A row says how many results differ from those of one accumulator that takes step after
step, which is what `accumulator: hopper` computes, and which kernel it was.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.bench.common import Row, parser, report, run
from flows.bench.tensor_cores.gpu import Gpu, import_torch, profiled
from flows.bench.tensor_cores.operations import by_operation

SIZES = (
    (16, 576, 576), (16, 1536, 576), (64, 576, 576), (256, 576, 1536), (1024, 1024, 1024),
    (16, 4096, 4096), (1024, 4096, 4096), (64, 16384, 64),
)  # fmt: skip
"""M, K and N."""

FUNCTIONS = (
    ("fp16", "torch.mm"), ("bf16", "torch.mm"),
    ("fp8_e4m3", "torch._scaled_mm, fast"), ("fp8_e4m3", "torch._scaled_mm"),
)  # fmt: skip


def library_rows(torch: Any, gpu: Gpu) -> Iterator[Row]:
    """Yield functions and sizes."""
    dtypes = {"fp16": "float16", "bf16": "bfloat16", "fp8_e4m3": "float8_e4m3fn"}
    torch.manual_seed(0)
    for name, function in FUNCTIONS:
        instruction = by_operation()["wgmma_e4m3_e4m3" if "fp8" in name else f"wgmma_{name}"]
        for m, k, n in SIZES:
            a = torch.randn(m, k, device="cuda").to(getattr(torch, dtypes[name]))
            b = torch.randn(n, k, device="cuda").to(getattr(torch, dtypes[name]))
            call = _call(torch, function, a, b)
            call()  # loads the library
            result, kernels = profiled(torch, call)
            chain = gpu.multiply(instruction, *(_lines(torch, x) for x in (a, b)))
            bits = result.view(torch.int32).cpu().numpy().view(np.uint32)
            yield {
                "function": function,
                "operands": name,
                "M, K, N": f"{m}, {k}, {n}",
                "results": bits.size,
                "differ": int((bits != chain).sum()),
                "kernel": kernels,
            }


def _call(torch: Any, function: str, a: Any, b: Any) -> Any:
    if function == "torch.mm":
        return lambda: torch.mm(a, b.T, out_dtype=torch.float32)
    one = torch.ones((), device="cuda")
    fast = function.endswith("fast")
    return lambda: torch._scaled_mm(
        a, b.T, scale_a=one, scale_b=one, out_dtype=torch.float32, use_fast_accum=fast
    )


def _lines(torch: Any, x: Any) -> NDArray[np.uint8]:
    lines: NDArray[np.uint8] = x.contiguous().view(torch.uint8).cpu().numpy()
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare and print."""
    options = parser("tensor_cores.libraries", __doc__)
    chosen = options.parse_args(arguments)
    torch = import_torch()
    with tempfile.TemporaryDirectory() as directory:
        gpu = Gpu.open(Path(directory))
        title = f"products of PyTorch {torch.__version__} against a chain of steps"
        report(title, library_rows(torch, gpu), as_json=chosen.json)


if __name__ == "__main__":
    run(main)
