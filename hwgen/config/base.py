# SPDX-License-Identifier: Apache-2.0
"""Base of all groups of parameters: frozen, strict, and checked by rules that name their field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError

M = TypeVar("M", bound=BaseModel)


class Model(BaseModel):
    """A frozen group of parameters that refuses unknown keys and converts nothing silently."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        arbitrary_types_allowed=True,
    )


def check_rules(broken: Iterable[str]) -> None:
    """Raise the error that pydantic expects of a validator if rules of a model are broken.

    Parameters
    ----------
    broken : iterable of str
        What is wrong, each ``dotted.field: text``; the text says the arithmetic and a remedy.
    """
    text = "\n".join(broken)
    if text:
        raise PydanticCustomError("rules", "{text}", {"text": text})
