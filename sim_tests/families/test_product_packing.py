# SPDX-License-Identifier: Apache-2.0
"""Several products in a DSP block: how they are told apart, and cores that do it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.build.design import Design
from flows.build.load import parse_config
from flows.simulation.run import run_product
from flows.synthesis.synth import synthesize
from hwgen.arithmetic.product_packing import PackedProducts, packed_products
from hwgen.core.params.spatial import SpatialConfig
from hwgen.core.registry import family
from hwgen.formats import number_format
from sim_tests.contract.contract import Contract, Covering, Mutations, Regressions
from sim_tests.families.test_spatial import with_accumulator
from sim_tests.support.cores import golden
from sim_tests.support.designs import design_of, estimate_of
from sim_tests.support.mutations import Mutation

PORTS = {"ice40": (16, 16), "ecp5": (18, 18), "xc7": (25, 18), "xcup": (27, 18)}
"""Bits of the signed factors of DSP blocks."""


OPERANDS = ("int8", "int4", "int5", "uint8", "uint4", "int2", "uint3", "ternary", "int11")
INTEGERS: dict[str, Any] = {name: number_format(name) for name in OPERANDS}


def packed(activation: str, weight: str, ports: tuple[int, int], packing: Any) -> Any:
    """Return the layout of products of as many columns as possible."""
    a, w = (INTEGERS[name] for name in (activation, weight))
    return packed_products(a, w, 64, ports, packing)


@pytest.mark.parametrize(
    ("activation", "weight", "lanes"),
    [
        ("int8", "int8", (1, 1, 2, 2)),
        ("int4", "int4", (2, 2, 3, 4)),
        ("int8", "int4", (2, 2, 2, 3)),
        ("int8", "int2", (2, 2, 3, 3)),
        ("int8", "ternary", (2, 3, 3, 4)),
        ("int4", "ternary", (4, 5, 6, 7)),
    ],
)
def test_as_many_products_as_published(
    activation: str, weight: str, lanes: tuple[int, ...]
) -> None:
    """The published lane counts of exact schemes with signed factors of these widths."""
    for ports, wanted in zip(PORTS.values(), lanes, strict=True):
        result = packed(activation, weight, ports, "exact")
        assert (result.lanes if result else 1) == wanted


def unpack_products(layout: PackedProducts, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the products, computed from the packed product and the low bits alone."""
    packed_weights = sum(w[:, lane] << at for lane, at in enumerate(layout.offsets))
    product, known = x * packed_weights, layout.low_bits
    result, below = [], np.zeros_like(x)
    for lane, at in enumerate(layout.offsets):
        value, above = product >> at, np.zeros_like(x)
        if lane < layout.lanes - 1:
            low = x * w[:, lane + 1]
            above = ((product >> layout.offsets[lane + 1]) - low) & ((1 << known) - 1)
            if known and min(least for least, _ in layout.borrowed) < 0:
                above -= (above >> (known - 1)) << known
            value = (value & ((1 << layout.spacing) - 1)) + (above << layout.spacing)
        result.append(value - below if layout.exact else value)
        below = above
    return np.stack(result, axis=1)


@pytest.mark.parametrize("packing", ["exact", "over"])
@pytest.mark.parametrize("ports", PORTS.values(), ids=PORTS)
def test_packed_products_are_separated(packing: Any, ports: tuple[int, int]) -> None:
    """Exactly, or with errors that are stated, reached, and the golden model's."""
    rng, seen = np.random.default_rng(0), 0
    for activation in OPERANDS:
        for weight in OPERANDS:
            layout = packed(activation, weight, ports, packing)
            if layout is None:
                continue
            seen += 1
            a, w = layout.activation, layout.weight
            x, weights = a.random(rng, (4000,)), w.random(rng, (4000, layout.lanes))
            # Extremes come together: all least, all greatest, alternating.
            for number, ends in enumerate(np.ndindex(2, 2, 2)):
                x[number] = (a.min, a.max)[ends[0]]
                weights[number, ::2] = (w.min, w.max)[ends[1]]
                weights[number, 1::2] = (w.min, w.max)[ends[2]]
            result = unpack_products(layout, x, weights) - x[:, None] * weights
            low, high = layout.error
            assert low <= result.min() <= result.max() <= high
            if packing == "exact":
                assert low == high == 0
                continue
            # The bound is that of every lane at its extreme, and errors come near it.
            assert max(result.max(), -result.min()) >= max(high, -low) // 2
            total = layout.dot(x[None, :40], weights[:40])
            assert np.array_equal(total[0], (result + x[:, None] * weights)[:40].sum(axis=0))
    assert seen > 20


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from(OPERANDS), st.sampled_from(OPERANDS))
def test_packed_sums_are_separated(seed: int, activation: str, weight: str) -> None:
    """Borrows of sums are counted correctly from a few low bits, over any number of terms."""
    rng = np.random.default_rng(seed)
    layout = packed(activation, weight, (27, 18), "exact")
    if layout is None or layout.step.width > layout.spacing:
        return
    width, terms = 24, int(rng.integers(1, 200))
    a, w = layout.activation, layout.weight
    x, weights = a.random(rng, (terms,)), w.random(rng, (terms, layout.lanes))
    if seed % 3 == 0:
        x[:], weights[:] = a.min, w.min
    total, counts, known = 0, [0] * layout.lanes, layout.step.width
    for term in range(terms):
        after = total + int(x[term]) * sum(
            int(weights[term, lane]) << at for lane, at in enumerate(layout.offsets)
        )
        for lane, at in enumerate(layout.offsets[1:], 1):
            step = (after >> at) - (total >> at) - int(x[term] * weights[term, lane])
            counts[lane] += int(layout.step.wrap(np.int64(step & ((1 << known) - 1))))
        total = after
    count = layout.count(terms, width)
    for lane, at in enumerate(layout.offsets):
        result = total >> at
        if lane < layout.lanes - 1:
            assert count.min <= counts[lane + 1] <= count.max
            result = (result & ((1 << layout.spacing) - 1)) + (counts[lane + 1] << layout.spacing)
        assert result - counts[lane] == int((x * weights[:, lane]).sum())


