# SPDX-License-Identifier: Apache-2.0
"""What the cores of all families share: stream ports and their buffers.

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

    def take(
        self, m: Module, port: Any, ready: Value, buffer: Callable[[int], Block] = StreamBuffer
    ) -> tuple[Value, Value, Value]:
        """Buffer an input port; return its data, last and valid, which `ready` takes."""
        beats = getattr(self, port.name)
        width = port.lanes * port.lane_width
        payload = Cat(beats.payload.data[:width], *([beats.payload.last] if port.last else []))
        head, valid = (
            Signal(len(payload), name=f"{port.name}_head"),
            Signal(name=f"{port.name}_valid"),
        )
        place(
            m,
            f"{port.name}_buffer",
            buffer(len(payload)),
            i_data=payload,
            i_valid=beats.valid,
            i_ready=beats.ready,
            o_data=head,
            o_valid=valid,
            o_ready=ready,
        )
        return head[:width], head[width:].any() if port.last else valid, valid

    def give(
        self,
        m: Module,
        values: Value,
        last: Value,
        push: Value,
        buffer: Callable[[int], Block] = StreamBuffer,
    ) -> tuple[Value, Value]:
        """Buffer the output port; return its ready and whether a beat leaves it."""
        port = self.config.core_ports[-1]
        width = self.config.result.width
        payload = Cat(values, last)
        head, ready = Signal(len(payload), name="out_head"), Signal(name="out_ready")
        place(
            m,
            "out_buffer",
            buffer(len(payload)),
            i_data=payload,
            i_valid=push,
            i_ready=ready,
            o_data=head,
            o_valid=self.out.valid,
            o_ready=self.out.ready,
        )
        lanes = []
        for lane in range(port.lanes):
            value = head.word_select(lane, width)
            if self.config.result.signed:
                value = value.as_signed()
            wide = Signal(signed(port.lane_width), name=f"lane_{lane}")
            m.d.comb += wide.eq(value)
            lanes.append(wide)
        m.d.comb += [self.out.payload.data.eq(Cat(*lanes)), self.out.payload.last.eq(head[-1])]
        return ready, self.out.valid & self.out.ready
