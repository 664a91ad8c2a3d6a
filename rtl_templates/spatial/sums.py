# SPDX-License-Identifier: Apache-2.0
"""Sums of terms that come with a carry, as many adders as terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Module, Mux, Shape, Signal, Value

from rtl_templates.arithmetic.integer.multiply import Addend, accumulate, add, shape_of

if TYPE_CHECKING:
    from hwgen.core.params.spatial import SpatialConfig


def accumulated(
    m: Module,
    config: SpatialConfig,
    terms: list[Addend],
    clear: Value,
    name: str = "",
    shape: Shape | None = None,
) -> Signal:
    """Return the accumulator of the terms of a beat; each adder takes one of their carries.

    Parameters
    ----------
    m : Module
    config : SpatialConfig
        ``pipeline.pe`` of 1 and more puts a register in front of the accumulator.
    terms : list of (Value, Value or None)
    clear : Value
        Start a new sum.
    name : str
        Suffix of the names of signals.
    shape : Shape, optional
        Of the sum of a beat, by default that of the adders.
    """
    after_sum = m.d.sync if config.pipeline.pe else m.d.comb
    values = [value for value, _ in terms]
    carries = [carry for _, carry in terms if carry is not None]
    while len(values) > 1:
        pairs = [
            add(a, b, carries.pop() if carries else None)
            for a, b in zip(values[::2], values[1::2], strict=False)
        ]
        values = pairs + values[len(values) & ~1 :]
    addend = Signal(shape or values[0].shape(), name=f"addend{name}", reset_less=True)
    after_sum += addend.eq(values[0])
    last: Value | None = None
    if carries:  # of as many terms as adders one is left
        last = Signal(name=f"carry{name}", reset_less=True)
        after_sum += last.eq(carries.pop())
    total = Signal(shape_of(config.result), name=f"total{name}_reg", reset_less=True)
    m.d.sync += total.eq(accumulate(m, Mux(clear, 0, total), addend, config.clamp, last))
    return total
