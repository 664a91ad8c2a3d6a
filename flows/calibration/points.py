# SPDX-License-Identifier: Apache-2.0
"""Cores that are chosen by hand: those that FPGA families are calibrated on and checked with.

Each parameter of the former is varied, alone and together with those it acts on.  The check draws
whole cores of ordinary sizes from a seeded generator, and never draws one of the former.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from hwgen.config.dotted import nested
from hwgen.core.params.product import ProductConfig
from hwgen.core.registry import family
from hwgen.errors import ConfigError
from hwgen.formats import FLOATS

Values = dict[str, Any]
"""A configuration by dotted parameters."""

NAME = "core"
"""Name of every core, so that equal ones have equal Verilog."""


def config_of(values: Mapping[str, Any]) -> ProductConfig:
    """Return the configuration that dotted parameters describe."""
    config = family(values["family"]).params_class.model_validate({"name": NAME, **nested(values)})
    assert isinstance(config, ProductConfig)
    return config


def core(family: str, **more: Any) -> Values:
    """Return the parameters of a core of a family; a dot is written as two underscores."""
    return {"family": family, **{name.replace("__", "."): value for name, value in more.items()}}


def calibration_points() -> Iterator[Values]:
    """Yield the cores to calibrate an FPGA family on.

    They use its carry chains, and are few: counts of blocks and bits of registers are exact there,
    and few costs are left to find.
    """
    yield from _systolic_fpga()
    yield from _ternary_fpga()


def _array(rows: int, cols: int, flow: str = "output_stationary", **more: Any) -> Values:
    values = {
        "family": "systolic",
        "array.rows": rows,
        "array.cols": cols,
        "array.dataflow": flow,
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    if flow != "output_stationary":
        values.setdefault("array.accumulator_depth", 1)
    return values


def _ternary(**more: Any) -> Values:
    values = {"family": "ternary_lut", "array.accumulator_depth": 1}
    if "activation" in more and more["activation"] in FLOATS:
        values["array.alignment"] = "none"  # for the costs of floating-point operators
    return {**values, **{name.replace("__", "."): value for name, value in more.items()}}


_CHAINS: dict[str, Any] = {"array__fetch": "binary", "array__reduction": "adders"}
"""What suits the carry chains of an FPGA."""
_CELLS: dict[str, Any] = {"array__fetch": "one_hot", "array__reduction": "compressors"}
"""What suits standard cells."""


def rare_points() -> Iterator[Values]:
    """Yield cores that have what few draws have.

    Integers that are selected or multiplied, and each floating-point operator with each number of
    registers.
    """
    for method in ("select", "multiply"):
        for reduce in (0, 2):
            yield _ternary(array__method=method, array__group_size=1, array__tables=4,
                           array__fetch_ports=2, pipeline__reduce=reduce)  # fmt: skip
    small = {"array__fetch": "binary"}
    for fmt in ("fp16", "bf16", "fp8_e4m3", "fp8_e5m2"):
        yield _ternary(activation=fmt, array__tables=2, array__fetch_ports=2, **small)
        yield _ternary(activation=fmt, array__tables=3, array__fetch_ports=1, pipeline__reduce=1,
                       pipeline__accumulate=1, **small)  # fmt: skip
        for stages in range(5):
            yield _ternary(activation=fmt, array__tables=2, array__fetch_ports=1,
                           array__group_size=1, array__method="multiply",
                           pipeline__reduce=stages, **small)  # fmt: skip
        for stages in (2, 3, 4):
            yield _ternary(activation=fmt, array__tables=2, array__fetch_ports=1,
                           pipeline__reduce=stages, pipeline__accumulate=stages,
                           **small)  # fmt: skip
    yield _ternary(activation="fp16", accumulator="fp16", array__tables=4, array__fetch_ports=2,
                   array__fetch="one_hot")  # fmt: skip
    yield _ternary(activation="fp16", array__tables=2, array__fetch_ports=1, array__group_size=3,
                   pipeline__table=2, pipeline__reduce=2, pipeline__accumulate=2,
                   array__fetch="one_hot")  # fmt: skip
    yield _ternary(activation="bf16", array__tables=2, array__fetch_ports=2, array__group_size=1,
                   array__method="select", **small)  # fmt: skip


def _systolic_fpga() -> Iterator[Values]:
    core = _array
    yield core(4, 4)
    for a, w in (
        ("int4", "int4"), ("int12", "int8"), ("int16", "int16"), ("uint8", "int8"),
        ("uint8", "uint8"), ("int5", "int10"), ("int2", "int2"), ("int16", "int4"),
    ):  # fmt: skip
        yield core(3, 3, activation=a, weight=w)
    yield core(2, 3, accumulator="int24")
    yield core(2, 3, accumulator="int24", overflow="saturate", max_k=1 << 24)
    for stages in (1, 2):
        yield core(3, 3, pipeline__pe=stages)
        yield core(3, 3, "weight_stationary", pipeline__pe=stages)
        yield core(3, 2, activation="int6", weight="int10", pipeline__pe=stages)
    yield core(2, 8)
    yield core(18, 3)
    yield core(3, 18, array__broadcast=4)
    yield core(4, 9, array__broadcast=4, pipeline__pe=1)
    yield core(12, 4, "weight_stationary")
    yield core(18, 3, "weight_stationary", activation="int4")
    yield core(4, 18, "weight_stationary", array__broadcast=4)
    yield core(4, 3, "weight_stationary", activation="int4", weight="int4")
    yield core(4, 3, "weight_stationary", activation="uint8", weight="int6")
    yield core(4, 3, "weight_stationary", activation="int16", weight="int16")
    yield core(3, 4, "input_stationary", activation="int10", weight="int8")
    for depth in (2, 16, 28, 128):
        yield core(3, 4, "weight_stationary", array__accumulator_depth=depth)


def _ternary_fpga() -> Iterator[Values]:
    def core(mu: int, tables: int, ports: int, **more: Any) -> Values:
        return _ternary(
            array__group_size=mu,
            array__tables=tables,
            array__fetch_ports=ports,
            **{**_CHAINS, **more},
        )

    for mu, tables, ports in (
        (1, 3, 2), (1, 20, 2), (2, 1, 2), (2, 6, 2), (2, 16, 1), (2, 2, 12), (3, 3, 3), (3, 10, 1),
        (4, 2, 2), (4, 5, 1), (5, 1, 1),
    ):  # fmt: skip
        yield core(mu, tables, ports)
    for activation in ("int4", "int12", "int16", "uint8"):
        yield core(2, 4, 2, activation=activation)
    yield core(3, 3, 2, activation="int4")
    yield core(2, 4, 2, accumulator="int48")
    yield core(2, 4, 2, accumulator="int24", overflow="saturate", max_k=1 << 24)
    for stages in (1, 2, 3):
        yield core(2, 6, 2, pipeline__reduce=stages)
    yield core(3, 5, 2, pipeline__reduce=1, pipeline__table=2)
    yield core(4, 2, 2, pipeline__table=2, activation="int10")
    yield core(1, 9, 2, pipeline__reduce=2)
    yield core(2, 3, 4, array__accumulator_depth=4)
    yield core(2, 3, 4, array__accumulator_depth=2, pipeline__reduce=1)
    yield core(2, 3, 6, array__accumulator_depth=64)
    yield core(2, 2, 4, array__accumulator_depth=48)
    yield core(2, 3, 4, array__clusters=2)
    for weight in ("int1", "int2", "int4"):
        yield core(3, 3, 2, weight=weight)
    for tables, ports in ((4, 3), (16, 2)):
        yield core(1, tables, ports, array__method="select")
    yield core(1, 6, 2, array__method="select", activation="int4", pipeline__reduce=1)
    yield core(1, 6, 2, array__method="multiply", activation="int4")
    yield core(1, 6, 2, array__method="multiply")
    for shape in ((2, 6, 2), (3, 3, 3)):
        yield core(*shape, **_CELLS)
    yield core(2, 6, 2, pipeline__reduce=2, **_CELLS)
    yield core(1, 6, 3, array__method="select", **_CELLS)
    for fmt in ("fp16", "bf16", "fp8_e4m3", "fp8_e5m2"):
        for reduce, accumulate in ((0, 0), (1, 2), (3, 4), (4, 1), (2, 3)):
            if fmt in ("fp16", "bf16") or reduce < 2:
                yield _ternary(
                    activation=fmt,
                    array__tables=2,
                    array__fetch_ports=2,
                    array__fetch="binary",
                    pipeline__reduce=reduce,
                    pipeline__accumulate=accumulate,
                )
    yield _ternary(activation="fp16", accumulator="fp16", array__tables=4, array__fetch_ports=2,
                   array__fetch="one_hot", pipeline__accumulate=1)  # fmt: skip
    yield _ternary(activation="bf16", array__tables=3, array__fetch_ports=3, array__group_size=1,
                   array__fetch="binary", pipeline__accumulate=1)  # fmt: skip
    yield _ternary(activation="bf16", array__tables=2, array__fetch_ports=2, array__group_size=1,
                   array__method="multiply", array__fetch="binary")  # fmt: skip


def validation_points(seed: int, count: int) -> list[Values]:
    """Return `count` cores for an FPGA that calibration does not use, of each kind in turn.

    Some have rows of totals in block memories.
    """
    draw = random.Random(seed)
    calibrated = list(calibration_points())
    components = [_any_systolic, _any_ternary]
    points: list[Values] = []
    while len(points) < count:
        values = components[len(points) % len(components)](draw)
        try:
            config_of(values)
        except (ConfigError, ValueError):
            continue
        if values not in calibrated and values not in points:
            points.append(values)
    return points


_DEPTHS = (1, 1, 2, 16, 200)
"""Rows of totals: registers, memories of look-up tables, block memories."""


def _any_systolic(draw: random.Random) -> Values:
    flow = draw.choice(("output_stationary", "weight_stationary", "input_stationary"))
    values: Values = {
        "family": "systolic",
        "activation": draw.choice(("int4", "int6", "int8", "int8", "int10", "int16", "uint8")),
        "weight": draw.choice(("int4", "int6", "int8", "int8", "int10", "int16")),
        "accumulator": draw.choice(("exact", "exact", "int32", "int24")),
        "array.rows": draw.randint(4, 32),
        "array.cols": draw.randint(4, 32),
        "array.dataflow": flow,
        "array.broadcast": draw.choice((4, 8, 16, 16)),
        "pipeline.pe": draw.choice((0, 0, 1, 2)),
    }
    if flow != "output_stationary":
        values["array.accumulator_depth"] = draw.choice(_DEPTHS)
    return values


def _any_ternary(draw: random.Random) -> Values:
    columns = draw.randint(4, 32)
    if draw.random() < 0.2:
        return _ternary(
            activation=draw.choice(("fp16", "bf16", "fp8_e4m3")),
            array__group_size=draw.choice((1, 2)),
            array__tables=draw.randint(2, 6),
            array__fetch_ports=draw.randint(2, 12),
            array__fetch=draw.choice(("binary", "one_hot")),
            pipeline__reduce=draw.choice((0, 1)),
            pipeline__accumulate=draw.choice((0, 1)),
        )
    mu = draw.choice((1, 2, 2, 2, 3, 3, 4))
    return _ternary(
        activation=draw.choice(("int4", "int8", "int8", "int8", "int10", "int16", "uint8")),
        accumulator=draw.choice(("exact", "exact", "int32")),
        array__method=draw.choice(("lut", "lut", "select")) if mu == 1 else "lut",
        array__group_size=mu,
        array__tables=draw.randint(max(1, 4 // mu), 32 // mu),
        array__fetch_ports=columns,
        array__fetch="binary",
        array__reduction="adders",
        array__accumulator_depth=draw.choice(_DEPTHS),
        pipeline__table=draw.choice((1, 1, 2)),
        pipeline__reduce=draw.choice((0, 0, 1, 2)),
    )
