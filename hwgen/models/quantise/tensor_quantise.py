# SPDX-License-Identifier: Apache-2.0
"""Quantisation of networks on arrays: products of floats become products of integers.

Weights become integers with a scale for each output channel, rows of activations int8 with a scale
of their own at run time, so that nothing is to be calibrated; where both operands are activations,
the second one's columns are rows in this sense.  Given inputs show the error of each product.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.errors import InputError
from hwgen.models.files.store import WEIGHTS, Model, Writer, write_description
from hwgen.models.graph.description import Description, Node, Tensor
from hwgen.models.quantise.quantise import LayerReport
from hwgen.models.quantise.recipe import Recipe
from hwgen.models.run.tensor_engine import TensorEngine
from hwgen.progress import steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class _Results(TensorEngine):
    """Keeps the results of products."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.arrays: dict[str, Array] = {}

    def _operate(self, node: Node, operands: dict[str, Any]) -> Any:
        result = super()._operate(node, operands)
        if node.operation in ("gemm", "matmul"):
            self.arrays[node.name] = result
        return result


def quantise_tensors(
    model: Model, directory: Path, inputs: Mapping[str, Array], recipe: Recipe
) -> list[LayerReport]:
    """Write a quantised model into a directory.

    Parameters
    ----------
    model : Model
        A network on arrays with products of floats.
    directory : Path
        Empty.
    inputs : mapping of ndarray
        What errors are measured with.
    recipe : Recipe
        Without groups; there is no smoothing.

    Returns
    -------
    list of LayerReport
        One for each product.

    Raises
    ------
    InputError
        If there is nothing to quantise, or the recipe is not for such networks.
    """
    description = model.description
    if not any(_multiplies_floats(description, node) for node in description.nodes):
        raise InputError(f"{model.path} has no products of floats to quantise")
    if recipe.group is not None or recipe.activation_bits != 8 or recipe.weights == "original":
        raise InputError(
            "networks on arrays are quantised to --weights int8, int4 or ternary with a scale for"
            " each output channel, and to activations of 8 bits"
        )
    with (directory / WEIGHTS).open("wb") as file:
        tensors, saturated = _tensors(model, Writer(file), recipe)
    nodes, arrays = _nodes(description)
    made = description.model_copy(update={"nodes": nodes, "arrays": arrays, "tensors": tensors})
    write_description(directory, Description.model_validate(made.model_dump()))
    return _reports(model, Model(directory), inputs, saturated)


def _multiplies_floats(description: Description, node: Node) -> bool:
    if node.operation == "matmul":
        return not node.attributes.get("bits", 0)
    if node.operation != "gemm":
        return False
    return description.tensors[node.inputs["weights"]].scales is None


def _tensors(
    model: Model, writer: Writer, recipe: Recipe
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Write the tensors, and return them and the share of saturated weights by name."""
    description = model.description
    products = {n.inputs["weights"] for n in description.nodes if _multiplies_floats(description, n)
                and n.operation == "gemm"}  # fmt: skip
    saturated = {}
    for name, tensor in steps("tensors", description.tensors.items()):
        if name in products:
            groups = recipe.of(name, model.numbers(name))
            most = int(np.abs(groups.values).max())
            saturated[name] = float((np.abs(groups.values) == most).mean())
            writer.groups(name, [groups], tensor.shape, tensor.origin, recipe.bits)
        elif tensor.scales is not None:
            kept = model.groups(name)
            assert kept is not None
            writer.groups(name, [kept], tensor.shape, tensor.origin, tensor.bits)
        else:
            writer.numbers(name, [model.part(tensor.values)], tensor.shape, tensor.origin)
    return writer.tensors, saturated


def _nodes(description: Description) -> tuple[tuple[Node, ...], dict[str, Any]]:
    """Return the operations of the quantised network and the shapes of its arrays."""
    arrays = dict(description.arrays)
    names = {*arrays, *description.tensors, *(node.name for node in description.nodes)}
    made: dict[str, str] = {}
    nodes: list[Node] = []
    for node in description.nodes:
        if not _multiplies_floats(description, node):
            nodes.append(node)
        elif node.operation == "matmul":
            nodes.append(node.model_copy(update={"attributes": {"bits": 8}}))
        else:
            x = node.inputs["x"]
            if x not in made:
                made[x] = _fresh(f"{x}.int8", names)
                arrays[made[x]] = arrays[x]
                name = made[x]
                nodes.append(Node(name=name, operation="quantise", inputs={"x": x}, output=name,
                                  attributes={"bits": 8}, layer=node.layer))  # fmt: skip
            nodes.append(node.model_copy(update={"inputs": {**node.inputs, "x": made[x]}}))
    return tuple(nodes), arrays


def _fresh(name: str, names: set[str]) -> str:
    """Return a name that nothing has."""
    base = result = name[-290:]
    number = 1
    while result in names:
        number += 1
        result = f"{base}#{number}"
    names.add(result)
    return result


def _reports(
    model: Model, made: Model, inputs: Mapping[str, Array], saturated: Mapping[str, float]
) -> list[LayerReport]:
    """Return the errors of products: of their results in the quantised network."""
    before, after = _Results(model), _Results(made)
    before.run(inputs)
    after.run(inputs)
    reports = []
    for node in model.description.nodes:
        if node.name not in before.arrays or not _multiplies_floats(model.description, node):
            continue
        expected = before.arrays[node.name].astype(np.float64)
        error = np.sqrt(np.mean((after.arrays[node.name] - expected) ** 2))
        size = np.sqrt(np.mean(expected**2)) or 1.0
        share = saturated.get(node.inputs.get("weights", ""), 0.0)
        reports.append(LayerReport(node.name, float(error / size), share, False))
    return reports
