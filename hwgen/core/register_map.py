# SPDX-License-Identifier: Apache-2.0
"""The registers of an engine, described once.

The RTL, the C header, the manifest and the documentation are all made from `register_map`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from hwgen.core import post
from hwgen.core.params.protection import Protection

MAGIC = 0x68774753
"""Contents of ID: ``hwGS``."""

LAYOUT = 1
"""Contents of LAYOUT; it changes with the meaning of registers."""

JOB_WINDOW = 0x100
"""Address of the first register of the job window."""

STATES = ("none", "unfinished", "done", "read_error", "write_error", "aborted")
"""States of a job by their code."""

PENDING = ("job", "failure")
"""Bits of INTERRUPT: a job is done; jobs ended with an error or by an abort."""

COUNTERS = {
    "BUSY": "Cycles in which a job was unfinished.",
    "LOAD_WAITS": "Cycles in which a load waited for a free buffer.",
    "COMPUTE_WAITS": "Cycles in which the cores waited for operands.",
    "DRAIN_WAITS": "Cycles in which results waited for a free buffer.",
    "READS": "Beats read from memory.",
    "WRITES": "Beats written to memory.",
}
"""Counters of `COUNTER_BITS`, in two registers each."""

FAULT_COUNTERS = {
    "FAULTS_NOTICED": "Cycles in which parity, or a second core, noticed a fault.",
    "FAULTS_CORRECTED": "Cycles in which registers that vote corrected a fault.",
}
"""Counters of an engine that is protected."""

FAULT_EVENTS = ("fault_noticed", "fault_corrected")
"""Inputs of an engine that is protected: what its fault counters count."""

COUNTER_BITS = 48

JOB_STATUS = 0x40
"""Address of the state of the first slot for jobs."""

JOB_FLAGS = tuple(
    post.Field(name, bit, 1, False, text)
    for bit, (name, text) in enumerate(
        {
            "m_inner": "The loop over blocks of rows is the inner one.",
            "after": "Begin when all earlier jobs have finished.",
            "a_whole": "A block of A takes all of its buffer, not half.",
            "w_whole": "The same of W.",
        }.items()
    )
)
"""Fields of the register JOB_FLAGS; a job's descriptor has them under the same names."""

FORMAT = "format"
"""Field of JOB_FLAGS of an engine whose cores take several formats."""

Access = Literal["ro", "rw", "wo", "w1c"]


@dataclass(frozen=True)
class Register:
    """A register of up to 32 bits.

    Parameters
    ----------
    name : str
    offset : int
        Bytes from the first register.
    access : {"ro", "rw", "wo", "w1c"}
        Read only, read and write, write only (reads as 0), write 1 to clear.
    text : str
    fields : tuple of Field
        Where it is more than one number.
    bits : int
        From bit 0; the others read as 0.
    """

    name: str
    offset: int
    access: Access
    text: str
    fields: tuple[post.Field, ...] = ()
    bits: int = 32


@dataclass(frozen=True)
class JobInterface:
    """Part of the register map that is specific to one type of engine.

    Parameters
    ----------
    magic : int
        Contents of ID.
    window : tuple of Register
        Those that describe the next job, from `JOB_WINDOW` on.
    flags : tuple of Field
        Of the register JOB_FLAGS; a job's descriptor has them under the same names.
    facts : tuple of (str, int, int, str)
        Registers that only say what the engine is: name, offset, contents, meaning.
    states : tuple of str
        `STATES`, and perhaps more.
    counters : dict
        Name to meaning; the first counts cycles in which a job was unfinished.
    """

    magic: int
    window: tuple[Register, ...]
    flags: tuple[post.Field, ...]
    facts: tuple[tuple[str, int, int, str], ...] = ()
    states: tuple[str, ...] = STATES
    counters: tuple[tuple[str, str], ...] = tuple(COUNTERS.items())


def with_fault_counters(interface: JobInterface, protection: Protection) -> JobInterface:
    """Return an interface with `FAULT_COUNTERS` if the engine is protected."""
    if not protection.any:
        return interface
    return replace(interface, counters=(*interface.counters, *FAULT_COUNTERS.items()))


def unobserved(interface: JobInterface) -> JobInterface:
    """Return an interface without counters, whose job window is only written."""
    window = tuple(replace(each, access="wo") for each in interface.window)
    return replace(interface, window=window, counters=())


def register_map(interface: JobInterface, queue: int) -> tuple[Register, ...]:
    """Return the registers of an engine that takes jobs in the order of their addresses.

    Parameters
    ----------
    interface : JobInterface
    queue : int
        Jobs that wait or run.
    """
    registers = [
        *_HEAD,
        *(Register(name, offset, "ro", text) for name, offset, _, text in interface.facts),
        _QUEUE,
    ]
    registers[0] = Register("ID", 0x00, "ro", f"{interface.magic:#x}: an engine of hwgen.")
    for slot in range(queue):
        states = ", ".join(f"{code} {state}" for code, state in enumerate(interface.states))
        text = f"State of the last job with number {slot} modulo {queue}: {states}."
        registers.append(Register(f"JOB_STATUS_{slot}", JOB_STATUS + 4 * slot, "ro", text))
    for index, (name, text) in enumerate(interface.counters):
        registers.append(Register(f"{name}_LOW", 0x80 + 8 * index, "ro", text))
        registers.append(Register(f"{name}_HIGH", 0x84 + 8 * index, "ro",
                              f"Upper bits of {name}, as they were when {name}_LOW was read.",
                              bits=COUNTER_BITS - 32))  # fmt: skip
    return (*registers, *interface.window)


_STATUS = (
    post.Field("busy", 0, 1, False, "A job is unfinished."),
    post.Field("stopping", 1, 1, False, "Jobs are being ended by an error or an abort."),
    post.Field("free", 8, 8, False, "Jobs that the queue can take."),
)

_PENDING = tuple(
    post.Field(name, bit, 1, False, text)
    for bit, (name, text) in enumerate(
        zip(PENDING, ("A job is done.", "Jobs ended by an error or an abort."), strict=True)
    )
)


_HEAD = (
    Register("ID", 0x00, "ro", f"{MAGIC:#x}: an engine of hwgen."),
    Register("LAYOUT", 0x04, "ro", f"{LAYOUT}: version of this map."),
    Register("STATUS", 0x08, "ro", "State of the engine.", _STATUS),
    Register("SUBMIT", 0x0C, "wo", "Any write puts the job window into the queue; an error if"
             " the queue is full or the engine stops."),
    Register("SUBMITTED", 0x10, "ro", "Jobs ever submitted, modulo 2^32."),
    Register("FINISHED", 0x14, "ro", "Jobs that have ended in any way, modulo 2^32."),
    Register("INTERRUPT_ENABLE", 0x18, "rw", "Which of INTERRUPT raise the line.", _PENDING, 2),
    Register("INTERRUPT", 0x1C, "w1c", "What has happened.", _PENDING, 2),
    Register("ABORT", 0x20, "wo", "Any write ends all unfinished jobs."),
)  # fmt: skip

_QUEUE = Register("QUEUE", 0x30, "ro", "Jobs that the queue holds.")

UNIT_REGISTERS = {register.name: register.offset for register in (*_HEAD, _QUEUE)}
"""Addresses of the registers that every engine with a queue of jobs has."""
