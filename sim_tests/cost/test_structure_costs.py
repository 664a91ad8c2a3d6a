# SPDX-License-Identifier: Apache-2.0
"""Components counted in structures, and estimates made of them."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed

from cost_model.estimate import technology as technologies
from cost_model.estimate.costed import STRUCTURE
from cost_model.netlist.components import COMPONENTS, totals
from cost_model.netlist.fabric.fabric import fabric
from cost_model.timing.graph import Timer
from flows.bench import draws as held_out
from flows.build.load import load_config, parse_config
from flows.calibration import draws, structural
from flows.calibration.delays import USUAL
from flows.calibration.fit import Bound, Equation, fit_robust, within_bounds
from hwgen.core.registry import families
from hwgen.technologies import technology_names
from sim_tests.cost.test_structure import Pair, chain, structured
from sim_tests.support.designs import design_of, estimate_of
from sim_tests.support.paths import ROOT

CONFIGS = ROOT / "configs"
TECH = "nangate45"


def counted(
    build: Callable[[Module, Signal, Signal, Signal], object], width: int = 8, out: int = 9
) -> dict[str, float]:
    """Return the components of what a function makes of two inputs and a result."""
    m = Module()
    a, b, y = Signal(signed(width)), Signal(signed(width)), Signal(signed(out))
    build(m, a, b, y)
    return totals(structured(m, {"a": a, "b": b}, {"y": y}))


def test_an_adder_is_as_wide_as_its_result() -> None:
    result = counted(lambda m, a, b, y: m.d.comb.__iadd__(y.eq(a + b)))
    assert result["adder_bit"] == 9
    # The highest bits are not made if nothing uses them.
    assert counted(lambda m, a, b, y: m.d.comb.__iadd__(y.eq(a + b)), out=5)["adder_bit"] == 5


def test_constant_operands_cost_less() -> None:
    result = counted(lambda m, a, b, y: m.d.comb.__iadd__(y.eq(a + Const(3, 8))))
    assert "adder_bit" not in result
    assert result["increment_bit"] > 0
    assert not counted(lambda m, a, b, y: m.d.comb.__iadd__(y.eq(a & 0)))
    masked = counted(lambda m, a, b, y: m.d.comb.__iadd__(y.eq(Mux(b[0], a, 0))))
    assert "mux_bit" not in masked
    assert masked["mask_bit"] == 8


def test_a_sum_of_several_numbers_has_one_adder() -> None:
    def build(m: Module, a: Signal, b: Signal, y: Signal) -> None:
        m.d.comb += y.eq(a[:4] + a[4:] + b[:4] + b[4:])

    result = counted(build)
    assert result["adder_bit"] <= 7
    assert result["sum_bit"] >= 4


def test_products_are_booth_digits_or_rows() -> None:
    wide = counted(lambda m, a, b, y: m.d.comb.__iadd__(y.eq(a * b)), out=16)
    assert wide["booth_bit"] == 64
    assert "product_bit" not in wide
    narrow = counted(lambda m, a, b, y: m.d.comb.__iadd__(y.eq(a * b[:2])), out=16)
    assert narrow["product_bit"] > 0
    assert "booth_bit" not in narrow
    cut = counted(lambda m, a, b, y: m.d.comb.__iadd__(y.eq(a * b)), out=8)
    assert cut["booth_bit"] == pytest.approx(36)


def test_a_product_of_which_few_bits_are_used_is_made_of_rows_of_them() -> None:
    few = counted(lambda m, a, b, y: m.d.comb.__iadd__(y.eq((a * b)[:4])), width=5)
    assert few["product_bit"] == 4 + 3 + 2 + 1
    assert "booth_bit" not in few
    assert counted(lambda m, a, b, y: m.d.comb.__iadd__(y.eq(a * b)), width=5)["booth_bit"]


def test_a_shifter_chooses_where_it_does_not_clear() -> None:
    def logical(m: Module, a: Signal, b: Signal, y: Signal) -> None:
        m.d.comb += y.eq(a.as_unsigned() >> b[:3].as_unsigned())

    def arithmetic(m: Module, a: Signal, b: Signal, y: Signal) -> None:
        m.d.comb += y.eq(a >> b[:3].as_unsigned())

    def left(m: Module, a: Signal, b: Signal, y: Signal) -> None:
        m.d.comb += y.eq(a << b[:2].as_unsigned())

    # Distances of 4, 2 and 1 let zeros into as many of eight bits.
    result = counted(logical, out=8)
    assert (result["mux_bit"], result["mask_bit"]) == (4 + 6 + 7, 4 + 2 + 1)
    # Copies of the sign are not chosen between.
    result = counted(arithmetic, out=8)
    assert result["mux_bit"] == 7 + 7 + 7
    assert "mask_bit" not in result
    # To the left, only what is left of the word is made.
    result = counted(left, out=4)
    assert (result["mux_bit"], result["mask_bit"]) == (2 + 3, 2 + 1)


def test_numbers_without_sign_end_where_their_bits_do() -> None:
    def build(m: Module, a: Signal, b: Signal, y: Signal) -> None:
        m.d.comb += y.eq((a[:4] + a[4:8]) + (b[:4] + b[4:8]))

    short = counted(build, width=8)
    assert short["sum_bit"] <= 2 * 5  # two numbers more than two in columns 0 to 4, not all


def test_registers_count_with_enable_and_reset() -> None:
    def build(m: Module, a: Signal, b: Signal, y: Signal) -> None:
        held, kept = Signal(8, reset_less=True), Signal(3)
        with m.If(b[0]):
            m.d.sync += held.eq(a)
        m.d.sync += kept.eq(b)
        m.d.comb += y.eq(Cat(held[:6], kept))

    result = counted(build)
    assert (result["register_bit"], result["enable_bit"], result["reset_bit"]) == (9, 6, 3)


def test_what_no_instance_needs_is_not_counted() -> None:
    half = chain([Pair(8)] * 2)
    assert totals(half) == {"not_bit": 32.0}


NARROW_SUMS = {
    """
