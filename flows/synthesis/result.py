# SPDX-License-Identifier: Apache-2.0
"""Results of synthesis, and of place and route.

Synthesis has one form for standard cells and FPGAs.  Every field with a unit has it in its name.  A
figure that is not known, or that a target does not have, is None, never 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

Io = Literal["frame", "pins"]
"""What surrounds a core that is placed: registers, or pins."""


@dataclass(frozen=True)
class ModuleUse:
    """A module that was mapped once, or, under the name of the top module, all the rest.

    Parameters
    ----------
    name : str
    instances : int
    area_um2, sequential_area_um2 : float or None
        Of one instance; standard cells only.
    luts, flip_flops, carries, wide_muxes, dsps, brams, lutrams, urams : int or None
        Of one instance; FPGAs only.
    """

    name: str
    instances: int
    area_um2: float | None = None
    sequential_area_um2: float | None = None
    luts: int | None = None
    flip_flops: int | None = None
    carries: int | None = None
    wide_muxes: int | None = None
    dsps: int | None = None
    brams: int | None = None
    lutrams: int | None = None
    urams: int | None = None


@dataclass(frozen=True)
class Trial:
    """Method of mapping the design, and what came out."""

    recipe: str
    full_adders: bool | None
    hierarchy: str
    area_um2: float | None
    critical_path_ns: float | None
    wall_seconds: float


@dataclass(frozen=True)
class SynthesisResult:
    """A design mapped to a target.

    Parameters
    ----------
    name : str
        The top module.
    target : str
        Standard-cell technology or FPGA family.
    recipe : str
        What was optimised for.
    full_adders : bool or None
        Whether the technology's full-adder cell was used; None for an FPGA.
    hierarchy : str
        ``keep``: the modules in `modules` were mapped once each; ``flatten``: all as one.
    clock_target_mhz : float
        What the mapper aimed at; Yosys's FPGA mappers have no such aim.
    area_um2, sequential_area_um2, combinational_area_um2 : float or None
        Of all cells, of those that store something, and of the others; standard cells only.
    modules : tuple of ModuleUse
    cells : mapping
        Number of each cell.
    flip_flops : int
        Registers, a bit each.
    luts, carries, wide_muxes, dsps, brams, lutrams, urams : int or None
        FPGAs only: look-up tables, carry cells, multiplexers behind look-up tables, DSP blocks,
        block memories of `bram_kbit` each, cells of memories made of look-up tables, and large
        memories.
    bram_kbit : int or None
    critical_path_ns : float or None
        Shortest clock period; wires have no delay, the clock is ideal.
    logic_levels : int or None
        Cells on the longest path where there is no delay; see `timing_note`.
    path_start, path_end : str or None
        Where the critical, or else the longest, path begins and ends.
    timing_source : str or None
        ``opensta`` or ``levels``.
    timing_note : str
        What is to be known about the path.
    fmax_mhz : float or None
        From `critical_path_ns`.
    tools : mapping
        Version of each tool that took part.
    library : mapping
        SHA-256 of each Liberty file by its name, decompressed; empty for an FPGA.
    wall_seconds : float
        What the run took, when it ran.
    source_digest, netlist_digest : str
        SHA-256 of the Verilog that went in and of the netlist that came out.
    scripts : tuple of str
        Which of the files beside the result are the scripts.
    memories : str
        ``macros`` if memories are SRAM macros, else ``registers``; on FPGAs always the latter.
    macros : mapping
        Number of each SRAM macro.
    macro_area_um2 : float or None
        Their area, part of `area_um2` and `sequential_area_um2`; None if there are none.
    trials : tuple of Trial
        Everything that was tried; more than one with ``effort="best"``.
    files : mapping
        Netlist, scripts and logs, by name; not part of the document.
    """

    name: str
    target: str
    recipe: str
    full_adders: bool | None
    hierarchy: str
    clock_target_mhz: float
    area_um2: float | None
    sequential_area_um2: float | None
    combinational_area_um2: float | None
    modules: tuple[ModuleUse, ...]
    cells: Mapping[str, int]
    flip_flops: int
    luts: int | None
    carries: int | None
    wide_muxes: int | None
    dsps: int | None
    brams: int | None
    lutrams: int | None
    urams: int | None
    bram_kbit: int | None
    critical_path_ns: float | None
    logic_levels: int | None
    path_start: str | None
    path_end: str | None
    timing_source: str | None
    timing_note: str
    fmax_mhz: float | None
    tools: Mapping[str, str]
    library: Mapping[str, str]
    wall_seconds: float
    source_digest: str
    netlist_digest: str
    scripts: tuple[str, ...]
    memories: str = "registers"
    macros: Mapping[str, int] = field(default_factory=dict)
    macro_area_um2: float | None = None
    trials: tuple[Trial, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    def document(self) -> dict[str, Any]:
        """Return everything but the files as plain JSON values."""
        document = {
            entry.name: getattr(self, entry.name)
            for entry in fields(self)
            if entry.name not in ("files", "modules", "trials")
        }
        document |= {name: dict(document[name]) for name in ("cells", "tools", "library", "macros")}
        document["scripts"] = list(self.scripts)
        document["modules"] = [asdict(module) for module in self.modules]
        document["trials"] = [asdict(trial) for trial in self.trials]
        return document

    @classmethod
    def of_document(
        cls, document: Mapping[str, Any], files: Mapping[str, bytes] | None = None
    ) -> SynthesisResult:
        """Return the result that `document` was made of.

        Raises
        ------
        KeyError, TypeError
            If it is the document of something else.
        """
        values = dict(document)
        values["modules"] = tuple(ModuleUse(**module) for module in values["modules"])
        values["trials"] = tuple(Trial(**trial) for trial in values["trials"])
        values["scripts"] = tuple(values["scripts"])
        return cls(**values, files=files or {})


@dataclass(frozen=True)
class SeedResult:
    """One run of nextpnr.

    Parameters
    ----------
    seed : int
    fmax_mhz, critical_path_ns : float or None
        None if it failed, or if there is no path between registers.
    path_start, path_end : str or None
        Cells where the critical path begins and ends.
    failure : str or None
        What nextpnr said last, if it failed.
    wall_seconds : float
    """

    seed: int
    fmax_mhz: float | None
    critical_path_ns: float | None
    path_start: str | None
    path_end: str | None
    failure: str | None
    wall_seconds: float


@dataclass(frozen=True)
class PnrResult:
    """A design placed and routed.

    Parameters
    ----------
    name : str
        The core.
    target, device, package : str
    speed_grade : str or None
    recipe : str
        A key of `flows.synthesis.fpga.RECIPES`.
    clock_target_mhz : float
    io : {"frame", "pins"}
        Whether registers surround the core, or its ports are pins.
    fmax_min_mhz, fmax_median_mhz, fmax_max_mhz : float or None
        Over the seeds that succeeded.
    seeds : tuple of SeedResult
    utilization : mapping
        Of each resource of the device that is used: how many are used, frame included, and how
        many there are.
    frame_flip_flops, frame_luts : int or None
        What of it is the frame.
    tools : mapping
        Version of each tool.
    wall_seconds : float
        What the runs took, one after the other.
    source_digest, netlist_digest : str
        SHA-256 of the Verilog, frame included, and of the netlist.
    files : mapping
        Netlist, reports and logs, by name; not part of the document.
    """

    name: str
    target: str
    device: str
    package: str
    speed_grade: str | None
    recipe: str
    clock_target_mhz: float
    io: Io
    fmax_min_mhz: float | None
    fmax_median_mhz: float | None
    fmax_max_mhz: float | None
    seeds: tuple[SeedResult, ...]
    utilization: Mapping[str, Mapping[str, int]]
    frame_flip_flops: int | None
    frame_luts: int | None
    tools: Mapping[str, str]
    wall_seconds: float
    source_digest: str
    netlist_digest: str
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    @property
    def best(self) -> SeedResult:
        """The fastest seed that succeeded."""
        done = [seed for seed in self.seeds if seed.failure is None]
        return max(done, key=lambda seed: seed.fmax_mhz or 0.0)

    def document(self) -> dict[str, Any]:
        """Return everything but the files as plain JSON values."""
        plain = {
            entry.name: getattr(self, entry.name)
            for entry in fields(self)
            if entry.name not in ("files", "seeds")
        }
        plain["seeds"] = [asdict(seed) for seed in self.seeds]
        plain["utilization"] = {name: dict(used) for name, used in self.utilization.items()}
        plain["tools"] = dict(self.tools)
        return plain

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> PnrResult:
        """Return the result that `document` was made of, without files.

        Raises
        ------
        KeyError, TypeError
            If it is the document of something else.
        """
        seeds = tuple(SeedResult(**seed) for seed in document["seeds"])
        return cls(**{**document, "seeds": seeds})


def write_result(
    result: SynthesisResult | PnrResult, directory: Path, more: Mapping[str, Any] | None = None
) -> None:
    """Write the files of a result and, as ``result.json``, its document with `more` fields."""
    for name, content in result.files.items():
        (directory / name).write_bytes(content)
    document = json.dumps({**result.document(), **(more or {})}, indent=2) + "\n"
    (directory / "result.json").write_text(document, encoding="utf-8")
