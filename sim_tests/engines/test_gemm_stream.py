# SPDX-License-Identifier: Apache-2.0
"""The GEMM streaming family: plans, memory images, and engines in simulation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flows.build.load import load_config, parse_config
from flows.build.verilog import to_verilog
from flows.simulation.bus.job_host import JobHost, open_engine
from flows.simulation.cases import pairwise
from flows.simulation.operands import PATTERNS, draw_matrices
from flows.simulation.placed_products import place
from flows.simulation.runner import compile_design, simulate
from flows.simulation.verilator.verilator import FEW_CYCLES
from hwgen.core.post import PostSettings
from hwgen.core.registry import core_of
from hwgen.errors import InputError
from hwgen.families.gemm_stream.blocks import TOLERANCE
from hwgen.families.gemm_stream.cycles.job import job_cycles
from hwgen.families.gemm_stream.cycles.job import job_cycles as plan_cycles
from hwgen.families.gemm_stream.cycles.steps import Regions
from hwgen.families.gemm_stream.params import GemmStreamConfig
from hwgen.families.gemm_stream.schedule import MAX_SIZE, Job, Plan
from rtl_templates.hdl.generators import generate
from sim_tests.contract.contract import Contract, Mutations, Regressions
from sim_tests.support.designs import design_of
from sim_tests.support.engine_jobs import check_cycles, check_results, drawn_job
from sim_tests.support.mutations import Mutation
from sim_tests.support.paths import ROOT

SHIPPED = ROOT / "configs" / "gemm_stream.yaml"

HEAD = "name: engine\nfamily: gemm_stream\n"
SMALL = "buffers: {activation_kib: 1, weight_kib: 1, output_kib: 1, column_kib: 1}\n"
WS = "compute: {family: systolic, array: {rows: 4, cols: 4, dataflow: weight_stationary}}\n"
OS = (
    "compute: {family: systolic, activation: int12, weight: uint5, max_k: 500,"
    " array: {rows: 3, cols: 5}}\n"
)
LUT = (
    "compute: {family: ternary_lut,"
    " array: {group_size: 2, tables: 3, fetch_ports: 4, accumulator_depth: 8}}\n"
)
W2 = (
    "compute: {family: ternary_lut, weight: int2,"
    " array: {group_size: 3, tables: 2, fetch_ports: 4, accumulator_depth: 8}}\n"
)
CUBE = (
    "compute: {family: cube, activation: uint7, weight: int9,"
    " array: {rows: 3, cols: 1, depth: 2, pe: carry_save}, pipeline: {final_adder: 2}}\n"
)
TREE = "compute: {family: adder_tree, weight: int4, array: {cols: 4, depth: 8}}\n"
ALL_POST = (
    "post: {outputs: [raw, int4, int8, uint8, int16, int32, fp32, fp16],"
    " activations: [none, relu, leaky], roundings: [half_even, half_away, floor], max_lanes: 2}\n"
)
ENGINES = {
    "ws": WS + SMALL + "memory: {data_width: 64}\n",
    "os_cascade": OS
    + SMALL
    + "array: {cascade: 3, blocks: 2}\n"
    + "memory: {data_width: 32, address_width: 48, max_burst: 4, outstanding: 2}\n",
    "lut_post": LUT + SMALL + "queue: 8\nmemory: {data_width: 64, address_width: 64}\n" + ALL_POST,
    "w2_blocks": W2
    + SMALL
    + "array: {cascade: 2, blocks: 2}\nmemory: {max_burst: 1, outstanding: 1}\n"
    + "post: {columns: false}\n",
    "lut_wide": LUT + SMALL + "queue: 2\nmemory: {data_width: 512}\narray: {blocks: 2}\n",
    "cube": CUBE + SMALL + "array: {cascade: 2, blocks: 2}\nmemory: {data_width: 128}\n",
    "tree": TREE + SMALL + "memory: {data_width: 256, registered: true}\n",
    # Half of the result buffer holds one beat.
    "one_beat": (
        "compute: {family: broadcast_2d, activation: int4, weight: int4, accumulator: int64,"
        " array: {rows: 1, cols: 60}}\n"
        "buffers: {activation_kib: 1, weight_kib: 16, output_kib: 1}\nmemory: {data_width: 32}\n"
    ),
    "ws_narrow": WS + SMALL + "array: {cascade: 2, blocks: 3}\nmemory: {data_width: 32}\n",
}


@cache
def config_of(name: str) -> Any:
    return parse_config(HEAD.replace("engine", name) + ENGINES[name])


def opened(name: str, *, many: bool = False, **memory: Any) -> JobHost:
    """Return the host of one of `ENGINES`, compiled to run soon or for `many` cycles."""
    cycles = None if many else FEW_CYCLES
    return open_engine(design_of(config_of(name)), cycles=cycles, **memory)


# -- configuration -------------------------------------------------------------------------------

REFUSED = (
    (
        "compute: {family: systolic, array: {dataflow: input_stationary}}",
        (
            r"3:\d+: compute\.array\.dataflow: must be output_stationary or weight_stationary in a"
            r" memory engine.*"
        ),
    ),
    (
        "compute: {family: systolic, array: {rows: 0}}",
        r"3:\d+: compute\.array\.rows: must be 1\.\.256, not 0",
    ),
    (
        "compute: {family: systolic, array: {rowz: 2}}",
        r"3:\d+: compute\.array\.rowz: unknown key \(did you mean 'rows'\?\); legal here: rows, .*",
    ),
    (
        "compute: {family: gemm_stream}",
        r"3:\d+: compute: must have a family inside an engine: .*systolic or ternary_lut",
    ),
    ("compute: 3", r"3:\d+: compute: must hold the parameters of a core"),
    (
        "compute: {family: systolic, name: x}",
        r"3:\d+: compute\.name: belongs to the engine; remove it here",
    ),
    (
        (
            "compute: {family: systolic, overflow: saturate, accumulator: int16, array:"
            " {dataflow: weight_stationary}}"
        ),
        r"3:\d+: compute\.overflow: must be wrap in an engine.*",
    ),
    (
        "compute: {family: ternary_lut, activation: fp16}",
        r"3:\d+: compute\.activation: must be an integer format in a memory engine, not fp16.*",
    ),
    (
        (
            "compute: {family: systolic, array: {rows: 64, dataflow: output_stationary}}\n"
            "buffers: {activation_kib: 1}"
        ),
        r"4:\d+: buffers\.activation_kib: must hold two blocks of at least one tile; raise it",
    ),
    (
        "memory: {data_width: 48}",
        r"3:\d+: memory\.data_width: must be 32, 64, 128, 256 or 512, not 48",
    ),
)


# -- plans ---------------------------------------------------------------------------------------

SIZES = st.tuples(st.integers(1, 300), st.integers(1, 500), st.integers(1, 300))


@given(
    name=st.sampled_from(sorted(ENGINES)), size=SIZES, records=st.booleans(), least=st.booleans()
)
@example(name="ws", size=(121, 12, 296), records=False, least=True)
@settings(max_examples=120)
def test_plans_cover_the_product_and_fit_the_buffers(
    name: str, size: tuple[int, int, int], records: bool, least: bool
) -> None:
    config = config_of(name)
    plan = Plan(config, *size, record_bytes=16 if records else 0, least_traffic=least)
    m, k, n = plan.block_tiles
    rows = m if config.m_lanes == 1 else 1
    assert (m if rows == 1 else rows) * config.row_words(k) <= config.act_depth * (1 + plan.a_whole)
    assert config.weight_words(k, n) <= config.wgt_depth * (1 + plan.w_whole)
    assert m * config.m_lanes * n <= config.out_depth
    steps = list(plan.steps())
    assert sum(step.m * step.k * step.n for step in steps) == plan.macs
    # Traffic is what the steps load.
    traffic = plan.traffic
    assert traffic.activations == sum(
        step.m * step.k * config.activation_bytes for step in steps if step.loads_a
    )
    rows_of = (lambda step: step.k_tiles) if config.loop_nest.image else (lambda step: step.k)
    row = config.weight_beat * config.loop_nest.weight_beats
    width = (
        (lambda step: step.n_tiles * row)
        if config.loop_nest.image
        else (lambda step: step.n * config.weight_bytes)
    )
    assert traffic.weights == sum(rows_of(step) * width(step) for step in steps if step.loads_w)
    assert traffic.total >= traffic.compulsory
    assert traffic.total >= traffic.bound
    if not least:
        assert not plan.a_whole
        assert not plan.w_whole
        fewest = Plan(config, *size, record_bytes=plan.record_bytes, least_traffic=True)
        assert fewest.traffic.total <= traffic.total + traffic.total // TOLERANCE


def test_the_registers_alone_hold_the_sizes() -> None:
    config = config_of("ws")
    text = design_of(config).verilog
    for size in ((1, 1, 1), (100, 200, 300)):
        assert Plan(config, *size).block
    again = generate(core_of(config))
    assert to_verilog(again, config.name) == text


@given(name=st.sampled_from(sorted(ENGINES)), size=SIZES, seed=st.integers(0, 1 << 30))
@settings(max_examples=40)
def test_weights_come_back(name: str, size: tuple[int, int, int], seed: int) -> None:
    config = config_of(name)
    plan = Plan(config, *size)
    _, w = draw_matrices(config, size, "random", np.random.default_rng(seed))
    image = plan.pack_weights(w)
    assert image.shape == (plan.weight_image_rows, plan.weight_row_bytes)
    assert (plan.unpack_weights(image.reshape(-1)) == w).all()


def test_impossible_jobs_are_refused() -> None:
    config = config_of("ws")
    plan = Plan(config, 3, 4, 5)
    with pytest.raises(InputError, match=r"c_stride: must be at least the 20 bytes of a row"):
        Job(plan, 0, 64, 128, c_stride=19)
    with pytest.raises(InputError, match=r"w_address: W would end at .*, beyond the 40 bits"):
        Job(plan, 0, (1 << 40) - 3, 128)
    with pytest.raises(InputError, match=r"output: this hardware has raw, int8, not fp16"):
        Job(plan, 0, 64, 128, settings=PostSettings("fp16"))
    with pytest.raises(InputError, match=rf"N must be at most {MAX_SIZE}"):
        Plan(config, 1, 1, MAX_SIZE + 1)
    with pytest.raises(InputError, match=r"K = 501 exceeds max_k = 500"):
        Plan(config_of("os_cascade"), 1, 501, 1)


# -- simulation: cocotb, every channel stalled, errors, aborts, resets ----------------------------


@pytest.mark.slow
def test_another_model_of_memory(tmp_path: Path) -> None:
    plan = {"seed": 4, "sizes": [(9, 20, 13), (1, 33, 7), (17, 5, 40)], "pauses": [0, 0.5]}
    config = config_of("ws")
    built = compile_design(design_of(config))
    outcomes = simulate(config, built, "sim_tests.engines.cocotb_axi_ram", plan, tmp_path)
    assert [o.message for o in outcomes if not o.passed] == []
    assert len(outcomes) == 2


# -- simulation: thousands of jobs without Python in the loop -------------------------------------


@pytest.mark.parametrize("name", ["ws", "lut_post", "cube"])
@pytest.mark.slow
@pytest.mark.rotate(12)
def test_random_jobs_under_stalls(name: str) -> None:
    rng = np.random.default_rng(7)
    for stalls, latency in ((0.0, 1), (0.5, 3), (0.9, 40)):
        host = opened(name, read_latency=latency, write_latency=latency, stalls=stalls, seed=5)
        with host.model:
            check_results(host, 30, rng, 90, 100 * latency)


@pytest.mark.slow
@pytest.mark.rotate(4)
def test_a_result_buffer_of_one_beat() -> None:
    host = opened("one_beat", read_latency=3, write_latency=3, stalls=0.5, seed=5)
    with host.model:
        check_results(host, 6, np.random.default_rng(7), 70, 300)


def check_cycles_of(name: str, jobs: int, most: int, rng: np.random.Generator) -> None:
    """Compare the cycles of jobs, each on an idle engine, with the model; memories never pause."""
    for latencies in ((1, 1), (int(rng.integers(1, 60)), int(rng.integers(1, 60)))):
        latency = dict(zip(("read_latency", "write_latency"), latencies, strict=True))
        host = opened(name, many=jobs > 100, **latency)
        with host.model:
            for number in range(jobs):
                placed, _ = drawn_job(host.config, rng, most, number=number)
                check_cycles(host, placed, **latency)


@pytest.mark.parametrize("name", ["ws", "lut_post", "cube", "tree"])
@pytest.mark.slow
@pytest.mark.rotate(9)
def test_cycles_are_exact(name: str) -> None:
    check_cycles_of(name, 8, 100, np.random.default_rng(29))


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
def test_cycles_of_hundreds_of_jobs_are_exact(name: str) -> None:
    check_cycles_of(name, 150, 600, np.random.default_rng(31))


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
def test_thousands_of_random_jobs(name: str) -> None:
    rng = np.random.default_rng(11)
    for stalls, latency in ((0.0, 1), (0.2, 200), (0.5, 7), (0.9, 2)):
        host = opened(
            name, many=True, read_latency=latency, write_latency=latency, stalls=stalls, seed=3
        )
        with host.model:
            check_results(host, 120, rng, 1000 if not stalls else 130, 100 * latency)


@given(data=st.data())
@settings(max_examples=25)
@pytest.mark.slow
@pytest.mark.rotate(9)
def test_any_size_latency_and_stalls(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["ws", "lut_post"]))
    config = config_of(name)
    size = data.draw(st.tuples(*[st.integers(1, 70)] * 3))
    kind = data.draw(st.sampled_from(PATTERNS[:-1]))
    memory: dict[str, Any] = {
        "read_latency": data.draw(st.integers(1, 200)),
        "write_latency": data.draw(st.integers(1, 200)),
        "stalls": data.draw(st.sampled_from([0.0, 0.1, 0.5, 0.95])),
    }
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    least = data.draw(st.booleans())
    products = [draw_matrices(config, size, kind, rng)]
    (placed,), _ = place(config, products, rng=rng, least_traffic=least)
    host = opened(name, seed=int(rng.integers(1 << 30)), **memory)
    with host.model:
        host.put(placed)
        assert host.wait(host.submit(placed.job), 3_000_000) == "done"
        assert (host.results(placed) == placed.expected).all()


LENGTHS = (1, 2, 3, 7, 8, 9, 31, 64, 127, 256, 1000)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
def test_sizes(name: str) -> None:
    """Every pair of lengths of two axes, and reductions of up to 4096 terms."""
    config, rng = config_of(name), np.random.default_rng(17)
    sizes = pairwise([list(LENGTHS)] * 3)
    sizes += [(m, k, n) for m, n in ((1, 9), (8, 1), (3, 31)) for k in (2048, 4095, 4096)]
    for m, k, n in sizes:
        size = m, min(k, config.max_k), n
        (placed,), _ = place(config, [draw_matrices(config, size, "random", rng)], rng=rng)
        ideal = plan_cycles(placed.job.plan)
        # A long job gets a quick memory, or a million bursts would wait one after the other.
        latency = min(int(rng.integers(1, 201)), 1 + 10_000_000 // ideal)
        host = opened(name, many=True, read_latency=latency, write_latency=latency)
        with host.model:
            host.put(placed)
            assert host.wait(host.submit(placed.job), 100_000 + 100 * latency * ideal) == "done", (
                size
            )
            assert (host.results(placed) == placed.expected).all(), size


@pytest.mark.slow
def test_two_engines_on_one_memory() -> None:
    """Each computes half of the columns of one C; the halves meet within a beat."""
    config, rng = config_of("ws"), np.random.default_rng(23)
    m, k, left, right = 37, 50, 21, 44
    a, w = draw_matrices(config, (m, k, left + right), "random", rng)
    (whole,), _ = place(config, [(a, w)], rng=rng)
    job = whole.job
    regions = job.regions
    first = opened("ws", read_latency=3, stalls=0.3, seed=1)
    second = opened("ws", read_latency=9, stalls=0.5, seed=2, sibling=first.model)
    with first.model, second.model:
        first.put(whole)
        numbers = []
        for host, start, columns in ((first, 0, left), (second, left, right)):
            part = replace(
                job,
                plan=Plan(config, m, k, columns),
                w_address=job.w_address + start * config.weight_bytes,
                c_address=job.c_address + start * job.plan.result_bytes,
                w_stride=regions["W"][2],
                c_stride=regions["C"][2],
            )
            numbers.append(host.submit(part))
        for _ in range(100_000):
            for host in (first, second):
                host.model.run(int(rng.integers(1, 40)))
            if first.model.interrupt and second.model.interrupt:
                break
        for host, number in zip((first, second), numbers, strict=True):
            assert host.state(number) == "done"
        assert (second.results(whole) == whole.expected).all()


# -- simulation: the shipped engine ---------------------------------------------------------------


def _shipped(cycles: int | None) -> JobHost:
    config = load_config(SHIPPED)
    assert isinstance(config, GemmStreamConfig)
    return open_engine(design_of(config), read_latency=1, write_latency=1, cycles=cycles)


@pytest.fixture(scope="module")
def shipped() -> Iterator[JobHost]:
    host = _shipped(FEW_CYCLES)
    with host.model:
        yield host


@pytest.fixture(scope="module")
def shipped_for_many() -> Iterator[JobHost]:
    """Return the same engine, compiled for millions of cycles."""
    host = _shipped(None)
    with host.model:
        yield host


def counted(host: JobHost, size: tuple[int, int, int]) -> tuple[dict[str, int], Job]:
    """Run a job on an idle engine and return what the counters counted."""
    config, rng = host.config, np.random.default_rng(3)
    (placed,), _ = place(config, [draw_matrices(config, size, "random", rng)])
    host.put(placed)
    before = host.counters()
    assert host.wait(host.submit(placed.job), 10_000_000) == "done"
    after = host.counters()
    assert (host.results(placed) == placed.expected).all()
    return {name: after[name] - before[name] for name in after}, placed.job


@pytest.mark.slow
@pytest.mark.rotate(8)
def test_cycles_and_traffic(shipped: JobHost) -> None:
    config = shipped.config
    for size in (
        (16, 16, 16), (64, 64, 64), (128, 512, 256), (1, 512, 1024), (1, 300, 1001), (7, 333, 79),
        (469, 103, 31), (143, 50, 353), (5, 2, 494), (32, 429, 195), (1, 60, 233), (1, 1, 1),
    ):  # fmt: skip
        result, job = counted(shipped, size)
        assert result["BUSY"] == job_cycles(job.plan, Regions.of(job.regions)), size
        moved = (result["READS"] + result["WRITES"]) * config.memory_bytes
        if size[1] % config.memory_bytes == size[2] % config.memory_bytes == 0:
            assert moved == job.plan.traffic.total, size  # no beat is filled in part


@pytest.mark.slow
def test_a_job_reads_the_results_of_the_one_before(shipped: JobHost) -> None:
    """Two layers of a network: int8 results of the first are activations of the second."""
    config, rng = shipped.config, np.random.default_rng(1)
    post = PostSettings.scaled("int8", 2.0**-9, activation="relu")
    a, w = draw_matrices(config, (40, 100, 60), "random", rng)
    (first,), end = place(config, [(a, w)], settings=post)
    _, w2 = draw_matrices(config, (40, 60, 30), "random", rng)
    assert first.expected is not None
    (second,), _ = place(config, [(first.expected, w2)], base=end)
    chained = Job(
        second.job.plan,
        first.job.c_address,
        second.job.w_address,
        second.job.c_address,
        after=True,
    )
    shipped.put(first)
    shipped.put(second)
    shipped.model.store(second.job.a_address, bytes(40 * 60))
    shipped.submit(first.job)
    assert shipped.wait(shipped.submit(chained), 1_000_000) == "done"
    assert (shipped.results(second) == second.expected).all()


@pytest.mark.parametrize("size", [(1, 2560, 6912), (64, 2560, 2560), (128, 768, 3072), (512,) * 3])
@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
def test_layers_of_transformers(shipped_for_many: JobHost, size: tuple[int, int, int]) -> None:
    result, job = counted(shipped_for_many, size)
    assert result["BUSY"] == job_cycles(job.plan, Regions.of(job.regions))


# -- tests of the tests ---------------------------------------------------------------------------

MUTANT = {
    "family": "gemm_stream",
    "compute": {
        "family": "systolic",
        "array": {"rows": 4, "cols": 4, "dataflow": "weight_stationary"},
    },
    "buffers": {"activation_kib": 1, "weight_kib": 1, "output_kib": 1, "column_kib": 1},
    "memory": {"data_width": 64},
}

QUICK_MUTATIONS = [
    Mutation("bytes before a row are written", r"scatter_\w+", r"above_begin = 8'hff >> \S+;",
             "above_begin = 8'hff;", MUTANT),
    Mutation("sums do not begin at zero", "engine_result_buffer", r"begins \? 32'd0 : ", "",
             MUTANT),
]  # fmt: skip

MUTATIONS = [
    Mutation("a row of a block is not read", "engine_loader", "rows_left == 1'h1",
             "rows_left <= 2'h2", MUTANT),
    Mutation("blocks are loaded in the other order", "engine_loader",
             r"job_data\[(\d+)\] \| n_last", r"(~job_data[\1]) | n_last", MUTANT),
    Mutation("a burst is a beat too long", r"burst_splitter_\w+",
             r"o_last \? remaining\[4:0\]", "o_last ? (remaining[4:0] + 5'd1)", MUTANT),
    Mutation("a block is loaded over the one at work", "engine_act_buffer",
             r"free = halves_free > whole", "free = halves_free >= whole", MUTANT),
    Mutation("the other half is read", "engine_wgt_buffer", r"= read_half & ", "= (~read_half) & ",
             MUTANT),
]  # fmt: skip


CONTRACT = Contract(
    "gemm_stream",
    "gemm_stream",
    small=(config_of("ws"),),
    regressions=(
        Regressions([config_of("ws"), config_of("lut_post")], seed=0),
        Regressions(
            [config_of(name) for name in ENGINES if name not in ("ws", "lut_post")],
            seed=0,
            long=True,
        ),
    ),
    mutations=tuple(
        Mutations(
            GemmStreamConfig,
            ("shapes_3", "shapes_8", "values_random", "blocks_1", "blocks_2"),
            mutations,
            long=long,
        )
        for mutations, long in ((QUICK_MUTATIONS, False), (MUTATIONS, True))
    ),
    refused=[(text, rf"^x\.yaml:{message}$") for text, message in REFUSED],
)
