# SPDX-License-Identifier: Apache-2.0
"""Longest paths of a systolic core."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cost_model.closed_forms import post_processing as post
from cost_model.closed_forms import processing_elements as elements
from cost_model.closed_forms import products
from cost_model.closed_forms.component_counts import times, total
from cost_model.closed_forms.numbers import Counts, bits_of
from cost_model.closed_forms.space import View
from cost_model.families.systolic_bill import (
    DIGIT_FIGURES,
    RESOLVE_FIGURES,
    Geometry,
    accumulated_rows,
    psum_width,
)

if TYPE_CHECKING:
    from hwgen.families.systolic.params import SystolicConfig


def paths(v: View) -> list[Counts]:
    """Return the operators on the longest paths; see `Technology.delays`."""
    g = Geometry(v)
    start: Counts = {"register": 1.0}
    reach = total(start, {"fanout": np.log2(np.minimum(g.cols, g.broadcast))})
    if v.config.digits:
        return [*post.paths(v), *_digit_paths(v, start, reach)]
    bits = g.result if v.config.output_stationary else v.figure(("array.rows",), psum_width)
    product = products.product_path(g.x, g.y, bits)
    accumulate = {"adder_bit": bits, "adder_level": np.log2(bits)}
    alone = np.asarray(g.stages) == 0
    found = [
        *post.paths(v),
        total(reach, product, times(alone, products.adder_behind(bits, g.x + g.y))),
    ]
    if v.config.output_stationary:
        found.append(total(start, _clearing(g), accumulate))
    else:
        found.append(total(start, accumulate))
        totals = {"adder_bit": g.result, "adder_level": np.log2(g.result)}
        rows = accumulated_rows(v, g)
        read = {"read": rows.registers * bits_of(v["array.accumulator_depth"])}
        found += [total(start, totals, read), *rows.paths(start, totals)]
    return found


def _digit_paths(v: View, start: Counts, reach: Counts) -> list[Counts]:
    """Return the paths of PEs that multiply by digits, of encoders and of adders of carries."""
    g, names = Geometry(v), (*DIGIT_FIGURES, "pipeline.pe")
    first, behind = v.figures(names, 2, _gates)
    return [
        total(reach, {"gate": first}),
        total(start, _clearing(g), {"gate": behind}),
        total(start, v.counts(RESOLVE_FIGURES, elements.RESOLVE_PATH, elements.resolve_path)),
        total(start, elements.excess_path(g.result)),
        total(start, elements.recoder_path(v.config.array.encoding, v.config.row_operand)),
    ]


def _clearing(g: Geometry) -> Counts:
    """Return the path of the flag that comes with a row's operand and goes as far as this does."""
    return elements.clearing(np.minimum(g.cols, g.broadcast))


def _gates(config: SystolicConfig) -> tuple[float, float]:
    return elements.digit_sum_paths(elements.digits_of(config), min(config.pipeline.pe, 1))