family: ternary_lut
activation: uint14
accumulator: int4
max_k: 663
array:
  {tables: 1, fetch_ports: 1, fetch: one_hot, reduction: compressors, accumulator_depth: 1}
""": 46,
    """
family: systolic
activation: int6
weight: uint11
accumulator: int5
array: {rows: 1, cols: 3, dataflow: input_stationary, broadcast: 2, accumulator_depth: 1}
""": 249,
}
"""How many flip-flops `hwgen synth` leaves, with Yosys 0.70 and OpenROAD's nangate45."""


@pytest.mark.parametrize(("text", "flip_flops"), NARROW_SUMS.items())
def test_what_a_narrow_sum_does_not_need_is_followed_to_the_inputs(
    text: str, flip_flops: int
) -> None:
    """A sum of few bits needs few of the product, of its operands, and of the buffers of these."""
    config = parse_config(f"name: narrow\n{text}", "narrow.yaml")
    assert totals(design_of(config).netlist)["register_bit"] == flip_flops


def test_paths_to_unused_bits_do_not_limit() -> None:
    """A sum of five bits waits for no carry beyond them."""
    a, b, y = Signal(16), Signal(16), Signal(5)
    m = Module()
    product, held = Signal(32), [Signal(16, name=f"held_{n}", reset_less=True) for n in range(2)]
    kept = Signal(32, reset_less=True)
    m.d.comb += [product.eq(held[0] * held[1]), y.eq(kept)]
    m.d.sync += [held[0].eq(a), held[1].eq(b), kept.eq(product)]
    design = structured(m, {"a": a, "b": b}, {"y": y})
    result = Timer(design.pruned(), USUAL).limiting()
    whole = Timer(design, USUAL).limiting()
    assert result is not None
    assert whole is not None
    assert result.steps["multiplier_bit"] == 3
    assert whole.steps["multiplier_bit"] == 30
    assert totals(design.pruned()) == totals(design)


def test_engines_have_area_and_power() -> None:
    core = parse_config((CONFIGS / "gemm_stream.yaml").read_text(), "core.yaml")
    result = estimate_of(core, TECH, workloads={"w": [(64, 64, 64)]})
    metrics = result["metrics"]
    assert metrics["area_mm2"] > 0
    assert metrics["power_w"] > 0
    assert metrics["energy_mj(w)"] > 0
    parts = result["breakdown"]
    assert sum(part["area_um2"] for part in parts) == pytest.approx(metrics["area_mm2"] * 1e6)
    assert parts == sorted(parts, key=lambda part: -part["area_um2"])
    assert {"pe_19", "control"} <= {part["part"] for part in parts}
    assert result["costs_of"] == STRUCTURE
    (note,) = result["notes"]
    assert note.startswith("no ± is stated for area and power: the design contains SRAM macros")


STRUCTURAL = [
    t
    for t in technologies.calibrated()
    if technologies.technology(t).structure and fabric(t) is None
]
"""Standard cells; kinds of components of FPGAs are others."""


@pytest.mark.parametrize("technology", STRUCTURAL)
def test_every_kind_of_a_structure_has_a_price(technology: str) -> None:
    costs = technologies.technology(technology).structure
    for name in ("systolic", "lut_core_fp16", "serial", "gemm_stream"):
        config = load_config(CONFIGS / f"{name}.yaml")
        kinds = set(totals(design_of(config).netlist))
        for quantity, prices in costs["costs"].items():
            assert kinds - set(prices) == set(), quantity


