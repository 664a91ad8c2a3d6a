# SPDX-License-Identifier: Apache-2.0
"""Mapping Verilog to standard cells with Yosys and ABC.

`map_core` is one flow with three degrees of freedom, all of them data:

technology
    The name of a standard-cell library; the facts are in its data file.
recipe
    An entry of `RECIPES`: what ABC does.  The modules that repeat (processing elements, drains)
    are *kept*, that is mapped as modules of their own, each once: that is fast, and it keeps ABC
    from spending its effort on logic that is there 256 times.  Everything else is flattened into
    the top module and mapped as one.
full adders
    Whether adders and multipliers use the technology's full-adder cell, or leave it to ABC.

What the script rests on, measured on 16x16 int8 arrays:

* ``booth`` makes multipliers smaller and faster than partial products of AND gates.
* ``maccmap`` is not used: merging multiplier and accumulator costs more area than it saves.
* Resets of registers become logic, and enables unless the technology has small cells for them
  (``flip_flops.enables``; none of those that come with hwgen has): ABC merges the gates with
  others.
* Area is that of the netlist after everything is flattened; a cell for each constant drives all
  of its uses, else flip-flops with an unused reset would cost a constant each.
* Buffers of ABC are taken away again, and `flows.synthesis.sizing` makes trees of them and chooses
  the sizes of cells: it sees the whole design, and what a module drives in others.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from flows.synthesis import liberty, macros, timing
from flows.synthesis.cell_scripts import RECIPES, Recipe, adder_map, explicit_adders, scripts
from flows.synthesis.liberty import Library
from flows.synthesis.macros import Chosen
from flows.synthesis.sizing.netlist_timing import Constraints
from flows.synthesis.sizing.sizing import size_cells
from flows.synthesis.timing import Timing
from flows.tools import process
from flows.tools.toolchain import require
from hwgen.errors import CheckFailed, InputError, did_you_mean
from hwgen.technologies import cell_library
from hwgen.technologies.model import Macro, Memories, StandardCells

TIMEOUT = 1800.0
"""Seconds for one run of Yosys."""

INPUT_DELAY = 0.2
"""Part of the clock period that is gone when inputs arrive and before outputs must be there, if
nothing else is known of what is outside."""


@dataclass(frozen=True)
class Part:
    """A kept module, or the rest of the design.

    Parameters
    ----------
    count : int
        Instances.
    area : float
        Area of one, in um2.
    sequential : float
        Registers and latches of it, in um2.
    """

    count: int
    area: float
    sequential: float


@dataclass(frozen=True)
class Mapped:
    """A design mapped to cells.

    Parameters
    ----------
    technology, recipe : str
    full_adders : bool
        As asked for.
    clock_ps : float
        Clock period that the mapper was given.
    area, sequential_area : float
        Sum over all cells, and over registers and latches, in um2.
    parts : mapping
        `Part` of each kept module, and of the rest under the name of the top module.
    cells : mapping
        Number of each cell.
    timing : Timing or None
        Worst path; None if it was not analysed.
    note : str
        Why there is no timing.
    macros : mapping
        Number of each SRAM macro.
    macro_area : float
        Their area in um2, part of both areas.
    """

    technology: str
    recipe: str
    full_adders: bool
    clock_ps: float
    area: float
    sequential_area: float
    parts: Mapping[str, Part]
    cells: Mapping[str, int]
    timing: Timing | None
    note: str = ""
    macros: Mapping[str, int] = field(default_factory=dict)
    macro_area: float = 0.0

    def document(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return asdict(self)

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Mapped:
        """Restore a result from its `document`."""
        values = dict(document)
        values["parts"] = {name: Part(**part) for name, part in values["parts"].items()}
        values["timing"] = values["timing"] and Timing(**values["timing"])
        return cls(**values)


FEW_CELLS = 16
"""Combinational cells below which ABC's ``map`` is not used: it crashes with a library of six."""


