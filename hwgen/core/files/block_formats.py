# SPDX-License-Identifier: Apache-2.0
"""Block formats by name, or from a user's file."""

from __future__ import annotations

from pathlib import Path

from hwgen.config.validate import load_model
from hwgen.formats.block import BlockFormat
from hwgen.formats.block.file import FormatFile
from hwgen.formats.registry import block_format


def read_format(path: Path) -> BlockFormat:
    """Return the block format of a file.

    Raises
    ------
    ConfigError
        With every problem of the file.
    """
    return load_model(path, FormatFile)[0].format()


def block_format_of(name: str) -> BlockFormat:
    """Return a block format by its name, or from a file: what ends in ``.yaml`` or ``.yml``.

    Raises
    ------
    InputError
        If there is no such format, or the file cannot be used.
    """
    return read_format(Path(name)) if name.endswith((".yaml", ".yml")) else block_format(name)
