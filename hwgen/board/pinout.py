# SPDX-License-Identifier: Apache-2.0
"""Pins of a chip: the ports that its top module must have, and which of them a design uses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from hwgen.board.model import LINKS, Link, Text
from hwgen.config.base import Model, check_rules
from hwgen.errors import InputError

MOST_PINS = 14
"""Pins that a design with a link, a light, clock and reset may use."""

_PORT = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:\[(?P<bit>\d+)\])?")


class ChipPort(Model):
    """A port of the top module."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")] = Field(description="Its name.")
    direction: Literal["in", "out"] = Field(description="Seen from the chip.")
    width: Annotated[int, Field(ge=1, le=64)] = Field(1, description="Its bits.")


@dataclass(frozen=True)
class Wire:
    """A bit of a port of a top module.

    Parameters
    ----------
    port : str
    bit : int
    width : int
        Bits of the port.
    """

    port: str
    bit: int = 0
    width: int = 1

    def __str__(self) -> str:
        return self.port if self.width == 1 else f"{self.port}[{self.bit}]"


class Pinout(Model):
    """Pins of a chip."""

    module: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")] = Field(
        description="Name of the top module."
    )
    clock_mhz: Annotated[float, Field(gt=0, le=10_000, strict=False)] = Field(
        description="Frequency of the clock in MHz."
    )
    reset_low: bool = Field(True, description="Whether the reset is active at 0.")
    ports: tuple[ChipPort, ...] = Field(
        (), strict=False, description="Ports of the top module; default one for each pin."
    )
    pins: dict[str, Text] = Field(
        description="Port, or bit of one, by signal: clk, reset, led, and those of the link."
    )
    ones: tuple[Text, ...] = Field(
        (), strict=False, description="Outputs that are 1, as enables are; unused others are 0."
    )

    @model_validator(mode="after")
    def _rules(self) -> Self:
        broken = [
            f"pins.{name}: has no direction; allowed are {', '.join(_DIRECTIONS)}"
            for name in self.pins
            if name not in _DIRECTIONS
        ]
        broken += [f"pins.{name}: is needed" for name in ("clk", "reset") if name not in self.pins]
        names = [port.name for port in self.ports]
        broken += [
            f"ports: {n} stands twice" for n in sorted({n for n in names if names.count(n) > 1})
        ]
        targets = [(f"pins.{name}", text, _DIRECTIONS.get(name, "in"))
                   for name, text in self.pins.items()]  # fmt: skip
        targets += [("ones", text, "out") for text in self.ones]
        for field, text, direction in targets:
            if problem := self._problem(text, direction):
                broken.append(f"{field}: {problem}")
        used = [text for _, text, _ in targets]
        broken += [
            f"pins: {t} is used twice" for t in sorted({t for t in used if used.count(t) > 1})
        ]
        if len(self.pins) > MOST_PINS:
            broken.append(f"pins: at most {MOST_PINS}, not {len(self.pins)}")
        check_rules(broken)
        return self

    def _problem(self, text: str, direction: str) -> str:
        """Return why a text is no bit of a port of a direction; empty if it is one."""
        match = _PORT.fullmatch(text)
        if match is None:
            return f"must be a port or PORT[BIT], not {text!r}"
        if not self.ports:
            return "without `ports` pins are ports of one bit" if match["bit"] else ""
        port = next((each for each in self.ports if each.name == match["name"]), None)
        if port is None:
            return f"no port is called {match['name']}"
        if port.direction != direction:
            return f"{port.name} is an {port.direction}put, an {direction}put is needed"
        if (match["bit"] is None) != (port.width == 1):
            return (
                f"{port.name} has {port.width} bits: write {port.name}[BIT]"
                if port.width > 1
                else (f"{port.name} has one bit: write {port.name}")
            )
        if match["bit"] and int(match["bit"]) >= port.width:
            return f"{port.name} has bits 0..{port.width - 1}"
        return ""

    def wire(self, name: str) -> Wire:
        """Return the bit of a port that a pin is."""
        return self.wire_of(self.pins[name])

    def wire_of(self, text: str) -> Wire:
        """Return the bit that a text such as ``ui_in[3]`` names."""
        match = _PORT.fullmatch(text)
        assert match is not None
        widths = {port.name: port.width for port in self.ports}
        return Wire(match["name"], int(match["bit"] or 0), widths.get(match["name"], 1))

    def check_link(self, link: Link) -> None:
        """Raise `InputError` if pins of a link are missing."""
        missing = [name for name in LINKS[link] if name not in self.pins]
        if missing:
            raise InputError(f"the pinout has no pins for {', '.join(missing)} of {link}")

    def all_ports(self, link: Link) -> tuple[ChipPort, ...]:
        """Return the ports of the top module."""
        if self.ports:
            return self.ports
        wanted = ("clk", "reset", *LINKS[link], "led")
        return tuple(
            ChipPort(name=self.pins[name], direction=_DIRECTIONS[name], width=1)
            for name in wanted
            if name in self.pins
        )


_DIRECTIONS: dict[str, Literal["in", "out"]] = {
    "clk": "in", "reset": "in", "led": "out", "rx": "in", "tx": "out",
    "cs": "in", "sck": "in", "mosi": "in", "miso": "out",
}  # fmt: skip


def load_pinout(path: Path) -> Pinout:
    """Return the pinout in a YAML file.

    Raises
    ------
    ConfigError
        If it is none, with the line of each problem.
    """
    from hwgen.config.validate import load_model  # start-up time

    return load_model(path, Pinout)[0]
