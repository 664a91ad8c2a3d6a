# SPDX-License-Identifier: Apache-2.0
"""Place and route with nextpnr over several seeds, results kept on disk seed by seed.

One run of nextpnr says little: another seed moves the maximum frequency by ten per cent and more.
`place_and_route` therefore reports the distribution over seeds.  nextpnr has an out-of-context mode
for one of its families only, and there without global clocks; instead a core is placed inside a
frame of registers (`flows.register_frame`), which works alike for all.
"""

from __future__ import annotations

import hashlib
import json
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows import devices, fpga, outline, process, register_frame
from flows import standard_cells as synthesis
from flows.cache import Entry, digest
from flows.devices import choose, options, placed, placer
from flows.kept import CLOCK, sources_digest, tool_versions
from flows.netlists import emitted, known, source_digest
from flows.parallel import run_all
from flows.result import Io, PnrResult, SeedResult
from flows.synth import check_clock, check_recipe
from flows.toolchain import require
from hwgen.errors import CheckFailed, HwgenError, InputError
from hwgen.technologies import fpga_family
from hwgen.technologies.model import PlaceAndRoute

if TYPE_CHECKING:
    from hwgen.config.model import FamilyConfig

TIMEOUT = 4 * 3600.0
"""Seconds for one run of nextpnr."""

SEEDS = (1, 1000)
"""Bounds of the number of seeds."""

_FULL = re.compile(r"no BELs remaining|[Uu]nable to (place|find)|not enough|[Tt]oo many")
"""How nextpnr says that a design does not fit."""


@dataclass(frozen=True)
class _Job:
    """What the runs of all seeds share."""

    placer: PlaceAndRoute
    device: str
    package: str
    speed: str
    clock_mhz: float
    netlist: bytes
    pins: str | None
    tools: Mapping[str, str]
    timeout: float

    def entry(self, seed: int) -> Entry:
        """Return where the cache has a seed's result."""
        netlist = hashlib.sha256(self.netlist).hexdigest()
        placer = self.placer.model_dump_json(exclude={"devices", "device", "dsp_devices"})
        parts = [netlist, placer, self.device, self.package, self.speed]
        tool = self.tools[self.placer.tool]
        return Entry("pnr", digest([*parts, self.clock_mhz, self.pins, tool, _sources(), seed]))


