# SPDX-License-Identifier: Apache-2.0
"""The demonstration on an engine that works on memory: whole inference in hardware.

Every layer is a job.  The engine adds the bias, applies ReLU and requantises, so that what a job
writes are the activations that the next one reads; they stay in memory, scores included.  All jobs
are queued at once, and the host does nothing but turn pixels into integers and look for the
largest score.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from flows.demonstration.digits import Integers, Layer, QuantisedNetwork, middle
from flows.demonstration.layer_run import LayerRun
from flows.simulation.bus.job_host import JobHost
from flows.simulation.placed_products import Placed, place
from flows.simulation.run import check_results
from hwgen.core.post import PostSettings
from hwgen.core.post.records import Columns
from hwgen.errors import CheckFailed, InputError
from hwgen.families.gemm_stream.cycles.job import job_cycles

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig

ROUNDING = "half_up"
"""How `Layer.requantise` rounds."""


def settings_of(config: GemmStreamConfig) -> tuple[PostSettings, PostSettings]:
    """Return the post-processing of hidden layers and of the last one.

    Raises
    ------
    InputError
        If the engine has no such post-processing, or its weights are unsigned: what their offset
        adds to a sum differs from row to row, and the hardware corrects columns only.
    """
    if not config.weight.signed:
        raise InputError(
            f"compute.weight: must be signed for the digits network on an engine, not"
            f" {config.weight}"
        )
    output = str(config.activation)
    try:
        hidden = PostSettings(output, "relu", ROUNDING, columns=True)
        last = PostSettings(output, "none", ROUNDING, columns=True, zero=middle(config.activation))
        for settings in (hidden, last):
            settings.check(config.post_features)
    except InputError as error:
        raise InputError(
            f"post: the digits network needs output {output}, activations none and relu, rounding"
            f" {ROUNDING}, and columns; {error}"
        ) from None
    return hidden, last


def columns_of(layer: Layer) -> Columns:
    """Return bias and scales of a layer as column records."""
    none = np.zeros(len(layer.bias), np.int32)
    shift = np.full(len(layer.bias), layer.shift, np.uint8)
    return Columns(
        layer.bias.astype(np.int32),
        layer.multiplier.astype(np.int32),
        shift,
        none,
        none.astype(np.uint8),
    )


def jobs_of(config: GemmStreamConfig, network: QuantisedNetwork, pixels: Integers) -> list[Placed]:
    """Return the jobs of all layers, each with what the golden models make of the one before."""
    hidden, last = settings_of(config)
    jobs: list[Placed] = []
    a, end = network.inputs(pixels), 0
    for layer in network.layers:
        settings = last if layer is network.layers[-1] else hidden
        columns = columns_of(layer)
        (placed,), end = place(
            config, [(a, layer.weight)], settings=settings, columns=columns, base=end
        )
        if jobs:
            _, _, stride, address = jobs[-1].job.regions["C"]
            job = replace(placed.job, a_address=address, a_stride=stride, after=True)
            placed = replace(placed, job=job, a=None)
        jobs.append(placed)
        a = _expected(placed)
    return jobs


def _expected(placed: Placed) -> Integers:
    """Return the results of a job by the golden models."""
    assert placed.expected is not None
    return placed.expected


def classify(
    host: JobHost,
    network: QuantisedNetwork,
    pixels: Integers,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[Integers, Integers, list[LayerRun]]:
    """Classify images with an idle engine.

    Returns
    -------
    ndarray, ndarray, list of LayerRun
        The digits by the RTL and by the golden models; what each layer took, where the border
        between two is the moment at which the host sees that the first has ended.

    Raises
    ------
    InputError
        If the engine cannot do what the network needs.
    CheckFailed
        If a job fails, or any byte of any layer differs from the golden models.
    """
    config = host.config
    jobs = jobs_of(config, network, pixels)
    model_cycles = [job_cycles(placed.job.plan) for placed in jobs]
    expected = sum(model_cycles)
    for placed in jobs:
        host.put(placed)
    counters = [host.counters()]
    numbers = [host.submit(placed.job) for placed in jobs]

    def follow(busy: int) -> None:
        if on_progress:
            on_progress(busy - counters[0]["BUSY"], expected)

    for index, number in enumerate(numbers, 1):
        state = host.wait(number, 2 * expected + 1000, follow)
        counters.append(host.counters())
        if state != "done":
            raise CheckFailed(f"layer {index} ended with {state}")
    results = [host.results(placed) for placed in jobs]
    for index, (placed, result) in enumerate(zip(jobs, results, strict=True), 1):
        check_results(f"layer {index}", {"result": result}, {"result": _expected(placed)})
    layers = []
    for index, placed in enumerate(jobs):
        plan = placed.job.plan
        busy, reads, writes = (
            counters[index + 1][name] - counters[index][name]
            for name in ("BUSY", "READS", "WRITES")
        )
        share = plan.macs / (config.macs_per_cycle * busy)
        moved = (reads + writes) * config.memory_bytes
        layers.append(LayerRun(plan.m, plan.k, plan.n, busy, model_cycles[index], share, moved))
    return results[-1].argmax(axis=1), _expected(jobs[-1]).argmax(axis=1), layers
