# SPDX-License-Identifier: Apache-2.0
"""Engines of command lists that `configs` has, and the models that they take."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hwgen.errors import InputError
from hwgen.formats.registry import block_format
from hwgen.models.graph.description import real, sizes_of
from hwgen.models.run.block_rows import key_format, row_format
from hwgen.models.run.group_weights import misfit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hwgen.models.files.gguf_blocks import Groups
    from hwgen.models.files.store import Model
    from hwgen.models.graph.description import Node

_HEAD = 64  # elements of heads of the attention units


@dataclass(frozen=True)
class ShippedEngine:
    """An engine of command lists that is shipped.

    Parameters
    ----------
    file : str
        Below `configs`.
    activation, weight : str
        Formats of rows and weights of products.
    keys : str
        Blocks of keys and values; empty: int8 with scales of tokens.
    gate : str
        The function of its gates.
    hadamard : int
        Elements of blocks that it turns before it quantises them; 0: it turns none.
    longest : int
        Rows of weights have at most as many elements.
    others : tuple of str
        Further formats of weights, of other units that multiply.
    """

    file: str
    activation: str
    weight: str
    keys: str = ""
    gate: str = "silu"
    hadamard: int = 0
    longest: int = 8192
    others: tuple[str, ...] = ()

    def executes(self, model: Model) -> bool:
        """Return whether it executes a quantised decoder, and has no units too many for it."""
        if self.others and replace(self, others=()).executes(model):
            return False
        nodes = model.description.nodes
        makers = {node.output: node for node in nodes}
        return model.description.decodes and all(
            self._executes_node(node, makers, model) for node in nodes
        )

    def _executes_node(self, node: Node, makers: dict[str, Node], model: Model) -> bool:
        if node.operation == "gemm":
            maker = makers.get(node.inputs["x"])
            if maker is None or maker.operation != "quantise":
                return False
            groups = model.groups(node.inputs["weights"])
            return row_format(maker) == self.activation and groups is not None and self._has(groups)
        if node.operation == "quantise":
            return not real(node, "hadamard") or real(node, "hadamard") == self.hadamard
        if node.operation == "attention":
            elements = sizes_of(node)[2]
            if key_format(node) != self.keys or real(node, "cap"):
                return False
            if self.keys:
                return elements == _HEAD
            turns = real(node, "hadamard")
            eight = node.attributes.get("bits", 0) == 8
            return elements <= _HEAD and eight and (not turns or turns == self.hadamard)
        return node.operation != "gated" or node.attributes["gate"] == self.gate

    def _has(self, groups: Groups) -> bool:
        """Return whether its core multiplies by weights as they are."""
        if groups.values.shape[1] > self.longest:
            return False
        return any(_holds(weight, groups) for weight in (self.weight, *self.others))


def _holds(weight: str, groups: Groups) -> bool:
    """Return whether a format has weights as they are."""
    low, high = int(groups.values.min()), int(groups.values.max())
    by_row = groups.scales.shape[1] == 1 and groups.offsets is None
    if weight == "int8":
        return by_row and low >= -128 and high <= 127
    if weight == "ternary":
        return by_row and low >= -1 and high <= 1
    return not misfit(block_format(weight), groups)


SHIPPED_ENGINES = (
    ShippedEngine("decoder_engine/int8.yaml", "int8", "int8", hadamard=8, longest=65536),
    ShippedEngine("decoder_engine/ternary.yaml", "int8", "ternary", gate="relu2", longest=65536),
    ShippedEngine("decoder_w4/engine.yaml", "int8", "q4_0", hadamard=8),
    ShippedEngine("decoder_w4/kv_mxfp8.yaml", "int8", "q4_0", keys="mxfp8", hadamard=8),
    ShippedEngine("decoder_w4/kv_mxfp4.yaml", "int8", "q4_0", keys="mxfp4", hadamard=8),
    ShippedEngine("decoder_w4/int4.yaml", "int4", "q4_0", hadamard=32),
    ShippedEngine("decoder_w4/mixed.yaml", "int8", "q4_0", hadamard=8, others=("int8_g32",)),
    ShippedEngine("decoder_mxfp4/engine.yaml", "int8", "mxfp4", hadamard=8),
    ShippedEngine("decoder_mxfp4/mxfp8.yaml", "mxfp8_e4m3", "mxfp4"),
    ShippedEngine("decoder_nvfp4/engine.yaml", "int8", "nvfp4", hadamard=8),
)
"""Engines of command lists below `configs`."""


def engines_for(model: Model) -> list[str]:
    """Return the paths of the shipped engines that execute a quantised decoder."""
    return [f"configs/{engine.file}" for engine in SHIPPED_ENGINES if engine.executes(model)]


def engines_named(model: Model) -> list[str]:
    """Return the shipped engines that execute a quantised decoder, in words.

    Where none does but for its gate, a copy with the gate of the model is named.
    """
    if files := engines_for(model):
        return files
    gates = {
        node.attributes["gate"] for node in model.description.nodes if node.operation == "gated"
    }
    if len(gates) != 1:
        return []
    gate = str(gates.pop())
    copies = (replace(engine, gate=gate) for engine in SHIPPED_ENGINES)
    return [
        f"a copy of configs/{engine.file} with `gate: {gate}` in its unit rows"
        for engine in copies
        if engine.executes(model)
    ]


def shipped_file(activation: str, weight: str) -> str | None:
    """Return the first shipped engine of some formats of rows and weights, below `configs`."""
    asked = "q4_0" if weight == "int4_g32" else weight
    for engine in SHIPPED_ENGINES:
        if (engine.activation, engine.weight) == (activation, asked):
            return engine.file
    return None


@contextmanager
def naming_engines(model: Model) -> Iterator[None]:
    """Name the shipped engines that take a model in a refusal, unless it names them."""
    try:
        yield
    except InputError as error:
        named = [text for text in engines_named(model) if text not in str(error)]
        if not named:
            raise
        raise InputError(f"{error}; this model runs on {' and on '.join(named)}") from None