def place_and_route(
    design: FamilyConfig | str,
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
    on_progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> PnrResult:
    """Synthesize a design for an FPGA, place it and route it.

    Parameters
    ----------
    design : FamilyConfig or str
        A configuration, or the text of Verilog modules.
    target : str
        An FPGA family with place and route.
    top, clock : str
        Top module and clock port of Verilog.
    device, package, speed : str, optional
        As nextpnr calls them; default the largest device, its first package, its slowest speed.
    clock_mhz : float, optional
        What to aim at; default that of the configuration.
    recipe : str, optional
        A key of `flows.fpga.RECIPES`; default that of the family.
    seeds : int
        Seeds 1 to this are run.
    io : {"frame", "pins"}
        Whether registers surround the core, or its ports are pins.
    pins : str, optional
        Text that assigns pins (LPF or PCF); those that it leaves out, nextpnr chooses.
    use_cache, jobs, on_progress
        As those of `flows.synth.synthesize`.
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
    chosen = placer(target)
    device, package, speed = choose(target, device, package, speed)
    check_recipe(recipe, fpga.RECIPES, target)
    recipe = recipe or fpga_family(target).recipe
    if recipe == "dsp" and not fnmatchcase(device, chosen.dsp_devices):
        have = [name for name in chosen.devices if fnmatchcase(name, chosen.dsp_devices)]
        raise InputError(f"the {device} has no DSP blocks; there are some in {', '.join(have)}")
    if not SEEDS[0] <= seeds <= SEEDS[1]:
        raise InputError(f"the number of seeds must be {SEEDS[0]}..{SEEDS[1]}, not {seeds}")
    if io == "frame" and pins is not None:
        raise InputError("pins are assigned to a core without a frame: use --io pins")
    clock_mhz = check_clock(design, clock_mhz)
    require("yosys")
    require(chosen.tool)
    tools = tool_versions(("yosys", chosen.tool))
    if isinstance(design, str):
        verilog = design
        if not top:
            raise InputError("the top module of the Verilog must be named")
    else:
        verilog, top = emitted(design), design.name
    on_progress("synthesis", 0, seeds + 1)
    netlist, frame, source = _netlist(
        verilog, top, clock, target, recipe, tools, framed=io == "frame", use_cache=use_cache
    )
    on_progress("synthesis", 1, seeds + 1)
    job = _Job(chosen, device, package, speed, clock_mhz, netlist, pins, tools, timeout)
    done = 1

    def follow(index: int, result: Any) -> None:
        nonlocal done
        done += 1
        on_progress(f"seed {index + 1}", done, seeds + 1)

    work = [partial(_seed, job, seed, use_cache=use_cache) for seed in range(1, seeds + 1)]
    outcomes = run_all(work, jobs, follow)
    results = tuple(outcome for outcome, _, _ in outcomes)
    good = [outcome for outcome in outcomes if outcome[0].failure is None]
    if not good:
        text = results[0].failure or "no seed succeeded"
        if _FULL.search(text):
            text += f"\nThe {device} may be too small: choose a larger device, or a smaller core"
        raise CheckFailed(text)
    figures = [seed.fmax_mhz for seed in results if seed.fmax_mhz is not None]
    files = {"netlist.json": netlist}
    for _, _, kept in outcomes:
        files.update(kept)
    found = PnrResult(
        name=top,
        target=target,
        device=device,
        package=package,
        speed_grade=speed or None,
        recipe=recipe,
        clock_target_mhz=clock_mhz,
        io=io,
        fmax_min_mhz=min(figures, default=None),
        fmax_median_mhz=statistics.median(figures) if figures else None,
        fmax_max_mhz=max(figures, default=None),
        seeds=results,
        utilization=good[0][1],
        frame_flip_flops=frame.flip_flops if frame else None,
        frame_luts=frame.luts if frame else None,
        tools=tools,
        wall_seconds=round(sum(seed.wall_seconds for seed in results), 3),
        source_digest=source_digest(source),
        netlist_digest=hashlib.sha256(netlist).hexdigest(),
        files=files,
    )
    kind = _kind(target, source_digest(verilog))
    Entry(kind, _key(found, pins, tools)).write({"result": found.document(), "pins": pins}, {})
    return found


def recorded(config: FamilyConfig, target: str) -> list[PnrResult]:
    """Return the kept results of a configuration on an FPGA family, the latest last, without files.

    Nothing is run.  Each is of the last run for that device, package, speed, clock and so on, and
    would come out again with the tools that are there.
    """
    verilog = known(config)
    if verilog is None or target not in placed():
        return []
    found: list[PnrResult] = []
    entries = Entry.all(_kind(target, verilog))
    if not entries:
        return found
    tools = tool_versions(("yosys", placer(target).tool))
    for entry in entries:
        document = entry.read()
        with suppress(KeyError, TypeError, HwgenError):  # damaged, or of another version
            result = PnrResult.of_document(document["result"])
            if Entry(entry.kind, _key(result, document["pins"], tools)).name == entry.name:
                found.append(result)
    return found


def _kind(target: str, verilog: str) -> str:
    return f"pnr-of/{target}/{verilog[:32]}"


def _key(result: PnrResult, pins: str | None, tools: Mapping[str, str]) -> str:
    """Return what a result is kept under: everything that shapes it but the seeds."""
    where = [result.target, result.device, result.package, result.speed_grade]
    how = [result.recipe, result.clock_target_mhz, result.io, pins]
    return digest([*where, *how, result.netlist_digest, dict(tools), _sources(), sources_digest()])


def _sources() -> list[str]:
    """Return the sources that drive nextpnr."""
    return [Path(name).read_text(encoding="utf-8") for name in (__file__, devices.__file__)]


def bitstream(result: PnrResult, timeout: float = TIMEOUT) -> bytes:
    """Return the bitstream of the fastest seed.

    Raises
    ------
    ToolMissing
        If the packer of the family is missing.
    CheckFailed
        If it fails.
    """
    chosen = placer(result.target)
    packer = require(chosen.packer)
    with tempfile.TemporaryDirectory(prefix="hwgen-pack-") as name:
        work = Path(name)
        (work / "routed").write_bytes(result.files[f"seed{result.best.seed}.routed"])
        process.run(packer, ["routed", "core.bit"], work, "pack.log", timeout)
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
            found = outline.outline(yosys, top, work, synthesis.TIMEOUT)
            if clock not in found.ports:
                raise InputError(f"{top} has no port {clock} that could be its clock")
            frame = register_frame.frame(top, found.ports, clock)
            verilog, top = verilog + frame.text, frame.top
        mapped_as = [top, fpga_family(target).mapping, recipe, tools["yosys"]]
        key = digest([source_digest(verilog), *mapped_as, sources_digest()])
        entry = Entry("pnr-netlist", key)
        files = entry.files() if use_cache else {}
        if "netlist.json" not in files:
            family = fpga_family(target)
            fpga.map_fpga(yosys, verilog, top, family, recipe, (), work, synthesis.TIMEOUT)
            files = {"netlist.json": (work / "netlist.json").read_bytes()}
            entry.write({}, files)
    return files["netlist.json"], frame, verilog


def _seed(
    job: _Job, seed: int, *, use_cache: bool
) -> tuple[SeedResult, dict[str, dict[str, int]], dict[str, bytes]]:
    """Return the result of one seed, what the device has and what is used, and the files."""
    entry = job.entry(seed)
    if use_cache and (document := entry.read()) is not None:
        with suppress(KeyError, TypeError):
            files = entry.files()
            if files:
                return SeedResult(**document["seed"]), document["utilization"], files
    start = time.monotonic()
    tool = require(job.placer.tool)
    stem = f"seed{seed}"
    with tempfile.TemporaryDirectory(prefix="hwgen-pnr-") as name:
        work = Path(name)
        (work / "netlist.json").write_bytes(job.netlist)
        arguments = [
            *options(job.device, job.package, job.speed),
            "--json", "netlist.json", "--freq", f"{job.clock_mhz:g}", "--seed", str(seed),
            "--timing-allow-fail", "--report", "report.json", job.placer.routed, "routed",
            job.placer.free_pins,
        ]  # fmt: skip
        if job.pins is not None:
            (work / "pins").write_text(job.pins, encoding="utf-8")
            arguments += [job.placer.pins, "pins"]
        result = SeedResult(seed, None, None, None, None, None, 0.0)
        try:
            process.run(tool, arguments, work, "log", job.timeout)
        except CheckFailed as error:
            failed = replace(result, failure=str(error), wall_seconds=_since(start))
            return failed, {}, {f"{stem}.log": (work / "log").read_bytes()}
        report = json.loads((work / "report.json").read_text(encoding="utf-8"))
        result = replace(result, **_timing(report), wall_seconds=_since(start))
        used = {
            name: {"used": int(row["used"]), "available": int(row["available"])}
            for name, row in report["utilization"].items()
            if row["used"]
        }
        files = {
            f"{stem}.log": (work / "log").read_bytes(),
            f"{stem}.report.json": (work / "report.json").read_bytes(),
            f"{stem}.routed": (work / "routed").read_bytes(),
        }
    entry.write({"seed": asdict(result), "utilization": used}, files)
    return result, used, files


def _since(start: float) -> float:
    return round(time.monotonic() - start, 3)


def _timing(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return frequency, delay and ends of the critical path between registers."""
    clocks = report["fmax"]
    if not clocks:
        return {}
    worst = min(clocks, key=lambda name: clocks[name]["achieved"])
    found: dict[str, Any] = {
        "fmax_mhz": clocks[worst]["achieved"],
        "critical_path_ns": 1000 / clocks[worst]["achieved"],
    }
    edge = re.compile(rf"(posedge|negedge) {re.escape(worst)}")
    for path in report["critical_paths"]:
        if edge.fullmatch(path["from"]) and edge.fullmatch(path["to"]):
            found["path_start"] = _signal(path["path"][0]["from"]["cell"])
            found["path_end"] = _signal(path["path"][-1]["to"]["cell"])
    return found


def _signal(cell: str) -> str:
    """Return the signal that a cell was named for by Yosys, without the frame."""
    return re.sub(r"_(SB_|TRELLIS_FF|MULT18|DP16K|CCU2C|LUT4).*|\$.*", "", cell).removeprefix(
        "core."
    )
