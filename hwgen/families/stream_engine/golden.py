# SPDX-License-Identifier: Apache-2.0
"""Golden model of an engine around a stream core: what the core computes, and what its jobs do.

`execute` is for cores that are a `hwgen.core.protocols.CommandCore`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hwgen.core.protocols import CommandCore
from hwgen.core.registry import core_of
from hwgen.families.stream_engine.jobs import TAIL, RowRegion, leaves_bytes
from hwgen.families.stream_engine.registers import ENTRY_BYTES, MOST_PAGES
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.lists.golden import Memory
    from hwgen.core.port import StreamPort
    from hwgen.families.stream_engine.params import StreamEngineConfig

    Beats = NDArray[np.uint8]


def execute(config: StreamEngineConfig, registers: Mapping[str, int], memory: Memory) -> None:
    """Do the job that the registers of the job window describe.

    Parameters
    ----------
    config : StreamEngineConfig
    registers : mapping of int
        Contents by register name.
    memory : Memory
        Read and written.

    Raises
    ------
    MemoryFault
        By the memory, if something is read or written that is not there.
    ValueError
        If the numbers of the job do not agree.
    """
    core = config.compute
    beats: dict[str, Beats] = {}
    for port in config.commands:
        words = [registers[f"{port.name.upper()}_{i}"] for i in range(-(-port.beat_bytes // 4))]
        beat = b"".join(word.to_bytes(4, "little") for word in words)[: port.beat_bytes]
        beats[port.name] = np.frombuffer(beat, np.uint8).reshape(1, -1)
    for port in config.operands:
        beats[port.name] = _read(
            port, _decode_pages(config, registers, port.name.upper(), memory), memory
        )
    out = config.results[0]
    child = core_of(core)
    assert isinstance(child, CommandCore)
    results = child.respond(beats)
    region = _decode_region(registers, out.name.upper())
    tail = registers.get("TAIL_BYTES", 0)
    count = -(-region.row_bytes // out.beat_bytes)
    rows = region.rows * region.blocks
    if not region.row_bytes * rows or len(results) != rows * (count + bool(tail)):
        raise ValueError(f"{rows} rows of {count} beats, but the core gives {len(results)}")
    results = results.reshape(rows, -1)
    for address, row in zip(region.addresses(), results, strict=True):
        memory.write(address, row[: region.row_bytes].tobytes())
    if tail:
        tails = _decode_region(registers, TAIL.upper(), region)
        for address, row in zip(tails.addresses(), results, strict=True):
            start = count * out.beat_bytes
            memory.write(address, row[start : start + tail].tobytes())


def _decode_pages(
    config: StreamEngineConfig, registers: Mapping[str, int], name: str, memory: Memory
) -> RowRegion:
    """Return the region that the registers of a port describe, with its pages."""
    region = _decode_region(registers, name)
    table = registers.get(f"{name}_TABLE_LOW", 0) | registers.get(f"{name}_TABLE_HIGH", 0) << 32
    if not table or not region.row_bytes * region.rows * region.blocks:
        return region
    skip, last = registers[f"{name}_SKIP"], registers[f"{name}_LAST"]
    if not leaves_bytes(region.row_bytes, region.blocks, skip, last):
        raise ValueError(f"pages of {region.row_bytes} bytes from byte {skip} to byte {last}")
    if region.blocks > MOST_PAGES:
        raise ValueError(f"{region.blocks} pages")
    table -= table % ENTRY_BYTES
    entries = np.frombuffer(memory.read(table, ENTRY_BYTES * region.blocks), "<u4")
    pages = [int(entry) * config.memory_bytes for entry in entries]
    return RowRegion.paged(region.address, region.row_bytes, pages, table, skip=skip, last=last)


def _decode_region(
    registers: Mapping[str, int], name: str, like: RowRegion | None = None
) -> RowRegion:
    """Return the region that the registers of a port describe; `like` has its rows and blocks."""
    rows = registers[f"{name}_ROWS"] if like is None else like.rows
    blocks = registers[f"{name}_BLOCKS"] if like is None else like.blocks
    address = registers[f"{name}_ADDRESS_LOW"] | registers[f"{name}_ADDRESS_HIGH"] << 32
    return RowRegion(
        address,
        registers[f"{name}_BYTES"],
        rows,
        registers[f"{name}_STRIDE"],
        blocks,
        registers[f"{name}_STEP"],
    )


def _read(port: StreamPort, region: RowRegion, memory: Memory) -> Beats:
    """Return the beats of a port; behind the end of a row are zeros."""
    size, result = port.beat_bytes, [np.zeros(0, np.uint8)]
    for address, length in region.spans() if region.row_bytes else []:
        row = np.frombuffer(memory.read(address, length), np.uint8)
        result.append(np.pad(row, (0, -length % size)))
    return np.concatenate(result).reshape(-1, size)
