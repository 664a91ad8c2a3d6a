# SPDX-License-Identifier: Apache-2.0
"""Place and route with nextpnr over several seeds, results kept on disk seed by seed.

One run of nextpnr says little: another seed moves the maximum frequency by ten per cent and more.
`place_and_route` therefore reports the distribution over seeds.  nextpnr has an out-of-context mode
for one of its families only, and there without global clocks; instead a core is placed inside a
frame of registers (`flows.pnr.register_frame`), which works alike for all.
"""

from __future__ import annotations

import hashlib
import json
import re
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from flows.build.design import Design
from flows.pnr import register_frame
from flows.pnr.devices import choose, filled, placed, placer
from flows.pnr.log_progress import SeedProgress
from flows.pnr.nextpnr import Job, Outcome, Part, run_seed, sources
from flows.synthesis import fpga, outline
from flows.synthesis import standard_cells as synthesis
from flows.synthesis.result import Io, PnrResult
from flows.synthesis.synth import check_clock, check_recipe
from flows.synthesis.synth_cache import CLOCK, sources_digest, tool_versions
from flows.tools import process
from flows.tools.cache import Archive, digest, text_digest
from flows.tools.parallel import run_all
from flows.tools.toolchain import Installation, require
from hwgen.errors import CheckFailed, HwgenError, InputError
from hwgen.technologies import fpga_family

TIMEOUT = 4 * 3600.0
"""Seconds for one run of nextpnr."""

SEEDS = (1, 1000)
"""Bounds of the number of seeds."""

_FULL = re.compile(r"no BELs remaining|[Uu]nable to (place|find)|not enough|[Tt]oo many")
"""How nextpnr says that a design does not fit."""


def place_and_route(
    design: Design | str,
    target: str,
    *,
    top: str = "",
    clock: str = CLOCK,
    device: str | None = None,
    package: str | None = None,
    speed: str | None = None,
    clock_mhz: float | None = None,
    recipe: str | None = None,
    seeds: int = 3,
    io: Io = "frame",
    pins: str | None = None,
    use_cache: bool = True,
    jobs: int = 1,
    timeout: float = TIMEOUT,
    on_progress: Callable[[str, int, int], None] = lambda step, done, total: None,
) -> PnrResult:
    """Synthesize a design for an FPGA, place it and route it.

    Parameters
    ----------
    design : Design or str
        Of a configuration, or the text of Verilog modules.
    target : str
        An FPGA family with place and route.
    top, clock : str
        Top module and clock port of Verilog.
    device, package, speed : str, optional
        As nextpnr calls them; default the largest device, its first package, its slowest speed.
    clock_mhz : float, optional
        What to aim at; default that of the configuration.
    recipe : str, optional
        A key of `flows.synthesis.fpga.RECIPES`; default that of the family.
    seeds : int
        Seeds 1 to this are run.
    io : {"frame", "pins"}
        Whether registers surround the core, or its ports are pins.
    pins : str, optional
        Text that assigns pins (LPF or PCF); those that it leaves out, nextpnr chooses.
    use_cache, jobs, on_progress
        As those of `flows.synthesis.synth.synthesize`.
    timeout : float
        Seconds for one run of nextpnr.

    Raises
    ------
    InputError
        If an option has no such value, or options do not fit together.
    ToolMissing
        If Yosys or nextpnr is missing.
    CheckFailed
        If synthesis or every seed fails.
    """
    part = Part(target, placer(target), *choose(target, device, package, speed))
    recipe = _recipe(part, recipe)
    if not SEEDS[0] <= seeds <= SEEDS[1]:
        raise InputError(f"the number of seeds must be {SEEDS[0]}..{SEEDS[1]}, not {seeds}")
    if io == "frame" and pins is not None:
        raise InputError("pins are assigned to a core without a frame: use --io pins")
    clock_mhz = check_clock(design, clock_mhz)
    require("yosys")
    require(part.placer.tool)
    tools = tool_versions(("yosys", part.placer.tool))
    if not isinstance(design, str):
        verilog, top = design.verilog, design.name
    elif top:
        verilog = design
    else:
        raise InputError("the top module of the Verilog must be named")
    on_progress("%, synthesis", 0, 100)
    netlist, frame, source = _netlist(
        verilog, top, clock, target, recipe, tools, framed=io == "frame", use_cache=use_cache
    )
    if io == "frame":
        pins = _frame_pins(part)
    job = Job(part, clock_mhz, netlist, pins, tools, timeout)
    outcomes = _outcomes(job, seeds, jobs, on_progress, use_cache=use_cache)
    result = _result(job, outcomes, top, recipe, io, frame, text_digest(source, 64))
    kind = _cache_folder(target, text_digest(verilog, 64))
    Archive(kind, _key(result, pins, tools)).write({"result": result.document(), "pins": pins}, {})
    return result


