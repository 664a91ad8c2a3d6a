# SPDX-License-Identifier: Apache-2.0
"""One run of nextpnr: a netlist, a device and a seed; its result is kept on disk."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from flows.pnr import devices
from flows.pnr.devices import filled, options
from flows.synthesis.result import SeedResult
from flows.tools import process
from flows.tools.cache import Archive, digest
from flows.tools.toolchain import require
from hwgen.errors import CheckFailed
from hwgen.technologies.fpga_model import PlaceAndRoute


@dataclass(frozen=True)
class Part:
    """A device, and how nextpnr is called for it."""

    target: str
    placer: PlaceAndRoute
    device: str
    package: str
    speed: str


_NO_MATTER = {
    "devices", "device", "timed_on", "dsp_devices", "packer", "pack", "frame_pins", "pin",
    "usual_ns", "untimed",
}  # fmt: skip
"""Fields of `PlaceAndRoute` on which no result depends, other than by the netlist and the pins."""


@dataclass(frozen=True)
class Job:
    """Settings that the runs of all seeds share."""

    part: Part
    clock_mhz: float
    netlist: bytes
    pins: str | None
    tools: Mapping[str, str]
    timeout: float

    def entry(self, seed: int) -> Archive:
        """Return the cache entry of a seed's result."""
        part = self.part
        netlist = hashlib.sha256(self.netlist).hexdigest()
        placer = part.placer.model_dump_json(exclude=_NO_MATTER)
        shared = [netlist, placer, part.device, part.package, part.speed]
        tool = self.tools[part.placer.tool]
        return Archive("pnr", digest([*shared, self.clock_mhz, self.pins, tool, sources(), seed]))


class Outcome(NamedTuple):
    """The result of one seed, what the device has and what is used, and the files."""

    result: SeedResult
    utilization: dict[str, dict[str, int]]
    files: dict[str, bytes]


def sources() -> list[str]:
    """Return the sources that drive nextpnr."""
    return [Path(name).read_text(encoding="utf-8") for name in (__file__, devices.__file__)]


def run_seed(job: Job, seed: int, *, use_cache: bool) -> Outcome:
    """Return the outcome of one seed, from the cache if it is there."""
    entry = job.entry(seed)
    if use_cache and (document := entry.read()) is not None:
        with suppress(KeyError, TypeError):
            files = entry.files()
            if files:
                return Outcome(SeedResult(**document["seed"]), document["utilization"], files)
    start = time.monotonic()
    tool = require(job.part.placer.tool)
    stem = f"seed{seed}"
    with tempfile.TemporaryDirectory(prefix="hwgen-pnr-") as name:
        work = Path(name)
        (work / "netlist.json").write_bytes(job.netlist)
        placer = job.part.placer
        arguments = [
            *options(placer, job.part.device, job.part.package, job.part.speed),
            "--json", "netlist.json", "--freq", f"{job.clock_mhz:g}", "--seed", str(seed),
            "--timing-allow-fail", "--report", "report.json",
            *filled(placer.routed, file="routed"), *filled(placer.free_pins),
            *(placer.large_options.split() if cells(job.netlist) >= placer.large else ()),
        ]  # fmt: skip
        if job.pins is not None:
            (work / "pins").write_text(job.pins, encoding="utf-8")
            arguments += filled(placer.pins, file="pins")
        result = SeedResult(seed, None, None, None, None, None, 0.0)
        try:
            process.run(tool, arguments, work, "log", job.timeout)
        except CheckFailed as error:
            failed = replace(result, failure=str(error), wall_seconds=_since(start))
            return Outcome(failed, {}, {f"{stem}.log": (work / "log").read_bytes()})
        report = json.loads((work / "report.json").read_text(encoding="utf-8"))
        result = replace(result, **clock_metrics(report), wall_seconds=_since(start))
        used = {
            name: {"used": int(row["used"]), "available": int(row["available"])}
            for name, row in report["utilization"].items()
            if row["used"] and row["available"]  # of some things there is no number
        }
        files = {
            f"{stem}.log": (work / "log").read_bytes(),
            f"{stem}.report.json": (work / "report.json").read_bytes(),
            f"{stem}.routed": (work / "routed").read_bytes(),
        }
    entry.write({"seed": asdict(result), "utilization": used}, files)
    return Outcome(result, used, files)


def cells(netlist: bytes) -> int:
    """Count the cells of a flat netlist of Yosys (JSON)."""
    return netlist.count(b'"port_directions"')


def _since(start: float) -> float:
    return round(time.monotonic() - start, 3)


def clock_metrics(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return frequency, delay and ends of the critical path between registers, of a report.

    Several clocks have common edges: the frequency is that of the slowest, which leaves every path
    the time that it needs; one from clock to clock has a period of the fastest.
    """
    clocks = report["fmax"]
    if not clocks:
        return {}
    asked = {name: clock.get("constraint") or 1.0 for name, clock in clocks.items()}
    slowest, fastest = min(asked.values()), max(asked.values())
    reached: dict[tuple[str, str], float] = {
        (name, name): clock["achieved"] * slowest / asked[name] for name, clock in clocks.items()
    }
    paths = {}
    for path in report["critical_paths"]:
        pair = _clock_of(path["from"]), _clock_of(path["to"])
        if {*pair} <= {*clocks}:
            paths[pair] = path["path"]
            if pair[0] != pair[1]:
                delay = sum(part["delay"] for part in path["path"])
                reached[pair] = 1000 / delay * slowest / fastest
    worst = min(reached, key=lambda pair: reached[pair])
    metrics: dict[str, Any] = {
        "fmax_mhz": reached[worst],
        "critical_path_ns": 1000 / reached[worst],
    }
    if worst in paths:
        metrics["path_start"] = _signal(paths[worst][0]["from"]["cell"])
        metrics["path_end"] = _signal(paths[worst][-1]["to"]["cell"])
    return metrics


def _clock_of(edge: str) -> str:
    """Return the clock of an edge, as nextpnr names it."""
    return edge.removeprefix("posedge ").removeprefix("negedge ")


_CELLS = "SB_|TRELLIS_FF|FD1P3|DFF|CC_|MULT|P?DP[A-Z]*[0-9]|SDPX?9?B|CCU2|LUT[1-4]|ALU"
"""How the names of primitive cells begin."""


def _signal(cell: str) -> str:
    """Return the signal that a cell was named for by Yosys, without the frame."""
    return re.sub(rf"_({_CELLS}).*|\$.*", "", cell).removeprefix("core.")
