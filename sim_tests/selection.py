# SPDX-License-Identifier: Apache-2.0
"""Which tests run: configurations of a covering set, slices of the long tests, allowed skips."""

from __future__ import annotations

import itertools
import re
import subprocess
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from allpairspy import AllPairs

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
    # Liberty files are other people's and not in any package.
    r"HWGEN_PDK_DIR",
    # There are wheels for Linux on x86-64 up to Python 3.13 only.
    r"could not import 'pylibfst'",
)
"""Reasons, as regular expressions, for which a test may be skipped in continuous integration."""


def commit_seed() -> int:
    """Return a number that every commit has another of, for what tests draw; 0 outside of git."""
    root = Path(__file__).parents[1]
    found = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=False
    )
    return int(found.stdout.strip() or "0", 16) % 2**32


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
        Whether a point may be.
    """
    missing = []
    names, values = list(axes), list(axes.values())
    for i, j in itertools.combinations(range(len(names)), 2):
        found = {(repr(point[i]), repr(point[j])) for point in points}
        for a, b in itertools.product(values[i], values[j]):
            if (repr(a), repr(b)) not in found:
                others = [*values]
                others[i], others[j] = [a], [b]
                if any(legal(list(point)) for point in itertools.product(*others)):
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
        point = next(p for p in map(list, itertools.product(*chosen.values())) if legal(p))
        points.append(point)
        missing = [
            (one, x, other, y)
            for one, x, other, y in missing
            if repr(point[places[one]]) != repr(x) or repr(point[places[other]]) != repr(y)
        ]
    return points


def sampled(
    configs: Sequence[Any], every: int = 2, costly: Callable[[Any], bool] = lambda config: False
) -> list[Any]:
    """Return parameters of a test: one configuration of `every`, the others marked ``long``.

    Of those that are `costly` only the first is simulated in every run.
    """
    chosen = [config for i, config in enumerate(configs) if i % every == 0]
    skipped = [config for config in chosen if costly(config)][1:]
    usual = {config.name for config in chosen} - {config.name for config in skipped}
    return [
        pytest.param(config, id=config.name, marks=[pytest.mark.long] * (config.name not in usual))
        for config in configs
    ]
