# SPDX-License-Identifier: Apache-2.0
"""Hierarchy that exists before elaboration.

Amaranth elaborates a submodule as often as it is instantiated, so an array of N x N processing
elements costs N x N elaborations and as much text.  A `Block` is elaborated and emitted once;
`place` instantiates it any number of times.  Time and text then grow with the number of
*different* modules.

An instance may have a *role*, e.g. ``reduce``: tools identify parts of a design by roles, not by
the names of instances.  `place`, `in_role` and `Block.role` assign roles; they are attributes
``role`` of the instances in the RTLIL.  `roles_of` reads them there,
`cost_model.netlist.netlist.Netlist.roles` in a netlist, and `hwgen.core.resolve.Limit.roles`
are those on the path that limits the clock.
"""

from __future__ import annotations

import gc
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from types import SimpleNamespace
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
    ShapeLike,
    Signal,
    Value,
)
from amaranth.hdl._ir import PortDirection
from amaranth.lib.wiring import In, Member, Out

from hwgen.core.params.module_limits import MODULE_BITS
from hwgen.errors import InputError
from rtl_templates.hdl.netlists import quicken, released
from rtl_templates.hdl.streams import assemble, connections_of, create, ports_of

ROLE = "role"
"""Attribute of an instance with a role, in RTLIL and in Yosys's JSON."""

_ROLES = re.compile(
    rf'^\s*(?:module \\(?P<module>\S+)|attribute \\{ROLE} "(?P<role>[^"]*)"'
    r"|cell \S+ \\?(?P<instance>\S+))$",
    re.MULTILINE,
)

_TOP = "attribute \\top 1\n"


class Block(ABC):
    """Description of a module that is emitted once, however often it is placed.

    Describing a block costs nothing; its signals and logic are made when it is emitted.

    Parameters
    ----------
    module_name : str
        Name of the module, unique for the parameters that shape it.
    members : dict
        Name to `amaranth.lib.wiring.Member`: a plain shape, a stream, or a signature of these;
        `rtl_templates.hdl.streams` says which ports they become.

    Attributes
    ----------
    ports : dict
        Ports: name to `amaranth.lib.wiring.Member` with a plain shape.
    role : str
        Role of the block in the design, for tools that look for it in a path or a netlist
        (`roles_of`); empty if it has none.
    resettable : bool
        Whether the module has the port ``rst`` beside ``clk``.  Datapath modules have no reset:
        their contents are never looked at before a token, which is reset, says that they are
        valid.
    opens_scope : bool
        Whether the names of blocks below belong to this one, so that what is called the same
        elsewhere may differ; names of blocks that are `universal` do not.
    universal : bool
        Whether the module's name says everything that shapes it.
    keep_hierarchy : bool
        Whether synthesis keeps the module's boundaries and merges nothing across instances: the
        module has the attribute ``keep_hierarchy``.
    """

    resettable = False
    opens_scope = False
    universal = False
    keep_hierarchy = False
    role = ""

    def __init__(self, module_name: str, members: dict[str, Member]) -> None:
        self.module_name = module_name
        self.members = members

    @property
    def ports(self) -> dict[str, Member]:
        return ports_of(self.members)

    def width(self, port: str) -> int:
        """Return the width of a port, of a stream that of its payload."""
        member = self.members.get(port) or self.ports[port]
        if member.is_signature:
            member = member.signature.members["payload"]
        return Shape.cast(member.shape).width

    def payload(self, name: str) -> ShapeLike:
        """Return the shape of the payload of a stream."""
        return self.members[name].signature.members["payload"].shape

    @abstractmethod
    def build(self, m: Module) -> None:
        """Fill module `m`; each member is an attribute, made of the signals of its ports."""


