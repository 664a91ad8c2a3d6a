# SPDX-License-Identifier: Apache-2.0
"""The sequencer: executes the descriptors of a command list, one after the other."""

from __future__ import annotations

from amaranth.hdl import Array, Const, Module, Mux, Signal, Value

from hwgen.core.lists.commands import ALIGNMENT, CONDITIONS, OPERATIONS, STATES, WINDOW_END, code_of
from hwgen.core.register_map import JOB_STATUS, UNIT_REGISTERS
from hwgen.core.register_map import STATES as JOB_STATES

from .list_memory import INDEX_BITS
from .sequencer_parts import SLOTS, SequencerParts

_FIRST_FAILURE = JOB_STATES.index("done") + 1


class Sequencer(SequencerParts):
    """Executes lists; see `SequencerParts` for parameters and members."""

    def build(self, m: Module) -> None:
        self._make(m)
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
                        self.jobs[i].eq(Mux(self.jobs[i] == SLOTS, SLOTS, self.jobs[i] + 1)),
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
