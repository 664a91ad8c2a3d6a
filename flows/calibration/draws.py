# SPDX-License-Identifier: Apache-2.0
"""Configurations drawn from everything that the families' models allow.

What may stand where is read from the JSON Schema of a family's model, so that every family is
drawn, also one from another package, with every option.  Rules that a schema does not show are
obeyed by drawing again.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from flows.build.load import parse_config
from hwgen.core.params.base import FamilyConfig
from hwgen.core.registry import families, family
from hwgen.errors import ConfigError

NAME = "core"
"""Name of every design, so that equal ones have equal Verilog."""

USUAL = 0.5
"""Share of the parameters that keep their defaults; of formats it is half of that."""

RARELY = 0.2
"""Share of the lists that are empty by default, which add hardware beside the array, that are
drawn."""

MOST = 6
"""Largest size that is drawn, unless the default is larger than `LARGE`."""

LARGE = 1024

# Of systolic arrays one draw in 1,500 is legal, and a draw takes a third of a millisecond.
_ATTEMPTS, _REPAIRS = 50_000, 12
_FIXED = ("name", "family", "target", "memories", "protect")
_FORMATS = ("activation", "weight")


@dataclass(frozen=True)
class Draw:
    """Settings of how parameters are drawn.

    Parameters
    ----------
    random : random.Random
    most : int
        By how much the largest size that is drawn exceeds the smallest that is legal.
    usual : float
        Share of the parameters that keep their defaults; of formats it is half of that.
    buffers : bool
        Whether sizes of buffers are drawn like others; else they are the smallest.
    repair : bool
        Whether what breaks a rule gets its default, before everything is drawn again: rare
        combinations are found so that rejection alone hardly finds.
    choices : mapping
        Of parameters, by dotted name, the values of which one is taken.
    """

    random: random.Random
    most: int = MOST
    usual: float = USUAL
    buffers: bool = False
    repair: bool = False
    choices: Mapping[str, Sequence[Any]] = field(default_factory=dict)


def alone() -> tuple[str, ...]:
    """Return the families of cores that multiply matrices.

    Those that hold cores are too large to calibrate on; other operations have no bills yet.
    """
    return tuple(
        name
        for name in families()
        if not _holds_cores(name)
        and family(name).params_class.operations is FamilyConfig.operations
    )


def drawn(name: str, draw: Draw) -> FamilyConfig:
    """Return a legal configuration of a family.

    Raises
    ------
    RuntimeError
        If its rules let none through.
    """
    for _ in range(_ATTEMPTS):
        values = {"name": NAME, "family": name, **_core(name, draw)}
        for parameter, options in draw.choices.items():
            *path, last = parameter.split(".")
            index = values
            for key in path:
                index = index.setdefault(key, {})
            index[last] = draw.random.choice(options)
        for _ in range(_REPAIRS if draw.repair else 1):
            try:
                return _checked(values)
            except ConfigError as error:
                if not any([
                    _removed(values, problem.field)
                    for problem in error.problems
                    if problem.field not in draw.choices
                ]):  # fmt: skip
                    break
    raise RuntimeError(f"no legal configuration of {name} in {_ATTEMPTS} draws")


def _removed(values: dict[str, Any], name: str) -> bool:
    """Leave a parameter to its default; return whether it was there."""
    *path, last = name.split(".")
    index: Any = values
    for key in path:
        index = index.get(key) if isinstance(index, dict) else None
    if not isinstance(index, dict) or last not in index or last in _FIXED:
        return False
    del index[last]
    return True


def _checked(values: Mapping[str, Any]) -> FamilyConfig:
    return parse_config(json.dumps(values), f"{NAME}.yaml", quickly=True)  # JSON is YAML


@cache
def _schema(name: str) -> Mapping[str, Any]:
    return family(name).params_class.model_json_schema()


def _core(name: str, draw: Draw) -> dict[str, Any]:
    """Draw the parameters of a family, those of the cores in it included."""
    schema, model = _schema(name), family(name).params_class
    result: dict[str, Any] = _object(schema, schema, draw)
    for core in _core_fields(name):
        others = [
            other for other in families()
            if not _holds_cores(other) and model.cores_in({core: {"family": other}})
        ]  # fmt: skip
        inner = draw.random.choice(others)
        values = _core(inner, draw)
        values = {key: value for key, value in values.items() if key not in ("post", *_FIXED)}
        result[core] = {"family": inner, **values}
        assert model.cores_in(result)
    return result


@cache
def _core_fields(name: str) -> tuple[str, ...]:
    """Return the parameters that are cores: those that a core in their place is found in."""
    result = family(name).params_class.cores_in
    cores = [{"family": other} for other in families()]
    return tuple(index for index in _schema(name)["properties"]
                 if any(result({index: core}) for core in cores))  # fmt: skip


def _holds_cores(name: str) -> bool:
    config: Any = family(name).params_class
    usual: Any = FamilyConfig
    return config.cores_in.__func__ is not usual.cores_in.__func__


def _object(schema: Mapping[str, Any], root: Mapping[str, Any], draw: Draw) -> dict[str, Any]:
    result = {}
    for key, entry in schema["properties"].items():
        usual = draw.usual / 2 if key in _FORMATS else draw.usual
        if entry.get("default") == []:
            usual = 1 - RARELY
        keeps = "$ref" not in entry and not _is_large(entry) and draw.random.random() < usual
        if key in _FIXED or keeps:
            continue
        value = _value(entry, root, draw)
        if value is not None:
            result[key] = value
    return result


def _is_large(entry: Mapping[str, Any]) -> bool:
    """Return whether the default of a parameter is a size that makes large designs."""
    default = entry.get("default")
    counts = entry.get("unit") != "bits"
    return type(default) is int and counts and MOST < default <= LARGE


def _value(entry: Mapping[str, Any], root: Mapping[str, Any], draw: Draw) -> Any:
    """Draw a value; None leaves the default."""
    if "$ref" in entry:
        entry = {**entry, **root["$defs"][entry["$ref"].rpartition("/")[2]]}
    if "drawn" in entry or "enum" in entry:
        return draw.random.choice(entry.get("drawn") or entry["enum"])
    if "anyOf" in entry:
        return _value({**entry["anyOf"][draw.random.randrange(len(entry["anyOf"]))],
                       "default": entry.get("default")}, root, draw)  # fmt: skip
    component = entry.get("type")
    if component == "object" and "properties" in entry:
        return _object(entry, root, draw)
    if component == "boolean":
        return draw.random.random() < 0.5
    if component == "integer":
        return _integer(entry, draw)
    if component == "array" and "enum" in entry["items"]:
        options = entry["items"]["enum"]
        most = min(len(options), 3)
        return draw.random.sample(options, draw.random.randint(entry.get("minItems", 0), most))
    return None


def _integer(entry: Mapping[str, Any], draw: Draw) -> int:
    """Draw an integer: small ones are as likely as large ones of twice as many."""
    low, high = int(entry.get("minimum", 0)), int(entry.get("maximum", 1 << 20))
    default = entry.get("default")
    if entry.get("unit") == "KiB" and not draw.buffers:
        return low
    if low < MOST and not (isinstance(default, int) and default > LARGE):
        high = min(high, low + draw.most)
    start = max(low, 1)
    value = round(math.exp(draw.random.uniform(math.log(start - 0.49), math.log(high + 0.49))))
    return low if low == 0 and draw.random.random() < 0.3 else max(low, min(high, value))
