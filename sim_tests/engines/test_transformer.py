# SPDX-License-Identifier: Apache-2.0
"""Engines that execute command lists: random lists, errors, aborts, and the memory they share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.design import Design
from flows.build.load import load_config
from flows.simulation.bus.list_host import ListHost
from flows.simulation.command_lists import (
    LIST,
    MISSING,
    SIZE,
    UnsafeJob,
    World,
    draw,
    interpret,
)
from flows.simulation.engine_program import BusError, Model, compile_model
from flows.simulation.placed_products import place
from flows.simulation.run import run_product
from flows.simulation.runner import regress
from hwgen.core.lists.commands import BYTES, OPERATIONS, STATES, Program, listing
from hwgen.core.post import PostSettings
from hwgen.core.register_map import JOB_WINDOW
from hwgen.errors import InputError
from hwgen.families.transformer.params import TransformerConfig
from sim_tests.contract.contract import Contract, Mutations
from sim_tests.support.cores import golden
from sim_tests.support.designs import design_of
from sim_tests.support.mutations import Mutation
from sim_tests.support.paths import ROOT

GEMM = {
    "family": "gemm_stream",
    "compute": {
        "family": "systolic",
        "array": {"rows": 2, "cols": 2, "dataflow": "weight_stationary"},
    },
    "buffers": {"activation_kib": 1, "weight_kib": 1, "output_kib": 1, "column_kib": 1},
}
ROWS = {
    "family": "stream_engine",
    "compute": {
        "family": "vector",
        "input": "int16",
        "output": "int8",
        "array": {"operations": ["add", "quantise"], "lanes": 4, "longest_row": 16},
    },
    "buffers": {"port_beats": 16},
}
HEADS = {
    "family": "stream_engine",
    "compute": {
        "family": "attention",
        "head": 4,
        "max_keys": 32,
        "array": {"rows": 2, "lanes": 2},
        "softmax": {"weight_bits": 8, "fraction_bits": 8},
    },
    "buffers": {"port_beats": 16},
}
MIXED: dict[str, Any] = {
    "name": "mixed",
    "family": "transformer",
    "units": {"rows": ROWS, "gemm": GEMM},
    "lists": {"registers": 8, "calls": 2, "cache_lines": 2},
    "memory": {"data_width": 64, "max_burst": 8, "outstanding": 2, "address_width": 40},
}
REGISTERED = {
    **MIXED,
    "name": "registered",
    "units": {"rows": {**ROWS, "queue": 1}, "gemm": {**GEMM, "queue": 2}},
    "memory": {**MIXED["memory"], "registered": True},
}
PAGED = {**HEADS, "paged": ["key", "value_scale"]}
ALL_UNITS = {**MIXED, "name": "all_kinds", "units": {**MIXED["units"], "heads": PAGED}}
SMALL: dict[str, Any] = {
    "name": "lists",
    "family": "transformer",
    "units": {"first": GEMM, "second": {**GEMM, "queue": 1}},
    "lists": {"registers": 8, "calls": 2, "cache_lines": 2},
    "memory": {"data_width": 64, "max_burst": 8, "outstanding": 2},
}
WIDE: dict[str, Any] = {
    "name": "wide",
    "family": "transformer",
    "units": {"only": GEMM},
    "lists": {"registers": 32, "calls": 5, "cache_lines": 1},
    "memory": {"data_width": 256, "max_burst": 32, "outstanding": 8, "address_width": 64},
}
NARROW: dict[str, Any] = {
    "name": "narrow",
    "family": "transformer",
    "units": {"one": GEMM},
    "lists": {"registers": 16, "cache_lines": 8},
    "memory": {"data_width": 32, "max_burst": 1, "outstanding": 1, "address_width": 32},
}
LIMIT = 100_000


def config_of(values: dict[str, Any]) -> TransformerConfig:
    return TransformerConfig.model_validate(values)


def compiled(values: dict[str, Any]) -> Path:
    config = config_of(values)
    return compile_model(config.name, design_of(config).verilog, config.buses, cycles=1000)


def compare(
    world: World, library: Path, rng: np.random.Generator, lists: int, **memory: Any
) -> dict[str, int]:
    """Run random lists one after the other; return how they ended."""
    config, ended = world.config, dict.fromkeys(STATES, 0)
    few, results = config.lists.registers, world.results
    with Model(library, seed=int(rng.integers(1 << 31)), **memory) as model:
        engine = ListHost(config, model)
        model.map(0, SIZE)
        while sum(ended.values()) < lists:
            data = draw(world, rng)
            registers = [0, *(int(x) for x in rng.integers(0, 1 << 32, few - 1))]
            limit = 300
            try:
                expected, image = interpret(world, data, registers, limit)
            except UnsafeJob:
                continue
            model.store(0, bytes(world.image))
            engine.begin(data, registers, limit)
            assert model.wait(LIMIT), listing(data, list(config.units))
            result = engine.outcome()
            text = listing(data, list(config.units))
            assert result == expected, text
            now = model.load(0, SIZE)
            right = now == np.frombuffer(image, np.uint8)
            if result.state != "done":  # jobs that were under way may have written or not
                right |= (now == np.frombuffer(world.image, np.uint8)) & results
            assert right.all(), text
            ended[result.state] += 1
    return ended


@pytest.fixture(scope="module")
def small() -> tuple[World, Path]:
    return World.make(config_of(SMALL), np.random.default_rng(3)), compiled(SMALL)


@pytest.mark.parametrize(
    ("values", "lists", "ends"),
    [
        pytest.param(SMALL, 60, ("done", "operand", "opcode", "end_of_list"), id="small"),
        pytest.param(MIXED, 40, ("done", "operand"), id="units_of_several_kinds"),
        pytest.param(REGISTERED, 40, ("done", "operand"), id="registers_between_units"),
    ],
)
@pytest.mark.rotate(32)
def test_random_lists(
    values: dict[str, Any], lists: int, ends: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    """Lists, sound and spoilt, end as the interpreter says, with the same memory and registers.

    Those over units of several kinds have products and row operations at the same time.
    """
    rng = np.random.default_rng(1)
    if values is SMALL:
        world, library = request.getfixturevalue("small")
    else:
        world, library = World.make(config_of(values), rng, jobs=5), compiled(values)
    ended = compare(world, library, rng, lists, read_latency=1, write_latency=1)
    more = compare(world, library, rng, lists, read_latency=17, write_latency=9, stalls=0.4)
    assert all(ended[state] + more[state] for state in ends)


@pytest.mark.long
@pytest.mark.parametrize(
    "values", [SMALL, WIDE, NARROW, MIXED, ALL_UNITS], ids=lambda values: values["name"]
)
def test_thousands_of_random_lists(values: dict[str, Any]) -> None:
    rng = np.random.default_rng(2)
    world = World.make(config_of(values), rng)
    library = compiled(values)
    for stalls in (0.0, 0.2, 0.7):
        compare(world, library, rng, 700, read_latency=3, stalls=stalls)


def started(world: World, model: Model, program: Program, limit: int = 0) -> ListHost:
    engine = ListHost(world.config, model)
    model.map(0, SIZE)
    model.store(0, bytes(world.image))
    engine.begin(program.encode(), [0] * world.config.lists.registers, limit)
    return engine


def jobs_of(world: World, program: Program, order: list[tuple[str, int]]) -> list[int]:
    """Append jobs; return the places of their submissions."""
    places = []
    for unit, number in order:
        words = [word for _, word in world.jobs[unit][number].job.writes()]
        program.window(unit, JOB_WINDOW, words)
        places.append(len(program))
        program.submit(unit)
    return places


def all_right(world: World, model: Model, order: list[tuple[str, int]]) -> bool:
    """Return whether the results of jobs are in memory."""
    placed = [world.jobs[unit][number] for unit, number in order]
    return all(np.array_equal(item.results(model.load), item.expected) for item in placed)


@pytest.mark.parametrize("broken", range(4))
@pytest.mark.rotate(4)
def test_a_job_that_fails(small: tuple[World, Path], broken: int) -> None:
    """The index is that of its SUBMIT, whatever is in the queues; the next list runs."""
    world, library = small
    order = [("first", 0), ("second", 0), ("first", 1), ("second", 1)]
    unit, number = order[broken]
    program = Program(list(world.config.units), 8)
    places = jobs_of(world, program, order)
    program.halt()
    with Model(library, read_latency=11, stalls=0.2, seed=broken) as model:
        _, _, _, address = world.jobs[unit][number].job.regions["W"]
        model.fault(address, 1, "SLVERR")
        engine = started(world, model, program)
        assert model.wait(LIMIT)
        result = engine.outcome()
        index = list(world.config.units).index(unit)
        assert (result.state, result.index, result.unit) == ("unit_failed", places[broken], index)
        sound = Program(list(world.config.units), 8)
        jobs_of(world, sound, [job for job in order if job != (unit, number)])
        sound.halt()
        engine = started(world, model, sound)
        assert model.wait(LIMIT)
        assert engine.outcome().state == "done"
        assert all_right(world, model, [job for job in order if job != (unit, number)])


def test_abort_and_reset(small: tuple[World, Path]) -> None:
    """Whenever a list is broken off, the next one is right."""
    world, library = small
    rng = np.random.default_rng(4)
    order = [("first", 0), ("second", 1), ("first", 2), ("second", 2), ("first", 1)]
    for seed in range(12):
        program = Program(list(world.config.units), 8)
        jobs_of(world, program, order)
        program.halt()
        with Model(library, read_latency=7, stalls=0.3 * (seed % 2), seed=seed) as model:
            engine = started(world, model, program)
            model.run(int(rng.integers(1, 900)))
            if seed % 3:
                engine.write("ABORT", 1)
                assert model.wait(LIMIT)
                assert engine.outcome().state in ("aborted", "done")
            else:
                model.reset(int(rng.integers(1, 4)))
                assert engine.read("STATUS") == 0
            engine = started(world, model, program)
            assert model.wait(LIMIT)
            assert engine.outcome().state == "done"
            assert all_right(world, model, order)


def test_jobs_wait_for_what_they_read(small: tuple[World, Path]) -> None:
    """A job behind ``after`` reads what another unit wrote; units that need not wait overlap."""
    world, library = small
    config = world.config
    rng = np.random.default_rng(5)
    a, w = (rng.integers(-3, 4, (6, 6)).astype(np.int8) for _ in range(2))
    settings = PostSettings("int8", shift=3)
    first, second = config.units.values()
    (one,), at = place(first, [(a, w)], settings=settings, base=0x1000)
    assert one.expected is not None
    (two,), _ = place(second, [(one.expected, w)], settings=settings, base=-(-at // 64) * 64)
    job = replace(
        two.job, a_address=one.job.c_address, a_stride=one.job.regions["C"][2], settings=settings
    )
    chained = replace(two, job=job, a=None)
    image = bytearray(SIZE)
    for placed in (one, chained):
        for address, content in placed.images():
            image[address : address + len(content)] = content
    there = World(config, {"first": [one], "second": [chained]}, image)
    program = Program(list(config.units), 8)
    for unit, placed in (("first", one), ("second", chained)):
        program.window(unit, JOB_WINDOW, [word for _, word in placed.job.writes()])
        program.submit(unit, after=["first"])
    program.halt()
    with Model(library, read_latency=40, write_latency=40) as model:
        engine = started(there, model, program)
        assert model.wait(LIMIT)
        assert engine.outcome().state == "done"
        assert all_right(there, model, [("first", 0), ("second", 0)])


def test_lists_that_cannot_run(small: tuple[World, Path]) -> None:
    """Misplaced, missing, empty and endless lists, and registers that must not be written."""
    world, library = small
    names = list(world.config.units)
    halt, endless = Program(names, 8), Program(names, 8)
    halt.halt()
    endless.label("here")
    endless.branch("here")
    with Model(library) as model:
        engine = started(world, model, halt)
        assert model.wait(LIMIT)
        assert engine.outcome().state == "done"
        cases = [
            (halt.encode(), LIST + 16, 0, "alignment", 0),
            (halt.encode(), MISSING, 0, "read_error", 0),
            (b"", LIST, 0, "end_of_list", 0),
            (endless.encode(), LIST, 1000, "limit", 0),
            (bytes([len(OPERATIONS)]) + bytes(BYTES - 1), LIST, 0, "opcode", 0),
        ]
        for data, address, limit, state, index in cases:
            engine.begin(data, [0] * 8, limit, address)
            assert model.wait(LIMIT)
            result = engine.outcome()
            assert (result.state, result.index) == (state, index)
        engine.begin(endless.encode(), [0] * 8, 0)
        for name in ("START", "LIST_LENGTH", "R1_LOW"):
            with pytest.raises(BusError):
                engine.write(name, 1)
        assert STATES[engine.read("STATUS") >> 8 & 15] == "running"
        engine.write("ABORT", 1)
        assert model.wait(LIMIT)
        assert engine.outcome().state == "aborted"
        with pytest.raises(BusError):
            model.write32(0x80, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda p: (p.branch("nowhere"), p.encode()),
            r"label 'nowhere' .* is not set",
        ),
        (lambda p: p.set(8, 1), r"a register must be 0\.\.7, not 8"),
        (lambda p: p.submit("third"), r"a unit must be one of first, second, not 'third'"),
        (lambda p: p.load(1, size=3), r"a LOAD or STORE has 1, 2, 4 or 8 bytes, not 3"),
        (lambda p: (p.label("x"), p.label("x")), r"label 'x' is set twice"),
    ],
)
def test_programs_that_make_no_sense(make: Any, message: str) -> None:
    program = Program(["first", "second"], 8)
    with pytest.raises(InputError, match=message):
        make(program)


ONE: dict[str, Any] = {
    "name": "mutant",
    "family": "transformer",
    "units": {"only": GEMM},
    "lists": {"registers": 8, "calls": 2, "cache_lines": 1},
    "memory": {"data_width": 32, "max_burst": 8, "outstanding": 2},
}
MUTATIONS = [
    Mutation(
        "a list ends too early", "sequencer", r"assign is_idle = .*;", "assign is_idle = 1'h1;", ONE
    ),
    Mutation("a wrong product", "sequencer", r"factor\[0\] \?", "factor[1] ?", ONE),
    Mutation("no branches", "sequencer", r"assign branches = .*;", "assign branches = 1'h0;", ONE),
    Mutation(
        "reads of the unit are lost", r"share_2_32_40_4", r"_ & r_order_data;", "_ & 1'h0;", ONE
    ),
]


@pytest.mark.long
def test_shipped_configuration(tmp_path: Path) -> None:
    """The whole regression of ``hwgen sim``, in cocotb."""
    config = load_config(ROOT / "configs" / "transformer.yaml")
    outcomes = regress(design_of(config), tmp_path)
    assert len(outcomes) == 19
    assert not [outcome for outcome in outcomes if not outcome.passed]


@pytest.mark.long
def test_products_are_jobs_of_the_first_unit() -> None:
    config = config_of(ONE)
    rng = np.random.default_rng(7)
    a, w = (rng.integers(-128, 128, size).astype(np.int8) for size in ((9, 20), (20, 7)))
    result = run_product(design_of(config), a, w)
    assert np.array_equal(result.result, golden(config, a, w))
    assert result.model is not None
    assert result.model.allows(result.cycles)
    assert abs(result.cycles - result.model.number) < 60


def check_mutant(design: Design) -> None:
    config: Any = design.params
    rng = np.random.default_rng(6)
    library = compile_model(config.name, design.verilog, config.buses, cycles=1000)
    compare(World.make(config, rng), library, rng, 40, read_latency=9, write_latency=9)


CONTRACT = Contract(
    "transformer",
    "transformer",
    small=(config_of(SMALL),),
    mutations=(Mutations(TransformerConfig, (), MUTATIONS, long=True, check=check_mutant),),
    refused=(
        ("units: {a: {family: gemm_stream, qeue: 4}}", r":3:34: units\.a\.qeue: unknown key"),
        ("units: {a: {family: gemm_stream, queue: 3}}", r"a\.queue: must be 1, 2, 4, 8 or 16"),
        ("units: {a: {family: systolic}}", r"a\.family: must be gemm_stream"),
        ("units: {a: {family: gemm_stream, memory: {}}}", r"units\.a\.memory: belongs to the eng"),
        ("units: {}", r"units: must name 1 to 8 units, not 0"),
        ("units: {A: {family: gemm_stream}}", r"A: a unit's name must be lower-case letters"),
        ("memory: {address_width: 20}", r"memory\.address_width: must be 32 to 64 for command"),
    ),
)
