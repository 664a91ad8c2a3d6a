# SPDX-License-Identifier: Apache-2.0
"""Parameters of configurations, read from the model of a family.

Error messages, templates, the reference page and ``hwgen families`` all describe a parameter by
the one `Parameter` made here from the model's JSON Schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

from hwgen.config.base import Model

Path = tuple[str, ...]

_TYPES = {
    "integer": "an integer",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "a group of parameters",
    "null": "null",
}
_OUTER = ("name", "target", "memories", "protect", "post")
"""What an engine says for its core."""

_NUMBERS = re.compile(r"([1-9][0-9]*|0)")


@dataclass(frozen=True)
class Parameter:
    """One parameter, or one group of parameters.

    Attributes
    ----------
    path : tuple of str
        Keys from the root of the file.
    types : tuple of str
        JSON types its value may have; of a group: ``object``.
    choices : tuple
        The legal values where they are listed.
    bounds : str
        Bounds of a number as text: ``1..256``, ``at least 1``; empty if there are none.
    minimum, maximum : float or None
        The same as numbers, where they are themselves legal.
    members : tuple of str
        Legal keys of a group.
    entries : tuple
        The legal entries of a list where they are listed.
    stands_for : str
        Key of a group whose value may stand in the place of the group.
    required : bool
        Whether a file must give it.
    default : object
        Value if a file does not, as plain data.
    description, unit : str
        For the reader.
    words : str
        The legal values in words, where listing them would be long.
    """

    path: Path
    types: tuple[str, ...]
    choices: tuple[Any, ...] = ()
    bounds: str = ""
    minimum: float | None = None
    maximum: float | None = None
    members: tuple[str, ...] = ()
    entries: tuple[Any, ...] = ()
    required: bool = False
    default: Any = None
    description: str = ""
    unit: str = ""
    stands_for: str = ""
    words: str = ""

    @property
    def field(self) -> str:
        """Dotted path."""
        return ".".join(self.path)

    @property
    def is_group(self) -> bool:
        """Whether it holds parameters instead of a value."""
        return bool(self.members)

    @property
    def type_text(self) -> str:
        """The type of the value in words: ``an integer``, ``a number or null``, ..."""
        return either([_TYPES.get(t, t) for t in self.types])

    @property
    def allowed(self) -> str:
        """Legal values: ``1..256``, ``wrap or saturate``, or their type if nothing is tighter."""
        if self.words:
            return self.words
        values = ranges(self.choices)
        if self.bounds:
            values.append(self.bounds)
        return either(values) if values else self.type_text


def either(words: Sequence[str]) -> str:
    """Join words: ``a, b or c``."""
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def ranges(names: Sequence[Any]) -> list[str]:
    """Shorten runs of numbered names: ``int2, int3, int4`` becomes ``int2..int4``."""
    texts = [yaml_value(name) for name in names]
    shortened: list[str] = []
    start = 0
    for end in range(1, len(texts) + 1):
        if end < len(texts) and _follows(texts[end - 1], texts[end]):
            continue
        run = texts[start:end]
        shortened += [f"{run[0]}..{run[-1]}"] if len(run) > 2 else run
        start = end
    return shortened


def _follows(first: str, second: str) -> bool:
    """Return whether two names differ in one number alone, which is one more in the second."""
    a, b = _NUMBERS.split(first), _NUMBERS.split(second)
    different = [place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y]
    if len(a) != len(b) or len(different) != 1 or not a[0] or not different[0] % 2:
        return False
    return int(b[different[0]]) == int(a[different[0]]) + 1


def yaml_value(value: Any) -> str:
    """Return plain data as it stands in a YAML file."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        text = repr(value)
        return f".{text}".replace(".-", "-.") if text[-1] in "fn" else text
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(yaml_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {yaml_value(item)}' for key, item in value.items())}}}"
    return str(value)


class Configuration(Model):
    """A model of a configuration, which may hold cores in some of its fields."""

    shared_fields: ClassVar[frozenset[str]] = frozenset()
    """Names of the fields that every configuration has; they come last in templates."""

    @classmethod
    def cores_in(cls, data: Mapping[str, Any]) -> Mapping[str, type[Configuration]]:
        """Return the models of the cores that a configuration holds, by field: none."""
        return {}


def inner_parameters(
    model: type[Configuration], data: Mapping[str, Any]
) -> Mapping[Path, Parameter]:
    """Return the parameters of a model and of the cores that a configuration holds."""
    by_path = dict(parameters(model))
    for field, core in model.cores_in(data).items():
        for path, parameter in parameters(core).items():
            members = parameter.members
            if not path:  # what the engine says for its core
                members = tuple(key for key in members if key not in _OUTER)
            inner = (*field.split("."), *path)
            by_path[inner] = replace(parameter, path=inner, members=members)
    return by_path


@cache
def parameters(model: type[Configuration]) -> Mapping[Path, Parameter]:
    """Return every parameter and group of a model by path, the root group included.

    Groups follow the plain parameters beside them, and what every family has (`target`) comes
    last: the order of templates and of the reference.
    """
    schema = model.model_json_schema()
    shared = model.shared_fields
    # Not `resolved()`, which may leave out what the default of another parameter rules out.
    defaults = model.model_validate({"name": "core"}).model_dump(mode="json")
    by_path = {p.path: p for p in _walk(schema, schema.get("$defs", {}), (), defaults, False)}
    order = sorted(by_path, key=lambda path: bool(path) and path[0] in shared)
    return {path: by_path[path] for path in order}


@cache
def plain_parameters(model: type[Model]) -> Mapping[Path, Parameter]:
    """Return every parameter of a model that is no configuration, as `parameters`."""
    schema = model.model_json_schema()
    return {p.path: p for p in _walk(schema, schema.get("$defs", {}), (), {}, False)}


def _walk(
    schema: Mapping[str, Any], defs: Mapping[str, Any], path: Path, default: Any, required: bool
) -> Iterator[Parameter]:
    parts = list(_alternatives(schema, defs))
    groups = [part for part in parts if "properties" in part]
    if groups:
        properties = {key: sub for part in groups for key, sub in part["properties"].items()}
        needed = {key for part in groups for key in part.get("required", ())}
        needed |= {"family"} if not path else set()
        members = sorted(properties, key=lambda key: _is_group(properties[key], defs))
        text = schema.get("description") or groups[0].get("description", "")
        alone = schema.get("stands_for", "")
        yield Parameter(
            path, ("object",), members=tuple(members), description=text, stands_for=alone
        )
        for key in members:
            inner = default.get(key) if isinstance(default, dict) else None
            yield from _walk(properties[key], defs, (*path, key), inner, key in needed)
        return
    choices: list[Any] = []
    for part in parts:
        choices += part.get("enum", ()) or ([part["const"]] if "const" in part else [])
    yield Parameter(
        path,
        tuple(dict.fromkeys(part["type"] for part in parts if "type" in part)),
        tuple(choices),
        either([text for text in map(_bounds, parts) if text]),
        *_limits(parts),
        entries=tuple(
            entry
            for part in parts
            for inner in _alternatives(part.get("items", {}), defs)
            for entry in inner.get("enum", ())
        ),
        required=required,
        # Where the model replaces a default by what it chooses, the word for that is the default.
        default=None if required else "auto" if schema.get("default") == "auto" else default,
        description=schema.get("description", ""),
        unit=schema.get("unit", ""),
        words=schema.get("words", ""),
    )


def _is_group(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> bool:
    return any("properties" in part for part in _alternatives(schema, defs))


def _alternatives(
    schema: Mapping[str, Any], defs: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas of a union, or the one schema, with references followed."""
    if "$ref" in schema:
        yield from _alternatives(defs[schema["$ref"].rsplit("/", 1)[-1]], defs)
    elif "anyOf" in schema or "oneOf" in schema:
        for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
            yield from _alternatives(part, defs)
    else:
        yield schema


def _limits(parts: Sequence[Mapping[str, Any]]) -> tuple[float | None, float | None]:
    """Return the least and the largest legal number where the bounds are themselves legal."""
    numeric = [part for part in parts if part.get("type") in ("integer", "number")]
    if len(numeric) != 1:
        return None, None
    return numeric[0].get("minimum"), numeric[0].get("maximum")


def _bounds(schema: Mapping[str, Any]) -> str:
    """Return the bounds of a number as text."""

    def number(key: str) -> str | None:
        value = schema.get(key)
        return None if value is None else f"{value:g}" if isinstance(value, float) else str(value)

    low, high = number("minimum"), number("maximum")
    if low is not None and high is not None:
        return f"{low}..{high}"
    above, below = number("exclusiveMinimum"), number("exclusiveMaximum")
    words = {"at least ": low, "more than ": above, "at most ": high, "less than ": below}
    return " and ".join(word + value for word, value in words.items() if value is not None)
