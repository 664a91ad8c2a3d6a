# SPDX-License-Identifier: Apache-2.0
"""Input vectors of floating point, aligned to the largest exponent of each."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.utils import exact_log2

from hwgen.families.attention.formats import BLOCK, BLOCK_SCALE_BITS
from rtl_templates.arithmetic.float.align import Align, LargestExponent
from rtl_templates.arithmetic.pipeline import named
from rtl_templates.hdl.hierarchy import place
from rtl_templates.hdl.streams import AnyStream, Stream
from rtl_templates.stream.stream import StreamFifo, buffered

from .keys import pop_input

if TYPE_CHECKING:
    from hwgen.families.attention.params import AttentionConfig


class Vector(NamedTuple):
    """A buffered vector.

    Parameters
    ----------
    beat : Value
        Integers of ``alignment_bits + 2`` bits.
    valid : Value
        There is a beat, of a vector that is complete.
    scale : Value
        Of the vector: its exponent, and above it whether an element is no finite number.
    early, early_valid : Value
        The same of the first vector whose scale was not popped yet, and whether there is one; only
        with `pop_scale`.
    """

    beat: Value
    valid: Value
    scale: Value
    early: Value
    early_valid: Value


def pop_vectors(
    m: Module,
    core: wiring.Component,
    name: str,
    pop: Value,
    ends: Value,
    count: int,
    pop_scale: Value | None = None,
) -> Vector:
    """Buffer an input port of vectors, and align them.

    With powers of two for blocks, these come by a port of their own, all of a vector at once; the
    element's exponent is then that of its format plus that of its block.

    Parameters
    ----------
    m : Module
    core : AttentionCore
    name : str
        Of the port.
    pop, ends : Value
        The beat leaves; it is the last of its vector.
    count : int
        Number of buffered vectors.
    pop_scale : Value, optional
        The scale of a vector leaves, before its beats.
    """
    config: AttentionConfig = core.config
    fmt, lanes, steps = getattr(config, name), config.array.lanes, config.steps
    width, blocks = config.exponent_bits(name), config.blocks * (name != "query")
    source: Stream = pop_input(m, core, name, Signal(name=f"{name}_pop"))
    beats, push = source, Signal(name=f"{name}_push")
    largest = place(m, f"{name}_exponent", LargestExponent(fmt, lanes), i=source.payload)
    exponent, special = largest.exponent, largest.special
    step = Signal(range(steps), name=f"{name}_step")
    so_far = Signal(width + 1, name=f"{name}_so_far")
    whole = Signal(width + 1, name=f"{name}_whole")
    if blocks:
        ends_vector = named(m, f"{name}_powers_pop", push & (step == steps - 1))
        powers = pop_input(m, core, f"{name}_scale", ends_vector)
        per_block = BLOCK // lanes
        of_block = step[exact_log2(per_block) :] if per_block < steps else Const(0, 1)
        power = Signal(BLOCK_SCALE_BITS, name=f"{name}_power")
        m.d.comb += power.eq(powers.payload.word_select(of_block, BLOCK_SCALE_BITS))
        exponent = named(m, f"{name}_raised", exponent + power)
        special = special | power.all()
        ready = Signal(name=f"{name}_ready")
        beats = Stream(Cat(source.payload, power), source.valid & powers.valid, ready)
        m.d.comb += source.ready.eq(ready & powers.valid)
    m.d.comb += push.eq(beats.valid & beats.ready)
    above = named(m, f"{name}_above", exponent > so_far[:-1])
    m.d.comb += whole.eq(Cat(Mux(above, exponent, so_far[:-1]), so_far[-1] | special))
    last = named(m, f"{name}_last", step == steps - 1)
    with m.If(push):
        m.d.sync += [step.eq(Mux(last, 0, step + 1)), so_far.eq(Mux(last, 0, whole))]

    def scales(label: str, pop: Value) -> AnyStream:
        # As deep as the number of vectors: always ready.
        source = Stream(whole, push & last, Signal(name=f"{label}_ready"))
        queue = buffered(m, label, source, partial(StreamFifo, depth=count + 1))
        m.d.comb += queue.ready.eq(pop)
        return queue

    scale = early = scales(f"{name}_scales", ends)
    if pop_scale is not None:
        early = scales(f"{name}_early_scales", pop_scale)
    vectors = buffered(m, f"{name}_vectors", beats, partial(StreamFifo, depth=count * steps))
    m.d.comb += vectors.ready.eq(pop)
    below: Value = scale.payload[:-1]  # in units of the block's power of two
    if blocks:
        below = named(m, f"{name}_below", (below - vectors.payload[lanes * fmt.width :])[:width])
    align = Align(fmt, config.alignment_bits, width)
    numbers = [
        place(
            m, f"{name}_align_{lane}", align, i=vectors.payload.word_select(lane, fmt.width),
            exponent=below,
        ).o
        for lane in range(lanes)
    ]  # fmt: skip
    return Vector(Cat(*numbers), scale.valid, scale.payload, early.payload, early.valid)
