# SPDX-License-Identifier: Apache-2.0
"""The registers of an engine behind AXI4-Lite, its job queue, and how jobs end."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In, Member, Out

from hwgen.core.memories import Ram
from hwgen.core.register_map import (
    COUNTER_BITS,
    FAULT_EVENTS,
    LAYOUT,
    JobInterface,
    register_map,
    unobserved,
)
from rtl_templates.axi.bus import BusSignature
from rtl_templates.axi.registers import SLVERR, answer_reads, answer_writes
from rtl_templates.hdl.hierarchy import Block
from rtl_templates.hdl.memory import place_ram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hwgen.core.params.base import FamilyConfig


_COMMON = 6
"""States of a job that every engine has."""


class Control(Block):
    """Registers, a queue of jobs, and the state machine that ends them.

    Every consumer works on the jobs in order, at its own rate; the last one finishes a job.  After
    an error on the bus, or an abort, nothing new is issued; when all requests are answered the flow
    of data is reset, and all unfinished jobs have ended.

    Parameters
    ----------
    config : FamilyConfig
        Of a family that takes jobs: with ``queue`` and ``job_interface``.
    consumers : sequence of str
        In the order in which a job goes through them.
    job : StructLayout
        Layout of a job's descriptor: fields called as the registers of the job window.
    events : sequence of str
        Events that are counted, beside the cycles with an unfinished job and, in an engine that is
        protected, `hwgen.core.register_map.FAULT_EVENTS`.
    observed : bool
        Whether events are counted, and the job window can be read, which otherwise reads as 0.

    Attributes
    ----------
    registers : tuple of Register
        Those that the bus reaches.

    Members
    -------
    bus : Out(BusSignature)
        AXI4-Lite subordinate.
    X_job for each consumer X : Out(stream)
        Descriptors of its jobs; its ready is high for a cycle when it has finished one.
    alone : Out(1)
        The first consumer's job is the oldest unfinished one.
    read_error, write_error : In(1)
        Pulses: the bus answered with an error.  There is a pulse for each state of the engine
        after the common ones: the oldest unfinished job has reached it.
    busy : In(1)
        A request is not answered.
    stop, flush : Out(1)
        Issue nothing new; reset the flow of data.
    interrupt : Out(1)
        Level.
    """

    resettable = True

    def __init__(
        self,
        config: FamilyConfig,
        consumers: Sequence[str],
        job: Any,
        events: Sequence[str],
        *,
        observed: bool = True,
    ) -> None:
        self.config: Any = config
        self.consumers, self.job_layout = consumers, job
        self.events = (*events, *(FAULT_EVENTS if config.protect.any else ()))
        self.interface: JobInterface = self.config.job_interface
        self.registers = config.registers
        if not observed:
            self.interface = unobserved(self.interface)
            self.registers = register_map(self.interface, self.config.queue)
        self.faults = ("read_error", "write_error", *self.interface.states[_COMMON:])
        members: dict[str, Member] = {"bus": Out(BusSignature(config.buses[0]))}
        members |= {f"{name}_job": Out(stream.Signature(job.size)) for name in consumers}
        members |= {name: In(1) for name in (*self.events, *self.faults, "busy")}
        members |= {name: Out(1) for name in ("alone", "stop", "flush", "interrupt")}
        super().__init__("control" if observed else "unobserved_control", members)

    def build(self, m: Module) -> None:
        config = self.config
        self.pointers = {
            name: Signal(config.queue.bit_length(), name=f"{name}_pointer")
            for name in ("submit", *self.consumers)
        }
        submit, abort = Signal(name="submit"), Signal(name="abort")
        window = {
            register.name: Signal(register.bits, name=f"job_{register.name.lower()}")
            for register in self.interface.window
        }
        count = Signal.like(self.pointers["submit"], name="unfinished_jobs")
        retired = self.pointers[self.consumers[-1]]
        m.d.comb += count.eq(self.pointers["submit"] - retired)
        state = self._end_jobs(m, submit, abort, count)
        self._queue(m, submit, state, window)
        values, refuse = self._values(m, state, count, window)
        self._bus(m, values, refuse, window, submit=submit, abort=abort, pending=state["pending"])

    # -- jobs ------------------------------------------------------------------------------

    def _end_jobs(self, m: Module, submit: Value, abort: Value, count: Value) -> dict[str, Any]:
        """Finish jobs one by one, or all unfinished ones after an error or an abort."""
        queue, codes = self.config.queue, self.interface.states
        code = Signal(range(len(codes)), reset_less=True)
        ending, stopping = Signal(name="ending"), Signal(name="stopping")
        finishes = Signal(name="finishes")
        pending, enable = Signal(2, name="pending"), Signal(2, name="interrupt_enable")
        submitted, finished = Signal(32, name="submitted"), Signal(32, name="finished")
        states = [Signal(range(len(codes)), name=f"state_{i}") for i in range(queue)]
        retired = self.pointers[self.consumers[-1]]
        faults = {name: getattr(self, name) for name in self.faults}
        trouble = reduce(or_, faults.values()) | abort
        reason: Any = codes.index("aborted")
        for name, fault in reversed(faults.items()):
            reason = Mux(fault, codes.index(name), reason)
        with m.FSM(name="life"):
            with m.State("RUN"):
                m.d.comb += finishes.eq(self._done(self.consumers[-1]) & ~trouble)
                m.d.sync += code.eq(reason)
                with m.If(trouble):
                    m.next = "STOP"
            with m.State("STOP"):
                m.d.comb += [stopping.eq(1), self.stop.eq(1)]
                with m.If(~self.busy):
                    m.next = "END"
            with m.State("END"):
                m.d.comb += [stopping.eq(1), self.stop.eq(1), self.flush.eq(1), ending.eq(1)]
                m.next = "RUN"
        with m.If(submit):
            m.d.sync += submitted.eq(submitted + 1)
        m.d.sync += finished.eq(finished + Mux(ending, count, finishes))
        for slot, code_of_slot in enumerate(states):
            # A slot is unfinished if its state says so.
            with m.If(submit & (self.pointers["submit"][:-1] == slot)):
                m.d.sync += code_of_slot.eq(codes.index("unfinished"))
            with m.Elif(ending & (code_of_slot == codes.index("unfinished"))):
                m.d.sync += code_of_slot.eq(code)
            with m.Elif(finishes & (retired[:-1] == slot)):
                m.d.sync += code_of_slot.eq(codes.index("done"))
        clear = Signal(2, name="clear_pending")
        m.d.sync += pending.eq((pending & ~clear) | Cat(finishes, ending & count.any()))
        m.d.comb += self.interrupt.eq((pending & enable).any())
        return {
            "ending": ending, "stopping": stopping, "finishes": finishes, "states": states,
            "pending": clear, "pending_now": pending, "enable": enable,
            "submitted": submitted, "finished": finished,
        }  # fmt: skip

    def _done(self, consumer: str) -> Value:
        """Return whether a consumer has finished its job."""
        return getattr(self, f"{consumer}_job").ready

    def _queue(
        self, m: Module, submit: Value, state: dict[str, Any], window: dict[str, Signal]
    ) -> None:
        """Keep the jobs and a pointer for each consumer."""
        pointers = self.pointers
        jobs = self._stored_jobs(m, submit, window)
        with m.If(submit):
            m.d.sync += pointers["submit"].eq(pointers["submit"] + 1)
        for name, stored in zip(self.consumers, jobs, strict=True):
            pointer, job = pointers[name], getattr(self, f"{name}_job")
            m.d.comb += [
                job.payload.eq(stored),
                job.valid.eq(pointer != pointers["submit"]),
            ]
            # A job that is done in the cycle of an error ends with the others.
            last = name == self.consumers[-1]
            done = state["finishes"] if last else self._done(name) & ~self.stop
            with m.If(state["ending"]):
                m.d.sync += pointer.eq(pointers["submit"])
            with m.Elif(done):
                m.d.sync += pointer.eq(pointer + 1)
        first, last = pointers[self.consumers[0]], pointers[self.consumers[-1]]
        m.d.comb += self.alone.eq(first == last)

    def _stored_jobs(self, m: Module, submit: Value, window: dict[str, Signal]) -> list[Value]:
        """Store what is submitted; return the descriptor for each consumer."""
        queue, size, descriptor = self.config.queue, self.job_layout.size, self.descriptor(window)
        if queue == 1:
            stored = Signal(size, name="job", reset_less=True)
            with m.If(submit):
                m.d.sync += stored.eq(descriptor)
            return [stored for _ in self.consumers]
        ram = Ram(queue, size, len(self.consumers), asynchronous=True)
        reads, write = place_ram(m, "jobs", ram)
        m.d.comb += [
            write.addr.eq(self.pointers["submit"][:-1]),
            write.data.eq(descriptor),
            write.en.eq(submit),
        ]
        for name, read in zip(self.consumers, reads, strict=True):
            m.d.comb += read.addr.eq(self.pointers[name][:-1])
        return [read.data for read in reads]

    # -- registers -------------------------------------------------------------------------

    def _values(
        self, m: Module, state: dict[str, Any], count: Value, window: dict[str, Signal]
    ) -> tuple[dict[str, Value], Value]:
        """Return the values that registers read as, and whether a submission is refused."""
        config = self.config
        free = Signal(8, name="queue_free")
        m.d.comb += free.eq(config.queue - count)
        values: dict[str, Value] = {
            "ID": Const(self.interface.magic, 32),
            "LAYOUT": Const(LAYOUT, 32),
            "STATUS": Cat(count.any(), state["stopping"], Const(0, 6), free),
            "SUBMITTED": state["submitted"],
            "FINISHED": state["finished"],
            "INTERRUPT_ENABLE": state["enable"],
            "INTERRUPT": state["pending_now"],
            **{name: Const(value, 32) for name, _, value, _ in self.interface.facts},
            "QUEUE": Const(config.queue, 32),
            **{f"JOB_STATUS_{i}": code for i, code in enumerate(state["states"])},
            **window,
        }
        self._highs: dict[str, list[Any]] = {}
        counted = self.interface.counters
        events = (count.any(), *(getattr(self, event) for event in self.events))
        for (name, _), event in zip(counted, events if counted else (), strict=True):
            counter = Signal(COUNTER_BITS, name=f"counter_{name.lower()}")
            with m.If(event):
                m.d.sync += counter.eq(counter + 1)
            high = Signal(COUNTER_BITS - 32, name=f"{name.lower()}_high", reset_less=True)
            values |= {f"{name}_LOW": counter[:32], f"{name}_HIGH": high}
            self._highs[f"{name}_LOW"] = [high.eq(counter[32:])]
        return values, state["stopping"] | (count == config.queue)

    def _bus(
        self,
        m: Module,
        values: dict[str, Value],
        refuse: Value,
        window: dict[str, Signal],
        *,
        submit: Signal,
        abort: Signal,
        pending: Signal,
    ) -> None:
        """Answer reads and writes, one of each at a time."""
        registers = self.registers

        def submit_window(word: Value, strobe: Value, response: Signal) -> None:
            m.d.comb += submit.eq(~refuse)
            m.d.sync += response.eq(Mux(refuse, SLVERR, 0))

        def abort_jobs(word: Value, strobe: Value, response: Signal) -> None:
            m.d.comb += abort.eq(1)

        def clear_pending(word: Value, strobe: Value, response: Signal) -> None:
            m.d.comb += pending.eq(Mux(strobe[0], word[:2], 0))

        answer_reads(m, self.bus, registers, values, self._highs)
        actions = {"SUBMIT": submit_window, "ABORT": abort_jobs, "INTERRUPT": clear_pending}
        answer_writes(m, self.bus, registers, values, actions)

    def descriptor(self, window: dict[str, Signal]) -> Value:
        """Return the job window in a descriptor's layout.

        A field is a flag, the register of its name, or all registers whose names begin with it.
        """
        flags = {flag.name: flag for flag in self.interface.flags}
        parts: list[Value] = []
        for name, field in self.job_layout:
            register = name.upper()
            if name in flags:
                flag = flags[name]
                value: Value = window["JOB_FLAGS"][flag.offset : flag.offset + flag.bits]
            elif register in window:
                value = window[register]
            else:
                value = Cat(word for key, word in window.items() if key.startswith(f"{register}_"))
            parts.append(value[: field.width])
        return Cat(*parts)
