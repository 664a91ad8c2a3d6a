# SPDX-License-Identifier: Apache-2.0
"""Arithmetic and conditions over parameters and metrics, evaluated for many points at once.

The language is a small part of Python's: numbers, texts, names, ``+ - * / // % **``, comparisons,
``and or not``, ``in``, ``a if condition else b`` and a few functions.  A name is a parameter
(``array.tables``) or a metric (``area_mm2``, ``latency_ms(decode)``, ``area_mm2[adders]``).
Nothing else of Python can be reached from it.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from hwgen.errors import did_you_mean

Value = Any
"""A text, None, or a number or boolean of NumPy, alone or as an array of them."""

MAX_LENGTH = 1000
_EXACT = 1 << 62
"""Integers stay exact below this; larger results are floats."""


class ExpressionError(ValueError):
    """Error in an expression, described in the words of its author."""


@dataclass(frozen=True)
class Expression:
    """An expression; `text` is what it was written as."""

    text: str

    @property
    def names(self) -> frozenset[str]:
        """Parameters and metrics that it uses."""
        return _parsed(self.text)[1]

    @property
    def subject(self) -> Expression | None:
        """The left side of the only comparison, if the expression is one."""
        body = ast.parse(self.text.strip(), mode="eval").body
        if isinstance(body, ast.Compare) and len(body.ops) == 1:
            return Expression(ast.unparse(body.left))
        return None

    @property
    def upper_bound(self) -> tuple[str, float] | None:
        """The name and the number of a condition ``NAME <= NUMBER``, None of others."""
        body = ast.parse(self.text.strip(), mode="eval").body
        if not isinstance(body, ast.Compare) or len(body.ops) != 1:
            return None
        smaller, larger = body.left, body.comparators[0]
        if isinstance(body.ops[0], (ast.Gt, ast.GtE)):
            smaller, larger = larger, smaller
        elif not isinstance(body.ops[0], (ast.Lt, ast.LtE)):
            return None
        name, bound = _name(smaller), Expression(ast.unparse(larger))
        if name is None or bound.names:
            return None
        value = bound({})
        numeric = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        return (name, float(value)) if numeric else None

    def __call__(self, values: Mapping[str, Value]) -> Value:
        """Evaluate it; undefined results such as 1 / 0 are NaN.

        Raises
        ------
        ExpressionError
            If an operator cannot take its operands, such as a text plus a number.
        """
        with np.errstate(all="ignore"):
            return _parsed(self.text)[0](values)

    def __str__(self) -> str:
        return self.text


def parse(text: str) -> Expression:
    """Return the expression that a text holds.

    Raises
    ------
    ExpressionError
        If it holds none, or more than the language has.
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"longer than {MAX_LENGTH} characters")
    _parsed(text)
    return Expression(text)


# -- reading -------------------------------------------------------------------------------------

_Node = Callable[[Mapping[str, Value]], Value]
_WORDS = {"true": True, "false": False, "null": None}


@cache
def _parsed(text: str) -> tuple[_Node, frozenset[str]]:
    try:
        tree = ast.parse(text.strip(), mode="eval")
        names: set[str] = set()
        return _build(tree.body, names), frozenset(names)
    except ExpressionError:
        raise
    except SyntaxError as error:
        raise ExpressionError(f"not an expression: {error.msg}") from None
    except (RecursionError, MemoryError, ValueError):
        raise ExpressionError("nested too deeply, or not an expression") from None


def _build(node: ast.expr, names: set[str]) -> _Node:
    """Return a function of the values; add the names that it looks up to `names`."""
    if isinstance(node, ast.Name) and node.id in _WORDS:
        node = ast.Constant(_WORDS[node.id])
    if isinstance(node, ast.Constant):
        return _constant(node)
    name = _name(node)
    if name is not None:
        names.add(name)
        return lambda values: _operand(values[name])
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _call(_BINARY[type(node.op)], [node.left, node.right], names)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        return _call(_UNARY[type(node.op)], [node.operand], names)
    if isinstance(node, ast.BoolOp):
        function = _conjunction if isinstance(node.op, ast.And) else _disjunction
        return _call(function, node.values, names)
    if isinstance(node, ast.Compare):
        return _comparison(node, names)
    if isinstance(node, ast.IfExp):
        return _call(_where, [node.test, node.body, node.orelse], names)
    if isinstance(node, ast.Call):
        return _function(node, names)
    raise ExpressionError(
        f"{_shown(node)} cannot stand in an expression; there are numbers, 'texts', names,"
        f" + - * / // % **, comparisons, and, or, not, in, if-else and {', '.join(FUNCTIONS)}"
    )


