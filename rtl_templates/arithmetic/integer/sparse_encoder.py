# SPDX-License-Identifier: Apache-2.0
"""Digits of one bit weight of four terms, one a cycle, those that are zero left out."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.arithmetic.digits import Encoding, digit_count
from hwgen.arithmetic.sparse_digits import GROUP_TERMS
from hwgen.formats.integer import IntegerFormat
from rtl_templates.arithmetic.integer.multiply import shape_of
from rtl_templates.arithmetic.integer.recode import Recoder, booth_bits, booth_digit
from rtl_templates.hdl.hierarchy import Block, place


def at_most_one(bits: Value) -> Value:
    """Return whether no two of the bits are set."""
    return ~Cat(bits[i] & bits[:i].any() for i in range(1, len(bits))).any()


class SparseEncoder(Block):
    """Recodes groups of terms into a queue, and gives one digit a cycle that is not zero.

    A group is in the slot of the queue that its factors are in, and stays until it is `finished`;
    a group of zeros takes a cycle, in which nothing is selected.  Whoever writes and opens slots
    does so in turn, and fills none before every encoder has finished it.

    Parameters
    ----------
    encoding : {"booth4", "ent"}
    fmt : IntegerFormat
        Format of the terms.
    queue : int
        Slots.

    Members
    -------
    x : In
        The terms of a group.
    weight : In(digits)
        One-hot: which digit of each term to take.
    fill : In(queue)
        The slot that takes the group in this cycle, one hot or none.
    open : In(queue)
        Slots whose digits may be given.
    finished : Out(queue)
        Nothing of the slot is left behind this cycle, if it is open.
    select : Out(queue * GROUP_TERMS)
        A cycle later: the digit that is given, one-hot over the terms of all slots.
    one, two, negative : Out(1)
        Its magnitude is one; it is two; it is less than zero.
    """

    resettable = True

    def __init__(self, encoding: Encoding, fmt: IntegerFormat, queue: int) -> None:
        super().__init__(
            "encoder",
            {
                "x": In(GROUP_TERMS * fmt.width),
                "weight": In(digit_count(fmt)),
                "fill": In(queue),
                "open": In(queue),
                "finished": Out(queue),
                "select": Out(queue * GROUP_TERMS),
                "one": Out(1),
                "two": Out(1),
                "negative": Out(1),
            },
        )
        self.encoding, self.fmt, self.queue = encoding, fmt, queue

    def build(self, m: Module) -> None:
        used, two, negative = (
            Signal(GROUP_TERMS, name=f"new_{name}") for name in ("used", "two", "negative")
        )
        for term in range(GROUP_TERMS):
            self._digit(m, term, used[term], two[term], negative[term])
        turn = Signal(self.queue, init=1)
        ends, selected, ones, twos, negatives = [], [], [], [], []
        for slot in range(self.queue):
            left, is_two, is_negative = (
                Signal(GROUP_TERMS, name=f"{name}_{slot}", reset_less=True)
                for name in ("left", "two", "negative")
            )
            pending = Signal(name=f"pending_{slot}", reset_less=True)
            # At most one is left: a register, as what is finished is to be known early.
            few = Signal(name=f"few_{slot}", reset_less=True)
            active = Signal(name=f"active_{slot}")
            select, after = (
                Signal(GROUP_TERMS, name=f"{name}_{slot}") for name in ("select", "after")
            )
            m.d.comb += [
                active.eq(turn[slot] & self.open[slot] & pending),
                select.eq(
                    Cat(left[i] & ~left[:i].any() for i in range(GROUP_TERMS))
                    & active.replicate(GROUP_TERMS)
                ),
                after.eq(Mux(self.fill[slot], used, left & ~select)),
                self.finished[slot].eq(~pending | (turn[slot] & few)),
            ]
            m.d.sync += [left.eq(after), few.eq(at_most_one(after))]
            with m.If(self.fill[slot]):
                m.d.sync += [is_two.eq(two), is_negative.eq(negative), pending.eq(1)]
            with m.Elif(active & few):
                m.d.sync += pending.eq(0)
            ends.append(active & few)
            selected.append(select)
            ones.append((select & ~is_two).any())
            twos.append((select & is_two).any())
            negatives.append((select & is_negative).any())
        if self.queue > 1:
            with m.If(Cat(*ends).any()):
                m.d.sync += turn.eq(turn.rotate_left(1))
        for output, value in (
            (self.select, Cat(*selected)),
            (self.one, Cat(*ones).any()),
            (self.two, Cat(*twos).any()),
            (self.negative, Cat(*negatives).any()),
        ):
            register = Signal(len(output), name=f"{output.name}_reg", reset_less=True)
            m.d.sync += register.eq(value)
            m.d.comb += output.eq(register)

    def _digit(self, m: Module, term: int, used: Value, two: Value, negative: Value) -> None:
        """Say of the digit of a term whether it is not zero, is two, and is negative."""
        x = Signal(shape_of(self.fmt), name=f"x_{term}")
        m.d.comb += x.eq(self.x.word_select(term, self.fmt.width))
        count = digit_count(self.fmt)
        if self.encoding == "booth4":
            # One digit is made, of the bits that were chosen, not one of all that are made.
            bits = booth_bits(x, self.fmt)
            chosen = [Signal(name=f"{name}_{term}") for name in ("below", "low", "high")]
            for i, bit in enumerate(chosen):
                m.d.comb += bit.eq(
                    Cat(bits[2 * j + i] & self.weight[j] for j in range(count)).any()
                )
            one, is_two, is_negative = booth_digit(*chosen)
        else:
            selects = [
                Signal(count, name=f"{name}_{term}") for name in ("ones", "twos", "negatives")
            ]
            place(
                m,
                f"recode_{term}",
                Recoder(self.encoding, self.fmt),
                x=x,
                **dict(zip(("one", "two", "negative"), selects, strict=True)),
            )
            one, is_two, is_negative = (
                (select_of_term & self.weight).any() for select_of_term in selects
            )
        m.d.comb += [two.eq(is_two), used.eq(one | two), negative.eq(is_negative)]
