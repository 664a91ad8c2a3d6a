# SPDX-License-Identifier: Apache-2.0
"""Progress of place and route, from the logs of nextpnr."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from flows.pnr.log_progress import SYNTHESIS, SeedProgress, phase_of
from flows.tools import process
from flows.tools.toolchain import Installation
from hwgen.errors import CheckFailed

PACKED = ["Info: Packing IOs..", "Info: Creating initial analytic placement for 60 cells"]
PLACED = [
    "Info: Running main analytical placer, max placement attempts per cell = 10000.",
    *(f"Info:     at iteration #{n}, type ALL: wirelen solved = 8, spread = 9, legal = 9; time = 1s"
      for n in range(1, 30)),
]  # fmt: skip
REFINED = [
    "Info: Running simulated annealing placer for refinement.",
    *(f"Info:   at iteration #{n}: temp = 0.00, timing cost = 26, wirelen = 91"
      for n in (1, 5, 10, 15)),
]  # fmt: skip
ARCS = [
    "Info: Routing..",
    "Info: Routing 4000 arcs.",
    "Info:    IterCnt |  w/ripup   wo/ripup |  w/r  wo/r |      arcs| batch(sec) total(sec)|",
    *(f"Info:     {n:6d} |      550        449 |  550   449 |     {4000 - n:5d}|  1.94   18.94|"
      for n in range(0, 4001, 500)),
]  # fmt: skip
ITERATIONS = [
    "Info: Routing..",
    *(f"Info:     iter={n} wires=80 overused={20 - n} overuse=4 tmgfail=0 archfail=NA"
      for n in range(1, 12)),
]  # fmt: skip


@pytest.mark.parametrize("routed", [ARCS, ITERATIONS], ids=["arcs", "iterations"])
def test_shares_grow_with_the_log(routed: list[str]) -> None:
    lines = [*PACKED, *PLACED, *REFINED, *routed]
    phases = [phase_of("\n".join(lines[:count]).encode()) for count in range(len(lines) + 1)]
    shares = [phase.share for phase in phases]
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.1
    assert 0.75 < shares[-1] < 1
    names = list(dict.fromkeys(phase.name for phase in phases))
    assert names == ["packing", "placing", "refining the placement", "routing"]
    # Each phase moves by itself, not only where the next begins.
    assert all(len({p.share for p in phases if p.name == name}) > 3 for name in names[1:])


def test_progress_of_seeds_is_a_percentage_that_never_falls(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    progress = SeedProgress(2, lambda *step: seen.append(step))
    log = tmp_path / "log"
    for lines in ([*PACKED, *PLACED], PACKED):
        log.write_text("\n".join(lines))
        progress.read_log(1, log)
    progress.finish(1)
    progress.finish(2)
    percent = [done for _, done, _ in seen]
    assert percent == sorted(percent)
    assert percent[0] > SYNTHESIS
    assert percent[-1] == 100
    assert {total for *_, total in seen} == {100}
    assert seen[0][0] == "%, seed 1: placing"


def python(program: str, folder: Path, timeout: float = 60.0) -> str:
    tool = Installation("python", (), sys.executable, "system", (sys.executable,), {})
    return process.run(tool, ["-c", program], folder, "log", timeout)


def test_logs_are_shown_while_a_tool_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.tools.process.POLL_SECONDS", 0.05)
    seen: list[str] = []
    program = "import time; print('first', flush=True); time.sleep(1); print('last')"
    with process.watch_logs(lambda log: seen.append(log.read_text())):
        assert python(program, tmp_path).split() == ["first", "last"]
    assert "first\n" in seen
    count = len(seen)
    python("print()", tmp_path)  # is not watched
    assert len(seen) == count


def test_a_watched_tool_has_a_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.tools.process.POLL_SECONDS", 0.05)
    late = partial(python, "import time; time.sleep(30)", tmp_path, 0.3)
    with process.watch_logs(lambda log: None), pytest.raises(CheckFailed, match=r"more than 0\.3"):
        late()
