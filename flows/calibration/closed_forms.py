# SPDX-License-Identifier: Apache-2.0
"""Costs of the families' closed forms, fitted to what the structures of designs cost.

Closed forms are a fast approximation of what ``hwgen estimate`` computes from the structure of the
emitted hardware.  Their costs follow from structures of designs that are drawn from everything that
the families allow, and from the technology's costs of structures: nothing is synthesized.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_model.closed_forms.closed_forms import view_of
from cost_model.closed_forms.component_counts import total
from cost_model.closed_forms.numbers import Counts
from cost_model.estimate.technology import OUTSIDE, PORTS, Technology
from cost_model.families import CLOSED_FORMS
from cost_model.netlist.components import components
from cost_model.netlist.costs import cost
from cost_model.netlist.model import TOP
from cost_model.netlist.netlist import Netlist
from cost_model.timing.delay_compression import expand_delay
from cost_model.timing.limit import limiting_path
from flows.build.design import Design
from flows.build.load import parse_config
from flows.calibration.draws import MOST, NAME, Draw, alone, drawn
from flows.calibration.fit import Equation, fit_longest, fit_robust
from flows.calibration.parts import float_operator, is_operator, owner, parts_of
from flows.calibration.points import config_of, rare_points
from flows.calibration.results import QUANTITIES, covered, ranges, rounded, summary
from flows.tools.executors import LocalProcesses
from flows.tools.parallel import processors
from hwgen.core.params.base import FamilyConfig
from hwgen.errors import HwgenError

Array = NDArray[np.float64]

SEED, DESIGNS = 101, 280
"""Of the designs that closed forms are fitted to."""

SIZES = (MOST, 32)
"""Largest sizes that are drawn, in turn."""

PART = 0.4
"""Weight of the equation of a part beside that of a whole design, if it were all of it."""

FOLDS = 4
"""Parts of the designs of which each is left out once."""

METRICS = ("area", "power", "fmax")


def families_with_closed_forms() -> tuple[str, ...]:
    """Return the families of which closed forms say area and delay, in alphabetical order."""
    return tuple(name for name in alone() if name in CLOSED_FORMS)


@dataclass(frozen=True)
class Sample:
    """A configuration, its bill by closed forms, and the structure of its hardware.

    Parameters
    ----------
    config : FamilyConfig
    design : Netlist
    """

    config: FamilyConfig
    design: Netlist

    @cached_property
    def components(self) -> Mapping[str, dict[str, float]]:
        """Components of each module of the structure."""
        return components(self.design)

    @cached_property
    def bill(self) -> dict[str, dict[str, float]]:
        """Components by closed forms, part by part."""
        view = view_of(self.config)
        return {part.name: _numbers(part.counts(view)) for part in parts_of(self.config)}

    @cached_property
    def paths(self) -> list[dict[str, float]]:
        """Longest paths by closed forms."""
        view = view_of(self.config)
        return [_numbers(path) for path in CLOSED_FORMS[self.config.family].paths(view)]


def _numbers(counts: Counts) -> dict[str, float]:
    return {component: float(n) for component, n in counts.items() if float(n)}


def configurations(seed: int, sizes: Sequence[int] = SIZES) -> Iterator[FamilyConfig]:
    """Yield legal configurations without end, of each family with closed forms in turn.

    Sizes are drawn up to each of some in turn, small ones as likely as large ones of twice as many.
    Kinds of cores that a family has no closed forms of are drawn again.
    """
    draw, names = random.Random(seed), families_with_closed_forms()
    while True:
        for most in sizes:
            for name in names:
                config = drawn(name, Draw(draw, most))
                while not parts_of(config):
                    config = drawn(name, Draw(draw, most))
                yield config


def samples(
    seed: int,
    count: int,
    jobs: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    more: Sequence[FamilyConfig] = (),
    sizes: Sequence[int] = SIZES,
) -> list[Sample]:
    """Return drawn configurations with their structures, which are kept in the user's cache.

    Those that cannot be emitted are left out.

    Parameters
    ----------
    seed : int
    count : int
        Configurations.
    jobs : int, optional
        Processes; default one for each processor.
    progress : callable, optional
        Takes the configurations done and those in all.
    more : sequence of FamilyConfig
        Configurations beside those that are drawn.
    sizes : sequence of int
        Largest sizes that are drawn, in turn.
    """
    chosen = [*islice(configurations(seed, sizes), count), *more]
    texts = [json.dumps(config.resolved()) for config in chosen]
    result: dict[str, Netlist | None] = {}
    for text, design in LocalProcesses(jobs or processors()).run(_structure, texts):
        progress(len(result), len(texts))
        result[text] = design
    pairs = [(config, result[text]) for config, text in zip(chosen, texts, strict=True)]
    return [Sample(config, design) for config, design in pairs if design is not None]


def designs(
    count: int | None = None, progress: Callable[[int, int], None] = lambda done, total: None
) -> list[Sample]:
    """Return the designs that closed forms are fitted to.

    They are drawn, but for some that have what few draws have.

    Parameters
    ----------
    count : int, optional
        So many of those that are drawn, and no others.
    progress : callable, optional
        Takes the designs done and those in all.
    """
    if count is not None:
        return samples(SEED, count, progress=progress)
    more = [config_of(values) for values in rare_points()]
    return samples(SEED, DESIGNS, progress=progress, more=more)


def _structure(text: str) -> Netlist | None:
    """Return the structure of a configuration; None if it cannot be emitted."""
    try:
        return Design.of(parse_config(text, NAME, quickly=True)).netlist
    except HwgenError:
        return None


@dataclass(frozen=True)
class Costs:
    """Costs of the netlist of a design in a technology.

    Parameters
    ----------
    inside : mapping
        By part of the bill, None being what belongs to none: the quantities.
    operators : mapping
        Kind of each floating-point operator: the quantities of one.
    period_ns : float or None
        The shortest period that all paths meet, None if unknown.
    ends : int
        How many ends of the slowest path are ports.
    """

    inside: Mapping[str | None, Array]
    operators: Mapping[str, Array]
    period_ns: float | None
    ends: int = 0

    @property
    def amounts(self) -> Array:
        """The quantities of the whole design."""
        return np.asarray(np.sum(list(self.inside.values()), axis=0))

    def metrics(self, sample: Sample) -> dict[str, float]:
        """Return area, power and Fmax; the Fmax is NaN if it is unknown."""
        fmax = math.nan if self.period_ns is None else 1000 / self.period_ns
        area, leakage, energy = self.amounts.tolist()
        clock = np.fmin(sample.config.target.clock_mhz, fmax)
        return {"area": area, "power": leakage + energy * clock, "fmax": fmax}


def costs_of(sample: Sample, tech: Technology) -> Costs:
    """Return the costs of the netlist of a design."""
    parts, modules = parts_of(sample.config), sample.design.modules
    prices = tech.structure["costs"]
    local = {
        name: np.array([cost(prices[quantity], counts) for quantity in QUANTITIES])
        for name, counts in sample.components.items()
    }
    owners = {name: owner(name, parts) if name != TOP else None for name in modules}
    inside: dict[str, dict[str | None, Array]] = {}
    operators: dict[str, Array] = {}
    for name in reversed(sample.design.counts):  # what is in a module before the module
        result: dict[str | None, Array] = {owners[name]: local[name]}
        for instance in modules[name].instances:
            for part, costs in inside[instance.module].items():
                # What has no part of its own belongs to that of the module it is in.
                index = owners[name] if part is None else part
                result[index] = result.get(index, 0.0) + costs
        inside[name] = result
        if component := float_operator(name):
            operators[component] = np.sum(list(result.values()), axis=0)
    path = limiting_path(sample.design, tech, sample.config.target.clock_mhz)
    return Costs(inside[TOP], operators, *((path.period_ns, path.outside) if path else (None,)))


def _equations(sample: Sample, costs: Costs, place: int) -> tuple[list[Equation], list[float]]:
    """Return equations for one quantity, and their weights."""
    description = str(sample.config.resolved())
    named = {part.name for part in parts_of(sample.config) if part.modules}
    whole = total(*sample.bill.values())
    rest = total(*(counts for name, counts in sample.bill.items() if name not in named))
    amount = float(sum(quantities[place] for quantities in costs.inside.values()))
    equations, weights = [Equation(description, whole, amount)], [1.0]
    inside = {name: sample.bill[name] for name in named} | {None: rest}
    for part, counts in inside.items():
        amount_of_part = float(costs.inside.get(part, np.zeros(len(QUANTITIES)))[place])
        operators = [component for component in counts if is_operator(component)]
        if part in costs.inside and amount_of_part > 0 and not operators:
            equations.append(Equation(f"{part} of {description}", counts, amount_of_part))
            weights.append(PART * math.sqrt(amount_of_part / amount))
    for component, quantities in costs.operators.items():
        equations.append(Equation(component, {component: 1.0}, float(quantities[place])))
        weights.append(PART)
    return equations, weights


def _delays(
    found: Sequence[tuple[Sample, Costs]], tech: Technology
) -> tuple[Sequence[Sequence[Mapping[str, float]]], list[float], list[list[float]]]:
    """Return the paths of designs, their delays, and what of each path is outside of ports."""
    paths, delays, outside = [], [], []
    for sample, costs in found:
        if costs.period_ns is not None:
            period = tech.timing["outside"] * 1000 / sample.config.target.clock_mhz
            every = [*sample.paths, PORTS]
            paths.append([{k: n for k, n in p.items() if k != OUTSIDE} for p in every])
            fixed = period * float(costs.ends)
            delays.append(fixed + float(expand_delay(costs.period_ns - fixed, tech.timing)))
            outside.append([period * float(path.get(OUTSIDE, 0.0)) for path in every])
    return paths, delays, outside


def fitted(found: Sequence[tuple[Sample, Costs]], tech: Technology) -> Technology:
    """Return a technology with the costs and delays of closed forms that fit designs."""
    prices: dict[Any, dict[str, float]] = {}
    for index, quantity in enumerate(QUANTITIES):
        equations, weights = [], []
        for sample, costs in found:
            of_sample, weighed = _equations(sample, costs, index)
            equations += of_sample
            weights += weighed
        prices[quantity] = fit_robust(equations, weights)
    delays: dict[str, float] = {}
    if tech.timing:
        delays, _ = fit_longest(*_delays(found, tech))
    return replace(
        tech,
        costs={quantity: rounded(each) for quantity, each in prices.items()},
        delays_ns=rounded(delays),
    )


def errors_of(sample: Sample, costs: Costs, tech: Technology) -> dict[str, float]:
    """Return the relative errors of closed forms from the structural estimate, NaN if unknown.

    The power is that at the clock asked for, or at the Fmax of each if that is lower.
    """
    clock = sample.config.target.clock_mhz
    counts = total(*sample.bill.values())
    area, leakage, energy = (float(tech.cost(quantity, counts)) for quantity in QUANTITIES)
    fmax = 1000 / float(tech.delay_ns(list(sample.paths), clock))
    ours = {"area": area, "power": leakage + energy * np.fmin(clock, fmax), "fmax": fmax}
    return {metric: ours[metric] / amount - 1 for metric, amount in costs.metrics(sample).items()}


def table(tech: Technology, designs: Sequence[Sample]) -> Technology:
    """Return a technology with closed forms fitted to its own structural estimates.

    Its ``uncertainty`` is that of closed forms against synthesis: the root of the sum of the
    squares of two errors, theirs from structural estimates, of designs that were left out of the
    fit, and that of structural estimates from synthesis.
    """
    result = [(sample, costs_of(sample, tech)) for sample in designs]
    errors: dict[str, list[float]] = {metric: [] for metric in METRICS}
    for first in range(FOLDS):
        others = [each for index, each in enumerate(result) if index % FOLDS != first]
        model = fitted(others, tech)
        for sample, costs in result[first::FOLDS]:
            for metric, error in errors_of(sample, costs, model).items():
                if math.isfinite(error):  # else only what is left out has some kind of component
                    errors[metric].append(error)
    left_out = {metric: summary(values) for metric, values in errors.items() if values}
    within = {metric: covered(values) for metric, values in errors.items() if values}
    structural = {**tech.structure["uncertainty"], "fmax": tech.timing.get("uncertainty")}
    return replace(
        fitted(result, tech),
        ranges=ranges(sample.config for sample in designs),
        uncertainty={
            metric: round(math.hypot(within[metric], structural[metric]), 4)
            for metric in within if structural.get(metric) is not None
        },
        provenance={
            "fitted_to": "structural estimates of drawn designs, see `structure` and `timing`",
            "seed": SEED,
            "designs": len(designs),
            "left_out": {
                metric: {**summary, "covered": round(within[metric], 4)}
                for metric, summary in left_out.items()
            },
            "uncertainty": "against synthesis: the root of the sum of the squares of `covered`"
            " and of the uncertainty of structural estimates",
        },
    )  # fmt: skip
