# SPDX-License-Identifier: Apache-2.0
"""A block with the AXI engines side by side, for simulation alone."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from hwgen.buses import axi4_signals
from rtl_templates.axi.bus import fixed_fields
from rtl_templates.axi.gather import Gather
from rtl_templates.axi.reader import BurstReader
from rtl_templates.hierarchy import Block, place

TOP = "axi_probe"
"""Name of the module."""


class AxiProbe(Block):
    """Reader and gatherer on the read channels of an AXI4 port.

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
    stop, read_busy, read_error :
        Of the reader.
    """

    resettable = True

    def __init__(self, reader: BurstReader, gather: Gather) -> None:
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
            "stop": In(1),
            "read_busy": Out(1),
            "read_error": Out(1),
        }
        super().__init__("probe", members)
        self.reader, self.gather, self.data_width = reader, gather, data_width

    def build(self, m: Module) -> None:
        m.d.comb += fixed_fields(_Fields(self), self.data_width)
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


_BEAT = ("data", "first", "count", "last")


class _Fields:
    """The fields of the port, by the names that they have in a bus."""

    def __init__(self, block: Block) -> None:
        self._block = block

    def __getattr__(self, name: str) -> Any:
        return getattr(self._block, f"mem_{name}")