def _constant(node: ast.Constant) -> _Node:
    value = node.value
    if isinstance(value, bool) or value is None or isinstance(value, (str, float)):
        result = _operand(value)
        return lambda values: result
    if isinstance(value, int):
        if value >= _EXACT:
            raise ExpressionError(f"the number {_shown(node)} is too large")
        number = np.int64(value)
        return lambda values: number
    raise ExpressionError(f"{_shown(node)} is neither a number nor a text")


def _name(node: ast.expr) -> str | None:
    """Return the dotted name, or that of a metric with its workload or component."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        stem = _name(node.value)
        return stem and f"{stem}.{node.attr}"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in FUNCTIONS or len(node.args) != 1 or node.keywords:
            return None
        inner = _name(node.args[0])
        return inner and f"{node.func.id}({inner})"
    if isinstance(node, ast.Subscript):
        stem, inner = _name(node.value), _name(node.slice)
        return f"{stem}[{inner}]" if stem and inner else None
    return None


def _function(node: ast.Call, names: set[str]) -> _Node:
    if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
        called = node.func.id if isinstance(node.func, ast.Name) else _shown(node.func)
        raise ExpressionError(
            f"no function is called {called!r}{did_you_mean(called, FUNCTIONS)};"
            f" there is: {', '.join(FUNCTIONS)}"
        )
    function, least, most = FUNCTIONS[node.func.id]
    if node.keywords or not least <= len(node.args) <= most:
        many = f"{least}" if least == most else f"at least {least}"
        raise ExpressionError(f"{node.func.id} takes {many} values, not {len(node.args)}")
    return _call(function, node.args, names)


def _comparison(node: ast.Compare, names: set[str]) -> _Node:
    sides = [node.left, *node.comparators]
    parts: list[_Node] = []
    for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
        if isinstance(op, (ast.In, ast.NotIn)):
            if not isinstance(right, (ast.List, ast.Tuple)) or not right.elts:
                raise ExpressionError("`in` needs a list behind it, such as [1, 2]")
            equal = [_call(_COMPARE[ast.Eq], [left, item], names) for item in right.elts]
            part = _join(_disjunction, equal)
            parts.append(_join(_negation, [part]) if isinstance(op, ast.NotIn) else part)
        elif type(op) in _COMPARE:
            parts.append(_call(_COMPARE[type(op)], [left, right], names))
        else:
            raise ExpressionError("`is` cannot stand in an expression; use ==")
    return parts[0] if len(parts) == 1 else _join(_conjunction, parts)


def _call(function: Callable[..., Value], nodes: list[ast.expr], names: set[str]) -> _Node:
    return _join(function, [_build(node, names) for node in nodes])


def _join(function: Callable[..., Value], parts: list[_Node]) -> _Node:
    return lambda values: function(*(part(values) for part in parts))


def _shown(node: ast.expr) -> str:
    return f"'{ast.unparse(node)[:40]}'"


# -- evaluating ----------------------------------------------------------------------------------


def _operand(value: Value) -> Value:
    """Return plain data as the operators take it: Python's integers would grow without end."""
    if isinstance(value, bool):
        return np.bool_(value)
    if isinstance(value, int):
        return np.int64(value) if abs(value) < _EXACT else np.float64(value)
    return np.float64(value) if isinstance(value, float) else value


def _number(value: Value) -> Value:
    if not isinstance(value, (np.generic, np.ndarray)) or value.dtype.kind not in "iuf":
        raise ExpressionError(f"arithmetic needs numbers, not {_type_text(value)}")
    return value


def _type_text(value: Value) -> str:
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    if value is None:
        return "null"
    return "a number" if value.dtype.kind in "iuf" else "a condition"


def _extent(value: Value) -> int:
    """Return the largest magnitude of integers."""
    if isinstance(value, np.ndarray):
        return max(abs(int(value.max())), abs(int(value.min()))) if value.size else 0
    return abs(int(value))


def _integers(*values: Value) -> bool:
    return all(value.dtype.kind in "iu" for value in values)


def _arithmetic(
    function: Callable[[Value, Value], Value], bound: Callable[[int, int], int]
) -> Callable[[Value, Value], Value]:
    """Return the operator, exact for integers whose result is `bound` to fit, else in floats."""

    def apply(a: Value, b: Value) -> Value:
        a, b = _number(a), _number(b)
        if _integers(a, b) and bound(_extent(a), _extent(b)) >= _EXACT:
            a = np.float64(a)
        return function(a, b)

    return apply


