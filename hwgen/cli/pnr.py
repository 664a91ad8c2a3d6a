# SPDX-License-Identifier: Apache-2.0
"""Place and route a configuration on an FPGA: frequency over several seeds, utilisation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hwgen.cli.support.common import (
    clock_option,
    config_option,
    emit_json,
    example,
    file_option,
    force_option,
    headed,
    json_option,
    new_table,
    path_option,
    target_option,
    task_progress,
    tool_run_options,
)
from hwgen.cli.support.names import DeviceName
from hwgen.cli.support.outputs import atomic_directory, check_file, write_file
from hwgen.reports.roofline import distinct
from hwgen.reports.terminal import console

if TYPE_CHECKING:
    from flows.synthesis.result import PnrResult


@click.command(epilog=example("hwgen pnr -c tour.yaml --target ecp5 --seeds 3"))
@config_option
@target_option(
    "An FPGA family or device, as `hwgen technologies` lists them; default the configuration's.",
    fpga=True,
)
@click.option(
    "--device",
    metavar="NAME",
    type=DeviceName(),
    help="A device of `hwgen technologies`, or as nextpnr calls it; default that of the"
    " configuration, else the largest.",
)
@click.option("--package", metavar="NAME", help="As nextpnr calls it; default the largest.")
@click.option("--speed", metavar="GRADE", help="Speed grade; default the slowest.")
@clock_option("Clock to aim at; default that of the configuration.")
@click.option("--recipe", metavar="NAME", help="How to map: dsp or logic; see hwgen synth.")
@click.option("--seeds", type=int, default=3, show_default=True, metavar="N",
              help="Run nextpnr with seeds 1 to N.")  # fmt: skip
@click.option("--io", type=click.Choice(["frame", "pins"]), default="frame", show_default=True,
              help="Surround the core with registers, or make its ports pins.")  # fmt: skip
@file_option("--pins", "Pin assignments for --io pins: LPF, PCF, PDC, CST or CCF.")
@path_option("--bitstream", "FILE", "Write the bitstream of the fastest seed.")
@click.option("--check", is_flag=True, help="Exit 1 if no seed meets the clock target.")
@tool_run_options
@path_option("--output", "DIR", "Directory for result, netlist, reports and logs.")
@force_option
@json_option
def command(
    config: Path,
    target: str | None,
    device: str | None,
    package: str | None,
    speed: str | None,
    clock_mhz: float | None,
    recipe: str | None,
    seeds: int,
    io: str,
    pins: Path | None,
    bitstream: Path | None,
    check: bool,
    no_cache: bool,
    jobs: int | None,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> int:
    """Place and route a configuration on an FPGA with nextpnr.

    Every seed is another placement; the frequencies of all say what can be expected.  Seeds that
    are done are kept: an interrupted run goes on where it was, more seeds add to those there are.
    """
    from contextlib import ExitStack

    from flows.build.build import retarget
    from flows.build.load import load_design
    from flows.pnr.devices import placer
    from flows.pnr.pnr import bitstream as pack
    from flows.pnr.pnr import packer_of, place_and_route
    from flows.synthesis.result import write_result
    from flows.tools.parallel import processors
    from hwgen.technologies import target_of, technology_of

    design = load_design(config)
    core = design.params
    if target is not None:
        target, of_target = target_of(target)
        device = device or of_target
    chosen = None if device is None else technology_of(device)
    target = target or chosen or core.target.technology
    named = core.target.device if device is None else device
    if named is not None and technology_of(named) == target:
        device = _placed_as(named)
    else:
        named = None
    if bitstream:
        packer_of(target)
        check_file(bitstream, force=force)
    text = None
    if pins:
        text = pins.read_text(encoding="utf-8", errors="replace")
    with ExitStack() as stack:
        staging = stack.enter_context(atomic_directory(output, force=force)) if output else None
        with task_progress("placing and routing", quiet=as_json) as update:
            result = place_and_route(
                design,
                target,
                device=device,
                package=package,
                speed=speed,
                clock_mhz=retarget(core.target, target, clock_mhz).clock_mhz,
                recipe=recipe,
                seeds=seeds,
                io=io,  # type: ignore[arg-type]
                pins=text,
                use_cache=not no_cache,
                jobs=jobs or processors(),
                on_progress=update,
            )
        if bitstream:
            write_file(bitstream, pack(result), force=force)
        if staging:
            write_result(result, staging)
    untimed = placer(target).untimed
    if as_json:
        document = {**result.document(), "target_device": named, "fits": True}
        document["untimed"] = list(untimed)
        emit_json({**document, "bitstream": str(bitstream) if bitstream else None})
    else:
        _print(result)
        out = console()
        if untimed:
            out.print(
                f"  nextpnr knows no delays of {', '.join(untimed)}: paths through them may be"
                " slower than this; --recipe logic makes none of products"
            )
        if named:
            out.print(f"  {named}: fits")
        if bitstream:
            out.print(f"bitstream of seed {result.best.seed}: {bitstream}")
        if output:
            out.print(f"{len(result.files) + 1} files in {output}")
    if check:
        _check(result)
    return 0


def _check(result: PnrResult) -> None:
    """Raise `CheckFailed` unless the best seed meets the clock that was asked for."""
    from hwgen.errors import CheckFailed

    if result.fmax_max_mhz is None:
        raise CheckFailed(f"no path, not the {result.clock_target_mhz:g} MHz asked for")
    if result.fmax_max_mhz < result.clock_target_mhz:
        reached, asked = distinct(result.fmax_max_mhz, result.clock_target_mhz)
        raise CheckFailed(f"{reached} MHz, not the {asked} MHz asked for")


def _placed_as(name: str) -> str:
    """Return nextpnr's name of a device."""
    from hwgen.errors import InputError
    from hwgen.technologies import utilization

    family, device = utilization.of(name)
    if device.placed_as is None:
        raise InputError(f"there is no place and route for {name}, of {family.name}")
    return device.placed_as


def _print(result: PnrResult) -> None:
    out = console()
    grade = f" speed {result.speed_grade}" if result.speed_grade else ""
    device = f"{result.target} {result.device} {result.package}{grade}"
    out.print(headed(result.name, f" on {device}, recipe {result.recipe}"))
    if result.fmax_median_mhz is not None:
        seeds = "1 seed" if len(result.seeds) == 1 else f"{len(result.seeds)} seeds"
        out.print(
            f"  frequency  median {result.fmax_median_mhz:.1f} MHz, {result.fmax_min_mhz:.1f} to"
            f" {result.fmax_max_mhz:.1f} over {seeds} (asked for"
            f" {result.clock_target_mhz:g} MHz)"
        )
    table = new_table("  seed", "MHz", "from", "to", left=("from", "to"))
    for seed in result.seeds:
        figure = "failed" if seed.failure else "-" if not seed.fmax_mhz else f"{seed.fmax_mhz:.1f}"
        table.add_row(f"  {seed.seed}", figure, seed.path_start or "", seed.path_end or "")
    out.print(table)
    table = new_table("  resource", "used", "there", "share")
    for name, row in result.utilization.items():
        share = f"{100 * row['used'] / row['available']:.1f} %"
        table.add_row(f"  {name}", f"{row['used']:,}", f"{row['available']:,}", share)
    out.print(table)
    if result.frame_flip_flops is not None:
        out.print(
            f"  of which the frame of registers around the core: {result.frame_flip_flops:,}"
            f" flip-flops, {result.frame_luts:,} look-up tables"
        )
    tools = ", ".join(f"{name} {version}" for name, version in result.tools.items())
    out.print(f"  {tools}; {result.wall_seconds:.1f} s")
