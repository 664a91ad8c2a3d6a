# SPDX-License-Identifier: Apache-2.0
"""Search for a system that computes two workloads: one core for both, or two cores at once.

Candidates are engines with one memory port.  Either both workloads take turns on one core, whose
weights are of the wider format, or each has a core of its own, and they share the port.  Every
candidate is ranked: cycles of each product on each core are those of the cycle model, costs those
of the core's netlist, and both are composed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from cost_model.configurations.metrics import RESOURCES
from flows.search.costs import SUMS, Cost, CostItem, cost_from, cost_of, key_of
from flows.search.goals import METRICS as OF_ENGINES
from flows.search.goals import Goal
from flows.search.result import Unmet
from flows.search.search import Work
from flows.search.shared_port import Phase, Shared, at_once
from flows.simulation.side_by_side import interleaved
from hwgen.core.lists.commands import LINE, Program
from hwgen.core.params.target import Target
from hwgen.core.protocols import JobCore
from hwgen.core.registry import core_of
from hwgen.core.schedule.stream import RAW_RESULTS
from hwgen.errors import HwgenError, InputError
from hwgen.families.gemm_stream.schedule import Job, plan_of
from hwgen.families.transformer.list_timing import NEXT_JOB, EngineState
from hwgen.families.transformer.params import TransformerConfig
from hwgen.families.transformer.trace import trace
from hwgen.technologies import fpga_family, technologies
from hwgen.technologies.fpga_model import Fpga
from hwgen.technologies.utilization import NAMES, of, used_resources
from hwgen.workloads.network import Gemm

METRICS: Mapping[str, tuple[str, bool]] = {
    "ms": ("milliseconds until both workloads are done", False),
    **{
        name: OF_ENGINES[name]
        for name in ("area_mm2", "power_w", "clock_mhz", "luts", "dsps", "brams")
    },
}
"""Metrics of systems: what each is, and whether more of it is better."""

FORMATS: Mapping[str, tuple[str, ...]] = {
    "ternary": ("ternary", "int4", "int8"),
    "int4": ("int4", "int8"),
    "int8": ("int8",),
}
"""By format of a workload's weights: formats of cores that multiply by them, narrowest first."""

NAMES_OF_CORES = {1: ("core",), 2: ("first", "second")}
"""Units of an engine with one core, and with two, which are for a workload each."""

RESULT, ENGINE = "result.json", "engine.yaml"


@cache
def systems_file() -> dict[str, Any]:
    """Return the cores of systems and the sizes that are tried: ``systems.yaml``."""
    text = Path(__file__).with_name("systems.yaml").read_text(encoding="utf-8")
    result: dict[str, Any] = yaml.safe_load(text)
    return result


@dataclass(frozen=True)
class Pass:
    """A workload that runs beside another.

    Parameters
    ----------
    name : str
    weights : str
        One of `FORMATS`.
    products : tuple of Gemm
        In their order; each waits for the one before.
    """

    name: str
    weights: str
    products: tuple[Gemm, ...]


@dataclass(frozen=True)
class SystemRequest:
    """Workloads, goals and limits of a search.

    Parameters
    ----------
    tasks : tuple of Pass
        Two.
    goals : tuple of Goal
        Of `METRICS`.
    target : Target
        Technology or device, and the memory.
    clock_mhz : float or None
        Clock that all have to reach; None for the one that each reaches.
    cores : tuple of int
        Numbers of cores to try.
    widths : tuple of int
        Widths of the memory port, empty for all.
    count : int
        Systems of the short list.
    """

    tasks: tuple[Pass, ...]
    goals: tuple[Goal, ...]
    target: Target
    clock_mhz: float | None = None
    cores: tuple[int, ...] = (1, 2)
    widths: tuple[int, ...] = ()
    count: int = 3


@dataclass(frozen=True)
class Core:
    """A core with its buffers.

    Parameters
    ----------
    weights : str
    unit : str
        JSON of the unit's parameters.
    shown : str
        Family and sizes, for readers.
    """

    weights: str
    unit: str
    shown: str


@dataclass(frozen=True)
class JobsItem:
    """Products on the only core of an engine, whose cycles to predict."""

    engine: str
    products: tuple[Gemm, ...]


