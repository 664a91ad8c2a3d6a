# SPDX-License-Identifier: Apache-2.0
"""Streams: what one beat holds, and beats to NumPy arrays and back.

A stream port is described once, by a `StreamPort` that the family's configuration derives; the
RTL skin, packers, testbench, manifest and documentation all read that description.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from hwgen.formats import NumberFormat
from hwgen.lazy import NDArray, np

Beats: TypeAlias = "NDArray[np.uint8]"
"""Beats as bytes, shape (..., bytes per beat), element 0 in the least significant bits."""


POST = "post"
"""Name of the input port of settings and column records, where results are post-processed."""


@dataclass(frozen=True)
class StreamPort:
    """An AXI4-Stream port of a core.

    Parameters
    ----------
    name : str
        ``act``, ``wgt``, `POST` or ``out``.
    direction : {"in", "out"}
        Seen from the core.
    format : NumberFormat
        Format of an element.
    lanes : int
        Elements in a beat.
    lane_width : int
        Bits from one element to the next.
    beat : str
        What a beat holds.
    last : str
        What ``tlast`` marks, empty if the port has none.
    per_job : bool
        Whether the port takes one beat for each job, which says what is to be done: an engine
        around the core has registers for it.
    tail_bytes : int
        Of an output: bytes of a beat that may follow a row and does not belong to it.
    """

    name: str
    direction: Literal["in", "out"]
    format: NumberFormat
    lanes: int
    lane_width: int
    beat: str
    last: str = ""
    per_job: bool = False
    tail_bytes: int = 0

    @property
    def prefix(self) -> str:
        """Prefix of the port's signals in the Verilog."""
        return f"{'s' if self.direction == 'in' else 'm'}_axis_{self.name}"

    @property
    def beat_bytes(self) -> int:
        """Bytes of a beat."""
        return -(-self.lanes * self.lane_width // 8)

    @property
    def data_width(self) -> int:
        """Width of ``tdata``: the lanes, filled up to whole bytes."""
        return 8 * self.beat_bytes

    def pack(self, values: NDArray[Any]) -> Beats:
        """Pack elements into beats.

        Parameters
        ----------
        values : ndarray, shape (..., lanes)
            Elements that the format holds; lanes may be missing at the end (zero).

        Returns
        -------
        ndarray of uint8, shape (..., beat_bytes)
        """
        *lead, count = values.shape
        if count < self.lanes:
            pad = np.zeros((*lead, self.lanes - count), values.dtype)
            values = np.concatenate([values, pad], axis=-1)
        values = self.format.encode(values)
        if self.lane_width in (8, 16, 32, 64):
            lanes = np.ascontiguousarray(values.astype(f"<u{self.lane_width // 8}"))
            return lanes.view(np.uint8)
        wide = values.astype("<u2" if self.lane_width <= 16 else "<u8")
        shifts = np.arange(self.lane_width, dtype=wide.dtype)
        bits = ((wide[..., None] >> shifts) & 1).astype(np.uint8)
        bits = bits.reshape(*lead, self.lanes * self.lane_width)
        return np.packbits(bits, axis=-1, bitorder="little")

    def unpack(self, beats: Beats) -> NDArray[Any]:
        """Return the elements of beats, shape (..., lanes), in the format's dtype."""
        *lead, _ = beats.shape
        dtype = self.format.dtype
        if self.lane_width == dtype.itemsize * 8:
            return np.ascontiguousarray(beats).view(dtype.newbyteorder("<")).astype(dtype)
        bits = np.unpackbits(beats, axis=-1, bitorder="little")[..., : self.lanes * self.lane_width]
        bits = bits.reshape(*lead, self.lanes, self.lane_width)
        weights = 1 << np.arange(self.lane_width, dtype=np.int64)
        return self.format.decode((bits * weights).sum(axis=-1))
