# SPDX-License-Identifier: Apache-2.0
"""Memories of a design: what they are made of and cost, and the memory behind an engine's port.

A memory is a module of its own (`hwgen.core.memories`).  It is made of SRAM macros
(`cost_model.memories.macros`) if it has as many bits as the configuration says, if its reads are
synchronous, and if the macros of the technology are smaller than registers; else of registers, one
for each bit, as synthesis makes of the Verilog.  What is not published is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from cost_model.estimate.technology import Technology
from cost_model.memories.macros import Composition, composed, energies, library
from cost_model.netlist.costs import cost
from cost_model.netlist.memories import MemoryUse
from cost_model.timing.compiled import MacroSteps
from hwgen.core.memories import Ram, Use

Form = Literal["macros", "registers"]


# -- what memories are made of -----------------------------------------------------------------

RATES: Mapping[str, tuple[float, float]] = {
    "activations": (1.0, 0.0),
    "weights": (1.0, 0.0),
    "results": (0.5, 0.5),
    "columns": (1.0, 0.0),
}
"""Words that a memory reads and writes in a cycle of full throughput, by what it holds: operands
are loaded once and read again and again, and one half of the results is at work.  All others read
and write a word."""


@dataclass(frozen=True)
class Made:
    """Memories of one shape, made of macros or of registers.

    Parameters
    ----------
    use : MemoryUse
    composition : Composition or None
        The macros of one of them; None: registers.
    read_pj, write_pj : float
        Energy of an access to one of them; NaN if it is not known.  Accesses to registers take
        nothing of their own.
    area_um2, leakage_nw, energy_fj : float
        Of all of them: area, leakage, energy of a cycle of full throughput, accesses and what is
        around macros included.
    glue : mapping
        Components around the macros of one of them.
    """

    use: MemoryUse
    composition: Composition | None
    read_pj: float
    write_pj: float
    area_um2: float
    leakage_nw: float
    energy_fj: float
    glue: Mapping[str, float]

    @property
    def clock_pj(self) -> float:
        """Energy of a cycle that does not depend on accesses, of all of them."""
        return self.energy_fj * 1e-3 - self.access_pj()

    @property
    def macros_um2(self) -> float:
        """Area of the macros of all of them, without what selects between them."""
        made = self.composition
        return 0.0 if made is None else self.use.count * made.count * made.macro.area_um2

    @property
    def macros_nw(self) -> float:
        """Leakage of the macros of all of them; NaN if it is not known."""
        if self.composition is None:
            return 0.0
        leakage = self.composition.macro.leakage_nw
        each = math.nan if leakage is None else leakage
        return self.use.count * self.composition.count * each

    def access_pj(self, names: Collection[str] | None = None) -> float:
        """Return the energy of the accesses of a cycle of full throughput, of all of them.

        Parameters
        ----------
        names : collection of str, optional
            Count those alone that hold this.
        """
        total = 0.0
        if self.composition is None:
            return total
        for name, count in self.use.holds.items():
            if names is not None and name not in names:
                continue
            total += count * access_pj(name, self.read_pj, self.write_pj)
        return total

    def document(self) -> dict[str, Any]:
        """Return it as JSON values, with NaN for what is unknown."""
        ram, made = self.use.ram, self.composition
        return {
            "module": self.use.module,
            "holds": dict(self.use.holds),
            "count": self.use.count,
            "words": ram.words,
            "bits": ram.bits,
            "kib": self.use.count * ram.capacity / 8192,
            "ports": ram.ports,
            "form": "registers" if made is None else "macros",
            "macro": made and made.macro.name,
            "arrangement": made and made.arrangement,
            "banks": made and made.banks,
            "slices": made and made.wide,
            "macros": made and made.count,
            "area_um2": self.area_um2,
            "leakage_nw": self.leakage_nw,
            "read_pj": self.read_pj,
            "write_pj": self.write_pj,
        }


def macros_of(
    uses: Sequence[MemoryUse], technology: str, tech: Technology | None, registers_below: int
) -> dict[str, Composition]:
    """Return the memories that are made of macros, by their modules.

    Parameters
    ----------
    uses : sequence of MemoryUse
    technology : str
    tech : Technology or None
        Its costs, if they are known.
    registers_below : int
        Bits of a memory from which on macros are taken.
    """
    published = library(technology)
    prices = tech.structure.get("costs", {}).get("area_um2", {}) if tech else {}
    result = {}
    for use in uses if published else ():
        if use.ram.capacity < registers_below:
            continue
        assert published is not None
        made = composed(use.ram, published, prices)
        if made is not None and (not prices or smaller(made, prices)):
            result[use.module] = made
    return result


def smaller(made: Composition, prices: Mapping[str, float]) -> bool:
    """Return whether macros are smaller than the registers of a memory."""
    around = cost(prices, made.glue(stable=True))
    return made.area_um2 + around < cost(prices, registers_of(made.ram))


def registers_of(ram: Ram) -> dict[str, float]:
    """Return the components of a memory that is made of registers."""
    return {
        "register_bit": ram.capacity,
        "enable_bit": ram.capacity,
        "read_bit": ram.bits * (ram.words - 1),
    }


def access_pj(holds: str, read_pj: float, write_pj: float) -> float:
    """Return the energy of the accesses of a cycle of full throughput, of one memory.

    Parameters
    ----------
    holds : str
        What is in it, see `RATES`.
    read_pj, write_pj : float
        Of one access; that of accesses that there are none of may be unknown.
    """
    reads, writes = RATES.get(holds, (1.0, 1.0))
    return (reads * read_pj if reads else 0.0) + (writes * write_pj if writes else 0.0)


def steps_of(
    uses: Sequence[MemoryUse], macros: Mapping[str, Composition], technology: str, period_ns: float
) -> dict[str, MacroSteps]:
    """Return the steps into and out of the memories that are made of macros."""
    published = library(technology)
    result = {}
    for use in uses:
        if (made := macros.get(use.module)) is not None and published is not None:
            result[use.module] = MacroSteps(
                made.start_steps(published, period_ns, stable=use.stable),
                made.end_steps(published),
                made.data_steps(published),
            )
    return result


def shortest_period_ns(macros: Iterable[Composition]) -> float:
    """Return the shortest clock period that macros themselves allow, 0 if none is published."""
    return max((made.macro.min_period_ns or 0.0 for made in macros), default=0.0)


def made_of(
    uses: Sequence[MemoryUse],
    macros: Mapping[str, Composition],
    technology: str,
    prices: Mapping[str, Mapping[str, float]],
    parts: Mapping[str, Mapping[str, float]],
) -> list[Made]:
    """Return the costs of memories.

    Parameters
    ----------
    uses : sequence of MemoryUse
    macros : mapping
        As `macros_of` returns them.
    technology : str
    prices : mapping
        Quantity: price of a component of each kind.
    parts : mapping
        Components of the modules that are registers.
    """
    result = []
    published = library(technology)
    for use in uses:
        made = macros.get(use.module)
        counts = parts.get(use.module, {}) if made is None else made.glue(stable=use.stable)
        details = {
            quantity: use.count * cost(prices[quantity], counts) if quantity in prices else math.nan
            for quantity in ("area_um2", "leakage_nw", "energy_fj")
        }
        if made is None or published is None:
            result.append(Made(use, None, 0.0, 0.0, glue={}, **details))
            continue
        read, write = energies(made.macro, published)
        of = Made(
            use, made, made.wide * read, made.wide * write,
            details["area_um2"] + use.count * made.area_um2, 0.0, 0.0, counts,
        )  # fmt: skip
        result.append(
            replace(
                of,
                leakage_nw=details["leakage_nw"] + of.macros_nw,
                energy_fj=details["energy_fj"] + of.access_pj() * 1e3,
            )
        )
    return result


def part_of(made: Made) -> dict[str, Any]:
    """Return memories of macros as a part of a breakdown of costs."""
    bits = made.use.count * made.use.ram.capacity
    return {
        "part": made.use.module,
        "count": made.use.count,
        "area_um2": made.area_um2,
        "leakage_nw": made.leakage_nw,
        "energy_fj": made.energy_fj,
        "components": {
            "sram_bit": float(bits),
            **{component: made.use.count * count for component, count in sorted(made.glue.items())},
        },
    }


# -- what workloads take -----------------------------------------------------------------------


def workload_pj(made: Sequence[Made], use: Use) -> float:
    """Return the energy of all accesses of a workload to memories that are macros, in pJ."""
    total = 0.0
    for each in made:
        if each.composition is None:
            continue
        for name in each.use.holds:
            writes = use.writes.get(name, 0)
            reads = use.accesses.get(name, 0) - writes
            total += (reads * each.read_pj if reads else 0.0) + (
                writes * each.write_pj if writes else 0.0
            )
    return total


def buffers_of(made: Sequence[Made], names: Sequence[str]) -> list[Made]:
    """Return the memories that hold what the buffers of an engine hold."""
    return [each for each in made if set(each.use.holds) & set(names)]


def energy_mj(
    made: Sequence[Made], use: Use, cycles: float, clock_mhz: float, dram_pj: float
) -> dict[str, float]:
    """Return the energy of the memories for a workload, ``off_chip`` and ``on_chip``, in mJ."""
    seconds = cycles / clock_mhz * 1e-6
    on_chip = workload_pj(made, use) * 1e-9 + sum(
        cycles * each.clock_pj * 1e-9 + each.leakage_nw * seconds * 1e-6 for each in made
    )
    return {"off_chip": use.moved_bytes * 8 * dram_pj * 1e-9, "on_chip": on_chip}
