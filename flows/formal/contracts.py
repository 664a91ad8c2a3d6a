# SPDX-License-Identifier: Apache-2.0
"""The contracts of blocks, by class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from flows.formal.contract import Contract, ForbiddenPath
from flows.formal.streams import BufferChecker, BufferContract, Ring
from rtl_templates.hdl.hierarchy import Block
from rtl_templates.stream.stream import (
    StreamBuffer,
    StreamFifo,
    StreamSkid,
    StreamSlice,
    StreamStore,
)

_SMALLEST_RING = 4
"""Entries from which the proof of a FIFO has lemmas."""


def contracts_of(block: Block) -> list[Contract]:
    """Return the contracts of a block; most blocks have none."""
    make = CONTRACTS.get(type(block))
    return make(block) if make else []


def _buffer(contract: BufferContract, ring: Ring | None = None) -> list[Contract]:
    paths = [ForbiddenPath("o_ready", ("o_valid", "o_data"), "valid does not wait for ready")]
    if contract.registered:
        paths.append(ForbiddenPath("o_ready", ("i_ready",), "the input's ready is registered"))
    if not contract.transparent:
        paths.append(
            ForbiddenPath("i_valid", ("o_valid", "i_ready"), "the handshakes are registered")
        )
    return [
        Contract(
            "buffers",
            partial(BufferChecker, contract=contract, ring=ring),
            ("i_data", "o_data"),
            tuple(paths),
        )
    ]


def _fifo(block: Any) -> list[Contract]:
    depth = block.depth
    ring = Ring("entries", depth, "level") if depth >= _SMALLEST_RING else None
    return _buffer(BufferContract(depth, depth), ring)


def _store(block: Any) -> list[Contract]:
    depth = block.depth
    ring = Ring("beats", depth, "inside", ahead=True) if depth >= _SMALLEST_RING else None
    return _buffer(BufferContract(depth + 1, depth, latency=1), ring)


CONTRACTS: Mapping[type[Block], Callable[[Any], list[Contract]]] = {
    StreamBuffer: lambda block: _buffer(BufferContract(2, 2)),
    StreamSlice: lambda block: _buffer(BufferContract(1, 1, registered=False)),
    StreamSkid: lambda block: _buffer(BufferContract(1, 1, transparent=True)),
    StreamFifo: _fifo,
    StreamStore: _store,
}
"""Blocks of which something is proven."""
