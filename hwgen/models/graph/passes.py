# SPDX-License-Identifier: Apache-2.0
"""Passes through a model, and how fast they are by the figures of an estimate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwgen.errors import InputError
from hwgen.models.graph.description import Description
from hwgen.models.graph.work import work_of
from hwgen.workloads.network import Network


def passes_of(description: Description, prompt: int, context: int) -> dict[str, Network]:
    """Return the passes of a model by name: ``prefill`` and ``decode``, or ``pass``.

    Parameters
    ----------
    description : Description
    prompt : int
        Tokens of a prompt, or of the pass of a network that is no decoder.
    context : int
        Positions before a decode step.

    Raises
    ------
    InputError
        If they do not fit in the model's context.
    """
    most = description.context
    if most is not None and max(prompt, context + 1) > most:
        raise InputError(
            f"{description.name} has a context of {most}: {max(prompt, context + 1)} positions do"
            " not fit"
        )
    bits = kv_bits(description)
    if not description.decodes:
        return {"pass": work_of(description, prompt)}
    return {
        "prefill": work_of(description, prompt, 0, bits),
        "decode": work_of(description, 1, context, bits),
    }


def kv_bits(description: Description) -> int | None:
    """Return the bits of an element of keys and values, None if they are not integers."""
    result = [
        bits
        for node in description.nodes
        if node.operation == "attention" and isinstance(bits := node.attributes.get("bits"), int)
    ]
    return max(result) or None if result else None


def speeds(entry: Mapping[str, Any], passes: Mapping[str, Network]) -> dict[str, dict[str, Any]]:
    """Return the speeds of passes by an estimate, None where unknown.

    Parameters
    ----------
    entry : mapping
        An estimate with the passes as workloads.
    passes : mapping

    Returns
    -------
    dict
        By pass ``tokens``, ``context``, ``ms``, ``tokens_per_s``, ``j_per_token``, what the memory
        takes included if one is behind the ports, and ``floor_share``, how near it is to what the
        memory's bandwidth allows. A pass without tokens is a frame: ``frames_per_s`` and
        ``j_per_frame`` are in their place. ``joules`` has the parts of the energy of a token or
        frame: ``core``, ``memories`` on the chip, which are None and in the core where they are not
        separate, and ``off_chip``, of the memory behind the ports, None without one.
    """
    result, metrics = {}, entry["metrics"]
    for name, network in passes.items():
        ms, energy = (metrics.get(f"{metric}({name})") for metric in ("latency_ms", "energy_mj"))
        tokens = network.tokens or 1
        each = None if energy is None else energy * 1e-3 / tokens
        share = metrics.get(f"floor_share({name})")
        parts = _joules(entry, name, ms, energy, tokens)
        if network.tokens is None:
            if entry["roofline"] and each is not None:
                off_chip = parts["off_chip"]
                each = None if off_chip is None else each + off_chip
            result[name] = {"ms": ms, "frames_per_s": 1e3 / ms if ms else None, "j_per_frame": each,
                           "floor_share": share, "joules": parts}  # fmt: skip
            continue
        result[name] = {
            "tokens": tokens,
            "context": network.context,
            "ms": ms,
            "tokens_per_s": 1e3 * tokens / ms if ms else None,
            "j_per_token": metrics.get(f"j_per_token({name})", each),
            "floor_share": share,
            "joules": parts,
        }
    return result


def _joules(
    entry: Mapping[str, Any], name: str, ms: float | None, energy_mj: float | None, tokens: int
) -> dict[str, float | None]:
    """Return the parts of the energy of a token or frame of a pass."""
    scale, power, memories_w = 1e-3 / tokens, entry["metrics"]["power_w"], entry["memories_w"]
    core = memories = off_chip = None
    if energy_mj is not None:
        core = energy_mj * scale
        if memories_w is not None and ms is not None and power is not None:
            core = ms * (power - memories_w) * scale
            memories = energy_mj * scale - core
    if limits := entry["roofline"]:
        layers = limits["workloads"][name]["layers"]
        moved = [layer["repeat"] * n for layer in layers for n in layer["bytes"].values()
                 if n is not None]  # fmt: skip
        each = limits["memory"]["pj_per_bit"]
        if each is not None and len(moved) == sum(len(layer["bytes"]) for layer in layers):
            off_chip = sum(moved) * 8e-9 * each * scale
        elif not any(moved):
            off_chip = 0.0
    return {"core": core, "memories": memories, "off_chip": off_chip}
