# SPDX-License-Identifier: Apache-2.0
"""Compiling a configuration's RTL and running cocotb modules on it.

The simulator runs in a process of its own, with a time limit.  Compiled designs are cached by
their Verilog and the toolchain.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from flows.build.design import Design
from flows.simulation.cases import cases
from flows.simulation.programs import follow
from flows.simulation.registry import simulator
from flows.simulation.simulator import Start, Waves
from flows.tools.parallel import run_all
from flows.tools.toolchain import require
from hwgen.core.params.base import FamilyConfig
from hwgen.core.registry import core_of
from hwgen.errors import CheckFailed

TIMEOUT_S = 3600
"""Limit of one simulator process; a hung simulation is ended, not waited for."""


Host = Callable[[Path, Start, Path, Path, float], bool]
"""Runs a design that was compiled to a library: gets the library, what its program would be started
with, the file for what it prints, where it runs and the limit in seconds; returns whether that was
over."""

_host: Host | None = None


def use_host(host: Host | None) -> None:
    """Let designs be compiled to libraries that `host` runs, or to programs again.

    Many short simulations start sooner in a process that has imported what they need.
    """
    global _host
    _host = host


@dataclass(frozen=True)
class Outcome:
    """Result of one test.

    Parameters
    ----------
    name : str
    passed : bool
    message : str
        What went wrong.
    seconds : float
        Wall time.
    """

    name: str
    passed: bool
    message: str = ""
    seconds: float = 0.0


def compile_design(design: Design, *, waves: Waves | None = None) -> Path:
    """Return a directory with the compiled simulation of a design.

    Parameters
    ----------
    design : Design
    waves : {"fst", "vcd"}, optional
        Whether it can write waveforms, for `simulate` with the same `waves`.
    """
    return compile_verilog(design.verilog, design.name, waves=waves)


def compile_verilog(text: str, top: str, *, waves: Waves | None = None) -> Path:
    """Return a directory with the compiled simulation of the module `top` of a Verilog text."""
    library = _host is not None and waves is None
    return simulator().compile(top, text, waves=waves, library=library)


def simulate(
    config: FamilyConfig,
    build_dir: Path,
    module: str,
    plan: dict[str, Any],
    work: Path,
    *,
    seed: int = 0,
    waves: Waves | None = None,
    on_line: Callable[[str], None] | None = None,
    timeout: float = TIMEOUT_S,
) -> list[Outcome]:
    """Run a cocotb module on a compiled design.

    Parameters
    ----------
    config : FamilyConfig
    build_dir : Path
        From `compile_design`.
    module : str
        The cocotb module.
    plan : dict
        What the module reads from the file named by ``HWGEN_PLAN``; ``config`` is added.
    work : Path
        Directory for the plan, the log, waveforms and results.
    seed : int
        cocotb's seed.
    waves : {"fst", "vcd"}, optional
        Write ``dump.fst`` or ``dump.vcd`` into `work`.
    on_line : callable, optional
        Gets every line that the simulator prints.
    timeout : float
        Seconds.

    Raises
    ------
    CheckFailed
        If the simulator ended without results or ran into the time limit.
    """
    return run_module(
        config.name,
        build_dir,
        module,
        {**plan, "config": config.resolved()},
        work,
        seed=seed,
        waves=waves,
        on_line=on_line,
        timeout=timeout,
    )


def run_module(
    top: str,
    build_dir: Path,
    module: str,
    plan: dict[str, Any],
    work: Path,
    *,
    seed: int = 0,
    waves: Waves | None = None,
    on_line: Callable[[str], None] | None = None,
    timeout: float = TIMEOUT_S,
) -> list[Outcome]:
    """Run a cocotb module on the compiled module `top`; see `simulate`."""
    work.mkdir(parents=True, exist_ok=True)
    plan_file, results, log = work / "plan.json", work / "results.xml", work / "simulation.log"
    plan_file.write_text(json.dumps(plan), encoding="utf-8")
    results.unlink(missing_ok=True)
    require("cocotb")
    result = simulator().start(module, top, build_dir, work, results, seed=seed, waves=waves)
    environment = {
        **result.environment,
        "HWGEN_PLAN": str(plan_file.resolve()),
        "PYTHONUNBUFFERED": "1",
        # By default cocotb rewrites the assertions of every module that is imported, NumPy
        # included, which took half of the time of a small regression.
        "COCOTB_REWRITE_ASSERTION_FILES": "",
    }
    library = build_dir / f"{top}.so"
    if _host is not None and library.is_file():
        expired = _host(library, Start(result.command, environment), log, work, timeout)
        if on_line is not None:
            for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
                on_line(line)
    else:
        expired = follow(
            result.command,
            environment,
            log,
            cwd=work,
            on_line=on_line,
            timeout=timeout,
        ).expired
    simulator().finish(work, waves)
    if expired:
        raise CheckFailed(f"the simulation did not end within {timeout:.0f} s; log: {log}")
    if not results.is_file():
        tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-10:]
        raise CheckFailed("\n".join(["the simulator ended without results:", *tail]))
    return _outcomes(results)


def _outcomes(results: Path) -> list[Outcome]:
    outcomes = []
    for case in ET.parse(results).getroot().iter("testcase"):
        fault = next((child for child in case if child.tag in ("failure", "error")), None)
        message = ""
        if fault is not None:
            message = fault.get("error_msg") or fault.get("message") or (fault.text or "").strip()
        name = case.get("name", "").split("=", 1)[-1]
        outcomes.append(Outcome(name, fault is None, message, float(case.get("time") or 0)))
    return outcomes


def case_names(config: FamilyConfig, seed: int) -> list[str]:
    """Return the names of the regression's cases."""
    return [case.name for case in cases(core_of(config), seed)]


