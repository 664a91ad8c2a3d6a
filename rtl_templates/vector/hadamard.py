# SPDX-License-Identifier: Apache-2.0
"""Blocks of elements times a Hadamard matrix, by stages of sums and differences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Module, Mux, Value
from amaranth.lib.wiring import In, Out

from rtl_templates.arithmetic.float.adder import FloatAdder
from rtl_templates.arithmetic.float.real import REAL
from rtl_templates.arithmetic.pipeline import named
from rtl_templates.hdl.hierarchy import Block, place

from .lanes import NOTHING

if TYPE_CHECKING:
    from hwgen.families.vector.params import VectorConfig


class HadamardBlock(Block):
    """A block of numbers times Sylvester's Hadamard matrix, whose elements are 1 and -1.

    Each stage adds and subtracts elements at twice the distance of the one before, neighbours
    first.  Without `rotate` each adder adds zero to its own element.

    Parameters
    ----------
    config : VectorConfig

    Members
    -------
    run : In(1)
        Everything stands still while it is low.
    rotate : In(1)
        Whether the rotation applies; constant while there are elements.
    i, o : In, Out
        The numbers of the block, `VectorConfig.hadamard_latency` cycles apart.
    """

    def __init__(self, config: VectorConfig) -> None:
        self.size, self.stages = config.hadamard_size, config.pipeline.adder
        members = {"run": In(1), "rotate": In(1), "i": In(32 * self.size), "o": Out(32 * self.size)}
        super().__init__(f"hadamard_{self.size}x{self.stages}", members)

    def build(self, m: Module) -> None:
        adder = FloatAdder(REAL, self.stages, enabled=True)
        values: list[Value] = [self.i.word_select(lane, 32) for lane in range(self.size)]
        distance = 1
        while distance < self.size:
            totals: list[Value] = []
            for lane, value in enumerate(values):
                other = values[lane ^ distance]
                mine, added = value, Mux(self.rotate, other, NOTHING)
                if lane & distance:  # the difference: the lower element minus this one
                    mine = named(
                        m, f"minus_{distance}_{lane}", Cat(value[:31], value[31] ^ self.rotate)
                    )
                label = f"add_{distance}_{lane}"
                totals.append(place(m, label, adder, run=self.run, a=mine, b=added).o)
            values, distance = totals, 2 * distance
        m.d.comb += self.o.eq(Cat(*values))
