# SPDX-License-Identifier: Apache-2.0
"""The demonstration: generated RTL reads handwritten digits.

``python -m flows.demonstration.demo [--config FILE] [--output DIR]`` writes the hardware of a
configuration as ``hwgen build`` does, trains and quantises a small network
(`flows.demonstration.digits`), and classifies every image of the test split with the RTL in
simulation, layer by layer.  Each layer's result must equal the golden model's bit for bit, and its
cycles the cycle model's; else the exit status is 1.  A picture of digits and predictions goes to
``DIR/digits.png``.

The format of the weights decides how the network is trained: as a ternary one, wider to make up
for it, if they have fewer than four bits; else in floating point, and rounded afterwards.  The
accuracy to compare with is that of a floating-point network of the same shape.

Nothing here knows a family: any with integer operands, activations of at least four bits, will do.
An engine that works on memory does more of the network by itself: see
`flows.demonstration.on_engine`.
"""

from __future__ import annotations

import io
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from flows.build.design import Design
from flows.build.load import load_config
from flows.demonstration import digits
from flows.demonstration import on_engine as demo_engine
from flows.demonstration.digits import Digits, Integers, QuantisedNetwork
from flows.demonstration.layer_run import LayerRun
from flows.demonstration.program import run_program
from flows.simulation.bus.job_host import open_engine
from flows.simulation.run import JobRun, check_results, run_product
from flows.simulation.runner import compile_design
from flows.simulation.stream_program import check_cycles
from hwgen.core.operation import gemm_operands
from hwgen.core.protocols import WeightPacker
from hwgen.core.registry import core_of
from hwgen.families.gemm_stream.params import GemmStreamConfig
from hwgen.reports.terminal import console, cycle_progress

if TYPE_CHECKING:
    from hwgen.core.params.base import FamilyConfig

DEFAULT_CONFIG = Path("configs") / "lut_core.yaml"
DEFAULT_OUTPUT = Path("build") / "demo"
PICTURE = "digits.png"
COMPILING = "compiling the RTL with Verilator"


def run_layer(
    design: Design,
    a: Integers,
    w: Integers,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    run: Callable[..., JobRun] | None = None,
) -> tuple[Integers, LayerRun]:
    """Compute ``a . w`` with the RTL and hold it against the golden and the cycle model.

    Raises
    ------
    CheckFailed
        If a result or the number of cycles differs.
    """
    core = design.core
    (m, k), n = a.shape, w.shape[1]
    result = (run or run_product)(design, a, w, on_progress=on_progress)
    check_results(f"{m} x {k} x {n}", result.results, {"result": core.multiply(a, w)})
    job = core.gemm(m, k, n)
    model = core.cycles([job], [gemm_operands(a, w)])
    check_cycles(f"{m} x {k} x {n}", result.cycles, model)
    expected = model.number
    share = m * k * n / (core.params.macs_per_cycle * result.cycles)
    most = core.cycles([job]).most or 0
    return result.result, LayerRun(
        m, k, n, result.cycles, expected, share, most_cycles=most if most > expected else None
    )


def classify(
    design: Design, network: QuantisedNetwork, pixels: Integers, *, quiet: bool = False
) -> tuple[Integers, list[LayerRun]]:
    """Classify images with the RTL; return the digits and what each layer took."""
    layers: list[LayerRun] = []

    def product(a: Integers, w: Integers) -> Integers:
        with cycle_progress(quiet=quiet) as update:
            c, layer = run_layer(design, a, w, on_progress=update)
        layers.append(layer)
        return c

    return network.classify(pixels, product), layers


def weight_bits(config: FamilyConfig) -> float:
    """Return the bits of a weight in the stream of a core that is filled."""
    m, k, n = config.natural_sizes
    plan = core_of(config).schedule(core_of(config).gemm(m, k, n))
    assert isinstance(plan, WeightPacker)
    image = plan.pack_weights(np.full((k, n), config.weight.zero, config.weight.dtype))
    return float(8 * image.size / (k * n))


# -- the command ---------------------------------------------------------------------------------


