# SPDX-License-Identifier: Apache-2.0
"""Proofs that sums stay the same though the bits that are added differ.

A carry-save accumulator holds a sum in two vectors.  A digit that is a negative zero instead of a
zero changes both, and their total not.  No register but those is the same in design and mutant, so
that an induction over equal registers does not show it.  This one is over *totals*: sums of
registers with weights, modulo a power of two.

1. Words that adders return (`SUM_WORD`) are claimed to be equal.  The difference of the two words
   is a linear form of bits.  Full adders are found by their functions; wherever a form holds the
   sum and twice the carry, it gets the three operands instead.  What is left are registers, and
   bits in front of the first adders.
2. The registers that are left make a total.  Its next value is rewritten in the same way, for each
   value of the signals that select or clear, until no new totals appear.
3. Bits in front of the adders depend on registers without feedback.  Those are replaced by what
   they were made of some cycles before, and a solver shows that the rest of the form is zero.

All totals then stay equal if they are equal once, and in the first cycle all registers are zero.
At last everything else has to be the same where the claimed words are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from flows.formal.aiger import Gates, cone, write_aiger
from flows.mutation.questions import Questions, TwoCopies

Search = Callable[[bytes, bool], bool]
"""Whether the output of a circuit is never 1; with or without registers."""

_SHIFT = 64
"""Weight of the lowest bit of a word, as a power of two: lower carries have smaller ones."""

_CUTS = 12
"""Sets of leaves that are tried for each gate."""

_MOST_CARRIES = 3
"""Top bits of a word that may be carries, and differ."""

_MOST_TOTALS = 200
_MOST_SELECTS = 8
_SELECT_LEVELS = 2
"""Gates behind a bit that is ANDed to others, whose inputs may select, too."""

Cut = tuple[tuple[int, ...], int]
"""Leaves, in order, and the function of them as a truth table."""


class _Undecided(Exception):
    """No proof is found."""


@dataclass(frozen=True)
class _Total:
    """Registers with weights whose sum is the same in design and mutant.

    Parameters
    ----------
    weights : tuple of (int, int)
        Register and weight.
    modulus : int
    """

    weights: tuple[tuple[int, int], ...]
    modulus: int


@dataclass
class _Form:
    """A sum of bits with weights, modulo a power of two."""

    modulus: int
    constant: int = 0
    weights: dict[int, int] = field(default_factory=dict)

    def add(self, literal: int, weight: int) -> None:
        """Add a literal some times."""
        node = literal >> 1
        if literal & 1:
            self.constant = (self.constant + weight) % self.modulus
            weight = -weight
        if not node:
            return
        weight = (self.weights.pop(node, 0) + weight) % self.modulus
        if weight:
            self.weights[node] = weight

    def of(self, literal: int) -> int:
        """Return the weight of a literal in the form."""
        weight = self.weights.get(literal >> 1, 0)
        return -weight % self.modulus if literal & 1 else weight


@dataclass(frozen=True)
class _Adder:
    """Literals of which ``sum + 2 * carry`` is the sum of the operands."""

    operands: tuple[int, ...]
    sum: int
    carry: int


def same_totals(questions: Questions, number: int, search: Search) -> bool:
    """Return whether a mutant is proven to do what the design does by totals.

    Parameters
    ----------
    questions : Questions
    number : int
        Of the mutant.
    search : callable
        It may raise an error if there is no time left.
    """
    try:
        return _Totals(questions, number, search).proven()
    except _Undecided:
        return False


class _Totals:
    """The proof of one mutant."""

    def __init__(self, questions: Questions, number: int, search: Search) -> None:
        self._questions, self._number, self._search = questions, number, search
        self._every = questions.depending(questions.touched(number))
        self._levels = self._forward()
        self._two = TwoCopies(questions, number, self._every)
        self._adders = _Adders(self._two.gates)
        self._hard: dict[int, bool] = {0: False}
        self._totals: list[_Total] = []
        self._equal: list[tuple[int, int]] = []

    def proven(self) -> bool:
        """Return whether the mutant is equal."""
        questions = self._questions
        if not self._every or self._every & questions.control:
            return False
        claimed: set[int] = set()
        for literals in questions.sum_words():
            pairs = [self._two.pair(literal) for literal in literals]
            if all(left == right for left, right in pairs):
                continue
            modulus = 1 << (len(pairs) + _SHIFT)
            weighted = [(*pair, 1 << (i + _SHIFT)) for i, pair in enumerate(pairs)]
            for dropped in range(min(_MOST_CARRIES + 1, len(pairs))):
                width = len(pairs) - dropped
                if self._holds(weighted[:width], modulus >> dropped):
                    self._equal += pairs[:width]
                    claimed |= {literal >> 1 for literal in literals[:width]}
                    break
        if not claimed:
            return False
        doubled = self._levels.keys() | {r for t in self._totals for r, _ in t.weights}
        two = TwoCopies(questions, self._number, frozenset(doubled), equal=claimed)
        bad = two.anything_differs()
        content = two.written(bad, frozenset(range(len(questions.circuit.registers))) - doubled)
        return content is None or self._search(content, True)

    def _forward(self) -> dict[int, int]:
        """Return the registers without feedback that the change has an effect on, by level."""
        circuit = self._questions.circuit
        first = 1 + len(circuit.inputs)
        sources = {
            register: {
                node - first
                for node in cone(circuit, [circuit.registers[register]], through_registers=False)
                if node - first in self._every
            }
            for register in self._every
        }
        levels: dict[int, int] = {}
        while True:
            more = {
                register: 1 + max((levels[each] for each in of), default=-1)
                for register, of in sources.items()
                if register not in levels and of <= levels.keys()
            }
            if not more:
                return levels
            levels |= more

    def _holds(self, pairs: Sequence[tuple[int, int, int]], modulus: int) -> bool:
        """Return whether weighted pairs of literals have the same sum, and the totals for that."""
        before = len(self._totals)
        try:
            self._show_zero(pairs, modulus, ())
            at = before
            while at < len(self._totals):
                total = self._totals[at]
                weighted = [(*self._two.next_values(r), w) for r, w in total.weights]
                self._show_zero(weighted, total.modulus, ())
                at += 1
        except _Undecided:
            del self._totals[before:]
            return False
        return True

    def _show_zero(
        self, pairs: Sequence[tuple[int, int, int]], modulus: int, selects: tuple[int, ...]
    ) -> None:
        """Show that two sums are the same where some literals are 1, or raise `_Undecided`."""
        form = _Form(modulus)
        restrict = _Restriction(self._two.gates, selects)
        for left, right, weight in pairs:
            form.add(restrict(left), -weight)
            form.add(restrict(right), weight)
        equal = [(restrict(left), restrict(right)) for left, right in self._equal]
        self._adders.rewrite(form, equal)
        blocked = [n for n in form.weights if self._is_hard(n) and n > self._two.gates.inputs]
        select = self._select_of(blocked)
        if not blocked:
            try:
                self._show_rest(form)
            except _Undecided:
                if not self._never(selects):
                    raise
        elif not self._never(selects):
            if select is None or len(selects) == _MOST_SELECTS:
                raise _Undecided
            for literal in (select, select ^ 1):
                self._show_zero(pairs, modulus, (*selects, literal))

    def _never(self, selects: Sequence[int]) -> bool:
        """Return whether literals of the design are never 1 together."""
        if len(selects) < 2:
            return False  # each of them is sometimes 1
        gates, bad = self._two.gates, 1
        for literal in selects:
            bad = gates.both(bad, literal)
        content = self._two.written(bad, frozenset())
        return content is None or self._search(content, True)

    def _is_hard(self, wanted: int) -> bool:
        """Return whether a node depends on a register with feedback that may differ."""
        two, hard = self._two, self._hard
        pending = [wanted]
        while pending:
            node = pending[-1]
            if node in hard:
                pending.pop()
            elif node <= two.gates.inputs:
                register = two.register_of(node)
                hard[node] = register in self._every and register not in self._levels
            else:
                operands = [each >> 1 for each in two.gates.gates[node - two.gates.inputs - 1]]
                missing = [each for each in operands if each not in hard]
                if missing:
                    pending += missing
                else:
                    hard[node] = any(hard[each] for each in operands)
        return hard[wanted]

    def _select_of(self, blocked: Sequence[int]) -> int | None:
        """Return the literal that most of the nodes are ANDed with."""
        two, votes = self._two, Counter[int]()
        for node in blocked:
            seen, pending, found = set[int](), [node], set[int]()
            while pending:
                each = pending.pop()
                if each in seen or each <= two.gates.inputs:
                    continue
                seen.add(each)
                operands = two.gates.gates[each - two.gates.inputs - 1]
                hard = [self._is_hard(operand >> 1) for operand in operands]
                pending += [o >> 1 for o, is_hard in zip(operands, hard, strict=True) if is_hard]
                if sum(hard) == 1:
                    found |= self._near(operands[hard.index(False)] >> 1)
            votes.update(found)
        return 2 * min(votes, key=lambda each: (-votes[each], each)) if votes else None

    def _near(self, node: int) -> set[int]:
        """Return a node, and those that it is made of by few gates."""
        gates, found, latest = self._two.gates, {node}, {node}
        for _ in range(_SELECT_LEVELS):
            latest = {
                operand >> 1
                for each in latest
                if each > gates.inputs
                for operand in gates.gates[each - gates.inputs - 1]
            }
            found |= latest
        return found

    def _show_rest(self, form: _Form) -> None:
        """Show that a form without adders is zero, or raise `_Undecided`."""
        two = self._two
        sides: tuple[dict[int, int], dict[int, int]] = ({}, {})
        for node in list(form.weights):
            register = two.register_of(node)
            if register is not None and self._is_hard(node):
                is_twin = node in two.twin_nodes
                weight = form.weights.pop(node)
                sides[is_twin][register] = weight if is_twin else -weight % form.modulus
        left, total = sides
        if left != total:
            raise _Undecided
        self._add_total(total, form.modulus)
        if form.weights or form.constant:
            _History(self._questions, self._number, self._levels, self._every, two).show_zero(
                form, self._search
            )

    def _add_total(self, weights: dict[int, int], modulus: int) -> None:
        """Subtract totals from weights of registers; what is left is another one."""
        for total in self._totals:
            register, weight = total.weights[0]
            if register not in weights or weights[register] % weight:
                continue
            times = weights[register] // weight
            if times * total.modulus % modulus:
                continue
            left = dict(weights)
            for each, one in total.weights:
                value = (left.pop(each, 0) - times * one) % modulus
                if value:
                    left[each] = value
            if len(left) <= len(weights) - len(total.weights):
                weights = left
        if weights:
            if len(self._totals) == _MOST_TOTALS:
                raise _Undecided
            self._totals.append(_Total(tuple(sorted(weights.items())), modulus))


class _Restriction:
    """Literals where some nodes are constant."""

    def __init__(self, gates: Gates, ones: Collection[int]) -> None:
        self._gates = gates
        self._values = {0: 0} | {literal >> 1: 1 ^ (literal & 1) for literal in ones}

    def __call__(self, literal: int) -> int:
        gates, values = self._gates, self._values
        pending = [literal >> 1]
        while pending:
            node = pending[-1]
            if node in values:
                pending.pop()
            elif node <= gates.inputs:
                values[node] = 2 * node
            else:
                operands = gates.gates[node - gates.inputs - 1]
                missing = [each >> 1 for each in operands if each >> 1 not in values]
                if missing:
                    pending += missing
                else:
                    left, right = (values[each >> 1] ^ (each & 1) for each in operands)
                    values[node] = gates.both(left, right)
        return values[literal >> 1] ^ (literal & 1)


def _variable(position: int) -> int:
    """Return the truth table of one of three variables."""
    return (0b10101010, 0b11001100, 0b11110000)[position]


def _majority(signs: Sequence[int]) -> int:
    a, b, c = (_variable(i) ^ (255 * sign) for i, sign in enumerate(signs))
    return a & b | c & (a | b)


_XOR = {0b01100110: 2, 0b10010110: 3}
"""Truth tables of exclusive ORs: number of variables."""

_CARRIES: Mapping[int, tuple[int, ...]] = {
    **{_majority(signs): signs for signs in product((0, 1), repeat=3)},
    **{
        (_variable(0) ^ 255 * a) & (_variable(1) ^ 255 * b): (a, b)
        for a, b in product((0, 1), repeat=2)
    },
}
"""Truth tables of carries: which operands are inverted."""


class _Adders:
    """Full and half adders among gates."""

    def __init__(self, gates: Gates) -> None:
        self._gates = gates
        self._cuts: dict[int, list[Cut]] = {}
        self._sums: dict[tuple[int, ...], dict[int, int]] = defaultdict(dict)
        self._carries: dict[tuple[int, ...], dict[int, tuple[tuple[int, ...], int]]] = defaultdict(
            dict
        )
        self._leaves_of: dict[int, list[tuple[int, ...]]] = defaultdict(list)

    def rewrite(self, form: _Form, equal: Sequence[tuple[int, int]]) -> None:
        """Replace sums and carries by operands as long as that is possible."""
        for node in list(form.weights):
            self._find(node)
        others = {}
        for left, right in equal:
            others[left >> 1] = (left, right)
            others[right >> 1] = (left, right)
        tried: set[tuple[int, int]] = set()
        again = True
        while again:
            again = False
            for node in sorted(form.weights, reverse=True):
                if node not in form.weights:
                    continue
                if self._replace(form, node) or self._complete(form, node, others, tried):
                    again = True

    def _replace(self, form: _Form, node: int) -> bool:
        for adder in self._around(node):
            weight = form.of(adder.sum)
            if weight and (form.of(adder.carry) - 2 * weight) % form.modulus == 0:
                form.add(adder.sum, -weight)
                form.add(adder.carry, -2 * weight)
                for operand in adder.operands:
                    form.add(operand, weight)
                return True
        weight = form.weights[node]
        if 2 * weight % form.modulus == 0:  # the carry is lost
            for leaves in self._leaves_of[node]:
                if node in self._sums[leaves]:
                    form.add(2 * node | self._sums[leaves][node], -weight)
                    for leaf in leaves:
                        form.add(2 * leaf, weight)
                    return True
        return False

    def _complete(
        self,
        form: _Form,
        node: int,
        others: Mapping[int, tuple[int, int]],
        tried: set[tuple[int, int]],
    ) -> bool:
        """Add a sum bit, which is the same on both sides, to a carry without one."""
        for adder in self._around(node):
            weight = form.of(adder.carry)
            if node != adder.carry >> 1 or weight % 2 or form.of(adder.sum):
                continue
            pair = others.get(adder.sum >> 1)
            if pair is None or (node, weight) in tried:
                continue
            tried.add((node, weight))
            left, right = pair
            mine, other = (left, right) if left >> 1 == adder.sum >> 1 else (right, left)
            sign = (mine ^ adder.sum) & 1
            form.add(mine ^ sign, weight // 2)
            form.add(other ^ sign, -weight // 2)
            return True
        return False

    def _around(self, node: int) -> Iterator[_Adder]:
        """Yield the adders of which a node is the sum or the carry."""
        for leaves in self._leaves_of[node]:
            for carry, (signs, inverted) in self._carries[leaves].items():
                for total, is_not in self._sums[leaves].items():
                    if node in (carry, total):
                        parity = (is_not + sum(signs)) & 1
                        yield _Adder(
                            tuple(2 * leaf | s for leaf, s in zip(leaves, signs, strict=True)),
                            2 * total | parity,
                            2 * carry | inverted,
                        )

    def _find(self, wanted: int) -> None:
        """Find the adders below a node."""
        gates = self._gates
        pending = [wanted]
        while pending:
            node = pending[-1]
            if node in self._cuts:
                pending.pop()
                continue
            if node <= gates.inputs:
                self._cuts[node] = [((node,), _variable(0))]
                continue
            operands = gates.gates[node - gates.inputs - 1]
            missing = [each >> 1 for each in operands if each >> 1 not in self._cuts]
            if missing:
                pending += missing
                continue
            self._cuts[node] = self._merged(node, *operands)

    def _merged(self, node: int, left: int, right: int) -> list[Cut]:
        found: dict[tuple[int, ...], int] = {}
        for leaves, table in self._cuts[left >> 1]:
            for others, second in self._cuts[right >> 1]:
                union = tuple(sorted({*leaves, *others}))
                if len(union) > 3 or union in found:
                    continue
                one = _moved(leaves, table, union) ^ 255 * (left & 1)
                two = _moved(others, second, union) ^ 255 * (right & 1)
                found[union] = one & two
        for leaves, table in found.items():
            self._note(node, leaves, table)
        order = sorted(found.items(), key=lambda cut: (len(cut[0]), -sum(cut[0])))
        return [((node,), _variable(0)), *order[:_CUTS]]

    def _note(self, node: int, leaves: tuple[int, ...], table: int) -> None:
        for inverted in (0, 1):
            function = table ^ 255 * inverted
            if _XOR.get(function) == len(leaves):
                self._sums[leaves][node] = inverted
                self._leaves_of[node].append(leaves)
            signs = _CARRIES.get(function)
            if signs is not None and len(signs) == len(leaves):
                self._carries[leaves][node] = signs, inverted
                self._leaves_of[node].append(leaves)
                break  # a majority is its own dual


def _moved(leaves: tuple[int, ...], table: int, union: tuple[int, ...]) -> int:
    """Return the truth table over more leaves."""
    if leaves == union:
        return table
    places = [union.index(leaf) for leaf in leaves]
    result = 0
    for row in range(8):
        source = sum((row >> place & 1) << i for i, place in enumerate(places))
        result |= (table >> source & 1) << row
    return result


class _History:
    """Registers without feedback as functions of earlier cycles.

    All registers were zero in the first cycle, which may be any of those.
    """

    def __init__(
        self,
        questions: Questions,
        number: int,
        levels: Mapping[int, int],
        every: Collection[int],
        two: TwoCopies,
    ) -> None:
        self._questions, self._circuit = questions, questions.circuit
        self._levels, self._every, self._two = levels, every, two
        self._depth = 2 + max(levels.values(), default=0)
        self._first_register = 1 + len(self._circuit.inputs)
        self._first_gate = self._first_register + len(self._circuit.registers)
        # A copy of all inputs and registers for each cycle; node 0 says whether it was there.
        self.gates = Gates(self._first_gate * (self._depth + 1))
        self._constants = [questions.constants(each) for each in (0, number)]
        self._values: dict[tuple[int, int, int], int] = {}

    def show_zero(self, form: _Form, search: Search) -> None:
        """Show that a form is zero, or raise `_Undecided`."""
        least = min((w & -w) for w in (*form.weights.values(), form.constant) if w)
        width = (form.modulus // least).bit_length() - 1
        heaps: tuple[list[list[int]], list[list[int]]] = (
            [[] for _ in range(width)], [[] for _ in range(width)],
        )  # fmt: skip
        for literal, weight in [(1, form.constant), *self._literals(form.weights)]:
            times = weight // least
            negative = times >> (width - 1)
            times = (1 << width) - times if negative else times
            for column in range(width):
                if times >> column & 1:
                    heaps[negative][column].append(literal)
        bad = 0
        for left, right in zip(self._sum(heaps[0]), self._sum(heaps[1]), strict=True):
            bad = self.gates.either(bad, self.gates.differ(left, right))
        if bad == 0:
            return
        if not search(self._written(bad), False):
            raise _Undecided

    def _sum(self, heap: list[list[int]]) -> list[int]:
        """Return the bits of the sum of columns of literals."""
        gates, bits = self.gates, []
        columns = [*map(list, heap), []]
        for column in range(len(heap)):
            queue = columns[column]
            while len(queue) > 1:
                operands = [queue.pop(0) for _ in range(min(3, len(queue)))]
                if len(operands) == 2:
                    operands.append(0)
                a, b, c = operands
                half = gates.differ(a, b)
                queue.append(gates.differ(half, c))
                columns[column + 1].append(gates.either(gates.both(a, b), gates.both(half, c)))
            bits.append(queue[0] if queue else 0)
        return bits

    def _literals(self, weights: Mapping[int, int]) -> Iterator[tuple[int, int]]:
        """Yield bits of the form, by inputs of all cycles, with their weights."""
        two, values = self._two, {0: 0}
        for wanted, weight in weights.items():
            pending = [wanted]
            while pending:
                node = pending[-1]
                if node in values:
                    pending.pop()
                elif node <= two.gates.inputs:
                    values[node] = self._leaf(node)
                else:
                    operands = two.gates.gates[node - two.gates.inputs - 1]
                    missing = [each >> 1 for each in operands if each >> 1 not in values]
                    if missing:
                        pending += missing
                    else:
                        left, right = (values[each >> 1] ^ (each & 1) for each in operands)
                        values[node] = self.gates.both(left, right)
            yield values[wanted], weight

    def _leaf(self, node: int) -> int:
        if node in self._two.twin_nodes:
            register = self._two.register_of(node)
            assert register is not None
            return self._value(1, self._first_register + register, 0)
        if node >= self._first_gate:
            raise _Undecided  # a word that only the mutant reads
        return self._value(0, node, 0)

    def _value(self, side: int, wanted: int, age: int) -> int:
        """Return the literal of a node of the circuit some cycles ago."""
        values = self._values
        pending = [(side, wanted, age)]
        while pending:
            key = pending[-1]
            if key in values:
                pending.pop()
                continue
            needed = self._needed(key)
            missing = [each for each, _ in needed if each not in values]
            if missing:
                pending += missing
                continue
            literals = [values[each] ^ inverted for each, inverted in needed]
            values[key] = self._evaluated(key, literals)
        return values[side, wanted, age]

    def _needed(self, key: tuple[int, int, int]) -> list[tuple[tuple[int, int, int], int]]:
        """Return the operands of a value, each with 1 if it is inverted."""
        side, node, age = key
        circuit = self._circuit
        if node in self._constants[side]:
            return []
        if node >= self._first_gate:
            operands = circuit.gates[node - self._first_gate]
            return [((side, each >> 1, age), each & 1) for each in operands]
        register = node - self._first_register
        if register < 0 or age == self._depth:
            if register in self._every or (side and node in self._questions.words):
                raise _Undecided
            return []
        if register in self._every and register not in self._levels:
            raise _Undecided
        literal = circuit.registers[register]
        of = side if register in self._levels else 0
        return [((of, literal >> 1, age + 1), literal & 1)]

    def _evaluated(self, key: tuple[int, int, int], literals: Sequence[int]) -> int:
        side, node, age = key
        if node in self._constants[side]:
            return self._constants[side][node]
        if node >= self._first_gate:
            return self.gates.both(*literals)
        if literals:  # the register, unless this is the first cycle
            return self.gates.both(2 * (self._first_gate * (age + 1)), literals[0])
        return 2 * (self._first_gate * age + node)

    def _written(self, bad: int) -> bytes:
        """Return the circuit of a literal, without the inputs that it does not depend on."""
        gates, seen, pending = self.gates, {0}, [bad >> 1]
        while pending:
            node = pending.pop()
            if node not in seen:
                seen.add(node)
                if node > gates.inputs:
                    pending += [each >> 1 for each in gates.gates[node - gates.inputs - 1]]
        inputs = sorted(node for node in seen if 0 < node <= gates.inputs)
        number = {0: 0} | {node: 1 + i for i, node in enumerate(inputs)}
        written = []
        for node in sorted(node for node in seen if node > gates.inputs):
            operands = gates.gates[node - gates.inputs - 1]
            pair = [2 * number[each >> 1] | each & 1 for each in operands]
            written.append((max(pair), min(pair)))
            number[node] = len(inputs) + len(written)
        return write_aiger(len(inputs), written, 2 * number[bad >> 1] | bad & 1)
