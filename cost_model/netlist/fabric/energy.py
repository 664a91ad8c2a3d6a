# SPDX-License-Identifier: Apache-2.0
"""Power of a design on an FPGA, by published energies of what happens in a fabric.

Of the families here no energies of look-up tables, registers and blocks were found.  Those of
`hwgen.technologies.fpga_energies` are of another fabric: they are asked for, and good to a factor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cost_model.configurations.metrics import ACTIVITY, RESOURCES
from hwgen.technologies import fpga_family
from hwgen.technologies.fpga_energies import fpga_energies
from hwgen.technologies.fpga_model import Fpga
from hwgen.technologies.utilization import used_resources
from hwgen.workloads import Network

CHANGES = 2 * ACTIVITY
"""Changes of a signal in a cycle, on average: as many falls as rises."""


def cycle_pj(family: Fpga, used: Mapping[str, float]) -> float:
    """Return the energy of a cycle in pJ, without static power; NaN if something is not known.

    Every signal changes as often as those of standard cells do in estimates; block memories write
    a word and read one in every cycle.

    Parameters
    ----------
    family : Fpga
    used : mapping
        What a design consists of, by resource; carry cells and small memories count as the look-up
        tables that they take.
    """
    table = fpga_energies()
    luts: float = used_resources(family, used)["luts"]
    registers, dsps, brams = used["flip_flops"], used["dsps"], used["brams"]
    factors = sum(family.dsp_block.factors) if family.dsp_block else math.nan
    block = family.rules.block_memory if family.rules else None
    word = block.lane_bits * block.lanes if block else math.nan
    changing = {
        "lut": luts,
        "flip_flop": registers,
        "dsp_bit": dsps * factors if dsps else 0.0,
        "written_bit": brams * word if brams else 0.0,
        "read_bit": brams * word if brams else 0.0,
    }
    # A block memory has a clock at each of its two ports.
    always = {
        "clock": 1.0,
        "clock_load": registers + dsps + 2 * brams,
        "flip_flop": registers,
    }
    return CHANGES * sum(table.changes[event] * n for event, n in changing.items()) + sum(
        table.cycles[event] * n for event, n in always.items()
    )


def powered(
    technology: str, metrics: Mapping[str, Any], networks: Mapping[str, Any], clock_mhz: float
) -> dict[str, float]:
    """Return the metrics of power and energy, NaN where unknown.

    Parameters
    ----------
    technology : str
        An FPGA family.
    metrics : mapping
        Of the design: its resources, ``tops`` and ``latency_ms(W)`` of workloads, None if unknown.
    networks : mapping
        Workloads by name.
    clock_mhz : float
        The clock that the metrics are at.
    """
    numbers = {name: math.nan if value is None else value for name, value in metrics.items()}
    used = {name: numbers.get(name, math.nan) for name in RESOURCES}
    power = cycle_pj(fpga_family(technology), used) * clock_mhz * 1e-6
    result = {"power_w": power, "tops_per_w": numbers["tops"] / power}
    for name in networks:
        result[f"energy_mj({name})"] = numbers[f"latency_ms({name})"] * power
    return result


def margins(metrics: Mapping[str, Any], networks: Mapping[str, Network]) -> dict[str, float]:
    """Return the margins of the metrics that follow from power.

    Of a token only the core's part of the energy is uncertain by the factor: that of the memory
    behind the ports is of another source.
    """
    within = fpga_energies().factor - 1
    result = {"power_w": within, "tops_per_w": within}
    for name, network in networks.items():
        energy, token = metrics.get(f"energy_mj({name})"), metrics.get(f"j_per_token({name})")
        result[f"energy_mj({name})"] = within
        if energy is not None and token is not None and network.tokens:
            share = energy * 1e-3 / network.tokens / token
            result[f"j_per_token({name})"] = round(share * within, 4)
    return {name: value for name, value in result.items() if metrics.get(name) is not None}


def note() -> str:
    """Return a note on the power of a fabric."""
    table = fpga_energies()
    return (
        "power is that of activity, without the static power of the device, by energies of another"
        f" fabric of {table.node}; it may be off by a factor of {table.factor:g} either way:"
        f" {table.source}"
    )
