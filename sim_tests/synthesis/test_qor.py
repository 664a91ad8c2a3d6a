# SPDX-License-Identifier: Apache-2.0
"""The comparison of ternary-LUT datapaths: what it compares with computes the right thing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.wiring import In, Member, Out

from flows.bench.published import IntegerTable, Published, Shape
from flows.bench.qor import DESIGNS, Result, goals, points, published_for, rows
from flows.synthesis.standard_cells import Mapped
from flows.synthesis.timing import Timing
from hwgen.arithmetic.float_arithmetic import add
from hwgen.formats import FloatFormat, IntegerFormat, floating, integer, ternary
from rtl_templates.hdl.hierarchy import Block, emit, place
from sim_tests.support.blocks import TOP, Lanes, run_block

WORD = 64
"""Bits of a port that `run_block` can drive."""


class Words(Block):
    """A block whose ports are cut into words, the last one padded."""

    def __init__(self, block: Block) -> None:
        self.inner = block
        members: dict[str, Member] = {}
        for name, member in block.ports.items():
            for i in range(-(-block.width(name) // WORD)):
                members[f"{name}_{i}"] = In(WORD) if member.flow == In else Out(WORD)
        super().__init__("words", members)

    def build(self, m: Module) -> None:
        connections = {}
        for name, member in self.inner.ports.items():
            width = self.inner.width(name)
            words = Cat(getattr(self, f"{name}_{i}") for i in range(-(-width // WORD)))
            if member.flow == In:
                connections[name] = words[:width]
            else:
                connections[name] = Signal(width, name=f"inner_{name}")
                m.d.comb += words.eq(connections[name])
        place(m, "inner", self.inner, **connections)


def words(values: list[list[int]], width: int, name: str) -> dict[str, Any]:
    """Return lists of elements of `width` bits, one list a cycle, as the words of port `name`."""
    joined = [sum(v << width * i for i, v in enumerate(row)) for row in values]
    count = -(-len(values[0]) * width // WORD)
    mask = (1 << WORD) - 1
    return {
        f"{name}_{i}": np.array([row >> WORD * i & mask for row in joined], np.uint64)
        for i in range(count)
    }


@pytest.mark.parametrize(
    ("group_size", "tables", "ports", "activation"),
    [
        (1, 3, 2, integer("int8")),
        (2, 1, 3, integer("int8")),
        (2, 4, 2, integer("int8")),
        (3, 3, 2, integer("int8")),
        (4, 2, 2, integer("int8")),
        (5, 2, 1, integer("int8")),
        (1, 1, 2, floating("fp16")),
        (2, 3, 2, floating("fp16")),
        (3, 2, 1, floating("fp16")),
        (4, 1, 1, floating("fp16")),
        (5, 2, 1, floating("fp16")),
    ],
    ids=str,
)
@pytest.mark.rotate(8)
def test_published_datapath_accumulates_products(
    group_size: int,
    tables: int,
    ports: int,
    activation: IntegerFormat | FloatFormat,
    tmp_path: Path,
) -> None:
    shape = Shape(group_size, tables, ports, activation)
    rng = np.random.default_rng([group_size, tables, ports])
    beats, reset = 60, 30  # the accumulators are cleared twice: to begin with, and once more
    a: Any
    if activation.is_float:
        a = rng.standard_normal((beats, tables, group_size)).astype(np.float16)
        x = a.view(np.uint16)
    else:
        a = rng.integers(-128, 128, (beats, tables, group_size))
        x = a & 255
    w = rng.integers(-1, 2, (beats, ports, tables, group_size))
    keys = ternary.encode(w)
    enable = rng.random(beats) < 0.8

    # Whatever follows the activations is given that much later.
    late = shape.table_latency + shape.chain_latency
    rows = beats + late
    inputs = {
        **words(_late(x.reshape(beats, -1), 0, rows), activation.width, "x"),
        **words(_late(keys.reshape(beats, -1), shape.table_latency, rows), shape.key_width, "keys"),
        **words(_late(enable[:, None], late, rows), 1, "enable"),
        **words([[int(i < late or i == late + reset)] for i in range(rows)], 1, "reset"),
    }
    result = run_block(Words(Published(shape)), inputs, tmp_path, lanes=1)
    width = shape.total_width
    totals = [
        sum(int(result[f"totals_{i}"][row]) << WORD * i for i in range(len(result)))
        for row in range(rows)
    ]
    expected: Any = np.zeros(ports, np.uint16)
    for beat in range(beats - 1):
        if beat == reset:
            expected = np.zeros_like(expected)
        elif enable[beat]:
            expected = accumulated(expected, a[beat], w[beat], activation)
        row = beat + late + 1
        if row < rows:
            got = [totals[row] >> width * p & (1 << width) - 1 for p in range(ports)]
            assert got == [int(value) % (1 << width) for value in expected], beat


def accumulated(totals: Any, a: Any, w: Any, activation: IntegerFormat | FloatFormat) -> Any:
    """Return the totals after one more beat, in the order of the datapath's additions."""
    if not activation.is_float:
        return totals.astype(np.int64) + np.einsum("tg,ptg->p", a, w)

    def plus(x: Any, y: Any) -> Any:
        return add(activation, np.asarray(x, np.uint16), np.asarray(y, np.uint16))

    out = []
    for total, column in zip(totals, w, strict=True):
        chain: Any = None
        for values, weights in zip(a, column, strict=True):
            entry = group_sum(values, weights, plus)
            chain = entry if chain is None else plus(chain, entry)
        out.append(int(plus(total, chain)))
    return np.array(out, np.uint16)


