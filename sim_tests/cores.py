# SPDX-License-Identifier: Apache-2.0
"""Configurations by dotted parameters, written as keywords."""

from __future__ import annotations

from typing import Any


def core(name: str, **more: Any) -> dict[str, Any]:
    """Return the parameters of a core of a family; a dot is written as two underscores."""
    return {"family": name, **{key.replace("__", "."): value for key, value in more.items()}}
