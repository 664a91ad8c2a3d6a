# SPDX-License-Identifier: Apache-2.0
"""A core with a port to a host as a chip, or a part of one, with few pins."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from flows.board.surroundings import BUFFER_BYTES, SILENCE_S, Surroundings
from flows.build.design import Design
from hwgen.board.model import LINKS, Link
from hwgen.board.pinout import Pinout, Wire
from hwgen.board.ports import BAUD
from hwgen.errors import InputError

if TYPE_CHECKING:
    from rtl_templates.board.top import TopParams

_INITIAL = re.compile(r"^(\s*reg (?:\[[^\]]*\] )?(?!\\\$auto)\S+\s*) = [^;]*;", re.MULTILINE)
_MEMORY = re.compile(r"^  initial begin\n(?:    memory\[\d+\] = [^;]*;\n)*  end\n", re.MULTILINE)


@dataclass(frozen=True, eq=False)
class ChipDesign(Surroundings):
    """A core as a chip. Registers have no values at power-up: the reset gives them theirs.

    Parameters
    ----------
    design : Design
        The hardware of the core.
    pinout : Pinout
    baud : int
        Bits a second of the link.
    buffer_bytes : int
        Bytes of the buffer of each port, a power of two from 16.
    silence_s : float
        Seconds without a byte after which a request that has begun is forgotten.
    link : {"uart", "spi"}

    Raises
    ------
    InputError
        If the core has no stream ports, or the pinout has not the pins of the link.
    """

    design: Design
    pinout: Pinout
    baud: int = BAUD
    buffer_bytes: int = BUFFER_BYTES
    silence_s: float = SILENCE_S
    link: Link = "spi"
    needs_reset: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.check()
        self.pinout.check_link(self.link)
        if self.pinout.module in (self.inner, self.design.name):
            raise InputError(f"module: {self.pinout.module!r} is the name of a module inside")

    @property
    def name(self) -> str:
        """Name of the top module."""
        return self.pinout.module

    @property
    def oscillator_hz(self) -> int:
        """Frequency of the clock in Hz."""
        return round(1e6 * self.pinout.clock_mhz)

    @property
    def clock_hz(self) -> int:
        """Frequency of the clock in Hz."""
        return self.oscillator_hz

    @property
    def wires(self) -> dict[str, Wire]:
        """Bits of ports of the top module by what they are; the reset is the button."""
        names = {"clk": "clk", "button": "reset"} | {name: name for name in LINKS[self.link]}
        if "led" in self.pinout.pins:
            names["led"] = "led"
        return {name: self.pinout.wire(pin) for name, pin in names.items()}

    @property
    def params(self) -> TopParams:
        """Parameters of the module inside."""
        from rtl_templates.board.top import TopParams  # start-up time: Amaranth

        return TopParams(
            self.bridge_params,
            clock_hz=self.clock_hz,
            divider=1,
            baud=self.baud,
            led_low=False if "led" in self.pinout.pins else None,
            button_low=self.pinout.reset_low,
            link=self.link,
            power_up=False,
        )

    @cached_property
    def verilog(self) -> str:
        """The whole design, without values at power-up, which chips do not have."""
        inside = _MEMORY.sub("", _INITIAL.sub(r"\1;", self.surroundings))
        return f"{''.join(self._shell())}\n{inside}\n{self.modules}"

    def _shell(self) -> Iterator[str]:
        """Yield the top module, which connects ports to the module inside."""
        ports = self.pinout.all_ports(self.link)
        listed = ",\n".join(
            f"  {port.direction}put wire "
            + (f"[{port.width - 1}:0] " if port.width > 1 else "")
            + port.name
            for port in ports
        )
        yield f"module {self.name}(\n{listed}\n);\n"
        connections = ", ".join(f".{name}({wire})" for name, wire in self.wires.items())
        yield f"  {self.inner} hwgen_core ({connections});\n"
        driven = {str(wire) for wire in self.wires.values()}
        ones = {str(self.pinout.wire_of(text)) for text in self.pinout.ones}
        for port in ports:
            if port.direction == "out":
                for bit in range(port.width):
                    wire = str(Wire(port.name, bit, port.width))
                    if wire not in driven:
                        yield f"  assign {wire} = 1'b{int(wire in ones)};\n"
        unused = [port.name for port in ports if port.direction == "in"]
        yield f"  wire hwgen_unused = &{{1'b0, {', '.join(unused)}}};\nendmodule\n"

    @property
    def files(self) -> dict[str, str]:
        """Files to write: the design and its description."""
        core = self.design.core
        document = {
            "name": core.name,
            "module": self.name,
            "digest": core.digest,
            "link": self.link,
            "clock_mhz": self.clock_mhz,
            "baud": self.baud,
            "buffer_bytes": self.buffer_bytes,
            "pins": {name: str(wire) for name, wire in self.wires.items()},
            "reset_active": 0 if self.pinout.reset_low else 1,
        }
        return {
            f"{self.name}.v": self.verilog,
            "chip.json": json.dumps(document, indent=2) + "\n",
        }
