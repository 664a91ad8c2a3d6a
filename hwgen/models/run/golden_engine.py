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

from hwgen.core import registry
from hwgen.errors import InputError
from hwgen.families.attention.operands import packed_powers, query_scales, score_units
from hwgen.models.files.store import Model
from hwgen.models.graph.description import Node, real, score_scale, sizes_of
from hwgen.models.graph.hadamard import ROTATED_OPERANDS
from hwgen.models.run import host_arithmetic
from hwgen.models.run.block_rows import (
    BLOCK,
    BLOCK_ROWS,
    KEY_FORMATS,
    block_operand,
    key_format,
    row_format,
)
from hwgen.models.run.engine import Cache, Engine
from hwgen.models.run.exact_products import ExactWeights
from hwgen.models.run.group_weights import records, tensor_scale
from hwgen.models.run.token_scales import FORMAT, TokenScales, core_of
from hwgen.models.run.units import REAL, Unit, Units

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.params.base import FamilyConfig
    from hwgen.models.files.gguf_blocks import Groups

    Reals = NDArray[np.float32]

_SCALE_MOST = (1 << 16) - 1  # of a scale of a key or value


class Rows(NamedTuple):
    """Rows in integers.

    Parameters
    ----------
    values : ndarray of int8 or of records of a block format, shape (rows, k)
    scales : ndarray of float32, shape (rows,), or None
        None of blocks, which have their own.
    """

    values: NDArray[Any]
    scales: Reals | None


def _block(node: Node, name: str) -> int:
    """Return the elements of blocks in which an operand of attention is turned."""
    return int(real(node, "hadamard")) if name in ROTATED_OPERANDS else 0


def block_query_scale(node: Node, core: Any) -> int:
    """Return the scale of all queries of an attention to keys in blocks."""
    return int(query_scales(np.array([score_scale(node) * score_units(core)]))[0])


