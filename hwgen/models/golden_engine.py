# SPDX-License-Identifier: Apache-2.0
"""A quantised decoder by the golden models of hardware units: what the hardware computes.

Between products rows are in single precision. A row becomes int8 by ``quantise``, and its product
with int8 weights is turned back by ``dequantise_rows``, or by ``dequantise`` with the row's scale
as the job's scalar, a job for each row; the scales of output channels are parameters. Sums of
products are exact integers that no order changes. What the host computes is told by
`GoldenEngine.attention`: the scales of queries, keys and values in the units that attention takes
them in.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hwgen.errors import InputError
from hwgen.models.description import Node
from hwgen.models.engine import Cache, Engine, real, sizes_of
from hwgen.models.store import Model
from hwgen.models.units import REAL, Units
from hwgen.schedules.attention_operands import query_scales

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.config.model import FamilyConfig

    Reals = NDArray[np.float32]

_EXACT = 1 << 24  # every integer up to it is a number in single precision
_SCALE_MOST = (1 << 16) - 1  # of a scale of a key or value


class Rows(NamedTuple):
    """Rows in integers.

    Parameters
    ----------
    values : ndarray of int8, shape (rows, k)
    scales : ndarray of float32, shape (rows,)
    """

    values: NDArray[np.int8]
    scales: Reals


class GoldenEngine(Engine):
    """Operations as hardware units compute them, bit for bit.

    Parameters
    ----------
    model : Model
        Quantised: int8 activations, weights with a scale for each output channel.
    units : Units

    Attributes
    ----------
    cores : dict of FamilyConfig
        What multiplies by weights, by their name.

    Raises
    ------
    InputError
        If the model is not of that kind, or no unit has an operation that it needs.
    """

    def __init__(self, model: Model, units: Units) -> None:
        super().__init__(model)
        self.units = units
        self.cores: dict[str, FamilyConfig] = {}
        self._quantise = units.find("quantise", x=REAL, result="int8")
        self._dequantise = units.first(("dequantise_rows", "dequantise"), x="int32", result=REAL)
        self._check()

    def _check(self) -> None:
        """Refuse a model whose operations the units do not have."""
        description = self.model.description
        for node in description.nodes:
            if node.operation == "gemm":
                self._check_product(node)
            elif node.operation == "attention":
                if node.attributes.get("bits", 0) != 8:
                    raise InputError(
                        f"{node.name}: keys and values are not in int8; run `hwgen model quantise`"
                    )
                unit = self.units.attention(sizes_of(node)[2])
                self.units.find("dequantise", x=unit.format_of("output"), result=REAL)
            elif node.operation in ("rms_norm", "rope", "gated", "add"):
                unit = self.units.find(node.operation, x=REAL, result=REAL)
                gate = getattr(unit.config, "array", None)
                if (
                    node.operation == "gated"
                    and getattr(gate, "gate", "") != node.attributes["gate"]
                ):
                    raise InputError(
                        f"{node.name}: its gate is {node.attributes['gate']}, that of"
                        f" {unit.config.name} is {getattr(gate, 'gate', '')}"
                    )

    def _check_product(self, node: Node) -> None:
        tensor = self.model.description.tensors[node.inputs["weights"]]
        makers = {n.output: n for n in self.model.description.nodes}
        maker = makers.get(node.inputs["x"])
        if maker is None or maker.operation != "quantise" or maker.attributes["bits"] != 8:
            raise InputError(
                f"{node.name}: its rows are not in int8; run `hwgen model quantise` first"
            )
        if tensor.scales is None or tensor.scales.shape[1] != 1 or tensor.offsets is not None:
            raise InputError(
                f"{node.name}: its weights have no single scale for each output channel; quantise"
                " the model with --weights int8, or ternary, without --group"
            )
        values = self.model.part(tensor.values)
        low, high = int(values.min()), int(values.max())
        name = node.inputs["weights"]
        self.cores[name] = self.units.core(min(low, -1), max(high, 1), tensor.shape[1])

    def operations(self, rows: int, layers: Collection[int] | None = None) -> int:
        """Return how many operations of hardware a pass over tokens takes.

        Parameters
        ----------
        rows : int
            Tokens of the pass; of the last operation one row is computed.
        layers : collection of int, optional
            Those that count, all and what is outside of layers by default.
        """
        by_rows = self._dequantise.operation.name == "dequantise_rows"
        outputs = self.model.description.outputs
        count = 0
        for node in self.model.description.nodes:
            if layers is not None and node.layer not in layers:
                continue
            if node.operation == "gemm":
                back = 1 if by_rows or node.output in outputs else rows
                count += 1 + back + ("bias" in node.inputs)
            elif node.operation == "attention":
                count += 5  # queries, keys, values as integers, attention, its results as numbers
            elif node.operation != "embed":
                count += 1
        return count

    # -- products --------------------------------------------------------------------------

    def quantise(self, node: Node, x: Reals) -> Rows:
        """Return rows in integers, with their scales."""
        found = self._quantise({"x": x})
        return Rows(found["result"], found["scales"])

    def last(self, x: Any) -> Any:
        """Return the last row of an array."""
        return Rows(x.values[-1:], x.scales[-1:]) if isinstance(x, Rows) else x[-1:]

    def gemm(self, node: Node, x: Any) -> Reals:
        """Return rows times weights, in single precision."""
        name = node.inputs["weights"]
        total = self._product(x.values, name)
        found = self._back(total, x.scales, self._scales(name))
        if "bias" in node.inputs:
            bias = np.broadcast_to(self.weights(node.inputs["bias"]), found.shape)
            found = self.add(node, found, np.ascontiguousarray(bias))
        return found

    def _back(self, total: NDArray[np.int32], rows: Reals, columns: Reals) -> Reals:
        """Return sums in single precision, times the scales of their rows and columns."""
        if self._dequantise.operation.name == "dequantise_rows":
            operands = {"x": total, "row_scales": rows, "scales": columns}
            return np.asarray(self._dequantise(operands, scale=1.0)["result"], np.float32)
        parts = [
            self._dequantise({"x": sums[None], "scales": columns}, scale=float(scale))["result"]
            for sums, scale in zip(total, rows, strict=True)
        ]
        return np.concatenate(parts).astype(np.float32)

    def _scales(self, name: str) -> Reals:
        """Return the scales of the output channels of weights."""
        key = f"{name}.scales"
        if key not in self._kept:
            groups = self.model.groups(name)
            assert groups is not None
            self._kept[key] = np.ascontiguousarray(groups.scales[:, 0])
        found: Reals = self._kept[key]
        return found

    def _product(self, x: NDArray[np.int8], name: str) -> NDArray[np.int32]:
        """Return exact sums: in single precision, by parts whose sums it holds."""
        key = f"{name}.values"
        if key not in self._kept:
            groups = self.model.groups(name)
            assert groups is not None
            most = max(1, int(np.abs(groups.values.astype(np.int16)).max()))
            self._kept[key] = groups.values.astype(np.float32), (_EXACT - 1) // (128 * most)
        weights, length = self._kept[key]
        rows = x.astype(np.float32)
        total = np.zeros((len(x), len(weights)), np.int32)
        for start in range(0, x.shape[1], length):
            part = slice(start, start + length)
            if len(x) == 1:  # threads of a matrix product cost more than they save here
                sums = np.einsum("nk,k->n", weights[:, part], rows[0, part])[None]
            else:
                sums = rows[:, part] @ weights[:, part].T
            total += sums.astype(np.int32)
        return total

    # -- rows ------------------------------------------------------------------------------

    def _rows(self, name: str, operands: dict[str, Any], **scalars: float) -> Reals:
        unit = self.units.find(name, x=REAL, result=REAL)
        return np.asarray(unit(operands, **scalars)["result"], np.float32)

    def rms_norm(self, node: Node, x: Reals) -> Reals:
        """Return rows divided by the root of their mean square, times gamma."""
        gamma = self._parameter(node.inputs["gamma"], "rms_norm", "gamma")
        return self._rows("rms_norm", {"x": x, "gamma": gamma}, epsilon=real(node, "epsilon"))

    def _parameter(self, name: str, operation: str, operand: str) -> Reals:
        """Return weights in the format in which a unit takes them."""
        key = f"{name}.{operand}"
        if key not in self._kept:
            unit = self.units.find(operation, x=REAL, result=REAL)
            fmt: Any = next(t.format for t in unit.operation.operands if t.name == operand)
            bits = fmt.encode(self.model.numbers(name))
            self._kept[key] = fmt.decode(bits)
        found: Reals = self._kept[key]
        return found

    def rope(self, node: Node, x: Reals, positions: NDArray[Any]) -> Reals:
        """Return rows with pairs of neighbours turned: a row for each head."""
        turns = self.turns(node, positions)
        heads = x.reshape(-1, turns.shape[1])
        repeated = np.repeat(turns, len(heads) // len(turns), axis=0)
        return self._rows("rope", {"x": heads, "turns": repeated}).reshape(x.shape)

    def gated(self, node: Node, x: Reals, y: Reals) -> Reals:
        """Return gate(x) times y."""
        return self._rows("gated", {"x": x, "y": y}, scale=1.0)

    def add(self, node: Node, x: Reals, y: Reals) -> Reals:
        """Return x plus y."""
        return self._rows("add", {"x": x, "y": y}, scale=1.0)

    # -- attention -------------------------------------------------------------------------

    def attention(self, node: Node, cache: Cache, query: Reals, key: Reals, value: Reals) -> Reals:
        """Return attention of rows behind what is in a cache, which takes their keys and values.

        Scales of keys and values are rounded to units of `key_unit` and `value_unit` over 65535;
        those of queries, times the key's unit and what a scaled score counts, to a mantissa and a
        shift.  Both are done in double precision by the host.
        """
        _, kv_heads, elements = sizes_of(node)
        rows, before = len(query), cache.length
        unit = self.units.attention(elements)
        key_unit, value_unit = real(node, "key_unit"), real(node, "value_unit")
        queries = self._quantise({"x": query.reshape(-1, elements)})
        held: dict[str, NDArray[Any]] = {}
        for name, array, largest in (("key", key, key_unit), ("value", value, value_unit)):
            found = self._quantise({"x": array.reshape(-1, elements)})
            scale = np.rint(found["scales"].astype(np.float64) / largest * _SCALE_MOST)
            held[name] = found["result"].reshape(rows, kv_heads, elements)
            held[f"{name}_scale"] = (
                np.minimum(scale, _SCALE_MOST).astype(np.uint16).reshape(rows, -1)
            )
        cache.append(**held)
        config: Any = unit.config
        one = key_unit / _SCALE_MOST / math.sqrt(elements) * math.log2(math.e)
        one *= 2.0**config.softmax.fraction_bits
        by_token = queries["scales"].astype(np.float64).reshape(rows, kv_heads, -1)
        scales = query_scales(np.maximum(by_token, 1e-30) * one)
        operands = {
            "query": queries["result"].reshape(rows, kv_heads, -1, elements).transpose(1, 2, 0, 3),
            "query_scale": scales.transpose(1, 2, 0),
            **{name: np.moveaxis(cache.held(name), 0, 1) for name in held},
        }
        window = real(node, "window")
        output = unit(operands, causal=1, offset=before, window=window)["output"]
        by_row = output.transpose(2, 0, 1, 3).reshape(rows, -1)
        back = self.units.find("dequantise", x=unit.format_of("output"), result=REAL)
        stands_for = value_unit * (_SCALE_MOST + 1) / _SCALE_MOST * 2.0**-config.fraction
        ones = np.ones(by_row.shape[1], np.float32)
        result = back({"x": by_row, "scales": ones}, scale=float(np.float32(stands_for)))["result"]
        return np.asarray(result, np.float32)
