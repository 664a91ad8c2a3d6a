# SPDX-License-Identifier: Apache-2.0
"""Map a design to any target once: the step that `flows.synthesis.synth` repeats."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cost_model.memories.memories import Form
from flows.synthesis import fpga, levels, liberty, macros, outline
from flows.synthesis import standard_cells as synthesis
from flows.synthesis.levels import Longest, Role
from flows.synthesis.liberty import Library
from flows.synthesis.macro_files import macro_files_of
from flows.synthesis.macros import Chosen
from flows.synthesis.result import ModuleUse, SynthesisResult
from flows.tools import process
from flows.tools.cache import read_files, text_digest
from flows.tools.toolchain import require
from hwgen.core.params.target import REGISTERS_BELOW
from hwgen.technologies import fpga_family, technology
from hwgen.technologies.model import Memories

Hierarchy = Literal["keep", "flatten"]

_CELL_FILES = (
    "design.v", "map.ys", "join.ys", "kept.abc", "rest.abc", "map.constr", "explicit.v",
    "adders.v", "macros.v", "macros.lib", "time.tcl", "map.log", "join.log", "time.log",
    "netlist.v",
)  # fmt: skip
_FPGA_FILES = ("design.v", "products.v", "map.ys", "map.log", "netlist.v", "netlist.json")
_SCRIPTS = (".ys", ".abc", ".constr", ".tcl", "explicit.v", "adders.v", "products.v",
            "macros.v", "macros.lib")  # fmt: skip
"""Ends of the names of scripts and of what they read beside the design."""
_FPGA_NOTE = (
    "of an FPGA, synthesis counts look-up tables and DSP blocks of the longest path, a carry chain"
    " as one; it has no delays, which are those of wires: `hwgen pnr` has them"
)


@dataclass(frozen=True)
class Job:
    """A design, and what it is mapped for.

    Parameters
    ----------
    verilog, top, clock : str
        Text of all modules, top module, clock port.
    target : str
        Name of a technology.
    clock_mhz : float
    timeout : float
        Seconds for one run of a tool.
    registers_below : int
        Bits of a memory from which on it is made of macros, if the method says so.
    """

    verilog: str
    top: str
    clock: str
    target: str
    clock_mhz: float
    timeout: float
    registers_below: int = REGISTERS_BELOW


@dataclass(frozen=True)
class Method:
    """Method of mapping; the fields are those of `flows.synthesis.result.SynthesisResult`."""

    recipe: str
    full_adders: bool | None
    hierarchy: Hierarchy
    liberty_files: tuple[str, ...]
    memories: Form = "registers"
    macro_files: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Description in a few words."""
        adders = ", full adders" if self.full_adders else ""
        made = ", SRAM macros" if self.memories == "macros" else ""
        return f"{self.recipe}{adders}, {self.hierarchy}{made}"


def map_design(job: Job, method: Method, work: Path) -> SynthesisResult:
    """Map a design; versions of tools, library and times are not in the result.

    Parameters
    ----------
    job : Job
    method : Method
    work : Path
        Directory to work in.

    Raises
    ------
    CheckFailed
        If a tool fails.
    """
    return (_fpga if technology(job.target).kind == "fpga" else _cells)(job, method, work)


def _separate_modules(job: Job, method: Method, work: Path) -> tuple[str, ...]:
    if method.hierarchy == "flatten":
        return ()
    (work / "design.v").write_text(job.verilog, encoding="utf-8")
    design = outline.outline(require("yosys"), job.top, work, job.timeout)
    return outline.separate_modules(design)


def chosen_macros(job: Job, macro_files: tuple[str, ...]) -> tuple[Memories | None, Chosen]:
    """Return the macros at hand, and which memories are made of them; none for an FPGA."""
    tech = technology(job.target)
    if tech.kind == "fpga":
        return None, {}
    memories = macro_files_of(macro_files, job.target) if macro_files else tech.memories
    if memories is None:
        return None, {}
    chosen = macros.choose(job.verilog, job.top, memories, job.target, job.registers_below)
    return memories, chosen


