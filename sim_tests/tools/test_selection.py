# SPDX-License-Identifier: Apache-2.0
"""The rules for all tests: skips in continuous integration, slices, time that is over."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sim_tests.support.paths import ROOT
from sim_tests.support.selection import (
    OVER,
    SLICES,
    changed_files,
    covering_points,
    covering_values,
    drawn,
    may_be_skipped,
    missing_pairs,
    ordered,
    rotated,
)

NAMES = [f"sim_tests/test_{i % 7}.py::test[{i}]" for i in range(400)]

AXES: dict[str, list[Any]] = {
    "a": [1, 2, 3],
    "b": ["x", "y"],
    "c": [0.5, None],
    "d": [(), (1,), (1, 2), (3,)],
}

TESTS = """
import os, time
import pytest

@pytest.mark.parametrize("i", range(6))
def test_takes_time(i):
    time.sleep(0.2 * (i > 1))

@pytest.mark.rotate(3)
@pytest.mark.parametrize("i", range(6))
def test_rotates(i): ...

def test_misses_a_tool():
    pytest.skip("iverilog is not installed")

@pytest.mark.skipif(True, reason="root reads every file")
def test_of_another_user(): ...

@pytest.mark.xfail(reason="known", strict=True)
def test_fails():
    assert False
"""


def test_covering_points_have_every_pair() -> None:
    points = covering_points(AXES)
    assert len(points) < 3 * 2 * 2 * 4
    assert missing_pairs(AXES, points) == []
    some = [point for point in points if (point[0], point[3]) != (2, (1,))]
    assert ("a", 2, "d", (1,)) in missing_pairs(AXES, some)


def test_pairs_that_no_legal_point_has_are_not_missed() -> None:
    def legal(point: list[Any]) -> bool:
        return point[:2] != [1, "x"] and (len(point) < 4 or point[2] is None or point[3] == ())

    points = covering_points(AXES, legal)
    assert all(map(legal, points))
    assert missing_pairs(AXES, points, legal) == []
    assert ("a", 1, "b", "x") in missing_pairs(AXES, points)


def test_commits_draw_every_case() -> None:
    chosen = [drawn(20, 6, "group", seed) for seed in range(60)]
    assert {len(some) for some in chosen} == {3, 4}
    assert set().union(*chosen) == set(range(20))
    assert drawn(20, 1, "group") == set(range(20))
    assert any(drawn(20, 6, "group", seed) != drawn(20, 6, "other", seed) for seed in range(9))


CASES = {
    "sim_tests/test_a.py::test_of": [
        (f"sim_tests/test_a.py::test_of[docs/{i}.md]", f"docs/{i}.md") for i in range(7)
    ],
    "sim_tests/test_a.py::test_one": [("sim_tests/test_a.py::test_one", "")],
}
CASE_NAMES = {name for cases in CASES.values() for name, _ in cases}


def test_each_commit_draws_some_cases() -> None:
    every = {"sim_tests/test_a.py::test_of": (3, ""), "sim_tests/test_a.py::test_one": (9, "")}
    chosen = [CASE_NAMES - rotated(CASES, every, seed) for seed in range(40)]
    assert set().union(*chosen) == CASE_NAMES
    assert all(2 <= len(some) <= 4 for some in chosen)
    assert 0 < sum("sim_tests/test_a.py::test_one" in some for some in chosen) < 10
    assert chosen == [CASE_NAMES - rotated(CASES, every, seed) for seed in range(40)]


def test_changed_cases_and_those_that_do_not_rotate_are_drawn() -> None:
    test = "sim_tests/test_a.py::test_of"
    for seed in range(10):
        others = rotated({test: CASES[test]}, {test: (3, r"[3-6]\.md")}, seed, ["docs/4.md"])
        assert len(others) in (1, 2, 3)
        assert not others & {CASES[test][i][0] for i in (0, 1, 2, 4)}


def test_changed_files_are_relative_to_the_checkout() -> None:
    changed = changed_files()  # some may have been removed, with their folders
    assert not changed or any((ROOT / name).is_file() for name in changed)


def test_few_configurations_have_every_value() -> None:
    points = [(i, j, (i + j) % 3) for i in range(3) for j in range(4)]
    result = [covering_values(points, lambda p: list(enumerate(p)), seed) for seed in range(5)]
    for some in result:
        assert len(some) <= 6
        assert {v for p in some for v in enumerate(p)} == {v for p in points for v in enumerate(p)}
    assert len({tuple(some) for some in result}) > 1


def test_twenty_commits_begin_with_every_test() -> None:
    """Whatever the commits are called, and however little time there is."""
    begun = [set(ordered(NAMES, n, str(n))[: 2 * len(NAMES) // SLICES]) for n in range(SLICES)]
    assert set.union(*begun) == set(range(len(NAMES)))


def test_a_slice_is_a_slice_of_names() -> None:
    """Of a longer list the same tests come first, in the same order."""
    some = NAMES[::2]
    whole = [NAMES[i] for i in ordered(NAMES, 3, "seed")]
    assert [some[i] for i in ordered(some, 3, "seed")] == [n for n in whole if n in some]
    assert [NAMES[i] for i in ordered(NAMES, 3, "other")] != whole


@pytest.mark.parametrize("reason", ["yosys is not installed", "no Chromium: install it", ""])
def test_what_may_not_be_skipped(reason: str) -> None:
    assert not may_be_skipped(reason)


def run(tmp_path: Path, *arguments: str, ci: bool) -> str:
    (tmp_path / "test_some.py").write_text(TESTS, encoding="utf-8")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    environment["CI"] = "true" if ci else ""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "sim_tests.conftest", "-p", "no:cacheprovider",
         "--rootdir", str(tmp_path), "-rs", "test_some.py", *arguments],
        cwd=tmp_path, env={**environment, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return done.stdout


def test_a_skip_is_a_failure_in_continuous_integration(tmp_path: Path) -> None:
    assert "12 passed, 2 skipped, 1 xfailed" in run(tmp_path, ci=False)
    result = run(tmp_path, ci=True)
    assert "1 failed, 12 passed, 1 skipped, 1 xfailed" in result
    assert "test_misses_a_tool was skipped, which it must not be here" in result


def test_one_line_says_what_is_left_to_other_commits(tmp_path: Path) -> None:
    for workers in ("0", "2"):
        output = run(tmp_path, "-m", "not long", "-n", workers, ci=False)
        assert re.search(r"^Not run at this commit: \d cases that rotate \(seed", output, re.M)


def test_what_is_not_begun_in_time_is_listed(tmp_path: Path) -> None:
    """And is no failure; the order is that of the slice."""
    options = ["-k", "takes", "--slice", "3", "--slice-seed", "x", "--budget"]
    assert "6 passed" in run(tmp_path, *options, "10", ci=True)
    result = run(tmp_path, *options, "0", ci=True)
    assert "6 skipped" in result
    assert "6 tests not begun: the time was over" in result
    assert OVER in result
