# SPDX-License-Identifier: Apache-2.0
"""Power of a core at work: its mapped netlist simulated with operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flows.build.design import Design
from flows.power.gates import Gates, read_netlist
from flows.power.power import Activity, PowerResult, power_of, read_saif
from flows.simulation.run import check_results, run_product
from flows.synthesis import liberty
from flows.synthesis.result import SynthesisResult
from flows.synthesis.standard_cells import TIMEOUT
from flows.synthesis.synth_cache import CLOCK
from flows.tools.guard import scratch
from hwgen.core.files.arrays import read_npz
from hwgen.core.params.base import FamilyConfig
from hwgen.core.registry import core_of
from hwgen.errors import InputError
from hwgen.formats.block import quantise_lines
from hwgen.technologies import cell_library, technology, technology_names
from hwgen.workloads import Gemm, parse_gemm

RANDOM = Gemm(m=32, k=64, n=32)
"""Sizes of random operands unless others are asked for."""

SEED = 1
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


def workload(config: FamilyConfig, text: str) -> Workload:
    """Return the workload that ``--activity`` names.

    Parameters
    ----------
    config : FamilyConfig
    text : str
        ``random``, ``random:M,K,N``, or an ``.npz`` file with ``activations`` and ``weights``.

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
            f"--activity: must be random, random:M,K,N, or an .npz file with the arrays activations"
            f" (M, K) and weights (K, N), not {text!r} ({error})"
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


def simulated(
    config: FamilyConfig,
    gates: Gates,
    work: Workload,
    directory: Path,
    post: tuple[Any, ...] = (),
    on_progress: Callable[[int, int], None] | None = None,
) -> Activity:
    """Run operands through the netlist of a core; the results are checked.

    Raises
    ------
    InputError
        If the operands do not fit the core.
    CheckFailed
        If the simulation fails or gives wrong results.
    """
    core = core_of(config)
    settings, columns = post or (None, None)
    result = run_product(
        Design.of(config).with_verilog(gates.design()),
        work.a,
        work.w,
        settings,
        columns,
        activity=directory,
        on_progress=on_progress,
        timeout=LONGEST_S,
    )
    golden = core.multiply(work.a, work.w, settings, columns)
    check_results("the netlist", result.results, {"result": golden})
    return read_saif(directory / "beats.bin.saif")


def measure_power(
    config: FamilyConfig,
    result: SynthesisResult,
    work: Workload,
    *,
    liberty_files: Sequence[str | Path] = (),
    post: tuple[Any, ...] = (),
    on_progress: Callable[[int, int], None] | None = None,
) -> PowerResult:
    """Return the power of a synthesized core at work.

    The clock is the one that was asked for, or the fastest that the core reaches if that is less.

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
    tech = cell_library(result.target)
    library = liberty.load(result.target, liberty_files)
    clock = min(result.clock_target_mhz, result.fmax_mhz or result.clock_target_mhz)
    with scratch("hwgen-power-") as directory:
        netlist = result.files["netlist.v"].decode()
        gates = read_netlist(netlist, result.name, library, directory, TIMEOUT)
        activity = simulated(config, gates, work, directory, post, on_progress)
        return power_of(
            gates, activity, library, tech, CLOCK, clock, workload=work.name, macs=work.macs
        )  # fmt: skip


def measurable(config: FamilyConfig, target: str) -> None:
    """Raise `InputError` unless the power of a configuration can be measured for a target."""
    if technology(target).kind != "standard_cells":
        names = ", ".join(technology_names("standard_cells"))
        raise InputError(f"--activity: power is known of standard cells ({names}), not of {target}")
    if not config.ports:
        raise InputError(
            f"--activity: {config.name!r} works on memory; power is measured of cores with stream"
            " ports, such as the one that an engine has under `compute`"
        )
