# SPDX-License-Identifier: Apache-2.0
"""Check of the metrics that a sweep names against the cost model.

It is asked for one point of each family and technology.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from cost_model.estimate import technology as technologies
from cost_model.sweep.document import SweepFile
from cost_model.sweep.expressions import Expression, ExpressionError
from cost_model.sweep.parameters import typed_result
from cost_model.sweep.plan import (
    Evaluate,
    Metrics,
    Plan,
    metrics_of,
    targets_of,
    technologies_of,
)
from cost_model.sweep.reader import Path, Reader
from cost_model.sweep.space import Subspace, Values
from cost_model.sweep.table import FMAX, MEETS_CLOCK
from hwgen.config.validate import shown
from hwgen.errors import did_you_mean
from hwgen.technologies.utilization import FITS, SHARES


@dataclass(frozen=True)
class Probe:
    """Result of a first evaluation of the cost model.

    Parameters
    ----------
    metrics : tuple of str
        Names of the metrics of all families, in the cost model's order.
    fingerprint : str
        Hexadecimal digest of the sweep and of the cost model's answers.
    """

    metrics: tuple[str, ...]
    fingerprint: str


def probe(file: SweepFile, evaluate: Evaluate) -> Probe:
    """Check the specs, objectives and tops of a sweep against the metrics that there are.

    Raises
    ------
    ConfigError
        With every problem.
    """
    plan, reader = file.plan, Reader(file.document)
    names: dict[str, None] = {}
    answers = []
    for subspace in plan.space.subspaces:
        constants: Values = {}
        metrics: Metrics = {}
        for values in _first_points(subspace):
            valid, metrics = metrics_of(evaluate, subspace.family, values, plan, 1)
            constants = {**values, **metrics}
            names.update(dict.fromkeys(metrics))
            texts = {name: repr(float(column[0])) for name, column in metrics.items()}
            answers.append([subspace.family, bool(valid[0]), texts])
        for path, expression, type_codes in _expressions(file):
            _check(reader, subspace.family, path, expression, type_codes, constants, metrics)
    if reader.problems:
        raise reader.error()
    networks = {name: asdict(network) for name, network in plan.workloads.items()}
    identity: list[Any] = [
        plan.version, file.document.data, networks, answers, plan.refine, _costs(plan),
        plan.activity, _digest_of(plan.activity),
    ]  # fmt: skip
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return Probe(tuple(names), hashlib.sha256(text.encode()).hexdigest())


def _digest_of(activity: str) -> str:
    """Return the digest of the operands of an activity, if they are in a file."""
    path = FilePath(activity)
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _costs(plan: Plan) -> list[Any]:
    """Return the costs and delays of components that the sweep rests on."""
    result = []
    for name in sorted(filter(technologies.is_calibrated, technologies_of(plan))):
        tech = technologies.technology(name)
        result.append([name, tech.structure.get("costs"), tech.timing.get("ns")])
    return result


def _first_points(subspace: Subspace) -> Iterator[Values]:
    """Yield the parameters of one point for each technology and device."""
    for values in targets_of(subspace):
        for axis in subspace.axes[subspace.categories :]:
            values[axis.name] = axis.at(np.array([0]))
        subspace.derive(values)
        yield values


def _expressions(file: SweepFile) -> Iterator[tuple[Path, Expression, str]]:
    plan, data = file.plan, file.document.data
    single = isinstance(data.get("specs"), str)
    for index, spec in enumerate(plan.specs):
        yield ("specs",) if single else ("specs", index), spec, "b"
    seen = {"minimize": 0, "maximize": 0}
    for objective in plan.objectives:
        key = "maximize" if objective.maximise else "minimize"
        alone = isinstance(data["objectives"][key], str)
        path = ("objectives", key)
        yield path if alone else (*path, seen[key]), objective.expression, "iuf"
        seen[key] += 1
    for top in plan.tops:
        key = "maximize" if top.objective.maximise else "minimize"
        yield ("top", key, str(top.objective)), top.objective.expression, "iuf"


def _check(
    reader: Reader,
    family: str,
    path: Path,
    expression: Expression,
    type_codes: str,
    columns: Values,
    metrics: Metrics,
) -> None:
    unknown = sorted(expression.names - set(columns))
    for name in unknown:
        if name in (FITS, *SHARES):
            reader.complain(path, f"{name} is of a device: add `targets: {{device: NAME}}`")
            continue
        if name == MEETS_CLOCK:
            text = f"{name} is a column of the results; a spec is `{FMAX} >= target.clock_mhz`"
            reader.complain(path, text)
            continue
        reader.complain(
            path,
            f"{family} has no metric or parameter {shown(name)}{did_you_mean(name, columns)};"
            f" metrics are: {', '.join(metrics)}",
        )
    if not unknown:
        try:
            typed_result(expression, columns, type_codes)
        except ExpressionError as error:
            reader.complain(path, str(error))
