# SPDX-License-Identifier: Apache-2.0
"""The estimate of one configuration as plain data, for people, manifests and programs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cost_model.configurations.configurations import Configurations
from cost_model.configurations.metrics import RESOURCES, Workloads, metric_names
from cost_model.estimate import technology as technologies
from cost_model.estimate.activity import ASSUMED, Activity
from cost_model.estimate.analysis import Analysis
from cost_model.estimate.certainty import Operands, certainty, timed
from cost_model.estimate.costed import STRUCTURE, Costed, buffers_of, costed, plain
from cost_model.estimate.missing_metrics import reasons
from cost_model.memories import memories
from cost_model.netlist.fabric import energy as fabric_energy
from cost_model.roofline import roofline
from cost_model.roofline.report import roofline as report
from cost_model.timing.limit import described, steps_of
from hwgen.core.core import Core
from hwgen.core.cycles.basis import Cycles
from hwgen.core.params.off_chip import OffChip
from hwgen.core.params.target import Target
from hwgen.core.post import PostSettings
from hwgen.core.protocols import BufferedCore
from hwgen.technologies import technologies as installed
from hwgen.technologies import technology_of
from hwgen.technologies.fpga_model import Fpga
from hwgen.technologies.utilization import smallest, utilization
from hwgen.workloads import Network, network_of
from hwgen.workloads.timing import PassTiming

if TYPE_CHECKING:  # an alias that exists for type checkers only
    from hwgen.core.operation import Job

_OF = {"area_mm2": "area", "fmax_mhz": "fmax", "power_w": "power", "luts_used": "luts",
       **{name: name for name in RESOURCES}}  # fmt: skip
"""Metrics of which the uncertainty is known, and its name in a table of costs."""


def estimate(
    core: Core[Any],
    target: Target | None = None,
    workloads: Workloads | None = None,
    *,
    operands: Operands | None = None,
    post: PostSettings | None = None,
    jobs: Mapping[str, Job] | None = None,
    timings: Mapping[str, PassTiming] | None = None,
    analysis: Analysis | None = None,
    made_of: memories.Form = "macros",
    fpga_energies: bool = False,
    activity: Activity = ASSUMED,
) -> dict[str, Any]:
    """Estimate costs and speed of a core.

    Parameters
    ----------
    core : Core
    target : Target, optional
        Technology, clock and memory; default those of the configuration.
    workloads : mapping, optional
        Name: sizes (M, K, N) of products.
    operands : mapping, optional
        Name of a workload: the matrices A and W that it multiplies, whose values count where
        cycles depend on them.
    post : PostSettings, optional
        Post-processing of the products; default none.
    jobs : mapping, optional
        Name: an operation that is no product of matrices, with its sizes and scalars.
    timings : mapping, optional
        Name of a workload: its pass on the engine, whose cycles take the place of those of its
        products.
    analysis : Analysis, optional
        Of the structure of its hardware.  Without it, costs are not known.
    made_of : {"macros", "registers"}
        What memories are made of; see `cost_model.memories.memories`.
    fpga_energies : bool, optional
        Whether FPGAs have power, by energies of another fabric; see
        `cost_model.netlist.fabric.energy`.
    activity : Activity, optional
        By which power of standard cells is; see `cost_model.estimate.activity`.

    Returns
    -------
    dict
        JSON values: ``figures_at_mhz``, the clock that figures per second are at, and
        ``clock_basis``, whether it is the one ``asked for``, ``fmax`` where that is less, or
        ``assumed``, the one that was asked for where no Fmax is known; ``metrics`` as
        `cost_model.configurations.metrics` names them, None if unknown;
        ``unknown``, by metric that is None, why, see `cost_model.estimate.missing_metrics`;
        ``uncertainty``, by metric, the relative error that nine of ten designs that calibration
        has not seen stay within; ``breakdown``, what each part costs and consists of;
        ``units``, the same by unit of an engine of several, see `cost_model.estimate.units`;
        ``certainty``, by metric, whether it is exact, expected, assumed or modelled, see
        `cost_model.estimate.certainty`; ``memory``, of an engine, what its buffers cost and the
        memory behind its port takes, else None; ``roofline``, what the memory behind the ports does
        to the workloads, see `cost_model.roofline.report.roofline`, None where ports are taken to
        be served always; ``device``, what is used of the FPGA device that the target names, or
        (``named`` is false) of the smallest of the family that is large enough, else the largest,
        see `hwgen.technologies.utilization`; None of standard cells; ``costs_of``, what area and
        power are sums over, `cost_model.estimate.costed.STRUCTURE`; ``cost_table``, the source of
        the costs, only where they are of a user's table; ``activity``, by which power
        is, with ``about``, that in words; ``memories_w``, the share of the memories in
        power; ``limiting_path``, which limits Fmax, if it is known, see
        `cost_model.timing.limit.described`; ``notes``, why figures are missing.
    """
    target = _of_one_technology(core.params.target if target is None else target)
    technology, clock, off_chip = target.technology, target.clock_mhz, target.memory
    networks = {name: network_of(sizes) for name, sizes in (workloads or {}).items()}
    # A memory limits what is known in the end: see `_with_memory`.
    served = target.model_copy(update={"memory": OffChip()})
    tech = technologies.technology(technology) if technologies.is_calibrated(technology) else None
    single = Configurations.of(core, served, post)
    costs = costed(
        single, tech, networks, analysis, made_of,
        fpga_energies=fpga_energies, activity=activity,
    )  # fmt: skip
    metrics, notes = costs.metrics, costs.notes
    cycles = timed(core, networks, operands or {}, metrics, post)
    cycles |= _jobs(core, jobs or {}, metrics, clock)
    paces = {name: _count(metrics, name, cycles[name]) for name in operands or {}}
    for name, timing in (timings or {}).items():
        if metrics.get(f"cycles({name})"):
            cycles[name] = timing.cycles
            _count(metrics, name, timing.cycles)
    memory = _memory(core, networks, metrics, costs.made, target, post)
    limits = _with_memory(
        Configurations.of(core, target, post), networks, metrics, clock, paces, timings
    )
    if limits is not None and (reason := _without_energy(networks, off_chip)):
        notes.append(reason)
    uncertainty = _uncertainty(tech, costs)
    if fpga_energies and isinstance(installed()[technology], Fpga):
        uncertainty |= fabric_energy.margins(metrics, networks)
    return {
        "name": core.name,
        "family": core.family_name(),
        "technology": technology,
        "calibrated": tech is not None,
        **_source(technology),
        "clock_mhz": clock,
        **_speed(metrics["fmax_mhz"], clock),
        "metrics": metrics,
        "unknown": reasons(
            metrics, technology, streams=bool(core.ports), fpga_energies=fpga_energies
        ),
        "limiting_path": described(costs.path, steps_of(tech)) if costs.path and tech else None,
        "uncertainty": uncertainty,
        "certainty": certainty(
            core, metrics, uncertainty, clock, cycles, limited=limits is not None
        ),
        "breakdown": [_plain(part) for part in costs.breakdown],
        "units": [_plain(each) for each in costs.units],
        "memories": [_plain(each.document()) for each in costs.made],
        "memories_w": _memories_w(costs.made, metrics, clock),
        "memories_source": costs.macros_source,
        "memory": memory,
        "roofline": limits,
        "device": _utilization(target, metrics),
        "costs_of": STRUCTURE if costs.breakdown else None,
        "activity": activity.document(technology),
        "notes": notes,
    }


def _memories_w(
    made: Sequence[memories.Made], metrics: Mapping[str, Any], clock_mhz: float
) -> float | None:
    """Return the share of the memories in power, None where that is not known."""
    if metrics["power_w"] is None or metrics["area_mm2"] is None:  # of FPGAs it is not separate
        return None
    clock = min(clock_mhz, metrics["fmax_mhz"] or clock_mhz)
    total = sum((each.leakage_nw + each.energy_fj * clock) * 1e-9 for each in made)
    return plain(total)


def _source(technology: str) -> dict[str, str]:
    """Return the source of the costs, if they are of a user's table."""
    if technology not in installed() or (table := technologies.table_of(technology)) is None:
        return {}
    return {"cost_table": table.source}


