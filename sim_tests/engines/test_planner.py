# SPDX-License-Identifier: Apache-2.0
"""The choice of blocks: as good as any, and the same in the generated C driver."""

from __future__ import annotations

import ctypes
import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.drivers.engine_drivers import gemm_driver
from flows.build.load import parse_config
from hwgen.core.post import RECORD_BYTES
from hwgen.families.gemm_stream.blocks import HIGHEST, TOLERANCE, limits_of
from hwgen.families.gemm_stream.core import GemmStreamCore
from hwgen.families.gemm_stream.params import GemmStreamConfig
from hwgen.families.gemm_stream.schedule import MAX_SIZE, Plan
from sim_tests.emission import test_driver
from sim_tests.emission.test_driver import (
    BLOCKS,
    CODE,
    CONFIGS,
    Blocks,
    compiled_driver,
    job_structure,
    post_structure,
)
from sim_tests.engines.test_gemm_stream import ENGINES, HEAD

# Buffers that hold many tiles, and reductions so long that traffic saturates.
LARGE = (
    "compute: {family: systolic, max_k: 16777215, array: {rows: 2, cols: 2,"
    " dataflow: weight_stationary}}\n"
    "buffers: {activation_kib: 16, weight_kib: 16, output_kib: 16}\n"
)
# Column records that bound blocks before the other buffers do.
RECORDS = (
    "compute: {family: systolic, array: {rows: 4, cols: 4, dataflow: weight_stationary}}\n"
    "buffers: {activation_kib: 8, weight_kib: 16, output_kib: 32, column_kib: 1}\n"
)
TEXTS = {**ENGINES, "large": LARGE, "records": RECORDS}


def engines() -> dict[str, GemmStreamConfig]:
    """Return configurations by name: all shapes of engines."""
    result: dict[str, Any] = {name: parse_config(HEAD + text) for name, text in TEXTS.items()}
    for values in CONFIGS:
        result[values["name"]] = GemmStreamConfig.model_validate(values)
    return result


def sizes(config: GemmStreamConfig, rng: np.random.Generator, count: int) -> Iterator[list[int]]:
    """Yield M, K and N: corners, a tile more or less, and random ones of all magnitudes."""
    most = (MAX_SIZE, min(config.max_k, MAX_SIZE), MAX_SIZE)
    lanes = (config.m_lanes, config.k_lanes, config.n_lanes)
    yield list(most)
    for corner in itertools.product((-1, 0, 1), repeat=3):
        yield [
            min(max(1, 8 * lane + step), high)
            for lane, step, high in zip(lanes, corner, most, strict=True)
        ]
    for _ in range(count):
        top = rng.choice((6, 10, 14), p=(0.5, 0.4, 0.1))
        yield [int(min(2.0 ** rng.uniform(0, top), high)) for high in most]


def differences(config: GemmStreamConfig, library: ctypes.CDLL, count: int) -> Iterator[Any]:
    """Yield the products that C and Python cut differently."""
    job_type = job_structure(config, post_structure(config))
    plan_in_c = getattr(library, f"{config.name}_plan")
    rng = np.random.default_rng(1)
    for m, k, n in sizes(config, rng, count):
        columns, size = int(rng.integers(2)) * config.post.columns, int(rng.integers(4))
        least = int(rng.integers(2))
        plan = Plan(
            config, m, k, n, record_bytes=RECORD_BYTES * columns, result_bytes=1 << size,
            least_traffic=bool(least),
        )  # fmt: skip
        job, blocks = job_type(m=m, k=k, n=n, least_traffic=least), Blocks()
        if len(config.formats) > 1:
            job.format = config.format_number
        output = 0 if "raw" in config.post.outputs else 1
        job.post = type(job.post)(columns=columns, size=size, kind=output)
        assert plan_in_c(ctypes.byref(job), ctypes.byref(blocks)) == CODE["OK"]
        chosen = tuple(int(getattr(blocks, name)) for name in BLOCKS)
        if chosen != (*plan.block, plan.m_inner, plan.a_whole, plan.w_whole):
            yield m, k, n, columns, size, least, chosen


