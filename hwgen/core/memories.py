# SPDX-License-Identifier: Apache-2.0
"""The memories of emitted designs: shapes, names of their modules, and what they are for.

Every memory is a module of its own, ``DESIGN_ram_PORTS_WORDSxBITS``, so that a macro can take the
place of its body.  Hardware, costs and synthesis have its ports from here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

HOLDS = {
    "activations": "blocks of A: one half is written while the other is read",
    "weights": "blocks of W: one half is written while the other is read",
    "results": "sums of a block of C",
    "columns": "records of columns for post-processing",
    "jobs": "descriptors of jobs, read by each stage of the engine",
    "rows": "rows of totals, of the columns that are worked on in turn",
    "beats": "beats that wait for their turn",
    "list": "descriptors of a command list",
    "entries": "entries of a queue",
}
"""Names of instances, without their number: what the memories hold."""

_NAME = re.compile(r"ram_(\d+)r1w(_async|_halves|)_(\d+)x(\d+)$")
_NUMBERED = re.compile(r"_\d+$")


@dataclass(frozen=True, order=True)
class Ram:
    """The shape of a memory: one port that writes, and one or more that read.

    Parameters
    ----------
    words, bits : int
        Words, and bits of each.
    reads : int
        Ports that read.
    asynchronous : bool
        Whether data follow the address in the same cycle.  Otherwise they appear with the clock
        edge at which the port is enabled, those from before what that edge writes, and stay until
        the next such edge.
    halves : bool
        Whether a read and a write in one cycle never meet in the same half of the words.
    """

    words: int
    bits: int
    reads: int = 1
    asynchronous: bool = False
    halves: bool = False

    @property
    def ports(self) -> str:
        """The ports, as they stand in the name of the module."""
        more = "_async" if self.asynchronous else "_halves" if self.halves else ""
        return f"{self.reads}r1w{more}"

    @property
    def module(self) -> str:
        """Name of the module, behind that of the design."""
        return f"ram_{self.ports}_{self.words}x{self.bits}"

    @property
    def read_latency(self) -> int:
        """Cycles from an address to its data."""
        return 0 if self.asynchronous else 1

    @property
    def address_bits(self) -> int:
        """Bits of an address, one at least."""
        return max(1, (self.words - 1).bit_length())

    @property
    def capacity(self) -> int:
        """Bits of all words."""
        return self.words * self.bits

    @property
    def read_ports(self) -> tuple[str, ...]:
        """Prefixes of the names of the ports that read: ``r``, or ``r0``, ``r1`` and so on."""
        return ("r",) if self.reads == 1 else tuple(f"r{i}" for i in range(self.reads))


def ram_of(module: str) -> Ram | None:
    """Return the memory that a module is, by its name with or without that of the design."""
    result = _NAME.search(module)
    if result is None or (result.start() and module[result.start() - 1] != "_"):
        return None
    reads, more, words, bits = result.groups()
    return Ram(int(words), int(bits), int(reads), more == "_async", more == "_halves")


def holder(instance: str) -> str:
    """Return the name of what a memory holds, a key of `HOLDS` if it is known, by its instance."""
    return _NUMBERED.sub("", instance)


@dataclass(frozen=True)
class Buffer:
    """A buffer of an engine: memories of one shape that are accessed together.

    Parameters
    ----------
    name : str
        What it holds, as the instances of its memories are called.
    memories : int
    words, width : int
        Of one memory; bits of a word.
    """

    name: str
    memories: int
    words: int
    width: int

    @property
    def bits(self) -> int:
        """Of all memories."""
        return self.memories * self.words * self.width


@dataclass(frozen=True)
class Use:
    """Memory traffic of a workload on an engine.

    Parameters
    ----------
    moved_bytes : int
        Over the memory port.
    accesses : mapping
        Buffer: words read and written, of all its memories.
    writes : mapping
        Buffer: those of them that are written.
    """

    moved_bytes: int
    accesses: Mapping[str, int]
    writes: Mapping[str, int]
