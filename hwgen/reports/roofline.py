# SPDX-License-Identifier: Apache-2.0
"""The roofline of an estimate in words; `hwgen.roofline_picture` draws it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwgen.workloads.timing import MEMORY_PORT

SERVED = (
    "No memory is named: times assume that every port is always served. target.memory, or --memory,"
    " limits them by a bandwidth."
)
"""What figures per second assume without a memory."""


def joules_of(each_is: str, *, served: bool) -> str:
    """Return the parts of the energy of a token or frame, in words.

    Parameters
    ----------
    each_is : str
        ``token`` or ``frame``.
    served : bool
        Whether a memory behind the ports is named.
    """
    memory = (
        "the memory behind the ports" if served else "no memory behind the ports: none is named"
    )
    return f"J/{each_is} is of the core, memories on the chip, and {memory}."


def describe_joules(result: Mapping[str, Any], each_is: str) -> str:
    """Return the energy of a token or frame of a pass, and its parts.

    Parameters
    ----------
    result : mapping
        Of a pass, of `hwgen.models.graph.passes.speeds`.
    each_is : str
        ``token`` or ``frame``.
    """
    parts = result["joules"]
    if parts["core"] is None:
        return ""
    if parts["memories"] is None:
        words = [f"core with its memories {number(parts['core'])}"]
    else:
        words = [
            f"core {number(parts['core'])}",
            f"memories on the chip {number(parts['memories'])}",
        ]
    whole, off_chip = result[f"j_per_{each_is}"], parts["off_chip"]
    missing = "unknown" if whole is None else "not included, as none is named"
    words.append(f"memory behind the ports {missing if off_chip is None else number(off_chip)}")
    return f"{number(whole)} J/{each_is}: {', '.join(words)}"


def describe_memory(roofline: Mapping[str, Any]) -> str:
    """Return the memory of an estimate in words, and the ports that it serves."""
    memory = roofline["memory"]
    each = memory["pj_per_bit"]
    energy = "energy unknown" if each is None else f"{number(each)} pJ a bit"
    off_chip = [port for port, where in memory["ports"].items() if where == "dram"]
    on_chip = [port for port, where in memory["ports"].items() if where != "dram"]
    words = (
        f"behind {memory['kind'] or 'a memory'}, {number(roofline['gb_s'])} GB/s"
        f" ({number(memory['peak_gb_s'])} GB/s, {100 * memory['efficiency']:.3g} % achieved),"
        f" {energy}: {', '.join(off_chip) or 'nothing'}"
    )
    if on_chip:
        words += f"; on the chip: {', '.join(on_chip)}"
    return words.replace("kv_cache", "cached keys and values")


def summary(entry: Mapping[str, Any], name: str) -> str:
    """Return the effect of a memory on a workload of an estimate."""
    workload, metrics = entry["roofline"]["workloads"][name], entry["metrics"]

    def show(metric: str) -> str:
        return number(metrics.get(f"{metric}({name})"))

    read = sum(each["repeat"] * each["bytes"].get("weights", 0.0) for each in workload["layers"])
    times = read / workload["weight_bytes"] if workload["weight_bytes"] else 0.0
    floor = metrics.get(f"floor_share({name})")
    words = [
        f"limited by {workload['limit']}" if workload["limit"] else "limits unknown",
        f"{show('gb_s_used')} GB/s used, {show('gb_s_needed')} GB/s needed not to wait",
        *_port(entry["roofline"], workload),
        f"{show('ops_per_byte')} operations a byte",
        *([f"weights are read {number(times)} times"] if times > _AGAIN else []),
    ]
    if floor is not None:
        moved = (workload["weight_bytes"] + workload["kv_bytes"]) * 1e-6
        words.append(
            f"{100 * floor:.3g} % of the bandwidth floor, {number(workload['floor_ms'])} ms for"
            f" {number(moved)} MB of weights, keys and values"
        )
    latency = metrics.get(f"latency_ms({name})")
    if latency and (busy := busy_ms(workload)):
        shares = (f"{unit} {100 * ms / latency:.3g} %" for unit, ms in busy.items())
        words.append(f"units are busy, beside each other: {', '.join(shares)}")
    return "; ".join(words)


def _port(limits: Mapping[str, Any], workload: Mapping[str, Any]) -> list[str]:
    """Return the bandwidth of the memory port, in words, if the port limits a workload."""
    if workload["limit"] != MEMORY_PORT or limits["port_gb_s"] is None:
        return []
    return [f"{number(limits['port_gb_s'])} GB/s through the memory port, which is too narrow"]


_AGAIN = 1.05
"""Reads of each weight from which on they are said."""


def busy_ms(workload: Mapping[str, Any]) -> dict[str, float]:
    """Return the time of the operations of each unit of an engine, the longest first.

    Rows of a pass on an engine are named ``OPERATION: UNIT``; other workloads have none.
    """
    result: dict[str, float] = {}
    for layer in workload["layers"]:
        _, separator, unit = layer["name"].rpartition(": ")
        if of_pass(layer) and separator:
            result[unit] = result.get(unit, 0.0) + layer["total_ms"]
    return dict(sorted(result.items(), key=lambda item: -item[1]))


def of_pass(layer: Mapping[str, Any]) -> bool:
    """Return whether a row is an operation of a pass on an engine, of all its layers together."""
    return layer["size"] is None and MEMORY_PORT in layer["bytes"]


def number(value: float | None) -> str:
    """Return a figure for people, a dash if it is unknown."""
    if value is None:
        return "-"
    if value == 0 or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def distinct(one: float, other: float) -> tuple[str, str]:
    """Return two different figures for people, with as many digits as tell them apart."""
    for digits in range(4, 17):
        texts = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if texts[0] != texts[1] or one == other:
            break
    return texts
