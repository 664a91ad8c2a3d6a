# SPDX-License-Identifier: Apache-2.0
"""Import of a model from a file of any kind that is read."""

from __future__ import annotations

from pathlib import Path

from hwgen.arrays import check_regular
from hwgen.errors import InputError
from hwgen.models.description import Description


def import_model(source: Path, directory: Path, i2s_layout: str | None = None) -> Description:
    """Write the model that a file holds into a directory.

    Parameters
    ----------
    source : Path
        A GGUF file, or a directory with `config.json` and safetensors.
    directory : Path
        Where the model's files are written; empty.
    i2s_layout : str, optional
        See `hwgen.models.gguf_blocks.I2_S_LAYOUTS`.

    Returns
    -------
    Description

    Raises
    ------
    InputError
        If the file cannot be read, or holds what is not supported.
    """
    if source.is_dir():
        if i2s_layout is not None:
            raise InputError(
                f"{source}: --i2s-layout belongs to GGUF files with tensors of type I2_S; leave it"
                " out for safetensors"
            )
        from hwgen.models.import_safetensors import import_safetensors

        return import_safetensors(source, directory)
    check_regular(source, "models")
    with source.open("rb") as file:
        magic = file.read(4)
    if magic == b"GGUF":
        from hwgen.models.import_gguf import import_gguf

        return import_gguf(source, directory, i2s_layout)
    raise InputError(
        f"{source} is no model that is read: it begins with {magic!r}, and GGUF files begin with"
        " b'GGUF'; of safetensors give the directory with config.json"
    )
