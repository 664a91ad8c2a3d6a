# SPDX-License-Identifier: Apache-2.0
"""What a configuration's regression runs whose operations are no products of matrices.

Cases are made from the operations alone: their sizes, their scalars, the formats of their operands
and the ports, so that a new family gets all of them.  A family whose operands are bound to one
another in a way that formats do not show says in its schedule how they are drawn:
``operands(config, operation, sizes, kind, rng)``.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from flows.simulation.regression import OPERANDS, PROBABILITIES, lengths, numbers, pairwise
from hwgen.core.jobs import select_operation
from hwgen.core.operation import Operation, lengths_of
from hwgen.core.params.base import FamilyConfig
from hwgen.core.protocols import OperandSource
from hwgen.core.registry import core_of

_JOBS = 12
"""Jobs that follow each other in the longest cases."""


@dataclass(frozen=True)
class JobSpec:
    """A job of a case.

    Parameters
    ----------
    operation : str
    sizes : tuple of (str, int)
    kind : str
        Of the values, of `flows.simulation.regression.OPERANDS`.
    """

    operation: str
    sizes: tuple[tuple[str, int], ...]
    kind: str = "random"


@dataclass(frozen=True)
class OperationCase:
    """One test: jobs that follow each other; see `flows.simulation.regression.Case`."""

    name: str
    jobs: tuple[JobSpec, ...]
    idle: tuple[tuple[str, float], ...] = ()
    resets: tuple[int, ...] = ()
    patient: bool = False

    @property
    def full_rate(self) -> bool:
        """Whether nobody stalls, so that the cycle model must be exact."""
        return not self.patient and not any(probability for _, probability in self.idle)


def shapes(operation: Operation) -> list[tuple[tuple[str, int], ...]]:
    """Return sizes to try: around the natural ones, and multiples of what they must be."""
    axes = []
    for size in operation.sizes:
        rounded = [
            min(
                -(-length // size.multiple) * size.multiple,
                size.most // size.multiple * size.multiple,
            )
            for length in lengths(size.natural, size.most)
        ]
        axes.append(sorted(set(rounded)))
    names = [size.name for size in operation.sizes]
    if len(axes) < 3:  # what `pairwise` takes
        axes += [[0]] * (3 - len(axes))
    combined = {
        tuple(zip(names, found[: len(names)], strict=True)): None for found in pairwise(axes)
    }
    return list(combined)


def operation_cases(config: FamilyConfig, seed: int) -> list[OperationCase]:
    """Return the regression of a configuration, the same for the same seed."""
    rng = np.random.default_rng([seed, zlib.crc32(config.name.encode())])
    ports = [port.name for port in config.ports]
    planned: list[OperationCase] = []
    every: list[JobSpec] = []
    for operation in config.operations:
        found = shapes(operation)
        largest = tuple(found[-1])
        every += [JobSpec(operation.name, sizes) for sizes in found]
        kinds = OPERANDS if _specials(operation) else OPERANDS[:-1]
        planned += [
            OperationCase(
                f"{operation.name}_shapes",
                tuple(JobSpec(operation.name, sizes, OPERANDS[i % 2 * 6])
                      for i, sizes in enumerate(found)),
            ),
            OperationCase(
                f"{operation.name}_values",
                tuple(JobSpec(operation.name, largest, kind) for kind in kinds),
            ),
        ]  # fmt: skip

    def some(count: int) -> tuple[JobSpec, ...]:
        return tuple(every[i] for i in rng.integers(len(every), size=count))

    stalls = pairwise([list(PROBABILITIES)] * max(3, len(ports)))
    for i, probabilities in enumerate(stalls):
        idle = tuple(zip(ports, probabilities, strict=False))
        planned.append(OperationCase(f"stalls_{i}", some(3), idle))
    for i in range(4):
        resets = tuple(int(r) for r in rng.integers(1, 2 * config.latency + 6, size=3))
        idle = tuple((port, PROBABILITIES[i % 2]) for port in ports)
        planned.append(OperationCase(f"reset_{i}", some(3), idle, resets))
    for name, probability in (("full_rate", 0.0), ("stalled", 0.3)):
        idle = tuple((port, probability) for port in ports)
        planned.append(OperationCase(f"back_to_back_{name}", some(_JOBS), idle))
    planned.append(OperationCase("ready_after_valid", some(3), patient=True))
    return planned


def _specials(operation: Operation) -> bool:
    return any(tensor.format.specials for tensor in operation.operands)


def draw_operands(
    config: FamilyConfig, spec: JobSpec, rng: np.random.Generator
) -> tuple[Operation, dict[str, np.ndarray], dict[str, float]]:
    """Return the operation, the operands and the scalars of a job."""
    operation, sizes = select_operation(config, spec.operation), dict(spec.sizes)
    core = core_of(config)
    if isinstance(core, OperandSource):
        operands = core.draw_operands(operation, sizes, spec.kind, rng)
    else:
        operands = {
            tensor.name: numbers(tensor.format, lengths_of(tensor, sizes), spec.kind, index, rng)
            for index, tensor in enumerate(operation.operands)
        }
    scalars = {}
    for scalar in operation.scalars:
        value = scalar.default
        if rng.random() < 0.5:
            low, high = max(scalar.low, -8.0), min(scalar.high, 8.0)
            if low < high:
                value = float(np.float32(rng.uniform(low, high)))
            if scalar.whole:
                value = float(rng.integers(int(scalar.low), int(scalar.high), endpoint=True))
        scalars[scalar.name] = value
    return operation, operands, scalars
