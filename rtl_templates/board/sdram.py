# SPDX-License-Identifier: Apache-2.0
"""A controller between an AXI4 port and an SDR SDRAM of 16 bits."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from hwgen.board.sdram import RATIOS, SdramChip, sdram_ports
from rtl_templates.axi.bus import axi4, check_data_width
from rtl_templates.board.sdram_timing import SdramCycles, sdram_cycles

WORD = 16
"""Bits of a word of the chip."""

LONGEST_BURST = 8
"""Words of a read or write at most."""

STORED_BEATS = 16
"""Beats that are stored in each direction."""

_SLVERR = 2
_INCREMENTING = 1

_NOP, _ACTIVATE, _READ, _WRITE, _PRECHARGE, _REFRESH, _MODE = (
    0b111, 0b110, 0b101, 0b001, 0b010, 0b100, 0b000,
)  # we_n, cas_n, ras_n  # fmt: skip
_HIGH = ("cs_n", "ras_n", "cas_n", "we_n", "dqm")  # before the first cycle
_EVERY_BANK = 1 << 10  # bit of the address of a precharge


def burst_words(data_width: int) -> int:
    """Return the words of a read or write for a port of some bits."""
    return min(LONGEST_BURST, data_width // WORD)


@dataclass(frozen=True)
class _Steps:
    """Cycles of the chip, from command to command, as cycles of the controller.

    Of two cycles of the chip the first has reads and writes, the last all other commands.
    """

    ratio: int

    def same(self, cycles: int) -> int:
        """Return the cycles between two commands of one sort."""
        return -(-cycles // self.ratio)

    def to_column(self, cycles: int) -> int:
        """Return the cycles from another command to a read or write."""
        return self.same(cycles + self.ratio - 1)

    def from_column(self, cycles: int) -> int:
        """Return the cycles from a read or write to another command."""
        return self.same(cycles - self.ratio + 1)


class _Wait:
    """A counter of cycles until something is allowed."""

    def __init__(self, m: Module, name: str, longest: int) -> None:
        self._m = m
        self._count = Signal(range(max(2, longest + 1)), name=f"{name}_wait")
        self.over = self._count == 0
        with m.If(~self.over):
            m.d.sync += self._count.eq(self._count - 1)

    def start(self, cycles: int) -> None:
        """Allow it `cycles` after this cycle; 1 is the next one."""
        self._m.d.sync += self._count.eq(max(0, cycles - 1))


class _Bank:
    """State of a bank: its open row, and what it must wait for."""

    def __init__(
        self, m: Module, index: int, row_bits: int, burst: int, t: SdramCycles, steps: _Steps
    ) -> None:
        self.open = Signal(name=f"open_{index}")
        self.row = Signal(row_bits, name=f"row_{index}")
        recovery = max(burst, t.wr - 1)
        self.cycle = _Wait(m, f"cycle_{index}", steps.same(max(t.rc, t.rfc)))
        self.precharge = _Wait(m, f"precharge_{index}", steps.same(max(t.rp, t.mrd)))
        self.row_open = _Wait(m, f"row_open_{index}", steps.same(t.ras))
        self.column = _Wait(m, f"column_{index}", steps.to_column(t.rcd))
        self.words = _Wait(m, f"words_{index}", steps.same(max(burst + t.wr, recovery)))
        self.idle = self.cycle.over & self.precharge.over
        self.closable = self.row_open.over & self.words.over
        self.after_read = steps.from_column(recovery)
        self.after_write = steps.from_column(burst - 1 + t.wr)


@dataclass(frozen=True)
class SdramParams:
    """Parameters of the controller.

    Parameters
    ----------
    chip : SdramChip
    clock_hz : float
        Frequency of the controller.
    data_width, address_width : int
        Bits of the port.
    capture : int
        Cycles later, or -1 for one earlier, that a word of the chip is sampled: 0 if the chip has
        the controller's clock, -1 if it has the inverted one.  With a ratio of 2, cycles of the
        chip by which the pads delay outputs and words together (`hwgen.board.sdram_pads`).
    cycles : SdramCycles, optional
        Timing instead of that of the chip.
    ratio : int
        Cycles of the chip in a cycle of the controller: 1 or 2.

    Raises
    ------
    ValueError
        If a parameter, or the chip at this clock, is not supported.
    """

    chip: SdramChip
    clock_hz: float
    data_width: int
    address_width: int
    capture: int = 0
    cycles: SdramCycles | None = None
    ratio: int = 1

    def __post_init__(self) -> None:
        check_data_width(self.data_width)
        if self.ratio not in RATIOS:
            raise ValueError(f"ratio must be 1 or 2, not {self.ratio!r}")
        if self.ratio > 1 and not 0 <= self.capture <= _LATEST_CAPTURE:
            raise ValueError(f"capture must be 0 to {_LATEST_CAPTURE}, not {self.capture!r}")
        if self.ratio == 1 and self.capture not in (-1, 0, 1):
            raise ValueError(f"capture must be -1, 0 or 1, not {self.capture!r}")
        least = self.chip.size.bit_length() - 1
        if self.address_width < least:
            raise ValueError(
                f"address_width must be at least {least}, not {self.address_width!r}:"
                f" {self.chip.summary}"
            )
        _ = self.timing

    @property
    def timing(self) -> SdramCycles:
        """Timing in cycles of the chip: that given, else that of the chip."""
        if self.cycles is not None:
            return self.cycles
        words, clock_hz = burst_words(self.data_width), self.ratio * self.clock_hz
        return sdram_cycles(self.chip, clock_hz, words, self.ratio)


_LATEST_CAPTURE = 16


class SdramController(wiring.Component):
    """Gives an AXI4 manager an SDR SDRAM as memory.

    Rows stay open until another row of their bank is needed or a refresh is due.  While the words
    of a burst go over the pins, the row of the next one is opened if it is in another bank.
    Bursts are served in order, reads and writes alternating where both wait; a burst of writes
    whose data do not come delays those after it, but no refresh.

    A burst beyond the end of the memory, of another type than INCR, or of narrow beats is answered
    with SLVERR and does not touch the chip.

    With a ratio of 2 each pin has two values a cycle, and registers of the pads put them out one
    after the other.  Reads and writes are in the first half of a cycle, other commands in the
    second: rows are opened and closed while words go over the pins in every cycle.

    Parameters
    ----------
    params : SdramParams

    Attributes
    ----------
    bus : In(BusSignature)
        The port (`rtl_templates.axi.bus.axi4`).
    ready : Signal
        Start-up has ended; before, the port accepts no addresses.
    cke, cs_n, ras_n, cas_n, we_n, ba, a, dqm, dq_o, dq_oe, dq_i : Signal
        Pins of the chip (`hwgen.board.sdram.sdram_ports`); with a ratio of 1 outputs are registers.
    """

    def __init__(self, params: SdramParams) -> None:
        chip = params.chip
        super().__init__({
            "bus": In(axi4(params.data_width, params.address_width)), "ready": Out(1),
            **{
                name: In(bits) if name == "dq_i" else Out(bits, init=-(name in _HIGH) % (1 << bits))
                for name, bits in sdram_ports(params.ratio).items()
            },
        })  # fmt: skip
        self._ratio, self._steps = params.ratio, _Steps(params.ratio)
        self._chip, self._width, self._capture = chip, params.data_width, params.capture
        self._burst = burst = burst_words(params.data_width)
        self._cycles = params.timing
        self._unit = burst.bit_length() - 1  # bits of a word within a read or write
        self._parts = params.data_width // WORD // burst
        self._position = chip.row_bits + chip.bank_bits + chip.column_bits - self._unit
        self._request = data.StructLayout({
            "position": self._position, "length": 8, "id": 1, "write": 1, "error": 1,
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m, t, chip, steps = Module(), self._cycles, self._chip, self._steps
        following, current = Signal(self._request), Signal(self._request)
        following_valid, current_valid, part = Signal(), Signal(), Signal(range(self._parts))
        self._accept(m, following, following_valid)

        banks = [
            _Bank(m, index, chip.row_bits, self._burst, t, steps)
            for index in range(1 << chip.bank_bits)
        ]
        busy, turn = steps.same(self._burst), steps.same(t.cas + self._burst + 1)
        activate, read, write = (_Wait(m, "activate", steps.same(t.rrd)), _Wait(m, "read", busy),
                                 _Wait(m, "write", turn))  # fmt: skip

        # A read or write of the current burst, on the pins unless the burst is an error.
        column, last_part = Signal(), Signal()
        ends_burst, space = Signal(), Signal()
        run, due = Signal(), Signal()
        bank, row, hit = self._look_up(m, "current", current, banks)
        open_column = Array(each.column.over for each in banks)[bank]
        m.d.comb += [
            column.eq(
                run & ~due & current_valid & space & Mux(current.write, write.over, read.over)
                & (current.error | (hit & open_column))
            ),
            last_part.eq(part == self._parts - 1),
            ends_burst.eq(last_part & (current.length == 0)),
        ]  # fmt: skip
        with m.If(column):
            m.d.sync += [
                current.position.eq(current.position + 1),
                part.eq(Mux(last_part, 0, part + 1)),
                current.length.eq(current.length - last_part),
            ]
        with m.If(~current_valid | (column & ends_burst)):
            m.d.sync += current_valid.eq(following_valid)
            with m.If(following_valid):
                m.d.sync += [current.eq(following), following_valid.eq(0)]

        command, pin_bank, pins = Signal(3, init=_NOP), Signal(chip.bank_bits), Signal(13)
        m.d.comb += command.eq(_NOP)
        if self._ratio == 1:
            m.d.sync += [
                self.cke.eq(1), self.cs_n.eq(0), self.ba.eq(pin_bank), self.a.eq(pins),
                Cat(self.ras_n, self.cas_n, self.we_n).eq(command),
            ]  # fmt: skip
            column_command, column_bank, column_pins = command, pin_bank, pins
        else:
            column_command = Signal(3, init=_NOP)
            column_bank, column_pins = Signal(chip.bank_bits), Signal(13)
            m.d.comb += column_command.eq(_NOP)
            m.d.sync += [self.cke.eq(-1), self.cs_n.eq(0)]
            self._both(m, (column_command, column_bank, column_pins), (command, pin_bank, pins))

        with m.If(column):
            with m.If(~current.error):
                m.d.comb += [
                    column_command.eq(Mux(current.write, _WRITE, _READ)),
                    column_bank.eq(bank),
                    column_pins.eq(Cat(Const(0, self._unit), self._column(current))),
                ]
                for index, each in enumerate(banks):
                    with m.If(bank == index):
                        with m.If(current.write):
                            each.words.start(each.after_write)
                        with m.Else():
                            each.words.start(each.after_read)
            read.start(busy)
            with m.If(current.write):
                write.start(busy)
            with m.Else():
                # The chip leaves the pins for a cycle before the controller drives them.
                write.start(turn)
        with m.Elif(run & ~due) if self._ratio == 1 else m.If(run & ~due):
            self._rows(
                m, banks, activate, command, pin_bank, pins,
                (current_valid & ~current.error, bank, row, hit),
                (following_valid & ~following.error & (self._bank_of(following) != bank),
                 *self._look_up(m, "following", following, banks)),
            )  # fmt: skip
        self._refresh(m, banks, run, due, command, pins)
        beat_space = self._reads(m, column, current, part, last_part, ends_burst)
        write_space = self._writes(m, column, current, part, last_part, ends_burst, run)
        m.d.comb += space.eq(Mux(current.write, write_space, beat_space))
        return m

    def _both(
        self, m: Module, first: tuple[Signal, Signal, Signal], second: tuple[Signal, Signal, Signal]
    ) -> None:
        """Drive the pins of both halves of a cycle with a command, its bank and its address."""
        for bit, pin in enumerate((self.ras_n, self.cas_n, self.we_n)):
            m.d.comb += pin.eq(Cat(first[0][bit], second[0][bit]))
        m.d.comb += [self.ba.eq(Cat(first[1], second[1])), self.a.eq(Cat(first[2], second[2]))]

    def _bank_of(self, request: Any) -> Value:
        start = self._chip.column_bits - self._unit
        return request.position[start : start + self._chip.bank_bits]

    def _column(self, request: Any) -> Value:
        return request.position[: self._chip.column_bits - self._unit]

    def _look_up(
        self, m: Module, name: str, request: Any, banks: list[_Bank]
    ) -> tuple[Value, Value, Signal]:
        """Return the bank and row of a request, and whether the row is open."""
        bank, row = self._bank_of(request), request.position[-self._chip.row_bits :]
        hit = Signal(name=f"{name}_hit")
        m.d.comb += hit.eq(Array(each.open & (each.row == row) for each in banks)[bank])
        return bank, row, hit

    def _accept(self, m: Module, request: Any, valid: Signal) -> None:
        """Accept an address when no request waits."""
        bus, writes_first, write = self.bus, Signal(), Signal()
        m.d.comb += write.eq(bus.awvalid & (writes_first | ~bus.arvalid))
        size = (self._width // 8).bit_length() - 1
        for channel, chosen in (("aw", write), ("ar", ~write & bus.arvalid)):
            address = getattr(bus, f"{channel}addr")
            beats = address[size : self._chip.size.bit_length() - 1]
            position = Cat(Const(0, self._parts.bit_length() - 1), beats)
            accepted = Signal(name=f"{channel}_accepted")
            m.d.comb += [
                accepted.eq(self.ready & ~valid & chosen),
                getattr(bus, f"{channel}ready").eq(accepted),
            ]
            with m.If(accepted):
                m.d.sync += [
                    valid.eq(1),
                    writes_first.eq(channel == "ar"),
                    request.position.eq(position),
                    request.length.eq(getattr(bus, f"{channel}len")),
                    request.id.eq(getattr(bus, f"{channel}id")),
                    request.write.eq(channel == "aw"),
                    request.error.eq(
                        address[self._chip.size.bit_length() - 1 :].any()
                        | (getattr(bus, f"{channel}burst") != _INCREMENTING)
                        | (getattr(bus, f"{channel}size") != size)
                    ),
                ]

    def _rows(
        self,
        m: Module,
        banks: list[_Bank],
        activate: _Wait,
        command: Signal,
        pin_bank: Signal,
        pins: Signal,
        *wanted: tuple[Value, Value, Value, Value],
    ) -> None:
        """Open the rows that are wanted, the first before the second."""
        done: Value = Const(0)
        for number, (valid, bank, row, hit) in enumerate(wanted):
            opened = Array(each.open for each in banks)[bank]
            can_open = Array(each.idle for each in banks)[bank]
            can_close = Array(each.closable for each in banks)[bank]
            opens, closes = Signal(name=f"opens_{number}"), Signal(name=f"closes_{number}")
            m.d.comb += [
                opens.eq(valid & ~opened & can_open & activate.over & ~done),
                closes.eq(valid & opened & ~hit & can_close & ~done),
            ]
            done = opens | closes
            with m.If(done):
                m.d.comb += pin_bank.eq(bank)
            with m.If(opens):
                m.d.comb += [command.eq(_ACTIVATE), pins.eq(row)]
                activate.start(self._steps.same(self._cycles.rrd))
            with m.If(closes):
                m.d.comb += command.eq(_PRECHARGE)
            for index, each in enumerate(banks):
                with m.If(opens & (bank == index)):
                    m.d.sync += [each.open.eq(1), each.row.eq(row)]
                    each.column.start(self._steps.to_column(self._cycles.rcd))
                    each.row_open.start(self._steps.same(self._cycles.ras))
                    each.cycle.start(self._steps.same(self._cycles.rc))
                with m.If(closes & (bank == index)):
                    m.d.sync += each.open.eq(0)
                    each.precharge.start(self._steps.same(self._cycles.rp))

    def _refresh(
        self,
        m: Module,
        banks: list[_Bank],
        run: Signal,
        due: Signal,
        command: Signal,
        pins: Signal,
    ) -> None:
        """Start the chip up, and refresh it in time."""
        t, steps = self._cycles, self._steps
        start_up, interval = t.start_up, t.refresh // self._ratio
        if self._ratio > 1:  # the first command is in the second half of a cycle, CKE in the first
            start_up = steps.from_column(t.start_up) + 1
        timer = Signal(range(max(start_up + 1, interval)), init=start_up)
        left = Signal(range(t.refreshes + 1), init=t.refreshes)
        idle, closable, opened = Signal(), Signal(), Signal()
        m.d.comb += [
            idle.eq(Cat(bank.idle for bank in banks).all()),
            closable.eq(Cat(bank.closable for bank in banks).all()),
            opened.eq(Cat(bank.open for bank in banks).any()),
            self.ready.eq(run),
        ]

        def close() -> None:
            m.d.comb += [command.eq(_PRECHARGE), pins.eq(_EVERY_BANK)]
            for bank in banks:
                m.d.sync += bank.open.eq(0)
                bank.precharge.start(steps.same(t.rp))

        def refresh() -> None:
            m.d.comb += command.eq(_REFRESH)
            for bank in banks:
                bank.cycle.start(steps.same(t.rfc))

        m.d.sync += timer.eq(Mux(timer == 0, interval - 1, timer - 1))
        with m.FSM():
            with m.State("PAUSE"), m.If(timer == 0):
                close()
                m.next = "REFRESH"
            with m.State("REFRESH"), m.If(idle):
                with m.If(left != 0):
                    refresh()
                    m.d.sync += [timer.eq(interval - 1), left.eq(left - 1)]
                with m.Else():
                    mode = (self._burst.bit_length() - 1) | t.cas << 4
                    m.d.comb += [command.eq(_MODE), pins.eq(mode)]
                    for bank in banks:
                        bank.precharge.start(steps.same(t.mrd))
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += run.eq(1)
                with m.If(timer == 0):
                    m.d.sync += due.eq(1)
                with m.If(due & opened & closable):
                    close()
                with m.If(due & ~opened & idle):
                    refresh()
                    m.d.sync += due.eq(0)

    def _reads(
        self, m: Module, column: Signal, current: Any, part: Signal, last_part: Signal,
        ends_burst: Signal,
    ) -> Value:  # fmt: skip
        """Return read data; return whether there is space for the beat of the next read."""
        bus, t = self.bus, self._cycles
        layout = data.StructLayout({"word": 1, "beat": 1, "error": 1, "id": 1, "last": 1})
        # Cycles from the decision to the first word, or to the first two, in `sampled`.
        first = t.cas + self._capture + 2
        if self._ratio > 1:
            first = self._steps.same(t.cas + self._capture)
        busy = self._steps.same(self._burst)
        stages = [Signal(layout, name=f"read_{index}") for index in range(first + busy + 1)]
        m.d.comb += [
            stages[0].word.eq(column & ~current.write),
            stages[0].beat.eq(column & ~current.write & last_part),
            stages[0].error.eq(current.error),
            stages[0].id.eq(current.id),
            stages[0].last.eq(ends_burst),
        ]
        for before, after in pairwise(stages):
            m.d.sync += after.eq(before)
        sampled, beat = Signal(self._ratio * WORD), Signal(self._width)
        self._sample(m, sampled)
        with m.If(Cat(stage.word for stage in stages[first : first + busy]).any()):
            m.d.sync += beat.eq(Cat(beat, sampled)[len(sampled) :])
        end = stages[-1]
        fifo = SyncFIFOBuffered(width=self._width + 3, depth=STORED_BEATS)
        m.submodules.read_beats = fifo
        error, name, last = Signal(), Signal(), Signal()
        m.d.comb += [
            fifo.w_en.eq(end.beat),
            fifo.w_data.eq(Cat(Mux(end.error, 0, beat), end.error, end.id, end.last)),
            Cat(bus.rdata, error, name, last).eq(fifo.r_data),
            bus.rresp.eq(Mux(error, _SLVERR, 0)),
            bus.rid.eq(name),
            bus.rlast.eq(last),
            bus.rvalid.eq(fifo.r_rdy),
            fifo.r_en.eq(bus.rready),
        ]
        free = Signal(range(STORED_BEATS + 1), init=STORED_BEATS)
        claimed = column & ~current.write & (part == 0)
        m.d.sync += free.eq(free - claimed + (bus.rvalid & bus.rready))
        return (free != 0) | (part != 0)

    def _sample(self, m: Module, sampled: Signal) -> None:
        """Drive the words of a cycle of a read, which begin in either half of a cycle."""
        if self._ratio == 1:
            m.d.sync += sampled.eq(self.dq_i)
        elif (self._cycles.cas + self._capture) % 2:
            before = Signal(WORD)
            m.d.sync += before.eq(self.dq_i[WORD:])
            m.d.comb += sampled.eq(Cat(before, self.dq_i))
        else:
            m.d.comb += sampled.eq(self.dq_i)

    def _writes(
        self, m: Module, column: Signal, current: Any, part: Signal, last_part: Signal,
        ends_burst: Signal, run: Signal,
    ) -> Value:  # fmt: skip
        """Send data to the pins; return whether the next write has data, and its answer space."""
        bus, words = self.bus, self._burst
        strobes = self._width // 8
        beats = SyncFIFOBuffered(width=self._width + strobes, depth=STORED_BEATS)
        answers = SyncFIFOBuffered(width=2, depth=4)
        m.submodules.write_beats, m.submodules.answers = beats, answers
        issued, rest, masks = Signal(), Signal(WORD * words), Signal(2 * words, init=-1)
        ratio, busy = self._ratio, self._steps.same(words)
        left = Signal(range(max(2, busy)))
        values = Array(beats.r_data[: self._width].word_select(index, WORD * words)
                       for index in range(self._parts))[part]  # fmt: skip
        strobe = Array(beats.r_data[self._width :].word_select(index, 2 * words)
                       for index in range(self._parts))[part]  # fmt: skip
        error, name = Signal(), Signal()
        m.d.comb += [
            beats.w_en.eq(bus.wvalid),
            beats.w_data.eq(Cat(bus.wdata, bus.wstrb)),
            bus.wready.eq(beats.w_rdy),
            issued.eq(column & current.write),
            beats.r_en.eq(issued & last_part),
            answers.w_en.eq(issued & ends_burst),
            answers.w_data.eq(Cat(current.error, current.id)),
            Cat(error, name).eq(answers.r_data),
            bus.bresp.eq(Mux(error, _SLVERR, 0)),
            bus.bid.eq(name),
            bus.bvalid.eq(answers.r_rdy),
            answers.r_en.eq(bus.bready),
        ]
        if ratio == 1:
            m.d.comb += [self.dq_o.eq(rest[:WORD]), self.dqm.eq(masks[:2])]
            m.d.sync += [rest.eq(rest >> WORD), masks.eq(masks >> 2), self.dq_oe.eq(left != 0)]
            with m.If(left != 0):
                m.d.sync += left.eq(left - 1)
            with m.If(issued & ~current.error):
                m.d.sync += [
                    rest.eq(values), masks.eq(~strobe), left.eq(words - 1), self.dq_oe.eq(1),
                ]  # fmt: skip
        else:  # the first words are on the pins at once
            starts = issued & ~current.error
            m.d.comb += [
                self.dq_o.eq(Mux(starts, values, rest)),
                self.dqm.eq(Mux(starts, ~strobe, masks)),
                self.dq_oe.eq(starts | (left != 0)),
            ]
            m.d.sync += [rest.eq(rest >> (ratio * WORD)), masks.eq(masks >> (2 * ratio))]
            with m.If(left != 0):
                m.d.sync += left.eq(left - 1)
            with m.If(starts):
                m.d.sync += [
                    rest.eq(values >> (ratio * WORD)), masks.eq(~strobe >> (2 * ratio)),
                    left.eq(busy - 1),
                ]  # fmt: skip
        with m.If(~run):
            m.d.sync += masks.eq((1 << 2 * ratio) - 1)
        return beats.r_rdy & answers.w_rdy
