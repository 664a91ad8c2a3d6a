# SPDX-License-Identifier: Apache-2.0
"""Settings of the lanes of post-processing and the stages that take them, by the features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwgen.core.post.features import Stages
from hwgen.core.post.words import REGISTERS

if TYPE_CHECKING:
    from hwgen.core.post.features import PostFeatures


def later_fields(features: PostFeatures) -> dict[str, int]:
    """Return the settings that a lane takes after its first stage: name to number of registers."""
    stages, fields = Stages(features), {}
    if _late(features) and len(features.activations) > 1:
        fields["activation"] = stages.total - 1
    if features.integers:
        if len(features.roundings) > 1:
            fields["rounding"] = stages.rounding
        fields |= {"zero": stages.rounding}
        fields |= dict.fromkeys(("minimum", "maximum"), stages.results)
    if len(features.output_types) > 1:
        fields["kind"] = stages.results
    return fields


def first_fields(features: PostFeatures) -> tuple[str, ...]:
    """Return the settings that a lane takes together with the accumulator."""
    fields = ["activation"] if len(features.activations) > 1 and not _late(features) else []
    if features.columns and features.tensor:
        fields.append("columns")
    return (*fields, *(_scale_fields(features) if features.tensor else ()))


def record_fields(features: PostFeatures) -> tuple[str, ...]:
    """Return the fields of a record that a lane looks at."""
    return ("bias", *_scale_fields(features)) if features.columns else ()


def _late(features: PostFeatures) -> bool:
    """Return whether the sign of a sum is known only some registers behind the accumulator."""
    return features.single and features.columns


def _scale_fields(features: PostFeatures) -> tuple[str, ...]:
    """Return the fields that scale a sum, in settings and in records."""
    if not features.scales:
        return ()
    leaky = ("slope", "slope_shift") if "leaky" in features.activations else ("", "")
    shifts = features.integers and not features.single
    fields = ["multiplier", leaky[0], *(("shift", leaky[1]) if shifts else ())]
    return tuple(filter(None, fields))


def field_bits(features: PostFeatures) -> dict[str, int]:
    """Return the width of each setting in a lane, in bits."""
    bits = {field.name: field.bits for register in REGISTERS for field in register.fields}
    if features.integers:
        bits |= dict.fromkeys(("zero", "minimum", "maximum"), features.limit_bits)
    return bits
