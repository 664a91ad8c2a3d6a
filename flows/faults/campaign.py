# SPDX-License-Identifier: Apache-2.0
"""Fault campaigns: samples of faults of each class, and shares of their effects with intervals."""

from __future__ import annotations

import csv
import io
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from statistics import NormalDist
from typing import Any, Self

import numpy as np

from flows.faults.circuit import Location
from flows.faults.injection import FaultSimulation, Injection
from flows.faults.sampling import CLASSES, STUCK_1, draw_faults, population_of, sample_size
from flows.faults.workloads import EFFECTS, FaultWorkload
from hwgen.errors import InputError


@dataclass(frozen=True)
class Share:
    """Faults in one row of a table.

    Parameters
    ----------
    faults : int
    effects : dict
        Number of faults by effect (`flows.faults.workloads.EFFECTS`).
    application : int
        Faults after which the application gives another answer, or none.
    """

    faults: int
    effects: dict[str, int]
    application: int

    @classmethod
    def of(cls, injections: Iterable[Injection]) -> Self:
        """Count faults."""
        every = list(injections)
        counts = Counter(injection.effect for injection in every)
        effects: dict[str, int] = {name: counts[name] for name in EFFECTS}
        return cls(len(every), effects, sum(injection.application for injection in every))

    def of_effect(self, name: str) -> float:
        """Share of the faults with an effect."""
        return self.effects[name] / self.faults


@dataclass(frozen=True)
class ClassResult(Share):
    """Faults of a class.

    Parameters
    ----------
    population : int
        All faults of the class that there are, of which `faults` were drawn.
    """

    population: int = 0


@dataclass(frozen=True)
class SignalShare:
    """Faults in a signal of a module, all instances together.

    Parameters
    ----------
    module, signal : str
    bits : dict
        Bit: its faults, and how many of them were silent.
    share : Share
    """

    module: str
    signal: str
    bits: dict[int, tuple[int, int]]
    share: Share


@dataclass(frozen=True)
class Campaign:
    """Result of a campaign.

    Parameters
    ----------
    name, target : str
        The design, and the technology that it is mapped to.
    workload, application : str
    cells, flip_flops, nets, memory_bits, cycles : int
        Of the netlist; cycles in which faults were injected.
    margin, confidence : float
        By which the number of faults was chosen.
    seed : int
    classes : dict of ClassResult
    modules : dict
        Class: module: `Share`.
    signals : list of SignalShare
        Flips, by signal.
    seconds : float
        For all simulations of faults.
    injections : dict
        Class: its injections.
    """

    name: str
    target: str
    workload: str
    application: str
    cells: int
    flip_flops: int
    nets: int
    memory_bits: int
    cycles: int
    margin: float
    confidence: float
    seed: int
    classes: dict[str, ClassResult]
    modules: dict[str, dict[str, Share]]
    signals: list[SignalShare]
    seconds: float
    injections: dict[str, list[Injection]] = field(repr=False, compare=False)

    def document(self) -> dict[str, Any]:
        """Return everything but the single faults as plain JSON values, with intervals."""
        values = {**self.__dict__}
        values.pop("injections")
        values["classes"] = {
            name: {**asdict(share), "intervals": self.intervals(share)}
            for name, share in self.classes.items()
        }
        values["modules"] = {
            name: {module: asdict(share) for module, share in shares.items()}
            for name, shares in self.modules.items()
        }
        values["signals"] = [
            {**asdict(signal), "bits": {str(bit): list(n) for bit, n in signal.bits.items()}}
            for signal in self.signals
        ]
        return values

    def intervals(self, share: Share) -> dict[str, tuple[float, float]]:
        """Return the interval of the share of each effect, and of wrong answers."""
        counts = {**share.effects, "application": share.application}
        return {
            name: wilson(count, share.faults, self.confidence) for name, count in counts.items()
        }

    def table(self) -> str:
        """Return every fault as a line of comma-separated values, with a heading."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("class", "location", "stuck_at", "cycle", "effect", "wrong_answer"))
        for name, injections in self.injections.items():
            for injection in injections:
                fault = injection.fault
                stuck = int(fault.mode == STUCK_1) if name == "stuck" else ""
                location = str(fault.site.location)
                if name == "memory":
                    location = f"{fault.site.location.instance}[{fault.site.word}]"
                    location += f"[{fault.site.bit}]"
                writer.writerow((name, location, stuck, fault.cycle, injection.effect,
                                 int(injection.application)))  # fmt: skip
        return text.getvalue()


def wilson(count: int, total: int, confidence: float) -> tuple[float, float]:
    """Return the Wilson score interval of a share."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share = count / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * (share * (1 - share) / total + z * z / (4 * total**2)) ** 0.5
    return max(0.0, middle - half), min(1.0, middle + half)


