# SPDX-License-Identifier: Apache-2.0
"""Simulations that fork from a process show what those in a simulator of their own show."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from flows.simulation import runner
from flows.simulation.runner import Outcome, compile_design, run_module, simulate, use_host
from hwgen.errors import CheckFailed
from hwgen.families.systolic.params import SystolicConfig
from sim_tests.support import warm_simulations
from sim_tests.support.designs import design_of

CONFIG = SystolicConfig.model_validate({"name": "warm", "array": {"rows": 2, "cols": 3}})
CASES = ("shapes_0", "values_lowest", "stalls_4", "reset_0", "back_to_back_stalled")
BENCH = "flows.simulation.cocotb.regression"

pytestmark = pytest.mark.skipif(
    not warm_simulations.possible(), reason="the interpreter is not a shared library"
)


def regression(text: str, work: Path, monkeypatch: pytest.MonkeyPatch, *, warm: bool) -> list:
    """Return the names, verdicts and messages of the cases, and the cycles in the log."""
    with monkeypatch.context() as patched:
        patched.setattr(runner, "_host", warm_simulations.run if warm else None)
        built = compile_design(design_of(CONFIG).with_verilog(text))
        assert (built / "warm.so").is_file() == warm
        assert (built / "warm").is_file() != warm
        outcomes = simulate(CONFIG, built, BENCH, {"seed": 3, "cases": list(CASES)}, work)
    log = (work / "simulation.log").read_text(encoding="utf-8")
    shown = re.findall(r"CASE (\S+) cycles=(\d+)", log)
    return [*((o.name, o.passed, o.message) for o in outcomes), *shown]


@pytest.mark.slow
@pytest.mark.parametrize("broken", [False, True])
def test_they_show_the_same(broken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = design_of(CONFIG).verilog
    if broken:
        text, count = re.subn(r"clear \? 32'd0 : total", "total", text)
        assert count
    cold = regression(text, tmp_path / "cold", monkeypatch, warm=False)
    warm = regression(text, tmp_path / "warm", monkeypatch, warm=True)
    again = regression(text, tmp_path / "again", monkeypatch, warm=True)
    assert cold == warm == again
    assert any(not passed for _, passed, _ in cold[: len(CASES)]) == broken
    assert broken or len(cold) == 2 * len(CASES)


BENCHES = """\
import os
import cocotb
from cocotb.triggers import Timer

@cocotb.test()
async def test(dut):
    await Timer(1, "ns")
    {}
"""


def bench(body: str, work: Path, monkeypatch: pytest.MonkeyPatch, timeout: float) -> list[Outcome]:
    """Run a bench with this as its last line."""
    monkeypatch.setattr(runner, "_host", warm_simulations.run)
    (work / "bench_of_warm.py").write_text(BENCHES.format(body))
    monkeypatch.syspath_prepend(work)
    built = compile_design(design_of(CONFIG))
    return run_module(CONFIG.name, built, "bench_of_warm", {}, work / "run", timeout=timeout)


def test_one_that_crashes_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckFailed, match="the simulator ended without results"):
        bench("os.abort()", tmp_path, monkeypatch, 60)


def test_one_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = (
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); import time; time.sleep(99)"
    )
    with pytest.raises(CheckFailed, match="the simulation did not end within 3 s"):
        bench(body, tmp_path, monkeypatch, 3)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_they_know_nothing_of_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Environment, folder and imported modules of a simulation are its own."""
    body = (
        "import json; seen = os.getcwd(), os.environ.get('LEFT'), hasattr(cocotb, 'left');"
        " open('seen.json', 'w').write(json.dumps(seen)); os.environ['LEFT'] = cocotb.left = '1'"
    )
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (outcome,) = bench(body, folder, monkeypatch, 60)
        assert outcome.passed
        seen = json.loads((folder / "run" / "seen.json").read_text())
        assert seen == [str(folder / "run"), None, False]


def test_programs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_host", None)
    use_host(warm_simulations.run)
    assert runner._host is warm_simulations.run
    use_host(None)
    assert runner._host is None
