# SPDX-License-Identifier: Apache-2.0
"""Rules for all tests: which may be skipped where they must not be, and slices of the long ones."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Generator, Iterator
from typing import Any

import hypothesis
import pytest

from cost_model.estimate.technology import technology
from cost_model.netlist.fabric.fabric import fabric
from flows.simulation.runner import use_host
from flows.tools.wasm import prepare_all
from hwgen.technologies import fpga_family, technologies

# How long an example takes depends on what else the machine does.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

# What these modules assert is shown as in a test.
pytest.register_assert_rewrite("sim_tests.support")

from sim_tests.support import warm_simulations  # noqa: E402
from sim_tests.support.selection import (  # noqa: E402
    OVER,
    changed_files,
    commit_seed,
    may_be_skipped,
    ordered,
    rotated,
)

ROTATED = pytest.StashKey[tuple[int, int]]()
"""Numbers of cases that other commits run, and that only ``make long`` runs."""

_DEADLINE = "HWGEN_TESTS_UNTIL"  # seconds since the epoch, for the processes of pytest-xdist


@pytest.fixture
def without_rules(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Take the rules and the table from an FPGA family, and return its name."""
    name = next(name for name in reversed(list(technologies())) if fabric(name))
    changed = fpga_family(name).model_copy(update={"rules": None, "costs": None})
    monkeypatch.setitem(technologies()._loaded, name, changed)
    kept = (fabric, technology)
    for of in kept:
        of.cache_clear()
    yield name
    monkeypatch.undo()
    for of in kept:
        of.cache_clear()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("hwgen")
    group.addoption("--slice", type=int, metavar="NUMBER", help="first slice of the tests")
    group.addoption("--slice-seed", default="", help="what orders the tests of a slice")
    group.addoption("--budget", type=float, metavar="MINUTES", help="begin no test later")


def pytest_configure(config: pytest.Config) -> None:
    if warm_simulations.possible():
        use_host(warm_simulations.run)
    budget = config.getoption("--budget")
    if budget is not None and not hasattr(config, "workerinput"):
        os.environ[_DEADLINE] = str(time.time() + 60 * budget)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the WebAssembly tools before time limits begin, once for all workers."""
    if not hasattr(session.config, "workerinput"):
        prepare_all()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that started the workers what they leave to other commits."""
    if hasattr(session.config, "workerinput"):
        vars(session.config)["workeroutput"]["rotated"] = session.config.stash.get(ROTATED, (0, 0))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Keep what a worker left to other commits; all workers collect the same tests."""
    left = getattr(node, "workeroutput", {}).get("rotated")
    if left is not None:
        node.config.stash[ROTATED] = tuple(left)


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        os.environ.pop(_DEADLINE, None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Mark as long what other commits draw, before tests are chosen by marks; order them."""
    cases: dict[str, list[tuple[str, str]]] = {}
    every: dict[str, tuple[int, str]] = {}
    for item in items:
        mark = item.get_closest_marker("rotate")
        if mark is not None and not item.get_closest_marker("long"):
            test, _, case = item.nodeid.partition("[")
            cases.setdefault(test, []).append((item.nodeid, case.removesuffix("]")))
            every[test] = mark.args[0], mark.kwargs.get("cases", "")
    others = rotated(cases, every, commit_seed(), changed_files())
    for item in items:
        if item.nodeid in others:
            item.add_marker(pytest.mark.long)
            item.add_marker(pytest.mark.rotated)
    count = sum(item.get_closest_marker("rotated") is not None for item in items)
    config.stash[ROTATED] = (
        count,
        sum(item.get_closest_marker("long") is not None for item in items) - count,
    )
    yield
    number = config.getoption("--slice")
    if number is not None:
        order = ordered([item.nodeid for item in items], number, config.getoption("--slice-seed"))
        items[:] = [items[index] for index in order]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let the garbage collector not look at thousands of tests again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.time() > float(os.environ.get(_DEADLINE, "inf")):
        pytest.skip(OVER)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, Any, None]:
    outcome = yield
    report = outcome.get_result()
    if not report.skipped or hasattr(report, "wasxfail") or os.environ.get("CI") != "true":
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not may_be_skipped(reason):
        report.outcome = "failed"
        report.longrepr = (
            f"{item.nodeid} was skipped, which it must not be here (CI is set): {reason}\n"
            "Install what it misses, or, if that is impossible, add the reason to the list in"
            " sim_tests/support/selection.py."
        )


def pytest_terminal_summary(terminalreporter: Any) -> None:
    rotating, long = terminalreporter.config.stash.get(ROTATED, (0, 0))
    if rotating and "not long" in terminalreporter.config.option.markexpr:
        terminalreporter.write_line(
            f"Not run at this commit: {rotating} cases that rotate (seed {commit_seed()}), and"
            f" {long} long ones; `make long` runs all of them, `make slice` a part."
        )
    late = [
        report.nodeid
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple) and OVER in report.longrepr[2]
    ]
    if late:
        terminalreporter.section(f"{len(late)} tests not begun: the time was over")
        for name in late:
            terminalreporter.line(name)
