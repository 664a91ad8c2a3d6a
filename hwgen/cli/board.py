# SPDX-License-Identifier: Apache-2.0
"""Put a core or an engine on an FPGA board: design, bitstream, loading."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from hwgen.cli.support.common import (
    config_option,
    emit_json,
    example,
    file_option,
    force_option,
    headed,
    json_option,
    new_table,
    path_option,
    print_device,
    task_progress,
)
from hwgen.cli.support.groups import AliasedGroup
from hwgen.cli.support.names import BoardName
from hwgen.cli.support.outputs import atomic_directory
from hwgen.reports.terminal import console
from hwgen.technologies.utilization import FITS, NAMES

if TYPE_CHECKING:
    from flows.board.build import BoardBuild
    from flows.board.chip import ChipDesign
    from flows.board.design import BoardDesign
    from flows.board.surroundings import Surroundings
    from hwgen.board.datagrams import Address
    from hwgen.board.model import BoardData, Link

F = TypeVar("F", bound=Callable[..., Any])


def _board_option(function: F) -> F:
    """Add ``--board NAME`` (parameter `name`)."""
    return click.option(
        "--board", "name", metavar="NAME", type=BoardName(), required=True,
        help="A board; `hwgen board list` lists them.",
    )(function)  # fmt: skip


def _link_options(function: F) -> F:
    """Add options of the link: parameters `link`, `baud` and `buffer`."""
    for option in (
        click.option("--buffer", metavar="BYTES", type=int, default=512, show_default=True,
                     help="Buffer of each port, a power of two."),
        click.option("--baud", metavar="BAUD", type=int, default=1_000_000, show_default=True,
                     help="Bits a second, at most a quarter of the clock; with spi an eighth."),
        click.option("--link", type=click.Choice(["uart", "spi", "udp"]), default="uart",
                     show_default=True,
                     help="Port to the host: serial (rx and tx), SPI, or UDP over Ethernet."),
    ):  # fmt: skip
        function = option(function)
    return function


def _board_options(function: F) -> F:
    """Add options of a board: parameters `divide`, `memory_ratio`, `pin` and `address`."""
    function = _address_options(function)
    for option in (
        click.option("--memory-ratio", "memory_ratio", type=click.Choice(["1", "2"]), default="1",
                     show_default=True, callback=lambda _context, _option, value: int(value),
                     help="Cycles of the SDRAM in a cycle of the design."),
        click.option("--pin", metavar="PORT=PIN", multiple=True, callback=_pins,
                     help="Another pin of the package for a port of the link; repeatable."),
        click.option("--divide", metavar="N", type=int, default=1, show_default=True,
                     help="Divide the clock of the board by this: 1, 2, 4, 8 or 16."),
    ):  # fmt: skip
        function = option(function)
    return function


def _address_options(function: F) -> F:
    """Add addresses of a board in a network, as one parameter `address`; None if none is named."""

    @wraps(function)
    def command(*arguments: Any, address: str | None, mac: str | None, **options: Any) -> Any:
        from hwgen.board.datagrams import ADDRESS, Address

        asked = address is not None or mac is not None
        if asked and options["link"] != "udp":
            raise click.UsageError("--address and --mac are for --link udp")
        whole = Address.of(address or ADDRESS.ip, mac or ADDRESS.mac) if asked else None
        return function(*arguments, address=whole, **options)

    for option in (
        click.option("--mac", metavar="MAC",
                     help="MAC address of the board, with --link udp."),
        click.option("--address", metavar="IP:PORT",
                     help="IPv4 address and UDP port of the board, with --link udp."),
    ):  # fmt: skip
        command = option(command)
    return cast(F, command)


_FASTEST = 0.0
"""Value of ``--clock auto``."""


def _clock(context: click.Context, option: click.Parameter, value: str | None) -> float | None:
    """Return the clock of ``--clock`` in MHz."""
    if value is None or value == "auto":
        return None if value is None else _FASTEST
    try:
        clock_mhz = float(value)
    except ValueError:
        clock_mhz = -1.0
    if not 0 < clock_mhz <= 1000:
        text = f"must be a frequency in MHz, at most 1000, or auto, not {value!r}"
        raise click.BadParameter(text, context, option)
    return clock_mhz


def _port_options(function: F) -> F:
    """Add options of a board that is used: parameters `clock_mhz` and `port`."""
    for option in (
        click.option("--port", metavar="PORT", default="simulation", show_default=True,
                     help="Port /dev/ttyUSB1, /dev/spidev0.0, udp://192.168.1.50, ...; or"
                     " simulation, of the design that these options give, not of a bitstream."),
        click.option("--clock", "clock_mhz", metavar="MHZ", callback=_clock,
                     help="A clock of the board's PLL in MHz."),
    ):  # fmt: skip
        function = option(function)
    return function


def _check_clock(clock_mhz: float | None, remedy: str) -> None:
    """Refuse ``--clock auto`` of a command that places nothing."""
    if clock_mhz == _FASTEST:
        raise click.UsageError(f"--clock auto is for build; {remedy}")


def _pins(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """Return the pins of ``--pin`` by port."""
    pins: dict[str, str] = {}
    for value in values:
        port, equals, pin = value.partition("=")
        if not (port and equals and pin):
            raise click.BadParameter(f"must be PORT=PIN, not {value!r}", context, option)
        if port in pins:
            raise click.BadParameter(f"{port} is assigned twice", context, option)
        pins[port] = pin
    return pins


@click.group(
    cls=AliasedGroup,
    epilog=example("hwgen board build --board icebreaker -c configs/boards/digits.yaml -o build/x"),
)
def command() -> None:
    """Put a core or an engine on an FPGA board: design, bitstream, loading."""


@command.command("list", epilog=example("hwgen board list"))
@json_option
def list_command(as_json: bool) -> None:
    """List the boards that there are, with device, clock and pins."""
    from hwgen.board.registry import boards

    entries = [_entry(name) for name in boards()]
    if as_json:
        emit_json(entries)
        return
    headings = ("board", "device", "LUTs", "package", "MHz", "rx", "tx", "led", "button")
    table = new_table(*headings, left=_LEFT)
    for entry in entries:
        if "problem" in entry:
            console(stderr=True).print(entry["problem"], soft_wrap=True)
            continue
        pins = entry["pins"]
        table.add_row(
            entry["name"], entry["device"], _luts(entry["device"]), entry["package"],
            f"{entry['clock']['mhz']:g}",
            *(pins.get(port, "-") for port in ("rx", "tx", "led", "button")),
        )  # fmt: skip
    console().print(table)


_LEFT = ("device", "package", "rx", "tx", "led", "button")


def _luts(device: str) -> str:
    """Return the number of look-up tables of a device."""
    from hwgen.technologies.utilization import of

    try:
        return f"{of(device)[1].luts:,}"
    except KeyError:  # a board of a package whose technology is not installed
        return "-"


def _entry(name: str) -> dict[str, Any]:
    """Return a board as JSON values."""
    from hwgen.board.registry import board
    from hwgen.errors import InputError

    try:
        data: BoardData = board(name)
    except InputError as error:  # the file of one package must not hide the others
        return {"name": name, "problem": str(error)}
    return {**data.model_dump(mode="json", exclude_none=True), "pins": data.pins}


@command.command(
    "build", epilog=example("hwgen board build --board icebreaker -c tour.yaml -o build/tour")
)
@_board_option
@config_option
@_link_options
@_board_options
@click.option("--recipe", metavar="NAME", help="How to map: dsp or logic; see hwgen synth.")
@click.option("--clock", "clock_mhz", metavar="MHZ", callback=_clock,
              help="Clock by the PLL in MHz; auto: the fastest that is met.")  # fmt: skip
@click.option("--seeds", type=click.IntRange(1, 1000), default=4, show_default=True, metavar="N",
              help="Run seeds 1 to N of place and route, and pack the fastest.")  # fmt: skip
@click.option("--no-cache", is_flag=True, help="Do not use results of earlier runs.")
@path_option("--output", "DIR", "Directory for design, pins, bitstream and reports.", required=True)
@force_option
@json_option
def build_command(
    name: str,
    config: Path,
    link: Link,
    baud: int,
    buffer: int,
    divide: int,
    memory_ratio: int,
    pin: dict[str, str],
    address: Address | None,
    recipe: str | None,
    clock_mhz: float | None,
    seeds: int,
    no_cache: bool,
    output: Path,
    force: bool,
    as_json: bool,
) -> None:
    """Make the bitstream of a core for a board.

    The core gets a port to a host, a bridge between it and its streams, pins and reset. A design
    that does not fit is refused before synthesis; without a seed that meets the clock nothing is
    written.
    """
    from flows.board.build import build_board, build_fastest, check_fit

    options = {"baud": baud, "divider": divide, "buffer_bytes": buffer}
    design = _design(name, config, link, pin, clock_mhz, memory_ratio, address, **options)
    estimate = check_fit(design)
    if not as_json:
        click.echo(_needs(estimate), err=True)
        _warn_of_clock(design, estimate)
    build = build_fastest if clock_mhz == _FASTEST else build_board
    with atomic_directory(output, force=force) as staging:
        with task_progress("making the bitstream", quiet=as_json) as update:
            built = build(
                design, seeds=seeds, recipe=recipe, use_cache=not no_cache, on_progress=update
            )
        for file, content in built.files.items():
            (staging / file).write_bytes(content)
    if as_json:
        emit_json(built.document)
    else:
        _print(built, output)


def _design(
    name: str,
    config: Path,
    link: Link,
    pins: dict[str, str],
    clock_mhz: float | None = None,
    memory_ratio: int = 1,
    address: Address | None = None,
    **options: Any,
) -> BoardDesign:
    from flows.board.build import pll_of
    from flows.board.design import BoardDesign
    from flows.build.load import load_design
    from hwgen.board.registry import board

    data, design = board(name).with_pins(link, pins), load_design(config)
    target = design.params.target
    if memory_ratio > 1 and not design.core.buses:
        raise click.UsageError(
            f"--memory-ratio is for engines on memory; {design.name} has streams"
        )
    pll = None if clock_mhz in (None, _FASTEST) else pll_of(data, clock_mhz)
    if pll is not None and clock_mhz is not None and pll.hz < 0.98e6 * clock_mhz:
        click.echo(
            f"note: the clock is {pll.hz / 1e6:g} MHz, the fastest below {clock_mhz:g} MHz that the"
            f" PLL of {name} makes",
            err=True,
        )
    targets = (target.technology, target.device)
    if "target" in design.params.model_fields_set and data.device not in targets:
        click.echo(
            f"note: the target of {config}, {target.technology} at {target.clock_mhz:g} MHz, is not"
            f" used: {name} has {data.device}, and a clock of its own",
            err=True,
        )
    if address is not None:
        options["address"] = address
    return BoardDesign(design, data, link=link, pll=pll, memory_ratio=memory_ratio, **options)


def _warn_of_clock(design: BoardDesign, estimate: Mapping[str, Any]) -> None:
    """Warn, before anything takes minutes, of a clock that is not reached by estimate."""
    fmax = estimate["metrics"]["fmax_mhz"]
    if fmax is not None and fmax < design.clock_mhz:
        within = estimate["certainty"]["fmax_mhz"].get("within") or 0.0
        click.echo(
            f"warning: the clock of {design.clock_mhz:g} MHz is not reached by estimate: Fmax is"
            f" {fmax:.1f} MHz" + (f", ± {100 * within:.1f} %" if within else "")
            + "; --clock auto finds the fastest that is met",
            err=True,
        )  # fmt: skip


def _print(built: BoardBuild, output: Path) -> None:
    from hwgen.board.model import LINKS

    design, best, out = built.design, built.result.best, console()
    out.print(headed(design.design.name, f" on {design.board.name} ({design.board.device})"))
    estimated = built.estimate["metrics"]["fmax_mhz"]
    beside = "" if estimated is None else f", {estimated:.1f} by estimate"
    out.print(
        f"  clock {design.clock_mhz:g} MHz, reached {best.fmax_mhz:.1f} MHz with seed {best.seed}"
        f"{beside}"
    )
    reached = ", ".join(
        "-" if seed.fmax_mhz is None else f"{seed.fmax_mhz:.1f}" for seed in built.result.seeds
    )
    out.print(f"  seeds 1 to {len(built.result.seeds)}: {reached} MHz")
    for clock_mhz, fmax_mhz in built.tried:
        out.print(f"  tried {clock_mhz:g} MHz: {fmax_mhz or 0:.1f} MHz")
    table = new_table("  routed", "used", "there", "share")
    for resource, row in built.result.utilization.items():
        share = f"{100 * row['used'] / row['available']:.1f} %"
        table.add_row(f"  {resource}", f"{row['used']:,}", f"{row['available']:,}", share)
    out.print(table)
    out.print("by estimate, before synthesis:")
    print_device(built.estimate["device"])
    link, ports = design.link, design.board.pins_of(design.link)
    pins = ", ".join(f"{port} {ports[port]}" for port in LINKS[link])
    note = design.board.of_link(link).note
    rate = design.address.url if link == "udp" else f"{design.baud} bits a second"
    out.print(f"  {link}: {rate}, pins {pins}: {note}", soft_wrap=True)
    out.print(f"bitstream: {output / built.bitstream_name}", soft_wrap=True)


def _needs(estimate: Mapping[str, Any]) -> str:
    """Return in a line what a design takes by estimate, of what its device has most too little."""
    rows = {
        name: row for name, row in estimate["device"]["resources"].items()
        if row["used"] is not None and row["share"] is not None
    }  # fmt: skip
    name = max(rows, key=lambda each: rows[each]["share"])
    fmax = estimate["metrics"]["fmax_mhz"]
    speed = "no Fmax is known" if fmax is None else f"Fmax {fmax:.1f} MHz"
    row = rows[name]
    return f"by estimate: {row['used']:,} of {row['available']:,} {NAMES[name]}, {speed}"


@command.command("estimate", epilog=example("hwgen board estimate --board icebreaker -c tour.yaml"))
@_board_option
@config_option
@_link_options
@_board_options
@click.option("--clock", "clock_mhz", metavar="MHZ", callback=_clock,
              help="Clock by the PLL in MHz; default that of the oscillator.")  # fmt: skip
@json_option
def estimate_command(
    name: str, config: Path, link: Link, baud: int, buffer: int, divide: int, memory_ratio: int,
    pin: dict[str, str],
    address: Address | None,
    clock_mhz: float | None, as_json: bool,
) -> None:  # fmt: skip
    """Estimate what a core and all that a board needs around it take of its device.

    Exit status 1 if it does not fit. Nothing is synthesized.
    """
    from flows.board.build import estimate_board

    _check_clock(clock_mhz, "estimate takes a clock in MHz")
    options = {"baud": baud, "divider": divide, "buffer_bytes": buffer}
    design = _design(name, config, link, pin, clock_mhz, memory_ratio, address, **options)
    estimate = estimate_board(design)
    device = estimate["device"]
    if as_json:
        emit_json(estimate)
    else:
        out = console()
        out.print(headed(design.design.name, f" on {design.board.name} ({design.board.device})"))
        fmax = estimate["metrics"]["fmax_mhz"]
        reached = "no Fmax is known" if fmax is None else f"Fmax {fmax:.1f} MHz by estimate"
        out.print(f"  clock {design.clock_mhz:g} MHz, {reached}")
        print_device(device)
        _warn_of_clock(design, estimate)
    if not device[FITS]:
        click.get_current_context().exit(1)


@command.command(
    "load", epilog=example("hwgen board load --board icebreaker build/tour/tour_board.bin")
)
@_board_option
@click.argument(
    "bitstream", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--flash", is_flag=True, help="Write it into the flash memory of the board.")
def load_command(name: str, bitstream: Path, flash: bool) -> None:
    """Load the bitstream FILE into a board with openFPGALoader."""
    from flows.board.load import load_board
    from hwgen.board.registry import board

    load_board(board(name), bitstream, flash=flash)
    console().print(f"{bitstream} is loaded into {name}", soft_wrap=True)


@command.command(
    "wrap", epilog=example("hwgen board wrap -c tour.yaml --pinout chip.yaml -o build/chip")
)
@config_option
@file_option("--pinout", "Pins of the chip (YAML); docs/boards.md has one.", required=True)
@_link_options
@path_option("--output", "DIR", "Directory for the design.", required=True)
@force_option
@json_option
def wrap_command(
    config: Path, pinout: Path, link: Link, baud: int, buffer: int, output: Path,
    force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Write a core with a port to a host as a chip with few pins.

    The top module has the ports of the pinout, such as those of a tile of a shared chip.
    """
    design = _chip(config, pinout, link, baud=baud, buffer_bytes=buffer)
    _write(design.files, output, force=force)
    if as_json:
        emit_json(json.loads(design.files["chip.json"]))
        return
    pins = ", ".join(f"{name} {wire}" for name, wire in design.wires.items())
    console().print(
        f"{design.design.name} as {design.name} with {len(design.wires)} pins at"
        f" {design.clock_mhz:g} MHz: {pins}\ndesign: {output / design.name}.v",
        soft_wrap=True,
    )


