# SPDX-License-Identifier: Apache-2.0
"""Realistic designs: neighbours of shipped, of published and of selected configurations.

`flows.calibration.draws` draws from everything that is legal, of which little looks like what
people build: arrays of 16 and more PEs in common formats.  These do; ``realistic.yaml`` lists what
they start from.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from flows.build.load import parse_config
from flows.calibration.draws import NAME
from hwgen.core.params.base import FamilyConfig
from hwgen.errors import ConfigError

BASES = Path(__file__).with_name("realistic.yaml")
CONFIGS = Path(__file__).resolve().parents[2] / "configs"

FEWEST_PES = 16
"""Multiply-accumulates a cycle that a design which multiplies has at least."""

FORMATS = (
    ("int8", "int8"), ("int8", "int4"), ("int4", "int4"), ("int16", "int8"), ("int8", "ternary"),
    ("int8", "int2"), ("fp16", "int4"), ("fp16", "ternary"), ("fp8_e4m3", "fp8_e4m3"),
    ("mxfp8_e4m3", "mxfp8_e4m3"), ("mxfp8_e4m3", "mxfp4"), ("mxfp4", "mxfp4"),
)  # fmt: skip
"""Common pairs of formats of activations and weights."""

OTHER_FORMATS = 0.4
"""Share of the designs that have other formats than what they are neighbours of."""

FACTORS = (0.5, 0.75, 1.0, 1.5, 2.0)
"""By which sizes are multiplied."""

CHANGES = 4
"""Parameters that are changed at most."""

_ATTEMPTS = 200

Values = dict[str, Any]


@cache
def bases() -> tuple[str, ...]:
    """Return the configurations that neighbours are drawn of, as JSON."""
    document = yaml.safe_load(BASES.read_text(encoding="utf-8"))
    shipped = [
        yaml.safe_load((CONFIGS / name).read_text(encoding="utf-8")) for name in document["shipped"]
    ]
    values: list[Values] = [*shipped, *document["others"]]
    for each in values:
        each.pop("target", None)
        each["name"] = NAME
    return tuple(map(json.dumps, values))


def parse(text: str) -> FamilyConfig:
    """Return a configuration; registers that are ``auto`` are chosen."""
    return parse_config(text, f"{NAME}.yaml", quickly=True)


def draw(
    seed: int | str,
    count: int,
    most_macs: int = 1024,
    parse: Callable[[str], FamilyConfig] = parse,
) -> list[FamilyConfig]:
    """Return neighbours of all bases in turn, no two of them the same.

    Parameters
    ----------
    seed : int or str
    count : int
    most_macs : int
        Multiply-accumulates a cycle of the largest.
    parse : callable, optional
        Returns the configuration of a text.
    """
    return list(islice(neighbours(seed, most_macs, parse), count))


def neighbours(
    seed: int | str, most_macs: int, parse: Callable[[str], FamilyConfig] = parse
) -> Iterator[FamilyConfig]:
    """Yield neighbours of all bases in turn, as `draw` does, without end."""
    rng = random.Random(f"realistic {seed}")
    digests = set()
    while True:
        for base in rng.sample(bases(), len(bases())):
            config = _neighbour(json.loads(base), rng, most_macs, parse)
            if config is not None and config.digest not in digests:
                digests.add(config.digest)
                yield config


def _neighbour(
    base: Values, rng: random.Random, most_macs: int, parse: Callable[[str], FamilyConfig]
) -> FamilyConfig | None:
    """Return a legal configuration that differs in a few parameters; None if none is found."""
    for _ in range(_ATTEMPTS):
        values = deepcopy(base)
        core = values.get("compute", values)
        if "weight" in core and rng.random() < OTHER_FORMATS:
            core["activation"], core["weight"] = rng.choice(FORMATS)
        sizes = list(_sizes(core))
        for group, key in rng.sample(sizes, min(len(sizes), rng.randint(1, CHANGES))):
            group[key] = _changed(group[key], rng)
        try:
            config = parse(json.dumps(values))
        except ConfigError:
            continue
        if not config.multiplies or FEWEST_PES <= config.macs_per_cycle <= most_macs:
            return config
    return None


def _sizes(core: Values) -> Iterator[tuple[Values, str]]:
    """Yield the sizes and stages of a core, each with the group that it is in."""
    for name in ("array", "pipeline"):
        group = core.get(name, {})
        for key, value in group.items():
            if type(value) is int:
                yield group, key


def _changed(value: int, rng: random.Random) -> int:
    if value < 4:  # stages, group sizes: one more or less
        return max(0, value + rng.choice((-1, 0, 1)))
    return max(1, round(value * rng.choice(FACTORS)))
