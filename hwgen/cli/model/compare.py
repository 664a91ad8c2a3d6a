# SPDX-License-Identifier: Apache-2.0
"""``hwgen model compare``: several models, each on its engine, in one table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.model.passes import Conditions, estimate_pairs, load_pairs, pass_options
from hwgen.cli.support.activity import activity_option
from hwgen.cli.support.common import (
    at_once_option,
    clock_option,
    emit_json,
    example,
    fpga_energies_option,
    json_option,
    memory_options,
    print_columns,
    target_option,
    task_progress,
)
from hwgen.reports.terminal import console

if TYPE_CHECKING:
    from hwgen.models.files.store import Model


@click.command(
    "compare",
    epilog=example(
        "hwgen model compare austen-int8=configs/decoder/products.yaml"
        " austen-int8=configs/decoder_ternary/products.yaml --memory lpddr4x"
    ),
)
@click.argument("pairs", metavar="DIR=CONFIG...", nargs=-1, required=True)
@pass_options
@at_once_option
@target_option("Technology instead of those of the configurations.")
@clock_option("Clock instead of those of the configurations.")
@memory_options
@fpga_energies_option
@activity_option("assumed|typical|worst", type=click.Choice(["assumed", "typical", "worst"]))
@json_option
def compare_command(
    pairs: tuple[str, ...],
    prompt: int,
    context: int | None,
    at_once: int,
    target: str | None,
    clock_mhz: float | None,
    memory: str | None,
    gb_s: str | None,
    efficiency: str | None,
    fpga_energies: bool,
    activity: str,
    as_json: bool,
) -> None:
    """Compare quantised models, each on an engine: accuracy, speed, energy and size in one table.

    DIR is a model, CONFIG the configuration of the engine that it runs on; a pair is a row.
    Accuracy is what `hwgen model quantise --evaluate` measured: the divergence of predictions from
    those of the model before (KL, in nats), and the share of positions where both find the same
    token the most likely (top-1). The speeds are those of `hwgen model estimate`.
    """
    from hwgen.models.files.store import Model
    from hwgen.models.quantise.record import read_record
    from hwgen.models.run.group_weights import difference
    from hwgen.technologies import target_of

    if target is not None:
        target_of(target)  # refuses an unknown name
    named = [_pair(text) for text in pairs]
    models = {source: Model(source) for source, _ in named}
    records = [read_record(source) for source, _ in named]
    conditions = Conditions(
        prompt, context, at_once, clock_mhz, (memory, gb_s, efficiency), fpga_energies, activity
    )
    with task_progress("estimating", quiet=as_json) as update:
        update("operations", 0, 0)
        loaded = load_pairs([(models[source], config, ()) for source, config in named], conditions)
        results = estimate_pairs(loaded, (target,), conditions)
    texts = _texts_of_all(records)
    rows = [
        {
            "model": str(source), "config": str(config), **_quality(models[source], record, texts),
            "passes": result.passes, "missing": result.missing,
            "differs": difference(models[source], result.core), "estimate": result.entry,
        }
        for (source, config), record, result in zip(named, records, results, strict=True)
    ]  # fmt: skip
    if as_json:
        emit_json({"texts": sorted(set(texts.values())), "pairs": rows})
        return
    _print(rows, sorted(set(texts.values())), results)


def _pair(text: str) -> tuple[Path, Path]:
    source, separator, config = text.rpartition("=")
    if not separator or not source or not config:
        raise click.UsageError(
            f"DIR=CONFIG: must be the directory of a model and the configuration of its engine, as"
            f" austen-int8=engine.yaml, not {text!r}"
        )
    return Path(source), Path(config)


def _texts_of_all(records: Sequence[Mapping[str, Any] | None]) -> dict[str, str]:
    """Return the texts that all evaluated models were evaluated on: names by SHA-256."""
    evaluated = [
        {each["sha256"]: each["file"] for each in record["evaluations"]}
        for record in records if record is not None and record["evaluations"]
    ]  # fmt: skip
    if not evaluated:
        return {}
    common = set.intersection(*(set(each) for each in evaluated))
    return {digest: name for digest, name in evaluated[0].items() if digest in common}


def _quality(
    model: Model, record: Mapping[str, Any] | None, texts: Mapping[str, str]
) -> dict[str, Any]:
    """Return format and accuracy of a model: the worst of the texts, or of its own texts."""
    from hwgen.models.quantise.record import weight_format

    if record is None or (weights := weight_format(record)) == "original":
        weights = _stored_format(model)
    if record is None:
        return {"weights": weights, "weight_bits": None, "kl": None, "top1": None}
    own = record["evaluations"]
    counted = [each for each in own if each["sha256"] in texts] or own
    return {
        "weights": weights,
        "weight_bits": record.get("weight_bits"),
        "kl": max((each["kl"] for each in counted), default=None),
        "top1": min((each["top1"] for each in counted), default=None),
    }


def _stored_format(model: Model) -> str:
    """Return the format of most elements of the weights, as the file of the model had them."""
    bits: dict[str, int] = {}
    for tensor in model.description.tensors.values():
        bits[tensor.origin] = bits.get(tensor.origin, 0) + math.prod(tensor.shape)
    return max(bits, key=lambda name: bits[name])


def _print(rows: Sequence[Mapping[str, Any]], texts: Sequence[str], results: Any) -> None:
    from hwgen.cli.model.estimate import clock_text, limit_of, rate_and_energy, short_paths
    from hwgen.reports.datasheet import fits, power_basis, share
    from hwgen.reports.roofline import joules_of, number

    last = [next(reversed(row["passes"])) for row in rows]
    speeds = [rate_and_energy(row["passes"][name]) for row, name in zip(rows, last, strict=True)]
    each_is = speeds[0][0]
    models = short_paths([row["model"] for row in rows])
    designs = short_paths([row["config"] for row in rows])
    headings = (
        "model", "weights", "KL", "top-1", "engine", "target", "MHz", "mm²", "LUTs", "fits",
        f"{each_is}s/s", f"J/{each_is}", "includes", "limited by",
    )  # fmt: skip
    cells = [
        (
            model, row["weights"] or "-", number(row["kl"]),
            "-" if row["top1"] is None else share(row["top1"]), design,
            row["estimate"]["technology"], clock_text(row["estimate"]),
            number(row["estimate"]["metrics"]["area_mm2"]),
            number(row["estimate"]["metrics"]["luts_used"]), fits(row["estimate"]),
            number(speed), number(joules), "products" if row["missing"] else "all",
            limit_of(row["estimate"], name) or "-",
        )
        for row, model, design, name, (_, speed, joules)
        in zip(rows, models, designs, last, speeds, strict=True)
    ]  # fmt: skip
    left = ("model", "weights", "engine", "target", "fits", "includes", "limited by")
    print_columns(headings, cells, left)
    out = console()
    passed = rows[0]["passes"][last[0]]
    if each_is == "token":
        behind = f"{last[0]} of {passed['tokens']:,} behind {passed['context']:,}"
        out.print(f"speed and energy: {behind}", soft_wrap=True)
    out.print(_accuracy_note(rows, texts), soft_wrap=True)
    served = all(row["estimate"]["roofline"] for row in rows)
    out.print(joules_of(each_is, served=served), soft_wrap=True)
    for text in dict.fromkeys(filter(None, (power_basis(row["estimate"]) for row in rows))):
        out.print(text, soft_wrap=True)
    for row, model, design in zip(rows, models, designs, strict=True):
        if row["differs"]:
            out.print(f"{model} on {design}: {row['differs']}", style="yellow", soft_wrap=True)
    if any(row["missing"] for row in rows):
        out.print(
            "products: a host computes the rest, which is not in speed, energy and size; do not"
            " compare such rows with rows that include all",
            soft_wrap=True,
        )


def _accuracy_note(rows: Sequence[Mapping[str, Any]], texts: Sequence[str]) -> str:
    """Return a line on the texts of the accuracies, or on how to measure them."""
    known = [row["kl"] is not None for row in rows]
    if not any(known):
        return "accuracy: not measured; `hwgen model quantise --evaluate TEXT` measures it"
    if not texts:
        return "accuracy: the models were evaluated on different texts and do not compare"
    lacking = "" if all(known) else "; `-`: not evaluated"
    return f"accuracy: KL in nats, against the model before, on {', '.join(texts)}{lacking}"
