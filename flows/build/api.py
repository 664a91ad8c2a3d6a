# SPDX-License-Identifier: Apache-2.0
"""The short way from a file to an accelerator: ``from hwgen import build, load``."""

from __future__ import annotations

from pathlib import Path

from flows.build.build import Build
from flows.build.load import load_design


def load(path: str | Path) -> Build:
    """Read a configuration and return its build: hardware, golden model, files and estimates.

    Parameters
    ----------
    path : str or Path
        A configuration file.

    Returns
    -------
    Build
        For the target of the file; nothing is computed before it is read.

    Raises
    ------
    ConfigError
        With every problem of the file.
    """
    return Build(load_design(path))


def build(source: str | Path | Build, directory: str | Path) -> Build:
    """Write the Verilog of a configuration and the files beside it.

    Parameters
    ----------
    source : str, Path or Build
        A configuration file, or what `load` returned.
    directory : str or Path
        Is created; files of the same names are overwritten.

    Returns
    -------
    Build
        What was written.

    Raises
    ------
    ConfigError
        With every problem of the file.
    OSError
        If the directory cannot be written.
    """
    result = source if isinstance(source, Build) else load(source)
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in result.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return result
