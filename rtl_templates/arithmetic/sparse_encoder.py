# SPDX-License-Identifier: Apache-2.0
"""Digits of one bit weight of several terms, one a cycle, those that are zero left out."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.wiring import In, Out

from hwgen.numerics.sparse_digits import GROUP
from rtl_templates.hierarchy import Block

NAMES = ("one", "two", "negative")
"""Select lines of a digit, in the order of `rtl_templates.arithmetic.recode.Digits`."""


class SparseEncoder(Block):
    """Gives the digits of a group that are not zero; see `hwgen.numerics.sparse_digits`.

    A group of zeros gives one digit, which is zero and at no position: it takes a cycle, and
    whoever counts groups, or waits for the end of a sum, sees it like any other.  The first digit
    of a group is there in the cycle behind the last of the one before.  `i_ready` follows
    `o_ready` in the same cycle.

    Members
    -------
    i_valid, i_ready, o_valid, o_ready : stream of groups in, stream of digits out
    i_one, i_two, i_negative : In(GROUP)
        Select lines of the digits; see `Recoder`.
    i_ends : In(1)
        The group is the last of a sum.
    o_position : Out(GROUP)
        One-hot: which digit of the group it is, the lowest first.
    o_one, o_two, o_negative : Out(1)
        Its select lines.
    o_last : Out(1)
        It is the last of the group.
    o_ends : Out(1)
        It is the last of the sum.
    """

    resettable = True

    def __init__(self) -> None:
        super().__init__(
            "sparse_encoder",
            {
                **{f"i_{name}": In(GROUP) for name in NAMES},
                "i_ends": In(1),
                "i_valid": In(1),
                "i_ready": Out(1),
                "o_position": Out(GROUP),
                **{f"o_{name}": Out(1) for name in NAMES},
                "o_last": Out(1),
                "o_ends": Out(1),
                "o_valid": Out(1),
                "o_ready": In(1),
            },
        )

    def build(self, m: Module) -> None:
        lines = [Signal(GROUP, name=name, reset_less=True) for name in NAMES]
        ends = Signal(reset_less=True)
        # Digits that were not given yet.
        left = Signal(GROUP, reset_less=True)
        rest = Signal(GROUP)
        m.d.comb += [
            self.o_position.eq(Cat(left[i] & ~left[:i].any() for i in range(GROUP))),
            rest.eq(left & ~self.o_position),
            self.o_last.eq(~rest.any()),
            self.o_ends.eq(self.o_last & ends),
            self.i_ready.eq(~self.o_valid | (self.o_ready & self.o_last)),
        ]
        for name, held in zip(NAMES, lines, strict=True):
            m.d.comb += getattr(self, f"o_{name}").eq((held & self.o_position).any())
        with m.If(self.i_ready):
            m.d.sync += [
                *(
                    held.eq(getattr(self, f"i_{name}"))
                    for name, held in zip(NAMES, lines, strict=True)
                ),
                ends.eq(self.i_ends),
                left.eq(self.i_one | self.i_two),
                self.o_valid.eq(self.i_valid),
            ]
        with m.Elif(self.o_ready):
            m.d.sync += left.eq(rest)
