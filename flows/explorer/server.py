# SPDX-License-Identifier: Apache-2.0
"""The server of the page: this machine only, with the standard library."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

from flows.explorer import evaluate
from flows.explorer.builds import Builder
from flows.explorer.worker import Worker
from hwgen.errors import HwgenError, InputError

HOST = "127.0.0.1"

CYCLES_S, COSTS_S = 10.0, 30.0
"""Seconds after which cycles and costs of a design are given up."""

_MOST_BYTES = 1 << 16


class Server(ThreadingHTTPServer):
    """The server of the page.

    Parameters
    ----------
    port : int
        0 for any free one.
    first : dict
        Request that the page begins with.

    Raises
    ------
    InputError
        If the port is in use, or may not be used.
    """

    daemon_threads = True

    def __init__(self, port: int, first: dict[str, Any]) -> None:
        self.workers: dict[str, Worker] = {}
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            reason = "is in use" if error.errno == errno.EADDRINUSE else f"fails: {error.strerror}"
            raise InputError(
                f"--port: port {port} {reason}; name another one, or 0 for any free one"
            ) from None
        self.first = first
        self.builder = Builder(Path())
        self.workers |= {"cycles": Worker(CYCLES_S), "costs": Worker(COSTS_S)}
        for worker in self.workers.values():
            worker.start()

    @property
    def address(self) -> str:
        """Address of the page."""
        return f"http://{HOST}:{self.server_address[1]}/"

    def server_close(self) -> None:
        """Free the port and end the workers."""
        super().server_close()
        for worker in self.workers.values():
            worker.close()
        if hasattr(self, "builder"):  # else the port could not be used
            self.builder.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a browser that has closed its connection."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing of requests."""

    def do_GET(self) -> None:
        """Send the page."""
        if not self._is_local():
            return
        if self.path != "/":
            self._send(HTTPStatus.NOT_FOUND, b"not found\n", "text/plain")
            return
        folder = str(self.server.builder.folder)
        first = json.dumps({**evaluate.choices(), "first": self.server.first, "folder": folder})
        page = _asset("explorer.html").replace("@DATA@", first.replace("<", "\\u003c"))
        page = page.replace("@SCRIPT@", _asset("explorer.js"))
        self._send(HTTPStatus.OK, page.encode(), "text/html; charset=utf-8")

    def do_POST(self) -> None:
        """Answer ``/check``, ``/cycles``, ``/costs``, ``/build`` or ``/progress`` of the page."""
        size = self.headers.get("Content-Length", "")
        local = self._is_local()
        if not local:
            return
        function = self.path.removeprefix("/")
        if self.headers.get("Content-Type") != "application/json" or not size.isdigit():
            self._refuse("a request must be JSON")
            return
        if int(size) > _MOST_BYTES:
            self._refuse(f"a request has at most {_MOST_BYTES} bytes")
            return
        try:
            request = json.loads(self.rfile.read(int(size)))
            if not isinstance(request, dict) or not isinstance(request.get("values", {}), dict):
                raise ValueError
        except ValueError:
            self._refuse("a request must be a JSON object with values")
            return
        here: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "check": evaluate.check,
            "build": self.server.builder.start,
            "progress": lambda _: self.server.builder.progress(),
        }
        if function in here:
            try:
                answer = here[function](request)
            except HwgenError as error:
                answer = {"failed": str(error)}
        elif function in self.server.workers:
            answer = self.server.workers[function].ask(function, request)
        else:
            self._send(HTTPStatus.NOT_FOUND, b"not found\n", "text/plain")
            return
        self._send(HTTPStatus.OK, json.dumps(answer).encode(), "application/json")

    def _is_local(self) -> bool:
        """Refuse requests that another site has a browser send to this address."""
        port = self.server.server_address[1]
        if self.headers.get("Host") in (f"{HOST}:{port}", f"localhost:{port}"):
            return True
        self._refuse(f"open {self.server.address}")
        return False

    def _refuse(self, text: str) -> None:
        self.close_connection = True
        self._send(HTTPStatus.BAD_REQUEST, f"{text}\n".encode(), "text/plain")

    def _send(self, status: HTTPStatus, body: bytes, content: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)


def _asset(name: str) -> str:
    return (files("flows.explorer") / "page" / name).read_text(encoding="utf-8")
