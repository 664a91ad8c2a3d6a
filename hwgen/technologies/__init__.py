# SPDX-License-Identifier: Apache-2.0
"""The registry of technologies: standard-cell libraries and FPGA families.

A technology is one data file.  An entry point of the group ``hwgen.technologies`` announces it:
its name is that of the technology, its value the package in which ``NAME.yaml`` lies.  The name
is known without a look at the file, which is read when something asks for what it says; nothing
else in the tool knows the name of a technology.  The files ``NAME.yaml`` in the directories of
the environment variable ``HWGEN_TECHNOLOGIES`` are technologies as well.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING

from hwgen.errors import ConfigError, InputError, Problem, did_you_mean
from hwgen.plugins import Registry, data_file, match_name

if TYPE_CHECKING:
    from hwgen.technologies.fpga_model import Fpga
    from hwgen.technologies.model import StandardCells, Technology

GROUP = "hwgen.technologies"

DIRECTORIES = "HWGEN_TECHNOLOGIES"
"""Environment variable: directories of data files, separated as in ``PATH``."""

DEFAULT = "nangate45"
"""The technology of configurations that name none."""


@cache
def technologies() -> Registry[Technology]:
    """Return every installed technology by name, in alphabetical order.

    Looking one up reads its file, and raises `InputError` if it cannot be used.

    Raises
    ------
    InputError
        If two packages offer one name, or none offers the default.
    """
    registry: Registry[Technology] = Registry(
        GROUP, "technology", _load, tuple(_files_of_directories())
    )
    if DEFAULT not in registry:
        raise InputError(
            f"no technology {DEFAULT!r} is installed: hwgen's installation is older than its"
            " source; install it again (`pip install -e .` in a checkout)"
        )
    return registry


def technology(name: str) -> Technology:
    """Return the technology called `name`.

    Raises
    ------
    InputError
        If no installed package offers it, or its file cannot be used.
    """
    return technologies().named(name)


def cell_library(name: str) -> StandardCells:
    """Return the standard-cell technology called `name`, or raise `InputError`."""
    selected = technology(name)
    if selected.kind != "standard_cells":
        raise InputError(
            f"{name} is not a standard-cell technology; those are"
            f" {', '.join(technology_names('standard_cells'))}"
        )
    return selected


def fpga_family(name: str) -> Fpga:
    """Return the FPGA family called `name`, or raise `InputError`."""
    selected = technology(name)
    if selected.kind != "fpga":
        raise InputError(
            f"{name} is not an FPGA family; those are {', '.join(technology_names('fpga'))}"
        )
    return selected


def technology_names(type_name: str) -> tuple[str, ...]:
    """Return the names of the technologies of a type; files that cannot be used are left out."""
    return tuple(name for name in technologies() if _read_type(name) == type_name)


@cache
def _devices() -> dict[str, str]:
    """Return the technology of each device; files that cannot be used are left out."""
    result: dict[str, str] = {}
    for name in technology_names("fpga"):
        for device in fpga_family(name).devices:
            result.setdefault(device, name)
    return result


def devices(name: str | None = None) -> tuple[str, ...]:
    """Return the names of the FPGA devices, of all technologies or of the one called `name`."""
    return tuple(device for device, own in _devices().items() if name in (None, own))


def technology_of(device: str) -> str | None:
    """Return the technology of a device in any spelling, None if no installed one has it."""
    match = match_name(device, _devices())
    return None if match is None else _devices()[match]


def target_of(name: str) -> tuple[str, str | None]:
    """Return the technology and the device that a target names: either may be a target.

    Raises
    ------
    InputError
        If no installed technology or device is called so.
    """
    match = match_name(name, technologies())
    if match is not None:
        technology(match)  # refuses a file that cannot be used
        return match, None
    device = match_name(name, _devices())
    if device is not None:
        return _devices()[device], device
    near = _device_of_part(name) or did_you_mean(name, (*technologies(), *_devices()))
    raise InputError(
        f"no technology or device is called {name!r}{near}; there is:"
        f" {', '.join(technologies())}, and the devices {', '.join(_devices())}"
    )


def _device_of_part(name: str) -> str:
    """Return a suggestion for a vendor's part number that ends as one device does, or nothing.

    >>> _device_of_part("LFE5U-85F-6BG381C")
    " (did you mean 'ecp5-85f'?)"
    """
    sizes = {device: device.rpartition("-")[2] for device in _devices() if "-" in device}
    parts = re.split(r"[^a-z0-9]+", name.casefold())
    named = [device for device, size in sizes.items() if size in parts and not size.isdigit()]
    return f" (did you mean {named[0]!r}?)" if len(named) == 1 else ""


def default_clock(name: str) -> float | None:
    """Return the clock target in MHz that a technology has by itself, as FPGA families do."""
    return fpga_family(name).clock_mhz if _read_type(name) == "fpga" else None


@cache
def _read_type(name: str) -> str | None:
    try:
        return technologies()[name].kind
    except InputError:
        return None


@cache
def file_of(name: str) -> Path:
    """Return the data file of an installed technology."""
    technology(name)
    return _file(technologies().point(name))


def costs_of(name: str) -> Path | None:
    """Return the path of the table of costs of a technology; None if it names none."""
    selected = technology(name)
    return None if selected.costs is None else file_of(name).with_name(selected.costs)


def read(path: Path, name: str) -> Technology:
    """Read the data file of the technology called `name`.

    Raises
    ------
    ConfigError
        With every problem of the file, and its place.
    """
    from hwgen.config.document import read_document
    from hwgen.config.validate import of_model, problem_at, shown
    from hwgen.technologies.cost_table import CostTable
    from hwgen.technologies.model import MODELS

    models = {**MODELS, "cost_table": CostTable}
    document = read_document(path, quickly=True)
    kind = document.data.get("kind")
    if not isinstance(kind, str) or kind not in models:
        text = f"must be {' or '.join(models)}"
        if "kind" in document.data:
            text += f", not {shown(kind)}"
        raise ConfigError([problem_at(document, ("kind",), text)])
    try:
        result = of_model(document, models[kind])
    except ConfigError as error:
        if kind != "cost_table":
            raise
        raise ConfigError([_with_page(problem) for problem in error.problems]) from None
    if result.name != name:
        text = (
            f"must be {name}, as its entry point or the name of its file says, not"
            f" {shown(result.name)}"
        )
        raise ConfigError([problem_at(document, ("name",), text)])
    return result


def _with_page(problem: Problem) -> Problem:
    """Return a problem of a table of costs; one of many missing entries names the page of all."""
    if " are missing: " not in problem.message:
        return problem
    return replace(problem, message=f"{problem.message}; see docs/cost-table.md")


_SUFFIX = ".yaml"


def _files_of_directories() -> Iterator[EntryPoint]:
    """Yield the data files of `DIRECTORIES` as entry points, whose values are paths.

    Raises
    ------
    InputError
        If a directory does not exist.
    """
    for directory in filter(None, os.environ.get(DIRECTORIES, "").split(os.pathsep)):
        if not Path(directory).is_dir():
            raise InputError(f"{DIRECTORIES}: {directory} is not a directory")
        for path in sorted(Path(directory).absolute().glob(f"*{_SUFFIX}")):
            yield EntryPoint(path.stem, str(path), GROUP)


def _load(point: EntryPoint) -> Technology:
    return read(_file(point), point.name)


def _file(point: EntryPoint) -> Path:
    return data_file("technology", point)
