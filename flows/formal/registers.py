# SPDX-License-Identifier: Apache-2.0
"""Properties of registers at an AXI4-Lite port."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from flows.formal.checker import Checker, Port
from hwgen.core.register_map import Register

_OKAY, _SLVERR = 0, 2


class RegisterRules(Checker):
    """Writes and reads as a manager sees them.

    Parameters
    ----------
    ports : mapping
        Ports of the block; those of the bus begin with ``bus_``.
    probes : mapping, optional
    """

    def writes(self, m: Module) -> None:
        """Record the oldest write that is not answered, and when it is answered.

        Attributes
        ----------
        answered : Signal
            The answer appears in this cycle; the write has had its effect.
        address, word, strobe : Signal
            The write.
        """
        aw = self["bus_awvalid"] & self["bus_awready"]
        w = self["bus_wvalid"] & self["bus_wready"]
        valid, ready = self["bus_bvalid"], self["bus_bready"]
        waits = Signal(name="b_waits")
        m.d.sync += waits.eq(valid & ~ready)
        self.answered = Signal(name="write_answered")
        m.d.comb += self.answered.eq(valid & ~waits)
        self.has_address, self.has_word = Signal(name="has_address"), Signal(name="has_word")
        self.address = Signal(len(self["bus_awaddr"]) - 2, name="write_address")
        self.word, self.strobe = Signal(32, name="write_word"), Signal(4, name="write_strobe")
        m.d.sync += [
            self.has_address.eq(aw | (self.has_address & ~self.answered)),
            self.has_word.eq(w | (self.has_word & ~self.answered)),
        ]
        with m.If(aw):
            m.d.sync += self.address.eq(self["bus_awaddr"][2:])
        with m.If(w):
            m.d.sync += [self.word.eq(self["bus_wdata"]), self.strobe.eq(self["bus_wstrb"])]

    def write_lemmas(self) -> None:
        """State when the block accepts a write."""
        self.require(
            "one write at a time",
            (self["bus_awready"] == ~(self.has_address & ~self.answered))
            & (self["bus_wready"] == ~(self.has_word & ~self.answered)),
            "the next write is accepted when the one before is answered",
        )
        probe = self.probed
        self.require(
            "lemma write",
            (~(self.has_address & ~self.answered) | (probe["write_address"] == self.address))
            & (
                ~(self.has_word & ~self.answered)
                | ((probe["word"] == self.word) & (probe["strobe"] == self.strobe))
            ),
            "the write is stored",
        )


def write_probes(ports: Mapping[str, Port]) -> dict[str, tuple[str, int]]:
    """Return the registers of a block that store the write."""
    return {
        "write_address": ("write_address", ports["bus_awaddr"].width - 2),
        "word": ("word", 32),
        "strobe": ("strobe", 4),
    }


class RegisterChecker(RegisterRules):
    """Every access is answered once, in order, in time, and as the register map says.

    Parameters
    ----------
    ports : mapping
    registers : sequence of Register
    refusable : collection of str
        Registers at which a write may be refused, depending on the state of the engine; all if it
        contains ``*``.
    nets : mapping
        Registers that read as they were written: name to the net that stores it.
    """

    def __init__(
        self,
        ports: Mapping[str, Port],
        registers: Sequence[Register],
        refusable: Collection[str],
        nets: Mapping[str, str],
    ) -> None:
        self.registers, self.refusable, self.nets = registers, refusable, nets
        bits = {each.name: each.bits for each in registers}
        stored = {name.lower(): (net, bits[name]) for name, net in nets.items()}
        super().__init__(ports, {**stored, **write_probes(ports)})

    def check(self, m: Module) -> None:
        """State the rules of all five channels."""
        self.writes(m)
        self.write_lemmas()
        b_valid, b_ready, b_resp = self["bus_bvalid"], self["bus_bready"], self["bus_bresp"]
        both = self.has_address & self.has_word
        self.require("B after AW and W", ~self.answered | both, "every answer is that of a write")
        late, was_late = Signal(), Signal()
        m.d.comb += late.eq(both & ~self.answered & ~(b_valid & ~b_ready))
        m.d.sync += was_late.eq(late)
        self.require("B in time", ~(late & was_late), "a write is answered in the next cycle")
        self._stable(m, "b", ("resp",))
        self._stable(m, "r", ("resp", "data"))
        writable, may_refuse = self._written_as()
        self.require(
            "B response",
            ~self.answered
            | (
                (~writable | may_refuse | (b_resp == _OKAY))
                & (writable | (b_resp == _SLVERR))
                & ((b_resp == _OKAY) | (b_resp == _SLVERR))
            ),
            "a write is OKAY at a register that can be written, else SLVERR",
        )
        self._reads(m)
        first = Signal(init=1)
        m.d.sync += first.eq(0)
        self.require(
            "reset", ~first | (~b_valid & ~self["bus_rvalid"]), "a reset drops all answers"
        )
        self.cover(
            "a refused write after another", self.answered & (b_resp == _SLVERR) & ~first,
            "an address without a register",
        )  # fmt: skip

    def _stable(self, m: Module, channel: str, fields: tuple[str, ...]) -> None:
        valid, ready = self[f"bus_{channel}valid"], self[f"bus_{channel}ready"]
        stalled = Signal(name=f"{channel}_stalled")
        m.d.sync += stalled.eq(valid & ~ready)
        same: Value = valid
        for name in fields:
            before = Signal.like(self[f"bus_{channel}{name}"], name=f"{channel}{name}_before")
            m.d.sync += before.eq(self[f"bus_{channel}{name}"])
            same = same & (self[f"bus_{channel}{name}"] == before)
        self.require(
            f"{channel.upper()} stable", ~stalled | same, "an answer stays until it is accepted"
        )

    def _written_as(self) -> tuple[Value, Value]:
        """Return whether the written address is a register, and one that may refuse."""
        writable = [each for each in self.registers if each.access != "ro"]
        refusable = [
            each for each in writable if "*" in self.refusable or each.name in self.refusable
        ]
        return (
            Cat(self.address == each.offset // 4 for each in writable).any(),
            Cat(self.address == each.offset // 4 for each in refusable).any(),
        )

    def _reads(self, m: Module) -> None:
        accepted = self["bus_arvalid"] & self["bus_arready"]
        valid, ready = self["bus_rvalid"], self["bus_rready"]
        pending = Signal(name="read_pending")
        address = Signal(len(self["bus_araddr"]) - 2, name="read_address")
        m.d.sync += pending.eq(accepted | (pending & ~(valid & ready)))
        with m.If(accepted):
            m.d.sync += address.eq(self["bus_araddr"][2:])
        self.require(
            "R after AR", valid == pending, "every read is answered once, in the next cycle"
        )
        self.require(
            "AR accepted", self["bus_arready"] == (~valid | ready),
            "a read is accepted unless an answer waits",
        )  # fmt: skip
        mapped = Cat(address == each.offset // 4 for each in self.registers).any()
        self.require(
            "R response", ~valid | (self["bus_rresp"] == Mux(mapped, _OKAY, _SLVERR)),
            "a read is OKAY at a register, else SLVERR",
        )  # fmt: skip
        if self.nets:
            self._read_back(m, accepted, address)

    def _read_back(self, m: Module, accepted: Value, address: Value) -> None:
        """Require that an arbitrarily chosen register reads as it was written."""
        stored = [each for each in self.registers if each.name in self.nets]
        fixed, chosen = Signal(), Signal(range(len(stored)))
        m.d.sync += fixed.eq(1)
        with m.If(~fixed):
            m.d.sync += chosen.eq(self.choose("register", len(chosen)))
        offset, mask, net = Signal.like(address), Signal(32), Signal(32)
        for index, each in enumerate(stored):
            with m.If((chosen == index) | ((chosen >= len(stored)) & (index == 0))):
                m.d.comb += [
                    offset.eq(each.offset // 4),
                    mask.eq((1 << each.bits) - 1),
                    net.eq(self.probed[each.name.lower()]),
                ]
        contents, now, expected = Signal(32), Signal(32), Signal(32)
        written = self.answered & (self["bus_bresp"] == _OKAY) & (self.address == offset)
        for byte in range(4):
            part = slice(8 * byte, 8 * byte + 8)
            m.d.comb += now[part].eq(
                Mux(
                    written & self.strobe[byte] & fixed,
                    self.word[part] & mask[part],
                    contents[part],
                )
            )
        m.d.sync += contents.eq(now)
        with m.If(accepted):
            m.d.sync += expected.eq(now)
        self.require(
            "read back",
            ~(fixed & self["bus_rvalid"] & (address == offset)) | (self["bus_rdata"] == expected),
            "an arbitrarily chosen register reads as its bytes were written last",
        )
        self.require("lemma contents", ~fixed | (net == now), "the register has these contents")
