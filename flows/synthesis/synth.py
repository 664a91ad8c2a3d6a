# SPDX-License-Identifier: Apache-2.0
"""Synthesis of a configuration or of Verilog for any target, results kept on disk.

`synthesize` is the one entry: it decides which methods of mapping are tried
(`flows.synthesis.mapping` does one, `flows.synthesis.synth_cache` finds what was done before), and
returns the best as a `flows.synthesis.result.SynthesisResult`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from cost_model.memories.memories import Form
from flows.build.design import Design
from flows.synthesis import cell_scripts, fpga, outline
from flows.synthesis import standard_cells as synthesis
from flows.synthesis.mapping import Hierarchy, Job, Method, chosen_macros
from flows.synthesis.result import SynthesisResult
from flows.synthesis.synth_cache import CLOCK, synthesized
from flows.tools.guard import scratch
from flows.tools.parallel import run_all
from flows.tools.toolchain import require
from hwgen.core.params.target import CLOCK_MHZ
from hwgen.errors import InputError, did_you_mean
from hwgen.technologies import fpga_family, technology

RECIPE = "nf"
"""The recipe for standard cells unless another is asked for."""

FAST_RECIPE = "speed"
"""The recipe for standard cells that is tried if the clock is missed."""

FLATTENED_GATES = 200_000.0
"""Designs up to this size, in the estimate of `flows.synthesis.outline`, are also flattened by the
effort ``best``; for larger ones that takes many minutes and gains a per cent."""

Effort = Literal["normal", "clock", "best"]

USUAL_EFFORT: Effort = "clock"
"""Effort of `hwgen synth`, and of units of an engine that a search found."""


def synthesize(
    design: Design | str,
    target: str,
    *,
    top: str = "",
    clock: str = CLOCK,
    clock_mhz: float | None = None,
    recipe: str | None = None,
    full_adders: bool | None = None,
    hierarchy: Hierarchy | None = None,
    effort: Effort = "normal",
    liberty_files: Sequence[str | Path] = (),
    memories: Form = "macros",
    macro_files: Sequence[str | Path] = (),
    use_cache: bool = True,
    jobs: int = 1,
    timeout: float = synthesis.TIMEOUT,
    on_progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> SynthesisResult:
    """Synthesize a design.

    Parameters
    ----------
    design : Design or str
        Of a configuration, or the text of Verilog modules.
    target : str
        Name of a technology.
    top, clock : str
        Top module and clock port of Verilog.
    clock_mhz : float, optional
        What to aim at; default that of the configuration.
    recipe : str, optional
        A key of `flows.synthesis.cell_scripts.RECIPES` or `flows.synthesis.fpga.RECIPES`; default
        `RECIPE`, or that of the FPGA family.
    full_adders : bool, optional
        Whether to use the technology's full-adder cell; default if there is one.
    hierarchy : {"keep", "flatten"}, optional
        Whether modules that repeat are mapped once each (`flows.synthesis.outline.separate_modules`
        finds them) or everything as one; default ``keep`` for standard cells, ``flatten`` for
        FPGAs.
    effort : {"normal", "clock", "best"}
        ``clock`` tries, for standard cells, what is fast if the clock is missed: no full adders,
        then recipe ``speed`` too, as far as they are left open; it takes the first result that
        meets the clock, or the fastest if none does.  ``best`` tries, for standard cells, the
        recipes and full adders that are left open, and takes the smallest result that meets the
        clock, or the fastest if none does; if the hierarchy is left open too, it then tries the
        other one likewise.
    liberty_files : sequence of path
        Liberty files instead of those of the technology.
    memories : {"macros", "registers"}
        What memories of standard-cell designs are made of: SRAM macros, from as many bits on as the
        configuration says and if they are smaller than registers, or registers.
    macro_files : sequence of path
        Liberty files of macros instead of those in the technology's data file.
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
    made = _memories(job, memories, tuple(map(str, macro_files)))
    methods = [
        replace(method, **made)
        for method in _methods(
            target, recipe, full_adders, hierarchy, effort, tuple(map(str, liberty_files))
        )
    ]
    total, done = len(methods), 0
    on_progress(methods[0].text, 0, total)

    def follow(index: int, result: SynthesisResult) -> None:
        nonlocal done
        done += 1
        on_progress(methods[index].text, done, total)

    work = [partial(synthesized, job, method, use_cache=use_cache) for method in methods]
    results = run_all(work, jobs, follow)
    best = min(results, key=rank)
    if effort == "clock" and rank(best)[0]:
        for method in _faster(methods[0], target, recipe, full_adders):
            methods.append(method)
            total += 1
            on_progress(method.text, done, total)
            results.append(synthesized(job, method, use_cache=use_cache))
            follow(total - 1, results[-1])
            if not rank(results[-1])[0]:
                break
        best = min(results, key=rank)
    if effort == "best" and hierarchy is None and _size(job) <= FLATTENED_GATES:
        methods.append(
            replace(
                methods[0],
                recipe=best.recipe,
                full_adders=best.full_adders,
                hierarchy="flatten",
            )
        )
        total += 1
        on_progress(methods[-1].text, done, total)
        results.append(synthesized(job, methods[-1], use_cache=use_cache))
        follow(total - 1, results[-1])
        best = min(results, key=rank)
    trials = tuple(trial for result in results for trial in result.trials)
    return replace(best, trials=trials)


