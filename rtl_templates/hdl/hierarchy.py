# SPDX-License-Identifier: Apache-2.0
"""Hierarchy that exists before elaboration.

Amaranth elaborates a submodule as often as it is instantiated, so an array of N x N processing
elements costs N x N elaborations and as much text.  A `Block` is elaborated and emitted once;
`place` instantiates it any number of times.  Time and text then grow with the number of
*different* modules.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import (
    ClockDomain,
    ClockSignal,
    Elaboratable,
    Instance,
    Module,
    ResetSignal,
    Shape,
    Signal,
    Value,
    ValueLike,
)
from amaranth.hdl._ir import PortDirection
from amaranth.lib.wiring import In, Member, Out

from hwgen.core.params.module_limits import MODULE_BITS
from hwgen.errors import InputError
from rtl_templates.hdl.netlists import quicken, released

_TOP = "attribute \\top 1\n"


class Block:
    """Description of a module that is emitted once, however often it is placed.

    Describing a block costs nothing; its signals and logic are made when it is emitted.

    Parameters
    ----------
    module_name : str
        Name of the module, unique for the parameters that shape it.
    members : dict
        Ports: name to `amaranth.lib.wiring.Member` with a plain shape.

    Attributes
    ----------
    resettable : bool
        Whether the module has the port ``rst`` beside ``clk``.  Datapath modules have no reset:
        their contents are never looked at before a token, which is reset, says that they are
        valid.
    opens_scope : bool
        Whether the names of blocks below belong to this one, so that what is called the same
        elsewhere may differ; names of blocks that are `universal` do not.
    universal : bool
        Whether the module's name says everything that shapes it.
    kept : bool
        Whether synthesis is to keep the module's boundaries, so that what several instances have
        in common is not merged: the module has the attribute ``keep_hierarchy``.
    """

    resettable = False
    opens_scope = False
    universal = False
    kept = False

    def __init__(self, module_name: str, members: dict[str, Member]) -> None:
        self.module_name = module_name
        self.members = members

    def width(self, port: str) -> int:
        """Return the width of a port."""
        return Shape.cast(self.members[port].shape).width

    def build(self, m: Module) -> None:
        """Fill module `m`; each port is an attribute, a signal of the port's shape."""
        raise NotImplementedError


class _Body(Elaboratable):
    """The elaboratable of a block, with the signals of its ports."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.domain = ClockDomain("sync", reset_less=not block.resettable)
        self.ports = {"clk": (self.domain.clk, PortDirection.Input)}
        if block.resettable:
            self.ports["rst"] = (self.domain.rst, PortDirection.Input)
        for name, member in block.members.items():
            signal = Signal(member.shape, name=name, init=member.init or 0)
            direction = PortDirection.Input if member.flow == In else PortDirection.Output
            self.ports[name] = (signal, direction)
            setattr(block, name, signal)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.domains += self.domain
        self.block.build(m)
        return m


class _Emission:
    def __init__(self, prefix: str) -> None:
        self.prefix, self.scope = prefix, ""
        self.pending: list[tuple[Block, str, str]] = []
        self.seen: set[str] = set()

    def name_of(self, block: Block) -> str:
        scope = "" if block.universal else self.scope
        name = f"{scope}{block.module_name}"
        if name not in self.seen:
            self.seen.add(name)
            self.pending.append((block, name, f"{name}_" if block.opens_scope else scope))
        return f"{self.prefix}_{name}"

    def blocks(self) -> Iterator[str]:
        """Yield the RTLIL of every block that was placed."""
        while self.pending:
            block, name, self.scope = self.pending.pop(0)
            yield _convert(block, f"{self.prefix}_{name}")


_emission: ContextVar[_Emission | None] = ContextVar("emission", default=None)


def _leave_contents_out() -> None:
    """Have Amaranth write no initial contents of memories while blocks are emitted.

    A memory here is written before it is read, so Verilog is made without them; written bit by bit
    they took a third of the time to emit an engine.
    """
    usual = rtlil.ModuleEmitter.emit_memory

    def emit_memory(emitter: Any, index: int, cell: Any) -> None:
        if _emission.get() is not None:
            cell = copy(cell)
            cell.init, cell.depth = (), 0
        usual(emitter, index, cell)

    rtlil.ModuleEmitter.emit_memory = emit_memory


_leave_contents_out()
quicken()


def place(
    m: Module,
    name: str,
    block: Block,
    *,
    rst: Value | None = None,
    **connections: ValueLike,
) -> None:
    """Instantiate `block` in `m` as `name`, its ports connected by keyword.

    `rst` is the block's reset, if it is not that of `m`.

    Raises
    ------
    TypeError
        If a port of the block is left out or a connection names no port.
    ValueError
        If the width of a connection is not the port's.
    """
    emission = _emission.get()
    if emission is None:
        raise RuntimeError("blocks are instantiated only within rtl_templates.hdl.hierarchy.emit()")
    ports: dict[str, Any] = {"i_clk": ClockSignal()}
    if block.resettable:
        ports["i_rst"] = ResetSignal() if rst is None else rst
    for port, member in block.members.items():
        if port not in connections:
            raise TypeError(f"{block.module_name}: port {port!r} of {name!r} is not connected")
        value = Value.cast(connections.pop(port))
        if block.width(port) != len(value):
            raise ValueError(
                f"{block.module_name}: port {port!r} of {name!r} is {block.width(port)} bits wide,"
                f" not {len(value)}"
            )
        ports[("i_" if member.flow == In else "o_") + port] = value
    if connections:
        raise TypeError(f"{block.module_name}: no port is called {', '.join(connections)}")
    m.submodules[name] = Instance(emission.name_of(block), **ports)


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
        yield _rtlil(top, name, ports)
        yield from emission.blocks()


def emit_block(block: Block, prefix: str) -> Iterator[str]:
    """Yield the RTLIL of a block alone and of every block below it, as `emit` does for a core."""
    with _emitting(prefix) as emission:
        emission.name_of(block)
        yield from emission.blocks()


def _check_width(block: Block) -> None:
    """Refuse a block with more bits on a side than Amaranth numbers."""
    for flow, way in ((In, "go into"), (Out, "come out of")):
        bits = sum(block.width(name) for name, m in block.members.items() if m.flow == flow)
        if bits > MODULE_BITS - 2:  # and clock and reset
            raise InputError(
                f"{bits:,} bits would {way} a module, {block.module_name}; they must be at most"
                f" {MODULE_BITS - 2:,}: make the array smaller, or its formats narrower"
            )


@contextmanager
def _emitting(prefix: str) -> Iterator[_Emission]:
    token = _emission.set(emission := _Emission(prefix))
    try:
        yield emission
    finally:
        _emission.reset(token)


def _rtlil(top: Any, name: str, ports: dict[str, tuple[Any, PortDirection]]) -> str:
    """Return what Amaranth makes of one module.

    The garbage collector pauses: it would look at all that a module consists of again and again,
    which took a quarter of the time, for little that nobody refers to.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        with released():
            return str(rtlil.convert(top, name=name, ports=ports, emit_src=False))
    finally:
        if collecting:
            gc.enable()


def _convert(block: Block, name: str) -> str:
    _check_width(block)
    body = _Body(block)
    text = _rtlil(body, name, body.ports)
    if block.kept:
        # Amaranth knows no attributes of modules, but marks the block's own one as the top.
        text = text.replace(_TOP, f"{_TOP}attribute \\keep_hierarchy 1\n", 1)
    return text
