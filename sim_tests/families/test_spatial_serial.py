# SPDX-License-Identifier: Apache-2.0
"""Serial PEs of the spatial families: results, cycles to the cycle, and RTL broken on purpose."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from flows.build.load import parse_config
from flows.simulation.run import run_product
from hwgen.arithmetic.digits import statistics, uniform
from hwgen.arithmetic.sparse_digits import GROUP_TERMS, expected_group, group_cycles, window_cycles
from hwgen.config.parameters import either
from hwgen.core.cycles.basis import Cycles
from hwgen.core.params.processing_elements import QUEUES
from hwgen.core.params.spatial import SERIAL, SpatialConfig
from hwgen.errors import CheckFailed
from hwgen.families.spatial.core import SpatialCore
from hwgen.families.spatial.cycles import gemm_cycles
from hwgen.families.spatial.params import CubeConfig
from hwgen.families.spatial.serial_cycles import Law, tile_cycles
from hwgen.families.systolic.params import PES as SYSTOLIC_PES
from hwgen.formats import integer
from sim_tests.contract.contract import STREAM_CASES, Contract, Covering, Mutations
from sim_tests.families.test_spatial import with_accumulator
from sim_tests.support.cores import cycles, cycles_of, cycles_of_operands, most_cycles_of
from sim_tests.support.designs import design_of, estimate_of
from sim_tests.support.mutations import Mutation

AXES: dict[str, list[Any]] = {
    "engine": [
        ("broadcast_2d", {"rows": 3, "cols": 2}, None),
        ("broadcast_2d", {"rows": 1, "cols": 1}, None),
        ("broadcast_2d", {"rows": 2, "cols": 9}, None),
        ("cube", {"rows": 9, "cols": 1}, 8),
        ("cube", {"rows": 5, "cols": 3}, 12),
        ("cube", {"rows": 1, "cols": 2}, 20),
        ("adder_tree", {"cols": 3}, 16),
        ("adder_tree", {"cols": 1, "rows": 2}, 8),
    ],
    "element": list(product(SERIAL, ("booth4", "ent"))),
    "operands": [
        ("int8", "int8"),
        ("uint8", "int4"),
        ("int3", "uint13"),
        ("int2", "int2"),
        ("uint16", "uint2"),
        ("int16", "uint16"),
        ("uint3", "uint4"),
        ("int13", "int16"),
        ("int4", "uint8"),
        ("uint2", "int3"),
    ],
    "accumulator": ["exact", "wrap"],
    "registers": [0, 1, 2],
    "queue": [1, 2, 4],
    "carry_spacing": [1, 2],
    "max_k": [9, 65536],
}
"""Axes of the covering set: every legal pair of values of two axes occurs in it."""


def legal(point: list[Any]) -> bool:
    values = dict(zip(AXES, point, strict=False))
    return values.get("registers", 0) < 2 or values.get("element", ("",))[0] == "serial_group"


def configuration(name: str, values: dict[str, Any]) -> SpatialConfig:
    """Return the configuration of one point of the covering set."""
    family_name, sizes, depth = values["engine"]
    pe, encoding = values["element"]
    array = {**sizes, "pe": pe, "encoding": encoding}
    array |= {key: values[key] for key in ("queue", "carry_spacing")}
    if depth:
        array["depth"] = depth if pe == "serial_group" else GROUP_TERMS
    data: dict[str, Any] = {
        "name": name,
        **dict(zip(("activation", "weight"), values["operands"], strict=True)),
        "max_k": values["max_k"],
        "array": array,
        "pipeline": {"pe": values["registers"]},
    }
    return with_accumulator(family_name, data, values["accumulator"])


# -- cycles ----------------------------------------------------------------------------------------


def small(**array: Any) -> SpatialConfig:
    result: SpatialConfig = CubeConfig.model_validate(
        {"name": "s", "array": {"rows": 3, "cols": 2, "depth": 8, "pe": "serial_group", **array}}
    )
    return result


def activations(pattern: str, shape: tuple[int, int]) -> np.ndarray:
    """Return int8 activations of which some rows take long and others not."""
    rng = np.random.default_rng(3)
    a = rng.integers(-128, 128, shape).astype(np.int8)
    if pattern == "dense":
        a[:] = 0b01010101
    elif pattern == "rows":
        a[::2], a[1::2] = 0b01010101, 0
    elif pattern == "blocks":  # a row that is dense where the others are not
        a[:] = 0
        for i in range(shape[1] // GROUP_TERMS):
            a[i % shape[0], i * GROUP_TERMS : (i + 1) * GROUP_TERMS] = 0b01010101
    elif pattern == "normal":
        a = np.rint(rng.normal(0, 20, shape)).clip(-128, 127).astype(np.int8)
    return a


@pytest.mark.slow
@pytest.mark.parametrize("queue", [1, 2, 4])
def test_cycles_follow_the_values(queue: int) -> None:
    """The simulation takes what is counted, for rows that hinder each other or do not."""
    config = small(queue=queue)
    taken = {}
    for pattern in ("dense", "rows", "blocks", "normal", "zero"):
        a = activations(pattern, (7, 100)) if pattern != "zero" else np.zeros((7, 100), np.int8)
        w = np.random.default_rng(1).integers(-128, 128, (100, 3)).astype(np.int8)
        result = run_product(design_of(config), a, w)
        assert np.array_equal(result.result, a.astype(np.int64) @ w.astype(np.int64))
        assert result.cycles == cycles_of_operands(config, [(a, w)])
        taken[pattern] = result.cycles
    assert taken["zero"] < taken["normal"] < taken["dense"] <= most_cycles_of(config, [(7, 100, 3)])
    if queue > 1:
        assert taken["blocks"] < taken["dense"], "rows wait no longer than the queue lets them"


def test_tiles_are_counted_by_rows_and_lanes() -> None:
    config = small(depth=4, pe="serial_column", rows=1)
    a = activations("normal", (2, 40))
    groups = group_cycles("booth4", a, config.activation)
    # With one row nobody waits; there is a cycle between passes.
    assert tile_cycles(config, a).tolist() == (groups.sum(axis=(1, 2)) + 3).tolist()


@pytest.mark.parametrize("sigma", [None, 20.0])
def test_expected_cycles(sigma: float | None) -> None:
    config, (m, k, n) = small(), (60, 1000, 2)
    rng = np.random.default_rng(7)
    draw = rng.integers(-128, 128, (m, k)) if sigma is None else rng.normal(0, sigma, (m, k))
    a, w = np.rint(draw).clip(-128, 127).astype(np.int8), np.zeros((k, n), np.int8)
    exact = cycles_of_operands(config, [(a, w)])
    assert gemm_cycles(config, [(m, k, n)], sigma) == pytest.approx(exact, rel=0.01)
    assert sigma or cycles(config, m, k, n) == cycles_of(config, [(m, k, n)])


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("lanes", [1, 5, 23, 90])
def test_expectations_follow_what_is_counted(queue: int, lanes: int) -> None:
    fmt, tiles, beats = integer("int8"), max(6, 60 // lanes), 300
    law = Law("ent", fmt, 20.0, queue)
    draw = np.random.default_rng(3).normal(0, 20, (tiles * lanes, beats * GROUP_TERMS))
    groups = group_cycles("ent", np.rint(draw).astype(np.int64).clip(-128, 127), fmt)
    passes = groups.reshape(tiles, lanes, -1, beats).transpose(2, 3, 0, 1)[::-1]
    for count in (1, 9, 128, 300):
        exact = window_cycles(passes[:, :count], queue).mean()
        # Few tiles of few beats scatter.
        assert law.tile(count, lanes) == pytest.approx(exact, rel=0.01 + 0.05 / count)


def test_waiting_for_the_slowest_has_a_closed_form() -> None:
    law, sampled = (Law("booth4", integer("int8"), None, queue) for queue in (1, 2))
    # Alone a group takes as many cycles as it has digits, and one until its slot is filled.
    alone = sum(map(expected_group, statistics("booth4", law.fmt, uniform(law.fmt)).nonzero))
    assert law.beat(1) == pytest.approx(alone + 4)
    assert sampled.beat(1) == pytest.approx(alone, rel=3e-3)
    assert law.beat(1 << 10) == pytest.approx(4 * GROUP_TERMS + 4, rel=1e-3)
    assert np.all(np.diff(sampled.beat(np.arange(1, 200))) >= 0)


def test_a_distribution_changes_time_and_rate_alone() -> None:
    text = "name: c\nfamily: broadcast_2d\narray: {pe: serial_column}\ntarget: {%s}\n"
    configs = [parse_config(text % sigma) for sigma in ("", "activation_sigma: 20")]
    assert "activation_sigma" not in configs[0].resolved()["target"]
    assert configs[1].resolved()["target"]["activation_sigma"] == 20
    plain, narrow = (estimate_of(c, workloads={"w": [(64, 512, 64)]})["metrics"] for c in configs)
    assert plain["area_mm2"] == narrow["area_mm2"]
    assert plain["fmax_mhz"] == narrow["fmax_mhz"]
    assert cycles_of(configs[1], [(64, 512, 64)]) == narrow["cycles(w)"] < plain["cycles(w)"]
    assert narrow["tops"] / plain["tops"] == pytest.approx(3.38 / 2.87, rel=0.01)
    assert narrow["energy_mj(w)"] < plain["energy_mj(w)"]
    estimates = [
        estimate_of(configs[1], target, workloads={"w": [(64, 512, 64)]})
        for target in ("ecp5", "nangate45")
    ]
    on_fpga = estimates[0]["metrics"]
    assert on_fpga["cycles(w)"] == narrow["cycles(w)"]
    # There it has another clock.
    assert estimates[0]["figures_at_mhz"] < estimates[1]["figures_at_mhz"]
    rates = [each["metrics"]["tops"] / each["figures_at_mhz"] for each in estimates]
    assert rates[0] == pytest.approx(rates[1])
    mac = [
        parse_config((text % s).replace("serial_column", "mac"))
        for s in ("", "activation_sigma: 20")
    ]
    assert estimate_of(mac[0])["metrics"] == estimate_of(mac[1])["metrics"]


def test_cycles_of_a_mac_do_not_depend_on_values() -> None:
    config: Any = CubeConfig.model_validate({"name": "c"})
    a, w = activations("normal", (9, 20)), np.zeros((20, 3), np.int8)
    assert cycles_of_operands(config, [(a, w)]) == cycles(config, 9, 20, 3)
    assert cycles_of_operands(config, [(a, w)]) == cycles(config, 9, 20, 3)
    assert most_cycles_of(config, [(9, 20, 3)]) == cycles(config, 9, 20, 3)
    assert most_cycles_of(config, [(9, 20, 3)]) == cycles(config, 9, 20, 3)


# -- configurations --------------------------------------------------------------------------------


def test_parameters_of_serial_pes() -> None:
    config: Any = parse_config("name: c\nfamily: broadcast_2d\narray: {pe: serial_group}\n")
    array = config.resolved()["array"]
    assert (array["carry_spacing"], array["queue"], config.depth, config.passes) == (2, 2, 16, 4)
    assert type(config).model_validate(config.resolved()) == config
    assert config.macs_per_cycle == 16 * 16 * 4
    plain: Any = parse_config("name: c\nfamily: broadcast_2d\narray: {pe: carry_save}\n")
    assert "queue" not in plain.resolved()["array"]
    assert (plain.depth, plain.array.carry_spacing) == (1, 8)


# -- hardware --------------------------------------------------------------------------------------


COLUMN: dict[str, Any] = {"array": {"rows": 2, "cols": 1, "depth": 4, "pe": "serial_column"}}
GROUPED: dict[str, Any] = {
    "array": {"rows": 2, "cols": 1, "depth": 16, "pe": "serial_group"},
    "pipeline": {"pe": 1},
}

MUTATIONS = [
    Mutation("carry dropped", "pe", r"\.carry\(sum_c63\)", ".carry()", COLUMN),
    Mutation("kept carry forgotten", "pe", r"sum_c63 & hold", "1'h0", COLUMN),
    Mutation("kept carry not shifted", "pe", r"sum_c63 & shift", "1'h0", COLUMN),
    Mutation("shift lost", "pe", r"sum_s63 & shift", "1'h0", COLUMN),
    Mutation(
        "sign of the top digit", "encoder", r"x\[7\] & weight\[3\]", "x[6] & weight[3]", COLUMN
    ),
    Mutation("digit skipped", "encoder", r"left_0 <= after_0", "left_0 <= after_0 & 4'h7", COLUMN),
    Mutation("slot filled too early", "encoder", r"= ~ pending_0;", "= 1'h1;", COLUMN),
    Mutation("pass begins too early", "slots", r"& oldest;", "& 2'h3;", GROUPED),
    Mutation(
        "tile begins too early", "slots", r"of_tile & \{ waiting, waiting \}", "2'h0", GROUPED
    ),
    Mutation(
        "sign constant not subtracted", "sign_constant", r"= ~ resolved_2;", "= ~32'h0;", GROUPED
    ),
    Mutation("a lane is not waited for", "edge", r"finished_3\[(.)\],", "", GROUPED),
]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["fast", "cocotb"])
def test_a_run_holds_cycles_against_the_model(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    config, rng = small(queue=2), np.random.default_rng(1)
    a, w = rng.integers(-128, 128, (4, 20)), rng.integers(-128, 128, (20, 3))
    taken = run_product(design_of(config), a, w, engine=engine).cycles
    monkeypatch.setattr(SpatialCore, "cycles", lambda core, jobs, operands=None: Cycles(taken + 1))
    message = f"4 x 20 x 3: the RTL took {taken} cycles, the cycle model says {taken + 1}"
    with pytest.raises(CheckFailed, match=message):
        run_product(design_of(config), a, w, engine=engine)


LINTED = [
    configuration(
        f"linted_{number}",
        {
            "engine": AXES["engine"][(0, 4, 7)[number]],
            "element": element,
            "operands": AXES["operands"][number],
            "accumulator": "exact",
            "registers": registers,
            "queue": (2, 1, 4)[number],
            "carry_spacing": 2,
            "max_k": 100,
        },
    )
    for number, (element, registers) in enumerate(
        (
            (("serial_digit", "ent"), 1),
            (("serial_column", "booth4"), 0),
            (("serial_group", "ent"), 2),
        )
    )
]

CONTRACT = Contract(
    "spatial_serial",
    "cube",
    covering=Covering("serial", AXES, configuration, every=90, legal=legal),
    shipped=("serial.yaml",),
    clean=LINTED,
    clean_every=8,
    mutations=(
        Mutations(
            CubeConfig,
            ("shapes_7", "values_lowest", *STREAM_CASES[2:]),
            MUTATIONS,
            every=15,
        ),
    ),
    refused=(
        *(
            (f"family: {family_name}\n{text}", message)
            for family_name, text, message in (
                (
                    "cube",
                    "array: {pe: serial_column}",
                    r"array.depth: must be 4 with array.pe serial_col",
                ),
                ("cube", "array: {pe: serial_digit, depth: 5}", r"array.depth: must be 4 .* not 5"),
                (
                    "cube",
                    "array: {pe: serial_group, depth: 4}",
                    r"array.depth: must be a multiple of 4 fr",
                ),
                ("cube", "array: {pe: serial_group, depth: 10}", r"array.depth: must be .* not 10"),
                (
                    "cube",
                    "array: {pe: carry_save, queue: 2}",
                    r"array.queue: only serial PEs have a queue",
                ),
                ("cube", "array: {queue: 2}", r"array.queue: only serial PEs"),
                ("cube", "array: {pe: serial_group, queue: 3}", r"array.queue: must be 1, 2 or 4"),
                (
                    "cube",
                    "array: {pe: serial_group, carry_spacing: 8}",
                    r"array.carry_spacing: must be 1 or 2 with array.pe serial_group, not 8",
                ),
                (
                    "broadcast_2d",
                    "array: {pe: serial_column}\npipeline: {pe: 2}",
                    r"pipeline.pe: must be 0 or 1 with array.pe serial_column",
                ),
                (
                    "broadcast_2d",
                    "array: {pe: serial_group}\naccumulator: int16\noverflow: saturate",
                    r"overflow: must be wrap with array.pe serial_group, not saturate",
                ),
                (
                    "broadcast_2d",
                    "array: {pe: serial_group, depth: 16}",
                    r"array.depth: unknown key",
                ),
                (
                    "systolic",
                    "array: {pe: serial_column}",
                    f"array.pe: must be {either(list(SYSTOLIC_PES))}, not 'serial_column'",
                ),
            )
        ),
        (
            "family: gemm_stream\ncompute: {family: broadcast_2d, array: {pe: serial_column}}",
            "a tile once for each digit",
        ),
    ),
)
