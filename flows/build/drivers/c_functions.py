# SPDX-License-Identifier: Apache-2.0
"""C of the functions of `hwgen.models.run.host_functions`, translated from their source."""

from __future__ import annotations

import ast
import inspect
import math
import re
import textwrap
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from hwgen.models.run import host_functions

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.BitAnd: "&", ast.BitOr: "|",
    ast.LShift: "<<", ast.RShift: ">>", ast.Lt: "<", ast.Gt: ">", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_TYPES = {"Wide": "double", "Bits": "int64_t", "int": "int64_t"}
_CASTS = {"whole_of": "(int64_t)", "wide_of": "(double)"}
_SPECIAL = {"inf": "INT64_C(0x7ff0000000000000)", "nan": "INT64_C(0x7ff8000000000000)"}
_COLUMNS = 96


def name_in_c(function: Callable[..., Any]) -> str:
    """Return the name of a function in C, which must not be one of the standard library."""
    return f"{function.__name__}_of"


def table_name(factors: str) -> str:
    """Return the name in C of the factors of a polynomial."""
    return f"{factors.lower()}_factors"


@cache
def _definitions() -> dict[str, str]:
    """Return each definition by its name in C, in an order that compiles."""
    tables = {}
    for name, value in vars(host_functions).items():
        if name.isupper() and isinstance(value, tuple) and isinstance(value[0], float):
            lines = ",\n".join(f"    {factor!r}" for factor in value)
            own = table_name(name)
            tables[own] = f"static const double {own}[] = {{\n{lines}\n}};\n\n"
    return tables | {
        name_in_c(each): _Translation(each).text() for each in host_functions.TRANSLATED
    }


def needed_functions(text: str, conversions: Mapping[str, str]) -> str:
    """Return the definitions that a text needs.

    Parameters
    ----------
    text : str
    conversions : mapping of str
        Definitions of ``polynomial``, ``bits_of`` and ``double_of`` by name.
    """
    return needed_definitions(text, {**conversions, **_definitions()})


def needed_definitions(text: str, definitions: Mapping[str, str]) -> str:
    """Return the definitions whose names a text contains, and those that they need, in order."""
    needed: set[str] = set()
    names = _words(text)
    while names:
        new = names & set(definitions) - needed
        needed |= new
        names = {word for name in new for word in _words(definitions[name])} - needed
    return "".join(part for name, part in definitions.items() if name in needed)


def _words(text: str) -> set[str]:
    """Return the words of a program, without comments and members."""
    return set(re.findall(r"\b[A-Za-z_]\w*\b", re.sub(r"/\*.*?\*/|->\w+", "", text, flags=re.S)))


