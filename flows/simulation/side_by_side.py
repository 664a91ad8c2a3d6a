# SPDX-License-Identifier: Apache-2.0
"""Networks that share an engine: products of several at once, each network on a unit of its own.

A command list submits the products of all networks in turns.  Within a network each product waits
for the one before, as layers do; networks do not wait for each other, unless they share a unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flows.build.design import Design
from flows.simulation.bus.job_host import JobFailed, wait_moving
from flows.simulation.bus.list_host import ListHost
from flows.simulation.engine_program import Model, compile_model
from flows.simulation.placed_products import Placed, place_product
from flows.simulation.run import check_results
from hwgen.core.lists.commands import Program
from hwgen.core.registry import core_of
from hwgen.families.transformer.list_timing import ListTiming, timed_list
from hwgen.families.transformer.params import TransformerConfig
from hwgen.families.transformer.trace import trace
from hwgen.workloads.network import Gemm

_BASE = _ALIGNMENT = 4096


@dataclass(frozen=True)
class Network:
    """Products of a network, which follow each other.

    Parameters
    ----------
    name : str
    unit : str
        Of the engine, that computes all of them.
    products : sequence of Gemm
        M, K and N of each.
    ternary : bool
        Whether weights are -1, 0 and 1, also on a unit that multiplies by integers.
    """

    name: str
    unit: str
    products: Sequence[Gemm]
    ternary: bool = False


@dataclass(frozen=True)
class SharedRun:
    """Networks that ran on an engine at once.

    Parameters
    ----------
    cycles : int
        Of the command list, by simulation.
    timing : ListTiming
        The same by the cycle model.
    """

    cycles: int
    timing: ListTiming


def interleaved(rows: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the members of several rows, one of each in turn."""
    result = []
    for number in range(max(map(len, rows))):
        result += [row[number] for row in rows if number < len(row)]
    return result


def run_side_by_side(
    design: Design, networks: Sequence[Network], *, seed: int = 0,
    order: Sequence[tuple[int, int]] | None = None,
) -> SharedRun:  # fmt: skip
    """Simulate networks on an engine at once, with random operands.

    Parameters
    ----------
    design : Design
        Of an engine that executes command lists. The memory answers in the next cycle.
    networks : sequence of Network
    seed : int
        Of the operands.
    order : sequence of (int, int), optional
        Network and product of each job, as the list submits them; by default one of each network
        in turn.

    Raises
    ------
    CheckFailed
        If a result differs from the golden model; `JobFailed` if the list ends with an error.
    """
    config: Any = design.params
    rng = np.random.default_rng(seed)
    at, placed = _BASE, []
    for network in networks:
        row = []
        for size in network.products:
            product, at = _place(config.units[network.unit], network, size, rng, at)
            row.append(product)
        placed.append(row)
    address = -(-at // _ALIGNMENT) * _ALIGNMENT
    turns = interleaved([[(i, n) for n in range(len(row))] for i, row in enumerate(placed)])
    data = _list(config, networks, placed, turns if order is None else order)
    timing = timed_list(config, trace(config, address, data, [0] * config.lists.registers))
    directory = compile_model(design.name, design.verilog, design.core.buses, cycles=timing.cycles)
    with Model(directory, read_latency=1, write_latency=1) as model:
        model.map(0, address + len(data) + _ALIGNMENT)
        for product in (product for row in placed for product in row):
            for where, content in product.images():
                model.store(where, content)
        host = ListHost(config, model)
        host.begin(data, (), 0, address)
        wait_moving(model, 4 * timing.most + 1000, lambda cycles: None)
        outcome = host.outcome()
        if outcome.state != "done":
            raise JobFailed(f"the command list ended with {outcome.state} at {outcome.index}")
        for network, row in zip(networks, placed, strict=True):
            for number, product in enumerate(row):
                title = f"product {number} of {network.name}"
                result = product.results(lambda a, n: model.load(a, n).tobytes())
                assert product.expected is not None
                check_results(title, {"result": result}, {"result": product.expected})
        return SharedRun(host.read("CYCLES"), timing)


def _place(
    unit: Any, network: Network, size: Gemm, rng: np.random.Generator, at: int
) -> tuple[Placed, int]:
    """Return a product of random operands in memory, and the first address behind it."""
    a = unit.activation.random(rng, (size.m, size.k))
    w = unit.weight.random(rng, (size.k, size.n))
    if network.ternary:
        w = rng.integers(-1, 2, w.shape).astype(w.dtype)
    product, end = place_product(
        unit, a, w, expected=core_of(unit).multiply(a, w), base=at, align=_ALIGNMENT
    )
    return replace(product, job=replace(product.job, after=True)), end


def _list(
    config: TransformerConfig, networks: Sequence[Network], placed: Sequence[Sequence[Placed]],
    order: Sequence[tuple[int, int]],
) -> bytes:  # fmt: skip
    """Return the list that submits products in an order."""
    program = Program(list(config.units), config.lists.registers)
    for which, number in order:
        program.job(networks[which].unit, placed[which][number].writes())
    program.halt()
    return program.encode()
