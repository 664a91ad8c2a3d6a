# SPDX-License-Identifier: Apache-2.0
"""The AXI skin: a flat top with AXI4-Stream names around any core.

The skin is derived from the signature of the core, so no family writes it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from amaranth.hdl import ClockDomain, Module, Signal
from amaranth.hdl._ir import PortDirection
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out


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


class AxiShell(wiring.Component):
    """Flat top module around a core.

    Each stream member ``x`` of the core becomes ``s_axis_x_*`` (input) or ``m_axis_x_*``
    (output), ``tlast`` only where the payload has a ``last`` field.

    Parameters
    ----------
    core : wiring.Component
        Its members are streams with `beat_layout` payloads.

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
            if not (member.is_signature and isinstance(member.signature, stream.Signature)):
                raise TypeError(f"member {name!r} of the core is not a stream")
            self._add_stream(name, getattr(core, name), inward=member.flow == In)

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
            outer = Signal(len(inner), name=f"{prefix}_{suffix}")
            is_input = inward == forward
            direction = PortDirection.Input if is_input else PortDirection.Output
            self.ports[outer.name] = (outer, direction)
            self._wires.append((inner, outer) if is_input else (outer, inner))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.domains.sync = domain = ClockDomain()
        m.d.comb += [domain.clk.eq(self._clock), domain.rst.eq(~self._reset)]
        m.submodules.core = self.core
        m.d.comb += [target.eq(source) for target, source in self._wires]
        return m
