# SPDX-License-Identifier: Apache-2.0
"""Jobs of designs whose faults are simulated, and what an application makes of the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from flows.demonstration.digits import Integers, quantise
from flows.power.netlist_power import workload
from flows.power.operands import SUM_BITS, digits_network
from hwgen.core.checksums import Checksums, with_checksums
from hwgen.core.core import Core
from hwgen.core.operation import Arrays, Job, gemm_operands
from hwgen.core.post import RAW, PostSettings
from hwgen.errors import InputError
from hwgen.formats import IntegerFormat

Effect = Literal["masked", "corrected", "detected", "silent", "hang"]

EFFECTS: Mapping[Effect, str] = {
    "masked": "all results are right",
    "corrected": "checksums notice a wrong result and correct it",
    "detected": "the design reports an error, or checksums notice wrong results",
    "silent": "wrong results, and nothing says so",
    "hang": "results are missing, or the bus protocol is violated",
}
"""Effects of a fault on a job, by name."""

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
        Takes wrong results by name, without checksums, and returns whether the application gives
        another answer; always true without an application.
    checksums : Checksums, optional
        What checks the results.
    """

    name: str
    job: Job
    operands: Arrays
    application: str
    is_wrong: Callable[[Arrays], bool]
    checksums: Checksums | None = None

    def assess(self, results: Arrays, expected: Arrays) -> tuple[Effect, bool]:
        """Return the effect of results, and whether the application gives another answer.

        Parameters
        ----------
        results : mapping of ndarray
            Of the hardware.
        expected : mapping of ndarray
            Right ones.
        """
        if self.checksums is None:
            same = all(np.array_equal(results[name], expected[name]) for name in expected)
            return ("masked", False) if same else ("silent", self.is_wrong(results))
        (name,) = expected
        product, verdict = self.checksums.check(np.asarray(results[name]))
        if verdict == "wrong":
            return "detected", False
        checks = self.checksums
        if np.array_equal(product, np.asarray(expected[name])[: checks.rows, : checks.columns]):
            return ("corrected" if verdict == "corrected" else "masked"), False
        return "silent", self.is_wrong({name: product})


def fault_workload(core: Core[Any], text: str, *, checksums: bool = False) -> FaultWorkload:
    """Return the workload that ``--workload`` names.

    Parameters
    ----------
    core : Core
    text : str
        ``digits``, or as `flows.power.netlist_power.workload` takes it.
    checksums : bool
        Whether rows and columns of checksums are appended to the operands.

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
        return _digits(core, checksums)
    work = workload(core.params, text, option="--workload", more="digits, ")
    job, operands, checks = _job(core, work.a, work.w, checksums)
    return FaultWorkload(work.name + _added(checks), job, operands, "", lambda _: True, checks)


def _digits(core: Core[Any], checksums: bool) -> FaultWorkload:
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
    (m, k), n = a.shape, w.shape[1]
    job, operands, checks = _job(core, a, w, checksums)
    (name,) = core.golden(job, operands)

    def classify(first: Any) -> Integers:
        """Return the digits if the first layer gives some sums."""
        products = [first]

        def product(left: Integers, right: Integers) -> Integers:
            return products.pop() if products else left.astype(np.int64) @ right.astype(np.int64)

        return quantised.classify(pixels, product)

    expected = classify(core.golden(job, operands)[name][:m, :n])

    def is_wrong(results: Arrays) -> bool:
        return not np.array_equal(classify(results[name]), expected)

    return FaultWorkload(
        f"digits, first layer, M,K,N = {m},{k},{n}{_added(checks)}", job, operands,
        f"reads {IMAGES} handwritten digits", is_wrong, checks,
    )  # fmt: skip


def _added(checksums: Checksums | None) -> str:
    if checksums is None:
        return ""
    return f", and {checksums.row_digits} rows and {checksums.column_digits} columns of checksums"


def _job(
    core: Core[Any], a: np.ndarray, w: np.ndarray, checksums: bool
) -> tuple[Job, Arrays, Checksums | None]:
    checks = None
    if checksums:
        try:
            a, w, checks = with_checksums(a, w, core.params.activation, core.params.weight)
        except InputError as error:
            raise InputError(f"--checksums: {error}") from None
    (m, k), n = a.shape, w.shape[1]
    settings = PostSettings(RAW) if core.params.post_features else None
    return core.gemm(m, k, n, settings), gemm_operands(a, w), checks
