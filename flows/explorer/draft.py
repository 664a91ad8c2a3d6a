# SPDX-License-Identifier: Apache-2.0
"""A configuration that is being edited: its parameters, what is wrong with it, its YAML."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import ValidationError

from hwgen.config.dotted import flattened, nested
from hwgen.config.parameters import Parameter, inner_parameters, parameters
from hwgen.core.load import parse_draft
from hwgen.core.params.base import FamilyConfig
from hwgen.core.registry import families, family
from hwgen.core.resolve import Draft
from hwgen.errors import ConfigError

_OF_ENGINE = {"name", "target", "memories", "protect", "post"}
"""Keys that a core inside an engine has from the engine."""

MOST_CHOICES = 100
"""Values of a choice up to which each is tried beside the others."""

CHOICES_S = 0.1
"""Seconds in which choices are tried; later ones count as possible."""

Request = Mapping[str, Any]
"""``family``, ``name``, and ``values``: those that differ from defaults, by dotted name."""


@dataclass(frozen=True)
class Edited:
    """A configuration of the page.

    Parameters
    ----------
    data : dict
        As the file has it.
    text : str
        The file.
    draft : Draft or None
        None if it is not valid.
    problems : list of (str, str)
        Field and message.
    """

    data: dict[str, Any]
    text: str
    draft: Draft | None
    problems: list[tuple[str, str]]


def edit(request: Request) -> Edited:
    """Return the configuration of a request, with every problem of it.

    Raises
    ------
    InputError
        If there is no such family.
    """
    name = str(request.get("family", ""))
    model = family(name).params_class
    values = dict(request.get("values") or {})
    # A core inside an engine that is changed in part keeps the rest of the engine's default.
    for field, default in _inner_defaults(model).items():
        said = [key for key in values if key.startswith(f"{field}.")]
        if said and not any(key.endswith(".family") for key in said):
            values = {**flattened(default, f"{field}."), **values}
    data = nested({"name": request.get("name") or f"{name}_core", "family": name, **values})
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    try:
        draft = parse_draft(text, "configuration")
    except ConfigError as error:
        problems = [(problem.field, problem.message) for problem in error.problems]
        return Edited(data, text, None, problems)
    return Edited(data, text, draft, [])


def values_of(draft: Draft) -> dict[str, Any]:
    """Return the values that the file of a draft contains, by dotted name."""
    return {
        key: value
        for key, value in flattened(draft.document.data).items()
        if key not in ("name", "family")
    }


def controls(edited: Edited) -> list[dict[str, Any]]:
    """Return the parameters of a configuration, with values that are possible beside the others.

    Returns
    -------
    list of dict
        ``field``, ``description``, ``unit``, ``allowed``, ``value``, ``default``, ``style``
        (``choice``, ``number``, ``switch``, ``set`` or ``text``), and by style ``choices``, each
        with whether it is possible, or ``low``, ``high`` and ``whole``.
    """
    model = family(edited.data["family"]).params_class
    whole = edited.data if edited.draft is None else edited.draft.params.resolved()
    whole = {**_inner_defaults(model), **whole}
    said = flattened(edited.data)
    chosen = {} if edited.draft is None else flattened(edited.draft.params.resolved())
    automatic = () if edited.draft is None else edited.draft.params.automatic
    own = parameters(model)
    end = time.monotonic() + CHOICES_S
    result: list[dict[str, Any]] = []
    for parameter in inner_parameters(model, whole).values():
        field = parameter.field
        style = _style(parameter)
        inner = parameter.path not in own and _OF_ENGINE & set(parameter.path)
        if parameter.is_group or style is None or inner or field in ("name", "family"):
            continue
        value = said.get(field, "auto" if field in automatic else chosen.get(
            field, parameter.default
        ))  # fmt: skip
        control = {
            "field": field,
            "description": parameter.description,
            "unit": parameter.unit,
            "allowed": parameter.allowed,
            "value": value,
            "default": parameter.default,
            "said": field in said,
            **style,
        }
        if control["style"] == "choice":
            control["choices"] = list(_choices(edited, parameter, control["choices"], value, end))
        result.append(control)
    return result


def _inner_defaults(model: type[FamilyConfig]) -> dict[str, dict[str, Any]]:
    """Return the cores that an engine contains by default, by field."""
    return {
        field: parameter.default
        for parameter in parameters(model).values()
        if (field := parameter.field) and not parameter.is_group
        and isinstance(parameter.default, dict)
    }  # fmt: skip


def _style(parameter: Parameter) -> dict[str, Any] | None:
    """Return the control of a parameter, None for one that only a file can have."""
    types = set(parameter.types)
    if parameter.entries:
        return {"style": "set", "choices": list(parameter.entries)}
    if types == {"boolean"}:
        return {"style": "switch"}
    if types & {"integer", "number"} and parameter.minimum is not None:
        return {
            "style": "number",
            "low": parameter.minimum,
            "high": parameter.maximum,
            "whole": "number" not in types,
            "words": [choice for choice in parameter.choices if isinstance(choice, str)],
            "optional": "null" in types,
        }
    if parameter.choices:
        empty = [None] if "null" in types else []
        return {"style": "choice", "choices": [*empty, *parameter.choices]}
    return {"style": "text"} if "string" in types else None


def _choices(
    edited: Edited, parameter: Parameter, choices: list[Any], value: Any, end: float
) -> Iterator[dict[str, Any]]:
    """Yield the choices of a parameter, each with whether it breaks no rule beside the others."""
    if parameter.field.endswith("family"):
        choices = [name for name in choices if name in families()] or choices
    tried = edited.draft is not None and len(choices) <= MOST_CHOICES
    for choice in choices:
        possible = True
        if tried and choice != value and time.monotonic() < end:
            possible = _is_possible(edited, parameter.path, choice)
        yield {"value": choice, "possible": possible}


def _is_possible(edited: Edited, path: tuple[str, ...], choice: Any) -> bool:
    data = {**edited.data}
    node = data
    for key in path[:-1]:
        node[key] = {**node.get(key, {})} if isinstance(node.get(key, {}), dict) else {}
        node = node[key]
    node[path[-1]] = choice
    try:
        params = family(data["family"]).params_class.model_validate(data)
    except ValidationError:
        return False
    return not params.too_wide()
