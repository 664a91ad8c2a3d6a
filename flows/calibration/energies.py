# SPDX-License-Identifier: Apache-2.0
"""Energies of components, fitted to simulations of mapped netlists with operands.

Each design of ``power_designs.jsonl`` is mapped as ``hwgen synth`` does by default, and its netlist
is simulated with operands of several kinds (`flows.power.operands.workloads`).  The energy of a
cycle has two parts, each a sum over the components of the design: *idle*, that of a cycle in which
only the clock moves, and *toggle*, what operands add, which follows the activity of the input
ports (`following`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cost_model.estimate.technology import technology as calibrated
from cost_model.memories.memories import macros_of
from cost_model.netlist.components import Counts
from cost_model.netlist.memories import memories_of
from cost_model.netlist.netlist import Netlist
from flows.build.design import Design
from flows.build.load import parse_config
from flows.calibration.bounds import bounds
from flows.calibration.draws import NAME
from flows.calibration.fit import Bound, Equation, fit_robust
from flows.calibration.mapping_cache import versions
from flows.calibration.results import rounded, summary
from flows.calibration.structural import interval, whole
from flows.power import operands as drawn_operands
from flows.power.netlist_power import GateLevel
from flows.power.operands import job_of_size, port_activity, workloads
from flows.synthesis import liberty
from flows.synthesis.synth import synthesize
from flows.synthesis.synth_cache import sources_digest
from flows.tools.cache import Document, digest, text_digest
from flows.tools.guard import scratch
from hwgen.core.params.base import FamilyConfig
from hwgen.core.registry import core_of
from hwgen.errors import CheckFailed, InputError
from hwgen.technologies import cell_library

DESIGNS = Path(__file__).with_name("power_designs.jsonl")

CYCLES = 600
"""Cycles that are simulated of each kind of operands, at least."""

TYPICAL = "normal"
"""The kind of operands that `toggle_fj` is of; of cores that multiply nothing `UNIFORM`."""

UNIFORM = "uniform"
BUSIEST = ("uniform", "alternating")
"""Kinds of operands of which the worst counts as ``worst``."""

GLITCH_CELLS = 6000
"""Cells up to which a netlist is also simulated with delays."""

GUESS = 0.5
"""Weight of usual energies: as much as half a design, as few tell of each component."""

CONSTANT, REFERENCE = 0.2, 0.4
"""The toggle energy of a design is proportional to ``c + (1 - c) a / r``: `a` the changes of an
input bit in a cycle, `r` those of which energies of components are.  c is the best of 0, 0.1, 0.2
and 1 at nangate45."""

LOWEST, HIGHEST = 0.3, 3.0
"""Energies of components over their usual ones."""

CLOCKED = ("register_bit",)
"""Components with clock pins."""


@dataclass(frozen=True)
class PowerMeasured:
    """Energies of a design by simulation of its netlist, in fJ a cycle.

    Parameters
    ----------
    name, drawn_from : str
        The configuration; ``realistic`` or ``legal``, which distribution it is from.
    family : str
    cells : int
    clock_mhz : float
        At which power is stated.
    leakage_nw, idle_fj : float
        Leakage; a cycle in which only the clock moves.
    activity, toggle_fj : mapping
        By kind of operands: changes of an input bit in a cycle; what the cycle takes more.
    glitching_fj : float or None
        The same of typical operands, with glitches.
    """

    name: str
    drawn_from: str
    family: str
    cells: int
    clock_mhz: float
    leakage_nw: float
    idle_fj: float
    activity: Mapping[str, float]
    toggle_fj: Mapping[str, float]
    glitching_fj: float | None

    @property
    def typical_fj(self) -> float:
        """Toggle energy with typical operands."""
        return self.toggle_fj.get(TYPICAL, self.toggle_fj[UNIFORM])

    @property
    def typical_activity(self) -> float:
        """Activity of the input ports with typical operands."""
        return self.activity.get(TYPICAL, self.activity[UNIFORM])

    def power_mw(self, toggle_fj: float) -> float:
        """Return the power with a toggle energy."""
        return (self.leakage_nw + (self.idle_fj + toggle_fj) * self.clock_mhz) * 1e-6


def designs() -> list[tuple[str, FamilyConfig]]:
    """Return the configurations that energies are fitted to, and which distribution each is of."""
    result = []
    for line in DESIGNS.read_text(encoding="utf-8").splitlines():
        values = {"name": NAME, **json.loads(line)}
        drawn_from = values.pop("drawn_from")
        result.append((drawn_from, parse_config(json.dumps(values), DESIGNS.name, quickly=True)))
    return result


def measure(config: FamilyConfig, drawn_from: str, technology: str) -> PowerMeasured:
    """Map and simulate a design; results are kept in the user's cache.

    Raises
    ------
    ToolMissing, CheckFailed
        If a tool is missing or fails, or the netlist computes wrong results.
    """
    parts = [
        str(config.resolved()), technology, text_digest(liberty.load(technology).text),
        cell_library(technology).mapping, sources_digest(), _sources(), versions(),
    ]  # fmt: skip
    entry = Document("energies", digest(parts))
    document = entry.read()
    if document is None:
        document = asdict(_measure(config, drawn_from, technology))
        entry.write(document)
    return PowerMeasured(**document)


@cache
def _sources() -> str:
    folder = Path(drawn_operands.__file__).parent
    modules = (
        "cell_delays", "cell_functions", "cell_power", "gate_tables", "internal_power", "operands",
        "power",
    )  # fmt: skip
    files = [*(folder / f"{name}.py" for name in modules), *sorted((folder / "cpp").iterdir())]
    return digest([path.read_text(encoding="utf-8") for path in files])


def _measure(config: FamilyConfig, drawn_from: str, technology: str) -> PowerMeasured:
    core = core_of(config)
    job = job_of_size(core, CYCLES)
    result = synthesize(Design.of(config), technology)
    activity, toggle = {}, {}
    with scratch("hwgen-power-") as directory:
        level = GateLevel(config, result, directory)

        def cycle_fj(level: GateLevel, activity: Any) -> float:
            power = level.power(activity, "", 1)
            return (power.total_mw - power.leakage_mw) / power.clock_mhz * 1e6

        idle = level.power(level.idle(), "", 1)
        idle_fj = cycle_fj(level, level.idle())
        for kind, operands in workloads(core, job).items():
            try:
                measured = level.simulate(job, operands)
            except InputError:  # a binary format has no zero
                continue
            activity[kind] = port_activity(core, job, operands, measured.cycles)
            toggle[kind] = cycle_fj(level, measured) - idle_fj
        cells, glitching = len(level.gates.gates), None
        if cells <= GLITCH_CELLS:
            operands = workloads(core, job)[TYPICAL if TYPICAL in toggle else UNIFORM]
            timed = GateLevel(config, result, directory, glitches=True)
            glitching = cycle_fj(timed, timed.simulate(job, operands)) - idle_fj
    return PowerMeasured(
        str(config.resolved()), drawn_from, config.family, cells, level.clock_mhz,
        1e6 * idle.leakage_mw, idle_fj, activity, toggle, glitching,
    )  # fmt: skip


def has_macros(netlist: Netlist, config: FamilyConfig, technology: str) -> bool:
    """Return whether memories of a design are SRAM macros, whose energies are known."""
    costs = calibrated(technology)
    below = config.memories.registers_below
    return bool(macros_of(memories_of(netlist), technology, costs, below))


def measured(
    technology: str,
    progress: Callable[[int, int, str], None] = lambda done, total, text: None,
    most: int | None = None,
) -> Iterator[tuple[PowerMeasured, Counts]]:
    """Yield the measured designs and their components; those that cannot be measured are not.

    `most` limits them to the first so many.
    """
    chosen = designs()[:most]
    for number, (drawn_from, config) in enumerate(chosen):
        netlist = Design.of(config).netlist
        if has_macros(netlist, config, technology):
            continue
        try:
            result = measure(config, drawn_from, technology)
        except CheckFailed as error:
            progress(number, len(chosen), str(error).splitlines()[0])
            continue
        progress(number, len(chosen), f"{result.family}, {result.cells} cells")
        if UNIFORM not in result.toggle_fj:  # operands of such a kind do not go together
            continue
        yield result, whole(netlist)


@dataclass(frozen=True)
class Fitted:
    """Energies of components and how they follow the operands.

    Parameters
    ----------
    idle_fj, toggle_fj : mapping
        By component: what a cycle takes in which only the clock moves, and what operands add that
        change `REFERENCE` of the input bits.
    worst : float
        The busiest operands' toggle energy over that of typical ones, which nine of ten designs
        stay within.
    """

    idle_fj: Mapping[str, float]
    toggle_fj: Mapping[str, float]
    worst: float


Pairs = Sequence[tuple[PowerMeasured, Counts]]


def fit(pairs: Pairs, limits: Mapping[str, Bound]) -> Fitted:
    """Fit energies to measured designs.

    Parameters
    ----------
    pairs : sequence of tuple
        Measured designs and their components.
    limits : mapping
        Bounds of the toggle energy of components.
    """
    weights = [1.0] * len(pairs)
    idle = [Equation(m.name, _clocked(counts), m.idle_fj) for m, counts in pairs]
    per_bit = float(np.median([m.idle_fj / _clocked(c)[CLOCKED[0]] for m, c in pairs]))
    around = {CLOCKED[0]: Bound(0.5 * per_bit, per_bit, 2 * per_bit)}
    toggle = [
        Equation(m.name, counts, m.typical_fj / following(m.typical_activity))
        for m, counts in pairs
    ]
    return Fitted(
        fit_robust(idle, weights, around, GUESS),
        fit_robust(toggle, weights, limits, GUESS),
        float(np.quantile([_busiest(m) for m, _ in pairs], 0.9)),
    )


def _clocked(counts: Counts) -> dict[str, float]:
    return {name: counts.get(name, 0.0) for name in CLOCKED}


def _busiest(m: PowerMeasured) -> float:
    return max(m.toggle_fj[kind] for kind in BUSIEST if kind in m.toggle_fj) / m.typical_fj


def following(activity: float) -> float:
    """Return the factor of toggle energies for an activity of the input ports."""
    return CONSTANT + (1 - CONSTANT) * activity / REFERENCE


def toggle_limits(technology: str, pairs: Pairs) -> dict[str, Bound]:
    """Return bounds of the toggle energies of components.

    What is usual is in proportion to the inputs that switch (`flows.calibration.bounds`), scaled so
    that designs have the energy that they have.
    """
    assumed = bounds(technology, "energy_fj")
    scale = float(np.median([
        m.typical_fj / following(m.typical_activity)
        / sum(assumed[name].usual * n for name, n in counts.items() if name in assumed)
        for m, counts in pairs
    ]))  # fmt: skip
    return {
        name: Bound(LOWEST * scale * b.usual, scale * b.usual, HIGHEST * scale * max(b.usual, 0.1))
        for name, b in assumed.items()
    }


def estimated_mw(fitted: Fitted, m: PowerMeasured, counts: Counts, activity: float) -> float:
    """Return the power of a design by fitted energies, its leakage being that of the netlist."""
    idle = sum(fitted.idle_fj.get(name, 0.0) * n for name, n in counts.items())
    toggle = sum(fitted.toggle_fj.get(name, 0.0) * n for name, n in counts.items())
    return (m.leakage_nw + (idle + following(activity) * toggle) * m.clock_mhz) * 1e-6


Errors = Mapping[str, Sequence[tuple[PowerMeasured, float]]]
"""By kind of operands: designs and the errors of their power."""


def table(technology: str, pairs: Pairs, errors: Errors) -> dict[str, Any]:
    """Return the energies that fit measured designs, and the errors of designs left out."""
    fitted = fit(pairs, toggle_limits(technology, pairs))
    glitches = glitch_factors(pairs)
    return {
        "idle_fj": rounded(dict(sorted(fitted.idle_fj.items()))),
        "toggle_fj": rounded(dict(sorted(fitted.toggle_fj.items()))),
        "constant": CONSTANT,
        "reference": REFERENCE,
        "worst": round(fitted.worst, 4),
        "uncertainty": round(interval([error for _, error in errors["typical"]]), 4),
        "glitches": {
            "designs": len(glitches),
            "low": round(float(np.quantile(glitches, 0.05)), 3),
            "median": round(float(np.median(glitches)), 3),
            "high": round(float(np.quantile(glitches, 0.95)), 3),
        },
        "provenance": {
            "designs": len(pairs),
            "operands": f"{TYPICAL}: standard deviation {drawn_operands.SPREAD} of the largest",
            "tools": versions(),
            "liberty": text_digest(liberty.load(technology).text),
            "left_out": {
                kind: summary(error for _, error in each) for kind, each in errors.items()
            },
        },
    }


def glitch_factors(pairs: Pairs) -> list[float]:
    """Return the toggle energies with glitches over those without, of designs with both."""
    return [m.glitching_fj / m.typical_fj for m, _ in pairs if m.glitching_fj is not None]


def left_out(technology: str, pairs: Pairs) -> Errors:
    """Return errors of the power of designs, each by a fit to the others, by kind of operands.

    ``typical``; and of products ``digits``, by the activity of the ports.
    """
    limits = toggle_limits(technology, pairs)
    result: dict[str, list[tuple[PowerMeasured, float]]] = {"typical": [], "digits": []}
    for index, (m, counts) in enumerate(pairs):
        fitted = fit([*pairs[:index], *pairs[index + 1 :]], limits)
        estimated = estimated_mw(fitted, m, counts, m.typical_activity)
        result["typical"].append((m, estimated / m.power_mw(m.typical_fj) - 1))
        if "digits" in m.toggle_fj:
            estimated = estimated_mw(fitted, m, counts, m.activity["digits"])
            result["digits"].append((m, estimated / m.power_mw(m.toggle_fj["digits"]) - 1))
    return {kind: each for kind, each in result.items() if each}
