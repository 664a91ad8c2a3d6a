# SPDX-License-Identifier: Apache-2.0
"""The cores of an engine: side by side with the same activations, in a row along the reduction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl_templates.hdl.core_block import Core
from rtl_templates.hdl.hierarchy import Block, place

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig


class CoreArray(Block):
    """All cores in step: what one is ready for, all are, because nothing depends on the data.

    Parameters
    ----------
    config : GemmStreamConfig
    core : Component

    Members
    -------
    act_data, act_last, act_valid, act_ready : stream in
        A beat of every bank of the activation buffer.
    wgt_data, wgt_last, wgt_valid, wgt_ready : stream in
        The same of weights.
    out_data, out_valid, out_ready : stream out
        Sums over the cores in a row, `n_lanes` of the result's width.
    """

    resettable = True

    def __init__(self, config: GemmStreamConfig, core: wiring.Component) -> None:
        self.config, self.core = config, core
        super().__init__(
            "cores",
            {
                "act_data": In(config.act_banks * config.act_rows.beat_bits),
                "act_last": In(1),
                "act_valid": In(1),
                "act_ready": Out(1),
                "wgt_data": In(config.wgt_banks * config.wgt_rows.beat_bits),
                "wgt_last": In(1),
                "wgt_valid": In(1),
                "wgt_ready": Out(1),
                "out_data": Out(config.n_lanes * config.result.width),
                "out_valid": Out(1),
                "out_ready": In(1),
            },
        )

    def build(self, m: Module) -> None:
        config, array = self.config, self.config.array
        core = Core(self.core)
        lanes: list[list[Value]] = []
        for j in range(array.cascade):
            lanes.append([])
            for b in range(array.blocks):
                ports: dict[str, Any] = {}
                outputs = {}
                for name, member in core.ports.items():
                    if member.flow != In:
                        outputs[name] = Signal(core.width(name), name=f"{name}_{j}_{b}")
                ports |= outputs
                ports["act_data"] = _padded(self._activations(j), core.width("act_data"))
                ports["wgt_data"] = _padded(self._weights(j, b), core.width("wgt_data"))
                for port in ("act", "wgt"):
                    ports[f"{port}_valid"] = getattr(self, f"{port}_valid")
                    if f"{port}_last" in core.ports:
                        ports[f"{port}_last"] = getattr(self, f"{port}_last")
                ports["out_ready"] = self.out_ready
                place(m, f"core_{j}_{b}", core, **ports)
                lanes[-1] += self._results(outputs["out_data"])
                if j == b == 0:
                    m.d.comb += [
                        self.act_ready.eq(outputs["act_ready"]),
                        self.wgt_ready.eq(outputs["wgt_ready"]),
                        self.out_valid.eq(outputs["out_valid"]),
                    ]
        width = config.result.width
        sums = [_sum([row[i] for row in lanes])[:width] for i in range(config.n_lanes)]
        m.d.comb += self.out_data.eq(Cat(*sums))

    def _activations(self, j: int) -> Value:
        """Return the activations of the cores at place `j` of the rows of cores."""
        config, nest = self.config, self.config.loop_nest
        if config.in_blocks:
            return self.act_data
        width, cascade = config.activation.width, config.array.cascade
        elements = []
        for lane in range(nest.m_lanes):
            beat = self.act_data.word_select(lane, config.k_lanes * width)
            for t in range(nest.k_lanes):
                # Rows of W go to its banks in turn; an image holds them core by core.
                place_ = j * nest.k_lanes + t if nest.image else t * cascade + j
                elements.append(beat.word_select(place_, width))
        return Cat(*elements)

    def _weights(self, j: int, b: int) -> Value:
        config, blocks = self.config, self.config.array.blocks
        if config.loop_nest.weight_columns:
            return self.wgt_data.word_select(b, len(self.wgt_data) // blocks)
        width = config.weight_beat * config.weight_width
        if config.loop_nest.image:
            size = width // config.cores
            return self.wgt_data.word_select(j * blocks + b, size)
        terms = [
            self.wgt_data.word_select(t * config.array.cascade + j, width).word_select(
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


def _padded(value: Value, width: int) -> Value:
    return Cat(value, Const(0, width - len(value)))


def _sum(values: list[Value]) -> Value:
    while len(values) > 1:
        pairs = [a + b for a, b in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[len(pairs) * 2 :]
    return values[0]
