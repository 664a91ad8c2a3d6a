# SPDX-License-Identifier: Apache-2.0
"""The complete design of a board as Verilog."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from flows.board.surroundings import BUFFER_BYTES, SILENCE_S, Surroundings
from flows.build.design import Design
from hwgen.board.link import BAUD
from hwgen.board.model import BoardData, Link
from hwgen.board.pinout import Wire
from hwgen.board.pll import Pll
from hwgen.errors import InputError

if TYPE_CHECKING:
    from rtl_templates.board.top import TopParams

DIVIDERS = (1, 2, 4, 8, 16)
"""Cycles of the oscillator in a cycle of the design."""


@dataclass(frozen=True, eq=False)
class BoardDesign(Surroundings):
    """A core on a board.

    Parameters
    ----------
    design : Design
        The hardware of the core.
    board : BoardData
    baud : int
        Bits a second of the link.
    divider : int
        One of `DIVIDERS`.
    buffer_bytes : int
        Bytes of the buffer of each port, a power of two from 16.
    silence_s : float
        Seconds without a byte after which a request that has begun is forgotten.
    link : {"uart", "spi"}
    pll : Pll, optional
        Makes the clock; default the oscillator's, divided.

    Raises
    ------
    InputError
        If the core has no stream ports, or the board has not what is asked for.
    """

    design: Design
    board: BoardData
    baud: int = BAUD
    divider: int = 1
    buffer_bytes: int = BUFFER_BYTES
    silence_s: float = SILENCE_S
    link: Link = "uart"
    pll: Pll | None = None

    def __post_init__(self) -> None:
        if self.divider not in DIVIDERS:
            allowed = ", ".join(map(str, DIVIDERS))
            raise InputError(f"--divide: must be one of {allowed}, not {self.divider}")
        if self.pll is not None and self.divider != 1:
            raise InputError("--divide: a clock is made by a PLL or divided, not both")
        self.check()
        self.board.of_link(self.link)

    @property
    def name(self) -> str:
        """Name of the top module."""
        return self.inner

    @property
    def oscillator_hz(self) -> int:
        """Frequency at the pin in a simulation: a model of a PLL counts cycles of its output."""
        return self.pll.hz if self.pll else self.board.clock_hz

    @property
    def clock_hz(self) -> int:
        """Frequency of the design in Hz."""
        return self.pll.hz if self.pll else self.board.clock_hz // self.divider

    @property
    def models(self) -> str:
        """The model of the PLL, if there is one."""
        from rtl_templates.board.pll import model  # start-up time: Amaranth

        return model(self.pll) if self.pll else ""

    @property
    def declarations(self) -> str:
        """Declarations of primitives, for synthesis."""
        from rtl_templates.board.pll import declaration  # start-up time: Amaranth

        return declaration(self.pll) if self.pll else ""

    @property
    def wires(self) -> dict[str, Wire]:
        """Ports of the top module by what they are."""
        return {name: Wire(name) for name in self.board.pins_of(self.link)}

    @property
    def params(self) -> TopParams:
        """Parameters of the top module."""
        from rtl_templates.board.top import TopParams  # start-up time: Amaranth

        board = self.board
        return TopParams(
            self.bridge_params,
            clock_hz=self.oscillator_hz,
            divider=self.divider,
            baud=self.baud,
            led_low=board.led.active_low if board.led else None,
            button_low=board.button.active_low if board.button else None,
            link=self.link,
            pll=self.pll,
        )

    @cached_property
    def verilog(self) -> str:
        """The whole design: what is simulated is what the bitstream is made of."""
        return f"{self.surroundings}\n{self.design.verilog}"
