# SPDX-License-Identifier: Apache-2.0
"""Decoders whose activations hardware turns in blocks before it quantises them.

Rows that products take are multiplied by a Hadamard matrix H of 1 and -1, block by block, and the
weights by H over the block's length, which takes that back (QuaRot, Ashkboos et al. 2024, arXiv
2404.00456). What is large in one element is so spread over its block. Queries and keys are turned
as well; their products grow by the length of a block, by which the weights of queries are divided.
"""

from __future__ import annotations

from hwgen.errors import InputError
from hwgen.models.graph.description import Description, Node, sizes_of

HADAMARD = "hadamard_quantise"
"""Operation that turns blocks before it quantises them."""

ROTATED_OPERANDS = ("query", "key")
"""Operands of attention that are turned; values are not."""


def query_makers(description: Description) -> dict[str, Node]:
    """Return the products or norms that queries are made by; see `operand_makers`."""
    try:
        return operand_makers(description, "query")
    except InputError as error:
        raise InputError(f"{error}; leave out --hadamard") from None


def operand_makers(description: Description, operand: str) -> dict[str, Node]:
    """Return the products or norms that queries or keys are made by, by the attention's name.

    Parameters
    ----------
    description : Description
    operand : str
        ``query`` or ``key``.

    Raises
    ------
    InputError
        If they are made otherwise than by a product or a norm of their own, rotated by their
        position or not.
    """
    makers = {node.output: node for node in description.nodes}
    users: dict[str, list[Node]] = {}
    for node in description.nodes:
        for name in node.inputs.values():
            users.setdefault(name, []).append(node)
    result: dict[str, Node] = {}
    for node in description.nodes:
        if node.operation != "attention":
            continue
        array = node.inputs[operand]
        maker = makers.get(array)
        alone = len(users[array]) == 1
        if maker is not None and maker.operation == "rope":
            array = maker.inputs["x"]
            maker, alone = makers.get(array), alone and len(users[array]) == 1
        own = {"gemm": "weights", "rms_norm": "gamma"}.get(maker.operation if maker else "")
        if maker is None or own is None or not alone or len(users[maker.inputs[own]]) > 1:
            what = {"query": "queries", "key": "keys"}[operand]
            raise InputError(f"{node.name}: its {what} are made by no product or norm of their own")
        result[node.name] = maker
    return result


def check_blocks(description: Description, block: int) -> None:
    """Refuse a decoder whose rows are no whole blocks, or whose queries cannot be scaled."""
    query_makers(description)
    for node in description.nodes:
        length: object = None
        if node.operation == "gemm":
            length = description.tensors[node.inputs["weights"]].shape[1]
        elif node.operation == "attention":
            length = sizes_of(node)[2]
        if isinstance(length, int) and length % block:
            raise InputError(
                f"{node.name}: rows of {length} elements are no whole blocks of {block}; take a"
                " --hadamard that divides them"
            )
