# SPDX-License-Identifier: Apache-2.0
"""One memory port for several managers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import Member

from rtl_templates.axi.channels import bus_members
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.stream.stream import StreamFifo

if TYPE_CHECKING:
    from hwgen.core.params.memory_port import Memory

_ADDRESSES = ("addr", "len")


class MemoryShare(Block):
    """Gives managers the memory in turn, a burst each; answers go to who asked.

    The memory answers in order, as all requests have one ID.  A manager that asks in every cycle
    keeps nobody waiting for more than a burst of each of the others.  Managers must take read data
    whatever the others do, and announce a burst of writes only when its data is there: then nobody
    waits for somebody who waits for it.

    Parameters
    ----------
    memory : Memory
        The port.
    managers : int
        How many there are, at least 2.
    outstanding : int
        Bursts in flight each way, of all together.

    Members
    -------
    Mi_ar_addr, ... Mi_b_ready for each manager i
        Its channels, as `rtl_templates.axi.channels.bus_members` of the other end.
    ar_addr, ... b_ready
        Those of the memory port; addresses are registers.
    """

    resettable = True

    def __init__(self, memory: Memory, managers: int, outstanding: int) -> None:
        if managers < 2:
            raise ValueError(f"managers must be at least 2, not {managers!r}")
        ports = bus_members(memory)
        members: dict[str, Member] = {
            f"M{i}_{name}": member.flip() for i in range(managers) for name, member in ports.items()
        }
        width, bits = memory.data_width, memory.address_width
        super().__init__(f"share_{managers}_{width}_{bits}_{outstanding}", {**members, **ports})
        self.managers, self.outstanding = managers, outstanding

    def build(self, m: Module) -> None:
        self._reads(m)
        self._writes(m)

    def _of(self, name: str) -> list[Signal]:
        return [getattr(self, f"M{i}_{name}") for i in range(self.managers)]

    def _order(
        self, m: Module, name: str, index: Value, put: Value, take: Value
    ) -> tuple[Signal, Signal, Signal]:
        """Place a queue of who asked; return who is next, whether anybody is, and the room."""
        next_one = Signal(range(self.managers), name=f"{name}_next")
        there, room = Signal(name=f"{name}_there"), Signal(name=f"{name}_room")
        place(
            m, f"{name}_order", StreamFifo(len(next_one), self.outstanding),
            i_data=index, i_valid=put, i_ready=room, o_data=next_one, o_valid=there, o_ready=take,
        )  # fmt: skip
        return next_one, there, room

    def _grant(self, m: Module, channel: str, room: Value) -> tuple[Signal, Signal]:
        """Take addresses in turn into a register; return whose, and whether one is taken."""
        asking = Cat(self._of(f"{channel}_valid"))
        last = Signal(range(self.managers), name=f"{channel}_last")
        chosen = Signal(range(self.managers), name=f"{channel}_chosen")
        # Whoever asks and comes first behind the last one; the last assignment that holds wins.
        for start in range(self.managers):
            with m.If(last == start):
                for step in range(self.managers, 0, -1):
                    who = (start + step) % self.managers
                    with m.If(asking[who]):
                        m.d.comb += chosen.eq(who)
        valid, ready = getattr(self, f"{channel}_valid"), getattr(self, f"{channel}_ready")
        taken = Signal(name=f"{channel}_taken")
        m.d.comb += taken.eq(asking.any() & room & (~valid | ready))
        for i, back in enumerate(self._of(f"{channel}_ready")):
            m.d.comb += back.eq(taken & (chosen == i))
        m.d.sync += valid.eq(taken | (valid & ~ready))
        for field in _ADDRESSES:
            held = Signal.like(
                getattr(self, f"{channel}_{field}"), name=f"{channel}_{field}_held", reset_less=True
            )
            m.d.comb += getattr(self, f"{channel}_{field}").eq(held)
            with m.If(taken):
                m.d.sync += held.eq(Array(self._of(f"{channel}_{field}"))[chosen])
        with m.If(taken):
            m.d.sync += last.eq(chosen)
        return chosen, taken

    def _reads(self, m: Module) -> None:
        room = Signal(name="r_space")
        chosen, taken = self._grant(m, "ar", room)
        ends = Signal(name="r_ends")
        who, there, free = self._order(m, "r", chosen, taken, ends)
        m.d.comb += [room.eq(free), ends.eq(self.r_valid & self.r_ready & self.r_last)]
        for i in range(self.managers):
            m.d.comb += getattr(self, f"M{i}_r_valid").eq(self.r_valid & there & (who == i))
            for field in ("data", "resp", "last"):
                m.d.comb += getattr(self, f"M{i}_r_{field}").eq(getattr(self, f"r_{field}"))
        m.d.comb += self.r_ready.eq(there & Array(self._of("r_ready"))[who])

    def _writes(self, m: Module) -> None:
        room = Signal(name="w_space")
        chosen, taken = self._grant(m, "aw", room)
        sent, answered = Signal(name="w_ends"), Signal(name="b_ends")
        writer, writing, free_w = self._order(m, "w", chosen, taken, sent)
        asker, waiting, free_b = self._order(m, "b", chosen, taken, answered)
        m.d.comb += [
            room.eq(free_w & free_b),
            self.w_valid.eq(writing & Array(self._of("w_valid"))[writer]),
            sent.eq(self.w_valid & self.w_ready & self.w_last),
            self.b_ready.eq(waiting & Array(self._of("b_ready"))[asker]),
            answered.eq(self.b_valid & self.b_ready),
        ]
        for field in ("data", "strb", "last"):
            m.d.comb += getattr(self, f"w_{field}").eq(Array(self._of(f"w_{field}"))[writer])
        for i in range(self.managers):
            m.d.comb += [
                getattr(self, f"M{i}_w_ready").eq(Mux(writing & (writer == i), self.w_ready, 0)),
                getattr(self, f"M{i}_b_valid").eq(self.b_valid & waiting & (asker == i)),
                getattr(self, f"M{i}_b_resp").eq(self.b_resp),
            ]
