# SPDX-License-Identifier: Apache-2.0
"""Output that appears whole or not at all, at places that are looked at before the work."""

from __future__ import annotations

import fcntl
import io
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwgen.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MARKER = ".hwgen"
"""File in an output directory that lists the entries hwgen wrote and may replace."""

_STAGING = ".hwgen-"  # begins the names of directories that outputs are made in


def check_file(path: Path, *, force: bool = False) -> None:
    """Refuse a place where `write_file` would fail: before the work, not after it.

    Raises
    ------
    InputError
        If the file exists and `force` is false, or it is a directory, or its directory does not
        exist or cannot be written into.
    """
    if path.is_dir():
        raise InputError(f"{path} is a directory; give the name of a file")
    if os.path.lexists(path) and not force:
        raise InputError(f"{path} exists; choose another name, or overwrite it with --force")
    if not path.parent.exists():
        raise InputError(f"{path.parent} does not exist; create the directory first")
    _check_writable(path.parent)


def check_directory(path: Path) -> None:
    """Refuse a place where no directory can be made, or that cannot be written into.

    Raises
    ------
    InputError
        If so.
    """
    if os.path.lexists(path) and not path.is_dir():
        raise InputError(f"{path} is not a directory; choose another name for the output directory")
    _check_writable(next(place for place in (path, *path.absolute().parents) if place.exists()))


def _check_writable(directory: Path) -> None:
    try:
        # Tried, because permissions do not tell everything, least of all for root.
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise InputError(
            f"{directory} cannot be written into ({error.strerror}); choose another place for the"
            " output"
        ) from None


def write_file(path: Path, content: str | bytes, *, force: bool = False) -> None:
    """Write one file so that it appears whole or not at all.

    Parameters
    ----------
    path : Path
        The file; its directory must exist.
    content : str or bytes
        Text is written as UTF-8.
    force : bool
        Whether an existing file is replaced.

    Raises
    ------
    InputError
        As `check_file`.
    """
    check_file(path, force=force)
    data = content.encode() if isinstance(content, str) else content
    temporary = path.parent / f".{path.name[:64]}.{secrets.token_hex(4)}"
    try:
        temporary.write_bytes(data)
        if force:
            temporary.replace(path)
        else:
            try:
                # A link, unlike a rename, fails if somebody else has just made the file.
                os.link(temporary, path)
            except FileExistsError:
                raise InputError(f"{path} exists; choose another name") from None
            except OSError:  # a file system without hard links
                temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def npy_bytes(array: NDArray[Any]) -> bytes:
    """Return an array as the contents of a ``.npy`` file."""
    import numpy as np

    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@contextmanager
