# SPDX-License-Identifier: Apache-2.0
"""Shared parts of commands: options, tables and JSON, and progress."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hwgen.cli.support.names import FpgaName, TargetName, WorkloadName
from hwgen.errors import InputError
from hwgen.progress import shown_by
from hwgen.reports.terminal import console, minute_lines, print_whole

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from hwgen.core.params.off_chip import OffChip
    from hwgen.core.params.target import Target

F = TypeVar("F", bound=Callable[..., Any])

# -- options -----------------------------------------------------------------------------------


def config_option(function: F) -> F:
    """Add ``--config FILE`` (parameter `config`, a `Path` of an existing, readable file)."""
    about = "Configuration file (YAML); `hwgen init FAMILY` writes one."
    return _config(about, required=True)(function)


def optional_config(about: str) -> Callable[[F], F]:
    """Return a decorator that adds an optional ``--config FILE`` (parameter `config`)."""
    return _config(about, required=False)


def configs_option(about: str, *, required: bool) -> Callable[[F], F]:
    """Return a decorator that adds ``--config FILE``, which may be repeated (parameter `configs`).

    Designs of several are compared.
    """
    about += " May be repeated: one table then compares all."
    return file_option("--config", about, "configs", required=required, multiple=True)


def _config(about: str, *, required: bool) -> Callable[[F], F]:
    return file_option("--config", about, "config", required=required, multiple=True,
                       callback=_only)  # fmt: skip


def _only(context: click.Context, option: click.Parameter, values: tuple[Path, ...]) -> Path | None:
    """Return the only value of an option.

    Raises
    ------
    click.UsageError
        If there are several, of which click would take the last one.
    """
    if len(values) > 1:
        name = option.opts[0]
        raise click.UsageError(
            f"{name} is given {len(values)} times; this command takes one configuration", context
        )
    return values[0] if values else None


def file_option(name: str, about: str, *parameter: str, **options: Any) -> Callable[[F], F]:
    """Return a decorator that adds an option with an existing, readable file."""
    existing = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
    return click.option(
        *_names(name), *parameter, metavar="FILE", type=existing, help=about, **options
    )


def path_option(
    name: str, metavar: str, about: str, *parameter: str, **options: Any
) -> Callable[[F], F]:
    """Return a decorator that adds an option with a path, which need not exist."""
    path = click.Path(path_type=Path)
    return click.option(
        *_names(name), *parameter, metavar=metavar, type=path, help=about, **options
    )


_SHORT = {"--config": "-c", "--output": "-o"}


def _names(name: str) -> tuple[str, ...]:
    """Return the names of an option, the short one first."""
    return (_SHORT[name], name) if name in _SHORT else (name,)


def target_option(
    about: str, *parameter: str, fpga: bool = False, **options: Any
) -> Callable[[F], F]:
    """Return a decorator that adds ``--target NAME``, a technology or device in any spelling."""
    names = FpgaName() if fpga else TargetName()
    about += " `hwgen technologies` lists them."
    return click.option("--target", *parameter, metavar="NAME", type=names, help=about, **options)


def at_once_option(command: F) -> F:
    """Add ``--at-once``: how many tokens of a prompt go together."""
    return click.option(
        "--at-once", metavar="TOKENS", type=click.IntRange(1, 256), default=4, show_default=True,
        help="Tokens of a prompt that are taken at once; the rest of it follows one by one.",
    )(command)  # fmt: skip


def jobs_option(about: str) -> Callable[[F], F]:
    """Return a decorator that adds ``--jobs``: one for each processor by default."""
    return click.option(
        "--jobs", metavar="N", type=click.IntRange(1, 256),
        help=f"{about}; default one for each processor.",
    )  # fmt: skip


def refused_option(name: str, hint: str) -> Callable[[F], F]:
    """Return a decorator that refuses an option's former name, which `hint` continues."""

    def refuse(context: click.Context, option: click.Parameter, value: Any) -> None:
        if value and not context.resilient_parsing:
            raise click.UsageError(f"{name} {hint}", context)

    return click.option(name, multiple=True, hidden=True, expose_value=False, callback=refuse)


def example(line: str, note: str = "") -> str:
    """Return the end of a command's help: a note, and an example of its use."""
    return "\n\n".join(filter(None, (note, f"\b\nExample:\n  {line}")))


def clock_option(meaning: str) -> Callable[[F], F]:
    """Return a decorator that adds ``--clock-mhz`` (parameter `clock_mhz`, default None)."""
    return click.option("--clock-mhz", metavar="MHZ", callback=_megahertz, help=meaning)


