# SPDX-License-Identifier: Apache-2.0
"""The memory port as blocks see it: its channels, signal by signal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.lib.wiring import In, Member, Out

if TYPE_CHECKING:
    from hwgen.core.params.memory_port import Memory


def bus_members(memory: Memory) -> dict[str, Member]:
    """Return the ports of the reader and the writer toward the memory."""
    address, data = memory.address_width, memory.data_width
    return {
        "ar_addr": Out(address),
        "ar_len": Out(8),
        "ar_valid": Out(1),
        "ar_ready": In(1),
        "r_data": In(data),
        "r_resp": In(2),
        "r_last": In(1),
        "r_valid": In(1),
        "r_ready": Out(1),
        "aw_addr": Out(address),
        "aw_len": Out(8),
        "aw_valid": Out(1),
        "aw_ready": In(1),
        "w_data": Out(data),
        "w_strb": Out(data // 8),
        "w_last": Out(1),
        "w_valid": Out(1),
        "w_ready": In(1),
        "b_resp": In(2),
        "b_valid": In(1),
        "b_ready": Out(1),
    }


def channels(memory: Memory, bus: Any) -> dict[str, Any]:
    """Return the signals of an AXI4 bus under the names of `bus_members`."""
    return {name: getattr(bus, name.replace("_", "")) for name in bus_members(memory)}
