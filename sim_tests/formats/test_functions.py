# SPDX-License-Identifier: Apache-2.0
"""Function units: enclosures, tables, proven bounds, results of special values."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from flows.bench.functions import PUBLISHED, error_of, secants, smallest
from hwgen.arithmetic.functions import FUNCTIONS, FunctionUnit, Wanted, design, real_format
from hwgen.arithmetic.functions.bound import composed, exact, exhaustive
from hwgen.arithmetic.functions.curves import CURVES, enclosed
from hwgen.arithmetic.functions.fit import Tolerance, fit, gates
from hwgen.arithmetic.functions.interval import Interval, exp, ln2, pi, sqrt
from hwgen.arithmetic.functions.polynomial import Domain, Polynomial
from hwgen.formats.floating import FLOATS

Case = tuple[str, str, str, Wanted]
ULP = Wanted(ulp=1)

FIXED: tuple[Case, ...] = (
    ("exp2", "q4.7", "uq0.12", ULP),
    ("exp2", "q3.4", "q3.8", Wanted(absolute=2**-8)),
    ("exp", "q4.7", "uq1.11", ULP),
    ("reciprocal", "uq4.6", "q1.10", ULP),
    ("reciprocal", "q3.8", "q2.9", ULP),
    ("rsqrt", "uq4.6", "uq2.8", ULP),
    ("rsqrt", "q3.8", "uq3.9", ULP),
    ("sigmoid", "q3.8", "uq0.8", ULP),
    ("tanh", "q3.8", "q0.9", Wanted(ulp=1.5)),
    ("gelu", "q3.8", "q3.8", ULP),
    ("gelu_tanh", "q3.8", "q3.4", ULP),
    ("silu", "q4.7", "q4.7", ULP),
)
"""Units of inputs of up to 12 bits."""

FLOATING: tuple[Case, ...] = (
    ("exp2", "fp16", "fp16", ULP),
    ("exp", "bf16", "bf16", ULP),
    ("reciprocal", "fp16", "fp16", ULP),
    ("rsqrt", "bf16", "bf16", ULP),
    ("sigmoid", "bf16", "bf16", Wanted(absolute=4e-3)),
    ("tanh", "fp16", "fp16", Wanted(absolute=1e-3)),
    ("gelu", "bf16", "bf16", Wanted(absolute=3e-2)),
    ("silu", "fp16", "fp16", Wanted(absolute=1e-2)),
    ("exp", "bf16", "uq0.16", Wanted(absolute=2e-5)),
    ("gelu_tanh", "fp16", "q3.12", Wanted(absolute=1e-3)),
)
"""Units of inputs of 16 bits with a point that floats."""

WIDE: tuple[Case, ...] = (
    ("exp2", "fp32", "fp32", ULP),
    ("reciprocal", "fp32", "fp32", Wanted(relative=1e-5)),
    ("rsqrt", "fp32", "fp16", Wanted(ulp=0.75)),
    ("exp2", "q8.16", "uq1.15", ULP),
    ("sigmoid", "q7.16", "uq0.16", Wanted(absolute=1e-4)),
    ("silu", "fp32", "fp32", Wanted(absolute=1e-4)),
)
"""Units of wider inputs, which are proven segment by segment."""


def named(case: Case) -> str:
    return "-".join(case[:3])


@cache
def unit_of(case: Case) -> FunctionUnit:
    return design(*case)


# -- enclosures ------------------------------------------------------------------------------------


def high(name: str, x: float) -> Decimal:
    """Return a curve by the decimal arithmetic of the standard library."""
    with localcontext() as context:
        context.prec = 60
        at = Decimal(x)
        if name == "exp2":
            return (at * Decimal(2).ln()).exp()
        if name == "exp":
            return at.exp()
        if name == "reciprocal":
            return 1 / at
        if name == "rsqrt":
            return 1 / at.sqrt()
        if name == "sigmoid":
            return 1 / (1 + at.exp())
        if name == "tanh":
            return 1 - 2 / (1 + (2 * at).exp())
        if name == "silu":
            return at / (1 + at.exp())
        pi_60 = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
        if name == "gelu_tanh":
            inner = 2 * (2 / pi_60).sqrt() * (at + Decimal("0.044715") * at**3)
            return at / (1 + inner.exp())
        total, term = Decimal(0), at
        for n in range(1, 400):
            total += term
            term = term * at * at / (2 * n + 1)
        density = (-at * at / 2).exp() / (2 * pi_60).sqrt()
        return at * (Decimal("0.5") - density * total)


@pytest.mark.parametrize("name", CURVES)
def test_enclosures_hold_the_function(name: str) -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(0, 8, 40), [0.0, 2.0**-40, 1.0, 4.0, 7.96875]])
    if name in ("reciprocal", "rsqrt"):
        x = x[x > 0]
    values, errors = enclosed(name, x)
    for at, value, error in zip(x.tolist(), values.tolist(), errors.tolist(), strict=True):
        assert abs(Decimal(value) - high(name, at)) <= Decimal(error), at
    assert (errors <= 1e-12 * np.maximum(1, np.abs(values))).all()


def test_intervals() -> None:
    third = Interval.of(Fraction(1, 3))
    assert third.high - third.low == 1
    product = third * -Interval.of(3)
    assert Fraction(product.low, 1 << 320) <= -1 <= Fraction(product.high, 1 << 320)
    assert ln2().middle == math.log(2)
    assert pi().middle == math.pi
    assert sqrt(Interval.of(2)).middle == math.sqrt(2)
    for x in (-80, -1, 0, 0.5, 80):
        assert exp(Interval.of(x)).middle == pytest.approx(math.exp(x), rel=1e-15)
    with pytest.raises(ZeroDivisionError, match="positive"):
        _ = third / (third - third)


# -- tables ----------------------------------------------------------------------------------------

TABLES = (
    (Domain("exp2", 16, ((0, 1),)), 3e-5),
    (Domain("reciprocal", 14, ((1, 1),), 1), 1e-4),
    (Domain("rsqrt", 14, ((1, 1), (2, 2)), 1), 1e-4),
)


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize(("domain", "error"), TABLES, ids=lambda value: str(value)[:24])
def test_a_segments_proof_allows_for_all_of_its_arguments(
    domain: Domain, error: float, degree: int
) -> None:
    table = fit(domain, Tolerance(error), range(15, 18), gates, degrees=(degree,))
    assert table is not None
    assert table.degree == degree
    every = table.errors
    assert np.abs(every).max() <= error
    unit = 2.0**-table.precision
    bounds = np.array([table._segment_errors(i) for i in range(table.segments)]) * unit
    assert (bounds[:, 0] <= every[:, 0]).all()
    assert (bounds[:, 1] >= every[:, 1]).all()
    # What is cut off, and what is left out of arguments, is allowed for to its full extent.
    assert np.diff(bounds).mean() <= 1.8 * np.diff(every).mean()


def test_the_proof_rejects_a_wrong_coefficient() -> None:
    domain, error = TABLES[0]
    table = fit(domain, Tolerance(error), range(15, 18), gates, degrees=(1,))
    assert table is not None
    rows = list(table.coefficients)
    rows[3] = (rows[3][0] + 2, rows[3][1])
    broken = Polynomial(
        domain, table.segment_bits, table.precision, table.fractions, table.drops, tuple(rows)
    )
    assert np.abs(broken.errors).max() > error
    assert max(map(abs, broken._segment_errors(3))) * 2.0**-table.precision > error


def test_monotonic_tables_are() -> None:
    for domain, error in TABLES:
        for degree in (0, 1, 2):
            table = fit(domain, Tolerance(30 * error), range(10, 13), gates, degrees=(degree,))
            if table is None or not table.monotonic:
                continue
            for piece in range(len(domain.pieces)):
                arguments = np.arange(1 << domain.width) + (piece << domain.width)
                steps = np.diff(table.evaluate(arguments))
                assert (steps >= 0).all() or (steps <= 0).all()


# -- units -----------------------------------------------------------------------------------------


def met(unit: FunctionUnit, wanted: Wanted) -> bool:
    return wanted.met_by(unit.bound)


@pytest.mark.parametrize("case", [*FIXED, *FLOATING], ids=named)
def test_every_input_is_within_the_bound(case: Case) -> None:
    unit = unit_of(case)
    assert unit.bound.proof == "exhaustive"
    assert met(unit, case[3])
    # Errors of a sample, by another arithmetic than that of the proof.
    raw = np.random.default_rng(2).choice(unit.source.patterns(), 200)
    for x, y in zip(
        unit.source.values_of(raw), unit.target.values_of(unit.evaluate(raw)), strict=True
    ):
        value = directly(unit.function, float(x))
        limit = unit.target.max
        low = -limit if unit.target.signed else 0.0
        if value is None or not low <= value <= limit:
            continue
        assert unit.bound.max_abs is not None
        assert abs(float(y) - value) <= unit.bound.max_abs * (1 + 1e-9), x


def directly(function: str, x: float) -> float | None:
    """Return the value of a function by the mathematics of the standard library."""
    if function in ("reciprocal", "rsqrt"):
        if x == 0 or (function == "rsqrt" and x < 0):
            return None
        return 1 / x if function == "reciprocal" else 1 / math.sqrt(x)
    if function in ("exp2", "exp"):
        base = 2.0 if function == "exp2" else math.e
        return base ** max(-300.0, x) if x < 300 else None
    if function == "tanh":
        return math.tanh(x)
    if function == "gelu":
        return x * math.erfc(-x / math.sqrt(2)) / 2
    if function == "gelu_tanh":
        return (
            x
            / 2
            * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * min(abs(x), 1e9) ** 2 * x)))
        )
    falling = 1 / (1 + math.exp(-x)) if x > -700 else 0.0
    return falling if function == "sigmoid" else x * falling


@pytest.mark.parametrize("case", WIDE, ids=named)
def test_wide_units_are_proven_by_segments(case: Case) -> None:
    unit = unit_of(case)
    assert unit.bound.proof == "segments"
    assert met(unit, case[3])
    rng = np.random.default_rng(3)
    if unit.source.is_fixed:
        raw = rng.integers(unit.source.integer.min, unit.source.integer.max, 20000)
    else:
        raw = unit.source.round(rng.standard_normal(20000) * 2.0 ** rng.integers(-6, 6, 20000))
        raw = raw.astype(np.int64)
    x = unit.source.values_of(raw)
    if unit.function == "rsqrt":
        raw, x = raw[x > 0], x[x > 0]
    values, _ = exact(unit.function, x)
    actual = unit.target.values_of(unit.evaluate(raw))
    kept = np.isfinite(actual) & (values <= unit.target.max)
    worst = np.abs(actual - values)[kept].max()
    assert unit.bound.max_abs is not None
    assert worst <= unit.bound.max_abs
    if unit.bound.max_relative is not None:
        relative = (np.abs(actual - values) / np.abs(values))[kept & (np.abs(values) > 1e-4)]
        # The proof is a bound, but not a wasteful one; it is relative to significands of 1.
        assert unit.bound.max_relative * 0.35 <= relative.max() <= unit.bound.max_relative


@pytest.mark.parametrize("case", [FIXED[0], FIXED[3], FIXED[5], FIXED[7], FLOATING[0]], ids=named)
def test_composed_bounds_are_not_below_those_of_all_inputs(case: Case) -> None:
    unit = unit_of(case)
    every = exhaustive(unit.function, unit.source, unit.target, unit.plan)
    parts = composed(unit.function, unit.target, unit.plan)
    assert parts.max_ulp is not None
    assert every.max_ulp is not None
    assert every.max_ulp <= parts.max_ulp * (1 + 1e-9)
    if parts.monotonic:
        assert every.monotonic


@pytest.mark.parametrize("case", [FIXED[7], FLOATING[3]], ids=named)
def test_monotonic_units_on_request(case: Case) -> None:
    unit = design(*case, monotonic=True)
    assert unit.bound.monotonic
    results = unit.target.values_of(unit.evaluate(unit.source.patterns()))
    if unit.function == "sigmoid":
        assert (np.diff(results) >= 0).all()


def test_smaller_errors_take_more_of_a_table() -> None:
    sizes = [
        design("exp2", "q4.12", "uq1.14", Wanted(absolute=error)).table.table_bits
        for error in (3e-2, 3e-3, 3e-4)
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[2]


# -- published tables ------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "error"), [(0, 4.6e-4), (1, 1.17e-4), (5, 1.2e-4), (7, 9.8e-5)])
def test_published_tables_have_their_errors_and_take_more_room(number: int, error: float) -> None:
    published = PUBLISHED[number]
    made_again, exact_error = secants(published)
    assert exact_error == pytest.approx(error, rel=0.03)
    ours = smallest(published, made_again, exact_error)
    assert error_of(ours) <= exact_error < error_of(made_again) * 1.001
    assert ours.table_bits <= made_again.table_bits
    assert gates(ours) < gates(made_again)


# -- special values --------------------------------------------------------------------------------


def bits_of(name: str, *values: float) -> np.ndarray:
    return FLOATS[name].round(np.array(values)).astype(np.int64)


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp32"])
def test_floating_point_specials(name: str) -> None:
    fmt = FLOATS[name]
    signalling = fmt.overflow | 1
    inputs = np.array([*bits_of(name, 0, -0.0, math.inf, -math.inf), fmt.nan, signalling])
    inf, nan, sign = fmt.overflow, fmt.nan, fmt.sign_mask
    one = int(bits_of(name, 1.0)[0])
    coarse = Wanted(ulp=200)
    assert design("exp2", name, name, coarse).evaluate(inputs)[2:].tolist() == [inf, 0, nan, nan]
    reciprocal = design("reciprocal", name, name, coarse).evaluate(inputs).tolist()
    assert reciprocal == [inf, inf | sign, 0, sign, nan, nan]
    root = design("rsqrt", name, name, coarse)
    assert root.evaluate(inputs).tolist() == [inf, inf | sign, 0, nan, nan, nan]
    assert root.evaluate(bits_of(name, -1.0, -1e-30)).tolist()[0] == nan
    half = Wanted(absolute=0.3)
    assert design("sigmoid", name, name, half).evaluate(inputs)[2:].tolist() == [one, 0, nan, nan]
    assert design("tanh", name, name, half).evaluate(inputs)[2:].tolist() == [
        one,
        one | sign,
        nan,
        nan,
    ]
    silu = design("silu", name, name, half).evaluate(inputs)[2:].tolist()
    assert silu == [inf, 0, nan, nan]


def test_subnormal_arguments_and_results() -> None:
    fmt = FLOATS["fp16"]
    tiny = np.array([1, 2, 3, fmt.sign_mask | 1, 0x3FF])
    values = fmt.values_of(tiny)
    reciprocal = unit_of(FLOATING[2])
    results = fmt.values_of(reciprocal.evaluate(tiny))
    assert np.isinf(results[:4]).all()
    assert results[3] < 0
    assert results[4] == pytest.approx(1 / values[4], rel=1e-3)
    large = bits_of("fp16", 65504.0)
    below = reciprocal.evaluate(large)
    assert 0 < below[0] < 0x400
    assert fmt.values_of(below)[0] == pytest.approx(1 / 65504, rel=0.04)
    root = unit_of(("rsqrt", "fp16", "fp16", ULP))
    assert fmt.values_of(root.evaluate(tiny[:3])) == pytest.approx(values[:3] ** -0.5, rel=1e-3)


def test_fixed_point_has_results_for_zero_and_negative_numbers() -> None:
    reciprocal, root = unit_of(FIXED[4]), unit_of(FIXED[6])
    largest = real_format("q2.9").integer.max  # type: ignore[union-attr]
    assert reciprocal.evaluate(np.array([0, 1, -1])).tolist() == [largest, largest, -largest]
    most = real_format("uq3.9").integer.max  # type: ignore[union-attr]
    assert root.evaluate(np.array([0, -1, -2048])).tolist() == [most, 0, 0]


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cosine", "fp16", "fp16", ULP), "one of exp2, exp, reciprocal"),
        (("exp", "fp8", "fp16", ULP), "must be fp16, bf16, fp32 or fixed point such as q3.12"),
        (("exp", "q30.30", "fp16", ULP), "2 to 32 bits, sign included; q30.30 has 61"),
        (("gelu", "fp16", "bf16", Wanted(absolute=1)), "gelu of fp16 gives fp16, not bf16"),
        (("gelu", "fp16", "fp16", ULP), "must be wanted as absolute"),
        (("exp", "fp16", "fp16", Wanted(absolute=1)), "must be wanted as relative or ulp"),
        (("exp", "fp16", "q1.8", Wanted(relative=1)), "must be wanted as absolute or ulp"),
        (("exp", "fp16", "fp16", Wanted(ulp=0.5)), "rounding to fp16 alone takes"),
        (("exp", "fp32", "fp32", Wanted(ulp=0.500001)), "is proven to be within"),
    ],
)
def test_what_cannot_be_made_is_refused(arguments: Case, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        design(*arguments, degrees=(1,))


def test_a_wanted_error_is_one_positive_number() -> None:
    for wrong in ({}, {"ulp": 0.0}, {"ulp": 1.0, "absolute": 1.0}, {"relative": math.inf}):
        with pytest.raises(ValueError, match="one positive number"):
            Wanted(**wrong)
    with pytest.raises(ValueError, match="no unit is monotonic"):
        design("gelu", "q3.8", "q3.8", ULP, monotonic=True)


def test_a_unit_describes_itself() -> None:
    document = unit_of(FIXED[0]).document()
    assert document["function"] == "exp2"
    assert document["bound"]["max_ulp"] <= 1
    assert document["bound"]["monotonic"] is True
    assert set(FUNCTIONS) >= {case[0] for case in (*FIXED, *FLOATING, *WIDE)}