def _cells(job: Job, method: Method, work: Path) -> SynthesisResult:
    memories: Memories | None = None
    chosen: Chosen = {}
    if method.memories == "macros":
        memories, chosen = chosen_macros(job, method.macro_files)
    mapped = synthesis.map_core(
        job.verilog,
        job.top,
        job.target,
        method.recipe,
        1e6 / job.clock_mhz,
        _separate_modules(job, method, work),
        full_adders=bool(method.full_adders),
        liberty_files=method.liberty_files,
        clock=job.clock,
        memories=memories,
        chosen=chosen,
        macro_files=method.macro_files,
        work=work,
        timeout=job.timeout,
    )
    library = liberty.load(job.target, method.liberty_files)
    path: Longest | None = None
    if mapped.timing is None:
        path = _gate_levels(job, work, library, mapped.macros)
    index = mapped.timing or path
    files = read_files(work, _CELL_FILES)
    return SynthesisResult(
        **_basics(job, method, files),
        full_adders=method.full_adders,
        area_um2=mapped.area,
        sequential_area_um2=mapped.sequential_area,
        combinational_area_um2=mapped.area - mapped.sequential_area,
        modules=tuple(
            ModuleUse(name, part.count, part.area, part.sequential)
            for name, part in sorted(mapped.parts.items())
        ),
        cells=dict(sorted(mapped.cells.items())),
        flip_flops=sum(
            count
            for name, count in mapped.cells.items()
            if name not in mapped.macros and library.cells[name].sequential
        ),
        memories=method.memories,
        macros=dict(mapped.macros),
        macro_area_um2=mapped.macro_area if mapped.macros else None,
        luts=None, carries=None, wide_muxes=None, dsps=None, brams=None, lutrams=None,
        urams=None, bram_kbit=None,
        critical_path_ns=mapped.timing.path_ns if mapped.timing else None,
        logic_levels=path.levels if path else None,
        path_start=index.start if index else None,
        path_end=index.end if index else None,
        timing_source="opensta" if mapped.timing else "levels" if path else None,
        timing_note=(
            "wires without delay, ideal clock; a fifth of the period outside the ports"
            if mapped.timing
            else f"cells on the longest path, no delay: {mapped.note}"
        ),
        fmax_mhz=1000 / mapped.timing.path_ns if mapped.timing else None,
    )  # fmt: skip


def _fpga(job: Job, method: Method, work: Path) -> SynthesisResult:
    chosen = fpga_family(job.target)
    mapped = fpga.map_fpga(
        require("yosys"), job.verilog, job.top, chosen, method.recipe,
        _separate_modules(job, method, work), work, job.timeout,
    )  # fmt: skip
    files = read_files(work, _FPGA_FILES)
    path, used = mapped.longest, mapped.resources
    return SynthesisResult(
        **_basics(job, method, files),
        full_adders=None,
        area_um2=None,
        sequential_area_um2=None,
        combinational_area_um2=None,
        modules=tuple(
            ModuleUse(name, count, **of_one)
            for name, (count, of_one) in sorted(mapped.parts.items())
        ),
        cells=mapped.cells,
        flip_flops=used["flip_flops"],
        luts=used["luts"],
        carries=used["carries"],
        wide_muxes=used["wide_muxes"],
        dsps=used["dsps"],
        brams=used["brams"],
        lutrams=used["lutrams"],
        urams=used["urams"],
        bram_kbit=chosen.bram_kbit,
        critical_path_ns=None,
        logic_levels=path.levels if path else None,
        path_start=path.start if path else None,
        path_end=path.end if path else None,
        timing_source="levels" if path else None,
        timing_note=_FPGA_NOTE,
        fmax_mhz=None,
    )


def _basics(job: Job, method: Method, files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the fields that do not depend on the kind of target."""
    return {
        "name": job.top,
        "target": job.target,
        "recipe": method.recipe,
        "hierarchy": method.hierarchy,
        "clock_target_mhz": job.clock_mhz,
        "tools": {},
        "library": {},
        "wall_seconds": 0.0,
        "source_digest": text_digest(job.verilog, 64),
        "netlist_digest": hashlib.sha256(files["netlist.v"]).hexdigest(),
        "scripts": tuple(name for name in files if name.endswith(_SCRIPTS)),
        "files": files,
    }


def _gate_levels(
    job: Job, work: Path, library: Library, boxes: Mapping[str, int]
) -> Longest | None:
    """Return the longest path of ``netlist.v``, counted in cells."""
    more = "read_verilog -lib macros.v\n" if boxes else ""
    script = (
        f"read_liberty -lib cells.lib\n{more}read_verilog netlist.v\n"
        f"hierarchy -top {job.top}\nselect {job.top}\nwrite_json -selected netlist.json\n"
    )
    (work / "levels.ys").write_text(script, encoding="utf-8")
    process.run(require("yosys"), ["-q", "-T", "levels.ys"], work, "levels.log", job.timeout)
    netlist = json.loads((work / "netlist.json").read_text(encoding="utf-8"))

    def role(cell: str) -> Role:
        return "state" if cell in boxes or library.cells[cell].sequential else "logic"

    return levels.longest(netlist["modules"][job.top], role)