@dataclass(frozen=True)
class Jobs:
    """Cycles, beats and length of bursts of each job, and cycles to submit one; or the problem."""

    phases: tuple[tuple[int, int, float], ...] = ()
    submit: int = 0
    problem: str = ""


@dataclass(frozen=True)
class System:
    """An engine that computes both workloads.

    Parameters
    ----------
    width : int
        Bits of the memory port.
    cores : tuple of Core
        One for both, or one for each.
    shared : Shared
        Cycles of all jobs.
    metrics : mapping of float
        NaN where one is not known.
    """

    width: int
    cores: tuple[Core, ...]
    shared: Shared
    metrics: Mapping[str, float]

    @property
    def shown(self) -> str:
        """Port and cores in a few words."""
        return f"port of {self.width} bits, {' beside '.join(core.shown for core in self.cores)}"


@dataclass(frozen=True)
class Ranked:
    """All candidates of a search, and those that meet everything.

    Parameters
    ----------
    systems : list of System
        All that were ranked.
    best : list of System
        Those that meet all goals, the best first.
    rejected : list of dict
        Points by reason.
    unusable : list of str
        Cores that cannot compute a workload, with the reason.
    """

    systems: list[System]
    best: list[System]
    rejected: list[dict[str, Any]]
    unusable: list[str]


def legal_widths() -> tuple[int, ...]:
    """Return the widths of memory ports that systems may have."""
    return tuple(systems_file()["port"]["data_width"])


def cores_for(tasks: Sequence[Pass], weights: str) -> list[Core]:
    """Return the cores of a format of weights, with all sizes and buffers."""
    file = systems_file()
    longest = max(size.k for task in tasks for size in task.products)
    formats = {
        "activation": "int8", "weight": weights, "accumulator": "int32",
        "max_k": max(1024, 1 << (longest - 1).bit_length()),
    }  # fmt: skip
    result = []
    for core in file["cores"]:
        if weights not in core["weights"]:
            continue
        for values in product(*core["sizes"].values()):
            array = dict(zip(core["sizes"], values, strict=True))
            array |= {name: array[other] for name, other in core.get("same", {}).items()}
            compute = core["compute"]
            array = {**compute.get("array", {}), **array}
            for kib in file["buffer_kib"]:
                buffers = dict.fromkeys(("activation_kib", "weight_kib", "output_kib"), kib)
                unit = {
                    **file["unit"], "compute": {**compute, **formats, "array": array},
                    "buffers": {**buffers, "column_kib": file["column_kib"]},
                }  # fmt: skip
                sizes = " x ".join(str(n) for n in array.values() if isinstance(n, int))
                shown = f"{compute['family']} {weights} {sizes}, {kib} KiB"
                result.append(Core(weights, json.dumps(unit), shown))
    return result


def engine_of(request: SystemRequest, width: int, cores: Sequence[Core]) -> dict[str, Any]:
    """Return the parameters of an engine with some cores."""
    port = systems_file()["port"]
    target = request.target.model_dump(mode="json", exclude_none=True)
    target.pop("activation_sigma", None)
    units = zip(NAMES_OF_CORES[len(cores)], cores, strict=True)
    return {
        "name": "engine", "family": "transformer",
        "units": {name: json.loads(core.unit) for name, core in units},
        "memory": {**port, "data_width": width}, "target": target,
    }  # fmt: skip


