# SPDX-License-Identifier: Apache-2.0
"""The descriptor of a job as the engine's sequencers see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Const, Mux, Value
from amaranth.lib import data

from hwgen.families.stream_engine.registers import (
    ACCESS,
    FLAGS,
    MOST_PAGES,
    PAGES,
    SIZE_BITS,
    STRIDE_BITS,
)

if TYPE_CHECKING:
    from hwgen.families.stream_engine.params import StreamEngineConfig

PLACE = ("address", *(name.lower() for name in ACCESS))
"""What says where the rows of a port lie."""


def job_layout(config: StreamEngineConfig) -> data.StructLayout:
    """Return the layout of a job's descriptor: beats of commands, and a place for each port."""
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


def place_of(job: Any, port: str) -> dict[str, Value]:
    """Return where the rows of a port lie, by the names of `PLACE`."""
    return {name: getattr(job, f"{port}_{name}") for name in PLACE}


def pages_of(job: Any, port: str) -> dict[str, Value] | None:
    """Return which rows of a port lie in pages, and where, if they may; see `PAGES`."""
    if f"{port}_table" not in job.shape().members:
        return None
    return {name: getattr(job, f"{port}_{name}") for name in ("table", "skip", "last")}


def is_used(job: Any, port: str) -> Value:
    """Return whether a job has rows for a port; pages that are not whole ones have none."""
    found, pages = place_of(job, port), pages_of(job, port)
    used: Value = found["bytes"].any() & found["rows"].any() & found["blocks"].any()
    if pages is None:
        return used
    skip, last = pages["skip"], pages["last"]
    begins = Mux(found["blocks"] == 1, skip, Const(0, SIZE_BITS))
    inside = (skip < found["bytes"]) & (begins < last) & (last <= found["bytes"])
    return used & (~pages["table"].any() | inside & (found["blocks"] <= MOST_PAGES))
