# SPDX-License-Identifier: Apache-2.0
"""Cost of post-processing behind a stream core.

Its cycles and port bits are exact.  What its lanes cost has not been calibrated, so that a core
with post-processing has a bill with lanes of unknown cost: its area, power and Fmax are unknown,
those of its other parts are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cost_model.bill import Counts, Number, Part, View
from hwgen.numerics.post import RECORD_BYTES
from hwgen.numerics.post.beats import HEAD_BITS

if TYPE_CHECKING:
    from hwgen.config.product import ProductConfig

KIND = "post_lane"
"""Kind of component: a lane of post-processing."""


def parts(config: ProductConfig, lanes: str) -> tuple[Part, ...]:
    """Return the part of a core's bill; none without post-processing.

    Parameters
    ----------
    config : ProductConfig
    lanes : str
        The parameter that says how many lanes a beat of results has.
    """
    if config.post_features is None:
        return ()
    return (Part("post-processing", (), lambda v: {KIND: v[lanes]}),)


def paths(v: View) -> list[Counts]:
    """Return what the longest paths of post-processing lead through."""
    return [] if v.config.post_features is None else [{KIND: 1.0}]


def latency(v: View) -> Number:
    """Return the cycles that post-processing adds to everything."""
    return v.figure(("max_k",), _latency)


def _latency(config: ProductConfig) -> float:
    return float(config.post_latency)


def lane_bits(v: View) -> Number:
    """Return the bits of an element of a beat of results."""
    return v.figure(("max_k",), _lane_bits)


def _lane_bits(config: ProductConfig) -> float:
    return float(config.ports[-1].lane_width)


def port_bits(v: View, columns: Number) -> Number:
    """Return the bits of a beat of port ``post``, of so many columns of C; 0 without the port."""
    features = v.config.post_features
    if features is None:
        return 0
    return HEAD_BITS + 8 * RECORD_BYTES * features.columns * columns
