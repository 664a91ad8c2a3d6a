# SPDX-License-Identifier: Apache-2.0
"""What the sequencer of command lists holds, and what all of its states do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from hwgen.core.lists.commands import (
    BYTES,
    CONDITIONS,
    OPERATIONS,
    STATES,
    WINDOW_END,
    WINDOW_FIRST,
    code_of,
)
from rtl_templates.hdl.hierarchy import Block, place

from .list_memory import INDEX_BITS
from .unit_bus import UnitBus

if TYPE_CHECKING:
    from collections.abc import Callable

    from hwgen.families.transformer.params import TransformerConfig

SLOTS = 16
"""Jobs of a unit whose descriptors are remembered: as many as the longest queue holds."""

DESCRIPTOR = data.StructLayout({"code": 8, "a": 8, "b": 8, "c": 8, "small": 32, "large": 64})


class SequencerParts(Block):
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
        Code of `hwgen.core.lists.commands.STATES`; at which descriptor; of which unit; how many
        were executed.
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

    def _make(self, m: Module) -> None:
        """Make the registers, the bus to the units and what is read of a descriptor."""
        width = self.config.register_width
        self.pc = Signal(32, name="pc", reset_less=True)
        self.at = Signal(32, name="at", reset_less=True)
        self.d = Signal(DESCRIPTOR, name="descriptor", reset_less=True)
        self.raw = Signal(8, name="words_left")  # of a WINDOW, of which the next descriptor is part
        self.offset = Signal(32, name="offset", reset_less=True)
        self.scan = Signal(range(max(2, self.count)), name="scanned_unit", reset_less=True)
        self.step = Signal(range(max(8, SLOTS + 1)), name="scan_step", reset_less=True)
        self.code = Signal(range(len(STATES)), name="code")
        self.place = Signal(32, name="error_index")
        self.blamed = Signal(range(max(2, self.count)), name="error_unit")
        self.tickets = [Signal(32, name=f"tickets_{i}", reset_less=True) for i in range(self.count)]
        self.jobs = [Signal(range(SLOTS + 1), name=f"jobs_{i}") for i in range(self.count)]
        self.made_by = [
            Array(Signal(INDEX_BITS, name=f"made_{i}_{slot}", reset_less=True)
                  for slot in range(SLOTS))
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
