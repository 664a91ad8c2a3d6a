# SPDX-License-Identifier: Apache-2.0
"""The program `compare.cu` on a GPU: built with nvcc, run, its results read."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.bench.tensor_cores.operations import BYTES, Instruction
from hwgen.errors import CheckFailed, ToolMissing

SOURCE = Path(__file__).with_name("compare.cu")

ROWS, COLUMNS = 64, 8
"""Results of a tile."""

SAMPLE = np.dtype(
    [("a", "u1", (ROWS, BYTES)), ("b", "u1", (COLUMNS, BYTES)),
     ("c", "<u4", (ROWS, COLUMNS)), ("d", "<u4", (ROWS, COLUMNS))]
)  # fmt: skip
"""A step of a tile: operands, accumulators before it and after it."""

_NEEDS = (
    "this needs an NVIDIA H100 or H200 (compute capability 9.0) with its driver, and CUDA 12.3 or"
    " later with nvcc on the PATH"
)


def _output(*command: str) -> str | None:
    """Return the output of a command, None if it cannot be run or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def import_torch() -> Any:
    """Return PyTorch.

    Raises
    ------
    ToolMissing
        If it is not installed.
    """
    try:
        import torch  # only where there is a GPU
    except ImportError:
        raise ToolMissing("PyTorch was not found: pip install torch, with CUDA") from None
    return torch


def profiled(torch: Any, function: Callable[[], Any]) -> tuple[Any, str]:
    """Return the result of a function of PyTorch, and the kernels that computed it."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        result = function()
        torch.cuda.synchronize()
    events = profile.key_averages()
    return result, "; ".join(event.key for event in events if event.self_device_time_total > 0)


@dataclass(frozen=True)
class Gpu:
    """A GPU with Hopper's tensor cores, and the program for it.

    Parameters
    ----------
    name, driver, cuda : str
    program : Path
    """

    name: str
    driver: str
    cuda: str
    program: Path

    @staticmethod
    def open(directory: Path) -> Gpu:
        """Find the GPU and build the program in a directory.

        Raises
        ------
        ToolMissing
            If there is no such GPU, or no compiler for it.
        """
        query = "--query-gpu=name,driver_version,compute_cap"
        listed = _output("nvidia-smi", query, "--format=csv,noheader")
        if not listed or not listed.strip():
            raise ToolMissing(f"no NVIDIA GPU was found by nvidia-smi: {_NEEDS}")
        name, driver, capability = (part.strip() for part in listed.splitlines()[0].split(","))
        if capability != "9.0":
            raise ToolMissing(f"the GPU is {name}, compute capability {capability}: {_NEEDS}")
        nvcc = shutil.which("nvcc")
        version = _output("nvcc", "--version") if nvcc else None
        if nvcc is None or version is None:
            raise ToolMissing(f"nvcc was not found: {_NEEDS}")
        program = directory / "compare"
        architecture = "-gencode=arch=compute_90a,code=sm_90a"
        command = [nvcc, "-O3", "-std=c++17", architecture, "-o", str(program), str(SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ToolMissing(f"nvcc does not compile {SOURCE.name}: {done.stderr.strip()[-800:]}")
        release = version.partition("release ")[2].partition(",")[0]
        return Gpu(name, driver, release, program)

    def _run(self, instruction: Instruction, arguments: Mapping[str, Any]) -> str:
        words = [f"{key}={value}" for key, value in arguments.items()]
        command = [str(self.program), f"operation={instruction.operation}", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CheckFailed(f"{' '.join(command)}: {done.stderr.strip()[-400:]}")
        return done.stdout

    def compare(self, instruction: Instruction, **arguments: Any) -> dict[str, Any]:
        """Compare an instruction with a rule; arguments are those of the program."""
        document: dict[str, Any] = json.loads(self._run(instruction, arguments))
        return document

    def samples(self, instruction: Instruction, steps: int, seed: int) -> NDArray[Any]:
        """Return the steps of one tile of each distribution, chained, see `SAMPLE`."""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "samples"
            tiles = 64
            self.compare(instruction, tiles=tiles, samples=tiles, steps=steps, seed=seed, save=path)
            return np.fromfile(path, SAMPLE).reshape(tiles, steps)

    def multiply(
        self, instruction: Instruction, a: NDArray[np.uint8], b: NDArray[np.uint8]
    ) -> NDArray[np.uint32]:
        """Return the products of rows of A and columns of B by a plain chain of steps.

        Rows are filled up to a multiple of 64, columns of 8.
        """
        m, n = len(a), len(b)
        padded = [
            np.pad(lines, ((0, -len(lines) % unit), (0, 0)))
            for lines, unit in ((a, ROWS), (b, COLUMNS))
        ]
        with tempfile.TemporaryDirectory() as directory:
            operands, results = Path(directory) / "operands", Path(directory) / "results"
            operands.write_bytes(b"".join(lines.tobytes() for lines in padded))
            sizes = {"m": len(padded[0]), "n": len(padded[1]), "k": a.shape[1]}
            self._run(instruction, {"operands": operands, "save": results, **sizes})
            whole = np.fromfile(results, np.uint32).reshape(sizes["m"], sizes["n"])
            return whole[:m, :n]
