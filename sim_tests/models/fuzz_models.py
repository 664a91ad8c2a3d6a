# SPDX-License-Identifier: Apache-2.0
"""Fuzzing of the import: mutated files are read or refused, quickly, and in little memory.

``python -m sim_tests.models.fuzz_models --files 5000`` runs a campaign; the tests run a part of it.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from hwgen.errors import InputError
from hwgen.models.import_model import import_model
from sim_tests.models.checkpoints import FOLDER
from sim_tests.models.gguf_checkpoints import write_checkpoint
from sim_tests.models.model_files import Ggml, Small, write_gguf

Campaign = Callable[[Path, int, int], Counter[str]]
"""Of a directory, a number of files and a seed: how many files ended in which way."""

MOST_SECONDS = 5.0
MOST_MEMORY = 256 << 20
_EXTREMES = (0, 1, 2, 7, 255, 1 << 15, 1 << 31, (1 << 32) - 1, 1 << 40, 1 << 60, (1 << 64) - 1)


def mutate(data: bytes, rng: np.random.Generator, header: int) -> bytes:
    """Return a file with a few things changed, most of them in its first `header` bytes."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(0, header if rng.random() < 0.8 else len(out)))
        match int(rng.integers(0, 6)):
            case 0:
                out[at : at + 1] = bytes([int(rng.integers(0, 256))])
            case 1:
                width = int(rng.choice([1, 4, 8]))
                value = _EXTREMES[int(rng.integers(0, len(_EXTREMES)))]
                out[at : at + width] = struct.pack("<Q", value)[:width]
            case 2:
                del out[at : at + int(rng.integers(1, 64))]
            case 3:
                out[at:at] = bytes(rng.integers(0, 256, int(rng.integers(1, 32)), np.uint8))
            case 4:
                out = out[:at]
            case 5:
                other = int(rng.integers(0, header))
                out[at : at + 16] = out[other : other + 16]
        if len(out) < 2:
            break
        header = min(header, len(out))
    return bytes(out)


def seeds(directory: Path) -> list[tuple[str, bytes, int]]:
    """Return files to mutate: name, contents, and where their data begin."""
    small = replace(Small(), layers=1, width=32, hidden=32, heads=2)
    wide = replace(small, width=256, hidden=256, architecture="bitnet", sub_norms=True)
    result = []
    for number, one in enumerate(
        (small, replace(wide, weight_type=Ggml.TQ2_0, embedding=Ggml.BF16))
    ):
        path = directory / f"seed{number}.gguf"
        write_gguf(path, one)
        data = path.read_bytes()
        result.append((path.name, data, data.rindex(b"blk.") + 64))
    for name in ("gemma3", "phi4", "llama_yarn"):
        path = directory / f"{name}.gguf"
        write_checkpoint(FOLDER / name, path)
        data = path.read_bytes()
        result.append((path.name, data, data.rindex(b"blk.") + 64))
    return result


def run_campaign(
    files: int,
    seed: int,
    prepare: Callable[[int, np.random.Generator], Path],
    attempt: Callable[[Path], str],
    most_memory: int = MOST_MEMORY,
) -> Counter[str]:
    """Return the numbers of mutated files by their outcomes.

    Anything but an end that `attempt` returns ends the campaign, as does a file that takes too
    long or too much memory.

    Parameters
    ----------
    files, seed : int
    prepare : callable
        Writes the file, or the directory, of a number, and returns it.
    attempt : callable
        Reads it and returns how that ended.
    most_memory : int
        Bytes by which the process may grow.
    """
    rng = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(files):
        path = prepare(number, rng)
        start = time.process_time()
        try:
            counts[attempt(path)] += 1
        except Exception as error:
            raise AssertionError(f"file {number} of seed {seed}: {error!r}") from error
        assert time.process_time() - start < MOST_SECONDS, f"file {number} of seed {seed}"
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) * 1024 < most_memory, f"{after - before} KiB more"
    return counts


def attempt_import(path: Path) -> str:
    """Import a file, or a directory, and return how that ended."""
    with tempfile.TemporaryDirectory(dir=path.parent) as out:
        try:
            import_model(path, Path(out))
        except InputError:
            return "refused"
        return "read"


def campaign(directory: Path, files: int, seed: int) -> Counter[str]:
    """Import mutated files and return how many were read and how many refused."""
    originals = seeds(directory)

    def prepare(number: int, rng: np.random.Generator) -> Path:
        name, data, header = originals[number % len(originals)]
        path = directory / name
        path.write_bytes(mutate(data, rng, header))
        return path

    return run_campaign(files, seed, prepare, attempt_import)


def main(campaign: Campaign, description: str | None) -> int:
    """Run a campaign and print its counts."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        counts = campaign(Path(directory), given.files, given.seed)
    text = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    sys.stdout.write(f"{text} in {time.monotonic() - start:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(campaign, __doc__))
