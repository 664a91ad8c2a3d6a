# SPDX-License-Identifier: Apache-2.0
"""Templates, JSON Schema and the reference page, made from the families' models.

``python -m hwgen.reports.configuration > docs/configuration.md`` writes the page anew.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from hwgen.config.parameters import Parameter, Path, parameters, yaml_value
from hwgen.core.core import Core
from hwgen.core.load import parse_draft
from hwgen.core.registry import families, family
from hwgen.errors import ConfigError, InputError

_WIDTH = 96
_REQUIRED = 2  # name and family

# -- template ----------------------------------------------------------------------------------


def template(name: str, core: str = "", changes: Mapping[str, Any] | None = None) -> str:
    """Return a commented configuration of a family with every parameter, most at their defaults.

    Parameters
    ----------
    name : str
        Name of the family.
    core : str
        Name of the core; default ``NAME_core``.
    changes : mapping, optional
        Other values than the defaults, by dotted name.

    Raises
    ------
    InputError
        If there is no such family, or `core` cannot be a name.
    """
    core_class = family(name)
    values = {"name": core or f"{name}_core", "family": name, **(changes or {})}
    # A parameter that the other defaults rule out may not be written down: it is commented out.
    text = _template(core_class, values, {})
    try:
        parse_draft(text)
    except ConfigError as error:
        reasons = {p.field: p.message.partition(";")[0] for p in error.problems}
        if "name" in reasons:
            raise InputError(f"the name of the core {reasons['name']}") from None
        text = _template(core_class, values, reasons)
    return text


def _template(
    core_class: type[Core[Any]], values: Mapping[str, Any], unused: Mapping[str, str]
) -> str:
    lines = [
        f"# {core_class.family_name()}: {core_class.summary}.",
        "# Only `name` and `family` are required; "
        + (
            "all but a few of the values below are defaults."
            if len(values) > _REQUIRED
            else "every other value below is the default."
        ),
    ]
    for path, parameter in parameters(core_class.params_class).items():
        if not path:
            continue
        margin = "  " * (len(path) - 1)
        lines += [""] if len(path) == 1 else []
        lines += [f"{margin}# {line}" for line in _comment(parameter, unused)]
        if parameter.is_group:
            lines.append(f"{margin}{path[-1]}:")
        else:
            value = values.get(parameter.field, parameter.default)
            off = "# " if parameter.field in unused else ""
            lines.append(f"{margin}{off}{path[-1]}: {yaml_value(value)}")
    return "\n".join(lines) + "\n"


def _comment(parameter: Parameter, unused: Mapping[str, str]) -> list[str]:
    text = parameter.description
    if not parameter.is_group and parameter.path not in (("name",), ("family",)):
        unit = f" {parameter.unit}" if parameter.unit else ""
        text += f" [{parameter.allowed}{unit}]"
    if parameter.field in unused:
        text += f" Not used here: {unused[parameter.field]}."
    return textwrap.wrap(text, _WIDTH - 4)


# -- JSON Schema -------------------------------------------------------------------------------


def json_schema() -> dict[str, Any]:
    """Return one JSON Schema (2020-12) over the configurations of all families."""
    registered = families()
    branches: list[dict[str, Any]] = []
    definitions: dict[str, Any] = {}
    for name, entry in registered.items():
        # `if`/`then` instead of `oneOf`: an editor then shows the errors of the one family meant.
        condition = {"properties": {"family": {"const": name}}, "required": ["family"]}
        branches.append({"if": condition, "then": {"$ref": f"#/$defs/{name}"}})
        definitions |= _definitions(name, entry)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "hwgen configuration",
        "type": "object",
        "properties": {
            "family": {"enum": list(registered), "description": "Family of the accelerator."}
        },
        "required": ["name", "family"],
        "allOf": branches,
        "$defs": definitions,
    }


def _definitions(name: str, entry: type[Core[Any]]) -> dict[str, Any]:
    """Return the schema of a family and of its groups, under names of the family's own."""
    schema = entry.params_class.model_json_schema(ref_template=f"#/$defs/{name}.{{model}}")
    groups = schema.pop("$defs", {})
    schema["properties"]["family"].pop("default", None)
    by_path = parameters(entry.params_class)
    _set_defaults(schema, groups, by_path, ())
    return {name: schema, **{f"{name}.{group}": groups[group] for group in groups}}


def _set_defaults(
    schema: dict[str, Any], groups: Mapping[str, Any], by_path: Mapping[Path, Parameter], path: Path
) -> None:
    """Write defaults as a file has them, where the model's are objects such as formats."""
    for key, part in schema.get("properties", {}).items():
        part.pop("title", None)
        parameter = by_path.get((*path, key))
        if "default" in part and parameter is not None and not parameter.is_group:
            part["default"] = parameter.default
        if "$ref" in part:
            group = groups[part["$ref"].rsplit(".", 1)[-1]]
            _set_defaults(group, groups, by_path, (*path, key))


# -- reference page and overview ---------------------------------------------------------------


def overview() -> list[dict[str, Any]]:
    """Return families and their parameters as plain data, for ``hwgen families``."""
    return [
        {
            "name": entry.family_name(),
            "summary": entry.summary,
            "parameters": [
                _plain(p) for p in parameters(entry.params_class).values() if not p.is_group
            ],
        }
        for entry in families().values()
    ]


def _plain(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.field,
        "required": parameter.required,
        "default": parameter.default,
        "allowed": parameter.allowed,
        "unit": parameter.unit,
        "description": parameter.description,
    }


def markdown() -> str:
    """Return the parameter reference, ``docs/configuration.md``."""
    lines = [
        "<!-- Generated: python -m hwgen.reports.configuration > docs/configuration.md -->",
        "# Configuration reference",
        "",
        *textwrap.wrap(
            "A configuration is one YAML 1.2 file. `name` and `family` are required; everything"
            " else has a default. Unknown keys and values out of range are errors, reported all"
            " at once as `file:line:column: field: what must hold`; nothing is converted silently"
            " (a number in quotes is text). `hwgen init FAMILY` writes a commented file,"
            " `hwgen schema` prints the JSON Schema that lets an editor complete and check it.",
            _WIDTH,
        ),
        "",
        "An integer may stand for a number. Aliases work; tags and merge keys are refused.",
    ]
    for entry in families().values():
        lines += _family_section(entry)
    return "\n".join(lines) + "\n"


def _family_section(entry: type[Core[Any]]) -> Iterator[str]:
    summary = entry.summary[:1].upper() + entry.summary[1:]
    yield from ("", f"## `{entry.family_name()}`", "", f"{summary}.")
    for group in parameters(entry.params_class).values():
        if not group.is_group:
            continue
        if group.path:
            yield from ("", f"### `{entry.family_name()}`: `{group.field}`", "", group.description)
        yield from ("", "| parameter | default | allowed | unit | meaning |")
        yield "| --- | --- | --- | --- | --- |"
        for parameter in parameters(entry.params_class).values():
            if parameter.path[:-1] == group.path and parameter.path and not parameter.is_group:
                yield _row(parameter)


def _row(parameter: Parameter) -> str:
    default = "required" if parameter.required else f"`{yaml_value(parameter.default)}`"
    cells = (
        f"`{parameter.field}`",
        default,
        parameter.allowed,
        parameter.unit,
        parameter.description,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    sys.stdout.write(markdown())
