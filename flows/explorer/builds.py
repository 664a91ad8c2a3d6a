# SPDX-License-Identifier: Apache-2.0
"""Builds that the page starts: ``hwgen build`` in a process, one at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from flows.explorer.draft import Request, edit
from hwgen.errors import InputError

_MOST_CHARACTERS = 4000  # of the output that the page shows


class Builder:
    """The build that the page started last.

    Parameters
    ----------
    folder : Path
        Builds are written to directories below it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None
        self._state: dict[str, Any] = {"state": "none"}

    def start(self, request: Request) -> dict[str, Any]:
        """Start the build of a request's configuration into its ``directory``.

        Returns
        -------
        dict
            As `progress`.

        Raises
        ------
        InputError
            If a build is running, the configuration is not legal, or the directory is not below
            the working directory or holds something other than a build.
        """
        edited = edit(request)
        if edited.problems:
            raise InputError("the configuration is not legal: correct it first")
        directory = self.check_directory(str(request.get("directory", "")))
        with self._lock:
            if self._state["state"] == "running":
                raise InputError("a build is running; wait until it ends")
            self._begin(edited.text, str(edited.data["name"]), directory)
        return self.progress()

    def check_directory(self, name: str) -> str:
        """Return a directory relative to the working directory; refuse what must not be replaced.

        Raises
        ------
        InputError
            If it is not below the working directory, or holds something other than a build.
        """
        with suppress(OSError, ValueError):
            path = (self.folder / name).resolve()
            if name.strip() and path != self.folder and path.is_relative_to(self.folder):
                if not path.exists() or (path.is_dir() and (_is_build(path) or _is_empty(path))):
                    return str(path.relative_to(self.folder))
                raise InputError(f"{name} exists and is not a build of hwgen; name another one")
        raise InputError(
            f"a directory must be named that is below {self.folder}, not {name[:80]!r}"
        )

    def progress(self) -> dict[str, Any]:
        """Return ``state`` (``none``, ``running``, ``done`` or ``failed``) of the last build.

        ``directory``, ``seconds`` and ``text``, the output of the command, say more of it.
        """
        with self._lock:
            state = dict(self._state)
        begin = state.pop("begin", None)
        if begin is not None:
            state["seconds"] = time.monotonic() - begin
        return state

    def close(self) -> None:
        """End a build that is running; it leaves nothing."""
        if self._process is None or self._thread is None:
            return
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
        self._thread.join()

    def _begin(self, text: str, name: str, directory: str) -> None:
        folder = tempfile.TemporaryDirectory(prefix="hwgen-explore-")
        config = Path(folder.name, f"{name}.yaml")
        config.write_text(text, encoding="utf-8")
        path = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "hwgen", "build", "-c", str(config), "-o", directory],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # with all that it starts, it can be ended
            text=True,
            errors="replace",
        )
        self._state = {"state": "running", "directory": directory, "begin": time.monotonic()}
        self._thread = threading.Thread(target=self._follow, args=(self._process, folder))
        self._thread.start()

    def _follow(
        self, process: subprocess.Popen[str], folder: tempfile.TemporaryDirectory[str]
    ) -> None:
        said = ""
        with folder, process:
            assert process.stdout is not None
            for line in process.stdout:
                said = (said + line.replace(f"{folder.name}{os.sep}", ""))[-_MOST_CHARACTERS:]
                with self._lock:
                    self._state["text"] = said
        with self._lock:
            seconds = time.monotonic() - self._state.pop("begin")
            state = "failed" if process.returncode else "done"
            self._state |= {"state": state, "seconds": seconds}


def _is_empty(path: Path) -> bool:
    return next(path.iterdir(), None) is None


def _is_build(path: Path) -> bool:
    """Return whether a directory holds Verilog of hwgen with its manifest."""
    return any(
        (path / f"{each.stem}.json").is_file() and (path / f"{each.stem}.core").is_file()
        for each in path.glob("*.v")
    )
