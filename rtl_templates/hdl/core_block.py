# SPDX-License-Identifier: Apache-2.0
"""A core of any family as a block of an engine."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from rtl_templates.hdl.hierarchy import Block
from rtl_templates.hdl.streams import connect


class Core(Block):
    """A core of any family as a block with the streams of the core.

    Parameters
    ----------
    core : Component
        A family's core; see `rtl_templates.hdl.core.StreamCore`.

    Members
    -------
    act, wgt : In(stream)
        Beats with ``data`` and, where the port has one, ``last``.
    out : Out(stream)
        As `act`.
    """

    resettable = True

    def __init__(self, core: wiring.Component) -> None:
        self.core = core
        super().__init__("compute_core", dict(core.signature.members.items()))

    def build(self, m: Module) -> None:
        m.submodules.core = self.core
        for name, member in self.members.items():
            inner, outer = getattr(self.core, name), getattr(self, name)
            if member.flow == In:
                connect(m, outer, inner)
            else:
                connect(m, inner, outer)
