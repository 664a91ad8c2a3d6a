# SPDX-License-Identifier: Apache-2.0
"""Components and delay of post-processing behind a stream core, from `rtl_templates.post`."""

from __future__ import annotations

from math import log2

from cost_model.closed_forms.component_counts import adder, buffer, total
from cost_model.closed_forms.numbers import Counts, Number, register
from cost_model.closed_forms.products import PRODUCT_KINDS, product_counts, product_path
from hwgen.core.post import RECORD, PostFeatures
from hwgen.core.post.beats import WORD_BITS
from hwgen.core.post.features import MULTIPLY_STAGES, Stages
from hwgen.core.post.fields import field_bits, first_fields, later_fields, record_fields
from hwgen.core.post.words import SINGLE
from hwgen.formats.scale import SHIFT_BITS

LANE_KINDS = (
    "flip_flop", "enable", "adder_bit", "adder_level", "and", "mux", "saturate", *PRODUCT_KINDS,
    "shift_bit", "float_convert", "float_scale", "float_narrow",
)  # fmt: skip
PATH_KINDS = (
    "multiplier", "multiplier_level", "multiplier_bit", "sum_level", "adder_bit", "adder_level",
    "gate", "float_convert", "float_scale",
)  # fmt: skip

FLOAT_STAGES = 3 + MULTIPLY_STAGES
"""Registers before the scaled sum in floating point."""

FACTOR_BITS = 32
"""Bits of a multiplier, of a bias, and of the lower part of a sum that is multiplied in two."""


def lane(features: PostFeatures) -> dict[str, float]:
    """Return the bill of a lane."""
    stages, width = Stages(features), features.total.width
    found = _first(features)
    kept = 0
    if features.integers:
        found = total(found, _integer(features, stages))
    if features.floats:
        found = total(found, _float(features, stages))
    if "raw" in features.output_types:
        kept = width * (stages.results - 1)
        found = total(found, {"saturate": float(width > features.raw.width) * features.raw.width})
    choices = len(features.output_types) - 1
    return total(found, register(kept, enable=True), {"mux": float(choices * features.lane_width)})


def _first(features: PostFeatures) -> dict[str, float]:
    """Return the bill of the sum with the bias and of the choice of a scale."""
    width = features.total.width
    negative, integers = features.total.signed, bool(features.integers)
    scale = FACTOR_BITS * (integers or bool(features.floats)) + SHIFT_BITS * integers
    leaky = "leaky" in features.activations
    both = features.columns and features.tensor
    return total(
        register(width + scale, enable=True),
        adder(float(width)) if features.columns else {},
        {
            "and": float(FACTOR_BITS * both)
            + width * (negative and "relu" in features.activations),
            "mux": float(scale * (leaky + both * (1 + leaky))),
        },
    )


def _integer(features: PostFeatures, stages: Stages) -> dict[str, float]:
    """Return the bill of a requantised sum."""
    width, limit = features.total.width, features.limit_bits
    signed = features.total.signed
    product = width + FACTOR_BITS
    if stages.split:
        multiplied = total(
            product_counts(width - FACTOR_BITS, FACTOR_BITS, signed=(signed, True)),
            product_counts(FACTOR_BITS, FACTOR_BITS, signed=(False, True)),
            adder(float(width)),
            register(width + 2 * FACTOR_BITS + SHIFT_BITS, enable=True),
        )
    else:
        multiplied = product_counts(width, FACTOR_BITS, signed=(signed, True))
    wide = limit + 2
    held = stages.results - stages.rounding
    guard = any(rounding != "floor" for rounding in features.roundings)
    sticky = any(rounding in ("half_even", "half_away") for rounding in features.roundings)
    return total(
        multiplied,
        register(product + SHIFT_BITS, enable=True),
        {"shift_bit": float((product + 1) * SHIFT_BITS), "saturate": float(wide)},
        # Of what is lost, as much as rounding looks at; the sign is the topmost bit.
        register(product + guard + sticky, enable=True),
        adder(float(wide + 1)),
        register((wide + 1) * held, enable=True),
        adder(float(wide + 1)),
        adder(float(wide + 1)),
        {"mux": 2.0 * limit},
    )


def _float(features: PostFeatures, stages: Stages) -> dict[str, float]:
    """Return the bill of a scaled sum in floating-point formats."""
    waits = FLOAT_STAGES - 1 - MULTIPLY_STAGES  # the factor, for the sum to be converted
    held = waits * FACTOR_BITS + (stages.results - FLOAT_STAGES) * SINGLE.width
    return total(
        {
            "float_convert": float(features.total.width),
            "float_scale": 1.0,
            "float_narrow": float(sum(fmt.width for fmt in features.floats if fmt != SINGLE)),
        },
        register(float(held), enable=True),
    )


def common(features: PostFeatures, lanes: Number, records: Number) -> Counts:
    """Return the bill of what is there once: settings, records, handshakes, the output's buffer.

    Parameters
    ----------
    features : PostFeatures
    lanes : number
    records : number
        Column records in a beat of port ``post``.
    """
    stages, bits, ages = Stages(features), field_bits(features), later_fields(features)
    settings = sum(bits[name] for name in {*first_fields(features), *ages})
    travelling = sum(bits[name] * age for name, age in ages.items()) + stages.results  # and last
    sizes = {field.name: field.bits for field in RECORD}
    record = sum(sizes[name] for name in record_fields(features))
    head = settings + WORD_BITS + record * records
    result = max(
        features.raw.width if "raw" in features.output_types else 0,
        min(features.limit_bits, features.widest.lane_width) if features.integers else 0,
        *(fmt.width for fmt in features.floats),
    )
    return total(
        register(head + travelling, enable=True),
        register(1 + stages.results, enable=True, reset=True),
        register(WORD_BITS, enable=True, reset=True),
        adder(float(WORD_BITS)),
        {"xor": WORD_BITS, "control": 1, "fanout": lanes * (settings + record)},
        buffer(lanes * result + 1),
    )


def path(features: PostFeatures) -> list[Counts]:
    """Return the longest paths between registers, as counts of delay elements."""
    width = features.total.width
    summed = {"adder_bit": float(width), "adder_level": log2(width)}
    floats = [{"float_convert": log2(width)}, {"float_scale": 1.0}] if features.floats else []
    if not features.integers:
        return [summed, *floats]
    split = Stages(features).split
    factor = FACTOR_BITS if split else width
    product = float(width + FACTOR_BITS)
    wide = float(features.limit_bits + 3)
    return [
        summed,
        *floats,
        product_path(factor, FACTOR_BITS, factor + FACTOR_BITS),
        {"gate": 2.0 * SHIFT_BITS},
        {"adder_bit": wide, "adder_level": log2(product)},
        *([{"adder_bit": product, "adder_level": log2(product)}] if split else []),
    ]
