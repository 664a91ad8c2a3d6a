# SPDX-License-Identifier: Apache-2.0
"""Fuzzing of checkpoints: mutated configurations, indices and safetensors are read or refused.

``python -m sim_tests.models.fuzz_checkpoints --files 5000`` runs a campaign; the tests run a part.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from sim_tests.models.checkpoints import FOLDER
from sim_tests.models.fuzz_models import attempt_import, main, mutate, run_campaign

SEEDS = ("gemma3", "phi4", "qwen2", "smollm3", "llama_yarn", "llama_3", "stablelm", "granite")
"""Checkpoints that are mutated."""

_VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 3, 7, 64, 1 << 24, 1 << 31, 1 << 70, 1e-300, 0.5, 1.5, 1e30,
    1e308, float("inf"), float("nan"), "", "x", "yarn", "llama3", "longrope", [], [1.0], {},
    {"rope_type": "linear"},
)  # fmt: skip


def mutated_json(document: Any, rng: np.random.Generator) -> Any:
    """Return a document with a value replaced, removed or added."""
    result = json.loads(json.dumps(document))
    for _ in range(int(rng.integers(1, 4))):
        place = result
        while True:
            keys: list[Any] = [*place] if isinstance(place, dict) else [*range(len(place))]
            if not keys:
                break
            key = keys[int(rng.integers(0, len(keys)))]
            inside = place[key]
            if isinstance(inside, (dict, list)) and inside and rng.random() < 0.7:
                place = inside
                continue
            if rng.random() < 0.15:
                del place[key]
            else:
                place[key] = deepcopy(_VALUES[int(rng.integers(0, len(_VALUES)))])
            break
    return result


def change(directory: Path, rng: np.random.Generator) -> None:
    """Mutate one file of a checkpoint, and sometimes take one away."""
    files = sorted(path for path in directory.iterdir() if path.suffix != ".npz")
    path = files[int(rng.integers(0, len(files)))]
    if rng.random() < 0.5:
        path = directory / "config.json"
    if rng.random() < 0.02:
        path.unlink()
    elif path.suffix == ".json" and rng.random() < 0.9:
        document = mutated_json(json.loads(path.read_text(encoding="utf-8")), rng)
        path.write_text(json.dumps(document), encoding="utf-8")
    else:
        data = path.read_bytes()
        header = 8 + int.from_bytes(data[:8], "little") if path.suffix == ".safetensors" else 1
        path.write_bytes(mutate(data, rng, min(max(header, 1), len(data))))


def campaign(directory: Path, files: int, seed: int) -> Counter[str]:
    """Import mutated checkpoints and return how many were read and how many refused."""

    def prepare(number: int, rng: np.random.Generator) -> Path:
        source = directory / "checkpoint"
        shutil.copytree(FOLDER / SEEDS[number % len(SEEDS)], source)
        (source / "config_v4.json").unlink()
        change(source, rng)
        return source

    return run_campaign(files, seed, prepare, attempt_import)


if __name__ == "__main__":
    sys.exit(main(campaign, __doc__))
