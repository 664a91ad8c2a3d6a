# SPDX-License-Identifier: Apache-2.0
"""From a configuration to the files that describe its hardware."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwgen.families import family

if TYPE_CHECKING:
    from hwgen.config.model import FamilyConfig


_remembered: dict[tuple[type, str], str] = {}
_most = 0


def remember(most: int) -> None:
    """Let a process keep the Verilog of so many configurations, those that were emitted last.

    For many simulations of few designs, while generators stay as they are.
    """
    global _most
    _most = most
    _remembered.clear()


def verilog_of(config: FamilyConfig) -> str:
    """Return the Verilog of a configuration, without the header of the emitted file."""
    from hwgen.emission.verilog import to_verilog

    key = (type(config), config.digest) if _most else None
    if key is None or (text := _remembered.pop(key, None)) is None:
        text = to_verilog(family(config.family).part("rtl").generate(config), config.name)
    if key is not None:
        _remembered[key] = text
        if len(_remembered) > _most:
            del _remembered[next(iter(_remembered))]
    return text


def files_of(config: FamilyConfig) -> dict[str, str]:
    """Return every file that ``hwgen build`` writes: name to text.

    The text depends on the configuration and hwgen's version alone.
    """
    from flows import structures
    from hwgen.emission import driver, files, ipxact, register_files
    from hwgen.register_map import is_engine

    name = config.name
    verilog, design = structures.emitted(config)
    pages = {}
    if config.registers:
        pages[f"{name}_registers.md"] = register_files.markdown(config)
    if is_engine(config):
        pages |= driver.driver(config)
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
