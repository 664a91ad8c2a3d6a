# SPDX-License-Identifier: Apache-2.0
"""Netlists of emitted designs, cached module by module.

The netlist of a module is stored under a digest of its RTLIL without the name of the design, so
that designs share it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cost_model.netlist import document, read
from cost_model.netlist.model import Module
from cost_model.netlist.netlist import Netlist
from flows.build.fingerprint import converter_versions
from flows.tools.cache import Document, digest

_FOLDER = "modules"

_MODULE = re.compile(r"^module \\([\w.]+)", re.MULTILINE)


@dataclass(frozen=True)
class Converted:
    """The netlist of modules in RTLIL.

    Parameters
    ----------
    netlist : Netlist
    keys : list of str
        Under which each module is cached.
    verilog : str or None
        Their Verilog, if the conversion has written it: unless all modules were cached.
    """

    netlist: Netlist
    keys: list[str]
    verilog: str | None


def convert(units: Sequence[str], name: str) -> Converted:
    """Return the netlist of modules in RTLIL, from the cache if all of them are there.

    Parameters
    ----------
    units : sequence of str
        As `rtl_templates.hdl.hierarchy.emit` yields them; a unit may hold several modules.
    name : str
        Name of the top module and prefix of all others.
    """
    from flows.build.verilog import netlist_key, rtlil_to_netlist  # start-up: most are cached

    converter = [netlist_key(), *converter_versions()]
    keys = [_key(unit, name, converter) for unit in units]
    cached = [_load(key) for key in keys]
    modules = {module.name: module for unit in cached for module in unit or ()}
    verilog = None
    if not all(cached):
        verilog, netlist = rtlil_to_netlist(units)
        for unit, key, stored in zip(units, keys, cached, strict=True):
            if stored:
                continue
            labels = [label.replace(".", "_") for label in _MODULE.findall(unit)]
            converted = [_module(label, netlist[label], name) for label in labels]
            modules |= {module.name: module for module in converted}
            Document(_FOLDER, key).write([document.document_of(module) for module in converted])
    return Converted(Netlist(modules, digest(keys)), keys, verilog)


def load_netlist(keys: Sequence[str]) -> Netlist | None:
    """Return the netlist of the modules with these keys, None unless all are cached."""
    cached = [_load(key) for key in keys]
    if not all(cached):
        return None
    return Netlist(
        {module.name: module for unit in cached for module in unit or ()}, digest(list(keys))
    )


def _load(key: str) -> list[Module] | None:
    """Return the modules of a unit, None unless they are cached."""
    return Document(_FOLDER, key).load(
        lambda documents: [document.module_of(entry) for entry in documents]
    )


def _module(label: str, netlist: Mapping[str, Any], prefix: str) -> Module:
    def short(full: str) -> str:
        return read.short_name(full, prefix)

    return read.module_of(short(label), netlist, short, keep_hierarchy=netlist["kept"])


def _key(unit: str, name: str, converter: Sequence[Any]) -> str:
    """Return a digest of what the netlist of a unit depends on, whatever the design is called."""
    lines = re.compile(rf"^(\s*(?:module|cell) \\){name}(?=[_. \n])", re.MULTILINE)
    return digest([lines.sub(r"\1", unit), *converter])[:32]
