# SPDX-License-Identifier: Apache-2.0
"""Selection of tests: covering sets, rotation, slices of the long tests, allowed skips."""

from __future__ import annotations

import itertools
import re
import subprocess
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from allpairspy import AllPairs

from sim_tests.support.paths import ROOT

SLICES = 20
"""Parts of the long tests.  Every commit begins with the next, so 20 commits begin with all."""

OVER = "not begun: the time for this slice was over"
"""Reason of tests that come up in another commit's slice."""

ALLOWED_SKIPS = (
    re.escape(OVER),
    # What depends on who runs the tests and where, and cannot be installed.
    r"root reads every file",
    r"cocotb's runner cannot compile where a path has a space",
    r"the interpreter is not a shared library",
    r"this processor has no fused multiplications",
    r"this Python has no tkinter",
    r"no device-tree compiler",
    # Place and route of further families: extras of their own, 33 to 172 MB each.
    r"pip install 'hwgen\[(nexus|machxo2|gowin|gatemate)\]'",
    # Published models, fetched on demand: up to 93 MB, and calibrated for minutes.
    r"`make demo-(llm` has not run|onnx` fetches it)",
    # Liberty files are other people's and not in any package.
    r"HWGEN_PDK_DIR",
    # Results measured on a GPU that are larger than the tests' own.
    r"HWGEN_VECTORS_DIR",
    # There are wheels for Linux on x86-64 up to Python 3.13 only.
    r"could not import 'pylibfst'",
)
"""Reasons, as regular expressions, for which a test may be skipped in continuous integration."""


@cache
def commit_seed() -> int:
    """Return a number that every commit has another of, for what tests draw; 0 outside of git."""
    result = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return int(result.stdout.strip() or "0", 16) % 2**32


def changed_files() -> set[str]:
    """Return the files that differ from the commit before, relative to the project's root."""
    result = subprocess.run(
        ["git", "diff", "--name-only", "HEAD~1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return set(result.stdout.split("\n")) - {""}


def rotated(
    cases: Mapping[str, Sequence[tuple[str, str]]],
    every: Mapping[str, tuple[int, str]],
    seed: int,
    changed: Collection[str] = (),
) -> set[str]:
    """Return the cases that a commit leaves to others.

    Parameters
    ----------
    cases : mapping
        Name and case of the parametrized instances of each test, ``FOLDER/FILE::test``.
    every : mapping
        Number of commits that together run all cases of each test, and a regular expression of the
        cases that rotate.
    seed : int
        Seed of the commit.
    changed : collection of str
        Cases that are always drawn.
    """
    others: set[str] = set()
    for test, instances in cases.items():
        count, pattern = every[test]
        rotating = [(name, case) for name, case in instances if re.search(pattern, case)]
        # The same for all tests of a file, which may share what takes the time.
        chosen = drawn(len(rotating), count, test.partition("::")[0], seed)
        others |= {
            name
            for i, (name, case) in enumerate(rotating)
            if i not in chosen and case not in changed
        }
    return others


def drawn(count: int, every: int, group: str, seed: int | None = None) -> set[int]:
    """Return the numbers of the cases that a commit draws: one of `every`.

    Parameters
    ----------
    count : int
        Number of cases.
    every : int
    group : str
        Name of the cases; other groups are drawn independently.
    seed : int, optional
        Default that of the commit.
    """
    number = commit_seed() if seed is None else seed
    first = zlib.crc32(f"{number} {group}".encode()) % every
    return set(range(first, count, every))


def may_be_skipped(reason: str) -> bool:
    """Return whether a test may be skipped for this reason where everything can be installed."""
    return any(re.search(pattern, reason) for pattern in ALLOWED_SKIPS)


def ordered(names: Sequence[str], number: int, seed: str) -> list[int]:
    """Return the order in which tests are run, until the time is over.

    Parameters
    ----------
    names : sequence of str
        Of all tests; the slice of each follows from its name alone.
    number : int
        Slice that comes first, modulo `SLICES`; the next ones follow.
    seed : str
        Orders the tests of a slice.
    """

    def rank(index: int) -> tuple[int, int]:
        part = (zlib.crc32(names[index].encode()) - number) % SLICES
        return part, zlib.crc32(f"{seed} {names[index]}".encode())

    return sorted(range(len(names)), key=rank)


def _first_legal(
    values: Sequence[Sequence[Any]], legal: Callable[[list[Any]], bool], begun: tuple[Any, ...] = ()
) -> list[Any] | None:
    """Return the first legal point of all combinations, None without one."""
    for value in values[len(begun)]:
        point = [*begun, value]
        if legal(point):
            result = point if len(point) == len(values) else _first_legal(values, legal, (*point,))
            if result is not None:
                return result
    return None


def missing_pairs(
    axes: Mapping[str, Sequence[Any]],
    points: Sequence[Sequence[Any]],
    legal: Callable[[list[Any]], bool] = lambda point: True,
) -> list[tuple[str, Any, str, Any]]:
    """Return the pairs of values of two axes that no point has, though a legal one could.

    Parameters
    ----------
    axes : mapping
        Values of each axis.
    points : sequence
        Of a covering set: a value of each axis.
    legal : callable
        Whether a point, or the beginning of one, may be.
    """
    missing = []
    names, values = list(axes), list(axes.values())
    for i, j in itertools.combinations(range(len(names)), 2):
        result = {(repr(point[i]), repr(point[j])) for point in points}
        for a, b in itertools.product(values[i], values[j]):
            if (repr(a), repr(b)) not in result:
                others = [*values]
                others[i], others[j] = [a], [b]
                if _first_legal(others, legal) is not None:
                    missing.append((names[i], a, names[j], b))
    return missing


def covering_points(
    axes: Mapping[str, Sequence[Any]], legal: Callable[[list[Any]], bool] = lambda point: True
) -> list[list[Any]]:
    """Return few points with every legal pair of values of two axes.

    Parameters
    ----------
    axes : mapping
        Values of each axis.
    legal : callable
        Whether a point, or the beginning of one, may be.
    """
    points = [list(point) for point in AllPairs(list(axes.values()), filter_func=legal)]
    # The search gives up on some pairs where not every point is legal.
    missing, places = missing_pairs(axes, points, legal), {name: i for i, name in enumerate(axes)}
    while missing:
        first, a, second, b = missing[0]
        chosen = {**axes, first: [a], second: [b]}
        point = _first_legal(list(chosen.values()), legal)
        assert point is not None
        points.append(point)
        missing = [
            (one, x, other, y)
            for one, x, other, y in missing
            if repr(point[places[one]]) != repr(x) or repr(point[places[other]]) != repr(y)
        ]
    return points


def covering_values(
    configs: Sequence[Any], values: Callable[[Any], Iterable[Any]], seed: int
) -> list[Any]:
    """Return few configurations, others for other seeds, that have every value that any has.

    Parameters
    ----------
    configs : sequence
    values : callable
        Gives the values that a configuration has.
    seed : int
    """
    left = sorted(configs, key=lambda config: zlib.crc32(f"{seed} {config}".encode()))
    missing = {value for config in configs for value in values(config)}
    result = []
    while missing:
        best = max(left, key=lambda config: len(missing & set(values(config))))
        missing -= set(values(best))
        left.remove(best)
        result.append(best)
    return result
