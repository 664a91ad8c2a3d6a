# SPDX-License-Identifier: Apache-2.0
"""Synthesis of a configuration or of Verilog for any target, results kept on disk.

`synthesize` is the one entry: it decides which ways of mapping are tried (`flows.mapping` does
one), and returns the best as a `flows.result.SynthesisResult`.  A result is found again in the
cache by the Verilog, the library, the options, the versions of the tools, and the sources of the
modules that shape it.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from flows import boundary, fpga, levels, liberty, mapping, outline, synthesis, timing
from flows.cache import Entry, digest
from flows.mapping import Hierarchy, Job, Way, map_design
from flows.parallel import run_all
from flows.result import SynthesisResult, Trial
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

Effort = Literal["normal", "best"]


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
    job = _job(design, target, top, clock, clock_mhz, timeout)
    ways = list(
        _ways(target, recipe, full_adders, hierarchy, effort, tuple(map(str, liberty_files)))
    )
    total, done = len(ways), 0
    on_progress(ways[0].text, 0, total)

    def follow(index: int, result: SynthesisResult) -> None:
        nonlocal done
        done += 1
        on_progress(ways[index].text, done, total)

    work = [partial(_one, job, way, use_cache=use_cache) for way in ways]
    results = run_all(work, jobs, follow)
    best = min(results, key=_rank)
    if effort == "best" and hierarchy is None and _size(job) <= FLATTENED_GATES:
        ways.append(Way(best.recipe, best.full_adders, "flatten", ways[0].liberty_files))
        total += 1
        on_progress(ways[-1].text, done, total)
        results.append(_one(job, ways[-1], use_cache=use_cache))
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


def _job(
    design: FamilyConfig | str,
    target: str,
    top: str,
    clock: str,
    clock_mhz: float | None,
    timeout: float,
) -> Job:
    is_fpga(target)
    config = None if isinstance(design, str) else design
    clock_mhz = check_clock(design, clock_mhz)
    require("yosys")
    if config is not None:
        from hwgen.build import verilog_of

        return Job(config, verilog_of(config), config.name, clock, target, clock_mhz, timeout)
    if not top:
        raise InputError("the top module of the Verilog must be named")
    return Job(None, str(design), top, clock, target, clock_mhz, timeout)


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


def _ways(
    target: str,
    recipe: str | None,
    full_adders: bool | None,
    hierarchy: Hierarchy | None,
    effort: Effort,
    liberty_files: tuple[str, ...],
) -> Iterator[Way]:
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
        yield Way(recipe or chosen.recipe, None, hierarchy or "flatten", ())
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
            yield Way(name, adder, hierarchy or "keep", liberty_files)


def check_recipe(recipe: str | None, recipes: Mapping[str, Any], target: str) -> None:
    """Raise `InputError` if there is no such recipe for a target; None is any."""
    if recipe is not None and recipe not in recipes:
        raise InputError(
            f"{recipe!r} is not a recipe for {target}{did_you_mean(recipe, recipes)}; there are"
            f" {', '.join(recipes)}"
        )


def _one(job: Job, way: Way, *, use_cache: bool) -> SynthesisResult:
    """Return the result of one way, from the cache if it is there."""
    on_fpga = is_fpga(job.target)
    library = () if on_fpga else tuple(
        hashlib.sha256(liberty.read(path).encode()).hexdigest()
        for path in liberty.liberty_files(
            liberty.technology(job.target), way.liberty_files
        )
    )  # fmt: skip
    tools = tool_versions(("yosys",) if on_fpga else ("yosys", "opensta"))
    key = digest([
        job.verilog, job.top, job.clock, job.target, job.clock_mhz,
        way.recipe, way.full_adders, way.hierarchy, library, tools, sources_digest(),
    ])  # fmt: skip
    entry = Entry("synth", key)
    if use_cache and (document := entry.read()) is not None:
        result = SynthesisResult.of_document(document, entry.files())
        if result.files:
            return result
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hwgen-synth-") as name:
        work = Path(name)
        result = map_design(job, way, work)
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
    if job.config is not None:
        Entry(_record_kind(job.config, job.target), key).write(result.document(), {})
    return result


def _rank(result: SynthesisResult) -> tuple[bool, float]:
    """Return what is smallest for the best result."""
    path, period = result.critical_path_ns, 1000 / result.clock_target_mhz
    if path is not None and path > period:
        return True, path
    return False, result.area_um2 or 0.0


def _size(job: Job) -> float:
    """Return the gates of a design, a rough estimate."""
    with tempfile.TemporaryDirectory(prefix="hwgen-synth-") as name:
        (Path(name) / "design.v").write_text(job.verilog, encoding="utf-8")
        return outline.outline(require("yosys"), job.top, Path(name), job.timeout).size()


def tool_versions(names: Sequence[str]) -> dict[str, str]:
    """Return the version of each of the tools that is there."""
    found = {name: find(name) for name in names}
    return {name: f"{version_text(tool)} ({tool.source})" for name, tool in found.items() if tool}


@cache
def sources_digest() -> str:
    """Return a name for the part of this package that shapes a result."""
    modules = (boundary, fpga, levels, liberty, mapping, outline, synthesis, timing)
    texts = [Path(str(module.__file__)).read_text(encoding="utf-8") for module in modules]
    return digest([*texts, Path(__file__).read_text(encoding="utf-8")])


def _record_kind(config: FamilyConfig, target: str) -> str:
    from hwgen import __version__

    resolved = {name: value for name, value in config.resolved().items() if name != "target"}
    return f"synth-of/{digest([__version__, resolved])[:32]}-{target}"
