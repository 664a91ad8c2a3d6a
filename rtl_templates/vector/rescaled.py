# SPDX-License-Identifier: Apache-2.0
"""Numbers of single precision, shifted by whole bits."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib.wiring import In, Out

from rtl_templates.arithmetic.pipeline import named
from rtl_templates.hdl.hierarchy import Block


class Rescaled(Block):
    """A number of single precision over a power of two; what becomes subnormal is 0.

    Parameters
    ----------
    down_bits : int
        Bits of the exponent of the power of two.

    Members
    -------
    i, down, o : In(32), In, Out(32)
        Combinational. A zero may be over anything; NaNs and infinities stay.
    """

    def __init__(self, down_bits: int) -> None:
        super().__init__(
            f"rescaled_{down_bits}", {"i": In(32), "down": In(down_bits), "o": Out(32)}
        )

    def build(self, m: Module) -> None:
        field = self.i[23:31]
        lower = Signal(signed(len(self.down) + 2), name="lower")
        m.d.comb += lower.eq(field - self.down)
        stays = named(m, "stays", ~self.down.any() | field.all())
        left = named(m, "left", field.any() & (lower > 0))
        moved = Mux(left, Cat(self.i[:23], lower[:8], self.i[31]), 0)
        m.d.comb += self.o.eq(Mux(stays, self.i, moved))
