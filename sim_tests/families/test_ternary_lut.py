# SPDX-License-Identifier: Apache-2.0
"""RTL of the ternary-LUT family against its golden and cycle models, over the parameter space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.build.load import load_config
from flows.simulation.run import run_product
from hwgen.errors import InputError
from hwgen.families.ternary_lut.params import TernaryLutConfig
from hwgen.families.ternary_lut.schedule import Schedule
from hwgen.formats import entries, ternary
from sim_tests.contract.contract import STREAM_CASES, Contract, Covering, Mutations, Steady
from sim_tests.support.cores import cycles, golden
from sim_tests.support.designs import design_of
from sim_tests.support.emitted import count_adders
from sim_tests.support.mutations import Mutation
from sim_tests.support.paths import CONFIGS

AXES: dict[str, list[Any]] = {
    "method": [
        ("lut", 1), ("lut", 2), ("lut", 3), ("lut", 4), ("lut", 5), ("lut", 6), ("lut", 7),
        ("select", 1), ("multiply", 1),
    ],
    "tables": [1, 2, 3, 5, 8],
    "fetch_ports": [1, 2, 7, 8],
    "activation": ["int8", "int4", "uint8", "int16", "int2", "uint3"],
    "accumulator": ["exact", "wrap", "saturate"],
    "depth": [1, 2, 64],
    "table": [1, 2, 4],
    "reduce": [0, 1, 2, 4],
    "cells": [("binary", "adders"), ("one_hot", "compressors"), ("binary", "compressors")],
}  # fmt: skip
"""Axes of the covering set: every pair of values of two axes occurs in some configuration."""


def configuration(name: str, values: dict[str, Any]) -> TernaryLutConfig:
    method, group_size = values["method"]
    # Large tables with few ports: what is tried is the table, not the compiler's patience.
    most = 8 if group_size <= 4 else 3 if group_size == 5 else 1
    tables, fetch_ports = min(values["tables"], most), min(values["fetch_ports"], most + 1)
    data: dict[str, Any] = {
        "name": name,
        "activation": values["activation"],
        "array": {
            "method": method,
            "group_size": group_size,
            "tables": tables,
            "fetch_ports": fetch_ports,
            "accumulator_depth": values["depth"],
            "fetch": values["cells"][0],
            "reduction": values["cells"][1],
        },
        "pipeline": {"table": values["table"], "reduce": values["reduce"]},
    }
    if values["accumulator"] != "exact":
        exact = TernaryLutConfig.model_validate(data)
        data["accumulator"] = f"int{exact.partial_sum(exact.terms).width + 1}"
        data["overflow"] = values["accumulator"]
    return TernaryLutConfig.model_validate(data)


def sized(group_size: int, tables: int, ports: int, **array: Any) -> TernaryLutConfig:
    return TernaryLutConfig.model_validate(
        {
            "name": "sized",
            "array": {
                "group_size": group_size,
                "tables": tables,
                "fetch_ports": ports,
                **array,
            },
        }
    )


def has_largest_tables(config: TernaryLutConfig) -> bool:
    """Return whether simulating and checking a core takes minutes."""
    return config.array.group_size == 7


COVERING = Covering("lut", AXES, configuration, every=78, costly=has_largest_tables)


def test_the_covering_set_is_large() -> None:
    assert len(COVERING.configs) >= 40
    assert {c.array.group_size for c in COVERING.configs if c.array.method == "lut"} == set(
        range(1, 8)
    )


@settings(max_examples=200)
@given(
    st.sampled_from(COVERING.configs),
    st.integers(1, 6),
    st.integers(1, 40),
    st.integers(1, 20),
    st.integers(0, 99),
)
def test_streams_carry_the_product(
    config: TernaryLutConfig, m: int, k: int, n: int, seed: int
) -> None:
    """Packed streams, decoded and multiplied pass by pass, give the product."""
    rng = np.random.default_rng(seed)
    a = rng.integers(config.activation.min, config.activation.max, (m, k), endpoint=True)
    w = rng.integers(-1, 2, (k, n))
    plan = Schedule(config, m, k, n)
    act, wgt, out = config.ports
    array = config.array
    rows = [b for beats, _ in plan.stream(act, plan.pack_activations(a)) for b in act.unpack(beats)]
    passes = [wgt.unpack(beats) for beats, _ in plan.stream(wgt, plan.pack_weights(w))]
    assert len(rows) == plan.input_beats(act) == len(passes)
    assert sum(map(len, passes)) == plan.input_beats(wgt)
    results: list[np.ndarray] = []
    total = np.zeros(1, np.int64)
    for number, (row, keys) in enumerate(zip(rows, passes, strict=True)):
        if array.method == "multiply":
            trits = ((keys.astype(int) + 2) % 4 - 2)[..., None]
        else:
            trits = ternary.decode(keys, array.group_size)
        trits = trits.reshape(len(keys), array.fetch_ports, config.terms)
        sums = trits.astype(np.int64) @ row.astype(np.int64)
        total = sums if number % plan.k_tiles == 0 else total + sums
        if number % plan.k_tiles == plan.k_tiles - 1:
            results += list(total)
    assert len(results) == plan.output_beats == len(list(plan.output_last()))
    exact = a @ w
    mask = (1 << out.lane_width) - 1
    c = plan.unpack_outputs(out.pack(np.array(results)))
    assert (c.astype(object) & mask).tolist() == (exact.astype(object) & mask).tolist()
    for column in range(n):
        beat, (row_of, group) = plan.locate_element(m - 1, column)
        assert (row_of, group) == (m - 1, column // array.fetch_ports)
        assert results[beat][column % array.fetch_ports] == exact[m - 1, column]


def test_golden_saturates_after_each_beat() -> None:
    config = TernaryLutConfig.model_validate(
        {
            "name": "narrow",
            "accumulator": "int8",
            "overflow": "saturate",
            "array": {"group_size": 1, "tables": 2, "fetch_ports": 1},
        }
    )
    a = np.array([[100, 100, -100, 0]])
    w = np.array([[1], [1], [1], [1]])
    assert golden(config, a, w).tolist() == [[27]]  # 200 clamps to 127 before -100 is added


# -- structure -------------------------------------------------------------------------------------


@pytest.mark.parametrize("group_size", range(1, 8))
@pytest.mark.rotate(6, cases=r"^7$")
def test_a_table_costs_one_adder_an_entry(group_size: int, tmp_path: Path) -> None:
    text = design_of(sized(group_size, 1, 1)).verilog
    adders = count_adders(text, "sized_table", tmp_path)
    assert adders == entries(group_size) - group_size


# -- mutations -------------------------------------------------------------------------------------

SMALL = {
    "array": {
        "group_size": 2,
        "tables": 4,
        "fetch_ports": 3,
        "accumulator_depth": 4,
        "fetch": "binary",
        "reduction": "adders",
    },
}


MUTATIONS = [
    Mutation("sign ignored", "fetch", r"\^ \{[^}]*\}", "", SMALL),
    Mutation("sign without its carry", "fetch", r"carry = ", "carry = 1'b0 & ", SMALL),
    Mutation("wrong row of a table", "table", r"assign (t_pn_sum = .*) - ", r"assign \1 + ", SMALL),
    Mutation("tables let go too early", "core", r"step = ", "step = fire | ", SMALL,
             tuple(f"shapes_{i}" for i in range(20))),
    Mutation("beat dropped", "core", r"assign fire = ", "assign fire = ~starts & ", SMALL),
    Mutation("total not restarted", "column", r"starts \? \d+'[hd]0+ : ", "", SMALL),
    Mutation("row just written read too early", "rows", r"again <= ", "again <= 1'b0 & ", SMALL),
    Mutation("result overwritten by the next", "core", r"assign run = ", "assign run = 1'b1 | ",
             SMALL),
]  # fmt: skip


# -- bad input -------------------------------------------------------------------------------------


def test_weights_must_be_ternary() -> None:
    with pytest.raises(InputError, match=r"^weights: must be -1\.\.1 \(ternary\), found 0\.\.2"):
        golden(sized(2, 2, 2), np.ones((1, 3), int), np.array([[0], [1], [2]]))


# -- long ------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(("k", "n"), [(2560, 2560), (2560, 6912)])
def test_layers_of_a_language_model(k: int, n: int) -> None:
    """The layer shapes of BitNet b1.58 2B4T, batch 1, on the shipped core."""
    config = load_config(CONFIGS / "lut_core.yaml")
    assert isinstance(config, TernaryLutConfig)
    rng = np.random.default_rng(0)
    a = rng.integers(-128, 128, (1, k), dtype=np.int8)
    w = rng.integers(-1, 2, (k, n), dtype=np.int8)
    result = run_product(design_of(config), a, w)
    assert np.array_equal(result.result, golden(config, a, w))
    assert np.array_equal(result.result, a.astype(np.int64) @ w)
    assert result.cycles == cycles(config, 1, k, n)


USUAL = [config for config in COVERING.configs if not has_largest_tables(config)]

CONTRACT = Contract(
    "ternary_lut",
    "ternary_lut",
    small=(sized(2, 3, 4),),
    covering=COVERING,
    shipped=("lut*.yaml",),
    shipped_every=12,
    clean=USUAL,
    clean_every=32,
    mutations=(
        Mutations(
            TernaryLutConfig, ("shapes_0", "values_random", *STREAM_CASES), MUTATIONS, every=18
        ),
    ),
    # Tables are built and read in every cycle, whether columns iterate or not.
    steady=tuple(
        Steady(sized(2, 4, 8, accumulator_depth=4), (64, 256, n), 8 * -(-n // 8)) for n in (8, 20)
    ),
    refused=(
        ("array: {method: select}", r"x\.yaml:3:\d+: array\.group_size: must be 1 with method sel"),
        ("array: {group_size: 8}", r"x\.yaml:3:\d+: array\.group_size: must be 1\.\.7, not 8"),
        ("weight: int8", r"x\.yaml:3:1: weight: must be ternary or int1\.\.int4, not 'int8'"),
        (
            "array: {tabels: 4}",
            r"x\.yaml:3:\d+: array\.tabels: unknown key \(did you mean 'tables'",
        ),
    ),
)
