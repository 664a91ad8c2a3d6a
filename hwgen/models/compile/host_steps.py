# SPDX-License-Identifier: Apache-2.0
"""A decoder as steps of a host and jobs of an engine that multiplies, and what both work on.

Products are jobs of the engine, everything else is computed by the host.  Steps name the arrays
that they read and write: constants and work of the host, rows and sums in the engine's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from hwgen.errors import InputError
from hwgen.models.graph.description import Node, real, score_scale, sizes_of
from hwgen.models.graph.layered import Layered, local_name, rope_table
from hwgen.models.run.host_functions import GATES

X = "x"
"""Array between layers."""


@dataclass(frozen=True)
class Step:
    """An operation of the host, or a product whose sums it turns into numbers.

    Parameters
    ----------
    operation : str
    name : str
        Of the operation, without the layer's number.
    inputs : dict of str
        Names of arrays by operand; constants among them.
    output : str
        Array of the host.
    sizes : dict of int
        Of a product ``k``, ``n``, ``groups`` along k, ``job``, its first one of those of a layer,
        and ``shift``, what is subtracted from weights; else ``length`` of a row, and of attention
        ``heads``, ``kv_heads``, ``elements`` and ``window``; ``hadamard``, elements of blocks
        that are turned before they are quantised, 0 if none are; ``heads`` of a norm of heads.
    epsilon : float
        Of a norm.
    gate : str
        Of a gated product.
    scale : float
        Factor of the scores of an attention, or of ``x`` of a sum.
    cap : float
        Soft cap of scores or logits; 0: none.
    """

    operation: str
    name: str
    inputs: dict[str, str]
    output: str
    sizes: dict[str, int] = field(default_factory=dict)
    epsilon: float = 0.0
    gate: str = ""
    scale: float = 1.0
    cap: float = 0.0


@dataclass(frozen=True)
class Steps:
    """Steps of a decoder.

    Parameters
    ----------
    layer, after : tuple of Step
        Of each layer, and behind the last one, of one row.
    jobs : int
        Jobs of a layer.
    jobs_after : int
        Of what is behind.
    work : dict of int
        Bytes of a row of each array of the host, by name.
    """

    layer: tuple[Step, ...]
    after: tuple[Step, ...]
    jobs: int
    jobs_after: int
    work: dict[str, int]

    @property
    def products(self) -> tuple[Step, ...]:
        """All products."""
        return tuple(step for step in (*self.layer, *self.after) if step.operation == "gemm")


class StepMaker:
    """Makes the steps of a decoder.

    Parameters
    ----------
    decoder : Layered
    shifts : dict of int
        What is subtracted from the weights of a product, by its local name; see `Step`.
    offsets : collection of str
        Products whose weights have offsets beside their scales.

    Raises
    ------
    InputError
        If the host does not have an operation.
    """

    def __init__(self, decoder: Layered, shifts: dict[str, int], offsets: Collection[str]) -> None:
        self.decoder, self.shifts, self.offsets = decoder, shifts, offsets
        self.work: dict[str, int] = {X: 4 * decoder.length(decoder.embed.output)}
        self._arrays: dict[str, str] = {}
        self._job = 0
        self._makers: dict[str, Callable[[Node, str, str, int], Step]] = {
            "rms_norm": self._norm, "layer_norm": self._norm, "soft_cap": self._soft_cap,
            "quantise": self._quantise, "gemm": self._gemm,
            "rope": self._rope, "attention": self._attention, "gated": self._gated,
            "add": self._add,
        }  # fmt: skip

    def make(self) -> Steps:
        """Return the steps."""
        decoder = self.decoder
        nodes = decoder.layers[0]
        self._arrays[decoder.embed.output] = X
        layer = tuple(self._step(node, last=node is nodes[-1]) for node in nodes)
        jobs, self._job = self._job, 0
        self._arrays = {decoder.layers[-1][-1].output: X}
        after = tuple(self._step(node, last=False) for node in decoder.after)
        return Steps(layer, after, jobs, self._job, self.work)

    def _step(self, node: Node, *, last: bool) -> Step:
        """Return the step of an operation; the last one of a layer gives `X`."""
        name = local_name(node)
        make = self._makers.get(node.operation)
        if make is None:
            raise InputError(f"{node.name}: {node.operation} is no operation of compiled decoders")
        output = X if last else f"{name}.result"
        self._arrays[node.output] = output
        length = self.decoder.length(node.output)
        self.work[output] = (1 if node.operation == "quantise" else 4) * length
        return make(node, name, output, length)

    def _inputs(self, node: Node, *names: str) -> dict[str, str]:
        return {name: self._arrays[node.inputs[name]] for name in names}

    def _norm(self, node: Node, name: str, output: str, length: int) -> Step:
        inputs = self._inputs(node, "x")
        inputs |= {key: f"{name}.{key}" for key in ("gamma", "beta") if key in node.inputs}
        sizes = {"length": length, "heads": int(real(node, "heads", 1))}
        return Step(node.operation, name, inputs, output, sizes, real(node, "epsilon"))

    def _quantise(self, node: Node, name: str, output: str, length: int) -> Step:
        self.work[f"{output}.scales"] = 4
        sizes = {"length": length, "hadamard": int(real(node, "hadamard"))}
        return Step("quantise", name, self._inputs(node, "x"), output, sizes)

    def _gemm(self, node: Node, name: str, output: str, length: int) -> Step:
        tensor = self.decoder.description.tensors[node.inputs["weights"]]
        assert tensor.scales is not None
        groups, shift = tensor.scales.shape[1], self.shifts[name]
        inputs = {**self._inputs(node, "x"), "weights": f"{name}.weights",
                  "scales": f"{name}.scales"}  # fmt: skip
        if name in self.offsets:
            inputs["offsets"] = f"{name}.offsets"
        if "bias" in node.inputs:
            inputs["bias"] = f"{name}.bias"
        sizes = {"k": tensor.shape[1], "n": length, "groups": groups, "job": self._job,
                 "shift": shift}  # fmt: skip
        self._job += groups
        return Step("gemm", name, inputs, output, sizes)

    def _rope(self, node: Node, name: str, output: str, length: int) -> Step:
        inputs = {**self._inputs(node, "x"), "turns": rope_table(node)}
        sizes = {"length": length, "elements": int(real(node, "elements"))}
        return Step("rope", name, inputs, output, sizes)

    def _attention(self, node: Node, name: str, output: str, length: int) -> Step:
        heads, kv_heads, elements = sizes_of(node)
        sizes = {"length": length, "heads": heads, "kv_heads": kv_heads, "elements": elements,
                 "window": int(real(node, "window")),
                 "hadamard": int(real(node, "hadamard"))}  # fmt: skip
        inputs = self._inputs(node, "query", "key", "value")
        inputs |= {part: f"{name}.{part}" for part in CACHE}
        return Step(
            "attention", name, inputs, output, sizes,
            scale=score_scale(node), cap=real(node, "cap"),
        )  # fmt: skip

    def _gated(self, node: Node, name: str, output: str, length: int) -> Step:
        gate = str(node.attributes["gate"])
        if gate not in GATES:
            raise InputError(
                f"{node.name}: its gate is {gate}; the host of an engine has {', '.join(GATES)}"
            )
        inputs = self._inputs(node, "x", "y")
        return Step("gated", name, inputs, output, {"length": length}, gate=gate)

    def _add(self, node: Node, name: str, output: str, length: int) -> Step:
        inputs, scale = self._inputs(node, "x", "y"), real(node, "scale", 1.0)
        return Step("add", name, inputs, output, {"length": length}, scale=scale)

    def _soft_cap(self, node: Node, name: str, output: str, length: int) -> Step:
        sizes, cap = {"length": length}, real(node, "cap")
        return Step("soft_cap", name, self._inputs(node, "x"), output, sizes, cap=cap)


CACHE = ("keys", "values", "key_scales", "value_scales")
"""Arrays of an attention that are kept from token to token."""


def cache_bytes(step: Step, context: int) -> dict[str, int]:
    """Return the bytes of the arrays that an attention keeps, by name."""
    rows = step.sizes["kv_heads"] * context
    sizes = {"keys": rows * step.sizes["elements"], "key_scales": 4 * rows}
    sizes |= {"values": sizes["keys"], "value_scales": sizes["key_scales"]}
    return {step.inputs[part]: sizes[part] for part in CACHE}


def step_of(document: Any) -> Step:
    """Return a step that was written as JSON.

    Raises
    ------
    TypeError
        If it lacks something.
    """
    return Step(**document)
