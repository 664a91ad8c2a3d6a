# SPDX-License-Identifier: Apache-2.0
"""The roofline of one configuration as plain data: its memory, and what limits each layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cost_model.configurations.configurations import Configurations
from cost_model.roofline.roofline import KV_CACHE, Memory, Work, floor_bytes, memory_at, works
from hwgen.core.params.off_chip import OffChip
from hwgen.core.protocols import BufferedCore, ListCore
from hwgen.core.registry import family
from hwgen.workloads import Network
from hwgen.workloads.timing import COMPUTE, MEMORY_PORT, PassTiming

UNKNOWN = "unknown"
"""What limits a layer of a family that does not count the beats of its ports."""

_CARRIED = {MEMORY_PORT: "bandwidth", KV_CACHE: "cached keys and values"}


def roofline(
    v: Configurations,
    networks: Mapping[str, Network],
    metrics: Mapping[str, Any],
    clock_mhz: float,
    paces: Mapping[str, float],
    timings: Mapping[str, PassTiming] | None = None,
) -> dict[str, Any]:
    """Return the effect of the off-chip memory on the workloads of a configuration.

    Parameters
    ----------
    v : Configurations
        Of one configuration, with a memory.
    networks : mapping
    metrics : mapping
        Limited by the memory, None where unknown.
    clock_mhz : float
        Clock of everything per second.
    paces, timings : mapping
        See `cost_model.roofline.roofline.works`.

    Returns
    -------
    dict
        JSON values: ``memory``; ``peak_tops``; ``ridge_ops_per_byte``, the intensity from which on
        the core limits; ``port_gb_s``, the bandwidth of the memory port of an engine;
        ``workloads``, by name, see `_workload`.
    """
    memory = memory_at(v)
    tops = metrics["tops"]
    return {
        "memory": memory_document(memory.config, engine=_is_engine(v)),
        "gb_s": float(memory.gb_s),
        "port_gb_s": _port_gb_s(v, clock_mhz),
        "peak_tops": tops,
        "ridge_ops_per_byte": tops and tops * 1e3 / float(memory.gb_s),
        "workloads": {
            name: _workload(
                v, memory, network, metrics, name, clock_mhz,
                paces.get(name, 1.0), (timings or {}).get(name),
            )
            for name, network in networks.items()
        },
    }  # fmt: skip


def _port_gb_s(v: Configurations, clock_mhz: float) -> float | None:
    """Return the bandwidth of an engine's memory port, a beat a cycle; None of other cores."""
    core = v.example
    if core is None or not isinstance(core, BufferedCore | ListCore):
        return None
    return float(core.params.memory.data_width) / 8 * clock_mhz * 1e-3


def _is_engine(v: Configurations) -> bool:
    return issubclass(family(v.family), BufferedCore)


def memory_document(memory: OffChip, *, engine: bool = False) -> dict[str, Any]:
    """Return a memory with its figures and their sources, and what is behind which port.

    All matrices of an engine go through its memory port.
    """
    ports = memory.ports.model_dump()
    if engine:
        ports = {MEMORY_PORT: "dram", KV_CACHE: ports[KV_CACHE]}
    about = memory.about
    stated = memory.efficiency is not None
    return {
        "kind": memory.kind,
        "configuration": about.configuration if about and memory.gb_s is None else None,
        "peak_gb_s": memory.peak_gb_s,
        "efficiency": memory.share,
        "efficiency_source": "given" if stated else about.efficiency_source if about else "none: 1",
        "pj_per_bit": memory.energy_pj_per_bit,
        "energy_source": memory.energy_source,
        "ports": ports,
    }


def _workload(
    v: Configurations,
    memory: Memory,
    network: Network,
    metrics: Mapping[str, Any],
    name: str,
    clock_mhz: float,
    pace: float,
    timing: PassTiming | None,
) -> dict[str, Any]:
    """Return the layers of a workload and what limits them.

    Returns
    -------
    dict
        ``tokens``; ``weight_bytes`` and ``kv_bytes`` that a pass cannot do without, and
        ``floor_ms``, the time that the memory takes for them; ``macs`` of products with weights,
        ``attention_macs`` and ``operations`` that are no work of the core; ``limit``, what limits
        most of the time; ``layers``, in order.
    """
    weights, cached = floor_bytes(v, network)
    layers = [_layer(work) for work in works(v, network, clock_mhz, pace, timing)]
    by_limit: dict[str, float] = {}
    for layer in layers:
        by_limit[layer["limit"]] = by_limit.get(layer["limit"], 0.0) + layer["total_ms"]
    timed = metrics.get(f"latency_ms({name})") is not None
    return {
        "tokens": network.tokens,
        "context": network.context,
        "weight_bytes": float(weights),
        "kv_bytes": cached,
        "floor_ms": float(memory.ms(weights + cached)),
        "macs": network.macs,
        "attention_macs": network.attention_macs,
        "operations": network.operations,
        "limit": max(by_limit, key=lambda limit: by_limit[limit]) if layers and timed else None,
        "layers": layers,
    }


def _layer(work: Work) -> dict[str, Any]:
    layer, moved = work.layer, {port: float(n) for port, n in work.moved.items()}
    memory = float(work.memory_ms)
    ms = max(float(work.compute_ms), memory)
    macs = layer.product.macs if layer.product else 0
    if MEMORY_PORT in moved and not layer.product:  # an operation of an engine's pass
        macs = layer.operations // 2
    total = sum(moved.values())
    most = max(moved, key=lambda port: moved[port]) if moved else ""
    slow = memory > float(work.compute_ms)
    limit = MEMORY_PORT if work.fills_port else COMPUTE
    if slow:
        limit = f"memory: {_CARRIED.get(most, most)}"
    return {
        "name": layer.name,
        "repeat": layer.repeat,
        "size": list(layer.product) if layer.product else None,
        "bytes": {port: _plain(n) for port, n in moved.items()},
        "compute_ms": _plain(float(work.compute_ms)),
        "memory_ms": _plain(memory),
        "total_ms": 0.0 if math.isnan(ms) else layer.repeat * ms,
        "limit": UNKNOWN if math.isnan(memory) else limit,
        "ops_per_byte": _plain(2 * macs / total) if total and macs else None,
        "tops": _plain(2e-9 * macs / ms) if macs and ms > 0 and memory >= 0 else None,
    }


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value