def with_open_inputs(netlist: bytes, inputs: Mapping[str, str]) -> bytes:
    """Return a netlist of Yosys (JSON) whose cells of some kinds leave a constant input open.

    Parameters
    ----------
    netlist : bytes
    inputs : mapping
        Kind of cell: its input. What a cell without inputs drives is constant.
    """
    if not inputs:
        return netlist
    document = json.loads(netlist)
    for module in document["modules"].values():
        cells = module.get("cells", {}).values()
        constant: set[int | str] = {"0", "1", "x"}
        for cell in cells:
            if set(cell["port_directions"].values()) == {"output"}:
                constant.update(bit for bits in cell["connections"].values() for bit in bits)
        for cell in cells:
            port = inputs.get(cell["type"], "")
            if set(cell["connections"].get(port, ())) <= constant:
                cell["connections"].pop(port, None)
    return json.dumps(document).encode()


def _frame_pins(part: Part) -> str | None:
    """Return the pins of a frame, if nextpnr must be told them."""
    available = part.placer.frame_pins
    if not available:
        return None
    if part.package not in available:
        raise InputError(
            f"no pins of the {part.package} are known, and nextpnr chooses none for {part.target};"
            f" take one of {', '.join(available)}, or assign pins with --io pins --pins FILE"
        )
    ports = zip(register_frame.PORTS, available[part.package], strict=True)
    return "".join(part.placer.pin.format(port=port, pin=pin) + "\n" for port, pin in ports)


def _recipe(part: Part, recipe: str | None) -> str:
    """Return the recipe to synthesize by, which the device must be able to hold."""
    check_recipe(recipe, fpga.recipes_of(fpga_family(part.target)), part.target)
    recipe = recipe or fpga_family(part.target).recipe
    with_dsp = part.placer.dsp_devices
    if recipe != "logic" and not fnmatchcase(part.device, with_dsp):
        have = [name for name in part.placer.devices if fnmatchcase(name, with_dsp)]
        where = f"there are some in {', '.join(have)}" if have else "no device of the family has"
        raise InputError(f"the {part.device} has no DSP blocks; {where}")
    return recipe


def _outcomes(
    job: Job,
    seeds: int,
    jobs: int,
    on_progress: Callable[[str, int, int], None],
    *,
    use_cache: bool,
) -> list[Outcome]:
    """Return the outcomes of all seeds; at least one has succeeded."""
    progress = SeedProgress(seeds, on_progress)

    def run_watched(seed: int) -> Outcome:
        with process.watch_logs(partial(progress.read_log, seed)):
            return run_seed(job, seed, use_cache=use_cache)

    work = [partial(run_watched, seed) for seed in range(1, seeds + 1)]
    outcomes = run_all(work, jobs, lambda index, _: progress.finish(index + 1))
    if all(outcome.result.failure is not None for outcome in outcomes):
        text = outcomes[0].result.failure or "no seed succeeded"
        if _FULL.search(text):
            device = job.part.device
            text += f"\nThe {device} may be too small: choose a larger device, or a smaller core"
        raise CheckFailed(text)
    return outcomes


def _result(
    job: Job,
    outcomes: Sequence[Outcome],
    top: str,
    recipe: str,
    io: Io,
    frame: register_frame.Frame | None,
    source: str,
) -> PnrResult:
    """Combine the results of seeds; `source` is the digest of the Verilog."""
    seeds = tuple(outcome.result for outcome in outcomes)
    frequencies = [seed.fmax_mhz for seed in seeds if seed.fmax_mhz is not None]
    files = {"netlist.json": job.netlist}
    for outcome in outcomes:
        files.update(outcome.files)
    part = job.part
    return PnrResult(
        name=top,
        target=part.target,
        device=part.device,
        package=part.package,
        speed_grade=part.speed or None,
        recipe=recipe,
        clock_target_mhz=job.clock_mhz,
        io=io,
        fmax_min_mhz=min(frequencies, default=None),
        fmax_median_mhz=statistics.median(frequencies) if frequencies else None,
        fmax_max_mhz=max(frequencies, default=None),
        seeds=seeds,
        utilization=next(o.utilization for o in outcomes if o.result.failure is None),
        frame_flip_flops=frame.flip_flops if frame else None,
        frame_luts=frame.luts if frame else None,
        tools=job.tools,
        wall_seconds=round(sum(seed.wall_seconds for seed in seeds), 3),
        source_digest=source,
        netlist_digest=hashlib.sha256(job.netlist).hexdigest(),
        files=files,
    )


