# SPDX-License-Identifier: Apache-2.0
"""One memory port for several managers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl_templates.axi.channels import Channels, MemorySignature
from rtl_templates.hdl.hierarchy import Block
from rtl_templates.hdl.streams import AnyStream, Stream, transfers
from rtl_templates.stream.stream import StreamFifo, buffered

if TYPE_CHECKING:
    from hwgen.core.params.memory_port import Memory


class MemoryShare(Block):
    """Shares a memory port between managers, a burst each in turn.

    The memory answers in order, as all requests have one ID.  A manager that requests in every
    cycle delays no other by more than a burst of each.  Managers must accept read data whatever
    the others do, and issue a burst of writes only when its data is stored: then there is no
    deadlock.

    Parameters
    ----------
    memory : Memory
        The port.
    managers : int
        How many there are, at least 2.
    outstanding : int
        Bursts in flight in each direction, of all managers.

    With ``memory.registered`` a manager is chosen in one cycle and served in the next.

    Members
    -------
    M0, M1, ... : In(MemorySignature)
        The managers.
    mem : Out(MemorySignature)
        The memory port; addresses are registers.
    """

    resettable = True

    def __init__(self, memory: Memory, managers: int, outstanding: int) -> None:
        if managers < 2:
            raise ValueError(f"managers must be at least 2, not {managers!r}")
        signature = MemorySignature(memory)
        width, bits = memory.data_width, memory.address_width
        super().__init__(
            f"share_{managers}_{width}_{bits}_{outstanding}{'_registered' * memory.registered}",
            {**{f"M{i}": In(signature) for i in range(managers)}, "mem": Out(signature)},
        )
        self.managers, self.outstanding = managers, outstanding
        self.registered = memory.registered

    def build(self, m: Module) -> None:
        ports: list[Channels] = [getattr(self, f"M{i}") for i in range(self.managers)]
        self._reads(m, ports)
        self._writes(m, ports)

    def _order(self, m: Module, name: str, index: Value, push: Value) -> tuple[AnyStream, Signal]:
        """Return the queue of managers that are to be served, and whether it has space."""
        source = Stream(index, push, Signal(name=f"{name}_queue_ready"))
        queue = buffered(m, f"{name}_order", source, partial(StreamFifo, depth=self.outstanding))
        return queue, source.ready

    def _grant(
        self, m: Module, name: str, requests: list[AnyStream], address: AnyStream, space: Value
    ) -> tuple[Signal, Signal]:
        """Register addresses in turn; return the index of the manager, and whether one is granted.

        Parameters
        ----------
        m : Module
        name : str
            Name of the channel.
        requests : list of stream
            The channel of each manager.
        address : stream
            The channel of the memory port.
        space : Value
            Whether a burst may be issued.
        """
        asking = Cat(request.valid for request in requests)
        choose = self._choose_ahead if self.registered else self._choose
        chosen, granted, remember = choose(m, name, asking, space, ~address.valid | address.ready)
        for i, request in enumerate(requests):
            m.d.comb += request.ready.eq(granted & (chosen == i))
        m.d.sync += address.valid.eq(granted | (address.valid & ~address.ready))
        for field in ("addr", "len"):
            target = getattr(address.payload, field)
            register = Signal.like(target, name=f"{name}_{field}_reg", reset_less=True)
            m.d.comb += target.eq(register)
            with m.If(granted):
                values = Array(getattr(request.payload, field) for request in requests)
                m.d.sync += register.eq(values[chosen])
        with m.If(granted):
            m.d.sync += remember
        return chosen, granted

    def _choose(
        self, m: Module, name: str, asking: Value, space: Value, free: Value
    ) -> tuple[Signal, Signal, list[Any]]:
        """Return the first manager after the last one that requests, and whether it is served.

        Beside them is what happens when it is.
        """
        last = Signal(range(self.managers), name=f"{name}_last")
        chosen = Signal(range(self.managers), name=f"{name}_chosen")
        for start in range(self.managers):
            with m.If(last == start):
                for step in range(self.managers, 0, -1):  # the last assignment that holds wins
                    index = (start + step) % self.managers
                    with m.If(asking[index]):
                        m.d.comb += chosen.eq(index)
        granted = Signal(name=f"{name}_granted")
        m.d.comb += granted.eq(asking.any() & space & free)
        return chosen, granted, [last.eq(chosen)]

    def _choose_ahead(
        self, m: Module, name: str, asking: Value, space: Value, free: Value
    ) -> tuple[Signal, Signal, list[Any]]:
        """Return the same, chosen a cycle before it is served."""
        chosen = Signal(range(self.managers), name=f"{name}_chosen")
        waits, granted = Signal(name=f"{name}_waits"), Signal(name=f"{name}_granted")
        served, left, first = (
            Signal(self.managers, name=f"{name}_{word}") for word in ("served", "left", "first")
        )
        above = (1 << self.managers) - 2  # the first one was chosen
        later = Signal(self.managers, name=f"{name}_after_chosen", init=above)
        # What the manager that is served asks for next is not known yet.
        m.d.comb += [granted.eq(waits & space & free), left.eq(asking & ~served)]
        behind = left & later
        candidates = Mux(behind.any(), behind, left)
        m.d.comb += first.eq(
            Cat(candidates[i] & ~candidates[:i].any() for i in range(self.managers))
        )
        with m.If(granted | ~waits):
            m.d.sync += [waits.eq(left.any()), served.eq(first)]
            with m.If(left.any()):
                m.d.sync += [
                    later.eq(Cat(first[:i].any() for i in range(self.managers))),
                    chosen.eq(_index(first)),
                ]
        return chosen, granted, []

    def _reads(self, m: Module, ports: list[Channels]) -> None:
        space, r = Signal(name="r_space"), self.mem.r
        index, granted = self._grant(m, "ar", [port.ar for port in ports], self.mem.ar, space)
        reader, ready = self._order(m, "r", index, granted)
        m.d.comb += [space.eq(ready), reader.ready.eq(transfers(r) & r.payload.last)]
        for i, port in enumerate(ports):
            m.d.comb += [
                port.r.valid.eq(r.valid & reader.valid & (reader.payload == i)),
                port.r.payload.eq(r.payload),
            ]
        m.d.comb += r.ready.eq(reader.valid & Array(port.r.ready for port in ports)[reader.payload])

    def _writes(self, m: Module, ports: list[Channels]) -> None:
        space, w, b = Signal(name="w_space"), self.mem.w, self.mem.b
        index, granted = self._grant(m, "aw", [port.aw for port in ports], self.mem.aw, space)
        writer, writer_ready = self._order(m, "w", index, granted)
        asker, asker_ready = self._order(m, "b", index, granted)
        m.d.comb += [
            space.eq(writer_ready & asker_ready),
            w.valid.eq(writer.valid & Array(port.w.valid for port in ports)[writer.payload]),
            writer.ready.eq(transfers(w) & w.payload.last),
            b.ready.eq(asker.valid & Array(port.b.ready for port in ports)[asker.payload]),
            asker.ready.eq(transfers(b)),
        ]
        for field in ("data", "strb", "last"):
            values = Array(getattr(port.w.payload, field) for port in ports)
            m.d.comb += getattr(w.payload, field).eq(values[writer.payload])
        for i, port in enumerate(ports):
            m.d.comb += [
                port.w.ready.eq(Mux(writer.valid & (writer.payload == i), w.ready, 0)),
                port.b.valid.eq(b.valid & asker.valid & (asker.payload == i)),
                port.b.payload.eq(b.payload),
            ]


def _index(one: Signal) -> Value:
    """Return the index of the only bit that is one."""
    bits = range((len(one) - 1).bit_length())
    return Cat(Cat(one[i] for i in range(len(one)) if i >> bit & 1).any() for bit in bits)
