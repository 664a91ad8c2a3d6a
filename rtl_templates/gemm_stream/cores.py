# SPDX-License-Identifier: Apache-2.0
"""Cores of an engine: in parallel with the same activations, in a row along the reduction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl_templates.hdl.core_block import Core
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.hdl.streams import Fields, Stream, fields, new_stream

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig


class CoreArray(Block):
    """All cores in lock step: all are ready at once, as nothing depends on the data.

    Parameters
    ----------
    config : GemmStreamConfig
    core : Component

    Members
    -------
    act, wgt : In(stream)
        A beat of every bank of the buffer: ``data``, and ``last``.
    out : Out(stream)
        Sums over the cores in a row: `n_lanes` of the result's width.
    """

    resettable = True

    def __init__(self, config: GemmStreamConfig, core: wiring.Component) -> None:
        self.config, self.core = config, core
        act = {"data": config.act_banks * config.act_rows.beat_bits, "last": 1}
        wgt = {"data": config.wgt_banks * config.wgt_rows.beat_bits, "last": 1}
        super().__init__(
            "cores",
            {
                "act": In(stream.Signature(data.StructLayout(act))),
                "wgt": In(stream.Signature(data.StructLayout(wgt))),
                "out": Out(stream.Signature(config.n_lanes * config.result.width)),
            },
        )

    def build(self, m: Module) -> None:
        config, array = self.config, self.config.array
        core = Core(self.core)
        lanes: list[list[Value]] = []
        for j in range(array.cascade):
            lanes.append([])
            for b in range(array.blocks):
                # All cores are ready at the same time: the first one answers for all.
                first = j == b == 0
                ready = [
                    beats.ready if first else Signal(name=f"{name}_{j}_{b}_ready")
                    for name, beats in (("act", self.act), ("wgt", self.wgt))
                ]
                act = self._beat(core, "act", self._activations(j))
                wgt = self._beat(core, "wgt", self._weights(j, b))
                results = new_stream(f"out_{j}_{b}", core.payload("out"))
                place(
                    m, f"core_{j}_{b}", core,
                    act=Stream(act, self.act.valid, ready[0]),
                    wgt=Stream(wgt, self.wgt.valid, ready[1]),
                    out=Stream(results.payload, results.valid, self.out.ready),
                )  # fmt: skip
                lanes[-1] += self._results(results.payload.data)
                if first:
                    m.d.comb += self.out.valid.eq(results.valid)
        width = config.result.width
        sums = [_sum([row[i] for row in lanes])[:width] for i in range(config.n_lanes)]
        m.d.comb += self.out.payload.eq(Cat(*sums))

    def _beat(self, core: Core, port: str, value: Value) -> Fields:
        """Return a beat of a port of the cores."""
        lanes = Cat(value, Const(0, core.width(f"{port}_data") - len(value)))
        if f"{port}_last" not in core.ports:
            return fields(data=lanes)
        return fields(data=lanes, last=getattr(self, port).payload.last)

    def _activations(self, j: int) -> Value:
        """Return the activations of the cores at position `j` of the rows of cores."""
        config, nest = self.config, self.config.loop_nest
        if config.in_blocks:
            return self.act.payload.data
        width, cascade = config.activation.width, config.array.cascade
        elements = []
        for lane in range(nest.m_lanes):
            beat = self.act.payload.data.word_select(lane, config.k_lanes * width)
            for t in range(nest.k_lanes):
                # Rows of W go to its banks in turn; in an image they are stored core by core.
                index = j * nest.k_lanes + t if nest.image else t * cascade + j
                elements.append(beat.word_select(index, width))
        return Cat(*elements)

    def _weights(self, j: int, b: int) -> Value:
        config, blocks = self.config, self.config.array.blocks
        if config.loop_nest.weight_columns:
            return self.wgt.payload.data.word_select(b, len(self.wgt.payload.data) // blocks)
        width = config.weight_beat * config.weight_width
        if config.loop_nest.image:
            size = width // config.cores
            return self.wgt.payload.data.word_select(j * blocks + b, size)
        terms = [
            self.wgt.payload.data.word_select(t * config.array.cascade + j, width).word_select(
                b, width // blocks
            )
            for t in range(config.loop_nest.weight_terms)
        ]
        columns = range(config.loop_nest.n_lanes)
        return Cat(term.word_select(c, config.weight_width) for c in columns for term in terms)

    def _results(self, data: Value) -> list[Value]:
        config = self.config
        lane = len(data) // config.loop_nest.n_lanes
        return [
            data.word_select(i, lane)[: config.result.width]
            for i in range(config.loop_nest.n_lanes)
        ]


def _sum(values: list[Value]) -> Value:
    while len(values) > 1:
        pairs = [a + b for a, b in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[len(pairs) * 2 :]
    return values[0]
