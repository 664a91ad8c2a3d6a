# SPDX-License-Identifier: Apache-2.0
"""Validation of documents: every problem at once, each with its position and a remedy."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hwgen.config.base import M, Model
from hwgen.config.document import Document, core_scalar, read_document
from hwgen.config.parameters import Parameter, plain_parameters, yaml_value
from hwgen.errors import ConfigError, Problem, did_you_mean

MAX_PROBLEMS = 50
_SHOWN = 40
_NEAR = 0.9
"""Similarity of words that differ by a letter, such as a plural."""
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]{1,40}")
_FIELD_FIRST = re.compile(r"([a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)*): (.*)", re.DOTALL)
# Errors that the description of the parameter explains better than pydantic does.
_DESCRIBED = re.compile(
    ".*_type|format|literal_error|enum|finite_number|(greater|less)_than(_equal)?|is_instance_of"
)

Fields = Mapping[tuple[str, ...], Parameter]


def load_model(path: str | Path, model: type[M]) -> tuple[M, Document]:
    """Read and validate a file that is no configuration, such as settings of a job.

    Returns
    -------
    (Model, Document)
        What it holds, and where; see `placed`.

    Raises
    ------
    ConfigError
        With every problem of the file.
    """
    document = read_document(path)
    return of_model(document, model), document


def of_model(document: Document, model: type[M]) -> M:
    """Return the contents of a document that has been read.

    Raises
    ------
    ConfigError
        With every problem of the document.
    """
    problems = list(document.problems)
    loaded: M | None = None
    try:
        loaded = model.model_validate(document.data)
    except ValidationError as error:
        problems += translate_errors(error, document, plain_parameters(model))
    if loaded is None or problems:
        raise ConfigError(in_order(problems))
    return loaded


def placed(text: str, document: Document, model: type[Model]) -> Problem:
    """Return the problem of a message that begins with the field of a file that it is about."""
    return place_rule(text, (), document, plain_parameters(model))


def in_order(problems: Sequence[Problem]) -> list[Problem]:
    """Order problems by place, each once, and cut a long list."""
    ordered = sorted(dict.fromkeys(problems), key=lambda p: (p.line or 0, p.column or 0))
    more = len(ordered) - MAX_PROBLEMS
    if more > 0:
        last = Problem(f"and {more} more problems", file=ordered[0].file)
        ordered[MAX_PROBLEMS:] = [last]
    return ordered


def problem_at(document: Document, path: Sequence[str | int], text: str) -> Problem:
    """Return a problem with the value at `path`, placed where it stands in the file."""
    place = document.position(path)
    steps = map(str, path)
    field = ".".join(step if _PLAIN_KEY.fullmatch(step) else shown(step) for step in steps)
    return Problem(text, field, document.file, place.line, place.column)


def translate_errors(error: ValidationError, document: Document, fields: Fields) -> list[Problem]:
    """Return the problems of pydantic's errors, placed in the document."""
    by_place: dict[tuple[str | int, ...], list[Problem]] = {}
    items = [
        (item, error_path(item["loc"], document.data, item["type"], fields))
        for item in error.errors(include_url=False)
    ]
    entries = [
        entry for entry in items if entry[0]["type"] == "missing" or document.holds(entry[1])
    ]
    # A value that the file does not hold is a default, or was derived from another field: what is
    # wrong with it follows from what is wrong with that one.
    for item, path in entries or items:
        if document.is_spoilt(path):
            continue  # follows from what has been said about the text
        if path in by_place and path and item["type"] not in ("missing", "extra_forbidden"):
            continue  # another alternative of the same union
        if len(by_place) <= 4 * MAX_PROBLEMS:
            by_place[path] = describe_error(item, path, document, fields)
        else:
            by_place[path] = [problem_at(document, path, "not valid")]
    missing = [
        path for path, group in by_place.items() if path and group[0].message.startswith(_MISSING)
    ]
    for parent in {path[:-1] for path in missing}:
        paths = [path for path in missing if path[:-1] == parent]
        if len(paths) > _MOST_MISSING:
            for path in paths:
                del by_place[path]
            by_place[parent] = [problem_at(document, parent, _several_missing(paths))]
    return [problem for group in by_place.values() for problem in group]


_MISSING = "missing; add"

_MOST_MISSING = 4
"""Fields of one group that are missing up to which each has a message."""


def _several_missing(paths: Sequence[tuple[str | int, ...]]) -> str:
    """Return the message of many missing fields of one group."""
    names = ", ".join(str(path[-1]) for path in paths[:_MOST_MISSING])
    return f"{len(paths)} fields are missing: {names}, ..."


def error_path(
    location: Sequence[str | int], data: Any, error_type: str, fields: Fields
) -> tuple[str | int, ...]:
    """Return the part of pydantic's location that is a field or item; the rest names types."""
    path: list[str | int] = []
    for step in location:
        inside = isinstance(data, dict) and step in data
        if inside or (isinstance(data, list) and isinstance(step, int) and step < len(data)):
            data = data[step]
        elif (*path, step) in fields:
            data = None
        elif not (error_type == "missing" and step == location[-1]):
            break
        path.append(step)
    return tuple(path)


