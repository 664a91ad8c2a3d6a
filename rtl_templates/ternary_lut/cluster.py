# SPDX-License-Identifier: Apache-2.0
"""The datapath of a core: tables, and the columns that read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.wiring import In, Member

from rtl_templates.hierarchy import Block, place

from .column import Column, column_members
from .fetch import table_width
from .float_column import FloatColumn
from .float_table import FloatTable
from .table import Table

if TYPE_CHECKING:
    from hwgen.families.ternary_lut import TernaryLutConfig

_EACH = ("keys", "stored", "next", "total")
"""Ports of a column that a cluster has once for each of them."""


class Cluster(Block):
    """Tables and columns; everything behind the tables is placed once for each column.

    Members
    -------
    step : In(1)
        Advance the tables, ``pipeline.table`` registers.
    x : In
        A beat of activations.
    run, load, starts, again : In(1)
        As of `Column`.
    keys : In
        The keys of all columns, those of a column together.
    stored, next, total : In, Out, Out
        As of `Column`, for all columns.
    """

    def __init__(self, config: TernaryLutConfig) -> None:
        ports = config.array.fetch_ports
        members = {
            name: Member(member.flow, ports * member.shape if name in _EACH else member.shape)
            for name, member in column_members(config).items()
            if name != "tables"
        }
        x = In(config.terms * config.activation.width)
        super().__init__("cluster", {"step": In(1), "x": x, **members})
        self.config = config

    def build(self, m: Module) -> None:
        config = self.config
        group = config.array.group_size * config.activation.width
        tables, table = [], FloatTable(config) if config.is_float else Table(config)
        for i in range(config.array.tables):
            entries = Signal(table_width(config), name=f"entries_{i}")
            place(
                m, f"table_{i}", table,
                step=self.step, x=self.x.word_select(i, group), entries=entries,
            )  # fmt: skip
            tables.append(entries)

        column = FloatColumn(config) if config.is_float else Column(config)
        for p in range(config.array.fetch_ports):
            ports = {"tables": Cat(*tables)}
            for name in column.members:
                if name in _EACH:
                    ports[name] = getattr(self, name).word_select(p, column.width(name))
                elif name != "tables":
                    ports[name] = getattr(self, name)
            place(m, f"column_{p}", column, **ports)
