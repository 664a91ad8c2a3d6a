# SPDX-License-Identifier: Apache-2.0
"""Tile jobs of a ternary-LUT core.

A *pass* is what a core does with one beat of activations, ``A[m, k0 .. k0 + terms]``: its tables
are built once, then groups of `fetch_ports` columns read them, one group a cycle, or a cycle for
each bit plane of the weights.  The passes over
K of a row of A accumulate, up to `accumulator_depth` groups at once; a product with more columns
is done block by block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hwgen.core.schedule.checks import check_operand, weight_beats
from hwgen.core.schedule.stream import StreamProduct
from hwgen.errors import InputError
from hwgen.formats import TERNARY, bit_planes, ternary
from hwgen.lazy import NDArray, np

if TYPE_CHECKING:
    from hwgen.core.port import Beats, StreamPort
    from hwgen.families.ternary_lut.params import TernaryLutConfig


@dataclass(frozen=True)
class Schedule(StreamProduct):
    """The tile jobs of one product; see `StreamProduct` for its parameters."""

    config: TernaryLutConfig

    # -- tiling ----------------------------------------------------------------------------

    @property
    def k_tiles(self) -> int:
        """Beats of activations of a row of A."""
        return -(-self.k // self.config.terms)

    @property
    def groups(self) -> int:
        """Groups of columns of C."""
        return -(-self.n // self.config.array.fetch_ports)

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yield the first group and the number of groups of each block of columns."""
        depth = self.config.array.accumulator_depth
        for first in range(0, self.groups, depth):
            yield first, min(depth, self.groups - first)

    @property
    def exact_terms(self) -> int:
        """Terms added at once, in integers exactly, before each accumulation."""
        return self.config.terms

    @property
    def output_beats(self) -> int:
        """Result beats of the whole product."""
        return self.m * self.groups

    # -- packing ---------------------------------------------------------------------------

    def pack_activations(self, a: NDArray[Any]) -> Beats:
        """Pack A, shape (m, k), into beats, shape (m, k_tiles, bytes)."""
        check_operand("activations", a, (self.m, self.k), self.config.activation)
        terms = self.config.terms
        padded = np.zeros((self.m, self.k_tiles * terms), a.dtype)
        padded[:, : self.k] = a
        return self.config.core_ports[0].pack(padded.reshape(self.m, self.k_tiles, terms))

    def keys(self, w: NDArray[np.integer]) -> NDArray[Any]:
        """Return the keys of W, shape (k_tiles, groups * planes, fetch_ports, tables)."""
        config, array, terms = self.config, self.config.array, self.config.terms
        # Where it is padded W meets activations of zero, or makes columns that nobody looks at.
        shape = (self.k_tiles * terms, self.groups * array.fetch_ports)
        padded = np.full(shape, config.weight.zero, np.int8)
        padded[: self.k, : self.n] = w
        tiles = padded.reshape(
            self.k_tiles, array.tables, array.group_size, self.groups, array.fetch_ports
        ).transpose(0, 3, 4, 1, 2)
        if array.method == "multiply":
            return tiles[..., 0].astype(config.key.dtype)
        if config.digit is TERNARY:
            return ternary.encode(tiles)
        keys = np.moveaxis(bit_planes.encode(tiles, config.weight), -1, 2)
        return keys.reshape(self.k_tiles, self._beats, *keys.shape[3:])

    @property
    def _beats(self) -> int:
        """Beats of weights for each beat of activations."""
        return self.groups * self.config.planes

    def pack_weights(self, w: NDArray[np.integer]) -> Beats:
        """Pack W, shape (k, n), into beats of keys, shape (k_tiles, groups * planes, bytes)."""
        check_operand("weights", w, (self.k, self.n), self.config.weight)
        keys = self.keys(w)
        return self.config.core_ports[1].pack(keys.reshape(*keys.shape[:2], -1))

    @property
    def weights_per_lane(self) -> int:
        """Weights that a lane of port ``wgt`` stands for."""
        return self.config.array.group_size

    def unpack_weights(self, image: Beats) -> NDArray[np.integer]:
        """Return W, shape (k, n), from what `pack_weights` made, in any shape.

        Raises
        ------
        InputError
            If the number of bytes is not what `pack_weights` makes, or a key stands for nothing.
        """
        config, array, port = self.config, self.config.array, self.config.core_ports[1]
        keys = port.unpack(weight_beats(image, port, self.k_tiles, self._beats))
        keys = keys.reshape(
            self.k_tiles, self.groups, config.planes, array.fetch_ports, array.tables
        )
        if config.digit is not TERNARY:
            keys = np.moveaxis(keys, 2, -1)
            tiles = bit_planes.decode(keys, array.group_size, config.weight)
        elif array.method == "multiply":
            tiles = keys[:, :, 0].astype(np.int8)[..., None]
            if (tiles[..., 0] != keys[:, :, 0]).any():
                raise InputError("packed weights: must be -1, 0 and 1")
        else:
            try:
                tiles = ternary.decode(keys[:, :, 0], array.group_size)
            except ValueError as error:
                raise InputError(f"packed weights: {error}") from None
        padded = tiles.transpose(0, 3, 4, 1, 2).reshape(self.k_tiles * self.config.terms, -1)
        w = np.ascontiguousarray(padded[: self.k, : self.n])
        check_operand("packed weights", w, (self.k, self.n), self.config.weight)
        return w

    def stream(self, port: StreamPort, blocks: Beats) -> Iterator[tuple[Beats, bool]]:
        """Yield the beats of an input port, from what its packer made."""
        planes = self.config.planes
        for first, count in self.blocks():
            beats = slice(first * planes, (first + count) * planes)
            for row in range(self.m):
                if port.name == "act":
                    yield blocks[row], True
                else:
                    for tile in range(self.k_tiles):
                        yield blocks[tile, beats], True

    def input_beats(self, port: StreamPort) -> int:
        """Beats that the product takes from an input port."""
        rows = self.m * self.k_tiles
        return rows * (
            -(-self.groups // self.config.array.accumulator_depth)
            if port.name == "act"
            else self._beats
        )

    def output_columns(self) -> Iterator[tuple[int, int]]:
        """Yield the first column of C of result beats, and how many follow each other with it."""
        ports = self.config.array.fetch_ports
        for first, count in self.blocks():
            for _ in range(self.m):
                for group in range(first, first + count):
                    yield group * ports, 1

    def output_last(self) -> Iterator[bool]:
        """Yield the ``tlast`` of every result beat."""
        for _, count in self.blocks():
            for _ in range(self.m):
                for group in range(count):
                    yield group == count - 1

    def locate_element(self, m: int, n: int) -> tuple[int, tuple[int, int]]:
        """Return the result beat that holds C[m,n], and its tile along M and N."""
        group = n // self.config.array.fetch_ports
        beat = 0
        for first, count in self.blocks():
            if group < first + count:
                return beat + m * count + group - first, (m, group)
            beat += self.m * count
        raise IndexError(n)

    def unpack_outputs(self, beats: Beats) -> NDArray[Any]:
        """Return C, shape (m, n), from the result beats, shape (output_beats, bytes)."""
        values = self.results(beats)
        parts, start = [], 0
        for _, count in self.blocks():
            part = values[start : start + self.m * count]
            parts.append(part.reshape(self.m, -1))
            start += self.m * count
        return np.ascontiguousarray(np.concatenate(parts, axis=1)[:, : self.n])
