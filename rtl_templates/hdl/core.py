# SPDX-License-Identifier: Apache-2.0
"""Base of the cores of all families: stream ports and their buffers.

No combinational path leads from an input port to an output port: inputs end in registers, the
output starts at registers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Module, Signal, Value, signed
from amaranth.lib import wiring

from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.hdl.shell import stream_members
from rtl_templates.hdl.streams import AnyStream, Stream, fields, new_stream, transfers
from rtl_templates.stream.stream import StreamBuffer

if TYPE_CHECKING:
    from hwgen.core.params.product import ProductConfig


class StreamCore(wiring.Component):
    """A core with the stream ports that its configuration describes.

    Parameters
    ----------
    config : FamilyConfig
        With ``core_ports`` and ``result``.

    Members
    -------
    act, wgt : In(stream)
        Beats as the configuration's ports describe them.
    out : Out(stream)
        Beats of accumulators.
    """

    def __init__(self, config: ProductConfig) -> None:
        self.config: Any = config  # that of the family, in each core
        super().__init__(stream_members(config.core_ports))

    def pop_input(
        self, m: Module, port: Any, pop: Value, buffer: Callable[[int], Block] = StreamBuffer
    ) -> Stream:
        """Return the beats of an input port after a buffer; its ready is `pop`.

        Parameters
        ----------
        m : Module
        port : Port
        pop : Value
            Whether the beat leaves the buffer.
        buffer : callable
            Makes the buffer for a number of bits.

        Returns
        -------
        Stream
            ``data`` and, if the port has it, ``last``.
        """
        name, beats = f"{port.name}_buffer", getattr(self, port.name)
        parts = {"data": beats.payload.data[: port.lanes * port.lane_width]}
        if port.last:
            parts["last"] = beats.payload.last
        payload = fields(**parts)
        popped = new_stream(port.name, payload.shape())
        sink = Stream(popped.payload, popped.valid, pop)
        source = Stream(payload, beats.valid, beats.ready)
        place(m, name, buffer(len(Value.cast(payload))), i=source, o=sink)
        if port.last:
            parts["last"] = popped.payload.last.any()
        return Stream(fields(**{**parts, "data": popped.payload.data}), popped.valid, pop)

    def push_output(
        self, m: Module, results: AnyStream, buffer: Callable[[int], Block] = StreamBuffer
    ) -> Value:
        """Buffer the output port; return whether a beat leaves the buffer.

        Parameters
        ----------
        m : Module
        results : stream
            ``data``, lanes of the accumulator's width, and ``last``.
        buffer : callable
            Makes the buffer for a number of bits.
        """
        port = self.config.core_ports[-1]
        width = self.config.result.width
        out = new_stream("head", results.payload.shape())
        sink = Stream(out.payload, self.out.valid, self.out.ready)
        place(m, "out_buffer", buffer(len(Value.cast(results.payload))), i=results, o=sink)
        lanes = []
        for lane in range(port.lanes):
            value = out.payload.data.word_select(lane, width)
            if self.config.result.signed:
                value = value.as_signed()
            wide = Signal(signed(port.lane_width), name=f"lane_{lane}")
            m.d.comb += wide.eq(value)
            lanes.append(wide)
        m.d.comb += [
            self.out.payload.data.eq(Cat(*lanes)),
            self.out.payload.last.eq(out.payload.last),
        ]
        return transfers(self.out)
