# SPDX-License-Identifier: Apache-2.0
"""Bytes to beats of a stream and back."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class BeatsFromBytes(wiring.Component):
    """Joins bytes to beats, the first byte in the least significant bits.

    Parameters
    ----------
    beat_bytes : int
        Bytes of a beat.

    Attributes
    ----------
    byte, mark, byte_valid, byte_ready : Signal
        A byte, and whether the beat that it ends has ``tlast``.
    data, last, valid, ready : Signal
        A beat.
    """

    def __init__(self, beat_bytes: int) -> None:
        super().__init__({
            "byte": In(8), "mark": In(1), "byte_valid": In(1), "byte_ready": Out(1),
            "data": Out(8 * beat_bytes), "last": Out(1), "valid": Out(1), "ready": In(1),
        })  # fmt: skip
        self._beat_bytes = beat_bytes

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        count = Signal(range(self._beat_bytes + 1))
        m.d.comb += [
            self.valid.eq(count == self._beat_bytes),
            self.byte_ready.eq(~self.valid),
        ]
        with m.If(self.valid & self.ready):
            m.d.sync += count.eq(0)
        with m.If(self.byte_ready & self.byte_valid):
            m.d.sync += [
                count.eq(count + 1),
                self.data.eq(Cat(self.data, self.byte) >> 8),
                self.last.eq(self.mark),
            ]
        return m


class BytesFromBeats(wiring.Component):
    """Cuts beats into bytes, that in the least significant bits first.

    Parameters
    ----------
    beat_bytes : int
        Bytes of a beat.

    Attributes
    ----------
    data, valid, ready : Signal
        A beat.
    byte, byte_valid, byte_ready : Signal
        A byte.
    """

    def __init__(self, beat_bytes: int) -> None:
        super().__init__({
            "data": In(8 * beat_bytes), "valid": In(1), "ready": Out(1),
            "byte": Out(8), "byte_valid": Out(1), "byte_ready": In(1),
        })  # fmt: skip
        self._beat_bytes = beat_bytes

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        left = Signal(range(self._beat_bytes + 1))
        shift = Signal(8 * self._beat_bytes)
        m.d.comb += [
            self.ready.eq(left == 0),
            self.byte_valid.eq(left != 0),
            self.byte.eq(shift[:8]),
        ]
        with m.If(self.valid & self.ready):
            m.d.sync += [shift.eq(self.data), left.eq(self._beat_bytes)]
        with m.Elif(self.byte_valid & self.byte_ready):
            m.d.sync += [shift.eq(shift >> 8), left.eq(left - 1)]
        return m
