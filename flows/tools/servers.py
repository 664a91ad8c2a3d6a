# SPDX-License-Identifier: Apache-2.0
"""Processes that stay to do one piece of work after the other, each told in a line."""

from __future__ import annotations

import atexit
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from flows.tools.guard import end
from hwgen.errors import CheckFailed

IDLE = 4
"""Processes that wait for more work, of as many as were needed at once."""

Server = subprocess.Popen[Any]
"""With pipes for text as standard input and output, started by `flows.tools.guard.start`."""


class Servers:
    """Processes of one kind; they end with this process.

    Parameters
    ----------
    name : str
        Of what they do, for messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._idle: list[tuple[int, Server]] = []  # with who started it: not a parent's
        atexit.register(self.close)

    @contextmanager
    def lent(self, begin: Callable[[], Server]) -> Iterator[Server]:
        """Give a process that nobody else uses, if need be a new one; it ends if this fails."""
        server = self._waiting() or begin()
        try:
            yield server
        except BaseException:
            _leave(server)
            raise
        if len(self._idle) < IDLE:
            self._idle.append((os.getpid(), server))
        else:
            _leave(server)

    def tell(self, server: Server, line: str) -> None:
        """Send a line."""
        with suppress(BrokenPipeError):  # the answer is missing then
            server.stdin.write(f"{line}\n")  # type: ignore[union-attr]
            server.stdin.flush()  # type: ignore[union-attr]

    def answer(self, server: Server) -> int:
        """Return the number that it prints next.

        Raises
        ------
        CheckFailed
            If it has ended.
        """
        line = server.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise CheckFailed(f"the process that runs {self.name} has ended")
        return int(line)

    def close(self) -> None:
        """End those that wait."""
        while server := self._waiting():
            _leave(server)

    @property
    def pids(self) -> list[int]:
        """Those that wait."""
        return [server.pid for owner, server in self._idle if owner == os.getpid()]

    def _waiting(self) -> Server | None:
        while self._idle:
            owner, server = self._idle.pop()
            if owner == os.getpid():
                if server.poll() is None:
                    return server
                _leave(server)
        return None


def _leave(server: Server) -> None:
    end(server)
    for pipe in (server.stdin, server.stdout):
        with suppress(OSError):  # a line that was not sent
            if pipe is not None:
                pipe.close()
