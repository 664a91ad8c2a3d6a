# SPDX-License-Identifier: Apache-2.0
"""Delays of cells, from the tables of their Liberty file.

Times are in ns, loads in fF.  Of arcs that differ by the state of other inputs the slowest counts.
Cells that compute the same with the same pins are a family: they differ in size.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flows.synthesis.liberty import (
    Library,
    cell_texts,
    groups,
    insides,
    library_inside,
    load_unit,
)

Floats = NDArray[np.float64]


class Edge(NamedTuple):
    """A change of an input pin that changes an output pin."""

    source: str
    output: str
    source_rises: bool
    output_rises: bool


@dataclass(frozen=True)
class Table:
    """Delay and slew of an output over the slew of the input and the load.

    Parameters
    ----------
    slews, loads : array
    delays, transitions : array
        Of shape ``(slews, loads)``.
    """

    slews: Floats
    loads: Floats
    delays: Floats
    transitions: Floats

    def at(self, slew: float, load: float) -> tuple[float, float]:
        """Return delay and slew."""
        delay, transition = (
            np.interp(slew, self.slews, [_line(load, self.loads, row) for row in values])
            for values in (self.delays, self.transitions)
        )
        return float(delay), float(transition)


@dataclass(frozen=True)
class TimedCell:
    """A cell as a timer and a sizer need it.

    Parameters
    ----------
    name : str
    area : float
    inputs : mapping
        Load of each input.
    outputs : mapping
        Function of each output.
    limits : mapping
        Greatest load of each output.
    edges : mapping
    setups : mapping
        Of each input and whether it rises: slews, and the setup times with them.
    """

    name: str
    area: float
    inputs: Mapping[str, float]
    outputs: Mapping[str, str]
    limits: Mapping[str, float] = field(default_factory=dict)
    edges: Mapping[Edge, Table] = field(default_factory=dict)
    setups: Mapping[tuple[str, bool], tuple[Floats, Floats]] = field(default_factory=dict)
    state: str = ""

    @property
    def signature(self) -> tuple[object, ...]:
        """Common properties of the cells of a family."""
        return (
            tuple(sorted(self.inputs)), tuple(sorted(self.outputs.items())), self.state,
            tuple(sorted(self.edges)), tuple(sorted(self.setups)),
        )  # fmt: skip

    @property
    def buffer_pins(self) -> tuple[str, str] | None:
        """Input and output if the cell is a buffer."""
        if self.state or len(self.inputs) != 1 or len(self.outputs) != 1:
            return None
        ((source, _),) = self.inputs.items()
        ((output, function),) = self.outputs.items()
        return (source, output) if function == source else None


_AREA = re.compile(r"\barea\s*:\s*\"?([\d.eE+-]+)")
_DIRECTION = re.compile(r'\bdirection\s*:\s*"?(\w+)')
_LOAD = re.compile(r'(?<!\w)capacitance\s*:\s*"?([\d.eE+-]+)')
_LIMIT = re.compile(r'\bmax_capacitance\s*:\s*"?([\d.eE+-]+)')
_FUNCTION = re.compile(r'\bfunction\s*:\s*"([^"]*)"')
_RELATED = re.compile(r'\brelated_pin\s*:\s*"?([\w ]+)')
_SENSE = re.compile(r'\btiming_sense\s*:\s*"?(\w+)')
_TYPE = re.compile(r'\btiming_type\s*:\s*"?(\w+)')
_TIME = re.compile(r'\btime_unit\s*:\s*"?\s*([\d.]*)\s*([pn])s')
_INDEX = re.compile(r'\bindex_([12])\s*\(\s*"([^"]*)"')
_VALUES = re.compile(r"\bvalues\s*\(([^)]*)\)")
_ROW = re.compile(r'"([^"]*)"')
_FIRST = re.compile(r'\bvariable_1\s*:\s*"?(\w+)')
_STATE = ("ff", "latch", "ff_bank", "latch_bank", "statetable")
_CAUSES: Mapping[str, tuple[tuple[bool, bool], ...]] = {
    "positive_unate": ((True, True), (False, False)),
    "negative_unate": ((True, False), (False, True)),
    "non_unate": ((True, True), (False, False), (True, False), (False, True)),
    "rising_edge": ((True, True), (True, False)),
    "falling_edge": ((False, True), (False, False)),
}
"""Changes of input and output by the sense of an arc, or by its type."""


@dataclass(frozen=True)
class _Reader:
    time: float
    load: float
    template_texts: tuple[tuple[str, str], ...]

    @cached_property
    def templates(self) -> Mapping[str, str]:
        """The texts of table templates by their names."""
        return dict(self.template_texts)

    def table(self, argument: str, text: str) -> tuple[Floats, Floats, Floats]:
        """Return slews, loads and values of a table; a missing axis has one entry."""
        template = self.templates.get(argument, "")
        axes = dict(_INDEX.findall(template)) | dict(_INDEX.findall(text))
        values = _VALUES.search(text)
        rows = [_numbers(row) for row in _ROW.findall(values[1])] if values else []
        first = [_numbers(axes[key]) if key in axes else [0.0] for key in ("1", "2")]
        array = np.array([value for row in rows for value in row]).reshape(
            len(first[0]) if len(rows) * len(rows[0]) > 1 else 1, -1
        )
        variable = _FIRST.search(template)
        if variable and variable[1] == "total_output_net_capacitance":
            first, array = first[::-1], array.T
        slews, loads = (
            np.array(axis[:size]) for axis, size in zip(first, array.shape, strict=True)
        )
        return slews * self.time, loads * self.load, array * self.time

    def pin(self, text: str) -> tuple[dict[Edge, Table], dict[bool, tuple[Floats, Floats]]]:
        """Return the arcs to a pin, without its name, and its setup times."""
        edges: dict[Edge, Table] = {}
        setups: dict[bool, tuple[Floats, Floats]] = {}
        for _, arc in insides(text, ["timing"]):
            timing_type = match[1] if (match := _TYPE.search(arc)) else "combinational"
            sense = match[1] if (match := _SENSE.search(arc)) else "non_unate"
            related = match[1].split() if (match := _RELATED.search(arc)) else []
            tables = {
                group.keyword: (group.argument, arc[group.inside : group.end - 1])
                for group in groups(arc, "the library")
            }
            if timing_type in ("setup_rising", "setup_falling"):
                for rises, keyword in ((True, "rise_constraint"), (False, "fall_constraint")):
                    if keyword in tables:
                        slews, clocks, values = self.table(*tables[keyword])
                        # Constraints: the first axis is the data's slew, or the clock's.
                        template = self.templates.get(tables[keyword][0], "")
                        first = _FIRST.search(template)
                        if first and first[1] == "related_pin_transition":
                            slews, values = clocks / self.load * self.time, values.T
                        setups[rises] = (slews, values[:, 0])
                continue
            changes = _CAUSES.get(timing_type) or (
                _CAUSES[sense]
                if timing_type.startswith("combinational") and sense in _CAUSES
                else ()
            )
            for source in related:
                for source_rises, rises in changes:
                    names = ("cell_rise", "rise_transition") if rises else (
                        "cell_fall", "fall_transition")  # fmt: skip
                    if any(name not in tables for name in names):
                        continue
                    slews, loads, delays = self.table(*tables[names[0]])
                    transitions = self.table(*tables[names[1]])[2]
                    edge = Edge(source, "", source_rises, rises)
                    table = Table(slews, loads, delays, transitions)
                    edges[edge] = _slower(edges[edge], table) if edge in edges else table
        return edges, setups


def timed_cells(library: Library, names: Iterable[str] | None = None) -> dict[str, TimedCell]:
    """Return the timing of cells of a library.

    Parameters
    ----------
    library : Library
    names : iterable of str, optional
        Cells that are needed; the others of their families are returned too.  Default all.
    """
    inside = library_inside(library)
    time = _TIME.search(inside)
    scale = float(time[1] or 1) * {"n": 1.0, "p": 1e-3}[time[2]] if time else 1.0
    templates = tuple(insides(inside, ["lu_table_template"]))
    reader = _Reader(scale, load_unit(library.text, "the Liberty file"), templates)
    texts = dict(cell_texts(library))
    wanted = None if names is None else {_outline(texts[name]) for name in names if name in texts}
    return {
        name: _cell(name, text, reader)
        for name, text in texts.items()
        if wanted is None or _outline(text) in wanted
    }


def families(cells: Mapping[str, TimedCell]) -> dict[str, list[str]]:
    """Return of each cell the family it belongs to, smallest area first."""
    members: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for cell in sorted(cells.values(), key=lambda cell: (cell.area, cell.name)):
        members[cell.signature].append(cell.name)
    return {name: group for group in members.values() for name in group}


def _outline(text: str) -> tuple[object, ...]:
    """Return the common properties of the cells of a family."""
    return (tuple(sorted("".join(function.split()) for function in _FUNCTION.findall(text))),
            any(f"{state} (" in text or f"{state}(" in text for state in _STATE))  # fmt: skip


@lru_cache(maxsize=1024)
def _cell(name: str, text: str, reader: _Reader) -> TimedCell:
    area = _AREA.search(text)
    inputs, outputs, limits = {}, {}, {}
    edges: dict[Edge, Table] = {}
    setups: dict[tuple[str, bool], tuple[Floats, Floats]] = {}
    for pin, inside in insides(text, ["pin"]):
        direction = _DIRECTION.search(inside)
        arcs, checks = reader.pin(inside)
        if direction and direction[1] == "output":
            function = _FUNCTION.search(inside)
            outputs[pin] = _plain(function[1]) if function else ""
            limit = _LIMIT.search(inside)
            limits[pin] = float(limit[1]) * reader.load if limit else float("inf")
            edges |= {edge._replace(output=pin): table for edge, table in arcs.items()}
        elif direction and direction[1] == "input":
            load = _LOAD.search(inside)
            inputs[pin] = float(load[1]) * reader.load if load else 0.0
            setups |= {(pin, rises): check for rises, check in checks.items()}
    # From an output to another, as in full adders of asap7, is a part of paths from the inputs.
    edges = {edge: table for edge, table in edges.items() if edge.source in inputs}
    state = ";".join(
        f"{argument}{{{''.join(inside.split())}}}" for argument, inside in insides(text, _STATE)
    )
    return TimedCell(
        name, float(area[1]) if area else 0.0, inputs, outputs, limits, edges, setups, state
    )


def _plain(function: str) -> str:
    text = "".join(function.split())
    while text.startswith("(") and text.endswith(")") and ")" not in text[1:-1]:
        text = text[1:-1]
    return text


def _slower(one: Table, other: Table) -> Table:
    same = one.delays.shape == other.delays.shape and (
        np.allclose(one.slews, other.slews) and np.allclose(one.loads, other.loads)
    )
    if not same:
        return one if one.delays.mean() >= other.delays.mean() else other
    return Table(
        one.slews, one.loads, np.maximum(one.delays, other.delays),
        np.maximum(one.transitions, other.transitions),
    )  # fmt: skip


def _line(load: float, loads: Floats, values: Floats) -> float:
    """Interpolate, and extrapolate above the last load."""
    if len(loads) > 1 and load > loads[-1]:
        slope = (values[-1] - values[-2]) / (loads[-1] - loads[-2])
        return float(values[-1] + slope * (load - loads[-1]))
    return float(np.interp(load, loads, values))


def _numbers(text: str) -> Sequence[float]:
    return [float(value) for value in text.replace(",", " ").split()]
