# SPDX-License-Identifier: Apache-2.0
"""RTL of the families cube, adder_tree and broadcast_2d against their golden and cycle models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.build.load import parse_config
from hwgen.config.parameters import either
from hwgen.core.params.spatial import PES, SpatialConfig
from hwgen.core.registry import family
from hwgen.errors import InputError
from hwgen.families.spatial.params import CubeConfig
from hwgen.families.spatial.schedule import Schedule
from sim_tests.contract.contract import (
    STREAM_CASES,
    Contract,
    Covering,
    Mutations,
    Regressions,
    Steady,
)
from sim_tests.support.cores import golden
from sim_tests.support.mutations import Mutation

AXES: dict[str, list[Any]] = {
    "sizes": [
        ("cube", {"rows": 2, "cols": 3, "depth": 4}),
        ("cube", {"rows": 5, "cols": 1, "depth": 2}),
        ("cube", {"rows": 1, "cols": 2, "depth": 17}),
        ("cube", {"rows": 17, "cols": 2, "depth": 3}),
        ("cube", {"rows": 3, "cols": 7, "depth": 1}),
        ("adder_tree", {"cols": 3, "depth": 8}),
        ("adder_tree", {"cols": 13, "depth": 5}),
        ("adder_tree", {"cols": 1, "depth": 2, "rows": 2}),
        ("broadcast_2d", {"rows": 4, "cols": 17}),
        ("broadcast_2d", {"rows": 1, "cols": 1}),
        ("broadcast_2d", {"rows": 7, "cols": 2}),
    ],
    "pe": ["mac", "carry_save", "same_weight"],
    "encoding": ["booth4", "ent"],
    "carry_spacing": [1, 5, 8, 64],
    "operands": [
        ("int8", "int8"),
        ("uint8", "int4"),
        ("int3", "uint13"),
        ("int2", "int2"),
        ("uint16", "uint16"),
        ("int16", "uint2"),
        ("uint3", "uint4"),
        ("int13", "int16"),
    ],
    "accumulator": ["exact", "wrap", "saturate"],
    "registers": [0, 1, 2],
    "max_k": [9, 65536],
    "final_adder": [0, 1, 2, 3],
    "datapath": ["none", "residue"],
}
"""Axes of the covering set: every legal pair of values of two axes occurs in it."""


def legal(point: list[Any]) -> bool:
    values = dict(zip(AXES, point, strict=False))
    depth = values.get("sizes", ("", {}))[1].get("depth", 1)
    if values.get("pe", "mac") != "mac" and values.get("accumulator") == "saturate":
        return False
    if values.get("final_adder") and "mac" in point:
        return False
    if values.get("datapath") == "residue" and values.get("accumulator", "exact") != "exact":
        return False
    return depth > 1 or (values.get("pe") != "same_weight" and values.get("registers", 0) < 2)


def configuration(name: str, values: dict[str, Any]) -> SpatialConfig:
    """Return the configuration of one point of the covering set."""
    family_name, sizes = values["sizes"]
    activation, weight = values["operands"]
    array = {**sizes, "pe": values["pe"]}
    if values["pe"] != "mac":
        array |= {key: values[key] for key in ("encoding", "carry_spacing")}
    data: dict[str, Any] = {
        "name": name,
        "activation": activation,
        "weight": weight,
        "max_k": values["max_k"],
        "array": array,
        "pipeline": {"pe": values["registers"], "final_adder": values["final_adder"]},
        "protect": {"datapath": values.get("datapath", "none")},
    }
    return with_accumulator(family_name, data, values["accumulator"])


def with_accumulator(family_name: str, data: dict[str, Any], overflow: str) -> SpatialConfig:
    """Return a configuration whose accumulator is exact, or overflows often in a way."""
    model: Any = family(family_name).params_class
    result: SpatialConfig = model.model_validate(data)
    if overflow != "exact":
        # Narrow, in a format that the operands allow.
        exact = result.product
        narrow = f"{'' if exact.signed else 'u'}int{exact.width + 2}"
        result = model.model_validate({**data, "accumulator": narrow, "overflow": overflow})
    return result


COVERING = Covering("cover", AXES, configuration, every=288, legal=legal)

SMALL_POINTS: list[dict[str, Any]] = [
    {"sizes": ("cube", {"rows": 2, "cols": 2, "depth": 3}), "pe": "carry_save", "registers": 0},
    {"sizes": ("cube", {"rows": 3, "cols": 1, "depth": 5}), "pe": "same_weight", "registers": 2,
     "final_adder": 2},
    {"sizes": ("cube", {"rows": 2, "cols": 3, "depth": 2}), "pe": "mac", "registers": 2},
    {"sizes": ("adder_tree", {"cols": 2, "depth": 5}), "pe": "carry_save", "registers": 2},
    {"sizes": ("broadcast_2d", {"rows": 3, "cols": 2}), "pe": "carry_save", "registers": 1,
     "final_adder": 1},
]  # fmt: skip
"""Small arrays of every kind, for the normal run of the tests."""

SMALL = [
    configuration(
        f"small_{number}",
        {
            "encoding": ("booth4", "ent")[number % 2],
            "carry_spacing": (8, 1, 5)[number % 3],
            "operands": (("int8", "int8"), ("uint4", "int3"), ("int5", "uint8"))[number % 3],
            "accumulator": "saturate" if point["pe"] == "mac" else "exact",
            "max_k": 4096,
            "final_adder": 0,
            **point,
        },
    )
    for number, point in enumerate(SMALL_POINTS)
]


def steady(family_name: str, pe: str, sizes: dict[str, int]) -> Steady:
    """Return tiles back to back on a small array."""
    array = {"rows": 3, "cols": 2, **sizes, "pe": pe}
    config: Any = family(family_name).params_class.model_validate(
        {"name": f"steady_{family_name}", "array": array, "pipeline": {"pe": 1}}
    )
    return Steady(config, (3 * 20, 5 * config.depth, 2 * 20))


@settings(max_examples=100)
@given(
    st.sampled_from(COVERING.configs),
    st.integers(1, 20),
    st.integers(1, 9),
    st.integers(1, 20),
    st.integers(0, 99),
)
def test_streams_carry_the_product(
    config: SpatialConfig, m: int, k: int, n: int, seed: int
) -> None:
    """Packed streams, multiplied beat by beat, give the product; padding is cut."""
    rng = np.random.default_rng(seed)
    a, w = (fmt.random(rng, s) for fmt, s in ((config.activation, (m, k)), (config.weight, (k, n))))
    plan = Schedule(config, m, k, n)
    act, wgt, out = config.ports
    ends = [last for _, last in plan.stream(act, plan.pack_activations(a))]
    beats = [
        np.concatenate([port.unpack(b) for b, _ in plan.stream(port, packed)]).astype(np.int64)
        for port, packed in ((act, plan.pack_activations(a)), (wgt, plan.pack_weights(w)))
    ]
    assert all(len(b) == plan.input_beats(act) for b in beats)
    assert all(ends)
    x = beats[0].reshape(-1, plan.blocks[1], config.rows, config.depth)
    y = beats[1].reshape(-1, plan.blocks[1], config.cols, config.depth)
    tiles = np.einsum("tbrd,tbcd->trc", x, y).reshape(-1, config.cols)
    assert len(tiles) == plan.output_beats == len(list(plan.output_last()))
    mask = -1 if out.lane_width == 64 else (1 << out.lane_width) - 1
    signed = (tiles & mask).astype(f"u{out.lane_width // 8}").view(config.result.dtype)
    c = plan.unpack_outputs(out.pack(signed))
    assert np.array_equal(c.astype(np.int64) & mask, a @ w & mask)
    beat, _ = plan.locate_element(m - 1, n - 1)
    assert tiles[beat, (n - 1) % config.cols] == (a @ w)[-1, -1]
    assert np.array_equal(plan.unpack_weights(plan.pack_weights(w)), w)


def test_golden_saturates_beat_by_beat() -> None:
    config = CubeConfig.model_validate(
        {"name": "c", "accumulator": "int16", "overflow": "saturate", "array": {"depth": 2}}
    )
    a = np.array([[127, 127, -128, 1]], np.int8)
    w = np.array([[127], [127], [127], [0]], np.int8)
    assert golden(config, a, w).tolist() == [[2 * 127 * 127 - 128 * 127]]
    deep = np.array([[127, 127, 127, 127, -128, 0]], np.int8)
    w = np.array([[127]] * 6, np.int8)
    assert golden(config, deep, w).tolist() == [[32767 - 128 * 127]]


def test_what_a_mac_lacks_is_not_resolved() -> None:
    plain = parse_config("name: c\nfamily: cube\n").resolved()["array"]
    assert "encoding" not in plain
    digits = parse_config("name: c\nfamily: cube\narray: {pe: carry_save}\n").resolved()["array"]
    assert digits["encoding"] == "booth4"


def test_digests_do_not_know_registers_that_are_not_there() -> None:
    text = "name: c\nfamily: cube\narray: {pe: carry_save}\npipeline: {final_adder: %d}\n"
    assert "final_adder" not in parse_config(text % 0).resolved()["pipeline"]
    assert parse_config(text % 1).resolved()["pipeline"]["final_adder"] == 1


def test_k_is_bounded() -> None:
    with pytest.raises(InputError, match=r"K = 10 exceeds max_k = 9"):
        Schedule(CubeConfig.model_validate({"name": "c", "max_k": 9}), 1, 10, 1)


# -- hardware --------------------------------------------------------------------------------------

LINTED = [
    configuration("linted", {
        "sizes": (family_name, sizes), "pe": pe, "encoding": "ent", "carry_spacing": 4,
        "operands": ("int8", "uint4"), "accumulator": "exact", "registers": 1, "max_k": 100,
        "final_adder": final_adder,
    })
    for family_name, sizes, pe, final_adder in (
        ("cube", {"rows": 2, "cols": 2, "depth": 2}, "same_weight", 2),
        ("broadcast_2d", {"rows": 2, "cols": 3}, "carry_save", 0),
        ("adder_tree", {"cols": 2, "depth": 3}, "mac", 0),
    )
]  # fmt: skip


DIGITS = {"array": {"rows": 3, "cols": 2, "depth": 2, "pe": "carry_save"}, "pipeline": {"pe": 1}}
STEPS = {**DIGITS, "pipeline": {"pe": 1, "final_adder": 1}}
PLAIN = {"array": {"rows": 3, "cols": 2, "depth": 2}}

MUTATIONS = [
    Mutation("carry dropped", "pe", r"\.carry\(sum_0_0_0_c\d*6\)", ".carry()", DIGITS),
    Mutation("sign of the top digit", "recode_booth4_int8", r"(assign negative\[3\] = x)\[7\]",
             r"\1[6]", DIGITS),
    Mutation("correction missing", "edge", r"plus_ones <= plus_ones_0", "plus_ones <= 0", DIGITS),
    Mutation("carry between steps dropped", "resolve_1", r"\bi\[16\]", "1'b0", STEPS),
    Mutation("sign constant of another tile", "core", r"tile_sign_constant\[31:16\]",
             "sign_constant_o[31:16]", STEPS),
    Mutation("row not kept", "result_register_64", r"if \(load\) ", "", PLAIN),
    Mutation("sum not cleared", "pe", r"clear \? 32'd0 : ", "", PLAIN),
    Mutation("drain while rows wait", "core", r"(assign free = \S+) & .*", r"\1;", PLAIN,
             ("stalls_5", "stalls_8")),
]  # fmt: skip


CONTRACT = Contract(
    "spatial",
    "cube",
    small=(SMALL[0], SMALL[3], SMALL[4]),
    covering=COVERING,
    regressions=(Regressions(SMALL),),
    shipped=("cube.yaml", "adder_tree.yaml", "broadcast_2d.yaml"),
    shipped_every=9,
    clean=LINTED,
    clean_every=8,
    mutations=(Mutations(CubeConfig, STREAM_CASES, MUTATIONS, every=15),),
    steady=(
        # Tiles of no fewer beats than a drain takes follow each other without a bubble.
        steady("cube", "carry_save", {"depth": 4}),
        steady("broadcast_2d", "mac", {}),
    ),
    refused=(
        ("array: {encoding: ent}", r"array.encoding: a mac does not multiply by digits"),
        ("array: {carry_spacing: 4}", r"array.carry_spacing: a mac does not multiply"),
        ("array: {pe: same_weight, depth: 1}", r"array.pe: same_weight sums digits .*depth"),
        (
            "array: {pe: carry_save}\naccumulator: int16\noverflow: saturate",
            r"overflow: must be wrap with array.pe carry_save, not saturate",
        ),
        ("array: {depth: 1}\npipeline: {pe: 2}", r"pipeline.pe: must be 0 or 1 with one product"),
        (
            "pipeline: {final_adder: 1}",
            r"pipeline.final_adder: must be 0 with array.pe mac, not 1: a mac",
        ),
        (
            "array: {pe: serial_digit, depth: 4}\npipeline: {final_adder: 1}",
            r"pipeline.final_adder: must be 0 with array.pe serial_digit, not 1: serial PEs have",
        ),
        (
            "accumulator: int3\narray: {pe: carry_save}\npipeline: {final_adder: 3}",
            r"pipeline.final_adder: must be less than the bits of accumulators int3, not 3",
        ),
        ("array: {rows: 65}", r"array.rows: must be 1..64, not 65"),
        ("array: {pe: serial}", f"array.pe: must be {either(list(PES))}, not 'serial'"),
        ("activation: int17", r"activation: must be int2..int16"),
        ("family: broadcast_2d\narray: {depth: 2}", "array.depth: unknown key"),
        ("family: broadcast_2d\narray: {pe: same_weight}", "same_weight sums digits"),
    ),
)
