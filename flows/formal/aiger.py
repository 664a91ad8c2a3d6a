# SPDX-License-Identifier: Apache-2.0
"""And-inverter graphs with registers: the binary AIGER format, and their simulation."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hwgen.errors import CheckFailed


@dataclass(frozen=True)
class Aiger:
    """A circuit of AND gates, inverters and registers that start at 0.

    A literal is twice the number of a node, plus 1 if it is inverted; node 0 is constant 0.

    Parameters
    ----------
    inputs, outputs : tuple of str
        Names; a bit of a vector is called ``NAME[BIT]``.
    registers : tuple of int
        Literal of the next value of each register.
    output_literals : tuple of int
    gates : tuple of (int, int)
        Literals of the operands of each AND gate, in topological order.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    registers: tuple[int, ...]
    output_literals: tuple[int, ...]
    gates: tuple[tuple[int, int], ...]

    def run(self, stimuli: Sequence[Mapping[str, int]]) -> Iterator[dict[str, int]]:
        """Yield the values of all outputs, cycle by cycle.

        Parameters
        ----------
        stimuli : sequence of mapping
            Inputs that are 1 or 0 in each cycle; missing ones are 0.
        """
        state = [0] * len(self.registers)
        for stimulus in stimuli:
            values = [0, *(stimulus.get(name, 0) for name in self.inputs), *state]
            for left, right in self.gates:
                values.append((values[left >> 1] ^ (left & 1)) & (values[right >> 1] ^ (right & 1)))
            yield {
                name: values[literal >> 1] ^ (literal & 1)
                for name, literal in zip(self.outputs, self.output_literals, strict=True)
            }
            state = [values[literal >> 1] ^ (literal & 1) for literal in self.registers]

    def explore(
        self, output: str, cycles: int, *, lanes: int = 256, seed: int = 0
    ) -> tuple[dict[str, int], ...] | None:
        """Return inputs with which an output becomes 1, from random simulation, or None.

        Each of `lanes` simulations has an own probability of 1 for each input, which changes now
        and then, so that buffers fill and drain.

        Parameters
        ----------
        output : str
        cycles : int
            Length of the simulation.
        lanes, seed : int
        """
        rng = random.Random(seed)
        literal = self.output_literals[self.outputs.index(output)]
        state = [0] * len(self.registers)
        ones = (1 << lanes) - 1
        history: list[list[int]] = []
        masks: list[list[int]] = []
        for cycle in range(cycles):
            if cycle % max(8, cycles // 3) == 0:
                masks = [_probabilities(rng, lanes, "reset" in name) for name in self.inputs]
            stimulus = []
            for always, often, half, seldom in masks:
                a, b, c = (rng.getrandbits(lanes) for _ in range(3))
                stimulus.append(always | often & (a | b | c) | half & a | seldom & a & b & c)
            history.append(stimulus)
            values = [0, *stimulus, *state]
            for left, right in self.gates:
                one, other = values[left >> 1], values[right >> 1]
                values.append((one ^ -(left & 1)) & (other ^ -(right & 1)) & ones)
            hit = (values[literal >> 1] ^ -(literal & 1)) & ones
            if hit:
                lane = (hit & -hit).bit_length() - 1
                return tuple(
                    {n: 1 for n, v in zip(self.inputs, each, strict=True) if v >> lane & 1}
                    for each in history
                )
            state = [(values[each >> 1] ^ -(each & 1)) & ones for each in self.registers]
        return None


def _probabilities(rng: random.Random, lanes: int, rare: bool) -> list[int]:
    """Return masks of the lanes in which an input is always, often, mostly not or evenly 1."""
    masks = [0, 0, 0, 0]
    for lane in range(lanes):
        choice = rng.randrange(5)
        if rare:  # a reset: else nothing long is reached
            choice = 3 if lane % 8 == 0 else 4
        if choice < 4:
            masks[choice] |= 1 << lane
    return masks


_HEADER = re.compile(rb"aig (\d+) (\d+) (\d+) (\d+) (\d+)(?: 0)*")


def parse_aiger(content: bytes) -> Aiger:
    """Return the circuit of a binary AIGER file.

    Raises
    ------
    CheckFailed
        If it is none, or a register does not start at 0.
    """
    header, _, rest = content.partition(b"\n")
    match = _HEADER.fullmatch(header)
    if match is None:
        raise CheckFailed(f"not a binary AIGER file without constraints: {header[:60]!r}")
    _, inputs, registers, outputs, gates = map(int, match.groups())
    lines = rest.split(b"\n", registers + outputs)
    next_values = []
    for line in lines[:registers]:
        literal, *reset = line.split()
        if reset not in ([], [b"0"]):
            raise CheckFailed("a register of the AIGER file does not start at 0")
        next_values.append(int(literal))
    output_literals = [int(line) for line in lines[registers : registers + outputs]]
    body = lines[-1]
    position = 0

    def number() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = body[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    operands = []
    for index in range(gates):
        left = 2 * (1 + inputs + registers + index) - number()
        operands.append((left, left - number()))
    names: dict[str, dict[int, str]] = {"i": {}, "o": {}, "l": {}}
    for raw in body[position:].split(b"\n"):
        symbol, _, name = raw.decode(errors="replace").partition(" ")
        if symbol == "c":
            break
        if name:
            names[symbol[0]][int(symbol[1:])] = name
    return Aiger(
        tuple(names["i"].get(i, f"input_{i}") for i in range(inputs)),
        tuple(names["o"].get(i, f"output_{i}") for i in range(outputs)),
        tuple(next_values),
        tuple(output_literals),
        tuple(operands),
    )


def induction_step(circuit: Aiger, output: str, steps: int) -> bytes:
    """Return a binary AIGER file whose output can be 1 if an induction step fails.

    It is 1 if an output of a circuit is 0 in `steps` cycles from any state, and 1 in the next.
    """
    bad = circuit.output_literals[circuit.outputs.index(output)]
    needed = cone(circuit, [bad])
    inputs = len(circuit.registers) + len(circuit.inputs) * (steps + 1)
    builder = Gates(inputs)
    both = builder.both
    state = [2 * (1 + i) for i in range(len(circuit.registers))]
    first_gate = 1 + len(circuit.inputs) + len(circuit.registers)
    result = 1
    for step in range(steps + 1):
        start = 1 + len(circuit.registers) + step * len(circuit.inputs)
        literals = [0, *(2 * (start + i) for i in range(len(circuit.inputs))), *state]
        for index, (left, right) in enumerate(circuit.gates):
            literals.append(
                both(literals[left >> 1] ^ (left & 1), literals[right >> 1] ^ (right & 1))
                if first_gate + index in needed
                else 0
            )
        violated = literals[bad >> 1] ^ (bad & 1)
        result = both(result, violated if step == steps else violated ^ 1)
        state = [
            literals[each >> 1] ^ (each & 1) if first_gate - len(state) + i in needed else 0
            for i, each in enumerate(circuit.registers)
        ]
    return write_aiger(inputs, builder.gates, result)


def cofactor(circuit: Aiger, output: str, fixed: Mapping[str, int]) -> tuple[list[str], bytes]:
    """Return a combinational circuit with constant inputs.

    Parameters
    ----------
    circuit : Aiger
        Without registers.
    output : str
        The only one of the result.
    fixed : mapping
        Values of some inputs.

    Returns
    -------
    inputs : list of str
        Those that are left.
    content : bytes
        A binary AIGER file.
    """
    free = [name for name in circuit.inputs if name not in fixed]
    number = {name: 2 * (1 + index) for index, name in enumerate(free)}
    builder = Gates(len(free))
    literals = [0, *(fixed[n] if n in fixed else number[n] for n in circuit.inputs)]
    for left, right in circuit.gates:
        literals.append(
            builder.both(literals[left >> 1] ^ (left & 1), literals[right >> 1] ^ (right & 1))
        )
    result = circuit.output_literals[circuit.outputs.index(output)]
    return free, write_aiger(len(free), builder.gates, literals[result >> 1] ^ (result & 1))


class Gates:
    """AND gates after so many inputs, equal ones once and constants folded."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.gates: list[tuple[int, int]] = []
        self._numbers: dict[tuple[int, int], int] = {}

    def both(self, left: int, right: int) -> int:
        """Return the literal of the AND of two literals."""
        low, high = min(left, right), max(left, right)
        if low == 0 or low == high ^ 1:
            return 0
        if low in (1, high):
            return high
        if (high, low) not in self._numbers:
            self.gates.append((high, low))
            self._numbers[high, low] = 2 * (self.inputs + len(self.gates))
        return self._numbers[high, low]

    def either(self, left: int, right: int) -> int:
        """Return the literal of the OR of two literals."""
        return self.both(left ^ 1, right ^ 1) ^ 1

    def differ(self, left: int, right: int) -> int:
        """Return the literal of the exclusive OR of two literals."""
        return self.either(self.both(left, right ^ 1), self.both(left ^ 1, right))


def cone(circuit: Aiger, literals: Iterable[int], *, through_registers: bool = True) -> set[int]:
    """Return the nodes that literals depend on, through registers too or up to them."""
    registers = 1 + len(circuit.inputs)
    first_gate = registers + len(circuit.registers)
    nodes, pending = set[int](), [literal >> 1 for literal in literals]
    while pending:
        node = pending.pop()
        if node in nodes:
            continue
        nodes.add(node)
        if node >= first_gate:
            pending += [operand >> 1 for operand in circuit.gates[node - first_gate]]
        elif node >= registers and through_registers:
            pending.append(circuit.registers[node - registers] >> 1)
    return nodes


def restricted(circuit: Aiger, outputs: Sequence[str]) -> Aiger:
    """Return a circuit with some of its outputs, and with nothing that they do not depend on."""
    wanted = [circuit.output_literals[circuit.outputs.index(name)] for name in outputs]
    nodes = cone(circuit, wanted)
    first_register = 1 + len(circuit.inputs)
    first_gate = first_register + len(circuit.registers)
    order = sorted(nodes - {0})
    number = {0: 0} | {node: 1 + i for i, node in enumerate(order)}

    def moved(literal: int) -> int:
        return 2 * number[literal >> 1] | literal & 1

    return Aiger(
        tuple(circuit.inputs[node - 1] for node in order if node < first_register),
        tuple(outputs),
        tuple(
            moved(circuit.registers[node - first_register])
            for node in order
            if first_register <= node < first_gate
        ),
        tuple(map(moved, wanted)),
        tuple(
            (moved(left), moved(right))
            for node in order
            if node >= first_gate
            for left, right in [circuit.gates[node - first_gate]]
        ),
    )


def write_aiger(
    inputs: int, gates: Sequence[tuple[int, int]], output: int, registers: Sequence[int] = ()
) -> bytes:
    """Return a circuit with one output as a binary AIGER file.

    Parameters
    ----------
    inputs : int
        Their nodes are the first ones, from 1; registers follow, then gates.
    gates : sequence of (int, int)
        Literals of the operands of each, the larger one first.
    output : int
        Its literal.
    registers : sequence of int
        Literals of their next values; they start at 0.
    """
    return _written(inputs, gates, [output], registers)


def write_circuit(circuit: Aiger) -> bytes:
    """Return a circuit as a binary AIGER file, without names."""
    gates = [(max(pair), min(pair)) for pair in circuit.gates]
    return _written(len(circuit.inputs), gates, circuit.output_literals, circuit.registers)


def _written(
    inputs: int,
    gates: Sequence[tuple[int, int]],
    outputs: Sequence[int],
    registers: Sequence[int],
) -> bytes:
    first = 1 + inputs + len(registers)
    total = first - 1 + len(gates)
    header = f"aig {total} {inputs} {len(registers)} {len(outputs)} {len(gates)}"
    content = bytearray("\n".join(map(str, [header, *registers, *outputs, ""])).encode())
    for index, (high, low) in enumerate(gates):
        for delta in (2 * (first + index) - high, high - low):
            value = delta
            while value >= 0x80:
                content.append(value & 0x7F | 0x80)
                value >>= 7
            content.append(value)
    return bytes(content)
