# SPDX-License-Identifier: Apache-2.0
"""The expressions of sweeps: what Python computes, for many points at once, and no more of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_model.sweep.expressions import Expression, ExpressionError, parse

NAMES = ("a.x", "a.y", "z")


def text(depth: int = 3) -> st.SearchStrategy[str]:
    """Return arithmetic over `NAMES`."""
    leaf = st.sampled_from([*NAMES, "0", "1", "3", "64", "0.5"])
    if not depth:
        return leaf
    inner = text(depth - 1)
    operators = st.sampled_from(["+", "-", "*", "/", "//", "%"])
    return st.one_of(
        leaf,
        st.builds("({} {} {})".format, inner, operators, inner),
        st.builds("min({}, {})".format, inner, inner),
        st.builds("abs(-{})".format, inner),
        st.builds("({} if {} <= {} else {})".format, inner, inner, inner, inner),
    )


@given(text(), st.lists(st.tuples(*[st.integers(-9, 99)] * 3), min_size=1, max_size=5))
def test_results_are_those_of_python(source: str, points: list[tuple[int, int, int]]) -> None:
    columns = dict(zip(NAMES, np.array(points).T, strict=True))
    result = np.broadcast_to(parse(source)(columns), len(points))
    for place, point in enumerate(points):
        scope = {**dict(zip(("x", "y", "z"), point, strict=True)), "min": min, "abs": abs}
        try:
            expected = float(eval(source.replace("a.", ""), {"__builtins__": {}}, scope))
        except ZeroDivisionError:
            continue  # NaN somewhere; what becomes of it depends on the rest
        if not math.isnan(result[place]):
            assert float(result[place]) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("2 ** 40 * 2 ** 40", 2.0**80),  # a float where 64 bits are too few
        ("3 ** x", [3, 81]),
        ("10 ** 10 ** 10", math.inf),
        ("x ** -1", [1, 0.25]),
        ("1 // (x - 1)", [math.nan, 0]),
        ("5 % 0", math.nan),
        ("ceil(x / 3)", [1, 2]),
        ("log2(x)", [0, 2]),
        ("max(x, 2, 3)", [3, 4]),
        ("x in [1, 2]", [True, False]),
        ("x not in (1, 2)", [False, True]),
        ("1 <= x < 4", [True, False]),
        ("not x == 1 or x > 3", [False, True]),
        ("mode == 'lut'", True),
        ("mode != 'lut' and x > 0", [False, False]),
        ("mode in ['lut', 'select']", True),
        ("nothing == null", True),
        ("x == null", False),
        ("flag == true", True),
        ("1.5 if flag else x", 1.5),
        ("latency_ms(decode) + area_mm2[adders]", 12.0),
        ("round(2.5) + floor(2.5) + sqrt(16)", 8.0),
    ],
)
def test_values(source: str, expected: Any) -> None:
    values = {
        "x": np.array([1, 4]),
        "mode": "lut",
        "nothing": None,
        "flag": True,
        "latency_ms(decode)": 5.0,
        "area_mm2[adders]": 7.0,
    }
    result = parse(source)(values)
    np.testing.assert_array_equal(np.asarray(result), np.asarray(expected))


def test_names() -> None:
    result = parse("min(array.tables, 4) * latency_ms(decode) - area_mm2[adders] + k").names
    assert result == {"array.tables", "latency_ms(decode)", "area_mm2[adders]", "k"}


def test_the_subject_of_a_comparison() -> None:
    assert parse("a.b * 2 <= 4").subject == Expression("a.b * 2")
    assert parse("a < 1 or b < 2").subject is None


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "not an expression"),
        ("a +", "not an expression"),
        ("a; b", "not an expression"),
        ("(lambda: 1)()", "no function is called"),
        ("[a for a in b]", "cannot stand in an expression"),
        ("a.__class__.__mro__[0]", "cannot stand in an expression"),
        ("__import__('os')", "no function is called '__import__'"),
        ("f'{a}'", "cannot stand in an expression"),
        ("b'x'", "neither a number nor a text"),
        ("a is b", "use =="),
        ("a in b", "needs a list"),
        ("a @ b", "cannot stand in an expression"),
        ("a := 3", "not an expression"),
        ("mix(a, b)", "(did you mean 'min'?)"),
        ("min(a)", "min takes at least 2 values, not 1"),
        ("9" * 30, "is too large"),
        ("(" * 400 + "1" + ")" * 400, "nested too deeply|not an expression"),
        ("1" + "+1" * 600, "longer than 1000 characters"),
    ],
)
def test_what_is_no_expression(source: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(source)
    assert any(part in str(caught.value) for part in message.split("|"))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("mode + 1", "arithmetic needs numbers, not the text 'lut'"),
        ("x > mode", "cannot be compared"),
        ("x == mode", "cannot be compared"),
        ("x and x > 1", "need conditions, not a number"),
        ("-(x > 1)", "needs numbers, not a condition"),
        ("log2(mode)", "needs numbers"),
    ],
)
def test_operands_that_do_not_fit(source: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        parse(source)({"x": np.array([1, 2]), "mode": "lut"})
