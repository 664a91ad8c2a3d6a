# SPDX-License-Identifier: Apache-2.0
"""Sessions of programs and temporary directories that end with this process, however it ends.

A program and everything that it starts are one session, which `end` kills.  `_Guardian` kills
sessions and removes temporary directories even if this process is killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_running: set[subprocess.Popen[Any]] = set()

# Reads what there is to end and to remove, one to a line, and does it when its input ends: when the
# process that writes it is no more, however it ended.  A shell, because it is there at once.
_GUARD = r"""
trap '' HUP INT QUIT TERM
groups=
while IFS= read -r line; do
  what=${line#?}
  case $line in
    +*) groups="$groups $what" ;;
    -*) left=; for group in $groups; do [ "$group" = "$what" ] || left="$left $group"; done
        groups=$left ;;
    /*) set -- "$@" "$line" ;;
    =*) count=$#
        while [ "$count" -gt 0 ]; do
          [ "$1" = "$what" ] || set -- "$@" "$1"
          shift; count=$((count - 1))
        done ;;
  esac
done
for group in $groups; do kill -9 -"$group" 2>/dev/null; done
[ $# -eq 0 ] || rm -rf -- "$@"
[ -z "$groups" ] || { sleep 0.2; [ $# -eq 0 ] || rm -rf -- "$@"; }
"""


class _Guardian:
    """Ends sessions and removes directories after this process, if it did not do so itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pipe, self._owner = -1, 0

    def tell(self, verb: str, what: object) -> None:
        """Let it watch a session (``+``) or a directory (``/``), or no more (``-``, ``=``)."""
        text = f"{verb}{what}"
        if "\n" in text:  # a directory that the user named so
            return
        with self._lock, suppress(OSError):
            if self._owner != os.getpid():
                self._begin()
            os.write(self._pipe, os.fsencode(f"{text}\n"))

    def _begin(self) -> None:
        end_to_read, self._pipe = os.pipe()  # what is started later does not inherit them
        try:
            # In a session of its own: Ctrl-C and a closed terminal do not reach it.
            guard = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD],
                stdin=end_to_read,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        finally:
            os.close(end_to_read)
        guard.returncode = 0  # it outlives this process, which does not wait for it
        self._owner = os.getpid()


_guardian = _Guardian()


@contextmanager
def scratch(prefix: str = "hwgen-", folder: Path | None = None) -> Iterator[Path]:
    """Give a temporary directory, which is removed whatever becomes of this process.

    Parameters
    ----------
    prefix : str
        Of its name.
    folder : Path, optional
        Where it is made; default among the temporary files.
    """
    path = Path(tempfile.mkdtemp(prefix=prefix, dir=folder)).resolve()
    _guardian.tell("", path)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        _guardian.tell("=", path)


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a program in a session of its own, which ends with this process.

    Parameters
    ----------
    command : sequence of str
    **options
        Of `subprocess.Popen`.
    """
    process: subprocess.Popen[Any] = subprocess.Popen(command, start_new_session=True, **options)
    _guardian.tell("+", process.pid)
    _running.add(process)
    return process


def end(process: subprocess.Popen[Any]) -> None:
    """Kill what `start` started, if it still runs, with everything that it started."""
    if process.poll() is None:
        _kill(process)
        process.wait()
    _running.discard(process)
    _guardian.tell("-", process.pid)


def kill_all() -> None:
    """Kill everything that `start` has started in any thread, with everything it started."""
    for process in list(_running):
        if process.returncode is None:
            _kill(process)


def _kill(process: subprocess.Popen[Any]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
