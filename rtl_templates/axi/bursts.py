# SPDX-License-Identifier: Apache-2.0
"""From requests of bytes to bursts of beats, for the reader and the writer."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, ValueLike, signed
from amaranth.lib.wiring import In, Member, Out

from hwgen.core.bus import LONGEST_BURST, burst_beats
from rtl_templates.axi.bus import check_data_width
from rtl_templates.hdl.hierarchy import Block


def byte_bits(data_width: int) -> int:
    """Return the bits of the index of a byte in a beat."""
    return (data_width // 8).bit_length() - 1


def check_bursts(data_width: int, max_burst: int, outstanding: int) -> None:
    """Refuse parameters that the engines cannot be made with."""
    check_data_width(data_width)
    if max_burst not in (1 << bits for bits in range(LONGEST_BURST.bit_length())):
        raise ValueError(
            f"max_burst must be a power of two from 1 to {LONGEST_BURST}, not {max_burst!r}"
        )
    if outstanding < 1:
        raise ValueError(f"outstanding must be at least 1, not {outstanding!r}")


def request_members(address_width: int, length_width: int) -> dict[str, Member]:
    """Return the ports by which an engine takes requests."""
    return {
        "i_address": In(address_width),
        "i_bytes": In(length_width),
        "i_valid": In(1),
        "i_ready": Out(1),
    }


def below(m: Module, name: str, count: ValueLike, width: int) -> Value:
    """Return a bit for each index, least first: whether it is below `count`."""
    above = Signal(width, name=f"above_{name}")  # the other way round
    m.d.comb += above.eq(Const((1 << width) - 1, width) >> count)
    return ~above[::-1]


class BurstSplitter(Block):
    """Cuts requests into bursts, one a cycle and without a gap between requests.

    Bursts end where their address is a multiple of the longest burst, so only a request's first
    and last bursts are shorter, and none crosses 4 KiB.

    Parameters
    ----------
    data_width, address_width : int
        Bits of the bus.
    max_burst : int
        Longest burst in beats, a power of two up to 256; shorter where 4 KiB hold fewer.
    length_width : int
        Bits of the length of a request.

    Members
    -------
    i_address, i_bytes, i_valid, i_ready : request in
        Any address; at least one byte.  `i_ready` follows `o_ready` in the same cycle.
    drop : In(1)
        Forget the request at hand and swallow those that come.
    o_address : Out
        Address of the burst's first beat, a multiple of the beat's bytes.
    o_length : Out(8)
        Beats less one.
    o_first, o_final : Out
        Index of the first valid byte in the first beat, of the last one in the last beat.
    o_last : Out(1)
        Last burst of the request.
    o_valid, o_ready : handshake
    """

    resettable = True

    def __init__(
        self, data_width: int, address_width: int, max_burst: int, length_width: int
    ) -> None:
        check_bursts(data_width, max_burst, 1)
        bits = byte_bits(data_width)
        super().__init__(
            f"burst_splitter_{data_width}_{address_width}_{max_burst}_{length_width}",
            {
                **request_members(address_width, length_width),
                "drop": In(1),
                "o_address": Out(address_width),
                "o_length": Out(8),
                "o_first": Out(bits),
                "o_final": Out(bits),
                "o_last": Out(1),
                "o_valid": Out(1),
                "o_ready": In(1),
            },
        )
        self.byte_bits = bits
        self.beat_bits = burst_beats(data_width, max_burst).bit_length() - 1
        self.length_width = length_width

    def build(self, m: Module) -> None:
        skipped, within = self.byte_bits, self.beat_bits
        first_byte = Signal(skipped, reset_less=True)
        final_byte = Signal(skipped, reset_less=True)
        # The next beat: which aligned stretch of the longest burst, and which beat of it.
        stretch = Signal(len(self.i_address) - skipped - within, reset_less=True)
        beat = Signal(within, reset_less=True)
        # Beats still to come after the next one.
        remaining = Signal(max(self.length_width - skipped, within) + 1, reset_less=True)

        m.d.comb += [
            self.o_address.eq(Cat(Const(0, skipped), beat, stretch)),
            # ~beat is the number of beats that follow in the stretch.
            self.o_last.eq(remaining <= ~beat if within else remaining == 0),
            self.o_length.eq(Mux(self.o_last, remaining[:within], ~beat) if within else 0),
            self.o_first.eq(first_byte),
            self.o_final.eq(Mux(self.o_last, final_byte, -1)),
            self.i_ready.eq(~self.o_valid | self.drop | (self.o_ready & self.o_last)),
        ]
        with m.If(self.i_ready):
            origin = Signal(signed(skipped + 1))
            span = Signal(self.length_width + 1)  # index of the last byte in the beats it touches
            m.d.comb += [
                origin.eq(self.i_address[:skipped] - 1),
                span.eq(self.i_bytes + origin),
            ]
            m.d.sync += [
                self.o_valid.eq(self.i_valid & ~self.drop),
                Cat(first_byte, beat, stretch).eq(self.i_address),
                remaining.eq(span[skipped:]),
                final_byte.eq(span[:skipped]),
            ]
        with m.Elif(self.o_ready):
            less = Cat(beat, Const(-1, signed(len(remaining) - within)))
            m.d.sync += [
                first_byte.eq(0),
                beat.eq(0),
                stretch.eq(stretch + 1),
                remaining.eq(remaining + less),
            ]
