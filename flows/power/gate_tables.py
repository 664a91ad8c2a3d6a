# SPDX-License-Identifier: Apache-2.0
"""A netlist of cells as the table that ``cpp/gates.cpp`` simulates.

Nets get numbers: 0 and 1 are the constants, then come those of the netlist, then those within
cells.  Cells become truth tables of at most six inputs, in the order of their levels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from flows.power.cell_functions import CellModel, Function, cell_models, reduced
from flows.power.gates import Gate, Gates
from flows.synthesis.liberty import Library
from flows.synthesis.macros import pins_of
from hwgen.errors import CheckFailed
from hwgen.technologies.model import Macro, Memories

MOST_INPUTS = 6
"""Inputs of a truth table; more become several."""

CONSTANTS = {"1'b0": 0, "1'b1": 1, "1'bx": 0, "1'bz": 0}

Delays = Callable[[Gate, str, str, bool], int]
"""Takes a gate, an input, an output and whether it rises; returns the delay in ps."""


@dataclass
class Cell:
    """A truth table: nets of the inputs, net of the output; ps of rises and falls by input."""

    inputs: tuple[int, ...]
    output: int
    table: int
    rises: tuple[int, ...] = ()
    falls: tuple[int, ...] = ()


@dataclass(frozen=True)
class StoredBit:
    """A flip-flop.

    Parameters
    ----------
    gate : Gate
        The cell.
    following, state : int
        Nets of what it will hold and of what it holds.
    """

    gate: Gate
    following: int
    state: int


@dataclass(frozen=True)
class NumberedMacro:
    """An SRAM macro.

    Parameters
    ----------
    name : str
        Of the instance.
    words, bits : int
    numbers : list of int
        What ``cpp/gates.cpp`` reads of it.
    """

    name: str
    words: int
    bits: int
    numbers: list[int]


@dataclass(frozen=True)
class NumberedNetlist:
    """A netlist whose nets are numbers.

    Parameters
    ----------
    nets : tuple of str
        Nets of the netlist; the first has number 2.
    count : int
        Numbers in all, those of constants and of nets within cells included.
    runs : list of list of Cell
        Cells of one level with as many inputs, level by level.
    registers : list of StoredBit
    macros : list of NumberedMacro
    inputs, outputs : list of tuple
        Ports without the clock: index of the port in `Gates.ports`, and its nets.
    timed : bool
        Whether cells have delays.
    """

    nets: tuple[str, ...]
    count: int
    runs: list[Sequence[Cell]]
    registers: list[StoredBit]
    macros: list[NumberedMacro]
    inputs: list[tuple[int, tuple[int, ...]]]
    outputs: list[tuple[int, tuple[int, ...]]]
    timed: bool

    def table(self, input_delay_ps: int = 0) -> GateTable:
        """Return the table of the netlist; inputs change so long after the edge if it is timed."""
        words: list[int] = [self.count, int(self.timed), input_delay_ps, len(self.runs)]
        for run in self.runs:
            words += [len(run[0].inputs), len(run)]
            for cell in run:
                table = cell.table
                words += [*cell.inputs, cell.output, table & 0xFFFFFFFF, table >> 32]
                if self.timed:
                    words += [*cell.rises, *cell.falls]
        words.append(len(self.registers))
        words += [number for one in self.registers for number in (one.following, one.state)]
        words.append(len(self.macros))
        words += [number for macro in self.macros for number in macro.numbers]
        for ports in (self.inputs, self.outputs):
            words.append(len(ports))
            for member, nets in ports:
                words += [member, len(nets), *nets]
        names = tuple(macro.name for macro in self.macros)
        return GateTable(self.nets, names, np.array(words, "<u4").tobytes())


@dataclass(frozen=True)
class GateTable:
    """Table of a netlist for the simulation.

    Parameters
    ----------
    nets : tuple of str
        Nets of the netlist; the first has number 2.
    macros : tuple of str
        Names of the instances of macros.
    words : bytes
        The table.
    """

    nets: tuple[str, ...]
    macros: tuple[str, ...]
    words: bytes = field(repr=False)


def gate_table(
    gates: Gates,
    library: Library,
    clock: str,
    *,
    memories: Memories | None = None,
    delays: Delays | None = None,
    input_delay_ps: int = 0,
) -> GateTable:
    """Return the table of a netlist.

    Parameters
    ----------
    gates : Gates
    library : Library
    clock : str
        The clock port.
    memories : Memories, optional
        The SRAM macros that the netlist may have.
    delays : callable, optional
        Of the cells, for a simulation with glitches.
    input_delay_ps : int
        When inputs change, after the edge, with `delays`.

    Raises
    ------
    CheckFailed
        If it has cells that cannot be simulated, or a loop of gates.
    """
    netlist = numbered_netlist(gates, library, clock, memories=memories, delays=delays)
    return netlist.table(input_delay_ps)


def numbered_netlist(
    gates: Gates,
    library: Library,
    clock: str,
    *,
    memories: Memories | None = None,
    delays: Delays | None = None,
) -> NumberedNetlist:
    """Return a netlist whose nets are numbers; see `gate_table`.

    Parameters
    ----------
    gates : Gates
    library : Library
    clock : str
        The clock port.
    memories : Memories, optional
        The SRAM macros that the netlist may have.
    delays : callable, optional
        Of the cells, for a simulation with glitches.

    Raises
    ------
    CheckFailed
        If it has cells that cannot be simulated, or a loop of gates.
    """
    return _Numbering(gates, library, clock, memories, delays).netlist()


class _Numbering:
    """Collects cells, registers and macros."""

    def __init__(
        self,
        gates: Gates,
        library: Library,
        clock: str,
        memories: Memories | None,
        delays: Delays | None,
    ) -> None:
        self._gates, self._delays, self._memories = gates, delays, memories
        self._clock = gates.inputs[clock][0]
        self._clock_port = clock
        self._boxes = {macro.name: macro for macro in memories.macros} if memories else {}
        names = {gate.cell for gate in gates.gates} - self._boxes.keys()
        self._models = cell_models(library, names)
        nets = dict.fromkeys(net for gate in gates.gates for net in gate.inputs.values())
        nets |= dict.fromkeys(net for gate in gates.gates for net in gate.outputs.values())
        for ports in (gates.inputs, gates.outputs):
            nets |= dict.fromkeys(net for bits in ports.values() for net in bits)
        self._nets = [net for net in nets if net not in CONSTANTS]
        self._numbers = {net: 2 + index for index, net in enumerate(self._nets)} | CONSTANTS
        self._count = 2 + len(self._nets)
        self._cells: list[Cell] = []
        self._registers: list[StoredBit] = []
        self._macros: list[NumberedMacro] = []
        self._constants = self._constant_nets()

    def _constant_nets(self) -> dict[str, int]:
        """Return the nets of cells without inputs."""
        result = {"1'b0": 0, "1'b1": 1}
        for gate in self._gates.gates:
            model = self._models.get(gate.cell)
            for pin, net in gate.outputs.items() if model else ():
                function = model.outputs[pin] if model else None
                if function and not function.inputs:
                    result[net] = function.table & 1
        return result

    def _temporary(self) -> int:
        self._count += 1
        return self._count - 1

    def netlist(self) -> NumberedNetlist:
        for gate in self._gates.gates:
            if gate.cell in self._boxes:
                self._add_macro(gate, self._boxes[gate.cell])
            else:
                self._add_gate(gate, self._models[gate.cell])
        runs = list(self._runs())
        inputs, outputs = (
            [
                (self._gates.ports.index(name), tuple(self._numbers[net] for net in bits))
                for name, bits in ports.items()
            ]
            for ports in (self._inputs(), self._gates.outputs)
        )
        return NumberedNetlist(
            tuple(self._nets),
            self._count,
            runs,
            self._registers,
            self._macros,
            inputs,
            outputs,
            self._delays is not None,
        )

    def _inputs(self) -> Mapping[str, tuple[str, ...]]:
        return {name: nets for name, nets in self._gates.inputs.items() if name != self._clock_port}

    # -- gates ---------------------------------------------------------------------------------

    def _add_gate(self, gate: Gate, model: CellModel) -> None:
        nets = {pin: self._numbers[net] for pin, net in gate.inputs.items()}
        register = model.register
        if register is not None:
            pin = self._clock_pin(gate, register.clock)
            for function in register.never:
                values = [self._constants.get(gate.inputs[each]) for each in function.inputs]
                if reduced(function, values).table:
                    raise CheckFailed(
                        f"{gate.cell}: an asynchronous reset or preset is not simulated"
                    )
            state, following = self._temporary(), self._temporary()
            self._add(register.next_state, nets, following, None)
            self._registers.append(StoredBit(gate, following, state))
            inverse = self._temporary()
            if any(register.inverse in model.outputs[out].inputs for out in gate.outputs):
                self._add(Function(("s",), 1), {"s": state}, inverse, None)
            nets |= {register.state: state, register.inverse: inverse}
        for output, net in gate.outputs.items():
            function = model.outputs[output]
            timed = None
            if self._delays is not None:
                sources = [
                    pin if register and name in (register.state, register.inverse) else name
                    for name in function.inputs
                ]
                timed = [
                    [self._delays(gate, source, output, rises) for source in sources]
                    for rises in (True, False)
                ]
            self._add(function, nets, self._numbers[net], timed)

    def _clock_pin(self, gate: Gate, clock: Function) -> str:
        if len(clock.inputs) != 1 or clock.table != 0b10:
            raise CheckFailed(f"{gate.cell}: not a flip-flop with the rising edge of a clock")
        (pin,) = clock.inputs
        if gate.inputs[pin] != self._clock:
            raise CheckFailed(f"{gate.name} ({gate.cell}): its clock is not the port of the design")
        return pin

    def _add(
        self,
        function: Function,
        nets: Mapping[str, int],
        output: int,
        timed: list[list[int]] | None,
    ) -> None:
        """Add a function, as several truth tables if it has many inputs."""
        if len(function.inputs) > MOST_INPUTS:
            name = function.inputs[-1]
            halves = []
            for value in (0, 1):
                constants = [None] * (len(function.inputs) - 1) + [value]
                halves.append(self._temporary())
                self._add(reduced(function, constants), nets, halves[-1], None)
            times = None if timed is None else [[max(each)] * 3 for each in timed]
            select = Function(("0", "1", name), 0b11001010)
            self._add(select, {**nets, "0": halves[0], "1": halves[1]}, output, times)
            return
        inputs = tuple(nets[name] for name in function.inputs)
        rises, falls = timed or [[0] * len(inputs)] * 2
        self._cells.append(Cell(inputs, output, function.table, tuple(rises), tuple(falls)))

    # -- macros --------------------------------------------------------------------------------

    def _add_macro(self, gate: Gate, macro: Macro) -> None:
        """Add a macro: what reads and writes it, by the roles of its pins."""
        assert self._memories is not None
        roles: dict[str, list[str]] = defaultdict(list)
        for pin, role in pins_of(macro, self._memories):
            roles[role].append(pin)

        def single(role: str) -> int | None:
            pins = roles.get(role, [])
            return self._net(gate, pins[0], 0) if pins else None

        def bus(*names: str) -> list[int]:
            pin = next(pins[0] for name in names if (pins := roles.get(name)))
            width = sum(each == pin or each.startswith(f"{pin}[")
                        for each in (*gate.inputs, *gate.outputs))  # fmt: skip
            return [self._net(gate, pin, index) for index in range(width)]

        write, read = single("write"), single("read")
        if write is None:
            write = self._inverse(single("not_write"))
        if read is None and "not_read" in roles:
            read = self._inverse(single("not_read"))
        if read is None:  # enabled and not written
            read = self._temporary()
            enable = single("enable")
            assert enable is not None
            self._cells.append(Cell((enable, write), read, 0b0010, (0, 0), (0, 0)))
        data, result = bus("data"), bus("result")
        addresses = [bus("read_address", "address"), bus("write_address", "address")]
        numbers = [macro.words, round(1000 * macro.clk_to_q_ns), read, write]
        for nets in (*addresses, data, result):
            numbers += [len(nets), *nets]
        self._macros.append(NumberedMacro(gate.name, macro.words, len(data), numbers))

    def _net(self, gate: Gate, pin: str, index: int) -> int:
        pins = {**gate.inputs, **gate.outputs}
        net = pins.get(f"{pin}[{index}]", pins.get(pin) if index == 0 else None)
        return self._temporary() if net is None else self._numbers[net]

    def _inverse(self, net: int | None) -> int:
        assert net is not None
        output = self._temporary()
        self._cells.append(Cell((net,), output, 1, (0,), (0,)))
        return output

    # -- levels --------------------------------------------------------------------------------

    def _runs(self) -> Iterator[Sequence[Cell]]:
        """Yield the cells of each level that have as many inputs, level by level."""
        readers: dict[int, list[int]] = defaultdict(list)
        driver = {cell.output: index for index, cell in enumerate(self._cells)}
        waiting = []
        for index, cell in enumerate(self._cells):
            before = {driver[net] for net in cell.inputs if net in driver}
            waiting.append(len(before))
            for other in before:
                readers[other].append(index)
        level = [index for index, count in enumerate(waiting) if not count]
        done = 0
        while level:
            by_arity: dict[int, list[Cell]] = defaultdict(list)
            following = []
            for index in level:
                by_arity[len(self._cells[index].inputs)].append(self._cells[index])
                for other in readers[index]:
                    waiting[other] -= 1
                    if not waiting[other]:
                        following.append(other)
            for arity in sorted(by_arity):
                yield by_arity[arity]
            done += len(level)
            level = following
        if done != len(self._cells):
            raise CheckFailed(f"{len(self._cells) - done} cells are in or behind a loop of gates")


def read_counts(path: Path, table: GateTable) -> tuple[int, np.ndarray, np.ndarray]:
    """Return cycles, changes of the nets of a table, and reads and writes of its macros.

    Raises
    ------
    CheckFailed
        If nothing was counted.
    """
    numbers = np.fromfile(path, "<u8") if path.is_file() else np.zeros(1, "<u8")
    macros = 2 * len(table.macros)
    if not numbers[0]:
        raise CheckFailed(f"{path.name}: no activity of nets in it; the simulation was too short")
    changes = numbers[3 : 3 + len(table.nets)]
    accesses = numbers[len(numbers) - macros :].reshape(-1, 2)
    return int(numbers[0]), changes, accesses
