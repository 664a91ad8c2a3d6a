# SPDX-License-Identifier: Apache-2.0
"""From synthesized designs to the table of a technology."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cost_model.estimate.technology import Technology, is_calibrated
from cost_model.estimate.technology import technology as calibrated
from cost_model.netlist.fabric.fabric import fabric
from flows.calibration import delays, delays_fpga, structural, structural_fpga
from flows.pnr.devices import placed, placer
from hwgen.errors import InputError
from hwgen.technologies import technology as installed

Progress = Callable[[int, int], None]
"""Takes the designs done and the designs in all."""


def calibrate(
    technology: str,
    progress: Progress = lambda done, total: None,
    designs: int | None = None,
    jobs: int = 1,
) -> Technology:
    """Return the table of a technology: costs and delays fitted to synthesized designs.

    Parameters
    ----------
    technology : str
        A standard-cell library, or an FPGA family whose rules are known.
    progress : callable, optional
    designs : int, optional
        Take the first so many designs only: a quick look, from which less is known.
    jobs : int, optional
        Processes that map designs of a standard-cell library at once.

    Raises
    ------
    InputError
        If the technology is unknown, or nothing is known of how it works.
    ToolMissing, CheckFailed
        As `flows.synthesis.standard_cells.map_core`.
    """
    if installed(technology).kind == "fpga":
        return _fpga(technology, progress, designs)
    measured = structural.measured(technology, progress, designs, jobs)
    return Technology(
        technology,
        delays.table(technology, measured),
        structural.table(technology, measured),
        calibrated(technology).energies if is_calibrated(technology) else {},
    )


def _fpga(technology: str, progress: Progress, designs: int | None) -> Technology:
    if fabric(technology) is None:
        raise InputError(
            f"{technology!r} cannot be calibrated: its data file has no `rules`, what components"
            " become there"
        )
    tech = calibrated(technology) if is_calibrated(technology) else Technology(technology)
    mapped = structural_fpga.measured(technology, progress, designs)
    tech = replace(tech, structure=structural_fpga.table(technology, mapped))
    if technology in placed() and not placer(technology).untimed:
        timed, spreads = delays_fpga.measured(technology, progress, designs)
        tech = replace(tech, timing=delays_fpga.table(technology, timed, spreads))
    return tech
