# SPDX-License-Identifier: Apache-2.0
"""Engines around cores with stream ports: memory to memory, errors, jobs that do not agree."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flows.build.build import Build
from flows.build.load import load_config
from flows.simulation.bench_jobs import draw_job
from flows.simulation.cases import JobSpec
from flows.simulation.command_lists import Image
from flows.simulation.placed_operations import place_operation
from flows.simulation.run import run_job
from hwgen.core.registry import core_of
from hwgen.errors import InputError
from hwgen.families.stream_engine.cycles import placed
from hwgen.families.stream_engine.jobs import RowRegion, StreamJob
from hwgen.families.stream_engine.params import StreamEngineConfig
from sim_tests.contract.contract import Contract, Mutations, Regressions
from sim_tests.support.designs import design_of
from sim_tests.support.mutations import Mutation
from sim_tests.support.paths import ROOT
from sim_tests.support.selection import commit_seed

VECTOR: dict[str, Any] = {
    "name": "rows",
    "family": "stream_engine",
    "compute": {
        "family": "vector",
        "input": "int16",
        "output": "int8",
        "array": {"operations": ["add", "quantise"], "lanes": 4, "longest_row": 16},
    },
    "queue": 2,
    "buffers": {"port_beats": 8},
    "memory": {"data_width": 32, "max_burst": 4, "outstanding": 2, "address_width": 32},
}
EVERY: dict[str, Any] = {
    **VECTOR,
    "name": "every",
    "compute": {
        "family": "vector",
        "input": "bf16",
        "output": "int16",
        "array": {
            "operations": ["softmax", "rms_norm", "layer_norm", "rope", "gated", "add",
                           "quantise", "dequantise", "argmax"],
            "lanes": 4,
            "longest_row": 64,
        },
    },
    "memory": {"data_width": 128, "max_burst": 4, "outstanding": 4, "registered": True},
}  # fmt: skip
ATTENTION: dict[str, Any] = {
    "name": "heads",
    "family": "stream_engine",
    "compute": {
        "family": "attention",
        "head": 6,
        "max_keys": 64,
        "array": {"rows": 3, "lanes": 2},
        "softmax": {"weight_bits": 10},
    },
    "buffers": {"port_beats": 16},
    "memory": {"data_width": 64, "max_burst": 8, "outstanding": 4},
}
PAGED: dict[str, Any] = {
    **ATTENTION,
    "name": "paged",
    "paged": ["key", "value", "key_scale", "value_scale"],
    "memory": {"data_width": 128, "max_burst": 4, "outstanding": 4},
}
CACHED: dict[str, Any] = {
    "name": "cached",
    "family": "stream_engine",
    "compute": {"family": "attention", "head": 64, "max_keys": 512,
                "array": {"rows": 3, "lanes": 16}},
    "paged": PAGED["paged"],
    "memory": {"data_width": 256, "max_burst": 16, "outstanding": 4},
}  # fmt: skip
CASES = ("add_shapes", "quantise_shapes", "stalls_1", "reset_0", "abort_1", "read_error_0",
         "write_error_1", "mismatch_0", "mismatch_1")  # fmt: skip


def config_of(values: dict[str, Any]) -> StreamEngineConfig:
    return StreamEngineConfig.model_validate(values)


"""Cases of errors and of jobs that do not agree with the core."""

PAGES = ("attention_shapes", "stalls_0", "read_error_1", "mismatch_0")
"""Pages of any size in any order, that begin and end anywhere; some ports without."""


@pytest.mark.parametrize("values", [EVERY, ATTENTION, PAGED], ids=lambda v: v["name"])
def test_jobs_compute_their_operations(values: dict[str, Any]) -> None:
    config, rng = config_of(values), np.random.default_rng(3)
    for operation in config.operations:
        sizes = tuple((size.name, min(size.most, 2 * size.natural)) for size in operation.sizes)
        for odd in (False, True):
            spec = JobSpec(operation.name, sizes)
            bench = draw_job(core_of(config.compute), spec, rng)
            placed, end = place_operation(
                config, operation, bench.operands, bench.job.scalars, rng=rng if odd else None
            )
            memory = Image(bytearray(end))
            for job in placed.jobs:
                for address, content in job.images():
                    memory.write(address, content)
            for job in placed.jobs:
                job.perform(memory)
            placed.check(memory.read)


def test_jobs_that_do_not_fit_their_registers_are_refused() -> None:
    config = config_of(VECTOR)
    commands = {"cmd": bytes(20)}
    for place, message in (
        (RowRegion(0xFFFF_FFF0, 32), "beyond the 32 bits"),
        (RowRegion(0, 0), "x.row_bytes: must be 1"),
        (RowRegion(0, 4, rows=1 << 24), "x.rows: must be"),
        (RowRegion(0, 4, rows=2, stride=-1), "x.stride: must be"),
    ):
        with pytest.raises(InputError, match=message):
            StreamJob(config, commands, {"x": place, "out": RowRegion(0, 4)})


def test_pages_that_hardware_would_not_find_are_refused() -> None:
    config, key = config_of(PAGED), RowRegion.paged(0x1000, 32, (0, 64), 0x2000)
    ends = {"query": RowRegion(0, 6), "out": RowRegion(0, 4)}
    for change, message in (
        ({"pages": (0, 65)}, "key.pages: must lie multiples of 16 bytes"),
        ({"pages": (0,)}, "key.blocks: must be the number of pages"),
        ({"skip": 32}, "cannot be read from byte 32 of the first"),
        ({"last": 33}, "to byte 33 of the last"),
        ({"last": 31}, "key.last: must be a multiple of a beat"),
        ({"table": 0x2002}, "key.table: must be a multiple of 4"),
    ):
        with pytest.raises(InputError, match=message):
            StreamJob(config, {"command": bytes(24)}, {**ends, "key": replace(key, **change)})
    with pytest.raises(InputError, match="query: its rows cannot lie in pages"):
        StreamJob(config, {"command": bytes(24)}, {**ends, "query": key})
    unpaged = StreamJob(config, {"command": bytes(24)}, {**ends, "key": key}).register_values()
    assert (unpaged["KEY_TABLE_LOW"], unpaged["KEY_LAST"], unpaged["VALUE_TABLE_LOW"]) == (
        0x2000,
        32,
        0,
    )


def test_files_name_the_registers_of_all_ports() -> None:
    files = Build(design_of(config_of(VECTOR))).files
    header, page = files["rows_regs.h"], files["rows_registers.md"]
    for name in ("X_ADDRESS_LOW", "Y_STRIDE", "OUT_STEP", "TAIL_BYTES", "CMD_4", "JOB_FLAGS"):
        assert f"#define ROWS_{name} " in header
        assert f"`{name}`" in page
    assert "#define ROWS_JOB_MISMATCH 6" in header


def test_beats_of_a_job_are_those_of_its_rows_where_they_lie() -> None:
    """Beats that rows touch, and bursts that end at multiples of the longest one."""
    config = StreamEngineConfig.model_validate(VECTOR)
    width, rng = config.memory_bytes, np.random.default_rng(11)
    piece = width * config.longest_burst
    for _ in range(200):
        size, rows, blocks, at = (int(rng.integers(low, 70)) for low in (1, 1, 1, 0))
        stride, step = (int(rng.integers(0, 200)) * int(rng.choice((1, 4, 16))) for _ in range(2))
        held = {"X_ADDRESS_LOW": at, "X_BYTES": size, "X_ROWS": rows, "X_BLOCKS": blocks,
                "X_STRIDE": stride, "X_STEP": step}  # fmt: skip
        places = itertools.product(range(blocks), range(rows))
        starts = [at + block * step + row * stride for block, row in places]
        bursts = [
            (max(first, cut), min(first + size, cut + piece))
            for first in starts
            for cut in range(first // piece * piece, first + size, piece)
        ]
        beats = sum(-(-end // width) - start // width for start, end in bursts)
        assert placed(config, held, "X") == (beats, len(bursts))


def test_beats_of_pages_are_those_where_they_lie() -> None:
    config = config_of(PAGED)
    width, rng = config.memory_bytes, np.random.default_rng(5)
    piece = width * config.longest_burst
    for _ in range(200):
        page, count = 2 * int(rng.integers(1, 99)), int(rng.integers(1, 9))
        skip = 2 * int(rng.integers(page // 2))
        least = skip if count == 1 else 0
        last = least + 2 * int(rng.integers(1, 1 + (page - least) // 2))
        pages = [width * int(place) for place in rng.integers(0, 99, count)]
        at, table = int(rng.integers(99)), 4 * int(rng.integers(1, 99))
        place = RowRegion.paged(at, page, pages, table, skip=skip, last=last)
        job = StreamJob(config, {"command": bytes(24)}, {"key": place, "out": RowRegion(0, 4)})
        spans = [*place.spans(), (table, 4 * count)]
        beats = sum(-(-(start + size) // width) - start // width for start, size in spans)
        bursts = sum(-(-(start + size) // piece) - start // piece for start, size in spans[:-1])
        bursts += -(-(table + 4 * count) // width) - table // width
        result = placed(config, job.register_values(), "KEY")
        assert result[0] == beats
        assert bursts <= result[1] <= bursts + count


@pytest.mark.long
def test_cycles_of_long_rows_are_those_of_core_or_memory() -> None:
    config: Any = load_config(ROOT / "configs" / "stream_engine.yaml")
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((48, 512)).astype(config.compute.input.dtype) for _ in range(2))
    for name, operands, most in (
        ("softmax", {"x": x}, 1.02),
        ("add", {"x": x, "y": y}, 1.02),
    ):
        job = core_of(config).job(operands, operation=name)
        result = run_job(design_of(config), job, operands)
        assert result.model is not None
        assert result.model.least is not None
        assert result.model.least <= result.cycles <= most * result.model.number


@pytest.mark.long
def test_pages_of_a_cache_cost_few_cycles() -> None:
    """Decoding with 512 keys of 64 elements, in pages of 16 keys and in a row."""
    config = config_of(CACHED)
    spec = JobSpec("attention", (("kv_heads", 2), ("group", 3), ("queries", 1), ("keys", 512),
                                 ("elements", 64)))  # fmt: skip
    bench = draw_job(core_of(config.compute), spec, np.random.default_rng(1))
    result = [
        run_job(design_of(config), bench.job, bench.operands, pages=pages, timeout=300)
        for pages in (0, 32)
    ]
    assert np.array_equal(result[0].results["output"], result[1].results["output"])
    assert result[1].cycles <= 1.02 * result[0].cycles


MUTATIONS = (
    Mutation("a row's second beat begins it anew", "stream_drain", r"midway <= _\w+_;",
             "midway <= 1'h0;", VECTOR),
    Mutation("blocks do not move", "row_walk_32_16", r"block_address \+ region_step",
             "block_address", VECTOR),
    Mutation("what follows a row goes to the row", "stream_drain",
             r"second <= _\w+_;", "second <= 1'h0;", VECTOR),
)  # fmt: skip


OF_PAGES = (
    Mutation("pages follow each other", "row_walk_40_64_pages_of_16",
             r"region_address \+ \{ entry_data, 4'h0 \}", "region_address + 36'h0", PAGED),
    Mutation("the last page is read whole", "row_walk_40_64_pages_of_16",
             r"job_block_ends \? last : region_bytes", "region_bytes", PAGED),
    Mutation("every page is skipped into", "row_walk_40_64_pages_of_16",
             r"first_page <= 1'h0", "first_page <= 1'h1", PAGED),
)  # fmt: skip


CONTRACT = Contract(
    "stream_engine",
    "stream_engine",
    small=(config_of(VECTOR),),
    regressions=(
        Regressions([config_of(VECTOR)], cases=CASES, seed=0),
        Regressions([config_of(PAGED)], cases=PAGES, seed=commit_seed() % 1000, every=9),
        *(
            Regressions(
                [config_of(values) for values in (VECTOR, EVERY, ATTENTION, PAGED)],
                seed=seed,
                long=True,
            )
            for seed in (0, 1)
        ),
    ),
    mutations=(
        Mutations(StreamEngineConfig, CASES[:4], MUTATIONS, long=True),
        Mutations(StreamEngineConfig, PAGES[:2], OF_PAGES, long=True),
    ),
    refused=[
        (json.dumps({**VECTOR, **change}), message)
        for change, message in (
            ({"buffers": {"port_beats": 4}}, "buffers.port_beats: must hold two bursts"),
            (
                {"compute": {"family": "systolic"}},
                "must have a family inside this engine: attention",
            ),
            ({"compute": {"family": "vector", "name": "x"}}, "name: belongs to the engine"),
            ({"compute": {"family": "vector", "lanes": 3}}, "compute.lanes"),
            ({"paged": ["z"]}, "paged: must be among the input ports .*, not 'z'"),
            ({"paged": ["x", "x"]}, "paged: must name each port once"),
        )
    ],
)
