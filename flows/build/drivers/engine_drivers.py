# SPDX-License-Identifier: Apache-2.0
"""C drivers of engines: of products on memory, around stream cores, and of command lists.

All names begin with that of the engine, so that drivers of several engines can be linked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple
from typing import TYPE_CHECKING, Any

from flows.build.drivers.c_templates import render
from hwgen.core.lists.commands import STATE_TEXTS, STATES
from hwgen.core.post import (
    ACTIVATIONS,
    OUTPUT_TYPES,
    RECORD_BYTES,
    ROUNDINGS,
    PostFeatures,
    element_bytes,
)
from hwgen.core.register_map import LAYOUT
from hwgen.core.schedule.memory import SIZE_BITS
from hwgen.families.gemm_stream import blocks
from hwgen.families.gemm_stream.blocks import limits_of
from hwgen.families.gemm_stream.core import GemmStreamCore
from hwgen.families.stream_engine.core import StreamEngineCore
from hwgen.families.stream_engine.registers import ENTRY_BYTES, MOST_PAGES
from hwgen.families.transformer import registers as list_registers
from hwgen.families.transformer.core import TransformerCore

if TYPE_CHECKING:
    from hwgen.core.core import Core
    from hwgen.core.post import Field
    from hwgen.core.register_map import Register
    from hwgen.families.gemm_stream.params import GemmStreamConfig
    from hwgen.models.compile.list_builder import ListEngine

_ENDS = {"READ_ERROR": "READ", "WRITE_ERROR": "WRITE", "ABORTED": "ABORTED"}
"""States of failed jobs of a queue, and the driver's names of these errors."""

_PLANNER_CONSTANTS = ("TOLERANCE", "FINEST", "PARTS", "STEP_CYCLES", "OTHER_PORTS")
"""Constants of `hwgen.families.gemm_stream.blocks` that a plan depends on."""

_FORMAT_LIMITS = ("act_beats", "wgt_beats", "k_beats", "weight_rows", "a_tile", "w_tile")
"""Limits of a plan that differ between formats, beside ports and the longest reduction."""

_LIST_ERRORS = {
    "TIMEOUT": "not finished in time",
    "BUSY": "another list runs",
    "ADDRESS": "misaligned, empty, or beyond the address space",
    "REGISTER": "no such register of lists, or a value wider than it",
    "DEVICE": "no such engine",
    "NONE": "no list was started",
}
_LIST_ENDS = {"alignment": "MISALIGNED", "window": "REFUSED"}
"""Names of errors that differ from the state: that of alignment is another's too."""


def driver(core: Core[Any]) -> dict[str, str]:
    """Return the files of the driver of an accelerator, name to text; none of a stream core."""
    if isinstance(core, GemmStreamCore):
        return gemm_driver(core)
    if isinstance(core, TransformerCore):
        return list_driver(core)
    if isinstance(core, StreamEngineCore):
        return stream_driver(core)
    return {}


def _queue_errors(job_errors: Mapping[str, str]) -> dict[str, str]:
    """Return the errors of a driver of a queue of jobs; their order fixes their numbers."""
    return {
        "TIMEOUT": "not finished in time",
        "FULL": "the queue is full or jobs are being ended",
        **job_errors,
        "TICKET": "no such job was submitted",
        "LOST": "finished, but how is not known any more",
        "DEVICE": "no such engine",
        "READ": "reading from memory failed",
        "WRITE": "writing to memory failed",
        "ABORTED": "aborted",
    }


def _statuses(
    prefix: str, errors: Mapping[str, str], ends: Iterable[tuple[str, str]], *, tickets: bool
) -> dict[str, object]:
    """Return fields of templates: statuses with their texts, and how jobs or lists end.

    Parameters
    ----------
    prefix : str
        Of the statuses' names.
    errors : mapping
        Text of each error by name; they count down from -1.
    ends : iterable of (str, str)
        State of the hardware and name of the error.
    tickets : bool
        Whether jobs have numbers; else one list runs at a time.
    """
    texts = {"OK": "done", "PENDING": "not finished"}
    texts |= {f"E_{name}": text for name, text in errors.items()}
    values = [0, 1, *range(-1, -1 - len(errors), -1)]
    lines = [
        (f"    {prefix}_{name} = {value}{',' if number + 1 < len(texts) else ''}", text)
        for number, ((name, text), value) in enumerate(zip(texts.items(), values, strict=True))
    ]
    width = max(len(line) for line, _ in lines)
    return {
        "statuses": {"lines": lines, "width": width, "messages": list(texts.items())},
        "ends": list(ends),
        "tickets": tickets,
    }


