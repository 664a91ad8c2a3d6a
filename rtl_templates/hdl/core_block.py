# SPDX-License-Identifier: Apache-2.0
"""A core of any family as a block of an engine."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl_templates.hdl.hierarchy import Block


class Core(Block):
    """A core of any family as a block, its streams as plain ports.

    Parameters
    ----------
    core : Component
        A family's core; see `rtl_templates.hdl.core.StreamCore`.

    Members
    -------
    act_data, act_last, act_valid, act_ready : stream in
        ``act_last`` only where the port has one; so for ``wgt`` and, out, ``out``.
    """

    resettable = True

    def __init__(self, core: wiring.Component) -> None:
        self.core = core
        members: dict[str, Any] = {}
        for name, member in core.signature.members.items():
            toward, back = (In, Out) if member.flow == In else (Out, In)
            for field, shape in member.signature.members["payload"].shape.members.items():
                members[f"{name}_{field}"] = toward(shape)
            members |= {f"{name}_valid": toward(1), f"{name}_ready": back(1)}
        super().__init__("compute_core", members)

    def build(self, m: Module) -> None:
        m.submodules.core = self.core
        for name, member in self.core.signature.members.items():
            stream = getattr(self.core, name)
            inner = {
                f"{name}_{field}": stream.payload[field] for field in stream.payload.shape().members
            }
            inner[f"{name}_valid"] = stream.valid
            ready = getattr(self, f"{name}_ready")
            if member.flow == In:
                m.d.comb += [value.eq(getattr(self, key)) for key, value in inner.items()]
                m.d.comb += ready.eq(stream.ready)
            else:
                m.d.comb += [getattr(self, key).eq(value) for key, value in inner.items()]
                m.d.comb += stream.ready.eq(ready)