def _megahertz(context: click.Context, option: click.Parameter, value: str | None) -> float | None:
    """Return a clock within the bounds of ``target.clock_mhz``; no nan or inf is."""
    from hwgen.core.params.target import CLOCK_MHZ

    if value is None:
        return None
    low, high = CLOCK_MHZ
    with suppress(ValueError):
        if low <= (clock := float(value)) <= high:
            return clock
    raise click.BadParameter(
        f"the clock target must be {low:g}..{high:g} MHz, not {value:.80}", context, option
    )


def json_option(function: F) -> F:
    """Add ``--json`` (parameter `as_json`); errors then also go to stdout as JSON."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def fpga_energies_option(function: F) -> F:
    """Add ``--fpga-energies`` (parameter `fpga_energies`), as estimates take it."""
    return click.option(
        "--fpga-energies", is_flag=True,
        help="Power of FPGAs, by published energies of another fabric: to a factor of 3, without"
        " static power. Without this option it is not known.",
    )(function)  # fmt: skip


def force_option(function: F) -> F:
    """Add ``--force`` (parameter `force`), as `atomic_directory` and `write_file` take it."""
    return click.option("--force", is_flag=True, help="Overwrite files hwgen did not write.")(
        function
    )


def tool_run_options(function: F) -> F:
    """Add ``--no-cache`` and ``--jobs`` (parameters `no_cache`, `jobs`) of runs of slow tools."""
    jobs = jobs_option("Tools that run at once")
    no_cache = click.option(
        "--no-cache", is_flag=True, help="Run again, even if the result is known."
    )
    return no_cache(jobs(function))


def liberty_option(function: F) -> F:
    """Add ``--liberty FILE``: Liberty files of the technology."""
    return path_option(
        "--liberty", "FILE", "Liberty file of the technology, instead of those in HWGEN_PDK_DIR;"
        " may be given several times.", multiple=True,
    )(function)  # fmt: skip


def margin_option(function: F) -> F:
    """Add ``--margin``: half of the interval of a share of faults."""
    return click.option(
        "--margin", metavar="SHARE", type=click.FloatRange(0.001, 0.5), default=0.01,
        show_default=True,
        help="Half of the interval of a share, which decides how many faults are drawn.",
    )(function)  # fmt: skip


def fault_seed_option(function: F) -> F:
    """Add ``--seed``: which faults are drawn."""
    return click.option(
        "--seed", metavar="N", type=click.IntRange(0), default=0, show_default=True,
        help="Of the drawn faults.",
    )(function)  # fmt: skip


def workload_options(function: F) -> F:
    """Add ``--gemm``, ``--workload`` and ``--context``, passed as `gemms`, `names`, `context`."""
    gemm = click.option(
        "--gemm", "gemms", metavar="M,K,N", multiple=True,
        help="A product to time; may be repeated.",
    )  # fmt: skip
    workload = click.option(
        "--workload", "names", metavar="NAME|FILE", multiple=True, type=WorkloadName(),
        help="A workload of `hwgen workloads`, or a file of one; may be repeated.",
    )  # fmt: skip
    context = click.option(
        "--context", metavar="POSITIONS", type=click.IntRange(0, 2**31 - 1),
        help="Earlier positions that attention looks at, instead of the workload's.",
    )  # fmt: skip
    return gemm(workload(context(function)))


def memory_options(function: F) -> F:
    """Add ``--memory``, ``--gb-s`` and ``--efficiency``, as `requested_memory` takes them."""
    memory = click.option(
        "--memory", metavar="KIND|PJ",
        help="The memory behind the ports instead of the configuration's: a kind, which"
        " docs/roofline.md lists and a wrong one names, or what a bit of it takes, in pJ.",
    )  # fmt: skip
    bandwidth = click.option(
        "--gb-s", "gb_s", metavar="GB/S", help="Its peak bandwidth; default that of the kind."
    )
    share = click.option(
        "--efficiency", metavar="SHARE", help="What is achieved of it; default that of the kind."
    )
    return memory(bandwidth(share(function)))


def requested_memory(
    target: Target, memory: str | None, gb_s: str | None, efficiency: str | None
) -> OffChip:
    """Return the memory behind the ports, what options say in the place of that of a target.

    Raises
    ------
    InputError
        If an option is not what it must be.
    """
    from pydantic import ValidationError

    from hwgen.config.parameters import either, plain_parameters
    from hwgen.config.validate import complaint
    from hwgen.core.params.off_chip import OffChip
    from hwgen.errors import did_you_mean
    from hwgen.technologies.off_chip import memory_types

    values = target.memory.model_dump(mode="json")
    if memory in memory_types():
        # What is said of another kind does not hold for this one.
        values = {"kind": memory, "ports": values["ports"]}
    elif memory is not None:
        values["pj_per_bit"] = _float(memory)
        if values["pj_per_bit"] is None:
            raise InputError(
                f"--memory: must be {either(tuple(memory_types()))}, or pJ per bit, 0 or more, not"
                f" {memory[:80]!r}{did_you_mean(memory, memory_types())}"
            )
    options = {"--memory": ("pj_per_bit", None), "--gb-s": ("gb_s", gb_s),
             "--efficiency": ("efficiency", efficiency)}  # fmt: skip
    for field, text in options.values():
        if text is not None:
            number = _float(text)
            values[field] = text if number is None else number
    try:
        return OffChip.model_validate(values)
    except ValidationError as error:
        item = error.errors()[0]
        field = str(item["loc"][0]) if item["loc"] else ""
        option = next((name for name, (key, _) in options.items() if key == field), "")
        if not option:
            raise InputError(f"--{item['msg']}") from None
        text = complaint(plain_parameters(OffChip)[field,], item["input"])
        raise InputError(f"{option}: {text}") from None


def _float(text: str) -> float | None:
    with suppress(ValueError):
        return float(text)
    return None


@contextmanager
def liberty_origin(target: str) -> Iterator[None]:
    """Say where the Liberty files of a technology come from, if they are missing."""
    from hwgen.errors import ToolMissing
    from hwgen.technologies import technology

    try:
        yield
    except ToolMissing as error:
        tech = technology(target)
        origin = tech.liberty_origin if tech.kind == "standard_cells" else ""
        if not origin or "Liberty" not in str(error):
            raise
        raise ToolMissing(f"{error}. They come from {origin}") from None


def headed(name: str, rest: str) -> Text:
    """Return a line that begins with a name in bold."""
    from rich.text import Text

    return Text.assemble((name, "bold"), rest)


def new_table(*headings: str, left: Collection[str] = ()) -> Table:
    """Return a table without lines; the first column and those of `left` are aligned left."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for number, heading in enumerate(headings):
        justify: Any = "right" if number and heading not in left else "left"
        whole = None if heading in left else len(heading)
        table.add_column(
            heading, justify=justify, overflow="fold", no_wrap=not number, min_width=whole
        )
    return table