def cached_results(design: Design, target: str) -> list[PnrResult]:
    """Return the cached results of a design on an FPGA family, the latest last, without files.

    Nothing is run.  Each is of the last run for that device, package, speed, clock and so on, and
    would come out again with the tools that are there.
    """
    verilog = design.verilog_digest
    if verilog is None or target not in placed():
        return []
    entries = Archive.list(_cache_folder(target, verilog))
    if not entries:
        return []
    results: list[PnrResult] = []
    tools = tool_versions(("yosys", placer(target).tool))
    for entry in entries:
        document = entry.read()
        with suppress(KeyError, TypeError, HwgenError):  # damaged, or of another version
            result = PnrResult.of_document(document["result"])
            if Archive(entry.folder, _key(result, document["pins"], tools)).name == entry.name:
                results.append(result)
    return results


def _cache_folder(target: str, verilog: str) -> str:
    return f"pnr-of/{target}/{verilog[:32]}"


def _key(result: PnrResult, pins: str | None, tools: Mapping[str, str]) -> str:
    """Return the cache key of a result: everything that affects it except the seeds."""
    part = [result.target, result.device, result.package, result.speed_grade]
    settings = [result.recipe, result.clock_target_mhz, result.io, pins]
    return digest(
        [*part, *settings, result.netlist_digest, dict(tools), sources(), sources_digest()]
    )


def packer_of(target: str) -> Installation:
    """Return the program that makes bitstreams of an FPGA family.

    Raises
    ------
    InputError
        If hwgen knows none.
    ToolMissing
        If it is missing.
    """
    name = placer(target).packer
    if name is None:
        having = [family for family in placed() if placer(family).packer]
        raise InputError(
            f"hwgen knows no program that makes bitstreams for {target}; --output writes the routed"
            f" design. There is one for {', '.join(having)}"
        )
    return require(name)


def bitstream(result: PnrResult, timeout: float = TIMEOUT) -> bytes:
    """Return the bitstream of the fastest seed.

    Raises
    ------
    ToolMissing
        If the packer of the family is missing.
    CheckFailed
        If it fails.
    """
    chosen, packer = placer(result.target), packer_of(result.target)
    with tempfile.TemporaryDirectory(prefix="hwgen-pack-") as name:
        work = Path(name)
        (work / "routed").write_bytes(result.files[f"seed{result.best.seed}.routed"])
        arguments = filled(chosen.pack, routed="routed", bitstream="core.bit", device=result.device)
        process.run(packer, arguments, work, "pack.log", timeout)
        return (work / "core.bit").read_bytes()


def _netlist(
    verilog: str,
    top: str,
    clock: str,
    target: str,
    recipe: str,
    tools: Mapping[str, str],
    *,
    framed: bool,
    use_cache: bool,
) -> tuple[bytes, register_frame.Frame | None, str]:
    """Return the netlist for nextpnr, the frame, and the Verilog with it."""
    yosys = require("yosys")
    with tempfile.TemporaryDirectory(prefix="hwgen-pnr-") as name:
        work = Path(name)
        frame = None
        if framed:
            (work / "design.v").write_text(verilog, encoding="utf-8")
            design = outline.outline(yosys, top, work, synthesis.TIMEOUT)
            if clock not in design.ports:
                raise InputError(f"{top} has no port {clock} that could be its clock")
            frame = register_frame.frame(top, design.ports, clock)
            verilog, top = verilog + frame.text, frame.top
        chosen = placer(target)
        mapped_as = [top, fpga_family(target).mapping, recipe, tools["yosys"]]
        for_pnr = [chosen.command, dict(chosen.open_inputs)]
        key = digest([text_digest(verilog, 64), *mapped_as, *for_pnr, sources_digest()])
        entry = Archive("pnr-netlist", key)
        files = entry.files() if use_cache else {}
        if "netlist.json" not in files:
            family = fpga_family(target)
            if chosen.command:
                family = family.model_copy(update={"command": chosen.command})
            limit, whole = synthesis.TIMEOUT, chosen.command is not None
            fpga.map_fpga(yosys, verilog, top, family, recipe, (), work, limit, whole=whole)
            netlist = (work / "netlist.json").read_bytes()
            files = {"netlist.json": with_open_inputs(netlist, chosen.open_inputs)}
            entry.write({}, files)
    return files["netlist.json"], frame, verilog
