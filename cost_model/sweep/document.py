# SPDX-License-Identifier: Apache-2.0
"""From a sweep file to a `Plan`, or to every problem in it with its line and column."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from cost_model.sweep.expressions import Expression
from cost_model.sweep.parameters import SubspaceReader
from cost_model.sweep.plan import REFINE, Objective, Plan, Sample, Top
from cost_model.sweep.reader import Reader
from cost_model.sweep.space import Space, Subspace
from hwgen.config.document import Document, read_document
from hwgen.core.registry import families
from hwgen.errors import ConfigError, InputError, Problem, did_you_mean
from hwgen.models.workload import model_workload
from hwgen.plugins import match_name
from hwgen.technologies import technologies, technology_of
from hwgen.workloads import FORM, Network, read_network, shipped, too_large, workload_path

MAX_POINTS = 10**11
"""Points that are enumerated at most; two cores take some hours for these."""

MAX_REFINED = 100_000
"""Candidates that are evaluated by netlist at most; each takes about a second."""

_KEYS = (
    "name",
    "family",
    "families",
    "parameters",
    "constraints",
    "targets",
    "workloads",
    "specs",
    "objectives",
    "keep",
    "top",
    "configs",
    "sample",
    "refine",
    "group_by",
)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,54}")
_WORKLOAD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class SweepFile:
    """A sweep and the file it stands in, for messages about what is found later."""

    document: Document
    plan: Plan


def read_sweep(path: str | Path, version: str) -> SweepFile:
    """Read and check a sweep file.

    Parameters
    ----------
    path : str or Path
    version : str
        Of the tool, for what is written.

    Raises
    ------
    ConfigError
        With every problem of the file.

    Notes
    -----
    Metrics are not known here; `cost_model.sweep.probe` checks what is said about them.
    """
    document = read_document(path)
    if not document.data.keys() & {"objectives", "parameters", "families"} and (
        "family" in document.data
    ):
        text = "is the configuration of one core, not a sweep: `hwgen estimate` takes it"
        raise ConfigError([Problem(text, file=document.file)])
    reader = Reader(document)
    plan = _Sweep(reader, Path(path).parent).plan(version)
    if reader.problems or plan is None:
        raise reader.error()
    return SweepFile(document, plan)


class _Sweep:
    """Reads the keys of the root, one method each."""

    def __init__(self, reader: Reader, folder: Path) -> None:
        self.reader = reader
        self.folder = folder
        self.data = reader.document.data

    def plan(self, version: str) -> Plan | None:
        reader, data = self.reader, self.data
        reader.keys((), _KEYS)
        name = self.name()
        subspaces = self.subspaces()
        workloads = self.workloads()
        specs = reader.expressions(("specs",), data.get("specs", []))
        objectives = self.objectives()
        keep = reader.choice(("keep",), data.get("keep", "pareto"), ("pareto", "all"))
        configs = reader.integer(("configs",), data.get("configs", 1000), 0, 1_000_000)
        tops = self.tops(objectives)
        sample = self.sample()
        refine = reader.integer(("refine",), data.get("refine", REFINE), 0, MAX_REFINED)
        group_by = self.group_by(subspaces)
        self.check_terms(subspaces, workloads, [*specs, *(each.expression for each in objectives)])
        if reader.problems:
            return None
        space = Space(tuple(subspaces))
        if sample is None and space.size > MAX_POINTS:
            reader.complain(
                (),
                f"the sweep has {_count(space.size)} points, more than the {_count(MAX_POINTS)}"
                " that can be enumerated; give fewer values, or add `sample: {points: 100000}`"
                " to search it",
            )
            return None
        return Plan(
            name,
            space,
            workloads,
            tuple(specs),
            tuple(objectives),
            tuple(tops),
            cast(Literal["pareto", "all"], keep),
            configs,
            sample,
            version,
            refine,
            group_by,
        )

    def name(self) -> str:
        name = self.data.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            self.reader.refuse(
                ("name",),
                name,
                "a letter followed by up to 54 letters, digits or underscores (it names the"
                " configurations)",
            )
        return str(name)

    # -- families and their parameters ---------------------------------------------------------

    def subspaces(self) -> list[Subspace]:
        reader, data = self.reader, self.data
        if ("family" in data) == ("families" in data):
            names = ", ".join(families())
            reader.complain(
                ("families",) if "families" in data else (),
                f"give either `family: NAME` or `families: ...` (there is: {names})",
            )
            return []
        subspaces = []
        for name, path in self.named_families():
            if name not in families():
                near = did_you_mean(name, families())
                reader.refuse(path, name, ", ".join(families()), near)
                continue
            family = SubspaceReader(reader, name, families()[name].params_class)
            family.add(("targets",), self._targets(), ("target",))
            family.add(("parameters",), data.get("parameters", {}))
            local = reader.at(path) if path[0] == "families" else None
            if isinstance(local, dict):
                reader.keys(path, ("parameters", "constraints"))
                family.add((*path, "parameters"), local.get("parameters", {}))
            family.constrain(("constraints",), data.get("constraints", []))
            if isinstance(local, dict):
                family.constrain((*path, "constraints"), local.get("constraints", []))
            subspace = family.subspace()
            if subspace is not None:
                subspaces.append(subspace)
        return subspaces

    def _targets(self) -> Any:
        """Return the targets; technologies that are devices are those devices."""
        targets = self.data.get("targets", {})
        if not isinstance(targets, dict) or "device" in targets:
            return targets
        names = targets.get("technology")
        names = names if isinstance(names, list) else [names]
        texts = [name for name in names if isinstance(name, str)]
        are = [technology_of(name) is not None and match_name(name, technologies()) is None
               for name in texts]  # fmt: skip
        if not any(are):
            return targets
        if len(texts) < len(names) or not all(are):
            self.reader.complain(
                ("targets", "technology"), "give either technologies or devices, not both"
            )
            return targets
        rest = {key: value for key, value in targets.items() if key != "technology"}
        return {"device": targets["technology"], **rest}

    def named_families(self) -> list[tuple[str, tuple[str | int, ...]]]:
        """Return each family's name and where it stands in the file."""
        if "family" in self.data:
            return [(str(self.data["family"]), ("family",))]
        several = self.data["families"]
        if isinstance(several, dict) and several:
            for name, entry in several.items():
                if entry is not None and not isinstance(entry, dict):
                    self.reader.refuse(
                        ("families", name),
                        entry,
                        "a group with `parameters` and `constraints`",
                    )
            return [(name, ("families", name)) for name in several]
        if isinstance(several, list) and several:
            if len(set(map(str, several))) < len(several):
                self.reader.complain(("families",), "a family is listed twice")
            return [(str(name), ("families", i)) for i, name in enumerate(several)]
        self.reader.refuse(("families",), several, "a list of families, or a group of them by name")
        return []

    def check_terms(
        self,
        subspaces: Sequence[Subspace],
        workloads: Mapping[str, Network],
        expressions: Sequence[Expression],
    ) -> None:
        """Complain of sums that no point of a family can compute, if figures of them are used."""
        used = [name for name in workloads if any(f"({name})" in str(each) for each in expressions)]
        longest = {name: max(gemm.k for gemm in workloads[name]) for name in used}
        for subspace in subspaces:
            axis = next((axis for axis in subspace.axes if axis.name == "max_k"), None)
            values: list[Any] = [subspace.fixed.get("max_k")]
            if axis is not None:
                values = [axis.value(0), axis.value(axis.count - 1)]
            if not all(isinstance(value, int) for value in values):
                continue
            most = max(values)
            name, terms = max(longest.items(), key=lambda item: item[1], default=("", 0))
            if terms > most:
                self.reader.complain(
                    ("workloads", name),
                    f"has sums of K = {terms:,} terms; max_k of {subspace.family} is {most:,} or"
                    f" less: add `max_k: {terms}` or more to its parameters",
                )

    # -- workloads -------------------------------------------------------------------------------

    def workloads(self) -> dict[str, Network]:
        entries = self.data.get("workloads", {})
        if not isinstance(entries, dict):
            self.reader.refuse(("workloads",), entries, f"`name: [{FORM}, ...]` or `name: FILE`")
            return {}
        workloads: dict[str, Network | None] = {}
        for name, value in entries.items():
            path = ("workloads", name)
            if not _WORKLOAD.fullmatch(name):
                self.reader.complain(
                    path, "a workload's name must be letters, digits and underscores"
                )
            elif isinstance(value, str):
                workloads[name] = self.workload_file(path, value)
            elif isinstance(value, dict) and "network" in value:
                workloads[name] = self.of_context(path, value)
            elif isinstance(value, dict) and "model" in value:
                workloads[name] = self.of_model(path, value)
            else:
                workloads[name] = read_network(value, path, self.reader.complain)
        return {name: network for name, network in workloads.items() if network is not None}

    def of_context(self, path: tuple[str, ...], value: dict[str, Any]) -> Network | None:
        """Return a network of a file behind another number of earlier positions."""
        self.reader.keys(path, ("network", "context"))
        if not isinstance(value["network"], str):
            self.reader.refuse((*path, "network"), value["network"], "the name of a workload")
            return None
        network = self.workload_file((*path, "network"), value["network"])
        context = value.get("context", network.context if network else 0)
        context = self.reader.integer((*path, "context"), context, 0, 2**31 - 1)
        if network is None:
            return None
        network = network.with_context(context)
        if text := too_large(network):
            self.reader.complain(path, text)
            return None
        return network

    def of_model(self, path: tuple[str, ...], value: dict[str, Any]) -> Network | None:
        """Return a pass of an imported model."""
        self.reader.keys(path, ("model", "context", "prompt"))
        if not isinstance(value["model"], str):
            self.reader.refuse((*path, "model"), value["model"], "the directory of a model")
            return None
        sizes = {
            key: self.reader.integer((*path, key), value[key], least, 2**31 - 1)
            for key, least in (("context", 0), ("prompt", 1))
            if key in value
        }
        try:
            network = model_workload(self.folder / value["model"], **sizes)
        except InputError as error:
            self.reader.complain(path, str(error))
            return None
        if text := too_large(network):
            self.reader.complain(path, text)
            return None
        return network

    def workload_file(self, path: tuple[str, ...], name: str) -> Network | None:
        file = workload_path(name, self.folder)
        try:
            document = read_document(file or self.folder / name)
        except InputError as error:
            self.reader.complain(
                path,
                f"{error}; the name is relative to the sweep's file, or that of a shipped workload"
                f"{did_you_mean(name, shipped())}",
            )
            return None
        inner = Reader(document)
        network = read_network(document.data, (), inner.complain)
        self.reader.problems += inner.problems
        return network

    # -- what is wanted --------------------------------------------------------------------------

    def objectives(self) -> list[Objective]:
        entries = self.data.get("objectives")
        expected = "`minimize: [METRIC, ...]`, `maximize: [METRIC, ...]` or both"
        if not isinstance(entries, dict) or not entries:
            self.reader.refuse(("objectives",), entries, expected)
            return []
        self.reader.keys(("objectives",), ("minimize", "maximize"))
        objectives: list[Objective] = []
        for key in ("minimize", "maximize"):
            path = ("objectives", key)
            for index, item in enumerate(self.reader.expressions(path, entries.get(key, []))):
                if item.text in map(str, objectives):
                    self.reader.complain((*path, index), f"{item} is already an objective")
                objectives.append(Objective(item, key == "maximize"))
        if not objectives and not self.reader.problems:
            self.reader.complain(("objectives",), f"none is given; add {expected}")
        return objectives

    def tops(self, objectives: Sequence[Objective]) -> list[Top]:
        entries = self.data.get("top", {})
        path = ("top",)
        if isinstance(entries, int) and not isinstance(entries, bool):
            count = self.reader.integer(path, entries, 1, 1_000_000)
            return [Top(objective, count) for objective in objectives]
        if not isinstance(entries, dict):
            self.reader.refuse(
                path, entries, "a number, or `minimize: {METRIC: N}` and `maximize: {METRIC: N}`"
            )
            return []
        self.reader.keys(path, ("minimize", "maximize"))
        tops = []
        for key in ("minimize", "maximize"):
            group = entries.get(key, {})
            if not isinstance(group, dict):
                self.reader.refuse((*path, key), group, "`METRIC: N`")
                continue
            for text, number in group.items():
                count = self.reader.integer((*path, key, text), number, 1, 1_000_000)
                expression = self.reader.expression((*path, key, text), text)
                if expression is not None:
                    tops.append(Top(Objective(expression, key == "maximize"), count))
        return tops

    def group_by(self, subspaces: Sequence[Subspace]) -> tuple[str, ...]:
        entry = self.data.get("group_by")
        if entry is None or not subspaces:
            return ()
        names = list(dict.fromkeys(name for each in subspaces for name in each.stated))
        expected = f"family or a parameter of the sweep: {', '.join(names)}"
        several = isinstance(entry, list) and bool(entry)
        result: list[str] = []
        for number, name in enumerate(entry if several else [entry]):
            path = ("group_by", number) if several else ("group_by",)
            if not isinstance(name, str) or name not in ("family", *names):
                known = did_you_mean(name, names) if isinstance(name, str) else ""
                self.reader.refuse(path, name, expected, known)
            elif name in result:
                self.reader.refuse(path, name, "named once")
            else:
                result.append(name)
        return tuple(result)

    def sample(self) -> Sample | None:
        entry = self.data.get("sample")
        if entry is None:
            return None
        path = ("sample",)
        if not isinstance(entry, dict):
            self.reader.refuse(path, entry, "`{points: N, population: N, seed: N}`")
            return None
        self.reader.keys(path, ("points", "population", "seed"))
        points = self.reader.integer((*path, "points"), entry.get("points"), 1, 10**8)
        population = self.reader.integer(
            (*path, "population"), entry.get("population", 200), 10, 10_000
        )
        seed = self.reader.integer((*path, "seed"), entry.get("seed", 0), 0, 2**31 - 1)
        return Sample(points, population, seed)


def _count(number: int) -> str:
    """Return a large number in words that can be read."""
    text = str(number)
    return f"{number:,}" if len(text) <= 12 else f"{text[0]}.{text[1]}e{len(text) - 1}"
