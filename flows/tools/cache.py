# SPDX-License-Identifier: Apache-2.0
"""The one cache: everything that can be computed again, by a digest of what it depends on.

It holds JSON values (`Document`), JSON values with files (`Archive`) and directories of compiled
files (`Directories`).  Every entry appears by one rename: an interrupted run leaves none, and
processes do not disturb each other.  Damaged and outdated entries are rebuilt, with one note.
Without a writable cache, values are computed each time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from flows.tools.guard import scratch
from hwgen.errors import InputError

T = TypeVar("T")

VARIABLE = "HWGEN_CACHE_DIR"
"""The environment variable that names another directory."""

_DOCUMENT = "result.json"  # in an archive
_UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, NotImplementedError)
_OUTDATED = (KeyError, TypeError, ValueError, AttributeError)
_NO_LOCKS = (OSError, NotImplementedError)  # of a file system

_SEAL = "seal.json"
_WORK = ".new-"
_LOCK = ".lock"
_YOUNG_S, _OLD_S = 60.0, 86400.0


# -- where it is -------------------------------------------------------------------------------


@cache
def note(text: str) -> None:
    """Print a note on stderr, once for each text."""
    sys.stderr.write(f"note: {text}\n")
    sys.stderr.flush()


def cache_directory() -> Path:
    """Return the directory of the cache; create it if it is missing.

    It is ``HWGEN_CACHE_DIR``, else ``hwgen`` in the user's cache directory.  If that cannot be
    written, a directory of the user among the temporary files serves, with a note.

    Raises
    ------
    InputError
        If neither can be written.
    """
    chosen = os.environ.get(VARIABLE)
    return _cache_directory(chosen or str(user_cache() / "hwgen"), tempfile.gettempdir())


def user_cache() -> Path:
    """Return the user's cache directory, which need not exist."""
    return user_cache_path()


@cache
def _cache_directory(wanted: str, temporary: str) -> Path:
    path = Path(wanted).expanduser()
    problem = "it is not an absolute path"  # a cache among a project's files would be a surprise
    if path.is_absolute() or os.environ.get(VARIABLE):
        path = path.resolve()
        problem = write_error(path)
    if not problem:
        return path
    other = Path(temporary, f"hwgen-{os.getuid()}")
    try:
        other.mkdir(mode=0o700, exist_ok=True)
        # Compiled programs are run from here: nobody else may have made it.
        if other.lstat().st_uid == os.getuid() and not other.is_symlink():
            note(f"the cache {wanted} cannot be used ({problem}); {other} is used instead")
            return other
    except OSError:
        pass
    raise InputError(
        f"neither the cache {wanted} ({problem}) nor {other} can be written; set {VARIABLE}"
    )


def write_error(directory: Path) -> str:
    """Create a directory and write into it; return the error, empty if there is none."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # Permissions do not tell everything, least of all for root.
        with tempfile.TemporaryFile(dir=directory):
            return ""
    except OSError as error:
        return error.strerror or str(error)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time, with this lock file, compute what others would compute as well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    with suppress(*_NO_LOCKS):
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


# -- digests -----------------------------------------------------------------------------------


def text_digest(text: str, length: int = 24) -> str:
    """Return the first hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def digest(parts: Any) -> str:
    """Return the hexadecimal SHA-256 of JSON values."""
    return text_digest(json.dumps(parts, sort_keys=True, separators=(",", ":")), 64)


