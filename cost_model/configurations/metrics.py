# SPDX-License-Identifier: Apache-2.0
"""Metrics of configurations: legality, cycles and rates, and what follows from costs.

Everything is arithmetic on numbers or arrays of configurations.  What is not known is NaN.

Definitions
-----------
fmax_mhz
    Reciprocal of the delay of the longest path.
clock
    ``target.clock_mhz``, or `fmax_mhz` if that is less; everything per second is at this clock.
luts_used
    All look-up tables of an FPGA, as a device counts them: those of logic, ``luts``, and those that
    carry cells and small memories lie in.
NAME_share, fits
    Where ``target.device`` names a device: how much of it of each resource is used, and 1 if no
    share is more than one, else 0.
area_mm2, power_w
    Large memories are SRAM macros where these are smaller (`cost_model.memories`).
power_w
    Leakage, and the energy of a cycle times the clock.  A cycle's energy is that of all clock pins
    and of every other cell input switching at `ACTIVITY` on average: ``C V^2`` of the
    cells' input capacitances in the Liberty files, wires without load.
tops
    Two operations for each multiply-accumulate of a full cycle; of serial PEs for each that is to
    be expected in a cycle of activations as ``target.activation_sigma`` says.
bandwidth_gb_s
    Bytes that the stream ports move if each has a beat in every cycle.
energy_mj(NAME)
    Power times the time of the workload; of SRAM macros of engines its accesses are counted.

With a memory behind the ports, ``target.memory``, times and what follows from them are limited by
it (`cost_model.roofline.roofline`), and workloads have more:

tokens_per_s(NAME), j_per_token(NAME)
    Tokens of a pass over its time; energy of core and memory, of a token.
floor_share(NAME)
    Time in which the memory moves weights and cached keys and values once, over the time.
ops_per_byte(NAME)
    Arithmetic intensity: two operations for each multiply-accumulate with a weight, over the bytes
    behind the memory.
gb_s_needed(NAME), gb_s_used(NAME)
    These bytes over the time of the cycles alone, and over the time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cost_model.configurations.configurations import Configurations, Number
from cost_model.roofline import roofline
from hwgen.core.core import Core
from hwgen.core.post import PostSettings
from hwgen.technologies import technologies, utilization
from hwgen.technologies.fpga_model import Fpga
from hwgen.workloads import network_of

ACTIVITY = 0.15
"""Rises of the signal at a cell's input in a cycle, on average."""

LUTS_USED = "luts_used"
"""All look-up tables: those of logic, ``luts``, and those that carry cells and memories lie in."""

RESOURCES = ("luts", "flip_flops", "carries", "dsps", "brams", "lutrams")
"""What is used of an FPGA."""

DEVICE = "target.device"

VALID = "valid"

Workloads = Mapping[str, Sequence[tuple[int, int, int]]]
"""Sizes (M, K, N) of the products of each workload."""


def metric_names(
    workloads: Workloads, device: str | None = None, *, with_memory: bool = False
) -> list[str]:
    """Return the metrics that `metrics_of` returns, in their order."""
    metrics = [
        "area_mm2", "power_w", "fmax_mhz", "tops", "tops_per_w", "tops_per_mm2", "bandwidth_gb_s",
        LUTS_USED, *RESOURCES,
    ]  # fmt: skip
    if device is not None:
        metrics += [*utilization.SHARES, utilization.FITS]
    each = ("cycles", "latency_ms", "energy_mj")
    for name, sizes in workloads.items():
        metrics += [f"{metric}({name})" for metric in each]
        if with_memory:
            metrics += roofline.metrics_of(name, network_of(sizes))
    return metrics


def metrics_of(
    some: Configurations, workloads: Workloads, costs: Mapping[str, Number]
) -> dict[str, Number]:
    """Return the metrics of configurations, `VALID` among them.

    Parameters
    ----------
    some : Configurations
    workloads : mapping
        Name: sizes (M, K, N) of products that follow one another.
    costs : mapping
        What is known of ``area_um2``, ``leakage_nw``, ``energy_fj`` (of a cycle), ``fmax_mhz``,
        `RESOURCES`, and ``energy_factor(NAME)``, the energy of a workload over that of power and
        time.
    """
    device, shape = some.fixed.get(DEVICE), some.shape
    behind = roofline.is_limited(some.fixed, some.varying)
    names = metric_names(workloads, device, with_memory=behind)
    valid = some.legal()
    metrics: dict[str, Number] = dict.fromkeys(names, np.broadcast_to(np.nan, shape))
    if not valid.any():
        return {**metrics, VALID: valid}
    with np.errstate(all="ignore"):
        computed = _computed(some, workloads, costs)
        if behind:
            networks = {name: network_of(sizes) for name, sizes in workloads.items()}
            clock = clock_of(some, computed["fmax_mhz"])
            computed |= roofline.limited(some, networks, computed, clock)
        computed |= shares(device, computed)
    whole = bool(valid.all())
    for name, values in computed.items():
        array = np.asarray(values, np.float64)
        metrics[name] = array if whole else np.where(valid, array, np.nan)
    return {**metrics, VALID: valid}


