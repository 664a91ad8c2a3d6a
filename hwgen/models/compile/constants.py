# SPDX-License-Identifier: Apache-2.0
"""Initial contents of the memory of a decoder's list: weights, scales and tables, packed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.errors import InputError
from hwgen.families.gemm_stream.schedule import plan_of
from hwgen.models.compile.list_builder import parameter_rows
from hwgen.models.graph.description import Node, real, sizes_of
from hwgen.models.graph.layered import Layered, rope_table
from hwgen.models.run.block_rows import key_format
from hwgen.models.run.golden_engine import GoldenEngine
from hwgen.models.run.token_scales import TokenScales

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.models.compile.list_builder import ListEngine, Offer

NOTHING = np.uint32(0x80000000)
"""Minus zero: what is added to a number to leave it as it is."""


def sums_unit(result: str) -> str:
    """Return the purpose of the unit that takes sums of a format to single precision."""
    return f"sums_{result}"


class Constants:
    """Contents of arrays, by the operation that takes them.

    Parameters
    ----------
    config : ListEngine
    engine : GoldenEngine
        Of the network, with the engine's units.
    decoder : Layered
    scales : TokenScales or None
        None if keys and values are in blocks.
    units : mapping of Offer
        Offers of units by their purpose; see `hwgen.models.compile.decoder_list`.
    """

    def __init__(
        self,
        config: ListEngine,
        engine: GoldenEngine,
        decoder: Layered,
        scales: TokenScales | None,
        units: dict[str, Offer],
    ) -> None:
        self.config, self.engine, self.decoder = config, engine, decoder
        self.scales, self.units = scales, units

    def of(self, node: Node) -> dict[str, NDArray[Any]]:
        """Return the arrays of an operation's own, by the rest of their names."""
        model = self.engine.model
        if node.operation in ("rms_norm", "layer_norm"):
            gamma, *beta = (
                model.numbers(node.inputs[name])
                for name in ("gamma", "beta")
                if name in node.inputs
            )
            return {"gamma": self._parameters(node.operation, gamma, *beta)}
        if node.operation == "gemm":
            return {"weights": self._packed(node), **self._scales_and_bias(node)}
        if node.operation == "attention" and key_format(node):
            ones = np.ones(sizes_of(node)[2], np.float32)
            return {
                f"{name}_factor": self._parameters(purpose, ones)
                for name, purpose in (("query", "queries"), ("result", "results"))
            }
        if node.operation == "attention":
            assert self.scales is not None
            factors: dict[str, NDArray[Any]] = {
                f"{name}_factor": self._parameters(
                    "scales", np.array([self.scales.factor(node, name)])
                )
                for name in ("query", "key", "value")
            }
            results = np.full(sizes_of(node)[2], self.scales.result(node))
            return {**factors, "result_factor": self._parameters("results", results)}
        return {}

    def sizes(self, node: Node) -> dict[str, int]:
        """Return the bytes of the arrays of an operation's own; see `of`.

        Weights are not packed for it, which takes long of large models.
        """
        if node.operation != "gemm":
            return {key: array.nbytes for key, array in self.of(node).items()}
        weights = node.inputs["weights"]
        rows, length = self.engine.model.description.tensors[weights].shape
        plan = plan_of(self.config.units[self.engine.cores[weights].name], 1, length, rows)
        result = {"weights": plan.weight_image_rows * plan.weight_row_bytes}
        return result | {key: array.nbytes for key, array in self._scales_and_bias(node).items()}

    def _scales_and_bias(self, node: Node) -> dict[str, NDArray[Any]]:
        """Return the arrays of a product beside its weights."""
        result, name = {}, node.inputs["weights"]
        if self.engine.scales_rows(name):
            unit = sums_unit(str(self.engine.cores[name].result))
            result["scales"] = self._parameters(unit, self.engine.column_scales(name))
        if "bias" in node.inputs:
            result["bias"] = self.engine.model.numbers(node.inputs["bias"])
        return result

    def shared(self, context: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of all layers together, by name."""
        embed = self.decoder.embed
        table = self.engine.model.numbers(embed.inputs["table"])
        table = table * np.float32(real(embed, "scale", 1.0))
        result: dict[str, NDArray[Any]] = {
            "embedding": table,
            "nothing": np.full(table.shape[1], NOTHING, np.uint32),
        }
        return result | self._rope_tables(context)

    def shared_sizes(self, context: int) -> dict[str, int]:
        """Return the bytes of the arrays of all layers together; see `shared`.

        Tables of tokens are not converted for it, which takes long of large ones.
        """
        rows, width = self.engine.model.description.tensors[
            self.decoder.embed.inputs["table"]
        ].shape
        result = {"embedding": 4 * rows * width, "nothing": 4 * width}
        return result | {name: table.nbytes for name, table in self._rope_tables(context).items()}

    def _rope_tables(self, context: int) -> dict[str, NDArray[Any]]:
        result: dict[str, NDArray[Any]] = {}
        for node in self.decoder.layers[0]:
            if node.operation == "rope":
                turns = self.engine.rope_angles(node, np.arange(context))
                result.setdefault(rope_table(node), self._parameters("rope", turns))
        return result

    def _packed(self, node: Node) -> NDArray[Any]:
        """Return weights as the unit that multiplies reads them."""
        name = node.inputs["weights"]
        unit = self.config.units[self.engine.cores[name].name]
        matrix = self.engine.matrix(name).astype(unit.weight.dtype, copy=False)
        packed: NDArray[Any] = plan_of(unit, 1, *matrix.shape).pack_weights(matrix)
        return packed

    def _parameters(self, purpose: str, *values: NDArray[Any]) -> NDArray[Any]:
        """Return numbers, and others that share their beats, as a unit takes them."""
        compute: Any = self.config.units[self.units[purpose].unit].compute
        fmt = compute.parameters
        if purpose in ("scales", "queries", "results") and fmt.name != "fp32":
            raise InputError(
                f"units.{self.units[purpose].unit}.compute.parameters: must be fp32, not {fmt}:"
                " scales of tokens go through it"
            )
        return parameter_rows(compute, *values)