def gemm_driver(core: GemmStreamCore) -> dict[str, str]:
    """Return the files of the driver of an engine of products, name to text."""
    config = core.params
    prefix, several = config.name.upper(), len(config.formats) > 1
    post = [
        register for register in config.job_interface.window if register.name.startswith("POST_")
    ]
    errors = _queue_errors({
        "SIZE": "m, k or n is 0 or too large",
        "BLOCK": "a block is no multiple of the tile or too large for the buffers",
        "STRIDE": "rows of C overlap",
        "ADDRESS": "beyond the address space",
        "POST": "post-processing that the engine does not have",
    })  # fmt: skip
    if several:
        errors["FORMAT"] = "no such format"
    ends = [(f"JOB_{state}", error) for state, error in _ENDS.items()]
    values = {
        "post": post,
        "post_terms": [(each.name, [_term(prefix, each, f) for f in each.fields]) for each in post],
        "limits": _limits(config),
        "formats": [_format(each) for each in config.formats],
        **_statuses(prefix, errors, ends, tickets=True),
    }
    return render(core, "driver", values)


def _term(prefix: str, register: Register, field: Field) -> str:
    """Return the bits of a field of a register."""
    stem = f"{prefix}_{register.name}_{field.name.upper()}"
    value = f"(uint32_t)post->{field.name}" if field.signed else f"post->{field.name}"
    if field.offset:
        value = f"{value} << {stem}_SHIFT"
    return f"({value} & {stem}_MASK)"


def _format(config: GemmStreamConfig) -> tuple[list[str], list[str]]:
    """Return limits and ports of a format."""
    limits = limits_of(config)
    facts = [getattr(limits, name) for name in _FORMAT_LIMITS]
    ports = [f"{{{', '.join(f'{int(n)}u' for n in astuple(port))}}}" for port in limits.ports]
    return [f"{fact}u" for fact in (*facts, config.max_k)], ports


def _limits(config: GemmStreamConfig) -> dict[str, int]:
    """Return the numbers that the driver plans and checks jobs with."""
    features = config.post_features
    planner = asdict(limits_of(config))
    for name in ("ports", *_FORMAT_LIMITS):
        del planner[name]
    offered = {
        "POST_KINDS": (features.output_types, OUTPUT_TYPES),
        "POST_ACTIVATIONS": (features.activations, ACTIVATIONS),
        "POST_ROUNDINGS": (features.roundings, ROUNDINGS),
    }
    return {
        "LAYOUT": LAYOUT,
        **{name.upper(): value for name, value in planner.items()},
        **{name: getattr(blocks, name) for name in _PLANNER_CONSTANTS},
        "RECORD_BYTES": RECORD_BYTES,
        "POST_COLUMNS": int(features.columns),
        "POST_SIZES": _post_sizes(features),
        **{
            name: sum(1 << codes.index(word) for word in words)
            for name, (words, codes) in offered.items()
        },
    }


def _post_sizes(features: PostFeatures) -> int:
    """Return the pairs of a kind and a size that outputs have, bit ``4 kind + size`` of each."""
    result = 0
    for output in features.outputs:
        kind = OUTPUT_TYPES.index(output if output in OUTPUT_TYPES else "integer")
        size = element_bytes(output, features.accumulator).bit_length() - 1
        result |= 1 << (4 * kind + size)
    return result


def stream_driver(core: StreamEngineCore) -> dict[str, str]:
    """Return the files of the driver of a stream engine, name to text."""
    config = core.params
    out = config.results[0]
    errors = _queue_errors({
        "SIZE": "a number is too wide, or the job has no results",
        "ADDRESS": "beyond the address space",
    })  # fmt: skip
    errors["MISMATCH"] = "the numbers of the job do not agree"
    ends = [(f"JOB_{state}", error) for state, error in (*_ENDS.items(), ("MISMATCH",) * 2)]
    limits = {"LAYOUT": LAYOUT, "LARGEST": (1 << SIZE_BITS) - 1}
    if config.tables:
        limits |= {"MOST_PAGES": MOST_PAGES, "ENTRY": ENTRY_BYTES}
    values = {
        "commands": [(each.name, -(-each.beat_bytes // 4), each.beat) for each in config.commands],
        "places": [
            {
                "name": port.name,
                "type": "pages" if port in config.tables else "place",
                "text": port.beat,
            }
            for port in (*config.operands, out)
        ],
        "results": out.name,
        "tail_bytes": out.tail_bytes,
        "tables": bool(config.tables),
        "limits": limits,
        **_statuses(config.name.upper(), errors, ends, tickets=True),
    }
    return render(core, "stream_driver", values)


def list_driver(core: Core[ListEngine]) -> dict[str, str]:
    """Return the files of the driver of an engine that executes lists, name to text."""
    names = {
        state: _LIST_ENDS.get(state, state.upper()) for state in STATES[STATES.index("done") + 1 :]
    }
    errors = _LIST_ERRORS | {name: STATE_TEXTS[state] for state, name in names.items()}
    ends = [(f"LIST_{state.upper()}", name) for state, name in names.items()]
    values = {
        "limits": {
            "LAYOUT": list_registers.LAYOUT,
            "UNITS": len(core.params.units),
            "MOST_DESCRIPTORS": (1 << 24) - 1,
        },
        **_statuses(core.name.upper(), errors, ends, tickets=False),
    }
    return render(core, "list_driver", values)
