# SPDX-License-Identifier: Apache-2.0
"""The rows of a port, one after the other, whole or cut into bursts, or in pages."""

from __future__ import annotations

from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from hwgen.families.stream_engine.registers import ENTRY_BITS, SIZE_BITS, STRIDE_BITS
from rtl_templates.hdl.hierarchy import Block


class _Pages(NamedTuple):
    """Whether the walk waits for an entry, for that of the first page, and what of it is read."""

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
        Take the place of a new job; there is at least one byte, row and block.
    address, bytes, rows, blocks, stride, step : In
        As the registers of a port; they hold until the last row is given.
    paged, skip, last : In, with pages
        Each block is one row, whose address is in a table; registers of pages.
    entry, entry_valid, entry_ready : stream in, with pages
        The table.
    pending : Out(1), with pages
        There are more pieces, perhaps not yet.
    o_address, o_bytes, o_ends, o_last, o_valid, o_ready : stream out
        A piece; it ends its row; it is the last one.
    """

    resettable = True

    def __init__(self, address_width: int, piece: int, unit: int = 0) -> None:
        self.piece, self.unit = piece, unit
        pages = {
            "paged": In(1),
            "skip": In(SIZE_BITS),
            "last": In(SIZE_BITS),
            "entry": In(ENTRY_BITS),
            "entry_valid": In(1),
            "entry_ready": Out(1),
            "pending": Out(1),
        }
        super().__init__(
            f"row_walk_{address_width}_{piece}" + (f"_pages_of_{unit}" if unit else ""),
            {
                **(pages if unit else {}),
                "begin": In(1),
                "address": In(address_width),
                "bytes": In(SIZE_BITS),
                "rows": In(SIZE_BITS),
                "blocks": In(SIZE_BITS),
                "stride": In(STRIDE_BITS),
                "step": In(STRIDE_BITS),
                "o_address": Out(address_width),
                "o_bytes": Out(self.piece_bits if piece else SIZE_BITS),
                "o_ends": Out(1),
                "o_last": Out(1),
                "o_valid": Out(1),
                "o_ready": In(1),
            },
        )

    @property
    def piece_bits(self) -> int:
        """Bits of the bytes of a piece."""
        return self.piece.bit_length()

    def build(self, m: Module) -> None:
        width, skip = len(self.address), self.piece.bit_length() - 1
        block, row, at = (
            Signal(width, name=f"{name}_address", reset_less=True)
            for name in ("block", "row", "at")
        )
        left, rows, blocks = (
            Signal(SIZE_BITS, name=f"{name}_left", reset_less=True)
            for name in ("bytes", "rows", "blocks")
        )
        active = Signal(name="active")
        rows_of_block = Mux(self.paged, 1, self.rows) if self.unit else self.rows
        row_ends, block_ends = Signal(name="block_row_ends"), Signal(name="job_block_ends")
        m.d.comb += [
            self.o_valid.eq(active),
            self.o_address.eq(at),
            self.o_bytes.eq(left),
            self.o_ends.eq(1),
            row_ends.eq(rows == 1),
            block_ends.eq(blocks == 1),
            self.o_last.eq(self.o_ends & row_ends & block_ends),
        ]
        room = Signal(self.piece_bits, name="room")
        if self.piece:  # bytes up to the next multiple
            m.d.comb += [
                room.eq(Const(self.piece, self.piece_bits) - at[:skip]),
                self.o_ends.eq(left <= room),
                self.o_bytes.eq(Mux(self.o_ends, left, room)),
            ]
        next_row = Signal(width, name="next_row")
        m.d.comb += next_row.eq(Mux(row_ends, block + self.step, row + self.stride))
        pages = self._pages(m, active, block_ends) if self.unit else None
        with m.If(self.begin):
            m.d.sync += [
                active.eq(1),
                *(value.eq(self.address) for value in (block, row, at)),
                left.eq(self.bytes),
                rows.eq(rows_of_block),
                blocks.eq(self.blocks),
            ]
            if pages:
                m.d.sync += [active.eq(~self.paged), pages.waits.eq(self.paged), pages.first.eq(1)]
        if pages:
            with m.Elif(self.entry_valid & pages.waits):
                m.d.sync += [at.eq(pages.start), left.eq(pages.size), active.eq(1)]
                m.d.sync += [pages.waits.eq(0), pages.first.eq(0)]
        with m.Elif(active & self.o_ready):
            with m.If(self.o_ends):
                m.d.sync += [
                    at.eq(next_row),
                    row.eq(next_row),
                    left.eq(self.bytes),
                    rows.eq(Mux(row_ends, rows_of_block, rows - 1)),
                    active.eq(~self.o_last),
                ]
                if pages:
                    more = self.paged & ~self.o_last
                    m.d.sync += [active.eq(~self.o_last & ~self.paged), pages.waits.eq(more)]
                with m.If(row_ends):
                    m.d.sync += [block.eq(next_row), blocks.eq(blocks - 1)]
            with m.Else():
                m.d.sync += [at.eq(at + room), left.eq(left - room)]

    def _pages(self, m: Module, active: Signal, final: Signal) -> _Pages:
        """Return what is known of the next page; its entry is taken from the table."""
        found = _Pages(
            Signal(name="waits_for_entry"),
            Signal(name="first_page", reset_less=True),
            Signal(len(self.address), name="page_address"),
            Signal(SIZE_BITS, name="page_bytes"),
        )
        skipped = Mux(found.first, self.skip, 0)
        offset = Cat(Const(0, self.unit.bit_length() - 1), self.entry)
        m.d.comb += [
            found.start.eq(self.address + offset + skipped),
            found.size.eq(Mux(final, self.last, self.bytes) - skipped),
            self.entry_ready.eq(found.waits),
            self.pending.eq(active | found.waits),
        ]
        return found
