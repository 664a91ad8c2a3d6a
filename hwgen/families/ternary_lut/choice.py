# SPDX-License-Identifier: Apache-2.0
"""What the generator chooses in a ternary-LUT core: its structure, and registers for a clock.

The structure is the one whose column was measured to be the smallest.  Registers are added one by
one where the slowest path leads through logic that they divide, until it is fast enough by the
limit that estimates show, too (`hwgen.core.clock_limit`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hwgen.core.clock_limit import Limit, limit_of
from hwgen.core.params.base import AUTO, check_rules
from hwgen.families.ternary_lut.alignment import chosen_alignment

if TYPE_CHECKING:
    from hwgen.families.ternary_lut.params import TernaryLutConfig


DATA = Path(__file__).with_name("measured.json")


@cache
def _columns(technology: str) -> Mapping[str, float] | None:
    """Return the area of a column by its structure, None if it has not been measured."""
    found = json.loads(DATA.read_text(encoding="utf-8"))["technologies"].get(technology)
    return None if found is None else dict(found["columns_um2"])


def smallest(technology: str) -> dict[str, str]:
    """Return the fields of the structure whose column was measured to be the smallest.

    Where none has been measured it is the one for FPGAs, whose logic cells have multiplexers and
    carry chains.
    """
    found = _columns(technology)
    if found is None:
        return {"fetch": "binary", "reduction": "adders"}
    fetch, reduction = min(found, key=found.__getitem__).split()
    return {"fetch": fetch, "reduction": reduction}


Config = TypeVar("Config", bound="TernaryLutConfig")

LEAST = {"table": 1, "reduce": 0, "accumulate": 0}
"""Smallest number of registers of each kind."""

MOST = 4
"""Largest number of registers of each kind."""


def sum_groups(tables: int, registers: int) -> tuple[int, ...]:
    """Return how many addends each stage of a sum of compressors adds at most.

    The first register stands behind the reads, the others divide the sum, so that every stage has
    about as many addends for each sum; the last stage adds the old total, too.
    """
    groups, left = [], tables
    for stage in range(registers - 1):
        groups.append(ceil(left ** (1 / (registers - stage))))
        left = ceil(left / groups[-1])
    return (*groups, left)


def divider(config: TernaryLutConfig, limit: Limit) -> str | None:
    """Return the field of the pipeline whose registers divide the slowest path; None if none does.

    Parameters
    ----------
    config : TernaryLutConfig
    limit : Limit
        Of its hardware.
    """
    roles = limit.roles
    if "column" not in roles:
        return "table" if "table" in roles else None
    if not config.is_float or "accumulate" not in roles:
        return "reduce"
    if config.aligned:
        return "reduce" if "reduce" in roles else "accumulate"
    return "accumulate" if config.pipeline.reduce or "reduce" not in roles else "reduce"


def registers_for(config: Config, automatic: Sequence[str]) -> tuple[Config, list[str]]:
    """Return a configuration with the registers that meet its clock target, and what cannot.

    Parameters
    ----------
    config : TernaryLutConfig
    automatic : sequence of str
        The fields of its pipeline to choose.
    """
    clock = config.target.clock_mhz
    numbers = {field: LEAST[field] for field in automatic}
    best: Limit | None = None
    while True:
        trial = with_pipeline(config, numbers)
        limit = limit_of(trial)
        if limit is None:
            unknown = (
                "must be a number with target.technology"
                f" {config.target.technology}, whose delays have not been measured"
            )
            return config, [f"pipeline.{field}: {unknown}" for field in automatic]
        if limit.allows(clock):
            return trial, []
        if best is None or limit.period_ns < best.period_ns:
            best = limit
        field = divider(trial, limit)
        if field not in numbers or numbers[field] == MOST:
            break
        numbers[field] += 1
    field = field if field in numbers else automatic[0]
    problem = (
        f"pipeline.{field}: auto cannot reach target.clock_mhz {clock:g} in"
        f" {config.target.technology}; any number of registers allows at most {best.text}: lower"
        " the clock, or choose a smaller core"
    )
    return config, [problem]


def with_pipeline(config: Config, numbers: dict[str, int]) -> Config:
    """Return a configuration with other registers."""
    return config.model_copy(update={"pipeline": config.pipeline.model_copy(update=numbers)})


def chosen(config: Config, automatic: Sequence[str]) -> Config:
    """Return a configuration with everything chosen that is `auto`.

    Parameters
    ----------
    config : TernaryLutConfig
        With numbers in its pipeline.
    automatic : sequence of str
        The fields of its pipeline to choose: ``table``, ``reduce``, ``accumulate``.

    Raises
    ------
    PydanticCustomError
        As a validator's, if the clock target cannot be reached or delays are not known.
    """
    array = config.array
    structure = smallest(config.target.technology)
    aligned = chosen_alignment(config)
    if config.is_float and not config.aligned:
        structure = {**structure, "reduction": "adders"}
    update = {f: way for f, way in structure.items() if getattr(array, f) == AUTO} | aligned
    config = config.model_copy(update={"array": array.model_copy(update=update)})
    if not config.is_float:
        automatic = [field for field in automatic if field != "accumulate"]
    if not automatic:
        return config
    config, broken = registers_for(config, automatic)
    return check_rules(config, broken)