def _able(recipe: Recipe, library: Library) -> Recipe:
    """Return a recipe whose mappers work with a library."""
    if sum(not cell.sequential for cell in library.cells.values()) >= FEW_CELLS:
        return recipe
    mappers = ["nf" if each == "map" else each for each in (recipe.preserved, recipe.rest)]
    return replace(recipe, preserved=mappers[0], rest=mappers[1])


def map_core(
    verilog: str,
    top: str,
    technology: str,
    recipe: str,
    clock_ps: float,
    keep: Sequence[str] = (),
    *,
    full_adders: bool = False,
    liberty_files: Sequence[str | Path] = (),
    clock: str = "aclk",
    input_delay: float = INPUT_DELAY,
    memories: Memories | None = None,
    chosen: Chosen | None = None,
    macro_files: Sequence[str | Path] = (),
    work: Path | None = None,
    timeout: float = TIMEOUT,
) -> Mapped:
    """Map a design and time it.

    Parameters
    ----------
    verilog : str
        Text of all its modules.
    top : str
        The top module.
    technology, recipe : str
        Name of a standard-cell library; a key of `RECIPES`.
    clock_ps : float
        Clock period to aim at, in ps.
    keep : sequence of str
        Modules whose names begin so are mapped as modules of their own, like those that have
        the attribute ``keep_hierarchy``.
    full_adders : bool
        Whether to use the technology's full-adder cell.
    liberty_files : sequence of path
        Liberty files instead of those of the technology.
    clock : str
        The clock port.
    input_delay : float
        Part of the clock period that is gone when inputs arrive and before outputs must be there.
    memories : Memories, optional
        The technology's macros.
    chosen : mapping, optional
        The memories that are made of them; see `flows.synthesis.macros.choose`.
    macro_files : sequence of path
        Liberty files that the timer reads of these macros; default one that is made of the data.
    work : Path, optional
        Directory for scripts, logs and netlists (``netlist.v``); default a temporary one.
    timeout : float
        Seconds for one run of a tool.

    Raises
    ------
    ToolMissing
        If Yosys or the Liberty files are missing.
    InputError
        If there is no such recipe, technology or full adder.
    CheckFailed
        If a tool fails or takes too long.
    """
    if recipe not in RECIPES:
        raise InputError(
            f"{recipe!r} is not a recipe{did_you_mean(recipe, RECIPES)}; there are"
            f" {', '.join(RECIPES)}"
        )
    tech = cell_library(technology)
    if full_adders and tech.full_adder is None:
        raise InputError(f"{technology} has no full-adder cell")
    yosys = require("yosys")
    library = liberty.load(technology, liberty_files)
    boxes: Sequence[Macro] = ()
    if memories is not None and chosen:
        verilog, boxes = macros.replaced(verilog, chosen, memories), macros.used(chosen)
        library = Library(library.text, {**library.cells, **macros.cells_of(boxes, memories)})
    with ExitStack() as stack:
        if work is None:
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hwgen-synth-")))
        work.mkdir(parents=True, exist_ok=True)
        files = scripts(
            top,
            tech,
            _able(RECIPES[recipe], library),
            keep,
            clock_ps,
            full_adders=full_adders,
            boxes=bool(boxes),
        )
        files |= {"design.v": verilog, "cells.lib": library.text}
        if memories is not None and boxes:
            files |= _of_macros(boxes, memories, macro_files)
        if full_adders and tech.full_adder:
            files["explicit.v"] = explicit_adders(verilog)
            files["adders.v"] = adder_map(tech.full_adder)
        for name, text in files.items():
            (work / name).write_text(text, encoding="utf-8")
        process.run(yosys, ["-q", "-T", "map.ys"], work, "map.log", timeout)
        constraints = Constraints(clock, clock_ps / 1000, input_delay)
        _size(work, top, tech, library, constraints, boxes, memories)
        process.run(yosys, ["-q", "-T", "join.ys"], work, "join.log", timeout)
        parts = _parts(_statistics(work / "parts.json"), top, library)
        histogram = _statistics(work / "flat.json")[top]
        area, sequential = _areas(histogram, library)
        made = {macro.name: histogram.get(macro.name, 0) for macro in boxes}
        path, note = timing.analyse(
            work, top, tech, clock, clock_ps / 1000, input_delay, timeout=timeout,
            libraries=sorted(name for name in files if name.endswith(".lib")),
        )  # fmt: skip
    return Mapped(
        technology, recipe, full_adders, clock_ps, area, sequential, parts, histogram, path, note,
        made, sum(library.cells[name].area * count for name, count in made.items()),
    )  # fmt: skip


