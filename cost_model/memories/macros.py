# SPDX-License-Identifier: Apache-2.0
"""Memories made of SRAM macros: which macros, in what arrangement, and what they cost.

The memories of emitted designs write a word and read another one in the same cycle.  Of macros with
two ports they are banks (words side by side) and slices (bits side by side); of macros with one
port there are three arrangements:

``ports``
    Two ports: one reads, one writes.
``halves``
    One port, where reads and writes never meet in one half of the words: a bank or more each half.
``copies``
    One port, any accesses: two copies of the memory, and a bit for each word that says which of
    them has its latest value.  A word is read from there; what is written goes to the copy that is
    not being read.

Closed forms, fitted to the published macros by least squares of the relative errors with no
negative coefficients, stand in for energies that are not published:

==================  ==================================================================
area in um2         ``a bits + b width + c words``
energy in pJ        ``p width + q bits + r words + s + t width sqrt(words)``, of an access
leakage in nW       ``l bits + m width + k words``
clock to data       ``u + v sqrt(words) + x sqrt(bits)``, in ns
==================  ==================================================================
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hwgen.core.cycles.counting import bits_of
from hwgen.core.memories import Ram
from hwgen.technologies import technologies
from hwgen.technologies.model import Macro, Memories, StandardCells

Arrangement = Literal["ports", "halves", "copies"]

PER_PORT = 16
"""Loads that a gate drives without a tree of buffers."""


def library(technology: str) -> Memories | None:
    """Return the macros that are published of a technology, None if there are none."""
    if technology not in technologies():
        return None
    tech = technologies()[technology]
    return tech.memories if isinstance(tech, StandardCells) else None


# -- closed forms ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fit:
    """A closed form of words and bits of a word, and how far off it is.

    Parameters
    ----------
    terms : mapping
        Coefficient of each term: ``bits`` (of all words), ``width``, ``words``, ``1``,
        ``sqrt(words)``, ``sqrt(bits)``, ``width sqrt(words)``.
    worst, rms : float
        Relative errors over the macros that it is fitted to.
    """

    terms: Mapping[str, float]
    worst: float
    rms: float

    def of(self, words: int, width: int) -> float:
        """Return the value for one macro."""
        return sum(c * float(_TERMS[t](words, width)) for t, c in self.terms.items())


_TERMS = {
    "bits": lambda n, w: n * w,
    "width": lambda n, w: w,
    "words": lambda n, w: n,
    "1": lambda n, w: n**0,
    "sqrt(words)": lambda n, w: n**0.5,
    "width sqrt(words)": lambda n, w: w * n**0.5,
    "sqrt(bits)": lambda n, w: (n * w) ** 0.5,
}
FORMS: Mapping[str, tuple[str, ...]] = {
    "area_um2": ("bits", "width", "words"),
    "read_pj": ("width", "bits", "words", "1", "width sqrt(words)"),
    "write_pj": ("width", "bits", "words", "1", "width sqrt(words)"),
    "leakage_nw": ("bits", "width", "words"),
    "clk_to_q_ns": ("1", "sqrt(words)", "sqrt(bits)"),
    "min_period_ns": ("1", "sqrt(words)", "sqrt(bits)"),
}
"""Terms of the closed form of each figure of a macro."""

LARGEST = 4 << 16
"""Bits of the largest macro that fits take in; larger ones are folded in another way."""


def fits(macros: Sequence[Macro]) -> dict[str, Fit]:
    """Return the closed forms of macros with equal ports, of each figure that is published."""
    result = {}
    for name, terms in FORMS.items():
        fitted = [m for m in macros if getattr(m, name) and m.words * m.width < LARGEST]
        if len(fitted) < len(terms):
            continue
        n = np.array([macro.words for macro in fitted], float)
        w = np.array([macro.width for macro in fitted], float)
        values = np.array([getattr(macro, name) for macro in fitted], float)
        columns = np.stack([np.asarray(_TERMS[t](n, w), float) / values for t in terms], axis=1)
        weights = _least_squares(columns)
        off = columns @ weights - 1
        result[name] = Fit(
            {t: float(c) for t, c in zip(terms, weights, strict=True) if c},
            float(np.abs(off).max()),
            float(np.sqrt((off**2).mean())),
        )
    return result


def _least_squares(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights by which columns come closest to one, none negative."""
    from itertools import combinations

    best, least = np.zeros(columns.shape[1]), math.inf
    # There are five at most: the best of those subsets whose weights are all positive.
    for count in range(1, columns.shape[1] + 1):
        for subset in combinations(range(columns.shape[1]), count):
            chosen = columns[:, subset]
            weights = np.linalg.lstsq(chosen, np.ones(len(columns)), rcond=None)[0]
            error = float(((chosen @ weights - 1) ** 2).sum())
            if (weights >= 0).all() and error < least:
                best = np.zeros(columns.shape[1])
                best[list(subset)] = weights
                least = error
    return best


