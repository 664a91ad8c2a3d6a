# SPDX-License-Identifier: Apache-2.0
"""Circuits that ask whether a changed bit is ever noticed.

All mutants of a design are in one circuit, each switched on by a number at an input.  Memories are
cut out of it: what is written and the addresses of reads are outputs, and the words that are read
are inputs, which may have any value.  A question is a circuit with one output; if that is never 1,
the mutant does what the design does.

- `Questions.step`: can a register, a memory or a port get another value, in any state?
- `Questions.within`: the same in states that the design reaches, but for some registers that are
  there twice and may differ.  As long as the answer is no, all others stay the same.

Some registers may be set free, as if they were inputs: what never happens then never happens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property

from flows.formal.aiger import Aiger, Gates, cone, write_aiger

LAWFUL = "lawful_now"
"""Output that is 1 as long as the environment keeps its rules."""

READ_ADDRESS, READ_WORD, WRITE_ENABLE, WRITE_VALUE = (
    "memory_read_address_", "memory_read_word_", "memory_write_enable_", "memory_write_value_",
)  # fmt: skip
"""Ports of memories that are cut out, followed by the number of the port."""

SUM_WORD = "sum_word_"
"""Outputs with the results of additions, followed by a number; see `flows.mutation.sums`."""


class Questions:
    """Questions about the mutants of a design.

    Parameters
    ----------
    circuit : Aiger
        With all mutants, `LAWFUL`, and the ports of memories.
    selector : str
        Input with the number of a mutant; 0 is the design.
    """

    def __init__(self, circuit: Aiger, selector: str) -> None:
        self.circuit = circuit
        self._selector = {
            1 + i: int(_bit_of(name)) for i, name in enumerate(circuit.inputs)
            if _vector_of(name) == selector
        }  # fmt: skip
        self._outputs: dict[str, list[int]] = defaultdict(list)
        for name, literal in zip(circuit.outputs, circuit.output_literals, strict=True):
            self._outputs[_vector_of(name)].append(literal)
        self._sum_bits = [
            (name, literal)
            for name, literal in zip(circuit.outputs, circuit.output_literals, strict=True)
            if name.startswith(SUM_WORD)
        ]
        self.words: dict[int, str] = {}
        """Node of each bit of a word that is read: name of the address."""
        for i, name in enumerate(circuit.inputs):
            if name.startswith(READ_WORD):
                port = _vector_of(name).removeprefix(READ_WORD)
                self.words[1 + i] = READ_ADDRESS + port

        self._select = self._only_selecting()

    @property
    def exact(self) -> bool:
        """Whether there are no memories that were cut out."""
        return not self.words

    def step(self, number: int) -> bytes | None:
        """Return a circuit without registers, or None if its output is always 0."""
        return self.within(number, free=range(len(self.circuit.registers)))

    def within(
        self, number: int, doubled: Collection[int] = (), free: Collection[int] = ()
    ) -> bytes | None:
        """Return a circuit with the registers of the design, or None if its output is always 0.

        Its output is 1 if anything gets another value but the doubled registers.

        Parameters
        ----------
        number : int
            Of the mutant.
        doubled : collection of int
            Registers that the mutant has for itself: they may differ.
        free : collection of int
            Registers that may have any value, unless they are doubled.
        """
        two = TwoCopies(self, number, frozenset(doubled))
        return two.written(two.anything_differs(), frozenset(free) - frozenset(doubled))

    def sum_words(self) -> list[list[int]]:
        """Return the literals of the result of each addition, the lowest bit first.

        Additions that others depend on come first.
        """
        words: dict[str, dict[int, int]] = defaultdict(dict)
        for name, literal in self._sum_bits:
            words[_vector_of(name)][int(_bit_of(name))] = literal
        ordered = ([word[bit] for bit in sorted(word)] for word in words.values())
        return sorted(ordered, key=lambda word: min(each >> 1 for each in word))

    def touched(self, number: int, doubled: Collection[int] = ()) -> frozenset[int]:
        """Return registers with another next value where some may differ, those included."""
        two = TwoCopies(self, number, frozenset(doubled))
        return frozenset(doubled) | {
            register for register in two.following() if len(set(two.next_values(register))) > 1
        }

    @cached_property
    def control(self) -> frozenset[int]:
        """Registers that valid, ready, and the enables of memories depend on, now or later."""
        decisive = (
            literal
            for name, literals in self._outputs.items()
            if name.endswith(("valid", "ready")) or name.startswith(WRITE_ENABLE)
            for literal in literals
        )
        return frozenset(self._registers_of(cone(self.circuit, decisive)))

    def _registers_of(self, nodes: Iterable[int]) -> set[int]:
        """Return the registers among nodes."""
        first_register = 1 + len(self.circuit.inputs)
        count = len(self.circuit.registers)
        return {n - first_register for n in nodes if 0 <= n - first_register < count}

    def around(self, registers: Collection[int], levels: int) -> frozenset[int]:
        """Return registers, those that their next values depend on, and so on for some levels."""
        found, latest = set(registers), set(registers)
        for _ in range(levels):
            values = [self.circuit.registers[register] for register in latest]
            reached = self._registers_of(cone(self.circuit, values, through_registers=False))
            latest = reached - found
            found |= reached
        return frozenset(found)

    def depending(self, registers: Collection[int]) -> frozenset[int]:
        """Return all registers that some have an effect on, themselves included."""
        first_register = 1 + len(self.circuit.inputs)
        seen: set[int] = set()
        pending = [first_register + register for register in registers]
        while pending:
            node = pending.pop()
            if node not in seen:
                seen.add(node)
                pending += self._followers[node]
        return frozenset(self._registers_of(seen))

    @cached_property
    def _followers(self) -> dict[int, list[int]]:
        circuit = self.circuit
        first_register = 1 + len(circuit.inputs)
        first_gate = first_register + len(circuit.registers)
        followers: dict[int, list[int]] = defaultdict(list)
        for index, operands in enumerate(circuit.gates):
            for operand in operands:
                followers[operand >> 1].append(first_gate + index)
        for index, literal in enumerate(circuit.registers):
            followers[literal >> 1].append(first_register + index)
        for node, address in self.words.items():
            for literal in self._outputs[address]:
                followers[literal >> 1].append(node)
        return followers

    def _only_selecting(self) -> list[int]:
        """Return the nodes that depend on nothing but the number of the mutant, in order."""
        known = {0, *self._selector}
        nodes = list(self._selector)
        first_gate = 1 + len(self.circuit.inputs) + len(self.circuit.registers)
        for index, (left, right) in enumerate(self.circuit.gates):
            if left >> 1 in known and right >> 1 in known:
                known.add(first_gate + index)
                nodes.append(first_gate + index)
        return nodes

    def constants(self, number: int) -> dict[int, int]:
        """Return the values of the nodes that depend on nothing but the number of the mutant."""
        first_gate = 1 + len(self.circuit.inputs) + len(self.circuit.registers)
        values = {0: 0}
        for node in self._select:
            if node < first_gate:
                values[node] = number >> self._selector[node] & 1
            else:
                left, right = self.circuit.gates[node - first_gate]
                values[node] = (values[left >> 1] ^ left & 1) & (values[right >> 1] ^ right & 1)
        return values


class TwoCopies:
    """The gates of a design and a mutant with the same inputs.

    Parameters
    ----------
    questions : Questions
    number : int
        Of the mutant.
    doubled : frozenset of int
        Registers that the mutant has for itself.
    equal : collection of int
        Nodes of the circuit that have the same value in both.
    """

    def __init__(
        self,
        questions: Questions,
        number: int,
        doubled: frozenset[int],
        equal: Collection[int] = (),
    ) -> None:
        circuit = questions.circuit
        self._questions, self._circuit = questions, circuit
        self._first_register = 1 + len(circuit.inputs)
        self._first_gate = first_gate = self._first_register + len(circuit.registers)
        words = list(questions.words)
        self._twins = {each: first_gate + i for i, each in enumerate(sorted(doubled))}
        other = {node: first_gate + len(doubled) + i for i, node in enumerate(words)}
        self._other_words = {node: 2 * number for node, number in other.items()}
        self.gates = Gates(first_gate - 1 + len(doubled) + len(words))
        constants = [questions.constants(each) for each in (0, number)]
        own = {node: 2 * node for node in range(1, first_gate)}
        self._values = [own | constants[0], constants[1]]
        changed = [n for n, value in constants[1].items() if value != constants[0][n]]
        changed += [self._first_register + each for each in doubled]
        self._affected = self._reached(changed)
        for register, twin in self._twins.items():
            self._values[1][self._first_register + register] = 2 * twin
        self._register_of_twin = {twin: register for register, twin in self._twins.items()}
        for node in equal:
            self._values[1][node] = self._value(0, node)

    def _reached(self, pending: list[int]) -> set[int]:
        """Return the nodes that some have an effect on in the same cycle."""
        seen = set(pending)
        while pending:
            for node in self._questions._followers[pending.pop()]:
                if node not in seen:
                    is_register = self._first_register <= node < self._first_gate
                    seen.add(-node if is_register else node)
                    if not is_register:
                        pending.append(node)
        return seen

    def following(self) -> list[int]:
        """Return the registers whose next value may differ."""
        return sorted(-node - self._first_register for node in self._affected if node < 0)

    @property
    def twin_nodes(self) -> Collection[int]:
        """Nodes of the registers that the mutant has for itself."""
        return self._register_of_twin.keys()

    def register_of(self, node: int) -> int | None:
        """Return the register, of the design or the mutant, that a node is, if it is one."""
        if self._first_register <= node < self._first_gate:
            return node - self._first_register
        return self._register_of_twin.get(node)

    def pair(self, literal: int) -> tuple[int, int]:
        """Return the literals of a literal of the circuit, of the design and of the mutant."""
        return self._literal(0, literal), self._literal(1, literal)

    def anything_differs(self) -> int:
        """Return the literal of: a port, a memory, or a register that is not doubled, differs."""
        bad = self.ports_differ()
        for register in self.following():
            if register not in self._twins:
                bad = self.gates.either(bad, self.gates.differ(*self.next_values(register)))
        return bad

    def next_values(self, register: int) -> tuple[int, int]:
        """Return the next values of a register, of the design and of the mutant."""
        return self.pair(self._circuit.registers[register])

    def ports_differ(self) -> int:
        """Return the literal of: a port of the design or of a memory differs where it counts."""
        gates, outputs = self.gates, self._questions._outputs
        bad = 0
        for name, literals in outputs.items():
            if name == LAWFUL or name.startswith((READ_ADDRESS, SUM_WORD)):
                continue  # words that are read at another address are others
            for literal in literals:
                if literal >> 1 not in self._affected:
                    continue
                different = gates.differ(self._literal(0, literal), self._literal(1, literal))
                if different:
                    different = gates.both(self._counts(name), different)
                bad = gates.either(bad, different)
        return bad

    def _counts(self, name: str) -> int:
        """Return the literal of: the value of a port means something."""
        outputs = self._questions._outputs
        if name.startswith(WRITE_VALUE):
            (enable,) = outputs[WRITE_ENABLE + name.removeprefix(WRITE_VALUE)]
            return self._literal(0, enable)
        if name.endswith(("valid", "ready")):
            return 1
        valids = [v for v in outputs if v.endswith("valid") and name.startswith(v[:-5])]
        if not valids:
            return 1
        (valid,) = outputs[max(valids, key=len)]
        return self._literal(0, valid)

    def written(self, bad: int, free: frozenset[int]) -> bytes | None:
        """Return the circuit of a literal as binary AIGER, None if it is always 0.

        Parameters
        ----------
        bad : int
        free : frozenset of int
            Registers that are inputs.
        """
        if bad == 0:
            return None
        (lawful,) = self._questions._outputs[LAWFUL]
        bad = self.gates.both(self._literal(0, lawful), bad)
        of_twin = self._register_of_twin
        following: dict[int, int] = {}
        inputs: set[int] = set()
        seen: set[int] = {0}
        pending = [bad >> 1]
        while pending:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            if node > self.gates.inputs:
                left, right = self.gates.gates[node - self.gates.inputs - 1]
                pending += [left >> 1, right >> 1]
                continue
            register = node - self._first_register
            if node in of_twin:
                following[node] = self._literal(1, self._circuit.registers[of_twin[node]])
            elif 0 <= register < len(self._circuit.registers) and register not in free:
                following[node] = self._literal(0, self._circuit.registers[register])
            else:
                inputs.add(node)
                continue
            pending.append(following[node] >> 1)
        order = [*sorted(inputs), *sorted(following)]
        number = {0: 0} | {node: 1 + i for i, node in enumerate(order)}
        gates = []
        for index, (left, right) in enumerate(self.gates.gates):
            node = self.gates.inputs + 1 + index
            if node in seen:
                pair = [2 * number[each >> 1] | each & 1 for each in (left, right)]
                gates.append((max(pair), min(pair)))
                number[node] = len(order) + len(gates)
        literals = [2 * number[each >> 1] | each & 1 for _, each in sorted(following.items())]
        return write_aiger(len(inputs), gates, 2 * number[bad >> 1] | bad & 1, literals)

    def _literal(self, side: int, literal: int) -> int:
        return self._value(side, literal >> 1) ^ (literal & 1)

    def _value(self, side: int, wanted: int) -> int:
        """Return the literal of a node, after those of all that it depends on."""
        if side and wanted not in self._affected:
            side = 0
        values = self._values[side]
        if wanted in values:
            return values[wanted]
        pending = [wanted]
        while pending:
            node = pending[-1]
            if node in values:
                pending.pop()
                continue
            if side and node not in self._affected:
                values[node] = self._value(0, node)
                continue
            address = self._questions.words.get(node)
            operands = (
                self._circuit.gates[node - self._first_gate]
                if address is None
                else self._questions._outputs[address]
            )
            missing = [each >> 1 for each in operands if each >> 1 not in values]
            if missing:
                pending += missing
            elif address is None:
                left, right = operands
                values[node] = self.gates.both(
                    values[left >> 1] ^ (left & 1), values[right >> 1] ^ (right & 1)
                )
            else:
                values[node] = self._word(node, operands)
        return values[wanted]

    def _word(self, node: int, address: Sequence[int]) -> int:
        """Return a bit of a word that the mutant reads: the same if the address is."""
        both, either = self.gates.both, self.gates.either
        other = 0
        for literal in address:
            pair = self._literal(0, literal), self._literal(1, literal)
            other = either(other, self.gates.differ(*pair))
        return either(both(other, self._other_words[node]), both(other ^ 1, 2 * node))


def _vector_of(name: str) -> str:
    return name.partition("[")[0]


def _bit_of(name: str) -> str:
    return name.partition("[")[2].rstrip("]") or "0"
