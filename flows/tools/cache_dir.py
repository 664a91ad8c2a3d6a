# SPDX-License-Identifier: Apache-2.0
"""Where hwgen keeps what can be computed again; another place, said once, where that fails."""

from __future__ import annotations

import os
import sys
import tempfile
from functools import cache
from pathlib import Path

from hwgen.errors import InputError


@cache
def note(text: str) -> None:
    """Tell the user something on stderr, once for each text."""
    sys.stderr.write(f"note: {text}\n")
    sys.stderr.flush()


def cache_directory() -> Path:
    """Return a directory, made if missing, for what can be computed again.

    ``HWGEN_CACHE_DIR`` if it is set; else ``hwgen`` in ``XDG_CACHE_HOME`` or ``~/.cache``; where
    that cannot be written, a directory of the user's own among the temporary files, and a note.

    Raises
    ------
    InputError
        If there is none.
    """
    chosen = os.environ.get("HWGEN_CACHE_DIR")
    return _cache_directory(chosen or str(user_cache() / "hwgen"), tempfile.gettempdir())


def user_cache() -> Path:
    """Return where the user's programs keep their caches; need not exist."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))


@cache
def _cache_directory(wanted: str, temporary: str) -> Path:
    path = Path(wanted).expanduser()
    problem = "it is not an absolute path"  # a cache among a project's files would be a surprise
    if path.is_absolute() or os.environ.get("HWGEN_CACHE_DIR"):
        path = path.resolve()
        problem = why_not_writable(path)
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
        f"neither the cache {wanted} ({problem}) nor {other} can be written; set HWGEN_CACHE_DIR"
    )


def why_not_writable(directory: Path) -> str:
    """Make a directory and write into it; return what went wrong, empty if nothing did."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # Tried, because permissions do not tell everything, least of all for root.
        with tempfile.TemporaryFile(dir=directory):
            return ""
    except OSError as error:
        return error.strerror or str(error)
