# SPDX-License-Identifier: Apache-2.0
"""Registers of settings in the words of one hardware: the codes that it has, what it ignores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwgen.core.post.fields import first_fields, later_fields
from hwgen.core.post.words import ACTIVATIONS, OUTPUT_TYPES, REGISTERS, ROUNDINGS, Field, Register

if TYPE_CHECKING:
    from hwgen.core.post.features import PostFeatures


def registers_of(features: PostFeatures) -> tuple[Register, ...]:
    """Return `REGISTERS` with texts that say what the hardware has.

    Parameters
    ----------
    features : PostFeatures

    Returns
    -------
    tuple of Register
        Names, positions and widths are those of `REGISTERS`: drivers are the same for all.
    """
    used = {"size", *first_fields(features), *later_fields(features)}
    return tuple(
        register._replace(
            fields=tuple(_described(field, features, used) for field in register.fields)
        )
        for register in REGISTERS
    )


def _described(field: Field, features: PostFeatures, used: set[str]) -> Field:
    codes: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
        "kind": ("Output", OUTPUT_TYPES, features.output_types),
        "activation": ("Activation", ACTIVATIONS, features.activations),
        "rounding": ("Rounding of integers", ROUNDINGS, features.roundings),
    }
    text = field.text
    if field.name in codes:
        what, names, there = codes[field.name]
        text = f"{what}: {', '.join(f'{names.index(name)} {name}' for name in there)}."
    elif field.name in used:
        return field
    return field._replace(text=text if field.name in used else f"{text} This hardware ignores it.")
