# SPDX-License-Identifier: Apache-2.0
"""Configurations that differ in numeric parameters, evaluated at once.

Where a count is no formula but a walk (the adders of a heap of bits), it is computed once for every
combination of the few parameters that it depends on, from a real configuration, and looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cost_model.closed_forms.numbers import Counts, Number
from hwgen.config.dotted import nested
from hwgen.core.params.base import AUTO, FamilyConfig
from hwgen.core.registry import family

_FOLLOWS = ("accumulator",)
"""Parameters whose defaults depend on formats, so that one of them may be meant where another is
the default."""

_DENSE = 1 << 21
"""Largest table of figures of combinations."""

PIPELINES = ("pipeline.table", "pipeline.reduce", "pipeline.accumulate", "pipeline.pe")
PIPELINE_FOLLOWS = ("array.group_size", "array.tables", "max_k", "target.clock_mhz")
"""Parameters that may be `auto`, and the numbers on which the choice depends."""


@lru_cache(maxsize=1 << 16)
def _config(name: str, values: tuple[tuple[str, Any], ...]) -> FamilyConfig | None:
    """Return the configuration with these dotted parameters; None if it is not legal."""
    tree = nested({path: _thawed(value) for path, value in values})
    try:
        params = family(name).params_class.model_validate({"name": "core", "family": name, **tree})
        return params if not params.automatic or _resolver is None else _resolver(params)
    except ValueError:
        return None


Resolver = Callable[[FamilyConfig], FamilyConfig]

_resolver: Resolver | None = None


def use_resolver(resolver: Resolver) -> None:
    """Choose what configurations leave ``auto`` by a function; it raises `ValueError`."""
    global _resolver
    _resolver = resolver


@lru_cache(maxsize=64)
def defaults(name: str) -> Mapping[str, Any]:
    """Return the default of every parameter of a family."""
    from hwgen.config.parameters import parameters

    return {
        p.field: p.default for p in parameters(family(name).params_class).values() if not p.is_group
    }


@dataclass
class _Table:
    """Figures by combination of parameters, computed when first asked for."""

    sizes: tuple[int, ...]
    values: NDArray[np.float64]
    known: NDArray[np.bool_]


@dataclass
class Space:
    """Configurations of a family that differ in numeric parameters only.

    Parameters
    ----------
    family : str
    fixed : mapping
        Dotted parameters that do not vary, as they stand in a file.
    made_of : {"registers", "macros"}
        What large memories are made of.
    """

    family: str
    fixed: Mapping[str, Any]
    made_of: Literal["registers", "macros"] = "registers"
    _tables: dict[Any, _Table] = field(default_factory=dict, repr=False)
    _legal: dict[str, Any] | None = field(default=None, repr=False)

    def configuration(self, values: Mapping[str, Any]) -> FamilyConfig | None:
        """Return the configuration with these values beside the fixed ones; None if not legal.

        What else varies is as in some legal configuration.
        """
        usual = defaults(self.family)
        # What equals its default is left out: some defaults stand for parameters that another
        # choice does not have.
        given = {
            path: value
            for path, value in {**self.fixed, **(self._legal or {}), **values}.items()
            if path not in ("name", "family")
        }
        chosen = {p: v for p, v in given.items() if frozen(usual.get(p)) != frozen(v)}
        follows = {path: given[path] for path in _FOLLOWS if path in given and path not in chosen}
        found = None
        for more in (follows, {}) if follows else ({},):
            pairs = sorted({**chosen, **more}.items())
            found = found or _config(self.family, tuple((p, frozen(v)) for p, v in pairs))
        return found

    def view(self, varying: Mapping[str, NDArray[Any]]) -> View:
        """Return configurations at which to evaluate."""
        arrays = {name: np.asarray(values) for name, values in varying.items()}
        if self._legal is None or self._legal.keys() != arrays.keys():
            self._legal = None
            columns = np.broadcast_arrays(*arrays.values())
            rows = zip(*(values.flat[:_TRIED].tolist() for values in columns), strict=True)
            for row in rows if arrays else [()]:
                values = {name: _plain(x) for name, x in zip(arrays, row, strict=True)}
                if self.configuration(values) is not None:
                    self._legal = values
                    break
        return View(self, arrays)


_TRIED = 1000
"""Points among which a legal one is looked for."""


class _Group(tuple[Any, ...]):
    """A mapping as pairs of key and value."""


def frozen(value: Any) -> Any:
    """Return a parameter's value in a form that can be a key."""
    if isinstance(value, _Group):
        return value
    if isinstance(value, Mapping):
        return _Group((key, frozen(each)) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(frozen, value))
    return value


def _thawed(value: Any) -> Any:
    """Undo `frozen`."""
    if isinstance(value, _Group):
        return {key: _thawed(each) for key, each in value}
    return [_thawed(each) for each in value] if isinstance(value, tuple) else value


def _plain(x: float) -> float | int:
    return int(x) if float(x).is_integer() else x


