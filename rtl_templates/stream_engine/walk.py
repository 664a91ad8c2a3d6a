# SPDX-License-Identifier: Apache-2.0
"""Rows of a port, one after another, whole or cut into bursts, or in pages."""

from __future__ import annotations

from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from hwgen.core.schedule.memory import SIZE_BITS
from hwgen.families.stream_engine.registers import ENTRY_BITS
from rtl_templates.hdl.hierarchy import Block

from .job import RegionSignature


class _NextPage(NamedTuple):
    """Whether the walk waits for an entry, for that of the first page, and the bytes to read."""

    waits: Signal
    first: Signal
    start: Signal
    size: Signal


class RowWalk(Block):
    """Goes through the rows of blocks.

    Parameters
    ----------
    address_width : int
        Bits of an address.
    piece : int
        Pieces of rows end where an address is a multiple of it, a power of two; 0: rows are whole.
    unit : int
        Bytes that an entry of a table counts, a power of two; 0: there are no pages.

    Members
    -------
    begin : In(1)
        Start with a new region; it has at least one byte, row and block.
    region : In(RegionSignature)
        Stable until the last row has left.
    paged, skip, last : In, with pages
        Each block is one row, whose address is in a table; registers of pages.
    entry : In(stream), with pages
        Entries of the table.
    pending : Out(1), with pages
        More pieces will follow.
    o : Out(stream)
        Pieces: ``address``, ``bytes``; ``ends``, whether it ends its row; ``last``, whether it is
        the last one.
    """

    resettable = True

    def __init__(self, address_width: int, piece: int, unit: int = 0) -> None:
        self.piece, self.unit = piece, unit
        pages = {
            "paged": In(1),
            "skip": In(SIZE_BITS),
            "last": In(SIZE_BITS),
            "entry": In(stream.Signature(ENTRY_BITS)),
            "pending": Out(1),
        }
        pieces = data.StructLayout(
            {
                "address": address_width,
                "bytes": self.piece_bits if piece else SIZE_BITS,
                "ends": 1,
                "last": 1,
            }
        )
        super().__init__(
            f"row_walk_{address_width}_{piece}" + (f"_pages_of_{unit}" if unit else ""),
            {
                **(pages if unit else {}),
                "begin": In(1),
                "region": In(RegionSignature(address_width)),
                "o": Out(stream.Signature(pieces)),
            },
        )

    @property
    def piece_bits(self) -> int:
        """Bits of the bytes of a piece."""
        return self.piece.bit_length()

    def build(self, m: Module) -> None:
        region, piece = self.region, self.o.payload
        width, skip = len(region.address), self.piece.bit_length() - 1
        block, row, at = (
            Signal(width, name=f"{name}_address", reset_less=True)
            for name in ("block", "row", "at")
        )
        left, rows, blocks = (
            Signal(SIZE_BITS, name=f"{name}_left", reset_less=True)
            for name in ("bytes", "rows", "blocks")
        )
        active = Signal(name="active")
        rows_of_block = Mux(self.paged, 1, region.rows) if self.unit else region.rows
        row_ends, block_ends = Signal(name="block_row_ends"), Signal(name="job_block_ends")
        m.d.comb += [
            self.o.valid.eq(active),
            piece.address.eq(at),
            piece.bytes.eq(left),
            piece.ends.eq(1),
            row_ends.eq(rows == 1),
            block_ends.eq(blocks == 1),
            piece.last.eq(piece.ends & row_ends & block_ends),
        ]
        space = Signal(self.piece_bits, name="space")
        if self.piece:  # bytes up to the next multiple
            m.d.comb += [
                space.eq(Const(self.piece, self.piece_bits) - at[:skip]),
                piece.ends.eq(left <= space),
                piece.bytes.eq(Mux(piece.ends, left, space)),
            ]
        next_row = Signal(width, name="next_row")
        m.d.comb += next_row.eq(Mux(row_ends, block + region.step, row + region.stride))
        pages = self._pages(m, active, block_ends) if self.unit else None
        with m.If(self.begin):
            m.d.sync += [
                active.eq(1),
                *(value.eq(region.address) for value in (block, row, at)),
                left.eq(region.bytes),
                rows.eq(rows_of_block),
                blocks.eq(region.blocks),
            ]
            if pages:
                m.d.sync += [active.eq(~self.paged), pages.waits.eq(self.paged), pages.first.eq(1)]
        if pages:
            with m.Elif(self.entry.valid & pages.waits):
                m.d.sync += [at.eq(pages.start), left.eq(pages.size), active.eq(1)]
                m.d.sync += [pages.waits.eq(0), pages.first.eq(0)]
        with m.Elif(active & self.o.ready):
            with m.If(piece.ends):
                m.d.sync += [
                    at.eq(next_row),
                    row.eq(next_row),
                    left.eq(region.bytes),
                    rows.eq(Mux(row_ends, rows_of_block, rows - 1)),
                    active.eq(~piece.last),
                ]
                if pages:
                    more = self.paged & ~piece.last
                    m.d.sync += [active.eq(~piece.last & ~self.paged), pages.waits.eq(more)]
                with m.If(row_ends):
                    m.d.sync += [block.eq(next_row), blocks.eq(blocks - 1)]
            with m.Else():
                m.d.sync += [at.eq(at + space), left.eq(left - space)]

    def _pages(self, m: Module, active: Signal, final: Signal) -> _NextPage:
        """Return the next page; its entry is read from the table."""
        page = _NextPage(
            Signal(name="waits_for_entry"),
            Signal(name="first_page", reset_less=True),
            Signal(len(self.region.address), name="page_address"),
            Signal(SIZE_BITS, name="page_bytes"),
        )
        skipped = Mux(page.first, self.skip, 0)
        offset = Cat(Const(0, self.unit.bit_length() - 1), self.entry.payload)
        m.d.comb += [
            page.start.eq(self.region.address + offset + skipped),
            page.size.eq(Mux(final, self.last, self.region.bytes) - skipped),
            self.entry.ready.eq(page.waits),
            self.pending.eq(active | page.waits),
        ]
        return page
