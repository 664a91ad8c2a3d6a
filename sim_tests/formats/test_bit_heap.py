# SPDX-License-Identifier: Apache-2.0
"""Plans of bit heaps against sums."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from hwgen.arithmetic.bit_heap import ONE, ZERO, Plan, count_adders, plan

HEAPS = st.lists(st.lists(st.sampled_from([0, 10, 30]), max_size=6), min_size=1, max_size=12)


def evaluate(how: Plan, bits: list[int], values: dict[int, int] | None = None) -> int:
    """Return the result of a plan; every bit it makes is put into `values`."""
    values = {} if values is None else values
    values |= {ZERO: 0, ONE: 1, **dict(enumerate(bits))}
    for adder in how.adders:
        total = sum(values[i] for i in adder.inputs) + (adder.cell in ("half_up", "up"))
        values[adder.sum], values[adder.carry] = total & 1, total >> 1
    return sum(values[number] << column for column, number in enumerate(how.result))


@settings(max_examples=500)
@given(HEAPS, st.integers(-5000, 5000), st.data())
def test_a_plan_adds(heap: list[list[int]], constant: int, data: st.DataObject) -> None:
    how = plan(heap, constant)
    count = sum(map(len, heap))
    bits = data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    weights = [column for column, arrivals in enumerate(heap) for _ in arrivals]
    total = constant + sum(bit << weight for bit, weight in zip(bits, weights, strict=True))
    assert evaluate(how, bits) == total % (1 << len(heap))


@settings(max_examples=300)
@given(HEAPS, st.integers(-5000, 5000), st.sets(st.integers(0, 13)), st.data())
def test_saved_carries_are_missing(
    heap: list[list[int]], constant: int, saved: set[int], data: st.DataObject
) -> None:
    how = plan(heap, constant, saved)
    count = sum(map(len, heap))
    bits = data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
    values: dict[int, int] = {}
    result = evaluate(how, bits, values)
    columns = [column for column, _ in how.carries]
    assert sorted(set(columns)) == columns
    assert saved.issuperset(columns)
    weights = [column for column, arrivals in enumerate(heap) for _ in arrivals]
    total = constant + sum(bit << weight for bit, weight in zip(bits, weights, strict=True))
    result += sum(values[number] << column for column, number in how.carries)
    assert result % (1 << len(heap)) == total % (1 << len(heap))


def test_bits_that_come_first_are_added_first() -> None:
    how = plan([[0, 30, 0, 30, 0]])
    assert how.adders[0].inputs == (0, 2, 4)
    assert [adder.cell for adder in how.adders] == ["full", "full"]
    assert how.delay == 30 + 20


@settings(max_examples=300)
@given(HEAPS, st.integers(-5000, 5000), st.sets(st.integers(0, 13)))
def test_adders_are_counted_without_a_plan(
    heap: list[list[int]], constant: int, saved: set[int]
) -> None:
    kinds = [adder.cell for adder in plan(heap, constant, saved).adders]
    full, half = count_adders([len(column) for column in heap], constant, saved)
    assert full == kinds.count("full")
    assert half == kinds.count("half") + kinds.count("half_up")
