# SPDX-License-Identifier: Apache-2.0
"""Running a network on arrays of any shape: by NumPy alone, or by the golden models of hardware.

Integers are those of ONNX Runtime either way.  With hardware, every product of matrices is that of
a core, in int8 with int32 sums; zero points, biases and the way back to narrow integers are the
host's, as is what no unit offers.  Where a unit has `softmax`, `layer_norm`, `add` or a gate in
single precision, it is computed there, within that unit's error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hwgen.errors import InputError
from hwgen.models.files.store import Model
from hwgen.models.graph.description import Description, Node
from hwgen.models.run.engine import last_uses
from hwgen.models.run.tensor_integers import INTEGERS, corrected, narrow
from hwgen.models.run.tensor_operations import HOST
from hwgen.models.run.units import REAL, Unit, Units

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.params.base import FamilyConfig

    Array = NDArray[Any]

GATED = ("gelu", "gelu_tanh", "sigmoid")
"""Functions of one number that a vector unit has as its gate."""

_EXACT = 1 << 53  # every integer up to it is a number in double precision


class Rows(NamedTuple):
    """Rows in int8, each with its scale.

    Parameters
    ----------
    values : ndarray of int8, shape (..., k)
    scales : ndarray of float32, shape (rows,)
    """

    values: NDArray[np.int8]
    scales: NDArray[np.float32]


def quantised_rows(x: Array) -> Rows:
    """Return rows divided by their largest magnitude over 127, rounded to int8."""
    rows = np.ascontiguousarray(x, np.float32).reshape(-1, x.shape[-1])
    scales = np.abs(rows).max(1) * np.float32(1 / 127)
    divided = rows / np.where(scales == 0, np.float32(1), scales)[:, None]
    return Rows(np.clip(np.rint(divided), -127, 127).astype(np.int8).reshape(x.shape), scales)


def fitted(
    forms: Mapping[str, tuple[tuple[int, ...], str]], inputs: Mapping[str, Array]
) -> dict[str, Array]:
    """Return the inputs of a network in their types.

    Parameters
    ----------
    forms : mapping
        Shape and type of each.
    inputs : mapping of ndarray

    Raises
    ------
    InputError
        If one is missing, unknown, of another shape, or its type cannot hold the elements.
    """
    for name in inputs:
        if name not in forms:
            raise InputError(f"there is no input {name!r:.80}; there is {', '.join(forms)}")
    result = {}
    for name, (shape, kind) in forms.items():
        if name not in inputs:
            raise InputError(f"the input {name!r:.80} is missing; give --input {name}=FILE.npy")
        array, dtype = inputs[name], np.dtype(kind)
        if array.shape != shape:
            raise InputError(f"input {name!r:.80} must be of shape {shape}, not {array.shape}")
        taken = array.astype(dtype)
        if dtype.kind == "f" and array.dtype.kind not in "fiub":
            raise InputError(f"input {name!r:.80} must be numbers, not {array.dtype}")
        if dtype.kind != "f" and not np.array_equal(taken, array):
            raise InputError(f"input {name!r:.80} must be {dtype}, which not all elements are")
        result[name] = taken
    return result


class TensorEngine:
    """Operations of a network that is no decoder.

    Parameters
    ----------
    model : Model
    units : Units, optional
        The hardware; without, everything is NumPy's.

    Raises
    ------
    InputError
        If the model is a decoder, or the hardware does not have what it needs.
    """

    def __init__(self, model: Model, units: Units | None = None) -> None:
        self.model = model
        self.units = units
        self.description: Description = model.description
        if self.description.decodes:
            raise InputError(f"{self.description.name} is a decoder: give it a prompt, not --input")
        self._cached: dict[str, Any] = {}
        self._row_units: dict[str, Unit | None] = {}
        self.cores: dict[str, FamilyConfig] = {}
        if units is not None:
            for node in self.description.nodes:
                self._check(node, units)

    # -- what there is ---------------------------------------------------------------------

    def _check(self, node: Node, units: Units) -> None:
        """Find the hardware of a node, or refuse it."""
        if node.operation in ("gemm", "matmul"):
            self._check_floats(node)
            units.find("quantise", x=REAL, result="int8")
            units.find("dequantise_rows", x="int32", result=REAL)
        low, high = -128, 127
        if node.operation in ("gemm", "integer_gemm"):
            weights = self._int8(node)
            low, high = min(int(weights.min()), -1), max(int(weights.max()), 1)
            self.cores[node.name] = units.core(low, high, weights.shape[1])
        elif node.operation in ("matmul", "integer_matmul"):
            self.cores[node.name] = units.core(low, high, self._shape(node.inputs["x"])[-1])

    def _check_floats(self, node: Node) -> None:
        """Refuse a product of floats."""
        if node.operation == "matmul":
            floats = node.attributes.get("bits", 0) != 8
        else:
            tensor = self.description.tensors.get(node.inputs["weights"])
            floats = tensor is None or tensor.scales is None
        if floats:
            raise InputError(
                f"{node.name}: multiplies floats; run `hwgen model quantise` first, or export the"
                " network quantised"
            )

    def _shape(self, name: str) -> tuple[int, ...]:
        if name in self.description.tensors:
            return self.description.tensors[name].shape
        return tuple(int(n) for n in self.description.arrays[name])

    def _int8(self, node: Node) -> NDArray[np.int8]:
        """Return the weights of a node in int8, as the core takes them."""
        values = self.model.part(self.description.tensors[node.inputs["weights"]].values)
        return narrow(values, None)[0]

    def operations(self, layers: Collection[int] | None = None) -> int:
        """Return the number of hardware operations of a run.

        Parameters
        ----------
        layers : collection of int, optional
            Those that count, all by default.
        """
        count = 0
        for node in self.description.nodes:
            if layers is not None and node.layer not in layers:
                continue
            rows = 3 if node.operation == "matmul" else 1 if node.operation == "gemm" else 0
            if node.name in self.cores:
                groups = int(node.attributes.get("groups", 1))  # type: ignore[arg-type]
                count += (
                    groups + rows if "gemm" in node.operation else self._batch(node) * (1 + rows)
                )
            elif node.operation == "quantise" or self._by_unit(node):
                count += 1
        return count

    def _batch(self, node: Node) -> int:
        """Return the number of matrix products of a node."""
        return int(np.prod(self._shape(node.output)[:-2], dtype=int))

    def _by_unit(self, node: Node) -> bool:
        """Return whether a unit has an operation on rows."""
        shapes = [self._shape(name) for name in node.inputs.values()]
        name, gate = node.operation, str(node.attributes.get("function", ""))
        if name == "unary" and gate in GATED:
            return self._row_unit("gated", shapes[0][-1], gate) is not None
        if name == "softmax" and node.attributes["axis"] not in (-1, len(shapes[0]) - 1):
            return False
        offered = name in ("softmax", "layer_norm") or (name == "add" and shapes[0] == shapes[1])
        return offered and bool(shapes[0]) and self._row_unit(name, shapes[0][-1]) is not None

    # -- a run -----------------------------------------------------------------------------

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs of the network by name.

        Parameters
        ----------
        inputs : mapping of ndarray
            All inputs by name, of their shapes; see `fitted`.

        Raises
        ------
        InputError
            If an input is missing or does not fit, or an operation cannot be done on it.
        """
        values: dict[str, Any] = self.fitted(inputs)
        uses = last_uses(self.description.nodes, self.description.outputs)
        for index, node in enumerate(self.description.nodes):
            operands = {key: self._operand(values, name) for key, name in node.inputs.items()}
            self.enter(node)
            try:
                with np.errstate(all="ignore"):  # infinities are results like others
                    values[node.output] = self._operate(node, operands)
            except (ValueError, IndexError, KeyError, TypeError, ArithmeticError) as error:
                raise InputError(f"{node.name}: {node.operation}: {error}") from None
            for name in uses[index]:
                values.pop(name, None)
        return {name: values[name] for name in self.description.outputs}

    def fitted(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return inputs in their types; see `fitted`."""
        types = self.description.types
        forms = {
            name: (self._shape(name), types.get(name, "float32"))
            for name in self.description.inputs
        }
        return fitted(forms, inputs)

    def enter(self, node: Node) -> None:
        """Take notice of the operation that is computed next."""

    def _operand(self, values: Mapping[str, Any], name: str) -> Any:
        if name in values:
            return values[name]
        tensor = self.description.tensors[name]
        if tensor.scales is not None:
            return name  # of a product, which takes integers and scales apart
        return self.model.part(tensor.values)

    def _operate(self, node: Node, operands: dict[str, Any]) -> Any:
        method = getattr(self, f"_{node.operation}", None)
        if method is not None:
            return method(node, **operands)
        function = HOST.get(node.operation) or INTEGERS.get(node.operation)
        if function is None:
            raise InputError(f"{node.name}: {node.operation} is not run by this engine")
        return function(node.attributes, **operands)

    # -- products --------------------------------------------------------------------------

    def multiply(self, node: Node, x: NDArray[np.int8], w: NDArray[np.int8]) -> NDArray[np.int32]:
        """Return the exact product of two matrices of int8, as a core gives it."""
        return (x.astype(np.float64) @ w.astype(np.float64)).astype(np.int64).astype(np.int32)

    def _integer_gemm(
        self,
        node: Node,
        x: Array,
        weights: Array,
        bias: Array | None = None,
        x_zero: Array | None = None,
        weights_zero: Array | None = None,
    ) -> Array:
        rows, zero = narrow(np.ascontiguousarray(x).reshape(-1, x.shape[-1]), x_zero)
        columns, other = narrow(weights, weights_zero)
        parts = self._groups(node, rows, columns, zero.reshape(()), other)
        result = np.concatenate(parts, 1) if len(parts) > 1 else parts[0]
        if bias is not None:
            result = result + bias
        return result.reshape(*x.shape[:-1], len(weights))

    def _groups(
        self, node: Node, rows: Array, weights: Array, zero: Array, other: Array
    ) -> list[Array]:
        """Return the sums of each group of columns."""
        count = int(node.attributes.get("groups", 1))  # type: ignore[arg-type]
        n, k = len(weights) // count, weights.shape[1]
        result = []
        for index in range(count):
            x = np.ascontiguousarray(rows[:, index * k : (index + 1) * k])
            w = np.ascontiguousarray(weights[index * n : (index + 1) * n].T)
            mine = other[index * n : (index + 1) * n] if other.size > 1 else other.reshape(())
            result.append(corrected(self.multiply(node, x, w), x, w, zero, mine))
        return result

    def _integer_matmul(
        self,
        node: Node,
        x: Array,
        y: Array,
        x_zero: Array | None = None,
        y_zero: Array | None = None,
    ) -> Array:
        left, zero = narrow(x, x_zero)
        right, other = narrow(y, y_zero)
        lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        result = np.empty((*lead, x.shape[-2], y.shape[-1]), np.int32)
        lefts = np.broadcast_to(left, (*lead, *x.shape[-2:]))
        rights = np.broadcast_to(right, (*lead, *y.shape[-2:]))
        for place in np.ndindex(lead):
            a, w = (np.ascontiguousarray(array[place]) for array in (lefts, rights))
            sums = self.multiply(node, a, w)
            result[place] = corrected(sums, a, w, zero.reshape(()), other.reshape(()))
        return result

    # -- products of floats ----------------------------------------------------------------

    def _quantise(self, node: Node, x: Array) -> Rows:
        if node.attributes["bits"] != 8:
            raise InputError(f"{node.name}: activations must have 8 bits, to run as integers")
        return self._as_rows(x)

    def _as_rows(self, x: Array) -> Rows:
        if self.units is None:
            return quantised_rows(x)
        unit = self.units.find("quantise", x=REAL, result="int8")
        result = unit({"x": np.ascontiguousarray(x, np.float32).reshape(-1, x.shape[-1])})
        return Rows(result["result"].reshape(x.shape), result["scales"])

    def _back(self, sums: NDArray[np.int32], rows: Array, columns: Array) -> Array:
        """Return sums times the scales of their rows and columns."""
        if self.units is None:
            return np.asarray(sums.astype(np.float32) * rows[:, None] * columns)
        unit = self.units.find("dequantise_rows", x="int32", result=REAL)
        operands = {"x": sums, "row_scales": rows, "scales": columns}
        return np.asarray(unit(operands, scale=1.0)["result"], np.float32)

    def _gemm(self, node: Node, x: Any, weights: Any, bias: Array | None = None) -> Array:
        if not isinstance(x, Rows):
            result = self._float_gemm(node, x, self.model.numbers(node.inputs["weights"]))
        else:
            groups = self.model.groups(node.inputs["weights"])
            assert groups is not None
            rows = x.values.reshape(-1, x.values.shape[-1])
            none = np.zeros((), np.int64)
            parts = self._groups(node, rows, groups.values, none, none)
            sums = np.concatenate(parts, 1) if len(parts) > 1 else parts[0]
            columns = np.ascontiguousarray(groups.scales[:, 0])
            result = self._back(sums, x.scales, columns).reshape(*x.values.shape[:-1], -1)
        return result if bias is None else result + bias

    def _float_gemm(self, node: Node, x: Array, weights: Array) -> Array:
        count = int(node.attributes.get("groups", 1))  # type: ignore[arg-type]
        if count == 1:
            return np.asarray(x @ weights.T)
        n, k = len(weights) // count, weights.shape[1]
        parts = [x[..., i * k : (i + 1) * k] @ weights[i * n : (i + 1) * n].T for i in range(count)]
        return np.concatenate(parts, -1)

    def _matmul(self, node: Node, x: Array, y: Array) -> Array:
        if not node.attributes.get("bits", 0):
            return np.asarray(np.matmul(x, y))
        lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        result = np.empty((*lead, x.shape[-2], y.shape[-1]), np.float32)
        lefts = np.broadcast_to(x, (*lead, *x.shape[-2:]))
        rights = np.broadcast_to(y, (*lead, *y.shape[-2:]))
        for place in np.ndindex(lead):
            left = self._as_rows(lefts[place])
            right = self._as_rows(rights[place].T)
            sums = self.multiply(node, left.values, np.ascontiguousarray(right.values.T))
            result[place] = self._back(sums, left.scales, right.scales)
        return result

    # -- rows ------------------------------------------------------------------------------

    def _row_unit(self, name: str, length: int, gate: str = "") -> Unit | None:
        """Return the unit of an operation on rows in single precision, None if there is none."""
        if self.units is None:
            return None
        key = f"{name} {gate} {length}"
        if key not in self._row_units:
            self._row_units[key] = self.units.rows(name, length, gate)
        return self._row_units[key]

    def _rows(self, name: str, operands: dict[str, Any], gate: str = "", **scalars: float) -> Any:
        """Return an operation on rows by its unit, None if there is none."""
        x = operands["x"]
        unit = self._row_unit(name, x.shape[-1], gate) if x.ndim and x.dtype == np.float32 else None
        if unit is None:
            return None
        rows = {
            key: np.ascontiguousarray(array).reshape(-1, x.shape[-1]) if array.shape == x.shape
            else np.ascontiguousarray(array) for key, array in operands.items()
        }  # fmt: skip
        return np.asarray(unit(rows, **scalars)["result"], np.float32).reshape(x.shape)

    def _softmax(self, node: Node, x: Array) -> Array:
        axis = int(node.attributes["axis"])  # type: ignore[arg-type]
        result = self._rows("softmax", {"x": x}, scale=1.0) if axis in (-1, x.ndim - 1) else None
        return HOST["softmax"](node.attributes, x) if result is None else np.asarray(result)

    def _layer_norm(self, node: Node, x: Array, gamma: Array, beta: Array) -> Array:
        epsilon = float(node.attributes["epsilon"])  # type: ignore[arg-type]
        operands = {"x": x, "gamma": gamma, "beta": beta}
        result = self._rows("layer_norm", operands, epsilon=epsilon)
        return (
            HOST["layer_norm"](node.attributes, **operands)
            if result is None
            else np.asarray(result)
        )

    def _add(self, node: Node, x: Array, y: Array) -> Array:
        result = self._rows("add", {"x": x, "y": y}, scale=1.0) if x.shape == y.shape else None
        return HOST["add"](node.attributes, x, y) if result is None else np.asarray(result)

    def _unary(self, node: Node, x: Array) -> Array:
        name = str(node.attributes["function"])
        if name in GATED and self.units is not None:
            result = self._rows("gated", {"x": x, "y": np.ones_like(x)}, name, scale=1.0)
            if result is not None:
                return np.asarray(result)
        return HOST["unary"](node.attributes, x)
