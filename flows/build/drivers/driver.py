# SPDX-License-Identifier: Apache-2.0
"""The C driver of an engine: templates, filled with the facts of a configuration."""

from __future__ import annotations

from dataclasses import asdict, astuple
from typing import TYPE_CHECKING

from flows.build.drivers.c_templates import ENDS, OF_A_JOB, cases, filled, queue_statuses, statuses
from hwgen.core.post import ACTIVATIONS, KINDS, RECORD_BYTES, ROUNDINGS
from hwgen.core.register_map import LAYOUT, job_window
from hwgen.families.gemm_stream import blocks
from hwgen.families.gemm_stream.blocks import limits_of

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig
    from hwgen.core.register_map import Register

_CONSTANTS = ("TOLERANCE", "FINEST", "PARTS", "STEP_CYCLES", "OTHER_PORTS")
"""What `hwgen.families.gemm_stream.blocks` is set by."""

_STATUSES = queue_statuses({
    "SIZE": "m, k or n is 0 or too large",
    "BLOCK": "a block is no multiple of the tile or too large for the buffers",
    "STRIDE": "rows of C overlap",
    "ADDRESS": "beyond the address space",
    "POST": "post-processing that the engine does not have",
})  # fmt: skip


_OF_FORMATS = {"FORMAT": "no such format"}
"""Behind the others, whose numbers users know."""

_ONE = {
    "FORMAT_MEMBER": "",
    "FORMAT_OF": "    (void)job;\n    return formats;",
    "FORMAT_CHECK": "",
    "FORMAT_FLAG": "",
}
"""What the driver says of the format of a job where there is one."""

_SEVERAL = {
    "FORMAT_MEMBER": "    uint32_t format;   /* of A and W, @NAME@_FORMAT_... */\n",
    "FORMAT_OF": "    return &formats[job->format];",
    "FORMAT_CHECK": "    if (job->format >= sizeof formats / sizeof formats[0])\n"
    "        return @NAME@_E_FORMAT;\n",
    "FORMAT_FLAG": " |\n            job->format << @NAME@_JOB_FLAGS_FORMAT_SHIFT",
}
"""The same where there are several."""

_PER_FORMAT = ("act_beats", "wgt_beats", "k_beats", "weight_rows", "a_tile", "w_tile")
"""What a plan depends on, beside ports and the longest reduction, and formats differ in."""


def driver(config: GemmStreamConfig) -> dict[str, str]:
    """Return the files of the driver, name to text; C99 without a library.

    All names begin with that of the engine, so that drivers of several engines go together.
    """
    post = [register for register in job_window(config) if register.name.startswith("POST_")]
    prefix, several = config.name.upper(), len(config.formats) > 1
    values = {
        "POST_MEMBERS": "\n".join(_members(post)),
        "POST_WRITES": "\n".join(_writes(prefix, post)),
        "LIMITS": ",\n".join(f"    {name} = {value}" for name, value in _limits(config).items()),
        "FORMATS": ",\n".join(_format(each) for each in config.formats),
        "CASES": cases(prefix, {f"JOB_{state}": error for state, error in ENDS.items()}),
        **statuses(prefix, _STATUSES | (_OF_FORMATS if several else {})),
        **OF_A_JOB,
        **(_SEVERAL if several else _ONE),
    }
    return filled(config, "driver", values)


def _format(config: GemmStreamConfig) -> str:
    """Return what the driver knows of a format, as C."""
    limits = limits_of(config)
    facts = [getattr(limits, name) for name in _PER_FORMAT]
    ports = ", ".join(
        f"{{{', '.join(f'{int(value)}u' for value in astuple(port))}}}" for port in limits.ports
    )
    return f"    {{{', '.join(f'{fact}u' for fact in [*facts, config.max_k])},\n     {{{ports}}}}}"


def _limits(config: GemmStreamConfig) -> dict[str, int]:
    """Return what the driver plans and checks jobs with."""
    features = config.post_features
    planner = asdict(limits_of(config))
    for name in ("ports", *_PER_FORMAT):
        del planner[name]
    offered = {
        "POST_KINDS": (features.kinds, KINDS),
        "POST_ACTIVATIONS": (features.activations, ACTIVATIONS),
        "POST_ROUNDINGS": (features.roundings, ROUNDINGS),
    }
    return {
        "LAYOUT": LAYOUT,
        **{name.upper(): value for name, value in planner.items()},
        **{name: getattr(blocks, name) for name in _CONSTANTS},
        "RECORD_BYTES": RECORD_BYTES,
        "POST_COLUMNS": int(features.columns),
        **{
            name: sum(1 << known.index(word) for word in words)
            for name, (words, known) in offered.items()
        },
    }


def _members(post: list[Register]) -> list[str]:
    lines = []
    for register in post:
        for field in register.fields:
            kind = "int32_t" if field.signed else "uint32_t"
            lines.append(f"    {kind} {field.name}; /* {field.text} */")
    return lines


def _writes(prefix: str, post: list[Register]) -> list[str]:
    lines = []
    for register in post:
        name = f"{prefix}_{register.name}"
        parts = []
        for field in register.fields:
            stem = f"{name}_{field.name.upper()}"
            value = f"(uint32_t)post->{field.name}" if field.signed else f"post->{field.name}"
            if field.offset:
                value = f"{value} << {stem}_SHIFT"
            parts.append(f"({value} & {stem}_MASK)")
        terms = " |\n            ".join(parts)
        lines.append(f"    put(device, {name},\n        {terms});")
    return lines
