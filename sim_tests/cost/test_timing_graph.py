# SPDX-License-Identifier: Apache-2.0
"""Arrival times through the word-level structure: operators, fan-out, hierarchy, whole cores."""

from __future__ import annotations

import re
from dataclasses import replace
from math import log2
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, signed
from click.testing import CliRunner

from cost_model.estimate.technology import Technology
from cost_model.timing.arcs import LIGHT, STEPS, Costs, spread
from cost_model.timing.delay_compression import COMPRESSION, compress_delay, expand_delay
from cost_model.timing.graph import Path as LimitingPath
from cost_model.timing.graph import Timer
from cost_model.timing.limit import described, limiting_path, shortest
from flows.build.load import load_config
from flows.calibration.delays import USUAL, Timed, choose_compression, fit_steps, table
from flows.calibration.structural import ALL_LEGAL, Measured
from flows.synthesis.standard_cells import Mapped
from flows.synthesis.timing import Timing
from hwgen.cli import cli
from sim_tests.cost.test_structure import CONFIGS, structured
from sim_tests.support.designs import design_of, estimate_of

NS = {kind: 1 + index / 64 for index, kind in enumerate(STEPS)} | {"fanout": 0.0}
"""Times by which a sum says which steps it is of."""


def limiting(m: Module, inputs: dict[str, Signal], outputs: dict[str, Signal]) -> LimitingPath:
    result = Timer(structured(m, inputs, outputs), NS).limiting()
    assert result is not None
    assert result.period_ns == pytest.approx(sum(NS[k] * n for k, n in result.steps.items()))
    return result


def registered(m: Module, *signals: Signal) -> list[Signal]:
    """Return registers of signals."""
    result = []
    for number, signal in enumerate(signals):
        held = Signal(signal.shape(), name=f"held_{number}", reset_less=True)
        m.d.sync += held.eq(signal)
        result.append(held)
    return result


def steps_of(path: LimitingPath) -> dict[str, object]:
    return {kind: pytest.approx(count) for kind, count in path.steps.items() if count}


def test_a_carry_crosses_an_adder() -> None:
    m = Module()
    a, b, y = Signal(8), Signal(8), Signal(8)
    x, w = registered(m, a, b)
    m.d.sync += y.eq(x + w)
    result = limiting(m, {"a": a, "b": b}, {"y": y})
    # The reset of the sum is a gate before its register.
    assert steps_of(result) == {
        "register": 1,
        "gate": 1,
        "adder": 1,
        "adder_level": 3,
        "adder_bit": 7,
    }
    assert (result.start, result.end) == ("held_0", "y")


def test_high_bits_that_arrive_late_do_not_wait_for_low_ones() -> None:
    m = Module()
    a, y = Signal(16), Signal(16, reset_less=True)
    (x,) = registered(m, a)
    late = x[8:] ^ x[:8]
    m.d.sync += y.eq(Cat(Const(0, 8), late) + x)
    result = limiting(m, {"a": a}, {"y": y})
    # From the first late bit there are seven to cross; from the early ones fifteen.
    late_ns = NS["xor"] + NS["adder_level"] * 3 + NS["adder_bit"] * 7
    early_ns = NS["adder_level"] * 4 + NS["adder_bit"] * 15
    assert early_ns > late_ns
    assert result.steps.get("xor", 0) == 0


def test_adders_of_which_one_feeds_the_next_are_one_sum() -> None:
    m = Module()
    a, y = Signal(8), Signal(11, reset_less=True)
    x = registered(m, *(a ^ n for n in range(4)))
    m.d.sync += y.eq(x[0] + x[1] + x[2] + x[3])
    result = limiting(m, {"a": a}, {"y": y})
    assert result.steps["adder"] == 1
    assert result.steps["compress"] == 2


def test_a_late_term_is_near_the_end_of_a_tree() -> None:
    m = Module()
    a, b, y = Signal(16), Signal(16), Signal(reset_less=True)
    x, w = registered(m, a, b)
    m.d.sync += y.eq(Cat(x, (x + w)[15]).all())
    result = limiting(m, {"a": a, "b": b}, {"y": y})
    assert result.steps["adder"] == 1
    assert 0 < result.steps["gate"] < 0.2  # not the four levels of sixteen terms that are early


def test_constants_do_not_arrive() -> None:
    m = Module()
    a, y = Signal(8), Signal(8, reset_less=True)
    (x,) = registered(m, a)
    m.d.sync += y.eq(Cat(Const(5, 4), Const(0, 4)) + Cat(Const(0, 6), x[:2]))
    result = limiting(m, {"a": a}, {"y": y})
    assert result.steps["increment_bit"] == 1  # one operand is constant there