def clock_of(some: Configurations, fmax: Number) -> Number:
    """Return the clock that figures are at: the one that was asked for, or Fmax if that is less."""
    clock, fmax = np.asarray(some["target.clock_mhz"], np.float64), np.asarray(fmax)
    return np.where(np.isnan(fmax), clock, np.minimum(clock, fmax))


def _computed(
    some: Configurations, workloads: Workloads, costs: Mapping[str, Number]
) -> dict[str, Number]:
    area = costs.get("area_um2", np.nan)
    fmax = costs.get("fmax_mhz", np.nan)
    clock = clock_of(some, fmax)
    sizes = tuple(tuple(network_of(each)) for each in workloads.values())
    macs, bits, *cycles = some.evaluate(_Rates(sizes, some.post), 2 + len(sizes))
    tops = 2e-6 * macs * clock
    power = (costs.get("leakage_nw", np.nan) + costs.get("energy_fj", np.nan) * clock) * 1e-9
    metrics = {
        "area_mm2": area * 1e-6,
        "power_w": power,
        "fmax_mhz": fmax,
        "tops": tops,
        "tops_per_w": tops / power,
        "tops_per_mm2": tops / (area * 1e-6),
        "bandwidth_gb_s": bits / 8 * clock * 1e-3,
        **{name: np.round(costs[name]) for name in RESOURCES if name in costs},
    }
    metrics[LUTS_USED] = luts_used(str(some.fixed.get("target.technology", "")), metrics)
    for name, number in zip(workloads, cycles, strict=True):
        latency = number / clock * 1e-3
        metrics[f"cycles({name})"] = number
        metrics[f"latency_ms({name})"] = latency
        metrics[f"energy_mj({name})"] = latency * power * costs.get(f"energy_factor({name})", 1.0)
    return metrics


class _Rates:
    """Function from a core to its rates: products a cycle, bits of ports, cycles."""

    def __init__(
        self, workloads: Sequence[Sequence[tuple[int, int, int]]], post: PostSettings | None
    ) -> None:
        self.workloads, self.post = workloads, post

    def __call__(self, core: Core[Any]) -> list[float | None]:
        ports = [port.lanes * port.lane_width for port in core.ports]
        result: list[Any] = [core.macs_per_cycle, sum(ports) if ports else None]
        for sizes in self.workloads:
            if max(k for _, k, _ in sizes) > core.params.max_k:
                result.append(None)
                continue
            jobs = [core.gemm(*size, self.post) for size in sizes]
            result.append(core.cycles(jobs).number)
        return result


def luts_used(technology: str, metrics: Mapping[str, Any]) -> Any:
    """Return all look-up tables of an FPGA that a design uses, NaN where that is not known."""
    selected = technologies().get(technology)
    if not isinstance(selected, Fpga):
        return np.nan
    used = {name: metrics.get(name, np.nan) for name in RESOURCES}
    return utilization.used_resources(selected, used)["luts"]


def shares(device: str | None, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the used shares of a device's resources and whether a core fits; {} if no device.

    Parameters
    ----------
    device : str, optional
    metrics : mapping
        Of `RESOURCES`, numbers or arrays, NaN where unknown.

    Returns
    -------
    dict
        By metric; ``fits`` is 1, 0 or NaN.
    """
    if device is None:
        return {}
    family, there = utilization.of(device)
    used = {name: metrics.get(name, np.nan) for name in RESOURCES}
    result: dict[str, Any] = {}
    with np.errstate(all="ignore"):
        for resource, taken in utilization.used_resources(family, used).items():
            number = np.asarray(taken, np.float64)
            share = np.where(number == 0, 0.0, number / getattr(there, resource))
            result[f"{resource}_share"] = share
    result[utilization.FITS] = utilization.all_fit(result.values())
    return result
