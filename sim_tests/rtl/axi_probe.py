# SPDX-License-Identifier: Apache-2.0
"""A block with the AXI engines side by side, for simulation alone."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from hwgen.core.bus import BusPort
from rtl_templates.axi.bus import BusSignature, fixed_fields
from rtl_templates.axi.channels import channels_of
from rtl_templates.axi.gather import Gather
from rtl_templates.axi.reader import BurstReader
from rtl_templates.axi.scatter import Scatter
from rtl_templates.axi.writer import BurstWriter
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.hdl.streams import Stream


class AxiProbe(Block):
    """Reader and gatherer, scatterer and writer on one AXI4 port.

    Members
    -------
    mem : Out(BusSignature)
        The port.
    read : In(stream)
        Requests of the reader.
    beat_go : In(1)
        Whether a beat may go from the reader to the gatherer.
    beat_data, beat_first, beat_count, beat_last, beat_taken : Out
        A beat that goes.
    word : Out(stream)
        Words of the gatherer.
    row : In(stream)
    row_size, row_offset : In
        Words of the scatterer.
    data_go : In(1)
        Whether a beat may go from the scatterer to the writer.
    data_strobe, data_last, data_taken : Out
        A beat that goes.
    write : In(stream)
        Requests of the writer.
    stop, read_busy, read_error, write_busy, write_error :
        Of the reader and of the writer.
    """

    resettable = True

    def __init__(
        self, reader: BurstReader, gather: Gather, scatter: Scatter, writer: BurstWriter
    ) -> None:
        data_width, address_width = reader.width("r_data"), reader.width("ar_addr")
        self.bus = BusPort("axi4", "mem", data_width, address_width)
        super().__init__(
            "probe",
            {
                "mem": Out(BusSignature(self.bus)),
                "read": reader.members["i"],
                "beat_go": In(1),
                **{f"beat_{name}": Out(reader.width(f"o_{name}")) for name in _BEAT},
                "beat_taken": Out(1),
                "word": gather.members["o"],
                "row": scatter.members["i"],
                "row_size": In(2),
                "row_offset": In(scatter.width("offset")),
                "data_go": In(1),
                "data_strobe": Out(data_width // 8),
                "data_last": Out(1),
                "data_taken": Out(1),
                "write": writer.members["i"],
                "stop": In(1),
                "read_busy": Out(1),
                "read_error": Out(1),
                "write_busy": Out(1),
                "write_error": Out(1),
            },
        )
        self.reader, self.gather, self.data_width = reader, gather, data_width
        self.scatter, self.writer = scatter, writer

    def build(self, m: Module) -> None:
        m.d.comb += fixed_fields(self.mem, self.data_width)
        mem = channels_of(self.mem)
        beat = place(
            m, "reader", self.reader, i=self.read, ar=mem.ar, r=mem.r, stop=self.stop,
            busy=self.read_busy, error=self.read_error,
        ).o  # fmt: skip
        ready = Signal(name="gather_ready")
        m.d.comb += [
            beat.ready.eq(ready & self.beat_go),
            self.beat_taken.eq(beat.valid & self.beat_go & ready),
            *(getattr(self, f"beat_{name}").eq(getattr(beat.payload, name)) for name in _BEAT),
        ]
        beats = Stream(beat.payload, beat.valid & self.beat_go, ready)
        place(m, "gather", self.gather, i=beats, o=self.word)
        written = place(
            m, "scatter", self.scatter, i=self.row, size=self.row_size, offset=self.row_offset
        ).o
        ready = Signal(name="writer_ready")
        m.d.comb += [
            written.ready.eq(ready & self.data_go),
            self.data_taken.eq(written.valid & self.data_go & ready),
            self.data_strobe.eq(written.payload.strobe),
            self.data_last.eq(written.payload.last),
        ]
        place(
            m, "writer", self.writer, i=self.write,
            d=Stream(written.payload, written.valid & self.data_go, ready),
            aw=mem.aw, w=mem.w, b=mem.b, stop=self.stop, busy=self.write_busy,
            error=self.write_error,
        )  # fmt: skip


_BEAT = ("data", "first", "count", "last")
