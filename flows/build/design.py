# SPDX-License-Identifier: Apache-2.0
"""A core as hardware: RTLIL, Verilog and netlist, each computed once.

What emits hardware is imported when something is emitted: most netlists are cached.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

from cost_model.estimate.analysis import Analysis
from cost_model.netlist.netlist import Netlist
from flows.build.analysis import CachedAnalysis
from flows.build.fingerprint import emission_digest
from flows.build.netlist_cache import convert, load_netlist
from flows.tools.cache import Document, digest, text_digest
from hwgen.core.core import Core
from hwgen.core.params.base import FamilyConfig
from hwgen.core.registry import core_of


class Design:
    """The hardware of a core.

    Parameters
    ----------
    core : Core

    Raises
    ------
    HwgenError
        By every property that needs the RTLIL: if it cannot be emitted.
    """

    def __init__(self, core: Core[Any]) -> None:
        self.core = core

    @classmethod
    def of(cls, config: FamilyConfig) -> Self:
        """Return the hardware of the core of a configuration."""
        return cls(core_of(config))

    @property
    def name(self) -> str:
        """Name of the top module and prefix of all others."""
        return self.core.name

    @property
    def params(self) -> FamilyConfig:
        """The parameters of the core."""
        params: FamilyConfig = self.core.params
        return params

    @cached_property
    def rtlil(self) -> list[str]:
        """The modules in RTLIL, every distinct one once."""
        from flows.build.verilog import core_rtlil
        from rtl_templates.hdl.generators import generate
        from rtl_templates.hdl.protection import protect

        _ = self._verilog_record, self._netlist_record  # of the sources as they are before
        modules = core_rtlil(generate(self.core), self.name)
        return protect(modules, self.name, self.params.protect)

    @cached_property
    def verilog(self) -> str:
        """The Verilog, without the header of the emitted file."""
        from flows.build.verilog import rtlil_to_verilog

        return self._record_verilog(rtlil_to_verilog(self.rtlil))

    @property
    def verilog_digest(self) -> str | None:
        """The SHA-256 of the Verilog; None unless it was emitted, now or earlier."""
        if "verilog" in self.__dict__:
            return text_digest(self.verilog, 64)
        return self._verilog_record.load(str)

    @cached_property
    def netlist(self) -> Netlist:
        """The word-level netlist, from the cache if it was computed earlier."""
        keys = self._netlist_record.load(_strings)
        cached = load_netlist(keys) if keys else None
        if cached is not None:
            return cached
        converted = convert(self.rtlil, self.name)
        if converted.verilog is not None and "verilog" not in self.__dict__:
            self.verilog = self._record_verilog(converted.verilog)
        self._netlist_record.write(converted.keys)
        return converted.netlist

    @cached_property
    def analysis(self) -> Analysis:
        """The analysis of the netlist, which is computed only if something is not cached."""
        keys = self._netlist_record.load(_strings)
        key = digest(keys) if keys else self.netlist.key
        return CachedAnalysis(key, lambda: self.netlist)

    @property
    def hardware_digest(self) -> str:
        """A digest of what the netlist depends on."""
        return self._netlist_record.key

    def with_verilog(self, text: str) -> Self:
        """Return a design of the same core with another Verilog (for mutations)."""
        other = type(self)(self.core)
        other.verilog = text
        return other

    @cached_property
    def _verilog_record(self) -> Document:
        return Document("verilog", emission_digest(self.core.digest))

    @cached_property
    def _netlist_record(self) -> Document:
        return Document("netlist", emission_digest(self.core.hardware_digest))

    def _record_verilog(self, text: str) -> str:
        self._verilog_record.write(text_digest(text, 64))
        return text


def _strings(value: list[str]) -> list[str]:
    if not all(isinstance(each, str) for each in value):
        raise TypeError("not a list of keys")
    return value
