# SPDX-License-Identifier: Apache-2.0
"""Registers as C, JSON and Markdown: an engine's map, and the words of beats of port ``post``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hwgen.core.core import Core
from hwgen.core.lists import commands as command_lists
from hwgen.core.post.beats import RECORD_WORDS, WORDS
from hwgen.core.register_map import LAYOUT, MAGIC, JobInterface, Register
from hwgen.families.gemm_stream.core import GemmStreamCore
from hwgen.families.transformer import registers as list_registers
from hwgen.families.transformer.core import TransformerCore

_ACCESS = {"ro": "read", "rw": "read, write", "wo": "write", "w1c": "read, write 1 to clear"}


def defines(core: Core[Any]) -> list[str]:
    """Return the lines of the C header: offsets, fields, and what a driver must know."""
    prefix = core.name.upper()
    if isinstance(core, GemmStreamCore):
        return _gemm_defines(core, prefix)
    if isinstance(core, TransformerCore):
        return _list_defines(core, prefix)
    return _stream_defines(core, prefix)


def _gemm_defines(core: GemmStreamCore, prefix: str) -> list[str]:
    config = core.params
    m, k, n = config.m_lanes, config.k_lanes, config.n_lanes
    facts = {
        "MAGIC": f"{MAGIC:#x}u",
        "LAYOUT_VERSION": f"{LAYOUT}u",
        "QUEUE_SLOTS": config.queue,
        "DATA_BYTES": config.memory_bytes,
        "ADDRESS_BITS": config.memory.address_width,
        "TILE_M": m,
        "TILE_K": k,
        "TILE_N": n,
        "A_ELEMENT_BYTES": config.activation_bytes,
        "W_IS_IMAGE": int(config.loop_nest.image),
        "W_ELEMENT_BYTES": config.weight_bytes,
        "W_TILE_BYTES": config.w_tile_bytes,
        "MAX_K": config.max_k,
    }
    if len(config.formats) > 1:
        facts["MAX_K"] = max(each.max_k for each in config.formats)
        facts |= {
            f"FORMAT_{str(each.activation).upper()}": number
            for number, each in enumerate(config.formats)
        }
    lines = [f"#define {prefix}_{name} {value}" for name, value in facts.items()]
    return lines + _job_defines(config.job_interface, core.registers, prefix)


def _stream_defines(core: Core[Any], prefix: str) -> list[str]:
    config = core.params
    facts = {
        "MAGIC": f"{config.job_interface.magic:#x}u",
        "LAYOUT_VERSION": f"{LAYOUT}u",
        "QUEUE_SLOTS": config.queue,
        "DATA_BYTES": config.memory_bytes,
        "ADDRESS_BITS": config.memory.address_width,
    }
    for port in (*config.operands, *config.results):
        facts[f"{port.name.upper()}_BEAT_BYTES"] = port.beat_bytes
    lines = [f"#define {prefix}_{name} {value}" for name, value in facts.items()]
    return lines + _job_defines(config.job_interface, core.registers, prefix)


def _job_defines(interface: JobInterface, registers: Sequence[Register], prefix: str) -> list[str]:
    """Return the lines about jobs that wait in a queue."""
    return [
        "",
        "/* States of a job. */",
        *(
            f"#define {prefix}_JOB_{state.upper()} {code}"
            for code, state in enumerate(interface.states)
        ),
        *_register_defines(registers, prefix),
        "",
        "/* The job window, which SUBMIT puts into the queue. */",
        f"#define {prefix}_JOB_WINDOW {interface.window[0].offset:#05x}u",
        f"#define {prefix}_JOB_WORDS {len(interface.window)}",
    ]


def _list_defines(core: TransformerCore, prefix: str) -> list[str]:
    config = core.params
    facts = {
        "MAGIC": f"{list_registers.MAGIC:#x}u",
        "LAYOUT_VERSION": f"{list_registers.LAYOUT}u",
        "DATA_BYTES": config.memory.data_width // 8,
        "ADDRESS_BITS": config.memory.address_width,
        "LIST_REGISTERS": config.lists.registers,
        "LIST_ALIGN_BYTES": command_lists.ALIGNMENT,
        "DESCRIPTOR_BYTES": command_lists.BYTES,
    }
    lines = [f"#define {prefix}_{name} {value}" for name, value in facts.items()]
    lines += ["", "/* Units, by the number that descriptors have. */"]
    lines += [f"#define {prefix}_UNIT_{n.upper()} {i}" for i, n in enumerate(config.units)]
    lines += ["", "/* Opcodes of descriptors. */"]
    for operation in command_lists.OPERATIONS:
        lines.append(f"#define {prefix}_OP_{operation.name} {operation.code}")
    lines += ["", "/* States of a list. */"]
    for code, state in enumerate(command_lists.STATES):
        lines.append(f"#define {prefix}_LIST_{state.upper()} {code}")
    for name, unit in config.units.items():
        window = unit.job_interface.window
        stem = f"{prefix}_{name.upper()}"
        lines += [
            "",
            f"/* The job window of unit {name}. */",
            f"#define {stem}_WORDS {len(window)}",
        ]
        lines += [f"#define {stem}_{each.name} {each.offset:#05x}u" for each in window]
    return lines + _register_defines(core.registers, prefix)


def _register_defines(registers: Iterable[Register], prefix: str) -> list[str]:
    lines = ["", "/* Registers, in bytes from the first. */"]
    for register in registers:
        stem = f"{prefix}_{register.name}"
        lines.append(f"#define {stem} {register.offset:#05x}u /* {register.text} */")
        lines += _field_defines(stem, register)
    return lines


def plain(registers: Iterable[Register]) -> list[dict[str, Any]]:
    """Return the registers as JSON values, for the manifest."""
    return [
        {
            "name": register.name,
            "offset": register.offset,
            "access": register.access,
            "bits": register.bits,
            "description": register.text,
            "fields": _fields(register),
        }
        for register in registers
    ]


def _fields(register: Any) -> list[dict[str, Any]]:
    return [
        {
            "name": field.name,
            "offset": field.offset,
            "bits": field.bits,
            "signed": field.signed,
            "description": field.text,
        }
        for field in register.fields
    ]


def beat_words() -> list[dict[str, Any]]:
    """Return the words of a beat of port ``post`` before the records, for the manifest."""
    return [
        {"name": word.name, "word": place, "description": word.text, "fields": _fields(word)}
        for place, word in enumerate(WORDS)
    ]


def beat_defines(prefix: str) -> list[str]:
    """Return the lines of the C header about the words of a beat of port ``post``."""
    lines = []
    for place, word in enumerate(WORDS):
        stem = f"{prefix}_{word.name}"
        lines.append(f"#define {stem} {place} /* word of the beat; {word.text} */")
        lines += _field_defines(stem, word)
    return [
        *lines,
        f"#define {prefix}_POST_RECORDS {len(WORDS)} /* word of the first record */",
        f"#define {prefix}_POST_RECORD_WORDS {RECORD_WORDS}",
    ]


def _field_defines(stem: str, register: Any) -> list[str]:
    lines = []
    for field in register.fields:
        mask = ((1 << field.bits) - 1) << field.offset
        lines += [
            f"#define {stem}_{field.name.upper()}_SHIFT {field.offset}",
            f"#define {stem}_{field.name.upper()}_MASK {mask:#x}u",
        ]
    return lines


def _of_jobs(interface: JobInterface) -> tuple[str, ...]:
    counters = ", ".join(name for name, _ in interface.counters)
    first = interface.window[0].name
    return (
        "what can only be read, are answered with SLVERR. A job is described in the job window,",
        f"from `{first}` on, and put into the queue by a write to `SUBMIT`; the window keeps",
        f"its contents. Counters ({counters}) are read low half first.",
    )


_OF_LISTS = (
    "what can only be read, are answered with SLVERR, and so are writes to all but `ABORT` and the",
    "interrupt's registers while a list runs.",
)


def markdown(core: Core[Any]) -> str:
    """Return the register map as a page; with command lists, their descriptors as well."""
    jobs = core.params.queues_jobs
    lines = [
        f"# Registers of `{core.name}`",
        "",
        "32-bit registers behind `s_axi_control_*` (AXI4-Lite). Other addresses, and writes to",
        *(_of_jobs(core.params.job_interface) if jobs else _OF_LISTS),
        "",
        "| offset | register | access | bits | meaning |",
        "| --- | --- | --- | --- | --- |",
    ]
    for register in core.registers:
        if not register.bits:
            lines.append(
                f"| `{register.offset:#05x}` | `{register.name}` | {_ACCESS[register.access]} |"
                " none | Reads as 0, and what is written is ignored: addresses have"
                f" {core.params.memory.address_width} bits. |"
            )
            continue
        lines.append(
            f"| `{register.offset:#05x}` | `{register.name}` | {_ACCESS[register.access]} |"
            f" {register.bits - 1}:0 | {register.text} |"
        )
        for field in register.fields:
            top = field.offset + field.bits - 1
            bits = f"{top}:{field.offset}" if field.bits > 1 else str(top)
            lines.append(f"| | `.{field.name}` | | {bits} | {field.text} |")
    if not jobs:
        lines += ["", *descriptors()]
    return "\n".join(lines) + "\n"


def descriptors() -> list[str]:
    """Return a table of the descriptors of command lists."""
    lines = [
        "## Descriptors",
        "",
        (
            f"A descriptor has {command_lists.BYTES} bytes, little-endian: opcode, `a`, `b`, `c`"
            " (a byte each), `small` (4 bytes), `large` (8 bytes). `r[i]` is register i; `r[0]` is"
            " 0."
        ),
        "",
        "| opcode | name | fields | meaning |",
        "| --- | --- | --- | --- |",
    ]
    lines += [
        f"| {op.code} | `{op.name}` | {', '.join(f'`{f}`' for f in op.fields)} | {op.text} |"
        for op in command_lists.OPERATIONS
    ]
    conditions = ", ".join(
        f"{code} {name.replace('_', ' ')}" for code, name in enumerate(command_lists.CONDITIONS)
    )
    return [*lines, "", f"Conditions of BRANCH: {conditions}; numbers are unsigned."]