def _of_macros(
    boxes: Sequence[Macro], memories: Memories, macro_files: Sequence[str | Path]
) -> dict[str, str]:
    """Return the files that tell Yosys and the timer of macros, by their names."""
    texts = [liberty.read(Path(path)) for path in macro_files]
    libraries = texts or [macros.liberty_text(boxes, memories)]
    return {
        "macros.v": macros.black_boxes(boxes, memories),
        **{f"macros{number or ''}.lib": text for number, text in enumerate(libraries)},
    }


def _size(
    work: Path,
    top: str,
    tech: StandardCells,
    library: Library,
    constraints: Constraints,
    boxes: Sequence[Macro],
    memories: Memories | None,
) -> None:
    """Buffer nets and choose the sizes of cells: ``sized.json`` from ``mapped.json``."""
    netlist = json.loads((work / "mapped.json").read_text(encoding="utf-8"))
    size_cells(netlist, top, library, tech, constraints, boxes, memories)
    netlist["modules"] = {
        name: module
        for name, module in netlist["modules"].items()
        if name not in library.cells  # read with the library
    }
    (work / "sized.json").write_text(json.dumps(netlist), encoding="utf-8")


def _statistics(path: Path) -> dict[str, dict[str, int]]:
    """Return the cells of each module from what ``stat -json`` wrote."""
    try:
        text = path.read_text(encoding="utf-8")
        modules = json.loads(text[text.index("{") :])["modules"]
        return {
            name.lstrip("\\"): _counts(module["num_cells_by_type"])
            for name, module in modules.items()
        }
    except (OSError, ValueError, KeyError) as error:
        raise CheckFailed(f"{path.name}: not the statistics of Yosys ({error})") from None


def _counts(cells: Mapping[str, Any]) -> dict[str, int]:
    # Yosys counts either cells or cells with their area, depending on its version.
    return {
        name.lstrip("\\"): int(value["count"] if isinstance(value, Mapping) else value)
        for name, value in cells.items()
    }


def _areas(histogram: Mapping[str, int], library: Library) -> tuple[float, float]:
    """Return the area of the cells and that of those which store something."""
    if unknown := [name for name in histogram if name not in library.cells]:
        raise CheckFailed(f"not mapped to cells: {', '.join(sorted(unknown)[:10])}")
    area = sum(count * library.cells[name].area for name, count in histogram.items())
    sequential = sum(
        count * library.cells[name].area
        for name, count in histogram.items()
        if library.cells[name].sequential
    )
    return area, sequential


def _parts(modules: Mapping[str, Mapping[str, int]], top: str, library: Library) -> dict[str, Part]:
    """Return the area of each module without the modules in it, and how often it is there."""
    counts: Counter[str] = Counter({top: 1})
    parts: dict[str, Part] = {}
    waiting = [top]
    while waiting:  # kept modules hold no others as a rule, but may
        name = waiting.pop()
        inside = {cell: count for cell, count in modules[name].items() if cell in modules}
        for cell, count in inside.items():
            counts[cell] += count * counts[name]
            waiting.append(cell)
        local = {cell: count for cell, count in modules[name].items() if cell not in modules}
        parts[name] = Part(counts[name], *_areas(local, library))
    return {name: Part(counts[name], part.area, part.sequential) for name, part in parts.items()}
