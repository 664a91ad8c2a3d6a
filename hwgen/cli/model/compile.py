# SPDX-License-Identifier: Apache-2.0
"""``hwgen model compile``: a decoder as a command list, and what is in memory."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from hwgen.cli.support.common import (
    at_once_option,
    config_option,
    emit_json,
    example,
    force_option,
    json_option,
    memory_options,
    new_table,
    path_option,
    requested_memory,
    task_progress,
)
from hwgen.cli.support.outputs import atomic_directory, check_directory
from hwgen.reports.terminal import console

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hwgen.core.core import Core
    from hwgen.core.params.off_chip import OffChip
    from hwgen.families.gemm_stream.schedule import JobEngine
    from hwgen.models.compile.compilation import Compilation, Settings
    from hwgen.models.compile.list_builder import ListEngine
    from hwgen.models.files.store import Model
    from hwgen.models.graph.description import Description

    Compiled = tuple[Compilation, dict[str, Any], dict[str, str]]

LAYERS = "layers.json"
MOST_NAME = 48
"""Characters of a name in tables of compiled models."""


def _number(_: Any, __: Any, text: str | None) -> int | None:
    """Return a number of bytes, in any notation."""
    if text is None:
        return None
    try:
        result = int(text.replace("_", ""), 0)
    except ValueError:
        result = -1
    if result < 0:
        raise click.BadParameter(f"must be a number of bytes such as 0x40000000, not {text[:40]!r}")
    return result


@click.command(
    "compile",
    epilog=example("hwgen model compile austen-int8 -c configs/gemm_stream.yaml -o austen-jobs"),
)
@click.argument("source", metavar="DIR", type=click.Path(path_type=Path))
@config_option
@path_option("--output", "DIR", "Directory to write the compiled model into.", required=True)
@click.option(
    "--context",
    metavar="POSITIONS",
    type=click.IntRange(1, 1 << 24),
    help="Positions that the cache has room for; default those of the model.",
)
@at_once_option
@click.option(
    "--base",
    metavar="ADDRESS",
    default="0",
    show_default=True,
    callback=_number,
    help="Address of the first byte.",
)
@click.option(
    "--memory-bytes",
    metavar="BYTES",
    callback=_number,
    help="Bytes of the memory from there on; default what addresses reach.",
)
@memory_options
@force_option
@json_option
def compile_command(
    source: Path,
    config: Path,
    output: Path,
    context: int | None,
    at_once: int,
    base: int,
    memory_bytes: int | None,
    memory: str | None,
    gb_s: str | None,
    efficiency: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Compile a quantised decoder, or a network of ONNX, for an engine.

    For one that executes command lists, of decoders: one list does all layers and all tokens, from
    the tokens of a prompt in memory to the tokens that follow it. For one that multiplies matrices
    in memory: a job for each product, and C of a host that computes the rest. What is written:
    image.bin, the contents of memory at first; program.bin, the list or the jobs; compiled.json,
    the memory map; layers.json, the cycles of each operation; C of a driver, with a function that
    generates tokens, or computes the outputs of a network.
    """
    from flows.build.load import load_config
    from hwgen.core.protocols import ListCore
    from hwgen.core.registry import core_of
    from hwgen.errors import InputError
    from hwgen.families.gemm_stream.core import GemmStreamCore
    from hwgen.models.compile.compilation import Settings
    from hwgen.models.files.store import Model
    from hwgen.models.quantise.record import RECORD

    check_directory(output)
    core = core_of(load_config(config))
    served = requested_memory(core.params.target, memory, gb_s, efficiency)
    settings = Settings(at_once, context, base, memory_bytes)
    model = Model(source)
    compilation: Compilation
    with (
        task_progress("compiling", quiet=as_json) as update,
        atomic_directory(output, force=force) as directory,
    ):
        update("operations", 0, 0)
        if isinstance(core, ListCore):
            compilation, timing, files = _list(model, core, settings)
        elif not isinstance(core, GemmStreamCore):
            raise InputError(
                f"{config}: family: must be one that executes command lists, or an engine that"
                f" multiplies matrices in memory, not {core.family_name()}"
            )
        elif model.description.decodes:
            compilation, timing, files = _jobs(model, core.params, settings)
        else:
            _refuse_positions(model.description.name)
            compilation, timing, files = _network(model, core.params, settings)
        update("speed", 0, 0)
        speed = _speed(core, model.description, timing, served)
        document = {**compilation.document(), "passes": timing, "speed": speed}
        compilation.write(directory)
        limits = {name: _limits(result["operations"]) for name, result in timing.items()}
        layers = json.dumps({**timing, "speed": speed, "limits": limits}, indent=1) + "\n"
        for name, text in {**files, LAYERS: layers}.items():
            (directory / name).write_text(text, encoding="utf-8")
        if (source / RECORD).is_file():
            shutil.copyfile(source / RECORD, directory / RECORD)
    if as_json:
        emit_json({"output": str(output), **document})
        return
    _print(output, document, compilation)
    _print_passes(timing)
    _print_speed(speed)


