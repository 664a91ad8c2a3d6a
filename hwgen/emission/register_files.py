# SPDX-License-Identifier: Apache-2.0
"""Registers as C, JSON and Markdown: an engine's map, and the words of beats of port ``post``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hwgen.numerics.post.beats import RECORD_WORDS, WORDS
from hwgen.register_map import COUNTERS, MAGIC, STATES, job_window, register_map

if TYPE_CHECKING:
    from hwgen.families.gemm_stream import GemmStreamConfig

_ACCESS = {"ro": "read", "rw": "read, write", "wo": "write", "w1c": "read, write 1 to clear"}


def defines(config: GemmStreamConfig) -> list[str]:
    """Return the lines of the C header: offsets, fields, and what a driver must know."""
    prefix = config.name.upper()
    m, k, n = config.m_lanes, config.k_lanes, config.n_lanes
    facts = {
        "MAGIC": f"{MAGIC:#x}u",
        "QUEUE_SLOTS": config.queue,
        "DATA_BYTES": config.memory_bytes,
        "ADDRESS_BITS": config.memory.address_width,
        "TILE_M": m,
        "TILE_K": k,
        "TILE_N": n,
        "A_ELEMENT_BYTES": config.activation_bytes,
        "W_IS_IMAGE": int(config.loop_nest.image),
        "W_ELEMENT_BYTES": config.weight_bytes,
        "W_TILE_BYTES": config.weight_beat * config.loop_nest.weight_beats * config.weight_bytes,
        "MAX_K": config.max_k,
    }
    lines = [f"#define {prefix}_{name} {value}" for name, value in facts.items()]
    lines += ["", "/* States of a job. */"]
    lines += [f"#define {prefix}_JOB_{state.upper()} {code}" for code, state in enumerate(STATES)]
    lines += ["", "/* Registers, in bytes from the first. */"]
    for register in register_map(config):
        stem = f"{prefix}_{register.name}"
        lines.append(f"#define {stem} {register.offset:#05x}u /* {register.text} */")
        lines += _field_defines(stem, register)
    window = job_window(config)
    lines += [
        "",
        "/* The job window, which SUBMIT puts into the queue. */",
        f"#define {prefix}_JOB_WINDOW {window[0].offset:#05x}u",
        f"#define {prefix}_JOB_WORDS {len(window)}",
    ]
    return lines


def plain(config: GemmStreamConfig) -> list[dict[str, Any]]:
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
        for register in register_map(config)
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


def markdown(config: GemmStreamConfig) -> str:
    """Return the register map as a page."""
    lines = [
        f"# Registers of `{config.name}`",
        "",
        "32-bit registers behind `s_axi_control_*` (AXI4-Lite). Other addresses, and writes to",
        "what can only be read, are answered with SLVERR. A job is described in the job window,",
        "from `A_ADDRESS_LOW` on, and put into the queue by a write to `SUBMIT`; the window keeps",
        f"its contents. Counters ({', '.join(COUNTERS)}) are read low half first.",
        "",
        "| offset | register | access | bits | meaning |",
        "| --- | --- | --- | --- | --- |",
    ]
    for register in register_map(config):
        if not register.bits:
            continue
        lines.append(
            f"| `{register.offset:#05x}` | `{register.name}` | {_ACCESS[register.access]} |"
            f" {register.bits - 1}:0 | {register.text} |"
        )
        for field in register.fields:
            top = field.offset + field.bits - 1
            bits = f"{top}:{field.offset}" if field.bits > 1 else str(top)
            lines.append(f"| | `.{field.name}` | | {bits} | {field.text} |")
    return "\n".join(lines) + "\n"