def share_text(count: int, total: int, interval: tuple[float, float]) -> str:
    """Return a share in %, and half of its interval."""
    low, high = interval
    return f"{100 * count / total:.1f} ± {50 * (high - low):.1f}"


def run_campaign(
    simulation: FaultSimulation,
    work: FaultWorkload,
    *,
    name: str,
    target: str,
    classes: Sequence[str] = (),
    margin: float = 0.01,
    confidence: float = 0.95,
    seed: int = 0,
    jobs: int = 1,
    on_progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Campaign:
    """Draw faults of each class and simulate them.

    Parameters
    ----------
    simulation : FaultSimulation
    work : FaultWorkload
        Of the simulation.
    name, target : str
        The design and its technology, for the result.
    classes : sequence of str
        Some of `flows.faults.sampling.CLASSES`; default all that the design can have.
    margin, confidence : float
        See `flows.faults.sampling.sample_size`.
    seed : int
    jobs : int
        Processes at once.
    on_progress : callable
        Gets what is done, the faults that are done, and all.

    Raises
    ------
    InputError
        If the design cannot have faults of a class.
    CheckFailed
        If a simulation fails.
    """
    circuit, cycles = simulation.circuit, simulation.cycles
    populations = {each: population_of(circuit, each, len(cycles)) for each in classes or CLASSES}
    if classes and (empty := [each for each, count in populations.items() if not count]):
        raise InputError(f"--class: {name!r} has no SRAM macros, so none of {', '.join(empty)}")
    injections: dict[str, list[Injection]] = {}
    seconds = 0.0
    for each, population in populations.items():
        if not population:
            continue
        count = sample_size(population, margin, confidence)
        rng = np.random.default_rng([seed, list(CLASSES).index(each)])
        faults = draw_faults(circuit, each, cycles, count, rng)
        follow = partial(on_progress, f"{count:,} faults of class {each}")
        start = time.monotonic()
        injections[each] = simulation.inject(faults, jobs=jobs, on_progress=follow)
        seconds += time.monotonic() - start
    return Campaign(
        name=name,
        target=target,
        workload=work.name,
        application=work.application,
        cells=simulation.cells,
        flip_flops=len(circuit.flip_flops),
        nets=len(circuit.nets),
        memory_bits=sum(words * bits for _, words, bits in circuit.memory_bits()),
        cycles=len(cycles),
        margin=margin,
        confidence=confidence,
        seed=seed,
        classes={each: _class_result(every, populations[each])
                 for each, every in injections.items()},
        modules={each: _by_module(every) for each, every in injections.items()},
        signals=_by_signal(injections.get("flip", [])),
        seconds=round(seconds, 3),
        injections=injections,
    )  # fmt: skip


def _class_result(injections: Sequence[Injection], population: int) -> ClassResult:
    share = Share.of(injections)
    return ClassResult(share.faults, share.effects, share.application, population)


def _location(injection: Injection) -> Location:
    return injection.fault.site.location


def _by_module(injections: Sequence[Injection]) -> dict[str, Share]:
    groups: dict[str, list[Injection]] = {}
    for injection in injections:
        groups.setdefault(_location(injection).module, []).append(injection)
    return {module: Share.of(groups[module]) for module in sorted(groups)}


def _by_signal(injections: Sequence[Injection]) -> list[SignalShare]:
    groups: dict[tuple[str, str], list[Injection]] = {}
    for injection in injections:
        location = _location(injection)
        groups.setdefault((location.module, location.signal), []).append(injection)
    result = []
    for (module, signal), members in sorted(groups.items()):
        bits: dict[int, tuple[int, int]] = {}
        for injection in members:
            bit = _location(injection).bit or 0
            count, silent = bits.get(bit, (0, 0))
            bits[bit] = (count + 1, silent + (injection.effect == "silent"))
        result.append(SignalShare(module, signal, dict(sorted(bits.items())), Share.of(members)))
    return result