def test_carries_through_repeated_bits_are_increments() -> None:
    m = Module()
    a, b, y = Signal(signed(12)), Signal(signed(4)), Signal(12, reset_less=True)
    x, w = registered(m, a, b)
    m.d.sync += y.eq(x + w)
    result = limiting(m, {"a": a, "b": b}, {"y": y})
    assert (result.steps["adder_bit"], result.steps["increment_bit"]) == (3, 8)
    known = {kind: time for kind, time in NS.items() if kind != "increment_bit"}
    assert Costs(known).ns["increment_bit"] == known["adder_bit"]  # of a table without


def test_the_top_of_a_sum_to_which_nothing_of_its_own_is_added_is_an_increment() -> None:
    m = Module()
    a, b, c = Signal(signed(16)), Signal(signed(3)), Signal(signed(3))
    y = Signal(16, reset_less=True)
    x, w, v = registered(m, a, b, c)
    m.d.sync += y.eq(x + w + v)
    result = limiting(m, {"a": a, "b": b, "c": c}, {"y": y})
    assert result.steps["increment_bit"] >= 10
    assert result.steps["adder_bit"] <= 4


def test_reductions_of_first_bits_share_a_chain() -> None:
    m = Module()
    a, y = Signal(12), Signal(12, reset_less=True)
    (x,) = registered(m, a)
    m.d.sync += y.eq(Cat(x[: i + 1].all() for i in range(12)))
    result = limiting(m, {"a": a}, {"y": y})
    assert (result.steps["gate"], result.steps["increment_bit"]) == (1, 11)
    alone, z = Module(), Signal(reset_less=True)
    (x,) = registered(alone, a)
    alone.d.sync += z.eq(x.all())
    result = limiting(alone, {"a": a}, {"z": z})
    assert "increment_bit" not in result.steps  # a tree
    assert result.steps["gate"] == pytest.approx(log2(12))


def test_a_long_path_takes_less_than_its_steps_where_the_mapper_makes_it_so() -> None:
    m = Module()
    a, b, y = Signal(24), Signal(24), Signal(24, reset_less=True)
    x, w = registered(m, a, b)
    m.d.sync += y.eq(x + w)
    design = structured(m, {"a": a, "b": b}, {"y": y})
    timing = {"ns": NS, "outside": 0.2}
    plain = Technology("t", timing=timing)
    bending = replace(plain, timing={**timing, COMPRESSION: {"ns": 2.0, "exponent": 0.8}})
    for clock in (5.0, 500.0):
        before, after = limiting_path(design, plain, clock), limiting_path(design, bending, clock)
        assert before is not None
        assert after is not None
        fixed = before.outside * 0.2 * 1000 / clock  # what is outside stays as it is
        assert after.period_ns == pytest.approx(
            fixed + compress_delay(before.period_ns - fixed, bending.timing)
        )
        told = described(after, NS)
        assert sum(stage["ns"] for stage in told["stages"]) + fixed == pytest.approx(
            told["ns"], rel=1e-3
        )
    assert expand_delay(compress_delay(3.7, bending.timing), bending.timing) == pytest.approx(3.7)
    # What the best clock is, and what the design does at that clock, are the same.
    best = shortest(design, bending)
    assert best is not None
    again = limiting_path(design, bending, 1000 / best.period_ns)
    assert again is not None
    assert again.period_ns == pytest.approx(best.period_ns)


def test_a_select_of_many_bits_is_a_load_for_each() -> None:
    m = Module()
    s, a, b, y = Signal(), Signal(64), Signal(64), Signal(64, reset_less=True)
    chosen, x, w = registered(m, s, a, b)
    m.d.sync += y.eq(Mux(chosen, x, w))
    design = structured(m, {"s": s, "a": a, "b": b}, {"y": y})
    result = Timer(design, NS | {"fanout": 1.0}).limiting()
    assert result is not None
    assert result.start == "held_0"
    assert result.steps["fanout"] == spread(64) == log2(64 / LIGHT)


def test_ports_arrive_late_and_are_needed_early() -> None:
    m = Module()
    a, y = Signal(8), Signal(8)
    m.d.comb += y.eq(a & a.rotate_left(1))
    result = Timer(structured(m, {"a": a}, {"y": y}), NS).limiting(0.25)
    assert result is not None
    assert (result.start, result.end, result.outside) == ("a", "y", 2)
    assert result.period_ns == pytest.approx(0.5 + NS["gate"])


def test_a_register_that_an_output_is_named_like_is_no_port() -> None:
    m = Module()
    a, y = Signal(4), Signal(8, reset_less=True)
    m.d.sync += y.eq(y + a)
    result = limiting(m, {"a": a}, {"y": y})
    assert (result.start, result.end, result.outside) == ("y", "y", 0)


class Increment(Elaboratable):
    """A module that adds one."""

    def __init__(self) -> None:
        self.a, self.y = Signal(signed(8)), Signal(signed(9))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.y.eq(self.a + 1)
        return m


