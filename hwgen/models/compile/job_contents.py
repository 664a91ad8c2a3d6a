# SPDX-License-Identifier: Apache-2.0
"""What a decoder that is compiled to jobs has in memory: weights, and constants of the host."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.families.gemm_stream.jobs import plan_of, weight_stride
from hwgen.models.compile.constants import turns_of
from hwgen.models.compile.host_steps import Step, name_of
from hwgen.models.files.store import Model
from hwgen.models.graph.description import Node
from hwgen.models.graph.layered import Layered
from hwgen.models.run.float_engine import FloatEngine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.families.gemm_stream.jobs import JobEngine
    from hwgen.models.files.gguf_blocks import Groups


class JobContents:
    """Contents of arrays by name, of a layer or of all.

    Parameters
    ----------
    model : Model
    config : JobEngine
    decoder : Layered
    context : int
        Positions that there are cosines and sines of.
    offsets : collection of str
        Products whose weights have offsets in some layer.
    """

    def __init__(
        self,
        model: Model,
        config: JobEngine,
        decoder: Layered,
        context: int,
        offsets: Collection[str],
    ) -> None:
        self.model, self.config, self.decoder = model, config, decoder
        self.context, self.offsets = context, offsets

    def _nodes(self, layer: int | None) -> tuple[Node, ...]:
        return self.decoder.after if layer is None else self.decoder.layers[layer]

    def _groups(self, node: Node) -> Groups:
        found = self.model.groups(node.inputs["weights"])
        assert found is not None
        return found

    def weights(
        self, steps: tuple[Step, ...], layer: int | None
    ) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield the weights of a layer as the engine reads them, product by product."""
        by_name = {name_of(node): node for node in self._nodes(layer)}
        dtype = self.config.weight.dtype
        for step in steps:
            if step.operation != "gemm":
                continue
            values = self._groups(by_name[step.name]).values.astype(np.int16)
            matrix = np.ascontiguousarray((values - step.sizes["shift"]).T).astype(dtype)
            length = step.sizes["k"] // step.sizes["groups"]
            plan = plan_of(self.config, 1, length, step.sizes["n"])
            stride = weight_stride(plan)
            parts = []
            for start in range(0, step.sizes["k"], length):
                rows = plan.pack_weights(matrix[start : start + length])
                parts.append(np.pad(rows, ((0, 0), (0, stride - rows.shape[1]))))
            yield step.inputs["weights"], np.concatenate(parts)

    def shared(self) -> dict[str, NDArray[Any]]:
        """Return constants of the host of all layers together."""
        engine = FloatEngine(self.model)
        found: dict[str, NDArray[Any]] = {
            "embedding": self.model.numbers(self.decoder.embed.inputs["table"])
        }
        for node in self.decoder.layers[0]:
            if node.operation == "rope":
                turns = engine.turns(node, np.arange(self.context))
                found.setdefault(turns_of(node), turns)
        return found

    def constants(self, layer: int | None) -> dict[str, NDArray[Any]]:
        """Return constants of the host of a layer, or of what is behind them."""
        found: dict[str, NDArray[Any]] = {}
        for node in self._nodes(layer):
            name = name_of(node)
            if node.operation == "rms_norm":
                found[f"{name}.gamma"] = self.model.numbers(node.inputs["gamma"])
            elif node.operation == "gemm":
                groups = self._groups(node)
                found[f"{name}.scales"] = np.ascontiguousarray(groups.scales.T)
                if name in self.offsets:
                    offsets = groups.offsets if groups.offsets is not None else 0 * groups.scales
                    found[f"{name}.offsets"] = np.ascontiguousarray(offsets.T)
                if "bias" in node.inputs:
                    found[f"{name}.bias"] = self.model.numbers(node.inputs["bias"])
        return found