def regress(
    design: Design,
    work: Path,
    *,
    seed: int = 0,
    names: Sequence[str] | None = None,
    waves: Waves | None = None,
    jobs: int = 1,
    on_line: Callable[[str], None] | None = None,
) -> list[Outcome]:
    """Run the regression of a design, or the named cases of it.

    Parameters
    ----------
    design : Design
    work : Path
        Directory for logs, results and waveforms.
    seed : int
        Of shapes, values and stalls.
    names : sequence of str, optional
        Cases to run; default all.
    waves : {"fst", "vcd"}, optional
        Write waveforms.
    jobs : int
        Simulators that run at once.
    on_line : callable, optional
        Gets every line the simulators print.
    """
    config, build_dir = design.params, compile_design(design, waves=waves)
    chosen = case_names(config, seed) if names is None else list(names)
    shares = [share for i in range(jobs) if (share := chosen[i::jobs])]

    def run(index: int) -> list[Outcome]:
        outcomes = simulate(
            config,
            build_dir,
            "flows.simulation.cocotb.regression",
            {"seed": seed, "cases": shares[index]},
            work if len(shares) == 1 else work / f"part_{index}",
            seed=seed,
            waves=waves,
            on_line=on_line,
        )
        # cocotb names a test by the position of its case in the plan.
        return [replace(outcome, name=shares[index][int(outcome.name)]) for outcome in outcomes]

    parts = run_all([partial(run, index) for index in range(len(shares))], len(shares))
    by_name = {outcome.name: outcome for part in parts for outcome in part}
    missing = [name for name in chosen if name not in by_name]
    if missing:
        raise CheckFailed(f"the simulator gave no result for {', '.join(missing)}")
    return [by_name[name] for name in chosen]


def write_results(
    config: FamilyConfig, work: Path, outcomes: Sequence[Outcome], *, seed: int
) -> dict[str, Any]:
    """Write ``results.json`` and ``junit.xml`` into `work` and return what the former holds."""
    summary = {
        "name": config.name,
        "digest": config.digest,
        "toolchain": simulator().toolchain_id(),
        "seed": seed,
        "passed": sum(outcome.passed for outcome in outcomes),
        "failed": sum(not outcome.passed for outcome in outcomes),
        "cases": [asdict(outcome) for outcome in outcomes],
    }
    (work / "results.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    suite = ET.Element(
        "testsuite",
        name=config.name,
        tests=str(len(outcomes)),
        failures=str(summary["failed"]),
    )
    for outcome in outcomes:
        case = ET.SubElement(
            suite,
            "testcase",
            classname=config.name,
            name=outcome.name,
            time=f"{outcome.seconds:.3f}",
        )
        if not outcome.passed:
            ET.SubElement(case, "failure", message=outcome.message)
    ET.ElementTree(suite).write(work / "junit.xml", encoding="utf-8", xml_declaration=True)
    return summary
