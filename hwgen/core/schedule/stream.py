# SPDX-License-Identifier: Apache-2.0
"""What the schedules of stream cores share: results, and the beats of port ``post``.

A beat of port ``post`` says what is done with the next beats of results, and for how many; with
column records it holds those of the columns of a beat of results.  The packer merges what is the
same for beats of results that follow each other: without records, one beat serves a product.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.core.port import POST
from hwgen.core.post import RAW, RECORD_BYTES, PostSettings, output_format
from hwgen.core.post.beats import HEAD_BITS, MAX_BEATS, WORD_BITS
from hwgen.core.schedule.product import Product
from hwgen.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.params.product import ProductConfig
    from hwgen.core.port import Beats, StreamPort
    from hwgen.core.post import Columns

RAW_RESULTS = PostSettings(RAW)
"""Results are the accumulators, in 32 or 64 bits."""


@dataclass(frozen=True)
class StreamProduct(Product):
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
    def output_beats(self) -> int:
        """Result beats of the whole product."""
        raise NotImplementedError

    def output_columns(self) -> Iterator[tuple[int, int]]:
        """Yield the first column of C of result beats, and how many follow each other with it."""
        raise NotImplementedError

    @cached_property
    def processing(self) -> PostSettings | None:
        """Settings of the post-processing, None of a core without.

        Raises
        ------
        InputError
            If the core does not offer what is asked, or the records are not those of N columns.
        """
        return processing(self.config, self.settings, self.columns, self.n)

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


def processing(
    config: ProductConfig, settings: PostSettings | None, columns: Columns | None, n: int
) -> PostSettings | None:
    """Return what a core does with results; see `StreamProduct.processing`."""
    features = config.post_features
    if features is None:
        if settings is not None or columns is not None:
            raise InputError(
                f"{config.name!r} has no post-processing; build it with post.outputs, or run it"
                " without settings"
            )
        return None
    settings = settings or RAW_RESULTS
    settings.check(features)
    if settings.columns != (columns is not None):
        reason = "there are none" if settings.columns else "the settings do not use them"
        raise InputError(f"columns: settings and column records do not fit: {reason}")
    if columns is not None and len(columns) != n:
        raise InputError(f"columns: must be as many as W has, {n}, not {len(columns)}")
    return settings


# -- any schedule ----------------------------------------------------------------------------------


def pack_inputs(plan: Any, a: NDArray[Any], w: NDArray[Any]) -> dict[str, Beats]:
    """Return what the packers of a plan make, by input port."""
    blocks = {"act": plan.pack_activations(a), "wgt": plan.pack_weights(w)}
    if any(port.name == POST for port in plan.config.ports):
        blocks[POST] = plan.pack_post()
    return blocks


def stream_input(plan: Any, port: StreamPort, blocks: Beats) -> Iterator[tuple[Beats, bool]]:
    """Return the beats of an input port in order, chunks with whether the final one has ``tlast``.

    Parameters
    ----------
    plan : Schedule
        Of any stream core.
    port : StreamPort
    blocks : ndarray of uint8
        Those of the port that `pack_inputs` made.
    """
    batches: Iterator[tuple[Beats, bool]]
    batches = plan.stream_post(blocks) if port.name == POST else plan.stream(port, blocks)
    return batches
