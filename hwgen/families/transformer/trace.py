# SPDX-License-Identifier: Apache-2.0
"""Trace of the events of a command list, in order, without doing its jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from hwgen.core.lists.commands import BYTES, LINE, Descriptor
from hwgen.core.lists.golden import Interpreter
from hwgen.errors import InputError

if TYPE_CHECKING:
    from hwgen.core.params.base import FamilyConfig
    from hwgen.families.transformer.params import TransformerConfig


@dataclass(frozen=True)
class Event:
    """Something that takes time.

    Parameters
    ----------
    action : str
        ``fetch`` of a descriptor, ``data`` of one that holds words, ``words`` written into a
        window, ``multiply``, ``load`` and ``store``, a job (``submit``), ``wait`` for units.
    index : int
        Of the descriptor.
    count : int
        Words; bits of a factor; bytes that are loaded or stored, or fetched if the line of the
        descriptor is not there.
    address : int
        Of those bytes.
    unit : int
        Number of the job's unit.
    mask : int
        Units that are waited for.
    registers : mapping of int
        What the job window holds, by register.
    """

    action: Literal["fetch", "data", "words", "multiply", "load", "store", "submit", "wait"]
    index: int
    count: int = 0
    address: int = 0
    unit: int = 0
    mask: int = 0
    registers: Mapping[str, int] = field(default_factory=dict)


class _Unit:
    """A unit that notes what its window holds."""

    def __init__(self, config: FamilyConfig) -> None:
        self._registers = {register.offset: register for register in config.job_interface.window}
        self.register_values = {register.name: 0 for register in self._registers.values()}

    def put(self, offset: int, word: int) -> bool:
        """Write a register of the job window; say whether there is one."""
        if offset not in self._registers:
            return False
        register = self._registers[offset]
        self.register_values[register.name] = word & ((1 << register.bits) - 1)
        return True

    def submit(self) -> bool:
        """Do nothing."""
        return True


class _Memory:
    """A list and what it stores, and zeros everywhere else."""

    def __init__(self, address: int, data: bytes) -> None:
        self._address, self._data = address, data
        self._stored: dict[int, int] = {}

    def read(self, address: int, count: int) -> bytes:
        """Return bytes."""
        start = address - self._address
        if 0 <= start < len(self._data):
            return self._data[start : start + count]
        return bytes(self._stored.get(address + i, 0) for i in range(count))

    def write(self, address: int, data: bytes) -> None:
        """Keep bytes."""
        self._stored |= {address + i: byte for i, byte in enumerate(data)}


@dataclass
class _Tracer(Interpreter):
    """Notes what is executed."""

    events: list[Event] = field(default_factory=list)
    action: Literal["fetch", "data"] = "fetch"

    def note(self, event: Event) -> None:
        self.events.append(event)

    def _fetch(self, index: int) -> bytes:
        first = index // LINE * LINE
        size = BYTES * min(LINE, self._length - first)
        self.note(Event(self.action, index, size, self._address + BYTES * first))
        return super()._fetch(index)

    def _multiply(self, index: int, d: Descriptor) -> int:
        self.note(Event("multiply", index, d.small.bit_length()))
        return super()._multiply(index, d)

    def _put(self, index: int, d: Descriptor) -> int:
        self.note(Event("words", index, 1 + d.a))
        return super()._put(index, d)

    def _window(self, index: int, d: Descriptor) -> int:
        self.action = "data"
        following = super()._window(index, d)
        self.action = "fetch"
        self.note(Event("words", index, d.a))
        return following

    def _load(self, index: int, d: Descriptor) -> int:
        address, size = self._place(d)
        self.note(Event("load", index, size, address))
        return super()._load(index, d)

    def _store(self, index: int, d: Descriptor) -> int:
        address, size = self._place(d)
        self.note(Event("store", index, size, address))
        return super()._store(index, d)

    def _submit(self, index: int, d: Descriptor) -> int:
        result = super()._submit(index, d)
        unit = self.units[d.c]
        assert isinstance(unit, _Unit)
        self.note(
            Event("submit", index, unit=d.c, mask=d.small, registers=dict(unit.register_values))
        )
        return result

    def _wait(self, index: int, d: Descriptor) -> int:
        self.note(Event("wait", index, mask=d.small))
        return super()._wait(index, d)


def trace(
    config: TransformerConfig, address: int, data: bytes, registers: Sequence[int]
) -> list[Event]:
    """Return the events of a list; what it loads is what it has stored, or else 0.

    Parameters
    ----------
    config : TransformerConfig
    address : int
    data : bytes
        The list.
    registers : sequence of int
        Contents at first.

    Raises
    ------
    InputError
        If it does not end by HALT.
    """
    units = [_Unit(unit) for unit in config.units.values()]
    tracer = _Tracer(
        _Memory(address, data), units, config.register_width, config.lists.calls, list(registers)
    )
    outcome = tracer.run(address, len(data) // BYTES, limit=1 << 24)
    if outcome.state != "done":
        raise InputError(f"the list ends with {outcome.state} at descriptor {outcome.index}")
    return [*tracer.events, Event("wait", outcome.index, mask=(1 << len(units)) - 1)]
