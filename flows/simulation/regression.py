# SPDX-License-Identifier: Apache-2.0
"""What a configuration's regression runs: cases over shapes, values, stalls and resets.

Cases are plain data made from the configuration and a seed, so that any of them can be repeated
alone.  They know a family only by its ports and its natural sizes.
"""

from __future__ import annotations

import itertools
import zlib
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from flows.simulation.post_cases import PostConfig, settings_of
from hwgen.core.params.base import FamilyConfig
from hwgen.formats.block import BlockFormat

Size = tuple[int, int, int]

PROBABILITIES = (0.0, 0.3, 0.9)
OPERANDS = ("random", "lowest", "highest", "opposite", "alternating", "zero", "sparse", "special")


@dataclass(frozen=True)
class Case:
    """One test: jobs that follow each other without a pause or a reset.

    Parameters
    ----------
    name : str
        Identifies the case: ``shapes_3``, ``stalls_7``, ...
    sizes : tuple of (m, k, n)
        The jobs.
    operands : tuple of str
        Kind of values of each job, of `OPERANDS`.
    idle : tuple of (str, float)
        Probability, per port, that a cycle is idle or not ready.
    resets : tuple of int
        Cycles after which a run of the same jobs is cut off by a reset, before the run that
        counts.
    posts : tuple of int
        Which of `settings_of` each job has; empty without post-processing.
    patient : bool
        Whether results are accepted only after they were offered.
    """

    name: str
    sizes: tuple[Size, ...]
    operands: tuple[str, ...]
    idle: tuple[tuple[str, float], ...] = ()
    resets: tuple[int, ...] = ()
    posts: tuple[int, ...] = ()
    patient: bool = False

    @property
    def full_rate(self) -> bool:
        """Whether nobody stalls, so that the cycle model must be exact."""
        return not self.patient and not any(probability for _, probability in self.idle)


def lengths(size: int, limit: int) -> list[int]:
    """Return the lengths to try along an axis of natural size `size`, at most `limit`."""
    borders = {1, 7, size - 1, size, size + 1, 3 * size + 1}
    return sorted({min(max(1, length), limit) for length in borders})


def cases(config: FamilyConfig, seed: int) -> list[Case]:
    """Return the regression of a configuration, the same for the same seed."""
    rng = np.random.default_rng([seed, zlib.crc32(config.name.encode())])
    big = 1 << 30
    axes = [
        lengths(size, limit)
        for size, limit in zip(config.natural_sizes, (big, config.max_k, big), strict=True)
    ]
    sizes = pairwise(axes)
    ports = [port.name for port in config.ports]
    planned = [Case(f"shapes_{i}", (size,), (OPERANDS[i % 2 * 6],)) for i, size in enumerate(sizes)]
    largest = (axes[0][-1], axes[1][-1], axes[2][-1])
    has_specials = config.activation.specials or config.weight.specials
    kinds = OPERANDS if has_specials else OPERANDS[:-1]
    planned += [Case(f"values_{kind}", (largest, largest), (kind, "random")) for kind in kinds]
    for i, probabilities in enumerate(pairwise([list(PROBABILITIES)] * len(ports))):
        picked = tuple(sizes[j] for j in rng.integers(len(sizes), size=3))
        idle = tuple(zip(ports, probabilities, strict=True))
        planned.append(Case(f"stalls_{i}", picked, ("random",) * 3, idle))
    for i in range(4):
        picked = tuple(sizes[j] for j in rng.integers(len(sizes), size=3))
        resets = tuple(int(r) for r in rng.integers(1, 6 + sum(config.natural_sizes), size=3))
        idle = tuple((port, PROBABILITIES[i % 2]) for port in ports)
        planned.append(Case(f"reset_{i}", picked, ("random",) * 3, idle, resets))
    for name, probability in (("full_rate", 0.0), ("stalled", 0.3)):
        picked = tuple(sizes[j] for j in rng.integers(len(sizes), size=20))
        idle = tuple((port, probability) for port in ports)
        planned.append(Case(f"back_to_back_{name}", picked, ("random",) * 20, idle))
    picked = tuple(sizes[j] for j in rng.integers(len(sizes), size=3))
    planned.append(Case("ready_after_valid", picked, ("random",) * 3, patient=True))
    return (
        planned
        if config.post_features is None
        else _with_posts(config, planned, (largest, sizes[0]))
    )


