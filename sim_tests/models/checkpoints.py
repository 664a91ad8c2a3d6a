# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of transformers: their import, and models with something left out.

`make_checkpoints.py` writes the checkpoints.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwgen.models.files.store import Model
from hwgen.models.graph.description import Node
from hwgen.models.import_model import import_model
from hwgen.models.quantise.quantise import quantise
from hwgen.models.quantise.recipe import Recipe
from hwgen.models.run.engine import Run
from hwgen.models.run.float_engine import FloatEngine
from sim_tests.support.paths import ROOT

FOLDER = ROOT / "sim_tests" / "data" / "checkpoints"
NAMES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())

TOLERANCE = 1e-4
"""Largest error of logits in single precision, relative to the largest logit."""

_DEFAULTS = {"scale": 1.0, "amplitude": 1.0, "rotated": 0, "window": 0, "cap": 0.0, "heads": 1}
"""What attributes are where the architecture has no such thing."""


def imported(source: Path, directory: Path) -> Model:
    """Import a model into a new directory."""
    directory.mkdir(parents=True)
    import_model(source, directory)
    return Model(directory)


def copied(name: str, directory: Path, *, old: bool = False) -> Path:
    """Return a copy of a checkpoint, perhaps with the configuration of transformers 4."""
    shutil.copytree(FOLDER / name, directory)
    if old:
        shutil.copy(directory / "config_v4.json", directory / "config.json")
    return directory


@cache
def reference(name: str) -> tuple[list[int], NDArray[np.float32]]:
    """Return the tokens of a checkpoint's reference and the logits of transformers."""
    with np.load(FOLDER / name / "reference.npz") as arrays:
        return arrays["tokens"].tolist(), arrays["logits"]


def error_of(model: Model, name: str) -> float:
    """Return the largest error of a model's logits, relative to the largest logit."""
    tokens, wanted = reference(name)
    logits = Run(FloatEngine(model)).feed(tokens, every=True)
    return float(np.abs(logits - wanted).max() / np.abs(wanted).max())


def quantised(model: Model, directory: Path, **recipe: Any) -> Model:
    """Quantise a model, calibrated on random tokens other than those of the reference."""
    directory.mkdir(parents=True)
    rng = np.random.default_rng(1)
    length = min(64, model.description.context or 64)
    texts = [rng.integers(3, 64, length).tolist() for _ in range(8)]
    quantise(model, directory, texts[0], Recipe(**recipe), texts[1:])
    return Model(directory)


def divergence(logits: NDArray[Any], name: str) -> float:
    """Return the mean divergence from the predictions of transformers, in nats."""
    ours, wanted = (log_softmax(each) for each in (logits, reference(name)[1]))
    return float((np.exp(wanted) * (wanted - ours)).sum(1).mean())


def log_softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    """Return logarithms of probabilities."""
    wide = logits.astype(np.float64)
    wide -= wide.max(1, keepdims=True)
    result: NDArray[np.float64] = wide - np.log(np.exp(wide).sum(1, keepdims=True))
    return result


def without(model: Model, node: Node, change: dict[str, Any] | None) -> Model:
    """Return a model with another node, or without one whose result is its operand ``x``."""
    result = copy.copy(model)
    nodes = []
    for each in model.description.nodes:
        if each.name == node.name:
            if change is None:
                continue
            each = each.model_copy(update=change)
        elif change is None:
            inputs = {
                key: node.inputs["x"] if array == node.output else array
                for key, array in each.inputs.items()
            }
            each = each.model_copy(update={"inputs": inputs})
        nodes.append(each)
    output = nodes[-1].output
    result.description = model.description.model_copy(
        update={"nodes": tuple(nodes), "outputs": (output,)}
    )
    return result


def mutants(model: Model) -> Iterator[tuple[str, Model]]:
    """Yield models without one of the norms, biases, rotations, caps, windows and scales."""
    for node in model.description.nodes:
        rotates = node.operation == "rope" and node.attributes.get("scale") != 0.0
        if rotates or node.operation in ("rms_norm", "layer_norm", "soft_cap"):
            yield f"{node.name} removed", without(model, node, None)
        for operand in ("bias", "factors", "beta"):
            if operand in node.inputs:
                inputs = {key: array for key, array in node.inputs.items() if key != operand}
                if operand == "beta":
                    inputs["beta"] = node.inputs["gamma"]
                yield f"{node.name} without {operand}", without(model, node, {"inputs": inputs})
        for key, default in _DEFAULTS.items():
            value = node.attributes.get(key, default)
            if value == default or key == "heads" or (node.operation, key) == ("soft_cap", "cap"):
                continue
            if (node.operation, key) == ("attention", "scale"):
                default = 0.0
            change: dict[str, Any] = {"attributes": {**node.attributes, key: default}}
            if key == "rotated":  # factors are as many as rotated pairs
                change["inputs"] = {"x": node.inputs["x"]}
            yield f"{node.name} without {key}", without(model, node, change)
