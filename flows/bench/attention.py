# SPDX-License-Identifier: Apache-2.0
"""Attention: utilisation of its arrays in prefill and decode, errors of formats, areas and clocks.

``python -m flows.bench.attention [--json] [--write FILE]``

Cycles are exact; areas and clocks are estimates from the structure in nangate45.  The array's share
is that of both arrays of multipliers; a decode step is one job of three heads of queries on one of
keys, its share that of the beats of keys.  Mean errors are those of weights of normally distributed
scores of deviation 1 against the softmax of the operands as they are in their format; proven ones
against that of floats as they are aligned.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from flows.bench.common import Cell, Row, markdown, parser, run, text, write_sections
from flows.build.build import Build
from flows.build.design import Design
from hwgen.core.operation import Job
from hwgen.core.registry import core_of
from hwgen.families.attention.formats import SCALE, SUM_GUARD, bound_of
from hwgen.families.attention.golden import accumulated, attend, scale_scores
from hwgen.families.attention.operands import quantised
from hwgen.families.attention.params import AttentionConfig
from hwgen.families.attention.schedule import Mask

TECHNOLOGY, CLOCK_MHZ = "nangate45", 330.0
KEYS, HEAD = 512, 64
WIDE = 64
"""Lanes whose sums limit the clock; softmax units need fewer registers there."""

SIZES = ((16, 16), (32, 16), (32, 64), (64, 64))
"""Rows and lanes of the arrays."""

FORMATS: tuple[tuple[str, int], ...] = (
    ("fp8_e4m3", 7), ("fp8_e4m3", 10), ("fp8_e5m2", 7), ("bf16", 10), ("fp16", 10),
)  # fmt: skip
"""Floating-point formats and their `alignment_bits`, of 16 rows and 16 lanes."""

ERROR_SIZE = 256

SIZE_COLUMNS = {
    f"int8, head {HEAD}, rows x lanes": "", "`array.buffers`": "",
    f"cycles of {KEYS} x {KEYS}": ",", "share of the array's": ".3f",
    f"decode of 3 heads, {KEYS} keys: share of K beats": ".3f",
    f"mm², {TECHNOLOGY}": ".2f", "MHz": ".0f",
}  # fmt: skip
FORMAT_COLUMNS = {
    "Q, K and V, 16 x 16": "", "`alignment_bits`": "", "mean error of a weight": ".3%",
    f"proven, relative, {KEYS} keys": ".1e", "and absolute": ".1e",
    f"cycles of {KEYS} x {KEYS}": ",", f"mm², {TECHNOLOGY}": ".2f", "MHz": ".0f",
}  # fmt: skip
"""Columns and their format specifications."""


def configuration(rows: int, lanes: int, buffers: str, **values: object) -> AttentionConfig:
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


def size_row(config: AttentionConfig) -> dict[str, Cell]:
    """Return cycles, shares, area and clock of a configuration."""
    (operation,) = config.operations
    scalars = operation.check_scalars({})
    sizes = {"kv_heads": 1, "group": 1, "queries": KEYS, "elements": HEAD, "keys": KEYS}
    step = {**sizes, "group": 3, "queries": 1}
    prefill, decode = (
        core_of(config).cycles([Job(operation, s, scalars)]).number for s in (sizes, step)
    )
    metrics = Build(Design.of(config)).estimate()["metrics"]
    cells = (
        f"{config.array.rows} x {config.array.lanes}",
        config.array.buffers,
        prefill,
        operation.work(sizes) / (config.operations_per_cycle * prefill),
        KEYS * config.steps / decode,
        metrics["area_mm2"],
        metrics["fmax_mhz"],
    )
    return dict(zip(SIZE_COLUMNS, cells, strict=True))


def mean_error(config: AttentionConfig) -> float:
    """Return the mean relative error of a weight, 64 rows of 256 keys."""
    size = ERROR_SIZE
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
        result = attend(wide, Mask(), operands).astype(np.float64)
    else:  # results have too few bits for weights, sums of values have all
        plain = {name: array[0].astype(np.int64) for name, array in operands.items()}
        scores = plain["query"][0] @ plain["key"].T
        exponents = scale_scores(wide, scores, scale[0, 0], plain["key_scale"])
        seen = np.ones(scores.shape, bool)
        sums = accumulated(wide, exponents, seen, plain["value"], plain["value_scale"])
        result = np.ldexp(sums.values / sums.weights[:, None], SUM_GUARD) * unit
        result *= 2.0**wide.fraction
    return float(np.abs(result / wanted - 1).mean())


def format_row(config: AttentionConfig) -> dict[str, Cell]:
    """Return errors, cycles, area and clock of a format."""
    bound = bound_of(config, KEYS)
    bits = str(config.alignment_bits) if config.floating else None
    cells = (str(config.query), bits, mean_error(config), bound.relative, bound.absolute)
    of_size = {name: cell for name, cell in size_row(config).items() if name in FORMAT_COLUMNS}
    return dict(zip(FORMAT_COLUMNS, (*cells, *of_size.values()), strict=True))


def table(rows: Sequence[Row], columns: dict[str, str], left: int) -> str:
    """Return rows as a table in Markdown."""
    cells = [[text(row[name], spec) for name, spec in columns.items()] for row in rows]
    return markdown(list(columns), cells, left)


def main(arguments: Sequence[str] | None = None) -> None:
    """Count and estimate, and print or write."""
    options = parser("attention", __doc__)
    options.add_argument("--write", type=Path, metavar="FILE", help="replace the table of a page")
    chosen = options.parse_args(arguments)
    sizes = [
        size_row(configuration(*size, buffers))
        for size in SIZES
        for buffers in ("single", "double")
    ]
    floats = [
        {
            **dict.fromkeys(("query", "key", "value"), name),
            "output": "bf16",
            "scales": "none",
            "alignment_bits": bits,
        }
        for name, bits in FORMATS
    ]
    formats = [format_row(configuration(16, 16, "single", **values)) for values in ({}, *floats)]
    if chosen.json:
        click.echo(json.dumps({"sizes": sizes, "formats": formats}, indent=2))
        return
    tables = f"{table(sizes, SIZE_COLUMNS, 2)}\n{table(formats, FORMAT_COLUMNS, 1)}"
    if chosen.write:
        write_sections(chosen.write, {"attention": tables})
    else:
        click.echo(tables, nl=False)


if __name__ == "__main__":
    run(main)
