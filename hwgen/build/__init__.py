# SPDX-License-Identifier: Apache-2.0
"""From a configuration to the files that describe its hardware."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwgen.families import family

if TYPE_CHECKING:
    from hwgen.config.model import FamilyConfig


def verilog_of(config: FamilyConfig) -> str:
    """Return the Verilog of a configuration, without the header of the emitted file."""
    from hwgen.build.verilog import to_verilog

    return to_verilog(family(config.family).part("rtl").generate(config), config.name)
