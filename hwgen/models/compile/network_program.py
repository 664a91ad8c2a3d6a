# SPDX-License-Identifier: Apache-2.0
"""Networks compiled to jobs: the golden models of the host and of the engine at work."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.errors import InputError
from hwgen.models.compile.compiled_files import (
    DOCUMENT,
    HOST_FILE,
    NETWORK,
    SUM_BYTES,
    JobFiles,
)
from hwgen.models.compile.golden_jobs import GoldenJobs
from hwgen.models.compile.network_compilation import COLUMNS, ROWS, SUMS, NetworkStep
from hwgen.models.compile.network_steps import PRODUCTS, Product
from hwgen.models.run.engine import last_uses
from hwgen.models.run.host_tensors import OPERATIONS
from hwgen.models.run.tensor_engine import Rows, fitted, quantised_rows
from hwgen.models.run.tensor_integers import narrow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class CompiledNetwork(JobFiles):
    """A network on arrays compiled to jobs, on disk.

    Parameters
    ----------
    path : Path
        Its directory.

    Attributes
    ----------
    document : dict
        See `hwgen.models.compile.network_compilation.NetworkCompilation.document`.
    nodes : tuple of NetworkStep
    inputs, outputs : tuple of str
    forms : dict
        Shape and type of each array.

    Raises
    ------
    InputError
        If something is missing, or says what cannot be.
    """

    form = NETWORK

    def _read(self, document: dict[str, Any]) -> None:
        super()._read(document)
        self.name = str(document["name"])
        self.nodes = tuple(map(step_of, document["steps"]))
        self.inputs, self.outputs = tuple(document["inputs"]), tuple(document["outputs"])
        self.forms = {
            name: (tuple(map(int, each["shape"])), str(np.dtype(each["type"])))
            for name, each in document["operands"].items()
        }

    def _check(self) -> None:
        super()._check()
        path = self.path / DOCUMENT
        for name, place in self.constants.items():
            shape, dtype = self.forms.get(name, ((), ""))
            if not dtype or math.prod(shape) * np.dtype(dtype).itemsize != place.bytes:
                raise InputError(f"{path}: array {name!r:.80} cannot be")
        defined = {*self.inputs, *self.constants}
        for step in self.nodes:
            product = step.product
            if not defined.issuperset(step.inputs.values()) or step.output not in self.forms:
                raise InputError(f"{path}: step {step.name!r:.80} reads what nothing makes")
            if step.operation not in (*PRODUCTS, "quantise", *OPERATIONS):
                raise InputError(f"{path}: step {step.name!r:.80} is no operation of the host")
            if (product is not None) != (step.operation in PRODUCTS) or (
                product is not None and not 0 <= step.job <= self.jobs - product.parts
            ):
                raise InputError(f"{path}: step {step.name!r:.80} has jobs that are not there")
            defined.add(step.output)
        if not defined.issuperset(self.outputs):
            raise InputError(f"{path}: nothing makes its outputs")

    def products_of(self, layers: Collection[int] | None = None) -> int:
        """Return the number of products of a frame, of some layers or of all."""
        return sum(
            step.product is not None and (layers is None or step.layer in layers)
            for step in self.nodes
        )


def step_of(document: Any) -> NetworkStep:
    """Return a step that was written as JSON.

    Raises
    ------
    TypeError
        If it lacks something.
    """
    product = document["product"]
    attributes = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in document["attributes"].items()
    }
    return NetworkStep(
        **{**document, "attributes": attributes, "product": product and Product(**product)}
    )


class NetworkProgram:
    """A compiled network at work: the host's steps, with jobs by an engine.

    Parameters
    ----------
    compiled : CompiledNetwork
    engine : GoldenJobs
    """

    def __init__(self, compiled: CompiledNetwork, engine: GoldenJobs) -> None:
        self.compiled, self.engine = compiled, engine
        self._program = compiled.program()
        self._forms = {name: compiled.forms[name] for name in compiled.inputs}
        self._uses = last_uses(compiled.nodes, compiled.outputs)
        data = (compiled.path / HOST_FILE).read_bytes()
        self._constants: dict[str, Any] = {}
        for name, place in compiled.constants.items():
            shape, dtype = compiled.forms[name]
            part = np.frombuffer(data, np.uint8)[place.address : place.address + place.bytes]
            self._constants[name] = part.view(np.dtype(dtype).newbyteorder("<")).reshape(shape)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs of the network by name.

        Parameters
        ----------
        inputs : mapping of ndarray
            All inputs by name, of their shapes.

        Raises
        ------
        InputError
            If an input is missing or does not fit, or a step cannot be done on it.
        """
        compiled: Any = self.compiled
        values: dict[str, Any] = {**self._constants, **fitted(self._forms, inputs)}
        for index, step in enumerate(compiled.nodes):
            try:
                with np.errstate(all="ignore"):  # infinities are results like others
                    values[step.output] = self._do(step, values)
            except (ValueError, IndexError, KeyError, TypeError, ArithmeticError) as error:
                raise InputError(f"{step.name}: {step.operation}: {error}") from None
            for name in self._uses[index]:
                values.pop(name, None)
        return {name: np.asarray(values[name]) for name in compiled.outputs}

    def _do(self, step: NetworkStep, values: Mapping[str, Any]) -> Any:
        operands = {key: values[name] for key, name in step.inputs.items()}
        if step.product is not None:
            method = getattr(self, f"_{step.operation}")
            return method(step, step.product, **operands)
        if step.operation == "quantise":
            return quantised_rows(operands["x"])
        return OPERATIONS[step.operation](step.attributes, **operands)

    # -- products --------------------------------------------------------------------------

    def _sums(self, step: NetworkStep, product: Product, rows: NDArray[np.int8]) -> NDArray[Any]:
        """Return the sums of all jobs, shape (parts, m, n) or (m, parts * n)."""
        engine, arrays = self.engine, self.compiled.arrays
        engine.store(arrays[ROWS].address, rows.tobytes())
        engine.run(self._program[step.job : step.job + product.parts], step.name, step.layer)
        count = product.parts * product.m * product.n
        data = engine.load(arrays[SUMS].address, SUM_BYTES * count)
        sums = np.frombuffer(data, "<i4")
        if product.constant:
            return sums.reshape(product.m, -1)
        return sums.reshape(product.parts, product.m, product.n)

    def _right(self, step: NetworkStep, product: Product, matrices: NDArray[np.int8]) -> None:
        """Put right operands of shape (parts, k, n) into the engine's memory."""
        address = self.compiled.arrays[COLUMNS].address
        stride = self._program[step.job].registers["W_STRIDE"]
        rows = matrices.reshape(-1, product.n)
        padded = np.pad(rows, ((0, 0), (0, stride - product.n)))
        self.engine.store(address, padded.tobytes())

    def _gemm(
        self, step: NetworkStep, product: Product, x: Rows, scales: Array,
        bias: Array | None = None,
    ) -> Array:  # fmt: skip
        result = _scaled(self._sums(step, product, x.values), x.scales[:, None], scales)
        result = result if bias is None else result + bias
        return result.reshape(*x.values.shape[:-1], -1)

    def _integer_gemm(
        self, step: NetworkStep, product: Product, x: Array, x_zero: Array | None = None,
        columns: Array | None = None, zeros: Array | None = None, bias: Array | None = None,
    ) -> Array:  # fmt: skip
        codes, zero = narrow(x, x_zero)
        rows = codes.reshape(product.m, product.parts, product.k)
        result = self._sums(step, product, codes).astype(np.int64)
        if columns is not None:
            result = result - int(zero.reshape(())) * columns.astype(np.int64)
        if zeros is not None:
            sums = rows.sum(2, dtype=np.int64) - product.k * int(zero.reshape(()))
            result = result - np.repeat(sums, product.n, 1) * zeros.astype(np.int64)
        result = result.astype(np.int32)
        result = result if bias is None else result + bias
        return result.reshape(*x.shape[:-1], -1)

    def _operands(self, step: NetworkStep, x: Array, y: Array) -> tuple[Array, Array]:
        """Return matrices of a batch, shapes (parts, m, k) and (parts, k, n)."""
        lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        left = np.broadcast_to(x, (*lead, *x.shape[-2:])).reshape(-1, *x.shape[-2:])
        return left, np.broadcast_to(y, (*lead, *y.shape[-2:])).reshape(-1, *y.shape[-2:])

    def _integer_matmul(
        self, step: NetworkStep, product: Product, x: Array, y: Array,
        x_zero: Array | None = None, y_zero: Array | None = None,
    ) -> Array:  # fmt: skip
        left, zero = narrow(x, x_zero)
        right, other = narrow(y, y_zero)
        left, right = self._operands(step, left, right)
        self._right(step, product, right)
        sums = self._sums(step, product, left).astype(np.int64)
        of_x, of_y = int(zero.reshape(())), int(other.reshape(()))
        sums = sums - of_x * right.sum(1, dtype=np.int64)[:, None]
        sums = sums - (left.sum(2, dtype=np.int64)[..., None] - product.k * of_x) * of_y
        result: Array = sums.astype(np.int32).reshape(self.compiled.forms[step.output][0])
        return result

    def _matmul(self, step: NetworkStep, product: Product, x: Array, y: Array) -> Array:
        left, right = self._operands(step, x, y)
        rows, columns = quantised_rows(left), quantised_rows(right.swapaxes(1, 2))
        self._right(step, product, columns.values.swapaxes(1, 2))
        result = _scaled(
            self._sums(step, product, rows.values),
            rows.scales.reshape(product.parts, product.m, 1),
            columns.scales.reshape(product.parts, 1, product.n),
        )
        return result.reshape(self.compiled.forms[step.output][0])


def _scaled(sums: Array, rows: Array, columns: Array) -> Array:
    """Return sums times the scales of their rows and columns."""
    return np.asarray(sums.astype(np.float32) * rows * columns)
