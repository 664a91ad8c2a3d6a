# SPDX-License-Identifier: Apache-2.0
"""Filling a checkout's environment: ``python -m flows.install``, which ``make env`` runs in it.

Of two minutes pip took one and a half on one processor, and compiling the tools that come as
WebAssembly the rest on all of them.  So these are installed first and compiled beside the rest,
which uv installs: it loads and unpacks many packages at once.  uv does not read pip's
configuration; its settings are translated to uv's.  Where one cannot be translated, where there
is no uv, or where it fails, pip installs.

Before anything is installed this runs on Python's own library alone.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from flows.tools.toolchain import TOOLS

_PIP = (sys.executable, "-m", "pip")
_QUIET = ("--quiet", "--disable-pip-version-check")
_EXTRA = "dev"

_OPTIONS: Mapping[str, str] = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "trusted-host": "--allow-insecure-host",
}
"""Settings of pip with one value or several, and the options that tell them to uv."""

_VARIABLES: Mapping[str, str] = {
    "cert": "SSL_CERT_FILE",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "timeout": "UV_HTTP_TIMEOUT",
}
"""Settings of pip, and the variables that tell them to uv."""

_FOR_PIP_ALONE = {
    "cache-dir", "disable-pip-version-check", "no-cache-dir", "no-color", "no-input",
    "progress-bar", "quiet", "require-virtualenv", "retries", "root-user-action", "verbose",
}  # fmt: skip
"""Settings of pip that do not change what is installed."""


def settings(listed: str) -> dict[str, str]:
    """Return pip's settings for an installation by name, of those of ``pip config list``.

    Parameters
    ----------
    listed : str
        Lines ``SECTION.NAME='VALUE'``; a command's own section outweighs the global one, and the
        environment both.
    """
    result: dict[str, tuple[int, str]] = {}
    ranks = {"global": 0, "install": 1, ":env:": 2}
    for line in listed.splitlines():
        match = re.fullmatch(r"([^.=]+)\.([^=]+)=(['\"].*['\"])", line)
        if match and match[1] in ranks:
            name, rank = match[2].lower().replace("_", "-"), ranks[match[1]]
            if rank >= result.get(name, (0, ""))[0]:
                result[name] = rank, str(ast.literal_eval(match[3]))
    return {name: value for name, (_, value) in result.items()}


def translate_to_uv(configured: Mapping[str, str]) -> tuple[list[str], dict[str, str]] | None:
    """Return options and variables that tell uv pip's settings; None if there are none for some.

    Parameters
    ----------
    configured : mapping
        As of `settings`.
    """
    # Of several places that have a package, pip takes the newest version.
    options, variables = ["--index-strategy", "unsafe-best-match"], {}
    for name, value in configured.items():
        if name in _OPTIONS:
            for part in value.split():
                options += [_OPTIONS[name], part]
        elif name in _VARIABLES:
            variables[_VARIABLES[name]] = value
        elif name == "no-index":
            options += ["--no-index"] * (value.lower() in ("1", "on", "true", "yes"))
        elif name not in _FOR_PIP_ALONE:
            return None
    return options, variables


def compiled_first(project: Mapping[str, object]) -> list[str]:
    """Return the requirements that bring tools as WebAssembly, and that keep them in the cache.

    Parameters
    ----------
    project : mapping
        The table ``project`` of ``pyproject.toml``.
    """
    packages = {tool.package for tool in TOOLS.values() if tool.package.startswith("yowasp-")}
    packages.add("amaranth")  # with the Yosys of its own
    packages |= {"filelock", "platformdirs"}  # for the cache that keeps what is compiled
    lists: list[Iterable[str]] = [project["dependencies"]]  # type: ignore[list-item]
    lists += _extras(project["optional-dependencies"])  # type: ignore[arg-type]
    named = {line: re.match(r"[\w.-]+", line) for lines in lists for line in lines}
    return [line for line, name in named.items() if name and name[0].lower() in packages]


def _extras(extras: Mapping[str, Sequence[str]]) -> list[Sequence[str]]:
    """Return the requirements of the extra that is installed, and of those that it takes in."""
    result, waiting = dict[str, Sequence[str]](), [_EXTRA]
    while waiting:
        name = waiting.pop()
        if name not in result:
            result[name] = extras[name]
            for line in extras[name]:
                if inner := re.match(r"hwgen\[([\w,-]+)\]", line):
                    waiting += inner[1].split(",")
    return [lines for name, lines in extras.items() if name in result]


class Installer:
    """Installs packages into the environment that runs this, by uv if that can be, else by pip."""

    def __init__(self) -> None:
        listed = subprocess.run([*_PIP, "config", "list"], capture_output=True, text=True)
        translated = translate_to_uv(settings(listed.stdout)) if listed.returncode == 0 else None
        self._uv = translated is not None and self._has_uv()
        self._options, self._variables = translated or ([], {})

    def install(self, requirements: Sequence[str]) -> None:
        """Install, or end with the status and the message of pip."""
        if self._uv:
            command = [sys.executable, "-m", "uv", "pip", "install", "--quiet"]
            place = ["--python", sys.executable]
            environment = {**os.environ, **self._variables}
            done = subprocess.run(
                [*command, *place, *self._options, *requirements], env=environment
            )
            if done.returncode == 0:
                return
            sys.stderr.write("uv could not install this; pip tries\n")
            self._uv = False
        # Python compiles modules when they are first used, and most never are.
        command = [*_PIP, "install", *_QUIET, "--no-compile", *requirements]
        status = subprocess.run(command).returncode
        if status:
            sys.exit(status)

    @staticmethod
    def _has_uv() -> bool:
        command = [*_PIP, "install", *_QUIET, "--no-compile", "--only-binary", ":all:", "uv"]
        return (
            subprocess.run(command, capture_output=True).returncode == 0
            and subprocess.run(
                [sys.executable, "-m", "uv", "--version"], capture_output=True
            ).returncode
            == 0
        )


def main() -> None:
    """Install the project in the current directory, editable, with all that tests need."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    installer = Installer()
    installer.install(compiled_first(project))
    compiling = subprocess.Popen([sys.executable, "-m", "flows.tools.wasm"])
    try:
        installer.install(["--editable", f".[{_EXTRA}]"])
    except BaseException:
        compiling.terminate()
        raise
    finally:
        status = compiling.wait()
    if status:
        sys.exit(status)


if __name__ == "__main__":
    main()
