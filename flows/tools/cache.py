# SPDX-License-Identifier: Apache-2.0
"""Results of long tool runs, kept on disk.

What is kept is a JSON document (`Document`), or one with files that belong to it in a compressed
archive (`Entry`).  Either appears by one rename, so that a run that is interrupted leaves none, and
runs at the same time do not disturb each other.  What cannot be read counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from flows.tools.cache_dir import cache_directory

_DOCUMENT = "result.json"
_DAMAGED = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, NotImplementedError)


def hashed(text: str, length: int = 24) -> str:
    """Return a name for a text: the first hexadecimal digits of its SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def digest(parts: Any) -> str:
    """Return a hexadecimal SHA-256 over plain JSON values."""
    return hashed(json.dumps(parts, sort_keys=True, separators=(",", ":")), 64)


@dataclass(frozen=True)
class Document:
    """A JSON document, which need not be there yet.

    Parameters
    ----------
    kind : str
        What it is of, e.g. ``mapped``; a folder of the cache.
    key : str
        Name of the file: a hash of everything that shapes the document.
    """

    kind: str
    key: str

    @property
    def path(self) -> Path:
        """The file."""
        return cache_directory() / self.kind / f"{self.key}.json"

    def read(self) -> Any:
        """Return the document, or None if there is none."""
        with suppress(*_DAMAGED):
            return json.loads(self.path.read_text(encoding="utf-8"))
        return None

    def write(self, document: Any) -> None:
        """Make it; a cache that cannot be written is no error."""
        _place(self.path, lambda file: file.write(json.dumps(document).encode()))


@dataclass(frozen=True)
class Entry:
    """A JSON document with files, which need not be there yet.

    Parameters
    ----------
    kind : str
        What ran, e.g. ``synth``; a folder of the cache.
    key : str
        `digest` of everything that shapes the result.
    """

    kind: str
    key: str

    @classmethod
    def all(cls, kind: str) -> list[Entry]:
        """Return those that are there, the latest last; their keys are as long as file names."""
        entries = []
        for path in (cache_directory() / kind).glob("*.zip"):
            with suppress(OSError):  # it was removed meanwhile
                entries.append((path.stat().st_mtime_ns, path.stem))
        return [cls(kind, key) for _, key in sorted(entries)]

    @property
    def name(self) -> str:
        """What of the key is in the name of the archive."""
        return self.key[:32]

    @property
    def path(self) -> Path:
        """The archive."""
        return cache_directory() / self.kind / f"{self.name}.zip"

    def read(self) -> Any:
        """Return the document, or None if there is no entry."""
        with suppress(*_DAMAGED), zipfile.ZipFile(self.path) as archive:
            return json.loads(archive.read(_DOCUMENT))
        return None

    def files(self) -> dict[str, bytes]:
        """Return the files: name to content; empty if there is no entry."""
        with suppress(*_DAMAGED), zipfile.ZipFile(self.path) as archive:
            return {name: archive.read(name) for name in archive.namelist() if name != _DOCUMENT}
        return {}

    def write(self, document: Any, files: Mapping[str, bytes]) -> None:
        """Make the entry; a cache that cannot be written is no error."""

        def fill(file: BinaryIO) -> None:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(_DOCUMENT, json.dumps(document))
                for name, content in files.items():
                    archive.writestr(name, content)

        _place(self.path, fill)


def _place(path: Path, fill: Callable[[BinaryIO], Any]) -> None:
    """Make a file at once, of what `fill` writes."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".new")
        try:
            with os.fdopen(handle, "wb") as file:
                fill(file)
            os.replace(name, path)
        finally:
            Path(name).unlink(missing_ok=True)


def collect(directory: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Return those of the named files that are in a directory: name to content."""
    return {name: (directory / name).read_bytes() for name in names if (directory / name).is_file()}
