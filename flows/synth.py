# SPDX-License-Identifier: Apache-2.0
"""Synthesis of a configuration or of Verilog for any target, results kept on disk.

`synthesize` is the one entry: it hands standard cells to `flows.synthesis` and FPGAs to
`flows.fpga`, times what came out, and returns a `flows.result.SynthesisResult`.  A result is found
again in the cache by the Verilog, the library, the options, the versions of the tools, and the
sources of the modules that shape it.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from flows import boundary, fpga, levels, liberty, outline, process, synthesis, timing
from flows import cache as cache_module
from flows.cache import Entry, collect, digest
from flows.levels import Kind, Longest
from flows.liberty import Library
from flows.parallel import run_all
from flows.result import ModuleUse, SynthesisResult, Trial
from flows.toolchain import find, require, version_text
from hwgen.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from hwgen.config.model import FamilyConfig

TARGETS: tuple[str, ...] = (*liberty.TECHNOLOGIES, *fpga.FAMILIES)
"""Everything that can be synthesized for."""

RECIPE = "nf"
"""The recipe for standard cells unless another is asked for."""

FLATTENED_GATES = 200_000.0
"""Designs up to this size, in the estimate of `flows.outline`, are also flattened by the effort
``best``; for larger ones that takes many minutes and gains a per cent."""

CLOCK_MHZ = (1.0, 5000.0)
"""Bounds of a clock target."""

Hierarchy = Literal["keep", "flatten"]
Effort = Literal["normal", "best"]

_CELL_FILES = (
    "design.v", "kept.ys", "rest.ys", "kept.abc", "rest.abc", "map.constr", "explicit.v",
    "adders.v", "time.tcl", "kept.log", "rest.log", "time.log", "netlist.v",
)  # fmt: skip
_FPGA_FILES = ("design.v", "map.ys", "map.log", "netlist.v", "netlist.json")
_SCRIPTS = (".ys", ".abc", ".constr", ".tcl", "explicit.v", "adders.v")
"""Ends of the names of scripts and of what they read beside the design."""
_FPGA_NOTE = (
    "look-up tables and DSP blocks on the longest path, a carry chain is one; no delay, which wires"
    " make on an FPGA: place and route tells"
)


def is_fpga(target: str) -> bool:
    """Return whether a target is an FPGA family, or raise `InputError` if it is no target."""
    if target not in TARGETS:
        raise InputError(
            f"{target!r} is not a target{did_you_mean(target, TARGETS)}; there are"
            f" {', '.join(TARGETS)}"
        )
    return target in fpga.FAMILIES


def synthesize(
    design: FamilyConfig | str,
    target: str,
    *,
    top: str = "",
    clock: str = "aclk",
    clock_mhz: float | None = None,
    recipe: str | None = None,
    full_adders: bool | None = None,
    hierarchy: Hierarchy | None = None,
    effort: Effort = "normal",
    liberty_files: Sequence[str | Path] = (),
    use_cache: bool = True,
    jobs: int = 1,
    timeout: float = synthesis.TIMEOUT,
    on_progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> SynthesisResult:
    """Synthesize a design.

    Parameters
    ----------
    design : FamilyConfig or str
        A configuration, or the text of Verilog modules.
    target : str
        One of `TARGETS`.
    top, clock : str
        Top module and clock port of Verilog.
    clock_mhz : float, optional
        What to aim at; default that of the configuration.
    recipe : str, optional
        A key of `flows.synthesis.RECIPES` or `flows.fpga.RECIPES`; default `RECIPE`, or that of the
        FPGA family.
    full_adders : bool, optional
        Whether to use the technology's full-adder cell; default if there is one.
    hierarchy : {"keep", "flatten"}, optional
        Whether modules that repeat are mapped once each (`flows.outline.kept_modules` finds them)
        or everything as one; default ``keep`` for standard cells, ``flatten`` for FPGAs.
    effort : {"normal", "best"}
        ``best`` tries, for standard cells, the recipes and full adders that are left open, and
        takes the smallest result that meets the clock, or the fastest if none does; if the
        hierarchy is left open too, it then tries the other one in the same way.
    liberty_files : sequence of path
        Liberty files instead of those of the technology.
    use_cache : bool
        Whether results of earlier runs are taken; a new result is kept in any case.
    jobs : int
        How many tools run at once.
    timeout : float
        Seconds for one run of a tool.
    on_progress : callable
        Called with what was done, how many things are, and how many there are.

    Raises
    ------
    InputError
        If an option does not fit the target or has no such value.
    ToolMissing
        If Yosys or the Liberty files are missing.
    CheckFailed
        If a tool fails.
    """
    common = _common(design, target, top, clock, clock_mhz, timeout)
    variants = list(
        _variants(target, recipe, full_adders, hierarchy, effort, tuple(map(str, liberty_files)))
    )
    total, done = len(variants), 0
    on_progress(variants[0].text, 0, total)

    def follow(index: int, result: SynthesisResult) -> None:
        nonlocal done
        done += 1
        on_progress(variants[index].text, done, total)

    work = [partial(_one, common, variant, use_cache=use_cache) for variant in variants]
    results = run_all(work, jobs, follow)
    best = min(results, key=_rank)
    if effort == "best" and hierarchy is None and _size(common) <= FLATTENED_GATES:
        variants.append(
            _Variant(best.recipe, best.full_adders, "flatten", variants[0].liberty_files)
        )
        total += 1
        on_progress(variants[-1].text, done, total)
        results.append(_one(common, variants[-1], use_cache=use_cache))
        follow(total - 1, results[-1])
        best = min(results, key=_rank)
    trials = tuple(trial for result in results for trial in result.trials)
    return replace(best, trials=trials)


def recorded(config: FamilyConfig, target: str) -> list[SynthesisResult]:
    """Return the results of a configuration that are in the cache, the latest last.

    Nothing is generated or run; the configuration's own ``target`` does not count.
    """
    folder = Entry(_record_kind(config, target), "").path.parent
    found = []
    for path in sorted(folder.glob("*.zip"), key=lambda path: path.stat().st_mtime):
        document = Entry(_record_kind(config, target), path.stem).read()
        try:
            found.append(SynthesisResult.of_document(document))
        except (KeyError, TypeError):  # of another version
            continue
    return found


@dataclass(frozen=True)
class _Common:
    """What all variants share."""

    config: FamilyConfig | None
    verilog: str
    top: str
    clock: str
    target: str
    clock_mhz: float
    timeout: float


@dataclass(frozen=True)
class _Variant:
    """One way of mapping."""

    recipe: str
    full_adders: bool | None
    hierarchy: Hierarchy
    liberty_files: tuple[str, ...]

    @property
    def text(self) -> str:
        adders = ", full adders" if self.full_adders else ""
        return f"{self.recipe}{adders}, {self.hierarchy}"


def _common(
    design: FamilyConfig | str,
    target: str,
    top: str,
    clock: str,
    clock_mhz: float | None,
    timeout: float,
) -> _Common:
    is_fpga(target)
    config = None if isinstance(design, str) else design
    clock_mhz = check_clock(design, clock_mhz)
    require("yosys")
    if config is not None:
        from hwgen.build import verilog_of

        return _Common(config, verilog_of(config), config.name, clock, target, clock_mhz, timeout)
    if not top:
        raise InputError("the top module of the Verilog must be named")
    return _Common(None, str(design), top, clock, target, clock_mhz, timeout)


def check_clock(design: FamilyConfig | str, clock_mhz: float | None) -> float:
    """Return the clock target in MHz, that of a configuration if none is given.

    Raises
    ------
    InputError
        If it is out of bounds, or neither is there.
    """
    if clock_mhz is None:
        if isinstance(design, str):
            raise InputError("Verilog has no clock target of its own: clock_mhz must be given")
        clock_mhz = design.target.clock_mhz
    low, high = CLOCK_MHZ
    if not low <= clock_mhz <= high:
        raise InputError(f"the clock target must be {low:g}..{high:g} MHz, not {clock_mhz:g}")
    return clock_mhz


def _variants(
    target: str,
    recipe: str | None,
    full_adders: bool | None,
    hierarchy: Hierarchy | None,
    effort: Effort,
    liberty_files: tuple[str, ...],
) -> Iterator[_Variant]:
    if is_fpga(target):
        chosen = fpga.family(target)
        for option, given in (
            ("a Liberty file", bool(liberty_files)),
            ("a choice of full adders", full_adders is not None),
            ("the effort 'best'", effort == "best"),
        ):
            if given:
                raise InputError(f"{option} is for standard cells, not for {target}")
        check_recipe(recipe, fpga.RECIPES, target)
        yield _Variant(recipe or chosen.recipe, None, hierarchy or "flatten", ())
        return
    check_recipe(recipe, synthesis.RECIPES, target)
    cell = liberty.technology(target).full_adder
    if full_adders and cell is None:
        raise InputError(f"{target} has no full-adder cell")
    if full_adders is not None or cell is None:
        adders = [bool(full_adders)]
    else:
        adders = [True, False] if effort == "best" else [True]
    if recipe is None:
        recipes = [*synthesis.RECIPES] if effort == "best" else [RECIPE]
    else:
        recipes = [recipe]
    for name in recipes:
        for adder in adders:
            yield _Variant(name, adder, hierarchy or "keep", liberty_files)


def check_recipe(recipe: str | None, recipes: Mapping[str, Any], target: str) -> None:
    """Raise `InputError` if there is no such recipe for a target; None is any."""
    if recipe is not None and recipe not in recipes:
        raise InputError(
            f"{recipe!r} is not a recipe for {target}{did_you_mean(recipe, recipes)}; there are"
            f" {', '.join(recipes)}"
        )


def _one(common: _Common, variant: _Variant, *, use_cache: bool) -> SynthesisResult:
    """Return the result of one variant, from the cache if it is there."""
    on_fpga = is_fpga(common.target)
    library = () if on_fpga else tuple(
        hashlib.sha256(liberty.read(path).encode()).hexdigest()
        for path in liberty.liberty_files(
            liberty.technology(common.target), variant.liberty_files
        )
    )  # fmt: skip
    tools = tool_versions(("yosys",) if on_fpga else ("yosys", "opensta"))
    key = digest([
        common.verilog, common.top, common.clock, common.target, common.clock_mhz,
        variant.recipe, variant.full_adders, variant.hierarchy, library, tools, sources_digest(),
    ])  # fmt: skip
    entry = Entry("synth", key)
    if use_cache and (document := entry.read()) is not None:
        result = SynthesisResult.of_document(document, entry.files())
        if result.files:
            return result
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hwgen-synth-") as name:
        work = Path(name)
        result = (_fpga if on_fpga else _cells)(common, variant, work)
    seconds = round(time.monotonic() - start, 3)
    trial = Trial(
        result.recipe,
        result.full_adders,
        result.hierarchy,
        result.area_um2,
        result.critical_path_ns,
        seconds,
    )
    result = replace(result, tools=tools, wall_seconds=seconds, trials=(trial,))
    entry.write(result.document(), result.files)
    if common.config is not None:
        Entry(_record_kind(common.config, common.target), key).write(result.document(), {})
    return result


def _rank(result: SynthesisResult) -> tuple[bool, float]:
    """Return what is smallest for the best result."""
    path, period = result.critical_path_ns, 1000 / result.clock_target_mhz
    if path is not None and path > period:
        return True, path
    return False, result.area_um2 or 0.0


def _size(common: _Common) -> float:
    """Return the gates of a design, a rough estimate."""
    with tempfile.TemporaryDirectory(prefix="hwgen-synth-") as name:
        (Path(name) / "design.v").write_text(common.verilog, encoding="utf-8")
        return outline.outline(require("yosys"), common.top, Path(name), common.timeout).size()


def _kept(common: _Common, variant: _Variant, work: Path) -> tuple[str, ...]:
    if variant.hierarchy == "flatten":
        return ()
    (work / "design.v").write_text(common.verilog, encoding="utf-8")
    found = outline.outline(require("yosys"), common.top, work, common.timeout)
    return outline.kept_modules(found)


def _cells(common: _Common, variant: _Variant, work: Path) -> SynthesisResult:
    mapped = synthesis.map_core(
        common.verilog,
        common.top,
        common.target,
        variant.recipe,
        1e6 / common.clock_mhz,
        _kept(common, variant, work),
        full_adders=bool(variant.full_adders),
        liberty_files=variant.liberty_files,
        clock=common.clock,
        work=work,
        timeout=common.timeout,
    )
    library = liberty.load(common.target, variant.liberty_files)
    path: Longest | None = None
    if mapped.timing is None:
        path = _gate_levels(common, work, library)
    place = mapped.timing or path
    files = collect(work, _CELL_FILES)
    return SynthesisResult(
        **_basics(common, variant, files),
        full_adders=variant.full_adders,
        area_um2=mapped.area,
        sequential_area_um2=mapped.sequential_area,
        combinational_area_um2=mapped.area - mapped.sequential_area,
        modules=tuple(
            ModuleUse(name, part.count, part.area, part.sequential)
            for name, part in sorted(mapped.parts.items())
        ),
        cells=dict(sorted(mapped.cells.items())),
        flip_flops=sum(
            count for name, count in mapped.cells.items() if library.cells[name].sequential
        ),
        luts=None, carries=None, wide_muxes=None, dsps=None, brams=None, lutrams=None,
        bram_kbit=None,
        critical_path_ns=mapped.timing.path_ns if mapped.timing else None,
        logic_levels=path.levels if path else None,
        path_start=place.start if place else None,
        path_end=place.end if place else None,
        timing_source="opensta" if mapped.timing else "levels" if path else None,
        timing_note=(
            "wires without delay, ideal clock; a fifth of the period outside the ports"
            if mapped.timing
            else f"cells on the longest path, no delay: {mapped.note}"
        ),
        fmax_mhz=1000 / mapped.timing.path_ns if mapped.timing else None,
    )  # fmt: skip


def _fpga(common: _Common, variant: _Variant, work: Path) -> SynthesisResult:
    chosen = fpga.family(common.target)
    mapped = fpga.map_fpga(
        require("yosys"), common.verilog, common.top, chosen, variant.recipe,
        _kept(common, variant, work), work, common.timeout,
    )  # fmt: skip
    files = collect(work, _FPGA_FILES)
    path, used = mapped.longest, mapped.resources
    return SynthesisResult(
        **_basics(common, variant, files),
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
        bram_kbit=chosen.bram_kbit,
        critical_path_ns=None,
        logic_levels=path.levels if path else None,
        path_start=path.start if path else None,
        path_end=path.end if path else None,
        timing_source="levels" if path else None,
        timing_note=_FPGA_NOTE,
        fmax_mhz=None,
    )


def _basics(common: _Common, variant: _Variant, files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the fields that do not depend on the kind of target."""
    return {
        "name": common.top,
        "target": common.target,
        "recipe": variant.recipe,
        "hierarchy": variant.hierarchy,
        "clock_target_mhz": common.clock_mhz,
        "tools": {},
        "wall_seconds": 0.0,
        "source_digest": hashlib.sha256(common.verilog.encode()).hexdigest(),
        "netlist_digest": hashlib.sha256(files["netlist.v"]).hexdigest(),
        "scripts": tuple(name for name in files if name.endswith(_SCRIPTS)),
        "files": files,
    }


