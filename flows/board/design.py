# SPDX-License-Identifier: Apache-2.0
"""The complete design of a board as Verilog."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from flows.board.pads import pads_of
from flows.board.surroundings import BUFFER_BYTES, SILENCE_S, SYSTEM, Surroundings
from flows.build.design import Design
from hwgen.board.model import BoardData, Link
from hwgen.board.pinout import Wire
from hwgen.board.pll import Pll
from hwgen.board.ports import BAUD
from hwgen.board.registry import board, boards
from hwgen.board.sdram import SdramChip, sdram_chips
from hwgen.errors import InputError

if TYPE_CHECKING:
    from rtl_templates.board.memory_system import SystemParams
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

    def check_memory(self) -> None:
        """Raise `InputError` if the board's memory cannot serve the engine."""
        core = self.design.core
        if self.board.sdram is None:
            with_one = ", ".join(name for name in boards() if board(name).sdram)
            raise InputError(
                f"{core.name!r} works on memory, and {self.board.name} has none that is described:"
                f" boards with one are {with_one}; or build it into a SoC (`hwgen board litex`,"
                " `hwgen board vivado`), or a configuration of the core inside it"
            )
        if self.divider != 1:
            raise InputError("--divide: the clock of an SDRAM is not divided; use --clock")
        if sum(bus.protocol == "axi4" for bus in core.buses) != 1:
            raise InputError(f"{core.name!r} has several memory ports: a board serves one")
        try:
            _ = self.system_params
        except ValueError as error:
            raise InputError(f"memory of {core.name!r} and of {self.board.name}: {error}") from None

    @property
    def system_params(self) -> SystemParams:
        """Parameters of the memory system."""
        from rtl_templates.board.memory_system import SystemParams  # start-up time: Amaranth

        core: Any = self.design.core
        return SystemParams(
            core.name, tuple(core.buses), core.params.memory, self.chip, self.clock_hz,
            self.memory_ratio,
        )  # fmt: skip

    @property
    def chip(self) -> SdramChip:
        """The SDRAM."""
        return sdram_chips()[self.board.memory.chip]

    @cached_property
    def system_rtlil(self) -> list[str]:
        """Modules of the memory system in RTLIL; none without one."""
        if not self.on_memory:
            return []
        from rtl_templates.board.memory_system import MemorySystem  # start-up time: Amaranth
        from rtl_templates.hdl.hierarchy import emit_block

        prefix = f"{self.design.name}{SYSTEM}"
        return list(emit_block(MemorySystem(self.system_params), prefix))

    @property
    def name(self) -> str:
        """Name of the top module."""
        return self.inner

    @property
    def oscillator_hz(self) -> int:
        """Frequency at the pin in a simulation: that of the fastest output of a PLL's model."""
        return self.pll.hz * self.memory_ratio if self.pll else self.board.clock_hz

    @property
    def memory_ratio(self) -> int:
        """Cycles of the SDRAM in one of the design."""
        return self.pll.memory_ratio if self.pll else 1

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
            clock_hz=self.pll.hz if self.pll else self.board.clock_hz,
            divider=self.divider,
            baud=self.baud,
            led_low=board.led.active_low if board.led else None,
            button_low=board.button.active_low if board.button else None,
            link=self.link,
            pll=self.pll,
            sdram=self.on_memory,
            memory_ratio=self.memory_ratio,
        )

    @cached_property
    def verilog(self) -> str:
        """The whole design: what is simulated is what the bitstream is made of."""
        return f"{self.surroundings}\n{self.modules}"

    @property
    def top_name(self) -> str:
        """Name of the module whose ports are pins: that with the pads, if there are any."""
        return f"{self.name}_pins" if self.on_memory else self.name

    @property
    def pads(self) -> str:
        """The Verilog of the pads of a memory, the top module then."""
        if not self.on_memory:
            return ""
        return pads_of(self.name, self.top_name, list(self.wires), self.board.memory.pad)