def atomic_directory(path: Path, *, force: bool = False) -> Iterator[Path]:
    """Give a temporary directory to write into; it becomes `path` when the block ends.

    A new directory appears by one rename.  In an existing output directory the entries that
    hwgen wrote before are exchanged for the new ones, all or none, and other files stay.  If the
    block raises, nothing is left and `path` is as it was.  Of several that write into one directory
    at the same time the last one's output remains, whole.

    Parameters
    ----------
    path : Path
        The output directory; missing parents are created.
    force : bool
        Whether a directory that does not hold earlier output is accepted, and files that hwgen
        did not write are replaced where new ones have their names.

    Yields
    ------
    Path
        The directory to write into, empty, on the same file system as `path`.

    Raises
    ------
    InputError
        If `path` is not a directory, or holds something that is not to be overwritten.
    """
    check_directory(path)
    fresh = not path.exists()
    if not fresh:
        _owned(path, force)
    made = _make_parents(path if fresh else path / "_")
    token = f"{_STAGING}{secrets.token_hex(4)}"
    staging = (path.parent if fresh else path) / token
    backup = (path.parent if fresh else path) / f"{token}-old"
    try:
        staging.mkdir()
        yield staging
        names = sorted(entry.name for entry in staging.iterdir())
        marker = ["# Written by hwgen, which may replace these files:", *names]
        (staging / MARKER).write_text("\n".join(marker) + "\n", encoding="utf-8")
        with _locked(path.parent):
            if path.exists():  # it was there, or somebody else has made it meanwhile
                _exchange(path, staging, backup, [*names, MARKER], _owned(path, force), force)
            else:
                staging.rename(path)
                made.clear()
    except OSError as error:
        if error.filename is None and error.strerror:  # a full disk, for one: no file is named
            raise InputError(f"{path} cannot be written: {error.strerror}") from None
        raise
    finally:
        # Also on an interrupt: nothing may be left behind.
        shutil.rmtree(staging, ignore_errors=True)
        shutil.rmtree(backup, ignore_errors=True)
        for directory in reversed(made):
            with suppress(OSError):
                directory.rmdir()


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Let one process at a time move outputs in a directory, where the file system can do it."""
    try:
        handle = os.open(directory, os.O_RDONLY)
    except OSError:
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def claim_entry(path: Path, name: str, *, force: bool = False) -> Path:
    """Make an entry of an output directory hwgen's own before the output itself is there.

    What long work keeps in it survives an interrupt; the `atomic_directory` of the finished
    output replaces it.

    Parameters
    ----------
    path : Path
        The output directory; it and missing parents are created.
    name : str
        Name of the entry.
    force : bool
        As in `atomic_directory`.

    Returns
    -------
    Path
        ``path / name``, which this does not create.
    """
    check_directory(path)
    path.mkdir(parents=True, exist_ok=True)
    owned = _owned(path, force)
    if name not in owned:
        if os.path.lexists(path / name) and not force:
            raise InputError(f"{path / name} was not written by hwgen; move it away")
        lines = ["# Written by hwgen, which may replace these files:", *sorted({*owned, name})]
        write_file(path / MARKER, "\n".join(lines) + "\n", force=True)
    return path / name


def written_entries(path: Path) -> set[str]:
    """Return the entries of a directory that its marker lists, none where there is no marker."""
    marker = path / MARKER
    if not marker.is_file():
        return set()
    lines = marker.read_text(encoding="utf-8", errors="replace").splitlines()
    return {line for line in lines if not line.startswith("#") and line == Path(line).name}


def _owned(path: Path, force: bool) -> set[str]:
    """Return the entries of a directory that hwgen may replace, or refuse the directory."""
    if (path / MARKER).is_file():
        return written_entries(path)
    foreign = any(not entry.name.startswith(_STAGING) for entry in path.iterdir())
    if foreign and not force:
        raise InputError(
            f"{path} is not empty and holds no earlier output of hwgen;"
            " choose another directory, or write into it with --force"
        )
    return set()


def _make_parents(path: Path) -> list[Path]:
    """Create the missing parents of `path`; return them, outermost first."""
    missing: list[Path] = []
    parent = path.parent
    while not parent.exists():
        missing.insert(0, parent)
        parent = parent.parent
    for directory in missing:
        directory.mkdir(exist_ok=True)
    return missing


def _exchange(
    path: Path, staging: Path, backup: Path, names: Iterable[str], owned: set[str], force: bool
) -> None:
    """Move `names` from `staging` into `path` and the entries they replace out, all or none."""
    present = {entry.name for entry in path.iterdir()}
    foreign = sorted(present & set(names) - owned - {MARKER})
    if foreign and not force:
        raise InputError(
            f"{path} holds {', '.join(foreign)}, not written by hwgen;"
            " move it away, or overwrite it with --force"
        )
    leaving = sorted(present & (owned | set(names)))
    backup.mkdir()
    # Only renames within one file system from here on; each is undone if a later one fails.
    moves = [(path / name, backup / name) for name in leaving]
    moves += [(staging / name, path / name) for name in names]
    done: list[tuple[Path, Path]] = []
    try:
        for source, destination in moves:
            source.rename(destination)
            done.append((source, destination))
    except BaseException:
        for source, destination in reversed(done):
            destination.rename(source)
        raise
