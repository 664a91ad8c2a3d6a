# SPDX-License-Identifier: Apache-2.0
"""Pieces of the C of a network on arrays: places, tables, and functions for some types."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from flows.build.drivers.c_templates import sections, wrapped_list
from flows.build.drivers.host_tables import C_TYPES

if TYPE_CHECKING:
    from hwgen.models.compile.network_compilation import NetworkCompilation


class NetworkText:
    """What the statements of a network share: tables and functions, each of which stands once.

    Parameters
    ----------
    compilation : NetworkCompilation

    Attributes
    ----------
    functions, tables : dict of str
        Text with a place for its name, and that name.
    """

    def __init__(self, compilation: NetworkCompilation) -> None:
        self.compilation, self.shapes = compilation, compilation.shapes
        self.prefix = compilation.config.name.upper()
        self.sections = sections("host_arrays.c")
        self.functions: dict[str, str] = {}
        self.tables: dict[str, str] = {}

    def _place(self, name: str) -> str:
        """Return where an array lies."""
        if name in self.compilation.constants:
            return f"constant_at(host, {self.compilation.host.at(name)}u)"
        return f"work_at(host, {self.compilation.work.at(self.compilation.place_of(name))}u)"

    def _read(self, name: str, kind: str = "") -> str:
        """Return a pointer to an array that is read."""
        return f"(const {kind or C_TYPES[self.shapes.type(name)]} *){self._place(name)}"

    def _write(self, name: str, kind: str = "") -> str:
        """Return a pointer to an array that is written."""
        return f"({kind or C_TYPES[self.shapes.type(name)]} *){self._place(name)}"

    def _table(self, text: str, hint: str) -> str:
        """Return the name of a table; `text` has ``$`` in its place."""
        return self.tables.setdefault(text, f"{hint}_{len(self.tables)}")

    def _function(self, text: str, hint: str) -> str:
        """Return the name of a function; `text` has ``$`` in its place."""
        return self.functions.setdefault(text, f"{hint}_{len(self.functions)}")

    def _instance(self, section: str, **fields: str) -> str:
        """Return the name of a section's function for some types."""
        text = self.sections[section]
        for key, value in fields.items():
            text = text.replace(f"@{key}@", value)
        return self._function(re.sub(rf"\b{section}\b", "$", text), section)

    def _walk(self, shape: Sequence[int], *steps: Sequence[int]) -> str:
        """Return the name of a table for elements in some order, by the steps of each array."""
        lengths, joined = _joined(shape, steps)
        rows = [*joined, *[[0] * len(lengths)] * (3 - len(joined))]
        numbers = ", ".join("{" + ", ".join(map(str, row or [0])) + "}" for row in rows)
        counts = ", ".join(f"{length}u" for length in lengths) or "1u"
        text = f"static const walk $ = {{{len(lengths)}u, {{{counts}}}, {{{numbers}}}}};"
        return self._table(text, "walk")

    def _form(self, name: str) -> tuple[tuple[int, ...], int]:
        """Return the shape of an array, and the bytes of an element."""
        return self.shapes.shape(name), np.dtype(self.shapes.type(name)).itemsize

    def _lines(self, x: str, axes: Sequence[int]) -> list[str]:
        """Return the lines of an array along axes, and the elements of each."""
        shape = self.shapes.shape(x)
        strides = strides_of(shape)
        inner = sorted(axis % len(shape) for axis in axes)
        outer = [axis for axis in range(len(shape)) if axis not in inner]
        found = []
        for group in (outer, inner):
            lengths, steps = ([array[axis] for axis in group] for array in (shape, strides))
            found += [f"{math.prod(lengths)}u", f"&{self._walk(lengths, steps)}"]
        return found

    def _checked(self, name: str, *arguments: str) -> list[str]:
        """Return a call whose status may be an error."""
        call = wrapped_list(arguments, " " * 8)
        return [f"    status = {name}({call.strip()});", f"    if (status != {self.prefix}_OK)",
                "        return status;"]  # fmt: skip


def statement(name: str, *arguments: str) -> list[str]:
    """Return a statement that calls a function."""
    return [f"    {name}({wrapped_list(arguments, ' ' * 8).strip()});"]


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """Return how many elements it is from one to the next along each axis."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def steps_of(shape: Sequence[int], whole: Sequence[int]) -> tuple[int, ...]:
    """Return the same of an array that is repeated to another shape."""
    spare = len(whole) - len(shape)
    own = [0 if n == 1 else each for n, each in zip(shape, strides_of(shape), strict=True)]
    return (*[0] * spare, *own)


def _joined(
    shape: Sequence[int], steps: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """Return axes without those of one element, neighbours joined that lie behind one another."""
    lengths: list[int] = []
    found: list[list[int]] = [[] for _ in steps]
    for axis, length in enumerate(shape):
        if length == 1:
            continue
        here = [each[axis] for each in steps]
        if lengths and all(row[-1] == step * length for row, step in zip(found, here, strict=True)):
            lengths[-1] *= length
            for row, step in zip(found, here, strict=True):
                row[-1] = step
            continue
        lengths.append(length)
        for row, step in zip(found, here, strict=True):
            row.append(step)
    return lengths, found
