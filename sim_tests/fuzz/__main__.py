# SPDX-License-Identifier: Apache-2.0
"""Coverage-guided fuzzing of a reader: ``python -m sim_tests.fuzz npy --files 20000``.

Atheris changes bytes of small valid files and keeps what reaches new lines of hwgen.  A file is
read or refused with an error of hwgen; anything else, more than 20 s or more than 4 GB end the
campaign with the file.  ``make fuzz`` runs all readers.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["hwgen"]):
    import numpy as np

    from flows.build.load import load_config
    from hwgen.core.files.arrays import read_npy
    from hwgen.errors import HwgenError
    from hwgen.models.import_model import import_model

CONFIGS = Path(__file__).parents[2] / "configs"
MOST_SECONDS, MOST_MEGABYTES, MOST_BYTES = 20, 4096, 1 << 17


def arrays() -> Iterator[bytes]:
    """Yield files of arrays."""
    for array in (np.ones((2, 3), np.int8), np.zeros((4, 1), np.float32), np.arange(6)):
        file = io.BytesIO()
        np.save(file, array)
        yield file.getvalue()


def configurations() -> Iterator[bytes]:
    """Yield shipped configurations."""
    for path in sorted(CONFIGS.glob("*.yaml")):
        yield path.read_bytes()


def decoders() -> Iterator[bytes]:
    """Yield small decoders in GGUF files."""
    from sim_tests.models.fuzz_models import seeds

    with tempfile.TemporaryDirectory() as directory:
        for _, data, _ in seeds(Path(directory)):
            if len(data) <= MOST_BYTES:
                yield data


def tensors() -> Iterator[bytes]:
    """Yield the tensors of a small checkpoint."""
    from sim_tests.models.checkpoints import FOLDER

    yield (FOLDER / "gemma3" / "model.safetensors").read_bytes()


def networks() -> Iterator[bytes]:
    """Yield small networks in ONNX files."""
    from sim_tests.onnx.fuzz_onnx import models

    for model in models():
        yield model.SerializeToString()


def light_networks() -> Iterator[bytes]:
    """Yield small networks in TensorFlow Lite files."""
    from sim_tests.tflite.lite_files import random_net

    for number in range(6):
        yield random_net(number)[0]


def read_model(path: Path) -> None:
    """Import a model."""
    with tempfile.TemporaryDirectory(dir=path.parent) as out:
        import_model(path, Path(out))


def read_checkpoint(path: Path) -> None:
    """Import a checkpoint with other tensors."""
    from sim_tests.models.checkpoints import FOLDER

    directory = path.parent / "checkpoint"
    shutil.copytree(FOLDER / "gemma3", directory)
    try:
        path.replace(directory / "model.safetensors")
        read_model(directory)
    finally:
        shutil.rmtree(directory)


READERS: dict[str, tuple[str, Callable[[Path], object], Callable[[], Iterator[bytes]]]] = {
    "npy": (".npy", read_npy, arrays),
    "yaml": (".yaml", load_config, configurations),
    "gguf": (".gguf", read_model, decoders),
    "safetensors": (".safetensors", read_checkpoint, tensors),
    "onnx": (".onnx", read_model, networks),
    "tflite": (".tflite", read_model, light_networks),
}
"""Readers by name: suffix of the file, the reader, valid files."""


def main() -> None:
    """Run a campaign; the status is that of the fuzzer, 0 if nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m sim_tests.fuzz", description=__doc__)
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    suffix, reader, valid = READERS[given.reader]
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        corpus = work / "corpus"
        corpus.mkdir()
        for number, data in enumerate(valid()):
            (corpus / str(number)).write_bytes(data)
        path = work / f"file{suffix}"

        def attempt(data: bytes) -> None:
            path.write_bytes(data)
            with suppress(HwgenError):
                reader(path)

        options = (f"-runs={given.files}", f"-seed={given.seed}", f"-max_len={MOST_BYTES}",
                   f"-timeout={MOST_SECONDS}", f"-rss_limit_mb={MOST_MEGABYTES}",
                   "-print_final_stats=1")  # fmt: skip
        atheris.Setup([sys.argv[0], *options, str(corpus)], attempt)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
