# SPDX-License-Identifier: Apache-2.0
"""The complete design of a board as Verilog."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from flows.build.analysis import CachedAnalysis
from flows.build.design import Design
from hwgen.board.link import BAUD
from hwgen.board.model import BoardData
from hwgen.board.protocol import DIGEST_BYTES, MOST_PORTS
from hwgen.errors import InputError

if TYPE_CHECKING:
    from cost_model.estimate.analysis import Analysis
    from rtl_templates.board.top import BoardTop, TopParams

BUFFER_BYTES = 512
"""Bytes of the buffer of a port: a block memory of the smallest family."""

DIVIDERS = (1, 2, 4, 8, 16)
"""Cycles of the oscillator in a cycle of the design."""

SILENCE_S = 0.02
"""Seconds without a byte after which a request that has begun is forgotten."""

SUFFIX = "_board"
"""The top module's name is that of the core and this."""

_DOTTED = re.compile(r"\\(\w+(?:\.[\w$]+)+) ")


@dataclass(frozen=True, eq=False)
class BoardDesign:
    """A core on a board.

    Parameters
    ----------
    design : Design
        The hardware of the core.
    board : BoardData
    baud : int
        Bits a second of the serial port.
    divider : int
        One of `DIVIDERS`.
    buffer_bytes : int
        Bytes of the buffer of each port, a power of two from 16.
    silence_s : float
        Seconds without a byte after which a request that has begun is forgotten.

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

    def __post_init__(self) -> None:
        core = self.design.core
        inputs = [port for port in core.ports if port.direction == "in"]
        if core.buses or len(core.ports) - len(inputs) != 1:
            raise InputError(
                f"{core.name!r} has no stream ports, or several for results: the bridge of a board"
                " serves cores with streams; `hwgen families` lists the ports of each"
            )
        if not 1 <= len(inputs) <= MOST_PORTS:
            raise InputError(f"{core.name!r} has {len(inputs)} input ports, not 1..{MOST_PORTS}")
        if self.divider not in DIVIDERS:
            allowed = ", ".join(map(str, DIVIDERS))
            raise InputError(f"--divide: must be one of {allowed}, not {self.divider}")
        size = self.buffer_bytes
        if not 16 <= size <= 1 << 15 or size & (size - 1):
            raise InputError(f"--buffer: must be a power of two, 16..32768 bytes, not {size}")
        most = self.clock_hz // 4
        if not 1200 <= self.baud <= most:
            raise InputError(
                f"--baud: must be 1200..{most} at {self.clock_mhz:g} MHz, a quarter of the clock,"
                f" not {self.baud}"
            )

    @property
    def name(self) -> str:
        """Name of the top module."""
        return self.design.name + SUFFIX

    @property
    def clock_hz(self) -> int:
        """Frequency of the design in Hz."""
        return self.board.clock_hz // self.divider

    @property
    def clock_mhz(self) -> float:
        """Frequency of the design in MHz."""
        return self.clock_hz / 1e6

    @property
    def params(self) -> TopParams:
        """Parameters of the top module."""
        from rtl_templates.board.bridge import BridgeParams  # start-up time: Amaranth
        from rtl_templates.board.top import TopParams

        core, board = self.design.core, self.board
        ports = core.ports
        return TopParams(
            BridgeParams(
                digest=bytes.fromhex(core.digest)[:DIGEST_BYTES],
                inputs=tuple((p.beat_bytes, bool(p.last)) for p in ports if p.direction == "in"),
                output=next(port.beat_bytes for port in ports if port.direction == "out"),
                buffer_bytes=self.buffer_bytes,
                silence_cycles=round(self.clock_hz * self.silence_s),
            ),
            clock_hz=board.clock_hz,
            divider=self.divider,
            baud=self.baud,
            led_low=board.led.active_low if board.led else None,
            button_low=board.button.active_low if board.button else None,
        )

    @cached_property
    def verilog(self) -> str:
        """The whole design: what is simulated is what the bitstream is made of."""
        return f"{self.surroundings}\n{self.design.verilog}"

    @cached_property
    def surroundings(self) -> str:
        """The Verilog without the core."""
        from amaranth.back import verilog  # start-up time

        top = self._top()
        text: str = verilog.convert(
            top, name=self.name, ports=top.pins, emit_src=False, strip_internal_attrs=True
        )
        # Amaranth joins names of modules with dots; the first line names the Yosys at hand.
        return _DOTTED.sub(lambda name: name[1].replace(".", "_") + " ", text.split("\n", 1)[1])

    @cached_property
    def analysis(self) -> Analysis:
        """The analysis of the whole design, for estimates."""
        from amaranth.back import rtlil  # start-up time

        from flows.build.netlist_cache import convert

        top = self._top()
        text: str = rtlil.convert(top, name=self.name, ports=top.pins, emit_src=False)
        netlist = convert([text, *self.design.rtlil], self.name).netlist
        return CachedAnalysis(netlist.key, lambda: netlist)

    def _top(self) -> BoardTop:
        from rtl_templates.board.top import BoardTop  # start-up time

        return BoardTop(self.design.name, self.design.core.ports, self.params)
