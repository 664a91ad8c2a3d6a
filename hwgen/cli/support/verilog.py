# SPDX-License-Identifier: Apache-2.0
"""``hwgen estimate --verilog``: estimates of Verilog files that hwgen did not write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from hwgen.cli.support.common import file_option

F = TypeVar("F", bound=Callable[..., Any])


def verilog_options(function: F) -> F:
    """Add ``--verilog`` and ``--top`` (parameters `verilog` and `top`)."""
    files = file_option(
        "--verilog", "Verilog or SystemVerilog to estimate instead of a configuration, as Yosys"
        " reads it, with one clock; may be repeated.", multiple=True,
    )  # fmt: skip
    top = click.option("--top", metavar="NAME", help="Its top module.")
    return files(top(function))


def is_verilog(configs: Sequence[Path], files: Sequence[Path], top: str | None) -> bool:
    """Return whether Verilog is to be estimated, not a configuration; refuse both and neither."""
    if not configs and not files:
        raise click.UsageError("give --config FILE, or --verilog FILE and --top NAME")
    if configs and (files or top):
        raise click.UsageError("give either --config or --verilog and --top, not both")
    if files and top is None:
        raise click.UsageError("--verilog: needs --top NAME, its top module")
    return bool(files)


def refuse_others(option: str, *allowed: str) -> None:
    """Refuse options that were given beside one that they do not belong to."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if source is ParameterSource.COMMANDLINE and name not in allowed:
            raise click.UsageError(f"{parameter.opts[0]}: does not belong to {option}")


def verilog_estimate(
    files: Sequence[Path], top: str, target: str | None, clock_mhz: float | None
) -> dict[str, Any]:
    """Return the estimate of Verilog files; see `cost_model.estimate.external`."""
    from cost_model.estimate.external import estimate_netlist
    from flows.build.build import retarget
    from flows.build.external import read_verilog
    from hwgen.core.params.target import Target

    aim = retarget(Target(), target, clock_mhz)
    design = read_verilog(files, top)
    return estimate_netlist(top, design.analysis, aim.technology, aim.clock_mhz, aim.device)
