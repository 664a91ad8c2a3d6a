# SPDX-License-Identifier: Apache-2.0
"""The sequencer: executes the descriptors of a command list, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from hwgen.command_lists import (
    ALIGNMENT,
    BYTES,
    CONDITIONS,
    OPERATIONS,
    STATES,
    WINDOW_END,
    WINDOW_FIRST,
    code_of,
)
from hwgen.register_map import JOB_STATUS, UNIT_REGISTERS
from hwgen.register_map import STATES as JOB_STATES
from rtl_templates.hierarchy import Block, place

from .list_memory import INDEX_BITS
from .unit_bus import UnitBus

if TYPE_CHECKING:
    from collections.abc import Callable

    from hwgen.families.transformer import TransformerConfig

_SLOTS = 16
"""Jobs of a unit whose descriptors are remembered: as many as the longest queue holds."""

_FIRST_FAILURE = JOB_STATES.index("done") + 1

DESCRIPTOR = data.StructLayout({"code": 8, "a": 8, "b": 8, "c": 8, "small": 32, "large": 64})


class Sequencer(Block):
    """Fetches, computes, fills job windows, submits jobs, waits, and ends lists.

    A list ends with HALT, an error, or an abort; then all units are idle.

    Parameters
    ----------
    config : TransformerConfig

    Members
    -------
    start, abort : In(1)
        Pulses: begin the list; end it.
    base, length, limit : In
        Address and descriptors of the list, and how many are executed at most (0: no limit).
    running : Out(1)
    state, index, unit, steps : Out
        Code of `hwgen.command_lists.STATES`; at which descriptor; of which unit; how many were
        executed.
    ended : Out(1)
        Pulse.
    x_index, x, y_index, y, w_index, w, w_valid
        Two registers are read, and one is written.
    failures : In
        The units' interrupts: a job has ended with an error.
    m_... : ports of `ListMemory`
        Fetches, loads and stores.
    Ui_... : see `UnitBus`
    """

    resettable = True

    def __init__(self, config: TransformerConfig) -> None:
        self.config, self.count = config, len(config.units)
        self.bus = UnitBus(self.count)
        width, address = config.register_width, config.memory.address_width
        register = range(max(2, config.lists.registers))
        units = {name: port for name, port in self.bus.members.items() if name.startswith("U")}
        super().__init__(
            "sequencer",
            {
                "start": In(1),
                "abort": In(1),
                "base": In(address),
                "length": In(INDEX_BITS),
                "limit": In(32),
                "running": Out(1),
                "state": Out(range(len(STATES))),
                "index": Out(32),
                "unit": Out(range(max(2, self.count))),
                "steps": Out(32),
                "ended": Out(1),
                "x_index": Out(register),
                "x": In(width),
                "y_index": Out(register),
                "y": In(width),
                "w_index": Out(register),
                "w": Out(width),
                "w_valid": Out(1),
                "failures": In(self.count),
                "m_clear": Out(1),
                "m_index": Out(INDEX_BITS),
                "m_fetch": Out(1),
                "m_address": Out(address),
                "m_size": Out(2),
                "m_value": Out(64),
                "m_load": Out(1),
                "m_store": Out(1),
                "m_done": In(1),
                "m_error": In(1),
                "m_descriptor": In(8 * BYTES),
                "m_loaded": In(64),
                "m_stop": Out(1),
                "m_busy": In(1),
                **units,
            },
        )

    def build(self, m: Module) -> None:
        width = self.config.register_width
        self.pc = Signal(32, name="pc", reset_less=True)
        self.at = Signal(32, name="at", reset_less=True)
        self.d = Signal(DESCRIPTOR, name="descriptor", reset_less=True)
        self.raw = Signal(8, name="words_left")  # of a WINDOW, of which the next descriptor is part
        self.offset = Signal(32, name="offset", reset_less=True)
        self.scan = Signal(range(max(2, self.count)), name="scanned_unit", reset_less=True)
        self.step = Signal(range(max(8, _SLOTS + 1)), name="scan_step", reset_less=True)
        self.code = Signal(range(len(STATES)), name="code")
        self.place = Signal(32, name="error_index")
        self.blamed = Signal(range(max(2, self.count)), name="error_unit")
        self.tickets = [Signal(32, name=f"tickets_{i}", reset_less=True) for i in range(self.count)]
        self.jobs = [Signal(range(_SLOTS + 1), name=f"jobs_{i}") for i in range(self.count)]
        self.made_by = [
            Array(Signal(INDEX_BITS, name=f"made_{i}_{slot}", reset_less=True)
                  for slot in range(_SLOTS))
            for i in range(self.count)
        ]  # fmt: skip
        self.factor = Signal(32, name="factor", reset_less=True)
        self.shifted = Signal(width, name="shifted", reset_less=True)
        self.product = Signal(width, name="product", reset_less=True)
        self.words = Signal(8 * BYTES, name="words", reset_less=True)
        calls = self.config.lists.calls
        self.depth = Signal(range(calls + 1), name="open_calls")
        self.stack = Array(Signal(32, name=f"return_{i}", reset_less=True) for i in range(calls))
        self._bus(m)
        # How the list ends, noticed between descriptors and wherever the sequencer waits.
        self.trouble, self.asked = Signal(name="trouble"), Signal(name="abort_asked")
        m.d.comb += [
            self.trouble.eq(self.asked | self.failures.any()),
            self.state.eq(Mux(self.running, STATES.index("running"), self.code)),
            self.index.eq(self.place),
            self.unit.eq(self.blamed),
        ]
        with m.If(self.abort & self.running):
            m.d.sync += self.asked.eq(1)
        self._operands(m)
        with m.FSM(name="sequence"):
            self._begin(m)
            self._fetch(m)
            self._execute(m)
            self._memory(m)
            self._window(m)
            self._jobs(m)
            self._end(m)

    def _bus(self, m: Module) -> None:
        bits = {name: self.bus.width(name) for name in self.bus.members if name[0] != "U"}
        self.access = {name: Signal(count, name=f"bus_{name}") for name, count in bits.items()}
        units = {name: getattr(self, name) for name in self.bus.members if name.startswith("U")}
        place(m, "bus", self.bus, **self.access, **units)

    def _access(
        self, m: Module, unit: Value, address: Value | int, word: Value | int | None = None
    ) -> Value:
        """Access a register in this state, a write if there is a word; return when it is done."""
        access = self.access
        m.d.comb += [
            access["i_unit"].eq(unit),
            access["i_address"].eq(address),
            access["i_valid"].eq(1),
        ]
        if word is not None:
            m.d.comb += [access["i_write"].eq(1), access["i_data"].eq(word)]
        return access["done"]

    def _operands(self, m: Module) -> None:
        """Read the registers that a descriptor names, and tell whether all it names is there."""
        d, config = self.d, self.config
        store = d.code == code_of("STORE")
        m.d.comb += [self.x_index.eq(d.b), self.y_index.eq(Mux(store, d.a, d.c))]
        uses = {
            field: Cat(*(d.code == op.code for op in OPERATIONS if field in op.fields)).any()
            for field in ("a", "b", "c")
        }
        few = config.lists.registers
        of_units = Cat(*(d.code == code_of(name) for name in ("PUT", "WINDOW", "SUBMIT"))).any()
        of_memory = Cat(d.code == code_of("LOAD"), store).any()
        masks = Cat(*(d.code == code_of(name) for name in ("SUBMIT", "WAIT"))).any()
        put, window = d.code == code_of("PUT"), d.code == code_of("WINDOW")
        branch = d.code == code_of("BRANCH")
        a_is_register = uses["a"] & ~put & ~window & ~branch
        outside = (d.small < WINDOW_FIRST) | (d.small >= WINDOW_END) | d.small[:2].any()
        self.wrong = Signal(name="operand_is_wrong")
        m.d.comb += self.wrong.eq(
            (a_is_register & (d.a >= few))
            | (uses["b"] & (d.b >= few))
            | (uses["c"] & ~of_units & ~of_memory & (d.c >= few))
            | (of_units & (d.c >= self.count))
            | (of_memory & (d.c > 3))
            | (masks & (d.small >> self.count).any())
            | (put & ((d.a > 1) | outside | (d.a[0] & (d.small >= WINDOW_END - 4))))
            | (window & outside)
            | (branch & (d.a >= len(CONDITIONS)))
        )
        self.reach = Signal(self.config.register_width, name="reach")
        m.d.comb += self.reach.eq(self.x + d.large)

    def _fail(
        self, m: Module, state: str, index: Value | None = None, unit: Value | int = 0
    ) -> None:
        """End the list with an error at the descriptor at work."""
        m.d.sync += [
            self.code.eq(STATES.index(state)),
            self.place.eq(self.at if index is None else index),
            self.blamed.eq(unit),
            self.scan.eq(0),
            self.step.eq(0),
        ]
        m.next = "STOP"

    def _troubled(self, m: Module) -> None:
        """Go where an abort, or a job that failed, is dealt with."""
        m.d.sync += [self.scan.eq(0), self.step.eq(0)]
        with m.If(self.asked):
            self._fail(m, "aborted")
        with m.Else():
            m.next = "BLAME"

    def _each_unit(self, m: Module, done: Value, behind: Callable[[], None]) -> None:
        """Go to the next unit when this one is done, `behind` the last one on."""
        with m.If(done):
            m.d.sync += [self.scan.eq(self.scan + 1), self.step.eq(0)]
            with m.If(self.scan == self.count - 1):
                m.d.sync += self.scan.eq(0)
                behind()

    # -- states ----------------------------------------------------------------------------------

    def _begin(self, m: Module) -> None:
        def go() -> None:
            m.next = "FETCH"

        with m.State("IDLE"), m.If(self.start):
            m.d.sync += [
                self.running.eq(1),
                self.asked.eq(0),
                self.pc.eq(0),
                self.at.eq(0),
                self.steps.eq(0),
                self.raw.eq(0),
                self.depth.eq(0),
                self.scan.eq(0),
                self.step.eq(0),
                *(jobs.eq(0) for jobs in self.jobs),
            ]
            m.d.comb += self.m_clear.eq(1)
            m.next = "PREPARE"
        with m.State("PREPARE"):
            # Every unit: forget earlier failures, raise the line at new ones, how many jobs so far.
            registers = UNIT_REGISTERS
            done = Signal(name="prepared")
            with m.Switch(self.step):
                with m.Case(0):
                    answered = self._access(m, self.scan, registers["INTERRUPT"], 3)
                    with m.If(answered):
                        m.d.sync += self.step.eq(1)
                with m.Case(1):
                    answered = self._access(m, self.scan, registers["INTERRUPT_ENABLE"], 2)
                    with m.If(answered):
                        m.d.sync += self.step.eq(2)
                with m.Default():
                    m.d.comb += done.eq(self._access(m, self.scan, registers["SUBMITTED"]))
                    with m.If(done):
                        for i, tickets in enumerate(self.tickets):
                            with m.If(self.scan == i):
                                m.d.sync += tickets.eq(self.access["o_data"])
            self._each_unit(m, done, go)

    def _fetch(self, m: Module) -> None:
        misaligned = self.base[: ALIGNMENT.bit_length() - 1].any()
        with m.State("FETCH"):
            m.d.comb += self.m_index.eq(self.pc)
            with m.If(self.raw == 0):
                m.d.sync += self.at.eq(self.pc)
            with m.If(self.trouble):
                self._troubled(m)
            with m.Elif(misaligned):
                self._fail(m, "alignment", self.pc)
            with m.Elif((self.raw == 0) & self.limit.any() & (self.steps == self.limit)):
                self._fail(m, "limit", self.pc)
            with m.Elif(self.pc >= self.length):
                self._fail(m, "end_of_list", self.pc)
            with m.Else():
                m.d.comb += self.m_fetch.eq(1)
                with m.If(self.m_done & self.m_error):
                    self._fail(m, "read_error", self.pc)
                with m.Elif(self.m_done):
                    m.d.sync += self.pc.eq(self.pc + 1)
                    with m.If(self.raw == 0):
                        m.d.sync += Value.cast(self.d).eq(self.m_descriptor)
                        m.next = "EXECUTE"
                    with m.Else():
                        m.d.sync += self.words.eq(self.m_descriptor)
                        m.next = "WORDS"

    def _execute(self, m: Module) -> None:
        d = self.d
        taken = Signal(name="branch_taken")
        with m.State("EXECUTE"):
            m.d.sync += self.steps.eq(self.steps + 1)
            m.next = "FETCH"
            with m.If(d.code >= len(OPERATIONS)):
                m.d.sync += self.steps.eq(self.steps)
                self._fail(m, "opcode")
            with m.Elif(self.wrong):
                self._fail(m, "operand")
            with m.Else(), m.Switch(d.code):
                with m.Case(code_of("ADD")):
                    self._result(m, self.x + self.y + d.large)
                with m.Case(code_of("MULTIPLY")):
                    m.d.sync += [
                        self.factor.eq(d.small), self.shifted.eq(self.x), self.product.eq(self.y),
                    ]  # fmt: skip
                    m.next = "MULTIPLY"
                for name in ("LOAD", "STORE"):
                    with m.Case(code_of(name)):
                        ones = (1 << d.c[:2]) - 1
                        m.next = name
                        with m.If((self.reach[:3] & ones).any()):
                            self._fail(m, "alignment")
                with m.Case(code_of("PUT")):
                    m.next = "PUT_LOW"
                with m.Case(code_of("WINDOW")):
                    m.d.sync += [self.raw.eq(d.a), self.offset.eq(d.small)]
                for name in ("SUBMIT", "WAIT", "HALT"):
                    with m.Case(code_of(name)):
                        m.d.sync += [self.scan.eq(0), self.step.eq(0)]
                        m.next = "WAIT"
                with m.Case(code_of("BRANCH")):
                    with m.Switch(d.a):
                        for code, name in enumerate(CONDITIONS):
                            with m.Case(code):
                                m.d.comb += taken.eq(self._condition(name))
                    with m.If(taken):
                        m.d.sync += self.pc.eq(d.small)
                with m.Case(code_of("CALL")):
                    with m.If(self.depth == self.config.lists.calls):
                        self._fail(m, "stack")
                    with m.Else():
                        m.d.sync += [
                            self.stack[self.depth].eq(self.pc),
                            self.depth.eq(self.depth + 1),
                            self.pc.eq(d.small),
                        ]
                with m.Case(code_of("RETURN")):
                    with m.If(self.depth == 0):
                        self._fail(m, "stack")
                    with m.Else():
                        m.d.sync += [
                            self.pc.eq(self.stack[self.depth - 1]),
                            self.depth.eq(self.depth - 1),
                        ]
        with m.State("MULTIPLY"):
            m.d.sync += [
                self.factor.eq(self.factor[1:]),
                self.shifted.eq(self.shifted << 1),
                self.product.eq(self.product + Mux(self.factor[0], self.shifted, 0)),
            ]
            with m.If(self.factor == 0):
                self._result(m, self.product)
                m.next = "FETCH"

    def _condition(self, name: str) -> Value:
        equal, below = self.x == self.y, self.x < self.y
        return {
            "always": Const(1), "equal": equal, "different": ~equal, "below": below,
            "not_below": ~below,
        }[name]  # fmt: skip

    def _result(self, m: Module, value: Value) -> None:
        m.d.comb += [self.w_index.eq(self.d.a), self.w.eq(value), self.w_valid.eq(self.d.a != 0)]

    def _memory(self, m: Module) -> None:
        with m.State("LOAD"):
            m.d.comb += [
                self.m_load.eq(1), self.m_address.eq(self.reach), self.m_size.eq(self.d.c),
            ]  # fmt: skip
            with m.If(self.m_done):
                m.next = "FETCH"
                with m.If(self.m_error):
                    self._fail(m, "read_error")
                with m.Else():
                    self._result(m, self.m_loaded)
        with m.State("STORE"):
            m.d.comb += [
                self.m_store.eq(1), self.m_address.eq(self.reach), self.m_size.eq(self.d.c),
                self.m_value.eq(self.y),
            ]  # fmt: skip
            with m.If(self.m_done):
                m.next = "FETCH"
                with m.If(self.m_error):
                    self._fail(m, "write_error")

    def _window(self, m: Module) -> None:
        d = self.d
        reach = Signal(64, name="put_value")
        m.d.comb += reach.eq(self.reach)
        for state, value, step in (("PUT_LOW", reach[:32], 0), ("PUT_HIGH", reach[32:], 4)):
            with m.State(state), m.If(self._access(m, d.c, (d.small + step)[:12], value)):
                m.next = "FETCH"
                if not step:
                    with m.If(d.a[0]):
                        m.next = "PUT_HIGH"
                with m.If(self.access["refused"]):
                    self._fail(m, "window", unit=d.c)
        with m.State("WORDS"):
            with m.If(self.offset >= WINDOW_END):
                self._fail(m, "operand")
            with m.Else(), m.If(self._access(m, d.c, self.offset[:12], self.words[:32])):
                m.d.sync += [
                    self.words.eq(self.words[32:]),
                    self.offset.eq(self.offset + 4),
                    self.raw.eq(self.raw - 1),
                    self.step.eq(self.step + 1),
                ]
                with m.If((self.raw == 1) | (self.step[:2] == 3)):
                    m.d.sync += self.step.eq(0)
                    m.next = "FETCH"
                with m.If(self.access["refused"]):
                    self._fail(m, "window", unit=d.c)

    def _jobs(self, m: Module) -> None:
        d = self.d
        everybody = (1 << self.count) - 1
        mask = Signal(self.count, name="awaited")
        halts = d.code == code_of("HALT")
        m.d.comb += mask.eq(Mux(halts, everybody, d.small))

        def go() -> None:
            m.next = "FETCH"
            with m.If(d.code == code_of("SUBMIT")):
                m.next = "ROOM"
            with m.If(halts):
                m.next = "DONE"

        with m.State("WAIT"):
            done = Signal(name="is_idle")
            with m.If(~mask.bit_select(self.scan, 1)):
                m.d.comb += done.eq(1)
            with m.Else(), m.If(self._access(m, self.scan, UNIT_REGISTERS["STATUS"])):
                m.d.comb += done.eq(~self.access["o_data"][0])
            self._each_unit(m, done, go)
            with m.If(self.trouble & ~self.access["i_valid"] | self.trouble & self.access["done"]):
                self._troubled(m)
        with m.State("ROOM"), m.If(self._access(m, d.c, UNIT_REGISTERS["STATUS"])):
            with m.If(self.trouble):
                self._troubled(m)
            with m.Elif(self.access["o_data"][8:16].any()):
                m.next = "SUBMIT"
        with m.State("SUBMIT"), m.If(self._access(m, d.c, UNIT_REGISTERS["SUBMIT"], 1)):
            m.next = "FETCH"
            for i in range(self.count):
                with m.If(d.c == i):
                    m.d.sync += [
                        self.made_by[i][self.tickets[i][:4]].eq(self.at),
                        self.tickets[i].eq(self.tickets[i] + 1),
                        self.jobs[i].eq(Mux(self.jobs[i] == _SLOTS, _SLOTS, self.jobs[i] + 1)),
                    ]
            with m.If(self.trouble):
                self._troubled(m)
            with m.Elif(self.access["refused"]):
                self._fail(m, "window", unit=d.c)
        with m.State("DONE"):
            with m.If(self.trouble):
                self._troubled(m)
            with m.Else():
                m.d.sync += [
                    self.code.eq(STATES.index("done")), self.place.eq(self.at),
                    self.blamed.eq(0), self.running.eq(0),
                ]  # fmt: skip
                m.d.comb += self.ended.eq(1)
                m.next = "IDLE"

    def _end(self, m: Module) -> None:
        self._blame(m)

        def stopped() -> None:
            m.next = "MEMORY"

        with m.State("STOP"):
            m.d.comb += self.m_stop.eq(1)
            done = Signal(name="is_stopped")
            with m.Switch(self.step):
                with m.Case(0), m.If(self._access(m, self.scan, UNIT_REGISTERS["ABORT"], 1)):
                    m.d.sync += self.step.eq(1)
                with m.Case(1):
                    idle = self._access(m, self.scan, UNIT_REGISTERS["STATUS"])
                    with m.If(idle & ~self.access["o_data"][:2].any()):
                        m.d.sync += self.step.eq(2)
                with m.Default():
                    m.d.comb += done.eq(self._access(m, self.scan, UNIT_REGISTERS["INTERRUPT"], 3))
            self._each_unit(m, done, stopped)
        with m.State("MEMORY"):
            m.d.comb += self.m_stop.eq(1)
            with m.If(~self.m_busy):
                m.d.sync += [self.running.eq(0), self.raw.eq(0)]
                m.d.comb += self.ended.eq(1)
                m.next = "IDLE"

    def _blame(self, m: Module) -> None:
        """Find the job that failed: the oldest of this list's whose state is an error."""
        with m.State("BLAME"):
            for i in reversed(range(self.count)):
                with m.If(self.failures[i]):
                    m.d.sync += [self.scan.eq(i), self.step.eq(self.jobs[i])]
            m.next = "BLAMED"
        slot = Signal(4, name="slot")
        queues = Array(Const(unit.queue - 1, 4) for unit in self.config.units.values())
        ticket, made = Signal(32, name="ticket"), Signal(INDEX_BITS, name="made")
        m.d.comb += [
            ticket.eq(Array(self.tickets)[self.scan] - self.step),
            slot.eq(ticket[:4] & queues[self.scan]),
        ]
        makers = Array(slots[ticket[:4]] for slots in self.made_by)
        m.d.comb += made.eq(makers[self.scan])
        with m.State("BLAMED"):
            with m.If(self.step > (queues[self.scan] + 1)[:5]):
                m.d.sync += self.step.eq(self.step - 1)
            with m.Elif(self.step == 0):
                self._fail(m, "unit_failed", self.at, self.scan)
            with m.Else(), m.If(self._access(m, self.scan, (JOB_STATUS + (slot << 2))[:12])):
                m.d.sync += self.step.eq(self.step - 1)
                with m.If(self.access["o_data"] >= _FIRST_FAILURE):
                    self._fail(m, "unit_failed", made, self.scan)
