# SPDX-License-Identifier: Apache-2.0
"""Sequencer that executes the descriptors of a command list, one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from hwgen.core.bus import CONTROL_ADDRESS_WIDTH
from hwgen.core.lists.commands import (
    ALIGNMENT,
    BYTES,
    CONDITIONS,
    OPERATIONS,
    STATES,
    WINDOW_END,
    WINDOW_FIRST,
    code_of,
)
from hwgen.core.register_map import JOB_STATUS, UNIT_REGISTERS
from hwgen.core.register_map import STATES as JOB_STATES
from rtl_templates.axi.bus import axi_lite
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.hdl.streams import new_stream

from .control import ListSignature
from .list_memory import INDEX_BITS, ListAccess
from .unit_bus import UnitBus

if TYPE_CHECKING:
    from hwgen.families.transformer.params import TransformerConfig

DESCRIPTOR = data.StructLayout({"code": 8, "a": 8, "b": 8, "c": 8, "small": 32, "large": 64})

SEQUENCE = (
    "IDLE", "PREPARE", "FETCH", "STOP", "FIND_FAILURE", "EXECUTE", "WORDS", "MULTIPLY", "LOAD",
    "STORE", "PUT_LOW", "WAIT", "PUT_HIGH", "CHECK_QUEUE", "DONE", "SUBMIT", "CHECK_JOB", "MEMORY",
)  # fmt: skip
"""States of the sequencer by their code."""

_FIRST_FAILURE = JOB_STATES.index("done") + 1


class Sequencer(Block):
    """Fetches, computes, fills job windows, submits jobs, waits, and ends lists.

    A list ends with HALT, an error, or an abort; then all units are idle.

    Parameters
    ----------
    config : TransformerConfig

    Members
    -------
    list : In(ListSignature)
        Registers: start, abort, state and the lists' own registers.
    memory : Out(ListAccess)
        Fetches, loads and stores.
    failures : In
        Interrupts of the units: a job has ended with an error.
    U0, U1, ... : In(BusSignature)
        Registers of the units.
    """

    resettable = True

    def __init__(self, config: TransformerConfig) -> None:
        self.config, self.count = config, len(config.units)
        self.slots = max(unit.queue for unit in config.units.values())
        super().__init__(
            "sequencer",
            {
                "list": In(ListSignature(config)),
                "memory": Out(ListAccess(config.memory.address_width)),
                "failures": In(self.count),
                **{f"U{i}": In(axi_lite(CONTROL_ADDRESS_WIDTH)) for i in range(self.count)},
            },
        )

    def build(self, m: Module) -> None:
        self._make_registers(m)
        with m.FSM(name="sequence"):
            self._begin(m)
            self._fetch(m)
            self._execute(m)
            self._memory(m)
            self._window(m)
            self._jobs(m)
            self._end(m)

    # -- states ----------------------------------------------------------------------------------

    def _begin(self, m: Module) -> None:
        def go() -> None:
            m.next = "FETCH"

        with m.State("IDLE"), m.If(self.list.start):
            m.d.sync += [
                self.list.running.eq(1),
                self.asked.eq(0),
                self.pc.eq(0),
                self.at.eq(0),
                self.list.steps.eq(0),
                self.raw.eq(0),
                self.depth.eq(0),
                self.scan.eq(0),
                self.step.eq(0),
                *(jobs.eq(0) for jobs in self.jobs),
            ]
            m.d.comb += self.memory.clear.eq(1)
            m.next = "PREPARE"
        with m.State("PREPARE"):
            # Every unit: clear earlier failures, enable its interrupt, read its number of jobs.
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
                                m.d.sync += tickets.eq(self.bus.data)
            self._each_unit(m, done, go)

    def _fetch(self, m: Module) -> None:
        misaligned = self.list.base[: ALIGNMENT.bit_length() - 1].any()
        with m.State("FETCH"):
            m.d.comb += self.memory.index.eq(self.pc)
            with m.If(self.raw == 0):
                m.d.sync += self.at.eq(self.pc)
            with m.If(self.trouble):
                self._troubled(m)
            with m.Elif(misaligned):
                self._fail(m, "alignment", self.pc)
            with m.Elif(
                (self.raw == 0) & self.list.limit.any() & (self.list.steps == self.list.limit)
            ):
                self._fail(m, "limit", self.pc)
            with m.Elif(self.pc >= self.list.length):
                self._fail(m, "end_of_list", self.pc)
            with m.Else():
                m.d.comb += self.memory.fetch.eq(1)
                with m.If(self.memory.done & self.memory.error):
                    self._fail(m, "read_error", self.pc)
                with m.Elif(self.memory.done):
                    m.d.sync += self.pc.eq(self.pc + 1)
                    with m.If(self.raw == 0):
                        m.d.sync += Value.cast(self.d).eq(self.memory.descriptor)
                        m.next = "EXECUTE"
                    with m.Else():
                        m.d.sync += self.words.eq(self.memory.descriptor)
                        m.next = "WORDS"

    def _execute(self, m: Module) -> None:
        d = self.d
        branches = Signal(name="branches")
        with m.State("EXECUTE"):
            m.d.sync += self.list.steps.eq(self.list.steps + 1)
            m.next = "FETCH"
            with m.If(d.code >= len(OPERATIONS)):
                m.d.sync += self.list.steps.eq(self.list.steps)
                self._fail(m, "opcode")
            with m.Elif(self.wrong):
                self._fail(m, "operand")
            with m.Else(), m.Switch(d.code):
                with m.Case(code_of("ADD")):
                    self._result(m, self.list.x + self.list.y + d.large)
                with m.Case(code_of("MULTIPLY")):
                    m.d.sync += [
                        self.factor.eq(d.small),
                        self.shifted.eq(self.list.x),
                        self.product.eq(self.list.y),
                    ]
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
                                m.d.comb += branches.eq(self._condition(name))
                    with m.If(branches):
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
        equal, below = self.list.x == self.list.y, self.list.x < self.list.y
        return {
            "always": Const(1), "equal": equal, "different": ~equal, "below": below,
            "not_below": ~below,
        }[name]  # fmt: skip

    def _result(self, m: Module, value: Value) -> None:
        write = self.list.write
        m.d.comb += [
            write.payload.index.eq(self.d.a),
            write.payload.value.eq(value),
            write.valid.eq(self.d.a != 0),
        ]

    def _memory(self, m: Module) -> None:
        with m.State("LOAD"):
            m.d.comb += [
                self.memory.load.eq(1),
                self.memory.address.eq(self.reach),
                self.memory.size.eq(self.d.c),
            ]
            with m.If(self.memory.done):
                m.next = "FETCH"
                with m.If(self.memory.error):
                    self._fail(m, "read_error")
                with m.Else():
                    self._result(m, self.memory.loaded)
        with m.State("STORE"):
            m.d.comb += [
                self.memory.store.eq(1),
                self.memory.address.eq(self.reach),
                self.memory.size.eq(self.d.c),
                self.memory.value.eq(self.list.y),
            ]
            with m.If(self.memory.done):
                m.next = "FETCH"
                with m.If(self.memory.error):
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
                with m.If(self.bus.refused):
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
                with m.If(self.bus.refused):
                    self._fail(m, "window", unit=d.c)

    def _jobs(self, m: Module) -> None:
        d = self.d
        all_units = (1 << self.count) - 1
        mask = Signal(self.count, name="awaited")
        halts = d.code == code_of("HALT")
        m.d.comb += mask.eq(Mux(halts, all_units, d.small))

        def go() -> None:
            m.next = "FETCH"
            with m.If(d.code == code_of("SUBMIT")):
                m.next = "CHECK_QUEUE"
            with m.If(halts):
                m.next = "DONE"

        with m.State("WAIT"):
            done = Signal(name="is_idle")
            with m.If(~mask.bit_select(self.scan, 1)):
                m.d.comb += done.eq(1)
            with m.Else(), m.If(self._access(m, self.scan, UNIT_REGISTERS["STATUS"])):
                m.d.comb += done.eq(~self.bus.data[0])
            self._each_unit(m, done, go)
            with m.If(self.trouble & ~self.bus.i.valid | self.trouble & self.bus.i.ready):
                self._troubled(m)
        with m.State("CHECK_QUEUE"), m.If(self._access(m, d.c, UNIT_REGISTERS["STATUS"])):
            with m.If(self.trouble):
                self._troubled(m)
            with m.Elif(self.bus.data[8:16].any()):
                m.next = "SUBMIT"
        with m.State("SUBMIT"), m.If(self._access(m, d.c, UNIT_REGISTERS["SUBMIT"], 1)):
            m.next = "FETCH"
            for i in range(self.count):
                with m.If(d.c == i):
                    m.d.sync += [
                        self.origins[i][self._slot(self.tickets[i])].eq(self.at),
                        self.tickets[i].eq(self.tickets[i] + 1),
                        self.jobs[i].eq(
                            Mux(self.jobs[i] == self.slots, self.slots, self.jobs[i] + 1)
                        ),
                    ]
            with m.If(self.trouble):
                self._troubled(m)
            with m.Elif(self.bus.refused):
                self._fail(m, "window", unit=d.c)
        with m.State("DONE"):
            with m.If(self.trouble):
                self._troubled(m)
            with m.Else():
                m.d.sync += [
                    self.code.eq(STATES.index("done")), self.error_index.eq(self.at),
                    self.error_unit.eq(0), self.list.running.eq(0),
                ]  # fmt: skip
                m.d.comb += self.list.ended.eq(1)
                m.next = "IDLE"

    def _end(self, m: Module) -> None:
        self._find_failure(m)

        def stopped() -> None:
            m.next = "MEMORY"

        with m.State("STOP"):
            m.d.comb += self.memory.stop.eq(1)
            done = Signal(name="is_stopped")
            with m.Switch(self.step):
                with m.Case(0), m.If(self._access(m, self.scan, UNIT_REGISTERS["ABORT"], 1)):
                    m.d.sync += self.step.eq(1)
                with m.Case(1):
                    idle = self._access(m, self.scan, UNIT_REGISTERS["STATUS"])
                    with m.If(idle & ~self.bus.data[:2].any()):
                        m.d.sync += self.step.eq(2)
                with m.Default():
                    m.d.comb += done.eq(self._access(m, self.scan, UNIT_REGISTERS["INTERRUPT"], 3))
            self._each_unit(m, done, stopped)
        with m.State("MEMORY"):
            m.d.comb += self.memory.stop.eq(1)
            with m.If(~self.memory.busy):
                m.d.sync += [self.list.running.eq(0), self.raw.eq(0)]
                m.d.comb += self.list.ended.eq(1)
                m.next = "IDLE"

    def _find_failure(self, m: Module) -> None:
        """Find the failed job: the oldest one of this list whose state is an error."""
        with m.State("FIND_FAILURE"):
            for i in reversed(range(self.count)):
                with m.If(self.failures[i]):
                    m.d.sync += [self.scan.eq(i), self.step.eq(self.jobs[i])]
            m.next = "CHECK_JOB"
        slot = Signal(4, name="slot")
        queues = Array(Const(unit.queue - 1, 4) for unit in self.config.units.values())
        ticket, origin = Signal(32, name="ticket"), Signal(INDEX_BITS, name="origin")
        m.d.comb += [
            ticket.eq(Array(self.tickets)[self.scan] - self.step),
            slot.eq(ticket[:4] & queues[self.scan]),
        ]
        origins = Array(slots[self._slot(ticket)] for slots in self.origins)
        m.d.comb += origin.eq(origins[self.scan])
        with m.State("CHECK_JOB"):
            with m.If(self.step > (queues[self.scan] + 1)[:5]):
                m.d.sync += self.step.eq(self.step - 1)
            with m.Elif(self.step == 0):
                self._fail(m, "unit_failed", self.at, self.scan)
            with m.Else(), m.If(self._access(m, self.scan, (JOB_STATUS + (slot << 2))[:12])):
                m.d.sync += self.step.eq(self.step - 1)
                with m.If(self.bus.data >= _FIRST_FAILURE):
                    self._fail(m, "unit_failed", origin, self.scan)

    def _slot(self, ticket: Value) -> Value:
        """Return the place of a job's descriptor, of as many as the longest queue has."""
        return ticket[: (self.slots - 1).bit_length()]

    # -- registers and helpers ------------------------------------------------------------------

    def _make_registers(self, m: Module) -> None:
        """Make the registers, the bus to the units and the operands of a descriptor."""
        width = self.config.register_width
        self.pc = Signal(32, name="pc", reset_less=True)
        self.at = Signal(32, name="at", reset_less=True)
        self.d = Signal(DESCRIPTOR, name="descriptor", reset_less=True)
        self.raw = Signal(8, name="words_left")  # of a WINDOW; the next descriptor has more of them
        self.offset = Signal(32, name="offset", reset_less=True)
        self.scan = Signal(range(max(2, self.count)), name="scanned_unit", reset_less=True)
        self.step = Signal(range(max(8, self.slots + 1)), name="scan_step", reset_less=True)
        self.code = Signal(range(len(STATES)), name="code")
        self.error_index = Signal(32, name="error_index")
        self.error_unit = Signal(range(max(2, self.count)), name="error_unit")
        self.tickets = [Signal(32, name=f"tickets_{i}", reset_less=True) for i in range(self.count)]
        self.jobs = [Signal(range(self.slots + 1), name=f"jobs_{i}") for i in range(self.count)]
        self.origins = [
            Array(Signal(INDEX_BITS, name=f"origin_{i}_{slot}", reset_less=True)
                  for slot in range(self.slots))
            for i in range(self.count)
        ]  # fmt: skip
        self.factor = Signal(32, name="factor", reset_less=True)
        self.shifted = Signal(width, name="shifted", reset_less=True)
        self.product = Signal(width, name="product", reset_less=True)
        self.words = Signal(8 * BYTES, name="words", reset_less=True)
        calls = self.config.lists.calls
        self.depth = Signal(range(calls + 1), name="open_calls")
        self.stack = Array(Signal(32, name=f"return_{i}", reset_less=True) for i in range(calls))
        self._place_bus(m)
        # An abort and failures are checked between descriptors and wherever the sequencer waits.
        self.trouble, self.asked = Signal(name="trouble"), Signal(name="abort_asked")
        m.d.comb += [
            self.trouble.eq(self.asked | self.failures.any()),
            self.list.state.eq(Mux(self.list.running, STATES.index("running"), self.code)),
            self.list.index.eq(self.error_index),
            self.list.unit.eq(self.error_unit),
        ]
        with m.If(self.list.abort & self.list.running):
            m.d.sync += self.asked.eq(1)
        self._operands(m)

    def _place_bus(self, m: Module) -> None:
        block = UnitBus(self.count)
        access = new_stream("bus", block.payload("i"))
        units = {f"U{i}": getattr(self, f"U{i}") for i in range(self.count)}
        self.bus = place(m, "bus", block, i=access, **units)

    def _access(
        self, m: Module, unit: Value, address: Value | int, word: Value | int | None = None
    ) -> Value:
        """Access a register in this state, a write if there is a word; return when it is done."""
        access = self.bus.i.payload
        m.d.comb += [access.unit.eq(unit), access.address.eq(address), self.bus.i.valid.eq(1)]
        if word is not None:
            m.d.comb += [access.write.eq(1), access.data.eq(word)]
        return self.bus.i.ready

    def _operands(self, m: Module) -> None:
        """Read the registers of a descriptor, and check all of its operands."""
        d, config = self.d, self.config
        store = d.code == code_of("STORE")
        m.d.comb += [self.list.x_index.eq(d.b), self.list.y_index.eq(Mux(store, d.a, d.c))]
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
        m.d.comb += self.reach.eq(self.list.x + d.large)

    def _fail(
        self, m: Module, state: str, index: Value | None = None, unit: Value | int = 0
    ) -> None:
        """End the list with an error at the current descriptor."""
        m.d.sync += [
            self.code.eq(STATES.index(state)),
            self.error_index.eq(self.at if index is None else index),
            self.error_unit.eq(unit),
            self.scan.eq(0),
            self.step.eq(0),
        ]
        m.next = "STOP"

    def _troubled(self, m: Module) -> None:
        """Go to the state that handles an abort, or a failed job."""
        m.d.sync += [self.scan.eq(0), self.step.eq(0)]
        with m.If(self.asked):
            self._fail(m, "aborted")
        with m.Else():
            m.next = "FIND_FAILURE"

    def _each_unit(self, m: Module, done: Value, finish: Callable[[], None]) -> None:
        """Go to the next unit when this one is done; after the last one, `finish`."""
        with m.If(done):
            m.d.sync += [self.scan.eq(self.scan + 1), self.step.eq(0)]
            with m.If(self.scan == self.count - 1):
                m.d.sync += self.scan.eq(0)
                finish()
