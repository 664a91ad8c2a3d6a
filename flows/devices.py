# SPDX-License-Identifier: Apache-2.0
"""The FPGA devices that nextpnr knows, with their packages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hwgen.errors import InputError, did_you_mean


@dataclass(frozen=True)
class Placer:
    """Place and route for one FPGA family.

    Parameters
    ----------
    family : str
    tool : str
        The program, as `flows.toolchain` calls it.
    devices : mapping
        Packages of each device, the first one taken unless another is asked for.
    device : str
        The one taken unless another is asked for: the largest.
    speeds : tuple of str
        Speed grades, slowest first; empty where the device says it.
    free_pins : str
        Option that lets the tool choose pins.
    pins : str
        Option that takes a file of pins.
    routed : str
        Option that writes the routed design for the packer.
    packer : str
        The program that makes a bitstream of it.
    """

    family: str
    tool: str
    devices: Mapping[str, tuple[str, ...]]
    device: str
    speeds: tuple[str, ...]
    free_pins: str
    pins: str
    routed: str
    packer: str

    def options(self, device: str, package: str, speed: str) -> list[str]:
        """Return the options of the tool for a device."""
        found = [f"--{device}", "--package", package]
        return [*found, "--speed", speed] if speed else found


def _packages(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ECP5_25 = _packages("CABGA381 CABGA256 CSFBGA285 TQFP144")
_ECP5_45 = _packages("CABGA554 CABGA256 CABGA381 CSFBGA285 TQFP144")
_ECP5_85 = _packages("CABGA756 CABGA381 CABGA554 CSFBGA285")
_ICE40_1K = _packages("tq144 cb132 cb121 cb81 cm121 cm81 cm49 cm36 qn84 swg16tr vq100")
_ICE40_4K = _packages("tq144 bg121 cb132 cm225 cm121 cm81")
_ICE40_8K = _packages("ct256 bg121 cb132 cm225 cm121 cm81")
_ULTRA = _packages("sg48 uwg30")

PLACERS: Mapping[str, Placer] = {
    placer.family: placer
    for placer in (
        Placer(
            "ecp5", "nextpnr-ecp5",
            {
                "12k": _ECP5_25, "25k": _ECP5_25, "45k": _ECP5_45, "85k": _ECP5_85,
                "um-25k": _ECP5_25, "um-45k": _ECP5_45, "um-85k": _ECP5_85,
                "um5g-25k": _ECP5_25, "um5g-45k": _ECP5_45, "um5g-85k": _ECP5_85,
            },
            "85k", ("6", "7", "8"), "--lpf-allow-unconstrained", "--lpf", "--textcfg", "ecppack",
        ),
        Placer(
            "ice40", "nextpnr-ice40",
            {
                "hx1k": _ICE40_1K, "hx4k": _ICE40_4K, "hx8k": _ICE40_8K,
                "lp384": _packages("qn32 cm49 cm36"), "lp1k": _ICE40_1K, "lp4k": _ICE40_4K,
                "lp8k": _ICE40_8K, "u1k": _packages("sg48"), "u2k": _packages("sg48"),
                "u4k": _packages("sg48"), "up3k": _ULTRA, "up5k": _ULTRA,
            },
            "hx8k", (), "--pcf-allow-unconstrained", "--pcf", "--asc", "icepack",
        ),
    )
}  # fmt: skip


def placer(family: str) -> Placer:
    """Return place and route for an FPGA family, or raise `InputError`."""
    try:
        return PLACERS[family]
    except KeyError:
        raise InputError(
            f"there is no place and route for {family!r}{did_you_mean(family, PLACERS)}; there is"
            f" for {', '.join(PLACERS)}"
        ) from None


def choose(
    chosen: Placer, device: str | None, package: str | None, speed: str | None
) -> tuple[str, str, str]:
    """Return device, package and speed grade (or an empty text), defaults filled in.

    Raises
    ------
    InputError
        If they do not exist together.
    """
    device = (device or chosen.device).lower()
    if device not in chosen.devices:
        raise InputError(
            f"{device!r} is not a device of {chosen.family}{did_you_mean(device, chosen.devices)};"
            f" there are {', '.join(chosen.devices)}"
        )
    packages = chosen.devices[device]
    names = {name.lower(): name for name in packages}
    package = (package or packages[0]).lower()
    if package not in names:
        raise InputError(
            f"{package!r} is not a package of the {device}{did_you_mean(package, names)}; there"
            f" are {', '.join(packages)}"
        )
    if speed is not None and speed not in chosen.speeds:
        there = ", ".join(chosen.speeds) or f"none to choose for {chosen.family}"
        raise InputError(f"{speed!r} is not a speed grade; there are {there}")
    return device, names[package], speed or (chosen.speeds[0] if chosen.speeds else "")