def _chip(config: Path, pinout: Path, link: Link, **options: Any) -> ChipDesign:
    from flows.board.chip import ChipDesign
    from flows.build.load import load_design
    from hwgen.board.pinout import load_pinout

    return ChipDesign(load_design(config), load_pinout(pinout), link=link, **options)


@command.command(
    "litex", epilog=example("hwgen board litex -c configs/gemm_stream.yaml -o build/litex")
)
@config_option
@path_option("--output", "DIR", "Directory for module, Verilog, driver and SoC.", required=True)
@force_option
def litex_command(config: Path, output: Path, force: bool) -> None:
    """Write an engine on memory as a module for SoCs of LiteX, with its C driver and a SoC."""
    from flows.board.litex import MODULE, litex_files
    from flows.board.litex_test import SOC
    from flows.build.load import load_design

    files = litex_files(load_design(config))
    _write(files, output, force=force)
    console().print(
        f"{output / MODULE}: `from {Path(MODULE).stem} import add_engine`, then `add_engine(soc)`\n"
        f"{output / SOC}: a SoC whose processor tests the engine, simulated or for a board",
        soft_wrap=True,
    )


@command.command(
    "vivado",
    epilog=example("hwgen board vivado --board pynq-z2 -c configs/gemm_stream.yaml -o build/z2"),
)
@click.option("--board", "name", metavar="NAME", required=True,
              type=click.Choice(["arty-a7", "pynq-z2", "kv260"]),
              help="A board: arty-a7, pynq-z2 or kv260.")  # fmt: skip
