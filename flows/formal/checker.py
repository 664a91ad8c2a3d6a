# SPDX-License-Identifier: Apache-2.0
"""Base of the property library: hardware that observes a block, with what must hold.

A checker is the top of a circuit that contains the block.  Inputs of the block are free in every
cycle, and so is a reset after the first cycle.  A property is violated in a cycle without reset in
which all assumptions hold, and held since the last reset.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import Cat, ClockDomain, Const, Instance, Module, Signal, Value
from amaranth.hdl._ir import PortDirection

DUT = "dut"
"""Name of the block's module and of its instance in a checker."""

CHECKER = "checker"
"""Name of the module of a checker."""

BROKEN, ANY, REACHED, SEEN = "broken", "any_broken", "reached", "seen"
"""Outputs of a checker: violated properties, whether there is one, covers, and what is shown."""

CLOCKS = ("clk", "aclk")
"""Names of the clock of blocks and designs."""

PROBE = "probe_"


@dataclass(frozen=True)
class Port:
    """A port of the block: bits and direction."""

    width: int
    inward: bool


@dataclass(frozen=True)
class Statement:
    """A property, an assumption or a cover.

    Parameters
    ----------
    name : str
    about : str
        What it says, in words.
    """

    name: str
    about: str


class Checker(ABC):
    """Base of checkers.

    Parameters
    ----------
    ports : mapping
        Ports of the block by name.
    probes : mapping
        Registers inside the block that lemmas use: name to the net, as Yosys names it in the flat
        block, and its bits.

    Attributes
    ----------
    properties, covers, assumptions : list of Statement
        Filled by `rtlil`.  A property whose name begins with ``lemma`` is a
        step of the proof of others.
    driven : set of str
        Inputs of the block that the checker drives: they are not free.
    """

    def __init__(
        self, ports: Mapping[str, Port], probes: Mapping[str, tuple[str, int]] | None = None
    ) -> None:
        self.ports, self.probes = dict(ports), dict(probes or {})
        self.signals = {name: Signal(port.width, name=name) for name, port in ports.items()}
        self.probed = {name: Signal(bits, name=f"{PROBE}{name}")
                       for name, (_, bits) in self.probes.items()}  # fmt: skip
        self.free: dict[str, Signal] = {}
        self.driven: set[str] = set()
        self.properties: list[Statement] = []
        self.covers: list[Statement] = []
        self.assumptions: list[Statement] = []
        self._broken: list[Value] = []
        self._reached: list[Value] = []
        self._assumed: list[Value] = []
        self._clock, self._reset = Signal(name="clk"), Signal(name="free_reset")

    @abstractmethod
    def check(self, m: Module) -> None:
        """State properties, assumptions and covers."""

    def __getitem__(self, name: str) -> Signal:
        return self.signals[name]

    def require(self, name: str, value: Any, about: str) -> None:
        """State that a value is not 0 in any cycle."""
        self.properties.append(Statement(name, about))
        self._broken.append(~Value.cast(value).any())

    def assume(self, name: str, value: Any, about: str) -> None:
        """Restrict the environment to cycles in which a value is not 0."""
        self.assumptions.append(Statement(name, about))
        self._assumed.append(Value.cast(value).any())

    def cover(self, name: str, value: Any, about: str) -> None:
        """State that a cycle in which a value is not 0 can be reached."""
        self.covers.append(Statement(name, about))
        self._reached.append(Value.cast(value).any())

    def choose(self, name: str, width: int = 1) -> Signal:
        """Return a signal with any value in each cycle."""
        self.free[name] = Signal(width, name=f"any_{name}")
        return self.free[name]

    def rtlil(self) -> str:
        """Return the checker in RTLIL, the module `CHECKER` with an instance of the block."""
        return self._convert(CHECKER, alone=False)

    def monitor(self, name: str) -> str:
        """Return the checker in RTLIL without the block, whose ports are all inputs.

        Lemmas, which look inside the block, have no meaning then.
        """
        return self._convert(name, alone=True)

    def _convert(self, module: str, *, alone: bool) -> str:
        m = Module()
        m.domains.start = start = ClockDomain(reset_less=True)
        m.domains.sync = domain = ClockDomain()
        started, legal, now = Signal(), Signal(init=1), Signal()
        m.d.comb += [
            start.clk.eq(self._clock),
            domain.clk.eq(self._clock),
            domain.rst.eq(~started | self._reset),
        ]
        m.d.start += started.eq(1)
        special = {name: self._clock for name in CLOCKS}
        special |= {"rst": domain.rst, "aresetn": ~domain.rst}
        if not alone:
            m.submodules[DUT] = Instance(
                DUT,
                **{
                    f"{'i' if port.inward else 'o'}_{name}": special.get(name, self.signals[name])
                    for name, port in self.ports.items()
                },
            )
        self.check(m)
        allowed = Cat(Const(1, 1), *self._assumed).all()
        m.d.comb += now.eq(legal & ~domain.rst & allowed)
        m.d.sync += legal.eq(legal & allowed)
        observed = [self.signals[name] for name in self.observed]
        outputs = {
            BROKEN: Cat(now & each for each in self._broken),
            ANY: now & Cat(*self._broken).any(),
            REACHED: Cat(now & each for each in self._reached),
            SEEN: Cat(domain.rst, *observed),
        }
        if alone:
            del outputs[ANY], outputs[SEEN]
        ports = {"clk": (self._clock, PortDirection.Input),
                 "free_reset": (self._reset, PortDirection.Input)}  # fmt: skip
        inputs = [self.signals[name] for name, port in self.ports.items()
                  if (port.inward or alone) and name not in (*special, *self.driven)]  # fmt: skip
        probes = () if alone else self.probed.values()
        for signal in (*inputs, *probes, *self.free.values()):
            ports[signal.name] = (signal, PortDirection.Input)
        for name, value in outputs.items():
            signal = Signal(len(value), name=name)
            m.d.comb += signal.eq(value)
            ports[name] = (signal, PortDirection.Output)
        return str(rtlil.convert(m, name=module, ports=ports, emit_src=False))

    @property
    def observed(self) -> list[str]:
        """Ports of the block whose values a counterexample shows."""
        return [name for name in self.ports if name not in (*CLOCKS, "rst", "aresetn")]
