# SPDX-License-Identifier: Apache-2.0
"""From requests of bytes to bursts of beats, for the reader and the writer."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, ValueLike, signed
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

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


def request_stream(address_width: int, length_width: int) -> stream.Signature:
    """Return the signature of a stream of requests: any address, at least one byte."""
    layout = data.StructLayout({"address": address_width, "bytes": length_width})
    return stream.Signature(layout)


def below(m: Module, name: str, count: ValueLike, width: int) -> Value:
    """Return a bit for each index, least first: whether it is below `count`."""
    above = Signal(width, name=f"above_{name}")  # in reverse order
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
    i : In(stream)
        Requests (`request_stream`).  Its ready depends on that of `o` in the same cycle.
    drop : In(1)
        Drop the current request and those that arrive.
    o : Out(stream)
        Bursts.  ``address`` of the first beat, a multiple of the beat's bytes; ``length``, beats
        less one; ``first`` and ``final``, the index of the first valid byte in the first beat and
        of the last one in the last beat; ``last``, the request's last burst.
    """

    resettable = True

    def __init__(
        self, data_width: int, address_width: int, max_burst: int, length_width: int
    ) -> None:
        check_bursts(data_width, max_burst, 1)
        bits = byte_bits(data_width)
        burst = data.StructLayout(
            {"address": address_width, "length": 8, "first": bits, "final": bits, "last": 1}
        )
        super().__init__(
            f"burst_splitter_{data_width}_{address_width}_{max_burst}_{length_width}",
            {
                "i": In(request_stream(address_width, length_width)),
                "drop": In(1),
                "o": Out(stream.Signature(burst)),
            },
        )
        self.byte_bits = bits
        self.beat_bits = burst_beats(data_width, max_burst).bit_length() - 1
        self.length_width = length_width

    def build(self, m: Module) -> None:
        skipped, within = self.byte_bits, self.beat_bits
        first_byte = Signal(skipped, reset_less=True)
        final_byte = Signal(skipped, reset_less=True)
        # The next beat: which aligned range of the longest burst, and which beat of it.
        request, burst = self.i.payload, self.o.payload
        stretch = Signal(len(request.address) - skipped - within, reset_less=True)
        beat = Signal(within, reset_less=True)
        # Beats still to come after the next one.
        remaining = Signal(max(self.length_width - skipped, within) + 1, reset_less=True)

        m.d.comb += [
            burst.address.eq(Cat(Const(0, skipped), beat, stretch)),
            # ~beat is the number of beats that follow in the stretch.
            burst.last.eq(remaining <= ~beat if within else remaining == 0),
            burst.length.eq(Mux(burst.last, remaining[:within], ~beat) if within else 0),
            burst.first.eq(first_byte),
            burst.final.eq(Mux(burst.last, final_byte, -1)),
            self.i.ready.eq(~self.o.valid | self.drop | (self.o.ready & burst.last)),
        ]
        with m.If(self.i.ready):
            origin = Signal(signed(skipped + 1))
            span = Signal(self.length_width + 1)  # index of the last byte in the beats it touches
            m.d.comb += [
                origin.eq(request.address[:skipped] - 1),
                span.eq(request.bytes + origin),
            ]
            m.d.sync += [
                self.o.valid.eq(self.i.valid & ~self.drop),
                Cat(first_byte, beat, stretch).eq(request.address),
                remaining.eq(span[skipped:]),
                final_byte.eq(span[:skipped]),
            ]
        with m.Elif(self.o.ready):
            less = Cat(beat, Const(-1, signed(len(remaining) - within)))
            m.d.sync += [
                first_byte.eq(0),
                beat.eq(0),
                stretch.eq(stretch + 1),
                remaining.eq(remaining + less),
            ]
