# SPDX-License-Identifier: Apache-2.0
"""Closed forms of serial PEs: expected cycles and rates of many configurations at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from cost_model.closed_forms.space import View
from hwgen.arithmetic.sparse_digits import GROUP_TERMS
from hwgen.core.cycles.counting import Number
from hwgen.core.params.processing_elements import QUEUES
from hwgen.families.spatial.serial_cycles import Law, Shape, Size, count_expected


def expected_at(v: View, shape: Shape, latency: Number, sizes: Iterable[Size]) -> Number:
    """Return the expectation of `counted_cycles` for every configuration of a view."""
    sizes = tuple(sizes)

    def of(law: Law, *figures: Number) -> Number:
        rows, depth, cols, stages, latency = figures
        return count_expected(law, (rows, depth, cols), stages, latency, sizes)

    return _by_law(v, of, *shape, v["pipeline.pe"], latency)


def macs_at(v: View, shape: Shape) -> Number:
    """Return the expected multiply-accumulates of a cycle."""

    def of(law: Law, rows: Number, depth: Number, cols: Number) -> Number:
        return rows * depth * cols / law.beat(rows * depth / GROUP_TERMS)

    return _by_law(v, of, *shape)


def _by_law(v: View, of: Callable[..., Number], *figures: Number) -> Number:
    """Return `of` applied to a law and figures; NaN where there is no such law."""
    config = v.config
    sigma = v["target.activation_sigma"]
    queues, sigmas, *arrays = np.broadcast_arrays(
        v["array.queue"], 0.0 if sigma is None else sigma, *figures
    )
    found = np.full(queues.shape, np.nan)
    for queue, deviation in {*zip(queues.flat, sigmas.flat, strict=True)}:
        if queue in QUEUES and deviation >= 0:
            law = Law(
                config.array.encoding, config.activation, float(deviation) or None, int(queue)
            )
            here = (queues == queue) & (sigmas == deviation)
            found[here] = of(law, *(array[here] for array in arrays))
    return found[()]
