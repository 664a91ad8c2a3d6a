# SPDX-License-Identifier: Apache-2.0
"""The FPGA devices that nextpnr knows, with their packages."""

from __future__ import annotations

from flows.tools.toolchain import TOOLS
from hwgen.errors import InputError, did_you_mean
from hwgen.technologies import file_of, fpga_family, technologies, technology_names
from hwgen.technologies.fpga_model import Fpga, PlaceAndRoute


def placer(family: str) -> PlaceAndRoute:
    """Return place and route for an FPGA family, or raise `InputError`."""
    if family in technologies():
        tech = technologies()[family]
        if isinstance(tech, Fpga) and tech.place_and_route:
            return _runnable(tech.place_and_route, family)
    placeable = placed()
    raise InputError(
        f"there is no place and route for {family!r}{did_you_mean(family, placeable)}; there is for"
        f" {', '.join(placeable)}"
    )


def _runnable(chosen: PlaceAndRoute, family: str) -> PlaceAndRoute:
    """Return `chosen`, or raise `InputError` if hwgen does not know its programs."""
    for field in ("tool", "packer"):
        name = getattr(chosen, field)
        if name is not None and name not in TOOLS:
            raise InputError(
                f"{file_of(family)}: place_and_route.{field}: {name!r} is no tool that hwgen runs"
                f"{did_you_mean(name, TOOLS)}; `hwgen doctor` lists them"
            )
    return chosen


def placed() -> tuple[str, ...]:
    """Return the names of the FPGA families that there is place and route for."""
    return tuple(name for name in technology_names("fpga") if fpga_family(name).place_and_route)


def options(chosen: PlaceAndRoute, device: str, package: str, speed: str) -> list[str]:
    """Return the options of nextpnr for a part."""
    return filled(chosen.part, device=device, package=package, speed=speed)


def filled(arguments: str, **values: str) -> list[str]:
    """Return the arguments of a command, with values for what stands in braces."""
    return [word.format(**values) for word in arguments.split()]


def choose(
    family: str, device: str | None, package: str | None, speed: str | None
) -> tuple[str, str, str]:
    """Return device, package and speed grade (or an empty text) of a family, defaults filled in.

    Raises
    ------
    InputError
        If they do not exist together.
    """
    chosen = placer(family)
    asked = (device or chosen.device).lower()
    by_name = {name.lower(): name for name in chosen.devices}
    if asked not in by_name:
        raise InputError(
            f"{asked!r} is not a device of {family}{did_you_mean(asked, by_name)};"
            f" there are {', '.join(chosen.devices)}"
        )
    device = by_name[asked]
    packages = chosen.devices[device]
    names = {name.lower(): name for name in packages}
    package = (package or packages[0]).lower()
    if package not in names:
        raise InputError(
            f"{package!r} is not a package of the {device}{did_you_mean(package, names)}; there"
            f" are {', '.join(packages)}"
        )
    if speed is not None and speed not in chosen.speeds:
        allowed = ", ".join(chosen.speeds) or f"none to choose for {family}"
        raise InputError(f"{speed!r} is not a speed grade; there are {allowed}")
    return device, names[package], speed or (chosen.speeds[0] if chosen.speeds else "")
