# SPDX-License-Identifier: Apache-2.0
"""Integer weights of a few bits on the ternary-LUT core, bit plane by bit plane; clusters."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.build.build import Build
from flows.build.load import parse_config
from hwgen.core.files.packing import pack
from hwgen.families.ternary_lut.params import TernaryLutConfig
from hwgen.families.ternary_lut.schedule import Schedule
from hwgen.formats import BINARY, IntegerFormat, bit_planes, number_format
from sim_tests.contract.contract import (
    STREAM_CASES,
    Contract,
    Covering,
    Mutations,
    Regressions,
    Steady,
)
from sim_tests.support.cores import golden
from sim_tests.support.designs import design_of
from sim_tests.support.emitted import count_adders
from sim_tests.support.mutations import Mutation

WEIGHTS = ("int1", "int2", "int3", "int4")

AXES: dict[str, list[Any]] = {
    "group_size": [1, 2, 3, 4, 5, 6, 7],
    "weight": list(WEIGHTS),
    "ports": [(1, 1), (2, 2), (4, 1), (6, 3)],  # and clusters
    "tables": [1, 2, 3, 5],
    "activation": ["int8", "int4", "uint8", "int16"],
    "accumulator": ["exact", "wrap"],
    "depth": [1, 2, 8],
    "table": [1, 2],
    "reduce": [0, 1, 2],
    "cells": [("binary", "adders"), ("one_hot", "compressors"), ("binary", "compressors")],
}
"""Axes of the covering set: every pair of values of two axes occurs in some configuration."""


def configuration(name: str, values: dict[str, Any]) -> TernaryLutConfig:
    group_size, (fetch_ports, clusters) = values["group_size"], values["ports"]
    if group_size >= 5:  # what is tried is the large table, not the compiler's patience
        fetch_ports, clusters = min(fetch_ports, 2), min(clusters, 2)
    data: dict[str, Any] = {
        "name": name,
        "activation": values["activation"],
        "weight": values["weight"],
        "max_k": 4096,
        "array": {
            "group_size": group_size,
            "tables": min(values["tables"], 5 if group_size < 5 else 2 if group_size < 7 else 1),
            "fetch_ports": fetch_ports,
            "clusters": clusters,
            "accumulator_depth": values["depth"],
            "fetch": values["cells"][0],
            "reduction": values["cells"][1],
        },
        "pipeline": {"table": values["table"], "reduce": values["reduce"]},
    }
    if values["accumulator"] == "wrap":
        exact = TernaryLutConfig.model_validate(data)
        data["accumulator"] = f"int{exact.partial_sum(exact.terms).width}"
    return TernaryLutConfig.model_validate(data)


COVERING = Covering("planes", AXES, configuration, every=78)


def small(weight: str, **array: Any) -> TernaryLutConfig:
    return TernaryLutConfig.model_validate(
        {
            "name": "narrow",
            "weight": weight,
            "array": {"group_size": 3, "tables": 2, "fetch_ports": 4, **array},
        }
    )


# -- keys ------------------------------------------------------------------------------------------


def values_of(fmt: IntegerFormat) -> list[int]:
    return [-1, 1] if fmt is BINARY else list(range(fmt.min, fmt.max + 1))


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("mu", range(1, 8))
def test_keys_of_every_group_stand_for_it(name: str, mu: int) -> None:
    """All groups of up to 20 bits, a sample of longer ones."""
    fmt = number_format(name)
    assert fmt.is_integer
    values = values_of(fmt)
    if mu * fmt.width <= 20:
        groups = np.array(list(itertools.product(values, repeat=mu)), np.int8)
    else:
        groups = np.random.default_rng(0).choice(values, (1 << 16, mu)).astype(np.int8)
    keys = bit_planes.encode(groups, fmt)
    assert keys.shape == (len(groups), fmt.width)
    assert int(keys.max()) < 1 << mu
    assert np.array_equal(bit_planes.decode(keys, mu, fmt), groups)

    # A plane is the stored pattern of the index, or its negative.
    stored = np.array(bit_planes.stored_patterns(mu))
    assert stored.shape == (1 << (mu - 1), mu)
    assert (stored[:, 0] == 1).all()
    assert (stored[0] == 1).all()
    index, negative = keys & (len(stored) - 1), keys >> (mu - 1)
    total = np.zeros(groups.shape, np.int64)
    for plane in range(fmt.width):
        signs = stored[index[:, plane]] * np.where(negative[:, plane], -1, 1)[:, None]
        total = 2 * total + signs
    expected = groups.astype(np.int64) if fmt is BINARY else 2 * groups.astype(np.int64) + 1
    assert np.array_equal(total, expected)


def test_a_longer_key_is_not_decoded() -> None:
    with pytest.raises(ValueError, match="a key of 3 weights has 3 bits"):
        bit_planes.decode(np.array([[8]]), 3, BINARY)


def test_binary_weights_as_bits() -> None:
    values = np.array([-1, 1, 1], np.int8)
    assert BINARY.encode(values).tolist() == [0, 1, 1]
    assert BINARY.decode(np.array([0, 1, 3])).tolist() == [-1, 1, 1]


@pytest.mark.parametrize("name", WEIGHTS)
def test_bits_per_weight(name: str) -> None:
    config = small(name)
    weights = np.full((6, 4), config.weight.max)
    description = pack(config, weights).description
    assert description["bits_per_weight"] == description["planes"] == config.weight.width
    assert description["beats"] == config.weight.width


# -- schedule and golden model ---------------------------------------------------------------------


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
    """Packed streams, decoded plane by plane as the core does, give the product."""
    rng = np.random.default_rng(seed)
    a, w = config.activation.random(rng, (m, k)), config.weight.random(rng, (k, n))
    plan = Schedule(config, m, k, n)
    act, wgt, out = config.ports
    array, planes = config.array, config.planes
    stored = np.array(config.stored_patterns)
    rows = [b for beats, _ in plan.stream(act, plan.pack_activations(a)) for b in act.unpack(beats)]
    passes = [wgt.unpack(beats) for beats, _ in plan.stream(wgt, plan.pack_weights(w))]
    assert len(rows) == plan.input_beats(act) == len(passes)
    assert sum(map(len, passes)) == plan.input_beats(wgt)
    results: list[np.ndarray] = []
    total = np.zeros(1, np.int64)
    for number, (row, beats) in enumerate(zip(rows, passes, strict=True)):
        x = row.astype(np.int64).reshape(array.tables, array.group_size)
        keys = beats.astype(int).reshape(-1, planes, array.fetch_ports, array.tables)
        entries = x @ stored.T
        read = entries[np.arange(array.tables), keys & (len(stored) - 1)]
        sums = np.where(keys >> config.index_width, -read, read).sum(axis=-1)
        doubled = (sums << np.arange(planes - 1, -1, -1)[:, None]).sum(axis=1)
        if planes > 1:
            doubled -= x.sum()
        total = doubled if number % plan.k_tiles == 0 else total + doubled
        if number % plan.k_tiles == plan.k_tiles - 1:
            assert planes == 1 or not (total & 1).any()
            results += list(total >> (planes > 1))
    assert len(results) == plan.output_beats == len(list(plan.output_last()))
    c = plan.unpack_outputs(out.pack(config.result.wrap(np.array(results))))
    expected = config.result.wrap(a @ w)
    assert np.array_equal(c, expected)
    assert np.array_equal(golden(config, a, w), expected)
    assert np.array_equal(plan.unpack_weights(plan.pack_weights(w)), w)


# -- RTL -------------------------------------------------------------------------------------------


def test_the_covering_set_covers() -> None:
    assert len(COVERING.configs) >= 25
    assert {(c.array.group_size, str(c.weight)) for c in COVERING.configs} == set(
        itertools.product(range(1, 8), WEIGHTS)
    )


# -- structure -------------------------------------------------------------------------------------


def fewest_adders(mu: int) -> int:
    """Return the sums and differences of both halves, and those that make the halves."""
    return 0 if mu == 1 else fewest_adders(mu // 2) + fewest_adders(mu - mu // 2) + 2 ** (mu - 1)


@pytest.mark.parametrize("group_size", range(1, 8))
@pytest.mark.parametrize("registers", [1, 4])
@pytest.mark.rotate(6)
def test_adders_of_a_table(group_size: int, registers: int, tmp_path: Path) -> None:
    config = TernaryLutConfig.model_validate(
        {
            "name": "sized",
            "weight": "int2",
            "pipeline": {"table": registers},
            "array": {"group_size": group_size, "tables": 1, "fetch_ports": 1},
        }
    )
    adders = count_adders(design_of(config).verilog, "sized_table", tmp_path)
    assert adders == fewest_adders(group_size) == [0, 2, 6, 12, 24, 44, 82][group_size - 1]


def test_clusters_are_independent() -> None:
    def separate_modules(text: str) -> list[str]:
        return re.findall(r"^\(\* keep_hierarchy \*\)\nmodule narrow_(\w+)", text, re.M)

    text = design_of(small("int2", clusters=2)).verilog
    assert "cluster" in separate_modules(text)
    assert len(re.findall(r"^  narrow_cluster cluster_\d+ \(", text, re.M)) == 2
    assert len(re.findall(r"^  narrow_column column_\d+ \(", text, re.M)) == 2
    text = design_of(small("int2")).verilog
    assert "cluster" not in separate_modules(text)
    assert len(re.findall(r"^  narrow_column column_\d+ \(", text, re.M)) == 4


def test_throughput_counts_bit_planes() -> None:
    assert small("int1").macs_per_cycle == 24
    assert small("int3").macs_per_cycle == 8
    config = small("int3", group_size=2)
    assert config.macs_per_cycle == pytest.approx(16 / 3)
    manifest = json.loads(Build(design_of(config)).files["narrow.json"])
    assert manifest["throughput_macs_per_cycle"] == config.macs_per_cycle


# -- mutations -------------------------------------------------------------------------------------

SMALL = {
    "weight": "int3",
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
    Mutation("activations not subtracted", "correction", r"\blast, last\b", "1'b0, 1'b0", SMALL),
    Mutation("subtracted in each plane", "correction", r"\blast, last\b", "1'b1, 1'b1", SMALL),
    Mutation("plane shifted by two", "column", r"\{ total\[\d+:0\], waiting\[1\] \}",
             "{ total[26:0], waiting[1], 1'b0 }", SMALL),
    Mutation("low bits of the total lost", "column", r"waiting\[1\] <= ", "waiting[1] <= 1'b0 & ",
             SMALL),
    Mutation("planes counted wrongly", "core", r"last_plane = plane == 2'h2",
             "last_plane = plane == 2'h1", SMALL),
    Mutation("plane kept over a reset", "core", r"if \(rst\) plane <= 2'h0;\s*else ", "", SMALL,
             tuple(f"reset_{i}" for i in range(4))),
]  # fmt: skip


# -- bad input -------------------------------------------------------------------------------------


def test_an_accumulator_that_cannot_overflow_may_saturate() -> None:
    text = "name: x\nfamily: ternary_lut\nweight: int2\naccumulator: int32\noverflow: saturate\n"
    assert not parse_config(text).saturates


BASE = {"group_size": 3, "tables": 2, "fetch_ports": 4, "accumulator_depth": 2}
FURTHER: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({"weight": "ternary"}, {"clusters": 2}),
    ({"weight": "ternary"}, {"method": "select", "group_size": 1, "clusters": 4}),
    # A total hardly wider than the bits that wait in it.
    ({"weight": "int4", "accumulator": "int2"}, {}),
    (
        {"weight": "int3", "accumulator": "int64"},
        {"fetch_ports": 1, "reduction": "compressors"},
    ),
    ({"weight": "int1", "accumulator": "int9", "overflow": "saturate"}, {"clusters": 2}),
)

FURTHER_CONFIGS = [
    TernaryLutConfig.model_validate(
        {"name": f"further_{i}", "max_k": 4096, **data, "array": {**BASE, **array}}
    )
    for i, (data, array) in enumerate(FURTHER)
]

REFUSED = (
    ("weight: int5", r"weight: must be ternary or int1\.\.int4, not 'int5' \(did you mean"),
    ("weight: uint2", r"weight: must be ternary or int1\.\.int4, not 'uint2'"),
    (
        "weight: int2\narray: {method: select, group_size: 1}",
        r"array\.method: must be lut with int2 weights, not select",
    ),
    (
        "weight: int1\narray: {method: multiply, group_size: 1}",
        r"array\.method: must be lut with int1 weights, not multiply",
    ),
    (
        "array: {clusters: 3}",
        r"array\.clusters: must divide fetch_ports, 32, so that clusters are alike, not 3",
    ),
    ("array: {clusters: 65}", r"array\.clusters: must be 1\.\.64, not 65"),
    (
        "weight: int2\naccumulator: int16\noverflow: saturate",
        r"overflow: must be wrap, not saturate, with int2 weights and .* int26 or exact",
    ),
    (
        "weight: int2\nactivation: fp16",
        r"weight: must be ternary with activation fp16, not int2; bit planes are added up in",
    ),
    (
        "weight: int1\naccumulator: uint16",
        r"accumulator: must be signed because int8 x int1 products reach -128; use int16",
    ),
)

CONTRACT = Contract(
    "bit_planes",
    "ternary_lut",
    covering=COVERING,
    regressions=(Regressions(FURTHER_CONFIGS, seed=0),),
    clean=COVERING.configs[::6],
    clean_every=8,
    mutations=(
        Mutations(TernaryLutConfig, ("shapes_0", "values_random", *STREAM_CASES), MUTATIONS),
    ),
    # Every cycle takes a bit plane, so the manifest's throughput is reached.
    steady=tuple(Steady(small(weight), (64, 48, 20)) for weight in ("int1", "int3")),
    refused=[(text, rf"^x\.yaml:\d:\d+: {message}") for text, message in REFUSED],
)
