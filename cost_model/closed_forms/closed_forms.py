# SPDX-License-Identifier: Apache-2.0
"""Area, power, speed, cycles and energy by closed forms, of one configuration or a million.

Everything is arithmetic on arrays of numeric parameters: `evaluate` of one configuration is
`evaluate` of arrays of one element.  What is not known is NaN.

Definitions
-----------
fmax_mhz
    Reciprocal of the delay of the longest path.
clock
    ``target.clock_mhz``, or `fmax_mhz` if that is less; everything per second is at this clock.
NAME_share, fits
    Where ``target.device`` names a device: how much of it of each resource is used, and 1 if no
    share is more than one, else 0.
area_mm2, power_w
    Rows of totals of `memories.registers_below` bits or more are SRAM macros where these are
    smaller, as in the estimate by structure (`cost_model.closed_forms.rows`).
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
    Power times the time of the workload.

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

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_model.closed_forms.numbers import Number
from cost_model.closed_forms.space import Space, View, frozen
from cost_model.estimate import technology as technologies
from cost_model.families import CLOSED_FORMS
from cost_model.memories.memories import Form
from cost_model.roofline import roofline
from hwgen.config.dotted import flattened
from hwgen.core.params.base import FamilyConfig
from hwgen.core.registry import core_of
from hwgen.core.registry import family as family_of
from hwgen.technologies import technologies as installed
from hwgen.technologies import utilization
from hwgen.workloads import network_of

ACTIVITY = 0.15
"""Rises of the signal at a cell's input in a cycle, on average."""

RESOURCES = ("luts", "flip_flops", "carries", "dsps", "brams", "lutrams")
"""What is used of an FPGA."""

DEVICE = "target.device"

FRACTIONS = (
    "target.clock_mhz", "target.activation_sigma", "target.memory.gb_s",
    "target.memory.efficiency", "target.memory.pj_per_bit",
)  # fmt: skip
"""Numeric parameters that need not be integers."""

Workloads = Mapping[str, Sequence[tuple[int, int, int]]]
"""Sizes (M, K, N) of the products of each workload."""


def evaluate(
    family: str,
    fixed: Mapping[str, Any],
    varying: Mapping[str, NDArray[Any]],
    technology: str,
    workloads: Workloads,
    made_of: Form = "macros",
) -> Mapping[str, NDArray[np.float64]]:
    """Return the metrics of configurations of one family.

    Parameters
    ----------
    family : str
    fixed : mapping
        Dotted parameter: plain value as in a file, of everything that does not vary.
    varying : mapping
        Dotted numeric parameter: values, arrays that broadcast against each other.
    technology : str
        A technology; of one that is not calibrated only cycles are known.
    workloads : mapping
        Name: sizes (M, K, N) of products that follow one another.
    made_of : {"macros", "registers"}
        What large memories are made of.

    Returns
    -------
    mapping
        Metrics with their unit in the name, NaN where unknown, and ``valid``, whether the
        configuration is legal.
    """
    tech = technologies.technology(technology) if technologies.is_calibrated(technology) else None
    if technology in installed():
        fixed = {**fixed, "target.technology": technology}
    return _evaluated(family, fixed, varying, tech, workloads, made_of)


def without_costs(
    family: str, fixed: Mapping[str, Any], workloads: Workloads
) -> Mapping[str, NDArray[np.float64]]:
    """Return the metrics of one configuration that do not depend on a technology.

    See `evaluate`; the others are NaN, and the clock is that asked for.
    """
    return _evaluated(family, fixed, {}, None, workloads, "registers")


def fmax_mhz(family: str, fixed: Mapping[str, Any], tech: technologies.Technology) -> float:
    """Return the Fmax of one configuration by the closed forms of its family, NaN if unknown."""
    view = _space_of(family, fixed, "registers").view({})
    forms = CLOSED_FORMS.get(family)
    if not view.legal or forms is None or not forms.parts(view.config):
        return float("nan")
    return 1000 / float(tech.delay_ns(forms.paths(view), view["target.clock_mhz"]))