def _with_posts(config: FamilyConfig, planned: list[Case], sizes: tuple[Size, ...]) -> list[Case]:
    """Give the jobs of all cases settings, in turn, and add a case for each of the settings."""
    count = len(settings_of(cast(PostConfig, config)))
    planned = [
        replace(case, posts=tuple((i + job) % count for job in range(len(case.sizes))))
        for i, case in enumerate(planned)
    ]
    planned += [
        Case(f"post_{i}", sizes, ("random",) * len(sizes), posts=(i,) * len(sizes))
        for i in range(count)
    ]
    return planned


def pairwise(axes: list[list[Any]]) -> list[tuple[Any, ...]]:
    """Return tuples in which every pair of values of any two of three axes occurs.

    The third index is the sum of the first two modulo the longest axis: a Latin square.  So is a
    fourth, which adds the second twice; pairs with it occur if the longest axis is odd.
    """
    period = max(len(axis) for axis in axes)
    chosen = []
    for i, j in itertools.product(range(period), repeat=2):
        indices = [i, j, *((i + k * j) % period for k in range(1, len(axes) - 1))]
        chosen.append(tuple(axis[x % len(axis)] for axis, x in zip(axes, indices, strict=True)))
    return list(dict.fromkeys(chosen))


def numbers(
    fmt: Any, shape: tuple[int, ...], kind: str, index: int, rng: np.random.Generator
) -> np.ndarray:
    """Return numbers of a format for the operand at `index`; see `operands` for the kinds."""
    low, high = fmt.min, fmt.max
    if kind in ("random", "sparse", "special"):
        values = fmt.random(rng, shape)
        if kind == "sparse":
            values[rng.random(shape) < 0.8] = fmt.zero
        elif kind == "special" and fmt.specials:
            drawn = rng.choice(np.array(fmt.specials), shape).astype(fmt.dtype)
            values = np.where(rng.random(shape) < 0.1, drawn, values)
    elif kind == "alternating":
        values = np.where(np.indices(shape).sum(axis=0) % 2, low, high)
    elif kind == "zero":
        values = rng.choice([fmt.zero, -fmt.zero], shape)
    else:
        ends = {"lowest": low, "highest": high, "opposite": (low, high)[index % 2]}
        values = np.full(shape, ends[kind])
    found: np.ndarray = values.astype(fmt.dtype)
    return found


def operands(
    config: FamilyConfig, size: Size, kind: str, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return A and W of a job.

    Parameters
    ----------
    config : FamilyConfig
    size : (m, k, n)
    kind : str
        ``random`` over the full range; ``lowest``, ``highest``: all at that end of the range;
        ``opposite``: A lowest, W highest; ``alternating`` between the ends; ``zero``, of either
        sign if there are two; ``sparse``: mostly zero; ``special``: some of the format's
        special values, if it has any, among random ones.
    rng : numpy Generator
    """
    m, k, n = size
    results = []
    for index, (fmt, shape) in enumerate(((config.activation, (m, k)), (config.weight, (k, n)))):
        if fmt.is_block:
            results.append(_blocks(fmt, shape, index, kind, rng))
            continue
        results.append(numbers(fmt, shape, kind, index, rng))
    return results[0], results[1]


def _blocks(
    fmt: BlockFormat, shape: tuple[int, int], index: int, kind: str, rng: np.random.Generator
) -> np.ndarray:
    """Return an operand in blocks, which run along the rows of A and the columns of W."""
    kind = {"opposite": ("lowest", "highest")[index]}.get(kind, kind)
    lines = fmt.sample(rng, shape if index == 0 else shape[::-1], kind)
    return lines if index == 0 else lines.T
