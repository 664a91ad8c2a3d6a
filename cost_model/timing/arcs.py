# SPDX-License-Identifier: Apache-2.0
"""Timing arcs of operators, from each bit of an operand to each bit of a result.

Steps are counted by kind (`STEPS`); a technology says how long one of each takes.  An `Arcs` takes
when nets are stable and says when those that it drives are, and which of them, and which steps,
that was decided by.  Times are in ns, numbered by net; a constant is stable for ever, at ``-inf``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, log2
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]
Nets = NDArray[np.int64]
Mask = NDArray[np.bool_]
Steps = Mapping[str, float]

STEPS: Mapping[str, str] = {
    "register": "a register, from the clock to its output, and its setup time",
    "gate": "a gate, a level of a tree of gates",
    "xor": "an exclusive or",
    "mux": "a multiplexer, also that of an enable",
    "select": "a level of a tree of and-or gates that selects words",
    "adder": "a carry-propagate adder",
    "adder_level": "each doubling of the bits that a carry crosses in it",
    "adder_bit": "each bit that a carry crosses in it",
    "increment_bit": "the same where one operand is constant, or repeats the bit below",
    "compress": "a level of full adders by which words become fewer",
    "full_adder_sum": "a full adder, to the sum",
    "full_adder_carry": "a full adder, to the carry",
    "multiplier": "encoders and selectors of a multiplier",
    "multiplier_level": "a level of full adders in a multiplier",
    "multiplier_bit": "each bit that a carry crosses in a multiplier",
    "shift": "a level of a shifter",
    "read": "each doubling of the words of a memory that is read",
    "fanout": "each doubling of the loads of a net beyond a few",
}
"""Kinds of steps, and what one of them is."""

MACRO = "macro"
"""A nanosecond of an SRAM macro, from the clock to its data or of its setup time: a kind of step
that takes 1 ns in every technology."""

LIGHT = 4.0
"""Loads that a gate drives as quickly as one."""


def spread(loads: float) -> float:
    """Return the doublings of loads by which a net is slower than one of few loads."""
    return max(0.0, log2(loads / LIGHT)) if loads else 0.0


class Arcs(Protocol):
    """Paths from nets to others, those that one operator drives."""

    out: Nets
    """Nets that it drives."""

    @property
    def sources(self) -> Nets:
        """Nets that it depends on."""

    def arrivals(self, at: Times) -> Times:
        """Return when the nets that it drives are stable, shape (nets,)."""

    def cause(self, at: Times, index: int) -> tuple[int, Steps]:
        """Return the net that decides when ``out[index]`` is stable, and the steps between them."""


class Costs:
    """Steps, weighed by a technology."""

    def __init__(self, ns: Mapping[str, float]) -> None:
        # Some technologies do not tell carries through one operand from those through two.
        self.ns = {MACRO: 1.0, "increment_bit": ns.get("adder_bit", 0.0), **ns}

    def of(self, steps: Mapping[str, float]) -> float:
        """Return the delay of steps."""
        return sum(self.ns.get(step, 0.0) * count for step, count in steps.items())


class Parallel:
    """Each bit of the result depends on the bits of the operands in its place.

    Parameters
    ----------
    out : array
        Shape (n,).
    ins : array
        Nets, shape (operands, n).
    steps : sequence of mapping
        From each operand.
    """

    def __init__(self, out: Nets, ins: Nets, steps: Sequence[Steps], costs: Costs) -> None:
        self.out, self.ins, self.steps = out, ins, steps
        self._delays = np.array([[costs.of(each)] for each in steps])

    @property
    def sources(self) -> Nets:
        """See `Arcs`."""
        return self.ins.ravel()

    def arrivals(self, at: Times) -> Times:
        """See `Arcs`."""
        return np.asarray((at[self.ins] + self._delays).max(0))

    def cause(self, at: Times, index: int) -> tuple[int, Steps]:
        """See `Arcs`."""
        row = int((at[self.ins[:, index]] + self._delays[:, 0]).argmax())
        return int(self.ins[row, index]), self.steps[row]


class Dense:
    """Each bit of the result may depend on all bits of the operands.

    Parameters
    ----------
    out, ins : array
        Nets, shapes (n,) and (m,).
    steps : mapping
        Steps of each kind, shape (n, m).
    reaches : array of bool
        Whether there is a path at all, shape (n, m).
    """

    def __init__(
        self, out: Nets, ins: Nets, steps: Mapping[str, Times], reaches: Mask,
        costs: Costs,
    ) -> None:  # fmt: skip
        self.out, self.ins, self.steps = out, ins, steps
        total = np.zeros(reaches.shape)
        for step, counts in steps.items():
            total += costs.ns.get(step, 0.0) * counts
        self._delays = np.where(reaches, total, -inf)

    @property
    def sources(self) -> Nets:
        """See `Arcs`."""
        return self.ins

    def arrivals(self, at: Times) -> Times:
        """See `Arcs`."""
        return np.asarray((at[self.ins] + self._delays).max(1))

    def cause(self, at: Times, index: int) -> tuple[int, Steps]:
        """See `Arcs`."""
        column = int((at[self.ins] + self._delays[index]).argmax())
        return int(self.ins[column]), {k: float(n[index, column]) for k, n in self.steps.items()}


class Tree:
    """Each bit of the result is a balanced tree over terms, the latest nearest to the result.

    Such a tree is stable ``level * log2(sum of 2 ** (arrival / level))`` after the clock, as one is
    that merges the two earliest terms again and again.

    Parameters
    ----------
    out : array
        Shape (n,).
    ins : array
        Nets, shape (parts of a term, terms, n).
    before : mapping
        Steps from each part of a term to the tree.
    level : str
        The kind of a level of the tree.
    """

    def __init__(self, out: Nets, ins: Nets, before: Steps, level: str, costs: Costs) -> None:
        self.out, self.ins, self.before, self.level = out, ins, before, level
        self._base, self._each = costs.of(before), costs.ns.get(level, 0.0)

    @property
    def sources(self) -> Nets:
        """See `Arcs`."""
        return self.ins.ravel()

    def arrivals(self, at: Times) -> Times:
        """See `Arcs`."""
        terms = at[self.ins].max(0)
        latest = terms.max(0)
        if not self._each:
            return np.asarray(latest + self._base)
        finite = np.where(latest > -inf, latest, 0.0)
        weights = np.exp2((terms - finite) / self._each).sum(0)
        with np.errstate(divide="ignore"):
            return np.asarray(latest + self._base + self._each * np.log2(weights))

    def cause(self, at: Times, index: int) -> tuple[int, Steps]:
        """See `Arcs`."""
        times = at[self.ins[:, :, index]]
        part, term = np.unravel_index(int(times.argmax()), times.shape)
        levels = 0.0
        if self._each:
            levels = (self.arrivals(at)[index] - times[part, term] - self._base) / self._each
        return int(self.ins[part, term, index]), {**self.before, self.level: float(levels)}


class Sum:
    """Words that are added up at once: full adders make two of them, which an adder adds.

    Parameters
    ----------
    out : array
        Shape (n,).
    words : array
        Nets, shape (words, n).
    constant : int
        The number of constants.
    """

    def __init__(self, out: Nets, words: Nets, costs: Costs, constant: int = -1) -> None:
        self.out, self.words = out, words
        self._compress = costs.ns.get("compress", 0.0)
        simple = simple_bits(words, constant)
        self._last = carry_propagate(out, np.arange(2 * len(out)), costs, simple)

    @property
    def sources(self) -> Nets:
        """See `Arcs`."""
        return self.words.ravel()

    def _two(self, at: Times) -> tuple[Times, Nets, NDArray[np.float64]]:
        """Return when the bits of the last two words are stable, due to which net, how deep."""
        none = np.zeros(len(self.out))
        waiting = [(at[nets], nets, none) for nets in self.words]
        while len(waiting) > 2:
            waiting.sort(key=lambda word: float(word[0].max()))
            first = waiting[:3]
            times = np.stack([word[0] for word in first])
            latest = times.argmax(0)[None]
            sources = np.take_along_axis(np.stack([word[1] for word in first]), latest, 0)[0]
            levels = np.take_along_axis(np.stack([word[2] for word in first]), latest, 0)[0] + 1
            stable = times.max(0) + self._compress
            carry = np.concatenate(([-inf], stable[:-1]))
            indices = np.concatenate(([0], np.arange(len(stable) - 1)))
            waiting[:3] = [(stable, sources, levels), (carry, sources[indices], levels[indices])]
        return tuple(np.concatenate(parts) for parts in zip(*waiting, strict=True))  # type: ignore[return-value]

    def arrivals(self, at: Times) -> Times:
        """See `Arcs`."""
        return self._last.arrivals(self._two(at)[0])

    def cause(self, at: Times, index: int) -> tuple[int, Steps]:
        """See `Arcs`."""
        times, sources, levels = self._two(at)
        position, steps = self._last.cause(times, index)
        return int(sources[position]), {**steps, "compress": float(levels[position])}


def carry_propagate(out: Nets, ins: Nets, costs: Costs, simple: Mask | None = None) -> Dense:
    """Return the paths of an adder of two words of `out`'s width, one after the other in `ins`.

    `simple` says of which bits of the result at most one operand is a bit of its own.
    """
    width = len(out)
    crossed = np.arange(width)[:, None] - np.arange(width)[None]
    reaches = crossed >= 0
    crossed = np.where(reaches, crossed, 0)
    before = np.cumsum(np.zeros(width, bool) if simple is None else simple)
    short = np.where(reaches, before[:, None] - before[None], 0)
    one = {
        "adder": np.ones((width, width)),
        "adder_level": np.log2(1.0 + crossed),
        "adder_bit": (crossed - short).astype(np.float64),
        "increment_bit": short.astype(np.float64),
    }
    both = {step: np.hstack([count, count]) for step, count in one.items()}
    return Dense(out, ins, both, np.hstack([reaches, reaches]), costs)


def simple_bits(words: Nets, constant: int) -> Mask:
    """Return of which bits at most one of some words is a bit of its own.

    Others are constants, whose number is `constant`, or repeat the bit below, as signs do.

    Parameters
    ----------
    words : array
        Nets, shape (words, n).
    constant : int
    """
    variable = words != constant
    variable[:, 1:] &= words[:, 1:] != words[:, :-1]
    return np.asarray(variable.sum(0) <= 1)


def running(out: Nets, ins: Nets, costs: Costs) -> Dense:
    """Return the paths of a reduction of bits of which others reduce the first: a chain.

    A mapper makes each of the one before, as that takes the fewest gates.
    """
    crossed = np.arange(len(ins) - 1, -1, -1, dtype=np.float64)[None]
    steps = {"gate": np.ones((1, len(ins))), "increment_bit": crossed}
    return Dense(out, ins, steps, np.ones((1, len(ins)), bool), costs)
