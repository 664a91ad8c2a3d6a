# SPDX-License-Identifier: Apache-2.0
"""Configurations of a family that differ in numeric parameters, evaluated at once.

Figures are those of the family's own code (`hwgen.core.core.Core` and its parameters), run on
`cost_model.configurations.lanes.Lanes` of numbers.  Some configurations are computed one by one as
well; where they differ, and where the code cannot be run on lanes, all are computed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, Self, cast

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from pydantic import BaseModel
from pydantic_core import PydanticCustomError

from cost_model.configurations.lanes import TooManyGroupsError, run
from hwgen.config.dotted import flattened, nested
from hwgen.config.parameters import parameters
from hwgen.core.core import Core
from hwgen.core.load import value_problem
from hwgen.core.params.base import FamilyConfig
from hwgen.core.params.off_chip import OffChip
from hwgen.core.params.target import Target
from hwgen.core.post import PostSettings
from hwgen.core.registry import core_of
from hwgen.core.registry import family as family_of
from hwgen.errors import HwgenError

Number = Any
"""An array, or a scalar where nothing varies."""

_FOLLOWS = ("accumulator",)
"""Parameters whose defaults depend on formats, so that one of them may be meant where another is
the default."""

_CLOCK = "target.clock_mhz"

_TRIED = 1000
"""Points among which a legal one is looked for."""

_CHECKED = 6
"""Points of which figures on lanes are compared with those of single configurations."""

_LEAST_GROUPS = 64
_POINTS_A_GROUP = 16

_REFUSED = (HwgenError, PydanticCustomError, ZeroDivisionError)


def frozen(value: Any) -> Any:
    """Return a parameter's value in a form that can be a key."""
    if isinstance(value, _Group):
        return value
    if isinstance(value, Mapping):
        return _Group((key, frozen(each)) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(frozen, value))
    return value


class _Group(tuple[Any, ...]):
    """A mapping as pairs of key and value."""


def _thawed(value: Any) -> Any:
    """Undo `frozen`."""
    if isinstance(value, _Group):
        return {key: _thawed(each) for key, each in value}
    return [_thawed(each) for each in value] if isinstance(value, tuple) else value


@lru_cache(maxsize=64)
def defaults(name: str) -> Mapping[str, Any]:
    """Return the default of every parameter of a family."""
    return {
        p.field: p.default for p in parameters(family_of(name).params_class).values()
        if not p.is_group
    }  # fmt: skip


@lru_cache(maxsize=1 << 14)
def _config(name: str, values: tuple[tuple[str, Any], ...]) -> FamilyConfig | None:
    tree = nested({path: _thawed(value) for path, value in values})
    try:
        params = family_of(name).params_class.model_validate(
            {"name": "core", "family": name, **tree}
        )
        return None if params.too_wide() else params
    except (ValueError, *_REFUSED):
        return None


def configuration(family: str, values: Mapping[str, Any]) -> FamilyConfig | None:
    """Return the configuration with dotted parameters, None if it is not legal.

    What it leaves ``auto`` is not chosen yet.
    """
    for chosen in chosen_values(family, values):
        pairs = sorted(chosen.items())
        config = _config(family, tuple((path, frozen(value)) for path, value in pairs))
        if config is not None:
            return config
    return None


