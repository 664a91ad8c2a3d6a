# SPDX-License-Identifier: Apache-2.0
"""Golden models of tensor cores with one rule changed, which measured results must not have."""

from __future__ import annotations

import inspect
from types import ModuleType

from hwgen.core.golden import blocks

CHANGES = {
    "terms: one bit less": (
        "product.result, product.accumulator.fraction_bits",
        "product.result, product.accumulator.fraction_bits - 1",
    ),
    "terms: one bit more": (
        "product.result, product.accumulator.fraction_bits",
        "product.result, product.accumulator.fraction_bits + 1",
    ),
    "terms: rounded down": (
        "shifted = (magnitude << left) >> right",
        "return (integers << left) >> right\n    shifted = magnitude",
    ),
    "terms: the total has no exponent": (
        "np.maximum(np.maximum(exponent, lowest), usable.max(axis=-1))",
        "np.maximum(lowest, usable.max(axis=-1))",
    ),
    "terms: exponents of zeros count": (
        "np.where((integers != 0).astype(np.bool_), exponents, lowest)", "exponents",
    ),
    "terms: the exponent of a total of zero counts": (
        "exponent = np.where(total != 0, exponent, lowest)", "",
    ),
    "terms: lowest exponent -126": ("lowest = product.lowest_exponent", "lowest = -126"),
    "terms: lowest exponent -132": (
        "lowest = product.lowest_exponent", "lowest = max(-132, product.lowest_exponent)",
    ),
    "terms: no lowest exponent": ("lowest = product.lowest_exponent", "lowest = -300"),
    "elements: subnormals normalised": (
        "np.where(elements == 0, 0, np.maximum(above, 0))", "np.where(elements == 0, 0, above)",
    ),
    "sum: all bits of single precision": (
        "largest - places, product.accumulator.result_bits", "largest - places, 23",
    ),
    "sum: one bit less": (
        "largest - places, product.accumulator.result_bits",
        "largest - places, product.accumulator.result_bits - 1",
    ),
    "sum: rounded to nearest": (
        "kept = magnitude >> (drop",
        "magnitude = magnitude + ((1 << drop) >> 1)\n    kept = magnitude >> (drop",
    ),
    "sum: no subnormals": (
        "leading = np.maximum(length + exponents - 1, 1 - fmt.bias)",
        "leading = length + exponents - 1",
    ),
    "sum: largest number instead of infinity": (
        "return fmt.round(np.where((integers < 0)",
        "wide = np.minimum(wide, fmt.max)\n    return fmt.round(np.where((integers < 0)",
    ),
    "zero: -0 is kept": ("np.where(sums == fmt.sign_mask, 0, sums)", "sums"),
    "NaN: the usual one": (
        "np.where(nan | (positive & negative), fmt.nan, bits)",
        "np.where(nan | (positive & negative), 0x7FC00000, bits)",
    ),
    "NaN: infinities of both signs are one": (
        "np.where(nan | (positive & negative), fmt.nan, bits)", "np.where(nan, fmt.nan, bits)",
    ),
    "NaN: an infinity times zero is none": (
        "y_none[None] | np.isnan(products)", "y_none[None]",
    ),
    "NaN: of elements lost": (
        "x_none[:, None] | y_none[None] | np.isnan(products)",
        "np.isnan(products) & ~x_none[:, None] & ~y_none[None]",
    ),
    "NaN: of the total lost": ("| fmt.is_nan(bits)", ""),
    "infinity: of the total lost": ("| (bits == fmt.overflow)\n", "\n"),
    "infinity: of elements lost": (
        "positive, negative = (~finite", "positive, negative = (finite",
    ),
}  # fmt: skip
"""A part of a line of the golden model, and what a changed rule has instead of it."""


def changed_model(name: str) -> ModuleType:
    """Return the golden model with a changed rule."""
    old, new = CHANGES[name]
    source = inspect.getsource(blocks)
    if source.count(old) != 1:
        raise ValueError(
            f"{name}: the golden model has {source.count(old)} times {old!r}, not once"
        )
    changed = ModuleType(blocks.__name__)  # whose dataclasses look for the module of that name
    exec(compile(source.replace(old, new), f"changed: {name}", "exec"), vars(changed))
    return changed