def _power(a: Value, b: Value) -> Value:
    a, b = _number(a), _number(b)
    if _integers(a, b):
        largest, exponent = _extent(a), _extent(b)
        negative = bool(np.any(b < 0))
        if negative or (largest > 1 and exponent * largest.bit_length() >= 62):
            a = np.float64(a)
    return np.power(a, b)


def _divided(function: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    """Return a division in which nothing divided by zero is NaN."""

    def apply(a: Value, b: Value) -> Value:
        a, b = _number(a), _number(b)
        zero = b == 0
        if np.any(zero):
            b = np.where(zero, np.nan, b)[()]
        return function(a, b)

    return apply


def _condition(value: Value) -> Value:
    if not isinstance(value, (np.generic, np.ndarray)) or value.dtype.kind != "b":
        raise ExpressionError(f"and, or, not and if need conditions, not {_type_text(value)}")
    return value


def _conjunction(*values: Value) -> Value:
    result = _condition(values[0])
    for value in values[1:]:
        result = result & _condition(value)
    return result


def _disjunction(*values: Value) -> Value:
    result = _condition(values[0])
    for value in values[1:]:
        result = result | _condition(value)
    return result


def _negation(value: Value) -> Value:
    return ~_condition(value)


def _where(test: Value, yes: Value, no: Value) -> Value:
    test = _condition(test)
    if test.ndim == 0:
        return yes if test else no
    return np.where(test, _number(yes), _number(no))


def _compared(function: Callable[[Value, Value], Value], order: bool) -> Callable[..., Value]:
    def apply(a: Value, b: Value) -> Value:
        plain = [x for x in (a, b) if x is None or isinstance(x, str)]
        if not plain:
            return function(a, b)
        if order or (len(plain) == 1 and None not in plain):
            raise ExpressionError(f"{_type_text(a)} cannot be compared with {_type_text(b)}")
        return np.bool_(function(a, b) if len(plain) == 2 else function(0, 1))

    return apply


def _extreme(function: Callable[[Value, Value], Value]) -> Callable[..., Value]:
    def apply(*values: Value) -> Value:
        result = _number(values[0])
        for value in values[1:]:
            result = function(result, _number(value))
        return result

    return apply


def _unary(function: Callable[[Value], Value], whole: bool = False) -> Callable[[Value], Value]:
    """Return a function of a number; `whole` if its results are integers."""

    def apply(a: Value) -> Value:
        a = _number(a)
        if whole and _integers(a):
            return a
        result = function(a)
        if whole and np.all(np.abs(result) < float(_EXACT)):
            return result.astype(np.int64)
        return result

    return apply


_BINARY: dict[type[ast.operator], Callable[..., Value]] = {
    ast.Add: _arithmetic(operator.add, operator.add),
    ast.Sub: _arithmetic(operator.sub, operator.add),
    ast.Mult: _arithmetic(operator.mul, operator.mul),
    ast.Div: _divided(operator.truediv),
    ast.FloorDiv: _divided(operator.floordiv),
    ast.Mod: _divided(operator.mod),
    ast.Pow: _power,
}
_UNARY: dict[type[ast.unaryop], Callable[..., Value]] = {
    ast.USub: _unary(operator.neg),
    ast.UAdd: _unary(operator.pos),
    ast.Not: _negation,
}
_COMPARE: dict[type[ast.cmpop], Callable[..., Value]] = {
    ast.Eq: _compared(operator.eq, order=False),
    ast.NotEq: _compared(operator.ne, order=False),
    ast.Lt: _compared(operator.lt, order=True),
    ast.LtE: _compared(operator.le, order=True),
    ast.Gt: _compared(operator.gt, order=True),
    ast.GtE: _compared(operator.ge, order=True),
}

FUNCTIONS: dict[str, tuple[Callable[..., Value], int, int]] = {
    "abs": (_unary(np.abs), 1, 1),
    "ceil": (_unary(np.ceil, whole=True), 1, 1),
    "floor": (_unary(np.floor, whole=True), 1, 1),
    "log2": (_unary(np.log2), 1, 1),
    "max": (_extreme(np.maximum), 2, 100),
    "min": (_extreme(np.minimum), 2, 100),
    "round": (_unary(np.round, whole=True), 1, 1),
    "sqrt": (_unary(np.sqrt), 1, 1),
}
"""The functions, each with the least and the largest number of its arguments."""
