# SPDX-License-Identifier: Apache-2.0
"""Reasons for metrics of an estimate that are null."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cost_model.configurations.metrics import LUTS_USED, RESOURCES
from cost_model.estimate import technology as technologies
from cost_model.netlist.fabric.fabric import has_rules
from hwgen.technologies import technologies as installed
from hwgen.technologies.fpga_energies import fpga_energies as table_of_energies
from hwgen.technologies.fpga_model import Fpga

AREA = ("area_mm2", "tops_per_mm2")
ENERGY = ("power_w", "tops_per_w", "energy_mj", "memory_energy_mj")


def reasons(
    metrics: Mapping[str, Any], technology: str, *, streams: bool, fpga_energies: bool = False
) -> dict[str, str]:
    """Return why metrics of an estimate are null, by metric.

    Those of which no reason is known are left out: a defect, or what `notes` of the estimate say.

    Parameters
    ----------
    metrics : mapping
        Of `cost_model.estimate.estimate.estimate`.
    technology : str
    streams : bool
        Whether the accelerator has stream ports.
    fpga_energies : bool, optional
        Whether power of FPGAs was asked for.
    """
    if technology not in installed():
        return {}
    fpga = isinstance(installed()[technology], Fpga)
    energies = _energies(technology, asked=fpga_energies) if fpga else {}
    find = _of_fpga if fpga else _of_cells
    result = {}
    for metric, value in metrics.items():
        base = metric.partition("(")[0]
        if value is not None:
            continue
        if base == "bandwidth_gb_s":
            if not streams:
                result[metric] = "no stream ports; what its memory port moves is counted by job"
        elif reason := energies.get(base) or find(base, technology):
            result[metric] = reason
    return result


def _of_cells(base: str, technology: str) -> str | None:
    if base in (LUTS_USED, *RESOURCES):
        return "standard cells have an area, no resources of an FPGA"
    if not technologies.is_calibrated(technology):
        return "the technology is not calibrated"
    if base in ENERGY:
        return "no energy of the memories of this technology is published"
    return None


def _of_fpga(base: str, technology: str) -> str | None:
    if base in AREA:
        return "an FPGA has resources, no area"
    if not has_rules(technology):
        return "the data file has no rules of this fabric, and it is not calibrated"
    if not technologies.is_calibrated(technology):
        return "the technology is not calibrated"
    tech = technologies.technology(technology)
    if base == "fmax_mhz" and not tech.timing:
        return _no_delays(technology)
    shared = base in (LUTS_USED, *RESOURCES) or base.endswith("_share") or base == "fits"
    if shared and not tech.structure:
        return "structures are not calibrated on this fabric"
    if base in ENERGY:
        return "energies of a fabric are those of a structure, and of blocks of known widths"
    return None


def _no_delays(technology: str) -> str:
    tech = installed()[technology]
    placer = tech.place_and_route if isinstance(tech, Fpga) else None
    if placer is None:
        return "no open place and route whose delays could be fitted"
    if placer.untimed:
        return f"{placer.tool} knows no delays of {', '.join(placer.untimed)}"
    return f"not fitted to what {placer.tool} finds"


def _energies(technology: str, *, asked: bool) -> dict[str, str]:
    """Return why metrics of energy of an FPGA are null, as far as that is the option."""
    if asked:
        return {"memory_energy_mj": "buffers are part of the fabric, and of its power"}
    if not has_rules(technology):
        return {}
    reason = (
        "no energies of this fabric are published; --fpga-energies takes those of another one,"
        f" to a factor of {table_of_energies().factor:g}"
    )
    return dict.fromkeys(ENERGY, reason)
