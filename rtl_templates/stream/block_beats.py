# SPDX-License-Identifier: Apache-2.0
"""Beats of operands in blocks."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, Signal, Value


def counted_terms(m: Module, terms: int, fire: Value) -> tuple[Value, Value]:
    """Count the cycles in which a beat is multiplied.

    Parameters
    ----------
    m : Module
    terms : int
        How many they are.
    fire : Value
        One of them goes on.

    Returns
    -------
    tuple of Value
        The number of the cycle, and whether it is the last.
    """
    if terms == 1:
        return Const(0, 0), Const(1, 1)
    term, ends = Signal(range(terms), name="term"), Signal(name="last_term")
    m.d.comb += ends.eq(term == terms - 1)
    with m.If(fire):
        m.d.sync += term.eq(Mux(ends, 0, term + 1))
    return term, ends


def counted_beats(
    m: Module, beats: int, fire: Value, starting: Value, last: Value | None = None
) -> tuple[Signal, Signal, Signal]:
    """Count the beats of a block.

    Parameters
    ----------
    m : Module
    beats : int
        Beats that a block takes, or the most.
    fire, starting : Value
        There is a beat; the next is the first of a tile.
    last : Value, optional
        The number of the last beat of the block, counted from 0.

    Returns
    -------
    tuple of Signal
        Whether the beat is the first of a block, its last, and of the first block of a tile.
    """
    first, ends = Signal(name="first"), Signal(name="ends")
    clear = Signal(name="clear")
    if beats == 1:
        m.d.comb += [first.eq(1), ends.eq(1), clear.eq(starting)]
        return first, ends, clear
    beat = Signal(range(beats))
    in_first = Signal(name="in_first_block")
    m.d.comb += [
        first.eq(beat == 0),
        ends.eq(beat == (beats - 1 if last is None else last)),
        clear.eq(starting | in_first),
    ]
    with m.If(fire):
        m.d.sync += [
            beat.eq(Mux(ends, 0, beat + 1)),
            in_first.eq(clear & ~ends),
        ]
    return first, ends, clear
