# SPDX-License-Identifier: Apache-2.0
"""``hwgen model run --input``: arrays through a network, by NumPy or by hardware and its models."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.model.run import Engines, doing, engine_of, simulated_counts, simulated_line
from hwgen.cli.support.common import emit_json, task_progress
from hwgen.cli.support.outputs import write_file
from hwgen.errors import InputError
from hwgen.reports.terminal import console

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from flows.simulation.models.model_run import Record
    from hwgen.core.params.base import FamilyConfig
    from hwgen.models.files.store import Model
    from hwgen.models.quantise.quantise import LayerReport
    from hwgen.models.quantise.recipe import Recipe
    from hwgen.models.run.tensor_engine import TensorEngine

_SHOWN = 5  # largest elements that are printed


@dataclass(frozen=True)
class ArrayRequest:
    """Arguments of a run on arrays; see the options of ``hwgen model run``."""

    source: Path
    inputs: tuple[str, ...]
    output: Path | None
    engine: str
    units: tuple[Path, ...]
    layers: str | None
    journal: Path | None
    force: bool


def run_arrays(request: ArrayRequest, *, as_json: bool) -> None:
    """Compute the outputs of arrays, write them, and print what is largest in them."""
    from hwgen.models.files.store import Model

    model = Model(request.source)
    frames = frames_of(forms_of(model), inputs_of(model.description.inputs, request.inputs))
    result: list[dict[str, Any]] = []
    start = time.monotonic()
    with task_progress(doing(request), quiet=as_json) as update:
        engine, record = engine_of(model, request, _engines(model, len(frames)), update)
        result.extend(engine.run(frame) for frame in frames)
    seconds = time.monotonic() - start
    outputs = written(request, result)
    tell(request, model.description.name, len(frames), outputs, seconds, record, as_json=as_json)


def tell(
    request: ArrayRequest, name: str, frames: int, outputs: dict[str, NDArray[Any]],
    seconds: float, record: Record | None, *, as_json: bool,
) -> None:  # fmt: skip
    """Print what is largest in outputs, and what was simulated."""
    document: dict[str, Any] = {
        "model": name,
        "engine": request.engine,
        "frames": frames,
        "outputs": {name: _summary(array) for name, array in outputs.items()},
        "wall_seconds": round(seconds, 3),
    }
    if record is not None:
        document["simulated"] = simulated_counts(record)
    if as_json:
        emit_json(document)
        return
    for output, array in outputs.items():
        shown = _summary(array)
        largest = ", ".join(f"{at}: {float(value):.6g}" for at, value in shown["largest"])
        shape = " x ".join(map(str, shown["shape"])) or "one number"
        click.echo(f"{output}: {shape} of {shown['dtype']}; largest {largest}")
        if shown["not_finite"]:
            click.echo(
                f"warning: {shown['not_finite']} of the {array.size} elements of {output} are"
                " infinite or no number",
                err=True,
            )
    if record is not None:
        line = simulated_line(record)
        console().print(line, markup=False, highlight=False, soft_wrap=True)


def forms_of(model: Model) -> dict[str, tuple[Any, ...]]:
    """Return the shapes of a model's inputs."""
    return {name: model.description.arrays[name] for name in model.description.inputs}


def written(request: ArrayRequest, frames: list[dict[str, Any]]) -> dict[str, NDArray[Any]]:
    """Return the outputs of all frames, one behind another, and write them where that is asked."""
    outputs = _joined(frames)
    if request.output is not None:
        _write(request.output, outputs, force=request.force)
    return outputs