class GoldenEngine(Engine):
    """Operations as hardware units compute them, bit for bit.

    Parameters
    ----------
    model : Model
        Quantised: int8 activations, weights with a scale for each output channel, or in groups.
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
        self._scale = units.offers("dequantise", x=REAL, result=FORMAT)
        self._token_scales: TokenScales | None = None
        self._check()

    def _check(self) -> None:
        """Refuse a model whose operations the units do not have."""
        description = self.model.description
        for node in description.nodes:
            if node.operation == "gemm":
                self._check_product(node)
            elif node.operation == "quantise":
                if node.attributes.get("format"):
                    self.units.quantise_block()
                else:
                    self.units.quantise(int(real(node, "hadamard")), row_format(node))
            elif node.operation == "attention":
                if blocks := key_format(node):
                    element = KEY_FORMATS[blocks].name
                    self.units.quantise_block(element)
                    unit = self.units.attention(sizes_of(node)[2], element)
                    self.units.find("dequantise", x=REAL, result=unit.format_of("query"))
                else:
                    for name in ("query", "value"):
                        self.units.quantise(_block(node, name))
                    unit = self.units.attention(sizes_of(node)[2])
                    if node.attributes.get("bits", 0) != 8:
                        raise InputError(
                            f"{node.name}: keys and values are not in int8; run"
                            " `hwgen model quantise`"
                        )
                if real(node, "cap"):
                    raise InputError(
                        f"{node.name}: attention units have no soft cap of scores"
                        f" ({real(node, 'cap'):g}); compile the model for an engine that multiplies"
                        " matrices in memory, whose host computes attention"
                    )
                self.units.find("dequantise", x=unit.format_of("output"), result=REAL)
            elif node.operation in ("rms_norm", "layer_norm", "rope", "gated", "add"):
                unit = self.units.find(node.operation, x=REAL, result=REAL)
                gate = getattr(core_of(unit.config), "array", None)
                if (
                    node.operation == "gated"
                    and getattr(gate, "gate", "") != node.attributes["gate"]
                ):
                    raise InputError(
                        f"{node.name}: its gate is {node.attributes['gate']}, that of"
                        f" {unit.config.name} is {getattr(gate, 'gate', '')}; take one with"
                        f" gate: {node.attributes['gate']} in its array"
                    )

    def _check_product(self, node: Node) -> None:
        makers = {n.output: n for n in self.model.description.nodes}
        maker = makers.get(node.inputs["x"])
        if maker is None or maker.operation != "quantise" or maker.attributes["bits"] not in (4, 8):
            raise InputError(
                f"{node.name}: its rows are not in int8 or int4; run `hwgen model quantise` first"
            )
        name = node.inputs["weights"]
        groups = self.model.groups(name)
        if groups is None:
            raise InputError(
                f"{node.name}: its weights are no integers; run `hwgen model quantise` first"
            )
        try:
            self.cores[name] = self._core(groups, row_format(maker))
        except InputError as error:
            raise InputError(f"{node.name}: {error}") from None
        if self.scales_rows(name):
            self._back_unit(name)

    def scales_rows(self, name: str) -> bool:
        """Return whether sums of products by some weights have yet to be scaled, row by row."""
        return not self.cores[name].activation.is_block

    def _core(self, groups: Groups, activation: str) -> FamilyConfig:
        """Return the core that multiplies by weights; a scale a row may be that of blocks, too."""
        grouped = groups.scales.shape[1] > 1 or groups.offsets is not None
        if grouped or activation == BLOCK_ROWS:
            return self.units.block_core(groups, activation)
        low, high = int(groups.values.min()), int(groups.values.max())
        try:
            return self.units.core(min(low, -1), max(high, 1), groups.values.shape[1], activation)
        except InputError as error:
            try:
                return self.units.block_core(groups, activation)
            except InputError:
                raise error from None

    def operations(self, rows: int, layers: Collection[int] | None = None) -> int:
        """Return the number of hardware operations of a pass over tokens.

        Parameters
        ----------
        rows : int
            Tokens of the pass; of the last operation one row is computed.
        layers : collection of int, optional
            Those that count, all and what is outside of layers by default.
        """
        logits = self.model.description.logits
        count = 0
        for node in self.model.description.nodes:
            if layers is not None and node.layer not in layers:
                continue
            if node.operation == "gemm":
                name, back = node.inputs["weights"], 0
                if self.scales_rows(name):
                    by_rows = self._back_unit(name).operation.common_name == "dequantise_rows"
                    back = 1 if by_rows or node.output in logits else rows
                count += 1 + back + ("bias" in node.inputs)
            elif node.operation == "attention":
                count += 5  # queries, keys, values as integers, attention, its results as numbers
                count += 3 * (self._scale is not None and not key_format(node))
            elif node.operation not in ("embed", "soft_cap"):
                count += 1
        return count

    # -- products --------------------------------------------------------------------------

    def quantise(self, node: Node, x: Reals) -> Rows:
        """Return rows in integers, with their scales; of rows in blocks these are among them."""
        if node.attributes.get("format"):
            blocks = self.units.quantise_block()({"x": x.reshape(-1, BLOCK)})
            return Rows(block_operand(blocks["result"], blocks["scales"], len(x)), None)
        unit = self.units.quantise(int(real(node, "hadamard")), row_format(node))
        result = unit({"x": x})
        return Rows(result["result"], result["scales"])

    def last(self, x: Any) -> Any:
        """Return the last row of an array."""
        if isinstance(x, Rows):
            return Rows(x.values[-1:], None if x.scales is None else x.scales[-1:])
        return x[-1:]

    def gemm(self, node: Node, x: Any) -> Reals:
        """Return rows times weights, in single precision."""
        name = node.inputs["weights"]
        total = self._product(x.values, name)
        result = total if x.scales is None else self._back(name, total, x.scales)
        if "bias" in node.inputs:
            bias = np.broadcast_to(self.weights(node.inputs["bias"]), result.shape)
            result = self.add(node, result, np.ascontiguousarray(bias))
        return result

    def _back_unit(self, name: str) -> Unit:
        """Return the unit that turns sums of products by some weights into numbers."""
        result = str(self.cores[name].result)
        return self.units.first(("dequantise_rows", "dequantise"), x=result, result=REAL)

    def _back(self, name: str, total: NDArray[Any], rows: Reals) -> Reals:
        """Return sums in single precision, times the scales of their rows and columns."""
        unit, columns = self._back_unit(name), self.column_scales(name)
        if unit.operation.common_name == "dequantise_rows":
            operands = {"x": total, "row_scales": rows, "scales": columns}
            return np.asarray(unit(operands, scale=1.0)["result"], np.float32)
        parts = [
            unit({"x": sums[None], "scales": columns}, scale=float(scale))["result"]
            for sums, scale in zip(total, rows, strict=True)
        ]
        return np.concatenate(parts).astype(np.float32)

    def _groups(self, name: str) -> Groups:
        result = self.model.groups(name)
        assert result is not None
        return result

    def _blocks(self, name: str) -> bool:
        """Return whether a core takes weights with their scales."""
        return self.cores[name].weight.is_block

    def column_scales(self, name: str) -> Reals:
        """Return the scales of the output channels of weights, which sums are multiplied by."""
        key = f"{name}.scales"
        if key not in self._cached:
            groups = self._groups(name)
            result = np.ascontiguousarray(groups.scales[:, 0])
            if self._blocks(name):
                weight: Any = self.cores[name].weight
                result = np.full_like(result, tensor_scale(weight, groups))
            self._cached[key] = result
        kept: Reals = self._cached[key]
        return kept

    def matrix(self, name: str) -> NDArray[Any]:
        """Return weights as their core takes them, shape (k, n)."""
        groups = self._groups(name)
        weight: Any = self.cores[name].weight
        if self._blocks(name):
            return records(weight, groups)
        return np.ascontiguousarray(groups.values.T)

    def _product(self, x: NDArray[Any], name: str) -> NDArray[Any]:
        """Return exact sums; of blocks with scales those that a core makes of them."""
        key = f"{name}.values"
        if self._blocks(name):
            core = self.cores[name]
            if key not in self._cached:
                self._cached[key] = self.matrix(name)
            return registry.core_of(core).multiply(x, self._cached[key])
        if key not in self._cached:
            self._cached[key] = ExactWeights(self._groups(name).values)
        result: NDArray[np.int32] = self._cached[key].product(x)
        return result

    # -- rows ------------------------------------------------------------------------------

    def _rows(self, name: str, operands: dict[str, Any], **scalars: float) -> Reals:
        unit = self.units.find(name, x=REAL, result=REAL)
        return np.asarray(unit(operands, **scalars)["result"], np.float32)

    def rms_norm(self, node: Node, x: Reals) -> Reals:
        """Return rows, or heads, divided by the root of their mean square, times gamma."""
        gamma = self._parameter(node.inputs["gamma"], "rms_norm", "gamma")
        operands = {"x": x.reshape(-1, len(gamma)), "gamma": gamma}
        return self._rows("rms_norm", operands, epsilon=real(node, "epsilon")).reshape(x.shape)

    def layer_norm(self, node: Node, x: Reals) -> Reals:
        """Return rows of mean 0 and variance 1, times gamma, plus beta."""
        parameters = {
            name: self._parameter(node.inputs[name], "layer_norm", name)
            for name in ("gamma", "beta")
        }
        return self._rows("layer_norm", {"x": x, **parameters}, epsilon=real(node, "epsilon"))

    def _parameter(self, name: str, operation: str, operand: str) -> Reals:
        """Return weights in the format in which a unit takes them."""
        key = f"{name}.{operand}"
        if key not in self._cached:
            unit = self.units.find(operation, x=REAL, result=REAL)
            fmt: Any = next(t.format for t in unit.operation.operands if t.name == operand)
            bits = fmt.encode(self.model.numbers(name))
            self._cached[key] = fmt.decode(bits)
        result: Reals = self._cached[key]
        return result

    def rope(self, node: Node, x: Reals, positions: NDArray[Any]) -> Reals:
        """Return rows with pairs of neighbours turned: a row for each head."""
        turns = self.rope_angles(node, positions)
        heads = x.reshape(-1, turns.shape[1])
        repeated = np.repeat(turns, len(heads) // len(turns), axis=0)
        return self._rows("rope", {"x": heads, "turns": repeated}).reshape(x.shape)

    def gated(self, node: Node, x: Reals, y: Reals) -> Reals:
        """Return gate(x) times y."""
        return self._rows("gated", {"x": x, "y": y}, scale=1.0)

    def add(self, node: Node, x: Reals, y: Reals) -> Reals:
        """Return x times scale, plus y."""
        return self._rows("add", {"x": x, "y": y}, scale=real(node, "scale", 1.0))

    def soft_cap(self, node: Node, x: Reals) -> Reals:
        """Return cap * tanh(x / cap), by the host."""
        return host_arithmetic.soft_cap(x, real(node, "cap"))

    # -- attention -------------------------------------------------------------------------

    def attention(self, node: Node, cache: Cache, query: Reals, key: Reals, value: Reals) -> Reals:
        """Return attention of rows behind what is in a cache, which takes their keys and values.

        Where no unit makes scales of tokens, the host does, in double precision: those of keys and
        values are rounded to units of `key_unit` and `value_unit` over 65535; those of queries,
        times the key's unit and what a scaled score counts, to a mantissa and a shift.
        """
        if key_format(node):
            return self._attention_in_blocks(node, cache, query, key, value)
        _, kv_heads, elements = sizes_of(node)
        rows = len(query)
        unit = self.units.attention(elements)
        core: Any = core_of(unit.config)
        integers = {
            name: self.units.quantise(_block(node, name))({"x": array.reshape(-1, elements)})
            for name, array in (("query", query), ("key", key), ("value", value))
        }
        scales = {name: part["scales"] for name, part in integers.items()}
        if self._scale is None:
            scales, stands_for = self._scales_by_host(node, core, scales)
        else:
            scales, stands_for = self._scales_by_unit(node, core, scales, self._scale)
        stored: dict[str, NDArray[Any]] = {}
        for name in ("key", "value"):
            stored[name] = integers[name]["result"].reshape(rows, kv_heads, elements)
            stored[f"{name}_scale"] = scales[name].astype(np.uint16).reshape(rows, -1)
        query_int, query_scale = integers["query"]["result"], scales["query"]
        return self._attend(node, cache, unit, (query_int, query_scale), stored, stands_for)

    def _attention_in_blocks(
        self, node: Node, cache: Cache, query: Reals, key: Reals, value: Reals
    ) -> Reals:
        """Return attention whose keys and values are in blocks with powers of two.

        Queries are floating point of the unit's format; their scales are the same for all.
        """
        _, kv_heads, elements = sizes_of(node)
        element = KEY_FORMATS[key_format(node)].name
        unit = self.units.attention(elements, element)
        core: Any = core_of(unit.config)
        to_query = self.units.find("dequantise", x=REAL, result=unit.format_of("query"))
        ones = np.ones(elements, np.float32)
        queries = to_query({"x": query.reshape(-1, elements), "scales": ones}, scale=1.0)["result"]
        stored: dict[str, NDArray[Any]] = {}
        for name, array in (("key", key), ("value", value)):
            blocks = self.units.quantise_block(element)({"x": array.reshape(-1, BLOCK)})
            stored[name] = blocks["result"].reshape(len(query), kv_heads, elements)
            powers = blocks["scales"].reshape(len(query), kv_heads, -1)
            stored[f"{name}_scale"] = packed_powers(core, powers)
        scales = np.full(len(queries), block_query_scale(node, core), np.int64)
        return self._attend(node, cache, unit, (queries, scales), stored, np.float32(1))

    def _attend(
        self,
        node: Node,
        cache: Cache,
        unit: Unit,
        queries: tuple[NDArray[Any], NDArray[Any]],
        stored: dict[str, NDArray[Any]],
        stands_for: np.float32,
    ) -> Reals:
        """Return attention of queries, with their scales, to a cache that takes more keys."""
        _, kv_heads, elements = sizes_of(node)
        rows, before = len(stored["key"]), cache.length
        cache.append(**stored)
        query, query_scale = queries
        operands = {
            "query": query.reshape(rows, kv_heads, -1, elements).transpose(1, 2, 0, 3),
            "query_scale": query_scale.reshape(rows, kv_heads, -1).transpose(1, 2, 0),
            **{name: np.moveaxis(cache.rows(name), 0, 1) for name in stored},
        }
        window = real(node, "window")
        output = unit(operands, causal=1, offset=before, window=window)["output"]
        by_row = output.transpose(2, 0, 1, 3).reshape(rows, -1)
        back = self.units.find("dequantise", x=unit.format_of("output"), result=REAL)
        ones = np.ones(by_row.shape[1], np.float32)
        result = back({"x": by_row, "scales": ones}, scale=float(stands_for))["result"]
        return np.asarray(result, np.float32)

    def _scales_by_host(
        self, node: Node, core: Any, scales: dict[str, Reals]
    ) -> tuple[dict[str, NDArray[Any]], np.float32]:
        """Return scales of tokens in units of the hardware, and what a unit of results is."""
        result: dict[str, NDArray[Any]] = {}
        for name in ("key", "value"):
            wide = scales[name].astype(np.float64) / real(node, f"{name}_unit")
            result[name] = np.minimum(np.rint(wide * _SCALE_MOST), _SCALE_MOST)
        one = real(node, "key_unit") / _SCALE_MOST * score_scale(node)
        one *= math.log2(math.e) * 2.0**core.softmax.fraction_bits
        by_token = scales["query"].astype(np.float64)
        result["query"] = query_scales(np.maximum(by_token, 1e-30) * one)
        unit = real(node, "value_unit") * (_SCALE_MOST + 1) / _SCALE_MOST * 2.0**-core.fraction
        return result, np.float32(unit)

    def _scales_by_unit(
        self, node: Node, core: Any, scales: dict[str, Reals], unit: Unit
    ) -> tuple[dict[str, NDArray[Any]], np.float32]:
        """Return the same as a unit computes it; see `hwgen.models.run.token_scales`."""
        if self._token_scales is None:
            self._token_scales = TokenScales(self.model.description.nodes, core)
        factors = self._token_scales
        result: dict[str, NDArray[Any]] = {}
        for name, numbers in scales.items():
            operands = {"x": numbers[:, None], "scales": np.array([factors.factor(node, name)])}
            result[name] = unit(operands, scale=1.0)["result"].reshape(-1)
        result["query"] = result["query"].astype(np.int64) | factors.word
        return result, factors.result(node)