# -- arrangements ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Composition:
    """A memory made of macros.

    Parameters
    ----------
    ram : Ram
        Its words and bits may be arrays, of memories that are looked at together; then so are
        `deep`, `wide` and all figures.
    macro : Macro
        Of which all of it is made.
    arrangement : {"ports", "halves", "copies"}
    deep, wide : int
        Banks of each half, copy or of the whole, and slices of a bank.
    holds : bool
        Whether a macro's data stay until the next read.
    """

    ram: Ram
    macro: Macro
    arrangement: Arrangement
    deep: int
    wide: int
    holds: bool

    @property
    def groups(self) -> int:
        """Halves or copies."""
        return 1 if self.arrangement == "ports" else 2

    @property
    def banks(self) -> int:
        """Banks of all halves or copies; one of them is read at a time."""
        return self.groups * self.deep

    @property
    def count(self) -> int:
        """Macros of one memory."""
        return self.banks * self.wide

    @property
    def area_um2(self) -> float:
        """Area of the macros."""
        return self.count * self.macro.area_um2

    def glue(self, *, stable: bool) -> dict[str, float]:
        """Count the components around the macros, by types of `cost_model.netlist.components`.

        Parameters
        ----------
        stable : bool
            Whether the word that was read must stay although nothing is read.
        """
        ram, banks = self.ram, self.banks
        components = ("register_bit", "enable_bit", "read_bit", "and_bit", "mux_bit", "buffer")
        result: dict[str, Any] = dict.fromkeys(components, 0.0)
        address = np.maximum(1, bits_of(ram.words))
        # Which bank was read, and its word.
        result["register_bit"] += bits_of(banks)
        result["enable_bit"] += bits_of(banks)
        result["mux_bit"] += ram.bits * (banks - 1)
        # Enables of banks, and who has the address.
        result["and_bit"] += 2 * banks * (np.asarray(banks) > 1)
        if self.groups > 1:
            result["mux_bit"] += self.groups * address
            result["and_bit"] += 2 * self.groups
        if self.arrangement == "copies":
            result["register_bit"] += ram.words
            result["enable_bit"] += ram.words
            result["read_bit"] += ram.words - 1
            result["and_bit"] += 2 * ram.words
        if stable and not self.holds:
            result["register_bit"] += ram.bits + 1
            result["enable_bit"] += ram.bits
            result["mux_bit"] += ram.bits
        for bits, loads in ((address, self.count), (ram.bits, banks)):
            result["buffer"] += bits * loads / PER_PORT * (np.asarray(loads) > PER_PORT)
        return _present(result)

    def start_steps(
        self, memories: Memories, period_ns: float, *, stable: bool
    ) -> dict[str, float]:
        """Return the steps from the clock to the data, by kinds of `cost_model.timing.arcs`."""
        late = self.macro.clk_to_q_ns + (period_ns / 2 if memories.falling else 0.0)
        levels = np.log2(self.banks) + (stable and not self.holds)
        return _present({"macro": late, "mux": levels})

    def end_steps(self, memories: Memories) -> dict[str, float]:
        """Return the steps from addresses and enables to the macros."""
        chosen = np.logical_or(self.groups > 1, np.asarray(self.deep) > 1)
        steps: dict[str, Any] = {
            "macro": memories.setup_ns,
            "fanout": np.maximum(0.0, np.log2(np.asarray(self.count) / 4)),
            "gate": 1.0 * chosen,
            "mux": float(self.groups > 1),
        }
        if self.arrangement == "copies":
            steps["read"] = np.log2(np.maximum(2, self.ram.words))
            steps["gate"] = 2.0
        return _present(steps)

    def data_steps(self, memories: Memories) -> dict[str, float]:
        """Return the steps from the data that are written to the macros."""
        reach = np.maximum(0.0, np.log2(np.asarray(self.banks) / 4))
        return _present({"macro": memories.setup_ns, "fanout": reach})


def _present(counts: Mapping[str, Any]) -> dict[str, float]:
    """Return the counts of what is there, plain numbers where they are no arrays."""
    return {
        name: float(count) if np.ndim(count) == 0 else count
        for name, count in counts.items()
        if np.any(count)
    }


def arrangements(ram: Ram, macro: Macro, *, holds: bool) -> list[Composition]:
    """Return the ways in which a memory can be made of a macro; none, if its reads do not fit."""
    if ram.asynchronous or ram.reads != 1:
        return []
    wide = -(-ram.bits // macro.width)
    if macro.ports != "1rw":
        return [Composition(ram, macro, "ports", -(-ram.words // macro.words), wide, holds)]
    half = ram.words // 2
    if ram.halves and half and 2 * half == ram.words and half & (half - 1) == 0:
        return [Composition(ram, macro, "halves", -(-half // macro.words), wide, holds)]
    return [Composition(ram, macro, "copies", -(-ram.words // macro.words), wide, holds)]


def composed(
    ram: Ram, memories: Memories, prices: Mapping[str, float] | None = None
) -> Composition | None:
    """Return the smallest memory that macros make, None if none can.

    Parameters
    ----------
    ram : Ram
    memories : Memories
    prices : mapping, optional
        Area of each kind of component, of what is around the macros.
    """
    result = [
        each for macro in memories.macros for each in arrangements(ram, macro, holds=memories.holds)
    ]

    def area(each: Composition) -> float:
        glue = each.glue(stable=True)
        around = sum((prices or {}).get(name, 0.0) * count for name, count in glue.items())
        return each.area_um2 + around

    return min(result, key=lambda each: (area(each), each.count, each.macro.name), default=None)


def energies(macro: Macro, memories: Memories) -> tuple[float, float]:
    """Return the energy of a read and of a write in pJ; NaN if no macro of the library has any.

    What is not published of a macro is by the closed form of the others.
    """
    values = []
    for name in ("read_pj", "write_pj"):
        value = getattr(macro, name)
        if value is None:
            form = fits(memories.macros).get(name)
            value = form.of(macro.words, macro.width) if form else math.nan
        values.append(float(value))
    return values[0], values[1]
