# SPDX-License-Identifier: Apache-2.0
"""Import of a model from a file of any kind that is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hwgen.core.files.arrays import check_regular
from hwgen.errors import InputError
from hwgen.models.graph.description import Description

ONNX_FIELD = b"\x08"
"""First byte of ONNX files as all tools write them: their first field is a version."""


def import_model(
    source: Path,
    directory: Path,
    i2s_layout: str | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Description:
    """Write the model that a file holds into a directory.

    Parameters
    ----------
    source : Path
        A GGUF, ONNX or TensorFlow Lite file, or a directory with `config.json` and safetensors.
    directory : Path
        Where the model's files are written; empty.
    i2s_layout : str, optional
        See `hwgen.models.files.gguf_blocks.I2_S_LAYOUTS`.
    sizes : mapping of int, optional
        Lengths that an ONNX file leaves open, by name.

    Returns
    -------
    Description

    Raises
    ------
    InputError
        If the file cannot be read, or holds what is not supported.
    """
    if source.is_dir():
        _only("GGUF files with tensors of type I2_S", "--i2s-layout", i2s_layout, source)
        _only("ONNX files", "--size", sizes, source)
        from hwgen.models.files.import_safetensors import import_safetensors

        return import_safetensors(source, directory)
    check_regular(source, "models")
    with source.open("rb") as file:
        magic = file.read(8)
    if magic[4:] == b"TFL3":
        _only("GGUF files with tensors of type I2_S", "--i2s-layout", i2s_layout, source)
        _only("ONNX files", "--size", sizes, source)
        from hwgen.models.tflite.import_tflite import import_tflite

        return import_tflite(source, directory)
    magic = magic[:4]
    if magic == b"GGUF":
        _only("ONNX files", "--size", sizes, source)
        from hwgen.models.files.import_gguf import import_gguf

        return import_gguf(source, directory, i2s_layout)
    if source.suffix == ".onnx" or magic[:1] == ONNX_FIELD:
        _only("GGUF files with tensors of type I2_S", "--i2s-layout", i2s_layout, source)
        from hwgen.models.onnx.import_onnx import import_onnx

        return import_onnx(source, directory, sizes)
    raise InputError(
        f"{source} is no model that is read: it begins with {magic!r}, GGUF files begin with"
        " b'GGUF', those of ONNX are called .onnx, and those of TensorFlow Lite have b'TFL3' at"
        " byte 4; of safetensors give the directory with config.json"
    )


def _only(what: str, option: str, value: object, source: Path) -> None:
    """Refuse an option that belongs to files of another kind."""
    if value:
        raise InputError(f"{source}: {option} belongs to {what}; leave it out here")
