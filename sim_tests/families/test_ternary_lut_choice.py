# SPDX-License-Identifier: Apache-2.0
"""Choices of the generator for `auto` in ternary-LUT cores."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterable
from typing import Any

import pytest

from flows.build.load import parse_config
from flows.build.timing import limit
from hwgen.core.params.base import FamilyConfig
from hwgen.core.registry import core_of
from hwgen.core.resolve import Limit
from hwgen.errors import ConfigError
from hwgen.families.ternary_lut.choice import smallest, sum_groups
from hwgen.families.ternary_lut.params import TernaryLutConfig
from hwgen.technologies import costs_of, technologies, technology_names
from sim_tests.support.designs import estimate_of
from sim_tests.support.selection import commit_seed


def configuration(text: str) -> TernaryLutConfig:
    config = parse_config(f"name: x\nfamily: ternary_lut\n{text}\n", "x.yaml")
    assert isinstance(config, TernaryLutConfig)
    return config


def limit_of(config: FamilyConfig) -> Limit | None:
    return limit(core_of(config))


@pytest.mark.parametrize("technology", technologies())
def test_the_structure_is_that_of_the_technology(technology: str) -> None:
    array = configuration(f"target: {{technology: {technology}}}").array
    assert {"fetch": array.fetch, "reduction": array.reduction} == smallest(technology)
    if technology in ("nangate45", "asap7", "sky130hd"):  # these have full adders
        assert array.reduction == "compressors"
    if technology in technology_names("fpga"):
        assert (array.fetch, array.reduction) == ("binary", "adders")
    given = configuration(
        f"target: {{technology: {technology}}}\narray: {{fetch: binary, reduction: adders}}"
    ).array
    assert (given.fetch, given.reduction) == ("binary", "adders")


@pytest.mark.parametrize("activation", ["int8", "fp16"])
def test_a_faster_clock_takes_more_registers(activation: str) -> None:
    result = []
    for clock in (20, 150, 300, 400):
        config = configuration(
            f"activation: {activation}\narray: {{tables: 8, group_size: 2, fetch_ports: 2}}\n"
            f"pipeline: {{table: auto, reduce: auto, accumulate: auto}}\n"
            f"target: {{clock_mhz: {clock}}}"
        )
        result.append((config.pipeline.table, config.pipeline.reduce, config.pipeline.accumulate))
    assert all(
        a <= b for one, two in itertools.pairwise(result) for a, b in zip(one, two, strict=True)
    )
    assert result[0] == (1, 0, 0)
    assert result[-1] > result[0] or activation == "int8"


def test_as_few_registers_as_will_do() -> None:
    text = "array: {{tables: 16, fetch_ports: 2}}\npipeline: {}\ntarget: {{clock_mhz: {}}}"
    limits = [limit_of(configuration(text.format(f"{{reduce: {n}}}", 1))) for n in (0, 1)]
    clocks = [limit.reliable_clock_mhz for limit in limits if limit]
    assert clocks[0] < clocks[1]
    for clock, expected in ((clocks[0] * 0.99, 0), (clocks[0] * 1.001, 1)):
        auto = configuration(text.format("{reduce: auto}", round(clock, 3)))
        assert auto.pipeline.reduce == expected


def test_what_is_refused_names_the_highest_clock_that_can_be_had() -> None:
    text = "array: {{tables: 4, fetch_ports: 2}}\npipeline: {{table: auto, reduce: auto}}\n"
    text += "target: {{clock_mhz: {}}}"
    with pytest.raises(ConfigError) as refused:
        configuration(text.format(5000))
    told = re.search(
        r"allows at most ([\d.]+)(?: \(.* below the estimate[^)]*\))?, by the path from (\S+)"
        r" to (\S+):",
        str(refused.value),
    )
    assert told
    config = configuration(text.format(told[1]))
    limit = limit_of(config)
    assert limit
    assert (limit.start, limit.end) == (told[2], told[3])
    with pytest.raises(ConfigError, match="auto cannot reach"):
        configuration(text.format(float(told[1]) + 0.2))


def test_limits_depend_on_the_technology_and_not_on_the_clock_asked_for() -> None:
    text = "target: {{technology: {}, clock_mhz: {}}}\narray: {{tables: 2, fetch_ports: 2}}"
    slow, fast, other, unknown = (
        limit_of(configuration(text.format(*target)))
        for target in (("nangate45", 1), ("nangate45", 900), ("asap7", 1), ("xc7", 1))
    )
    assert slow == fast
    assert unknown is None
    assert slow
    assert other
    assert other.period_ns < slow.period_ns


def engine_of(reduce: object, clock: float) -> Any:
    core = f"family: ternary_lut, array: {{fetch_ports: 4}}, pipeline: {{reduce: {reduce}}}"
    text = f"name: x\nfamily: gemm_stream\ncompute: {{{core}}}\ntarget: {{clock_mhz: {clock}}}\n"
    return parse_config(text, "x.yaml")


def test_an_engine_that_is_slower_than_its_core_is_refused() -> None:
    engine, alone = limit_of(engine_of(0, 1)), limit_of(engine_of(0, 1).compute)
    assert engine
    assert alone
    assert engine.period_ns > alone.period_ns
    told = r"x\.yaml:3:.*compute\.pipeline\.reduce: auto cannot reach .* the engine allows at most"
    with pytest.raises(ConfigError, match=told):
        engine_of("auto", round((engine.reliable_clock_mhz + alone.reliable_clock_mhz) / 2, 1))
    assert engine_of("auto", int(engine.reliable_clock_mhz)).compute.pipeline.reduce == 0


def automatic(draw: random.Random) -> str:
    """Return parameters of a core with everything left to the generator that can be."""
    activation = draw.choice(("int4", "int8", "int8", "uint8", "int12", "fp16", "fp8_e4m3"))
    real = activation.startswith("fp")
    group = draw.randint(1, 2 if real else 4)
    array = {
        "group_size": group,
        "tables": draw.randint(1, 6 if real else 24),
        "fetch_ports": draw.randint(1, 16),
        "accumulator_depth": draw.choice((1, 4, 64)),
        "fetch": draw.choice(("auto", "binary", "one_hot")),
    }
    weight = draw.choice(("ternary", "int1", "int2", "int4")) if not real else "ternary"
    fields = ["table", "reduce", *(["accumulate"] if real else [])]
    pipeline = {field: "auto" for field in draw.sample(fields, draw.randint(1, len(fields)))}
    return json.dumps({
        "name": "x", "family": "ternary_lut", "activation": activation, "weight": weight,
        "array": array, "pipeline": pipeline,
    })  # fmt: skip


def evaluate_choices(core: str, technology: str, clocks: Iterable[float]) -> tuple[int, int]:
    """Return the numbers of clocks for which a core is chosen and refused."""
    met, refused = 0, 0
    for clock in clocks:
        target = {"technology": technology, "clock_mhz": clock}
        text = json.dumps({**json.loads(core), "target": target})
        problem = ""
        try:
            config = parse_config(text)
        except ConfigError as error:
            problem = str(error)
        if problem:
            told = re.search(r"auto cannot reach .* allows at most ([\d.]+).*, by the", problem)
            assert told, f"{text}\n{problem}"
            assert float(told[1]) < clock
            refused += 1
            continue
        result = estimate_of(config)
        assert result["meets_clock"], f"{text}: {result['metrics']['fmax_mhz']}"
        met += 1
    return met, refused


CELLS = tuple(name for name in technology_names("standard_cells") if costs_of(name))
CLOCKS = (40.0, 150.0, 300.0, 450.0, 600.0, 900.0)


@pytest.mark.rotate(6)
def test_what_is_chosen_meets_its_clock_by_the_estimate() -> None:
    draw = random.Random(commit_seed())
    assert sum(evaluate_choices(automatic(draw), draw.choice(CELLS), CLOCKS)) == len(CLOCKS)


def test_the_memories_of_a_choice_are_those_of_the_estimate() -> None:
    core = "array: {tables: 16, fetch_ports: 64}\ntarget: {technology: ihp-sg13g2}"
    config = configuration(core)
    limit = limit_of(config)
    assert limit is not None
    result = estimate_of(config, clock_mhz=limit.clock_mhz * (1 - 1e-9))
    assert [memory["form"] for memory in result["memories"]] == ["macros"]
    assert result["meets_clock"]
    assert result["metrics"]["fmax_mhz"] == pytest.approx(limit.clock_mhz, rel=1e-6)
    registers = estimate_of(config, clock_mhz=limit.clock_mhz, made_of="registers")
    assert registers["metrics"]["fmax_mhz"] != pytest.approx(limit.clock_mhz, rel=1e-3)


@pytest.mark.long
def test_many_choices_meet_their_clocks_by_the_estimate() -> None:
    draw, met, refused = random.Random(commit_seed()), 0, 0
    for _ in range(15):
        core = automatic(draw)
        for technology in CELLS:
            result = evaluate_choices(core, technology, CLOCKS)
            met, refused = met + result[0], refused + result[1]
    assert met + refused >= 300
    assert met > 100
    assert refused > 20


def test_a_chosen_configuration_is_an_ordinary_one() -> None:
    config = configuration("pipeline: {table: auto, reduce: auto}\ntarget: {clock_mhz: 450}")
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
            "pipeline: {table: auto}\ntarget: {technology: xc7}",
            r"x\.yaml:3:\d+: pipeline\.table: must be a number with target\.technology xc7",
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
@pytest.mark.parametrize("registers", range(5))
def test_sums_are_divided_completely(tables: int, registers: int) -> None:
    *groups, last = sum_groups(tables, registers)
    assert len(groups) == max(0, registers - 1)
    left = tables
    for group in groups:
        left = -(-left // group)
    assert last == left


def test_unknown_stages_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"pipeline\.redace: unknown key"):
        parse_config("name: x\nfamily: ternary_lut\npipeline: {table: auto, redace: auto}\n")
