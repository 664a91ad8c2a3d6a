# SPDX-License-Identifier: Apache-2.0
"""Longest paths of the cores of `cube`, `adder_tree` and `broadcast_2d`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cost_model.closed_forms import post_processing as post
from cost_model.closed_forms import processing_elements as elements
from cost_model.closed_forms import products
from cost_model.closed_forms.component_counts import times, total
from cost_model.closed_forms.numbers import Counts
from cost_model.closed_forms.space import View
from cost_model.families import spatial_serial_delay
from cost_model.families.spatial_bill import FIGURES, RESOLVED, Geometry

if TYPE_CHECKING:
    from hwgen.core.params.spatial import SpatialConfig

TREE = ("sum_level", "adder_behind", "adder_behind_bit")


def paths(v: View) -> list[Counts]:
    """Return the operators on the longest paths; see `Technology.delays`."""
    if v.config.array.serial:
        return spatial_serial_delay.paths(v)
    g = Geometry(v)
    start: Counts = {"register": 1.0}
    reach = total(start, {"fanout": np.log2(np.maximum(g.rows, g.cols))})
    leaves = {"fanout": np.log2(g.cols * g.held), "gate": 1 + np.log2(g.rows)}
    found = [*post.paths(v), total(start, leaves)]
    if v.config.digits:
        return [*found, *_digit_paths(v, start, reach)]
    x, w = v.config.activation.width, v.config.weight.width
    addend = v.figure(FIGURES, _addend_width)
    tree = v.counts(FIGURES, TREE, _tree_path)
    accumulate = {"adder_bit": g.result, "adder_level": np.log2(g.result)}
    stages = np.asarray(g.stages)
    return [
        *found,
        total(
            reach,
            products.product_path(x, w, g.result),
            times(stages < 2, tree),
            times(stages < 1, products.adder_behind(g.result, addend)),
        ),
        total(start, tree),
        total(start, elements.clearing(g.rows * g.cols), accumulate),
    ]


def _tree_path(config: SpatialConfig) -> Counts:
    product = config.activation.width + config.weight.width
    return products.tree_path(config.depth, config.partial_sum(config.depth).width, product)


def _addend_width(config: SpatialConfig) -> float:
    return float(config.partial_sum(config.depth).width)


def _digit_paths(v: View, start: Counts, reach: Counts) -> list[Counts]:
    """Return the paths of PEs that multiply by digits, of edges and of adders of carries."""
    g = Geometry(v)
    first, behind = v.figures(FIGURES, 2, _gates)
    recode = elements.recoder_path(v.config.array.encoding, v.config.activation)
    early, late = v.figures(FIGURES, 2, _correction_gates)
    return [
        total(reach, {"gate": first}),
        total(start, elements.clearing(g.rows * g.cols), {"gate": behind}),
        total(start, v.counts(RESOLVED, elements.RESOLVE_PATH, elements.resolve_path)),
        total(start, elements.excess_path(g.result)),
        total(start, recode, {"gate": early}),
        total(start, {"gate": late}),
    ]


def _gates(config: SpatialConfig) -> tuple[float, float]:
    return elements.digit_sum_paths(elements.digits_of(config), config.pipeline.pe)


def _correction_gates(config: SpatialConfig) -> tuple[float, float]:
    """Return the gates of corrections between encoder and register, and behind the register."""
    gates = elements.correction_path(elements.digits_of(config))
    return (gates, 0.0) if config.lead == 1 else (0.0, gates)
