# SPDX-License-Identifier: Apache-2.0
"""From a YAML file to a validated configuration, or to every problem in it at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hwgen.config.document import FORMAT_DIRECTORY, Document, parse_document, read_document
from hwgen.config.parameters import either, inner_parameters, parameters
from hwgen.config.validate import (
    describe_error,
    error_path,
    in_order,
    problem_at,
    shown,
    translate_errors,
)
from hwgen.core.params.base import FamilyConfig
from hwgen.core.registry import families
from hwgen.core.resolve import Draft
from hwgen.errors import ConfigError, Problem, did_you_mean


def load_draft(path: str | Path) -> Draft:
    """Read and validate a configuration file, in which fields may be ``auto``.

    Raises
    ------
    ConfigError
        With every problem of the file, whatever it holds.
    """
    return _validate(read_document(path))


def parse_draft(
    text: str | bytes, filename: str = "config.yaml", *, quickly: bool = False
) -> Draft:
    """Validate the text of a configuration; `filename` is for messages.

    With `quickly`, libyaml reads it where it is there, for texts of which there are many; see
    `hwgen.config.document.read_document`.

    Raises
    ------
    ConfigError
        With every problem of the text.
    """
    return _validate(parse_document(text, filename, quickly=quickly))


def _validate(document: Document) -> Draft:
    _refuse_other_file(document)
    registered = families()
    problems = list(document.problems)
    name = document.data.get("family")
    draft: Draft | None = None
    if document.is_spoilt(("family",)):
        pass
    elif not isinstance(name, str) or name not in registered:
        problems.append(_family_problem(document, list(registered)))
    else:
        model = registered[name].params_class
        directory = FORMAT_DIRECTORY.set(Path(document.file).parent)
        try:
            draft = Draft(model.model_validate(document.data), document)
        except ValidationError as error:
            problems += translate_errors(error, document, inner_parameters(model, document.data))
        else:
            if too_wide := draft.params.too_wide():
                problems += draft.problems(too_wide)
        finally:
            FORMAT_DIRECTORY.reset(directory)
    if draft is None or problems:
        raise ConfigError(in_order(problems))
    return draft


def _refuse_other_file(document: Document) -> None:
    """Refuse a file that is clearly something else than a configuration, and say what it is for."""
    keys = document.data.keys()
    if "objectives" in keys and keys & {"parameters", "families"}:
        raise ConfigError([Problem(_SWEEP.format(file=document.file), file=document.file)])
    if "layers" in keys and "family" not in keys:
        raise ConfigError([Problem(_WORKLOAD, file=document.file)])


_SWEEP = "is a sweep, not the configuration of one core: hwgen sweep --config {file}"
_WORKLOAD = "is a workload, not a configuration: name it with --workload beside --config"


def _family_problem(document: Document, families: Sequence[str]) -> Problem:
    if "family" not in document.data:
        text = f"missing; add `family: {families[0]}` (there is: {', '.join(families)})"
    else:
        name = document.data["family"]
        near = did_you_mean(name, families) if isinstance(name, str) else ""
        text = f"must be {either(families)}, not {shown(name)}{near}"
    return problem_at(document, ("family",), text)


def value_problem(model: type[FamilyConfig], path: tuple[str, ...], value: Any) -> str | None:
    """Return why `value` cannot be the value of one parameter, None if it can.

    Rules between parameters are not looked at.
    """
    data: Any = value
    for key in reversed(path):
        data = {key: data}
    try:
        model.model_validate({"name": "core", **data})
    except ValidationError as error:
        fields = parameters(model)
        document = parse_document("name: core", "")
        for item in error.errors(include_url=False):
            if (
                item["type"] != "rules"
                and error_path(item["loc"], data, item["type"], fields) == path
            ):
                return describe_error(item, path, document, fields)[0].message
    return None
