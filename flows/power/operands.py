# SPDX-License-Identifier: Apache-2.0
"""Operands by which power is measured, and how much of a core's inputs they change."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np

from flows.demonstration.digits import Digits, Network, load, quantise, train, wants_ternary
from flows.simulation.operands import draw_operands
from flows.simulation.placement import source_core
from hwgen.core.core import Core
from hwgen.core.operation import Arrays, Job, StreamPlan, gemm_operands
from hwgen.core.post import RAW, PostSettings
from hwgen.errors import InputError
from hwgen.formats import IntegerFormat
from hwgen.formats.block import quantise_lines

SPREAD = 0.25
"""Standard deviation of normally distributed operands, as a part of the largest integer: with a
scale for each row or block, which maps the largest of a hundred numbers or so to the largest
integer, weights and activations of language models have about that."""

HIDDEN = 32
"""Hidden units of the digits network."""

SUM_BITS = 48
"""Of its sums, whatever those of a core are."""


def normal(fmt: Any, shape: tuple[int, int], *, columns: bool, rng: np.random.Generator) -> Any:
    """Return normally distributed numbers in a format.

    Parameters
    ----------
    fmt : format
    shape : tuple of int
    columns : bool
        Whether blocks run along columns, as those of weights do.
    rng : numpy Generator
    """
    lines = shape[::-1] if columns else shape
    values = rng.standard_normal(lines)
    if fmt.is_block:
        values = quantise_lines(fmt, values)[0]
    elif fmt.is_integer:
        scale = SPREAD * max(fmt.max, 1)
        if fmt.min >= 0:
            values = np.abs(values)
        values = np.clip(np.rint(values * scale), fmt.min, fmt.max).astype(fmt.dtype)
    else:
        low, high = float(fmt.min), float(fmt.max)
        values = np.clip(values, low, high).astype(fmt.dtype)
    return values.T if columns else values


def job_of_size(core: Core[Any], cycles: int) -> Job:
    """Return a job of at least so many cycles, of the shape of the core.

    A product has a K of four passes, so that sums are long; what else grows is in turn.
    """
    operation = core.select_operation(core.operations[0].name)
    sizes = operation.natural_sizes
    most = {size.name: size.most for size in operation.sizes}
    if core.multiplies:
        sizes["K"] = min(4 * max(sizes["K"], 8), most["K"])
    post = PostSettings(RAW) if core.multiplies and core.params.post_features else None
    names = [name for name in sizes if name != "K"] or list(sizes)
    for step in range(64):
        job = Job(operation, dict(sizes), {s.name: s.default for s in operation.scalars}, post)
        if core.cycles([job]).number >= cycles:
            break
        name = names[step % len(names)]
        sizes[name] = min(2 * sizes[name], most[name])
    return job


def workloads(core: Core[Any], job: Job, seed: int = 1) -> dict[str, Arrays]:
    """Return operands of a job by kind, of a core that multiplies or does not.

    ``uniform``: over the ranges of the formats; ``zero``; ``alternating`` between the ends of the
    ranges; of products also ``normal``, see `normal`, and, of integers, ``digits``: weights and
    activations of a network that reads handwritten digits.
    """
    rng = np.random.default_rng(seed)
    patterns = {"uniform": "random", "zero": "zero", "alternating": "alternating"}
    result: dict[str, Arrays] = {
        name: draw_operands(core, job.operation, job.sizes, pattern, rng)
        for name, pattern in patterns.items()
    }
    if core.multiplies:
        m, k, n = (job.sizes[name] for name in "MKN")
        config = core.params
        a = normal(config.activation, (m, k), columns=False, rng=rng)
        w = normal(config.weight, (k, n), columns=True, rng=rng)
        result["normal"] = gemm_operands(a, w)
        with suppress(InputError):  # formats that the network cannot use
            a, w = _of_digits(config.activation, config.weight)
            result["digits"] = gemm_operands(_tiled(a, (m, k)), _tiled(w, (k, n)))
    return result


def digits_network(weight: Any) -> tuple[Digits, Network]:
    """Return the digits and a network that reads them, trained for a format of weights."""
    return _network(wants_ternary(weight))


@cache
def _network(ternary: bool) -> tuple[Digits, Network]:
    data = load()
    return data, train(data, HIDDEN, ternary=ternary)


def _of_digits(activation: Any, weight: Any) -> tuple[Any, Any]:
    """Return activations and weights of the first layer of the digits network."""
    if not (activation.is_integer and weight.is_integer):
        raise InputError("the network is of integers")
    data, network = digits_network(weight)
    sums = IntegerFormat(width=SUM_BITS, signed=True)
    quantised = quantise(network, data.train_pixels, activation, weight, sums)
    return quantised.inputs(data.test_pixels), quantised.layers[0].weight


def _tiled(array: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return an array of a shape, of copies of a matrix."""
    rows, columns = (
        np.arange(size) % length for size, length in zip(shape, array.shape, strict=True)
    )
    return np.ascontiguousarray(array[rows][:, columns])


def has_stream_ports(core: Core[Any]) -> bool:
    """Return whether a core, or that inside an engine, takes operands at ports of its own."""
    inner = source_core(core)
    return isinstance(inner.schedule(job_of_size(inner, 1)), StreamPlan)


def port_activity(core: Core[Any], job: Job, operands: Arrays, cycles: int) -> float:
    """Return the changes of a data bit of the input ports in a cycle, on average.

    Of an engine those of the core inside it.
    """
    inner = source_core(core)
    plan = inner.schedule(job)
    assert isinstance(plan, StreamPlan)
    packed: Mapping[str, Any] = plan.pack(operands)
    changes, bits = 0, 0
    for chunks in packed.values():
        last: np.ndarray | None = None
        for beats, _ in chunks:
            data = beats.reshape(-1, beats.shape[-1])
            if last is not None:
                data = np.concatenate([last, data])
            else:
                bits += 8 * data.shape[1]
            changes += int(np.unpackbits(data[1:] ^ data[:-1]).sum())
            last = data[-1:]
    return changes / (bits * cycles)
