# SPDX-License-Identifier: Apache-2.0
"""The datapath of a core: tables, and the columns that read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Module, Value
from amaranth.lib.wiring import In, Member

from hwgen.formats import FloatFormat, Format, IntegerFormat
from rtl_templates.arithmetic.pipeline import Pipeline
from rtl_templates.arithmetic.registry import for_format
from rtl_templates.hdl.hierarchy import Block, place

from .aligned_column import AlignedColumn
from .alignment import Alignment
from .column import Column, column_members
from .correction import Correction
from .float_column import FloatColumn
from .float_table import FloatTable
from .table import Table

if TYPE_CHECKING:
    from hwgen.families.ternary_lut.params import TernaryLutConfig

_EACH = ("keys", "stored", "next", "total")
"""Ports of a column that a cluster has once for each of them."""


class Cluster(Block):
    """Tables and the columns that read them.

    A core has one cluster, or several equal ones, each with a part of the columns.

    Members
    -------
    step : In(1)
        Advance the tables, ``pipeline.table`` registers.
    x : In
        A beat of activations.
    run, load, starts, again, first : In(1)
        As of `Column`.
    last : In(1)
        As of `Correction`.
    keys : In
        The keys of all columns, column by column.
    stored, next, total : In, Out, Out
        As of `Column`, for all columns.
    """

    def __init__(self, config: TernaryLutConfig) -> None:
        self.column_count = config.array.fetch_ports // config.array.clusters
        members = {
            name: Member(
                member.flow, self.column_count * member.shape if name in _EACH else member.shape
            )
            for name, member in column_members(config).items()
            if name not in ("tables", "correction")
        }
        x = In(config.terms * config.activation.width)
        last = {"last": In(1)} if config.planes > 1 else {}
        super().__init__("cluster", {"step": In(1), "x": x, **last, **members})
        self.config = config
        self.keep_hierarchy = config.array.clusters > 1

    def build(self, m: Module) -> None:
        config = self.config
        x: Value = self.x
        shared: dict[str, Value] = {}
        if config.aligned:
            x, shared = self._aligned(m)
        group = len(x) // config.array.tables
        block = _table(config)
        tables = [
            place(
                m, f"table_{i}", block, step=self.step, x=x.word_select(i, group), role="table"
            ).entries
            for i in range(config.array.tables)
        ]

        column = _column(config)
        shared["tables"] = Cat(*tables)
        if config.planes > 1:
            sums = Cat(table[: config.entry.width] for table in tables)
            shared["correction"] = place(
                m, "plane_correction", Correction(config), run=self.run, sums=sums, last=self.last
            ).correction
        for p in range(self.column_count):
            ports = dict(shared)
            for name in column.members:
                if name in _EACH:
                    ports[name] = getattr(self, name).word_select(p, column.width(name))
                elif name not in shared:
                    ports[name] = getattr(self, name)
            place(m, f"column_{p}", column, **ports, role="column")

    def _aligned(self, m: Module) -> tuple[Value, dict[str, Value]]:
        """Return the aligned activations, and their exponents and flags for the columns."""
        config = self.config
        block = Alignment(config)
        placed = place(m, "alignment", block, step=self.step, x=self.x, role="table")
        x = placed.aligned
        names = [name for name in block.members if name not in ("step", "x", "aligned")]
        outputs = {name: getattr(placed, name) for name in names}
        stages = [f"column_{stage}" for stage in range(config.sum_registers)]
        pipe = Pipeline(m, stages, self.run)
        for stage in stages:
            outputs = dict(zip(outputs, pipe.cut(stage, **outputs), strict=True))
        return x, dict(outputs)


_TABLES: Mapping[type[Format], Callable[[TernaryLutConfig], Block]] = {
    IntegerFormat: Table,
    FloatFormat: FloatTable,
}
_COLUMNS: Mapping[type[Format], Callable[[TernaryLutConfig], Block]] = {
    IntegerFormat: Column,
    FloatFormat: FloatColumn,
}


def _table(config: TernaryLutConfig) -> Block:
    core = config.integer_core if config.aligned else config
    return for_format(_TABLES, core.activation)(core)


def _column(config: TernaryLutConfig) -> Block:
    if config.aligned:
        return AlignedColumn(config)
    return for_format(_COLUMNS, config.activation)(config)
