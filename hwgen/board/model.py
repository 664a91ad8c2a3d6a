# SPDX-License-Identifier: Apache-2.0
"""Data file of a board."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, field_validator, model_validator

from hwgen.board.pll import Primitive
from hwgen.board.sdram import sdram_chips
from hwgen.config.base import Model, check_rules
from hwgen.errors import InputError

Text = Annotated[str, Field(min_length=1)]

Link: TypeAlias = Literal["uart", "spi", "udp"]

LINKS: dict[str, dict[str, str]] = {
    "uart": {"rx": "in", "tx": "out"},
    "spi": {"cs": "in", "sck": "in", "mosi": "in", "miso": "out"},
    "udp": {
        "rxc": "in", "rx_ctl": "in", **{f"rxd{bit}": "in" for bit in range(4)},
        "txc": "out", "tx_ctl": "out", **{f"txd{bit}": "out" for bit in range(4)}, "rst_n": "out",
    },
}  # fmt: skip
"""Pins of each link to a host, with their directions seen from the design."""


class ClockPin(Model):
    """The oscillator that clocks the design."""

    pin: Text = Field(description="Pin of the package.")
    standard: str | None = Field(None, description="IO standard, with options such as a pull-up.")
    mhz: Annotated[float, Field(gt=0, le=1000, strict=False)] = Field(
        description="Frequency in MHz."
    )


class UartPins(Model):
    """The serial port, seen from the FPGA."""

    rx: Text = Field(description="Pin that receives.")
    tx: Text = Field(description="Pin that sends.")
    standard: str | None = Field(None, description="IO standard, with options such as a pull-up.")
    note: str = Field("", description="Where it leads.")


class SpiPins(Model):
    """The pins of a serial peripheral bus, seen from the FPGA, which the host clocks."""

    cs: Text = Field(description="Pin of the select signal, active low.")
    sck: Text = Field(description="Pin of the clock.")
    mosi: Text = Field(description="Pin that receives.")
    miso: Text = Field(description="Pin that sends.")
    standard: str | None = Field(None, description="IO standard, with options such as a pull-up.")
    note: str = Field("", description="Where it leads.")


class RgmiiPins(Model):
    """The pins of an Ethernet transceiver (RGMII), seen from the FPGA."""

    rxc: Text = Field(description="Pin of the clock that is received.")
    rx_ctl: Text = Field(description="Pin that receives whether data are valid.")
    rxd0: Text = Field(description="Pin that receives bit 0.")
    rxd1: Text = Field(description="Pin that receives bit 1.")
    rxd2: Text = Field(description="Pin that receives bit 2.")
    rxd3: Text = Field(description="Pin that receives bit 3.")
    txc: Text = Field(description="Pin of the clock that is sent.")
    tx_ctl: Text = Field(description="Pin that sends whether data are valid.")
    txd0: Text = Field(description="Pin that sends bit 0.")
    txd1: Text = Field(description="Pin that sends bit 1.")
    txd2: Text = Field(description="Pin that sends bit 2.")
    txd3: Text = Field(description="Pin that sends bit 3.")
    rst_n: Text = Field(description="Pin that resets the transceiver, active low.")
    pad: Literal["ODDRX1F"] = Field(description="Primitive of an output at both edges.")
    standard: str | None = Field(None, description="IO standard, with options such as the slew.")
    note: str = Field("", description="Where it leads.")


class Pin(Model):
    """A light or a button."""

    pin: Text = Field(description="Pin of the package.")
    standard: str | None = Field(None, description="IO standard, with options such as a pull-up.")
    active_low: bool = Field(False, description="Whether it is lit, or pressed, at 0.")


class SdramPins(Model):
    """An SDR SDRAM of 16 bits."""

    chip: Text = Field(description="Chip, one of `hwgen.board.sdram.sdram_chips`.")
    clk: Text = Field(description="Pin of its clock.")
    cke: Text = Field(description="Pin that enables the clock.")
    cs_n: Text = Field(description="Pin that selects the chip, active low.")
    ras_n: Text = Field(description="Pin of the row strobe, active low.")
    cas_n: Text = Field(description="Pin of the column strobe, active low.")
    we_n: Text = Field(description="Pin that enables writes, active low.")
    ba: Annotated[list[Text], Field(min_length=2, max_length=2)] = Field(
        description="Pins of the bank, bit 0 first."
    )
    a: Annotated[list[Text], Field(min_length=13, max_length=13)] = Field(
        description="Pins of the address, bit 0 first."
    )
    dqm: Annotated[list[Text], Field(min_length=2, max_length=2)] = Field(
        description="Pins of the masks, that of the lower byte first."
    )
    dq: Annotated[list[Text], Field(min_length=16, max_length=16)] = Field(
        description="Pins of the data, bit 0 first."
    )
    pad: Literal["BB"] = Field(description="Primitive of a pad that is driven and read.")
    standard: str | None = Field(None, description="IO standard, with options such as the slew.")

    @field_validator("chip")
    @classmethod
    def _check_chip(cls, value: str) -> str:
        if value not in sdram_chips():
            raise ValueError(f"must be one of {', '.join(sdram_chips())}, not {value!r}")
        return value

    @property
    def pins(self) -> dict[str, str]:
        """Pins of the package by port of the top module, those of vectors bit by bit."""
        pins: dict[str, str] = {}
        for name in SDRAM_PINS:
            value = getattr(self, name)
            if isinstance(value, str):
                pins[f"sdram_{name}"] = value
            else:
                pins |= {f"sdram_{name}[{bit}]": pin for bit, pin in enumerate(value)}
        return pins


SDRAM_PINS = ("clk", "cke", "cs_n", "ras_n", "cas_n", "we_n", "ba", "a", "dqm", "dq")
"""Pins of an SDRAM; those of vectors are lists."""


_PINS: dict[Link, type[UartPins | SpiPins | RgmiiPins]] = {
    "uart": UartPins, "spi": SpiPins, "udp": RgmiiPins,
}  # fmt: skip

RGMII_MHZ = 125.0
"""Frequency of both clocks of an Ethernet transceiver at 1 Gbit/s."""


class Constraints(Model):
    """Lines of the file of pins that place and route takes."""

    pin: Text = Field(description="Line of a pin, of `{port}`, `{pin}` and `{standard}`.")
    standard: str = Field("", description="IO standard of pins that name none.")
    clock: str = Field("", description="Line of the clock, of `{port}` and `{mhz}`, if it has one.")


_FIELDS = {"pin": ("port", "pin", "standard"), "clock": ("port", "mhz")}


class BoardData(Model):
    """A board with an FPGA."""

    name: Text = Field(description="Name, that of the file.")
    summary: Text = Field(description="Maker and name in words.")
    device: Text = Field(description="Device, as `hwgen technologies` lists it.")
    package: Text = Field(description="Package, as nextpnr calls it.")
    speed: str | None = Field(None, description="Speed grade, where nextpnr asks for one.")
    clock: ClockPin = Field(description="The oscillator.")
    pll: Primitive | None = Field(None, description="Primitive that makes other clocks.")
    uart: UartPins = Field(description="The serial port.")
    spi: SpiPins | None = Field(None, description="Pins for a serial peripheral bus.")
    udp: RgmiiPins | None = Field(None, description="Pins of an Ethernet transceiver.")
    sdram: SdramPins | None = Field(None, description="Memory for engines.")
    led: Pin | None = Field(None, description="A light, lit once a host has connected.")
    button: Pin | None = Field(None, description="A button, which resets the design.")
    constraints: Constraints = Field(description="How pins are assigned.")
    bitstream: Text = Field(description="Ending of the name of a bitstream.")
    loader: Text = Field(description="What openFPGALoader calls the board.")
    source: Text = Field(description="Where the pins are from.")

    @model_validator(mode="after")
    def _lines(self) -> Self:
        broken = []
        for field, allowed in _FIELDS.items():
            line = getattr(self.constraints, field)
            try:
                used = {name for _, name, _, _ in Formatter().parse(line) if name is not None}
            except ValueError as error:
                broken.append(f"constraints.{field}: {error}")
                continue
            names = ", ".join(f"{{{name}}}" for name in allowed)
            broken += [
                f"constraints.{field}: {{{name}}} is none of {names}"
                for name in sorted(used - set(allowed))
            ]
        for link in self.links:
            pins = list(self.pins_of(link, memory=self.sdram is not None).values())
            broken += [
                f"pins: {pin} is used more than once"
                for pin in sorted({pin for pin in pins if pins.count(pin) > 1})
            ]
        check_rules(broken)
        return self

    @property
    def links(self) -> list[Link]:
        """Links whose pins the file has."""
        return [link for link in _PINS if getattr(self, link) is not None]

    @property
    def pins(self) -> dict[str, str]:
        """Pins of the package by port of the top module, with the serial port."""
        return self.pins_of("uart")

    def pins_of(self, link: Link, *, memory: bool = False) -> dict[str, str]:
        """Return the pins of the package by port of the top module.

        Parameters
        ----------
        link : {"uart", "spi", "udp"}
        memory : bool
            Whether the design has a memory.

        Raises
        ------
        InputError
            If the board has no pins of that link, or no memory.
        """
        pins = {"clk": self.clock.pin}
        pins |= {name: getattr(self.of_link(link), name) for name in LINKS[link]}
        if self.led:
            pins["led"] = self.led.pin
        if self.button:
            pins["button"] = self.button.pin
        return pins | self.memory.pins if memory else pins

    @property
    def memory(self) -> SdramPins:
        """The memory for engines; raise `InputError` if the board has none."""
        if self.sdram is None:
            raise InputError(f"the file of {self.name} names no memory for engines (field `sdram`)")
        return self.sdram

    def of_link(self, link: Link) -> UartPins | SpiPins | RgmiiPins:
        """Return the pins of a link; raise `InputError` if the board has none of it."""
        pins: UartPins | SpiPins | RgmiiPins | None = getattr(self, link)
        if pins is None and link == "udp":
            raise InputError(f"the file of {self.name} names no Ethernet transceiver (field `udp`)")
        if pins is None:
            needed = " ".join(f"--pin {name}=PIN" for name in LINKS[link])
            raise InputError(f"the file of {self.name} has no pins for {link}: add {needed}")
        return pins

    def with_pins(self, link: Link, changes: Mapping[str, str]) -> BoardData:
        """Return the board with other pins for a link.

        Parameters
        ----------
        link : {"uart", "spi", "udp"}
        changes : mapping of str
            Pins of the package, by port.

        Raises
        ------
        InputError
            If the link has no such port, pins are missing, or one is used twice.
        """
        unknown = sorted(set(changes) - set(LINKS[link]))
        if unknown:
            ports = ", ".join(LINKS[link])
            raise InputError(f"--pin: {unknown[0]!r} is no port of {link}; its ports are {ports}")
        if not changes:
            return self
        former = self.of_link(link) if link == "udp" else getattr(self, link)
        values = ({} if former is None else former.model_dump(exclude={"note"})) | dict(changes)
        missing = [name for name in LINKS[link] if name not in values]
        if missing:
            raise InputError(f"--pin: pins for {', '.join(missing)} of {link} are missing as well")
        pins = _PINS[link](**values, note="the pins of --pin")
        changed = self.model_copy(update={link: pins})
        used = list(changed.pins_of(link, memory=self.sdram is not None).values())
        double = sorted({pin for pin in used if used.count(pin) > 1})
        if double:
            raise InputError(f"--pin: {double[0]} of {self.name} would be used more than once")
        return changed

    @property
    def clock_hz(self) -> int:
        """Frequency of the oscillator in Hz."""
        return round(1e6 * self.clock.mhz)

    def constraint_file(self, link: Link = "uart", *, memory: bool = False) -> str:
        """Return the text that assigns pins and the clock for place and route.

        Parameters
        ----------
        link : {"uart", "spi", "udp"}
        memory : bool
            Whether the design has a memory.
        """
        default = self.constraints.standard
        groups = {"clk": self.clock, "led": self.led, "button": self.button}
        lines = []
        for port, pin in self.pins_of(link, memory=memory).items():
            group: Any = groups.get(port) or self.of_link(link)
            if port.startswith("sdram_"):
                group = self.memory
            standard = group.standard or default
            lines.append(self.constraints.pin.format(port=port, pin=pin, standard=standard))
        if self.constraints.clock:
            lines.append(self.constraints.clock.format(port="clk", mhz=f"{self.clock.mhz:g}"))
            if link == "udp":
                lines.append(self.constraints.clock.format(port="rxc", mhz=f"{RGMII_MHZ:g}"))
        return "\n".join([*lines, ""])
