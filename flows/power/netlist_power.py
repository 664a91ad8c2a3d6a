# SPDX-License-Identifier: Apache-2.0
"""Power of a core at work: its mapped netlist simulated with operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flows.build.design import Design
from flows.layout.wires import WireResult
from flows.power.cell_delays import cell_delays, input_delay_ps
from flows.power.gate_simulator import GateSimulator
from flows.power.gate_tables import numbered_netlist, read_counts
from flows.power.gates import read_netlist
from flows.power.internal_power import CellEnergies
from flows.power.operands import has_stream_ports, job_of_size, port_activity, workloads
from flows.power.power import Activity, PowerResult, power_of
from flows.simulation.run import ACTIVITY, check_results, run_job
from flows.synthesis import liberty
from flows.synthesis.result import SynthesisResult
from flows.synthesis.standard_cells import TIMEOUT
from flows.synthesis.synth_cache import CLOCK
from flows.tools.guard import scratch
from hwgen.core.core import Core
from hwgen.core.files.arrays import read_npz
from hwgen.core.operation import Arrays, Job, gemm_operands
from hwgen.core.params.base import FamilyConfig
from hwgen.core.registry import core_of
from hwgen.errors import InputError
from hwgen.formats.block import quantise_lines
from hwgen.technologies import cell_library, technology, technology_names
from hwgen.workloads import Gemm, parse_gemm

RANDOM = Gemm(m=32, k=64, n=32)
"""Sizes of random operands unless others are asked for."""

SEED = 1
TYPICAL_CYCLES = 600
"""Cycles of a job with typical operands, at least, as where energies are fitted."""
LONGEST_S = 24 * 3600.0
"""Limit of a simulation."""


@dataclass(frozen=True)
class Workload:
    """Workload of a core while its power is measured.

    Parameters
    ----------
    name : str
        In words.
    a : ndarray, shape (m, k)
    w : ndarray, shape (k, n)
    """

    name: str
    a: np.ndarray
    w: np.ndarray

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return int(self.a.shape[0] * self.a.shape[1] * self.w.shape[1])


def workload(
    config: FamilyConfig, text: str, option: str = "--activity", more: str = ""
) -> Workload:
    """Return the workload that an option names.

    Parameters
    ----------
    config : FamilyConfig
    text : str
        ``random``, ``random:M,K,N``, or an ``.npz`` file with ``activations`` and ``weights``.
    option, more : str
        For the message: the option, and what else it may be.

    Raises
    ------
    InputError
        If it names none.
    """
    if text == "random" or text.startswith("random:"):
        m, k, n = parse_gemm(text[7:]) if text != "random" else RANDOM
        rng = np.random.default_rng(SEED)
        a = _random(config.activation, rng, (m, k))
        turned = _in_blocks(config.weight)  # whose blocks run along columns
        w = _random(config.weight, rng, (n, k) if turned else (k, n))
        w = w.T if turned else w
        blocks = turned or _in_blocks(config.activation)
        spread = "blocks normally distributed" if blocks else "uniform over their ranges"
        name = (
            f"random {config.activation.name} x {config.weight.name}, M,K,N = {m},{k},{n},"
            f" {spread}, seed {SEED}"
        )
        return Workload(name, a, w)
    try:
        a, w = read_npz(Path(text), ("activations", "weights"))
    except (OSError, InputError) as error:
        raise InputError(
            f"{option}: must be {more}random, random:M,K,N, or an .npz file with the arrays"
            f" activations (M, K) and weights (K, N), not {text!r} ({error})"
        ) from None
    if a.ndim != 2 or w.ndim != 2 or a.shape[1] != w.shape[0]:
        raise InputError(
            f"{text}: activations must be (M, K) and weights (K, N) with the same K, not {a.shape}"
            f" and {w.shape}"
        )
    (m, k), n = a.shape, w.shape[1]
    try:
        a, w = _quantised(config.activation, a), _quantised(config.weight, w.T).T
    except InputError as error:
        raise InputError(f"{text}: {error}") from None
    return Workload(f"{Path(text).name}, M,K,N = {m},{k},{n}", a, w)


def port_changes(core: Core[Any], text: str, reference: float) -> float:
    """Return the changes of a data bit of the input ports in a cycle, on average.

    Parameters
    ----------
    core : Core
    text : str
        ``typical`` or ``worst``, both that of typical operands, or as `workload` takes it.
    reference : float
        What it is of typical operands of engines without streams of their own at the ports, whose
        units take them from memories: that of the designs whose energies were fitted.

    Raises
    ------
    InputError
        If the core multiplies no matrices, or the operands do not fit it.
    """
    if text in ("typical", "worst"):
        if not has_stream_ports(core):
            return reference
        job = job_of_size(core, TYPICAL_CYCLES)
        kinds = workloads(core, job)
        for kind in ("normal", "uniform"):  # of binary formats none are normally distributed
            with suppress(KeyError, InputError):
                operands = kinds[kind]
                return port_activity(core, job, operands, core.cycles([job], [operands]).number)
    if not core.multiplies:
        raise InputError(
            f"--activity: {core.name!r} multiplies no matrices; say assumed, typical or worst"
        )
    if not has_stream_ports(core):
        raise InputError(
            f"--activity: {core.name!r} takes operands from memories; say assumed, typical or worst"
        )
    work = workload(core.params, text)
    (m, k), n = work.a.shape, work.w.shape[1]
    job = core.gemm(m, k, n)
    operands = gemm_operands(work.a, work.w)
    return port_activity(core, job, operands, core.cycles([job], [operands]).number)


def _in_blocks(fmt: Any) -> bool:
    return bool(fmt.is_block)


def _quantised(fmt: Any, lines: np.ndarray) -> np.ndarray:
    """Return lines of numbers in blocks if the format has some, else as they are."""
    if fmt.is_block and lines.dtype.kind == "f":
        return quantise_lines(fmt, lines)[0]
    return lines


def _random(fmt: Any, rng: np.random.Generator, lines: tuple[int, int]) -> np.ndarray:
    """Return an operand, of a block format lines of normally distributed numbers, quantised."""
    if fmt.is_block:
        return quantise_lines(fmt, rng.standard_normal(lines))[0]
    return np.asarray(fmt.random(rng, lines).astype(fmt.dtype))


class GateLevel:
    """The mapped netlist of a design, ready to be simulated.

    Parameters
    ----------
    config : FamilyConfig
    result : SynthesisResult
        Of the configuration, for standard cells.
    directory : Path
        To work in.
    liberty_files : sequence of str
        As for the synthesis.
    glitches : bool
        Whether cells have delays.

    Raises
    ------
    InputError
        If the target is of another kind.
    CheckFailed
        If the netlist cannot be simulated.

    Attributes
    ----------
    design : Design
    library : Library
    tech : StandardCells
    gates : Gates
    netlist : NumberedNetlist
    table : GateTable
    simulator : GateSimulator
    clock_mhz : float
        The clock that was asked for, or the fastest that the core reaches.
    """

    def __init__(
        self,
        config: FamilyConfig,
        result: SynthesisResult,
        directory: Path,
        *,
        liberty_files: Sequence[str | Path] = (),
        glitches: bool = False,
    ) -> None:
        self.library = liberty.load(result.target, liberty_files)
        self.tech = cell_library(result.target)
        self.clock_mhz = min(result.clock_target_mhz, result.fmax_mhz or result.clock_target_mhz)
        netlist = result.files["netlist.v"].decode()
        boxes = result.files.get("macros.v", b"").decode()
        self.gates = read_netlist(
            netlist, result.name, self.library, directory, TIMEOUT, boxes if result.macros else ""
        )
        self._energies = CellEnergies(self.library)
        self.design, self._directory, self._glitches = Design.of(config), directory, glitches
        delays = cell_delays(self.gates, self.library, self.tech) if glitches else None
        memories = self.tech.memories if result.macros else None
        self.netlist = numbered_netlist(
            self.gates, self.library, CLOCK, memories=memories, delays=delays
        )
        late = input_delay_ps(self.gates, self.library, delays) if delays else 0
        self.table = self.netlist.table(late)
        self.simulator = GateSimulator(self.gates, self.table, directory)

    def simulate(
        self,
        job: Job,
        operands: Arrays,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Activity:
        """Run a job through the netlist; the results are checked.

        Raises
        ------
        InputError
            If the operands do not fit the core.
        CheckFailed
            If the simulation fails or gives wrong results.
        """
        result = run_job(
            self.design,
            job,
            operands,
            activity=self._directory,
            compiler=self.simulator,
            on_progress=on_progress,
            timeout=LONGEST_S,
        )
        expected = self.design.core.golden(job, operands)
        check_results("the netlist", result.results, expected)
        cycles, changes, accesses = read_counts(self._directory / ACTIVITY, self.table)
        return Activity(
            cycles,
            dict(zip(self.table.nets, changes.tolist(), strict=True)),
            dict(zip(self.table.macros, map(tuple, accesses.tolist()), strict=True)),
            self._glitches,
        )

    def power(
        self,
        activity: Activity,
        workload: str,
        macs: int,
        wires: WireResult | None = None,
    ) -> PowerResult:
        """Return the power of the netlist with an activity.

        The clock is the one that was asked for, or the fastest that the core reaches, with `wires`
        if they are given, if that is less.
        """
        clock_mhz = min(self.clock_mhz, (wires and wires.fmax_mhz) or self.clock_mhz)
        return power_of(
            self.gates, activity, self.library, self.tech, CLOCK, clock_mhz,
            workload=workload, macs=macs, energies=self._energies,
            wire_ff=wires.net_ff if wires else None,
        )  # fmt: skip

    def idle(self) -> Activity:
        """Return the activity of a netlist in which only the clock moves."""
        names = (*self.table.macros,)
        return Activity(1, dict.fromkeys(self.table.nets, 0), dict.fromkeys(names, (0, 0)))


def measure_power(
    config: FamilyConfig,
    result: SynthesisResult,
    work: Workload,
    *,
    liberty_files: Sequence[str | Path] = (),
    post: tuple[Any, ...] = (),
    glitches: bool = False,
    wires: WireResult | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> PowerResult:
    """Return the power of a synthesized core or engine at work.

    Parameters
    ----------
    config : FamilyConfig
    result : SynthesisResult
        Of the configuration, for standard cells.
    work : Workload
    liberty_files : sequence of str
        As for the synthesis.
    post : tuple
        Settings and columns, of a core with post-processing.
    glitches : bool
        Whether the simulation has the delays of cells.
    wires : WireResult, optional
        Wires of the netlist, whose capacitances are charged as well.
    on_progress : callable, optional
        Gets the cycles simulated and the cycles in all.

    Raises
    ------
    InputError
        If the core or the target is of another kind.
    CheckFailed
        If a tool fails or the netlist gives wrong results.
    """
    measurable(config, result.target)
    settings, columns = post or (None, None)
    with scratch("hwgen-power-") as directory:
        level = GateLevel(config, result, directory, liberty_files=liberty_files, glitches=glitches)
        (m, k), n = work.a.shape, work.w.shape[1]
        job = core_of(config).gemm(m, k, n, settings)
        activity = level.simulate(job, gemm_operands(work.a, work.w, columns), on_progress)
        return level.power(activity, work.name, work.macs, wires)


def measurable(config: FamilyConfig, target: str) -> None:
    """Raise `InputError` unless the power of a configuration can be measured for a target."""
    if technology(target).kind != "standard_cells":
        names = ", ".join(technology_names("standard_cells"))
        raise InputError(f"--activity: power is known of standard cells ({names}), not of {target}")
    if not config.multiplies:
        raise InputError(
            f"--activity: {config.name!r} multiplies no matrices; power is measured of cores and"
            " engines that do"
        )
