# SPDX-License-Identifier: Apache-2.0
"""Estimates of FPGA resources from structure: look-up tables that cover gates, and exact rules."""

from __future__ import annotations

import pytest

from cost_model.costed import STRUCTURE
from cost_model.fabric import fabric
from cost_model.structure.fabric_bill import EXACT, KINDS
from cost_model.structure.lut_cover import Network
from cost_model.technology import technology
from flows import structures
from flows.calibration import fpga
from flows.calibration.structural_fpga import totals
from flows.estimates import estimated
from hwgen.config.load import parse_config
from hwgen.config.reference import template
from hwgen.families import families
from hwgen.technologies import technologies

FABRICS = ("ecp5", "ice40")
CORES = {
    "systolic": "array: {rows: 2, cols: 3}",
    "ternary_lut": "array: {tables: 2, fetch_ports: 4}",
    "cube": "array: {rows: 2, cols: 2, depth: 2}",
    "adder_tree": "array: {rows: 2, cols: 2, depth: 2}",
    "broadcast_2d": "array: {rows: 2, cols: 2}",
    "gemm_stream": "buffers: {activation_kib: 1, weight_kib: 1, output_kib: 1, column_kib: 1}\n"
    "memory: {data_width: 32}",
}


def _luts(inputs: int, sinks: list[int], gates: list[tuple[int, str, list[list[int]]]]) -> float:
    network = Network(inputs)
    for net, kind, groups in gates:
        network.gate(net, kind, groups)
    network.sink(sinks)
    return sum(network.luts()[kind] for kind in ("lut", "full_adder_lut"))


def test_gates_that_one_reads_are_in_its_look_up_table() -> None:
    masks = [(10, "and", [[1], [2]]), (11, "and", [[3], [4]])]
    both = [*masks, (12, "or", [[10], [11]])]
    assert _luts(4, [12], both) == 1
    assert _luts(3, [12], both) == 2
    assert _luts(4, [10, 12], both) == 2  # one of them is needed by itself
    assert _luts(4, [], both) == 0


def test_wide_gates_are_divided() -> None:
    for inputs in (4, 6):
        for bits in range(2, 40):
            gate = [(100, "and", [[net] for net in range(bits)])]
            assert _luts(inputs, [100], gate) == -(-(bits - 1) // (inputs - 1))


def test_look_up_tables_in_front_are_counted_apart() -> None:
    """What one gate is divided into has nothing to do with what another one is."""
    gates = [(100 + n, "and", [[10 * n + k] for k in range(8)]) for n in range(2)]
    assert _luts(4, [102], [*gates, (102, "or", [[100], [101]])]) == 5


def test_equal_gates_and_inverters_take_nothing() -> None:
    twice = [(10, "and", [[1], [2]]), (11, "and", [[2], [1]]), (12, "not", [[10]])]
    assert _luts(4, [10, 11, 12], twice) == 1
    assert _luts(4, [10], [(10, "and", [[1], [-2]])]) == 0  # the other input is constant


@pytest.mark.parametrize("target", FABRICS)
@pytest.mark.parametrize("family", CORES)
def test_every_family_has_resources(family: str, target: str) -> None:
    config = parse_config(f"name: core\nfamily: {family}\n{CORES[family]}\n")
    found = estimated(config, target)
    assert found["costs_of"] == STRUCTURE
    assert not [note for note in found["notes"] if "estimate" in note]
    for resource in ("luts", *EXACT.values()):
        assert found["metrics"][resource] is not None, resource
    assert found["metrics"]["luts"] > 0
    assert found["metrics"]["flip_flops"] > 0


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("ecp5", "family: systolic\narray: {rows: 2, cols: 2}"),
        ("ice40", "family: systolic\nactivation: int4\nweight: int3\narray: {rows: 2, cols: 2}"),
    ],
)  # fmt: skip
def test_structures_agree_with_synthesis(target: str, text: str) -> None:
    """Registers, DSP blocks and memories are what Yosys makes, all as one."""
    config = parse_config(f"name: core\n{text}\n")
    verilog, design = structures.emitted(config)
    rules = fabric(target)
    assert rules is not None
    counts = totals(design, rules)
    used = fpga.mapped(verilog, target)["resources"]
    for kind, resource in EXACT.items():
        exact = 0.05 if kind == "carry" else 0
        assert counts.get(kind, 0) == pytest.approx(used[resource], rel=exact), resource
    about = technology(target).structure
    luts = sum(about["costs"]["luts"].get(kind, 0.0) * n for kind, n in counts.items())
    assert luts == pytest.approx(used["luts"], rel=about["uncertainty"]["luts"])


@pytest.mark.parametrize("target", FABRICS)
def test_every_kind_of_a_structure_has_a_price(target: str) -> None:
    costs = technology(target).structure["costs"]
    assert set(KINDS) == set(costs["luts"])
    assert {kind for kind, resource in EXACT.items() if costs[resource] == {kind: 1.0}} == set(
        EXACT
    )


@pytest.mark.parametrize("target", FABRICS)
def test_figures_per_second_are_at_fmax(target: str) -> None:
    config = parse_config("name: core\nfamily: systolic\narray: {rows: 2, cols: 3}\n")
    found = estimated(config, target, 500.0, {"w": [(4, 8, 4)]})
    fmax = found["metrics"]["fmax_mhz"]
    assert 20 < fmax < 300  # the class of these families
    assert found["clock_basis"] == "fmax"
    assert found["figures_at_mhz"] == fmax
    assert found["metrics"]["tops"] == pytest.approx(2e-6 * config.macs_per_cycle * fmax)
    cycles = found["metrics"]["cycles(w)"]
    assert found["metrics"]["latency_ms(w)"] == pytest.approx(cycles / fmax * 1e-3)
    slow = estimated(config, target, 10.0)
    assert slow["clock_basis"] == "asked for"


@pytest.mark.parametrize("target", FABRICS)
def test_delays_state_their_error(target: str) -> None:
    timing = technology(target).timing
    assert timing["provenance"]["held_out"]["designs"] >= 8
    assert 0 < timing["uncertainty"] < 0.3


@pytest.mark.parametrize("family", families())
def test_nothing_is_null_without_a_reason(family: str) -> None:
    config = parse_config(template(family))
    design = structures.structure_of(config)
    for name in technologies():
        found = estimated(config, name, workloads={"w": [(8, 8, 8)]}, design=design)
        null = {metric for metric, value in found["metrics"].items() if value is None}
        assert null == set(found["unknown"]), name
