# SPDX-License-Identifier: Apache-2.0
"""Golden interpreter of command lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hwgen.core.lists.commands import (
    ALIGNMENT,
    BYTES,
    CONDITIONS,
    LINE,
    OPERATIONS,
    WINDOW_END,
    WINDOW_FIRST,
    Descriptor,
)


class Memory(Protocol):
    """The memory as lists see it; both raise `MemoryFault` where there is none."""

    def read(self, address: int, count: int) -> bytes:
        """Return bytes."""

    def write(self, address: int, data: bytes) -> None:
        """Replace bytes."""


class MemoryFault(Exception):
    """The memory answers with an error."""


class Unit(Protocol):
    """A unit of the engine."""

    def put(self, offset: int, word: int) -> bool:
        """Write a register of the job window; say whether there is one."""

    def submit(self) -> bool:
        """Do the job in the window, at once; say whether it succeeded."""


@dataclass
class Outcome:
    """Outcome of the execution of a list.

    Parameters
    ----------
    state : str
        One of `hwgen.core.lists.commands.STATES`.
    index : int
        Of the last descriptor that was executed, or was to be.
    unit : int
        Which failed, or refused; 0 otherwise.
    steps : int
        Descriptors that were executed.
    registers : list of int
        Register 0 included.
    """

    state: str
    index: int
    unit: int
    steps: int
    registers: list[int]


class _Stop(Exception):
    def __init__(self, state: str, unit: int = 0, index: int | None = None) -> None:
        super().__init__(state)
        self.state, self.unit, self.index = state, unit, index


@dataclass
class Interpreter:
    """Executes lists, one descriptor after the other and every job at once.

    A list whose jobs wait for what they read and overwrite gives the same in hardware.

    Parameters
    ----------
    memory : Memory
    units : sequence of Unit
    width : int
        Bits of a register.
    calls : int
        Calls that may be open.
    registers : list of int
        Contents at first; the first is 0.
    """

    memory: Memory
    units: Sequence[Unit]
    width: int
    calls: int
    registers: list[int]
    _stack: list[int] = field(default_factory=list)

    def run(self, address: int, length: int, *, limit: int = 0) -> Outcome:
        """Execute the list of `length` descriptors at an address.

        Parameters
        ----------
        address, length : int
        limit : int
            Descriptors that are executed at most; 0: no limit.
        """
        self._address, self._length = address, length
        self._stack.clear()
        index = steps = 0
        try:
            if address % ALIGNMENT:
                raise _Stop("alignment")
            while True:
                if limit and steps == limit:
                    raise _Stop("limit")
                descriptor = Descriptor.decode(self._fetch(index))
                if descriptor.code >= len(OPERATIONS):
                    raise _Stop("opcode")
                steps += 1
                name = OPERATIONS[descriptor.code].name
                if name == "HALT":
                    return Outcome("done", index, 0, steps, list(self.registers))
                if name == "WINDOW":
                    index = self._window(index, descriptor)
                else:
                    index = getattr(self, f"_{name.lower()}")(index, descriptor)
        except _Stop as stop:
            at = index if stop.index is None else stop.index
            return Outcome(stop.state, at, stop.unit, steps, list(self.registers))

    def _fetch(self, index: int) -> bytes:
        """Return a descriptor; whatever lies in one line is fetched together."""
        if index >= self._length:
            raise _Stop("end_of_list", index=index)
        first = index // LINE * LINE
        count = min(LINE, self._length - first)
        try:
            line = self.memory.read(self._address + BYTES * first, BYTES * count)
        except MemoryFault:
            raise _Stop("read_error", index=index) from None
        return line[BYTES * (index - first) :][:BYTES]

    # -- what descriptors do: each returns the index of the next one -----------------------------

    def _add(self, index: int, d: Descriptor) -> int:
        self._put_register(d.a, self._value(d.b) + self._value(d.c) + d.large)
        return index + 1

    def _multiply(self, index: int, d: Descriptor) -> int:
        self._put_register(d.a, self._value(d.b) * d.small + self._value(d.c))
        return index + 1

    def _load(self, index: int, d: Descriptor) -> int:
        self._check_register(d.a)
        address, size = self._place(d)
        try:
            data = self.memory.read(address, size)
        except MemoryFault:
            raise _Stop("read_error") from None
        self._put_register(d.a, int.from_bytes(data, "little"))
        return index + 1

    def _store(self, index: int, d: Descriptor) -> int:
        value = self._value(d.a)
        address, size = self._place(d)
        try:
            self.memory.write(address, (value % (1 << 8 * size)).to_bytes(size, "little"))
        except MemoryFault:
            raise _Stop("write_error") from None
        return index + 1

    def _put(self, index: int, d: Descriptor) -> int:
        unit = self._unit(d.c)
        value = (self._value(d.b) + d.large) % (1 << self.width)
        if d.a > 1:
            raise _Stop("operand")
        self._check_offset(d.small)
        self._check_offset(d.small + 4 * d.a)
        self._write(unit, d.c, d.small, value & 0xFFFFFFFF)
        if d.a:
            self._write(unit, d.c, d.small + 4, value >> 32)
        return index + 1

    def _window(self, index: int, d: Descriptor) -> int:
        unit = self._unit(d.c)
        offset, left = d.small, d.a
        self._check_offset(offset)
        index += 1
        while left:
            data = self._fetch(index)
            for word in range(min(left, 4)):
                value = int.from_bytes(data[4 * word : 4 * word + 4], "little")
                self._write(unit, d.c, offset, value)
                offset += 4
            left -= min(left, 4)
            index += 1
        return index

    def _submit(self, index: int, d: Descriptor) -> int:
        unit = self._unit(d.c)
        self._mask(d.small)
        if not unit.submit():
            raise _Stop("unit_failed", d.c)
        return index + 1

    def _wait(self, index: int, d: Descriptor) -> int:
        self._mask(d.small)
        return index + 1

    def _branch(self, index: int, d: Descriptor) -> int:
        b, c = self._value(d.b), self._value(d.c)
        if d.a >= len(CONDITIONS):
            raise _Stop("operand")
        holds = (True, b == c, b != c, b < c, b >= c)[d.a]
        return d.small if holds else index + 1

    def _call(self, index: int, d: Descriptor) -> int:
        if len(self._stack) == self.calls:
            raise _Stop("stack")
        self._stack.append(index + 1)
        return d.small

    def _return(self, index: int, d: Descriptor) -> int:
        if not self._stack:
            raise _Stop("stack")
        return self._stack.pop()

    # -- operands --------------------------------------------------------------------------------

    def _check_register(self, number: int) -> None:
        if number >= len(self.registers):
            raise _Stop("operand")

    def _value(self, number: int) -> int:
        self._check_register(number)
        return self.registers[number]

    def _put_register(self, number: int, value: int) -> None:
        self._check_register(number)
        if number:
            self.registers[number] = value % (1 << self.width)

    def _place(self, d: Descriptor) -> tuple[int, int]:
        """Return the address and the bytes of a LOAD or STORE."""
        base = self._value(d.b)
        if d.c > 3:
            raise _Stop("operand")
        address = (base + d.large) % (1 << self.width)
        if address % (1 << d.c):
            raise _Stop("alignment")
        return address, 1 << d.c

    def _unit(self, number: int) -> Unit:
        if number >= len(self.units):
            raise _Stop("operand")
        return self.units[number]

    def _mask(self, mask: int) -> None:
        if mask >> len(self.units):
            raise _Stop("operand")

    def _check_offset(self, offset: int) -> None:
        if offset % 4 or not WINDOW_FIRST <= offset < WINDOW_END:
            raise _Stop("operand")

    def _write(self, unit: Unit, number: int, offset: int, word: int) -> None:
        self._check_offset(offset)
        if not unit.put(offset, word):
            raise _Stop("window", number)
