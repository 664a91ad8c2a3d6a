# SPDX-License-Identifier: Apache-2.0
"""Softmax in one pass: exponentials over a running maximum, which is a power of two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from rtl_templates.arithmetic.float.real import REAL
from rtl_templates.arithmetic.functions.unit import FunctionBlock
from rtl_templates.arithmetic.pipeline import Pipeline, delayed
from rtl_templates.arithmetic.registry import arithmetic
from rtl_templates.hdl.hierarchy import Block, place

from .rescaled import Rescaled

if TYPE_CHECKING:
    from hwgen.families.vector.functions import Powers
    from hwgen.families.vector.params import VectorConfig


class PowerOfTwo(Block):
    """The exponential of an element, as ``2**f`` and ``k``.

    Parameters
    ----------
    powers : Powers
    scaling, function : int
        Cycles to ``k``, at least one, and from there to ``2**f``. Registers of the first are behind
        the shift and behind the product; more of them follow the shift.

    Members
    -------
    run : In(1)
        Everything stands still while it is low.
    i : In
        The element.
    level : Out
        ``k``, signed.
    o : Out(32)
        ``2**f``, 0 or NaN, `function` cycles later.
    """

    def __init__(self, powers: Powers, scaling: int, function: int) -> None:
        super().__init__(
            f"power_of_two_{powers.unit.digest}_{powers.scaling.source.name.replace('.', '_')}"
            f"_{scaling}_{function}",
            {
                "run": In(1),
                "i": In(powers.scaling.source.width),
                "level": Out(signed(powers.level_bits)),
                "o": Out(32),
            },
        )
        self.powers, self.scaling, self.function = powers, scaling, function

    def build(self, m: Module) -> None:
        powers, run, later = self.powers, self.run, max(0, self.scaling - 2)
        cuts = ["scaled", *(["multiplied"] if self.scaling > 1 else [])]
        pipe = Pipeline(m, cuts, run)
        fraction = powers.scaling.fraction
        argument = arithmetic(powers.scaling.source).argument()
        scaled, special, nothing = argument.power(m, pipe, powers.scaling, self.i)
        lowest = Const(1 << (len(scaled) - 1), len(scaled))
        scaled = Mux(special, lowest, scaled)
        scaled, special, nothing = pipe.cut(
            "scaled", scaled=scaled, special=special, nothing=nothing
        )
        scaled, special, nothing = (
            delayed(m, name, value, later, run)
            for name, value in (("x", scaled), ("none", special), ("zero", nothing))
        )
        m.d.comb += self.level.eq(scaled[fraction:].as_signed())
        power = Signal(32, name="power")
        place(m, "powers", FunctionBlock(powers.unit, self.function, enabled=True),
              run=run, i=scaled[:fraction], o=power)  # fmt: skip
        special = delayed(m, "nan", special, self.function, run)
        nothing = delayed(m, "least", nothing, self.function, run)
        m.d.comb += self.o.eq(Mux(nothing, 0, Mux(special, REAL.nan, power)))


class OnlineWeights(Block):
    """Exponentials of the lanes of a beat, over the largest power of two of their row so far.

    Parameters
    ----------
    config : VectorConfig

    Members
    -------
    run : In(1)
        Everything stands still while it is low.
    i : In(stream), always ready
        Beats: ``data``, the elements of the lanes; ``used``, whether each lane has one; ``last``,
        whether it is the last of its row.
    o, level : Out
        Numbers of single precision, and the exponent of what they are over,
        ``config.weight_latency`` cycles later.
    """

    resettable = True

    def __init__(self, config: VectorConfig) -> None:
        self.config = config
        lanes, powers = config.array.lanes, config.powers
        beats = data.StructLayout(
            {"data": lanes * powers.scaling.source.width, "used": lanes, "last": 1}
        )
        super().__init__(
            "online_weights",
            {
                "run": In(1),
                "i": In(stream.Signature(beats, always_ready=True)),
                "o": Out(32 * lanes),
                "level": Out(signed(powers.level_bits)),
            },
        )

    def build(self, m: Module) -> None:
        config, run, powers = self.config, self.run, self.config.powers
        pipeline, bits, width = config.pipeline, powers.level_bits, powers.scaling.source.width
        scaling, together = pipeline.multiplier, max(pipeline.function, config.max_latency)
        block = PowerOfTwo(powers, scaling, pipeline.function)
        used = delayed(m, "used", self.i.payload.used, scaling, run)
        levels, power = [], []
        for lane in range(config.array.lanes):
            element = self.i.payload.data.word_select(lane, width)
            placed = place(m, f"power_{lane}", block, run=run, i=element)
            levels.append(placed.level)
            power.append(delayed(m, f"power_{lane}", placed.o, together - pipeline.function, run))
        largest = self._largest(
            m,
            [Mux(used[lane], level, powers.least) for lane, level in enumerate(levels)],
            delayed(m, "valid", self.i.valid, scaling + config.lane_bits, run, token=True),
            delayed(m, "last", self.i.payload.last, scaling + config.lane_bits, run),
        )
        largest = delayed(m, "largest", largest, together - config.max_latency, run)
        for lane, level in enumerate(levels):
            at = delayed(m, f"level_{lane}", level, together, run)
            down = Signal(bits, name=f"down_{lane}")
            m.d.comb += down.eq(largest.as_signed() - at.as_signed())
            over = place(m, f"rescale_{lane}", Rescaled(bits), i=power[lane], down=down).o
            m.d.comb += self.o.word_select(lane, 32).eq(delayed(m, f"weight_{lane}", over, 1, run))
        m.d.comb += self.level.eq(delayed(m, "level", largest, 1, run).as_signed())

    def _largest(self, m: Module, levels: list[Value], valid: Value, last: Value) -> Value:
        """Return the running maximum, ``config.max_latency`` cycles after the lanes'."""
        run, bits = self.run, self.config.powers.level_bits
        depth = 0
        while len(levels) > 1:
            merged: list[Value] = []
            for i in range(0, len(levels), 2):
                larger = Signal(signed(bits), name=f"largest_{depth}_{i // 2}", reset_less=True)
                with m.If(run):
                    m.d.sync += larger.eq(Mux(levels[i + 1] > levels[i], levels[i + 1], levels[i]))
                merged.append(larger)
            levels, depth = merged, depth + 1
        begins = Signal(init=1, name="begins")
        running = Signal(signed(bits), name="running", reset_less=True)
        with m.If(run & valid):
            m.d.sync += begins.eq(last)
            with m.If(begins | (levels[0] > running)):
                m.d.sync += running.eq(levels[0])
        return running