@click.command()
@click.option(
    "--config", metavar="FILE", default=DEFAULT_CONFIG, show_default=True,
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    help="Configuration of the accelerator.",
)  # fmt: skip
@click.option(
    "--output", metavar="DIR", default=DEFAULT_OUTPUT, show_default=True,
    type=click.Path(path_type=Path), help="Directory for the hardware and the picture.",
)  # fmt: skip
def command(config: Path, output: Path) -> None:
    """Classify handwritten digits with generated RTL in simulation."""
    out = console()
    arguments = ["build", "--config", str(config), "--output", str(output)]
    out.print(f"hwgen {shlex.join(arguments)}", style="dim", soft_wrap=True)
    status = subprocess.run([sys.executable, "-m", "hwgen", *arguments], check=False).returncode
    if status:
        click.get_current_context().exit(status)
    core: Any = load_config(config)
    streams = bool(core.ports)
    if not streams:
        demo_engine.settings_of(core)  # what it lacks is said before the training

    data = digits.load()
    ternary = digits.wants_ternary(core.weight)
    with _busy("training"):
        real = digits.train(data, digits.HIDDEN_TERNARY if ternary else digits.HIDDEN)
        network = digits.train(data, digits.HIDDEN_TERNARY, ternary=True) if ternary else real
    integers = digits.quantise(
        network, data.train_pixels, core.activation, core.weight, core.result
    )
    run = _on_streams if streams else _in_memory
    predictions, expected, layers = run(core, integers, data.test_pixels)
    answers = {
        "floating point": real.classify(data.test_pixels),
        "golden model": expected,
        "RTL": predictions,
    }
    _report(core, data, answers, layers)
    if ternary:
        location = "the core's stream" if streams else "memory"
        count, bits = sum(layer.weight.size for layer in integers.layers), weight_bits(core)
        out.print(
            f"{count} ternary weights: {bits:.2f} bits each in {location},"
            f" {100 * bits / 8:.1f} % of int8.",
            soft_wrap=True,
        )
    picture = draw(core, data, predictions, layers)
    (output / PICTURE).write_bytes(picture)
    out.print(f"\npicture: {output / PICTURE}", soft_wrap=True)


def _on_streams(
    config: FamilyConfig, network: QuantisedNetwork, pixels: Integers
) -> tuple[Integers, Integers, list[LayerRun]]:
    """Return the digits by the RTL and the golden model, and what each layer took."""
    golden = core_of(config).multiply
    with _busy(COMPILING):
        design = Design.of(config)
        compile_design(design)
    predictions, layers = classify(design, network, pixels)
    return predictions, network.classify(pixels, golden), layers


def _in_memory(
    config: FamilyConfig, network: QuantisedNetwork, pixels: Integers
) -> tuple[Integers, Integers, list[LayerRun]]:
    """Return the same of an engine, with a memory that answers in the next cycle."""
    assert isinstance(config, GemmStreamConfig)
    with _busy(COMPILING):
        host = open_engine(Design.of(config), read_latency=1, write_latency=1)
    with host.model, cycle_progress(quiet=False) as update:
        return demo_engine.classify(host, network, pixels, on_progress=update)


def _busy(activity: str) -> AbstractContextManager[Any]:
    """Say on a terminal what takes its time."""
    out = console()
    return out.status(activity) if out.is_terminal else nullcontext()


def _report(
    config: FamilyConfig, data: Digits, answers: dict[str, Integers], layers: Sequence[LayerRun]
) -> None:
    from rich.table import Table

    out = console()
    images = len(data.test_labels)
    out.print(f"\n{images} handwritten digits, none of them seen in training\n")
    table = Table("computed by", "formats", box=None, pad_edge=False)
    for heading in ("right", "accuracy"):
        table.add_column(heading, justify="right")
    for name, predictions in answers.items():
        formats = (
            "float64" if name == "floating point" else f"{config.activation} x {config.weight}"
        )
        share = digits.accuracy(predictions, data.test_labels)
        table.add_row(name, formats, f"{round(share * images)}", f"{100 * share:.2f} %")
    out.print(table)
    table = Table("layer", "M x K x N", box=None, pad_edge=False)
    moved = [f"{layer.moved:,}" for layer in layers if layer.moved is not None]
    for heading in ("cycles", "cycle model", "utilisation", *["bytes moved"] * bool(moved)):
        table.add_column(heading, justify="right")
    for index, layer in enumerate(layers, 1):
        table.add_row(
            str(index),
            layer.size,
            str(layer.cycles),
            str(layer.model_cycles),
            f"{100 * layer.utilisation:.1f} %",
            *moved[index - 1 : index],
        )
    out.print()
    out.print(table)
    if moved:
        total = sum(layer.cycles for layer in layers)
        out.print(
            f"\n{len(layers)} jobs in the queue, {total} cycles; bias, ReLU and requantisation in"
            " hardware,\nactivations between layers stay in memory.",
            soft_wrap=True,
        )
    if any(layer.most_cycles for layer in layers):
        total = sum(layer.cycles for layer in layers)
        most = sum(layer.most_cycles or layer.cycles for layer in layers)
        out.print(
            f"\nZero digits left out: {total} cycles instead of the {most} of every digit,"
            f" {100 * (1 - total / most):.1f} % saved.",
            soft_wrap=True,
        )
    out.print("\nEvery result of the RTL equals the golden model, bit for bit.")


