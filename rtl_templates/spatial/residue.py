# SPDX-License-Identifier: Apache-2.0
"""Residues beside the arrays of the spatial families: one column, and the same schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Module, Mux, Signal, Value

from hwgen.core.residues import RESIDUE, RESIDUE_BITS
from hwgen.formats import TERNARY
from rtl_templates.arithmetic.integer.residue import add_residues, ternary_words
from rtl_templates.hdl.hierarchy import place
from rtl_templates.hdl.streams import AnyStream, Stream
from rtl_templates.residue.check import ResidueLanes
from rtl_templates.residue.delays import delay_rows

from .core import Array, SpatialCore, SpatialRow
from .pe import PE

if TYPE_CHECKING:
    from amaranth.lib import wiring

    from hwgen.core.params.spatial import SpatialConfig


def residue_checker(config: SpatialConfig) -> tuple[wiring.Component, Mapping[str, ResidueLanes]]:
    """Return the core of residues of an array, and what its operands are."""
    act, wgt, _ = config.core_ports
    words = ternary_words if config.weight == TERNARY else None
    lanes = {
        act.name: ResidueLanes.single(act),
        wgt.name: ResidueLanes.summed(wgt, config.depth, words),
    }
    return ResidueCore(config), lanes


def parameters(config: SpatialConfig) -> Any:
    """Return the parameters of the core of residues: those of one column, with its latencies."""
    act, wgt, out = (
        replace(port, format=RESIDUE, lane_width=RESIDUE_BITS) for port in config.core_ports
    )
    return SimpleNamespace(
        core_ports=(act, replace(wgt, lanes=config.depth), replace(out, lanes=1)),
        rows=config.rows,
        depth=config.depth,
        cols=1,
        activation=RESIDUE,
        weight=RESIDUE,
        result=RESIDUE,
        accumulator_bits=RESIDUE_BITS,
        drain_lanes=(1, RESIDUE_BITS),
        digits=None,
        lead=config.lead,
        pipeline=config.pipeline,
        output_registers=config.output_registers,
    )


class ResiduePE(PE):
    """A PE that adds products of residues."""

    def accumulated(self, m: Module, factors: list[Signal]) -> Value:
        """Return the accumulator, given the residues of the weights of a beat."""
        registers, terms = self.config.pipeline.pe, []
        for term, w in enumerate(factors):
            x = self.x.word_select(term, RESIDUE_BITS)
            product = Signal(2 * RESIDUE_BITS, name=f"product_{term}", reset_less=True)
            domain = m.d.sync if registers > 1 else m.d.comb
            domain += product.eq(x * w)
            terms += [product[:RESIDUE_BITS], product[RESIDUE_BITS:]]
        addend = Signal(RESIDUE_BITS, reset_less=True)
        total = Signal(RESIDUE_BITS, name="total_reg", reset_less=True)
        domain = m.d.sync if registers else m.d.comb
        domain += addend.eq(add_residues(m, "terms", terms))
        m.d.sync += total.eq(add_residues(m, "added", [Mux(self.clear, 0, total), addend]))
        return total


class ResidueRow(SpatialRow):
    """A row of one PE."""

    def pe(self) -> ResiduePE:
        """Return the processing element."""
        return ResiduePE(self.config)


class ResidueArray(Array):
    """The rows of one PE each."""

    def row(self) -> ResidueRow:
        """Return a row."""
        return ResidueRow(self.config)


class ResidueCore(SpatialCore):
    """The core of residues of a spatial array."""

    def __init__(self, config: SpatialConfig) -> None:
        super().__init__(parameters(config))

    def array(
        self, m: Module, fire: Value, starting: Value, x: Value, w: Value, leaving: dict[str, Value]
    ) -> None:
        """Place the array."""
        array = ResidueArray(self.config)
        place(m, "array", array, on=fire, clear=starting & fire, x=x, w=w, **leaving)

    def results(
        self, m: Module, fire: Value, starting: Value, drain: Value, rows: Stream
    ) -> AnyStream:
        """Return rows after as many registers as complete the results that are checked."""
        return delay_rows(m, rows, self.config.output_registers - 1)
