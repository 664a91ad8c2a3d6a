# SPDX-License-Identifier: Apache-2.0
"""Reading the parameters of one family in a sweep: scalars, lists, ranges and expressions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cost_model.configurations.metrics import DEVICE
from cost_model.sweep.expressions import Expression, ExpressionError
from cost_model.sweep.reader import Path, Reader
from cost_model.sweep.space import (
    TECHNOLOGY,
    Axis,
    Constraint,
    Derived,
    Steps,
    Subspace,
    Values,
)
from hwgen.config.parameters import Parameter, parameters, yaml_value
from hwgen.config.validate import shown
from hwgen.core.load import value_problem
from hwgen.core.params.base import FamilyConfig
from hwgen.errors import did_you_mean
from hwgen.technologies import technology_of

_RANGE = ("from", "to", "step", "log")
_MOST = 1 << 53
"""Values of a range: places in it must be exact as floats."""

_SET_BY_SWEEP = ("name", "family")


class SubspaceReader:
    """Collects what a sweep says about one family.

    Parameters
    ----------
    reader : Reader
    family : str
    model : type
        The family's configuration.
    """

    def __init__(self, reader: Reader, family: str, model: type[FamilyConfig]) -> None:
        self.reader = reader
        self.family = family
        self.model = model
        self.described = parameters(model)
        self.by_field = {
            parameter.field: parameter
            for parameter in self.described.values()
            if parameter.path and not parameter.is_group and parameter.field not in _SET_BY_SWEEP
        }
        self.paths: dict[str, Path] = {}
        self.axes: dict[str, Axis] = {}
        self.fixed: dict[str, Any] = {}
        self.expressions: dict[str, Expression] = {}
        self.constraints: list[tuple[Path, Expression]] = []
        self.before = len(reader.problems)

    # -- parameters --------------------------------------------------------------------------

    def add(self, path: Path, group: Any, prefix: tuple[str, ...] = ()) -> None:
        """Take the parameters of a group at `path` of the file, `prefix` of the configuration."""
        if not isinstance(group, dict):
            self.reader.refuse(path, group, "a group of parameters")
            return
        for key, value in group.items():
            name = (*prefix, *key.split("."))
            inner = (*path, key)
            parameter = self.described.get(name)
            if parameter is None or name[0] in _SET_BY_SWEEP:
                self._unknown(inner, ".".join(name))
            elif parameter.is_group and isinstance(value, (str, list)) and parameter.stands_for:
                # What may stand for the group is the value of one of its parameters.
                self._single(inner, self.described[*name, parameter.stands_for], value)
            elif parameter.is_group:
                self.add(inner, value, name)
            else:
                self._single(inner, parameter, value)

    def _single(self, path: Path, parameter: Parameter, value: Any) -> None:
        if not self._repeated(path, parameter.field):
            self.paths[parameter.field] = path
            self._read_value(path, parameter, value)

    def _repeated(self, path: Path, name: str) -> bool:
        """Return whether a parameter is given twice; a family may override what all share."""
        earlier = self.paths.get(name)
        if earlier is None:
            return False
        if earlier[0] != "families" and path[0] == "families":
            self.axes.pop(name, None)
            self.fixed.pop(name, None)
            self.expressions.pop(name, None)
            return False
        line = self.reader.document.position(earlier).line
        self.reader.complain(path, f"{name} is already given on line {line}")
        return True

    def _unknown(self, path: Path, name: str) -> None:
        if name in _SET_BY_SWEEP:
            self.reader.complain(path, f"{name} is set by the sweep; remove it")
            return
        same = [
            candidate
            for candidate in self.by_field
            if candidate.split(".")[-1] == name.split(".")[-1]
        ]
        near = f" (did you mean {same[0]!r}?)" if same else did_you_mean(name, self.by_field)
        self.reader.complain(
            path,
            f"{self.family} has no parameter {shown(name)}{near};"
            f" `hwgen families {self.family}` lists them",
        )

    def _read_value(self, path: Path, parameter: Parameter, value: Any) -> None:
        numeric = bool({"integer", "number"} & set(parameter.types))
        if isinstance(value, dict):
            if not numeric:
                self.reader.refuse(path, value, f"a value or a list of them: {parameter.allowed}")
                return
            values = self._range(path, parameter, value)
            if values is not None:
                self._axis(parameter, values)
        elif isinstance(value, list):
            self._list(path, parameter, value)
        elif isinstance(value, str) and numeric and value not in parameter.choices:
            expression = self.reader.expression(path, value)
            if expression is not None:
                self.expressions[parameter.field] = expression
        elif self._legal(path, parameter, value):
            self.fixed[parameter.field] = value

    def _legal(self, path: Path, parameter: Parameter, value: Any) -> bool:
        text = value_problem(self.model, parameter.path, value)
        if text is not None:
            self.reader.complain(path, text)
        return text is None

    def _axis(self, parameter: Parameter, values: Steps | tuple[Any, ...]) -> None:
        numeric = isinstance(values, Steps) or all(type(v) in (int, float) for v in values)
        axis = Axis(parameter.field, values, numeric)
        if axis.count == 1:
            self.fixed[parameter.field] = axis.value(0)
        else:
            self.axes[parameter.field] = axis

    def _list(self, path: Path, parameter: Parameter, values: list[Any]) -> None:
        if not values:
            self.reader.complain(path, "an empty list has no value to try; give at least one")
            return
        seen: list[Any] = []
        for index, value in enumerate(values):
            if any(value == other and type(value) is type(other) for other in seen):
                self.reader.complain((*path, index), f"{shown(value)} is listed twice")
            elif not self._legal((*path, index), parameter, value):
                return
            seen.append(value)
        self._axis(parameter, tuple(values))

    def _range(
        self, path: Path, parameter: Parameter, group: dict[str, Any]
    ) -> Steps | tuple[Any, ...] | None:
        """Return the numbers of ``{from, to, step}`` or ``{from, to, log}``."""
        problems = len(self.reader.problems)
        self.reader.keys(path, _RANGE)
        whole = "number" not in parameter.types
        for key in ("from", "to", *(key for key in ("step", "log") if key in group)):
            value = group.get(key)
            good = type(value) is int or (type(value) is float and math.isfinite(value))
            if not good or (whole and type(value) is not int and key != "log"):
                kind = "an integer" if whole else "a number"
                self.reader.refuse((*path, key), value, kind)
        if "step" in group and "log" in group:
            self.reader.complain(path, "give `step` or `log`, not both")
        if len(self.reader.problems) > problems:
            return None
        first, last = group["from"], group["to"]
        if last < first:
            self.reader.complain(
                path,
                f"empty: from {yaml_value(first)} is more than to {yaml_value(last)};"
                " exchange them",
            )
            return None
        values = self._log(path, group) if "log" in group else self._steps(path, group)
        if values is None:
            return None
        if isinstance(values, Steps) and values.count > _MOST:
            self.reader.complain(path, f"has more than {_MOST:.1e} values; use a larger step")
            return None
        ends = values.ends() if isinstance(values, Steps) else [values[0], values[-1]]
        sound = self._legal((*path, "from"), parameter, ends[0])
        return values if self._legal((*path, "to"), parameter, ends[1]) and sound else None

    def _steps(self, path: Path, group: dict[str, Any]) -> Steps | None:
        first, last, step = group["from"], group["to"], group.get("step", 1)
        if step <= 0:
            self.reader.refuse((*path, "step"), step, "more than 0")
            return None
        if last - first < step:
            return Steps(first, 1, 1)
        if all(type(x) is int for x in (first, last, step)):
            return Steps(first, step, (last - first) // step + 1)
        return Steps(first, step, math.floor((last - first) / step + 1e-9) + 1)

    def _log(self, path: Path, group: dict[str, Any]) -> tuple[Any, ...] | None:
        first, last, base = group["from"], group["to"], group["log"]
        if base <= 1:
            self.reader.refuse((*path, "log"), base, "a factor of more than 1, such as 2")
            return None
        if first <= 0:
            self.reader.refuse((*path, "from"), first, "more than 0 with `log`")
            return None
        values, value = [first], first * base
        whole = type(first) is int and type(group["to"]) is int
        while value <= last * (1 + 1e-12) and len(values) <= 100_000:
            rounded = round(value) if whole else value
            if rounded != values[-1]:
                values.append(rounded)
            value *= base
        return tuple(values)

    # -- what combines them --------------------------------------------------------------------

    def constrain(self, path: Path, value: Any) -> None:
        """Take the constraints at a place of the file."""
        conditions = self.reader.expressions(path, value)
        single = isinstance(value, str)
        self.constraints += [
            (path if single else (*path, index), item) for index, item in enumerate(conditions)
        ]

    def subspace(self) -> Subspace | None:
        """Return the family's points, or None if a problem was found."""
        legal = {*self.by_field, "family"}
        for path, expression in [
            *((self.paths[name], expression) for name, expression in self.expressions.items()),
            *self.constraints,
        ]:
            for name in sorted(expression.names - legal):
                self.reader.complain(
                    path,
                    f"{self.family} has no parameter {shown(name)}{did_you_mean(name, legal)}",
                )
        self._targets()
        if len(self.reader.problems) > self.before:
            return None
        order = self._order()
        if order is None:
            return None
        paths = tuple(self.paths)
        chosen = {**self.axes, **self.fixed, **self.expressions}
        rest = {n: p.default for n, p in self.by_field.items() if n not in chosen}
        axes = sorted(self.axes.values(), key=lambda axis: axis.numeric)
        subspace = Subspace(
            self.family,
            tuple(axes),
            tuple(self._derived(name) for name in order),
            tuple(Constraint(expression, path) for path, expression in self.constraints),
            {"family": self.family, **rest, **self.fixed},
            paths,
        )
        return subspace if self._try(subspace) else None

    def _targets(self) -> None:
        """Refuse devices of which no technology is among those that are given."""
        if not {TECHNOLOGY, DEVICE} <= self.paths.keys():
            return
        allowed, named = (
            [axis.value(digit) for digit in range(axis.count)]
            if (axis := self.axes.get(name))
            else [self.fixed.get(name)]
            for name in (TECHNOLOGY, DEVICE)
        )
        for device in named:
            local = technology_of(device) if isinstance(device, str) else None
            if local is not None and local not in allowed:
                self.reader.complain(
                    self.paths[DEVICE],
                    f"{device!r} is of {local}, not of {' or '.join(map(str, allowed))}; remove the"
                    " technology, which follows from the device",
                )

    def _derived(self, name: str) -> Derived:
        parameter = self.by_field[name]
        low = -math.inf if parameter.minimum is None else parameter.minimum
        high = math.inf if parameter.maximum is None else parameter.maximum
        whole = "number" not in parameter.types
        return Derived(
            name, self.expressions[name], whole, float(low), float(high), self.paths[name]
        )

    def _order(self) -> list[str] | None:
        """Return the derived parameters so that each comes after what it uses."""
        order: list[str] = []
        open_: list[str] = []

        def visit(name: str) -> bool:
            if name in order:
                return True
            if name in open_:
                cycle = [*open_[open_.index(name) :], name]
                self.reader.complain(
                    self.paths[name], f"the expressions form a cycle: {' -> '.join(cycle)}"
                )
                return False
            open_.append(name)
            used = sorted(self.expressions[name].names & set(self.expressions))
            sound = all(visit(other) for other in used)
            open_.pop()
            order.append(name)
            return sound

        return order if all(visit(name) for name in list(self.expressions)) else None

    def _try(self, subspace: Subspace) -> bool:
        """Evaluate every expression at one point, to find operators that cannot take operands."""
        values = subspace.settled([0] * subspace.categories)
        for axis in subspace.axes[subspace.categories :]:
            values[axis.name] = axis.at(np.array([0]))
        for item in subspace.derived:
            result = self._result(self.paths[item.name], item.expression, values, "iuf")
            if result is None:
                return False
            values[item.name] = np.ones(1, np.int64) if item.integer else result
        results = [self._result(path, item, values, "b") for path, item in self.constraints]
        return all(result is not None for result in results)

    def _result(self, path: Path, expression: Expression, values: Values, type_codes: str) -> Any:
        try:
            return typed_result(expression, values, type_codes)
        except ExpressionError as error:
            self.reader.complain(path, str(error))
            return None


def typed_result(expression: Expression, values: Values, type_codes: str) -> Any:
    """Return an expression's value, which must be of one of the NumPy `type_codes` "iuf" or "b".

    Raises
    ------
    ExpressionError
        If it is not.
    """
    result = expression(values)
    kind = getattr(result, "dtype", np.dtype(object)).kind
    if kind not in type_codes:
        expected = "a condition, such as array.tables <= 64" if type_codes == "b" else "a number"
        raise ExpressionError(f"must be {expected}, not {shown(expression.text)}")
    return result
