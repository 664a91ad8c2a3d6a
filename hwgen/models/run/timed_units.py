# SPDX-License-Identifier: Apache-2.0
"""Cycles of a model on separate units: every operation by its cycle model, no number computed.

Operations have zeros as results: cycles of jobs depend on sizes alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.core.registry import core_of
from hwgen.models.run.engine import Run
from hwgen.models.run.golden_engine import GoldenEngine
from hwgen.models.run.tensor_engine import TensorEngine
from hwgen.models.run.units import Unit, Units

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.operation import Job, Operation
    from hwgen.core.params.base import FamilyConfig
    from hwgen.models.files.store import Model
    from hwgen.models.graph.description import Node


class CycleCounter:
    """Cycles of jobs, each on an idle unit.

    Attributes
    ----------
    cycles : Counter
        By name of the operation of the network.
    busy : Counter
        By name of the unit.
    jobs : int
    """

    def __init__(self) -> None:
        self.node = ""
        self.reset()
        self._cached: dict[tuple[Any, ...], int] = {}

    def reset(self) -> None:
        """Count from zero."""
        self.cycles: Counter[str] = Counter()
        self.busy: Counter[str] = Counter()
        self.jobs = 0

    def count(self, config: FamilyConfig, job: Job) -> None:
        """Count a job."""
        key = (
            config.digest, job.operation.name, tuple(job.sizes.items()), tuple(job.scalars.items()),
        )  # fmt: skip
        if key not in self._cached:
            self._cached[key] = core_of(config).cycles([job]).number
        self.cycles[self.node] += self._cached[key]
        self.busy[config.name] += self._cached[key]
        self.jobs += 1

    def product(self, config: FamilyConfig, m: int, k: int, n: int) -> None:
        """Count a product of matrices."""
        self.count(config, core_of(config).gemm(m, k, n))


@dataclass(frozen=True)
class TimedUnit(Unit):
    """An operation of an accelerator whose jobs are counted.

    Parameters
    ----------
    counter : CycleCounter
    """

    counter: CycleCounter

    def __call__(
        self, operands: dict[str, NDArray[Any]], **scalars: float
    ) -> dict[str, NDArray[Any]]:
        """Count the job, and return zeros by name."""
        job = core_of(self.config).job(operands, scalars, operation=self.operation.name)
        self.counter.count(self.config, job)
        result = {}
        for tensor in self.operation.results:
            fmt: Any = tensor.format
            shape = [job.sizes[size] if isinstance(size, str) else size for size in tensor.shape]
            result[tensor.name] = np.zeros(shape, np.int64 if fmt.is_integer else np.float32)
        return result


def timed_units(configs: Iterable[FamilyConfig], counter: CycleCounter) -> Units:
    """Return the operations of hardware whose jobs are counted."""

    def make(config: FamilyConfig, operation: Operation) -> Unit:
        return TimedUnit(config, operation, counter)

    return Units(configs, make=make)


class TimedEngine(GoldenEngine):
    """A decoder whose operations are counted.

    Parameters
    ----------
    model : Model
        Quantised.
    configs : iterable of FamilyConfig
    """

    def __init__(self, model: Model, configs: Iterable[FamilyConfig]) -> None:
        self.counter = CycleCounter()
        super().__init__(model, timed_units(configs, self.counter))

    def enter(self, node: Node) -> None:
        """Count for this operation."""
        self.counter.node = node.name

    def embed(self, node: Node, x: NDArray[Any]) -> NDArray[np.float32]:
        """Return zeros in place of rows of the table."""
        width = self.model.description.tensors[node.inputs["table"]].shape[1]
        return np.zeros((len(x), width), np.float32)

    def _scales_by_host(
        self, node: Node, core: Any, scales: dict[str, NDArray[np.float32]]
    ) -> tuple[dict[str, NDArray[Any]], np.float32]:
        """Return zeros in place of scales of tokens."""
        zeros = {name: np.zeros(array.shape, np.int64) for name, array in scales.items()}
        return zeros, np.float32(1)

    def _product(self, x: NDArray[Any], name: str) -> NDArray[Any]:
        n, k = self.model.description.tensors[name].shape
        self.counter.product(self.cores[name], len(x), k, n)
        return np.zeros((len(x), n), np.int64 if self.scales_rows(name) else np.float32)


class TimedTensorEngine(TensorEngine):
    """A network on arrays whose operations on hardware are counted.

    Parameters
    ----------
    model : Model
    configs : iterable of FamilyConfig
    """

    def __init__(self, model: Model, configs: Iterable[FamilyConfig]) -> None:
        self.counter = CycleCounter()
        super().__init__(model, timed_units(configs, self.counter))

    def enter(self, node: Node) -> None:
        """Count for this operation."""
        self.counter.node = node.name

    def multiply(self, node: Node, x: NDArray[np.int8], w: NDArray[np.int8]) -> NDArray[np.int32]:
        """Count a product, and return zeros."""
        self.counter.product(self.cores[node.name], len(x), *w.shape)
        return np.zeros((len(x), w.shape[1]), np.int32)


def decoder_passes(
    model: Model, configs: Iterable[FamilyConfig], prompt: int, context: int
) -> dict[str, tuple[int, float]]:
    """Return cycles of ``prefill`` and ``decode``, and those of one attention of each.

    Parameters
    ----------
    model : Model
    configs : iterable of FamilyConfig
        Units that execute one job after the other.
    prompt, context : int
        Tokens of the prompt; positions before the step of decoding.

    Raises
    ------
    InputError
        If no unit has an operation that the model needs.
    """
    engine = TimedEngine(model, configs)
    counter = engine.counter
    heads = [node.name for node in model.description.nodes if node.operation == "attention"]

    def read() -> tuple[int, float]:
        attention = sum(counter.cycles[name] for name in heads) / max(len(heads), 1)
        result = counter.cycles.total(), attention
        counter.reset()
        return result

    run = Run(engine)
    run.feed([0] * prompt)
    prefill = read()
    if context < prompt:
        run = Run(engine)
    if run.position < context:
        run.feed([0] * (context - run.position))
    counter.reset()
    run.feed([0])
    return {"prefill": prefill, "decode": read()}


def frame_cycles(model: Model, configs: Iterable[FamilyConfig]) -> int:
    """Return the cycles of a frame of a network on arrays; see `decoder_passes`."""
    engine = TimedTensorEngine(model, configs)
    description = model.description
    inputs = {}
    for name in description.inputs:
        shape = tuple(int(length) for length in description.arrays[name])
        inputs[name] = np.zeros(shape, description.types.get(name, "float32"))
    engine.run(inputs)
    return engine.counter.cycles.total()