def _gate_levels(common: _Common, work: Path, library: Library) -> Longest | None:
    """Return the longest path of ``netlist.v``, counted in cells."""
    script = (
        "read_liberty -lib cells.lib\nread_verilog netlist.v\n"
        f"hierarchy -top {common.top}\nselect {common.top}\nwrite_json -selected netlist.json\n"
    )
    (work / "levels.ys").write_text(script, encoding="utf-8")
    process.run(require("yosys"), ["-q", "-T", "levels.ys"], work, "levels.log", common.timeout)
    netlist = json.loads((work / "netlist.json").read_text(encoding="utf-8"))

    def kind(cell: str) -> Kind:
        return "state" if library.cells[cell].sequential else "logic"

    return levels.longest(netlist["modules"][common.top], kind)


def tool_versions(names: Sequence[str]) -> dict[str, str]:
    """Return the version of each of the tools that is there."""
    found = {name: find(name) for name in names}
    return {name: f"{version_text(tool)} ({tool.source})" for name, tool in found.items() if tool}


@cache
def sources_digest() -> str:
    """Return a name for the part of this package that shapes a result."""
    modules = (boundary, cache_module, fpga, levels, liberty, outline, synthesis, timing)
    texts = [Path(str(module.__file__)).read_text(encoding="utf-8") for module in modules]
    return digest([*texts, Path(__file__).read_text(encoding="utf-8")])


def _record_kind(config: FamilyConfig, target: str) -> str:
    from hwgen import __version__

    resolved = {name: value for name, value in config.resolved().items() if name != "target"}
    return f"synth-of/{digest([__version__, resolved])[:32]}-{target}"
