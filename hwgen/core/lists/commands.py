# SPDX-License-Identifier: Apache-2.0
"""Command lists: what an engine with several units does, as descriptors in memory.

A list is an array of descriptors of `BYTES` bytes.  They compute in registers as wide as an
address, load and store, fill the job windows of units, put jobs into their queues and wait for
them, branch and call; so one list serves all layers of a model and all tokens.  Register 0 is 0.

The hardware, the golden interpreter and the documentation are all made from `OPERATIONS`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hwgen.core.register_map import JOB_WINDOW
from hwgen.errors import InputError

BYTES = 16
"""Bytes of a descriptor."""

ALIGNMENT = 64
"""Bytes that the address of a list is a multiple of."""

LINE = 16
"""Descriptors that are fetched together."""

WINDOW_FIRST, WINDOW_END = 0x100, 0x1000
"""Registers of a unit that lists may write: its job window."""

STATES = (
    "idle", "running", "done", "end_of_list", "opcode", "operand", "stack", "alignment",
    "read_error", "write_error", "window", "unit_failed", "aborted", "limit",
)  # fmt: skip
"""States of a list by their code; those behind ``done`` are errors."""

STATE_TEXTS = {
    "idle": "no list was started",
    "running": "a list runs",
    "done": "the list ended with HALT, and all jobs are finished",
    "end_of_list": "a descriptor behind the last one was to be executed",
    "opcode": "a descriptor has an unknown opcode",
    "operand": "a descriptor names a register, unit, size, condition or offset that is not there",
    "stack": "a CALL too deep, or a RETURN without a CALL",
    "alignment": "the list, a LOAD or a STORE at an address that is no multiple of what it must be",
    "read_error": "the memory answered a fetch or a LOAD with an error",
    "write_error": "the memory answered a STORE with an error",
    "window": "a unit refused what a PUT, WINDOW or SUBMIT wrote",
    "unit_failed": "a job ended with an error; the index is that of its SUBMIT",
    "aborted": "the host wrote ABORT",
    "limit": "as many descriptors as STEP_LIMIT says were executed",
}
"""What the states mean."""

CONDITIONS = ("always", "equal", "different", "below", "not_below")
"""Conditions of BRANCH by their code; numbers are unsigned."""


@dataclass(frozen=True)
class Operation:
    """Operation of a descriptor.

    Parameters
    ----------
    name : str
    code : int
    fields : tuple of str
        Those of the descriptor's fields that it uses.
    text : str
    """

    name: str
    code: int
    fields: tuple[str, ...]
    text: str


OPERATIONS = tuple(
    Operation(name, code, tuple(fields.split()), text)
    for code, (name, fields, text) in enumerate((
        ("HALT", "", "Wait for all units, then end the list."),
        ("ADD", "a b c large", "r[a] = r[b] + r[c] + large."),
        ("MULTIPLY", "a b c small", "r[a] = r[b] x small + r[c]."),
        ("LOAD", "a b c large", "r[a] = the 1 << c bytes at r[b] + large, a multiple of 1 << c."),
        ("STORE", "a b c large", "Write the low 1 << c bytes of r[a] to r[b] + large, likewise."),
        ("PUT", "a b c small large", ("Write r[b] + large into the register at offset `small` of"
         " unit c; its upper half into the next register as well, if a is 1.")),
        ("WINDOW", "a c small", ("Write the a words that follow, four a descriptor, into the"
         " registers of unit c from offset `small` on.")),
        ("SUBMIT", "c small", ("Wait until the units of mask `small` have finished their jobs, then"
         " put the job window of unit c into its queue, as soon as that has room.")),
        ("WAIT", "small", "Wait until the units of mask `small` have finished their jobs."),
        ("BRANCH", "a b c small", ("Go on at descriptor `small` if condition a holds of r[b] and"
         " r[c].")),
        ("CALL", "small", "Go on at descriptor `small`; RETURN comes back behind this one."),
        ("RETURN", "", "Go on behind the last CALL."),
    ))
)  # fmt: skip
"""All operations by their code."""

_BY_NAME = {operation.name: operation for operation in OPERATIONS}


def code_of(name: str) -> int:
    """Return the opcode of an operation."""
    return _BY_NAME[name].code


@dataclass(frozen=True)
class Descriptor:
    """One descriptor; its bytes are those of its fields in this order, least significant first.

    Parameters
    ----------
    code, a, b, c : int
        8 bits each.
    small : int
        32 bits.
    large : int
        64 bits.
    """

    code: int
    a: int = 0
    b: int = 0
    c: int = 0
    small: int = 0
    large: int = 0

    LAYOUT = struct.Struct("<BBBBIQ")

    def encode(self) -> bytes:
        """Return its bytes."""
        return self.LAYOUT.pack(self.code, self.a, self.b, self.c, self.small, self.large)

    @classmethod
    def decode(cls, data: bytes) -> Descriptor:
        """Return the descriptor that `BYTES` bytes are."""
        return cls(*cls.LAYOUT.unpack(data))


@dataclass
class Program:
    """A list under construction: its methods append descriptors.

    Parameters
    ----------
    units : sequence of str
        Names of the engine's units, in the order of their numbers.
    registers : int
        Registers that there are, register 0 included.
    """

    units: Sequence[str]
    registers: int = 16
    _items: list[Descriptor | bytes] = field(default_factory=list)
    _labels: dict[str, int] = field(default_factory=dict)
    _uses: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._items)

    def label(self, name: str) -> None:
        """Call the place of the next descriptor `name`."""
        if name in self._labels:
            raise InputError(f"label {name!r} is set twice in a command list")
        self._labels[name] = len(self._items)

    def set(self, a: int, value: int) -> None:
        """``r[a] = value``."""
        self.add(a, value=value)

    def add(self, a: int, b: int = 0, c: int = 0, *, value: int = 0) -> None:
        """``r[a] = r[b] + r[c] + value``; a negative value subtracts."""
        self._append("ADD", a=self._register(a), b=self._register(b), c=self._register(c),
                     large=value % (1 << 64))  # fmt: skip

    def multiply(self, a: int, b: int, factor: int, c: int = 0) -> None:
        """``r[a] = r[b] * factor + r[c]``; the factor has 32 bits."""
        self._append("MULTIPLY", a=self._register(a), b=self._register(b), c=self._register(c),
                     small=factor)  # fmt: skip

    def load(self, a: int, b: int = 0, *, size: int = 8, offset: int = 0) -> None:
        """Load `size` bytes, 1, 2, 4 or 8, at ``r[b] + offset`` into ``r[a]``."""
        self._append("LOAD", a=self._register(a), b=self._register(b), c=_log(size),
                     large=offset % (1 << 64))  # fmt: skip

    def store(self, a: int, b: int = 0, *, size: int = 8, offset: int = 0) -> None:
        """Store the low `size` bytes of ``r[a]`` at ``r[b] + offset``."""
        self._append("STORE", a=self._register(a), b=self._register(b), c=_log(size),
                     large=offset % (1 << 64))  # fmt: skip

    def put(
        self, unit: str, offset: int, b: int = 0, *, value: int = 0, wide: bool = False
    ) -> None:
        """Write ``r[b] + value`` into a register of a unit, or, `wide`, into two."""
        self._append("PUT", a=int(wide), b=self._register(b), c=self._unit(unit), small=offset,
                     large=value % (1 << 64))  # fmt: skip

    def window(self, unit: str, offset: int, words: Sequence[int]) -> None:
        """Write words into the registers of a unit from `offset` on."""
        for at in range(0, len(words), 255):
            part = [word & 0xFFFFFFFF for word in words[at : at + 255]]
            self._append("WINDOW", a=len(part), c=self._unit(unit), small=offset + 4 * at)
            part += [0] * (-len(part) % 4)
            for first in range(0, len(part), 4):
                self._items.append(struct.pack("<4I", *part[first : first + 4]))

    def submit(self, unit: str, *, after: Iterable[str] = ()) -> None:
        """Put a unit's job window into its queue when the units `after` have finished theirs."""
        self._append("SUBMIT", c=self._unit(unit), small=self._mask(after))

    def job(self, unit: str, writes: Iterable[tuple[int, int]]) -> None:
        """Write the whole job window of a unit, as a job's `writes` have it, and submit it."""
        self.window(unit, JOB_WINDOW, [word for _, word in writes])
        self.submit(unit)

    def wait(self, units: Iterable[str] | None = None) -> None:
        """Wait for units; by default all."""
        self._append("WAIT", small=self._mask(self.units if units is None else units))

    def branch(self, label: str, condition: str = "always", b: int = 0, c: int = 0) -> None:
        """Go on at a label if a condition of `CONDITIONS` holds of ``r[b]`` and ``r[c]``."""
        self._uses[len(self._items)] = label
        self._append("BRANCH", a=CONDITIONS.index(condition), b=self._register(b),
                     c=self._register(c))  # fmt: skip

    def call(self, label: str) -> None:
        """Go on at a label until RETURN."""
        self._uses[len(self._items)] = label
        self._append("CALL")

    def back(self) -> None:
        """Return from a call."""
        self._append("RETURN")

    def halt(self) -> None:
        """End the list when all units have finished."""
        self._append("HALT")

    def encode(self) -> bytes:
        """Return the list as it lies in memory.

        Raises
        ------
        InputError
            If a label is not set.
        """
        parts = []
        for place, item in enumerate(self._items):
            if isinstance(item, bytes):
                parts.append(item)
                continue
            if place in self._uses:
                name = self._uses[place]
                if name not in self._labels:
                    labels = ", ".join(self._labels) or "none"
                    raise InputError(
                        f"label {name!r} of a command list is not set; there is: {labels}"
                    )
                item = Descriptor(item.code, item.a, item.b, item.c, self._labels[name])
            parts.append(item.encode())
        return b"".join(parts)

    def _append(self, name: str, **fields: int) -> None:
        self._items.append(Descriptor(code_of(name), **fields))

    def _register(self, number: int) -> int:
        if not 0 <= number < self.registers:
            raise InputError(f"a register must be 0..{self.registers - 1}, not {number!r}")
        return number

    def _unit(self, name: str) -> int:
        if name not in self.units:
            raise InputError(f"a unit must be one of {', '.join(self.units)}, not {name!r}")
        return list(self.units).index(name)

    def _mask(self, names: Iterable[str]) -> int:
        return sum(1 << self._unit(name) for name in set(names))