def group_sum(values: Any, weights: Any, plus: Any) -> int:
    """Return the entry as the table computes it: head, and the tail from its last term upward."""
    nonzero = np.flatnonzero(weights)
    if not nonzero.size:
        return 0
    # The pattern of the opposite sign is the one stored if the first weight is negative.
    sign = weights[nonzero[0]]
    terms = (values * (weights * sign)).astype(np.float16).view(np.uint16)
    present = [None if weights[i] == 0 else int(terms[i]) for i in range(len(terms))]

    def both(x: int | None, y: int | None) -> int | None:
        return x if y is None else y if x is None else int(plus(x, y))

    head = both(present[0], present[1]) if len(present) > 1 else present[0]
    tail = None
    for term in reversed(present[2:]):
        tail = both(tail, term)
    entry = both(head, tail)
    assert entry is not None
    return entry ^ 0x8000 if sign < 0 else entry


def _late(values: Any, cycles: int, rows: int) -> list[list[int]]:
    padding = [[0] * values.shape[1]]
    listed = [[int(v) for v in row] for row in values]
    return (padding * cycles + listed + padding * rows)[:rows]


@pytest.mark.parametrize(("group_size", "adders"), [(1, 0), (2, 2), (3, 16), (4, 50), (5, 152)])
def test_published_tables_have_the_adders_of_the_original(group_size: int, adders: int) -> None:
    table = IntegerTable(Shape(group_size, 1, 1, integer("int8")))
    top = Lanes(table, 1)
    rtlil = "".join(emit(top, TOP, top.ports))  # as written, nothing optimised
    assert len(re.findall(r"cell \$(?:add|sub) ", rtlil)) == adders


def measured(area: float, **fields: Any) -> Result:
    """Return a result of 32 x 32 int8 at nangate45 with one mapping that meets its clock."""
    point = next(
        p
        for p in points(["int8"])
        if (p.technology, p.size) == ("nangate45", (32, 32))
        and all(getattr(p, name) == value for name, value in fields.items())
    )
    mapped = Mapped(
        "nangate45", "nf", True, point.clock_ps, area * point.macs_per_cycle, 0, {}, {},
        Timing(1.0, "a", "b"), "",
    )  # fmt: skip
    return Result(point, (mapped,))


def test_results_are_compared_with_the_published_datapath() -> None:
    ours, other = (
        measured(50, design="lut", group_size=2),
        measured(100, design="published", group_size=2),
    )
    select = measured(60, design="select")
    results = [ours, other, select]
    assert published_for(ours, results) is other
    assert published_for(select, results) is other
    table = list(rows(results))
    assert [cells[7] for cells in table] == ["0.50", "", "0.60"]
    assert table[0][:4] == (DESIGNS["lut"][0], "2", "16 x 32", "nf + FA")
    reached: dict[str, Any] = {title: (value, met) for title, value, _, met in goals(results)}
    assert reached["INT8 nangate45 32x32 µ=2: (a) / (b)"] == (pytest.approx(0.5), True)
    assert reached["INT8 nangate45: best (a) of µ ≥ 2 / best (d)"] == (pytest.approx(5 / 6), False)
    assert reached["INT8 nangate45: best (a), µm² per MAC/cycle"] == (50, True)


def test_aligned_designs_are_of_floating_point_only() -> None:
    designs = {p.design for p in points(["int8"])}, {p.design for p in points(["fp16"])}
    assert designs[0] == set(DESIGNS) - {"aligned", "fixed"}
    assert designs[1] == set(DESIGNS) - {"exact"}
    floats = {design: [p for p in points(["fp16"]) if p.design == design] for design in designs[1]}
    alignments = {"aligned": "beat", "fixed": "exact", "lut": "none"}
    for design, alignment in alignments.items():
        assert {p.config.array.alignment for p in floats[design]} == {alignment}