def test_one_odd_design_does_not_shift_the_costs() -> None:
    usual = [Equation(str(n), {"a": n, "b": 3}, 2.0 * n + 3) for n in range(1, 12)]
    odd = Equation("odd", {"a": 5.0, "b": 3}, 40.0)
    bounds = {"a": Bound(0.0, 1.0, 10.0), "b": Bound(0.0, 1.0, 10.0)}
    prices = fit_robust([*usual, odd], [1.0] * 12, bounds, 1e-3)
    assert prices["a"] == pytest.approx(2, rel=0.05)
    assert prices["b"] == pytest.approx(1, rel=0.1)


def test_fits_stay_within_bounds() -> None:
    """Measurements that say 2 and 0 give the bounds where these are narrower."""
    equations = [Equation(str(n), {"a": n, "b": n % 3}, 2.0 * n) for n in range(1, 12)]
    bounds = {"a": Bound(0.5, 1.0, 1.5), "b": Bound(0.2, 0.3, 0.4), "c": Bound(1.0, 2.0, 3.0)}
    prices = fit_robust(equations, [1.0] * 11, bounds, 1e-3)
    assert prices["a"] == pytest.approx(1.5)
    assert prices["b"] == pytest.approx(0.4)
    assert prices["c"] == pytest.approx(2.0), "no design has it: its usual cost"


def test_a_bounded_fit_is_the_optimum() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        a, b = rng.normal(size=(9, 4)), rng.normal(size=9)
        low = rng.uniform(-0.5, 0.0, 4)
        high = low + rng.uniform(0.1, 1.0, 4)
        x = within_bounds(a, b, low, high)
        assert ((x >= low) & (x <= high)).all()
        gradient = a.T @ (a @ x - b)
        free = (x > low + 1e-9) & (x < high - 1e-9)
        assert np.abs(gradient[free]).max(initial=0) < 1e-6
        assert (gradient[x <= low + 1e-9] > -1e-6).all()
        assert (gradient[x >= high - 1e-9] < 1e-6).all()


def test_calibration_designs_are_legal_and_of_every_family() -> None:
    result = structural.designs()
    assert {config.family for config in result} >= set(draws.alone())
    assert len({config.digest for config in result}) == len(result)


def test_realistic_designs_are_of_common_families_and_large() -> None:
    result = structural.designs(structural.REALISTIC)
    assert len(result) >= 30
    assert {config.family for config in result} >= {"systolic", "ternary_lut", "cube"}
    assert all(config.macs_per_cycle >= 16 for config in result if config.multiplies)


@pytest.mark.parametrize("name", technology_names("standard_cells"))
def test_no_coefficient_is_outside_its_bounds(name: str) -> None:
    structure = technologies.technology(name).structure
    for quantity, limits in structure.get("bounds", {}).items():
        prices = structure["costs"][quantity]
        assert limits.keys() == prices.keys() == COMPONENTS.keys()
        for component, (low, high) in limits.items():
            assert Bound(low, low, high).contains(prices[component]), (quantity, component)


@pytest.mark.rotate(6)
def test_validation_designs_are_of_a_size_and_repeatable() -> None:
    names, most = draws.alone(), 10_000.0
    result = held_out.draw(11, 2 * len(names), most, names=names)
    # Of each family whichever others are drawn, and in turn, but for those of which no small one
    # was drawn.
    last = names[-2:]
    first = [config for config in result if config.family in last][:2]
    assert held_out.draw(11, 2, most, names=last) == first
    assert held_out.draw(12, 2, most, names=last) != first
    assert {config.family for config in result} == set(names)
    assert all(
        0 < held_out.size(design_of(config).netlist, config.memories.registers_below) <= most
        for config in result
    )


def test_validation_designs_have_every_operand_width() -> None:
    draw = random.Random(5)
    how = draws.Draw(draw, 3, held_out.USUAL, buffers=True, repair=True)
    some = [draws.drawn(name, how) for name in draws.alone() for _ in range(90)]
    assert {config.activation.width for config in some} >= set(range(2, 17))
    assert {config.weight.width for config in some} >= set(range(2, 17))


@pytest.mark.parametrize(("technology", "luts"), [("ecp5", 43848), ("nangate45", None)])
def test_the_limit_of_sizes_is_a_middling_device(technology: str, luts: int | None) -> None:
    assert held_out.limit(technology) == (luts or held_out.LARGEST)


def test_draws_are_legal_and_repeatable() -> None:
    generators = random.Random(7), random.Random(7)
    for name in families():
        first, again = (draws.drawn(name, draws.Draw(generator)) for generator in generators)
        assert first == again
        assert first.family == name
