# SPDX-License-Identifier: Apache-2.0
"""The golden model of tensor cores against results of an H100, and against changed rules."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from flows.bench.tensor_cores.changed_rules import CHANGES, changed_model
from flows.bench.tensor_cores.gpu import Gpu
from flows.bench.tensor_cores.operations import (
    OPERATIONS,
    by_operation,
    golden,
    instructions,
    mutations,
)
from flows.bench.tensor_cores.subset import digests
from flows.bench.tensor_cores.vectors import (
    DIGESTS,
    Measured,
    digest_of,
    drawn_product,
    measured_vectors,
    read_checked,
    vectors_directory,
)
from hwgen.core.golden import blocks
from hwgen.errors import InputError, ToolMissing
from hwgen.formats.block.accumulator import TENSOR_CORES, BlockAccumulator
from sim_tests.support.paths import ROOT
from sim_tests.support.tensor_cores import SUBSET, measured

VECTORS = vectors_directory()


def differences(vectors: Iterable[Measured], model: ModuleType = blocks) -> int:
    """Return the number of results that differ from a golden model."""
    return sum(
        int((golden(vector.instruction, vector.a, vector.b, vector.c, model=model)
             != vector.d).sum())
        for vector in vectors
    )  # fmt: skip


def all_measured() -> list[Measured]:
    """Return the results of all operations."""
    return list(chain.from_iterable(measured().values()))


def test_the_golden_model_has_the_results_of_an_h100() -> None:
    assert measured().keys() == set(OPERATIONS)
    vectors = all_measured()
    assert sum(vector.d.size for vector in vectors) > 3500
    assert differences(vectors) == 0


def test_the_subset_has_every_sort_of_result() -> None:
    results = {
        name: np.concatenate([vector.d.reshape(-1) for vector in vectors])
        for name, vectors in measured().items()
    }
    for name, d in results.items():
        if "int8" not in name:
            assert (d == 0x7FFFFFFF).any(), name
            assert (d == 0).any(), name
        if "e4m3_e4m3" not in name and "int8" not in name:
            assert (d & 0x7FFFFFFF == 0x7F800000).any(), name
        assert not (("int8" not in name) & (d == 0x80000000)).any(), name
    subnormal = results["mma_bf16"] & 0x7FFFFFFF
    assert ((subnormal > 0) & (subnormal < 0x800000)).any()


@pytest.mark.parametrize("operation", sorted(digests(SUBSET)))
def test_products_of_seeds_have_the_digests_of_an_h100(operation: str) -> None:
    instruction = by_operation()[operation]
    a, b = drawn_product(instruction)
    assert digest_of(golden(instruction, a, b)) == digests(SUBSET)[operation]


@pytest.mark.skipif(not VECTORS.is_dir(), reason="HWGEN_VECTORS_DIR")
def test_the_golden_model_has_all_shared_results() -> None:
    vectors = list(measured_vectors(VECTORS))
    assert sum(vector.d.size for vector in vectors) == 2 * 51_200 + 18 * 4096
    assert differences(vectors) == 0


# -- changed rules -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_rule_is_detected(name: str) -> None:
    assert differences(all_measured(), changed_model(name)) > 0


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if "int8" not in name])
def test_other_accumulators_have_other_results(operation: str) -> None:
    vectors, instruction = measured()[operation], by_operation()[operation]
    own = instruction.accumulator
    assert own is not None
    short = own.result_bits < 23
    for name in ("aligned(13)", "aligned(24)", "aligned(25, 13)", "aligned(26)"):
        other = BlockAccumulator.named(name)
        if (other.fraction_bits, other.result_bits) == (own.fraction_bits, own.result_bits):
            continue
        count = 0
        for v in vectors:
            count += int((golden(instruction, v.a, v.b, v.c, accumulator=other) != v.d).sum())
        assert count > (100 if short else 10), name


def test_wgmma_has_the_rule_of_its_formats() -> None:
    hopper = TENSOR_CORES["hopper"]
    assert hopper.accumulator("fp8_e4m3", "fp8_e5m2") == BlockAccumulator(
        "aligned", 13, 13, -133, "hopper"
    )
    assert hopper.accumulator("int8", "uint8") is None
    assert hopper.step("fp16", "bf16") is None
    # Every rule of an instruction has others that the comparison on a GPU must tell from it.
    assert all(list(mutations(instruction)) for instruction in instructions())


# -- bad input ---------------------------------------------------------------------------------


def test_vectors_of_another_version_are_refused(tmp_path: Path) -> None:
    name = "hopper/fp16.bin"
    with pytest.raises(InputError, match=r"fp16\.bin: .*; set HWGEN_VECTORS_DIR"):
        read_checked(tmp_path, name)
    (tmp_path / "hopper").mkdir()
    (tmp_path / name).write_bytes(bytes(100))
    with pytest.raises(InputError, match=f"SHA-256 is .* instead of {DIGESTS[name][:16]}.*716,800"):
        list(measured_vectors(tmp_path))
    (tmp_path / name).write_bytes(bytes(716_800))
    with pytest.raises(InputError, match=r"is not the version .* is [0-9a-f]{16}\.\.\. instead"):
        list(measured_vectors(tmp_path))


def test_without_a_gpu_it_says_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program(name: str, text: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match=r"no NVIDIA GPU .*an NVIDIA H100 or H200 .*nvcc"):
        Gpu.open(tmp_path)
    program("nvidia-smi", "echo 'NVIDIA A100, 550.1, 8.0'")
    with pytest.raises(ToolMissing, match=r"the GPU is NVIDIA A100, compute capability 8\.0"):
        Gpu.open(tmp_path)
    program("nvidia-smi", "echo 'NVIDIA H100, 550.1, 9.0'")
    with pytest.raises(ToolMissing, match="nvcc was not found: this needs"):
        Gpu.open(tmp_path)


@pytest.mark.parametrize("module", ["compare", "libraries", "published"])
def test_the_commands_end_with_status_3(module: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"flows.bench.tensor_cores.{module}"],
        cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert re.search("not found|no NVIDIA GPU|pip install", done.stderr)
