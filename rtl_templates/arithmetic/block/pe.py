# SPDX-License-Identifier: Apache-2.0
"""Processing elements that multiply blocks.

A PE sums the products of a block exactly, over as many beats as it takes, then multiplies the sum
by the significands of both scales, and accumulates the term.  There is a register behind each of
these steps, so that blocks follow each other without a pause.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Member, Out

from hwgen.core.params.block_core import BlockProductConfig
from rtl_templates.arithmetic.block.accumulators import (
    flagged,
    term_converter,
)
from rtl_templates.arithmetic.block.edge import operand_members, registers_of
from rtl_templates.arithmetic.block.elements import ElementForm
from rtl_templates.arithmetic.block.term import block_term, element_product
from rtl_templates.arithmetic.float.adder import FloatAdder
from rtl_templates.arithmetic.integer.compressor import HeapOperand, sum_of
from rtl_templates.arithmetic.integer.multiply import shape_of
from rtl_templates.arithmetic.pipeline import named
from rtl_templates.arithmetic.registry import term_total
from rtl_templates.hdl.hierarchy import Block, place


class BlockPe(Block):
    """One element of C: adds the products of a beat, and accumulates the terms of blocks.

    Parameters
    ----------
    config : BlockProductConfig
        With ``lanes``, ``block_depth``, ``accumulator_bits`` and ``pipeline.pe``.
    name : str
        Of the module.

    Members
    -------
    a_elements, ..., w_elements, ... : In
        From the edges of the row and of the column, as `BlockEdge` gives them.
    on, first : In(1)
        The beat whose products are added now is one; it is the first of a block.
    valid, clear : In(1)
        A term is there; it is the first of a tile.
    load : In(1)
        The sum of a block is there; if its scale is multiplied bit by bit.
    total : Out
        The accumulator.
    """

    def __init__(self, config: BlockProductConfig, name: str = "pe") -> None:
        product = self.product_of(config)
        assert product is not None
        self.operands = self.members_of(config)
        members = {
            f"{side}_{name}": member
            for side, outputs in self.operands.items()
            for name, member in outputs.items()
        }
        self.shared = tuple(members)
        # Only where a PE multiplies by scales bit by bit.
        self.scale_cycles = config.scale_cycles
        tokens = {name: In(1) for name in ("on", "first", "valid", "clear")}
        if self.scale_cycles:
            tokens["load"] = In(1)
        super().__init__(name, {**members, **tokens, "total": Out(config.accumulator_bits)})
        self.config, self.product = config, product

    @staticmethod
    def product_of(config: BlockProductConfig) -> Any:
        """Return the arithmetic."""
        return config.block_product

    @staticmethod
    def members_of(config: BlockProductConfig) -> dict[str, dict[str, Member]]:
        """Return the members of the edges' outputs, by operand."""
        product = config.block_product
        assert product is not None
        return {
            side: operand_members(product, lanes, In)
            for side, lanes in zip("aw", config.lanes, strict=True)
        }

    def terms(self, m: Module) -> list[tuple[Value, Value, Value]]:
        """Return the terms of the blocks of a beat: integer, exponent, and flags."""
        shared = {name: getattr(self, name) for name in self.shared}
        if self.scale_cycles:
            del shared["w_significand"]
        terms = [
            block_term(m, self.product, shared, block, *self._summed(m, block))
            for block in range(self.config.lanes[0].blocks)
        ]
        return [self._scaled(m, *terms[0])] if self.scale_cycles else terms

    def build(self, m: Module) -> None:
        product = self.product
        after_scales = registers_of(self.config)[1]
        terms = self.terms(m)
        if after_scales:
            terms = [self._registered(m, f"scaled_{i}", term) for i, term in enumerate(terms)]
        total = Signal(len(self.total), name="total_reg", reset_less=True)
        old = named(m, "old", Mux(self.clear, 0, total))
        after = Signal(len(total), name="after")
        if product.accumulator.method == "fp32":
            ((integer, exponent, flags),) = terms
            rounded = Signal(product.result.width, name="rounded")
            ports = {"exponent": exponent} if len(exponent) else {}
            converter = term_converter(product)
            place(m, "convert", converter, i=integer, special=Const(0, 1), o=rounded, **ports)
            term = Signal(len(total), name="term", reset_less=True)
            m.d.sync += term.eq(flagged(m, product, rounded, *flags))
            place(m, "accumulate", FloatAdder(product.result), a=old, b=term, o=after)
        else:
            registers = [self._registered(m, f"term_{i}", term) for i, term in enumerate(terms)]
            integers, exponents, flags = (Cat(*part) for part in zip(*registers, strict=True))
            step = term_total(product)
            ports = {"exponents": exponents} if len(exponents) else {}
            place(m, "accumulate", step, old=old, integers=integers, flags=flags, o=after, **ports)
        with m.If(self.valid):
            m.d.sync += total.eq(after)
        m.d.comb += self.total.eq(total)

    def _scaled(
        self, m: Module, integer: Value, exponent: Value, flags: Value
    ) -> tuple[Value, Value, Value]:
        """Multiply the sum of a block by its scale, a bit of it in a cycle, the highest first.

        A one behind the scale's bits says when all of them are through.
        """
        product, scale = self.product, self.w_significand
        if product.has_infinities:
            flags = Cat(flags[0] | (flags[1:].any() & ~scale.any()), flags[1:])
        registers = [
            Signal(len(value), name=name, reset_less=True)
            for name, value in (("exponent_kept", exponent), ("flags_kept", flags))
        ]
        number = Signal(signed(product.sum.width), name="number", reset_less=True)
        bits = Signal(len(scale) + 1, name="scale_bits", reset_less=True)
        total = Signal(shape_of(product.term), name="scaled", reset_less=True)
        addend = Mux(bits[-1], number, 0)
        with m.If(self.load):
            m.d.sync += [number.eq(integer), bits.eq(Cat(1, scale)), total.eq(0)]
            m.d.sync += [registers[0].eq(exponent), registers[1].eq(flags)]
        with m.Elif(bits[:-1].any()):
            m.d.sync += [bits.eq(bits << 1), total.eq((total << 1) + addend)]
        return total, registers[0], registers[1]

    def _registered(
        self, m: Module, name: str, term: tuple[Value, Value, Value]
    ) -> tuple[Value, Value, Value]:
        registers = []
        for part, value in zip(("integer", "exponent", "flags"), term, strict=True):
            register = Signal(len(value), name=f"{name}_{part}", reset_less=True)
            m.d.sync += register.eq(value)
            registers.append(register)
        integer, exponent, flags = registers
        return integer, exponent, flags

    def _summed(self, m: Module, block: int) -> tuple[Value, Value]:
        """Return the sum of a block, and its flags: NaN, and each infinity.

        Of significands products come in ones' complement, their sign to be added.
        """
        product, (a, _) = self.product, self.config.lanes
        size = self.config.block_depth // a.blocks
        after_products = m.d.sync if registers_of(self.config)[0] else m.d.comb
        forms = [ElementForm.of(lanes, product) for lanes in self.config.lanes]
        both = list(zip(forms, (self.a_elements, self.w_elements), strict=True))
        operands, flags = [], []
        for term in range(block * size, (block + 1) * size):
            x, y = (elements.word_select(term, form.width) for form, elements in both)
            value, product_flags = element_product(m, product, forms, x, y, term)
            product_bits = Signal(shape_of(product.addend), name=f"product_{term}", reset_less=True)
            after_products += product_bits.eq(value)
            operands.append(HeapOperand(product_bits))
            if product.splits:  # the rest of the two's complement
                operands.append(HeapOperand(product_bits[-1]))
            flags.append(product_flags)
        beat_flags = reduce(or_, flags)
        for side in "aw":
            if "nans" in self.operands[side]:
                beat_flags = beat_flags | getattr(self, f"{side}_nans")[block]
        flags_now = Signal(3, name=f"flags_{block}", reset_less=True)
        after_products += flags_now.eq(beat_flags)
        total = Signal(shape_of(product.sum), name=f"sum_{block}", reset_less=True)
        flags_of_sum = Signal(3, name=f"sum_flags_{block}", reset_less=True)
        width = product.sum.width
        if a.beats * product.terms == 1:
            added = sum_of(m, f"heap_{block}", operands, width)
            m.d.sync += [total.eq(added), flags_of_sum.eq(flags_now)]
            return total, flags_of_sum
        so_far = named(m, f"so_far_{block}", Mux(self.first, 0, total[:]))
        added = sum_of(m, f"heap_{block}", [*operands, HeapOperand(so_far)], width)
        with m.If(self.on):
            m.d.sync += [
                total.eq(added),
                flags_of_sum.eq(Mux(self.first, 0, flags_of_sum) | flags_now),
            ]
        return total, flags_of_sum
