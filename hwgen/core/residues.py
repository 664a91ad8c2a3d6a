# SPDX-License-Identifier: Apache-2.0
"""Residue codes of sums of products: the modulus, and which sums have them.

The sum of the lanes of a beat of results is the sum of products of the moving operand and the sum
of the lanes of the other one.  Modulo 2^k - 1 this needs one column of small processing elements.
"""

from __future__ import annotations

from typing import Any

from hwgen.formats import TERNARY, IntegerFormat

RESIDUE_BITS = 4
"""Bits of a residue."""

RESIDUE = IntegerFormat(RESIDUE_BITS, signed=False)
"""Format of residues, as far as widths are concerned."""

MODULUS = (1 << RESIDUE_BITS) - 1
"""Modulus of residues: no power of two is a multiple of it, so that no flip of a bit is missed."""


def residue_errors(config: Any) -> list[str]:
    """Return why sums of a core have no residues, each ``dotted.field: text``.

    Parameters
    ----------
    config : BlockProductConfig
    """
    pe, operands = config.processing_element, (config.activation, config.weight)
    if config.block_product is not None:
        reason = "sums of {} x {} are of scaled blocks or of floating-point numbers"
        return [residue_error(reason.format(*operands))]
    reasons = []
    if pe.serial:
        reasons.append(f"with array.pe {pe.name} cycles depend on digits, not on residues")
    if config.packing is not None and not config.packing.exact:
        reasons.append("with array.packing over the low bits of products are off")
    exact = config.partial_sum(config.max_k)
    if config.result.width < exact.width:
        reasons.append(
            f"accumulator {config.result} may overflow with max_k {config.max_k}, which changes"
            f" residues; set accumulator exact, which is {exact}"
        )
    if TERNARY in operands and (operands[0] == TERNARY or not config.ignores_no_weights):
        reasons.append("this array multiplies by ternary codes that are no weights; set int2")
    return [residue_error(reason) for reason in reasons]


def residue_error(reason: str) -> str:
    """Return the text of an error."""
    return f"protect.datapath: must not be residue: {reason}; or use dup"
