# SPDX-License-Identifier: Apache-2.0
"""Vectors of floating point that come in, as integers of the largest exponent of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from rtl_templates.arithmetic.float.align import Align, LargestExponent
from rtl_templates.arithmetic.pipeline import named
from rtl_templates.hdl.hierarchy import place
from rtl_templates.stream.stream import StreamFifo

from .parts import take

if TYPE_CHECKING:
    from hwgen.families.attention.params import AttentionConfig


class Vector(NamedTuple):
    """What an input holds.

    Parameters
    ----------
    beat : Value
        Integers of ``alignment_bits + 2`` bits.
    valid : Value
        There is a beat, of a vector all of whose beats are there.
    scale : Value
        Of the vector: its exponent, and above it whether an element is no finite number.
    early, early_valid : Value
        The same of the first vector whose scale was not taken yet, and whether there is one; only
        with `takes_scale`.
    """

    beat: Value
    valid: Value
    scale: Value
    early: Value
    early_valid: Value


def take_vectors(
    m: Module,
    core: Any,
    name: str,
    ready: Value,
    ends: Value,
    count: int,
    takes_scale: Value | None = None,
) -> Vector:
    """Buffer an input port of vectors, and align them.

    Parameters
    ----------
    m : Module
    core : AttentionCore
    name : str
        Of the port.
    ready, ends : Value
        The beat is taken; it is the last of its vector.
    count : int
        Vectors that are held.
    takes_scale : Value, optional
        The scale of a vector is taken, before its beats.
    """
    config: AttentionConfig = core.config
    fmt, lanes, steps = getattr(config, name), config.array.lanes, config.steps
    room = Signal(name=f"{name}_room")
    raw, there = take(m, core, name, room)
    put = named(m, f"{name}_put", there & room)
    exponent, special = (
        Signal(fmt.exponent_bits, name=f"{name}_largest"),
        Signal(name=f"{name}_odd"),
    )
    block = LargestExponent(fmt, lanes)
    place(m, f"{name}_exponent", block, i=raw, exponent=exponent, special=special)
    step = Signal(range(steps), name=f"{name}_step")
    so_far = Signal(fmt.exponent_bits + 1, name=f"{name}_so_far")
    whole = Signal(fmt.exponent_bits + 1, name=f"{name}_whole")
    above = named(m, f"{name}_above", exponent > so_far[:-1])
    m.d.comb += whole.eq(Cat(Mux(above, exponent, so_far[:-1]), so_far[-1] | special))
    last = named(m, f"{name}_last", step == steps - 1)
    with m.If(put):
        m.d.sync += [step.eq(Mux(last, 0, step + 1)), so_far.eq(Mux(last, 0, whole))]

    def scales(label: str, taken: Value) -> tuple[Value, Value]:
        head, valid = Signal(len(whole), name=f"{label}_head"), Signal(name=f"{label}_valid")
        place(
            m, label, StreamFifo(len(whole), count + 1), i_data=whole, i_valid=put & last,
            i_ready=Signal(name=f"{label}_ready"), o_data=head, o_valid=valid, o_ready=taken,
        )  # fmt: skip
        return head, valid

    scale, valid = scales(f"{name}_scales", ends)
    early, early_valid = scale, valid
    if takes_scale is not None:
        early, early_valid = scales(f"{name}_early_scales", takes_scale)
    beat = Signal(len(raw), name=f"{name}_beat")
    place(
        m, f"{name}_vectors", StreamFifo(len(raw), count * steps), i_data=raw, i_valid=there,
        i_ready=room, o_data=beat, o_valid=Signal(name=f"{name}_beats"), o_ready=ready,
    )  # fmt: skip
    align = Align(fmt, config.alignment_bits)
    numbers = []
    for lane in range(lanes):
        number = Signal(config.alignment_bits + 2, name=f"{name}_number_{lane}")
        place(
            m, f"{name}_align_{lane}", align,
            i=beat.word_select(lane, fmt.width), exponent=scale[:-1], o=number,
        )  # fmt: skip
        numbers.append(number)
    return Vector(Cat(*numbers), valid, scale, early, early_valid)
