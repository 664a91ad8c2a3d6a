# SPDX-License-Identifier: Apache-2.0
"""Processes that compute for the page, each ended when it takes too long or is superseded.

``python -m flows.explorer.worker`` reads requests from its input, a line of JSON each, and writes
an answer in a line for each.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

GRACE_S = 2.0
"""Seconds for which a computation goes on although a newer request waits."""

_READ = 1 << 20


class Worker:
    """A process that answers one request at a time; the newest request counts.

    Parameters
    ----------
    limit_s : float
        Seconds for a request.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._busy, self._count = threading.Lock(), threading.Lock()
        self._newest = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._spare: subprocess.Popen[bytes] | None = None
        self._closed = False

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process that answers."""
        if self._process is None:
            self._process = _start()
        return self._process

    @property
    def processes(self) -> list[subprocess.Popen[bytes]]:
        """All processes, the spare one included."""
        return [each for each in (self._process, self._spare) if each is not None]

    def start(self) -> None:
        """Start the process, and another one that replaces it when it must be ended."""
        with self._busy:
            self._process, self._spare = _start(), _start()

    def close(self) -> None:
        """End all processes."""
        self._closed = True
        for process in self.processes:
            _end(process)

    def ask(self, function: str, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of a function of `flows.explorer.evaluate` to a request.

        Returns
        -------
        dict
            The answer; or ``superseded``, if a newer request has come; or ``failed``, a message.
        """
        with self._count:
            self._newest += 1
            number = self._newest
        with self._busy:
            if number != self._newest or self._closed:
                return {"superseded": True}
            return self._answer(function, request, number)

    def _answer(self, function: str, request: dict[str, Any], number: int) -> dict[str, Any]:
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        begin, data = time.monotonic(), b""
        try:
            process.stdin.write(json.dumps([function, request]).encode() + b"\n")
            process.stdin.flush()
            while not data.endswith(b"\n"):
                elapsed = time.monotonic() - begin
                if elapsed > self.limit_s:
                    self._replace()
                    return {"failed": self._too_long()}
                if number != self._newest and elapsed > GRACE_S:
                    self._replace()
                    return {"superseded": True}
                if select.select([process.stdout], [], [], 0.02)[0]:
                    part = os.read(process.stdout.fileno(), _READ)
                    if not part:
                        raise BrokenPipeError
                    data += part
        except OSError:
            self._replace()
            return {"failed": "the computation ended without a result; the design may need more"
                              " memory than there is"}  # fmt: skip
        answer: dict[str, Any] = json.loads(data)
        return answer

    def _too_long(self) -> str:
        return (
            f"not computed within {self.limit_s:g} s: the design or its workload is too large to"
            " explore; make it smaller, or copy the YAML and run hwgen estimate"
        )

    def _replace(self) -> None:
        _end(self._process)
        self._process = self._spare
        self._spare = None if self._closed else _start()


def _start() -> subprocess.Popen[bytes]:
    # Modules come from where this one lies, never from the working directory.
    path = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "flows.explorer.worker"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # with all that it starts, it can be ended
    )


def _end(process: subprocess.Popen[bytes] | None) -> None:
    if process is None:
        return
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout):
        with suppress(OSError):
            if stream is not None:
                stream.close()


def main() -> None:
    """Answer requests until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends it
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # nothing else may write among the answers
    # Imported here: the server needs only the class above.
    from flows.explorer import evaluate

    for line in sys.stdin:
        function, request = json.loads(line)
        try:
            answer = getattr(evaluate, function)(request)
        except Exception as error:  # the page shows it
            answer = {"failed": f"internal error: {type(error).__name__}: {error}"}
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
