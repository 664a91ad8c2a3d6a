# SPDX-License-Identifier: Apache-2.0
"""The memory port as blocks see it: its channels, signal by signal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.lib.wiring import In, Member, Out

if TYPE_CHECKING:
    from hwgen.families.gemm_stream import GemmStreamConfig


def bus_members(config: GemmStreamConfig) -> dict[str, Member]:
    """Return the ports of the reader and the writer toward the memory."""
    address, data = config.memory.address_width, config.memory.data_width
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


def channels(bus: Any) -> dict[str, Any]:
    """Return the signals of an AXI4 bus under the names of `bus_members`."""
    names = (
        "ar_addr ar_len ar_valid ar_ready r_data r_resp r_last r_valid r_ready aw_addr aw_len"
        " aw_valid aw_ready w_data w_strb w_last w_valid w_ready b_resp b_valid b_ready"
    )
    return {name: getattr(bus, name.replace("_", "")) for name in names.split()}
