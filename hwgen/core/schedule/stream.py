# SPDX-License-Identifier: Apache-2.0
"""Common parts of the schedules of stream cores: results, and the beats of port ``post``.

A beat of port ``post`` says what is done with the next beats of results, and for how many; with
column records it holds those of the columns of a beat of results.  The packer merges what is the
same for beats of results that follow each other: without records, one beat serves a product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Self

from hwgen.core.operation import RECORDS
from hwgen.core.port import POST
from hwgen.core.post import RAW, RECORD_BYTES, Columns, PostSettings, output_format
from hwgen.core.post.beats import HEAD_BITS, MAX_BEATS, WORD_BITS
from hwgen.core.schedule.product import Product
from hwgen.errors import InputError
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.operation import Arrays, Chunks
    from hwgen.core.params.product import ProductConfig
    from hwgen.core.port import Beats, StreamPort

RAW_RESULTS = PostSettings(RAW)
"""Results are the accumulators, in 32 or 64 bits."""


@dataclass(frozen=True)
class StreamProduct(Product, ABC):
    """A product on a stream core; see `Product` for the other parameters.

    Parameters
    ----------
    settings : PostSettings, optional
        Post-processing; by default raw results, if the core has post-processing.
    columns : Columns, optional
        Records of the n columns, if ``settings.columns``.
    """

    config: ProductConfig
    settings: PostSettings | None = None
    columns: Columns | None = field(default=None, compare=False)

    @property
    @abstractmethod
    def output_beats(self) -> int:
        """Result beats of the whole product."""

    @abstractmethod
    def output_columns(self) -> Iterator[tuple[int, int]]:
        """Yield the first column of C of result beats, and how many follow each other with it."""

    @cached_property
    def processing(self) -> PostSettings | None:
        """Settings of the post-processing, None of a core without.

        Raises
        ------
        InputError
            If the core does not offer the settings.
        """
        features = self.config.post_features
        if features is None:
            if self.settings is not None or self.columns is not None:
                raise InputError(
                    f"{self.config.name!r} has no post-processing; build it with post.outputs, or"
                    " run it without settings"
                )
            return None
        settings = self.settings or RAW_RESULTS
        settings.check(features)
        return settings

    # -- beats -----------------------------------------------------------------------------

    @abstractmethod
    def pack_activations(self, a: NDArray[Any]) -> Beats:
        """Return the beats of A, shape (m, k), as the family's core takes them."""

    @abstractmethod
    def pack_weights(self, w: NDArray[Any]) -> Beats:
        """Return the beats of W, shape (k, n), as the family's core takes them."""

    @abstractmethod
    def stream(self, port: StreamPort, blocks: Beats) -> Chunks:
        """Yield the beats of an input port, from the blocks that its packer made."""

    @abstractmethod
    def locate_element(self, m: int, n: int) -> tuple[int, tuple[int, int]]:
        """Return the result beat that holds C[m,n], and its tile along M and N."""

    @abstractmethod
    def unpack_outputs(self, beats: Beats) -> NDArray[Any]:
        """Return C, shape (m, n), from the result beats, shape (output_beats, bytes)."""

    def with_records(self, operands: Arrays) -> Self:
        """Return the plan with the records of columns among the operands of a job.

        Raises
        ------
        InputError
            If there are records without settings that use them, or none with, or not one for each
            column of W.
        """
        columns = Columns.decode(operands[RECORDS]) if RECORDS in operands else None
        plan = replace(self, columns=columns)
        settings = plan.processing
        if settings is None:
            return plan
        if settings.columns != (columns is not None):
            reason = "there are none" if settings.columns else "the settings do not use them"
            raise InputError(f"columns: settings and column records do not fit: {reason}")
        if columns is not None and len(columns) != self.n:
            raise InputError(f"columns: must be as many as W has, {self.n}, not {len(columns)}")
        return plan

    def pack(self, operands: Arrays) -> dict[str, Chunks]:
        """Return the beats of every input port by name; see `hwgen.core.operation.StreamPlan`."""
        plan = self.with_records(operands)
        blocks = {
            "act": plan.pack_activations(operands["activations"]),
            "wgt": plan.pack_weights(operands["weights"]),
        }
        ports = {port.name: port for port in self.config.ports}
        chunks = {name: plan.stream(ports[name], blocks[name]) for name in blocks}
        if POST in ports:
            chunks[POST] = plan.stream_post(plan.pack_post())
        return {name: chunks[name] for name, port in ports.items() if port.direction == "in"}

    def unpack(self, beats: Beats) -> dict[str, NDArray[Any]]:
        """Return the result by name from result beats, shape (output_beats, bytes)."""
        return {"result": self.unpack_outputs(beats)}

    def locate(self, name: str, index: tuple[int, ...]) -> int:
        """Return the result beat that holds an element of the result."""
        m, n = index
        return self.locate_element(m, n)[0]

    # -- results ---------------------------------------------------------------------------

    def results(self, beats: Beats) -> NDArray[Any]:
        """Return the elements of result beats, shape (..., lanes), in the dtype of the output."""
        port: StreamPort = self.config.ports[-1]
        if self.processing is not None:
            fmt = output_format(self.processing.output, self.config.result)
            # The element is in the low bytes of its lane.
            lanes = beats.reshape(*beats.shape[:-1], port.lanes, -1)
            beats = lanes[..., : fmt.lane_width // 8].reshape(*beats.shape[:-1], -1)
            port = replace(port, format=fmt, lane_width=fmt.lane_width)
        return port.unpack(beats)

    # -- port post -------------------------------------------------------------------------

    def pack_post(self) -> Beats:
        """Return the beats of port ``post`` by columns, shape (blocks, bytes).

        Each is for one beat of results; `stream_post` repeats them in the order of the results.
        Block `i` is for the columns from ``i * columns_per_beat`` on.
        """
        config, settings = self.config, self.processing
        assert settings is not None
        port = next(port for port in config.ports if port.name == POST)
        width = config.columns_per_beat
        blocks = -(-self.n // width) if self.columns is not None else 1
        image = np.zeros((blocks, port.beat_bytes), np.uint8)
        words = settings.packed(config.result)
        image[:, : HEAD_BITS // 8] = np.frombuffer(
            words.to_bytes(HEAD_BITS // 8, "little"), np.uint8
        )
        if self.columns is not None:
            records = np.zeros((blocks * width, RECORD_BYTES), np.uint8)
            records[: self.n] = self.columns.encode()
            image[:, HEAD_BITS // 8 :] = records.reshape(blocks, -1)
        return image

    def stream_post(self, blocks: Beats) -> Iterator[tuple[Beats, bool]]:
        """Yield the beats of port ``post``, which has no ``tlast``, from what `pack_post` made."""
        runs: Iterator[tuple[int, int]] = iter([(0, self.output_beats)])
        if self.columns is not None:
            by_column = groupby(self.output_columns(), key=itemgetter(0))
            runs = ((column, sum(count for _, count in run)) for column, run in by_column)
        last = slice(HEAD_BITS // 8 - WORD_BITS // 8, HEAD_BITS // 8)
        for column, count in runs:
            for start in range(0, count, MAX_BEATS):
                beat = blocks[column // self.config.columns_per_beat].copy()
                repeat = min(MAX_BEATS, count - start) - 1
                beat[last] = np.frombuffer(repeat.to_bytes(WORD_BITS // 8, "little"), np.uint8)
                yield beat[None], False
