# SPDX-License-Identifier: Apache-2.0
"""Parameters by dotted name, ``array.rows``, and the groups in which a file has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return dotted parameters as a tree of groups.

    >>> nested({"name": "core", "array.rows": 4, "array.cols": 2})
    {'name': 'core', 'array': {'rows': 4, 'cols': 2}}
    """
    tree: dict[str, Any] = {}
    for path, value in values.items():
        *groups, key = path.split(".")
        node = tree
        for group in groups:
            node = node.setdefault(group, {})
        node[key] = value
    return tree


def flattened(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a tree of parameters by dotted name, without the names of core and family.

    Parameters
    ----------
    tree : mapping
        As `hwgen.core.params.base.FamilyConfig.resolved` returns it.
    prefix : str
        What precedes every name; of a group with its dot.
    """
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= flattened(value, f"{prefix}{key}.")
        elif prefix or key not in ("name", "family"):
            flat[prefix + key] = value
    return flat
