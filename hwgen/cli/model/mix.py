# SPDX-License-Identifier: Apache-2.0
"""``hwgen model mix``: formats of weights mixed by layer groups, and what each mixture costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.model.quantise import evaluated_texts, text_tokens
from hwgen.cli.support.common import (
    emit_json,
    example,
    force_option,
    json_option,
    memory_options,
    new_table,
    path_option,
    requested_memory,
    target_option,
    task_progress,
)
from hwgen.cli.support.outputs import atomic_directory, check_directory
from hwgen.reports.roofline import number
from hwgen.reports.terminal import console

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flows.search.mixing import Measured, MixedFormats
    from hwgen.models.files.store import Model

FORMATS = ("int4", "int8", "mxfp4", "nvfp4")
RESULT = "mix.json"


@click.command(
    "mix",
    epilog=example(
        "hwgen model mix austen --calibration emma.txt --evaluate persuasion.txt -o mixed"
        " --config configs/decoder_w4/mixed.yaml --target asap7"
    ),
)
@click.argument("source", metavar="DIR", type=click.Path(path_type=Path))
@path_option("--output", "DIR", "Directory for the models and mix.json.", required=True)
@path_option("--calibration", "FILE", "As of `hwgen model quantise`.", required=True, multiple=True)
@path_option(
    "--evaluate", "FILE", "Text to compare predictions on, as of `hwgen model quantise`; may be"
    " repeated, the worst counts.", "evaluated", required=True, multiple=True,
)  # fmt: skip
@click.option(
    "--positions", metavar="TOKENS", type=click.IntRange(2, 1 << 20),
    help="Tokens of that text; default 512, or the positions of the model's context if fewer.",
)  # fmt: skip
@click.option(
    "--formats", metavar="FORMAT,FORMAT...", default="int4,int8", show_default=True,
    help=f"Formats of weights that may be mixed, two or more of {', '.join(FORMATS)}; int4 and"
    " int8 are in groups of 32. A mixture has two of them at most, since an engine has.",
)  # fmt: skip
@click.option(
    "--parts", metavar="N", type=click.IntRange(1, 64), default=3, show_default=True,
    help="Parts that the layers are divided into, from the first to the last one; products of the"
    " same role in a part have one format.",
)  # fmt: skip
@click.option(
    "--limit", "count", metavar="N", type=click.IntRange(1, 100), default=4, show_default=True,
    help="Mixtures to make.",
)  # fmt: skip
@click.option("--no-compensate", is_flag=True, help="As of `hwgen model quantise`: faster.")
@path_option(
    "--config", "FILE", "Engine; tokens a second and joules a token of each model are those of the"
    " one that takes least; may be repeated.", "configs", multiple=True,
)  # fmt: skip
@target_option("Technology of the engines.", "target")
@memory_options
@click.option(
    "--context", metavar="POSITIONS", type=click.IntRange(1, 1 << 24), default=64,
    show_default=True, help="Positions of the cache; decode is of the last one.",
)  # fmt: skip
@force_option
@json_option
def mix_command(
    source: Path,
    output: Path,
    calibration: tuple[Path, ...],
    evaluated: tuple[Path, ...],
    positions: int | None,
    formats: str,
    parts: int,
    count: int,
    no_compensate: bool,
    configs: tuple[Path, ...],
    target: str | None,
    memory: str | None,
    gb_s: str | None,
    efficiency: str | None,
    context: int,
    force: bool,
    as_json: bool,
) -> None:
    """Mix formats of a decoder's weights by layer groups, by measured divergence.

    The model is quantised in each format. The divergence of each group of products in each format
    is measured on the texts, with all others in the widest format; sums of these choose mixtures
    that no other surpasses in bits and divergence. They are made and measured themselves, so that
    both can be compared. Quantised models in the directory, and measured divergences in the user's
    cache, are used again.
    """
    from flows.search.mixing import MixedFormats, surpassed
    from hwgen.core.params.target import Target
    from hwgen.models.files.store import Model

    chosen = _formats(formats)
    if configs and target is None:
        raise click.UsageError("--config: needs the --target that its figures are of")
    check_directory(output)
    off_chip = requested_memory(Target(), memory, gb_s, efficiency)
    engines = [_engine(path, target) for path in configs]
    model = Model(source)
    texts = evaluated_texts(model, evaluated, positions)
    with task_progress("quantising", quiet=as_json):
        models = {
            fmt: _quantised(model, output, fmt, calibration, not no_compensate, force=force)
            for fmt in chosen
        }
    with task_progress("mixing", quiet=as_json):
        mixes = MixedFormats(model, models, texts, parts)
        measured, sums = mixes.search(count)
        points = _write(output, mixes, measured, source, calibration, evaluated)
        for point in points:
            if engines:
                point |= _estimated(output / point["model"], engines, context, off_chip)
    for name, cost in (("on_front", "bits"), ("on_front_of_joules", "j_per_token")):
        if all(point.get(cost) is not None for point in points):
            for point, worse in zip(points, surpassed(points, cost), strict=True):
                point[name] = not worse
    document = {
        "source": source.name, "texts": {Path(n).name: len(t) for n, t in texts.items()},
        "calibration": {path.name: len(text_tokens(model, path)) for path in calibration},
        "target": target, "context": context, **sums, "points": points,
    }  # fmt: skip
    with atomic_directory(output, force=True) as staging:
        (staging / RESULT).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if as_json:
        emit_json({**document, "directory": str(output)})
    else:
        _print(document, output)


def _formats(text: str) -> list[str]:
    """Return the formats that ``--formats`` states."""
    result = list(dict.fromkeys(part.strip() for part in text.split(",")))
    unknown = [name for name in result if name not in FORMATS]
    if unknown or len(result) < 2:
        wrong = f"{unknown[0][:40]!r} is none" if unknown else "there is one"
        raise click.UsageError(f"--formats: must be two or more of {', '.join(FORMATS)}; {wrong}")
    return result


def _engine(path: Path, target: str | None) -> tuple[str, str]:
    """Return the name of an engine's file and its parameters as JSON."""
    from flows.build.build import retarget
    from flows.build.load import load_config
    from hwgen.errors import InputError
    from hwgen.families.transformer.params import TransformerConfig

    config = load_config(path)
    if not isinstance(config, TransformerConfig):
        raise InputError(f"{path}: must be an engine of the family transformer")
    values = config.resolved()
    if target is not None:
        aim = retarget(config.target, target, None, config.target.memory)
        values["target"] = aim.model_dump(mode="json", exclude_none=True)
        values["target"].pop("activation_sigma", None)
    return str(path), json.dumps(values)


