# SPDX-License-Identifier: Apache-2.0
"""The contracts of blocks, by class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from flows.formal.bursts import BurstLimits, ReaderChecker, SplitterChecker, WriterChecker
from flows.formal.contract import Contract, ForbiddenPath
from flows.formal.jobs import JobChecker
from flows.formal.list_memory import ListMemoryChecker
from flows.formal.regions import ResultRowChecker, RowWalkChecker
from flows.formal.registers import RegisterChecker
from flows.formal.sequencer import SequencerChecker
from flows.formal.sharing import ShareChecker
from flows.formal.streams import BufferChecker, BufferContract, Ring
from hwgen.families.transformer.registers import list_registers
from rtl_templates.axi.bursts import BurstSplitter
from rtl_templates.axi.control import Control
from rtl_templates.axi.reader import BurstReader
from rtl_templates.axi.share import MemoryShare
from rtl_templates.axi.writer import BurstWriter
from rtl_templates.gemm_stream.drain import ResultDrain
from rtl_templates.hdl.hierarchy import Block
from rtl_templates.stream.stream import (
    StreamBuffer,
    StreamFifo,
    StreamSkid,
    StreamSlice,
    StreamStore,
)
from rtl_templates.stream_engine.walk import RowWalk
from rtl_templates.transformer.control import ListControl
from rtl_templates.transformer.list_memory import ListMemory
from rtl_templates.transformer.sequencer import SEQUENCE, Sequencer

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
            (("i_data", "o_data"),),
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


def _splitter(block: Any) -> list[Contract]:
    limits = BurstLimits(8 << block.byte_bits, 1 << block.beat_bits)
    remaining = max(block.length_width - block.byte_bits, block.beat_bits) + 1
    return [Contract("bursts", partial(SplitterChecker, limits=limits, remaining=remaining))]


def _reader(block: Any) -> list[Contract]:
    paths = (ForbiddenPath("ar_ready", ("ar_valid",), "valid does not wait for ready"),)
    checker = partial(ReaderChecker, limits=_limits(block))
    return [Contract("bursts", checker, (("r_data", "o_data"),), paths)]


def _writer(block: Any) -> list[Contract]:
    paths = (
        ForbiddenPath("aw_ready", ("aw_valid", "w_valid"), "valid does not wait for ready"),
        ForbiddenPath("w_ready", ("aw_valid", "w_valid"), "valid does not wait for ready"),
    )
    checker = partial(WriterChecker, limits=_limits(block), stored=block.depth)
    return [Contract("bursts", checker, (("d_data", "w_data"), ("d_strobe", "w_strb")), paths)]


def _limits(block: Any) -> BurstLimits:
    splitter = block.splitter
    return BurstLimits(8 << splitter.byte_bits, 1 << splitter.beat_bits, block.outstanding)


def _control(block: Any) -> list[Contract]:
    registers = block.registers
    window = block.interface.window
    names = {each.name for each in window if each.bits and each.access == "rw"}
    nets = {"INTERRUPT_ENABLE": "interrupt_enable"}
    nets |= {name: f"job_{name.lower()}" for name in names}
    checker = partial(RegisterChecker, registers=registers, refusable=("SUBMIT",), nets=nets)
    offsets = {each.name: each.offset for each in registers}
    states = block.interface.states
    outputs = [f"{name}_job_data" for name in block.consumers]
    jobs = partial(
        JobChecker,
        queue=block.config.queue,
        consumers=block.consumers,
        faults=block.faults,
        submit=offsets["SUBMIT"],
        unfinished=states.index("unfinished"),
        state_bits=(len(states) - 1).bit_length(),
        window={each.name: each.bits for each in window},
        descriptor=block.descriptor,
    )
    return [
        Contract("registers", checker, (), _lite_paths()),
        Contract("jobs", jobs, memory=("jobs", *outputs) if block.config.queue > 1 else ()),
    ]


def _list_control(block: Any) -> list[Contract]:
    """Return the contract of the registers of lists, which refuse writes while a list runs."""
    registers = list_registers(block.config)
    checker = partial(RegisterChecker, registers=registers, refusable=("*",), nets={})
    return [Contract("registers", checker, (), _lite_paths())]


def _list_memory(block: Any) -> list[Contract]:
    checker = partial(ListMemoryChecker, data_width=block.memory.data_width)
    return [Contract("addresses", checker, cut_datapath=True, first_cycles=30)]


def _share(block: Any) -> list[Contract]:
    checker = partial(
        ShareChecker, managers=block.managers, outstanding=block.outstanding,
        ahead=block.registered,
    )  # fmt: skip
    return [Contract("bursts", checker)]


def _walk(block: Any) -> list[Contract]:
    checker = partial(RowWalkChecker, pieces=bool(block.piece), pages=bool(block.unit))
    return [Contract("addresses", checker, first_cycles=30)]


def _result_rows(block: Any) -> list[Contract]:
    checker = partial(ResultRowChecker, layout=block.job_layout)
    return [Contract("addresses", checker, first_cycles=30)]


def _sequencer(block: Any) -> list[Contract]:
    checker = partial(SequencerChecker, units=block.count, states=SEQUENCE, slots=block.slots)
    return [Contract("lists", checker, first_cycles=120)]


def _lite_paths() -> tuple[ForbiddenPath, ...]:
    about = "valid does not wait for ready"
    return (
        ForbiddenPath("bus_bready", ("bus_bvalid",), about),
        ForbiddenPath("bus_rready", ("bus_rvalid", "bus_rdata"), about),
    )


CONTRACTS: Mapping[type[Block], Callable[[Any], list[Contract]]] = {
    StreamBuffer: lambda block: _buffer(BufferContract(2, 2)),
    StreamSlice: lambda block: _buffer(BufferContract(1, 1, registered=False)),
    StreamSkid: lambda block: _buffer(BufferContract(1, 1, transparent=True)),
    StreamFifo: _fifo,
    StreamStore: _store,
    BurstSplitter: _splitter,
    BurstReader: _reader,
    BurstWriter: _writer,
    Control: _control,
    ListControl: _list_control,
    ListMemory: _list_memory,
    MemoryShare: _share,
    ResultDrain: _result_rows,
    RowWalk: _walk,
    Sequencer: _sequencer,
}
"""Blocks of which something is proven."""
