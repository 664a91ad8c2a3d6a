# SPDX-License-Identifier: Apache-2.0
"""The path that limits a design on an FPGA, through what it is mapped to."""

from __future__ import annotations

import pytest
from amaranth.hdl import Cat, Module, Signal, signed

from cost_model.estimate.technology import is_calibrated, technology
from cost_model.netlist.fabric.fabric import fabric
from cost_model.timing.graph import Path
from cost_model.timing.limit import MAPPED, limiting_path, steps_of
from cost_model.timing.network import PORT, STEPS, Network
from flows.build.design import Design
from flows.build.load import parse_config
from flows.calibration.delays_fpga import Placed, table
from flows.calibration.structural_fpga import totals
from flows.pnr.devices import placed, placer
from sim_tests.cost.test_structure import structured
from sim_tests.cost.test_timing_graph import registered

TIMED = [name for name in placed() if is_calibrated(name) and MAPPED in technology(name).timing]

NS = {kind: 1 + index / 64 for index, kind in enumerate(STEPS)} | {"fanout": 0.0, "extent": 0.0}
"""Times by which a sum says which steps it is of."""


def limiting(
    m: Module, inputs: dict[str, Signal], outputs: dict[str, Signal], target: str = "ecp5"
) -> Path:
    rules = fabric(target)
    assert rules is not None
    result = Network(structured(m, inputs, outputs), rules).limiting(NS)
    assert result is not None
    assert result.period_ns == pytest.approx(sum(NS[k] * n for k, n in result.steps.items()))
    return result


def counted(path: Path) -> dict[str, float]:
    return {kind: n for kind, n in path.steps.items() if n and kind not in ("fanout", "extent")}


def test_a_sum_is_a_chain_that_its_carry_crosses() -> None:
    m = Module()
    a, b, y = Signal(8), Signal(8), Signal(8, reset_less=True)
    x, w = registered(m, a, b)
    m.d.sync += y.eq(x + w)
    result = limiting(m, {"a": a, "b": b}, {"y": y})
    assert counted(result) == {"register": 1, "chain": 1, "chain_bit": 7}
    assert (result.start, result.end, result.outside) == ("held_0", "y", 0)


@pytest.mark.parametrize(("target", "size"), [("ecp5", 4), ("ice40", 4)])
def test_gates_are_levels_of_look_up_tables(target: str, size: int) -> None:
    m = Module()
    a, y = Signal(size * size), Signal(reset_less=True)
    (x,) = registered(m, a)
    m.d.sync += y.eq(x.all())
    assert counted(limiting(m, {"a": a}, {"y": y}, target)) == {"register": 1, "lut": 2}


@pytest.mark.parametrize(("target", "steps"), [("ecp5", {"dsp": 1}), ("ice40", {"chain": 3})])
def test_a_product_is_a_dsp_block_or_rows_that_are_added_pairwise(
    target: str, steps: dict[str, int]
) -> None:
    m = Module()
    a, b, y = Signal(signed(8)), Signal(signed(8)), Signal(signed(16), reset_less=True)
    x, w = registered(m, a, b)
    m.d.sync += y.eq(x * w)
    result = counted(limiting(m, {"a": a, "b": b}, {"y": y}, target))
    assert {kind: result.get(kind) for kind in ("register", *steps)} == {"register": 1, **steps}


def test_controls_of_registers_are_ends_of_paths() -> None:
    m = Module()
    a, y = Signal(4), Signal(2, reset_less=True)
    (x,) = registered(m, a)
    with m.If(x.all()):
        m.d.sync += y.eq(Cat(a[0], a[1]))
    result = limiting(m, {"a": a}, {"y": y})
    assert counted(result) == {"register": 1, "lut": 1, "control": 1}
    assert result.start == "held_0"


def test_ports_are_beside_registers() -> None:
    m = Module()
    a, y = Signal(4), Signal()
    m.d.comb += y.eq(a.all())
    result = limiting(m, {"a": a}, {"y": y})
    assert (result.start, result.end, result.outside) == (PORT, "y", 2)


@pytest.mark.parametrize("target", TIMED)
def test_cores_are_limited_by_a_path_between_their_registers(target: str) -> None:
    tech = technology(target)
    assert tech.timing[MAPPED].keys() == STEPS.keys() == placer(target).usual_ns.keys()
    assert steps_of(tech) == tech.timing[MAPPED]
    text = "name: core\nfamily: systolic\narray: {rows: 2, cols: 2}"
    design = Design.of(parse_config(text, "core.yaml")).netlist
    result = limiting_path(design, tech, 100.0)
    assert result is not None
    assert result.start.startswith("core.")
    assert 3 < result.period_ns < 20
    rules = fabric(target)
    assert rules is not None
    assert ("dsp" in result.steps) == bool(totals(design, rules).get("dsp"))


def test_a_fit_recovers_measured_delays() -> None:
    rules, placed = fabric("ecp5"), []
    assert rules is not None
    for rows in (1, 2, 3):
        text = f"name: core\nfamily: cube\narray: {{rows: {rows}, cols: 1, depth: {rows}}}"
        design = Design.of(parse_config(text, "core.yaml")).netlist
        limit = Network(design, rules).limiting(placer("ecp5").usual_ns)
        assert limit is not None
        placed.append(Placed(text, design, 0.0, limit.period_ns, Network(design, rules)))
    result = table("ecp5", placed, [0.1, 0.1, 0.1])
    assert result["provenance"]["held_out"]["mape"] < 0.01
    assert result[MAPPED].keys() == STEPS.keys()


def test_paths_inside_large_modules_that_repeat_name_the_module() -> None:
    text = "name: core\nfamily: systolic\narray: {rows: 12, cols: 12}"
    design = Design.of(parse_config(text, "core.yaml")).netlist
    result = limiting_path(design, technology("ice40"), 100.0)
    assert result is not None
    assert result.end.partition(".")[0] in design.modules
    assert result.outside == 0