def print_device(device: Mapping[str, Any]) -> None:
    """Print what share of a device is used, as `hwgen.technologies.utilization` says it."""
    from hwgen.reports.datasheet import fitting, shares_of

    table = new_table(f"  {fitting(device)}", "used", "there", "share")
    for name, *cells in shares_of(device):
        table.add_row(f"  {name}", *cells)
    console().print(table)
    print_device_warnings([device])


def print_device_warnings(devices: Iterable[Mapping[str, Any] | None]) -> None:
    """Print the warnings of devices that are too small or nearly full, each once."""
    texts = [device["warning"] for device in devices if device and device["warning"]]
    for text in dict.fromkeys(texts):
        console().print(f"warning: {text}", style="yellow", markup=False)


def print_columns(
    headings: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[str],
    dropped: Collection[str] = (),
) -> None:  # fmt: skip
    """Print a table, whole, without columns that are empty in all rows, or that are `dropped`."""
    columns = [
        (heading, cells)
        for heading, cells in zip(headings, zip(*rows, strict=True), strict=True)
        if set(cells) - {"-", ""} and heading not in dropped
    ]
    table = new_table(*(heading for heading, _ in columns), left=left)
    for cells in zip(*(column for _, column in columns), strict=True):
        table.add_row(*cells)
    print_whole(table)


def emit_json(data: Any) -> None:
    """Print `data` as JSON on stdout."""
    click.echo(json.dumps(data, indent=2, allow_nan=False))


@contextmanager
def task_progress(doing: str, *, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Show the progress of long work on stderr: a bar on a terminal, else lines.

    `hwgen.progress.report` inside shows its steps, too.

    Parameters
    ----------
    doing : str
        What is being done, e.g. ``synthesizing``.

    Yields
    ------
    callable
        Takes what was done last, how many tasks are done, and how many there are, 0 if unknown.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        SpinnerColumn(),
        TextColumn(doing),
        BarColumn(),
        MofNCompleteColumn(separator=" of "),
        TextColumn("{task.fields[label]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    out = console(stderr=True)
    if not out.is_terminal and not quiet:
        with minute_lines(doing) as tell, shown_by(tell) as shown:
            yield shown
        return
    with Progress(*columns, console=out, transient=True, disable=quiet) as progress:
        task, last = progress.add_task("", total=None, label=""), [0]

        def update(label: str, done: int, total: int) -> None:
            if done < last[0]:  # another part of the work, with a speed of its own
                progress.reset(task)
            last[0] = done
            progress.update(task, completed=done, total=total or None, label=label)

        with shown_by(update) as shown:
            yield shown