def chosen_values(family: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return dotted parameters without defaults, in the ways to try, the first legal one being it.

    Some defaults stand for parameters that another choice does not have.
    """
    usual = defaults(family)
    chosen = {
        path: value for path, value in values.items()
        if path not in ("name", "family") and frozen(usual.get(path)) != frozen(value)
    }  # fmt: skip
    follows = {path: values[path] for path in _FOLLOWS if path in values and path not in chosen}
    return [{**chosen, **follows}, chosen] if follows else [chosen]


@dataclass(frozen=True)
class Configurations:
    """Configurations of a family.

    Parameters
    ----------
    family : str
    fixed : mapping
        Dotted parameters that do not vary, as they stand in a file.
    varying : mapping
        Dotted numeric parameters: arrays that broadcast against each other.
    post : PostSettings, optional
        Post-processing of products; default none.
    only : Core, optional
        The core, where it is the only one and was made before.
    target : Target, optional
        Of that core, in the place of its own.
    """

    family: str
    fixed: Mapping[str, Any]
    varying: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    post: PostSettings | None = None
    only: Core[Any] | None = None
    target: Target | None = None

    @classmethod
    def of(cls, core: Core[Any], target: Target, post: PostSettings | None = None) -> Self:
        """Return the one configuration of a core, for a target."""
        fixed = flattened({"target": target.model_dump(mode="json")})
        return cls(core.family_name(), fixed, post=post, only=core, target=target)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape to which parameters broadcast."""
        return np.broadcast_shapes(*(np.shape(column) for column in self.varying.values()))

    @property
    def size(self) -> int:
        """The number of configurations."""
        return int(np.prod(self.shape))

    @cached_property
    def example(self) -> Core[Any] | None:
        """The core of a legal one of them, None if none was found."""
        if self.only is not None:
            return self.only
        size = self.size
        for position in range(0, size, max(1, size // _TRIED)):
            config = self._at(position)
            if config is not None:
                return core_of(config)
        return None

    @property
    def memory(self) -> OffChip:
        """The memory behind the ports, but for what varies of it."""
        assert self.example is not None
        target: Target = self.target or self.example.params.target
        return target.memory

    def __getitem__(self, name: str) -> Number:
        """Return the values of a parameter, or the one that all have."""
        if name in self.varying:
            return self.varying[name]
        return self.fixed.get(name, defaults(self.family).get(name))

    def evaluate_one(self, of: Callable[[Core[Any]], float | None]) -> Number:
        """Return a metric of each configuration; see `evaluate`."""
        return self.evaluate(lambda core: (of(core),), 1)[0]

    def evaluate(
        self, of: Callable[[Core[Any]], Sequence[float | None]], count: int
    ) -> NDArray[np.float64]:
        """Return metrics of each configuration, NaN where one is unknown.

        Parameters
        ----------
        of : callable
            Takes a core and returns the figures; what it refuses has none.
        count : int
            How many figures there are.
        """

        def guarded(core: Core[Any]) -> Sequence[float | None]:
            try:
                return of(core)
            except _REFUSED:
                return (None,) * count

        if self.example is None:
            return np.full((count, *self.shape), np.nan)
        if not self.varying:
            return np.array([np.nan if x is None else float(x) for x in guarded(self.example)])
        result = self._on_lanes(guarded, count)
        return self._one_by_one(guarded, count) if result is None else result

    def _on_lanes(
        self, of: Callable[[Core[Any]], Sequence[float | None]], count: int
    ) -> NDArray[np.float64] | None:
        """Return figures by lanes, None if that does not work."""
        assert self.example is not None
        base, size = self.example.params, self.size
        most = max(_LEAST_GROUPS, size // _POINTS_A_GROUP)

        def at(numbers: Mapping[str, Any]) -> Sequence[float | None]:
            return of(core_of(_with_numbers(base, nested(numbers))))

        try:
            # What a field does not allow, such as a group of 200 weights, may take all memory.
            columns = {
                name: np.where(allowed, self.varying[name], attrgetter(name)(base))
                for name, allowed in self._allowed.items()
            }
            with np.errstate(all="ignore"):
                result = run(at, columns, count, most)
        except (TooManyGroupsError, TypeError, ValueError, OverflowError, AttributeError):
            return None
        positions = np.unique(np.linspace(0, size - 1, _CHECKED).astype(int))
        for position in positions:
            config = self._at(int(position))
            if config is None:
                continue
            single = np.array([np.nan if x is None else float(x) for x in of(core_of(config))])
            there = result.reshape(count, -1)[:, position]
            if not np.allclose(single, there, rtol=1e-9, atol=0, equal_nan=True):
                return None
        return result

    def _one_by_one(
        self, of: Callable[[Core[Any]], Sequence[float | None]], count: int
    ) -> NDArray[np.float64]:
        """Return figures of each core; the clock, which no core depends on, is left out of them."""
        columns = np.broadcast_arrays(
            np.zeros(self.shape), *(c for name, c in self.varying.items() if name != _CLOCK)
        )
        rows = np.stack([column.ravel() for column in columns], axis=1)
        each, inverse = np.unique(rows, axis=0, return_inverse=True)
        result, known = np.full((count, len(each)), np.nan), np.zeros(len(each), np.bool_)
        for position, row in enumerate(inverse.ravel()):
            config = None if known[row] else self._at(position)
            if config is not None:
                values = of(core_of(config))
                result[:, row] = [np.nan if x is None else float(x) for x in values]
                known[row] = True
        return result[:, inverse.ravel()].reshape(count, *self.shape)

    def _at(self, position: int) -> FamilyConfig | None:
        index = np.unravel_index(position, self.shape)
        columns = np.broadcast_arrays(*self.varying.values())
        numbers = {
            name: _plain(column[index]) for name, column in zip(self.varying, columns, strict=True)
        }
        return configuration(self.family, {**self.fixed, **numbers})

    def legal(self) -> NDArray[np.bool_]:
        """Return a mask of the legal configurations, by the rules of a configuration file."""
        valid = np.ones(self.shape, np.bool_)
        if self.example is None:
            return np.zeros(self.shape, np.bool_)
        for allowed in self._allowed.values():
            valid = valid & allowed
        if self.varying:
            valid = valid & (self.evaluate_one(_meets_rules) == 1)
        return np.asarray(valid, np.bool_)

    @cached_property
    def _allowed(self) -> Mapping[str, NDArray[np.bool_]]:
        """Mask of each parameter that varies: values that its field allows, whatever others are."""
        masks: dict[str, NDArray[np.bool_]] = {}
        for name, values in self.varying.items():
            low, high, kind = _bounds(self.family).get(name, (-np.inf, np.inf, None))
            mask = (values >= low) & (values <= high)
            if kind is int:
                mask &= values == np.floor(values)
            elif kind is None:  # choices, and numbers beside words
                each, inverse = np.unique(values, return_inverse=True)
                allowed = np.array([_is_allowed(self.family, name, _plain(x)) for x in each])
                mask &= allowed[inverse].reshape(np.shape(values))
            masks[name] = np.asarray(mask, np.bool_)
        return masks


def _plain(number: Any) -> float | int:
    value = number.item() if isinstance(number, np.generic) else number
    return int(value) if float(value).is_integer() else value


def _with_numbers(model: Any, values: Mapping[str, Any]) -> Any:
    """Return a model with other numbers, without any check."""
    fields = {name: getattr(model, name) for name in type(model).model_fields}
    for name, value in values.items():
        fields[name] = _with_numbers(fields[name], value) if isinstance(value, dict) else value
    return type(model).model_construct(_fields_set=model.model_fields_set, **fields)


def _meets_rules(core: Core[Any]) -> float:
    """Return 1 if the rules between fields are met, else 0."""
    try:
        _validate(core.params)
    except _REFUSED:
        return 0.0
    return 0.0 if core.params.too_wide() else 1.0


def _validate(model: BaseModel) -> None:
    for name in type(model).model_fields:
        inner = getattr(model, name)
        if isinstance(inner, BaseModel):
            _validate(inner)
    for decorator in type(model).__pydantic_decorators__.model_validators.values():
        if decorator.info.mode == "after":
            decorator.func(model)


@lru_cache(maxsize=16)
def _bounds(family: str) -> Mapping[str, tuple[float, float, type | None]]:
    """Return the bounds of parameters of a family, and their type, None of others."""
    bounds: dict[str, tuple[float, float, type | None]] = {}

    def walk(model: Any, prefix: str) -> None:
        for name, info in model.model_fields.items():
            if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
                walk(info.annotation, f"{prefix}{name}.")
                continue
            low = [cast("float", m.ge) for m in info.metadata if isinstance(m, Ge)]
            high = [cast("float", m.le) for m in info.metadata if isinstance(m, Le)]
            kinds = {int: int, float: float, float | None: float}
            bounds[prefix + name] = (
                min(low, default=-np.inf),
                max(high, default=np.inf),
                kinds.get(info.annotation),
            )

    walk(family_of(family).params_class, "")
    return bounds


@lru_cache(maxsize=1 << 14)
def _is_allowed(family: str, name: str, value: float) -> bool:
    """Return whether a parameter may have a value, whatever others have."""
    return value_problem(family_of(family).params_class, tuple(name.split(".")), value) is None
