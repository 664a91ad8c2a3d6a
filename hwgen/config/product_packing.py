# SPDX-License-Identifier: Apache-2.0
"""Several products in one DSP block: the parameter, what it means on an FPGA, and its rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from hwgen.errors import InputError
from hwgen.numerics import IntegerFormat
from hwgen.numerics.product_packing import PackedProducts, packed_products
from hwgen.technologies import of_kind, technology
from hwgen.technologies.model import DspBlock, Fpga

if TYPE_CHECKING:
    from hwgen.config.spatial import SpatialConfig

ProductPacking = Literal["none", "exact", "over"]


def packing_field() -> Any:
    """Return the field `packing` of an array."""
    return Field(
        "none",
        description="Products of neighbouring columns in one DSP block of the FPGA that"
        " `target` says (`pe: mac`): `exact`, as many as can be told apart; `over`, one more,"
        " whose low bits are off by a few units, as the golden model's are.",
    )


def dsp_block(config: SpatialConfig) -> DspBlock | None:
    """Return the DSP block of a configuration's target, None if it has none."""
    try:
        known = technology(config.target.technology)
    except InputError:
        return None
    return known.dsp_block if isinstance(known, Fpga) else None


def packing_of(config: SpatialConfig) -> PackedProducts | None:
    """Return how products are packed, None if they are not, or cannot be."""
    kind, block = config.array.packing, dsp_block(config)
    plain = isinstance(config.activation, IntegerFormat) and isinstance(config.weight, IntegerFormat)
    if kind == "none" or block is None or not plain:
        return None
    return packed_products(
        config.activation, config.weight, config.cols, block.factors, kind
    )


def packed_sum_width(config: SpatialConfig) -> int | None:
    """Return the bits of sums that a DSP block adds up while they are packed, None if it does not.

    It has one accumulator, for one product a cycle, which cannot clamp; and the topmost sum must
    be whole in it.
    """
    packing, block = config.packing, dsp_block(config)
    if packing is None or block is None or block.accumulator is None:
        return None
    if not packing.exact or config.depth > 1 or config.saturates:
        return None
    width = packing.offsets[-1] + config.result.width
    return width if width <= block.accumulator else None


def broken_by_packing(config: SpatialConfig) -> list[str]:
    """Return the rules of packed products that are broken, of integer operands."""
    kind, block = config.array.packing, dsp_block(config)
    if kind == "none":
        return []
    if config.array.pe != "mac":
        return [
            f"array.packing: must be none with array.pe {config.array.pe}, not {kind}: it has no"
            " multipliers; use array.pe mac"
        ]
    target = config.target.technology
    if block is None:
        there = [name for name in of_kind("fpga") if _block(name) is not None]
        return [
            f"array.packing: must be none with target.technology {target}, not {kind}: it has no"
            f" DSP blocks; those with some are {', '.join(there)}"
        ]
    if config.packing is not None:
        return []
    longest, shortest = block.factors
    operands = f"{config.activation} x {config.weight}"
    exact = packed_products(
        config.activation, config.weight, 64, block.factors, "exact"
    )
    most = exact.lanes if exact else 1
    wanted = most + (kind == "over")
    if 1 < wanted and config.cols < max(2, wanted) and _any(config, block):
        text = f"with {config.cols} columns: products of {max(2, wanted)} neighbouring columns"
        return [f"array.packing: must be none {text} would share a DSP block of {target}"]
    text = f"{shortest} x {longest} bits hold one product of {operands}"
    if kind == "over":
        text = f"{shortest} x {longest} bits hold {most} of {operands}, and no more can be restored"
    other = "; exact is possible" if kind == "over" and exact else ""
    return [
        f"array.packing: must be none with {operands} on {target}, not {kind}: its DSP blocks of"
        f" {text}{other}"
    ]


def _any(config: SpatialConfig, block: DspBlock) -> bool:
    """Return whether an array of more columns could have what is asked for."""
    kind = config.array.packing
    return kind != "none" and bool(
        packed_products(config.activation, config.weight, 64, block.factors, kind)
    )


def _block(name: str) -> DspBlock | None:
    known = technology(name)
    return known.dsp_block if isinstance(known, Fpga) else None
