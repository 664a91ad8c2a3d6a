# SPDX-License-Identifier: Apache-2.0
"""Sweeps that are killed, interrupted, or lose a worker or a node of a cluster, and resume."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sim_tests.support.paths import ROOT
from sim_tests.sweep.test_sweep import LUT, written

SLOW = """
import multiprocessing, signal, sys, time
from pathlib import Path
import pytest
import sim_tests.sweep.sweep_costs as costs

def evaluate(*arguments):
    if Path("slowly").exists():
        time.sleep(0.4)
    # A test that must not be too late holds the workers after two chunks.
    while multiprocessing.parent_process() and Path("hold").exists():
        if len([*Path("out/journal").glob("chunk_*.npz")]) < 2:
            break
        time.sleep(0.05)
    return costs.evaluate(*arguments)

if __name__ == "__main__":
    import slow
    # What a shell starts in the background ignores interrupts, and so do its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    costs.MODEL = slow.evaluate  # other processes find it under this name
    costs.use_made_up_costs(pytest.MonkeyPatch())
    from cost_model.sweep import engine
    engine.chunk_size = lambda plan: 400
    from hwgen.cli import main
    sys.exit(main(sys.argv[1:]))
"""

LONG = LUT.replace("[512, 4096]", "{from: 1000, to: 1119}")


class Running:
    """``hwgen sweep`` on costs that take their time, in a process of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        path = os.pathsep.join([str(folder), str(ROOT), *sys.path])
        self.process = subprocess.Popen(
            [sys.executable, "slow.py", "sweep", "--config", "long.yaml", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and its workers, as a terminal does."""
        os.killpg(self.process.pid, number)

    def finish(self, status: int = 0) -> str:
        """Wait for the end; return what stderr says."""
        out, err = self.process.communicate(timeout=300)
        assert self.process.returncode == status, out + err
        return err

    def chunks(self, directory: Path, count: int) -> set[Path]:
        """Wait for finished chunks."""
        for _ in range(1200):
            result = set((directory / "journal").glob("chunk_*.npz"))
            if len(result) >= count:
                return result
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.05)
        raise AssertionError("no chunk was finished")


def _prepare(folder: Path) -> None:
    (folder / "slow.py").write_text(SLOW)
    (folder / "long.yaml").write_text(LONG)


Slow = Callable[..., Running]


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Slow]:
    """Start sweeps that a test can disturb: while there is a file ``slowly`` each takes seconds."""
    _prepare(tmp_path)
    started: list[Running] = []

    def start(out: str, *arguments: str) -> Running:
        started.append(Running(tmp_path, "--output", out, *arguments))
        return started[-1]

    yield start
    for running in started:
        if running.process.poll() is None:
            running.signal(signal.SIGKILL)
        running.process.communicate()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the output of an undisturbed sweep."""
    folder = tmp_path_factory.mktemp("whole")
    _prepare(folder)
    Running(folder, "--output", "whole", "--jobs", "1").finish()
    return written(folder / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.rotate(20)
def test_a_killed_sweep_resumes_to_the_same_bytes(
    slow: Slow, whole: dict[str, bytes], tmp_path: Path, jobs: str
) -> None:
    (tmp_path / "slowly").touch()
    killed = slow("out", "--jobs", jobs)
    done = killed.chunks(tmp_path / "out", 4)
    killed.signal(signal.SIGKILL)
    killed.process.wait()
    done = set((tmp_path / "out" / "journal").glob("chunk_*.npz"))
    times = {path: path.stat().st_mtime_ns for path in done}
    damaged = sorted(done)[0]
    damaged.write_bytes(damaged.read_bytes()[:100])  # to be computed again
    assert "continue it with --resume" in slow("out").finish(2)
    resumed = slow("out", "--jobs", "2", "--resume")
    resumed.chunks(tmp_path / "out", len(done) + 1)
    assert all(p.stat().st_mtime_ns == t for p, t in times.items() if p != damaged)
    (tmp_path / "slowly").unlink()
    resumed.finish()
    assert written(tmp_path / "out") == whole
    # All is done: asked again, it only says so.
    before = (tmp_path / "out" / "summary.json").stat().st_mtime_ns
    slow("out", "--resume").finish()
    assert (tmp_path / "out" / "summary.json").stat().st_mtime_ns == before


@pytest.mark.slow
def test_an_interrupted_sweep_ends_and_keeps_what_is_done(slow: Slow, tmp_path: Path) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    (tmp_path / "slowly").touch()
    running = slow("out", "--jobs", "2")
    running.chunks(tmp_path / "out", 2)
    assert "another hwgen sweep is writing" in slow("out", "--resume").finish(2)
    running.signal(signal.SIGINT)
    hold.unlink()
    said = running.finish(130)
    # Progress may stand before it.
    assert said.split("\n")[-4:] == ["out: continue with --resume", "", "interrupted", ""]
    changed = tmp_path / "long.yaml"
    changed.write_text(changed.read_text().replace("0.5", "0.4"))
    assert "unfinished sweep of another file" in slow("out", "--resume").finish(2)


@pytest.mark.slow
@pytest.mark.rotate(6)
def test_a_worker_that_is_killed_is_named(slow: Slow, tmp_path: Path) -> None:
    (tmp_path / "slowly").touch()
    running = slow("out", "--jobs", "2")
    running.chunks(tmp_path / "out", 2)
    children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children")
    workers = [int(pid) for pid in children.read_text().split()]
    os.kill(workers[-1], signal.SIGKILL)
    assert "a worker process was killed" in running.finish(2)
    (tmp_path / "slowly").unlink()
    slow("out", "--resume").finish()


@pytest.mark.slow
@pytest.mark.rotate(18)
def test_a_cluster_whose_worker_dies(slow: Slow, whole: dict[str, bytes], tmp_path: Path) -> None:
    path = os.pathsep.join([str(tmp_path), str(ROOT), *sys.path])
    (tmp_path / "slowly").touch()
    with DaskCluster(tmp_path, {**os.environ, "PYTHONPATH": path}) as cluster:
        running = slow("out", "--scheduler", cluster.address())
        running.chunks(tmp_path / "out", 2)
        cluster.processes[1].kill()
        (tmp_path / "slowly").unlink()
        running.finish()
    assert written(tmp_path / "out") == whole


class DaskCluster:
    """A scheduler and two workers as processes of their own."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        self.file = folder / "scheduler.json"
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> DaskCluster:
        common = ["--no-dashboard", "--scheduler-file", str(self.file)]
        self._start("scheduler", "--port", "0", *common)
        for _ in range(2):
            self._start("worker", "--no-nanny", "--nthreads", "1", *common)
        return self

    def address(self) -> str:
        """Wait for the scheduler and return its address."""
        for _ in range(1200):
            assert self.processes[0].poll() is None
            try:
                return str(json.loads(self.file.read_text())["address"])
            except (OSError, ValueError):
                time.sleep(0.05)
        raise AssertionError("the scheduler does not start")

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()

    def _start(self, what: str, *arguments: str) -> None:
        with open(self.folder / f"{what}_{len(self.processes)}.log", "wb") as log:
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "distributed.cli.dask_" + what, *arguments],
                    cwd=self.folder,
                    env=self.environment,
                    stdout=log,
                    stderr=log,
                )
            )
