# SPDX-License-Identifier: Apache-2.0
"""Hardware of the processing elements of systolic arrays, by the names of their table.

`hwgen.families.systolic.params.PES` has their requirements.  Arrays for operands in blocks have one
PE for all of them, whose arithmetic follows from `BlockProduct`.
"""

from __future__ import annotations

from collections.abc import Mapping

from rtl_templates.systolic.pe import (
    DigitPE,
    MultiplierPE,
    OutputStationaryPE,
    StationaryPE,
)

OUTPUT_STATIONARY_PES: Mapping[str, type[OutputStationaryPE]] = {
    "mac": MultiplierPE,
    "carry_save": DigitPE,
}
"""PEs that keep an element of C."""

STATIONARY_PES: Mapping[str, type[StationaryPE]] = {"mac": StationaryPE}
"""PEs that keep an element of an operand."""
