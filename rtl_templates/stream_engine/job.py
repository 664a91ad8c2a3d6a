# SPDX-License-Identifier: Apache-2.0
"""Layout of the descriptor of a job in the engine's sequencers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amaranth.hdl import Const, Mux, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

from hwgen.core.schedule.memory import SIZE_BITS
from hwgen.families.stream_engine.registers import ACCESS, FLAGS, MOST_PAGES, PAGES, STRIDE_BITS

if TYPE_CHECKING:
    from hwgen.families.stream_engine.params import StreamEngineConfig


class Region(NamedTuple):
    """Rows of a port in memory: blocks of rows, with the registers of `ACCESS`."""

    address: Value
    bytes: Value
    rows: Value
    blocks: Value
    stride: Value
    step: Value


class RegionSignature(wiring.Signature):
    """Signature of a `Region`.

    Parameters
    ----------
    address_width : int
    """

    def __init__(self, address_width: int) -> None:
        super().__init__(
            {
                "address": Out(address_width),
                "bytes": Out(SIZE_BITS),
                "rows": Out(SIZE_BITS),
                "blocks": Out(SIZE_BITS),
                "stride": Out(STRIDE_BITS),
                "step": Out(STRIDE_BITS),
            }
        )


class Pages(NamedTuple):
    """Registers of the pages in which the rows of a port may lie; see `PAGES`."""

    table: Value
    skip: Value
    last: Value


def job_layout(config: StreamEngineConfig) -> data.StructLayout:
    """Return the layout of a job's descriptor: beats of commands, and a region for each port."""
    address = config.memory.address_width
    fields = {port.name: port.data_width for port in config.commands}
    for port in (*config.operands, *config.results):
        fields[f"{port.name}_address"] = address
        fields |= {f"{port.name}_{key.lower()}": bits for key, (bits, _) in ACCESS.items()}
    for port in config.tables:
        fields[f"{port.name}_table"] = address
        fields |= {f"{port.name}_{key.lower()}": SIZE_BITS for key in PAGES}
    if config.results[0].tail_bytes:
        fields |= {"tail_address": address, "tail_bytes": SIZE_BITS}
        fields |= {"tail_stride": STRIDE_BITS, "tail_step": STRIDE_BITS}
    return data.StructLayout({**fields, **{flag.name: flag.bits for flag in FLAGS}})


def region_of(job: data.View, port: str) -> Region:
    """Return the region of the rows of a port."""
    return Region(*(getattr(job, f"{port}_{name}") for name in Region._fields))


def pages_of(job: data.View, port: str) -> Pages | None:
    """Return the registers of pages of a port, None if its rows cannot lie in pages."""
    if f"{port}_table" not in job.shape().members:
        return None
    return Pages(*(getattr(job, f"{port}_{name}") for name in Pages._fields))


def is_used(job: data.View, port: str) -> Value:
    """Return whether a job has rows for a port; incomplete pages count as none."""
    region, pages = region_of(job, port), pages_of(job, port)
    used: Value = region.bytes.any() & region.rows.any() & region.blocks.any()
    if pages is None:
        return used
    skip, last = pages.skip, pages.last
    begins = Mux(region.blocks == 1, skip, Const(0, SIZE_BITS))
    inside = (skip < region.bytes) & (begins < last) & (last <= region.bytes)
    return used & (~pages.table.any() | inside & (region.blocks <= MOST_PAGES))