@dataclass(frozen=True)
class View:
    """Configurations of a space, numbered; see `Space`."""

    space: Space
    varying: Mapping[str, NDArray[Any]]

    def __getitem__(self, name: str) -> Number:
        """Return the values of a parameter, or the one that all have."""
        if name in self.varying:
            return self.varying[name]
        value = self.space.fixed.get(name, defaults(self.space.family).get(name))
        if value == AUTO:
            return self.figure((), _getter(name))
        return value

    @property
    def legal(self) -> bool:
        """Whether any configuration is known to be legal."""
        return self.space._legal is not None

    @cached_property
    def config(self) -> Any:
        """A legal configuration with the parameters that do not vary."""
        return self.space.configuration({})

    def figures(
        self, names: Sequence[str], count: int, of: Callable[[Any], Sequence[float]]
    ) -> Sequence[Number]:
        """Return figures that depend on a few parameters.

        Parameters
        ----------
        names : sequence of str
            The parameters.
        count : int
            How many figures there are.
        of : callable
            Takes a configuration with these parameters and the fixed ones, and returns the figures.

        Returns
        -------
        sequence of array or float
            NaN where the configuration is not legal.
        """
        if AUTO in map(self.space.fixed.get, PIPELINES):
            names = (*names, *PIPELINE_FOLLOWS)
        names = tuple(dict.fromkeys(name for name in names if name in self.varying))
        key = (of, names)
        table = self.space._tables.get(key)
        if not names:
            if table is None:
                values = np.array([self._evaluated(of, count, (), ())])
                table = self.space._tables[key] = _Table((), values, np.ones(1, bool))
            return [float(value) for value in table.values[0]]
        columns = [self.varying[name] for name in names]
        sizes = tuple(int(column.max(initial=0)) + 1 for column in columns)
        whole = all(c.dtype.kind in "iu" and c.min(initial=0) >= 0 for c in columns)
        if not whole or count * np.prod([float(size) for size in sizes]) > _DENSE:
            columns = list(np.broadcast_arrays(*columns))
            points = np.stack([column.ravel() for column in columns], 1)
            rows, inverse = np.unique(points, axis=0, return_inverse=True)
            figures = np.array([self._evaluated(of, count, names, row) for row in rows.tolist()])
            return list(figures[inverse.ravel()].T.reshape(count, *columns[0].shape))
        if table is None or any(a > b for a, b in zip(sizes, table.sizes, strict=True)):
            if table is not None:
                sizes = tuple(map(max, sizes, table.sizes))
            cells = int(np.prod(sizes))
            # What was known is computed again, from cached configurations: sizes settle at once.
            table = _Table(sizes, np.full((count, cells), np.nan), np.zeros(cells, bool))
            self.space._tables[key] = table
        indices = columns[0].astype(np.int64)
        for column, size in zip(columns[1:], table.sizes[1:], strict=True):
            indices = indices * size + column
        missing = ~table.known[indices]
        if missing.any():
            for cell in np.unique(indices[missing]).tolist():
                row = np.unravel_index(cell, table.sizes)
                table.values[:, cell] = self._evaluated(of, count, names, [int(i) for i in row])
                table.known[cell] = True
        return [values[indices] for values in table.values]

    def _evaluated(
        self, of: Callable[[Any], Sequence[float]], count: int, names: Sequence[str], row: Any
    ) -> Sequence[float]:
        values = {name: _plain(x) for name, x in zip(names, row, strict=True)}
        config = self.space.configuration(values)
        return [np.nan] * count if config is None else [float(x) for x in of(config)]

    def figure(self, names: Sequence[str], of: Callable[[Any], float]) -> Number:
        """Return one figure; see `figures`."""
        return self.figures(names, 1, _tuple_of(of))[0]

    def counts(
        self, names: Sequence[str], kinds: Sequence[str], of: Callable[[Any], Counts]
    ) -> dict[str, Number]:
        """Return counts of the kinds; see `figures`."""
        counts = self.figures(names, len(kinds), _ordered(of, tuple(kinds)))
        return dict(zip(kinds, counts, strict=True))


@lru_cache(maxsize=64)
def _getter(name: str) -> Callable[[Any], float]:
    return lambda config: float(attrgetter(name)(config))


@lru_cache(maxsize=1024)
def _tuple_of(of: Callable[[Any], float]) -> Callable[[Any], Sequence[float]]:
    return lambda config: (of(config),)


@lru_cache(maxsize=1024)
def _ordered(
    of: Callable[[Any], Counts], kinds: tuple[str, ...]
) -> Callable[[Any], Sequence[float]]:
    def ordered(config: Any) -> Sequence[float]:
        counts = of(config)
        if unknown := set(counts) - set(kinds):
            raise ValueError(f"kinds that are not listed: {', '.join(sorted(unknown))}")
        return [counts.get(kind, 0.0) for kind in kinds]

    return ordered