class _Translation:
    """Translation of one function.

    Parameters
    ----------
    function : callable
        Written in the subset of Python that its module describes.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = name_in_c(function)
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
        assert isinstance(definition, ast.FunctionDef)
        self.definition = definition
        self.types = {
            each.arg: _TYPES[ast.unparse(each.annotation or ast.Name("?"))]
            for each in definition.args.args
        }
        self.parameters = tuple(self.types)

    def text(self) -> str:
        """Return the definition in C."""
        body = self.definition.body[1:]  # behind the docstring
        lines = [line for statement in body for line in self._statement(statement, 1)]
        parameters = ", ".join(f"{self.types[name]} {name}" for name in self.parameters)
        head = f"static double {self.name}({parameters})"
        return "\n".join([head, "{", *lines, "}", "", ""])

    def _statement(self, node: ast.stmt, depth: int) -> list[str]:
        if isinstance(node, ast.Return) and node.value is not None:
            return self._lines(f"return {self._outer(node.value)};", depth)
        if isinstance(node, ast.For):
            return self._loop(node, depth)
        assert isinstance(node, ast.Assign), ast.dump(node)
        (target,) = node.targets
        assert isinstance(target, ast.Name), ast.dump(node)
        text = f"{target.id} = {self._outer(node.value)};"
        if target.id not in self.types:
            self.types[target.id] = self._type(node.value)
            text = f"{self.types[target.id]} {text}"
        return self._lines(text, depth)

    def _loop(self, node: ast.For, depth: int) -> list[str]:
        """Return a loop over a range of integers, whose variable is a number in its body."""
        assert isinstance(node.iter, ast.Call), ast.dump(node.iter)
        assert isinstance(node.target, ast.Name), ast.dump(node.target)
        values = [int(eval(ast.unparse(each), vars(host_functions))) for each in node.iter.args]
        counted = range(*values)
        name = node.target.id if node.target.id != "_" else "step"
        self.types[name] = "int"
        sign = "+" if counted.step > 0 else "-"
        head = f"for ({name} = {counted.start}; {name} != {counted.stop}; {name}{sign}{sign}) {{"
        body = [line for each in node.body for line in self._statement(each, depth + 1)]
        return [*self._lines(f"int {name};", depth), "", *self._lines(head, depth), *body,
                *self._lines("}", depth)]  # fmt: skip

    def _lines(self, text: str, depth: int) -> list[str]:
        indent = "    " * depth
        return textwrap.wrap(text, _COLUMNS, initial_indent=indent, break_long_words=False,
                             subsequent_indent=f"{indent}    ", break_on_hyphens=False)  # fmt: skip

    def _type(self, node: ast.expr) -> str:
        """Return the type of an expression."""
        match node:
            case ast.Compare():
                return "int"
            case ast.Name(name):
                return self.types.get(name, "double")
            case ast.Constant(value):
                return "double" if isinstance(value, float) else "int64_t"
            case ast.BinOp(left, _, right):
                both = {self._type(left), self._type(right)}
                return next(each for each in ("double", "int64_t", "int") if each in both)
            case ast.UnaryOp(_, operand):
                return self._type(operand)
            case ast.Call(ast.Name("bits_of" | "whole_of")):
                return "int64_t"
        return "double"

    def _outer(self, node: ast.expr) -> str:
        """Return an expression without parentheses around it."""
        text = self._expression(node)
        return text[1:-1] if text.startswith("(") and not isinstance(node, ast.Name) else text

    def _expression(self, node: ast.expr) -> str:
        match node:
            case ast.Name(name):
                value = getattr(host_functions, name, None)
                if name in self.types or not isinstance(value, int | float):
                    return f"(double){name}" if self.types.get(name) == "int" and self._counts(
                        name) else name  # fmt: skip
                return self._number(value)
            case ast.Constant(value):
                assert isinstance(value, int | float), ast.dump(node)
                return self._number(value)
            case ast.UnaryOp(ast.USub(), operand):
                return f"-{self._expression(operand)}"
            case ast.BinOp(left, operator, right):
                return (
                    f"({self._expression(left)} {_OPERATORS[type(operator)]}"
                    f" {self._expression(right)})"
                )
            case ast.Compare(left, [operator], [right]):
                return (
                    f"({self._expression(left)} {_OPERATORS[type(operator)]}"
                    f" {self._expression(right)})"
                )
            case ast.Call(ast.Name(name), arguments):
                return self._call(name, arguments)
        raise AssertionError(f"{self.name}: {ast.unparse(node)} is not of the subset")

    def _counts(self, name: str) -> bool:
        """Return whether a variable is that of a loop."""
        loops = (each for each in ast.walk(self.definition) if isinstance(each, ast.For))
        return any(isinstance(each.target, ast.Name) and each.target.id == name for each in loops)

    def _call(self, name: str, arguments: list[ast.expr]) -> str:
        if name == "where":
            condition, one, other = map(self._expression, arguments)
            return f"({condition} ? {one} : {other})"
        if name == "polynomial":
            factors = ast.unparse(arguments[0])
            count, x = len(getattr(host_functions, factors)), self._outer(arguments[1])
            return f"polynomial({table_name(factors)}, {count}, {x})"
        if name in _CASTS:
            return f"{_CASTS[name]}{self._expression(arguments[0])}"
        if name in ("bits_of", "double_of"):
            return f"{name}({self._outer(arguments[0])})"
        callee = name_in_c(getattr(host_functions, name))
        return f"{callee}({', '.join(map(self._outer, arguments))})"

    def _number(self, value: float) -> str:
        if isinstance(value, float) and not math.isfinite(value):
            return f"double_of({_SPECIAL[repr(value)]})"
        if isinstance(value, int):
            return f"INT64_C({value:#x})" if value >= 1 << 31 else str(value)
        return repr(value)
