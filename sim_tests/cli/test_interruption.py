# SPDX-License-Identifier: Apache-2.0
"""Commands that are ended in the middle of their work: nothing goes on, and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from flows.tools import guard
from sim_tests.support.caches import with_runtime

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL]

# Something that compiles like make and g++ do: a tree of processes, in two process groups' worth of
# depth, each with a temporary file, and a directory to work in.
TREE = """
import os, sys, time
from pathlib import Path
from flows.tools.guard import scratch
from flows.tools.process import run
from flows.simulation.programs import compiled
from flows.tools.toolchain import Installation
from hwgen.cli import main
import click

SHELL = '''
sleep 0.5  # until this session is watched
mktemp "$TMPDIR/ccXXXXXX.s" >/dev/null
sh -c 'mktemp "$TMPDIR/ccXXXXXX.s" >/dev/null; echo $$ >>"$PIDS"; sleep 300' &
echo $$ >>"$PIDS"
wait
'''

def make(work):
    run(Installation("sh", (), "sh", "system", ("sh",)), ["-c", SHELL], work, "log", 100)

@click.command()
def command():
    compiled("name", {}, [], make)

sys.exit(main([], command))
"""


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:  # a zombie has ended
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return True


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.02)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "tmp").mkdir()
    yield tmp_path
    # Whatever a failed test has left.
    pids = tmp_path / "pids"
    for pid in pids.read_text().split() if pids.exists() else []:
        if alive(int(pid)):
            os.kill(int(pid), signal.SIGKILL)


def started(arguments: list[str], folder: Path) -> subprocess.Popen[str]:
    variables = {
        "PIDS": str(folder / "pids"),
        "TMPDIR": str(folder / "tmp"),
        "HWGEN_CACHE_DIR": str(folder / "cache"),
    }
    return subprocess.Popen(
        [sys.executable, *arguments], cwd=folder, env={**os.environ, **variables},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        preexec_fn=hearing,
    )  # fmt: skip


def hearing() -> None:
    """Hear what a shell makes its background jobs deaf to, and nohup: the test may be in one."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.mark.parametrize("number", SIGNALS)
def test_nothing_is_left_of_a_compilation(number: signal.Signals, folder: Path) -> None:
    running = started(["-c", TREE], folder)
    pids = folder / "pids"
    until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    assert len(list(folder.rglob("cc*.s"))) == 2
    running.send_signal(number)
    said, _ = running.communicate(timeout=30)
    assert running.returncode == (-9 if number == signal.SIGKILL else 128 + number), said
    tree = [int(pid) for pid in pids.read_text().split()]
    until(lambda: not any(alive(pid) for pid in tree))
    until(lambda: list((folder / "cache" / "sim").iterdir()) == [])
    until(lambda: list((folder / "tmp").iterdir()) == [])
    assert not list(folder.rglob("cc*"))


def test_nohup_is_respected(folder: Path) -> None:
    script = (
        "import signal, click, hwgen.cli as c\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "@click.command()\n"
        "def command():\n"
        "    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN\n"
        "raise SystemExit(c.main([], command))\n"
    )
    running = started(["-c", script], folder)
    assert running.communicate(timeout=60)[0] == ""
    assert running.returncode == 0


CONFIG = "name: tiny\nfamily: systolic\narray: {rows: 2, cols: 2}\n"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_regression_stops_at_once(number: signal.Signals, folder: Path) -> None:
    """Ended while the simulator runs, in a thread of its own."""
    (folder / "tiny.yaml").write_text(CONFIG)
    with_runtime(folder / "cache")
    running = started(["-m", "hwgen", "sim", "--config", "tiny.yaml", "--jobs", "2"], folder)

    def simulators() -> list[int]:
        # A process that is named after the design; children of others are not ours to look at.
        return [pid for pid, command in sessions() if str(folder) in command]

    until(lambda: (folder / "build" / "tiny-sim" / "part_0" / "simulation.log").exists(), 300)
    until(lambda: bool(simulators()), 60)
    running.send_signal(number)
    running.communicate(timeout=60)
    until(lambda: not simulators())
    assert list((folder / "tmp").iterdir()) == []


SLOW = """
import os, sys, time
import click
from flows.tools.executors import LocalProcesses
from hwgen.cli import main

def work(item):
    with open(os.environ["PIDS"], "a") as file:
        file.write(f"{os.getpid()}\\n")
    time.sleep(100)

@click.command()
def command():
    list(LocalProcesses(2).run(work, range(8)))

if __name__ == "__main__":
    sys.exit(main([], command))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_of_a_sweep_end_at_once(number: signal.Signals, folder: Path) -> None:
    (folder / "slow.py").write_text(SLOW)
    running = started(["slow.py"], folder)
    pids = folder / "pids"
    until(lambda: pids.exists() and len(pids.read_text().split()) == 2, 120)
    begin = time.monotonic()
    running.send_signal(number)
    running.communicate(timeout=30)  # the workers have its pipe: they have ended as well
    assert time.monotonic() - begin < 50  # not the hundred seconds that they would take
    assert not any(alive(int(pid)) for pid in pids.read_text().split())


def sessions() -> list[tuple[int, str]]:
    """Return the process and the command of what runs on this machine."""
    if not Path("/proc/self").exists():
        listed = subprocess.run(
            ["ps", "-A", "-ww", "-o", "pid=,args="], capture_output=True, text=True, check=True
        )
        rows = [line.split(None, 1) for line in listed.stdout.splitlines()]
        return [(int(row[0]), row[1]) for row in rows if len(row) == 2]
    result = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            result.append((int(path.parent.name), path.read_bytes().decode(errors="replace")))
    return result  # that of a zombie is empty


def test_a_directory_goes_also_when_its_name_is_unusual(folder: Path) -> None:
    script = (
        "import os, pathlib, signal\n"
        "from flows.tools.guard import scratch\n"
        "with scratch('a b\\'$(x) '), scratch('gone ') as other:\n"
        "    pass\n"
        "os.mkdir(other)\n"  # made anew by somebody: not to be removed
        "with scratch('a b\\'$(x) ') as work:\n"
        "    (work / 'file').touch()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    running = started(["-c", script], folder)
    running.communicate(timeout=60)
    assert running.returncode == -9
    until(lambda: len(list((folder / "tmp").iterdir())) == 1)
    time.sleep(0.5)
    assert [path.name.split()[0] for path in (folder / "tmp").iterdir()] == ["gone"]


def test_a_tool_that_has_ended_is_forgotten(tmp_path: Path) -> None:
    running = guard.start(["true"])
    guard.end(running)
    assert running not in guard._running
