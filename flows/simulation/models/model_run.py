# SPDX-License-Identifier: Apache-2.0
"""A model on the RTL of its units: every operation is simulated, and held against golden models.

The golden models give the operands of each operation, the RTL computes it too, and every bit of
every result must be the same.  What was found equal is written into a journal, a line for each
operation, so that a run which was interrupted goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flows.build.design import Design
from flows.simulation.run import check_results, run_job, run_product
from hwgen.core.registry import core_of
from hwgen.errors import CheckFailed, InputError
from hwgen.models.run.golden_engine import GoldenEngine
from hwgen.models.run.tensor_engine import TensorEngine
from hwgen.models.run.units import Unit, Units, parts_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.params.base import FamilyConfig
    from hwgen.models.files.store import Model
    from hwgen.models.graph.description import Node

VERSION = 1
"""Of the journal's form."""


@dataclass
class Record:
    """Record of the operations that were simulated, and choice of those to simulate.

    Parameters
    ----------
    layers : collection of int, optional
        Layers whose operations are simulated; all, and what is outside of layers, by default.
    journal : Path, optional
        File of what was found equal; it is continued.
    digest : str
        Of the model and its units: a journal of others is refused.
    on_operation : callable, optional
        Gets this record before an operation is simulated.

    Attributes
    ----------
    simulated, reused : int
        Operations of hardware that were simulated now, and that the journal had.
    cycles : Counter
        Simulated cycles by the name of the hardware.
    names : dict
        Names of units of an engine by the digest of the core in each; others have their own.
    node : str
        Operation of the network that is being computed.
    """

    layers: Collection[int] | None = None
    journal: Path | None = None
    digest: str = ""
    on_operation: Callable[[Record], None] | None = None
    simulated: int = 0
    reused: int = 0
    cycles: Counter[str] = field(default_factory=Counter)
    names: dict[str, str] = field(default_factory=dict)
    node: str = ""
    _active: bool = True
    _number: int = 0
    _journaled: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.journal is None:
            return
        head = {"hwgen_model_run": VERSION, "digest": self.digest}
        if not self.journal.exists():
            self.journal.write_text(json.dumps(head) + "\n", encoding="utf-8")
            return
        lines = self.journal.read_text(encoding="utf-8").splitlines()
        try:
            same = bool(lines) and json.loads(lines[0]) == head
            # The last line may have been cut off when the run was interrupted.
            whole = [line for line in lines[1:] if line.endswith("}")]
            entries = [json.loads(line) for line in whole]
            self._journaled = {entry["key"]: entry["cycles"] for entry in entries}
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self.journal}: is no journal of a run ({error})") from error
        if not same:
            raise InputError(
                f"{self.journal}: belongs to another model or other hardware; name another file"
            )
        if len(whole) < len(lines) - 1 or not self.journal.read_bytes().endswith(b"\n"):
            text = "\n".join([lines[0], *whole]) + "\n"
            self.journal.write_text(text, encoding="utf-8")

    def enter(self, node: Node) -> None:
        """Take the operation of the network that comes next."""
        self.begin(node.name, node.layer)

    def begin(self, name: str, layer: int | None) -> None:
        """Take the operation that comes next by its name, and the layer that it is in."""
        self.node = name
        self._active = self.layers is None or layer in self.layers

    def check(
        self, config: FamilyConfig, operands: Iterable[NDArray[Any]], simulate: Callable[[], int]
    ) -> None:
        """Simulate an operation of hardware, unless it need not be.

        Parameters
        ----------
        config : FamilyConfig
        operands : iterable of ndarray
            What tells this operation from others of its node.
        simulate : callable
            Compares, and returns the cycles.

        Raises
        ------
        CheckFailed
            If a result differs; the message names the operation of the network.
        """
        if not self._active:
            return
        self._number += 1
        content = hashlib.sha256()
        for array in operands:
            content.update(np.ascontiguousarray(array).tobytes())
        key = f"{self._number} {self.node} {config.name} {content.hexdigest()[:16]}"
        cycles = self._journaled.get(key)
        if cycles is None:
            if self.on_operation:
                self.on_operation(self)
            try:
                cycles = simulate()
            except CheckFailed as error:
                raise CheckFailed(f"{self.node}: {error}") from error
            self.simulated += 1
            if self.journal is not None:
                with self.journal.open("a", encoding="utf-8") as out:
                    out.write(json.dumps({"key": key, "cycles": cycles}) + "\n")
        else:
            self.reused += 1
        self.cycles[self.names.get(config.digest, config.name)] += cycles


