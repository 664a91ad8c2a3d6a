# SPDX-License-Identifier: Apache-2.0
"""Find the cheapest protection of a configuration with which few faults are silent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hwgen.cli.support.common import (
    config_option,
    emit_json,
    example,
    fault_seed_option,
    force_option,
    headed,
    jobs_option,
    json_option,
    liberty_option,
    liberty_origin,
    margin_option,
    new_table,
    path_option,
    target_option,
    task_progress,
)
from hwgen.cli.support.outputs import check_file, write_file
from hwgen.reports.terminal import console

if TYPE_CHECKING:
    from flows.faults.harden import Trial


@click.command(epilog=example("hwgen harden -c tour.yaml --silent 0.01 --margin 0.03"))
@config_option
@target_option("Technology of standard cells; default that of the configuration.")
@liberty_option
@click.option(
    "--silent",
    metavar="SHARE",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.001,
    show_default=True,
    help="Largest share of the faults of a class that may be silent.",
)
@click.option(
    "--workload",
    metavar="NAME",
    default="digits",
    show_default=True,
    help="What the design does, as of hwgen faults.",
)
@margin_option
@fault_seed_option
@jobs_option("Simulations at once")
@path_option("--output", "FILE", "File for the configuration with the protection.")
@force_option
@json_option
def command(
    config: Path,
    target: str | None,
    liberty: tuple[Path, ...],
    silent: float,
    workload: str,
    margin: float,
    seed: int,
    jobs: int | None,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> int:
    """Find the cheapest protection of a configuration with which few faults are silent.

    Protections are tried in the order of area times cycles, by estimates: each is mapped, and
    samples of all classes of faults are simulated.  The first one whose share of silent faults is
    small enough, its interval included, is confirmed by a second campaign.  The exit status is 1
    if there is none.
    """
    from flows.build.build import retarget
    from flows.build.load import load_design
    from flows.faults.harden import candidates, harden, smallest_share
    from flows.faults.injection import check_target
    from flows.tools.parallel import processors
    from hwgen.errors import CheckFailed, InputError

    design = load_design(config)
    aim = retarget(design.params.target, target)
    check_target(aim.technology)
    least = smallest_share(margin, 0.95)
    if silent < least:
        raise InputError(
            f"--silent: campaigns with a margin of {margin:g} cannot show less than {least:.2g};"
            " say a smaller --margin"
        )
    if output:
        check_file(output, force=force)
    trials = []
    with liberty_origin(aim.technology), task_progress("hardening", quiet=as_json) as update:
        update("estimating protections", 0, 1)
        choices = candidates(design.params, aim.technology, workload)
        for trial in harden(
            choices, aim.technology, workload, silent, clock_mhz=aim.clock_mhz, margin=margin,
            seed=seed, liberty_files=liberty, jobs=jobs or processors(), on_progress=update,
        ):  # fmt: skip
            trials.append(trial)
    last = trials[-1]
    reached = last.silent <= silent
    if as_json:
        document = {"silent": silent, "reached": reached,
                    "trials": [trial.document() for trial in trials]}  # fmt: skip
        emit_json(document)
    else:
        _print(design.name, aim.technology, trials)
    if not reached:
        best = min(trials, key=lambda trial: trial.silent)
        raise CheckFailed(
            f"no protection has at most {silent:g} silent faults; the best is"
            f" {best.candidate.words}, {best.silent:.2g}"
        )
    if output:
        write_file(output, _protected(config, last), force=force)
    if not as_json:
        console().print(f"protection: {last.candidate.words}")
    return 0


def _protected(config: Path, trial: Trial) -> str:
    """Return the text of the configuration with the protection."""
    import yaml

    document = yaml.safe_load(config.read_text(encoding="utf-8"))
    protection = trial.candidate.config.protect.model_dump()
    document["protect"] = {key: value for key, value in protection.items() if value != "none"}
    head = f"# Protection by hwgen harden: {trial.candidate.words}\n"
    if trial.candidate.checksums:
        head += "# Operands need checksums: hwgen.core.checksums.\n"
    return head + yaml.safe_dump(document, sort_keys=False)


def _print(name: str, target: str, trials: list[Trial]) -> None:
    out = console()
    out.print(headed(name, f" on {target}: {len(trials)} protections, the cheapest first"))
    table = new_table("  protection", "area um2", "estimated", "MHz", "cycles", "silent at most")
    for trial in trials:
        candidate, result = trial.candidate, trial.synthesis
        table.add_row(
            f"  {candidate.words}", f"{result.area_um2:,.0f}", f"{candidate.area_um2:,.0f}",
            f"{result.fmax_mhz or 0:,.0f}", f"{candidate.cycles:,}", f"{100 * trial.silent:.2f} %",
        )  # fmt: skip
    out.print(table)
