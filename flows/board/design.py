# SPDX-License-Identifier: Apache-2.0
"""The complete design of a board as Verilog."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from flows.board import ethernet
from flows.board.ethernet import LEAST_MHZ, ethernet_rtlil, ethernet_verilog
from flows.board.pads import pads_of
from flows.board.surroundings import BUFFER_BYTES, SILENCE_S, SYSTEM, Surroundings
from flows.build.design import Design
from hwgen.board.datagrams import ADDRESS, Address
from hwgen.board.model import RGMII_MHZ, BoardData, Link
from hwgen.board.pinout import Wire
from hwgen.board.pll import Pll
from hwgen.board.ports import BAUD
from hwgen.board.registry import board, boards
from hwgen.board.sdram import RATIOS, SdramChip, sdram_chips
from hwgen.board.sdram_pads import PADS, Margins, best_phase, margins
from hwgen.errors import InputError

if TYPE_CHECKING:
    from rtl_templates.board.memory_system import SystemParams
    from rtl_templates.board.top import TopParams

_PHASE = ("CLKOP_DIV", "CLKOS_DIV", "CLKOS_CPHASE", "CLKOS_FPHASE")

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
    link : {"uart", "spi", "udp"}
    pll : Pll, optional
        Makes the clock; default the oscillator's, divided.
    memory_ratio : int
        Cycles of the SDRAM in a cycle of the design: 1, or 2 where a PLL makes its clock and the
        pads are left a margin.
    address : Address
        Addresses in a network, where the link is one.

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
    memory_ratio: int = 1
    address: Address = ADDRESS

    def __post_init__(self) -> None:
        if self.divider not in DIVIDERS:
            allowed = ", ".join(map(str, DIVIDERS))
            raise InputError(f"--divide: must be one of {allowed}, not {self.divider}")
        if self.pll is not None and self.divider != 1:
            raise InputError("--divide: a clock is made by a PLL or divided, not both")
        self.check()
        self.board.of_link(self.link)

    def check_rate(self) -> None:
        """Raise `InputError` if the link's rate and the clock do not fit together."""
        if self.link != "udp":
            super().check_rate()
        elif self.clock_mhz < LEAST_MHZ:
            raise InputError(
                f"--link: udp needs a clock of {LEAST_MHZ:g} MHz or more, not of"
                f" {self.clock_mhz:g} MHz: choose one by --clock"
            )

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
        self._check_ratio()
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
            **self._at_pads,
        )  # fmt: skip

    @property
    def _at_pads(self) -> dict[str, int]:
        """Parameters of a controller whose chip has twice the clock."""
        if self.ratio == 1:
            return {}
        registers = PADS[self.board.memory.pad]
        return {"ratio": self.ratio, "capture": registers.capture(self.margins.sampled)}

    def _check_ratio(self) -> None:
        """Raise `InputError` if the SDRAM cannot have that many cycles in one of the design."""
        name, ratio = self.board.name, self.memory_ratio
        if ratio not in RATIOS:
            raise InputError(f"--memory-ratio: must be 1 or 2, not {ratio}")
        if ratio == 1:
            return
        if self.board.memory.pad not in PADS:
            raise InputError(f"--memory-ratio: the pads of {name} have no registers for 2")
        if self.pll is None or not self.pll.phases_ns:
            raise InputError(
                "--memory-ratio: 2 needs a PLL with a second output: choose a clock (--clock) that"
                f" is not the {self.board.clock.mhz:g} MHz of the oscillator of {name}"
            )
        try:
            _ = self._phase
        except ValueError as error:
            raise InputError(f"--memory-ratio: {error}; or take 1") from None

    @cached_property
    def _phase(self) -> tuple[float, Margins]:
        """Phase of the SDRAM's clock in ns, and the margins that it leaves."""
        assert self.pll is not None
        registers, period = PADS[self.board.memory.pad], 1e9 / self.pll.hz / max(RATIOS)
        return best_phase(self.chip, registers, period, self.pll.phases_ns)

    @property
    def margins(self) -> Margins:
        """Margins at the pads of an SDRAM with twice the clock of the design."""
        return self._phase[1]

    @property
    def ratio(self) -> int:
        """Cycles of the SDRAM in a cycle of the design."""
        return self.memory_ratio if self.on_memory else 1

    @property
    def sampled_edges(self) -> int:
        """Edges after which the pads surely sample a word, by the phase that the PLL is set to."""
        loop = self.loop
        if loop is None or loop.phase_ns is None:
            return 0
        settings = {name: int(value) for name, value in loop.parameters if name in _PHASE}
        # From the settings in the Verilog alone: cycles of the oscillator, and eighths of them.
        cycles = settings["CLKOS_CPHASE"] + 1 + settings["CLKOS_FPHASE"] / 8
        period = 1e9 / loop.hz / settings["CLKOP_DIV"]
        clock_ns = period * settings["CLKOS_DIV"]
        later = cycles % settings["CLKOS_DIV"] * period
        left = margins(self.chip, PADS[self.board.memory.pad], clock_ns, later)
        return left.sampled if left.least >= 0 else 0

    @property
    def loop(self) -> Pll | None:
        """The PLL, with the second output that an SDRAM of twice the clock needs."""
        if self.pll is None or self.ratio == 1:
            return self.pll
        return self.pll.doubled(self._phase[0])

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
        """Frequency at the pin in a simulation: a model of a PLL counts cycles of its output."""
        return self.pll.hz if self.pll else self.board.clock_hz

    @property
    def clock_hz(self) -> int:
        """Frequency of the design in Hz."""
        return self.pll.hz if self.pll else self.board.clock_hz // self.divider

    @property
    def bit_rate(self) -> float:
        """Bits a second of the link, or frequency in Hz of the clock that comes with it."""
        return 1e6 * RGMII_MHZ if self.link == "udp" else self.baud

    @property
    def models(self) -> str:
        """Models of the PLL and of other primitives, if there are any."""
        from rtl_templates.board.pll import model  # start-up time: Amaranth

        pads = ethernet.models() if self.link == "udp" else ""
        return pads + (model(self.loop) if self.loop else "")

    @property
    def declarations(self) -> str:
        """Declarations of primitives, for synthesis."""
        from rtl_templates.board.pll import declaration  # start-up time: Amaranth

        pads = ethernet.declarations() if self.link == "udp" else ""
        return pads + (declaration(self.loop) if self.loop else "")

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
            pll=self.loop,
            sdram=self.on_memory,
            ratio=self.ratio,
            ethernet=(self._ethernet, self.address.port) if self.link == "udp" else None,
        )

    @property
    def _ethernet(self) -> str:
        """Name of the module of the Ethernet core."""
        return f"{self.design.name}_ethernet"

    @property
    def _ethernet_verilog(self) -> str:
        """The Ethernet core; empty without one."""
        if self.link != "udp":
            return ""
        return ethernet_verilog(self._ethernet, self.address, self.clock_hz)

    @property
    def link_rtlil(self) -> list[str]:
        """The Ethernet core in RTLIL, for estimates; none without one."""
        if self.link != "udp":
            return []
        return [ethernet_rtlil(self._ethernet, self._ethernet_verilog)]

    @cached_property
    def verilog(self) -> str:
        """The whole design: what is simulated is what the bitstream is made of."""
        return f"{self.surroundings}\n{self._ethernet_verilog}{self.modules}"

    @property
    def top_name(self) -> str:
        """Name of the module whose ports are pins: that with the pads, if there are any."""
        return f"{self.name}_pins" if self.on_memory else self.name

    @property
    def pads(self) -> str:
        """The Verilog of the pads of a memory, the top module then."""
        if not self.on_memory:
            return ""
        pad = self.board.memory.pad
        return pads_of(self.name, self.top_name, list(self.wires), pad, self.ratio)
