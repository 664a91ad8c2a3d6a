# SPDX-License-Identifier: Apache-2.0
"""Adders, comparisons and products of a unit: carry chains, DSP blocks, and gates around them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from cost_model.netlist.fabric import elaborate
from cost_model.netlist.fabric.dsp_packing import Packing
from cost_model.netlist.fabric.elaborate import Word, extended
from cost_model.netlist.fabric.fabric import Fabric
from cost_model.netlist.fabric.gates import FALSE, TRUE, Gates
from cost_model.netlist.model import Bits, Cell
from cost_model.netlist.sums import Sum, trimmed

CHAIN, RIPPLE = 1.7, 0.07
"""How long a carry chain takes from an operand to a sum, and for each bit, in look-up tables."""


@dataclass
class Block:
    """Something whose outputs are inputs of gates.

    Parameters
    ----------
    owner : int
        Number of the module that it is counted for.
    needs : list of list of int
        For each output, the literals that it depends on, unless those of outputs below it do.
    ripples : bool
        Whether an output depends on what those below it depend on.
    count : callable
        Takes how many outputs are made, up to the highest that is used, and adds what it is.
    used : int
        Outputs up to the highest that is used.
    live : set of int
        Outputs that are used.
    type : str
        What paths lead through, a key of `cost_model.timing.network.BLOCKS`.
    name : str
        Of a register or a memory, what the Verilog calls it, with the instances that it is in.
    addresses : sequence of Bits
        Of a memory, for each output the nets of the address that it waits for; none if it appears
        with the clock.
    """

    owner: int
    needs: list[list[int]]
    ripples: bool
    count: Callable[[Block], None]
    used: int = 0
    live: set[int] = field(default_factory=set)
    type: str = "instance"
    name: str = ""
    addresses: Sequence[Bits] = ()


class Late(Block):
    """A block whose inputs are known once all is made.

    Parameters
    ----------
    find : callable
        Returns the literals that all outputs depend on.
    find_by_output : callable, optional
        Takes an output, and returns further literals that it depends on; default none.
    """

    def __init__(
        self,
        owner: int,
        find: Callable[[], list[int]],
        count: Callable[[Block], None],
        find_by_output: Callable[[int], list[int]] = lambda index: [],
    ) -> None:
        super().__init__(owner, [], False, count)
        self.find, self.find_by_output = find, find_by_output

    @property
    def inputs(self) -> list[int]:
        """The literals that its used outputs depend on."""
        further = (bit for index in self.live for bit in self.find_by_output(index))
        return [*self.find(), *further]


class Chains(ABC):
    """Carry chains and DSP blocks of adders and products, for `cost_model.netlist.fabric.blocks`.

    Attributes
    ----------
    fabric : Fabric
    gates : Gates
    blocks : dict
        For each node that is an output of a block, the block and which output.
    differences, comparisons : dict
        Blocks that subtract, and those that compare otherwise, by the numbers.
    """

    fabric: Fabric
    gates: Gates
    blocks: dict[int, tuple[Block, int]]
    differences: dict[tuple[Word, Word], Block]
    comparisons: dict[tuple[Word, Word], Block]
    packed: Packing

    @abstractmethod
    def add(self, owner: int, component: str, count: float) -> None:
        """Count components of a module."""

    @abstractmethod
    def literals(self, bits: Iterable[int]) -> list[int]:
        """Return the literals of nets."""

    @abstractmethod
    def _set(self, nets: Sequence[int], word: Word) -> None:
        """Say which literals nets are."""

    def _chain(self, a: Word, b: Word, *, minus: bool, whole: bool = False) -> list[int]:
        """Return the sum of two words of one width, ``a - b`` if `minus`.

        Where low bits of a number are zero, there is nothing to add; unless it is to be `whole`.
        """
        width = len(a)
        word: list[int] = []
        start = 0
        ends = [b] if minus else [a, b]
        while start < width and not whole and any(end[start] == FALSE for end in ends):
            word.append(a[start] if b[start] == FALSE else b[start])
            start += 1
        whole_numbers = a, b
        a, b = list(a[start:]), list(b[start:])
        if not a:
            return word
        constant = all(bit < 2 for bit in b)
        if len(a) <= self.fabric.short_counter:
            carry = TRUE if minus else FALSE
            for x, y in zip(a, b, strict=True):
                total, carry = self.gates.full_adder(x, y ^ minus, carry)
                word.append(total)
            return word
        owner, fabric = self.gates.owner, self.fabric

        def count(block: Block) -> None:
            self.add(owner, "carry", float(fabric.carries(block.used, carry_in=constant)))
            self.add(owner, "adder_bit", block.used)

        needs = [self._operands(x, y, minus=minus) for x, y in zip(a, b, strict=True)]
        block = Block(owner, needs, True, count, type="chain")
        sums = self._made(block)
        if minus and not whole:
            self.differences.setdefault(_operands_of(*whole_numbers), block)
        for index, literal in enumerate(sums):
            self.gates.sources[literal >> 1] = [(other, CHAIN) for other in needs[index]]
            if index:
                self.gates.sources[literal >> 1].append((sums[index - 1], RIPPLE))
        return word + sums

    def _operands(self, a: int, b: int, *, minus: bool) -> list[int]:
        """Return the operands of one bit of a carry chain."""
        if self.fabric.sums_outside:
            # Where both bits are equal, either is the carry: that which takes no gates.
            swaps = not minus and self.gates.ands[a >> 1] is not None
            carry = b if swaps and self.gates.ands[b >> 1] is None else a
            return [carry, self.gates.differ(a, b ^ minus)]
        return [a, b ^ (minus and not self.fabric.subtracts)]

    def _sum(self, adder: Sum) -> None:
        width = adder.width
        plus: list[list[int]] = []
        minus: list[list[int]] = []
        for bits, (subtracted, signed) in zip(adder.rows, adder.terms, strict=True):
            row = extended(self.literals(bits), width, signed=signed)
            if any(row):
                (minus if subtracted else plus).append(row)
        inside = self.packed.adders.get(adder.result, 0)
        if inside and inside >= len(plus) + len(minus) - 1:
            word = self._opaque([bit for row in (*plus, *minus) for bit in row], width)
        elif len(plus) + len(minus) <= 2 and len(minus) < 2:
            zero = [FALSE] * width
            first = plus[0] if plus else zero
            second = minus[0] if minus else plus[1] if len(plus) > 1 else zero
            word = self._chain(first, second, minus=bool(minus))
        else:
            ones = [[TRUE] + [FALSE] * (width - 1) for _ in minus]
            inverted = [[bit ^ 1 for bit in row] for row in minus]
            a, b = elaborate.compressed(self.gates, [*plus, *inverted, *ones], width)
            word = self._chain(a, b, minus=False, whole=True)
        self._set(adder.result, extended(word, len(adder.result), signed=adder.signed))

    def _opaque(self, needs: list[int], width: int) -> list[int]:
        """Return outputs of what is part of another block, and depends on literals."""
        block = Block(self.gates.owner, [needs] * width, False, lambda block: None, type="inside")
        return self._made(block)

    def _made(self, block: Block) -> list[int]:
        """Return the outputs of a block."""
        word = []
        for index in range(len(block.needs)):
            literal = self.gates.input()
            self.blocks[literal >> 1] = (block, index)
            word.append(literal)
        return word

    def _is_dsp(self, cell: Cell) -> bool:
        """Return whether a product is one DSP block."""
        signed = all(cell.signed)
        a, b = (len(trimmed(cell.pins[pin], signed)) for pin in ("a", "b"))
        wide, narrow = self.fabric.divided(max(a, b), min(a, b), signed=signed)
        made = self.fabric.multiplies(min(len(cell.pins["y"]), a + b), min(a, b))
        return made and len(wide) * len(narrow) == 1

    def _less(self, cell: Cell) -> None:
        signed = all(cell.signed)
        a, b = (self.literals(cell.pins[pin]) for pin in ("a", "b"))
        width = max(len(a), len(b))
        a, b = extended(a, width, signed=signed), extended(b, width, signed=signed)
        while width > 1 and (a[-1] == b[-1] == FALSE or (
            signed and a[-1] == a[-2] and b[-1] == b[-2]
        )):  # fmt: skip
            a, b, width = a[:-1], b[:-1], width - 1
        constant = all(x < 2 for x in a) or all(x < 2 for x in b)
        few = sum(x > 1 for x in (*a, *b)) <= self.fabric.lut_inputs
        swapped = cell.type in ("gt", "le")
        one, other = (b, a) if swapped else (a, b)
        if width <= self.fabric.short_counter or (constant and few):
            result = elaborate.less(self.gates, one, other, signed=signed, same=False)
        elif self.fabric.compare_inputs is not None:
            result = self._grouped_less(one, other, self.fabric.compare_inputs, signed=signed)
        else:  # subtracted in the order that they have: b < a is not (a < b or a == b)
            result = self._borrow(a, b, signed=signed)
            if swapped:
                result = self.gates.either(result, elaborate.same(self.gates, a, b)) ^ 1
        result ^= cell.type in ("le", "ge")
        self._set(cell.pins["y"], [result, *[FALSE] * (len(cell.pins["y"]) - 1)])

    def _borrow(self, a: Word, b: Word, *, signed: bool) -> int:
        """Return whether ``a - b`` is negative, by a carry chain; low zeros of `b` need none."""
        operands = _operands_of(a, b)
        start = next((n for n, bit in enumerate(b) if bit != FALSE), len(b) - 1)
        a, b = a[start:], b[start:]
        fabric = self.fabric
        if len(a) <= fabric.short_counter:
            return elaborate.less(self.gates, a, b, signed=signed, same=False)
        if fabric.carry_pairs and len(a) % 2:
            below = self._compared(a[:-1], b[:-1], operands)
            one, other = (a[-1], b[-1]) if signed else (b[-1], a[-1])
            return self.gates.choose(self.gates.differ(one, other), one, below)
        return self._compared(a, b, operands)

    def _compared(self, a: Word, b: Word, operands: tuple[Word, Word]) -> int:
        """Return the carry of a subtraction, part of that of two numbers."""
        width = len(a)

        def count(block: Block) -> None:
            if not self._subtracted(operands, block):
                self.add(block.owner, "carry", float(self.fabric.borrows(width)))

        needs = [bit for x, y in zip(a, b, strict=True)
                 for bit in self._operands(x, y, minus=True)]  # fmt: skip
        (result,) = self._made(Block(self.gates.owner, [needs], False, count, type="compare"))
        self.gates.sources[result >> 1] = [(other, CHAIN) for other in needs]
        return result

    def _grouped_less(self, a: Word, b: Word, inputs: int, *, signed: bool) -> int:
        """Return whether a number is less than another: each carry cell decides for some bits.

        A look-up table says whether these bits are equal, another one whether they are less; from
        the highest bit on, as many as it has inputs for (``cmp2lcu`` of Yosys); where a number is
        constant from some bit on, a bit takes one of them.
        """
        groups: list[tuple[list[int], list[int]]] = []
        left = 0
        for end in range(len(a), 0, -1):
            constants = [any(bit < 2 for bit in word[:end]) for word in (a, b)]
            cost = 2 - sum(constants)
            if left < cost or not groups:
                groups.append(([], []))
                left = inputs
            left -= cost
            for word, part in zip((a, b), groups[-1], strict=True):
                part.insert(0, word[end - 1])
        equal = [elaborate.same(self.gates, x, y) for x, y in groups]
        below = [
            elaborate.less(self.gates, x, y, signed=signed and number == 0, same=False)
            for number, (x, y) in enumerate(groups)
        ]
        if len(groups) <= self.fabric.short_counter:
            result = FALSE
            for same, less in zip(reversed(equal), reversed(below), strict=True):
                result = self.gates.either(less, self.gates.both(same, result))
            return result
        width, key = len(groups), (tuple(a), tuple(b))

        def count(block: Block) -> None:
            if self.comparisons.setdefault(key, block) is block:
                self.add(block.owner, "carry", float(self.fabric.carries(width)))

        needs = [*equal, *below]
        (result,) = self._made(Block(self.gates.owner, [needs], False, count, type="compare"))
        self.gates.sources[result >> 1] = [(other, CHAIN) for other in needs]
        return result

    def _subtracted(self, operands: tuple[Word, Word], block: Block) -> bool:
        """Return whether another carry chain makes the difference that a comparison is made of.

        Yosys joins a comparison with a subtraction, or another comparison, of the same numbers
        (``alumacc``).
        """
        for pair in (operands, operands[::-1]):
            other = self.differences.get(pair)
            if other is not None and other.live and other is not block:
                return True
        self.differences[operands] = block
        return False

    def _mul(self, cell: Cell) -> None:
        signed = all(cell.signed)
        a, b = (self.literals(trimmed(cell.pins[pin], signed)) for pin in ("a", "b"))
        result = cell.pins["y"]
        if not a or not b:
            self._set(result, [FALSE] * len(result))
            return
        width = min(len(result), len(a) + len(b))
        if self.fabric.multiplies(width, min(len(a), len(b))):
            word = self._dsp(a, b, width, signed=signed)
        else:
            word = self._product(a, b, signed, signed)[:width]
        self._set(result, extended(word, len(result), signed=signed))

    def _product(self, a: Word, b: Word, a_signed: bool, b_signed: bool) -> list[int]:
        """Return a product, of halves of the shorter factor; see `fpga.PRODUCTS`."""
        if len(a) < len(b):
            a, b, a_signed, b_signed = b, a, b_signed, a_signed
        full = len(a) + len(b)
        sign = a[-1] if a_signed else FALSE
        if len(b) == 1:
            row = [self.gates.both(bit, b[0]) for bit in (*a, sign)]
            return self._chain([FALSE] * full, row, minus=True) if b_signed else row
        low = len(b) // 2
        high = len(b) - low
        lower = self._product(a, b[:low], a_signed, False)
        width = len(a) + high
        rest = extended(lower[low:], width, signed=a_signed)
        if high == 1 and b_signed:
            last = [self.gates.both(bit, b[low]) for bit in (*a, sign)]
            total = self._chain(rest, last, minus=True)
        else:
            upper = self._product(a, b[low:], a_signed, b_signed)
            total = self._chain(rest, extended(upper, width, signed=False), minus=False)
        return [*lower[:low], *total]

    def _dsp(self, a: Word, b: Word, width: int, *, signed: bool) -> list[int]:
        owner, fabric = self.gates.owner, self.fabric
        wide, narrow = fabric.divided(max(len(a), len(b)), min(len(a), len(b)), signed=signed)

        def parts(of: list[int], other: int) -> None:
            for index in range(1, len(of)):
                last = index == len(of) - 1
                bits = sum(of[index:]) + other if last else of[index] + other
                if bits > fabric.short_counter:
                    self.add(owner, "carry", float(fabric.carries(bits)))
                    self.add(owner, "adder_bit", bits)

        def count(block: Block) -> None:
            self.add(owner, "dsp", fabric.dsps(wide, narrow))
            for part in wide:
                parts(narrow, part)
            parts(wide, sum(narrow))

        return self._made(Block(owner, [[*a, *b]] * width, False, count, type="dsp"))


def _operands_of(a: Word, b: Word) -> tuple[Word, Word]:
    """Return two numbers without bits at the top that both repeat, or that are zero in both."""
    end = len(a)
    while end and a[end - 1] == b[end - 1] == FALSE:
        end -= 1
    while end > 1 and a[end - 1] == a[end - 2] and b[end - 1] == b[end - 2]:
        end -= 1
    return tuple(a[:end]), tuple(b[:end])
