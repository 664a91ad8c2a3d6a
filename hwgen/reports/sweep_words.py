# SPDX-License-Identifier: Apache-2.0
"""Sentences on a finished sweep, for its page and for the command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def candidates_left(refined: Mapping[str, Any] | None) -> str:
    """Return that candidates were left out, and the field that raises their number, if so.

    Parameters
    ----------
    refined : mapping or None
        ``refine`` of the summary of a sweep.
    """
    if refined is None or refined["total"] <= refined["asked"]:
        return ""
    return (
        f"{refined['asked']:,} of {refined['total']:,} candidates were evaluated by netlist, which"
        f" `refine` in the file, or --refine, ends at {refined['asked']:,}: a larger number may"
        " find better points"
    )


def empty_group(entry: Mapping[str, Any]) -> str:
    """Return that a group has no point, and why.

    Parameters
    ----------
    entry : mapping
        Of ``empty_groups`` of the summary of a sweep.
    """
    name = ", ".join(f"{key.split('.')[-1]} {value}" for key, value in entry["group"].items())
    return (
        f"no point of {name} is left: {entry['reason_points']:,} of {entry['points']:,}"
        f" {entry['reason']}"
    )
