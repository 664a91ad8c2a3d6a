# SPDX-License-Identifier: Apache-2.0
"""The record that is stored beside a quantised model: how it was made, and how near it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwgen import __version__
from hwgen.errors import InputError
from hwgen.models.files.store import DESCRIPTION, WEIGHTS

if TYPE_CHECKING:
    from hwgen.models.quantise.evaluation import Evaluation
    from hwgen.models.quantise.recipe import Recipe

RECORD = "quantised.json"
"""Name of the file, in the directory of the model."""

VERSION = 1
"""Of its form."""


def quantisation_record(
    name: str,
    before: Mapping[str, str],
    recipe: Recipe,
    calibration: Iterable[Path],
    layers: list[dict[str, Any]],
    evaluations: Mapping[str, Evaluation],
) -> dict[str, Any]:
    """Return the record as JSON values.

    Parameters
    ----------
    name : str
        Of the model.
    before : mapping of str
        `file_digests` of the model as it was.
    recipe : Recipe
    calibration : iterable of Path
        Texts or inputs; their bytes are identified by SHA-256.
    layers : list of dict
        Error of each product in calibration, relative to its results.
    evaluations : mapping of Evaluation
        By the text that predictions were compared on.
    """
    chosen = {"rotate": recipe.rotates, "compensate": recipe.compensates}
    return {
        "hwgen_quantised": VERSION,
        "hwgen": __version__,
        "source": {"name": name, "sha256": dict(before)},
        "recipe": {**asdict(recipe), **chosen},
        "weight_bits": recipe.bits,
        "calibration": [file_record(path) for path in calibration],
        "evaluations": [
            {**file_record(Path(name)), **evaluation.document()}
            for name, evaluation in evaluations.items()
        ],
        "layers": layers,
    }


def read_record(directory: Path) -> dict[str, Any] | None:
    """Return the record beside a model; None if it has none, as of a model that is not quantised.

    Raises
    ------
    InputError
        If the file is no record of a quantisation.
    """
    path = directory / RECORD
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        recipe, evaluations = record["recipe"], record["evaluations"]
        sound = isinstance(recipe, dict) and all(
            isinstance(each[key], int | float) for each in evaluations for key in ("kl", "top1")
        )
    except OSError:
        return None
    except (ValueError, KeyError, TypeError):
        sound = False
    if not sound:
        raise InputError(f"{path}: is no record of a quantisation; quantise again")
    return dict(record)


def weight_format(record: Mapping[str, Any]) -> str:
    """Return the format of a quantised model's weights, as ``int4_g32``, or ``original``."""
    weights, group = record["recipe"].get("weights", "original"), record["recipe"].get("group")
    others = sorted({name for _, name in record["recipe"].get("products", ())} - {weights})
    if others:
        return "+".join([str(weights), *others])
    fixed = weights in ("mxfp4", "nvfp4")  # their group is part of the format
    return f"{weights}_g{group}" if group and not fixed else str(weights)


def file_digests(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of description and weights of a model, by the name of the file."""
    return {name: _digest(directory / name) for name in (DESCRIPTION, WEIGHTS)}


def write_record(directory: Path, record: Mapping[str, Any]) -> None:
    """Write the record of a quantised model into its directory."""
    (directory / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def file_record(path: Path) -> dict[str, str]:
    """Return the name of a file, without its directory, and a digest of its bytes."""
    return {"file": path.name, "sha256": _digest(path)}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
