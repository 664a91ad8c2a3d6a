# SPDX-License-Identifier: Apache-2.0
"""Cycles of command lists: the model and its bounds against simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flows.simulation.bus.list_host import ListHost
from flows.simulation.command_lists import (
    LIST,
    SCRATCH,
    SCRATCH_BYTES,
    SIZE,
    UnsafeJob,
    World,
    draw,
    interpret,
)
from flows.simulation.engine_program import Model
from hwgen.core.lists.commands import BYTES, OPERATIONS, listing
from hwgen.families.transformer.list_timing import ListTiming, timed_list
from hwgen.families.transformer.trace import Event, trace
from sim_tests.engines.test_transformer import (
    ALL_UNITS,
    MIXED,
    NARROW,
    REGISTERED,
    SMALL,
    WIDE,
    compiled,
    config_of,
)
from sim_tests.support.selection import commit_seed

LIMIT = 100_000
JOBS = [code for code, op in enumerate(OPERATIONS) if op.name == "SUBMIT"]


def is_in_trace(world: World, data: bytes, event: Event) -> bool:
    """Say whether a trace reads what is there: it knows a list, and takes the rest for zeros."""
    last = event.address + event.count
    return LIST <= event.address <= last <= LIST + len(data) or not any(
        world.image[event.address : last]
    )


def timed(
    values: dict[str, Any], lists: int, seed: int, jobs: bool = True
) -> list[tuple[int, ListTiming]]:
    """Run random lists on memory that answers in the next cycle; return cycles and the model's."""
    config, rng = config_of(values), np.random.default_rng(seed)
    world = World.make(config, rng, jobs=4)
    world.image[SCRATCH : SCRATCH + SCRATCH_BYTES] = bytes(SCRATCH_BYTES)  # as the trace has it
    registers = [0] * config.lists.registers
    result: list[tuple[int, ListTiming]] = []
    with Model(compiled(values), seed=seed, read_latency=1, write_latency=1) as model:
        engine = ListHost(config, model)
        model.map(0, SIZE)
        while len(result) < lists:
            data = draw(world, rng, int(rng.integers(4, 40)))
            if not jobs and any(code in JOBS for code in data[::BYTES]):
                continue
            try:
                outcome, _ = interpret(world, data, registers, 300)
            except UnsafeJob:
                continue
            if outcome.state != "done":
                continue
            events = trace(config, LIST, data, registers)
            if any(
                event.action == "load" and not is_in_trace(world, data, event) for event in events
            ):
                continue
            model.store(0, bytes(world.image))
            engine.begin(data, registers, 0)
            assert model.wait(LIMIT), listing(data, list(config.units))
            cycles = engine.read("CYCLES")
            assert engine.outcome().state == "done"
            timing = timed_list(config, events)
            assert timing.least <= cycles <= timing.most, listing(data, list(config.units))
            assert timing.least <= timing.cycles <= timing.most
            result.append((cycles, timing))
    return result


@pytest.mark.rotate(24)
@pytest.mark.parametrize("values", [MIXED, REGISTERED], ids=lambda values: values["name"])
def test_bounds_of_random_lists(values: dict[str, Any]) -> None:
    """Drawn anew with each commit; units of several kinds, one line or two, all at once or not."""
    result = timed(values, 40, commit_seed())
    errors = [abs(timing.cycles / cycles - 1) for cycles, timing in result]
    assert max(errors) < 0.15
    assert np.mean(errors) < 0.05


@pytest.mark.long
@pytest.mark.parametrize(
    "values", [SMALL, WIDE, NARROW, MIXED, ALL_UNITS], ids=lambda values: values["name"]
)
def test_bounds_of_thousands_of_lists(values: dict[str, Any]) -> None:
    timed(values, 1000, commit_seed())


@pytest.mark.long
@pytest.mark.parametrize("values", [SMALL, NARROW, WIDE], ids=lambda values: values["name"])
def test_lists_without_jobs_are_exact(values: dict[str, Any]) -> None:
    assert all(cycles == timing.cycles for cycles, timing in timed(values, 50, 1, jobs=False))
