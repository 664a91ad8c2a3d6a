# SPDX-License-Identifier: Apache-2.0
"""Memories beside a core: buffers on the chip, and the memory behind the port.

A buffer is either as it is synthesized, a register for each bit, or an SRAM macro.  Macros are
closed forms that are fitted to published ones, which the data file of a technology lists, by least
squares of the relative errors:

==================  =============================================
area in um2         ``a bits + b width + c words``
energy in pJ        ``width (p + q sqrt(words))``, of one access
leakage in nW       ``l bits + m width``
==================  =============================================

Cells, the periphery of columns and that of rows make the area; an access charges bit lines, which
are as long as the square root of the words if the array is folded to a square.  A memory that is
larger than the largest published macro is made of several: those side by side are all accessed,
of those that share the words one is.  What is not published is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cost_model.technology import Technology
from hwgen.technologies import technologies
from hwgen.technologies.model import Macro, Memories, StandardCells

if TYPE_CHECKING:
    from numpy.typing import NDArray

Form = Literal["flip_flops", "sram"]


@dataclass(frozen=True)
class Buffer:
    """A buffer of an engine: memories of one shape that are accessed together.

    Parameters
    ----------
    name : str
    memories : int
    words, width : int
        Of one memory; bits of a word.
    parts : int
        Macros with a port of their own that a memory falls into, because it reads and writes in
        one cycle: one for each half, or two for each half.
    module : str
        The module of the hardware whose memories it is; empty if there is none of its own.
    """

    name: str
    memories: int
    words: int
    width: int
    parts: int = 2
    module: str = ""

    @property
    def bits(self) -> int:
        """Of all memories."""
        return self.memories * self.words * self.width


@dataclass(frozen=True)
class Use:
    """What a workload does with the memories of an engine.

    Parameters
    ----------
    moved_bytes : int
        Over the memory port.
    accesses : mapping
        Buffer: words read and written, of all its memories.
    """

    moved_bytes: int
    accesses: Mapping[str, int]


# -- macros ------------------------------------------------------------------------------------


def library(technology: str) -> Memories | None:
    """Return the macros that are published of a technology, None if there are none."""
    if technology not in technologies():
        return None
    known = technologies()[technology]
    return known.memories if isinstance(known, StandardCells) else None


@dataclass(frozen=True)
class MacroForm:
    """Closed forms of the macros of a technology; see the module.

    Parameters
    ----------
    area : tuple of float
        a, b and c.
    energy : tuple of float
        p and q.
    leakage : tuple of float
        l and m.
    words, width : int
        Of the largest published macro, along each axis.
    """

    area: tuple[float, float, float]
    energy: tuple[float, float]
    leakage: tuple[float, float]
    words: int
    width: int

    def macro(self, words: int, width: int) -> Macro:
        """Return a memory of any size, made of as few macros as hold it."""
        deep, wide = -(-words // self.words), -(-width // self.width)
        n, w = -(-words // deep), -(-width // wide)
        a, b, c = self.area
        p, q = self.energy
        l_, m = self.leakage
        count = deep * wide
        return Macro(
            words=words,
            width=width,
            area_um2=count * (a * n * w + b * w + c * n),
            access_pj=wide * w * (p + q * math.sqrt(n)),
            leakage_nw=count * (l_ * n * w + m * w),
        )


@cache
def macro_form(technology: str) -> MacroForm | None:
    """Return the closed forms of a technology, None if no macros of it are published here."""
    published = library(technology)
    if published is None:
        return None
    macros = published.macros
    n = np.array([macro.words for macro in macros], float)
    w = np.array([macro.width for macro in macros], float)
    area = _fit([n * w, w, n], [macro.area_um2 for macro in macros])
    energy = _fit([w, w * np.sqrt(n)], [macro.access_pj for macro in macros])
    leakage = _fit([n * w, w], [macro.leakage_nw for macro in macros])
    return MacroForm(
        (area[0], area[1], area[2]),
        (energy[0], energy[1]),
        (leakage[0], leakage[1]),
        int(n.max()),
        int(w.max()),
    )


def _fit(terms: Sequence[NDArray[np.float64]], values: Sequence[float]) -> list[float]:
    """Return coefficients, none negative: a term that would be is left out."""
    kept = list(range(len(terms)))
    while True:
        rows = np.stack([terms[i] / values for i in kept], axis=1)
        weights = np.linalg.lstsq(rows, np.ones(len(values)), rcond=None)[0]
        if (weights >= 0).all():
            return [float(weights[kept.index(i)]) if i in kept else 0.0 for i in range(len(terms))]
        del kept[int(weights.argmin())]


# -- estimates ---------------------------------------------------------------------------------


def buffer_costs(
    buffers: Sequence[Buffer], form: Form, technology: str, tech: Technology | None
) -> list[dict[str, Any]]:
    """Return what buffers cost, NaN where unknown.

    Returns
    -------
    list of dict
        For each buffer its shape and ``area_um2``, ``leakage_nw``, ``access_pj`` (of a word of one
        memory) and ``clock_pj`` (of all its memories, in every cycle).
    """
    costs = []
    for buffer in buffers:
        shape = {
            "buffer": buffer.name,
            "memories": buffer.memories,
            "words": buffer.words,
            "width_bits": buffer.width,
            "kib": buffer.bits / 8192,
        }
        of_form = _registers(buffer, tech) if form == "flip_flops" else _macros(buffer, technology)
        costs.append({**shape, **of_form})
    return costs


def macro_parts(buffers: Sequence[Buffer], technology: str) -> list[dict[str, Any]]:
    """Return what buffers cost as macros, as parts of a breakdown of costs.

    In a cycle at full rate a word of each memory is accessed.
    """
    costs = buffer_costs(buffers, "sram", technology, None)
    return [
        {
            "part": f"{buffer.name}, SRAM",
            "count": 1,
            "area_um2": cost["area_um2"],
            "leakage_nw": cost["leakage_nw"],
            "energy_fj": buffer.memories * cost["access_pj"] * 1e3,
            "components": {"sram_bit": float(buffer.bits)},
        }
        for buffer, cost in zip(buffers, costs, strict=True)
    ]


def _registers(buffer: Buffer, tech: Technology | None) -> dict[str, float]:
    bill = {"memory_bit": buffer.bits, "memory_word": buffer.memories * buffer.words}

    def cost(quantity: Any) -> float:
        return float(tech.cost(quantity, bill)) if tech else math.nan

    return {
        "area_um2": cost("area_um2"),
        "leakage_nw": cost("leakage_nw"),
        "access_pj": 0.0,  # what an access takes is in the average of every cycle
        "clock_pj": cost("energy_fj") * 1e-3,
    }


def _macros(buffer: Buffer, technology: str) -> dict[str, float]:
    form = macro_form(technology)
    if form is None:
        return dict.fromkeys(("area_um2", "leakage_nw", "access_pj", "clock_pj"), math.nan)
    macro = form.macro(-(-buffer.words // buffer.parts), buffer.width)
    count = buffer.memories * buffer.parts
    return {
        "area_um2": count * macro.area_um2,
        "leakage_nw": count * macro.leakage_nw,
        "access_pj": macro.access_pj,
        "clock_pj": 0.0,
    }


def energy_mj(
    costs: Sequence[Mapping[str, Any]], use: Use, cycles: float, clock_mhz: float, dram_pj: float
) -> dict[str, float]:
    """Return the energy of the memories for a workload, ``off_chip`` and ``on_chip``, in mJ."""
    seconds = cycles / clock_mhz * 1e-6
    on_chip = sum(
        (use.accesses[cost["buffer"]] * cost["access_pj"] + cycles * cost["clock_pj"]) * 1e-9
        + cost["leakage_nw"] * seconds * 1e-6
        for cost in costs
    )
    return {"off_chip": use.moved_bytes * 8 * dram_pj * 1e-9, "on_chip": on_chip}
