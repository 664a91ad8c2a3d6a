# SPDX-License-Identifier: Apache-2.0
"""Protection of a core against faults."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hwgen.config.base import Model

FAULT_OUTPUT = "fault_detected"
"""Name of the output that says that a fault was noticed."""


class Protection(Model):
    """Hardware that detects or corrects faults; it adds no cycles."""

    registers: Literal["none", "parity", "tmr"] = Field(
        "none",
        description="parity: each 16 bits of a register have a parity bit, a wrong one sets the"
        " output fault_detected. tmr: each register is three that vote, so that one may be wrong.",
    )
    control: Literal["none", "parity", "tmr"] = Field(
        "none",
        description="The same for registers that decide what happens when: those that valid,"
        " ready, addresses or interrupts depend on. The stronger one of both counts.",
    )
    memories: Literal["none", "ecc"] = Field(
        "none",
        description="ecc: words of memories have check bits that correct one wrong bit.",
    )
    datapath: Literal["none", "residue", "dup"] = Field(
        "none",
        description="residue: sums of integer products are checked modulo 15 by one column of small"
        " processing elements. dup: a second core does the same one cycle later. A difference sets"
        " the output fault_detected.",
    )

    @property
    def any(self) -> bool:
        """Whether anything is protected."""
        return any(value != "none" for value in self.model_dump().values())
