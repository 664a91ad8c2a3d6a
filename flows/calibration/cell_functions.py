# SPDX-License-Identifier: Apache-2.0
"""Cells of a library by the function that they compute.

The smallest cell of each function is what a component of a netlist is made of at least; see
`flows.calibration.bounds`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations, product

from flows.synthesis.liberty import Library, cell_texts, insides

Table = tuple[bool, ...]
"""Outputs of a function for each combination of its inputs, in lexicographic order."""

_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|[01()!'&*|+^])")
_FUNCTION = re.compile(r'(?<!\w)function\s*:\s*"([^"]*)"')
_MOST_INPUTS = 5


class UnreadableFunctionError(ValueError):
    """A Boolean expression that is none of Liberty's."""


def truth_table(expression: str, inputs: Sequence[str]) -> Table:
    """Return the truth table of a Boolean expression of Liberty.

    Parameters
    ----------
    expression : str
        Operators are ``!``, a trailing apostrophe, ``&``, ``*`` or a space, ``^``, and ``|`` or
        ``+``, in this order.
    inputs : sequence of str
        Names of the inputs, the first one that of the most significant bit.

    Raises
    ------
    UnreadableFunctionError
        If it is no such expression, or has a name that is no input.
    """
    tokens = _tokens(expression)
    parser = _Parser(tokens, {name: index for index, name in enumerate(inputs)})
    function = parser.disjunction()
    if parser.position != len(tokens):
        raise UnreadableFunctionError(expression)
    return tuple(function(bits) for bits in product((False, True), repeat=len(inputs)))


def _tokens(expression: str) -> list[str]:
    result, position, text = [], 0, expression.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise UnreadableFunctionError(expression)
        result.append(match[1])
        position = match.end()
    return result


_Function = Callable[[Sequence[bool]], bool]


class _Parser:
    """A parser by recursive descent."""

    def __init__(self, tokens: Sequence[str], inputs: Mapping[str, int]) -> None:
        self.tokens, self.inputs, self.position = tokens, inputs, 0

    def next_is(self, symbols: str) -> bool:
        return self.position < len(self.tokens) and self.tokens[self.position] in symbols

    def disjunction(self) -> _Function:
        result = self.exclusive()
        while self.next_is("|+"):
            self.position += 1
            result = _either(result, self.exclusive())
        return result

    def exclusive(self) -> _Function:
        result = self.conjunction()
        while self.next_is("^"):
            self.position += 1
            result = _differ(result, self.conjunction())
        return result

    def conjunction(self) -> _Function:
        result = self.factor()
        while self.position < len(self.tokens) and not self.next_is("|+^)"):
            self.position += self.next_is("&*")
            result = _both(result, self.factor())
        return result

    def factor(self) -> _Function:
        if self.position >= len(self.tokens):
            raise UnreadableFunctionError("it ends too early")
        token = self.tokens[self.position]
        self.position += 1
        if token == "!":
            result = _not(self.factor())
        elif token == "(":
            result = self.disjunction()
            if not self.next_is(")"):
                raise UnreadableFunctionError("a parenthesis is not closed")
            self.position += 1
        elif token in "01":
            result = _constant(token == "1")
        elif token in self.inputs:
            result = _input(self.inputs[token])
        else:
            raise UnreadableFunctionError(f"{token} is no input")
        while self.next_is("'"):
            self.position += 1
            result = _not(result)
        return result


def _either(a: _Function, b: _Function) -> _Function:
    return lambda bits: a(bits) or b(bits)


def _both(a: _Function, b: _Function) -> _Function:
    return lambda bits: a(bits) and b(bits)


def _differ(a: _Function, b: _Function) -> _Function:
    return lambda bits: a(bits) != b(bits)


def _not(a: _Function) -> _Function:
    return lambda bits: not a(bits)


def _constant(value: bool) -> _Function:
    return lambda bits: value


def _input(index: int) -> _Function:
    return lambda bits: bits[index]


_GATES: Mapping[str, tuple[str, ...]] = {
    "buffer": ("a",),
    "inverter": ("!a",),
    "nand2": ("!(a b)", "!(a|b)"),
    "nand3": ("!(a b c)", "!(a|b|c)"),
    "and2": ("a b", "a|b"),
    "xor2": ("a^b", "!(a^b)"),
    "aoi21": ("!(a b | c)", "!((a|b) c)"),
    "aoi22": ("!(a b | c d)", "!((a|b) (c|d))"),
    "mux2": ("a c | b !c", "!(a c | b !c)"),
}
"""Gates and the functions, of inputs in any order, of which each has one."""

_ADDERS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "half_adder": (("a^b", "!(a^b)"), ("a b", "!(a b)")),
    "full_adder": (("a^b^c", "!(a^b^c)"), ("a b | a c | b c", "!(a b | a c | b c)")),
}
"""Adders and the functions of their sum and their carry."""


def smallest_cells(library: Library) -> dict[str, str]:
    """Return the smallest cell of each gate, of each adder and of flip-flops, by function.

    Keys are those of gates such as ``nand2`` (a nor of two inputs is one, too), ``half_adder``,
    ``full_adder`` and ``flip_flop``; those that a library does not have are missing.
    """
    gates = {
        name: {table for text in functions for table in _permuted(text)}
        for name, functions in _GATES.items()
    }
    adders = {
        name: tuple({table for text in functions for table in _permuted(text)} for functions in two)
        for name, two in _ADDERS.items()
    }
    result: dict[str, str] = {}
    flip_flops: list[tuple[int, float, str]] = []

    def offer(name: str, cell: str) -> None:
        if name not in result or library.cells[cell].area < library.cells[result[name]].area:
            result[name] = cell

    for cell, text in cell_texts(library):
        if library.cells[cell].area <= 0:
            continue
        if library.cells[cell].sequential:
            if next(insides(text, ("ff",)), None):
                inputs = len(library.cells[cell].inputs)
                flip_flops.append((inputs, library.cells[cell].area, cell))
            continue
        tables = list(_outputs(text, list(library.cells[cell].inputs)))
        if len(tables) == 1:
            for name, functions in gates.items():
                if tables[0] in functions:
                    offer(name, cell)
        elif len(tables) == 2:
            for name, (total, carry) in adders.items():
                if any(a in total and b in carry for a, b in permutations(tables)):
                    offer(name, cell)
    if flip_flops:  # the fewest inputs: without scan, enable and reset, if there is one
        result["flip_flop"] = min(flip_flops)[2]
    return result


def _permuted(text: str) -> Iterator[Table]:
    """Yield the truth tables of a function of inputs in any order."""
    inputs = sorted(set(re.findall(r"[a-z]", text)))
    for order in permutations(inputs):
        yield truth_table(text, order)


def _outputs(cell: str, inputs: Sequence[str]) -> Iterator[Table]:
    if not inputs or len(inputs) > _MOST_INPUTS:
        return
    for _, pin in insides(cell, ("pin",)):
        match = _FUNCTION.search(pin)
        if match:
            try:
                yield truth_table(match[1], inputs)
            except UnreadableFunctionError:
                return
