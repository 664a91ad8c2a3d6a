# SPDX-License-Identifier: Apache-2.0
"""The word-level structure of configurations, read from their emission and kept on disk.

A module's structure is kept under a digest of its RTLIL without the name of the design, so that
designs that have it in common share it; and of each configuration which modules it consists of is
remembered as `flows.build.netlists` remembers its Verilog.  What is kept costs no elaboration.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cost_model.netlist import document, read
from cost_model.netlist.model import Module
from cost_model.netlist.netlist import Netlist
from flows.build import netlists
from flows.tools.cache import Document, digest
from hwgen.errors import InputError

if TYPE_CHECKING:
    from hwgen.core.params.base import FamilyConfig

_KIND = "structure"
_DAMAGED = (KeyError, TypeError, ValueError)

_MODULE = re.compile(r"^module \\([\w.]+)", re.MULTILINE)


def structure_of(config: FamilyConfig) -> Netlist:
    """Return the structure of a configuration, of its emission if it is not kept.

    Raises
    ------
    HwgenError
        If it cannot be emitted.
    """
    return known(config) or emitted(config)[1]


def known(config: FamilyConfig) -> Netlist | None:
    """Return the structure of a configuration, None unless it is kept."""
    keys = known_modules(config)
    modules = [_read(key) for key in keys or ()]
    if keys is None or not all(modules):
        return None
    return Netlist({m.name: m for kept in modules for m in kept or ()}, digest(keys))


def known_modules(config: FamilyConfig) -> list[str] | None:
    """Return what the modules of a configuration are kept under, None unless that is known."""
    with suppress(InputError, *_DAMAGED):  # there is no cache, or it is damaged
        keys = netlists.memo(config, _KIND).read()
        if isinstance(keys, list) and all(isinstance(key, str) for key in keys):
            return keys
    return None


def emitted(config: FamilyConfig) -> tuple[str, Netlist]:
    """Return the Verilog and the structure of a configuration, and keep the latter."""
    from flows.build import note_verilog, rtlil_of, verilog_of

    remembered = netlists.memo(config, _KIND)  # of the sources as they are before a change
    verilog, design, keys = structured(
        rtlil_of(config), config.name, lambda units: verilog_of(config)
    )
    note_verilog(config, verilog)
    with suppress(InputError):
        remembered.write(keys)
    return verilog, design


def structured(
    units: Sequence[str], name: str, convert: Callable[[Sequence[str]], str] | None = None
) -> tuple[str, Netlist, list[str]]:
    """Return Verilog and structure of modules in RTLIL.

    Parameters
    ----------
    units : sequence of str
        As `rtl_templates.hdl.hierarchy.emit` yields them; a unit may hold several modules.
    name : str
        Name of the top module and prefix of all others.
    convert : callable, optional
        Returns the Verilog of all modules where the structure of each is kept.

    Returns
    -------
    verilog : str
    design : Netlist
    keys : list of str
        Under which each unit is kept.
    """
    from flows.build.verilog import rtlil_to_netlist, rtlil_to_verilog

    keys = [_key(unit, name) for unit in units]
    modules: dict[str, Module] = {}
    missing = []
    for unit, key in zip(units, keys, strict=True):
        if (found := _read(key)) is None:
            missing.append((unit, key))
        else:
            modules |= {module.name: module for module in found}
    if not missing:
        return (convert or rtlil_to_verilog)(units), Netlist(modules, digest(keys)), keys
    verilog, netlist = rtlil_to_netlist(units)
    for unit, key in missing:
        names = [label.replace(".", "_") for label in _MODULE.findall(unit)]
        own = [_module(label, netlist[label], name) for label in names]
        modules |= {module.name: module for module in own}
        with suppress(InputError):
            Document(_KIND, key).write([document.document_of(module) for module in own])
    return verilog, Netlist(modules, digest(keys)), keys


def _module(label: str, netlist: Mapping[str, Any], prefix: str) -> Module:
    def short(of: str) -> str:
        return read.short_name(of, prefix)

    return read.module_of(short(label), netlist, short, kept=netlist["kept"])


def _key(unit: str, name: str) -> str:
    """Return a digest of what shapes the structure of a unit, whatever the design is called."""
    from flows.build.verilog import netlist_key

    lines = re.compile(rf"^(\s*(?:module|cell) \\){name}(?=[_. \n])", re.MULTILINE)
    return digest([lines.sub(r"\1", unit), netlist_key(), *netlists.converter()])[:32]


def _read(key: str) -> list[Module] | None:
    """Return the modules of a unit, None unless they are kept."""
    with suppress(InputError, *_DAMAGED):
        documents = Document(_KIND, key).read()
        if documents:
            return [document.module_of(entry) for entry in documents]
    return None
