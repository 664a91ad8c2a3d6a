# SPDX-License-Identifier: Apache-2.0
"""The word-level structure of an emitted design: what each module consists of, and of which nets.

A netlist is a tree of instances of `Module`; each module is there once, however often it is
instantiated.  Nets are numbers that mean something within one module only.  Nothing here knows
where a structure comes from: `cost_model.netlist.read` makes it of what Yosys writes, and
`cost_model.netlist.document` keeps it as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Bits = tuple[int, ...]
"""Nets, the least significant bit first; constants are `ZERO`, `ONE` and `UNDEFINED`."""

ZERO, ONE, UNDEFINED = -1, -2, -3
"""Bits that are no nets."""

TOP = "(top)"
"""Name of the top module of every design; no block can be called so."""

FULL_ADDER = "full_adder"
"""Module that is a full adder, mapped to the technology's cell for it."""

OPERATORS: Mapping[str, tuple[str, ...]] = {
    "add": ("add", "pos"),
    "sub": ("sub",),
    "neg": ("neg",),
    "mul": ("mul",),
    "divide": ("div", "mod", "divfloor", "modfloor"),
    "equal": ("eq", "ne", "eqx", "nex"),
    "less": ("lt", "le", "gt", "ge"),
    "mux": ("mux",),
    "pmux": ("pmux", "bmux"),
    "and": ("and",),
    "or": ("or",),
    "xor": ("xor", "xnor"),
    "not": ("not",),
    "reduce_and": ("reduce_and", "logic_and"),
    "reduce_or": ("reduce_or", "reduce_bool", "logic_or", "logic_not"),
    "reduce_xor": ("reduce_xor", "reduce_xnor"),
    "shift": ("shift", "shiftx", "shl", "shr", "sshl", "sshr"),
    "register": (
        "dff", "dffe", "sdff", "sdffe", "sdffce", "adff", "adffe", "aldff", "aldffe", "dffsr",
        "dffsre", "dlatch",
    ),
}  # fmt: skip
"""Kinds of cells, and Yosys's word-level types (without ``$``) of each.  A type that is in none is
a kind of its own."""

OPERATOR_OF = {name: operator for operator, names in OPERATORS.items() for name in names}
"""The kind of each of these types."""


def is_full_adder(module: str) -> bool:
    """Return whether a module of a name is a full adder."""
    return module == FULL_ADDER or module.endswith(f"_{FULL_ADDER}")


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a module.

    Parameters
    ----------
    name : str
    output : bool
    bits : Bits
    """

    name: str
    output: bool
    bits: Bits

    @property
    def width(self) -> int:
        """Number of bits."""
        return len(self.bits)


@dataclass(frozen=True, slots=True)
class Cell:
    """An operator or a register, over words.

    Parameters
    ----------
    operator : str
        A key of `OPERATORS`, or a type that is in none.
    type : str
        Yosys's type without ``$``, e.g. ``ne`` of the operator ``equal``.
    signed : tuple of bool
        Whether operands ``a`` and ``b`` are in two's complement.
    pins : mapping
        What it is connected to.  Operators: ``a``, ``b`` (of a multiplexer the value for 1; of a
        ``pmux`` the values one after another), ``s`` (select), result ``y``.  Registers: ``clk``,
        ``d``, ``q``, and if there are such, enable ``en`` and synchronous reset ``srst``.
    low : frozenset of str
        Pins ``en`` and ``srst`` that are active at 0.
    name : str
        Of a register the signal that it holds, as the Verilog calls it; empty of operators.
    """

    operator: str
    type: str
    signed: tuple[bool, bool]
    pins: Mapping[str, Bits]
    low: frozenset[str] = frozenset()
    name: str = ""

    def width(self, pin: str) -> int:
        """Return the bits of a pin, 0 if it has no such pin."""
        return len(self.pins.get(pin, ()))

    @property
    def result(self) -> Bits:
        """The nets that it drives."""
        return self.pins.get("q") or self.pins.get("y", ())

    @property
    def operands(self) -> Iterator[tuple[str, Bits]]:
        """Everything that it reads but the clock: pin and bits."""
        return ((pin, bits) for pin, bits in self.pins.items() if pin not in ("y", "q", "clk"))


@dataclass(frozen=True, slots=True)
class MemoryPort:
    """A port that reads or writes one word of a memory.

    Parameters
    ----------
    address, data : Bits
    enable : Bits
        One bit for a read port, one for each bit of data of a write port.
    clocked : bool
        Whether the data appear with the next clock edge; always of a write port.
    """

    address: Bits
    data: Bits
    enable: Bits
    clocked: bool


@dataclass(frozen=True, slots=True)
class Memory:
    """An array of words.

    Parameters
    ----------
    name : str
    width, depth : int
        Bits of a word, number of words.
    reads, writes : tuple of MemoryPort
    """

    name: str
    width: int
    depth: int
    reads: tuple[MemoryPort, ...]
    writes: tuple[MemoryPort, ...]

    def inputs(self) -> Iterator[Bits]:
        """Give the nets that it reads."""
        for access in (*self.reads, *self.writes):
            yield from (access.address, access.enable)
        yield from (access.data for access in self.writes)


@dataclass(frozen=True, slots=True)
class Instance:
    """A module inside another.

    Parameters
    ----------
    name, module : str
        Its own name, and that of the module.
    connections : mapping
        Port of the module: bits of the module that it is in.
    role : str
        Role in the design (`rtl_templates.hdl.hierarchy.Block`), empty if it has none.
    """

    name: str
    module: str
    connections: Mapping[str, Bits]
    role: str = ""


@dataclass(frozen=True)
class Module:
    """A module, without what is inside those that it instantiates.

    Parameters
    ----------
    name : str
        Without the name of the design, hence equal in all of them; `TOP` of the top module.
    ports : tuple of Port
    cells : tuple of Cell
    memories : tuple of Memory
    instances : tuple of Instance
    keep_hierarchy : bool
        Whether synthesis is to keep its boundaries.
    """

    name: str
    ports: tuple[Port, ...]
    cells: tuple[Cell, ...]
    memories: tuple[Memory, ...] = ()
    instances: tuple[Instance, ...] = ()
    keep_hierarchy: bool = False

    @property
    def is_full_adder(self) -> bool:
        """Whether it is a full adder, which counts as one and not as its gates."""
        return is_full_adder(self.name)

    def read_outside(self) -> Iterator[Bits]:
        """Give the nets that others than its cells read: ports, instances and memories.

        Of an instance these are all its connections, what it gives included.
        """
        yield from (port.bits for port in self.ports if port.output)
        for instance in self.instances:
            yield from instance.connections.values()
        for memory in self.memories:
            yield from memory.inputs()

    def port(self, name: str) -> Port:
        """Return a port by its name."""
        return next(port for port in self.ports if port.name == name)
