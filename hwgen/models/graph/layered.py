# SPDX-License-Identifier: Apache-2.0
"""A decoder as what a loop over its layers needs: one form for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hwgen.errors import InputError
from hwgen.models.graph.description import Description, Node

INPUT = "x"
"""Name that the array between layers has."""


@dataclass(frozen=True)
class Layered:
    """A decoder.

    Parameters
    ----------
    description : Description
    embed : Node
        The lookup that comes first.
    layers : tuple of tuple of Node
        Operations of each layer, all alike but for weights and the scales of keys and values.
        Where layers of the network alternate, each is a group of them.
    after : tuple of Node
        Operations behind the last layer, of which the last one gives the logits.
    """

    description: Description
    embed: Node
    layers: tuple[tuple[Node, ...], ...]
    after: tuple[Node, ...]

    def length(self, array: str) -> int:
        """Return the elements of a row of an array."""
        result = self.description.arrays[array][-1]
        assert isinstance(result, int)
        return result


def layered(description: Description, units: Mapping[str, str] | None = None) -> Layered:
    """Return a decoder by its layers.

    Parameters
    ----------
    description : Description
    units : mapping of str, optional
        Names of units by the weights that they multiply by; layers alike have the same.

    Raises
    ------
    InputError
        If it is no decoder, or its layers are not alike.
    """
    if not description.decodes or description.context is None or not description.vocabulary:
        raise InputError(
            f"{description.name} is no decoder: it makes no tokens, and decoders are what is"
            " compiled; `hwgen model run DIR --input FILE.npy --engine rtl --unit FILE` runs a"
            " network of arrays on the hardware of configurations"
        )
    nodes = description.nodes
    embed = nodes[0]
    if embed.operation != "embed" or any(node.operation == "embed" for node in nodes[1:]):
        raise InputError(f"{nodes[0].name}: a decoder begins with one lookup of embeddings")
    groups: list[list[Node]] = [[] for _ in range(description.layers)]
    after: list[Node] = []
    for node in nodes[1:]:
        if node.layer is None:
            after.append(node)
        elif after or node.layer < max((i for i, g in enumerate(groups) if g), default=0):
            raise InputError(f"{node.name}: layers do not follow each other")
        else:
            groups[node.layer].append(node)
    if not after or after[-1].output not in description.outputs:
        raise InputError(f"{description.name}: what gives the logits must come last")
    decoder = Layered(description, embed, tuple(map(tuple, groups)), tuple(after))
    return _grouped(decoder, units or {})


def _grouped(decoder: Layered, units: Mapping[str, str]) -> Layered:
    """Return a decoder whose layers are alike: groups of layers, as few as possible in each.

    Raises
    ------
    InputError
        If a layer takes more than the one before gives.
    """
    x, forms = decoder.embed.output, []
    for number, nodes in enumerate(decoder.layers):
        if not nodes:
            raise InputError(f"layer {number} has no operations")
        forms.append(_form(decoder, nodes, x, units))
        x = nodes[-1].output
    _form(decoder, decoder.after, x, units)
    count = len(forms)
    size = next(
        size
        for size in range(1, count + 1)
        if count % size == 0 and all(form == forms[i % size] for i, form in enumerate(forms))
    )
    if size == 1:
        return decoder
    layers = tuple(
        tuple(
            _in_group(node, group // size, index)
            for index, nodes in enumerate(decoder.layers[group : group + size])
            for node in nodes
        )
        for group in range(0, count, size)
    )
    return replace(decoder, layers=layers)


def _in_group(node: Node, group: int, index: int) -> Node:
    """Return an operation of layer `index` of a group of layers."""
    rest = node.name.removeprefix(f"layers.{node.layer}.")
    return node.model_copy(update={"name": f"layers.{group}.{index}.{rest}", "layer": group})


def _form(decoder: Layered, nodes: tuple[Node, ...], x: str, units: Mapping[str, str]) -> list[Any]:
    """Return the structure of operations, independent of names."""
    tensors = decoder.description.tensors
    names = {x: INPUT}
    result: list[Any] = []
    for index, node in enumerate(nodes):
        inputs: list[Any] = []
        for operand, array in sorted(node.inputs.items()):
            if array in tensors:
                tensor = tensors[array]
                scales = tensor.scales and tensor.scales.shape[1]
                inputs.append((operand, tensor.shape, scales, units.get(array, "")))
            elif array in names:
                inputs.append((operand, names[array]))
            else:
                raise InputError(
                    f"{node.name}: {operand} is not of this layer nor what the layer before gives"
                )
        names[node.output] = str(index)
        same = {k: v for k, v in node.attributes.items() if not k.endswith("_unit")}
        result.append((node.operation, tuple(inputs), tuple(sorted(same.items())),
                      decoder.length(node.output)))  # fmt: skip
    return result


def local_name(node: Node) -> str:
    """Return the name of an operation without the number of its layer."""
    if node.layer is None:
        return node.name
    return "layer." + node.name.removeprefix(f"layers.{node.layer}.")


def rope_table(node: Node) -> str:
    """Return the name of the table of cosines and sines of an operation."""
    parts = [
        str(node.attributes.get(key, ""))
        for key in ("elements", "base", "scale", "amplitude", "rotated")
    ]
    return ".".join(["turns", *filter(None, parts), *filter(None, [node.inputs.get("factors")])])
