# SPDX-License-Identifier: Apache-2.0
"""Cost of post-processing behind a stream core.

Its cycles and port bits are exact.  What lanes take of an FPGA is not known: those resources of a
core with them are unknown then, those of its other parts are not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from cost_model.closed_forms import post_components as post_bill
from cost_model.closed_forms.component_counts import Part, times
from cost_model.closed_forms.numbers import Counts, Number
from cost_model.closed_forms.space import View
from cost_model.netlist.fabric.fabric import fabric_of
from hwgen.core.params.product import ProductConfig
from hwgen.core.post import RECORD_BYTES, PostFeatures
from hwgen.core.post.beats import HEAD_BITS

UNPRICED = "post_lane"
"""Kind of component: a lane of which no cost is known."""

PATHS = 7
"""Most paths of a lane."""


def parts(config: ProductConfig, lanes: str) -> tuple[Part, ...]:
    """Return the parts of a core's bill; none without post-processing.

    Parameters
    ----------
    config : ProductConfig
    lanes : str
        The parameter that says how many lanes a beat of results has.
    """
    if config.post_features is None:
        return ()
    if not _priced(config):
        return (Part("post-processing", ("post_lane",), lambda v: {UNPRICED: v[lanes]}),)
    return (
        Part("post-processing lanes", ("post_lane",), lambda v: _lanes(v, v[lanes])),
        Part("post-processing", (), lambda v: _common(v, v[lanes])),
    )


def _priced(config: ProductConfig) -> bool:
    return fabric_of(config) is None


def _lanes(v: View, lanes: Number) -> Counts:
    return times(lanes, v.counts(("max_k",), post_bill.LANE_KINDS, _lane))


def _lane(config: ProductConfig) -> Counts:
    return post_bill.lane(features_of(config))


def _common(v: View, lanes: Number) -> Counts:
    features = v.config.post_features
    one_column = v.config.columns_per_beat == 1
    records = np.int64(1) if one_column else lanes
    return post_bill.common(features, lanes, records)


def features_of(config: ProductConfig) -> PostFeatures:
    """Return the features of a configuration that has post-processing."""
    assert config.post_features is not None
    return config.post_features


def paths(v: View) -> list[Counts]:
    """Return the longest paths of post-processing, as counts of delay elements."""
    features = v.config.post_features
    if features is None:
        return []
    if not _priced(v.config):
        return [{UNPRICED: 1.0}]
    found: list[Counts] = []
    for number in range(len(post_bill.path(features))):
        of = _path(number)
        found.append({"register": 1.0, **v.counts(("max_k",), post_bill.PATH_KINDS, of)})
    return found


@lru_cache(maxsize=PATHS)
def _path(number: int) -> Callable[[ProductConfig], Counts]:
    return lambda config: [*post_bill.path(features_of(config)), *({},) * PATHS][number]


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
