# SPDX-License-Identifier: Apache-2.0
"""Test the RTL of a configuration in simulation."""

from __future__ import annotations

import shlex
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from hwgen.cli.support.common import (
    config_option,
    emit_json,
    example,
    jobs_option,
    json_option,
    path_option,
    task_progress,
)
from hwgen.cli.support.outputs import check_directory
from hwgen.reports.terminal import console

if TYPE_CHECKING:
    from flows.simulation.runner import Outcome


@click.command(epilog=example("hwgen sim -c tour.yaml"))
@config_option
@click.option(
    "--seed", metavar="N", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True,
    help="Of shapes, values and stalls.",
)  # fmt: skip
@click.option("--case", "names", metavar="NAME", multiple=True,
              help="Run this case only; may be given several times.")  # fmt: skip
@click.option("--waves", type=click.Choice(["fst", "vcd"]), help="Write waveforms.")
@jobs_option("Simulators that run at once")
@path_option("--output", "DIR", "Directory for results; default build/NAME-sim.")
@json_option
def command(
    config: Path,
    seed: int,
    names: tuple[str, ...],
    waves: Literal["fst", "vcd"] | None,
    jobs: int | None,
    output: Path | None,
    as_json: bool,
) -> int:
    """Test the RTL of a configuration in simulation.

    Runs the family's whole regression against the golden model: corners of values and shapes,
    stalls on every port, resets in mid-job, jobs back to back.
    """
    import time

    from flows.build.load import load_design
    from flows.simulation.runner import case_names, regress, write_results
    from flows.tools.parallel import processors
    from hwgen.errors import InputError, did_you_mean

    design = load_design(config)
    core = design.params
    known = case_names(core, seed)
    for name in names:
        if name not in known:
            raise InputError(
                f"--case: no case is called {name!r}{did_you_mean(name, known)};"
                f" there is: {', '.join(known)}"
            )
    work = output or Path("build") / f"{core.name}-sim"
    check_directory(work)
    start = time.monotonic()
    total, begun = len(names or known), count(1)
    with task_progress("testing", quiet=as_json) as update:

        def follow(line: str) -> None:
            if " running " in line and "regression" in line:
                update("cases", min(next(begun), total), total)

        outcomes = regress(
            design,
            work,
            seed=seed,
            names=names or None,
            waves=waves,
            jobs=jobs or processors(),
            on_line=follow,
        )
    seconds = time.monotonic() - start
    summary = write_results(core, work, outcomes, seed=seed)
    failed = [outcome for outcome in outcomes if not outcome.passed]
    if as_json:
        emit_json({**summary, "wall_seconds": round(seconds, 3), "results": str(work)})
        return 1 if failed else 0
    out = console()
    out.print(
        f"{core.name}: {len(outcomes) - len(failed)} passed, {len(failed)} failed,"
        f" seed {seed}, {seconds:.1f} s; results in {work}"
    )
    for outcome in failed[:5]:
        _explain(outcome, config, seed)
    if len(failed) > 5:
        out.print(f"... and {len(failed) - 5} more")
    return 1 if failed else 0


def _explain(outcome: Outcome, config: Path, seed: int) -> None:
    repeat = f"hwgen sim --config {shlex.quote(str(config))} --seed {seed} --case {outcome.name}"
    click.echo(f"{outcome.name}: {outcome.message}\n  repeat with: {repeat}", err=True)
