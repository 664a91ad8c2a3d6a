# SPDX-License-Identifier: Apache-2.0
"""The demonstration of ONNX: a network that tells the type of a file, on simulated hardware.

The network is Magika's (Apache-2.0), from the Python package ``magika``. ``features`` makes its
inputs of files, as that package does: up to 1024 bytes from the beginning and from the end of a
file, without white space around them. ``labels`` names the types by what hardware computed, beside
those of the network in floats by ONNX Runtime.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from flows.demonstration.program import run_program
from hwgen.core.files.arrays import read_npy
from hwgen.errors import CheckFailed, InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

SETTINGS, NETWORK = "config.min.json", "model.onnx"
"""Files of the model in the package."""


def features(path: Path, settings: dict[str, Any]) -> NDArray[np.int32]:
    """Return the network's input of a file: bytes, and a token for those that are missing."""
    begin, end, block = (settings[key] for key in ("beg_size", "end_size", "block_size"))
    data = path.read_bytes()
    first, last = data[:block].lstrip(), data[-block:].rstrip()
    if len(data) <= block:
        first = last = data.strip()
    result = np.full(begin + end, settings["padding_token"], np.int32)
    first, last = first[:begin], last[-end:]
    result[: len(first)] = np.frombuffer(first, np.uint8)
    result[begin + end - len(last) :] = np.frombuffer(last, np.uint8)
    return result


def read_settings(model: Path) -> dict[str, Any]:
    """Return the settings of the model in a directory.

    Raises
    ------
    InputError
        If there are none.
    """
    path = model / SETTINGS
    if not path.is_file():
        raise InputError(f"{path} is not there; `make demo-onnx` fetches the package that has it")
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


@click.group()
def command() -> None:
    """Tell the types of files by a network on simulated hardware."""


@command.command("features")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--model", required=True, type=click.Path(path_type=Path), help="Magika's model.")
@click.option("--output", required=True, type=click.Path(path_type=Path), help="Array to write.")
def features_command(files: tuple[Path, ...], model: Path, output: Path) -> None:
    """Write the inputs of FILES, a row for each."""
    settings = read_settings(model)
    np.save(output, np.stack([features(path, settings) for path in files]))


@command.command("labels")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--model", required=True, type=click.Path(path_type=Path), help="Magika's model.")
@click.option("--inputs", required=True, type=click.Path(path_type=Path), help="Of `features`.")
@click.option("--results", required=True, type=click.Path(path_type=Path), help="Of hardware.")
def labels_command(files: tuple[Path, ...], model: Path, inputs: Path, results: Path) -> None:
    """Name the types of FILES by results, and by ONNX Runtime.

    Raises
    ------
    CheckFailed
        If a type is another one.
    """
    import onnxruntime

    names = read_settings(model)["target_labels_space"]
    result = read_npy(results)
    session = onnxruntime.InferenceSession(str(model / NETWORK))
    expected = session.run(None, {session.get_inputs()[0].name: read_npy(inputs)})[0]
    click.echo(f"{'file':32} {'hardware, int8':>24} {'ONNX Runtime, floats':>26}")
    for path, mine, theirs in zip(files, result, expected, strict=True):
        one, other = int(mine.argmax()), int(theirs.argmax())
        click.echo(
            f"{path.as_posix():32} {names[one]:>16} {100 * mine[one]:5.2f} %"
            f" {names[other]:>18} {100 * theirs[other]:5.2f} %"
        )
    if not np.array_equal(result.argmax(1), expected.argmax(1)):
        raise CheckFailed("the hardware and ONNX Runtime do not agree")


if __name__ == "__main__":
    sys.exit(run_program(command))
