# SPDX-License-Identifier: Apache-2.0
"""Journal of the finished chunks of a sweep on disk, to continue a killed run.

A chunk is one file that appears whole or not at all; the header names the sweep it belongs to.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from cost_model.sweep.reduce import Arrays
from hwgen.errors import InputError

_HEADER = "sweep.json"


class Journal:
    """Finished chunks in a directory, used by one process at a time.

    Parameters
    ----------
    directory : Path
        Created if it does not exist.
    fingerprint : str
        What the chunks belong to.

    Raises
    ------
    InputError
        If it holds chunks of another sweep, or another process is using it.
    """

    def __init__(self, directory: Path, fingerprint: str) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(directory)
        header = directory / _HEADER
        if header.is_file():
            try:
                recorded = json.loads(header.read_text(encoding="utf-8"))["fingerprint"]
            except (ValueError, KeyError, TypeError):
                recorded = None
            if recorded != fingerprint:
                self.close()
                raise InputError(
                    f"{directory.parent} holds an unfinished sweep of another file, cost model or"
                    " version; start anew with --force, or choose another directory"
                )
        else:
            _write(header, json.dumps({"fingerprint": fingerprint}).encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let another process use the directory."""
        os.close(self._lock)

    def done(self) -> set[int]:
        """Return the chunks that are there."""
        return {
            int(path.stem.removeprefix("chunk_"))
            for path in self.directory.glob("chunk_*.npz")
            if path.stem.removeprefix("chunk_").isdigit()
        }

    def load(self, chunk: int) -> Arrays | None:
        """Return a chunk, None if it is not there or its file is damaged."""
        try:
            with np.load(self._path(chunk), allow_pickle=False) as arrays:
                return dict(arrays)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):
            return None

    def store(self, chunk: int, arrays: Arrays) -> None:
        """Add a chunk."""
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        _write(self._path(chunk), buffer.getvalue())

    def _path(self, chunk: int) -> Path:
        return self.directory / f"chunk_{chunk:08d}.npz"


def _write(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.new")
    with open(temporary, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)


def _lock(directory: Path) -> int:
    """Take the directory for this process; the lock ends with it, however it ends."""
    import fcntl

    handle = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise InputError(
            f"another hwgen sweep is writing into {directory.parent}; wait for it, or choose"
            " another directory"
        ) from None
    return handle
