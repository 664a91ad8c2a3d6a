# SPDX-License-Identifier: Apache-2.0
"""The datapath of a core: tables, and the columns that read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib.wiring import In, Member

from rtl_templates.hierarchy import Block, place

from .column import Column, column_members
from .correction import Correction
from .float_column import FloatColumn
from .float_table import FloatTable
from .table import Table

if TYPE_CHECKING:
    from hwgen.families.ternary_lut import TernaryLutConfig

_EACH = ("keys", "stored", "next", "total")
"""Ports of a column that a cluster has once for each of them."""


class Cluster(Block):
    """Tables and columns; everything behind the tables is placed once for each column.

    A core has one, or several that are alike, each with a part of the columns.

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
        The keys of all columns, those of a column together.
    stored, next, total : In, Out, Out
        As of `Column`, for all columns.
    """

    def __init__(self, config: TernaryLutConfig) -> None:
        self.ports = config.array.fetch_ports // config.array.clusters
        members = {
            name: Member(member.flow, self.ports * member.shape if name in _EACH else member.shape)
            for name, member in column_members(config).items()
            if name not in ("tables", "correction")
        }
        x = In(config.terms * config.activation.width)
        last = {"last": In(1)} if config.planes > 1 else {}
        super().__init__("cluster", {"step": In(1), "x": x, **last, **members})
        self.config = config
        self.kept = config.array.clusters > 1

    def build(self, m: Module) -> None:
        config = self.config
        group = config.array.group_size * config.activation.width
        tables, table = [], FloatTable(config) if config.is_float else Table(config)
        for i in range(config.array.tables):
            entries = Signal(config.table_width, name=f"entries_{i}")
            place(
                m,
                f"table_{i}",
                table,
                step=self.step,
                x=self.x.word_select(i, group),
                entries=entries,
            )
            tables.append(entries)

        column = FloatColumn(config) if config.is_float else Column(config)
        shared: dict[str, Value] = {"tables": Cat(*tables)}
        if config.planes > 1:
            shared["correction"] = correction = Signal(
                column.width("correction"), name="correction"
            )
            place(
                m,
                "correction",
                Correction(config),
                run=self.run,
                sums=Cat(table[: config.entry.width] for table in tables),
                last=self.last,
                correction=correction,
            )
        for p in range(self.ports):
            ports = dict(shared)
            for name in column.members:
                if name in _EACH:
                    ports[name] = getattr(self, name).word_select(p, column.width(name))
                elif name not in shared:
                    ports[name] = getattr(self, name)
            place(m, f"column_{p}", column, **ports)