def test_a_path_through_modules_is_the_same_as_without_them() -> None:
    def built(*, nested: bool) -> LimitingPath:
        m = Module()
        a, y = Signal(signed(8)), Signal(signed(9), reset_less=True)
        (x,) = registered(m, a)
        if nested:
            m.submodules.inner = inner = Increment()
            m.d.comb += inner.a.eq(x)
            made = inner.y
        else:
            made = x + 1
        m.d.sync += y.eq(made)
        return limiting(m, {"a": a}, {"y": y})

    inside, flat = built(nested=True), built(nested=False)
    assert inside.steps == pytest.approx(flat.steps)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
@pytest.mark.rotate(8)
def test_the_limiting_path_of_a_core_is_in_its_verilog(path: Path) -> None:
    config = load_config(path)
    result = Timer(design_of(config).netlist, NS | {"fanout": 0.1}).limiting(0.1)
    assert result is not None
    total = sum((NS | {"fanout": 0.1})[kind] * count for kind, count in result.steps.items())
    assert result.period_ns == pytest.approx(total + 0.1 * result.outside)
    verilog = design_of(config).verilog
    for name in (result.start, result.end):
        *instances, signal = name.split(".")
        assert re.search(rf"\b{re.escape(signal)}\b", verilog)
        assert all(re.search(rf"\b{re.escape(each)} \(", verilog) for each in instances)


@pytest.mark.parametrize("name", ["systolic", "gemm_stream"])
def test_an_estimate_names_the_path_that_limits_it(name: str) -> None:
    config = load_config(CONFIGS[0].parent / f"{name}.yaml")
    result = estimate_of(config)
    path = result["limiting_path"]
    assert 1000 / path["ns"] == pytest.approx(result["metrics"]["fmax_mhz"], rel=1e-3)
    assert sum(stage["ns"] for stage in path["stages"]) == pytest.approx(path["ns"], rel=1e-3)
    assert path["start"] != path["end"]
    assert result["uncertainty"]["fmax_mhz"] > 0
    shown = CliRunner().invoke(cli, ["estimate", "--config", f"configs/{name}.yaml"])
    assert "Fmax is limited by the path from" in shown.output
    assert path["start"] in shown.output


def test_fitted_steps_explain_the_delays_that_they_made() -> None:
    ns = {kind: 0.05 * usual for kind, usual in USUAL.items()}
    designs = [design_of(load_config(path)).netlist for path in CONFIGS[:6]]
    measured = []
    for number, design in enumerate(designs):
        path = Timer(design, ns).limiting(0.1)
        assert path is not None
        measured.append(Timed(f"design {number}", design, 0.1, path.period_ns))
    fitted, errors = fit_steps(measured)
    assert max(map(abs, errors)) < 0.03
    assert fitted.keys() == STEPS.keys()
    assert min(fitted.values()) >= 0


def test_sums_of_steps_are_fitted_by_a_power_law() -> None:
    ns, bend = {kind: 0.05 * usual for kind, usual in USUAL.items()}, {"ns": 1.0, "exponent": 0.7}
    made = []
    for width in (2, 3, 5, 8, 12, 18, 27, 40):
        m = Module()
        a, b, y = Signal(width), Signal(width), Signal(width, reset_less=True)
        x, w = registered(m, a, b)
        m.d.sync += y.eq(x + w)
        made.append(Timed("", structured(m, {"a": a, "b": b}, {"y": y}), 0.1, 1.0))
    for law in (None, bend):
        measured = [replace(each, delay_ns=each.path(ns, 0.1, law).period_ns) for each in made]
        result = choose_compression(measured)
        assert (result or {}).get("exponent", 1.0) == (0.7 if law else 1.0)


@pytest.mark.rotate(12)
def test_the_table_of_a_technology_says_how_wrong_it_is_elsewhere() -> None:
    result = []
    for path in CONFIGS[:6]:
        design = design_of(load_config(path)).netlist
        limit = Timer(design, {kind: 0.05 * usual for kind, usual in USUAL.items()}).limiting(0.1)
        assert limit is not None
        mapped = SimpleNamespace(
            timing=Timing(limit.period_ns, limit.start, limit.end), clock_ps=500.0
        )
        result.append(Measured(path.stem, design, cast("Mapped", mapped)))
    timing = table("nangate45", result)
    assert timing["outside"] == 0.2  # of 500 ps, which is what the delays were made with
    assert timing["ns"].keys() == STEPS.keys()
    errors = timing["provenance"]["left_out"][ALL_LEGAL]
    assert errors["designs"] == len(result)
    assert 0 <= errors["mape"] <= timing["uncertainty"] < 0.3
    assert 0 <= timing["margin"] < 0.3
    assert table("nangate45", []) == {}
