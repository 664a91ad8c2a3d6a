# SPDX-License-Identifier: Apache-2.0
"""Roofline: the speed of a core with an off-chip memory of limited bandwidth.

A layer takes as long as its cycles, or as its bytes behind the memory at the achieved bandwidth,
whichever is longer; layers follow one another.  The time of a network is that of its cycles and,
for each layer, what the memory takes longer:

    time = cycles / clock + sum(times * max(0, bytes / bandwidth - own cycles / clock))

The own cycles of a product are those that one more of it adds, so that with a bandwidth without
limit the time is that of the cycles alone.  Keys and values of attentions are moved as well; the
products of attentions, and operations on elements, are no work of the core and take no time here,
unless the timing of the pass on an engine is known, which has all of them.

All ports behind the memory share its bandwidth.  Settings and column records of post-processing
are on the chip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from cost_model.configurations.configurations import Configurations, Number
from hwgen.core.core import Core
from hwgen.core.params.off_chip import OffChip
from hwgen.core.post import PostSettings
from hwgen.core.protocols import BeatCounter, BufferedCore
from hwgen.core.registry import family
from hwgen.workloads import Gemm, Layer, Network
from hwgen.workloads.timing import MEMORY_PORT, PassTiming

PREFIX = "target.memory."
"""What the dotted parameters of the memory begin with."""

KV_CACHE = "kv_cache"
"""What carries keys and values of attentions."""

OF_MEMORY = ("floor_share", "ops_per_byte", "gb_s_needed", "gb_s_used")
"""Metrics of each workload with a memory: see `cost_model.configurations.metrics`."""

OF_TOKENS = ("tokens_per_s", "j_per_token")
"""Metrics of each workload that has tokens, with a memory."""


def is_limited(fixed: Mapping[str, Any], varying: Mapping[str, Any]) -> bool:
    """Return whether a memory with a bandwidth is behind the ports of configurations."""
    names = (f"{PREFIX}kind", f"{PREFIX}gb_s")
    return any(fixed.get(name) is not None or name in varying for name in names)


def metrics_of(name: str, network: Network) -> list[str]:
    """Return the metrics that a memory adds to those of a workload."""
    names = (*OF_TOKENS, *OF_MEMORY) if network.tokens else OF_MEMORY
    return [f"{metric}({name})" for metric in names]


@dataclass(frozen=True)
class Memory:
    """The memory behind configurations; figures may be arrays.

    Parameters
    ----------
    config : OffChip
    gb_s : number
        Bandwidth that is achieved, 10**9 bytes a second.
    pj_per_bit : number
        NaN if it is not known.
    """

    config: OffChip
    gb_s: Number
    pj_per_bit: Number

    def holds(self, port: str) -> bool:
        """Return whether what a port carries is behind the memory."""
        return port == MEMORY_PORT or bool(getattr(self.config.ports, port) == "dram")

    def ms(self, moved: Number) -> Number:
        """Return the time in which so many bytes are moved."""
        return moved / (self.gb_s * 1e6)


def memory_at(v: Configurations) -> Memory:
    """Return the memory of the configurations of many."""
    config = v.memory

    def value_of(name: str, default: float | None) -> Number:
        result = v.varying.get(PREFIX + name, default)
        return np.nan if result is None else result

    peak, share = value_of("gb_s", config.peak_gb_s), value_of("efficiency", config.share)
    return Memory(config, peak * share, value_of("pj_per_bit", config.energy_pj_per_bit))


# -- bytes and cycles of a product -----------------------------------------------------------------


def traffic(v: Configurations, size: Gemm) -> dict[str, Number]:
    """Return the bytes that one product moves over each port.

    Returns
    -------
    dict
        By what a port carries, ``weights``, ``activations`` and ``outputs``, or `MEMORY_PORT`.
    """
    if issubclass(family(v.family), BufferedCore):
        return {MEMORY_PORT: v.evaluate_one(_moved(size, v.post))}
    names = ("activations", "weights", "outputs")
    return dict(zip(names, v.evaluate(_beats(size, v.post), 3), strict=True))


def weight_bytes(v: Configurations, size: Gemm) -> Number:
    """Return the bytes of the weights of a product, each once, as the hardware reads them."""
    if issubclass(family(v.family), BufferedCore):
        return v.evaluate_one(_weight_bytes(size))
    return size.k * size.n * v.evaluate_one(_weight_bits) / 8


def extra_cycles(v: Configurations, size: Gemm) -> Number:
    """Return the cycles that one more of a product adds to a sequence of it."""
    return v.evaluate_one(_count_extra_cycles(size, v.post))


def _weight_bits(core: Core[Any]) -> float:
    bits: float = core.params.weight_bits
    return bits


@lru_cache(maxsize=1024)
def _count_extra_cycles(size: Gemm, post: PostSettings | None) -> Callable[[Core[Any]], float]:
    def count(core: Core[Any]) -> float:
        if size.k > core.params.max_k:
            return np.nan
        job = core.gemm(*size, post)
        return core.cycles([job, job]).number - core.cycles([job]).number

    return count


@lru_cache(maxsize=1024)
def _moved(size: Gemm, post: PostSettings | None) -> Callable[[Core[Any]], float]:
    def moved(core: Core[Any]) -> float:
        assert isinstance(core, BufferedCore)
        return core.memory_use([core.gemm(*size, post)]).moved_bytes

    return moved


@lru_cache(maxsize=1024)
def _weight_bytes(size: Gemm) -> Callable[[Core[Any]], float]:
    def moved(core: Core[Any]) -> float:
        assert isinstance(core, BufferedCore)
        return core.weight_bytes(size)

    return moved


@lru_cache(maxsize=1024)
def _beats(size: Gemm, post: PostSettings | None) -> Callable[[Core[Any]], tuple[float, ...]]:
    """Return a function from a core to the bytes of its ports, by its schedule.

    They are NaN where the schedule does not count the beats of its inputs.
    """

    def moved(core: Core[Any]) -> tuple[float, ...]:
        plan = core.schedule(core.gemm(*size, post))
        ports = {port.name: port for port in core.ports}
        if not isinstance(plan, BeatCounter) or not {"act", "wgt", "out"} <= ports.keys():
            return (np.nan,) * 3
        inputs = (plan.input_beats(ports[name]) * ports[name].beat_bytes for name in ("act", "wgt"))
        return (*inputs, plan.output_beats * ports["out"].beat_bytes)

    return moved


def kv_bytes(v: Configurations, network: Network, layer: Layer) -> float:
    """Return the bytes of keys and values that a layer reads and writes, once."""
    assert v.example is not None
    bits = network.kv_bits or v.example.params.activation.width
    return float(network.kv_of(layer) * bits / 8)


# -- a network -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """A layer on configurations with a memory; figures may be arrays.

    Parameters
    ----------
    layer : Layer
    compute_ms, memory_ms : number
        Of one time, by its cycles and by its bytes.
    moved : mapping
        Bytes of one time, by port, of those behind the memory.
    fills_port : bool
        Whether the width of the memory port limits the cycles.
    """

    layer: Layer
    compute_ms: Number
    memory_ms: Number
    moved: Mapping[str, Number]
    fills_port: bool = False

    @property
    def stall_ms(self) -> Number:
        """Time of one run that the memory adds to the cycles."""
        return np.maximum(self.memory_ms - self.compute_ms, 0)

    @property
    def bytes(self) -> Number:
        """All bytes of one time."""
        return sum(self.moved.values())


def works(
    v: Configurations,
    network: Network,
    clock: Number,
    pace: float = 1.0,
    timing: PassTiming | None = None,
) -> Iterator[Work]:
    """Yield the layers of a network that the core or the memory has work with.

    Products of one size are computed once.

    Parameters
    ----------
    v : Configurations
    network : Network
    clock : number
        MHz.
    pace : float
        Cycles in the place of one, where those of given values are known.
    timing : PassTiming, optional
        Of the pass on an engine.
    """
    memory = memory_at(v)
    if timing is not None and timing.operations:
        for operation in timing.operations:
            yield Work(
                Layer(operation.name, 1, operations=2 * operation.macs),
                operation.cycles / clock * 1e-3, memory.ms(operation.moved),
                {MEMORY_PORT: operation.moved}, operation.fills_port,
            )  # fmt: skip
        return
    own = 0.0 if timing is None else timing.attention_cycles / clock * 1e-3
    works_of: dict[Gemm, tuple[Number, dict[str, Number]]] = {}
    for layer in network.layers:
        if (size := layer.product) is not None:
            if size not in works_of:
                moved = {port: n for port, n in traffic(v, size).items() if memory.holds(port)}
                works_of[size] = extra_cycles(v, size) * pace / clock * 1e-3, moved
            compute, moved = works_of[size]
            yield Work(layer, compute, memory.ms(sum(moved.values())), moved)
        elif layer.attention is not None and memory.holds(KV_CACHE):
            cached = kv_bytes(v, network, layer)
            yield Work(layer, own, memory.ms(cached), {KV_CACHE: cached})


def floor_bytes(v: Configurations, network: Network) -> tuple[Number, float]:
    """Return the bytes of weights and of keys and values that a pass cannot do without.

    Those that are not behind the memory are none.
    """
    memory = memory_at(v)
    weights: Number = 0.0
    if issubclass(family(v.family), BufferedCore) or memory.holds("weights"):
        for layer in network.layers:
            if layer.product:
                weights = weights + layer.repeat * weight_bytes(v, layer.product)
    cached = sum(layer.repeat * kv_bytes(v, network, layer) for layer in network.layers)
    return weights, cached if memory.holds(KV_CACHE) else 0.0


def limited(
    v: Configurations,
    networks: Mapping[str, Network],
    metrics: Mapping[str, Number],
    clock: Number,
    paces: Mapping[str, float] | None = None,
    timings: Mapping[str, PassTiming] | None = None,
) -> dict[str, Number]:
    """Return the metrics of workloads behind a memory, in the place of those without.

    Parameters
    ----------
    v : Configurations
        Of configurations with a memory.
    networks : mapping
    metrics : mapping
        Those of ports that are always served: ``latency_ms(W)``, ``energy_mj(W)`` and ``power_w``,
        NaN where unknown.
    clock : number
        MHz at which they are.
    paces : mapping, optional
        By workload; see `works`.
    timings : mapping, optional
        By workload, of its pass on an engine.
    """
    memory = memory_at(v)
    power = metrics.get("power_w", np.nan)
    result: dict[str, Number] = {}
    for name, network in networks.items():
        compute = metrics[f"latency_ms({name})"]
        stall: Number = 0.0
        moved: Number = 0.0
        pace, timing = (paces or {}).get(name, 1.0), (timings or {}).get(name)
        for work in works(v, network, clock, pace, timing):
            stall = stall + work.layer.repeat * work.stall_ms
            moved = moved + work.layer.repeat * work.bytes
        ms = compute + stall
        # What waits is clocked all the same: its power is taken to be that of computing.
        energy = metrics.get(f"energy_mj({name})", np.nan) + stall * power
        off_chip = np.where(np.equal(moved, 0), 0.0, moved * 8 * memory.pj_per_bit * 1e-9)
        floor = memory.ms(sum(floor_bytes(v, network)))
        result[f"latency_ms({name})"] = ms
        result[f"energy_mj({name})"] = energy
        if network.tokens:
            result[f"tokens_per_s({name})"] = network.tokens / ms * 1e3
            result[f"j_per_token({name})"] = (energy + off_chip) * 1e-3 / network.tokens
        result[f"floor_share({name})"] = floor / ms
        result[f"ops_per_byte({name})"] = (
            2.0 * network.macs / np.where(np.equal(moved, 0), np.nan, moved)
        )
        result[f"gb_s_needed({name})"] = moved / compute * 1e-6
        result[f"gb_s_used({name})"] = moved / ms * 1e-6
    return result
