# SPDX-License-Identifier: Apache-2.0
"""Residues beside a systolic array: an array of one column, and a core with the same schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Module, Mux, Signal, Value

from hwgen.core.residues import RESIDUE, RESIDUE_BITS
from rtl_templates.arithmetic.integer.accumulators import Accumulators
from rtl_templates.arithmetic.integer.residue import add_residues, multiply_residues
from rtl_templates.hdl.hierarchy import place
from rtl_templates.hdl.streams import AnyStream, Stream, fields
from rtl_templates.residue.check import ResidueLanes
from rtl_templates.residue.delays import delay_rows
from rtl_templates.stream.stream import DelayLines

from .array import OutputStationaryArray, StationaryArray
from .core import OutputStationaryCore, StationaryCore
from .pe import OutputStationaryPE, StationaryPE, pipelined_product

if TYPE_CHECKING:
    from amaranth.lib import wiring

    from hwgen.families.systolic.params import SystolicConfig


def residue_checker(config: SystolicConfig) -> tuple[wiring.Component, Mapping[str, ResidueLanes]]:
    """Return the core of residues of a systolic array, and what its operands are."""
    lanes = {
        config.row_port.name: ResidueLanes.single(config.row_port),
        config.column_port.name: ResidueLanes.summed(config.column_port),
    }
    core = ResidueDrain if config.output_stationary else ResidueAccumulation
    return core(config), lanes


def parameters(config: SystolicConfig) -> Any:
    """Return the parameters of a core of residues: those of one column, with its latencies."""
    row = replace(config.row_port, format=RESIDUE, lane_width=RESIDUE_BITS)
    column = replace(config.column_port, format=RESIDUE, lane_width=RESIDUE_BITS, lanes=1)
    out = replace(config.output_port, format=RESIDUE, lane_width=RESIDUE_BITS, lanes=1)
    inputs = sorted((row, column), key=lambda port: port.name)
    return SimpleNamespace(
        array=config.array.model_copy(update={"cols": 1}),
        pipeline=config.pipeline,
        row_port=row,
        column_port=column,
        core_ports=(*inputs, out),
        row_operand=RESIDUE,
        column_operand=RESIDUE,
        product=RESIDUE,
        result=RESIDUE,
        partial_sum=lambda terms: RESIDUE,
        psum_width=lambda terms: RESIDUE_BITS,
        accumulator_bits=RESIDUE_BITS,
        digits=None,
        clamp=None,
        stages=config.stages,
        column_groups=1,
        geometry=config.geometry,
        psum_latency=config.psum_latency,
        final_addition=config.final_addition,
    )


def array_parameters(config: Any) -> Any:
    """Return the parameters of the array: its geometry is of one column."""
    return SimpleNamespace(**{**vars(config), "geometry": replace(config.geometry, cols=1)})


class ResidueSum(OutputStationaryPE):
    """A PE that adds products of residues."""

    def accumulated(self, m: Module, y: Signal) -> Value:
        """Return the accumulator."""
        depth = self.config.pipeline.pe
        product = pipelined_product(m, self.x, y, depth, multiply=partial(multiply_residues, m))
        total = Signal(RESIDUE_BITS, reset_less=True)
        m.d.sync += total.eq(add_residues(m, "added", [Mux(self.clear, 0, total), product]))
        return total


class ResiduePartialSum(StationaryPE):
    """A PE that keeps a residue while residues of partial sums move down."""

    def build(self, m: Module) -> None:
        active, total = self.element(m)
        depth = self.config.pipeline.pe
        product = pipelined_product(
            m, self.x, active, depth, self.run, partial(multiply_residues, m)
        )
        added = add_residues(m, "added", [self.psum, product])
        with m.If(self.run):
            m.d.sync += total.eq(added)
        m.d.comb += self.psum_out.eq(total)


class ResidueDrainArray(OutputStationaryArray):
    """Array of one column of `ResidueSum`."""

    def pe(self) -> ResidueSum:
        """Return the processing element."""
        return ResidueSum(self.config)


class ResidueStationaryArray(StationaryArray):
    """Array of one column of `ResiduePartialSum`."""

    def pe_of_terms(self, terms: int) -> ResiduePartialSum:
        """Return the PE, which is the same for all rows."""
        return ResiduePartialSum(self.config, RESIDUE)


class ResidueAccumulators(Accumulators):
    """Accumulators of residues."""

    def added(self, m: Module, column: int, old: Value, psum: Value) -> Value:
        """Return the next total."""
        return add_residues(m, "added", [old, psum])


class ResidueDrain(OutputStationaryCore):
    """The core of residues of an array whose accumulators stay in the PEs."""

    def __init__(self, config: SystolicConfig) -> None:
        super().__init__(parameters(config))

    def array(self, m: Module, fire: Value, starting: Value, drain: Value, **ports: Value) -> None:
        """Place the array; its results are as late as those of the last group of columns."""
        array = ResidueDrainArray(array_parameters(self.config))
        column = Signal(RESIDUE_BITS, name="column")
        place(
            m, "array", array, clear=(starting & fire) | drain, drain=drain,
            **{**ports, "x": Mux(fire, ports["x"], 0), "out": column},
        )  # fmt: skip
        groups = DelayLines(
            "groups", [(RESIDUE_BITS, self.config.geometry.groups - 1)], enabled=False
        )
        place(m, "groups", groups, i=column, o=ports["out"])

    def final_sums(self, m: Module, rows: AnyStream) -> AnyStream:
        """Return residues as late as the results after their carry-propagate addition."""
        late = delay_rows(m, rows, self.config.final_addition.registers)
        return Stream(
            fields(data=late.payload.data, last=late.payload.last), late.valid, late.ready
        )


class ResidueAccumulation(StationaryCore):
    """The core of residues of an array whose partial sums move."""

    def __init__(self, config: SystolicConfig) -> None:
        super().__init__(parameters(config))

    def partial_sums(
        self, m: Module, run: Value, swap: Value, load: Value, fire: Value, x: Value, y: Value
    ) -> Value:
        """Place the array; its sums are as late as those of the last group of columns."""
        array = ResidueStationaryArray(array_parameters(self.config))
        x = Mux(fire, x, 0)
        sums = place(m, "array", array, run=run, x=x, swap=swap, load=load, y=y).out
        groups = DelayLines(
            "groups", [(RESIDUE_BITS, self.config.geometry.groups - 1)], enabled=True
        )
        return place(m, "groups", groups, run=run, i=sums).o

    def accumulators(self) -> Accumulators:
        """Return the accumulators of partial sums."""
        array = self.config.array
        return ResidueAccumulators(
            self.config, RESIDUE, 1, array.accumulator_depth, single_cycle_passes=array.rows == 1
        )
