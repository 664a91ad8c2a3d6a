# SPDX-License-Identifier: Apache-2.0
"""The job window of an engine around a core with stream ports, from the core's ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwgen.core.post import Field
from hwgen.core.register_map import JOB_WINDOW, STATES, JobInterface, Register
from hwgen.core.schedule.memory import SIZE_BITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hwgen.core.port import StreamPort

MAGIC = 0x68775345
"""Contents of ID: ``hwSE``."""

STRIDE_BITS = 32
"""Bits of the bytes from one row, and from one block, to the next."""

ACCESS = {
    "BYTES": (SIZE_BITS, "Bytes of a row of port {0}; 0: the job does not use the port."),
    "ROWS": (SIZE_BITS, "Rows of a block."),
    "BLOCKS": (SIZE_BITS, "Blocks; the rows of one after those of the other."),
    "STRIDE": (STRIDE_BITS, "Bytes from one row to the next; 0: the same row again."),
    "STEP": (STRIDE_BITS, "Bytes from one block to the next; 0: the same block again."),
}
"""Registers of a port beside its address."""

ENTRY_BITS = 32
"""Bits of an entry of a table of pages, which lies at a multiple of their bytes."""

ENTRY_BYTES = ENTRY_BITS // 8

PAGES = {
    "SKIP": "Bytes that are skipped of the first page of port {0}.",
    "LAST": "Bytes of its last page up to which that is read, skipped ones included.",
}
"""Registers of a port in pages, beside the address of their table."""

MOST_PAGES = (1 << SIZE_BITS) // ENTRY_BYTES - 1
"""Pages of a port of a job."""

FLAGS = (Field("after", 0, 1, False, "Begin to read when all earlier jobs have finished."),)

MISMATCH = "mismatch"
"""State of a job whose numbers do not agree: core and memory wait for each other, or beats are left
over."""

COUNTERS = {
    "BUSY": "Cycles in which a job was unfinished.",
    "INPUT_WAITS": "Cycles in which the core was ready for operands that had not come.",
    "OUTPUT_WAITS": "Cycles in which a result waited for the memory.",
    "READS": "Beats read from memory.",
    "WRITES": "Beats written to memory.",
}


def stream_interface(
    address: int, memory_bytes: int, commands: Sequence[StreamPort],
    operands: Sequence[StreamPort], results: Sequence[StreamPort], tables: Sequence[StreamPort],
) -> JobInterface:  # fmt: skip
    """Return the part of the register map that is specific to an engine, from its core's ports.

    Parameters
    ----------
    address : int
        Bits of an address in memory.
    memory_bytes : int
        Bytes of a beat of the memory.
    commands, operands, results, tables : sequence of StreamPort
        Those that take a beat for each job; other inputs; outputs; inputs in pages.
    """
    window: list[Register] = []

    def add(name: str, bits: int, text: str, fields: tuple[Field, ...] = ()) -> None:
        window.append(Register(name, JOB_WINDOW + 4 * len(window), "rw", text, fields, bits))

    def place(name: str, text: str) -> None:
        add(f"{name}_LOW", min(32, address), f"Address of {text}, lower 32 bits.")
        add(f"{name}_HIGH", max(0, address - 32), "Upper bits of it.")

    for port in commands:
        for word in range(-(-port.data_width // 32)):
            bits = min(32, port.data_width - 32 * word)
            add(
                f"{port.name.upper()}_{word}",
                bits,
                f"Word {word} of port {port.name}: {port.beat}.",
            )
    for port in (*operands, *results):
        name = port.name.upper()
        place(f"{name}_ADDRESS", f"the first row of port {port.name}")
        for part, (bits, text) in ACCESS.items():
            add(f"{name}_{part}", bits, text.format(port.name))
        if port in tables:
            place(
                f"{name}_TABLE",
                f"a table of {ENTRY_BITS} bits for each block, its page: it begins so many beats of"
                f" {memory_bytes} bytes behind the address; 0: blocks are no pages",
            )
            for part, text in PAGES.items():
                add(f"{name}_{part}", SIZE_BITS, text.format(port.name))
    if results[0].tail_bytes:
        place("TAIL_ADDRESS", "what follows the first row of results")
        add("TAIL_BYTES", SIZE_BITS, "Bytes of it in memory; 0: rows are followed by nothing.")
        add("TAIL_STRIDE", STRIDE_BITS, "Bytes from one to the next.")
        add("TAIL_STEP", STRIDE_BITS, "Bytes from that of a block to that of the next.")
    add("JOB_FLAGS", len(FLAGS), "How the job runs.", FLAGS)
    return JobInterface(
        MAGIC, tuple(window), FLAGS, states=(*STATES, MISMATCH), counters=tuple(COUNTERS.items())
    )