def inputs_of(names: Sequence[str], texts: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Return the arrays of an option, ``FILE.npy`` or ``NAME=FILE.npy`` each."""
    from hwgen.core.files.arrays import read_npy

    result = {}
    for text in texts:
        name, separator, file = text.partition("=")
        if not separator:
            if len(names) != 1:
                raise click.UsageError(
                    f"--input: the model has the inputs {', '.join(names)}; give NAME=FILE.npy"
                )
            name, file = names[0], text
        if name in result:
            raise click.UsageError(f"--input: {name} is given twice")
        result[name] = read_npy(Path(file))
    return result


def calibrated(model: Model, directory: Path, path: Path, recipe: Recipe) -> list[LayerReport]:
    """Quantise a network on arrays, and return the errors on an input: ``.npy``, or ``.npz``."""
    from hwgen.core.files.arrays import read_npy, read_npz
    from hwgen.models.quantise.tensor_quantise import quantise_tensors

    names = model.description.inputs
    if path.suffix == ".npz":
        inputs = dict(zip(names, read_npz(path, names), strict=True))
    elif len(names) == 1:
        inputs = {names[0]: read_npy(path)}
    else:
        raise InputError(
            f"--calibration: the model has the inputs {', '.join(names)}; give a .npz with them"
        )
    return quantise_tensors(model, directory, frames_of(forms_of(model), inputs)[0], recipe)


def frames_of(
    forms: Mapping[str, tuple[Any, ...]], inputs: dict[str, NDArray[Any]]
) -> list[dict[str, NDArray[Any]]]:
    """Return the inputs of each run: if the network takes one frame, one of each array."""
    shapes = {name: forms.get(name, ()) for name in inputs}
    counts = {
        len(array) for name, array in inputs.items() if array.ndim and shapes[name][:1] == (1,)
    }
    alike = all(
        array.ndim == len(shapes[name]) and array.shape[1:] == shapes[name][1:] and array.ndim
        and shapes[name][0] == 1 for name, array in inputs.items()
    )  # fmt: skip
    if not alike or len(counts) != 1 or counts == {1}:
        return [inputs]
    count = counts.pop()
    if not count:
        raise InputError("--input: the array has no frames")
    return [{name: array[i : i + 1] for name, array in inputs.items()} for i in range(count)]


def _joined(frames: list[dict[str, Any]]) -> dict[str, NDArray[Any]]:
    """Return the outputs of all frames, one behind another."""
    import numpy as np

    if len(frames) == 1:
        return frames[0]
    return {name: np.concatenate([each[name] for each in frames]) for name in frames[0]}


def _summary(array: NDArray[np.generic]) -> dict[str, Any]:
    """Return shape, type and the largest elements of an array; ``"nan"`` comes last.

    JSON has no numbers for what is not finite: ``"inf"``, ``"-inf"`` and ``"nan"`` are texts.
    """
    import numpy as np

    flat = np.asarray(array).reshape(-1)
    wide = flat.astype(np.float64)
    order = np.argsort(-wide, kind="stable")[:_SHOWN]
    places = [",".join(map(str, np.unravel_index(int(i), array.shape))) for i in order]
    values = [float(wide[i]) if math.isfinite(wide[i]) else str(float(wide[i])) for i in order]
    return {
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "largest": [[at, value] for at, value in zip(places, values, strict=True)],
        "not_finite": int((~np.isfinite(wide)).sum()),
    }


def _write(path: Path, outputs: dict[str, NDArray[Any]], *, force: bool) -> None:
    """Write outputs to a ``.npy`` file, or several to a ``.npz`` file."""
    import numpy as np

    content = io.BytesIO()
    if path.suffix == ".npz":
        named: dict[str, Any] = {f"output{i}": a for i, a in enumerate(outputs.values())}
        np.savez(content, **named)
    elif len(outputs) == 1:
        np.save(content, next(iter(outputs.values())))
    else:
        raise InputError(f"--output {path}: the model has {len(outputs)} outputs; name a file .npz")
    write_file(path, content.getvalue(), force=force)


def _engines(model: Model, frames: int) -> Engines:
    """Return the engines of a network that takes some frames."""
    from hwgen.models.run.tensor_engine import TensorEngine

    def simulated(configs: Sequence[FamilyConfig], record: Record) -> TensorEngine:
        from flows.simulation.models.model_run import RtlTensorEngine

        return RtlTensorEngine(model, configs, record)

    return Engines(
        floating=lambda: TensorEngine(model),
        golden=lambda units: TensorEngine(model, units),
        simulated=simulated,
        operations=lambda engine, layers: engine.operations(layers) * frames,
    )
