# SPDX-License-Identifier: Apache-2.0
"""Designs that calibration has never seen, of every size, drawn from everything that is legal.

What may stand where comes from the schemas of all families (`flows.calibration.draws`), engines
with their cores included, so that no list of parameters is kept here.  Calibration has other
random numbers, and this generator does not know what it was calibrated on.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from cost_model.netlist.components import COMPONENTS, totals
from cost_model.netlist.memories import memories_of
from cost_model.netlist.netlist import Netlist
from flows.build.design import Design
from flows.calibration.draws import Draw, drawn
from hwgen.core.params.base import FamilyConfig
from hwgen.core.registry import families
from hwgen.technologies import fpga_family, technology_names

SMALLEST, LARGEST = 100.0, 100_000.0
"""Sizes that are drawn for standard cells, see `size`; the largest is about 0.5 mm2 at 45 nm."""

WIDEST = 48
"""By how much the largest parameter that is a size exceeds the smallest that is legal."""

USUAL = 0.25
"""Share of the parameters that keep their defaults."""

_CHOICES = 16
"""Configurations of which that is taken which is nearest to the size that was drawn."""

_LOOKED_AT = 3
"""Of these how many are elaborated to see whether they are small enough."""

_OPERATOR = 150.0
"""Bits of registers that an operator on floating-point numbers is about as large as."""


def draw(
    seed: int,
    count: int,
    size_limit: float | None = None,
    technology: str = "nangate45",
    names: Sequence[str] = (),
    choices: Mapping[str, Sequence[Any]] | None = None,
) -> list[FamilyConfig]:
    """Return legal configurations of families in turn.

    Those of a seed begin alike, however many are asked for, and are the same in each technology of
    the same `size_limit`, so that Verilog and structures are made once.

    Parameters
    ----------
    seed : int
    count : int
        How many.
    size_limit : float, optional
        Largest `size`; default that of the technology, see `limit`.  What family has none that
        small is left out.
    technology : str
        Only decides the limit.
    names : sequence of str
        The families; default all that are installed.
    choices : mapping, optional
        See `flows.calibration.draws.Draw`.
    """
    most = limit(technology) if size_limit is None else size_limit
    result = _draws(seed, most, tuple(names) or tuple(families()), choices or {})
    return list(islice(result, count))


def limit(technology: str) -> float:
    """Return the largest `size` for a technology: of an FPGA what fills a middling device."""
    if technology not in technology_names("fpga"):
        return LARGEST
    luts = sorted(device.luts for device in fpga_family(technology).devices.values())
    return min(LARGEST, float(luts[len(luts) // 2])) if luts else LARGEST


def size(design: Netlist, registers_below: int) -> float:
    """Return the size of a design in bits of registers, in no technology in particular.

    Memories of as many bits as SRAM macros are made for are not counted.
    """
    macros = sum(
        use.count * use.ram.capacity
        for use in memories_of(design)
        if use.ram.capacity >= registers_below
    )
    counts = totals(design)
    return sum(COMPONENTS[component][1] * n for component, n in counts.items()) - macros


def _draws(
    seed: int, size_limit: float, names: Sequence[str], choices: Mapping[str, Sequence[Any]]
) -> Iterator[FamilyConfig]:
    number = 0
    while True:
        for name in names:
            # Each has random numbers of its own: how many one took changes no other.
            rng = random.Random(f"held out {seed} {name} {number}")
            wanted = math.exp(rng.uniform(math.log(SMALLEST), math.log(max(SMALLEST, size_limit))))
            config = _of_size(name, rng, wanted, size_limit, choices)
            if config is not None:
                yield config
        number += 1


def _of_size(
    name: str,
    rng: random.Random,
    wanted: float,
    size_limit: float,
    choices: Mapping[str, Sequence[Any]],
) -> FamilyConfig | None:
    """Return a configuration of about a size; None if the first few are above a limit."""
    some = []
    for _ in range(_CHOICES):
        most = round(math.exp(rng.uniform(0.0, math.log(WIDEST))))
        config = drawn(name, Draw(rng, most, USUAL, buffers=True, repair=True, choices=choices))
        some.append((abs(math.log(rough_size(config) / wanted)), config))
    some.sort(key=lambda each: each[0])
    for _, config in some[:_LOOKED_AT]:
        if rough_size(config) > 2 * size_limit:
            continue
        if size(Design.of(config).netlist, config.memories.registers_below) <= size_limit:
            return config
    return None


def rough_size(config: FamilyConfig) -> float:
    """Return about what `size` is, without the hardware."""
    if not config.multiplies:
        return max(1.0, config.operations_per_cycle * _OPERATOR)
    factors = config.activation.width * config.weight.width
    return max(1.0, config.macs_per_cycle * factors)