@dataclass(frozen=True)
class RtlUnit(Unit):
    """An operation of an accelerator, by its golden model and by its RTL.

    Parameters
    ----------
    design : Design
    record : Record
    """

    design: Design
    record: Record

    def __call__(
        self, operands: dict[str, NDArray[Any]], **scalars: float
    ) -> dict[str, NDArray[Any]]:
        """Return the results by name, which RTL and golden model agree on."""
        expected = super().__call__(operands, **scalars)

        def simulate() -> int:
            job = core_of(self.config).job(operands, scalars, operation=self.operation.name)
            result = run_job(self.design, job, operands)
            check_results(self.operation.name, result.results, expected)
            return result.cycles

        self.record.check(self.config, operands.values(), simulate)
        return expected


def _simulated(part: FamilyConfig) -> FamilyConfig:
    """Return the simulated part of a unit: its core, or all of it if it multiplies in memory."""
    return part if part.multiplies else getattr(part, "compute", part)


class Simulated:
    """Designs of the hardware of a model, each of which is simulated many times.

    Parameters
    ----------
    configs : iterable of FamilyConfig
    record : Record
    """

    def __init__(self, configs: Iterable[FamilyConfig], record: Record) -> None:
        self.record = record
        parts = [part for config in configs for part in parts_of(config)]
        self._configs = tuple(map(_simulated, parts))
        for core, part in zip(self._configs, parts, strict=True):
            record.names.setdefault(core.digest, part.name)
        self._designs: dict[str, Design] = {}

    def __getitem__(self, config: FamilyConfig) -> Design:
        """Return the design of a configuration, which may be a unit of an engine."""
        if config.digest not in self._designs:
            self._designs[config.digest] = Design.of(config)
        return self._designs[config.digest]

    def units(self) -> Units:
        """Return the operations of the hardware, by golden models and by RTL."""
        return Units(
            self._configs,
            make=lambda config, operation: RtlUnit(config, operation, self[config], self.record),
        )

    def check_product(
        self,
        core: FamilyConfig,
        name: str,
        operands: Sequence[NDArray[Any]],
        matrix: Callable[[], NDArray[Any]],
        total: NDArray[Any],
    ) -> None:
        """Simulate a product, unless the record has it, and compare its results.

        Parameters
        ----------
        core : FamilyConfig
            That multiplies.
        name : str
            Of the operation, for messages.
        operands : sequence of ndarray
            Those that identify the product in the record; the left one comes first.
        matrix : callable
            Returns the right operand.
        total : ndarray
            The golden model's results.
        """

        def simulate() -> int:
            result = run_product(self[core], operands[0], matrix())
            check_results(name, result.results, {"result": total})
            return result.cycles

        self.record.check(core, operands, simulate)


class RtlEngine(GoldenEngine):
    """Operations by golden models, each of them simulated too.

    Parameters
    ----------
    model : Model
        Quantised, as for `GoldenEngine`.
    configs : iterable of FamilyConfig
        The hardware.
    record : Record
    """

    def __init__(self, model: Model, configs: Iterable[FamilyConfig], record: Record) -> None:
        self.simulated = Simulated(configs, record)
        super().__init__(model, self.simulated.units())

    def enter(self, node: Node) -> None:
        """Record the operation that is computed next."""
        self.simulated.record.enter(node)

    def _product(self, x: NDArray[np.int8], name: str) -> NDArray[Any]:
        total = super()._product(x, name)
        core = self.cores[name]
        self.simulated.check_product(core, name, [x], lambda: self.matrix(name), total)
        return total


class RtlTensorEngine(TensorEngine):
    """Operations on arrays by golden models, each that hardware does simulated too.

    Parameters
    ----------
    model : Model
        As for `TensorEngine`.
    configs : iterable of FamilyConfig
        The hardware.
    record : Record
    """

    def __init__(self, model: Model, configs: Iterable[FamilyConfig], record: Record) -> None:
        self.simulated = Simulated(configs, record)
        super().__init__(model, self.simulated.units())

    def enter(self, node: Node) -> None:
        """Record the operation that is computed next."""
        self.simulated.record.enter(node)

    def multiply(self, node: Node, x: NDArray[np.int8], w: NDArray[np.int8]) -> NDArray[np.int32]:
        """Return the exact product of two matrices of int8, which the RTL computes too."""
        total = super().multiply(node, x, w)
        core = self.cores[node.name]
        self.simulated.check_product(core, node.name, [x, w], lambda: w, total)
        return total


def digest_of(model: Model, configs: Iterable[FamilyConfig]) -> str:
    """Return a digest of a model and its hardware."""
    result = hashlib.sha256(model.digest().encode())
    for config in configs:
        result.update(config.model_dump_json().encode())
    return result.hexdigest()[:32]
