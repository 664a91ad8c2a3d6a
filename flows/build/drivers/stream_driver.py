# SPDX-License-Identifier: Apache-2.0
"""The C driver of an engine around a stream core, and of one that executes command lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flows.build.drivers.c_templates import (
    ENDS,
    OF_A_JOB,
    OF_A_LIST,
    cases,
    filled,
    piece,
    queue_statuses,
    statuses,
)

if TYPE_CHECKING:
    from hwgen.core.lists.builder import ListEngine

_STATUSES = {
    **queue_statuses({
        "SIZE": "a number is too wide, or the job has no results",
        "ADDRESS": "beyond the address space",
    }),
    "MISMATCH": "the numbers of the job do not agree",
}  # fmt: skip
"""Of an engine around a stream core."""

_LIST_STATUSES = {
    "TIMEOUT": "not finished in time",
    "BUSY": "another list runs",
    "ADDRESS": "misaligned, empty, or beyond the address space",
    "REGISTER": "no such register of lists, or a value wider than it",
    "DEVICE": "no such engine",
    "NONE": "no list was started",
}
"""Of an engine that executes lists; how one ends follows."""


def stream_driver(config: Any) -> dict[str, str]:
    """Return the files of the driver of a stream engine, name to text; C99 without a library.

    Parameters
    ----------
    config : StreamEngineConfig
    """
    from hwgen.families.stream_engine.registers import ENTRY_BYTES, MOST_PAGES, SIZE_BITS
    from hwgen.core.register_map import LAYOUT

    prefix, out = config.name.upper(), config.results[0]
    members, checks, writes = [], [], []
    for port in config.commands:
        words, name = -(-port.beat_bytes // 4), port.name
        members.append(f"    uint32_t {name}[{words}]; /* {port.beat} */")
        writes += [
            f"    put(device, {prefix}_{name.upper()}_{word}, job->{name}[{word}]);"
            for word in range(words)
        ]
    for port in (*config.operands, out):
        name = port.name
        kind, suffix = ("pages", "_pages") if port in config.tables else ("place", "")
        members.append(f"    {config.name}_{kind} {name}; /* {port.beat} */")
        checks += [
            f"    status = check{suffix}(&job->{name});",
            f"    if (status != {prefix}_OK)",
            "        return status;",
        ]
        writes.append(f"    put_{kind}(device, {prefix}_{name.upper()}_ADDRESS_LOW, &job->{name});")
    if out.tail_bytes:
        members.append(
            f"    {config.name}_place tail; /* what follows each row of results; as many rows */"
        )
        checks += [
            f"    if (job->tail.row_bytes > {out.tail_bytes}u)",
            f"        return {prefix}_E_SIZE;",
            "    tail = job->tail;",
            f"    tail.rows = job->{out.name}.rows;",
            f"    tail.blocks = job->{out.name}.blocks;",
            "    status = check(&tail);",
            f"    if (status != {prefix}_OK)",
            "        return status;",
        ]
        writes += [
            f"    put(device, {prefix}_TAIL_ADDRESS_LOW, (uint32_t)job->tail.address);",
            f"    put(device, {prefix}_TAIL_ADDRESS_HIGH, (uint32_t)(job->tail.address >> 32));",
            f"    put(device, {prefix}_TAIL_BYTES, job->tail.row_bytes);",
            f"    put(device, {prefix}_TAIL_STRIDE, job->tail.stride);",
            f"    put(device, {prefix}_TAIL_STEP, job->tail.step);",
        ]
    tail = f"    {config.name}_place tail;" if out.tail_bytes else ""
    values = {
        "MEMBERS": "\n".join(members),
        "CHECKS": "\n".join(checks),
        "WRITES": "\n".join(writes),
        "LOCALS": "\n".join(filter(None, [tail, "    int status;"])),
        "OUT": out.name,
        "CASES": cases(
            prefix, {f"JOB_{state}": error for state, error in (*ENDS.items(), ("MISMATCH",) * 2)}
        ),
        **statuses(prefix, _STATUSES),
        **OF_A_JOB,
        "LIMITS": f"    LAYOUT = {LAYOUT},\n    LARGEST = {(1 << SIZE_BITS) - 1}",
    }
    pages = {"h": "", "c": ""}
    if config.tables:
        pages = {suffix: piece(f"stream_pages.{suffix}") for suffix in pages}
        values["LIMITS"] += f",\n    MOST_PAGES = {MOST_PAGES},\n    ENTRY = {ENTRY_BYTES}"
    return filled(config, "stream_driver", values, {f: {"PAGES": p} for f, p in pages.items()})


def list_driver(config: ListEngine) -> dict[str, str]:
    """Return the files of the driver of an engine that executes lists, name to text."""
    from hwgen.core.lists.commands import STATE_TEXTS, STATES
    from hwgen.core.lists.registers import LAYOUT

    prefix = config.name.upper()
    errors = STATES[STATES.index("done") + 1 :]
    names = {state: _of_list(state) for state in errors}
    ends = {name: STATE_TEXTS[state] for state, name in names.items()}
    values = {
        "CASES": cases(prefix, {f"LIST_{state.upper()}": name for state, name in names.items()}),
        **statuses(prefix, _LIST_STATUSES | ends),
        **OF_A_LIST,
        "LIMITS": f"    LAYOUT = {LAYOUT},\n    UNITS = {len(config.units)},\n"
        f"    MOST_DESCRIPTORS = {(1 << 24) - 1}",
    }
    return filled(config, "list_driver", values)


def _of_list(state: str) -> str:
    """Return the name of an error; that of a list's or access's alignment is another's too."""
    return {"alignment": "MISALIGNED", "window": "REFUSED"}.get(state, state.upper())