@config_option
@click.option("--clock", "clock_mhz", metavar="MHZ", type=float, default=100.0, show_default=True,
              help="Frequency of the engine in MHz.")  # fmt: skip
@path_option("--output", "DIR", "Directory for the project.", required=True)
@force_option
def vivado_command(name: str, config: Path, clock_mhz: float, output: Path, force: bool) -> None:
    """Write an engine on memory as a project of Vivado, with drivers in C and Python.

    It has packaged IP, a script that makes the block design and the bitstream, constraints, and an
    overlay of the device tree.
    """
    from flows.board.vivado.boards import BOARDS
    from flows.board.vivado.package import vivado_files
    from flows.build.load import load_design

    files = vivado_files(load_design(config), BOARDS[name], clock_mhz)
    _write(files, output, force=force)
    console().print(f"{output}: vivado -mode batch -source {output / 'build.tcl'}", soft_wrap=True)


def _write(files: dict[str, str], output: Path, *, force: bool) -> None:
    with atomic_directory(output, force=force) as staging:
        for file, content in files.items():
            (staging / file).parent.mkdir(parents=True, exist_ok=True)
            (staging / file).write_text(content, encoding="utf-8")


@command.command(
    "test", epilog=example("hwgen board test --board icebreaker -c tour.yaml --port simulation")
)
@click.option("--board", "name", metavar="NAME", type=BoardName(),
              help="A board; `hwgen board list` lists them.")  # fmt: skip
