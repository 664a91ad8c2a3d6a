# SPDX-License-Identifier: Apache-2.0
"""A block with the AXI engines side by side, for simulation alone."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from hwgen.core.bus import axi4_signals
from rtl_templates.axi.bus import fixed_fields
from rtl_templates.axi.gather import Gather
from rtl_templates.axi.reader import BurstReader
from rtl_templates.axi.scatter import Scatter
from rtl_templates.axi.writer import BurstWriter
from rtl_templates.hdl.hierarchy import Block, place


class AxiProbe(Block):
    """Reader and gatherer, scatterer and writer on one AXI4 port.

    Members
    -------
    mem_* : the port
    read_address, read_bytes, read_valid, read_ready : requests in
    beat_go : In(1)
        Whether a beat may go from the reader to the gatherer.
    beat_data, beat_first, beat_count, beat_last, beat_taken : Out
        A beat that goes.
    word_data, word_last, word_valid : Out
        What the gatherer makes of it.
    row_data, row_count, row_last, row_valid, row_ready, row_size, row_offset : words in
    data_go : In(1)
        Whether a beat may go from the scatterer to the writer.
    data_strobe, data_last, data_taken : Out
        A beat that goes.
    write_address, write_bytes, write_valid, write_ready : requests in
    stop, read_busy, read_error, write_busy, write_error :
        Of the reader and of the writer.
    """

    resettable = True

    def __init__(
        self, reader: BurstReader, gather: Gather, scatter: Scatter, writer: BurstWriter
    ) -> None:
        data_width, address_width = reader.width("o_data"), reader.width("ar_addr")
        members: dict[str, Any] = {
            f"mem_{name}": Out(bits) if way == "out" else In(bits)
            for name, way, bits in axi4_signals(data_width, address_width)
        }
        members |= {
            "read_address": In(address_width),
            "read_bytes": In(reader.width("i_bytes")),
            "read_valid": In(1),
            "read_ready": Out(1),
            "beat_go": In(1),
            **{f"beat_{name}": Out(reader.width(f"o_{name}")) for name in _BEAT},
            "beat_taken": Out(1),
            "word_data": Out(gather.width("o_data")),
            "word_last": Out(1),
            "word_valid": Out(1),
            **{f"row_{name}": In(scatter.width(f"i_{name}")) for name in _ROW},
            "row_ready": Out(1),
            "row_size": In(2),
            "row_offset": In(scatter.width("offset")),
            "data_go": In(1),
            "data_strobe": Out(data_width // 8),
            "data_last": Out(1),
            "data_taken": Out(1),
            "write_address": In(address_width),
            "write_bytes": In(writer.width("i_bytes")),
            "write_valid": In(1),
            "write_ready": Out(1),
            "stop": In(1),
            "read_busy": Out(1),
            "read_error": Out(1),
            "write_busy": Out(1),
            "write_error": Out(1),
        }
        super().__init__("probe", members)
        self.reader, self.gather, self.data_width = reader, gather, data_width
        self.scatter, self.writer = scatter, writer

    def build(self, m: Module) -> None:
        m.d.comb += fixed_fields(_Fields(self), self.data_width)
        self._read(m)
        self._write(m)

    def _read(self, m: Module) -> None:
        beat_valid = Signal()
        gather_ready = Signal()
        place(
            m,
            "reader",
            self.reader,
            **{f"i_{name}": getattr(self, f"read_{name}")
               for name in ("address", "bytes", "valid", "ready")},
            **{f"ar_{name}": getattr(self, f"mem_ar{name}")
               for name in ("addr", "len", "valid", "ready")},
            **{f"r_{name}": getattr(self, f"mem_r{name}")
               for name in ("data", "resp", "last", "valid", "ready")},
            **{f"o_{name}": getattr(self, f"beat_{name}") for name in _BEAT},
            o_valid=beat_valid,
            o_ready=gather_ready & self.beat_go,
            stop=self.stop,
            busy=self.read_busy,
            error=self.read_error,
        )  # fmt: skip
        m.d.comb += self.beat_taken.eq(beat_valid & self.beat_go & gather_ready)
        place(
            m,
            "gather",
            self.gather,
            **{f"i_{name}": getattr(self, f"beat_{name}") for name in _BEAT},
            i_valid=beat_valid & self.beat_go,
            i_ready=gather_ready,
            o_data=self.word_data,
            o_last=self.word_last,
            o_valid=self.word_valid,
        )

    def _write(self, m: Module) -> None:
        data = Signal(self.data_width)
        data_valid = Signal()
        writer_ready = Signal()
        place(
            m,
            "scatter",
            self.scatter,
            **{f"i_{name}": getattr(self, f"row_{name}") for name in (*_ROW, "ready")},
            size=self.row_size,
            offset=self.row_offset,
            o_data=data,
            o_strobe=self.data_strobe,
            o_last=self.data_last,
            o_valid=data_valid,
            o_ready=writer_ready & self.data_go,
        )
        m.d.comb += self.data_taken.eq(data_valid & self.data_go & writer_ready)
        place(
            m,
            "writer",
            self.writer,
            **{f"i_{name}": getattr(self, f"write_{name}")
               for name in ("address", "bytes", "valid", "ready")},
            d_data=data,
            d_strobe=self.data_strobe,
            d_last=self.data_last,
            d_valid=data_valid & self.data_go,
            d_ready=writer_ready,
            **{f"aw_{name}": getattr(self, f"mem_aw{name}")
               for name in ("addr", "len", "valid", "ready")},
            **{f"w_{name}": getattr(self, f"mem_w{name}")
               for name in ("data", "strb", "last", "valid", "ready")},
            **{f"b_{name}": getattr(self, f"mem_b{name}") for name in ("resp", "valid", "ready")},
            stop=self.stop,
            busy=self.write_busy,
            error=self.write_error,
        )  # fmt: skip


_ROW = ("data", "count", "last", "valid")
_BEAT = ("data", "first", "count", "last")


class _Fields:
    """The fields of the port, by the names that they have in a bus."""

    def __init__(self, block: Block) -> None:
        self._block = block

    def __getattr__(self, name: str) -> Any:
        return getattr(self._block, f"mem_{name}")
