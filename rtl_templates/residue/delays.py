# SPDX-License-Identifier: Apache-2.0
"""Registers in the place of those that complete the results of a core."""

from __future__ import annotations

from amaranth.hdl import Module

from rtl_templates.hdl.streams import AnyStream
from rtl_templates.stream.stream import StreamSlice, buffered


def delay_rows(m: Module, rows: AnyStream, registers: int) -> AnyStream:
    """Return a stream after registers that may stall, as `final_add_stream` has them."""
    for number in range(registers):
        rows = buffered(m, f"late_{number}", rows, StreamSlice)
    return rows
