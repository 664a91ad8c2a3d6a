# SPDX-License-Identifier: Apache-2.0
"""A core with a port to a host around it: what designs of boards and of chips share."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from flows.build.analysis import CachedAnalysis
from flows.build.design import Design
from hwgen.board.datagrams import Address
from hwgen.board.memory_commands import WORD_BYTES
from hwgen.board.model import Link
from hwgen.board.pinout import Wire
from hwgen.board.protocol import DIGEST_BYTES, MOST_PORTS
from hwgen.board.sdram import SdramChip
from hwgen.errors import InputError

if TYPE_CHECKING:
    from cost_model.estimate.analysis import Analysis
    from rtl_templates.board.bridge import BridgeParams
    from rtl_templates.board.top import BoardTop, TopParams

BUFFER_BYTES = 512
"""Bytes of the buffer of a port: a block memory of the smallest family."""

SILENCE_S = 0.02
"""Seconds without a byte after which a request that has begun is forgotten."""

SYSTEM = "_memory"
"""The names of modules of a memory system begin with that of the core and this."""

SUFFIX = "_board"
"""The name of the core with its surroundings is that of the core and this."""

CLOCKS_PER_BIT: dict[Link, int] = {"uart": 4, "spi": 8}
"""Clock cycles of a bit of a link at least, where it has a rate that is chosen."""

_SHARES = {4: "a quarter", 8: "an eighth"}
_DOTTED = re.compile(r"\\(\w+(?:\.[\w$]+)+) ")


class Surroundings(ABC):
    """A core with bridge and link, as Verilog whose pins a simulation reaches.

    Subclasses are dataclasses with these attributes.

    Attributes
    ----------
    design : Design
        The hardware of the core.
    baud : int
        Bits a second of the link.
    buffer_bytes : int
        Bytes of the buffer of each port, a power of two from 16.
    silence_s : float
        Seconds without a byte after which a request that has begun is forgotten.
    link : {"uart", "spi", "udp"}
    address : Address or None
        Addresses in a network, where the link is one.
    """

    design: Design
    baud: int
    buffer_bytes: int
    silence_s: float
    link: Link
    address: Address | None = None
    needs_reset: ClassVar[bool] = False
    """Whether nothing but the button brings it into a defined state."""

    # -- what differs ----------------------------------------------------------------------------

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the top module."""

    @property
    @abstractmethod
    def verilog(self) -> str:
        """The whole design, with its top module."""

    @property
    @abstractmethod
    def oscillator_hz(self) -> int:
        """Frequency at the pin of the clock in a simulation, in Hz."""

    @property
    @abstractmethod
    def clock_hz(self) -> int:
        """Frequency of the design in Hz."""

    @property
    @abstractmethod
    def wires(self) -> dict[str, Wire]:
        """Bits of ports of the top module: clk, those of the link, led, button."""

    @property
    @abstractmethod
    def params(self) -> TopParams:
        """Parameters of the core's surroundings."""

    @property
    def ratio(self) -> int:
        """Cycles of the SDRAM in a cycle of the design."""
        return 1

    @property
    def sampled_edges(self) -> int:
        """Edges after which pads sample a word of an SDRAM with twice the clock."""
        return 0

    @property
    def bit_rate(self) -> float:
        """Bits a second of the link, or frequency in Hz of the clock that comes with it."""
        return self.baud

    @property
    def models(self) -> str:
        """Verilog of primitives of the FPGA, for simulation alone."""
        return ""

    # -- what is common --------------------------------------------------------------------------

    @property
    def clock_mhz(self) -> float:
        """Frequency of the design in MHz."""
        return self.clock_hz / 1e6

    @property
    def on_memory(self) -> bool:
        """Whether the core works on memory, which the surroundings have then."""
        return bool(self.design.core.buses)

    @property
    def chip(self) -> SdramChip:
        """The SDRAM that an engine works on."""
        raise InputError(f"{self.design.core.name!r} has no memory")

    @property
    def bridge_params(self) -> BridgeParams:
        """Parameters of the bridge."""
        from rtl_templates.board.bridge import BridgeParams  # start-up time: Amaranth

        core = self.design.core
        inputs = tuple((p.beat_bytes, bool(p.last)) for p in core.ports if p.direction == "in")
        outputs = [port.beat_bytes for port in core.ports if port.direction == "out"]
        if self.on_memory:  # words of commands and of answers
            inputs, outputs = ((WORD_BYTES, False),), [WORD_BYTES]
        return BridgeParams(
            digest=bytes.fromhex(core.digest)[:DIGEST_BYTES],
            inputs=inputs,
            output=outputs[0],
            buffer_bytes=self.buffer_bytes,
            silence_cycles=round(self.clock_hz * self.silence_s),
        )

    def check(self) -> None:
        """Raise `InputError` if the core has no streams, or a setting is out of range."""
        if self.on_memory:
            self.check_memory()
        else:
            self._check_streams()
        size = self.buffer_bytes
        if not 16 <= size <= 1 << 15 or size & (size - 1):
            raise InputError(f"--buffer: must be a power of two, 16..32768 bytes, not {size}")
        self.check_rate()

    def check_rate(self) -> None:
        """Raise `InputError` if the link's rate and the clock do not fit together."""
        if self.link not in CLOCKS_PER_BIT:
            raise InputError(f"--link: a chip has no Ethernet core: {self.link} is for boards")
        clocks = CLOCKS_PER_BIT[self.link]
        most = self.clock_hz // clocks
        if not 1200 <= self.baud <= most:
            raise InputError(
                f"--baud: must be 1200..{most} at {self.clock_mhz:g} MHz, {_SHARES[clocks]} of the"
                f" clock, not {self.baud}"
            )

    def check_memory(self) -> None:
        """Raise `InputError` unless an engine on memory can be had: here none can."""
        raise InputError(
            f"{self.design.core.name!r} has no stream ports: it works on memory, and there is none."
            " Engines go on boards with a memory (ulx3s-85f), or into a SoC by `hwgen board litex`"
            " or `hwgen board vivado`; of a core inside one, build a configuration of its own"
        )

    def _check_streams(self) -> None:
        core = self.design.core
        inputs = [port for port in core.ports if port.direction == "in"]
        if len(core.ports) - len(inputs) != 1:
            raise InputError(
                f"{core.name!r} has several ports for results: a bridge serves cores with one"
            )
        if not 1 <= len(inputs) <= MOST_PORTS:
            raise InputError(f"{core.name!r} has {len(inputs)} input ports, not 1..{MOST_PORTS}")

    @property
    def inner(self) -> str:
        """Name of the module of the core with its surroundings."""
        return self.design.name + SUFFIX

    @cached_property
    def surroundings(self) -> str:
        """The Verilog of that module without the core."""
        from amaranth.back import verilog  # start-up time

        top = self.top()
        text: str = verilog.convert(
            top, name=self.inner, ports=top.pins, emit_src=False, strip_internal_attrs=True
        )
        # Amaranth joins names of modules with dots; the first line names the Yosys at hand.
        return _DOTTED.sub(lambda name: name[1].replace(".", "_") + " ", text.split("\n", 1)[1])

    @cached_property
    def analysis(self) -> Analysis:
        """The analysis of that module, for estimates."""
        from amaranth.back import rtlil  # start-up time

        from flows.build.netlist_cache import convert

        top = self.top(self.plain_params)
        text: str = rtlil.convert(top, name=self.inner, ports=top.pins, emit_src=False)
        texts = [text, *self.system_rtlil, *self.link_rtlil, *self.design.rtlil]
        netlist = convert(texts, self.inner).netlist
        return CachedAnalysis(netlist.key, lambda: netlist)

    @property
    def plain_params(self) -> TopParams:
        """Parameters without primitives, of which estimates know nothing."""
        return replace(self.params, pll=None)

    def top(self, params: TopParams | None = None) -> BoardTop:
        """Return the hardware of that module, by default with `params`."""
        from rtl_templates.board.top import BoardTop  # start-up time

        core = self.design.core
        module = f"{core.name}{SYSTEM}_system" if self.on_memory else core.name
        return BoardTop(module, core.ports, params or self.params)

    @cached_property
    def system_rtlil(self) -> list[str]:
        """Modules of the memory system in RTLIL; none without one."""
        return []

    @property
    def link_rtlil(self) -> list[str]:
        """Modules of the link in RTLIL, for estimates."""
        return []

    @property
    def modules(self) -> str:
        """The Verilog of what the top module instantiates."""
        if not self.system_rtlil:
            return self.design.verilog
        from flows.build.verilog import rtlil_to_verilog  # start-up time: Amaranth

        return f"{rtlil_to_verilog(self.system_rtlil)}\n{self.design.verilog}"
