# SPDX-License-Identifier: Apache-2.0
"""Figures of spaces whose every structure is counted in a netlist of its own.

Fits to some netlists are not good enough where parameters shape hardware together, such as buffers
and arrays of an engine.  Points that differ in the clock alone have one structure, which is
elaborated once: what a clock changes is arithmetic.  Structures are appended to a journal, so that
an interrupted enumeration continues.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_model.configurations.configurations import Configurations
from cost_model.configurations.metrics import VALID
from cost_model.sweep.netlists import Answer, Costs, Evaluation, Question
from cost_model.sweep.outcome import Executor, Progress
from cost_model.sweep.plan import Plan
from cost_model.sweep.space import TECHNOLOGY
from flows.build.fingerprint import digest_of_sources
from flows.tools.cache import digest
from hwgen.errors import InputError
from hwgen.workloads import Network

CLOCK = "target.clock_mhz"

_SOURCES = ("cost_model", "rtl_templates", "hwgen.core", "hwgen.families", "hwgen.technologies")
"""Packages that figures depend on."""


@dataclass(frozen=True)
class Structure:
    """Figures of a structure.

    Parameters
    ----------
    clock_mhz : float
        For which `energy_mj` is.
    fmax_mhz, area_mm2, leakage_nw : float
    cycles : float
        Of the workload.
    energy_mj : float
        Of the workload.
    """

    clock_mhz: float
    fmax_mhz: float
    area_mm2: float
    leakage_nw: float
    cycles: float
    energy_mj: float

    @classmethod
    def of(cls, evaluation: Evaluation, workload: str, clock_mhz: float) -> Structure | None:
        """Return the figures of an evaluation, None if one is not known."""
        amounts = [
            evaluation.metrics.get("fmax_mhz"),
            evaluation.metrics.get("area_mm2"),
            evaluation.sums.get("leakage_nw"),
            evaluation.metrics.get(f"cycles({workload})"),
            evaluation.metrics.get(f"energy_mj({workload})"),
        ]
        known = [float(figure) for figure in amounts if figure is not None]
        return cls(clock_mhz, *known) if len(known) == len(amounts) else None

    def at(self, clock_mhz: NDArray[Any] | float) -> tuple[Any, Any, Any]:
        """Return area in mm², time in ms and energy in mJ of the workload at a clock.

        Energy that switching and accesses of memories take does not depend on the clock, that of
        leakage is in proportion to time.
        """
        clock, own = np.minimum(clock_mhz, self.fmax_mhz), min(self.clock_mhz, self.fmax_mhz)
        leakage_w = self.leakage_nw * 1e-9
        longer_ms = self.cycles * 1e-3 * (1 / clock - 1 / own)
        return self.area_mm2, self.cycles * 1e-3 / clock, self.energy_mj + leakage_w * longer_ms


@dataclass(frozen=True)
class Counted:
    """`cost_model.sweep.plan.Evaluate` by structures that were counted.

    Parameters
    ----------
    structures : mapping
        By `structure_of`, the figures, or why there are none.
    workload : str
    """

    structures: Mapping[str, Structure | str]
    workload: str

    def __call__(
        self,
        family: str,
        fixed: Mapping[str, Any],
        varying: Mapping[str, NDArray[Any]],
        technology: str,
        workloads: Mapping[str, Network],
    ) -> Mapping[str, NDArray[Any]]:
        """Return the metrics of configurations; what has no structure is not legal."""
        if technology:
            fixed = {**fixed, TECHNOLOGY: technology}
        valid = Configurations(family, fixed, varying).legal().copy()
        shape = valid.shape
        columns = {name: np.broadcast_to(each, shape).ravel() for name, each in varying.items()}
        amounts = np.full((3, valid.size), np.nan)
        good = valid.reshape(-1)
        clock = columns.pop(CLOCK, np.full(valid.size, fixed.get(CLOCK, np.nan)))
        for rows, numbers in _groups(columns, np.flatnonzero(good)):
            known = self.structures.get(structure_of(family, {**fixed, **numbers}, technology))
            if isinstance(known, Structure):
                amounts[:, rows] = np.broadcast_arrays(*known.at(clock[rows]))
            else:
                good[rows] = False
        area, latency, energy = amounts.reshape(3, *shape)
        return {
            VALID: good.reshape(shape),
            "area_mm2": area,
            f"latency_ms({self.workload})": latency,
            f"energy_mj({self.workload})": energy,
        }


def _groups(
    columns: Mapping[str, NDArray[Any]], rows: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], dict[str, Any]]]:
    """Yield rows that have the same numbers, and these."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row in rows.tolist():
        groups.setdefault(tuple(column[row] for column in columns.values()), []).append(row)
    for numbers, some in groups.items():
        yield np.array(some), dict(zip(columns, numbers, strict=True))


def structure_of(family: str, values: Mapping[str, Any], technology: str) -> str:
    """Return the parameters of points of one structure, all but the clock, as JSON."""
    shared = {name: value for name, value in values.items() if name != CLOCK}
    return Question.of(family, shared, technology).values


