# SPDX-License-Identifier: Apache-2.0
"""Several products in one DSP block: the parameter, what it means on an FPGA, and its rules."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pydantic import Field

from hwgen.arithmetic.product_packing import PackedProducts, PackingMode, packed_products
from hwgen.core.params.block_core import BlockProductConfig
from hwgen.core.params.block_operands import is_plain
from hwgen.core.params.processing_elements import PEArray
from hwgen.errors import InputError
from hwgen.formats import IntegerFormat, enclosing_format
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


class PackingArray(PEArray, Protocol):
    """Parameters of an array whose products may share DSP blocks."""

    @property
    def packing(self) -> ProductPacking:
        """Packing of products."""


class PackedProductConfig(BlockProductConfig):
    """A core that multiplies blocks, or integers of which several may share a DSP block."""

    if TYPE_CHECKING:
        # Fields and sizes of the families.

        @property
        def array(self) -> PackingArray:
            """Parameters of the array."""

        @property
        def depth(self) -> int:
            """Products that a PE adds at a time."""

        @property
        def cols(self) -> int:
            """Columns of PEs."""

    @cached_property
    def packing(self) -> PackedProducts | None:
        """Packing of products into DSP blocks, None if they are not packed, or cannot be."""
        mode, block = self.array.packing, self._dsp_block
        plain = is_plain(self.activation, self.weight)
        if mode == "none" or block is None or not plain:
            return None
        return packed_products(self.activation, self.weight, self.cols, block.factors, mode)

    @cached_property
    def packed_sum(self) -> int | None:
        """Bits of the sums that a DSP block adds up while they are packed, None if it does not.

        It has one accumulator, for one product a cycle, which cannot clamp; the topmost sum must be
        whole in it, and the bits that tell what was borrowed must be of one lane.
        """
        packing, block = self.packing, self._dsp_block
        if packing is None or block is None or block.accumulator is None:
            return None
        if not packing.exact or self.depth > 1 or self.saturates:
            return None
        if packing.step.width > packing.spacing:
            return None
        width = packing.offsets[-1] + self.result.width
        return width if width <= block.accumulator else None

    def partial_sum(self, terms: int) -> IntegerFormat:
        """Format of a sum of up to `terms` products, with the errors that they may have."""
        if self.packing is None or self.packing.exact:
            result: IntegerFormat = super().partial_sum(terms)
            return result
        low, high = self.packing.values
        return enclosing_format(terms * low, terms * high)

    @property
    def _dsp_block(self) -> DspBlock | None:
        """DSP block of the target, None if it has none, or its technology cannot be read."""
        try:
            return _block(self.target.technology)
        except InputError:
            return None

    def _block_packing_errors(self) -> list[str]:
        """Return the rules of packed products that operands in blocks break."""
        if self.array.packing == "none":
            return []
        text = (
            f"array.packing: must be none with {self.activation} x {self.weight}, not"
            f" {self.array.packing}: integers alone are packed"
        )
        return [text]

    def _packing_errors(self) -> list[str]:
        """Return the rules of packed products that are broken, of integer operands."""
        mode, block = self.array.packing, self._dsp_block
        if mode == "none":
            return []
        if self.array.pe != "mac":
            why = f"array.pe {self.array.pe}, not {mode}: it has no multipliers; use array.pe mac"
        elif block is None:
            there = ", ".join(name for name in technology_names("fpga") if _block(name) is not None)
            why = (
                f"target.technology {self.target.technology}, not {mode}: it has no DSP blocks;"
                f" those with some are {there}"
            )
        elif self.packing is None:
            why = self._why_not(block)
        else:
            return []
        return [f"array.packing: must be none with {why}"]

    def _why_not(self, block: DspBlock) -> str:
        """Return the end of the message that says why products cannot be packed."""
        mode, target = self.array.packing, self.target.technology
        operands = f"{self.activation} x {self.weight}"
        exact = self._widest(block, "exact")
        result = self._widest(block, "over") if mode == "over" else exact
        if result is not None:
            needed = result.lanes if mode == "over" else 2
            columns = "1 column" if self.cols == 1 else f"{self.cols} columns"
            return (
                f"{columns}, not {mode}: products of {needed} neighbouring columns share a DSP"
                f" block of {target}"
            )
        longest, shortest = block.factors
        most = exact.lanes if exact else 1
        text = (
            f"{operands} on {target}, not {mode}: its DSP blocks of {longest} x {shortest} bits"
            f" hold {most} product{'s' * (most > 1)} of them"
        )
        if mode == "over":
            text += ", and of more too little could be told apart"
        return text + ("; exact is possible" if mode == "over" and exact else "")

    def _widest(self, block: DspBlock, mode: PackingMode) -> PackedProducts | None:
        """Return the packing of products of as many columns as possible."""
        return packed_products(self.activation, self.weight, 64, block.factors, mode)


def _block(name: str) -> DspBlock | None:
    fabric = technology(name)
    return fabric.dsp_block if isinstance(fabric, Fpga) else None
