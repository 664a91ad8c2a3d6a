# SPDX-License-Identifier: Apache-2.0
"""Journal of a search: what was computed, a line for each, so that a killed search goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hwgen import __version__
from hwgen.errors import InputError

FILE = "journal.jsonl"


class SearchJournal:
    """Lines of a file, by key, which contains all that a result depends on.

    The first line has the version of hwgen.

    Parameters
    ----------
    path : Path
    version : str, optional

    Raises
    ------
    InputError
        If the file is of another version.
    """

    def __init__(self, path: Path, version: str = __version__) -> None:
        self.path = path
        self.entries: dict[str, Any] = {}
        self.ranking: Any = None  # the last one, if there was one yet
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        if lines and _record(lines[0]) != {"hwgen_search": version}:
            raise InputError(
                f"{path} was not written by hwgen {version}; start anew with --force, or choose"
                " another directory"
            )
        for record in map(_record, lines[1:]):
            if record is not None and "key" in record:
                self.entries[record["key"]] = record["value"]
        self._stream = path.open("a", encoding="utf-8")
        if not lines:
            self._write({"hwgen_search": version})
        elif path.read_bytes()[-1:] != b"\n":  # a line that a crash cut off
            self._stream.write("\n")

    def store(self, key: str, value: Any) -> None:
        """Add a result, JSON values."""
        self.entries[key] = value
        self._write({"key": key, "value": value})

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def _write(self, record: dict[str, Any]) -> None:
        self._stream.write(json.dumps(record) + "\n")
        self._stream.flush()


def _record(line: str) -> dict[str, Any] | None:
    try:
        result = json.loads(line)
    except ValueError:
        return None
    return result if isinstance(result, dict) else None
