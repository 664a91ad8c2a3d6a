# SPDX-License-Identifier: Apache-2.0
"""Hierarchy that exists before elaboration.

Amaranth elaborates a submodule as often as it is instantiated, so an array of N x N processing
elements costs N x N elaborations and as much text.  A `Block` is elaborated and emitted once;
`place` instantiates it any number of times.  Time and text then grow with the number of
*different* modules.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, ClockSignal, Instance, Module, ResetSignal, ValueLike
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring
from amaranth.lib.wiring import In


class Block(wiring.Component):
    """A component that is emitted as a module of its own, once.

    Parameters
    ----------
    module_name : str
        Name of the module, unique for the parameters that shape it.
    signature : mapping
        Members; every one a plain value (no nested interface).

    Attributes
    ----------
    clocked, resettable : bool
        Whether the module has the ports ``clk`` and ``rst``.  Datapath modules have no reset:
        their contents are never looked at before a token, which is reset, says that they are
        valid.
    """

    clocked = True
    resettable = False

    def __init__(self, module_name: str, signature: dict[str, Any]) -> None:
        self.module_name = module_name
        self._domain = ClockDomain("sync", reset_less=not self.resettable)
        super().__init__(signature)

    def build(self, m: Module) -> None:
        """Fill module `m` with the block's logic."""
        raise NotImplementedError

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        if self.clocked:
            m.domains += self._domain
        self.build(m)
        return m


class _Emission:
    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.pending: list[Block] = []
        self.seen: dict[str, Block] = {}

    def name_of(self, block: Block) -> str:
        if block.module_name not in self.seen:
            self.seen[block.module_name] = block
            self.pending.append(block)
        return f"{self.prefix}_{block.module_name}"


_emission: ContextVar[_Emission | None] = ContextVar("emission", default=None)


def place(m: Module, name: str, block: Block, **connections: ValueLike) -> None:
    """Instantiate `block` in `m` as `name`, its ports connected by keyword.

    Raises
    ------
    TypeError
        If a port of the block is left out or a connection names no port.
    ValueError
        If the width of a connection is not the port's.
    """
    emission = _emission.get()
    if emission is None:
        raise RuntimeError("blocks are instantiated only within rtl_templates.hierarchy.emit()")
    ports: dict[str, Any] = {}
    for port, member in block.signature.members.items():
        if port not in connections:
            raise TypeError(f"{block.module_name}: port {port!r} of {name!r} is not connected")
        value = connections.pop(port)
        width, given = _width(member.shape), _width(value)
        if width != given:
            raise ValueError(
                f"{block.module_name}: port {port!r} of {name!r} is {width} bits wide, not {given}"
            )
        ports[("i_" if member.flow == In else "o_") + port] = value
    if connections:
        raise TypeError(f"{block.module_name}: no port is called {', '.join(connections)}")
    if block.clocked:
        ports["i_clk"] = ClockSignal()
        if block.resettable:
            ports["i_rst"] = ResetSignal()
    m.submodules[name] = Instance(emission.name_of(block), **ports)


def _width(thing: Any) -> int:
    from amaranth.hdl import Shape, Value

    try:
        return Shape.cast(thing).width
    except TypeError:
        return len(Value.cast(thing))


def emit(top: Any, name: str, ports: dict[str, tuple[Any, PortDirection]]) -> Iterator[str]:
    """Yield the RTLIL of `top` and of every block below it, each distinct module once.

    Parameters
    ----------
    top : elaboratable
        The top module.
    name : str
        Name of the top module and prefix of all others.
    ports : dict
        Ports of the top module: name to (signal, direction).
    """
    with _emitting(name) as emission:
        yield rtlil.convert(top, name=name, ports=ports, emit_src=False)
        while emission.pending:
            block = emission.pending.pop(0)
            yield _convert(block, emission.name_of(block))


@contextmanager
def _emitting(prefix: str) -> Iterator[_Emission]:
    token = _emission.set(emission := _Emission(prefix))
    try:
        yield emission
    finally:
        _emission.reset(token)


def _convert(block: Block, name: str) -> str:
    ports: dict[str, tuple[Any, PortDirection]] = {}
    if block.clocked:
        ports["clk"] = (block._domain.clk, PortDirection.Input)
        if block.resettable:
            ports["rst"] = (block._domain.rst, PortDirection.Input)
    for port, member in block.signature.members.items():
        direction = PortDirection.Input if member.flow == In else PortDirection.Output
        ports[port] = (getattr(block, port), direction)
    return rtlil.convert(block, name=name, ports=ports, emit_src=False)