def _speed(fmax: float | None, clock_mhz: float) -> dict[str, Any]:
    """Return at which clock figures per second are, and why."""
    if fmax is None:
        return {"meets_clock": None, "figures_at_mhz": clock_mhz, "clock_basis": "assumed"}
    meets = fmax >= clock_mhz
    basis = "asked for" if meets else "fmax"
    return {"meets_clock": meets, "figures_at_mhz": min(fmax, clock_mhz), "clock_basis": basis}


def _of_one_technology(target: Target) -> Target:
    """Return a target without its device, if that is of another technology."""
    if target.device is None or technology_of(target.device) == target.technology:
        return target
    return target.model_copy(update={"device": None})


def _utilization(target: Target, metrics: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the use of the device of a target, or of the smallest of its family that will do."""
    used = {name: metrics.get(name) for name in RESOURCES}
    device = target.device or smallest(target.technology, used)
    if device is None:
        return None
    return {**utilization(device, used), "named": target.device is not None}


def _uncertainty(tech: technologies.Technology | None, costs: Costed) -> dict[str, float | None]:
    """Return the margin of each metric."""
    result = {metric: costs.margins.get(name) for metric, name in _OF.items()}
    if tech is not None and costs.path is not None:
        return {**result, "fmax_mhz": tech.timing["uncertainty"]}
    return {**result, "fmax_mhz": None}


def _jobs(
    core: Core[Any], jobs: Mapping[str, Job], metrics: dict[str, Any], clock_mhz: float
) -> dict[str, Cycles]:
    """Put cycles, time and energy of jobs into the metrics, and return the cycles."""
    result, clock = {}, min(clock_mhz, metrics.get("fmax_mhz") or clock_mhz)
    for name, job in jobs.items():
        cycles = core.cycles([job])
        power = metrics.get("power_w")
        latency = cycles.number / clock * 1e-3
        metrics[f"cycles({name})"] = cycles.number
        metrics[f"latency_ms({name})"] = latency
        metrics[f"energy_mj({name})"] = None if power is None else plain(latency * power)
        result[name] = cycles
    return result


def _count(metrics: dict[str, Any], name: str, cycles: Cycles) -> float:
    """Put the cycles of given matrices in the place of those of any, and return their ratio."""
    ratio = float(cycles.number / metrics[f"cycles({name})"])
    metrics[f"cycles({name})"] = cycles.number
    for metric in (f"latency_ms({name})", f"energy_mj({name})"):
        if metrics.get(metric) is not None:
            metrics[metric] = plain(metrics[metric] * ratio)
    return ratio


def _with_memory(
    single: Configurations,
    networks: Mapping[str, Network],
    metrics: dict[str, Any],
    clock_mhz: float,
    paces: Mapping[str, float],
    timings: Mapping[str, PassTiming] | None,
) -> dict[str, Any] | None:
    """Limit the metrics of workloads by a memory, and return how, None without one."""
    if not single.memory.limits:
        return None
    clock = min(clock_mhz, metrics["fmax_mhz"] or clock_mhz)
    numbers = {key: math.nan if value is None else value for key, value in metrics.items()}
    with np.errstate(all="ignore"):
        result = roofline.limited(single, networks, numbers, clock, paces, timings)
        metrics |= {key: plain(value) for key, value in result.items()}
        return report(single, networks, metrics, clock, paces, timings)


def _without_energy(networks: Mapping[str, Network], off_chip: OffChip) -> str:
    """Return why there is no energy of a token, if it is the memory's that is missing."""
    if off_chip.energy_pj_per_bit is not None or not any(n.tokens for n in networks.values()):
        return ""
    return f"no energy of a token, without that of the memory: {off_chip.energy_source}"


def empty_estimate(
    core: Core[Any], target: Target | None = None, workloads: Workloads | None = None
) -> dict[str, Any]:
    """Return an estimate in which every figure is unknown; see `estimate`."""
    target = _of_one_technology(core.params.target if target is None else target)
    technology = target.technology
    return {
        "name": core.name,
        "family": core.family_name(),
        "technology": technology,
        "calibrated": technologies.is_calibrated(technology),
        "clock_mhz": target.clock_mhz,
        **_speed(None, target.clock_mhz),
        "metrics": dict.fromkeys(metric_names(workloads or {}, target.device)),
        "unknown": {},
        "limiting_path": None,
        "uncertainty": dict.fromkeys(_OF),
        "certainty": {},
        "breakdown": [],
        "units": [],
        "memories": [],
        "memories_w": None,
        "memories_source": None,
        "memory": None,
        "roofline": None,
        "device": _utilization(target, {}),
        "costs_of": None,
        "activity": ASSUMED.document(technology),
        "notes": [],
    }


def _memory(
    core: Core[Any],
    workloads: Workloads,
    metrics: dict[str, Any],
    made: Sequence[memories.Made],
    target: Target,
    post: PostSettings | None,
) -> dict[str, Any] | None:
    """Return the costs of an engine's memories, and add ``memory_energy_mj(W)`` to the metrics.

    The clock is the slower one of that asked for and Fmax, as everywhere.
    """
    if not isinstance(core, BufferedCore):
        return None
    off_chip = target.memory
    buffers = memories.buffers_of(made, buffers_of(core))
    per_bit = math.nan if off_chip.energy_pj_per_bit is None else off_chip.energy_pj_per_bit
    clock = min(target.clock_mhz, metrics["fmax_mhz"] or target.clock_mhz)
    result: dict[str, Any] = {}
    for name, sizes in workloads.items():
        cycles = metrics[f"cycles({name})"]
        use = core.memory_use([core.gemm(*size, post) for size in sizes])
        energy = memories.energy_mj(
            buffers, use, math.nan if cycles is None else cycles, clock, per_bit
        )
        if not buffers:
            energy["on_chip"] = math.nan
        metrics[f"memory_energy_mj({name})"] = plain(sum(energy.values()))
        result[name] = {
            "moved_bytes": use.moved_bytes,
            **{f"{where}_mj": plain(value) for where, value in energy.items()},
        }
    return {
        "buffers": [
            {"buffer": buffer.name, "memories": buffer.memories, "words": buffer.words,
             "width_bits": buffer.width, "kib": buffer.bits / 8192}
            for buffer in core.buffers()
        ],
        "area_mm2": plain(sum(each.area_um2 for each in buffers) * 1e-6) if buffers else None,
        "off_chip": off_chip.kind,
        "off_chip_pj_per_bit": off_chip.energy_pj_per_bit,
        "off_chip_source": off_chip.energy_source,
        "workloads": result,
    }  # fmt: skip


def _plain(document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: plain(value) if isinstance(value, float) else value for key, value in document.items()
    }
