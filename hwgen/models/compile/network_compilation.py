# SPDX-License-Identifier: Apache-2.0
"""Networks on arrays compiled to jobs of an engine of products, and steps of its host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.errors import InputError
from hwgen.families.gemm_stream.schedule import Job, weight_stride
from hwgen.models.compile.compilation import (
    HOST_ALIGNMENT,
    Content,
    Entry,
    JobsCompilation,
    Settings,
)
from hwgen.models.compile.compiled_files import NETWORK, SUM_BYTES
from hwgen.models.compile.network_steps import (
    BY_WEIGHTS,
    PRODUCTS,
    Checks,
    Product,
    Shapes,
    int8_weights,
)
from hwgen.models.compile.placement import IMAGE, WORK, Life, Placement, place_lifetimes
from hwgen.models.files.store import Model
from hwgen.models.graph.description import Node

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.families.gemm_stream.schedule import JobEngine, Plan

    Array = NDArray[Any]

ROWS, COLUMNS, SUMS = "rows", "columns", "sums"
"""Arrays of the engine that all products work on, one after the other."""

_MOST_STEP = (1 << 32) - 1


@dataclass(frozen=True)
class NetworkStep:
    """An operation of the host, or a product whose sums it turns into results.

    Parameters
    ----------
    operation, name : str
    inputs : dict of str
        Arrays by operand, those of a product with what the host keeps of its weights: ``columns``,
        the sums of their columns, ``zeros``, ``scales`` and ``bias``.
    output : str
    attributes : dict
    layer : int or None
    product : Product or None
    job : int
        The first one of a product.
    """

    operation: str
    name: str
    inputs: dict[str, str]
    output: str
    attributes: dict[str, Any] = field(default_factory=dict)
    layer: int | None = None
    product: Product | None = None
    job: int = 0


class NetworkCompilation(JobsCompilation):
    """A network on arrays compiled to jobs.

    Parameters
    ----------
    model : Model
    config : JobEngine
    settings : Settings

    Attributes
    ----------
    shapes : Shapes
    steps : tuple of NetworkStep
    constants : dict of ndarray
        Constants of the host by name.
    storage : dict of str
        Array of `work` that an array lies in, where it is not one itself.
    """

    form = NETWORK

    def __init__(self, model: Model, config: JobEngine, settings: Settings) -> None:
        super().__init__(model, config, settings)
        self.description = model.description
        self._check()
        self.shapes = Shapes(self.description)
        self.constants: dict[str, Array] = {}
        self.steps = tuple(self._steps())
        for name in self.description.outputs:
            self._keep(name)
        self._place()
        self.memory.check(config.memory.address_width, settings.memory_bytes)
        self.host = Placement(0, HOST_ALIGNMENT)
        for name, array in self.constants.items():
            self.host.place(name, array.nbytes, IMAGE)
        self.storage: dict[str, str] = {}
        self.work = self._place_work()
        self.entries = tuple(self._entries())

    def _check(self) -> None:
        """Refuse a network that cannot be compiled."""
        result = Checks(self.model, self.config).problems()
        if "raw" not in self.config.post_features.outputs:
            text = f"{self.config.name}: post.outputs: must have raw: the host takes sums"
            result.insert(0, text)
        if not any(node.operation in PRODUCTS for node in self.description.nodes):
            result.append("it has no products of matrices; the engine would have nothing to do")
        if result:
            name = self.description.name
            raise InputError(f"{name} cannot be compiled:\n" + "\n".join(f"  {p}" for p in result))

    # -- steps -----------------------------------------------------------------------------

    def _steps(self) -> Iterator[NetworkStep]:
        job = 0
        for node in self.description.nodes:
            if node.operation not in PRODUCTS:
                for name in node.inputs.values():
                    self._keep(name)
                yield NetworkStep(node.operation, node.name, dict(node.inputs), node.output,
                                  dict(node.attributes), node.layer)  # fmt: skip
                continue
            product = self.shapes.product(node)
            yield NetworkStep(node.operation, node.name, self._operands(node, product),
                              node.output, {}, node.layer, product, job)  # fmt: skip
            job += product.parts

    def _keep(self, name: str) -> None:
        """Keep a tensor for the host."""
        tensor = self.description.tensors.get(name)
        if tensor is not None and name not in self.constants:
            self.constants[name] = self.model.part(tensor.values).astype(self.shapes.type(name))

    def _operands(self, node: Node, product: Product) -> dict[str, str]:
        """Return the operands of a product but its weights, and add constants derived from them."""
        handled = ("x", "y", "x_zero", "y_zero")
        inputs = {key: name for key, name in node.inputs.items() if key in handled}
        for name in inputs.values():
            self._keep(name)
        if node.operation not in BY_WEIGHTS:
            return inputs
        n = product.n * product.parts
        kept: dict[str, Array] = {}
        if node.operation == "gemm":
            groups = self.model.groups(node.inputs["weights"])
            assert groups is not None
            kept["scales"] = np.ascontiguousarray(groups.scales[:, 0], np.float32)
        else:
            weights = int8_weights(self.model, node)
            if "x_zero" in inputs or self.shapes.type(inputs["x"]) == "uint8":
                kept["columns"] = weights.sum(1, dtype=np.int32)
            zeros = np.zeros(n, np.int32)
            if "weights_zero" in node.inputs:
                zero_points = self.description.tensors[node.inputs["weights_zero"]].values
                zeros = zeros + self.model.part(zero_points).astype(np.int32).reshape(-1)
            zeros = zeros - (128 if self.shapes.type(node.inputs["weights"]) == "uint8" else 0)
            if zeros.any():
                kept["zeros"] = zeros.astype(np.int32)
        if "bias" in node.inputs:
            bias = self.model.part(self.description.tensors[node.inputs["bias"]].values)
            dtype = np.float32 if node.operation == "gemm" else np.int32
            kept["bias"] = np.broadcast_to(bias.astype(dtype).reshape(-1), n)
        for key, array in kept.items():
            inputs[key] = f"{node.name}:{key}"
            self.constants[inputs[key]] = np.ascontiguousarray(array)
        return inputs

    # -- memory ----------------------------------------------------------------------------

    def plan_of(self, product: Product) -> Plan:
        """Return the plan of a product's jobs."""
        return self.plan(product.m, product.k, product.n)

    def _place(self) -> None:
        """Give weights their places, and what products work on."""
        sizes = dict.fromkeys((ROWS, COLUMNS, SUMS), 0)
        for step in self.steps:
            product = step.product
            if product is None:
                continue
            size = product.parts * self.weight_bytes(self.plan_of(product))
            if product.constant:
                self.memory.place(weights_of(step), size, IMAGE)
                size = 0
            last = product.places(product.parts)
            rows = product.m * product.row_bytes if product.constant else last[0]
            sums = product.m * product.row_sums if product.constant else last[1]
            for name, each in ((ROWS, rows), (COLUMNS, size), (SUMS, SUM_BYTES * sums)):
                sizes[name] = max(sizes[name], each)
            if max(product.row_bytes, SUM_BYTES * product.row_sums) > _MOST_STEP:
                raise InputError(f"{step.name}: its rows have more than {_MOST_STEP} bytes")
        for name, size in sizes.items():
            if size:
                self.memory.place(name, size, WORK, written=True)

    def _place_work(self) -> Placement:
        """Give arrays of the host their places."""
        first: dict[str, int] = dict.fromkeys(self.description.inputs, -1)
        last: dict[str, int] = {}
        sizes = {name: self.shapes.bytes(name) for name in self.description.inputs}
        for number, step in enumerate(self.steps):
            for name in step.inputs.values():
                last[self.place_of(name)] = number
            if step.operation == "reshape" and step.inputs["x"] not in self.constants:
                self.storage[step.output] = self.place_of(step.inputs["x"])
                continue
            sizes[step.output], first[step.output] = self.shapes.bytes(step.output), number
            for name, size in self.scratch(step).items():
                sizes[name], first[name], last[name] = size, number, number
            if step.operation == "quantise":
                del sizes[step.output]
                length = self.shapes.bytes(step.output) // 4
                sizes[step.output] = length
                sizes[f"{step.output}.scales"] = 4 * length // self.shapes.shape(step.output)[-1]
                first[f"{step.output}.scales"] = number
            if step.operation == "gemm":
                last[f"{step.inputs['x']}.scales"] = number
        for name in set(self.description.outputs) - set(self.constants):
            last[self.place_of(name)] = len(self.steps)
        lives = [Life(name, size, first[name], last.get(name, first[name]))
                 for name, size in sizes.items()]  # fmt: skip
        return place_lifetimes(lives, HOST_ALIGNMENT)

    def place_of(self, name: str) -> str:
        """Return the array that an array lies in."""
        return self.storage.get(name, name)

    def scratch(self, step: NetworkStep) -> dict[str, int]:
        """Return the bytes of what the host needs beside a step's result, by name."""
        name, product = step.name, step.product
        if step.operation == "linear_mean":
            return {f"{name}:sums": self.shapes.bytes(step.output) * 4}
        if product is None or product.constant:
            return {}
        m, n = product.parts * product.m, product.parts * product.n
        if step.operation == "integer_matmul":
            return {f"{name}:columns": 4 * n}
        return {f"{name}:codes": m * product.k, f"{name}:row_scales": 4 * m,
                f"{name}:column_scales": 4 * n}  # fmt: skip

    # -- jobs ------------------------------------------------------------------------------

    def _entries(self) -> Iterator[Entry]:
        """Yield the jobs in the order of the program."""
        for step in self.steps:
            product = step.product
            if product is None:
                continue
            plan = self.plan_of(product)
            weights = self.memory.at(weights_of(step) if product.constant else COLUMNS)
            for part in range(product.parts):
                a, c = product.places(part)
                job = Job(
                    plan,
                    a_address=self.memory.at(ROWS) + a,
                    w_address=weights + part * self.weight_bytes(self.plan_of(product)),
                    c_address=self.memory.at(SUMS) + SUM_BYTES * c,
                    a_stride=product.row_bytes,
                    w_stride=weight_stride(plan),
                    c_stride=SUM_BYTES * product.row_sums,
                )
                yield Entry(step.name, {"part": part}, job)

    def contents(self) -> Iterator[Content]:
        """Yield the weights as the engine reads them, and constants of the host."""
        nodes = {node.name: node for node in self.description.nodes}
        for step in self.steps:
            product = step.product
            if product is not None and product.constant:
                weights = int8_weights(self.model, nodes[step.name])
                parts = weights.reshape(product.parts, product.n, product.k).swapaxes(1, 2)
                yield Content(self.memory, weights_of(step), self.packed(parts))
        for name, array in self.constants.items():
            yield Content(self.host, name, array)

    def facts(self) -> dict[str, Any]:
        """Return the part of `DOCUMENT` that is of networks on arrays."""
        description = self.description
        names = {*description.inputs, *description.outputs, *self.constants}
        for step in self.steps:
            names |= {step.output, *step.inputs.values()}
        arrays = {
            name: {"shape": list(array.shape), "type": array.dtype.name}
            for name, array in self.constants.items()
        }
        for name in sorted(names - set(arrays)):
            arrays[name] = {"shape": list(self.shapes.shape(name)), "type": self.shapes.type(name)}
        return {
            **super().facts(),
            "inputs": list(description.inputs),
            "outputs": list(description.outputs),
            "steps": [asdict(step) for step in self.steps],
            "operands": arrays,
            "storage": self.storage,
        }


def weights_of(step: NetworkStep) -> str:
    """Return the array of the engine that holds the weights of a product."""
    return f"{step.name}:weights"
