# SPDX-License-Identifier: Apache-2.0
"""Cycles of engines around a stream core: the longest of core, reads and writes; modelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, gcd
from typing import TYPE_CHECKING

from hwgen.core.cycles.basis import Cycles
from hwgen.core.cycles.unit_job import UnitJob
from hwgen.core.protocols import CommandCore
from hwgen.core.registry import core_of
from hwgen.families.stream_engine.registers import ENTRY_BYTES
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.schedule.memory import Access, MemoryPlan
    from hwgen.families.stream_engine.params import StreamEngineConfig

_AROUND = 24
"""Cycles from the submission of a job to the core's first beat, and from its last to the end."""

_OF_A_JOB = 3
"""Cycles between the reads of two jobs."""


_CHOICES = 2
"""Cycles in which it is chosen what is read or written next, with registers at the port."""

_OF_A_BURST = 6
"""Cycles from the request of a burst to its first beat, and from its last to its response."""


def engine_cycles(
    config: StreamEngineConfig, plans: Sequence[MemoryPlan], core_cycles: int
) -> Cycles:
    """Return the modelled cycles of jobs that follow each other.

    With a memory that answers in the next cycle, the engine is busy as long as the core would be at
    full rate, or as the memory takes to read or write all beats, whichever is longest; that is the
    lower bound.  The paths to the core and back are added.

    Parameters
    ----------
    config : StreamEngineConfig
    plans : sequence of MemoryPlan
        Of each job.
    core_cycles : int
        Cycles of the jobs on the core at full rate.
    """
    traffic = [_traffic(config, plan) for plan in plans]
    reads = sum(beats + _OF_A_JOB * count for count, beats, _ in traffic)
    writes = sum(beats for _, _, beats in traffic)
    least = max(core_cycles, sum(beats for _, beats, _ in traffic), writes)
    around = _AROUND + 2 * config.memory.register_cycles + config.memory.registered
    return Cycles(max(core_cycles, reads, writes) + around, "modelled", least=least)


def _traffic(config: StreamEngineConfig, plan: MemoryPlan) -> tuple[int, int, int]:
    """Return jobs of the core, and beats that are read and written, of aligned rows."""
    reads = writes = 0
    for job in plan.jobs:
        reads += sum(_beats(config, access) for access in job.reads.values())
        writes += _beats(config, job.result) + (_beats(config, job.tail) if job.tail else 0)
    return len(plan.jobs), reads, writes


def _beats(config: StreamEngineConfig, access: Access) -> int:
    return access.rows * access.blocks * ceil(access.row_bytes / config.memory_bytes)


def register_cycles(config: StreamEngineConfig, registers: Mapping[str, int]) -> UnitJob:
    """Return the cycles and beats of a job on a unit that shares its memory, by its job window.

    Modelled as `engine_cycles`, with rows where they lie.  Each burst takes a cycle more; bursts
    of a page are as many as it may need, since it may lie anywhere, and its table is read too.  At
    most, nothing of what core, reads and writes take is at the same time, nor are any two bursts.

    Parameters
    ----------
    config : StreamEngineConfig
    registers : mapping of int
        Contents by register name.
    """
    core = config.compute
    (port,) = config.commands
    words = [registers[f"{port.name.upper()}_{word}"] for word in range(-(-port.beat_bytes // 4))]
    child = core_of(core)
    assert isinstance(child, CommandCore)
    counted = child.command_cycles(words)
    reads = bursts = 0
    for port in config.operands:
        beats, requests = placed(config, registers, port.name.upper())
        reads, bursts = reads + beats, bursts + requests
    out = config.results[0].name.upper()
    writes, replies = placed(config, registers, out)
    if registers.get("TAIL_BYTES"):
        beats, requests = placed(config, registers, "TAIL", out)
        writes, replies = writes + beats, replies + requests
    later = (_CHOICES + config.memory.register_cycles) * config.memory.registered
    cycles = max(counted, reads + bursts, writes + replies) + _AROUND + 2 * later
    serial = counted + reads + writes + (_OF_A_BURST + later) * (bursts + replies) + 2 * _AROUND
    work = max(reads, writes)
    least = max(counted, work)
    return UnitJob(cycles, least, serial, work, reads, writes, bursts + replies)


def placed(
    config: StreamEngineConfig, registers: Mapping[str, int], name: str, like: str = ""
) -> tuple[int, int]:
    """Return the beats and the bursts of the rows that registers describe, each where it lies.

    Parameters
    ----------
    config : StreamEngineConfig
    registers : mapping of int
        Contents of a job window by register name.
    name : str
        Of the port, as registers are called.
    like : str
        The port whose rows and blocks these are, if not its own.
    """
    size, width = registers[f"{name}_BYTES"], config.memory_bytes
    if not size:
        return 0, 0
    piece = config.longest_burst * width  # bursts end at multiples of it
    if registers.get(f"{name}_TABLE_LOW", 0) or registers.get(f"{name}_TABLE_HIGH", 0):
        return _of_pages(registers, name, width, piece)
    rows = _offsets(registers[f"{like or name}_ROWS"], registers[f"{name}_STRIDE"], piece)
    blocks = _offsets(registers[f"{like or name}_BLOCKS"], registers[f"{name}_STEP"], piece)
    beats = bursts = 0
    for step, blocks_there in zip(*blocks, strict=True):
        start = (registers[f"{name}_ADDRESS_LOW"] + int(step) + rows[0]) % piece
        count = rows[1] * int(blocks_there)
        beats += int((count * -(-(start % width + size) // width)).sum())
        bursts += int((count * -(-(start + size) // piece)).sum())
    return beats, bursts


def _of_pages(registers: Mapping[str, int], name: str, width: int, piece: int) -> tuple[int, int]:
    """Return the beats of pages and their table, and the most bursts."""
    size, count = registers[f"{name}_BYTES"], registers[f"{name}_BLOCKS"]
    skip, last = registers[f"{name}_SKIP"], registers[f"{name}_LAST"]
    spans = [(0, size, count - 2), (skip, size, 1), (0, last, 1)]
    if count == 1:
        spans = [(skip, last, 1)]
    entries = registers[f"{name}_TABLE_LOW"] % width // ENTRY_BYTES * ENTRY_BYTES
    beats = bursts = -(-(entries + count * ENTRY_BYTES) // width)
    for begin, end, times in spans:
        start = (registers[f"{name}_ADDRESS_LOW"] + begin) % width
        touched = -(-(start + end - begin) // width)
        beats += times * touched
        bursts += times * -(-(touched * width + piece - width) // piece)
    return beats, bursts


def _offsets(count: int, stride: int, piece: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the offsets of multiples of a stride within pieces, and how many have each."""
    period = piece // gcd(stride, piece)
    first = np.arange(min(count, period), dtype=np.int64)
    return first * stride % piece, (count - 1 - first) // period + 1
