# SPDX-License-Identifier: Apache-2.0
"""Signatures of the buses, as members of a core that `rtl_templates.hdl.shell.AxiShell` knows."""

from __future__ import annotations

from typing import Any

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hwgen.core.bus import REGISTER_WIDTH, BusPort

WIDTHS = (32, 64, 128, 256, 512, 1024)
"""Data widths of the memory bus, bits."""

_INCREMENTING = 1  # awburst: each beat at the next address
_ORDINARY = 3  # awcache: memory that may be buffered and that no cache holds


class BusSignature(wiring.Signature):
    """Signature of a bus, its flows seen from the core.

    Parameters
    ----------
    port : BusPort
        Description of the bus; its name does not count.
    """

    def __init__(self, port: BusPort) -> None:
        super().__init__(
            {
                name: Out(bits) if direction == "out" else In(bits)
                for name, direction, bits in port.signals
            }
        )
        self.port = port


def axi4(data_width: int, address_width: int) -> BusSignature:
    """Return the signature of an AXI4 manager; ``id`` is one bit, always 0.

    Raises
    ------
    ValueError
        If the data width is none of `WIDTHS`.
    """
    check_data_width(data_width)
    return BusSignature(BusPort("axi4", "", data_width, address_width))


def axi_lite(address_width: int) -> BusSignature:
    """Return the signature of an AXI4-Lite subordinate with 32 bits of data."""
    return BusSignature(BusPort("axi_lite", "", REGISTER_WIDTH, address_width))


def fixed_fields(bus: Any, data_width: int) -> list[Any]:
    """Return the assignments of the fields of an AXI4 bus that never change."""
    size = (data_width // 8).bit_length() - 1
    values = {"id": 0, "size": size, "burst": _INCREMENTING, "cache": _ORDINARY, "prot": 0}
    return [
        getattr(bus, f"{channel}{name}").eq(value)
        for channel in ("aw", "ar")
        for name, value in values.items()
    ]


def check_data_width(data_width: int) -> None:
    """Refuse a data width that no memory bus has."""
    if data_width not in WIDTHS:
        raise ValueError(f"data_width must be one of {WIDTHS}, not {data_width!r}")