# -- counting --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Journal:
    """File of structures that were counted, a line each after a head; it grows line by line.

    Parameters
    ----------
    path : Path
    key : str
        Digest of what figures depend on besides parameters.

    Raises
    ------
    InputError
        By `read`, if the file is of another cost model or workload.
    """

    path: Path
    key: str

    @classmethod
    def of(cls, path: Path, plan: Plan) -> Journal:
        """Return the journal of a plan."""
        workloads = {name: [list(size) for size in sizes] for name, sizes in plan.workloads.items()}
        family = plan.space.subspaces[0].family
        key = digest([family, workloads, digest_of_sources(frozenset(_SOURCES))])
        return cls(path, key[:32])

    def read(self) -> dict[str, Structure | str]:
        """Return the structures that are there; a last line that was cut off is left out."""
        result: dict[str, Structure | str] = {}
        if not self.path.is_file():
            return result
        lines = self.path.read_text(encoding="utf-8").splitlines()
        if lines and lines[0] != self._head:
            raise InputError(
                f"{self.path}: structures of another cost model, workload or version; remove it,"
                " or choose another file"
            )
        for line in lines[1:]:
            try:
                name, amounts = json.loads(line)
                result[name] = amounts if isinstance(amounts, str) else Structure(**amounts)
            except (ValueError, TypeError):
                continue
        return result

    def add(self, name: str, amounts: Structure | str) -> None:
        """Append a structure."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        start = "\n" * self._cut
        self.__dict__["_cut"] = False
        with self.path.open("a", encoding="utf-8") as stream:
            if not stream.tell():
                stream.write(self._head + "\n")
            plain = amounts if isinstance(amounts, str) else asdict(amounts)
            stream.write(start + json.dumps([name, plain]) + "\n")

    @property
    def _head(self) -> str:
        return json.dumps({"structures of": self.key})

    @cached_property
    def _cut(self) -> bool:
        """Whether the last line has no end."""
        return self.path.is_file() and not self.path.read_bytes().endswith(b"\n")


def structures(plan: Plan) -> list[dict[str, Any]]:
    """Return the parameters of every structure that meets the constraints, at the highest clock."""
    subspace = plan.space.subspaces[0]
    result = []
    highest = {
        axis.name: axis.value(axis.count - 1) for axis in subspace.axes if axis.name == CLOCK
    }
    counts = [1 if axis.name == CLOCK else axis.count for axis in subspace.axes]
    for digits in itertools.product(*map(range, counts)):
        values = subspace.settled(digits[: subspace.categories])
        numeric = zip(subspace.axes, digits, strict=True)
        values |= {axis.name: axis.value(digit) for axis, digit in numeric}
        values |= highest
        if subspace.check(dict(values), ())[0].all():
            result.append(values)
    return result


def counted(
    plan: Plan,
    costs: Costs,
    executor: Executor,
    journal: Journal | None = None,
    progress: Progress = lambda done, total: None,
) -> Counted:
    """Count every structure of a plan with one family and one workload.

    Parameters
    ----------
    plan : Plan
    costs : Costs
        By netlists.
    executor : Executor
    journal : Journal, optional
        What was counted before, and where to add what is counted now.
    progress : callable, optional
        Takes structures.

    Raises
    ------
    InputError
        If the journal is of another cost model or workload.
    """
    (workload,) = plan.workloads
    family = plan.space.subspaces[0].family
    found = journal.read() if journal is not None else {}
    wanted = {}
    for values in structures(plan):
        technology = str(values.get(TECHNOLOGY, ""))
        wanted[structure_of(family, values, technology)] = values
    missing = [(name, values) for name, values in wanted.items() if name not in found]
    work = partial(_answer, family=family, costs=costs, workloads=plan.workloads)
    progress(len(wanted) - len(missing), len(wanted))
    for done, ((name, values), answer) in enumerate(executor.run(work, missing), 1):
        amounts: Structure | str | None
        amounts = answer if isinstance(answer, str) else Structure.of(
            answer, workload, float(values[CLOCK])
        )  # fmt: skip
        found[name] = "no known figure of area, time or energy" if amounts is None else amounts
        if journal is not None:
            journal.add(name, found[name])
        progress(len(wanted) - len(missing) + done, len(wanted))
    return Counted({name: found[name] for name in wanted}, workload)


def _answer(
    item: tuple[str, Mapping[str, Any]],
    family: str,
    costs: Costs,
    workloads: Mapping[str, Network],
) -> Answer:
    return costs.evaluate(family, dict(item[1]), workloads)


def differences(
    counts: Counted, plan: Plan, costs: Costs, points: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """Return the largest relative difference of each figure from that by a point's own netlist.

    Parameters
    ----------
    counts : Counted
    plan : Plan
    costs : Costs
    points : sequence of mapping
        Parameters of legal points, the clock among them.
    """
    family, worst = plan.space.subspaces[0].family, {"area": 0.0, "latency": 0.0, "energy": 0.0}
    for values in points:
        name = structure_of(family, values, str(values.get(TECHNOLOGY, "")))
        known, answer = counts.structures[name], costs.evaluate(family, values, plan.workloads)
        if isinstance(known, str) or isinstance(answer, str):
            raise InputError(f"{name}: not legal")
        own = (answer.metrics[each] for each in ("area_mm2", f"latency_ms({counts.workload})",
                                                 f"energy_mj({counts.workload})"))  # fmt: skip
        for metric, one, other in zip(worst, known.at(float(values[CLOCK])), own, strict=True):
            if other is not None:
                worst[metric] = max(worst[metric], abs(float(one) / other - 1))
    return worst
