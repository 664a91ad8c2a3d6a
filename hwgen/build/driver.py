# SPDX-License-Identifier: Apache-2.0
"""The C driver of an engine: templates, filled with the facts of a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hwgen.build.files import header
from hwgen.numerics.post import ACTIVATIONS, KINDS, RECORD_BYTES, ROUNDINGS
from hwgen.registers import LAYOUT, job_window

if TYPE_CHECKING:
    from hwgen.families.gemm_stream import GemmStreamConfig
    from hwgen.registers import Register

_TEMPLATES = Path(__file__).parent / "templates"


def driver(config: GemmStreamConfig) -> dict[str, str]:
    """Return the files of the driver, name to text; C99 without a library.

    All names begin with that of the engine, so that drivers of several engines go together.
    """
    post = [register for register in job_window(config) if register.name.startswith("POST_")]
    values = {
        "name": config.name,
        "NAME": config.name.upper(),
        "POST_MEMBERS": "\n".join(_members(post)),
        "POST_WRITES": "\n".join(_writes(config.name.upper(), post)),
        "LIMITS": ",\n".join(f"    {name} = {value}" for name, value in _limits(config).items()),
    }
    found = {}
    for suffix in ("h", "c"):
        text = (_TEMPLATES / f"driver.{suffix}").read_text(encoding="utf-8")
        for name, value in values.items():
            text = text.replace(f"@{name}@", value)
        licence, rest = text.split("\n", 1)
        found[f"{config.name}_driver.{suffix}"] = (
            f"{licence}\n/*\n{header(config, ' *')} */\n{rest}"
        )
    return found


def _limits(config: GemmStreamConfig) -> dict[str, int]:
    """Return what the driver checks jobs with; tiles and words as in the planner."""
    walk, features = config.walk, config.post_features
    records = config.column_groups * config.post_lanes // config.n_lanes
    offered = {
        "POST_KINDS": (features.kinds, KINDS),
        "POST_ACTIVATIONS": (features.activations, ACTIVATIONS),
        "POST_ROUNDINGS": (features.roundings, ROUNDINGS),
    }
    return {
        "LAYOUT": LAYOUT,
        "ACT_DEPTH": config.act_depth,
        "ACT_BEATS": config.act_beats,
        "WGT_DEPTH": config.wgt_depth,
        "WGT_BEATS": config.wgt_beats,
        "WEIGHT_ROWS": walk.weight_rows,
        "WEIGHT_BEATS": walk.weight_beats,
        "OUT_DEPTH": config.out_depth,
        "MOST_ROW_TILES": min(walk.max_rows, config.out_depth),
        "MOST_COLUMN_TILES": min(walk.max_column_tiles, config.out_depth),
        "RECORD_TILES": records if features.columns else 0,
        "RECORD_BYTES": RECORD_BYTES,
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