@file_option("--pinout", "In place of a board: pins of a chip (YAML), as for wrap.")
@config_option
@_link_options
@_board_options
@_port_options
@click.option(
    "--seed", type=int, default=0, show_default=True, metavar="N", help="Of the operands."
)
@json_option
def test_command(
    name: str | None,
    pinout: Path | None,
    config: Path,
    link: Link,
    baud: int,
    buffer: int,
    divide: int,
    memory_ratio: int,
    pin: dict[str, str],
    address: Address | None,
    clock_mhz: float | None,
    port: str,
    seed: int,
    as_json: bool,
) -> None:
    """Run a random job of a core on a board, or on the simulated one, and compare the results."""
    from flows.board.jobs import SIMULATION, random_job_on

    if (name is None) == (pinout is None):
        raise click.UsageError("either --board or --pinout is needed")
    design: Surroundings
    if pinout is not None:
        if pin or divide != 1 or memory_ratio != 1 or (clock_mhz, address) != (None, None):
            raise click.UsageError(
                "--pin, --divide, --memory-ratio, --clock and --address are options of boards"
            )
        design = _chip(config, pinout, link, baud=baud, buffer_bytes=buffer)
    else:
        assert name is not None
        _check_clock(clock_mhz, "test takes the clock of its report")
        options = {"baud": baud, "divider": divide, "buffer_bytes": buffer}
        design = _design(name, config, link, pin, clock_mhz, memory_ratio, address, **options)
    done = random_job_on(design, None if port == SIMULATION else port, seed)
    if as_json:
        emit_json(done)
    else:
        resent = f", requests sent again: {done['resent']}" if done["resent"] else ""
        console().print(
            f"{done['job']} on {done['where']}: {done['results']} results equal the golden model,"
            f" {done['seconds']:.3g} s{' by simulated time' * (done['where'] == SIMULATION)}"
            f"{resent}",
            soft_wrap=True,
        )


