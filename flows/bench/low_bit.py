# SPDX-License-Identifier: Apache-2.0
"""Low-bit formats of a decoder on whole engines: ``make bench-low-bit``.

Each row quantises the model by ``hwgen model quantise`` with its options, compares predictions with
those of the model, estimates its engine by ``hwgen model estimate``, and simulates layer 0 for one
token on the RTL of the engine's cores, whose results must be the golden model's in every bit.
Measured rows are stored in ``low_bit.json`` beside this module; the page is written from them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from flows.bench.common import ROOT, Document, hwgen, markdown, parser, run, write_sections
from flows.bench.quantisation import weight_bits
from flows.build.load import load_config
from flows.simulation.models.model_run import Record, RtlEngine
from hwgen.errors import InputError
from hwgen.models.files.store import Model
from hwgen.models.run.engine import Run
from hwgen.reports.roofline import number

RESULTS = Path(__file__).with_name("low_bit.json")
SECTION = "formats"
TARGETS = ("nangate45", "asap7")
_TOKEN = 1  # that is simulated


@dataclass(frozen=True)
class Format:
    """Formats of weights and activations, and the engine for them.

    Parameters
    ----------
    label : str
        Weights and activations, in words.
    options : tuple of str
        Of `hwgen model quantise`.
    engine : str
        Configuration, relative to the checkout.
    """

    label: str
    options: tuple[str, ...]
    engine: str


FORMATS: Mapping[str, Format] = {
    "int8": Format("int8 x int8", ("--hadamard", "8"), "configs/decoder_engine/int8.yaml"),
    "w4": Format(
        "4 bits in groups of 32 x int8",
        ("--weights", "int4", "--group", "32", "--hadamard", "8"),
        "configs/decoder_w4/engine.yaml",
    ),
    "w4a4": Format(
        "4 bits in groups of 32 x int4",
        ("--weights", "int4", "--group", "32", "--activation-bits", "4", "--hadamard", "32"),
        "configs/decoder_w4/int4.yaml",
    ),
    "kv8": Format(
        "4 bits in groups of 32 x int8, keys and values MXFP8",
        ("--weights", "int4", "--group", "32", "--hadamard", "8", "--kv-format", "mxfp8"),
        "configs/decoder_w4/kv_mxfp8.yaml",
    ),
    "kv4": Format(
        "4 bits in groups of 32 x int8, keys and values MXFP4",
        ("--weights", "int4", "--group", "32", "--hadamard", "8", "--kv-format", "mxfp4"),
        "configs/decoder_w4/kv_mxfp4.yaml",
    ),
    "mxfp4": Format(
        "MXFP4 x int8",
        ("--weights", "mxfp4", "--hadamard", "8"),
        "configs/decoder_mxfp4/engine.yaml",
    ),
    "nvfp4": Format(
        "NVFP4 x int8",
        ("--weights", "nvfp4", "--hadamard", "8"),
        "configs/decoder_nvfp4/engine.yaml",
    ),
    "mxfp8": Format(
        "MXFP4 x MXFP8",
        ("--weights", "mxfp4", "--activations", "mxfp8"),
        "configs/decoder_mxfp4/mxfp8.yaml",
    ),
}
"""Rows by their name."""


def measured(
    name: str, imported: Path, quantised: Path, common: Sequence[str | Path], memory: str
) -> Document:
    """Return the results of a row.

    Parameters
    ----------
    name : str
        Of `FORMATS`.
    imported, quantised : Path
        Directories of the model, and of the one to write.
    common : sequence of str
        Options of all rows of `hwgen model quantise`: texts.
    memory : str
        Off-chip memory of the engine.

    Raises
    ------
    CheckFailed
        If a simulated result differs from the golden model.
    """
    form = FORMATS[name]
    evaluations = hwgen("model", "quantise", imported, "--output", quantised, "--force",
                        *common, *form.options)["evaluations"]  # fmt: skip
    targets = [part for target in TARGETS for part in ("--target", target)]
    estimate = hwgen("model", "estimate", quantised, "--config", ROOT / form.engine,
                     "--memory", memory, *targets)  # fmt: skip
    model = Model(quantised)
    return {
        "options": " ".join(form.options),
        "engine": form.engine,
        "bits": round(weight_bits(model.description), 3),
        "evaluations": {
            str(Path(path).name): {key: each[key] for key in ("positions", "top1", "kl")}
            for path, each in evaluations.items()
        },
        "targets": {entry["estimate"]["technology"]: _costs(entry)
                    for entry in estimate["targets"]},
        "simulated": simulated(model, ROOT / form.engine),
    }  # fmt: skip


def _costs(document: Document) -> Document:
    """Return clock, area, speed and energy of an estimate."""
    entry, decode = document["estimate"], document["passes"]["decode"]
    return {
        "clock_mhz": round(entry["figures_at_mhz"] or entry["clock_mhz"], 1),
        "area_mm2": float(number(entry["metrics"]["area_mm2"])),
        "tokens_per_s": round(decode["tokens_per_s"], 2),
        "mj_per_token": round(1e3 * decode["j_per_token"], 2),
    }


def simulated(model: Model, engine: Path) -> Document:
    """Return the operations and cycles of layer 0 on the RTL of an engine, for a token.

    Products run on the part that multiplies in memory, other operations on the cores of the others.

    Raises
    ------
    CheckFailed
        If a result differs from the golden model.
    """
    record = Record(layers=frozenset({0}))
    Run(RtlEngine(model, [load_config(engine)], record)).feed([_TOKEN])
    return {"operations": record.simulated, "cycles": record.cycles.total()}


def table(results: Mapping[str, Document]) -> str:
    """Return the table of stored rows, in Markdown, with a command for each."""
    chosen = {name: results[name] for name in FORMATS if name in results}
    texts = list(next(iter(chosen.values()))["evaluations"])
    headings = ["weights x activations", "bits a weight", *(f"`{text}`" for text in texts)]
    for target in TARGETS:
        headings += [f"{target}: mm²", "tokens/s", "mJ/token"]
    headings.append("layer 0 in RTL")
    rows = []
    for name, result in chosen.items():
        cells = [FORMATS[name].label, f"{result['bits']:.2f}"]
        cells += [
            f"{100 * each['top1']:.1f} %, {_divergence(each['kl'])}"
            for each in result["evaluations"].values()
        ]
        for target in TARGETS:
            costs = result["targets"][target]
            cells += [number(costs[key]) for key in ("area_mm2", "tokens_per_s", "mj_per_token")]
        layer = result["simulated"]
        cells.append(f"{layer['operations']} operations equal, {layer['cycles']:,} cycles")
        rows.append(cells)
    commands = [
        [FORMATS[name].label, f"`make bench-low-bit ARGS=\"--row {name}\"`",
         f"`{result['options']}`", f"`{result['engine']}`"]
        for name, result in chosen.items()
    ]  # fmt: skip
    columns = ("weights x activations", "command", "options of `hwgen model quantise`", "engine")
    return markdown(headings, rows) + "\n" + markdown(columns, commands)


def _divergence(value: float) -> str:
    return f"{value:.2f}" if value >= 1 else f"{value:.4f}"


def stored() -> dict[str, Document]:
    """Return the stored rows by name.

    Raises
    ------
    InputError
        If nothing is stored.
    """
    if not RESULTS.is_file():
        raise InputError(f"{RESULTS} does not exist; run `make bench-low-bit`")
    result: dict[str, Document] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure rows and store them, and write the table or print it."""
    options = parser("low_bit", __doc__)
    options.add_argument("model", nargs="?", help="file of a model; default: use stored rows only")
    options.add_argument("--calibration", action="append", default=[], metavar="TEXT")
    options.add_argument("--evaluate", action="append", default=[], metavar="TEXT")
    options.add_argument("--positions", default="512", help="most tokens of a text")
    options.add_argument("--memory", default="lpddr4x")
    options.add_argument("--row", action="append", choices=FORMATS, help="default all")
    options.add_argument("--write", type=Path, metavar="FILE", help="replace the table of a page")
    chosen = options.parse_args(arguments)
    if chosen.model:
        common = ["--positions", chosen.positions]
        texts = (("--calibration", chosen.calibration), ("--evaluate", chosen.evaluate))
        common += [part for option, paths in texts for path in paths for part in (option, path)]
        with tempfile.TemporaryDirectory(prefix="hwgen-low-bit-") as directory:
            imported, quantised = Path(directory) / "model", Path(directory) / "quantised"
            hwgen("model", "import", chosen.model, "--output", imported)
            for name in chosen.row or FORMATS:
                row = measured(name, imported, quantised, common, chosen.memory)
                sys.stderr.write(f"{name}: {json.dumps(row)}\n")
                results = {**(stored() if RESULTS.is_file() else {}), name: row}
                text = json.dumps(results, indent=1, sort_keys=True) + "\n"
                RESULTS.write_text(text, encoding="utf-8")
    shown = table(stored())
    if chosen.json:
        click.echo(json.dumps(stored(), indent=1))
    elif chosen.write:
        write_sections(chosen.write, {SECTION: shown})
    else:
        click.echo(shown, nl=False)


if __name__ == "__main__":
    run(main)
