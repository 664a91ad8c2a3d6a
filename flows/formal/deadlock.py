# SPDX-License-Identifier: Apache-2.0
"""Deadlock freedom of whole engines: a small job goes on and ends, whatever its memory does.

Around the design stand a host that writes the registers of one job and submits it, and a memory
that takes one burst each way at a time and answers each step within `ANSWERS_IN` cycles; when, and
with which data, is free, and so is a reset at any time.  Two properties bound the time of the job:

- `GOES_ON`: while it is unfinished, something moves at a port at least every so many cycles;
- `FEW_BEATS`: it moves no more beats than a job of its size can need.

A search by simulation and bounded search looks for a violation; a proof, if there is one, comes
from property-directed reachability.  Else the answer is unknown, with the cycles in which there is
no violation.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.hdl import Array, Cat, Const, Module, Signal, Value

from flows.formal.aiger import Aiger, restricted, write_circuit
from flows.formal.block_proof import Result, ports_of, trace_of
from flows.formal.checker import BROKEN, REACHED, Checker, Port
from flows.formal.modules import Part
from flows.formal.prover import (
    Answer,
    Status,
    compile_checker,
    reach,
    solve,
    without_violation,
    write_flat,
)
from flows.simulation.bench_jobs import draw_job
from flows.simulation.cases import JobSpec
from flows.simulation.placement import place_job, source_core
from hwgen.core.core import Core
from hwgen.core.lists.commands import Program
from hwgen.core.protocols import ListCore
from hwgen.core.register_map import JOB_WINDOW
from hwgen.core.registry import core_of
from hwgen.families.transformer.registers import start_writes

GROUP = "deadlock"
GOES_ON, FEW_BEATS = "goes on", "few beats"
"""Names of the properties."""

ANSWERS_IN = 2
"""Cycles in which the memory answers."""

STILL = 60
"""Cycles without a handshake that an engine may compute."""

BEATS = 120
"""Addresses, beats and answers of a small job, at most."""

_PER_WORD = 10
"""More of them for each word of a command list."""

_SIMULATED = 600
"""Cycles of the simulation."""

_SIZE = 2
"""Length of the job along each axis, in units of what is legal."""

_LIST = 0x10000
"""Where a command list lies."""

_BASE = 0x1000
"""Where it lies in memory."""

_LARGEST_BITS = 4096
"""Bits of memories that are searched; the words of larger ones have any value."""

_CUT = "any_word_"
_HOST = "s_axi_control_"
_MEMORY = "m_axi_mem_"


class DeadlockChecker(Checker):
    """A host with one job, a memory, and bounds of the time in which things move.

    Parameters
    ----------
    ports : mapping
        Of the engine.
    writes : sequence of (int, int)
        What the host writes: offset and contents; the last one begins the job.
    words : mapping of int to int
        Contents of the memory by number of the beat; elsewhere, reads give anything.
    """

    def __init__(
        self,
        ports: Mapping[str, Port],
        writes: Sequence[tuple[int, int]],
        words: Mapping[int, int] | None = None,
    ) -> None:
        super().__init__(ports)
        self.writes, self.words = writes, words or {}
        self.most = BEATS + _PER_WORD * len(self.words)
        self.driven = {
            name for name, port in ports.items()
            if port.inward and name.startswith((_HOST, _MEMORY))
            and (self.words or not name.endswith("rdata"))
        }  # fmt: skip

    def check(self, m: Module) -> None:
        """State the bounds."""
        submitted = self._host(m)
        moves = self._memory(m)
        unfinished = Signal()
        m.d.comb += unfinished.eq(submitted & ~self["interrupt"])
        still, beats = Signal(range(STILL + 2)), Signal(range(self.most + 2))
        with m.If(~unfinished | moves):
            m.d.sync += still.eq(0)
        with m.Elif(still <= STILL):
            m.d.sync += still.eq(still + 1)
        with m.If(unfinished & moves & (beats <= self.most)):
            m.d.sync += beats.eq(beats + 1)
        self.require(
            GOES_ON, still <= STILL,
            f"while a job is unfinished, something moves at the memory port every {STILL} cycles,"
            f" if the memory answers within {ANSWERS_IN}",
        )  # fmt: skip
        self.require(
            FEW_BEATS, beats <= self.most,
            f"the job has ended when {self.most} addresses, beats and answers have moved",
        )  # fmt: skip
        self.cover("job ends", submitted & self["interrupt"], "the job ends")

    def _host(self, m: Module) -> Value:
        """Write the registers one by one; return whether the job was submitted."""
        count = len(self.writes)
        index, sent = Signal(range(count + 1), name="host_index"), Signal(2, name="host_sent")
        working = index != count
        address = Array(Const(offset, 12) for offset, _ in [*self.writes, (0, 0)])
        word = Array(Const(value, 32) for _, value in [*self.writes, (0, 0)])
        values = {
            "awaddr": address[index], "wdata": word[index], "wstrb": 0xF,
            "awvalid": working & ~sent[0], "wvalid": working & ~sent[1], "bready": 1, "rready": 1,
        }  # fmt: skip
        m.d.comb += [self[f"{_HOST}{name}"].eq(value) for name, value in values.items()]
        with m.If(self[f"{_HOST}bvalid"]):
            m.d.sync += [index.eq(index + 1), sent.eq(0)]
        with m.Else():
            for bit, channel in enumerate(("aw", "w")):
                with m.If(self[f"{_HOST}{channel}valid"] & self[f"{_HOST}{channel}ready"]):
                    m.d.sync += sent[bit].eq(1)
        return ~working

    def _memory(self, m: Module) -> Value:
        """Answer one burst each way at a time; return whether something moves."""
        port = {name.removeprefix(_MEMORY): self[name] for name in self.ports
                if name.startswith(_MEMORY)}  # fmt: skip
        now = {}

        def answers(channel: str, wanted: Value, *, payload: bool) -> Value:
            """Return whether a channel answers, within a time from when it is wanted."""
            waited = Signal(range(ANSWERS_IN + 1), name=f"{channel}_waited")
            begun = Signal(name=f"{channel}_begun")
            answer, moves = Signal(name=f"{channel}_now"), Signal(name=f"{channel}_moves")
            late = waited == ANSWERS_IN
            m.d.comb += answer.eq(wanted & (self.choose(channel) | late | begun))
            other = port[f"{channel}{'ready' if payload else 'valid'}"]
            m.d.comb += moves.eq(answer & other)
            m.d.sync += begun.eq(answer & ~other if payload else 0)
            with m.If(~wanted | answer):
                m.d.sync += waited.eq(0)
            with m.Elif(~late):
                m.d.sync += waited.eq(waited + 1)
            now[channel] = moves
            return answer

        left, busy = Signal(9, name="beats_left"), Signal(name="write_busy")
        whole = Signal(name="write_whole")
        m.d.comb += [
            port["arready"].eq(answers("ar", (left == 0) & port["arvalid"], payload=False)),
            port["rvalid"].eq(answers("r", left != 0, payload=True)),
            port["rlast"].eq(left == 1),
            port["awready"].eq(answers("aw", ~busy & port["awvalid"], payload=False)),
            port["wready"].eq(answers("w", ~whole & port["wvalid"], payload=False)),
            port["bvalid"].eq(answers("b", busy & whole, payload=True)),
        ]
        at = Signal(len(port["araddr"]), name="read_at")
        shift = (len(port["rdata"]) // 8).bit_length() - 1
        if self.words:
            m.d.comb += port["rdata"].eq(self.choose("word", len(port["rdata"])))
            with m.Switch(at):
                for number, word in self.words.items():
                    with m.Case(number):
                        m.d.comb += port["rdata"].eq(word)
        for channel, answer in (("ar", "r"), ("aw", "b")):
            if f"{channel}id" in port:
                taken = Signal.like(port[f"{channel}id"], name=f"{channel}_taken")
                m.d.comb += port[f"{answer}id"].eq(taken)
                with m.If(now[channel]):
                    m.d.sync += taken.eq(port[f"{channel}id"])
        with m.If(now["ar"]):
            m.d.sync += [left.eq(port["arlen"] + 1), at.eq(port["araddr"] >> shift)]
        with m.Elif(now["r"]):
            m.d.sync += [left.eq(left - 1), at.eq(at + 1)]
        with m.If(now["aw"]):
            m.d.sync += busy.eq(1)
        with m.If(now["w"] & port["wlast"]):
            m.d.sync += whole.eq(1)
        with m.If(now["b"]):
            m.d.sync += [busy.eq(0), whole.eq(0)]
        return Cat(*now.values()).any()


@dataclass(frozen=True)
class SmallJob:
    """Work of an engine: a job, or a list with one.

    Parameters
    ----------
    writes : list of (int, int)
        What the host writes: offset and contents.
    words : mapping of int to int
        Contents of the memory by number of the beat, where they matter.
    """

    writes: list[tuple[int, int]]
    words: Mapping[int, int]


def small_job(core: Core[Any]) -> SmallJob:
    """Return a small job of an engine, or a list with one of its first unit.

    Raises
    ------
    ValueError
        If the core has no memory port.
    """
    if not core.buses:
        raise ValueError(f"{core.name} has no memory port")
    if not isinstance(core, ListCore):
        registers = {register.name: register.offset for register in core.registers}
        writes = [(registers["INTERRUPT_ENABLE"], 3), *_window(core), (registers["SUBMIT"], 1)]
        return SmallJob(writes, {})
    config: Any = core.params
    name, unit = next(iter(config.units.items()))
    program = Program(list(config.units), config.lists.registers)
    program.window(name, JOB_WINDOW, [word for _, word in _window(core_of(unit))])
    program.submit(name)
    program.wait([name])
    program.halt()
    data = program.encode()
    size = config.memory.data_width // 8
    words = {
        (_LIST + at) // size: int.from_bytes(data[at : at + size], "little")
        for at in range(0, len(data), size)
    }
    return SmallJob(list(start_writes(config, _LIST, data)), words)


def _window(core: Core[Any]) -> list[tuple[int, int]]:
    """Return the writes of the registers of a small job."""
    operation = core.operations[0]
    sizes = tuple((size.name, min(size.most, size.multiple * _SIZE)) for size in operation.sizes)
    spec = JobSpec(operation.name, sizes, post=0 if core.params.multiplies else None)
    bench = draw_job(source_core(core), spec, np.random.default_rng(0))
    return place_job(core, bench, base=_BASE).jobs[0].writes()


def prove_deadlock_freedom(
    part: Part, job: SmallJob, work: Path, seconds: int
) -> tuple[list[Result], list[Result]]:
    """Search violations of the bounds of a job, or prove that there are none.

    Parameters
    ----------
    part : Part
        The whole engine.
    job : SmallJob
    work : Path
        Directory for the files of Yosys and ABC.
    seconds : int
        Limit of each search.

    Returns
    -------
    properties, covers : list of Result

    Raises
    ------
    ToolMissing, CheckFailed
        As `flows.formal.prover.write_flat`.
    """
    netlist = _cut_memories(write_flat(part, work))
    checker = DeadlockChecker(ports_of(netlist), job.writes, job.words)
    circuit = compile_checker(checker, netlist, work, zero=True)
    circuit = restricted(circuit, [f"{BROKEN}[0]", f"{BROKEN}[1]", REACHED])
    (work / "circuit.aig").write_bytes(write_circuit(circuit))
    free = any(name.startswith(_CUT) for name in circuit.inputs)
    properties = []
    for index, statement in enumerate(checker.properties):
        answer = _answer(circuit, f"{BROKEN}[{index}]", work, seconds)
        if answer.status == "refuted" and free:
            detail = f"{answer.detail}, with any contents of memories"
            answer = replace(answer, status="unknown", detail=detail, trace=())
        properties.append(
            Result(GROUP, statement.name, statement.about, answer.status, answer.engine,
                   answer.detail, answer.seconds, trace_of(checker, circuit, answer))
        )  # fmt: skip
    (cover,) = checker.covers
    answer = _explored(circuit, REACHED) or reach(circuit, REACHED, work, seconds)
    reached: Status = "proven" if answer.status == "refuted" else "unknown"
    covers = [Result(GROUP, cover.name, cover.about, reached, answer.engine, answer.detail,
                     answer.seconds)]  # fmt: skip
    return properties, covers


def _cut_memories(netlist: Mapping[str, Any]) -> dict[str, Any]:
    """Return a flat netlist whose large memories are read with any contents, at inputs."""
    ports, cells = dict(netlist["ports"]), dict(netlist["cells"])
    for name, cell in netlist["cells"].items():
        if cell["type"].startswith("$mem"):
            width, size = (int(cell["parameters"][key], 2) for key in ("WIDTH", "SIZE"))
            if width * size > _LARGEST_BITS:
                bits = cell["connections"]["RD_DATA"]
                ports[f"{_CUT}{len(ports)}"] = {"direction": "input", "bits": bits}
                del cells[name]
    return {**netlist, "ports": ports, "cells": cells}


def _explored(circuit: Aiger, output: str) -> Answer | None:
    """Return a violation that a simulation with random inputs finds."""
    start = time.monotonic()
    trace = circuit.explore(output, _SIMULATED, lanes=64)
    if trace is None:
        return None
    taken = round(time.monotonic() - start, 2)
    detail = f"reached in cycle {len(trace) - 1}"
    return Answer("refuted", "random simulation", detail, taken, trace)


def _answer(circuit: Aiger, output: str, work: Path, seconds: int) -> Answer:
    """Return whether an output is ever 1: a simulation, a proof, the cycles without a violation."""
    if found := _explored(circuit, output):
        return found
    answer = solve(circuit, output, work, seconds)
    if answer.status != "unknown":
        return answer
    depth = without_violation(circuit, output, work, seconds)
    detail = f"no violation in the first {depth} cycles, nor in a random simulation of {_SIMULATED}"
    return replace(answer, engine=f"{answer.engine}; bmc3", detail=detail)