def _log(size: int) -> int:
    if size not in (1, 2, 4, 8):
        raise InputError(f"a LOAD or STORE has 1, 2, 4 or 8 bytes, not {size!r}")
    return size.bit_length() - 1


def listing(data: bytes, units: Sequence[str] = ()) -> str:
    """Return a list as text, a descriptor a line.

    Parameters
    ----------
    data : bytes
        A whole number of descriptors.
    units : sequence of str
        Names of units, by number.
    """
    lines, raw = [], 0
    for index in range(len(data) // BYTES):
        part = data[BYTES * index : BYTES * (index + 1)]
        if raw:
            words = struct.unpack("<4I", part)[: min(raw, 4)]
            raw -= len(words)
            lines.append(f"{index:6d}    " + " ".join(f"{word:#010x}" for word in words))
            continue
        descriptor = Descriptor.decode(part)
        lines.append(f"{index:6d}  {_text(descriptor, units)}")
        if descriptor.code == code_of("WINDOW"):
            raw = descriptor.a
    return "\n".join(lines) + "\n"


def _text(descriptor: Descriptor, units: Sequence[str]) -> str:
    if descriptor.code >= len(OPERATIONS):
        return f"opcode {descriptor.code}"
    operation = OPERATIONS[descriptor.code]
    parts = []
    for name in operation.fields:
        value = getattr(descriptor, name)
        if name == "c" and operation.name in ("PUT", "WINDOW", "SUBMIT") and value < len(units):
            parts.append(f"c={units[value]}")
        else:
            parts.append(f"{name}={value:#x}" if name in ("small", "large") else f"{name}={value}")
    return " ".join([operation.name, *parts])
