# SPDX-License-Identifier: Apache-2.0
"""The clock that a structure allows in a technology, and the path that limits it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from cost_model.estimate.technology import Technology
from cost_model.netlist.fabric.fabric import fabric
from cost_model.netlist.netlist import Netlist
from cost_model.timing.arcs import MACRO, Costs
from cost_model.timing.compiled import MacroSteps
from cost_model.timing.delay_compression import compress_delay
from cost_model.timing.graph import Path, Timer

MAPPED = "mapped_ns"
"""How long steps through what a design is mapped to on an FPGA take: a key of the timing of a
technology."""

_ROUNDS = 40


def steps_of(tech: Technology) -> Mapping[str, float]:
    """Return the delays of the steps of the paths that `limiting_path` finds, in ns."""
    result: Mapping[str, float] = tech.timing.get(MAPPED) or tech.timing["ns"]
    return result


def limiting_path(
    design: Netlist,
    tech: Technology,
    clock_mhz: float,
    macros: Mapping[str, MacroSteps] | None = None,
) -> Path | None:
    """Return the path of a design that limits its clock, None if delays are not known.

    On an FPGA it leads through what the design is mapped to (`cost_model.timing.network`).

    Parameters
    ----------
    design : Netlist
    tech : Technology
    clock_mhz : float
        The clock for which `hwgen synth` would map it: a part of its period is gone when inputs
        arrive and before outputs must be there.
    macros : mapping, optional
        Modules whose memories are made of macros: the steps into and out of them.
    """
    if not tech.timing:
        return None
    rules = fabric(tech.name)
    if MAPPED in tech.timing and rules is not None:
        from cost_model.timing.network import Network  # what only FPGAs need

        return Network(design, rules).limiting(tech.timing[MAPPED])
    timer = Timer(design.pruned(), tech.timing["ns"], macros)
    outside = tech.timing["outside"] * 1000 / clock_mhz
    return as_mapped(timer.limiting(outside), tech, outside)


def as_mapped(path: Path | None, tech: Technology, outside_ns: float) -> Path | None:
    """Return a path as fast as a mapper makes it; what is outside and in macros stays.

    Parameters
    ----------
    path : Path or None
        The sum of its steps.
    tech : Technology
    outside_ns : float
        When inputs arrive after the clock, and how long before it outputs must be there.
    """
    if path is None:
        return None
    fixed = outside_ns * path.outside + path.steps.get(MACRO, 0.0)
    inside = path.period_ns - fixed
    if inside <= 0:
        return path
    taken = float(compress_delay(inside, tech.timing))
    return replace(path, period_ns=fixed + taken, compression=taken / inside)


def shortest(
    design: Netlist,
    tech: Technology,
    macros: Callable[[float], Mapping[str, MacroSteps]] | None = None,
) -> Path | None:
    """Return the limiting path at the highest clock that a design allows, through its operators.

    Its ``period_ns`` is the shortest period at which the path that `limiting_path` finds is fast
    enough: paths from and to ports take a part of whatever the period is, and so do macros that
    read at the falling edge of the clock.

    Parameters
    ----------
    design : Netlist
    tech : Technology
    macros : callable, optional
        Takes a period in ns and returns the steps into and out of macros; see `limiting_path`.
    """
    if not tech.timing:
        return None
    outside, period = tech.timing["outside"], 0.0
    timer, steps, result, design = None, None, None, design.pruned()
    for _ in range(_ROUNDS):
        now = macros(period) if macros is not None else {}
        if timer is None or now != steps:
            timer, steps = Timer(design, tech.timing["ns"], now), now
        longer = as_mapped(timer.limiting(outside * period), tech, outside * period)
        if longer is None or (result and longer.period_ns <= result.period_ns * (1 + 1e-12)):
            break
        result, period = longer, longer.period_ns
    return result


def described(path: Path, ns: Mapping[str, float]) -> dict[str, Any]:
    """Return a path as JSON values: its ends, its delay, and what it leads through in order."""
    stages, costs = [], Costs(ns)
    for instance, group in groupby(path.stages, lambda stage: stage.instance):
        steps: dict[str, float] = {}
        for stage in group:
            for step, count in stage.steps.items():
                if count:
                    steps[step] = steps.get(step, 0.0) + count
        each = {
            step: costs.ns.get(step, 0.0) * count * (1.0 if step == MACRO else path.compression)
            for step, count in steps.items()
        }
        stages.append({
            "instance": instance,
            "ns": round(sum(each.values()), 4),
            "steps": {step: round(count, 2) for step, count in steps.items()},
            "ns_by_step": {step: round(delay, 4) for step, delay in each.items()},
        })  # fmt: skip
    return {
        "start": path.start,
        "end": path.end,
        "ns": round(path.period_ns, 4),
        "stages": stages,
    }
