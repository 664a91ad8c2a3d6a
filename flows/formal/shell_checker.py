# SPDX-License-Identifier: Apache-2.0
"""Properties of stream ports, of a whole design."""

from __future__ import annotations

from amaranth.hdl import Module, Signal

from flows.formal.checker import Checker


class PortChecker(Checker):
    """Observes the output streams of a design, ports ``STEM_tvalid``, ``_tready``, ``_tdata``."""

    @property
    def streams(self) -> list[str]:
        """Names of output streams."""
        stems = [name.removesuffix("_tvalid") for name in self.ports if name.endswith("_tvalid")]
        return [stem for stem in stems if not self.ports[f"{stem}_tvalid"].inward]

    def check(self, m: Module) -> None:
        """State that results are stable, and that a reset removes them."""
        first = Signal(init=1)
        m.d.sync += first.eq(0)
        for stem in self.streams:
            valid, ready = self[f"{stem}_tvalid"], self[f"{stem}_tready"]
            stalled = Signal(name=f"{stem}_stalled")
            m.d.sync += stalled.eq(valid & ~ready)
            same = valid
            for name in (f"{stem}_tdata", f"{stem}_tlast"):
                if name in self.ports:
                    before = Signal.like(self[name], name=f"{name}_before")
                    m.d.sync += before.eq(self[name])
                    same = same & (self[name] == before)
            self.require(
                f"{stem} stable", ~stalled | same,
                "valid, data and last of the result stay until the beat is accepted",
            )  # fmt: skip
            self.require(f"{stem} reset", ~(first & valid), "a reset empties the port")
