# SPDX-License-Identifier: Apache-2.0
"""Directories of compiled files that are kept: each whole and undamaged, or not there.

A directory appears by one rename and lists its files with sizes and digests (its *seal*), which are
looked at before each use: a file that was cut off or is missing makes it absent, and it is made
again in its place.  Work that is under way is never pruned; work whose process is gone is.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from flows.tools.cache_dir import note
from flows.tools.process import scratch

_SEAL = "seal.json"
_WORK = ".new-"
_LOCK = ".lock"
_YOUNG_S, _OLD_S = 60.0, 86400.0


@dataclass(frozen=True)
class Store:
    """A folder of kept directories.

    Parameters
    ----------
    base : Path
        The folder; made when something is kept.
    most : int
        Directories that it may hold; beyond, those that were not used for longest go.
    """

    base: Path
    most: int = 150

    def find(self, name: str) -> Path | None:
        """Return a kept directory if it is there and undamaged; says so if it is damaged."""
        path = self.base / name
        if not path.is_dir():
            return None
        if _is_sound(path):
            with suppress(OSError):
                os.utime(path)
            return path
        if (path / _SEAL).exists():  # else it is of an earlier version
            note(f"what is kept in {path} is damaged; it is made again")
        return None

    @contextmanager
    def workplace(self) -> Iterator[Path]:
        """Give a directory to make something in, for `keep`; it is removed at the end."""
        self.base.mkdir(parents=True, exist_ok=True)
        self.prune()
        with scratch(_WORK, self.base) as work, (work / _LOCK).open("w") as lock:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield work

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let one process at a time make something that others would make as well."""
        self.base.mkdir(parents=True, exist_ok=True)
        with (self.base / _LOCK).open("w") as lock:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def keep(self, work: Path, name: str, files: Iterable[str]) -> Path:
        """Keep a directory of `workplace` under a name, and return where.

        Parameters
        ----------
        work : Path
        name : str
        files : iterable of str
            Those in `work` that must be there, unchanged, for it to be of use.
        """
        (work / _LOCK).unlink(missing_ok=True)
        seal = {file: _digest(work / file) for file in files}
        (work / _SEAL).write_text(json.dumps(seal), encoding="utf-8")
        path = self.base / name
        for _ in range(3):
            with suppress(OSError):
                work.rename(path)
                return path
            # Somebody else was first, with the same result; or what is there is damaged.
            if _is_sound(path):
                return path
            with suppress(OSError), scratch(_WORK, self.base) as aside:
                path.rename(aside / name)
        work.rename(path)
        return path

    def prune(self) -> None:
        """Drop what was not used for longest, and what killed processes have left."""
        kept = []
        for path in self.base.iterdir():
            with suppress(OSError):  # gone meanwhile
                used = path.stat().st_mtime
                if not path.name.startswith(_WORK):
                    kept.append((used, path))
                elif not _is_at_work(path, time.time() - used):
                    shutil.rmtree(path, ignore_errors=True)
        for _, path in sorted(kept)[: -self.most]:
            shutil.rmtree(path, ignore_errors=True)


def _digest(path: Path) -> list[int | str]:
    """Return size and SHA-256 of a file."""
    seen = path.stat()
    return [seen.st_size, _sha256(path, seen.st_size, seen.st_mtime_ns)]


@lru_cache(4096)
def _sha256(path: Path, size: int, changed: int) -> str:
    """Return the SHA-256 of a file, read once in a process as long as it looks the same."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_sound(path: Path) -> bool:
    with suppress(OSError, ValueError, AttributeError):
        seal = json.loads((path / _SEAL).read_text(encoding="utf-8"))
        return bool(seal) and all(_digest(path / name) == found for name, found in seal.items())
    return False


def _is_at_work(path: Path, age_s: float) -> bool:
    """Return whether a process may be making something in a directory: whether it is locked."""
    if age_s < _YOUNG_S:  # it may be about to be locked
        return True
    try:
        with (path / _LOCK).open("r") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # it has no lock, or cannot be locked
        return age_s < _OLD_S
    return False
