# SPDX-License-Identifier: Apache-2.0
"""Blocks with streams as members, their connections, and roles of instances."""

from __future__ import annotations

import gc
import re

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from flows.build.verilog import rtlil_to_netlist
from rtl_templates.hdl.hierarchy import Block, emit_block, in_role, place, roles_of
from rtl_templates.hdl.streams import Stream, connect, fields, new_stream
from rtl_templates.stream.stream import StreamBuffer, StreamFifo, buffered

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""Amaranth warns of modules that were refused before they were used."""

WORD = data.StructLayout({"data": 6, "last": 1})


class Pair(Block):
    """A buffer of words and the FIFO after it, on a port with two streams."""

    resettable = True

    def __init__(self, wrong: str = "") -> None:
        port = wiring.Signature({"i": In(stream.Signature(WORD)), "o": Out(stream.Signature(WORD))})
        super().__init__("pair", {"port": Out(port), "count": Out(stream.Signature(3))})
        self.wrong = wrong

    def build(self, m: Module) -> None:
        words = buffered(m, "buffer", self.port.i)
        if self.wrong == "left out":
            place(m, "fifo", StreamFifo(7, 4), o=self.port.o)
        elif self.wrong == "width":
            place(m, "fifo", StreamFifo(6, 4), i=words, o=self.port.o)
        elif self.wrong == "value":
            place(m, "fifo", StreamFifo(7, 4), i=Signal(7), o=self.port.o)
        elif self.wrong == "name":
            place(m, "fifo", StreamFifo(7, 4), i=words, out=self.port.o)
        with in_role("queue"):
            queued = place(m, "fifo", StreamFifo(7, 4), i=words).o
            place(m, "store", StreamBuffer(3), i=new_stream("none", 3), o=self.count, role="count")
        assert len(queued.payload) == 7
        connect(m, queued, self.port.o)


def test_streams_are_ports_by_field() -> None:
    block = Pair()
    assert list(block.ports) == [
        "port_i_data", "port_i_last", "port_i_valid", "port_i_ready",
        "port_o_data", "port_o_last", "port_o_valid", "port_o_ready",
        "count_data", "count_valid", "count_ready",
    ]  # fmt: skip
    flows = {name: member.flow for name, member in block.ports.items()}
    assert [name for name in flows if flows[name] == In] == [
        "port_i_data", "port_i_last", "port_i_valid", "port_o_ready", "count_ready",
    ]  # fmt: skip
    assert (block.width("port_i_data"), block.width("count")) == (6, 3)
    text = "\n".join(emit_block(block, "x"))
    assert re.search(r"wire width 6 input \d+ [^\n]*\\port_i_data", text)
    assert re.search(r"wire width 1 output \d+ [^\n]*\\port_i_ready", text)


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ("left out", TypeError, "fifo_7x4: 'i' of 'fifo' is not connected"),
        ("width", ValueError, "fifo_6x4: 'fifo': port 'i' is 6 bits wide, not 7"),
        ("value", TypeError, "fifo_7x4: 'fifo': 'i' must be connected to a stream, not "),
        ("name", TypeError, "fifo_7x4: no member is called out"),
    ],
)
def test_wrong_connections_are_refused(wrong: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        list(emit_block(Pair(wrong), "x"))
    gc.collect()


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_streams_of_other_widths_are_not_connected() -> None:
    with pytest.raises(ValueError, match=r"^a stream of 3 bits cannot drive one of 4$"):
        connect(Module(), new_stream("a", 3), new_stream("b", 4))
    gc.collect()


def test_a_payload_names_its_fields() -> None:
    source = Stream(fields(data=Signal(6), last=Signal()), Signal())
    assert source.payload.shape() == WORD
    with pytest.raises(AttributeError, match=r"^the payload has no field .first., only data, "):
        _ = source.payload.first


def test_roles_of_instances() -> None:
    modules = list(emit_block(Pair(), "x"))
    assert roles_of(modules) == {("x_pair", "fifo"): "queue", ("x_pair", "store"): "count"}
    verilog, netlist = rtlil_to_netlist(modules)
    cells = netlist["x_pair"]["cells"]
    assert {name: cell["attributes"].get("role") for name, cell in cells.items()} == {
        "buffer": None,
        "fifo": "queue",
        "store": "count",
    }
    assert "role" not in verilog
