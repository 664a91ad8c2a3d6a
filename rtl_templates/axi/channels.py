# SPDX-License-Identifier: Apache-2.0
"""The channels of an AXI4 memory port as streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl_templates.hdl.streams import AnyStream, Stream, connect, fields, new_stream
from rtl_templates.stream.stream import buffered

if TYPE_CHECKING:
    from hwgen.core.params.memory_port import Memory

FIELDS = {
    "ar": ("addr", "len"),
    "r": ("data", "resp", "last"),
    "aw": ("addr", "len"),
    "w": ("data", "strb", "last"),
    "b": ("resp",),
}
"""Fields of the payload of each channel."""


def address_channel(address_width: int) -> stream.Signature:
    """Return the signature of an address channel; ``len`` is the beats of a burst less one."""
    return stream.Signature(data.StructLayout({"addr": address_width, "len": 8}))


def read_channel(data_width: int) -> stream.Signature:
    """Return the signature of the read data channel."""
    return stream.Signature(data.StructLayout({"data": data_width, "resp": 2, "last": 1}))


def write_channel(data_width: int) -> stream.Signature:
    """Return the signature of the write data channel."""
    layout = data.StructLayout({"data": data_width, "strb": data_width // 8, "last": 1})
    return stream.Signature(layout)


def response_channel() -> stream.Signature:
    """Return the signature of the write response channel."""
    return stream.Signature(data.StructLayout({"resp": 2}))


class MemorySignature(wiring.Signature):
    """Signature of a memory port, seen from the manager.

    Parameters
    ----------
    memory : Memory

    Members
    -------
    ar, aw, w : Out(stream)
    r, b : In(stream)
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        super().__init__(
            {
                "ar": Out(address_channel(memory.address_width)),
                "r": In(read_channel(memory.data_width)),
                "aw": Out(address_channel(memory.address_width)),
                "w": Out(write_channel(memory.data_width)),
                "b": In(response_channel()),
            }
        )


@dataclass(frozen=True)
class Channels:
    """The channels of an AXI4 bus as streams."""

    ar: AnyStream
    r: AnyStream
    aw: AnyStream
    w: AnyStream
    b: AnyStream


def channels_of(bus: wiring.PureInterface) -> Channels:
    """Return the channels of an AXI4 bus of `rtl_templates.axi.bus`."""
    return Channels(
        **{
            channel: Stream(
                fields(**{name: getattr(bus, f"{channel}{name}") for name in names}),
                getattr(bus, f"{channel}valid"),
                getattr(bus, f"{channel}ready"),
            )
            for channel, names in FIELDS.items()
        }
    )


def registered(m: Module, name: str, port: Channels) -> Channels:
    """Return the channels of a manager whose registers drive a port: no path leads through.

    Parameters
    ----------
    m : Module
    name : str
        Of the port; its channels are called ``NAME_CHANNEL``.
    port : Channels
        The port, seen from the manager.
    """
    inner: dict[str, AnyStream] = {}
    for channel in ("ar", "aw", "w"):
        outer = getattr(port, channel)
        inner[channel] = new_stream(f"{name}_{channel}", outer.payload.shape())
        connect(m, buffered(m, f"{name}_{channel}_held", inner[channel]), outer)
    for channel in ("r", "b"):
        inner[channel] = buffered(m, f"{name}_{channel}", getattr(port, channel))
    return Channels(**inner)
