# SPDX-License-Identifier: Apache-2.0
"""Registers of a core that decide what happens when, found in its RTLIL.

A bit of a register is *control* if an output that is not data depends on it, now or in a later
cycle: a valid, a ready, an address, a length or an interrupt.  Dependences are followed bit by bit
through cells, processes and memories.  All instances of a module are taken as one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from rtl_templates.hdl.rtlil import CELL, CONNECTION, WIRE

Bit = tuple[str, str, int]
"""A module, a wire or a cell in it, and the number of a bit."""

_TOKEN = re.compile(r"[{}]|\d+'[01xz-]+|[\\$]\S+(?: \[\d+(?::\d+)?\])?")
_CONNECT = re.compile(r"^(?:  )?connect ([^\n]*)$", re.MULTILINE)
_PROCESS = re.compile(r"^  process [^\n]*\n((?:    [^\n]*\n)*)  end$", re.MULTILINE)
_MEMORY = re.compile(r'    parameter \\MEMID "\\(\S+)"')

_BY_BITS = frozenset(("$and", "$or", "$xor", "$xnor", "$not", "$mux"))
"""Cells whose result has a bit for each bit of an operand, if both are as wide."""

DATA = re.compile(r"(?:data|payload)$")
"""Outputs that are data, by their name."""


def control_bits(modules: Mapping[str, str], top: str) -> dict[tuple[str, str], list[int]]:
    """Return the bits of registers that are control, by module and name of the cell.

    Parameters
    ----------
    modules : mapping
        RTLIL of each module, by its name.
    top : str
        Name of the top module.
    """
    graph = _Graph()
    widths = {name: {wire: int(width) for width, _, wire in WIRE.findall(text)}
              for name, text in modules.items()}  # fmt: skip
    outputs = {name: {wire for _, direction, wire in WIRE.findall(text) if direction == "output"}
               for name, text in modules.items()}  # fmt: skip
    for name, text in modules.items():
        _Reader(name, widths, outputs, graph).read(text)
    seeds = [
        (top, wire, bit)
        for wire in outputs[top]
        if not DATA.search(wire)
        for bit in range(widths[top][wire])
    ]
    reached = graph.cone(seeds)
    found = {
        register: [number for number, bit in enumerate(bits) if bit in reached]
        for register, bits in graph.registers.items()
    }
    return {register: bits for register, bits in found.items() if bits}


class _Graph:
    """The bits that each bit depends on."""

    def __init__(self) -> None:
        self.sources: dict[Bit, list[Bit]] = defaultdict(list)
        self.registers: dict[tuple[str, str], Sequence[Bit | None]] = {}

    def cone(self, seeds: Sequence[Bit]) -> set[Bit]:
        """Return the bits that some bits depend on, themselves included."""
        reached, left = set(seeds), list(seeds)
        while left:
            for bit in self.sources.get(left.pop(), ()):
                if bit not in reached:
                    reached.add(bit)
                    left.append(bit)
        return reached


class _Reader:
    """Adds the dependences of a module to a graph."""

    def __init__(
        self,
        module: str,
        widths: Mapping[str, Mapping[str, int]],
        outputs: Mapping[str, set[str]],
        graph: _Graph,
    ) -> None:
        self._module, self._widths, self._outputs = module, widths, outputs
        self._graph = graph
        self._count = 0

    def read(self, text: str) -> None:
        """Add the dependences of the module's text."""
        for cell in CELL.finditer(text):
            operator, name, body = cell["type"], cell["name"], cell["body"]
            pins = {pin: self._bits(net) for pin, net in CONNECTION.findall(body)}
            if operator.startswith("\\"):
                self._instance(operator[1:], pins)
            elif operator.startswith("$mem"):
                self._memory(operator, _MEMORY.findall(body)[0], pins)
            elif operator == "$dff":
                self._graph.registers[self._module, name] = pins["Q"]
                self._bitwise(pins["Q"], pins["D"])
            else:
                self._operator(operator, pins)
        for line in _CONNECT.findall(text):
            self._bitwise(*self._pair(line))
        for body in _PROCESS.findall(text):
            self._process(body)

    def _instance(self, module: str, pins: Mapping[str, Sequence[Bit | None]]) -> None:
        for port, bits in pins.items():
            wire = f"\\{port}"
            inside = [(module, wire, bit) for bit in range(self._widths[module][wire])]
            if wire in self._outputs[module]:
                self._bitwise(bits, inside)
            else:
                self._bitwise(inside, bits)

    def _memory(self, operator: str, memory: str, pins: Mapping[str, Sequence[Bit | None]]) -> None:
        words = [(self._module, f"memory {memory}", bit) for bit in range(len(pins["DATA"]))]
        control = [bit for pin in ("ADDR", "EN") for bit in pins.get(pin, ())]
        if operator.startswith("$memrd"):
            shared = self._shared(control)
            self._bitwise(pins["DATA"], words)
            self._all(pins["DATA"], [shared])
        elif operator.startswith("$memwr"):
            shared = self._shared([*pins["ADDR"], *dict.fromkeys(pins["EN"])])
            self._bitwise(words, pins["DATA"])
            self._all(words, [shared])

    def _operator(self, operator: str, pins: Mapping[str, Sequence[Bit | None]]) -> None:
        result = pins["Y"]
        operands = [pins[pin] for pin in ("A", "B") if pin in pins]
        if operator in _BY_BITS and all(len(bits) == len(result) for bits in operands):
            for bits in operands:
                self._bitwise(result, bits)
            if "S" in pins:
                self._all(result, pins["S"])
            return
        inputs = [bit for pin, bits in pins.items() if pin != "Y" for bit in bits]
        self._all(result, [self._shared(inputs)])

    def _process(self, body: str) -> None:
        """Follow assignments, each under the conditions of the switches around it."""
        conditions: list[Bit | None] = []
        for line in body.splitlines():
            word, _, rest = line.strip().partition(" ")
            if word == "switch":
                conditions.append(self._shared([*self._bits(rest), *conditions[-1:]]))
            elif word == "end":
                conditions.pop()
            elif word == "assign":
                left, right = self._pair(rest)
                self._bitwise(left, right)
                self._all(left, conditions[-1:])

    def _bitwise(self, results: Sequence[Bit | None], sources: Sequence[Bit | None]) -> None:
        for result, source in zip(results, sources, strict=False):
            if result and source:
                self._graph.sources[result].append(source)

    def _all(self, results: Sequence[Bit | None], sources: Sequence[Bit | None]) -> None:
        for result in results:
            if result:
                self._graph.sources[result] += [source for source in sources if source]

    def _shared(self, sources: Sequence[Bit | None]) -> Bit:
        """Return a bit that stands for several."""
        self._count += 1
        shared = (self._module, "", self._count)
        self._graph.sources[shared] = [source for source in sources if source]
        return shared

    def _pair(self, text: str) -> tuple[list[Bit | None], list[Bit | None]]:
        """Return the two nets of a connection or an assignment."""
        nets = list(self._nets(text))
        assert len(nets) == 2
        return nets[0], nets[1]

    def _bits(self, text: str) -> list[Bit | None]:
        (net,) = self._nets(text)
        return net

    def _nets(self, text: str) -> Iterator[list[Bit | None]]:
        """Yield nets, the lowest bit of each first; constant bits are None."""
        depth, parts = 0, list[list[Bit | None]]()
        for token in _TOKEN.findall(text):
            if token == "{":
                depth += 1
            elif token == "}":
                depth -= 1
            else:
                parts.append(self._part(token))
            if not depth:
                yield [bit for part in reversed(parts) for bit in part]
                parts = []

    def _part(self, token: str) -> list[Bit | None]:
        if token[0].isdigit():
            return [None] * int(token.partition("'")[0])
        wire, _, part = token.partition(" ")
        high, _, low = part.strip("[]").partition(":")
        last = int(high) if high else self._widths[self._module][wire] - 1
        first = int(low or high or 0)
        return [(self._module, wire, bit) for bit in range(first, last + 1)]
