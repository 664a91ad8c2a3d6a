# SPDX-License-Identifier: Apache-2.0
"""From a configuration to the files that describe its hardware."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwgen.core.registry import family

if TYPE_CHECKING:
    from hwgen.core.params.base import FamilyConfig


_remembered: dict[tuple[type, str], _Emitted] = {}
_most = 0


@dataclass
class _Emitted:
    """What was emitted of a configuration: its modules in RTLIL, and its Verilog if that was."""

    rtlil: list[str]
    verilog: str | None = None


def remember(most: int) -> None:
    """Let a process keep what is emitted of so many configurations, the last ones; forget others.

    For many simulations of few designs, while generators stay as they are.
    """
    global _most
    _most = most
    forget()


def forget() -> None:
    """Let everything be emitted anew."""
    _remembered.clear()


def _emitted(config: FamilyConfig) -> _Emitted:
    from flows.build.verilog import core_rtlil

    key = (type(config), config.digest) if _most else None
    found = _remembered.pop(key, None) if key else None
    if found is None:
        core = family(config.family).part("rtl").generate(config)
        found = _Emitted(core_rtlil(core, config.name))
    if key:
        _remembered[key] = found
        if len(_remembered) > _most:
            del _remembered[next(iter(_remembered))]
    return found


def rtlil_of(config: FamilyConfig) -> list[str]:
    """Return the RTLIL of a configuration, every distinct module once."""
    return _emitted(config).rtlil


def verilog_of(config: FamilyConfig) -> str:
    """Return the Verilog of a configuration, without the header of the emitted file."""
    from flows.build.verilog import rtlil_to_verilog

    found = _emitted(config)
    if found.verilog is None:
        found.verilog = rtlil_to_verilog(found.rtlil)
    return found.verilog


def note_verilog(config: FamilyConfig, verilog: str) -> None:
    """Let `verilog_of` return what was made of `rtlil_of`, if a process keeps that."""
    if (found := _remembered.get((type(config), config.digest))) is not None:
        found.verilog = verilog


def files_of(config: FamilyConfig) -> dict[str, str]:
    """Return every file that ``hwgen build`` writes: name to text.

    The text depends on the configuration and hwgen's version alone.
    """
    from flows.build import structures
    from flows.build.drivers import engine_drivers
    from flows.build import files, ipxact, register_files
    from hwgen.core.lists.builder import executes_lists
    from hwgen.core.register_map import is_engine

    name = config.name
    verilog, design = structures.emitted(config)
    pages = {}
    if config.registers:
        pages[f"{name}_registers.md"] = register_files.markdown(config)
    if is_engine(config):
        pages |= engine_drivers.gemm_driver(config)
    elif executes_lists(config):
        pages |= engine_drivers.list_driver(config)
    elif config.takes_jobs:
        pages |= engine_drivers.stream_driver(config)
    return {
        f"{name}.v": files.header(config, "//") + "\n" + verilog,
        f"{name}.json": files.manifest(config, design),
        f"{name}.sdc": files.constraints(config),
        f"{name}.f": files.header(config, "//") + f"{name}.v\n",
        f"{name}.core": files.fusesoc(config),
        f"{name}.vlt": files.waivers(config),
        f"{name}_regs.h": files.c_header(config),
        ipxact.FILE: ipxact.component(config),
        **pages,
    }
