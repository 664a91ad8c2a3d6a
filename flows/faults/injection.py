# SPDX-License-Identifier: Apache-2.0
"""Faults in a design at work, and what becomes of its results.

Faults are simulated 255 at a time (`flows.faults.lanes`).  Of an engine on memory that finds those
that change none of its outputs; each of the others is simulated alone, with its memory and host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from flows.build.design import Design
from flows.faults.circuit import Circuit
from flows.faults.lanes import LaneResult, run_lanes
from flows.faults.sampling import Fault, faults_bytes
from flows.faults.workloads import Effect, FaultWorkload
from flows.power.gate_simulator import GateSimulator
from flows.power.gate_tables import GateTable
from flows.power.gates import Gates
from flows.power.netlist_power import GateLevel
from flows.simulation.bus.job_host import JobFailed
from flows.simulation.engine_program import BusError
from flows.simulation.run import run_job
from flows.simulation.stream_program import CYCLES_AFTER, LIMIT_CYCLES
from flows.synthesis.result import SynthesisResult
from flows.tools.executors import LocalProcesses
from flows.tools.guard import scratch
from flows.tools.parallel import run_all
from hwgen.core.operation import Arrays, StreamPlan
from hwgen.core.params.base import FamilyConfig
from hwgen.core.params.protection import FAULT_OUTPUT
from hwgen.core.post import PostSettings
from hwgen.errors import CheckFailed, InputError
from hwgen.technologies import technology, technology_names

TIMEOUT_S = 24 * 3600.0
_BATCH = 255
_ALONE = 16
"""Faults that a process simulates one after the other before it reports."""


def check_target(target: str) -> None:
    """Raise `InputError` unless faults can be simulated in a technology."""
    if technology(target).kind != "standard_cells":
        names = ", ".join(technology_names("standard_cells"))
        raise InputError(
            f"--target: faults are simulated in standard cells ({names}), not in {target}"
        )


@dataclass(frozen=True)
class Injection:
    """A fault and what became of it.

    Parameters
    ----------
    fault : Fault
    effect : str
        One of `flows.faults.workloads.EFFECTS`.
    application : bool
        Whether the application gives another answer, and does not know, or gives none.
    """

    fault: Fault
    effect: Effect
    application: bool


class FaultSimulation:
    """A synthesized design that does a job, with and without faults.

    Parameters
    ----------
    config : FamilyConfig
    result : SynthesisResult
        Of the configuration, for standard cells.
    work : FaultWorkload
    directory : Path
        To work in.
    liberty_files : sequence of str
        As for the synthesis.

    Raises
    ------
    InputError
        If the operands do not fit the core.
    CheckFailed
        If the netlist cannot be simulated, or is wrong without a fault.
    """

    def __init__(
        self,
        config: FamilyConfig,
        result: SynthesisResult,
        work: FaultWorkload,
        directory: Path,
        *,
        liberty_files: Sequence[str | Path] = (),
    ) -> None:
        self._config, self._work, self._directory = config, work, directory
        self._level = level = GateLevel(config, result, directory, liberty_files=liberty_files)
        self.core = level.design.core
        self.circuit = Circuit(level.gates, level.netlist, self.core)
        self._netlist = directory / "lanes.bin"
        self._netlist.write_bytes(self.circuit.document())
        level.simulator.trace_file.touch()
        level.simulate(work.job, work.operands)
        self.trace_file = directory / "trace.bin"
        level.simulator.trace_file.rename(self.trace_file)  # no other simulation writes it
        error = self._error
        if error and self._rows[self.cycles[0] :, error[2]].any():
            raise CheckFailed(f"{result.name} reports an error without a fault")

    @property
    def cells(self) -> int:
        """Cells of the netlist."""
        return len(self._level.gates.gates)

    @cached_property
    def _rows(self) -> np.ndarray:
        """Ports in each cycle of the run without faults, shape (cycles, bits)."""
        data = np.fromfile(self.trace_file, np.uint8)[len(self.circuit.netlist.registers) :]
        width = len(self.circuit.input_bits) + len(self.circuit.output_bits)
        return data.reshape(-1, width)

    @cached_property
    def _error(self) -> tuple[int, int, int] | None:
        """Bytes in front of a trace, bits of a cycle, and the position of the error output."""
        circuit = self.circuit
        if not circuit.reports_errors:
            return None
        width = len(circuit.input_bits) + len(circuit.output_bits)
        return len(circuit.netlist.registers), width, circuit.position(FAULT_OUTPUT)

    @cached_property
    def cycles(self) -> range:
        """Cycles in which faults are injected: from the first input beat, or register access."""
        begun = self._rows[:, self.circuit.position("aresetn")] != 0
        if self.circuit.has_streams:
            begun = np.zeros(len(self._rows), bool)
            for valid, ready in self.circuit.handshakes():
                begun |= (self._rows[:, valid] & self._rows[:, ready]) != 0
        end = len(self._rows) - CYCLES_AFTER * self.circuit.has_streams
        return range(int(np.argmax(begun)), end)

    # -- injection -----------------------------------------------------------------------------

    def inject(
        self,
        faults: Sequence[Fault],
        *,
        jobs: int = 1,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> list[Injection]:
        """Simulate the job with each of some faults.

        Parameters
        ----------
        faults : sequence of Fault
            Sorted by cycle.
        jobs : int
            Processes at once.
        on_progress : callable
            Gets the faults that are done, and all.

        Raises
        ------
        CheckFailed
            If a simulation fails.
        """
        together = self._together(faults, jobs, on_progress)
        effects: dict[int, tuple[Effect, bool]] = {}
        alone: list[int] = []
        for index, lane in enumerate(together):
            if lane.outcome == "parted":
                alone.append(index)
            else:
                effects[index] = self._effect_of(lane)
        for index, effect in self._alone(alone, faults, jobs):
            effects[index] = effect
            on_progress(len(effects), len(faults))
        return [Injection(fault, *effects[index]) for index, fault in enumerate(faults)]

    def inject_alone(self, faults: Sequence[Fault], jobs: int = 1) -> list[Injection]:
        """Do the same by simulations of one fault each, which are slow: a second opinion."""
        effects = dict(self._alone(range(len(faults)), faults, jobs))
        return [Injection(fault, *effects[index]) for index, fault in enumerate(faults)]

    def _together(
        self, faults: Sequence[Fault], jobs: int, on_progress: Callable[[int, int], None]
    ) -> list[LaneResult]:
        """Return the ends of simulations of many faults at once."""
        batches = [range(i, min(i + _BATCH, len(faults))) for i in range(0, len(faults), _BATCH)]
        parts = [[n for batch in batches[j::jobs] for n in batch] for j in range(jobs)]
        parts = [part for part in parts if part]
        done = [0] * len(parts)

        def run(index: int) -> list[LaneResult]:
            def follow(count: int) -> None:
                done[index] = count
                on_progress(sum(done), len(faults))

            work = self._directory / f"lanes{index}"
            work.mkdir(exist_ok=True)
            return run_lanes(
                self.circuit, self._netlist, self.trace_file, [faults[n] for n in parts[index]],
                work, limit=2 * len(self._rows) + LIMIT_CYCLES, timeout=TIMEOUT_S, on_done=follow,
            )  # fmt: skip

        results: dict[int, LaneResult] = {}
        parts_results = run_all([partial(run, i) for i in range(len(parts))], jobs)
        for part, ends in zip(parts, parts_results, strict=True):
            results.update(zip(part, ends, strict=True))
        return [results[index] for index in range(len(faults))]

    def _effect_of(self, lane: LaneResult) -> tuple[Effect, bool]:
        if lane.outcome == "hang":
            return "hang", True
        if lane.outcome == "detected":
            return "detected", False
        if not lane.beats:
            return "masked", False
        effect, wrong = self._work.assess(self._results(lane.beats), self._expected)
        if effect == "masked" and self._work.checksums is None and self._ends_differ(lane.beats):
            effect = "silent"
        # Lanes of a beat that belong to no result may be wrong.
        if lane.outcome == "noticed" and effect != "masked":
            return "detected", False
        return effect, wrong

    def _ends_differ(self, wrong: Mapping[int, np.ndarray]) -> bool:
        """Return whether packets end at other beats, or there are more beats."""
        count, data = self._image.shape
        return any(
            index >= count or (len(beat) > data and bool(beat[data] & 1) != self._ends[index])
            for index, beat in wrong.items()
        )

    @cached_property
    def _ends(self) -> np.ndarray:
        """Whether each result beat without a fault ends a packet."""
        valid, ready, _ = self.circuit.sink_positions()
        beats = (self._rows[:, valid] & self._rows[:, ready]) != 0
        ends: np.ndarray = self._rows[beats, self.circuit.sink_end()] != 0
        return ends

    @cached_property
    def _expected(self) -> Arrays:
        """Results of the golden model."""
        return self.core.golden(self._work.job, self._work.operands)

    def _results(self, wrong: Mapping[int, np.ndarray]) -> Arrays:
        """Return the results of a stream core some of whose beats are wrong."""
        plan = self.core.schedule(self._work.job)
        assert isinstance(plan, StreamPlan)
        image = self._image.copy()
        for index, beat in wrong.items():
            if index < len(image):
                image[index] = beat[: image.shape[1]]
        return plan.unpack(image)

    @cached_property
    def _image(self) -> np.ndarray:
        """Result beats without a fault, shape (beats, bytes)."""
        valid, ready, data = self.circuit.sink_positions()
        beats = self._rows[(self._rows[:, valid] & self._rows[:, ready]) != 0][:, data]
        return np.packbits(beats, axis=1, bitorder="little")

    def _alone(
        self, indices: Sequence[int], faults: Sequence[Fault], jobs: int
    ) -> Iterator[tuple[int, tuple[Effect, bool]]]:
        """Yield the effects of some faults, each simulated alone."""
        level, job, job_operands = self._level, self._work.job, self._work.operands
        parts = [
            _Part(
                self._config, level.gates, level.table, dict(job.sizes), job.post, job_operands,
                self._error,
                tuple(indices[i : i + _ALONE]),
                tuple(faults[index] for index in indices[i : i + _ALONE]),
            )
            for i in range(0, len(indices), _ALONE)
        ]  # fmt: skip
        for part, ends in LocalProcesses(jobs).run(_simulate_part, parts):
            for index, end in zip(part.indices, ends, strict=True):
                yield index, self._effect_alone(*end)

    def _effect_alone(self, results: Arrays | None, is_noticed: bool) -> tuple[Effect, bool]:
        if results is None:
            return ("detected", False) if is_noticed else ("hang", True)
        effect, wrong = self._work.assess(results, self._expected)
        return ("detected", False) if is_noticed and effect != "masked" else (effect, wrong)


@dataclass(frozen=True, eq=False)
class _Part:
    """Faults that one process simulates alone, one after the other."""

    config: FamilyConfig
    gates: Gates
    table: GateTable
    sizes: dict[str, int]
    post: PostSettings | None
    operands: Arrays
    error: tuple[int, int, int] | None
    indices: tuple[int, ...]
    faults: tuple[Fault, ...]


End = tuple[Arrays | None, bool]
"""The results, if there are all, and whether the design reports an error."""


def _simulate_part(part: _Part) -> list[End]:
    with scratch("hwgen-fault-") as work:
        simulator = GateSimulator(part.gates, part.table, work)
        return [_simulate(part, simulator, fault) for fault in part.faults]


def _simulate(part: _Part, simulator: GateSimulator, fault: Fault) -> End:
    simulator.fault_file.write_bytes(faults_bytes([fault]))
    simulator.trace_file.unlink(missing_ok=True)
    if part.error:
        simulator.trace_file.touch()
    design = Design.of(part.config)
    m, k, n = (part.sizes[name] for name in "MKN")
    job = design.core.gemm(m, k, n, part.post)
    try:
        run = run_job(
            design, job, part.operands,
            compiler=simulator, any_cycles=True, timeout=TIMEOUT_S,
        )  # fmt: skip
    except (JobFailed, BusError):
        return None, True
    except CheckFailed:
        return None, _reports(part, simulator, fault)
    return run.results, _reports(part, simulator, fault)


def _reports(part: _Part, simulator: GateSimulator, fault: Fault) -> bool:
    """Return whether the error output was 1 in any cycle since the fault of the last run."""
    if part.error is None:
        return False
    skipped, width, position = part.error
    rows = np.fromfile(simulator.trace_file, np.uint8)[skipped:]
    rows = rows[: len(rows) // width * width].reshape(-1, width)
    return bool(rows[fault.cycle :, position].any())