def describe_error(
    item: Mapping[str, Any], path: tuple[str | int, ...], document: Document, fields: Fields
) -> list[Problem]:
    """Return the problems of one of pydantic's errors: one, or of a rule one for each line."""
    error_type, value = item["type"], item["input"]
    names = tuple(str(step) for step in path)
    parameter = fields.get(names)
    if error_type == "missing":
        if isinstance(path[-1], int):
            return [problem_at(document, path[:-1], f"too short: item {path[-1] + 1} is missing")]
        about = parameter.description.rstrip(".") if parameter else ""
        about = f" ({about})" if about else ""
        return [problem_at(document, path, f"{_MISSING} `{names[-1]}: ...`{about}")]
    if error_type == "extra_forbidden" and parameter is None:
        return [problem_at(document, path, _unknown_key(names, fields))]
    if parameter is not None and _DESCRIBED.fullmatch(error_type):
        return [problem_at(document, path, complaint(parameter, value))]
    if error_type in ("too_short", "too_long"):
        return [problem_at(document, path, _wrong_length(item["ctx"]))]
    text = (
        str(item["ctx"]["error"])
        if error_type in ("value_error", "assertion_error")
        else item["msg"]
    )
    if text.startswith("Input should "):
        text = f"must {text.removeprefix('Input should ')}, not {shown(value)}"
    return [place_rule(line, path, document, fields) for line in text.splitlines() if line.strip()]


def _wrong_length(context: Mapping[str, Any]) -> str:
    """Return the message for a list with too few or too many items."""
    bound, limit = (
        ("at least", context["min_length"])
        if "min_length" in context
        else ("at most", context["max_length"])
    )
    items = "item" if limit == 1 else "items"
    return f"must have {bound} {limit} {items}, not {context['actual_length']}"


def place_rule(
    text: str, path: tuple[str | int, ...], document: Document, fields: Fields
) -> Problem:
    """Place a message that begins with the dotted path of its field (from the root or `path`)."""
    match = _FIELD_FIRST.fullmatch(text)
    if match:
        dotted = tuple(match[1].split("."))
        for candidate in ((*path, *dotted), dotted):
            if tuple(map(str, candidate)) in fields:
                return problem_at(document, candidate, match[2])
    return problem_at(document, path, text)


def _unknown_key(path: tuple[str, ...], fields: Fields) -> str:
    group, key = fields.get(path[:-1]), path[-1]
    legal = group.members if group else ()
    elsewhere = [p.path for p in fields.values() if p.path and p.path[-1] == key]
    # A key of this group that is spelled almost so comes before one of another group.
    near = did_you_mean(key, legal, _NEAR)
    if elsewhere and not near:
        parent = ".".join(elsewhere[0][:-1])
        near = f" (it belongs under {parent!r})" if parent else " (it belongs at the left margin)"
    near = near or did_you_mean(key, legal)
    here = f"; legal here: {', '.join(legal)}" if legal else ""  # the keys of items are not known
    return f"unknown key{near}{here}"


def complaint(parameter: Parameter, value: Any) -> str:
    """Return why `value` cannot be the value of `parameter`."""
    if parameter.is_group:
        keys = ", ".join(parameter.members)
        return f"must hold parameters ({keys}), not {shown(value)}{_remedy(value)}"
    if isinstance(value, float) and not math.isfinite(value):
        expected = parameter.type_text if "integer" in parameter.types else "a finite number"
        return f"must be {parameter.allowed if parameter.choices else expected}, not {shown(value)}"
    if parameter.choices:
        words = [choice for choice in parameter.choices if isinstance(choice, str)]
        near = did_you_mean(value, words) if isinstance(value, str) else ""
        return f"must be {parameter.allowed}, not {shown(value)}{near}"
    if _fits(value, parameter.types):
        return f"must be {parameter.allowed}, not {shown(value)}"
    if isinstance(value, str):
        return f"must be {parameter.type_text}, not the text {shown(value)}{_remedy(value)}"
    return f"must be {parameter.type_text}, not {shown(value)}{_remedy(value)}"


def _fits(value: Any, types: Sequence[str]) -> bool:
    """Return whether a value has one of the JSON types."""
    if isinstance(value, bool) or value is None:
        return ("null" if value is None else "boolean") in types
    if isinstance(value, int) and "number" in types:
        return True
    type_names = {int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return type_names.get(type(value)) in types


def _remedy(value: Any) -> str:
    """Return the remedy for a value of the wrong type, if it is clear."""
    if value is None:
        return "; give a value, or remove the line for the default"
    if isinstance(value, str):
        try:
            if not isinstance(core_scalar(value.strip()), str) and value.strip():
                return "; remove the quotes"
        except ValueError:
            pass
    return ""


def shown(value: Any) -> str:
    """Return a user's value for a message: short, printable, in YAML's words."""
    if isinstance(value, str):
        return f"'{printable(value)}'"
    if value is None:
        return "null (nothing)"
    if isinstance(value, dict):
        return "a group of keys"
    if isinstance(value, list):
        return "a list"
    return printable(yaml_value(value))


def printable(text: str) -> str:
    """Shorten a text and escape what a terminal would act on."""
    short = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 10]}...{text[-7:]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in short)
