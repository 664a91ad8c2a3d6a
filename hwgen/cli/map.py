# SPDX-License-Identifier: Apache-2.0
"""Show how an engine would cut a product into blocks, and what it then reads and takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hwgen.cli.support.common import (
    config_option,
    emit_json,
    example,
    json_option,
    refused_option,
)
from hwgen.reports.terminal import console

_SIZES = "is part of --gemm M,K,N"


@click.command(epilog=example("hwgen map -c configs/gemm_stream.yaml --gemm 256,1024,1024"))
@config_option
@click.option("--gemm", metavar="M,K,N", help="The product.")
@refused_option("--m", _SIZES)
@refused_option("--k", _SIZES)
@refused_option("--n", _SIZES)
@click.option(
    "--least-traffic",
    is_flag=True,
    help="Let a block of A or W take all of its buffer; the cores wait while it is loaded.",
)
@json_option
def command(config: Path, gemm: str | None, least_traffic: bool, as_json: bool) -> None:
    """Show how an engine would cut a product into blocks, and what it then reads and takes.

    The plan moves the fewest bytes that the engine's buffers allow (within 2 %), then takes the
    fewest cycles.
    """
    from flows.build.load import load_config
    from hwgen.errors import InputError
    from hwgen.families.gemm_stream.cycles.job import job_cycles
    from hwgen.families.gemm_stream.params import GemmStreamConfig
    from hwgen.families.gemm_stream.schedule import Plan
    from hwgen.workloads import parse_gemm

    if gemm is None:
        raise click.UsageError("Missing option '--gemm'.")
    m, k, n = parse_gemm(gemm)
    core = load_config(config)
    if not isinstance(core, GemmStreamConfig):
        raise InputError(
            f"{config}: family: {core.family} cuts no product into blocks, so there is nothing to"
            " plan; use the configuration of a gemm_stream engine"
        )
    plan = Plan(core, m, k, n, least_traffic=least_traffic)
    cycles = job_cycles(plan)
    traffic = plan.traffic
    utilisation = plan.macs / (core.macs_per_cycle * cycles)
    names = ("m", "k", "n")
    document: dict[str, Any] = {
        "m": m,
        "k": k,
        "n": n,
        "block": dict(zip(names, plan.block, strict=True)),
        "blocks": dict(zip(names, plan.blocks, strict=True)),
        "inner_loop": "m" if plan.m_inner else "n",
        "whole_buffer": {"activations": plan.a_whole, "weights": plan.w_whole},
        "traffic_bytes": {
            "activations": traffic.activations,
            "weights": traffic.weights,
            "parameters": traffic.parameters,
            "results": traffic.results,
            "total": traffic.total,
            "compulsory": traffic.compulsory,
            "lower_bound": traffic.bound,
        },
        "cycles": cycles,
        "utilisation": utilisation,
    }
    if as_json:
        emit_json(document)
        return
    out = console()
    sizes = " x ".join(map(str, plan.block))
    counts = " x ".join(map(str, plan.blocks))
    out.print(f"{core.name}: C[{m},{n}] = A[{m},{k}] W[{k},{n}]")
    out.print(
        f"  blocks (M x K x N)   {sizes}; {counts} of them, {document['inner_loop']} innermost"
    )
    for name, fits in document["whole_buffer"].items():
        if fits:
            out.print(f"  a block of {name} takes all of their buffer")
    for name in ("activations", "weights", "results"):
        out.print(f"  {name:<20} {getattr(traffic, name):>14,} bytes")
    out.print(
        f"  {'all traffic':<20} {traffic.total:>14,} bytes,"
        f" {traffic.total / traffic.compulsory:.2f} times everything once,"
        f" {traffic.total / traffic.bound:.2f} times the bound of these buffers"
    )
    out.print(f"  {'cycles':<20} {cycles:>14,}, {100 * utilisation:.1f} % of the PEs' cycles used")
