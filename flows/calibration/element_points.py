# SPDX-License-Identifier: Apache-2.0
"""Cores with the processing elements that several families share, to calibrate on and to check."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain
from typing import Any

from hwgen.config.elements import SERIAL

Values = dict[str, Any]
"""A configuration by dotted parameters."""

SPATIAL = ("broadcast_2d", "adder_tree", "cube")
"""Families that compute a tile in place."""


def core(family: str, **more: Any) -> Values:
    """Return the parameters of a core of a family; a dot is written as two underscores."""
    return {"family": family, **{name.replace("__", "."): value for name, value in more.items()}}


def spatial_multipliers() -> Iterator[Values]:
    """Yield cores of the spatial families with multipliers."""

    def flat(rows: int, cols: int, **more: Any) -> Values:
        return core("broadcast_2d", array__rows=rows, array__cols=cols, **more)

    def deep(depth: int, cols: int, **more: Any) -> Values:
        return core("adder_tree", array__depth=depth, array__cols=cols, **more)

    yield flat(4, 4)
    yield flat(2, 12)
    yield flat(12, 2)
    yield flat(3, 3, activation="int4", weight="int6")
    yield flat(3, 3, activation="uint8", weight="int16", pipeline__pe=1)
    yield flat(2, 3, accumulator="int24", overflow="saturate", max_k=1 << 24)
    # Flags that reach many accumulators: what the tree of buffers takes.
    for rows, cols in ((8, 12), (16, 16), (24, 12)):
        yield flat(
            rows, cols, activation="int4", weight="int4", accumulator="int32", pipeline__pe=1
        )
    yield core("systolic", array__rows=4, array__cols=16, activation="int4", weight="int4",
               accumulator="int32", pipeline__pe=1)  # fmt: skip
    for depth, cols in ((2, 4), (3, 4), (4, 3), (6, 2), (8, 3), (16, 2), (24, 1)):
        yield deep(depth, cols)
    for stages in (1, 2):
        yield deep(8, 2, pipeline__pe=stages)
        yield deep(4, 3, activation="int4", weight="int4", pipeline__pe=stages)
        yield deep(12, 2, weight="int6", pipeline__pe=stages)
    yield deep(5, 2, activation="uint8", weight="uint8")
    yield deep(4, 2, activation="int16", weight="int10", pipeline__pe=1)
    yield deep(16, 2, activation="int4", weight="int2")
    yield core("cube", array__rows=3, array__cols=2, array__depth=4)
    yield core("cube", array__rows=6, array__cols=2, array__depth=2, pipeline__pe=1)


def systolic_digits() -> Iterator[Values]:
    """Yield systolic arrays whose elements multiply by digits."""

    def array(rows: int, cols: int, encoding: str = "booth4", **more: Any) -> Values:
        values = core("systolic", array__rows=rows, array__cols=cols, array__pe="carry_save")
        return {**values, **core("systolic", array__encoding=encoding, **more)}

    yield array(4, 4)
    yield array(4, 3, "ent")
    yield array(2, 10)
    yield array(10, 2, "ent")
    yield array(18, 2)
    yield array(3, 9, array__broadcast=4)
    for stages in (1, 2):
        yield array(3, 3, pipeline__pe=stages)
        yield array(3, 2, "ent", activation="int12", pipeline__pe=stages)
    for a, w in (("int4", "int4"), ("int16", "int8"), ("uint8", "uint8"), ("int6", "int12")):
        yield array(3, 2, activation=a, weight=w)
        yield array(3, 2, "ent", activation=a, weight=w)
    for spacing in (1, 3, 16):
        yield array(3, 3, array__carry_spacing=spacing)
    yield array(2, 2, accumulator="int48")


def spatial_digits() -> Iterator[Values]:
    """Yield cores of the spatial families whose elements multiply by digits."""

    def flat(rows: int, cols: int, encoding: str = "booth4", **more: Any) -> Values:
        return core("broadcast_2d", array__rows=rows, array__cols=cols,
                     array__pe="carry_save", array__encoding=encoding, **more)  # fmt: skip

    def deep(depth: int, cols: int, pe: str, **more: Any) -> Values:
        return core("adder_tree", array__depth=depth, array__cols=cols, array__pe=pe, **more)

    yield flat(4, 4)
    yield flat(4, 4, "ent", pipeline__pe=1)
    yield flat(2, 12, pipeline__pe=1)
    yield flat(12, 2, "ent", activation="int4", weight="int6")
    yield flat(12, 2, activation="int16")
    yield flat(12, 1, "ent", activation="int16")
    yield flat(8, 1, "ent", activation="uint8")
    for pe in ("carry_save", "same_weight"):
        for depth, cols in ((2, 4), (5, 3), (8, 3), (16, 1)):
            yield deep(depth, cols, pe)
        for stages in (1, 2):
            yield deep(6, 2, pe, pipeline__pe=stages)
            yield deep(12, 2, pe, pipeline__pe=stages, array__encoding="ent")
            yield deep(4, 2, pe, weight="int4", pipeline__pe=stages, array__carry_spacing=4)
        yield deep(4, 1, pe, activation="int16", array__encoding="ent")
        yield deep(8, 1, pe, activation="uint8", weight="uint8")
        yield deep(8, 2, pe, activation="int4", weight="int4", array__carry_spacing=1)
        yield core("cube", array__rows=3, array__cols=2, array__depth=4, array__pe=pe)
        yield core("cube", array__rows=8, array__cols=1, array__depth=3, array__pe=pe,
                    array__encoding="ent", pipeline__pe=1)  # fmt: skip


def spatial_serials() -> Iterator[Values]:
    """Yield cores of the spatial families whose elements take one digit at a time."""

    def flat(rows: int, cols: int, pe: str = "serial_column", **more: Any) -> Values:
        return core("broadcast_2d", array__rows=rows, array__cols=cols, array__pe=pe, **more)

    def deep(depth: int, cols: int, **more: Any) -> Values:
        return core(
            "adder_tree", array__depth=depth, array__cols=cols, array__pe="serial_group", **more
        )

    yield flat(3, 3)
    yield flat(2, 12, pipeline__pe=1)
    yield flat(12, 2, array__encoding="ent")
    yield flat(8, 8, pipeline__pe=1, array__encoding="ent")
    for queue in (1, 4):
        yield flat(4, 4, array__queue=queue, pipeline__pe=1)
        yield flat(3, 2, "serial_digit", array__queue=queue, array__encoding="ent")
        yield deep(8, 2, array__queue=queue, pipeline__pe=1)
    yield flat(3, 3, "serial_digit", pipeline__pe=1)
    yield flat(2, 4, "serial_digit", activation="int4", weight="int6", array__carry_spacing=1)
    yield flat(3, 3, activation="int16", weight="int10", pipeline__pe=1)
    yield flat(3, 3, activation="uint8", weight="int4", array__encoding="ent", pipeline__pe=1)
    yield flat(2, 3, accumulator="int48", array__carry_spacing=1, pipeline__pe=1)
    for stages in (0, 1, 2):
        yield deep(8, 3, pipeline__pe=stages, array__encoding="ent")
    for stages in (0, 1):
        yield deep(16, 2, pipeline__pe=stages)
    yield deep(8, 1, pipeline__pe=2, array__encoding="ent", activation="int16", weight="int6")
    yield deep(24, 1, pipeline__pe=2, activation="int6", weight="int4")
    yield core("cube", array__rows=3, array__cols=2, array__depth=4, array__pe="serial_column")
    yield core("cube", array__rows=4, array__cols=3, array__depth=12, array__pe="serial_group",
                array__encoding="ent", pipeline__pe=1)  # fmt: skip


def post_processing() -> Iterator[Values]:
    """Yield cores with post-processing."""

    def lanes(rows: int, cols: int, outputs: list[str], **more: Any) -> Values:
        return core("broadcast_2d", array__rows=rows, array__cols=cols, activation="int4",
                     weight="int4", post__outputs=outputs, **more)  # fmt: skip

    yield lanes(1, 4, ["int8"])
    yield lanes(1, 3, ["int8"], post__columns=False)
    yield lanes(1, 3, ["raw"])
    yield lanes(1, 3, ["int16", "raw"], accumulator="int24")
    yield lanes(1, 3, ["int32"], accumulator="int32", post__roundings=["half_up", "floor"])
    yield lanes(1, 2, ["int8"], accumulator="int48", post__activations=["relu", "leaky"])
    yield lanes(2, 2, ["int4"], accumulator="int16", post__columns=False)
    yield lanes(2, 2, ["uint8", "int16"], accumulator="int20", post__activations=["leaky"])


def element_points() -> Iterator[Values]:
    """Yield the cores to calibrate on in standard cells."""
    return chain(
        spatial_multipliers(),
        systolic_digits(),
        spatial_digits(),
        spatial_serials(),
        post_processing(),
    )


def any_spatial(draw: random.Random, *, fpga: bool) -> Values:
    """Return a core of a spatial family, one of four with serial PEs."""
    family = draw.choice(SPATIAL)
    element = _any_element(draw, ("mac", "carry_save", "same_weight"))
    depths, cube_depths = range(4, 21), range(2, 9)
    if draw.random() < 0.25:
        pe = draw.choice(SERIAL)
        element = {
            "array.pe": pe,
            "array.encoding": draw.choice(("booth4", "ent")),
            "array.carry_spacing": draw.choice((1, 2, 2)),
            "array.queue": draw.choice((1, 2, 2, 4)),
        }
        depths = cube_depths = range(8, 21, 4) if pe == "serial_group" else range(4, 5)
    values: Values = {
        "family": family,
        "activation": draw.choice(("int4", "int6", "int8", "int8", "int10", "uint8")),
        "weight": draw.choice(("int4", "int6", "int8", "int8", "int10")),
        "accumulator": draw.choice(("exact", "exact", "int32")),
        **element,
    }
    if family == "broadcast_2d":
        values |= {"array.rows": draw.randint(4, 24), "array.cols": draw.randint(4, 24)}
    elif family == "adder_tree":
        values |= {"array.cols": draw.randint(4, 20), "array.depth": draw.choice(depths)}
    else:
        values |= {
            "array.rows": draw.randint(4, 10),
            "array.cols": draw.randint(4, 10),
            "array.depth": draw.choice(cube_depths),
        }
    values["pipeline.pe"] = draw.choice((0, 1, 2))
    if draw.random() < 0.3:
        values["post.outputs"] = draw.choice((["int8"], ["raw", "int8"], ["int16"]))
        values["post.columns"] = draw.choice((True, False))
    return values


def any_digit_array(draw: random.Random, *, fpga: bool) -> Values:
    """Return a systolic array whose elements multiply by digits."""
    return {
        "family": "systolic",
        "activation": draw.choice(("int4", "int6", "int8", "int8", "int10", "int16", "uint8")),
        "weight": draw.choice(("int4", "int6", "int8", "int8", "int10", "int16")),
        "accumulator": draw.choice(("exact", "exact", "int32")),
        "array.rows": draw.randint(4, 24),
        "array.cols": draw.randint(4, 24),
        "array.broadcast": draw.choice((4, 8, 16, 16)),
        **_any_element(draw, ("carry_save",)),
        "pipeline.pe": draw.choice((0, 0, 1, 2)),
    }


def _any_element(draw: random.Random, elements: tuple[str, ...]) -> Values:
    pe = draw.choice(elements)
    if pe == "mac":
        return {}
    return {
        "array.pe": pe,
        "array.encoding": draw.choice(("booth4", "ent")),
        "array.carry_spacing": draw.choice((2, 4, 8, 8, 12)),
    }
