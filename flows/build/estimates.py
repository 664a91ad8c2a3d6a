# SPDX-License-Identifier: Apache-2.0
"""Estimates of configurations from the structure of their hardware.

No failure of an estimate stops what it is for: it comes with a note instead of the figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cost_model.estimate.estimate import estimate, without_figures
from flows.build.analyses import analysis, analysis_of
from hwgen.errors import HwgenError

if TYPE_CHECKING:
    from cost_model.closed_forms.closed_forms import Workloads
    from cost_model.netlist.netlist import Netlist
    from hwgen.core.params.base import FamilyConfig


def estimated(
    config: FamilyConfig,
    technology: str | None = None,
    clock_mhz: float | None = None,
    workloads: Workloads | None = None,
    *,
    design: Netlist | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Return what `cost_model.estimate.estimate.estimate` returns, from the structure if it can be had.

    Parameters
    ----------
    config, technology, clock_mhz, workloads, **options
        As there.
    design : Netlist, optional
        The structure, if it is at hand.
    """
    notes, analysed = [], None
    # An estimate stands beside something else, a build or other estimates: what is wrong with it is
    # told in its place, whatever it is.
    try:
        analysed = analysis_of(config) if design is None else analysis(design)
    except Exception as error:
        notes.append(f"no structure of the hardware: {_words(error)}")
    try:
        found = estimate(config, technology, clock_mhz, workloads, analysis=analysed, **options)
    except Exception as error:
        found = without_figures(config, technology, clock_mhz, workloads)
        notes.append(f"no estimate: {_words(error)}")
    return {**found, "notes": [*notes, *found["notes"]]}


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, HwgenError) else f"{type(error).__name__}: {error}"
