# SPDX-License-Identifier: Apache-2.0
"""Fuzzing of TensorFlow Lite files: mutated ones are read or refused, and what is read is run.

``python -m sim_tests.tflite.fuzz_tflite --files 5000`` runs a campaign; the tests run a part of it.
"""

from __future__ import annotations

import struct
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from sim_tests.models.fuzz_models import main, mutate, run_campaign
from sim_tests.onnx.fuzz_onnx import MOST_MEMORY, attempt
from sim_tests.tflite.lite_files import random_net

_WORDS = (0, 1, 2, 4, 255, 1 << 15, 1 << 31, (1 << 31) - 1, (1 << 32) - 1, 0x7FC00000)


def change(data: bytes, rng: np.random.Generator) -> bytes:
    """Change words of a file, most of which are offsets, lengths and numbers of tensors."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at = 4 * int(rng.integers(0, len(out) // 4))
        old = struct.unpack_from("<I", out, at)[0]
        value = int(rng.choice(_WORDS)) if rng.random() < 0.5 else (
            old + int(rng.integers(-4, 5))) % (1 << 32)  # fmt: skip
        struct.pack_into("<I", out, at, value)
    return bytes(out)


def campaign(directory: Path, files: int, seed: int) -> Counter[str]:
    """Import mutated files, run what is read, and return how many were read and refused."""
    originals = [random_net(number)[0] for number in range(12)]

    def prepare(number: int, rng: np.random.Generator) -> Path:
        data = originals[number % len(originals)]
        path = directory / "mutated.tflite"
        path.write_bytes(mutate(data, rng, len(data)) if rng.random() < 0.3 else change(data, rng))
        return path

    return run_campaign(files, seed, prepare, attempt, MOST_MEMORY)


if __name__ == "__main__":
    sys.exit(main(campaign, __doc__))
