# SPDX-License-Identifier: Apache-2.0
"""The AXI skin: a flat top with AXI4-Stream, AXI4 and AXI4-Lite names around any core.

The skin is derived from the signature of the core, so no family writes it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from amaranth.hdl import ClockDomain, Module, Signal
from amaranth.hdl._ir import PortDirection
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hwgen.core.register_map import FAULT_EVENTS
from rtl_templates.axi.bus import BusSignature


def beat_layout(width: int, *, last: bool) -> data.StructLayout:
    """Return the payload of a stream port: ``data`` of `width` bits and perhaps ``last``."""
    return data.StructLayout({"data": width, **({"last": 1} if last else {})})


def stream_members(ports: Iterable[Any]) -> dict[str, Any]:
    """Return the members of a core: a stream for each of the configuration's ports."""
    members = {}
    for port in ports:
        signature = stream.Signature(beat_layout(port.data_width, last=bool(port.last)))
        members[port.name] = In(signature) if port.direction == "in" else Out(signature)
    return members


def bus_members(buses: Iterable[Any]) -> dict[str, Any]:
    """Return the members of a core for the `BusPort` descriptions of its configuration."""
    return {
        bus.name: Out(bus.data_width) if bus.protocol == "output" else Out(BusSignature(bus))
        for bus in buses
    }


class AxiShell(wiring.Component):
    """Flat top module around a core.

    Each stream member ``x`` of the core becomes ``s_axis_x_*`` (input) or ``m_axis_x_*``
    (output), ``tlast`` only where the payload has a ``last`` field.  A member ``x`` with the
    signature of a bus (`rtl_templates.axi.bus`) becomes ``m_axi_x_*`` (AXI4) or ``s_axi_x_*``
    (AXI4-Lite); an output of one bit keeps its name.  Inputs of `FAULT_EVENTS` are ports until
    `rtl_templates.hdl.protection.protect` connects them.

    Parameters
    ----------
    core : wiring.Component
        Its members are streams with `beat_layout` payloads, buses and outputs of one bit.

    Attributes
    ----------
    ports : dict
        Flat ports of the top module in order: name to (signal, direction).
    """

    def __init__(self, core: wiring.Component) -> None:
        super().__init__({})
        self.core = core
        self._clock = Signal(name="aclk")
        self._reset = Signal(name="aresetn")
        self._wires: list[tuple[Any, Any]] = []
        self.ports: dict[str, tuple[Signal, PortDirection]] = {
            "aclk": (self._clock, PortDirection.Input),
            "aresetn": (self._reset, PortDirection.Input),
        }
        for name, member in core.signature.members.items():
            inner = getattr(core, name)
            if member.is_signature and isinstance(member.signature, stream.Signature):
                self._add_stream(name, inner, inward=member.flow == In)
            elif member.flow == Out and isinstance(
                member.signature if member.is_signature else None, BusSignature
            ):
                self._add_bus(name, inner, member.signature.port)
            elif member.is_port and member.flow == Out and len(inner) == 1:
                self._add(name, inner, inward=False)
            elif name in FAULT_EVENTS:
                self._add(name, inner, inward=True)
            else:
                raise TypeError(
                    f"member {name!r} of the core is neither a stream, nor a bus that faces"
                    " outwards, nor an output of one bit"
                )

    def _add_bus(self, name: str, bus: Any, description: Any) -> None:
        for (signal, direction, _), (flat, _, _) in zip(
            description.signals, replace(description, name=name).flat, strict=True
        ):
            self._add(flat, getattr(bus, signal), inward=direction == "in")

    def _add(self, name: str, inner: Any, *, inward: bool) -> None:
        """Give the inner signal a port of the top module."""
        outer = Signal(len(inner), name=name)
        direction = PortDirection.Input if inward else PortDirection.Output
        self.ports[name] = (outer, direction)
        self._wires.append((inner, outer) if inward else (outer, inner))

    def _add_stream(self, name: str, port: Any, *, inward: bool) -> None:
        prefix = f"{'s' if inward else 'm'}_axis_{name}"
        payload = port.payload
        fields = [("tdata", payload.data)]
        if "last" in payload.shape().members:
            fields.append(("tlast", payload.last))
        for suffix, inner, forward in (
            *((suffix, inner, True) for suffix, inner in fields),
            ("tvalid", port.valid, True),
            ("tready", port.ready, False),
        ):
            self._add(f"{prefix}_{suffix}", inner, inward=inward == forward)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.domains.sync = domain = ClockDomain()
        m.d.comb += [domain.clk.eq(self._clock), domain.rst.eq(~self._reset)]
        m.submodules.core = self.core
        m.d.comb += [target.eq(source) for target, source in self._wires]
        return m
