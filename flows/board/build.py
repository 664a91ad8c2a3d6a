# SPDX-License-Identifier: Apache-2.0
"""The bitstream of a board: fit by estimate first, then place and route until the clock is met."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cost_model.estimate.external import estimate_netlist
from flows.board.design import BoardDesign
from flows.pnr.pnr import bitstream, packer_of, place_and_route
from flows.synthesis.result import PnrResult
from hwgen.board.registry import board, boards
from hwgen.errors import CheckFailed, InputError
from hwgen.reports.roofline import distinct
from hwgen.technologies import technology_of
from hwgen.technologies.utilization import FITS, of, utilization

Progress = Callable[[str, int, int], None]
"""Gets what is done now, percent of the whole work, and 100."""


@dataclass(frozen=True)
class BoardBuild:
    """A bitstream and how it came about.

    Parameters
    ----------
    design : BoardDesign
    estimate : dict
        Of the whole design, before synthesis.
    result : PnrResult
        Of the seed that meets the clock, and of those tried before it.
    bitstream : bytes
    seconds : float
        Time that it took; what was cached took none.
    """

    design: BoardDesign
    estimate: dict[str, Any]
    result: PnrResult
    bitstream: bytes
    seconds: float

    @property
    def bitstream_name(self) -> str:
        """Name of the file of the bitstream."""
        return f"{self.design.name}.{self.design.board.bitstream}"

    @property
    def document(self) -> dict[str, Any]:
        """Board, clock, resources and estimate as JSON values."""
        design, result, best = self.design, self.result, self.result.best
        return {
            "name": design.design.name,
            "board": design.board.name,
            "device": design.board.device,
            "package": design.board.package,
            "digest": design.design.core.digest,
            "link": design.link,
            "pins": design.board.pins_of(design.link),
            "baud": design.baud,
            "divider": design.divider,
            "buffer_bytes": design.buffer_bytes,
            "clock_mhz": design.clock_mhz,
            "fmax_mhz": best.fmax_mhz,
            "estimated_fmax_mhz": self.estimate["metrics"]["fmax_mhz"],
            "seed": best.seed,
            "seeds": len(result.seeds),
            "path": [best.path_start, best.path_end],
            "utilization": result.utilization,
            "estimated": self.estimate["device"]["resources"],
            "bitstream": self.bitstream_name,
            "bitstream_bytes": len(self.bitstream),
            "seconds": round(self.seconds, 1),
            "tools": result.tools,
        }

    @property
    def files(self) -> dict[str, bytes]:
        """Files to write: design, pins, bitstream, report and log of the seed that was packed."""
        stem = f"seed{self.result.best.seed}"
        document = json.dumps(self.document, indent=2) + "\n"
        return {
            f"{self.design.name}.v": self.design.verilog.encode(),
            f"{self.design.name}.pins": self.design.board.constraint_file(
                self.design.link
            ).encode(),
            self.bitstream_name: self.bitstream,
            "board.json": document.encode(),
            "nextpnr.log": self.result.files[f"{stem}.log"],
            "nextpnr.json": self.result.files[f"{stem}.report.json"],
        }


def estimate_board(design: BoardDesign) -> dict[str, Any]:
    """Return the estimate of a whole design, as `cost_model.estimate.external` has it."""
    device = design.board.device
    family, _ = of(device)
    return estimate_netlist(design.name, design.analysis, family.name, design.clock_mhz, device)


def check_fit(design: BoardDesign) -> dict[str, Any]:
    """Return the estimate of a design that fits its board.

    Raises
    ------
    InputError
        If it does not fit by far, with what is too large and a board that it fits. Estimates of
        a device that is just full are left to place and route.
    """
    estimate = estimate_board(design)
    resources = estimate["device"]["resources"].values()
    if all(not row["used"] or row["used"] <= _SURELY * row["available"] for row in resources):
        return estimate
    needs = estimate["device"]["verdict"].removeprefix("no (").removesuffix(")")
    larger = [name for name in boards() if _fits(name, design)]
    remedy = f"It fits {', '.join(larger)}" if larger else "It fits no other board either"
    raise InputError(
        f"{design.design.name} does not fit {design.board.name}: by estimate it needs {needs} of"
        f" the {design.board.device}. {remedy}; a smaller array needs less"
    )


_SURELY = 1.15
"""Share of a resource by estimate above which a design surely does not fit."""


def _fits(name: str, design: BoardDesign) -> bool:
    """Return whether the core and what surrounds it fit another board by estimate."""
    other = board(name)
    family = technology_of(other.device)
    if family is None or name == design.board.name:
        return False
    estimate = estimate_netlist(
        design.name, design.analysis, family, design.clock_mhz, other.device
    )
    return bool(utilization(other.device, estimate["metrics"])[FITS])


def build_board(
    design: BoardDesign,
    *,
    seeds: int = 8,
    recipe: str | None = None,
    use_cache: bool = True,
    on_progress: Progress = lambda step, done, total: None,
) -> BoardBuild:
    """Make the bitstream of a design.

    Parameters
    ----------
    design : BoardDesign
    seeds : int
        Seeds 1 to this are tried, until one meets the clock.
    recipe : str, optional
        As that of `flows.pnr.pnr.place_and_route`.
    use_cache : bool
        Whether results of earlier runs are taken.
    on_progress : callable, optional

    Raises
    ------
    InputError
        If the design does not fit, before anything is synthesized; or if the family has no packer.
    ToolMissing
        If Yosys, nextpnr or the packer is missing.
    CheckFailed
        If no seed meets the clock, with the path and the clock that is met.
    """
    start = time.monotonic()
    target, device = of(design.board.device)
    packer_of(target.name)
    estimate = check_fit(design)
    result = None
    for seed in range(1, seeds + 1):
        result = place_and_route(
            design.verilog,
            target.name,
            top=design.name,
            clock="clk",
            device=device.placed_as,
            package=design.board.package,
            speed=design.board.speed,
            clock_mhz=design.clock_mhz,
            recipe=recipe,
            seeds=seed,
            io="pins",
            pins=design.board.constraint_file(design.link),
            use_cache=use_cache or seed > 1,
            on_progress=on_progress,
        )
        if result.best.fmax_mhz is not None and result.best.fmax_mhz >= design.clock_mhz:
            packed = bitstream(result)
            return BoardBuild(design, estimate, result, packed, time.monotonic() - start)
    assert result is not None
    raise CheckFailed(_missed(design, result))


def _missed(design: BoardDesign, result: PnrResult) -> str:
    """Return why no bitstream was made: the clock, the path, and a remedy."""
    best = result.best
    if best.fmax_mhz is None:
        return "place and route reports no clock"
    reached, asked = distinct(best.fmax_mhz, design.clock_mhz)
    divider = 2 * design.divider
    while design.board.clock.mhz / divider > best.fmax_mhz:
        divider *= 2
    path = f"from {best.path_start} to {best.path_end}" if best.path_start else "through a memory"
    return (
        f"{design.design.name} reaches {reached} MHz on {design.board.name}, not the {asked} MHz of"
        f" its clock, with the best of {len(result.seeds)} seeds; the path that limits it leads"
        f" {path}. Divide the clock (--divide {divider}), add registers (pipeline), or try more"
        " seeds (--seeds)"
    )