def jobs_of(item: JobsItem) -> Jobs:
    """Return the jobs of products on the only core of an engine."""
    try:
        config = TransformerConfig.model_validate(json.loads(item.engine))
    except ValueError as error:
        return Jobs(problem=str(error))
    (unit,) = config.units.values()
    core = core_of(unit)
    assert isinstance(core, JobCore)
    names = {register.offset: register.name for register in unit.job_interface.window}
    known: dict[Gemm, tuple[int, int, float]] = {}
    for size in item.products:
        if size in known:
            continue
        try:
            plan = plan_of(unit, *size, RAW_RESULTS)
            a = size.m * plan.activation_row_bytes
            w = plan.weight_image_rows * plan.weight_row_bytes
            base = unit.longest_burst_bytes
            behind = -(-a // base) * base
            job = Job(plan, 0, behind, behind + -(-w // base) * base, after=True)
        except HwgenError as error:
            return Jobs(problem=str(error))
        done = core.register_cycles({names[at]: word for at, word in job.writes()})
        beats = done.reads + done.writes
        known[size] = (
            done.cycles + NEXT_JOB, max(done.reads, done.writes), beats / max(1, done.bursts),
        )  # fmt: skip
    return Jobs(tuple(known[size] for size in item.products), _submission(config, job))


def _submission(config: TransformerConfig, job: Job) -> int:
    """Return the cycles until a command list has submitted its first job."""
    program = Program(list(config.units), config.lists.registers)
    program.job(next(iter(config.units)), job.writes())
    program.halt()
    engine, line = EngineState(config, "cycles"), -1
    for event in trace(config, 0, program.encode(), [0] * config.lists.registers):
        if event.action in ("fetch", "data") and event.index // LINE != line:
            line = event.index // LINE
            engine.read(event)
        if event.action == "submit":
            break
        engine.process(event)
    return engine.now


def _jobs(entry: Any) -> Jobs:
    phases = tuple((c, b, s) for c, b, s in entry["phases"])
    return Jobs(phases, entry["submit"], entry["problem"])


@dataclass
class Tables:
    """Cycles and costs of every core at every width.

    Parameters
    ----------
    request : SystemRequest
    widths : list of int
    cores : dict
        By number of cores, for each workload, or for both, the cores to try.
    jobs : dict
        By width, core and workload.
    costs : dict
        By width and core.
    rest : dict
        By width and number of cores: costs beside the cores, and the clock over the slowest core's.
    """

    request: SystemRequest
    widths: list[int]
    cores: dict[int, list[list[Core]]]
    jobs: dict[tuple[int, Core, Pass], Jobs]
    costs: dict[tuple[int, Core], Cost]
    rest: dict[tuple[int, int], tuple[Cost, float]]

    def systems(self) -> Iterator[System]:
        """Yield every candidate."""
        tasks = self.request.tasks
        for width, (number, each) in product(self.widths, self.cores.items()):
            for cores in product(*each):
                uses = tuple(zip(cores, tasks, strict=True)) if number == 2 else ()
                uses = uses or tuple((cores[0], task) for task in tasks)
                jobs = [self.jobs[width, core, task] for core, task in uses]
                if not any(job.problem for job in jobs):
                    yield self._system(width, cores, jobs)

    def _system(self, width: int, cores: tuple[Core, ...], jobs: Sequence[Jobs]) -> System:
        rest, slower = self.rest[width, len(cores)]
        cost = self.costs[width, cores[0]]
        for core in cores[1:]:
            cost = cost.plus(self.costs[width, core])
        fmax = cost.fmax_mhz * slower
        cost = cost.plus(rest)
        target, wanted = self.request.target, self.request.clock_mhz
        clock = wanted or (target.clock_mhz if math.isnan(fmax) else fmax)
        capacity = 1.0
        if target.memory.peak_gb_s:
            bytes_per_s = target.memory.peak_gb_s * target.memory.share * 1e9
            capacity = min(1.0, bytes_per_s / (width / 8 * clock * 1e6))
        rows = [[Phase(*phase) for phase in job.phases] for job in jobs]
        if len(cores) == 1:
            rows = [interleaved(rows)]
        shared = at_once(rows, capacity, max(job.submit for job in jobs))
        sums = dict(zip(SUMS, cost.sums, strict=True))
        cells = not isinstance(technologies()[target.technology], Fpga)
        metrics = dict.fromkeys(METRICS, math.nan)
        metrics |= {
            "ms": shared.cycles / clock * 1e-3, "clock_mhz": clock, "fmax_mhz": fmax,
            "cycles": shared.cycles,
        }  # fmt: skip
        if cells:
            metrics["area_mm2"] = sums["area_um2"] * 1e-6
            metrics["power_w"] = (sums["leakage_nw"] + sums["energy_fj"] * clock) * 1e-9
        else:
            used: Mapping[str, Any] = {name: sums[name] for name in RESOURCES}
            done = used_resources(fpga_family(target.technology), used)
            metrics |= {n: float(done[n]) for n in ("luts", "flip_flops", "dsps", "brams")}
        return System(width, cores, shared, metrics)


def tables_of(request: SystemRequest, work: Work) -> Tables:
    """Return cycles and costs of all cores.

    Raises
    ------
    HwgenError
        If the netlist of a core cannot be looked at.
    InputError
        If no core computes the workloads.
    """
    widths = list(request.widths or legal_widths())
    tasks = request.tasks
    by_format = {weights: cores_for(tasks, weights) for weights in FORMATS}
    cores: dict[int, list[list[Core]]] = {}
    every = [[c for weights in FORMATS[t.weights] for c in by_format[weights]] for t in tasks]
    if 1 in request.cores:
        both = [core for core in every[0] if core in every[1]]
        cores[1] = [both]
    if 2 in request.cores:
        cores[2] = every
    wanted = dict.fromkeys((core, task) for task, each in zip(tasks, every, strict=True)
                           for core in each)  # fmt: skip
    items, keys = {}, {}
    for width, (core, task) in product(widths, wanted):
        engine = json.dumps(engine_of(request, width, [core]))
        sizes = [list(size) for size in task.products]
        keys[width, core, task] = key = key_of("jobs of a system", width, core.unit, sizes)
        items[key] = JobsItem(engine, task.products)
    timed = work.run("jobs", jobs_of, items, _jobs)
    jobs = {index: timed[key] for index, key in keys.items()}
    if not any(not each.problem for each in jobs.values()):
        raise InputError("; ".join(dict.fromkeys(each.problem for each in jobs.values())))
    able = {index[:2] for index, each in jobs.items() if not each.problem}
    costs, rest = _costs(request, widths, cores, able, work)
    return Tables(request, widths, cores, jobs, costs, rest)


def _costs(
    request: SystemRequest, widths: Sequence[int], cores: Mapping[int, list[list[Core]]],
    able: set[tuple[int, Core]], work: Work,
) -> tuple[dict[tuple[int, Core], Cost], dict[tuple[int, int], tuple[Cost, float]]]:  # fmt: skip
    """Return costs of cores, and of what engines have beside them."""
    target = request.target.model_dump(mode="json", exclude={"memory"})
    items: dict[str, CostItem] = {}
    units: dict[tuple[int, Core], str] = {}
    wholes: dict[tuple[int, int], tuple[str, list[Core]]] = {}
    for width in widths:
        for number, each in cores.items():
            for core in (core for options in each for core in options):
                if (width, core) in able:
                    key = key_of("cost", target, width, core.unit)
                    units[width, core] = key
                    items[key] = CostItem(
                        json.dumps(engine_of(request, width, [core])), NAMES_OF_CORES[1][0]
                    )
            first = [next((c for c in options if (width, c) in able), None) for options in each]
            chosen = [core for core in first if core is not None]
            if len(chosen) == len(each):
                text = json.dumps(engine_of(request, width, chosen))
                key = key_of("cost", target, text)
                wholes[width, number] = key, chosen
                items[key] = CostItem(text, None)
    answer = work.run("netlists", cost_of, items, cost_from)
    for cost in answer.values():
        if cost.problem:
            raise HwgenError(cost.problem)
    costs = {index: answer[key] for index, key in units.items()}
    rest = {}
    for (width, number), (key, chosen) in wholes.items():
        total = costs[width, chosen[0]]
        for core in chosen[1:]:
            total = total.plus(costs[width, core])
        rest[width, number] = answer[key].plus(total, -1), answer[key].fmax_mhz / total.fmax_mhz
    return costs, rest


def search_systems(request: SystemRequest, work: Work) -> Ranked:
    """Rank all systems.

    Parameters
    ----------
    request : SystemRequest
    work : Work
        Processes, with the journal.

    Raises
    ------
    Unmet
        If none meets all goals; its message names the nearest one.
    InputError
        If no core computes the workloads.
    """
    tables = tables_of(request, work)
    systems = list(tables.systems())
    if not systems:
        raise InputError("no core computes both workloads")
    unusable = sorted(
        {f"{core.shown}: {each.problem}" for (_, core, _), each in tables.jobs.items()
         if each.problem}
    )  # fmt: skip
    return ranked(request, systems, unusable)


def ranked(request: SystemRequest, systems: list[System], unusable: list[str]) -> Ranked:
    """Return systems that meet all goals, the best first; see `search_systems`."""
    rejected, left = list[dict[str, Any]](), systems
    for reason, meets in conditions(request):
        misses = [each for each in systems if not meets(each)]
        if misses:
            rejected.append({"points": len(misses), "reason": reason})
        left = [each for each in left if meets(each)]
    if not left:
        raise _unmet(request, systems, rejected)
    return Ranked(systems, sorted(left, key=order_of(request)), rejected, unusable)


def conditions(request: SystemRequest) -> list[tuple[str, Any]]:
    """Return the conditions on a system: a reason, and a function of a system."""
    result: list[tuple[str, Any]] = []
    if request.clock_mhz:
        clock = request.clock_mhz
        result.append((
            f"does not reach {clock:g} MHz",
            lambda each: math.isnan(each.metrics["fmax_mhz"]) or each.metrics["fmax_mhz"] >= clock,
        ))  # fmt: skip
    if request.target.device is not None:
        _, device = of(request.target.device)
        for name in ("luts", "flip_flops", "dsps", "brams"):
            most = getattr(device, name)
            result.append((
                f"needs more than the {NAMES[name]} of {request.target.device} ({most:,})",
                lambda each, name=name, most=most: each.metrics[name] <= most,
            ))  # fmt: skip
    for goal in request.goals:
        result.append((
            f"misses {goal}", lambda each, goal=goal: goal.met(each.metrics[goal.metric])
        ))  # fmt: skip
    return result


def order_of(request: SystemRequest) -> Any:
    """Return the key that sorts systems: the smallest first if a time is stated, else the fastest.

    The sizes are area, or look-up tables.
    """
    fast = any(goal.metric == "ms" for goal in request.goals)

    def key(each: System) -> tuple[float, float]:
        pair = size_of(each), each.metrics["ms"]
        return pair if fast else pair[::-1]

    return key


def size_of(system: System) -> float:
    """Return the area, or the look-up tables."""
    area = system.metrics["area_mm2"]
    return system.metrics["luts"] if math.isnan(area) else area


def front_of(systems: Sequence[System], number: int) -> list[System]:
    """Return systems with a number of cores that no other of as many surpasses in size and time."""
    result = list[System]()
    for each in sorted(
        (each for each in systems if len(each.cores) == number),
        key=lambda each: (size_of(each), each.metrics["ms"]),
    ):
        if not result or each.metrics["ms"] < result[-1].metrics["ms"]:
            result.append(each)
    return result


def verdict(request: SystemRequest, answer: Ranked) -> str:
    """Say which of one core and two wins, and by how much."""
    first = answer.best[0]
    number = len(first.cores)
    words = {1: "one core", 2: "two cores"}
    if len(request.cores) == 1:
        return f"only systems with {words[number]} were ranked"
    other = next((each for each in answer.best if len(each.cores) != number), None)
    wins = f"{words[number]} {'win' if number == 2 else 'wins'}"
    if other is None:
        return f"{wins}: no system with {words[3 - number]} meets all"
    size, ms = size_of(other) / size_of(first), other.metrics["ms"] / first.metrics["ms"]
    return (
        f"{wins}: the best with {words[3 - number]} that meets all takes {size:.2f}x the size and"
        f" {ms:.2f}x the time"
    )


def _unmet(
    request: SystemRequest, systems: Sequence[System], rejected: list[dict[str, Any]]
) -> Unmet:
    """Return the error that names the nearest system."""

    def factor(each: System) -> float:
        goals = [goal.missing(each.metrics[goal.metric]) for goal in request.goals]
        return max(goals, default=1.0)

    others = [meets for reason, meets in conditions(request) if not reason.startswith("misses")]
    legal = [each for each in systems if all(meets(each) for meets in others)]
    near = min(legal or systems, key=factor)
    lines = [f"no system of {len(systems):,} meets all goals and limits"]
    lines += [f"  {entry['points']:,} {entry['reason']}" for entry in rejected]
    lines.append(f"nearest: {near.shown}")
    goals = []
    for goal in request.goals:
        value, missing = near.metrics[goal.metric], goal.missing(near.metrics[goal.metric])
        goals.append({"goal": str(goal), "reached": value, "factor": missing})
        text = f"  {goal}: reaches {value:.4g}"
        if missing > 1:
            text += f", misses by {missing:.2f}x; relax it to {value:.4g} if all others stay"
        lines.append(text)
    document = {"factor": factor(near), "nearest": near.shown, "goals": goals,
                "rejected": rejected}  # fmt: skip
    return Unmet("\n".join(lines), document)
