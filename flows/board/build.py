# SPDX-License-Identifier: Apache-2.0
"""The bitstream of a board: fit by estimate first, then place and route over several seeds."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from cost_model.estimate.external import estimate_netlist
from flows.board.design import BoardDesign
from flows.pnr.pnr import bitstream, packer_of, place_and_route
from flows.synthesis.result import PnrResult
from hwgen.board.model import BoardData
from hwgen.board.pll import Pll, pll_below
from hwgen.board.registry import board, boards
from hwgen.errors import CheckFailed, InputError
from hwgen.reports.roofline import distinct
from hwgen.technologies import technology_of
from hwgen.technologies.utilization import FITS, of, utilization

SEEDS = 4
"""Seeds that are run."""

CLOCKS = 4
"""Clocks that are tried at most, to find the fastest."""

LEAST_GAIN = 0.02
"""Share by which a clock must be faster for another run."""

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
        Of all seeds.
    bitstream : bytes
        Of the fastest seed.
    seconds : float
        Time that it took; what was cached took none.
    tried : tuple of (float, float or None)
        Clocks in MHz that were tried, and what the best seed reached.
    """

    design: BoardDesign
    estimate: dict[str, Any]
    result: PnrResult
    bitstream: bytes
    seconds: float
    tried: tuple[tuple[float, float | None], ...] = ()

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
            "pins": design.board.pins_of(design.link, memory=design.on_memory),
            "baud": design.baud,
            **(
                {"address": design.address.url, "mac": design.address.mac}
                if design.link == "udp"
                else {}
            ),
            "divider": design.divider,
            "buffer_bytes": design.buffer_bytes,
            "clock_mhz": design.clock_mhz,
            "memory_ratio": design.ratio,
            "fmax_mhz": best.fmax_mhz,
            "estimated_fmax_mhz": self.estimate["metrics"]["fmax_mhz"],
            "seed": best.seed,
            "seeds": len(result.seeds),
            "fmax_of_seeds_mhz": [seed.fmax_mhz for seed in result.seeds],
            "oscillator_mhz": design.board.clock.mhz,
            "pll": {} if design.loop is None else dict(design.loop.parameters),
            "clocks_tried_mhz": [list(pair) for pair in self.tried],
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
            f"{self.design.name}.v": f"{self.design.pads}{self.design.verilog}".encode(),
            f"{self.design.name}.pins": self.design.board.constraint_file(
                self.design.link, memory=self.design.on_memory
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
    seeds: int = SEEDS,
    recipe: str | None = None,
    use_cache: bool = True,
    on_progress: Progress = lambda step, done, total: None,
) -> BoardBuild:
    """Make the bitstream of a design.

    Parameters
    ----------
    design : BoardDesign
    seeds : int
        Seeds 1 to this are run; the fastest is packed.
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
    estimate = _checked(design)
    result = _routed(design, seeds, recipe, on_progress, use_cache=use_cache)
    if not _meets(design, result):
        raise CheckFailed(_missed(design, result))
    return BoardBuild(design, estimate, result, bitstream(result), time.monotonic() - start)


def build_fastest(
    design: BoardDesign,
    *,
    seeds: int = SEEDS,
    recipe: str | None = None,
    use_cache: bool = True,
    on_progress: Progress = lambda step, done, total: None,
) -> BoardBuild:
    """Make the bitstream of a design with the fastest clock of the board's PLL that is met.

    The first clock is that of the estimate, each further one what the best seed reached before;
    it ends when a clock is met and the next is not faster, or not met.

    Parameters
    ----------
    design, seeds, recipe, use_cache, on_progress
        As those of `build_board`.

    Raises
    ------
    InputError
        As `build_board`; or if the data file of the board names no PLL.
    ToolMissing
        If Yosys, nextpnr or the packer is missing.
    CheckFailed
        If no clock that was tried is met.
    """
    start = time.monotonic()
    estimate = _checked(design)
    asked = estimate["metrics"]["fmax_mhz"] or 2 * design.board.clock.mhz
    met: tuple[BoardDesign, PnrResult] | None = None
    tried = []
    for _ in range(CLOCKS):
        candidate = with_clock(design, asked)
        result = _routed(candidate, seeds, recipe, on_progress, use_cache=use_cache)
        tried.append((candidate.clock_mhz, result.best.fmax_mhz))
        reached = result.best.fmax_mhz or 0.0
        if _meets(candidate, result):
            met = candidate, result
            following = with_clock(design, reached)
            if following.clock_mhz < candidate.clock_mhz * (1 + LEAST_GAIN):
                break
            asked = reached
        elif met is not None:
            break
        else:
            asked = min(reached, candidate.clock_mhz * (1 - LEAST_GAIN))
    if met is None:
        raise CheckFailed(_missed(candidate, result))
    packed = bitstream(met[1])
    return BoardBuild(met[0], estimate, met[1], packed, time.monotonic() - start, tuple(tried))


def with_clock(design: BoardDesign, mhz: float) -> BoardDesign:
    """Return a design with a clock of the board's PLL, the fastest that is not above `mhz`.

    Raises
    ------
    InputError
        If the board has no PLL, or it makes no such clock.
    """
    return replace(design, pll=pll_of(design.board, mhz))


def pll_of(board: BoardData, mhz: float) -> Pll | None:
    """Return the PLL of a board for the fastest clock not above `mhz`, None for the oscillator's.

    Raises
    ------
    InputError
        If the board has no PLL, or it makes no such clock.
    """
    if board.pll is None:
        raise InputError(f"--clock: the file of {board.name} names no PLL (field `pll`)")
    if board.clock_hz == round(1e6 * mhz):
        return None
    return pll_below(board.pll, board.clock_hz, 1e6 * mhz)


def _checked(design: BoardDesign) -> dict[str, Any]:
    """Return the estimate of a design that fits, if all that is needed is there."""
    target, _ = of(design.board.device)
    packer_of(target.name)
    return check_fit(design)


def _routed(
    design: BoardDesign, seeds: int, recipe: str | None, on_progress: Progress, *, use_cache: bool
) -> PnrResult:
    target, device = of(design.board.device)
    declared = f"\n{design.declarations}" if design.declarations else ""
    return place_and_route(
        design.pads + design.verilog + declared,
        target.name,
        top=design.top_name,
        clock="clk",
        device=device.placed_as,
        package=design.board.package,
        speed=design.board.speed,
        clock_mhz=design.clock_mhz,
        recipe=recipe,
        seeds=seeds,
        io="pins",
        pins=design.board.constraint_file(design.link, memory=design.on_memory),
        use_cache=use_cache,
        on_progress=on_progress,
    )


def _meets(design: BoardDesign, result: PnrResult) -> bool:
    reached = result.best.fmax_mhz
    return reached is not None and reached >= design.clock_mhz


def _missed(design: BoardDesign, result: PnrResult) -> str:
    """Return why no bitstream was made: the clock, the path, and a remedy."""
    best = result.best
    if best.fmax_mhz is None:
        return "place and route reports no clock"
    reached, asked = distinct(best.fmax_mhz, design.clock_mhz)
    divider = 2 * design.divider
    while design.board.clock.mhz / divider > best.fmax_mhz:
        divider *= 2
    slower = f"Divide the clock (--divide {divider})"
    if design.pll is not None:
        slower = "Choose a slower clock (--clock)"
    path = f"from {best.path_start} to {best.path_end}" if best.path_start else "through a memory"
    return (
        f"{design.design.name} reaches {reached} MHz on {design.board.name}, not the {asked} MHz of"
        f" its clock, with the best of {len(result.seeds)} seeds; the path that limits it leads"
        f" {path}. {slower}, add registers (pipeline), or try more"
        " seeds (--seeds)"
    )