@pytest.fixture
def compiler() -> str:
    result = shutil.which("cc")
    if result is None:
        pytest.skip("no C compiler is installed")
    return result


@pytest.mark.parametrize("name", engines())
@pytest.mark.rotate(9)
def test_the_driver_plans_as_python_does(name: str, compiler: str, tmp_path: Path) -> None:
    config = engines()[name]
    assert not list(differences(config, compiled_driver(config, compiler, tmp_path), 300))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("found.n == 1u ? 1u : found.m", "found.m"),
        ("least / TOLERANCE", "least / 40"),
        ("block + block / FINEST", "block + 1u"),
        ("smaller(MOST_N, RECORD_TILES)", "(uint32_t)MOST_N"),
        ("cost > best->cost ||", "cost >= best->cost ||"),
        ("plus(traffic, row.p * count.m)", "traffic"),
        ("everything / OTHER_PORTS", "0u"),
        ("store / ((uint64_t)count.m * count.n)", "store"),
        ("WHOLE_K != 0 && most_k == all.k ? 1u : (uint32_t)PARTS", "1u"),
        ("2u * MEMORY_BYTES - aligned", "MEMORY_BYTES"),
        ("how.w_whole = whole >> 1", "how.w_whole = 0"),
    ],
)
@pytest.mark.rotate(6)
def test_other_plans_are_noticed(
    old: str, new: str, compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = engines()["records"]
    files = gemm_driver(GemmStreamCore(config))
    source = f"{config.name}_driver.c"
    assert files[source].count(old) == 1
    files[source] = files[source].replace(old, new)
    monkeypatch.setattr(test_driver, "gemm_driver", lambda _: files)
    assert next(differences(config, compiled_driver(config, compiler, tmp_path), 300), None)


def test_the_driver_needs_no_library() -> None:
    for config in engines().values():
        for text in gemm_driver(GemmStreamCore(config)).values():
            assert not {"float", "double", "malloc", "alloca"} & set(text.split())
            assert text.count("#include <") <= 1


def test_huge_products_saturate() -> None:
    config = engines()["large"]
    extent = Plan(config, MAX_SIZE, MAX_SIZE, MAX_SIZE).extent
    assert extent.a * extent.n > HIGHEST
    assert Plan(config, MAX_SIZE, MAX_SIZE, MAX_SIZE).block


@pytest.mark.parametrize("name", ENGINES)
def test_no_other_blocks_move_much_less(name: str) -> None:
    """Against all blocks of all sizes, not only those that cut evenly."""
    config = engines()[name]
    limits, rng = limits_of(config), np.random.default_rng(2)
    for m, k, n in ([int(x) for x in 2 ** rng.uniform(0, 7, 3)] for _ in range(15)):
        plan = Plan(config, m, min(k, config.max_k), n)
        all_, least = plan.extent, HIGHEST
        for mb, nb in itertools.product(range(1, all_.m + 1), range(1, all_.n + 1)):
            words = config.weight_words(1, nb)
            kb = min(config.act_depth // mb * config.act_beats, config.wgt_depth // words, all_.k)
            fits = mb * config.m_lanes * nb <= config.out_depth
            if not fits or kb == 0 or mb > limits.most_m or nb > limits.most_n:
                continue
            ms, ks, ns = -(-all_.m // mb), -(-all_.k // kb), -(-all_.n // nb)
            # Either all blocks of A are read for each column of blocks, or all of W for each row.
            once = ks == 1
            least = min(
                least,
                all_.a * (1 if once else ns) + all_.w * (1 if once and ns == 1 else ms),
                all_.a * (1 if once and ms == 1 else ns) + all_.w * (1 if once else ms),
            )
        moved = plan.traffic.activations + plan.traffic.weights
        assert moved <= least + least // TOLERANCE
