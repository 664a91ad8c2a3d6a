# SPDX-License-Identifier: Apache-2.0
"""Energies of what happens in an FPGA; the figures are in ``fpga_energies.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class FpgaEnergies:
    """A published table of energies, which stands in for those of families that have none.

    Parameters
    ----------
    about : str
    factor : float
        What they may be off by, either way.
    node : str
        Of the fabric that they are of.
    source : str
        Where they are from.
    changes : mapping
        pJ of a change of the output of a ``lut`` or a ``flip_flop``, of an input ``dsp_bit``, of a
        ``written_bit`` or a ``read_bit`` of a block memory.
    cycles : mapping
        pJ of every cycle: of the ``clock``, of a ``clock_load``, of the clock of a ``flip_flop``.
    """

    about: str
    factor: float
    node: str
    source: str
    changes: Mapping[str, float]
    cycles: Mapping[str, float]


@cache
def fpga_energies() -> FpgaEnergies:
    """Return the table."""
    text = Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
    return FpgaEnergies(**json.loads(text))
