# SPDX-License-Identifier: Apache-2.0
"""Inject faults into the mapped netlist of a configuration at work, and count their effects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from hwgen.cli.support.outputs import atomic_directory
from hwgen.reports.terminal import console

if TYPE_CHECKING:
    from flows.faults.campaign import Campaign
    from flows.faults.injection import FaultSimulation

CLASSES = ("flip", "pulse", "stuck", "memory")
MODULES = 12
"""Modules that the table shows."""


@click.command(epilog=example("hwgen faults -c tour.yaml --workload digits --margin 0.05"))
@config_option
@target_option("Technology of standard cells; default that of the configuration.")
@liberty_option
@click.option(
    "--workload",
    metavar="NAME",
    default="digits",
    show_default=True,
    help="What the design does: digits (a layer of a network that reads digits), random,"
    " random:M,K,N, or an .npz file (activations, weights).",
)
@click.option(
    "--class",
    "classes",
    type=click.Choice(CLASSES),
    multiple=True,
    help="Faults to inject: flip (a flip-flop changes once), pulse (a net is wrong for a cycle),"
    " stuck (a net is always 0 or 1), memory (a bit of an SRAM macro changes once); may be given"
    " several times, default all.",
)
@margin_option
@click.option(
    "--confidence",
    metavar="SHARE",
    type=click.FloatRange(0.5, 0.9999),
    default=0.95,
    show_default=True,
    help="Probability that an interval holds the share.",
)
@click.option(
    "--checksums",
    is_flag=True,
    help="Append rows and columns of checksums to the operands: they notice wrong results, and"
    " correct a single one.",
)
@click.option(
    "--prove",
    is_flag=True,
    help="Prove of every flip-flop, instead of injecting faults, that a flip of it is noticed or"
    " changes nothing, in any state and with any inputs; exit 1 if it is not so.",
)
@fault_seed_option
@jobs_option("Simulations at once")
@path_option("--output", "DIR", "Directory for faults.json, faults.csv and faults.svg.")
@force_option
@json_option
def command(
    config: Path,
    target: str | None,
    liberty: tuple[Path, ...],
    workload: str,
    classes: tuple[str, ...],
    margin: float,
    confidence: float,
    checksums: bool,
    prove: bool,
    seed: int,
    jobs: int | None,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> int:
    """Inject faults into a configuration at work and count their effects.

    The design is mapped to standard cells.  Faults are drawn at random from all places and cycles
    of a job; each is simulated, and the results are compared with the golden model.  A fault is
    masked (all results are right), corrected (by checksums), detected (the design reports an
    error, or checksums notice one), silent (wrong results, and nothing says so) or leads to a hang
    (results are missing, or the bus protocol is violated).
    """
    import json
    from contextlib import ExitStack

    from flows.build.build import retarget
    from flows.build.load import load_design
    from flows.faults.campaign import run_campaign
    from flows.faults.injection import FaultSimulation, check_target
    from flows.faults.workloads import fault_workload
    from flows.synthesis.synth import synthesize
    from flows.tools.guard import scratch
    from flows.tools.parallel import processors

    design = load_design(config)
    aim = retarget(design.params.target, target)
    check_target(aim.technology)
    with ExitStack() as stack:
        staging = stack.enter_context(atomic_directory(output, force=force)) if output else None
        work = fault_workload(design.core, workload, checksums=checksums)
        stack.enter_context(liberty_origin(aim.technology))
        directory = stack.enter_context(scratch("hwgen-faults-"))
        update = stack.enter_context(task_progress("injecting faults", quiet=as_json))
        result = synthesize(
            design,
            aim.technology,
            clock_mhz=aim.clock_mhz,
            effort="clock",
            liberty_files=liberty,
            jobs=jobs or processors(),
            on_progress=update,
        )
        update("the run without faults", 0, 1)
        simulation = FaultSimulation(design.params, result, work, directory, liberty_files=liberty)
        if prove:
            proof = _prove(design.name, aim.technology, simulation, update)
            if staging:
                text = json.dumps(proof, indent=1) + "\n"
                (staging / "proof.json").write_text(text, encoding="utf-8")
        else:
            campaign = run_campaign(
                simulation,
                work,
                name=design.name,
                target=aim.technology,
                classes=classes,
                margin=margin,
                confidence=confidence,
                seed=seed,
                jobs=jobs or processors(),
                on_progress=update,
            )
            if staging:
                _write(campaign, staging)
    if prove:
        if as_json:
            emit_json(proof)
        _report_proof(proof, quiet=as_json)
    elif as_json:
        emit_json(campaign.document())
    else:
        _print(campaign, output)
    return 0


def _prove(name: str, target: str, simulation: FaultSimulation, update: Any) -> dict[str, Any]:
    """Return the number of flip-flops that are proven, and the paths of the others."""
    from flows.faults.proof import prove_flips

    verdicts = prove_flips(
        simulation.circuit,
        on_progress=lambda done, total: update("proving flips harmless or noticed", done, total),
    )
    paths = {
        verdict: [str(each.site.location) for each in verdicts if each.verdict == verdict]
        for verdict in ("refuted", "unknown")
    }
    proven = sum(each.verdict == "proven" for each in verdicts)
    return {"name": name, "target": target, "flip_flops": len(verdicts), "proven": proven, **paths}


def _report_proof(proof: dict[str, Any], *, quiet: bool) -> None:
    """Print a proof, and raise `CheckFailed` unless all is proven."""
    from hwgen.errors import CheckFailed

    about = "a flip is noticed at once or changes nothing, in any state, with any inputs"
    lines = [f"  proven     {proof['proven']:,}: {about}"]
    for verdict in ("refuted", "unknown"):
        if paths := proof[verdict]:
            shown = ", ".join(paths[:MODULES]) + (", ..." if len(paths) > MODULES else "")
            lines.append(f"  {verdict:<10} {len(paths):,}: {shown}")
    if not quiet:
        out = console()
        size = f"{proof['flip_flops']:,} flip-flops"
        out.print(headed(proof["name"], f" on {proof['target']}: {size}"))
        for line in lines:
            out.print(line, soft_wrap=True)
    if proof["proven"] < proof["flip_flops"]:
        raise CheckFailed(
            f"{proof['flip_flops'] - proof['proven']:,} of {proof['flip_flops']:,} flip-flops are"
            " not proven; protect: {registers: parity} or tmr is for that"
        )


def _write(campaign: Campaign, directory: Path) -> None:
    import json

    from flows.faults.picture import picture

    document = campaign.document()
    (directory / "faults.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (directory / "faults.csv").write_text(campaign.table(), encoding="utf-8")
    if "flip" in campaign.classes:
        (directory / "faults.svg").write_text(picture(document), encoding="utf-8")


def _print(campaign: Campaign, output: Path | None) -> None:
    out = console()
    size = f"{campaign.cells:,} cells, {campaign.flip_flops:,} of them flip-flops"
    if campaign.memory_bits:
        size += f", and {campaign.memory_bits:,} bits of SRAM"
    out.print(headed(campaign.name, f" on {campaign.target}: {size}"))
    out.print(f"  while      {campaign.workload}: {campaign.cycles:,} cycles")
    if campaign.application:
        out.print(f"  answer     of an application that {campaign.application}")
    answers = ["wrong answer"] if campaign.application else []
    (share, *_) = campaign.classes.values()
    table = new_table("  class", "faults", "of all", *share.effects, *answers)
    for name, share in campaign.classes.items():
        table.add_row(
            f"  {name}", f"{share.faults:,}", f"{share.population:,}",
            *(_share(campaign, share, effect) for effect in share.effects),
            *[_share(campaign, share, "application")] * len(answers),
        )  # fmt: skip
    out.print(table)
    out.print(f"  shares in %, intervals at {100 * campaign.confidence:g} % confidence")
    for name, shares in campaign.modules.items():
        _print_modules(name, shares)
    if output:
        out.print(f"faults.json, faults.csv and a picture in {output}")


def _share(campaign: Campaign, share: Any, effect: str) -> str:
    from flows.faults.campaign import share_text

    count = share.application if effect == "application" else share.effects[effect]
    return share_text(count, share.faults, campaign.intervals(share)[effect])


def _print_modules(name: str, shares: dict[str, Any]) -> None:
    (share, *_) = shares.values()
    table = new_table(f"  {name} in", "faults", *share.effects)
    most = sorted(shares, key=lambda module: -shares[module].effects["silent"])[:MODULES]
    for module in most:
        share = shares[module]
        figures = [f"{100 * share.of_effect(effect):.1f} %" for effect in share.effects]
        table.add_row(f"  {module}", f"{share.faults:,}", *figures)
    console().print(table)