class _Body(Elaboratable):
    """The elaboratable of a block, with the signals of its ports."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.domain = ClockDomain("sync", reset_less=not block.resettable)
        self.ports = {"clk": (self.domain.clk, PortDirection.Input)}
        if block.resettable:
            self.ports["rst"] = (self.domain.rst, PortDirection.Input)
        signals = {}
        for name, member in block.ports.items():
            signals[name] = Signal(member.shape, name=name, init=member.init or 0)
            direction = PortDirection.Input if member.flow == In else PortDirection.Output
            self.ports[name] = (signals[name], direction)
        for name, member in block.members.items():
            setattr(block, name, assemble(name, member, signals))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.domains += self.domain
        self.block.build(m)
        return m


class _Emission:
    def __init__(self, prefix: str) -> None:
        self.prefix, self.scope = prefix, ""
        self.pending: list[tuple[Block, str, str]] = []
        self.seen: dict[str, Block] = {}

    def name_of(self, block: Block) -> str:
        scope = "" if block.universal else self.scope
        name = f"{scope}{block.module_name}"
        if name not in self.seen:
            self.seen[name] = block
            self.pending.append((block, name, f"{name}_" if block.opens_scope else scope))
        return f"{self.prefix}_{name}"

    def blocks(self) -> Iterator[str]:
        """Yield the RTLIL of every block that was placed."""
        while self.pending:
            block, name, self.scope = self.pending.pop(0)
            yield _convert(block, f"{self.prefix}_{name}")


_emission: ContextVar[_Emission | None] = ContextVar("emission", default=None)
_role: ContextVar[str] = ContextVar("role", default="")


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


class Placed(SimpleNamespace):
    """Members of an instance by name: what they are connected to."""


def place(
    m: Module,
    name: str,
    block: Block,
    /,
    *,
    rst: Value | None = None,
    role: str = "",
    **connections: object,
) -> Placed:
    """Instantiate `block` in `m` as `name`, its members connected by keyword.

    A stream is connected to a stream, by its payload, valid and ready.  An output that is not
    connected drives signals of its own, called ``NAME_PORT``.

    Parameters
    ----------
    m : Module
    name : str
        Name of the instance.
    block : Block
    rst : Value, optional
        The block's reset, if it is not that of `m`.
    role : str
        Role of the instance, if it is not that of the block or of `in_role`.
    **connections
        For each input, and for outputs, a value or a stream.

    Returns
    -------
    Placed
        The members; ``place(...).o`` is the stream that comes out of a block.

    Raises
    ------
    TypeError
        If an input is left out, a connection names no member, or a stream is connected to a value.
    ValueError
        If the width of a connection is not the port's.
    """
    emission = _emission.get()
    if emission is None:
        raise RuntimeError("blocks are instantiated only within rtl_templates.hdl.hierarchy.emit()")
    ports: dict[str, object] = {"i_clk": ClockSignal()}
    if block.resettable:
        ports["i_rst"] = ResetSignal() if rst is None else rst
    if role := role or block.role or _role.get():
        ports[f"a_{ROLE}"] = role
    placed: dict[str, object] = {}
    for member_name, member in block.members.items():
        if member_name in connections:
            value = connections.pop(member_name)
        elif member.flow == Out:
            value = create(f"{name}_{member_name}", member)
        else:
            raise TypeError(f"{block.module_name}: {member_name!r} of {name!r} is not connected")
        placed[member_name] = value
        try:
            signals = dict(connections_of(member_name, member, value))
        except (TypeError, ValueError) as error:
            raise type(error)(f"{block.module_name}: {name!r}: {error}") from None
        for port, each in ports_of({member_name: member}).items():
            ports[("i_" if each.flow == In else "o_") + port] = signals[port]
    if connections:
        raise TypeError(f"{block.module_name}: no member is called {', '.join(connections)}")
    m.submodules[name] = Instance(emission.name_of(block), **ports)
    return Placed(**placed)


@contextmanager
def in_role(role: str) -> Iterator[None]:
    """Give a role to all instances that are placed within, unless they have one."""
    token = _role.set(role)
    try:
        yield
    finally:
        _role.reset(token)


def roles_of(modules: Iterable[str]) -> dict[tuple[str, str], str]:
    """Return the role of each instance that has one: (module, instance) to role.

    Parameters
    ----------
    modules : iterable of str
        RTLIL, as `emit` yields it.
    """
    roles, module, role = {}, "", ""
    for text in modules:
        for match in _ROLES.finditer(text):
            if match["module"]:
                module = match["module"]
            elif match["role"]:
                role = match["role"]
            elif role:
                roles[module, match["instance"]] = role
                role = ""
    return roles


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


def block_classes(
    top: Any, name: str, ports: dict[str, tuple[Any, PortDirection]]
) -> dict[str, type]:
    """Return the class that describes each module that `emit` yields, by the module's name."""
    classes = {module: type(block) for module, block in placed_blocks(top, name, ports).items()}
    return {name: type(top), **classes}


def placed_blocks(
    top: Any, name: str, ports: dict[str, tuple[Any, PortDirection]]
) -> dict[str, Block]:
    """Return the block of each module that `emit` yields below the top, by the module's name."""
    with _emitting(name) as emission:
        _rtlil(top, name, ports)
        for _ in emission.blocks():
            pass
    return {f"{name}_{module}": block for module, block in emission.seen.items()}


def emit_block(block: Block, prefix: str) -> Iterator[str]:
    """Yield the RTLIL of a block alone and of every block below it, as `emit` does for a core."""
    with _emitting(prefix) as emission:
        emission.name_of(block)
        yield from emission.blocks()


def _check_width(block: Block) -> None:
    """Refuse a block with more bits on a side than Amaranth numbers."""
    for flow, verb in ((In, "go into"), (Out, "come out of")):
        ports = [port for port in block.ports.values() if port.flow == flow]
        bits = sum(Shape.cast(port.shape).width for port in ports)
        if bits > MODULE_BITS - 2:  # and clock and reset
            raise InputError(
                f"{bits:,} bits would {verb} a module, {block.module_name}; they must be at most"
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
    """Return the RTLIL that Amaranth generates for one module.

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
    if block.keep_hierarchy:
        # Amaranth knows no attributes of modules, but marks the block's own one as the top.
        text = text.replace(_TOP, f"{_TOP}attribute \\keep_hierarchy 1\n", 1)
    return text
