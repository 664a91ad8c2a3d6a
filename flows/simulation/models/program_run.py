# SPDX-License-Identifier: Apache-2.0
"""A compiled network on the RTL of its engine: one list, from memory to memory.

The golden interpreter runs the same list; registers, the way it ended and every byte of memory must
be the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from flows.build.design import Design
from flows.simulation.bus.list_host import ListHost
from flows.simulation.engine_program import Ddr4Traffic, Model, compile_model
from hwgen.errors import CheckFailed
from hwgen.models.compile.list_program import CompiledList, ListProgram

MOST_CYCLES = 1 << 40


@dataclass(frozen=True)
class Simulated:
    """Result of the simulation of a list.

    Parameters
    ----------
    tokens : list of int
        Appended to the prompt.
    cycles : int
        Of the list, as the engine counts them.
    compared : int
        Bytes of memory that were equal.
    read_beats, write_beats : int
        Of the memory port.
    ddr4 : Ddr4Traffic
        Commands of a DDR4 memory, zeros without one.
    """

    tokens: list[int]
    cycles: int
    compared: int
    read_beats: int
    write_beats: int
    ddr4: Ddr4Traffic


def run_compiled(
    compiled: CompiledList,
    prompt: list[int],
    count: int,
    *,
    on_progress: Callable[[int], None] | None = None,
    **timing: Any,
) -> Simulated:
    """Run a compiled network's list on a prompt, and compare everything.

    Parameters
    ----------
    compiled : CompiledList
    prompt : list of int
    count : int
        Most tokens to append.
    on_progress : callable, optional
        Gets the cycles that have passed, now and then.
    **timing
        Of the memory; see `flows.simulation.engine_program.Model`.

    Raises
    ------
    CheckFailed
        If a byte differs, or the list does not end as it should.
    """
    compiled.check_tokens(prompt, count)
    golden = ListProgram(compiled)
    golden.start(prompt)
    before = bytes(golden.memory.data)
    tokens = golden.run(0, len(prompt), count)
    config = compiled.config
    library = compile_model(config.name, Design.of(config).verilog, config.buses)
    settings = {"read_latency": 1, "write_latency": 1, "longest_burst": config.memory.max_burst}
    with Model(library, **{**settings, **timing}) as model:
        model.map(compiled.base, compiled.bytes)
        model.store(compiled.base, before)
        host = ListHost(config, model)
        registers = compiled.registers(0, len(prompt), count)
        host.begin(compiled.data, registers, 0, compiled.address)
        model.wait(MOST_CYCLES, on_progress)
        outcome = host.outcome()
        if outcome.state != "done":
            raise CheckFailed(f"the list ended with {outcome.state} at {outcome.index}")
        if (outcome.steps, outcome.registers) != (golden.outcome.steps, golden.outcome.registers):
            raise CheckFailed("the list's registers differ from the golden interpreter's")
        cycles, traffic, ddr4 = host.read("CYCLES"), model.traffic, model.ddr4_traffic
        result = model.load(compiled.base, compiled.bytes)
    _compare(compiled, result, np.frombuffer(golden.memory.data, np.uint8))
    beats = traffic.read_beats, traffic.write_beats
    return Simulated(tokens, cycles, len(result), *beats, ddr4)


def _compare(compiled: CompiledList, memory: np.ndarray, wanted: np.ndarray) -> None:
    """Refuse bytes that differ; say in which array the first one is."""
    wrong = np.flatnonzero(memory != wanted)
    if not len(wrong):
        return
    address = compiled.base + int(wrong[0])
    name = next(
        (a.name for a in compiled.arrays.values() if a.address <= address < a.address + a.bytes),
        "a layer's array",
    )
    raise CheckFailed(
        f"{len(wrong)} bytes of memory differ from the golden interpreter's, the first at"
        f" {address:#x}, in {name}"
    )