def _list(model: Model, core: Core[ListEngine], settings: Settings) -> Compiled:
    """Return a list, its timing, and the files of its driver."""
    from flows.build.drivers.model_driver import model_driver
    from hwgen.models.compile.list_compilation import ListCompilation
    from hwgen.models.compile.timing import list_passes

    compilation = ListCompilation(model, core.params, settings)
    return compilation, list_passes(compilation), model_driver(core, compilation.document())


def _jobs(model: Model, config: JobEngine, settings: Settings) -> Compiled:
    """Return jobs, their timing, and the files of the driver and the host."""
    from flows.build.drivers.decoder_driver import decoder_driver
    from hwgen.models.compile.job_compilation import JobCompilation
    from hwgen.models.compile.timing import job_passes

    compilation = JobCompilation(model, config, settings)
    return compilation, job_passes(compilation), decoder_driver(compilation)


def _network(model: Model, config: JobEngine, settings: Settings) -> Compiled:
    """Return the jobs of a network on arrays, their timing, and the files of driver and host."""
    from flows.build.drivers.network_driver import network_driver
    from hwgen.models.compile.network_compilation import NetworkCompilation
    from hwgen.models.compile.timing import network_frame

    compilation = NetworkCompilation(model, config, settings)
    return compilation, network_frame(compilation), network_driver(compilation)


def _refuse_positions(name: str) -> None:
    """Refuse options that only decoders have."""
    context = click.get_current_context()
    for option, parameter in (("--context", "context"), ("--at-once", "at_once")):
        if context.get_parameter_source(parameter) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"{option}: belongs to decoders, and {name} is none")


