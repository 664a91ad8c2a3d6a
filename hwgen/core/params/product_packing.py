# SPDX-License-Identifier: Apache-2.0
"""Several products in one DSP block: the parameter, what it means on an FPGA, and its rules."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from pydantic import Field

from hwgen.arithmetic.product_packing import PackedProducts, PackingMode, packed_products
from hwgen.core.params.block_operands import is_plain
from hwgen.errors import InputError
from hwgen.formats import IntegerFormat
from hwgen.technologies import technology, technology_names
from hwgen.technologies.fpga_model import DspBlock, Fpga

ProductPacking = Literal["none", "exact", "over"]


def packing_field() -> Any:
    """Return the field `packing` of an array."""
    return Field(
        "none",
        description="Products of neighbouring columns in one DSP block of the FPGA that"
        " `target` says (`pe: mac`): `exact`, as many as can be told apart; `over`, one more,"
        " whose low bits are off by a few units, as the golden model's are.",
    )


class PackingArray(Protocol):
    """Parameters of an array whose products may share DSP blocks."""

    @property
    def packing(self) -> ProductPacking:
        """Packing of products."""

    @property
    def pe(self) -> str:
        """Processing element."""


class PackingTarget(Protocol):
    """Parameters of a target."""

    @property
    def technology(self) -> str:
        """Name of the technology."""


class PackingParams(Protocol):
    """Parameters of a core whose products may share DSP blocks."""

    @property
    def activation(self) -> Any:
        """Format of A."""

    @property
    def weight(self) -> Any:
        """Format of W."""

    @property
    def array(self) -> PackingArray:
        """The array."""

    @property
    def target(self) -> PackingTarget:
        """The target."""

    @property
    def result(self) -> IntegerFormat:
        """Format of the accumulators."""

    @property
    def saturates(self) -> bool:
        """Whether accumulators clamp."""

    @property
    def packing(self) -> PackedProducts | None:
        """The products of a DSP block."""

    @property
    def depth(self) -> int:
        """Products that a PE adds at a time."""

    @property
    def cols(self) -> int:
        """Columns of PEs."""


def dsp_block(config: PackingParams) -> DspBlock | None:
    """Return the DSP block of a configuration's target, None if it has none."""
    try:
        known = technology(config.target.technology)
    except InputError:
        return None
    return known.dsp_block if isinstance(known, Fpga) else None


def packing_of(config: PackingParams) -> PackedProducts | None:
    """Return the packing of products, None if they are not packed, or cannot be."""
    mode, block = config.array.packing, dsp_block(config)
    plain = is_plain(config.activation, config.weight)
    if mode == "none" or block is None or not plain:
        return None
    return packed_products(config.activation, config.weight, config.cols, block.factors, mode)


def packed_sum_width(config: PackingParams) -> int | None:
    """Return the bits of sums that a DSP block adds up while they are packed, None if it does not.

    It has one accumulator, for one product a cycle, which cannot clamp; the topmost sum must be
    whole in it, and the bits that tell what was borrowed must be of one lane.
    """
    packing, block = config.packing, dsp_block(config)
    if packing is None or block is None or block.accumulator is None:
        return None
    if not packing.exact or config.depth > 1 or config.saturates:
        return None
    if packing.step.width > packing.spacing:
        return None
    width = packing.offsets[-1] + config.result.width
    return width if width <= block.accumulator else None


def block_packing_errors(config: PackingParams) -> list[str]:
    """Return the rules of packed products that operands in blocks break."""
    if config.array.packing == "none":
        return []
    text = (
        f"array.packing: must be none with {config.activation} x {config.weight}, not"
        f" {config.array.packing}: integers alone are packed"
    )
    return [text]


def broken_by_packing(config: PackingParams) -> list[str]:
    """Return the rules of packed products that are broken, of integer operands."""
    mode, block = config.array.packing, dsp_block(config)
    if mode == "none":
        return []
    if config.array.pe != "mac":
        why = f"array.pe {config.array.pe}, not {mode}: it has no multipliers; use array.pe mac"
    elif block is None:
        there = ", ".join(name for name in technology_names("fpga") if _block(name) is not None)
        why = (
            f"target.technology {config.target.technology}, not {mode}: it has no DSP blocks; those"
            f" with some are {there}"
        )
    elif config.packing is None:
        why = _why_not(config, block)
    else:
        return []
    return [f"array.packing: must be none with {why}"]


def _why_not(config: PackingParams, block: DspBlock) -> str:
    """Return the end of the message that says why products cannot be packed."""
    mode, target = config.array.packing, config.target.technology
    operands = f"{config.activation} x {config.weight}"
    exact = _widest(config, block, "exact")
    found = _widest(config, block, "over") if mode == "over" else exact
    if found is not None:
        needed = found.lanes if mode == "over" else 2
        columns = "1 column" if config.cols == 1 else f"{config.cols} columns"
        return (
            f"{columns}, not {mode}: products of {needed} neighbouring columns share a DSP block of"
            f" {target}"
        )
    longest, shortest = block.factors
    most = exact.lanes if exact else 1
    text = (
        f"{operands} on {target}, not {mode}: its DSP blocks of {longest} x {shortest} bits hold"
        f" {most} product{'s' * (most > 1)} of them"
    )
    if mode == "over":
        text += ", and of more too little could be told apart"
    return text + ("; exact is possible" if mode == "over" and exact else "")


def _widest(config: PackingParams, block: DspBlock, mode: PackingMode) -> PackedProducts | None:
    """Return the packing of products of as many columns as possible."""
    return packed_products(config.activation, config.weight, 64, block.factors, mode)


def _block(name: str) -> DspBlock | None:
    known = technology(name)
    return known.dsp_block if isinstance(known, Fpga) else None