def _quantised(
    model: Model, output: Path, fmt: str, calibration: Sequence[Path], compensate: bool, *,
    force: bool,
) -> Model:  # fmt: skip
    """Return the model in one format, as it is in the directory, or quantise it."""
    from hwgen.models.files.store import Model
    from hwgen.models.quantise.quantise import quantise
    from hwgen.models.quantise.recipe import BLOCKS, Recipe
    from hwgen.models.quantise.record import (
        file_digests,
        quantisation_record,
        read_record,
        write_record,
    )

    directory = output / fmt
    recipe = Recipe(
        fmt, BLOCKS.get(fmt, 32), rotate=True if _rotates(model) else None,  # type: ignore[arg-type]  # of FORMATS
        compensate=compensate,
    )  # fmt: skip
    record = quantisation_record(
        model.description.name, file_digests(model.path), recipe, calibration, [], {}
    )
    if directory.is_dir():
        there = read_record(directory)
        same = ("source", "recipe", "calibration", "hwgen")
        plain = json.loads(json.dumps(record))
        if there is not None and all(there[name] == plain[name] for name in same):
            return Model(directory)
    output.mkdir(parents=True, exist_ok=True)
    first, *more = [text_tokens(model, path) for path in calibration]
    with atomic_directory(directory, force=force) as staging:
        reports = quantise(model, staging, first, recipe, more)
        write_record(staging, {**record, "layers": [each.document() for each in reports]})
    return Model(directory)


