# SPDX-License-Identifier: Apache-2.0
"""Patterns of operations that are one operation: GELU, as exporters write it.

``x * 0.5 * (1 + erf(x / sqrt(2)))``, with the factors in any order, is what a vector unit has as a
gate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hwgen.models.graph.description import Node
from hwgen.models.onnx.builder import Builder

_CLOSE = 1e-6


class _Graph:
    """Producers and consumers of arrays.

    Parameters
    ----------
    builder : Builder
    outputs : sequence of str
        Arrays that must stay.
    """

    def __init__(self, builder: Builder, outputs: Sequence[str]) -> None:
        self.tensors = builder.tensors
        self.makers = {node.output: node for node in builder.nodes}
        self.users: dict[str, list[Node]] = {}
        self.outputs = set(outputs)
        for node in builder.nodes:
            for name in node.inputs.values():
                self.users.setdefault(name, []).append(node)

    def user(self, name: str) -> Node | None:
        """Return the one operation that uses an array."""
        users = self.users.get(name, [])
        return users[0] if len(users) == 1 and name not in self.outputs else None

    def scalar(self, name: str) -> float | None:
        """Return the number that a constant is, if it is one."""
        array = self.tensors.get(name)
        return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None

    def pair(self, node: Node | None, function: str) -> tuple[str, str] | None:
        """Return the operands of a function of two arrays."""
        adds = function == "add" and node is not None and node.operation == "add"
        if node is None or not (adds or node.attributes.get("function") == function):
            return None
        return (node.inputs["x"], node.inputs["y"]) if "y" in node.inputs else None

    def operand(self, node: Node | None, function: str, number: float) -> str | None:
        """Return the operand that a number is added to or multiplied with."""
        pair = self.pair(node, function)
        orders = () if pair is None else ((pair,) if function == "divide" else (pair, pair[::-1]))
        for one, other in orders:
            value = self.scalar(other)
            if value is not None and abs(value / number - 1) < _CLOSE:
                return one
        return None

    def factors(self, name: str, x: str) -> list[str]:
        """Return the factors of an array; `x` is not decomposed."""
        node = self.makers.get(name)
        pair = self.pair(node, "multiply")
        if name == x or pair is None:
            return [name]
        return [factor for part in pair for factor in self.factors(part, x)]


def fuse_gelu(builder: Builder, outputs: Sequence[str]) -> None:
    """Put a GELU where operations make one; what is not needed then is left to the builder.

    Parameters
    ----------
    builder : Builder
    outputs : sequence of str
        Names of arrays that the network gives.
    """
    graph = _Graph(builder, outputs)
    for node in [n for n in builder.nodes if n.attributes.get("function") == "erf"]:
        maker = graph.makers.get(node.inputs["x"])
        x = graph.operand(maker, "divide", math.sqrt(2))
        x = x or graph.operand(maker, "multiply", math.sqrt(0.5))
        one_more = graph.user(node.output)
        if x is None or one_more is None or graph.operand(one_more, "add", 1.0) != node.output:
            continue
        top: Node | None = one_more
        for _ in range(2):  # it is multiplied with x and with a half
            top = graph.user(top.output) if top is not None else None
            if top is None or graph.pair(top, "multiply") is None:
                break
            result = graph.factors(top.output, x)
            halves = [name for name in result if graph.scalar(name) == 0.5]
            if sorted(set(result) - set(halves)) == sorted({x, one_more.output}) and (
                len(result) == 3 and len(halves) == 1
            ):
                gelu = {
                    "operation": "unary",
                    "inputs": {"x": x},
                    "attributes": {"function": "gelu"},
                }
                builder.nodes[builder.nodes.index(top)] = top.model_copy(update=gelu)
                break
