# SPDX-License-Identifier: Apache-2.0
"""Properties of the sequencer of command lists: every list goes on, ends once, and reports it.

That something ends is a liveness property.  It is proven as two bounds that are safety properties:
how many cycles the sequencer takes between two answers of memory and units, and how many answers
a descriptor needs.  With a limit of steps the number of descriptors is bounded as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from flows.formal.checker import Checker, Port
from hwgen.core.lists.commands import STATES, WINDOW_END, WINDOW_FIRST, code_of
from hwgen.core.register_map import UNIT_REGISTERS

DATA_FETCHES = 64
"""Descriptors of words behind a WINDOW, at most."""

_MULTIPLIER = 32
"""Bits of a factor."""


class SequencerChecker(Checker):
    """Follows a list from its start to its end.

    Parameters
    ----------
    ports : mapping
    units : int
    states : sequence of str
        States of the sequencer by their code.
    slots : int
        Jobs of a unit whose descriptors are stored.
    """

    def __init__(
        self, ports: Mapping[str, Port], units: int, states: Sequence[str], slots: int
    ) -> None:
        self.units, self.states = units, states
        self.scan_bits = max(1, (units - 1).bit_length())
        super().__init__(
            ports,
            {
                "state": ("sequence_state", (len(states) - 1).bit_length()),
                "step": ("scan_step", max(7, slots).bit_length()),
                "scan": ("scanned_unit", self.scan_bits),
                "factor": ("factor", _MULTIPLIER),
                "words_left": ("words_left", 8),
                "offset": ("offset", 32),
                "descriptor": ("descriptor", 128),
                "code": ("code", (len(STATES) - 1).bit_length()),
                "abort_asked": ("abort_asked", 1),
                "bus_valid": ("bus.i_valid", 1),
                "bus_ready": ("bus.i_ready", 1),
                "bus_unit": ("bus.i_unit", self.scan_bits),
                "bus_address": ("bus.i_address", 12),
                "bus_write": ("bus.i_write", 1),
                "bus_data": ("bus.data", 32),
                "in_progress": ("bus.in_progress", 1),
                **{f"{name}_request": (f"bus.{name}_request", 1) for name in ("aw", "w", "ar")},
            },
        )
        self.longest = _MULTIPLIER + units + 38
        """Cycles between two answers, at most."""
        self.answers = 6 * units + 22
        """Answers that a descriptor needs, at most, an error and its end included."""

    def at(self, *names: str) -> Value:
        """Return whether the sequencer is in one of some states."""
        return Cat(self.probed["state"] == self.states.index(name) for name in names).any()

    def check(self, m: Module) -> None:
        """State the rules of lists."""
        self._units(m)
        self._environment(m)
        self._memory(m)
        self._ends(m)
        self._limits(m)
        self._progress(m)
        self._lemmas(m)

    # -- environment -----------------------------------------------------------------------------

    def _unit(self, index: int, name: str) -> Signal:
        return self[f"U{index}_{name}"]

    def _units(self, m: Module) -> None:
        """Follow the accesses to the registers of units."""
        waits, answers, polls, idle = [], [], [], []
        self.of_status: list[Value] = []  # the read is of STATUS, by unit
        self.open: list[Value] = []  # address, data and read that are accepted, by unit
        for i in range(self.units):
            address, word, read, status = (
                Signal(name=f"{name}_{i}") for name in ("has_address", "has_word", "reads", "polls")
            )
            aw = self._unit(i, "awvalid") & self._unit(i, "awready")
            w = self._unit(i, "wvalid") & self._unit(i, "wready")
            ar = self._unit(i, "arvalid") & self._unit(i, "arready")
            b, r = self._unit(i, "bvalid"), self._unit(i, "rvalid")
            m.d.sync += [
                address.eq((address | aw) & ~b),
                word.eq((word | w) & ~b),
                read.eq((read | ar) & ~r),
            ]
            with m.If(ar):
                m.d.sync += status.eq(self._unit(i, "araddr") == UNIT_REGISTERS["STATUS"])
            self.assume(
                f"answers of unit {i}", (~b | (address & word)) & (~r | read),
                f"unit {i} answers only accesses that it accepted",
            )  # fmt: skip
            for channel in ("aw", "w", "ar"):
                valid = self._unit(i, f"{channel}valid")
                waits.append(valid & ~self._unit(i, f"{channel}ready"))
            waits += [address & word & ~b, read & ~r]
            answers += [b, r]
            data = self._unit(i, "rdata")
            polls.append(r & status & (data[:2].any() | ~data[8:16].any()))
            is_idle = Signal(name=f"idle_{i}")
            with m.If(aw & (self._unit(i, "awaddr") == UNIT_REGISTERS["SUBMIT"])):
                m.d.sync += is_idle.eq(0)
            with m.Elif(r & status):
                m.d.sync += is_idle.eq(~data[0])
            idle.append(is_idle)
            self.of_status.append(status)
            self.open += [address, word, read]
            target = self._unit(i, "awaddr")
            registers = ("INTERRUPT", "INTERRUPT_ENABLE", "SUBMIT", "ABORT")
            self.require(
                f"writes of unit {i}",
                ~self._unit(i, "awvalid")
                | ((target >= WINDOW_FIRST) & ~target[:2].any())
                | Cat(target == UNIT_REGISTERS[name] for name in registers).any(),
                f"only the job window of unit {i}, SUBMIT, ABORT and interrupts are written",
            )
        self.idle, self.waits = Cat(idle), Cat(waits).any()
        self.answered, self.polled = Cat(answers).any(), Cat(polls).any()
        requests = [
            Cat(self._unit(i, f"{name}valid") for name in ("aw", "w", "ar")).any()
            for i in range(self.units)
        ]
        busy = [
            request | Cat(self.open[3 * i : 3 * i + 3]).any() for i, request in enumerate(requests)
        ]
        both = [a & b for at, a in enumerate(busy) for b in busy[at + 1 :]]
        self.require(
            "one access at a time", ~Cat(*both).any(),
            "no unit is accessed while another one has not answered",
        )  # fmt: skip

    def _environment(self, m: Module) -> None:
        """Assume what the registers of lists guarantee."""
        running = self["list_running"]
        self.running_before = self._before(m, running, "running")
        steady: Value = ~self.running_before
        same = Cat(
            self[f"list_{name}"] == self._before(m, self[f"list_{name}"], name)
            for name in ("base", "length", "limit")
        ).all()
        steady = steady | same
        self.assume(
            "registers of a list", steady,
            "its address, length and limit do not change while a list runs",
        )  # fmt: skip
        self.assume(
            "no second start", ~(running & self["list_start"]), "no list starts while one runs"
        )
        for name in ("x", "y"):
            index, value = self[f"list_{name}_index"], self[f"list_{name}"]
            same_index = self._before(m, index, f"{name}_index")
            changed = self._before(m, self["list_write_valid"], f"{name}_write")
            self.assume(
                f"register {name}",
                ~self.running_before | changed | (index != same_index)
                | (value == self._before(m, value, f"{name}_value")),
                "a register of lists changes only when the list writes it",
            )  # fmt: skip

    def _before(self, m: Module, value: Value, name: str) -> Signal:
        register = Signal(len(value), name=f"{name}_before")
        m.d.sync += register.eq(value)
        return register

    # -- memory ----------------------------------------------------------------------------------

    def _memory(self, m: Module) -> None:
        """State that accesses to memory are one at a time, stable and aligned."""
        fetch, load, store = (self[f"memory_{name}"] for name in ("fetch", "load", "store"))
        self.asks = fetch | load | store
        done = self["memory_done"]
        asked = Signal(name="access_waits")
        m.d.sync += asked.eq(self.asks & ~done)
        same = Cat(
            self[f"memory_{name}"] == self._before(m, self[f"memory_{name}"], name)
            for name in ("fetch", "load", "store", "size")
        ).all()
        address = self["memory_address"] == self._before(m, self["memory_address"], "address")
        value = self["memory_value"] == self._before(m, self["memory_value"], "value")
        index = self["memory_index"] == self._before(m, self["memory_index"], "index")
        self.require(
            "access stable",
            ~asked
            | (~self.asks & self._before(m, fetch, "fetches"))
            | (same & (~fetch | index) & (fetch | address) & (~store | value)),
            "an access to memory does not change until it is done; only a fetch may be withdrawn",
        )
        withdrawn = Signal(name="withdrawn")
        with m.If(self["memory_stop"] | ~self["list_running"]):
            m.d.sync += withdrawn.eq(0)
        with m.Elif(asked & ~self.asks):
            m.d.sync += withdrawn.eq(1)
        self.require(
            "withdrawn", ~withdrawn | ~self.asks,
            "after a fetch that is withdrawn the memory stops before the next access",
        )  # fmt: skip
        self.require(
            "lemma withdrawn",
            ~withdrawn | self.at("FIND_FAILURE", "CHECK_JOB", "STOP", "MEMORY"),
            "then the list ends",
        )
        self.require(
            "fetches of the list", ~fetch | (self["memory_index"] < self["list_length"]),
            "only descriptors of the list are fetched",
        )  # fmt: skip
        self.require(
            "one access", (fetch + load + store <= 1) & ~(self["memory_stop"] & self.asks),
            "there is one access to memory, and none while it stops",
        )  # fmt: skip
        ones = (1 << self["memory_size"]) - 1
        self.require(
            "access aligned", ~(load | store) | ~(self["memory_address"][:3] & ones).any(),
            "a word is loaded from, and stored at, a multiple of its bytes",
        )  # fmt: skip
        self.cover("a word is stored", store & done, "a list stores a word")

    # -- ends ------------------------------------------------------------------------------------

    def _ends(self, m: Module) -> None:
        """State that every end is reported, once."""
        running, ended = self["list_running"], self["list_ended"]
        state, was_ended = self["list_state"], self._before(m, ended, "ended")
        self.require(
            "end reported", ~self.running_before | (running == ~was_ended),
            "a list runs until the cycle in which its end is reported",
        )  # fmt: skip
        self.require(
            "only running lists end", ~ended | running, "the end of a list is reported once"
        )
        codes = (state >= STATES.index("done")) & (state < len(STATES))
        self.require("state of the end", ~was_ended | codes, "the state says how the list ended")
        same = Cat(
            self[f"list_{name}"] == self._before(m, self[f"list_{name}"], f"{name}_result")
            for name in ("state", "index", "unit", "steps")
        ).all()
        idle = self._before(m, ~running & ~self["list_start"], "idle")
        first = Signal(name="first_cycle", init=1)
        m.d.sync += first.eq(0)
        self.require("result stays", ~idle | same | first, "it stays until the next start")
        self.require(
            "start", ~self._before(m, self["list_start"] & ~running, "start") | running,
            "a list runs from its start on",
        )  # fmt: skip
        self.require("reset", ~first | ~(running | self.asks), "a reset ends the list")
        finished = was_ended & (state == STATES.index("done"))
        self.require(
            "done", ~finished | self.idle.all(),
            "a list is done only if every unit said that it is idle after its last job",
        )  # fmt: skip
        self.cover("a list is done", finished, "a list ends with HALT")

    # -- bounds ----------------------------------------------------------------------------------

    def _limits(self, m: Module) -> None:
        """State that the number of descriptors is bounded by the limit, and by an abort."""
        running, steps, limit = self["list_running"], self["list_steps"], self["list_limit"]
        executes = self._before(m, steps, "steps") != steps
        self.require(
            "limit", ~running | (limit == 0) | (steps <= limit),
            "no more descriptors are executed than the limit says",
        )  # fmt: skip
        self.require(
            "steps count", ~(running & self.running_before) | ~executes
            | (steps == (self._before(m, steps, "steps_of_list") + 1)[:32]),
            "executed descriptors are counted one by one",
        )  # fmt: skip
        late, asked = Signal(2, name="steps_after_abort"), Signal(name="abort_was_asked")
        m.d.sync += asked.eq((asked | self["list_abort"]) & running)
        now = Signal(2, name="steps_after_abort_now")
        m.d.comb += now.eq(Mux(asked, late + executes - (executes & (late == 3)), 0))
        m.d.sync += late.eq(now)
        self.late, self.abort_asked = now, asked
        self.require("abort", late <= 1, "at most one more descriptor is executed after an abort")
        done = self["memory_done"] & self["memory_fetch"]
        before = Signal(7, name="fetches_before")
        self.fetches = fetches = Signal(7, name="fetches")  # since a descriptor was executed
        m.d.comb += fetches.eq(Mux(executes, 0, before))
        m.d.sync += before.eq(Mux(running, fetches + (done & (fetches != 127)), 0))
        self.require(
            "fetches", self.fetches <= DATA_FETCHES + 1,
            f"at most {DATA_FETCHES} descriptors of words are fetched behind a WINDOW",
        )  # fmt: skip
        self.cover("the limit is reached", running & (limit == 1) & (steps == 1), "it ends a list")

    def _progress(self, m: Module) -> None:
        """State that the sequencer goes on by itself, and needs few answers."""
        running, done = self["list_running"], self["memory_done"] & self.asks
        waits = self.waits | (self.asks & ~done) | (self["memory_stop"] & self["memory_busy"])
        answered = self.answered | done
        self.quiet = quiet = Signal(range(2 * self.longest), name="cycles_without_answer")
        with m.If(~running | answered | waits):
            m.d.sync += quiet.eq(0)
        with m.Elif(quiet != 2 * self.longest - 1):
            m.d.sync += quiet.eq(quiet + 1)
        self.require(
            "goes on", quiet <= self.longest,
            f"the next request, or the end, comes at most {self.longest} cycles after an answer",
        )  # fmt: skip
        self.needed = needed = Signal(range(2 * self.answers), name="answers_of_descriptor")
        with m.If(~running | (done & self["memory_fetch"])):
            m.d.sync += needed.eq(0)
        with m.Elif(answered & ~self.polled & (needed != 2 * self.answers - 1)):
            m.d.sync += needed.eq(needed + 1)
        self.require(
            "few answers",
            needed <= self.answers,
            f"it fetches the next descriptor, or ends, after at most {self.answers} answers; those"
            " are not counted that say that a unit is busy or its queue full",
        )

    # -- lemmas ----------------------------------------------------------------------------------

    def _lemmas(self, m: Module) -> None:
        probe, units = self.probed, self.units
        state, scan, step, words = (probe[name] for name in ("state", "scan", "step", "words_left"))
        running, offset = self["list_running"], probe["offset"]
        target, small = probe["descriptor"][24:32], probe["descriptor"][32:64]
        self.require(
            "lemma states", (state < len(self.states)) & (running == ~self.at("IDLE")),
            "a list runs unless the sequencer is idle",
        )  # fmt: skip
        self.require(
            "lemma abort",
            ~running
            | (
                (probe["abort_asked"] == self.abort_asked)
                & ((self.late == 0) | (self.abort_asked & ~self.at("EXECUTE")))
            ),
            "an abort is stored, and no descriptor is executed after the one at hand",
        )
        self.require("lemma scan", scan < units, "units are numbered")
        of_units = self.at("PUT_LOW", "PUT_HIGH", "WORDS", "CHECK_QUEUE", "SUBMIT")
        code = probe["descriptor"][:8]
        of_units = of_units | (self.at("WAIT") & (code == code_of("SUBMIT")))
        wide = self.at("PUT_LOW") & probe["descriptor"][8]
        more = self.at("FETCH", "WORDS") & (words != 0)
        inside = (small >= WINDOW_FIRST) & (small < WINDOW_END) & ~small[:2].any()
        in_window = (offset >= WINDOW_FIRST) & (offset <= WINDOW_END) & ~offset[:2].any()
        self.require(
            "lemma operands",
            (~(of_units | more) | (target < units))
            & (~self.at("PUT_LOW", "PUT_HIGH") | inside)
            & (~(self.at("PUT_HIGH") | wide) | (small < WINDOW_END - 4))
            & (~more | in_window)
            & (~self.at("STOP", "MEMORY") | (probe["code"] > STATES.index("done")))
            & (probe["code"] < len(STATES)),
            "operands were checked",
        )
        self.require(
            "lemma steps",
            (
                (step == 0)
                | self.at("IDLE", "PREPARE", "WORDS", "CHECK_JOB", "STOP", "MEMORY")
            )
            & (~self.at("WORDS") | ((step < 4) & (words != 0)))
            & (~self.at("PREPARE", "STOP") | (step < 3))
            & ((words == 0) | self.at("FETCH", "WORDS", "STOP", "MEMORY", "FIND_FAILURE",
                                      "CHECK_JOB")),
            "counters are 0 where a state begins",
        )  # fmt: skip
        self.require(
            "lemma limit",
            ~self.at("EXECUTE") | (self["list_limit"] == 0)
            | (self["list_steps"] < self["list_limit"]),
            "a descriptor is executed below the limit",
        )  # fmt: skip
        fetched = 4 * self.fetches
        self.require(
            "lemma fetches",
            (~self.at("PREPARE") | (self.fetches == 0))
            & (
                ~self.at("FETCH")
                | Mux(words == 0, self.fetches <= DATA_FETCHES, fetched + words <= 255)
            )
            & (~self.at("WORDS") | (fetched + words + step <= 259))
            & (~self.at("MULTIPLY", "LOAD", "STORE", "PUT_LOW", "PUT_HIGH", "WAIT", "CHECK_QUEUE",
                        "SUBMIT", "DONE") | (self.fetches == 0)),
            "words that are left are fetched four at once",
        )  # fmt: skip
        self._bus_lemmas()
        self._bounds(m)

    def _bus_lemmas(self) -> None:
        probe = self.probed
        progress, ready, write = (probe[name] for name in ("in_progress", "bus_ready", "bus_write"))
        requests = [probe[f"{name}_request"] for name in ("aw", "w", "ar")]
        good: Value = ~(progress & ready) & (~(progress | ready) | probe["bus_valid"])
        good = good & (progress | ~Cat(*requests, *self.open).any())
        for i in range(self.units):
            address, word, read = self.open[3 * i : 3 * i + 3]
            selected = probe["bus_unit"] == i
            opened = Mux(
                write,
                (requests[0] == ~address) & (requests[1] == ~word) & ~requests[2] & ~read,
                (requests[2] == ~read) & ~Cat(requests[0], requests[1], address, word).any(),
            )
            of_status = probe["bus_address"] == UNIT_REGISTERS["STATUS"]
            opened = opened & (~read | (self.of_status[i] == of_status))
            good = good & Mux(selected, ~progress | opened, ~Cat(address, word, read).any())
        self.require("lemma bus", good, "the bus follows the access in progress")
        waits, scan = self.at("WAIT"), probe["scan"]
        idle = self.idle.bit_select(scan, 1)
        halts = probe["descriptor"][:8] == code_of("HALT")
        before = Cat(self.idle[i] | (i >= scan) for i in range(self.units)).all()
        self.require(
            "lemma idle",
            (~(waits & ready) | (probe["bus_data"][0] == ~idle))
            & (~(waits & halts) | before)
            & (~self.at("DONE") | self.idle.all()),
            "units are idle up to the one that is asked",
        )

    def _bounds(self, m: Module) -> None:
        """Bound the cycles and answers of each state."""
        probe, units = self.probed, self.units
        scan, step, factor = (probe[name] for name in ("scan", "step", "factor"))
        fetch = _MULTIPLIER + 2 + units
        cycles: dict[str, Value | int] = {
            "IDLE": units + 2, "PREPARE": 1, "FETCH": fetch, "STOP": fetch + 34,
            "FIND_FAILURE": fetch + 1,
            "EXECUTE": 0, "WORDS": 1, "MULTIPLY": _MULTIPLIER + 1, "LOAD": 1, "STORE": 1,
            "PUT_LOW": 1, "WAIT": 1 + scan, "PUT_HIGH": 1, "CHECK_QUEUE": units + 1,
            "DONE": units + 1, "SUBMIT": 1, "MEMORY": 1, "CHECK_JOB": fetch + 33 - step,
        }  # fmt: skip
        first, search = 3 * units + 4, 17
        answers: dict[str, Value | int] = {
            "IDLE": self.answers, "PREPARE": 3 * scan + step, "FETCH": first,
            "FIND_FAILURE": first,
            "STOP": first + search + 3 * scan + step, "EXECUTE": 0, "WORDS": step, "MULTIPLY": 0,
            "LOAD": 0, "STORE": 0, "PUT_LOW": 0, "WAIT": scan, "PUT_HIGH": 1,
            "CHECK_QUEUE": units, "DONE": units, "SUBMIT": units + 1,
            "MEMORY": first + search + 3 * units,
            "CHECK_JOB": first + search - Mux(step > search, search, step),
        }  # fmt: skip
        bound, most = Signal(range(self.longest + 8)), Signal(range(self.answers + 8))
        for code, name in enumerate(self.states):
            with m.If(probe["state"] == code):
                m.d.comb += [bound.eq(cycles[name]), most.eq(answers[name])]
        accepted = Cat(self.open).any()
        self.require(
            "lemma cycles",
            (self.quiet <= bound + probe["in_progress"] + accepted)
            & (~probe["bus_ready"] | (self.quiet == 0)),
            "each state is left, or asks, in time",
        )  # fmt: skip
        shrinks = Cat(
            (self.quiet != 1 + done) | ~factor[_MULTIPLIER - done :].any()
            for done in range(1, _MULTIPLIER + 1)
        ).all()
        self.require(
            "lemma factor", ~self.at("MULTIPLY") | ((self.quiet != 0) & shrinks),
            "a bit of the factor is left out in each cycle",
        )  # fmt: skip
        self.require(
            "lemma answers", self.needed <= most + probe["bus_ready"],
            "each state needs so many answers",
        )  # fmt: skip
