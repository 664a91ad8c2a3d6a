# SPDX-License-Identifier: Apache-2.0
"""The units of an engine: the modules inside each, and how often they are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from cost_model.netlist.model import TOP, Module
from cost_model.netlist.netlist import Netlist

_PREFIX = "unit_"
"""Instances of the core so named are its units (`rtl_templates.transformer`)."""


def unit_counts(design: Netlist) -> dict[str, dict[str, int]]:
    """Return the number of instances of each module inside each unit of an engine, by its name.

    A design that has no units has none.
    """
    modules = design.modules
    core = next((each.module for each in modules[TOP].instances if each.name == "core"), None)
    inside = modules[core].instances if core is not None else ()
    counts: dict[str, Mapping[str, int]] = {}
    return {
        each.name.removeprefix(_PREFIX): dict(_below(each.module, modules, counts))
        for each in inside if each.name.startswith(_PREFIX)
    }  # fmt: skip


def _below(
    name: str, modules: Mapping[str, Module], counts: dict[str, Mapping[str, int]]
) -> Mapping[str, int]:
    """Return the instances of each module in one, itself among them; `counts` has those found."""
    if name not in counts:
        result = Counter({name: 1})
        for instance in modules[name].instances:
            result.update(_below(instance.module, modules, counts))
        counts[name] = result
    return counts[name]
