# SPDX-License-Identifier: Apache-2.0
"""Attention: use of its arrays in prefill and decode, errors of formats, and what that takes.

``python -m flows.bench.attention [--json] [--write FILE] [--no-areas]``

Cycles are exact, see `cost_model.families.attention`; areas and clocks are estimates from the
structure in nangate45. The array's share is that of both arrays of multipliers; a decode step is
one job of three heads of queries on one of keys, its share that of the beats of keys. Mean errors
are those of weights of normally distributed scores of deviation 1 against the softmax of the
operands as they are in their format; proven ones against that of floats as they are aligned.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cost_model.families.attention import cycles_of_jobs
from flows.bench.pages import rewritten
from flows.build.build import Build
from flows.build.design import Design
from hwgen.families.attention.bound import bound_of
from hwgen.families.attention.formats import SCALE, SUM_GUARD
from hwgen.families.attention.golden import accumulated, attend, scaled
from hwgen.families.attention.operands import quantised
from hwgen.families.attention.params import AttentionConfig
from hwgen.families.attention.schedule import Mask

TECHNOLOGY = "nangate45"
CLOCK_MHZ = 330.0
KEYS, HEAD = 512, 64
WIDE = 64
"""Lanes whose sums limit the clock, so that softmax units need fewer registers."""

SIZES = ((16, 16), (32, 16), (32, 64), (64, 64))
"""Rows and lanes of the arrays."""


FORMATS: tuple[dict[str, Any], ...] = (
    {},
    *(
        {
            **dict.fromkeys(("query", "key", "value"), name),
            "output": "bf16",
            "scales": "none",
            "alignment_bits": bits,
        }
        for name, bits in (
            ("fp8_e4m3", 7),
            ("fp8_e4m3", 10),
            ("fp8_e5m2", 7),
            ("bf16", 10),
            ("fp16", 10),
        )
    ),
)
"""Formats, of 16 rows and 16 lanes."""

_ERROR_SIZE = 256


def configuration(rows: int, lanes: int, buffers: str, **values: Any) -> AttentionConfig:
    """Return an attention with heads of `HEAD` elements."""
    pipeline = {"pipeline": {"dot": 0, "exponential": 0}} if lanes >= WIDE else {}
    return AttentionConfig.model_validate(
        {
            "name": "attention",
            **pipeline,
            **values,
            "head": HEAD,
            "max_keys": 4096,
            "array": {"rows": rows, "lanes": lanes, "buffers": buffers},
            "target": {"technology": TECHNOLOGY, "clock_mhz": CLOCK_MHZ},
        }
    )


def row(config: AttentionConfig, *, areas: bool) -> dict[str, Any]:
    """Return cycles and shares of a configuration, and its area and clock if asked for."""
    (operation,) = config.operations
    scalars = operation.check_scalars({})
    sizes = {"kv_heads": 1, "group": 1, "queries": KEYS, "elements": HEAD, "keys": KEYS}
    step = {**sizes, "group": 3, "queries": 1}
    prefill, decode = (cycles_of_jobs(config, [(operation, s, scalars)]) for s in (sizes, step))
    found = {
        "rows": config.array.rows,
        "lanes": config.array.lanes,
        "buffers": config.array.buffers,
        "prefill_cycles": prefill,
        "prefill_share": operation.work(sizes) / (config.operations_per_cycle * prefill),
        "decode_cycles": decode,
        "decode_share": KEYS * config.steps / decode,
    }
    if areas:
        metrics = Build(Design(config)).estimate()["metrics"]
        found |= {name: metrics[name] for name in ("area_mm2", "fmax_mhz")}
    return found


def mean_error(config: AttentionConfig) -> float:
    """Return the mean relative error of a weight, 64 rows of 256 keys."""
    size = _ERROR_SIZE
    output = {"output": "fp16"} if config.floating else {"value": "int16"}
    wide = AttentionConfig.model_validate(
        {**config.resolved(), "head": size, "max_keys": size, **output}
    )
    rng = np.random.default_rng(1)
    query, key = rng.standard_normal((1, 1, 64, size)), rng.standard_normal((1, size, size))
    operands, unit = quantised(wide, query, key, np.eye(size)[None])
    number = {name: array.astype(np.float64) for name, array in operands.items()}
    scale = operands["query_scale"].astype(np.int64)
    factor = (scale & SCALE.max) * 2.0 ** -(scale >> SCALE.width)
    x = np.einsum("hgmc,hnc->hgmn", number["query"], number["key"]) * factor[..., None]
    if wide.scaled_keys:
        x *= number["key_scale"]
    power = 2.0 ** ((x - x.max(axis=-1, keepdims=True)) * 2.0**-wide.softmax.fraction_bits)
    wanted = power / power.sum(axis=-1, keepdims=True)
    if wide.floating:
        got = attend(wide, Mask(), operands).astype(np.float64)
    else:  # results have too few bits for weights, sums of values have all
        plain = {name: array[0].astype(np.int64) for name, array in operands.items()}
        scores = plain["query"][0] @ plain["key"].T
        exponents = scaled(wide, scores, scale[0, 0], plain["key_scale"])
        seen = np.ones(scores.shape, bool)
        sums = accumulated(wide, exponents, seen, plain["value"], plain["value_scale"])
        got = np.ldexp(sums.values / sums.weights[:, None], SUM_GUARD) * unit
        got *= 2.0**wide.fraction
    return float(np.abs(got / wanted - 1).mean())


def format_row(values: dict[str, Any], *, areas: bool) -> dict[str, Any]:
    """Return errors of a format, and the area and clock if asked for."""
    config = configuration(16, 16, "single", **values)
    bound = bound_of(config, KEYS)
    return {
        "format": str(config.query),
        "alignment_bits": config.alignment_bits if config.floating else None,
        "mean": mean_error(config),
        "relative": bound.relative,
        "absolute": bound.absolute,
        **row(config, areas=areas),
    }


def _estimates(found: dict[str, Any]) -> tuple[str, str]:
    """Return the cells of the area and the clock."""
    area = f"{found['area_mm2']:.2f}" if found.get("area_mm2") else "-"
    clock = f"{found['fmax_mhz']:.0f}" if found.get("fmax_mhz") else "-"
    return area, clock


def formats_markdown(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table of formats."""
    heads = (
        "Q, K and V, 16 x 16",
        "`alignment_bits`",
        "mean error of a weight",
        f"proven, relative, {KEYS} keys",
        "and absolute",
        f"cycles of {KEYS} x {KEYS}",
        f"mm², {TECHNOLOGY}",
        "MHz",
    )
    lines = [f"| {' | '.join(heads)} |", "| --- " + "| ---: " * 7 + "|"]
    for found in rows:
        cells = (
            found["format"],
            str(found["alignment_bits"] or "-"),
            f"{100 * found['mean']:.3f} %",
            f"{found['relative']:.1e}",
            f"{found['absolute']:.1e}",
            f"{found['prefill_cycles']:,}",
            *_estimates(found),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table of a page."""
    heads = (
        f"int8, head {HEAD}, rows x lanes",
        "`array.buffers`",
        f"cycles of {KEYS} x {KEYS}",
        "share of the array's",
        f"decode of 3 heads, {KEYS} keys: share of K beats",
        f"mm², {TECHNOLOGY}",
        "MHz",
    )
    lines = [f"| {' | '.join(heads)} |", "| --- | --- " + "| ---: " * 5 + "|"]
    for found in rows:
        area, clock = _estimates(found)
        lines.append(
            f"| {found['rows']} x {found['lanes']} | {found['buffers']}"
            f" | {found['prefill_cycles']:,} | {found['prefill_share']:.3f}"
            f" | {found['decode_share']:.3f} | {area} | {clock} |"
        )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Count and estimate, and print or write."""
    parser = argparse.ArgumentParser(prog="python -m flows.bench.attention")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", type=Path, metavar="FILE", help="replace the table of a page")
    parser.add_argument("--no-areas", action="store_true", help="leave areas and clocks out")
    options = parser.parse_args(arguments)
    rows = []
    for size in SIZES:
        for buffers in ("single", "double"):
            rows.append(row(configuration(*size, buffers), areas=not options.no_areas))
            sys.stderr.write(f"{size[0]} x {size[1]} {buffers}\n")
    formats = [format_row(values, areas=not options.no_areas) for values in FORMATS]
    text = f"{markdown(rows)}\n{formats_markdown(formats)}"
    if options.write:
        page = options.write.read_text(encoding="utf-8")
        options.write.write_text(rewritten(page, "attention", text), encoding="utf-8")
    elif options.json:
        sys.stdout.write(json.dumps({"sizes": rows, "formats": formats}, indent=2) + "\n")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
