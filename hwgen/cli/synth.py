# SPDX-License-Identifier: Apache-2.0
"""Synthesize a configuration for standard cells or an FPGA: area, cells, critical path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.support.common import (
    clock_option,
    config_option,
    emit_json,
    example,
    force_option,
    headed,
    json_option,
    liberty_option,
    liberty_origin,
    new_table,
    path_option,
    print_device,
    target_option,
    task_progress,
    tool_run_options,
)
from hwgen.cli.support.outputs import atomic_directory
from hwgen.reports.roofline import distinct
from hwgen.reports.terminal import console, cycle_progress

if TYPE_CHECKING:
    from rich.table import Table

    from flows.layout.wires import WireResult
    from flows.power.power import PowerResult
    from flows.synthesis.result import SynthesisResult
    from hwgen.core.params.target import Target

BAR = 24
"""Length of a full bar, in characters."""


@click.command(epilog=example("hwgen synth -c tour.yaml --target ecp5"))
@config_option
@target_option("Standard cells, FPGA family or device; default that of the configuration.")
@liberty_option
@path_option("--macros", "FILE", "Liberty file of SRAM macros, instead of those of the technology's"
             " data file; may be given several times.", multiple=True)  # fmt: skip
@click.option("--memories", type=click.Choice(["macros", "registers"]),
              help="What memories are made of in standard cells; default macros.")  # fmt: skip
@clock_option("Clock to aim at; default that of the configuration.")
@click.option(
    "--recipe", metavar="NAME", help="How to map: nf, area or speed; for an FPGA dsp or logic."
)
@click.option(
    "--full-adders/--no-full-adders",
    default=None,
    help="Use the technology's full-adder cell; default if it has one.",
)
@click.option(
    "--effort",
    type=click.Choice(["normal", "clock", "best"]),
    default="clock",
    show_default=True,
    help="What recipe and full adders leave open: clock tries the fast ones if the clock is"
    " missed; best tries all and takes the smallest that meets it; normal tries one.",
)
@click.option(
    "--hierarchy",
    type=click.Choice(["keep", "flatten"]),
    help="Map modules that repeat once each, or everything as one; default keep for"
    " standard cells, flatten for FPGAs.",
)
@click.option(
    "--activity",
    metavar="FILE|random[:M,K,N]",
    help="Also the power at work, for standard cells: simulate the netlist with the"
    " matrices of an .npz file (activations, weights), or with random ones.",
)
@click.option(
    "--glitches",
    is_flag=True,
    help="With --activity: simulate with the delays of cells, and count glitches.",
)
@click.option(
    "--wires",
    is_flag=True,
    help="Place the cells, for standard cells: also area, clock and power with wires.",
)
@click.option("--check", is_flag=True, help="Exit 1 if the clock target is missed.")
@tool_run_options
@path_option("--output", "DIR", "Directory for result, netlist, scripts and logs.")
@force_option
@json_option
def command(
    config: Path,
    target: str | None,
    liberty: tuple[Path, ...],
    macros: tuple[Path, ...],
    memories: str | None,
    clock_mhz: float | None,
    recipe: str | None,
    full_adders: bool | None,
    effort: str,
    hierarchy: str | None,
    activity: str | None,
    glitches: bool,
    wires: bool,
    check: bool,
    no_cache: bool,
    jobs: int | None,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> int:
    """Synthesize a configuration for standard cells or an FPGA.

    Yosys maps, OpenSTA times.  Results are kept: the same run takes no time again, and one that
    was interrupted goes on.
    """
    from contextlib import ExitStack

    from flows.build.build import retarget
    from flows.build.load import load_design
    from flows.synthesis.result import write_result
    from flows.synthesis.synth import synthesize
    from flows.tools.parallel import processors
    from hwgen.errors import InputError

    design = load_design(config)
    core = design.params
    aim = retarget(core.target, target, clock_mhz)
    target = aim.technology
    power = placed = None
    if wires:
        from flows.layout.wires import add_wires, check_target

        check_target(target)
    if glitches and activity is None:
        raise InputError("--glitches counts changes of a simulation: say --activity as well")
    if activity is not None:
        from flows.power.netlist_power import measurable, measure_power, workload

        if macros:
            raise InputError(
                "--activity: energies of the macros in Liberty files are not read; leave out"
                " --macros to take those of the technology"
            )
        measurable(core, target)
        work = workload(core, activity)
    with ExitStack() as stack:
        # Before the work: a directory that cannot be written should not come as a surprise.
        staging = stack.enter_context(atomic_directory(output, force=force)) if output else None
        stack.enter_context(liberty_origin(target))
        with task_progress("synthesizing", quiet=as_json) as update:
            result = synthesize(
                design,
                target,
                clock_mhz=aim.clock_mhz,
                recipe=recipe,
                full_adders=full_adders,
                hierarchy=hierarchy,  # type: ignore[arg-type]
                effort=effort,  # type: ignore[arg-type]
                liberty_files=liberty,
                memories=memories or "macros",  # type: ignore[arg-type]
                macro_files=macros,
                use_cache=not no_cache,
                jobs=jobs or processors(),
                on_progress=update,
            )
        if wires:
            with task_progress("placing cells", quiet=as_json):
                placed = add_wires(result, liberty_files=liberty)
        if activity is not None:
            from hwgen.cli.support.run_post import post_processing

            post = post_processing(core, None, work.w.shape[1])
            with cycle_progress(quiet=as_json) as follow:
                power = measure_power(
                    core,
                    result,
                    work,
                    liberty_files=liberty,
                    post=post,
                    glitches=glitches,
                    wires=placed,
                    on_progress=follow,
                )
        more = {
            "power": power and power.document(),
            "device": _device(aim, result),
            "wires": placed and placed.document(),
        }
        if staging:
            write_result(result, staging, more)
    if as_json:
        emit_json({**result.document(), **more})
    else:
        _print(result)
        if placed:
            _print_wires(placed, result)
        if power:
            _print_power(power)
        if more["device"]:
            print_device(more["device"])
        if output:
            console().print(f"{len(result.files) + 1} files in {output}")
    if check:
        _check(result)
    return 0


def _check(result: SynthesisResult) -> None:
    """Raise `CheckFailed` unless the clock that was asked for is met."""
    from hwgen.errors import CheckFailed

    if result.fmax_mhz is None:
        raise CheckFailed(f"--check: the clock cannot be checked: {result.timing_note}")
    if result.fmax_mhz < result.clock_target_mhz:
        reached, asked = distinct(result.fmax_mhz, result.clock_target_mhz)
        raise CheckFailed(f"{reached} MHz, not the {asked} MHz asked for")


def _device(target: Target, result: SynthesisResult) -> dict[str, Any] | None:
    """Return the utilisation of the device that a target names."""
    from hwgen.technologies import technology_of
    from hwgen.technologies.utilization import utilization

    device = target.device
    if device is None or technology_of(device) != result.target:
        return None
    document = result.document()
    used = ("luts", "flip_flops", "carries", "dsps", "brams", "lutrams", "urams")
    return utilization(device, {name: document[name] for name in used})


def _print(result: SynthesisResult) -> None:
    out = console()
    out.print(headed(result.name, f" on {result.target}: {describe_mapping(result)}"))
    if result.area_um2 is not None:
        registers = (result.sequential_area_um2 or 0) / result.area_um2
        out.print(
            f"  area       {result.area_um2:,.0f} um2, {100 * registers:.0f} % of it in"
            f" {result.flip_flops:,} flip-flops{' and SRAM macros' if result.macros else ''}"
        )
        if result.macros:
            made = ", ".join(f"{count:,} {name}" for name, count in result.macros.items())
            out.print(f"    macros   {result.macro_area_um2:,.0f} um2: {made}")
    else:
        for index, text in enumerate(_resources(result)):
            out.print(f"  {'used' if index == 0 else '':<10} {text}")
    _print_path(result)
    if len(result.modules) > 1:
        out.print(_modules(result))
    if len(result.trials) > 1:
        out.print(_trials(result))
    out.print(f"  {tools_of(result)}; {result.wall_seconds:.1f} s")


def _print_wires(placed: WireResult, result: SynthesisResult) -> None:
    out = console()
    out.print(
        f"  wires      {placed.wire_mm:,.1f} mm, {placed.capacitance_pf:,.2f} pF, in a core of"
        f" {placed.core_area_um2:,.0f} um2, {100 * placed.utilisation:.0f} % of it cells"
    )
    out.print(f"    area     {placed.area_um2:,.0f} um2 of cells")
    if placed.fmax_mhz is not None:
        missed = placed.fmax_mhz < result.clock_target_mhz
        out.print(
            f"    path     {placed.critical_path_ns:.3f} ns, {placed.fmax_mhz:,.0f} MHz with wires"
            f"{', and missed' if missed else ''}"
        )
        out.print(f"    from     {placed.path_start}")
        out.print(f"    to       {placed.path_end}")
    out.print(f"    note     {placed.note}")


def _print_power(power: PowerResult) -> None:
    out, document = console(), power.document()
    out.print(
        f"  power      {power.total_mw:.4g} mW at {power.clock_mhz:,.0f} MHz,"
        f" {document['energy_per_operation_fj']:,.1f} fJ an operation"
    )
    out.print(f"    while    {power.workload}: {power.cycles:,} cycles")
    table = new_table("    mW", "internal", "switching", "leakage", "all", "share")
    for name, group in power.groups.items():
        figures = (group.internal_mw, group.switching_mw, group.leakage_mw, group.total_mw)
        cells = ["-" if figure is None else f"{figure:.4g}" for figure in figures]
        table.add_row(f"    {name}", *cells, f"{100 * group.total_mw / power.total_mw:.1f} %")
    out.print(table)
    out.print(f"    note     {power.note}")


def describe_mapping(result: SynthesisResult) -> str:
    """Return the way of mapping in words."""
    words = [f"recipe {result.recipe}"]
    if result.full_adders is not None:
        words.append("full adders" if result.full_adders else "no full adders")
    words.append("repeated modules kept" if result.hierarchy == "keep" else "flattened")
    return ", ".join(words)


def tools_of(result: SynthesisResult) -> str:
    """Return the tools that took part, with versions."""
    return ", ".join(f"{name} {version}" for name, version in result.tools.items())


def _print_path(result: SynthesisResult) -> None:
    out = console()
    if result.fmax_mhz is not None:
        missed = result.fmax_mhz < result.clock_target_mhz
        out.print(
            f"  path       {result.critical_path_ns:.3f} ns, {result.fmax_mhz:,.0f} MHz"
            f" ({result.clock_target_mhz:g} MHz asked for{', and missed' if missed else ''})"
        )
    elif result.logic_levels is not None:
        out.print(f"  path       {result.logic_levels} levels")
    if result.path_start:
        out.print(f"    from     {result.path_start}")
        out.print(f"    to       {result.path_end}")
    out.print(f"    by       {result.timing_source or 'nothing'}: {result.timing_note}")


def _resources(result: SynthesisResult) -> list[str]:
    from hwgen.technologies import fpga_family
    from hwgen.technologies.utilization import used_resources

    names = {
        "luts": "look-up tables of logic",
        "flip_flops": "flip-flops",
        "carries": "carry cells",
        "wide_muxes": "wide multiplexers",
        "dsps": "DSP blocks",
        "brams": f"block memories of {result.bram_kbit} Kbit",
        "lutrams": "memories of look-up tables",
        "urams": "large memories",
    }
    used = {field: getattr(result, field) for field in names}
    family = fpga_family(result.target)
    total = used_resources(family, used)["luts"]
    inside = ["logic", *(names[resource] for resource in family.luts_in if used[resource])]
    whole = f"{total:,} look-up tables in all, those of {' and '.join(inside)}"
    return [whole, *(f"{count:,} {names[field]}" for field, count in used.items() if count)]


def _modules(result: SynthesisResult) -> Table:
    cells = result.area_um2 is not None
    headings = ("each um2", "all um2") if cells else ("LUTs", "flip-flops", "DSPs", "all LUTs")
    table = new_table("  module", "instances", *headings, "share", "", left=("",))
    weights = {
        m.name: m.instances * ((m.area_um2 if cells else m.luts) or 0) for m in result.modules
    }
    total = sum(weights.values()) or 1
    for module in sorted(result.modules, key=lambda module: -weights[module.name]):
        weight = weights[module.name]
        name = module.name if module.name != result.name else f"{module.name} (the rest)"
        if cells:
            figures = [f"{module.area_um2:,.1f}", f"{weight:,.0f}"]
        else:
            counts = (module.luts, module.flip_flops, module.dsps, weight)
            figures = [f"{count:,}" for count in counts]
        table.add_row(
            f"  {name}",
            f"{module.instances:,}",
            *figures,
            f"{100 * weight / total:.1f} %",
            "█" * round(BAR * weight / total),
        )
    return table


def _trials(result: SynthesisResult) -> Table:
    left = ("full adders", "hierarchy", "")
    table = new_table("  tried", *left[:2], "um2", "ns", "", left=left)
    for trial in result.trials:
        taken = (trial.recipe, trial.full_adders, trial.hierarchy) == (
            result.recipe,
            result.full_adders,
            result.hierarchy,
        )
        table.add_row(
            f"  {trial.recipe}",
            "yes" if trial.full_adders else "no",
            trial.hierarchy,
            "-" if trial.area_um2 is None else f"{trial.area_um2:,.0f}",
            "-" if trial.critical_path_ns is None else f"{trial.critical_path_ns:.3f}",
            "taken" if taken else "",
        )
    return table