@command.command(
    "run",
    epilog=example(
        'hwgen board run --board ulx3s-85f -c decoder.yaml --model austen --prompt "Emma"'
    ),
)
@_board_option
@config_option
@path_option("--model", "DIR", "A quantised decoder, or one compiled for the configuration.",
             required=True)  # fmt: skip
@click.option("--prompt", metavar="TEXT", help="What to continue; special tokens may stand in it.")
@path_option(
    "--prompt-tokens",
    "FILE.npy",
    "Tokens to continue by number, of a model without a tokenizer.",
)
@click.option("--tokens", "count", metavar="N", type=click.IntRange(1, 1 << 20), default=16,
              show_default=True, help="Most tokens to write; the text may end before.")  # fmt: skip
@_link_options
@_board_options
@_port_options
@json_option
def run_command(
    name: str,
    config: Path,
    model: Path,
    prompt: str | None,
    prompt_tokens: Path | None,
    count: int,
    link: Link,
    baud: int,
    buffer: int,
    divide: int,
    memory_ratio: int,
    pin: dict[str, str],
    address: Address | None,
    clock_mhz: float | None,
    port: str,
    as_json: bool,
) -> None:
    """Continue a text by a decoder on a board, or on the simulated one.

    The weights go into the board's memory first; that of a simulated board begins with them. The
    host has the tokenizer, and the board writes the most likely tokens.
    """
    from flows.board.jobs import SIMULATION
    from flows.board.text import compiled_for, continue_on, encode
    from hwgen.cli.model.run import token_numbers

    if (prompt is None) == (prompt_tokens is None):
        raise click.UsageError("give either --prompt or --prompt-tokens")
    _check_clock(clock_mhz, "run takes the clock of its report")
    options = {"baud": baud, "divider": divide, "buffer_bytes": buffer}
    design = _design(name, config, link, pin, clock_mhz, memory_ratio, address, **options)
    with (
        tempfile.TemporaryDirectory(prefix="hwgen-board-") as directory,
        task_progress("running", quiet=as_json) as update,
    ):
        compiled = compiled_for(design.design.core, model, Path(directory))
        if prompt is None:
            tokenizer, tokens = None, token_numbers(prompt_tokens)
        else:
            tokenizer, tokens = encode(compiled, prompt)
        simulated = port == SIMULATION
        done = continue_on(design, None if simulated else port, compiled, tokens, count, update)
    text = tokenizer.decode(done.tokens) if tokenizer else ""
    if as_json:
        emit_json({
            "model": compiled.document["name"], "board": name, "where": done.where,
            "prompt_tokens": tokens, "tokens": done.tokens, "text": text,
            "seconds": done.seconds, "resent": done.resent,
        })  # fmt: skip
        return
    click.echo(f"{prompt}{text}" if tokenizer else " ".join(map(str, done.tokens)))
    resent = f", requests sent again: {done.resent}" if done.resent else ""
    console().print(
        f"{len(done.tokens)} tokens on {done.where}: {done.seconds:.3g} s"
        f"{' by simulated time' * simulated}, the prompt included{resent}",
        soft_wrap=True,
    )