# -- the picture ---------------------------------------------------------------------------------

INK, MUTED, GOOD, BAD, REST = "#1b2733", "#6b7885", "#1f6f8b", "#d1495b", "#d5dce3"
GRID = (6, 10)


def draw(
    config: FamilyConfig, data: Digits, predictions: Integers, layers: Sequence[LayerRun]
) -> bytes:
    """Return a PNG: digits with what the RTL reads in them, and where the cycles went."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5.4), dpi=110, facecolor="white")
    FigureCanvasAgg(figure)
    images = len(data.test_labels)
    right = int(np.sum(predictions == data.test_labels))
    figure.text(
        0.03, 0.94, "Handwritten digits, read by generated RTL", color=INK, size=15, weight="bold"
    )
    figure.text(
        0.03, 0.895, f"{config.name}: {config.activation} x {config.weight}, simulated with"
        f" Verilator. {right} of {images} right; a red frame marks a wrong answer.",
        color=MUTED, size=9.5,
    )  # fmt: skip
    rows, columns = GRID
    grid = figure.add_gridspec(
        rows, columns, left=0.03, right=0.60, top=0.86, bottom=0.03, wspace=0.12, hspace=0.34
    )
    for place, image in enumerate(_chosen(data, predictions)):
        axes = figure.add_subplot(grid[divmod(place, columns)])
        _draw_digit(axes, data.test_pixels[image], predictions[image], data.test_labels[image])
    _draw_cycles(figure.add_axes((0.70, 0.16, 0.27, 0.62)), layers)
    png = io.BytesIO()
    # No version of the library in the file: the same run gives the same bytes.
    figure.savefig(png, format="png", metadata={"Software": None})
    return png.getvalue()


def _chosen(data: Digits, predictions: Integers) -> list[int]:
    """Return the images to show: a few wrong ones spread among the first right ones."""
    wrong = np.flatnonzero(predictions != data.test_labels)[:5].tolist()
    right = np.flatnonzero(predictions == data.test_labels).tolist()
    chosen: list[int] = right[: GRID[0] * GRID[1] - len(wrong)]
    for place, image in enumerate(wrong):
        chosen.insert(min(7 + 11 * place, len(chosen)), image)
    return chosen


def _draw_digit(axes: Any, pixels: Integers, read: int, label: int) -> None:
    axes.imshow(pixels.reshape(8, 8), cmap="Greys", vmin=0, vmax=digits.PIXEL_MAX)
    axes.set(xticks=[], yticks=[])
    right = read == label
    for spine in axes.spines.values():
        spine.set(color=REST if right else BAD, linewidth=0.8 if right else 2.2)
    text = str(read) if right else f"{read}, is {label}"
    axes.set_title(text, color=GOOD if right else BAD, size=9, pad=2, weight="bold")


def _draw_cycles(axes: Any, layers: Sequence[LayerRun]) -> None:
    places = np.arange(len(layers))
    cycles = np.array([layer.cycles for layer in layers])
    useful = cycles * np.array([layer.utilisation for layer in layers])
    axes.bar(places, useful, width=0.55, color=GOOD, label="useful work")
    axes.bar(
        places, cycles - useful, width=0.55, bottom=useful, color=REST, label="fill, drain, padding"
    )
    for place, layer in zip(places, layers, strict=True):
        text = f"{layer.cycles:,} cycles\n{100 * layer.utilisation:.1f} % utilised"
        axes.text(place, layer.cycles + 0.02 * cycles.max(), text, ha="center", size=9, color=INK)
    axes.set_xticks(places, [f"layer {i}\n{layer.size}" for i, layer in enumerate(layers, 1)])
    axes.set_ylim(0, 1.2 * cycles.max())
    axes.set_yticks([])
    axes.tick_params(length=0, labelsize=9, labelcolor=INK)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)
    axes.set_title("Cycles of each layer", color=INK, size=11, weight="bold", pad=24)
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, 1.1), ncols=2, frameon=False, fontsize=8,
        labelcolor=INK, handlelength=1, columnspacing=1,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(run_program(command))