def _job(
    design: Design | str,
    target: str,
    top: str,
    clock: str,
    clock_mhz: float | None,
    timeout: float,
) -> Job:
    technology(target)  # refuses an unknown name
    clock_mhz = check_clock(design, clock_mhz)
    require("yosys")
    if not isinstance(design, str):
        below = design.params.memories.registers_below
        return Job(design.verilog, design.name, clock, target, clock_mhz, timeout, below)
    if not top:
        raise InputError("the top module of the Verilog must be named")
    return Job(design, top, clock, target, clock_mhz, timeout)


def _memories(job: Job, memories: Form, macro_files: tuple[str, ...]) -> dict[str, Any]:
    """Return the memory style of a mapping; registers if no macros are to be used."""
    if macro_files and technology(job.target).kind == "fpga":
        raise InputError(f"files of macros are for standard cells, not for {job.target}")
    if macro_files and memories == "registers":
        raise InputError("files of macros are of no use where memories are registers")
    chosen = chosen_macros(job, macro_files)[1] if memories == "macros" else {}
    if chosen:
        return {"memories": "macros", "macro_files": macro_files}
    if macro_files:
        raise InputError(
            f"{', '.join(macro_files)}: no memory of {job.top} is made of these macros; one must"
            f" have {job.registers_below} bits (memories.registers_below) or more and be smaller"
            " so than as registers, and its reads must be synchronous"
        )
    return {}


def check_clock(design: Design | str, clock_mhz: float | None) -> float:
    """Return the clock target in MHz, that of a configuration if none is given.

    Raises
    ------
    InputError
        If it is out of bounds, or neither is there.
    """
    if clock_mhz is None:
        if isinstance(design, str):
            raise InputError("Verilog has no clock target of its own: clock_mhz must be given")
        clock_mhz = design.params.target.clock_mhz
    low, high = CLOCK_MHZ
    if not low <= clock_mhz <= high:
        raise InputError(f"the clock target must be {low:g}..{high:g} MHz, not {clock_mhz:g}")
    return clock_mhz


def _methods(
    target: str,
    recipe: str | None,
    full_adders: bool | None,
    hierarchy: Hierarchy | None,
    effort: Effort,
    liberty_files: tuple[str, ...],
) -> Iterator[Method]:
    tech = technology(target)
    if tech.kind == "fpga":
        for option, values in (
            ("a Liberty file", bool(liberty_files)),
            ("a choice of full adders", full_adders is not None),
            ("the effort 'best'", effort == "best"),
        ):
            if values:
                raise InputError(f"{option} is for standard cells, not for {target}")
        check_recipe(recipe, fpga.recipes_of(fpga_family(target)), target)
        yield Method(recipe or tech.recipe, None, hierarchy or "flatten", ())
        return
    check_recipe(recipe, cell_scripts.RECIPES, target)
    cell = tech.full_adder
    if full_adders and cell is None:
        raise InputError(f"{target} has no full-adder cell")
    if full_adders is not None or cell is None:
        adders = [bool(full_adders)]
    else:
        adders = [True, False] if effort == "best" else [True]
    if recipe is None:
        recipes = [*cell_scripts.RECIPES] if effort == "best" else [RECIPE]
    else:
        recipes = [recipe]
    for name in recipes:
        for adder in adders:
            yield Method(name, adder, hierarchy or "keep", liberty_files)


def _faster(
    method: Method, target: str, recipe: str | None, full_adders: bool | None
) -> Iterator[Method]:
    """Yield mappings that are faster than a method, those that are tried first before others."""
    if technology(target).kind == "fpga":
        return
    if full_adders is None and method.full_adders:
        # Cells that hold a whole adder make a carry ripple from one to the next.
        method = replace(method, full_adders=False)
        yield method
    if recipe is None and method.recipe != FAST_RECIPE:
        yield replace(method, recipe=FAST_RECIPE)


def default_method(target: str) -> Method:
    """Return the default mapping of a target."""
    return next(_methods(target, None, None, None, "normal", ()))


def check_recipe(recipe: str | None, recipes: Collection[str], target: str) -> None:
    """Raise `InputError` if there is no such recipe for a target; None is any."""
    if recipe is not None and recipe not in recipes:
        raise InputError(
            f"{recipe!r} is not a recipe for {target}{did_you_mean(recipe, recipes)}; there are"
            f" {', '.join(recipes)}"
        )


def rank(result: SynthesisResult) -> tuple[bool, float]:
    """Return a key that is smallest for the best result: the smallest in time, or the fastest."""
    path, period = result.critical_path_ns, 1000 / result.clock_target_mhz
    if path is not None and path > period:
        return True, path
    return False, result.area_um2 or 0.0


def _size(job: Job) -> float:
    """Return the gates of a design, a rough estimate."""
    with scratch("hwgen-synth-") as work:
        (work / "design.v").write_text(job.verilog, encoding="utf-8")
        return outline.outline(require("yosys"), job.top, work, job.timeout).size()
