# SPDX-License-Identifier: Apache-2.0
"""From synthesized designs to the table of a technology."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cost_model.estimate.technology import Technology, is_calibrated
from cost_model.estimate.technology import technology as calibrated
from cost_model.netlist.fabric.fabric import fabric
from flows.calibration import (
    closed_forms,
    delays,
    delays_fpga,
    fit_fpga,
    fpga,
    structural,
    structural_fpga,
)
from flows.calibration.points import calibration_points
from flows.pnr.devices import placed, placer
from hwgen.errors import InputError
from hwgen.technologies import technology as installed

Progress = Callable[[int, int], None]
"""Takes the designs done and the designs in all."""


def calibrate(
    technology: str,
    progress: Progress = lambda done, total: None,
    designs: int | None = None,
    *,
    structure: bool = False,
) -> Technology:
    """Return the table of a technology.

    Of standard cells the costs of structures are fitted to synthesis, where that is asked for or
    they are not known, and then closed forms to structural estimates.  Closed forms of an FPGA
    family are fitted to synthesis; with `structure` its costs of structures are instead.

    Parameters
    ----------
    technology : str
        A standard-cell library, or an FPGA family whose rules are known.
    progress : callable, optional
    designs : int, optional
        Take the first so many designs of each kind only: a quick look, from which less is known.
    structure : bool
        Whether to fit the costs of structures although they are known.

    Raises
    ------
    InputError
        If the technology is unknown, or nothing is known of how it works.
    ToolMissing, CheckFailed
        As `flows.synthesis.standard_cells.map_core`.
    """
    if installed(technology).kind == "fpga":
        return _fpga(technology, progress, designs, structure=structure)
    tech = calibrated(technology) if is_calibrated(technology) else Technology(technology, {})
    if structure or not tech.structure:
        measured = structural.measured(technology, progress, designs)
        tech = replace(
            tech,
            structure=structural.table(technology, measured),
            timing=delays.table(technology, measured),
        )
    return closed_forms.table(tech, closed_forms.designs(designs, progress))


def _fpga(
    technology: str, progress: Progress, designs: int | None, *, structure: bool
) -> Technology:
    if fabric(technology) is None:
        raise InputError(
            f"{technology!r} cannot be calibrated: its data file has no `rules`, what components"
            " become there"
        )
    tech = calibrated(technology) if is_calibrated(technology) else Technology(technology, {})
    if structure:
        mapped = structural_fpga.measured(technology, progress, designs)
        tech = replace(tech, structure=structural_fpga.table(technology, mapped))
        if technology in placed() and not placer(technology).untimed:
            timed, spreads = delays_fpga.measured(technology, progress, designs)
            tech = replace(tech, timing=delays_fpga.table(technology, timed, spreads))
        return tech
    points = list(calibration_points())[:designs]
    measured: list[Any] = []
    for number, values in enumerate(points):
        progress(number, len(points))
        measured.append(fpga.measure(values, technology))
    table = fit_fpga.table(technology, measured)
    return replace(table, structure=tech.structure, timing=tech.timing)
