# SPDX-License-Identifier: Apache-2.0
"""A mapped netlist as ``cpp/lanes.cpp`` simulates it, and where faults can be in it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from flows.faults.logic import COPY, decomposed
from flows.power.gate_tables import Cell, NumberedNetlist
from flows.power.gates import Gates
from hwgen.core.core import Core
from hwgen.core.params.protection import FAULT_OUTPUT

_NOTHING = 0xFFFFFFFF
_NAMED = re.compile(r"(?:(.*)\.)?([^.\[]+)(?:\[(\d+)\])?")
_INDEX = re.compile(r"_\d+(?=_|\.|$)")
_GENERATED = re.compile(r"_\d+_")


@dataclass(frozen=True)
class Location:
    """A signal of a design, by its path.

    Parameters
    ----------
    instance : str
        Path of the instance, empty for the top module.
    signal : str
        Name within the instance; empty of nets that have none.
    bit : int or None
        Its bit.
    """

    instance: str
    signal: str = ""
    bit: int | None = None

    @property
    def module(self) -> str:
        """The path without the numbers of instances that repeat."""
        return _INDEX.sub("_*", self.instance) or "top"

    def __str__(self) -> str:
        name = ".".join(part for part in (self.instance, self.signal) if part)
        return name if self.bit is None else f"{name}[{self.bit}]"


@dataclass(frozen=True)
class Site:
    """A net, a flip-flop or a bit of a memory that can have a fault.

    Parameters
    ----------
    number : int
        Of the net; of a flip-flop that of its state; of a memory the number of the macro.
    location : Location
    word, bit : int
        Of a memory.
    """

    number: int
    location: Location
    word: int = 0
    bit: int = 0


class Circuit:
    """A mapped netlist whose faults can be simulated.

    Parameters
    ----------
    gates : Gates
        The netlist.
    netlist : NumberedNetlist
        The same with numbers for nets.
    core : Core
        Whose netlist it is.
    """

    def __init__(self, gates: Gates, netlist: NumberedNetlist, core: Core[Any]) -> None:
        self._gates, self._core, self.netlist = gates, core, netlist
        self.has_streams = not core.buses

    @cached_property
    def input_bits(self) -> list[int]:
        """Nets of the input ports, in the order of a trace."""
        return [net for _, nets in self.netlist.inputs for net in nets]

    @cached_property
    def output_bits(self) -> list[int]:
        """Nets of the output ports, in the order of a trace."""
        return [net for _, nets in self.netlist.outputs for net in nets]

    # -- sites ---------------------------------------------------------------------------------

    @cached_property
    def flip_flops(self) -> list[Site]:
        """All flip-flops."""
        result = []
        for one in self.netlist.registers:
            names = [self._gates.names.get(net) for net in one.gate.outputs.values()]
            name = next((name for name in names if name), one.gate.name)
            result.append(Site(one.state, location_of(name)))
        return result

    @cached_property
    def nets(self) -> list[Site]:
        """All nets that a cell or an input port drives."""
        driven = {cell.output for run in self.netlist.runs for cell in run}
        driven.update(self.input_bits)
        return [
            Site(number, self._locations[number])
            for number in range(2, 2 + len(self.netlist.nets))
            if number in driven
        ]

    def memory_bits(self) -> list[tuple[int, int, int]]:
        """Return the macros: number, words and bits of a word."""
        return [(i, macro.words, macro.bits) for i, macro in enumerate(self.netlist.macros)]

    def memory_site(self, macro: int, word: int, bit: int) -> Site:
        """Return a bit of a memory."""
        return Site(macro, Location(self._macro_names[macro], "", bit), word, bit)

    @cached_property
    def _macro_names(self) -> list[str]:
        """Path of each macro, by the name of a net that it drives or that drives it."""
        gates = {gate.name: gate for gate in self._gates.gates}
        result = []
        for macro in self.netlist.macros:
            gate = gates[macro.name]
            nets = [*gate.outputs.values(), *gate.inputs.values()]
            names = [self._gates.names[net] for net in nets if net in self._gates.names]
            paths = [location_of(name).instance for name in names]
            result.append(max(paths, key=len, default="") or macro.name)
        return result

    @cached_property
    def _locations(self) -> Mapping[int, Location]:
        """The location of each net; a net without a name is where its value goes to."""
        numbers = {net: 2 + index for index, net in enumerate(self.netlist.nets)}
        named = {
            numbers[net]: location_of(name)
            for net, name in self._gates.names.items()
            if net in numbers
        }
        for one, site in zip(self.netlist.registers, self.flip_flops, strict=True):
            named.setdefault(one.following, Location(site.location.instance))
        result: dict[int, Location] = defaultdict(lambda: Location(""), named)
        for run in reversed(self.netlist.runs):
            for cell in run:
                for net in cell.inputs:
                    if net not in result:
                        result[net] = Location(result[cell.output].instance)
        return result

    # -- the file ------------------------------------------------------------------------------

    def document(self) -> bytes:
        """Return the netlist as ``cpp/lanes.cpp`` reads it."""
        netlist = self.netlist
        count, runs = _gates_by_level(netlist)
        words: list[int] = [count, len(runs)]
        for code, gates in runs:
            words += [code, len(gates)]
            for gate in gates:
                words += gate
        words.append(len(netlist.registers))
        words += [number for one in netlist.registers for number in (one.following, one.state)]
        words.append(len(netlist.macros))
        words += [number for macro in netlist.macros for number in macro.numbers]
        for bits in (self.input_bits, self.output_bits):
            words += _listed(bits)
        words += self._streams() if self.has_streams else [0, 0, *self._groups()]
        words += self._bits_of_ports.get(FAULT_OUTPUT, [_NOTHING])
        return np.array(words, "<u4").tobytes()

    @cached_property
    def _bits_of_ports(self) -> Mapping[str, list[int]]:
        """Of each port the numbers of its bits among the inputs or the outputs."""
        result = {}
        names = self._gates.ports
        for ports in (self.netlist.inputs, self.netlist.outputs):
            position = 0
            for member, nets in ports:
                result[names[member]] = list(range(position, position + len(nets)))
                position += len(nets)
        return result

    def _streams(self) -> list[int]:
        """Return the roles of stream ports: sources, the sink, and no groups."""
        sources: list[int] = []
        sink: list[int] = []
        count = 0
        for port in self._core.params.ports:
            bits = {
                name: self._bits_of_ports.get(f"{port.prefix}_{name}", [])
                for name in ("tvalid", "tready", "tdata", "tlast")
            }
            data = [*bits["tdata"], *bits["tlast"]]
            words = [*bits["tvalid"], *bits["tready"], *_listed(data)]
            if port.direction == "in":
                sources += words
                count += 1
            else:
                sink = words
        return [1, count, *sources, *sink, 0]

    @cached_property
    def result_bits(self) -> int:
        """Bits of a result beat, with that of the last beat of a packet if there is one."""
        (port,) = (port for port in self._core.params.ports if port.direction == "out")
        return int(8 * port.beat_bytes + bool(port.last))

    @property
    def reports_errors(self) -> bool:
        """Whether the design has an output that says that a fault was noticed."""
        return FAULT_OUTPUT in self._gates.outputs

    def position(self, port: str, bit: int = 0) -> int:
        """Return the position of a bit of a port in a cycle of a trace."""
        position = self._bits_of_ports[port][bit]
        return position + len(self.input_bits) * (port in self._gates.outputs)

    def net(self, port: str) -> int:
        """Return the number of the net of a port of one bit."""
        nets = self._gates.outputs if port in self._gates.outputs else self._gates.inputs
        bits = self.output_bits if port in self._gates.outputs else self.input_bits
        assert len(nets[port]) == 1
        return bits[self._bits_of_ports[port][0]]

    def handshakes(self) -> list[tuple[int, int]]:
        """Return the positions of valid and ready of each input stream in a cycle of a trace."""
        return [
            (self.position(f"{port.prefix}_tvalid"), self.position(f"{port.prefix}_tready"))
            for port in self._core.params.ports
            if port.direction == "in"
        ]

    def sink_positions(self) -> tuple[int, int, list[int]]:
        """Return the positions of valid, ready and data of the result stream in a cycle."""
        (port,) = (port for port in self._core.params.ports if port.direction == "out")
        valid, ready = (self.position(f"{port.prefix}_{name}") for name in ("tvalid", "tready"))
        data = f"{port.prefix}_tdata"
        return valid, ready, [self.position(data, bit) for bit in range(8 * port.beat_bytes)]

    def sink_end(self) -> int:
        """Return the position of the bit that ends a packet of results in a cycle."""
        (port,) = (port for port in self._core.params.ports if port.direction == "out")
        return self.position(f"{port.prefix}_tlast")

    def _groups(self) -> list[int]:
        """Return the outputs that matter together: with a valid bit, or always."""
        outputs = [self._gates.ports[member] for member, _ in self.netlist.outputs]
        free = set(outputs)
        groups: list[tuple[int, list[int]]] = []
        for name in outputs:
            if not name.endswith("valid"):
                continue
            channel = name.removesuffix("valid")
            members = [other for other in outputs if other.startswith(channel) and other != name]
            members = [other for other in members if other != f"{channel}ready"]
            free -= {name, *members}
            bits = [bit for member in members for bit in self._bits_of_ports[member]]
            groups.append((self._bits_of_ports[name][0], bits))
        others = [bit for name in sorted(free) for bit in self._bits_of_ports[name]]
        groups.append((_NOTHING, others))
        return [
            len(groups), *(word for valid, bits in groups for word in (valid, *_listed(bits)))
        ]  # fmt: skip


def location_of(name: str) -> Location:
    """Return the location that the name of a net means."""
    match = _NAMED.fullmatch(name)
    if match is None:
        return Location("", name)
    instance, signal, bit = match[1] or "", match[2], match[3]
    if _GENERATED.fullmatch(signal):  # not in the generator
        signal = ""
    return Location(instance, signal, None if bit is None else int(bit))


def _listed(numbers: Sequence[int]) -> list[int]:
    return [len(numbers), *numbers]


def _gates_by_level(netlist: NumberedNetlist) -> tuple[int, list[tuple[int, list[list[int]]]]]:
    """Return the number of nets, and gates of two inputs, by level and code."""
    count = netlist.count
    levels: dict[int, int] = defaultdict(int)
    by_level: dict[tuple[int, int], list[list[int]]] = defaultdict(list)

    def add(code: int, operands: Sequence[int], output: int) -> None:
        level = 1 + max(levels[net] for net in operands)
        levels[output] = level
        a, b, c = (*operands, 0, 0)[:3]
        by_level[level, code].append([a, b, c, output])

    for cell in _in_order(netlist.runs):
        full = (1 << (1 << len(cell.inputs))) - 1
        if cell.table in (0, full):
            add(COPY, [int(cell.table != 0)], cell.output)
            continue
        operands = list(cell.inputs)
        steps = decomposed(len(cell.inputs), cell.table)
        for index, step in enumerate(steps):
            output = cell.output
            if index + 1 < len(steps):
                output, count = count, count + 1
            add(step.code, [operands[i] for i in step.operands], output)
            operands.append(output)
    return count, [(code, gates) for (_, code), gates in sorted(by_level.items())]


def _in_order(runs: Iterable[Sequence[Cell]]) -> Iterable[Cell]:
    for run in runs:
        yield from run