# -- cores -----------------------------------------------------------------------------------------

AXES: dict[str, list[Any]] = {
    "sizes": [
        ("cube", {"rows": 3, "cols": 4, "depth": 5}),
        ("cube", {"rows": 1, "cols": 7, "depth": 2}),
        ("adder_tree", {"cols": 5, "depth": 3}),
        ("broadcast_2d", {"rows": 3, "cols": 5}),
        ("broadcast_2d", {"rows": 1, "cols": 9}),
    ],
    "packing": ["exact", "over"],
    "operands": [
        ("int8", "int8"),
        ("int4", "int4"),
        ("int8", "ternary"),
        ("uint8", "int2"),
        ("uint4", "uint4"),
        ("int5", "uint3"),
    ],
    "technology": ["ecp5", "xc7", "xcup"],
    "accumulator": ["exact", "wrap", "saturate"],
    "registers": [0, 1, 2],
    "max_k": [9, 3000],
}
"""Axes of the covering set: every legal pair of values of two axes occurs in it."""


def legal(point: list[Any]) -> bool:
    values = dict(zip(AXES, point, strict=False))
    sizes, registers = values["sizes"][1], values.get("registers", 0)
    if registers == 2 and "depth" not in sizes:
        return False
    if "technology" not in values:
        return True
    a, w = (INTEGERS[name] for name in values["operands"])
    ports = PORTS[values["technology"]]
    layout = packed_products(a, w, sizes["cols"], ports, values["packing"])
    return layout is not None


def configuration(name: str, values: dict[str, Any]) -> SpatialConfig:
    """Return the configuration of one point of the covering set."""
    family_name, sizes = values["sizes"]
    activation, weight = values["operands"]
    data: dict[str, Any] = {
        "name": name,
        "activation": activation,
        "weight": weight,
        "max_k": values["max_k"],
        "array": {**sizes, "packing": values["packing"]},
        "pipeline": {"pe": values["registers"]},
        "target": {"technology": values["technology"]},
    }
    return with_accumulator(family_name, data, values["accumulator"])


COVERING = Covering("packed", AXES, configuration, every=60, legal=legal)


def test_sums_are_packed_and_unpacked() -> None:
    assert {bool(config.packed_sum) for config in COVERING.configs} == {False, True}


TERNARY = [
    parse_config(f"name: ternary_{number}\nweight: ternary\n{text}\n")
    for number, text in enumerate(
        (
            "family: broadcast_2d\narray: {rows: 2, cols: 3}",
            "family: cube\nactivation: uint8\narray: {rows: 2, cols: 2, depth: 5}\nmax_k: 300",
            "family: adder_tree\nactivation: ternary\narray: {cols: 3, depth: 4}\nmax_k: 99",
            "family: cube\narray: {rows: 2, cols: 2, depth: 3, pe: carry_save}",
        )
    )
]
"""Ternary weights without packing: a PE adds or subtracts."""


CLEAN = (
    "family: broadcast_2d\narray: {rows: 2, cols: 3, packing: exact}\ntarget: {technology: xc7}",
    "family: cube\narray: {rows: 2, cols: 3, depth: 2, packing: over}\ntarget: {technology: ecp5}",
    "family: cube\nweight: ternary\narray: {rows: 2, cols: 2, depth: 2}",
)


def test_errors_of_the_hardware_are_the_golden_models() -> None:
    config: Any = parse_config(
        "name: c\nfamily: cube\nmax_k: 100\narray: {rows: 2, cols: 5, depth: 3, packing: over}\n"
        "target: {technology: ecp5}\n"
    )
    assert config.packing.error == (-32, 32)
    rng = np.random.default_rng(3)
    a, w = (rng.integers(-128, 128, shape, dtype=np.int8) for shape in ((5, 70), (70, 8)))
    result, exact = run_product(design_of(config), a, w).result, a.astype(np.int64) @ w
    assert np.array_equal(result, golden(config, a, w))
    assert (result != exact).any()
    assert np.abs(result - exact).max() <= 70 * 32