def _rotates(model: Model) -> bool:
    """Return whether a model's residual stream can be rotated, as it then is in each format."""
    from hwgen.models.quantise.rotation import rotated

    return rotated(model) is not None


def _write(
    output: Path, mixes: MixedFormats, measured: Sequence[Measured], source: Path,
    calibration: Sequence[Path], evaluated: Sequence[Path],
) -> list[dict[str, Any]]:  # fmt: skip
    """Write the mixtures with records as of `hwgen model quantise`; return all points."""
    from hwgen.models.files.store import TOKENIZER
    from hwgen.models.quantise.mixing import mixed, patterns
    from hwgen.models.quantise.record import file_record, read_record, write_record

    points, number = [], 0
    for each in measured:
        formats = each.mixture.formats
        base, products = patterns(mixes.groups, formats)
        name = base
        folder = output / base
        record: Any = dict(read_record(mixes.models[base].path) or {})
        if products:
            number += 1
            name = f"mixed-{number}"
            folder = output / name
            record["recipe"] = {**record["recipe"], "products": list(map(list, products))}
            with atomic_directory(folder, force=True) as staging:
                mixed(mixes.models, mixes.groups, formats).write(staging)
                if mixes.source.has_tokenizer:
                    data = (mixes.source.path / TOKENIZER).read_bytes()
                    (staging / TOKENIZER).write_bytes(data)
        files = {str(path): path for path in evaluated}
        record["evaluations"] = [
            {**file_record(files[text]), **evaluation.document()}
            for text, evaluation in each.evaluations.items()
        ]
        write_record(folder, record)
        points.append({
            "model": name, "bits": each.mixture.bits, "kl": each.kl, "top1": each.top1,
            "predicted_kl": each.mixture.kl,
            "formats": {
                group.name: fmt for group, fmt in zip(mixes.groups, formats, strict=True)
            },
        })  # fmt: skip
    return points


def _estimated(
    model: Path, engines: Sequence[tuple[str, str]], context: int, memory: Any
) -> dict[str, Any]:
    """Return the costs of a token on the engine on which it takes least."""
    from flows.search.mixing import first_estimate
    from flows.search.scenarios import Scenario

    name, made = first_estimate(model, engines, (Scenario("all", context, memory),))
    names = ("tokens_per_s", "j_per_token", "area_mm2", "clock_mhz", "luts")
    return {"engine": Path(name).name, **{each: made.metrics[each] for each in names}}


def _print(document: Mapping[str, Any], output: Path) -> None:
    """Print the front, uniform formats among it."""
    out = console()
    out.print(
        f"{output}: {len(document['groups'])} groups of products, {document['front']} mixtures on"
        f" the front by sums of divergences; {document['widest']} alone {document['kl']:.4g}",
        soft_wrap=True,
    )
    estimated = "engine" in document["points"][0]
    names = ("tokens/s", "J/token", "engine") if estimated else ()
    table = new_table("model", "MiB", "KL", "by sums", "top-1", *names, "front", left=("engine",))
    for point in document["points"]:
        more: tuple[str, ...] = ()
        if estimated:
            more = (number(point["tokens_per_s"]), number(point["j_per_token"]), point["engine"])
        table.add_row(
            point["model"], f"{point['bits'] / 2**23:.4g}", f"{point['kl']:.4g}",
            f"{point['predicted_kl']:.4g}", f"{100 * point['top1']:.1f} %", *more,
            "yes" if point["on_front"] else "",
        )  # fmt: skip
    out.print(table)