def _evaluated(
    family: str,
    fixed: Mapping[str, Any],
    varying: Mapping[str, NDArray[Any]],
    tech: technologies.Technology | None,
    workloads: Workloads,
    made_of: Form,
) -> Mapping[str, NDArray[np.float64]]:
    view = _space_of(family, fixed, made_of).view(varying)
    shape = np.broadcast_shapes(*(values.shape for values in view.varying.values())) or (1,)
    unknown = np.broadcast_to(np.nan, shape)
    device = fixed.get(DEVICE)
    behind = roofline.is_limited(fixed, varying)
    metrics = dict.fromkeys(metric_names(workloads, device, behind_memory=behind), unknown)
    metrics["valid"] = np.zeros(shape, bool)
    if not view.legal:
        return metrics
    valid = _valid(view)
    whole = bool(np.all(valid))
    with np.errstate(all="ignore"):
        computed = _metrics(view, tech, workloads)
        if behind:
            networks = {name: network_of(sizes) for name, sizes in workloads.items()}
            computed |= roofline.limited(view, networks, computed, _clock(view, computed))
        computed |= shares(device, computed)
    for name, values in computed.items():
        found = np.asarray(values, np.float64)
        found = found if whole else np.where(valid, found, np.nan)
        metrics[name] = np.broadcast_to(found, shape)
    metrics["valid"] = np.broadcast_to(valid, shape)
    return metrics


def view_of(config: FamilyConfig) -> View:
    """Return the view of a single configuration."""
    return Space(config.family, flattened(config.resolved())).view({})


def _space_of(family: str, fixed: Mapping[str, Any], made_of: Form) -> Space:
    return _space(family, tuple(sorted((k, frozen(v)) for k, v in fixed.items())), made_of)


@lru_cache(maxsize=256)
def _space(family: str, fixed: tuple[tuple[str, Any], ...], made_of: Form) -> Space:
    return Space(family, dict(fixed), made_of)


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
    found: dict[str, Any] = {}
    with np.errstate(all="ignore"):
        for resource, taken in utilization.used_resources(family, used).items():
            number = np.asarray(taken, np.float64)
            share = np.where(number == 0, 0.0, number / getattr(there, resource))
            found[f"{resource}_share"] = share
    found[utilization.FITS] = utilization.all_fit(found.values())
    return found


def metric_names(
    workloads: Workloads, device: str | None = None, *, behind_memory: bool = False
) -> list[str]:
    """Return the metrics that `evaluate` returns, in their order."""
    metrics = [
        "area_mm2", "power_w", "fmax_mhz", "tops", "tops_per_w", "tops_per_mm2", "bandwidth_gb_s",
        *RESOURCES,
    ]  # fmt: skip
    if device is not None:
        metrics += [*utilization.SHARES, utilization.FITS]
    each = ("cycles", "latency_ms", "energy_mj")
    for name, sizes in workloads.items():
        metrics += [f"{metric}({name})" for metric in each]
        if behind_memory:
            metrics += roofline.metrics_of(name, network_of(sizes))
    return metrics


@lru_cache(maxsize=16)
def _limits(family: str) -> Mapping[str, tuple[float, float]]:
    """Return the bounds of the numeric parameters of a family."""
    limits: dict[str, tuple[float, float]] = {}

    def walk(model: Any, prefix: str) -> None:
        for name, info in model.model_fields.items():
            if hasattr(info.annotation, "model_fields"):
                walk(info.annotation, f"{prefix}{name}.")
                continue
            low = [m.ge for m in info.metadata if hasattr(m, "ge")]
            high = [m.le for m in info.metadata if hasattr(m, "le")]
            if low or high:
                limits[prefix + name] = (
                    min(low, default=-np.inf), max(high, default=np.inf)
                )  # fmt: skip

    walk(family_of(family).params_class, "")
    return limits


def _valid(view: View) -> Number:
    limits = _limits(view.space.family)
    valid: Number = True
    for name, values in view.varying.items():
        low, high = limits.get(name, (-np.inf, np.inf))
        valid = valid & (values >= low) & (values <= high)
        if name not in FRACTIONS:
            valid = valid & (values == np.floor(values))
    forms = CLOSED_FORMS.get(view.space.family)
    rules = forms.RULES if forms else ()
    return valid & ~np.isnan(view.figure(rules, _one))