SUMS = {"activation": "int8", "max_k": 300, "array": {"rows": 2, "cols": 3, "packing": "exact"},
        "target": {"technology": "xc7"}}  # fmt: skip
APART = {**SUMS, "accumulator": "int16", "overflow": "saturate"}
OVER = {**SUMS, "array": {"rows": 2, "cols": 3, "packing": "over"}}


MUTATIONS = [
    Mutation("what a lane borrows is not counted", "pe", r"count_1_reg <= total\[\d+:\d+\]",
             "count_1_reg <= 0", SUMS),
    Mutation("field of the tile before", "pe", r"if \(clear\) before_1 <= 2'h0;\s*else ", "", SUMS),
    Mutation("nothing borrowed from the lane below", "sum_unpacker",
             r"- \$signed\(i\[\d+:\d+\]\)", "- 0", SUMS),
    Mutation("no correction", "pe", r"\{ addend_1, \S+ \}", "{ addend_1, 1'b0 }", APART),
    Mutation("low bits of another product", "pe", r"low_0_1 = |low_0_1\s*\} = ",
             r"\g<0> 1'b1 ^ ", OVER),
]  # fmt: skip


def test_unpacked_configurations_do_not_know_packing() -> None:
    assert "packing" not in parse_config("name: c\nfamily: cube\n").resolved()["array"]


@pytest.mark.parametrize("technology", ["ecp5", "xc7"])
def test_estimates_know_the_blocks(technology: str) -> None:
    text = "name: c\nfamily: broadcast_2d\nweight: ternary\narray: {rows: 3, cols: 7%s}\n"
    text += f"target: {{technology: {technology}}}\n"
    result = [
        estimate_of(parse_config(text % packing))["metrics"]["dsps"]
        for packing in ("", ", packing: exact", ", packing: over")
    ]
    assert result == [0, 3 * 3, 3 * 2]


@pytest.mark.long
@pytest.mark.parametrize("technology", ["ecp5", "xc7", "xcup"])
@pytest.mark.parametrize("packing", ["exact", "over"])
def test_synthesis_makes_one_block_of_them(technology: str, packing: str) -> None:
    config: Any = parse_config(
        "name: c\nfamily: cube\nactivation: int4\nweight: int4\n"
        f"array: {{rows: 1, cols: 8, depth: 2, packing: {packing}}}\n"
        f"target: {{technology: {technology}}}\n"
    )
    # Of eight columns no group has one alone, whose product would be too small for a block.
    assert synthesize(Design.of(config), technology).dsps == config.packing.groups * 2


ENGINES = [
    parse_config(
        f"name: engine_{packing}\nfamily: gemm_stream\nmemory: {{data_width: 32}}\n"
        "compute: {family: broadcast_2d, weight: int4, activation: int4,"
        f" array: {{rows: 2, cols: 5, packing: {packing}}}}}\n"
        "buffers: {activation_kib: 1, weight_kib: 1, output_kib: 1, column_kib: 1}\n"
        f"target: {{technology: {technology}}}\n"
    )
    for packing, technology in (("exact", "ecp5"), ("over", "xc7"))
]

PACKING_REFUSED = (
    ("array: {packing: exact}", "must be none with target.technology nangate45, not exact"),
    (
        "array: {packing: exact, pe: carry_save}\ntarget: {technology: xc7}",
        "must be none with array.pe carry_save, not exact: it has no multipliers",
    ),
    (
        "array: {packing: exact}\ntarget: {technology: ecp5}",
        "must be none with int8 x int8 on ecp5, not exact: its .* 18 x 18 bits hold 1 product",
    ),
    (
        "array: {packing: exact, cols: 1}\ntarget: {technology: xc7}",
        "must be none with 1 column, not exact: products of 2 neighbouring columns",
    ),
    (
        "array: {packing: over}\nactivation: int16\nweight: int16\ntarget: {technology: xc7}",
        "must be none with int16 x int16 on xc7, not over: .*too little could be told apart",
    ),
    (
        "array: {packing: over}\nactivation: mxfp4\nweight: mxfp4\naccumulator: fp32",
        "must be none with mxfp4 x mxfp4, not over: integers alone are packed",
    ),
    ("array: {packing: all}", "must be none, exact or over, not 'all'"),
)

CONTRACT = Contract(
    "product_packing",
    "cube",
    covering=COVERING,
    regressions=(Regressions(TERNARY, every=12), Regressions(ENGINES, long=True)),
    clean=[parse_config(f"name: linted_{i}\n{text}\n") for i, text in enumerate(CLEAN)],
    clean_every=8,
    mutations=(
        Mutations(
            family("broadcast_2d").params_class,
            (
                "shapes_7",
                "values_highest",
                "values_lowest",
                "values_random",
                "back_to_back_full_rate",
            ),
            MUTATIONS,
        ),
    ),
    refused=[(text, f"array.packing: {message}") for text, message in PACKING_REFUSED],
)