# -- values ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Document:
    """A JSON value, which need not exist yet.

    Parameters
    ----------
    folder : str
        A folder of the cache, e.g. ``mapped``.
    key : str
        Name of the file: a digest of everything that the value depends on.
    """

    folder: str
    key: str

    @property
    def path(self) -> Path:
        """The file."""
        return cache_directory() / self.folder / f"{self.key}.json"

    def read(self) -> Any:
        """Return the value, None if there is none."""
        with suppress(InputError, FileNotFoundError, NotADirectoryError):
            path = self.path
            try:
                return json.loads(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                return None
            except _UNREADABLE:
                _note_damage(path)
        return None

    def write(self, value: Any) -> None:
        """Store the value; a cache that cannot be written is no error."""
        with suppress(InputError):
            _write_file(self.path, lambda file: file.write(json.dumps(value).encode()))

    def load(self, decode: Callable[[Any], T]) -> T | None:
        """Return the decoded value, None if there is none that this version can decode."""
        value = self.read()
        if value is None:
            return None
        try:
            return decode(value)
        except _OUTDATED:
            _note_damage(self.path)
            return None

    def recall(
        self,
        compute: Callable[[], T],
        encode: Callable[[T], Any] = lambda value: value,
        decode: Callable[[Any], T] = lambda value: value,
    ) -> T:
        """Return the stored value, or compute and store it.

        Parameters
        ----------
        compute : callable
        encode, decode : callable
            Convert the value to JSON and back.
        """
        stored = self.load(decode)
        if stored is not None:
            return stored
        computed = compute()
        self.write(encode(computed))
        return computed


@dataclass(frozen=True)
class Archive:
    """A JSON value with files, which need not exist yet.

    Parameters
    ----------
    folder : str
        A folder of the cache, e.g. ``synth``.
    key : str
        `digest` of everything that it depends on.
    """

    folder: str
    key: str

    @classmethod
    def list(cls, folder: str) -> list[Archive]:
        """Return the existing archives, the latest last; their keys are as long as file names."""
        entries = []
        with suppress(InputError):
            for path in (cache_directory() / folder).glob("*.zip"):
                with suppress(OSError):  # it was removed meanwhile
                    entries.append((path.stat().st_mtime_ns, path.stem))
        return [cls(folder, key) for _, key in sorted(entries)]

    @property
    def name(self) -> str:
        """The part of the key in the name of the file."""
        return self.key[:32]

    @property
    def path(self) -> Path:
        """The file."""
        return cache_directory() / self.folder / f"{self.name}.zip"

    def read(self) -> Any:
        """Return the JSON value, None if there is none."""
        with suppress(InputError, *_UNREADABLE), zipfile.ZipFile(self.path) as archive:
            return json.loads(archive.read(_DOCUMENT))
        return None

    def files(self) -> dict[str, bytes]:
        """Return the files: name to content; empty if there is no archive."""
        with suppress(InputError, *_UNREADABLE), zipfile.ZipFile(self.path) as archive:
            return {name: archive.read(name) for name in archive.namelist() if name != _DOCUMENT}
        return {}

    def write(self, value: Any, files: Mapping[str, bytes]) -> None:
        """Store value and files; a cache that cannot be written is no error."""

        def fill(file: BinaryIO) -> None:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(_DOCUMENT, json.dumps(value))
                for name, content in files.items():
                    archive.writestr(name, content)

        with suppress(InputError):
            _write_file(self.path, fill)


def _note_damage(path: Path) -> None:
    folder = path.parent
    note(f"entries of the cache {folder} are damaged or outdated; they are rebuilt")


def _write_file(path: Path, fill: Callable[[BinaryIO], Any]) -> None:
    """Create a file at once, from what `fill` writes."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".new")
        try:
            with os.fdopen(handle, "wb") as file:
                fill(file)
            os.replace(name, path)
        finally:
            Path(name).unlink(missing_ok=True)


def read_files(directory: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Return the named files that exist in a directory: name to content."""
    return {name: (directory / name).read_bytes() for name in names if (directory / name).is_file()}


# -- directories -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Directories:
    """A folder of directories of compiled files, each complete and undamaged or absent.

    A directory lists the files that it is used for with sizes and digests (its *seal*), which are
    checked before each use: a file that was truncated or is missing makes it absent.

    Parameters
    ----------
    folder : str
        A folder of the cache, e.g. ``sim``.
    most : int
        Number of directories; beyond it the least recently used are removed.
    """

    folder: str
    most: int = 150

    @property
    def base(self) -> Path:
        """The folder, which need not exist."""
        return cache_directory() / self.folder

    def find(self, name: str) -> Path | None:
        """Return a directory if it exists undamaged; print a note if it is damaged."""
        path = self.base / name
        if not path.is_dir():
            return None
        if _is_sound(path):
            with suppress(OSError):
                os.utime(path)
            return path
        if (path / _SEAL).exists():  # else an earlier version made it
            note(f"the cache entry {path} is damaged; it is rebuilt")
        return None

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """Create a directory to compile in, for `add`; remove it at the end."""
        self.base.mkdir(parents=True, exist_ok=True)
        self.prune()
        with scratch(_WORK, self.base) as work, locked(work / _LOCK):
            yield work

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Let one process at a time compile what others would compile as well."""
        with locked(self.base / _LOCK):
            yield

    def add(self, work: Path, name: str, files: Iterable[str]) -> Path:
        """Add a workspace under a name, and return its path.

        Parameters
        ----------
        work : Path
        name : str
        files : iterable of str
            Files in `work` that must exist, unchanged, for it to be of use.
        """
        (work / _LOCK).unlink(missing_ok=True)
        seal = {file: _fingerprint(work / file) for file in files}
        (work / _SEAL).write_text(json.dumps(seal), encoding="utf-8")
        path = self.base / name
        for _ in range(3):
            with suppress(OSError):
                work.rename(path)
                return path
            # Another process was first, with the same result; or the existing one is damaged.
            if _is_sound(path):
                return path
            with suppress(OSError), scratch(_WORK, self.base) as aside:
                path.rename(aside / name)
        work.rename(path)
        return path

    def prune(self) -> None:
        """Remove the least recently used directories, and workspaces of killed processes."""
        entries = []
        for path in self.base.iterdir():
            with suppress(OSError):  # removed meanwhile
                used = path.stat().st_mtime
                if not path.name.startswith(_WORK):
                    entries.append((used, path))
                elif _is_abandoned(path, time.time() - used):
                    shutil.rmtree(path, ignore_errors=True)
        for _, path in sorted(entries)[: -self.most]:
            shutil.rmtree(path, ignore_errors=True)


def _fingerprint(path: Path) -> list[int | str]:
    """Return size and SHA-256 of a file."""
    status = path.stat()
    return [status.st_size, _sha256(path, status.st_size, status.st_mtime_ns)]


@lru_cache(4096)
def _sha256(path: Path, size: int, changed: int) -> str:
    """Return the SHA-256 of a file, read once in a process while it looks the same."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_sound(path: Path) -> bool:
    with suppress(OSError, ValueError, AttributeError):
        seal = json.loads((path / _SEAL).read_text(encoding="utf-8"))
        return bool(seal) and all(_fingerprint(path / name) == seen for name, seen in seal.items())
    return False


def _is_abandoned(path: Path, age_s: float) -> bool:
    """Return whether no process works in a workspace: whether it is unlocked, or old."""
    if age_s < _YOUNG_S:  # it may be about to be locked
        return False
    lock = path / _LOCK
    if not lock.exists():
        return age_s >= _OLD_S
    try:
        with FileLock(lock, timeout=0):
            return True
    except Timeout:
        return False
    except _NO_LOCKS:
        return age_s >= _OLD_S
