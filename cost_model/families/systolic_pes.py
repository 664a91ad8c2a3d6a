# SPDX-License-Identifier: Apache-2.0
"""Components of the PEs of a systolic core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cost_model.closed_forms import processing_elements as elements
from cost_model.closed_forms import products
from cost_model.closed_forms.component_counts import adder, times, total
from cost_model.closed_forms.numbers import register
from cost_model.netlist.fabric.fabric import LISTED, fabric_of
from cost_model.netlist.fabric.fabric import product_counts as logic_or_dsp
from hwgen.families.systolic.params import psum_terms

if TYPE_CHECKING:
    from cost_model.netlist.fabric.fabric import Fabric
    from hwgen.families.systolic.params import SystolicConfig

PE_KINDS = (
    "flip_flop", "enable", "and", "adder_bit", "adder_level", "saturate", "sum_bit",
    *products.PRODUCT_KINDS,
)  # fmt: skip


def _fpga_multiplier(config: SystolicConfig, fabric: Fabric) -> dict[str, float]:
    x, y = config.row_operand, config.column_operand
    return logic_or_dsp(fabric, x.width, y.width, signed=(x.signed, y.signed))


def _multiply_add(config: SystolicConfig, width: int) -> dict[str, float]:
    """Return the bill of what multiplies, and adds to a number, with so many bits."""
    if fabric := fabric_of(config):
        return total(_fpga_multiplier(config, fabric), adder(width, fabric))
    x, y = config.row_operand, config.column_operand
    signed, product = (x.signed, y.signed), min(width, x.width + y.width)
    if config.pipeline.pe < 2:
        return products.sum_of_products(
            1, x.width, y.width, signed=signed, summed=product, width=width, numbers=1
        )
    multiplied = products.sum_of_products(
        1, x.width, y.width, signed=signed, summed=product, width=product
    )
    return total(multiplied, adder(float(width)))


def pe_kinds(config: SystolicConfig) -> tuple[str, ...]:
    """Return the kinds that PEs have."""
    return (*PE_KINDS, *LISTED) if fabric_of(config) else PE_KINDS


def _added_by_dsp(config: SystolicConfig, fabric: Fabric) -> bool:
    """Return whether the adder behind a product is part of a DSP block."""
    x, y = config.row_operand.width, config.column_operand.width
    return fabric.dsp_adds and fabric.multiplies(x + y, min(x, y))


def _pipelined(config: SystolicConfig) -> int:
    """Return the bits of the registers in the path of a product."""
    operands: int = config.row_operand.width + config.column_operand.width
    return operands * config.pipeline.pe


def output_stationary_pe(config: SystolicConfig) -> dict[str, float]:
    """Return the bill of an output-stationary PE."""
    y, total_width = config.column_operand.width, config.result.width
    fabric = fabric_of(config)
    if fabric is not None and _added_by_dsp(config, fabric):
        # What saturates is between the adder and its register.
        held = total_width * config.saturates
        return total(
            _fpga_multiplier(config, fabric),
            register(y, enable=True),
            register(held),
            {"gate": held, "saturate": held},
        )
    return total(
        _multiply_add(config, _added(config, total_width)),
        {
            "flip_flop": y + _pipelined(config) + total_width,
            "enable": y,
            "and": total_width,
            "saturate": total_width if config.saturates else 0,
        },
    )


def _added(config: SystolicConfig, width: int) -> int:
    """Return the bits of a sum that becomes a total of `width` bits: if clamped, all of them."""
    if not config.saturates:
        return width
    wide = width if fabric_of(config) else max(width, config.product.width)
    return wide + 1


def digit_pe(config: SystolicConfig) -> dict[str, float]:
    """Return the bill of an output-stationary PE that multiplies by digits."""
    x, y, depth = config.row_operand, config.column_operand.width, config.pipeline.pe
    digits = elements.digits_of(config)
    missing = digits.plus_ones_width
    return total(
        elements.digit_sums(digits, min(depth, 1)),
        register(y, enable=True),
        register((depth > 1) * (elements.lines(x) + y) + (depth > 0) * missing),
    )


def psum_widths(config: SystolicConfig) -> list[int]:
    """Return the width of the partial sums of each row; see `StationaryArray`."""
    rows = config.array.rows
    return [config.partial_sum(psum_terms(row, rows)).width for row in range(rows)]


def stationary_pes(config: SystolicConfig) -> dict[str, float]:
    """Return the bill of a column of weight- or input-stationary PEs."""
    rows, y = config.array.rows, config.column_operand.width
    widths = psum_widths(config)
    psums = sum(widths)
    registers = rows * (2 * y + _pipelined(config)) + psums
    fabric = fabric_of(config)
    enables = {"gate": 2.0 * rows} if fabric else {}
    if fabric is not None and _added_by_dsp(config, fabric):
        # A block has no room for two registers of an operand with different enables.
        kept = rows * y * (1 + (config.pipeline.pe > 1))
        return total(
            times(rows, _fpga_multiplier(config, fabric)),
            register(float(kept), enable=True),
            enables,
        )
    return total(
        *(_multiply_add(config, width) for width in widths),
        {"flip_flop": registers, "enable": registers},
        enables,
    )
