# SPDX-License-Identifier: Apache-2.0
"""Jobs of designs whose faults are simulated, and what an application makes of the results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from flows.demonstration.digits import Integers, quantise
from flows.power.netlist_power import workload
from flows.power.operands import SUM_BITS, digits_network
from hwgen.core.core import Core
from hwgen.core.operation import Arrays, Job, gemm_operands
from hwgen.core.post import RAW, PostSettings
from hwgen.errors import InputError
from hwgen.formats import IntegerFormat

IMAGES = 16
"""Images that a job of the digits network classifies."""


@dataclass(frozen=True)
class FaultWorkload:
    """A job, and when an application would notice that its results are wrong.

    Parameters
    ----------
    name : str
        In words.
    job : Job
    operands : mapping of ndarray
    application : str
        What the application does with the results; empty if there is none.
    is_wrong : callable
        Takes the results by name and returns whether the application gives another answer; without
        an application whether any result differs.
    """

    name: str
    job: Job
    operands: Arrays
    application: str
    is_wrong: Callable[[Arrays], bool]


def fault_workload(core: Core[Any], text: str) -> FaultWorkload:
    """Return the workload that ``--workload`` names.

    Parameters
    ----------
    core : Core
    text : str
        ``digits``, or as `flows.power.netlist_power.workload` takes it.

    Raises
    ------
    InputError
        If it names none, or the core cannot do it.
    """
    if not core.multiplies:
        raise InputError(
            f"--workload: {core.name!r} multiplies no matrices; faults are simulated in cores and"
            " engines that do"
        )
    if text == "digits":
        return _digits(core)
    work = workload(core.params, text, option="--workload", more="digits, ")
    job, operands = _job(core, work.a, work.w)
    expected = core.golden(job, operands)

    def is_wrong(results: Arrays) -> bool:
        return any(not np.array_equal(results[name], expected[name]) for name in expected)

    return FaultWorkload(work.name, job, operands, "", is_wrong)


def _digits(core: Core[Any]) -> FaultWorkload:
    """Return the first layer of the digits network; the other one is computed without faults."""
    activation, weight = core.params.activation, core.params.weight
    if not (activation.is_integer and weight.is_integer):
        raise InputError(
            f"--workload: the digits network is of integers, not {activation} x {weight}; take"
            " random"
        )
    data, network = digits_network(weight)
    sums = IntegerFormat(width=SUM_BITS, signed=True)
    quantised = quantise(network, data.train_pixels, activation, weight, sums)
    pixels = data.test_pixels[:IMAGES]
    a, w = quantised.inputs(pixels), quantised.layers[0].weight
    job, operands = _job(core, a, w)
    (name,) = core.golden(job, operands)

    def classify(first: Any) -> Integers:
        """Return the digits if the first layer gives some sums."""
        products = [first]

        def product(left: Integers, right: Integers) -> Integers:
            return products.pop() if products else left.astype(np.int64) @ right.astype(np.int64)

        return quantised.classify(pixels, product)

    expected = classify(core.golden(job, operands)[name])

    def is_wrong(results: Arrays) -> bool:
        return not np.array_equal(classify(results[name]), expected)

    (m, k), n = a.shape, w.shape[1]
    return FaultWorkload(
        f"digits, first layer, M,K,N = {m},{k},{n}", job, operands,
        f"reads {IMAGES} handwritten digits", is_wrong,
    )  # fmt: skip


def _job(core: Core[Any], a: np.ndarray, w: np.ndarray) -> tuple[Job, Arrays]:
    (m, k), n = a.shape, w.shape[1]
    settings = PostSettings(RAW) if core.params.post_features else None
    return core.gemm(m, k, n, settings), gemm_operands(a, w)
