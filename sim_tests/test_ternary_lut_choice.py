# SPDX-License-Identifier: Apache-2.0
"""What the generator chooses in ternary-LUT cores where a configuration says `auto`."""

from __future__ import annotations

from typing import Any

import pytest

from flows.bench.delay import path_ns
from hwgen.config.load import parse_config
from hwgen.config.measured import DATA, measured, smallest
from hwgen.emission import verilog_of
from hwgen.errors import ConfigError
from hwgen.families.ternary_lut import TernaryLutConfig
from hwgen.families.ternary_lut_choice import MOST, reduce_ns, sum_groups, table_ns
from hwgen.technologies import technologies


def configuration(text: str) -> TernaryLutConfig:
    config = parse_config(f"name: x\nfamily: ternary_lut\n{text}\n", "x.yaml")
    assert isinstance(config, TernaryLutConfig)
    return config


@pytest.mark.parametrize("technology", technologies())
def test_the_structure_is_that_of_the_technology(technology: str) -> None:
    array = configuration(f"target: {{technology: {technology}}}").array
    assert {"fetch": array.fetch, "reduction": array.reduction} == smallest(technology)
    if technology in ("nangate45", "asap7", "sky130hd"):  # these have full adders
        assert array.reduction == "compressors"
    if measured(technology) is None:
        assert (array.fetch, array.reduction) == ("binary", "adders")
    given = configuration(
        f"target: {{technology: {technology}}}\narray: {{fetch: binary, reduction: adders}}"
    ).array
    assert (given.fetch, given.reduction) == ("binary", "adders")


@pytest.mark.parametrize("activation", ["int8", "int16", "fp16", "bf16"])
def test_a_faster_clock_takes_more_registers(activation: str) -> None:
    found = []
    for clock in (20, 50, 100, 200, 300, 400):
        config = configuration(
            f"activation: {activation}\narray: {{tables: 32, group_size: 3}}\n"
            f"pipeline: {{table: auto, reduce: auto}}\ntarget: {{clock_mhz: {clock}}}"
        )
        found.append((config.pipeline.table, config.pipeline.reduce))
    assert found == sorted(found), found
    assert found[0] == (1, 0)
    assert found[-1][1] > 0


def test_as_few_registers_as_will_do() -> None:
    text = "array: {{group_size: 2, tables: 16}}\npipeline: {}\ntarget: {{clock_mhz: {}}}"
    delays = measured("nangate45")
    assert delays is not None
    config = configuration(text.format("{reduce: 0}", 1))
    for number in range(MOST):
        clock = 1000 / reduce_ns(config, delays, number)
        if clock < 1000 / reduce_ns(config, delays, number + 1):
            for slower, expected in ((0.99, number), (1.01, number + 1)):
                auto = configuration(text.format("{reduce: auto}", round(clock * slower, 3)))
                assert auto.pipeline.reduce == expected


def test_a_chosen_configuration_is_an_ordinary_one() -> None:
    config = configuration("pipeline: {table: auto, reduce: auto}\ntarget: {clock_mhz: 600}")
    assert TernaryLutConfig.model_validate(config.resolved()) == config
    assert isinstance(config.pipeline.reduce, int)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "pipeline: {reduce: auto}\ntarget: {clock_mhz: 5000}",
            r"x\.yaml:3:\d+: pipeline\.reduce: auto cannot reach target\.clock_mhz 5000 in nang",
        ),
        (
            "pipeline: {table: auto}\ntarget: {technology: ecp5}",
            r"x\.yaml:3:\d+: pipeline\.table: must be a number with target\.technology ecp5",
        ),
        ("pipeline: {reduce: 5}", r"x\.yaml:3:\d+: pipeline\.reduce: must be auto or 0\.\.4, n"),
        ("pipeline: {reduce: autom}", r"pipeline\.reduce: must be auto or 0\.\.4, not 'autom'"),
        ("pipeline: auto", r"x\.yaml:3:1: pipeline: must hold parameters"),
    ],
)
def test_what_cannot_be_chosen(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        configuration(text)


@pytest.mark.parametrize("tables", [1, 2, 3, 16, 33, 128])
@pytest.mark.parametrize("registers", range(MOST + 1))
def test_sums_are_divided_completely(tables: int, registers: int) -> None:
    *groups, last = sum_groups(tables, registers)
    assert len(groups) == max(0, registers - 1)
    left = tables
    for group in groups:
        left = -(-left // group)
    assert last == left


@pytest.mark.slow
@pytest.mark.parametrize(
    ("array", "module"),
    [
        ({"group_size": 2, "tables": 20, "fetch_ports": 1, "accumulator_depth": 1}, "column"),
        ({"group_size": 3, "tables": 6, "fetch_ports": 1, "accumulator_depth": 1}, "column"),
        ({"group_size": 3, "tables": 1, "fetch_ports": 1}, "table"),
    ],
)
def test_delays_are_those_of_synthesis(array: dict[str, Any], module: str) -> None:
    """Of modules that the figures were not fitted to."""
    config = TernaryLutConfig.model_validate({"name": "q", "max_k": 4096, "array": array})
    delays = measured("nangate45")
    assert delays is not None, f"nothing in {DATA}"
    predicted = reduce_ns(config, delays, 0) if module == "column" else table_ns(config, delays, 1)
    assert predicted == pytest.approx(
        path_ns(verilog_of(config), f"q_{module}", "nangate45"), rel=0.15
    )


def test_unknown_stages_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"pipeline\.redace: unknown key"):
        parse_config("name: x\nfamily: ternary_lut\npipeline: {table: auto, redace: auto}\n")