def _print(output: Path, document: dict[str, Any], compilation: Compilation) -> None:
    """Print the memory map."""
    from hwgen.cli.model.estimate import shortened
    from hwgen.models.compile.compilation import JobsCompilation

    out, arrays = console(), []
    if isinstance(compilation, JobsCompilation):
        size = f"{document['program']['jobs']:,d} jobs"
        for prefix, places in (
            ("", compilation.memory), ("host ", compilation.host), ("host ", compilation.work),
        ):  # fmt: skip
            arrays += [(prefix + array.region, array) for array in places.arrays.values()]
    else:
        size = f"{document['list']['descriptors']:,d} descriptors"
        arrays = [(array.region, array) for array in compilation.memory.arrays.values()]
    out.print(
        f"{output}: {document['name']} on {document['engine']}, {size},"
        f" {document['bytes']:,d} bytes from {document['base']:#x}",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    table = new_table("region", "array", "address", "bytes", "times", "every", left=("array",))
    for region, array in arrays:
        table.add_row(
            region,
            shortened(array.name, MOST_NAME),
            f"{array.address:#x}",
            f"{array.bytes:,d}",
            f"{array.count}" if array.count > 1 else "",
            f"{array.stride:,d}" if array.count > 1 else "",
        )
    out.print(table)


def _print_passes(passes: dict[str, Any]) -> None:
    """Print the cycles of passes, and the operations of the last one."""
    from hwgen.cli.model.estimate import shortened
    from hwgen.workloads.timing import MEMORY_PORT

    out = console()
    for name, result in passes.items():
        of = f" of {result['tokens']} behind {result['context']}" if "tokens" in result else ""
        text = f"{name}{of}: {result['cycles']:,d} cycles ({_basis(result)})"
        out.print(text, highlight=False, soft_wrap=True)
    last = list(passes)[-1]
    headings = ("unit", "jobs", "cycles", "bytes", "limit", "memory", "MACs")
    table = new_table(last, *headings, left=("unit", "limit"))
    for row in passes[last]["operations"]:
        used = row["utilisation"]
        table.add_row(
            shortened(row["operation"], MOST_NAME),
            row["unit"],
            f"{row['jobs']:,d}" if row["jobs"] else "",
            f"{row['cycles']:,d}" if row["jobs"] else "",
            f"{row['read_bytes'] + row['write_bytes']:,d}",
            row["limit"],
            f"{100 * row['memory_share']:.1f} %" if row["jobs"] else "",
            "" if used is None else f"{100 * used:.1f} %",
        )
    out.print(table)
    limits = _limits(passes[last]["operations"])
    if total := limits["cycles"]:
        memory = limits["by_limit"].get(MEMORY_PORT, 0) / total
        by_unit = sorted(limits["by_unit"].items(), key=lambda item: -item[1])
        shares = ", ".join(f"{unit} {100 * cycles / total:.3g} %" for unit, cycles in by_unit)
        out.print(
            f"{last}: jobs are limited by the memory port in {100 * memory:.0f} % of their cycles,"
            f" by compute in the rest; by unit: {shares}",
            highlight=False,
            soft_wrap=True,
        )


def _limits(operations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the cycles of jobs in all, by what limits them, and by unit; units overlap."""
    by_limit, by_unit = Counter[str](), Counter[str]()
    for row in operations:
        if row["jobs"]:
            by_limit[row["limit"]] += row["cycles"]
            by_unit[row["unit"]] += row["cycles"]
    return {"cycles": by_limit.total(), "by_limit": dict(by_limit), "by_unit": dict(by_unit)}


def _basis(timing: dict[str, Any]) -> str:
    """Return the basis of the cycles of a pass."""
    if "least" in timing:
        return f"modelled, at least {timing['least']:,d}, at most {timing['most']:,d}"
    return "modelled, of the jobs in the engine's queue, without the host"


def _speed(
    core: Core[Any], description: Description, timing: Mapping[str, Any], served: OffChip
) -> dict[str, Any]:
    """Return the speed and the energy of passes on the engine, at its own target, with a memory."""
    from flows.build.build import Build, retarget
    from flows.build.design import Design
    from hwgen.cli.model.estimate import limit_of
    from hwgen.models.compile.engine_passes import HOST, timing_of
    from hwgen.models.graph.passes import passes_of, speeds
    from hwgen.reports.datasheet import power_basis

    decode, prefill = timing.get("decode"), timing.get("prefill")
    if decode is None or prefill is None:
        workloads, timings = passes_of(description, 1, 0), {"pass": timing_of(timing["frame"])}
    else:
        workloads = passes_of(description, prefill["tokens"], decode["context"])
        timings = {name: timing_of(timing[name]) for name in workloads}
    design = Design.of(core.params)
    build = Build(design, retarget(core.params.target, memory=served))
    entry = build.estimate(workloads, timings=timings)
    return {
        "technology": entry["technology"],
        "mhz": entry["figures_at_mhz"],
        "clock_basis": entry["clock_basis"],
        "power_basis": power_basis(entry),
        "memory": served.model_dump(mode="json"),
        "limits": {name: limit_of(entry, name) for name in workloads},
        "missing": "" if "least" in next(iter(timing.values())) else HOST,
        "passes": speeds(entry, workloads),
    }


def _print_speed(speed: Mapping[str, Any]) -> None:
    """Print tokens or frames a second, and energy."""
    from hwgen.cli.model.estimate import rate_and_energy
    from hwgen.reports.roofline import number

    if speed["power_basis"]:
        console().print(speed["power_basis"], soft_wrap=True)
    basis = ", Fmax unknown" if speed["clock_basis"] == "assumed" else ""
    for name, each in speed["passes"].items():
        per, rate, joules = rate_and_energy(each)
        left_out = [speed["missing"]] if speed["missing"] else []
        if joules is not None and each["joules"]["off_chip"] is None:
            left_out.append("energy of the memory behind the ports")
        without = f", without {' and '.join(left_out)}" if left_out else ""
        if limit := speed["limits"][name]:
            without += f"; limited by {limit}"
        energy = "J not known" if joules is None else f"{number(joules)} J"
        console().print(
            f"{name}: {number(rate)} {per}s/s, {energy}/{per} on {speed['technology']} at"
            f" {speed['mhz']:.4g} MHz{basis} (modelled{without})",
            highlight=False, soft_wrap=True,
        )  # fmt: skip
