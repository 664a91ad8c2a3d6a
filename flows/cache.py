# SPDX-License-Identifier: Apache-2.0
"""Results of long tool runs, kept on disk.

An entry is one compressed archive: a JSON document and the files that belong to it.  It appears by
one rename, so that a run that is interrupted leaves none, and runs at the same time do not disturb
each other.  An entry that cannot be read counts as absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.verilator import cache_directory

_DOCUMENT = "result.json"
_DAMAGED = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, NotImplementedError)


def digest(parts: Any) -> str:
    """Return a hexadecimal SHA-256 over plain JSON values."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Entry:
    """One entry, which need not be there yet.

    Parameters
    ----------
    kind : str
        What ran, e.g. ``synth``; a folder of the cache.
    key : str
        `digest` of everything that shapes the result.
    """

    kind: str
    key: str

    @property
    def path(self) -> Path:
        """The archive."""
        return cache_directory() / self.kind / f"{self.key[:32]}.zip"

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
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=".", suffix=".new")
            try:
                with (
                    os.fdopen(handle, "wb") as file,
                    zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
                ):
                    archive.writestr(_DOCUMENT, json.dumps(document))
                    for entry, content in files.items():
                        archive.writestr(entry, content)
                os.replace(name, self.path)
            finally:
                Path(name).unlink(missing_ok=True)


def collect(directory: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Return those of the named files that are in a directory: name to content."""
    return {name: (directory / name).read_bytes() for name in names if (directory / name).is_file()}