def _one(config: Any) -> float:
    return 1.0


def _clock(view: View, metrics: Mapping[str, Number]) -> Number:
    """Return the clock that figures are at: the one that was asked for, or Fmax if that is less."""
    clock, fmax = np.asarray(view["target.clock_mhz"], np.float64), metrics.get("fmax_mhz", np.nan)
    return np.where(np.isnan(fmax), clock, np.minimum(clock, fmax))


def _metrics(
    view: View, tech: technologies.Technology | None, workloads: Workloads
) -> dict[str, Number]:
    module = CLOSED_FORMS.get(view.space.family)
    if module is None or not module.parts(view.config):
        return _without_bill(view, workloads)
    metrics: dict[str, Number] = {}
    area = leakage = energy = fmax = np.nan
    if tech is not None:
        bills = [part.counts(view) for part in module.parts(view.config)]
        quantities = {
            quantity: sum(tech.cost(quantity, bill) for bill in bills) for quantity in tech.costs
        }
        area = quantities.get("area_um2", np.nan)
        leakage, energy = quantities.get("leakage_nw", np.nan), quantities.get("energy_fj", np.nan)
        fmax = 1000 / tech.delay_ns(module.paths(view), view["target.clock_mhz"])
        metrics |= {name: np.round(quantities[name]) for name in RESOURCES if name in quantities}
    metrics["fmax_mhz"] = fmax
    clock = _clock(view, metrics)
    tops = 2e-6 * module.macs_at(view) * clock
    power = leakage * 1e-9 + energy * clock * 1e-9
    metrics |= {
        "area_mm2": area * 1e-6,
        "power_w": power,
        "tops": tops,
        "tops_per_w": tops / power,
        "tops_per_mm2": tops / (area * 1e-6),
        "bandwidth_gb_s": module.port_bits_at(view) / 8 * clock * 1e-3,
    }
    longest = view["max_k"]
    for name, sizes in workloads.items():
        cycles = module.cycles_at(view, sizes)
        cycles = np.where(longest >= max(k for _, k, _ in sizes), cycles, np.nan)
        metrics[f"cycles({name})"] = cycles
        metrics[f"latency_ms({name})"] = cycles / clock * 1e-3
        metrics[f"energy_mj({name})"] = cycles / clock * 1e-3 * power
    return metrics


def _without_bill(view: View, workloads: Workloads) -> dict[str, Number]:
    """Return the metrics of a family that knows no more than its cycles."""
    clock = _clock(view, {})
    varying = tuple(view.varying)
    forms = CLOSED_FORMS.get(view.space.family)
    macs = forms.macs_at(view) if forms else view.figure(varying, _macs_per_cycle)
    metrics: dict[str, Number] = {"tops": 2e-6 * macs * clock}
    bits = np.nan
    if forms:
        bits = forms.port_bits_at(view)
    elif view.config.ports:
        bits = view.figure(varying, _port_bits)
    metrics["bandwidth_gb_s"] = bits / 8 * clock * 1e-3
    for name, sizes in workloads.items():
        cycles = view.figure(varying, _cycles_of(tuple(sizes)))
        metrics[f"cycles({name})"] = cycles
        metrics[f"latency_ms({name})"] = cycles / clock * 1e-3
    return metrics


def _port_bits(config: Any) -> float:
    return float(sum(port.data_width for port in config.ports))


def _macs_per_cycle(config: Any) -> float:
    return float(config.operations_per_cycle) / 2


@lru_cache(maxsize=1024)
def _cycles_of(sizes: tuple[tuple[int, int, int], ...]) -> Callable[[Any], float]:
    def cycles(config: Any) -> float:
        longest = max(k for _, k, _ in sizes)
        if longest > config.max_k:
            return np.nan
        core = core_of(config)
        return float(core.cycles([core.gemm(*size) for size in sizes]).number)

    return cycles
