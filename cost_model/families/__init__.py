# SPDX-License-Identifier: Apache-2.0
"""The closed-form cost models of families, for sweeps."""

from __future__ import annotations

from collections.abc import Mapping

from cost_model.closed_forms.contract import ClosedForms
from cost_model.families import spatial, systolic, ternary_lut

CLOSED_FORMS: Mapping[str, ClosedForms] = {
    "adder_tree": spatial,
    "broadcast_2d": spatial,
    "cube": spatial,
    "systolic": systolic,
    "ternary_lut": ternary_lut,
}
"""By family; of others every figure follows from a netlist."""
