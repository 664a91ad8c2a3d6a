# SPDX-License-Identifier: Apache-2.0
"""Decoders turned inside: the same numbers come out, and no channel is larger than the others.

What stands between the blocks of a decoder, the residual stream, is read through norms only.  An
RMS norm without its factors commutes with every orthogonal matrix R, so that the factors may go
into the matrices that follow, and R into the table of tokens, into all that write to the stream,
and transposed into all that read it (QuaRot, Ashkboos et al. 2024, arXiv 2404.00456).  Values of
attention are turned likewise, each head by its own matrix, which the product behind attention
takes back.  R is a matrix of Hadamard's kind with random signs: it spreads what is large in one
channel over all of them.  Nothing is added at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.models.files.store import Model
from hwgen.models.graph.description import Description, Node, Part, Tensor, sizes_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.models.files.gguf_blocks import Groups

    Reals = NDArray[np.float32]

_SEED = 0


class Weights:
    """Weights in single precision that are computed when they are asked for.

    They are kept until they are forgotten, so that those of a layer are computed once.
    """

    def __init__(self) -> None:
        self._made: dict[str, Callable[[], NDArray[Any]]] = {}
        self._computed: dict[str, Reals] = {}

    def put(self, name: str, make: Callable[[], NDArray[Any]]) -> None:
        """Take the function that computes a tensor."""
        self._made[name] = make

    def change(self, name: str, change: Callable[[Reals], NDArray[Any]]) -> None:
        """Let a tensor be what a function makes of what it is, in the same shape."""
        make = self._made[name]

        def changed() -> NDArray[Any]:
            before = np.asarray(make(), np.float32)
            return np.asarray(change(before), np.float32).reshape(before.shape)

        self._made[name] = changed

    def __contains__(self, name: object) -> bool:
        return name in self._made

    def __getitem__(self, name: str) -> Reals:
        if name not in self._computed:
            self._computed[name] = np.asarray(self._made[name](), np.float32)
        return self._computed[name]

    def forget(self) -> None:
        """Give back the memory of what was computed."""
        self._computed.clear()


class Changed(Model):
    """A model with some weights of its own.

    Parameters
    ----------
    model : Model
        What the rest is from.
    description : Description
    weights : Weights
        By name; those that the model does not have are among `description.tensors`.
    """

    def __init__(self, model: Model, description: Description, weights: Weights) -> None:
        self.path = model.path
        self.description = description
        self._model = model
        self._weights = weights

    def numbers(self, name: str) -> Reals:
        """Return a tensor in single precision."""
        return self._weights[name] if name in self._weights else self._model.numbers(name)

    def groups(self, name: str) -> Groups | None:
        """Return a tensor as integers with scales; None if it is plain numbers."""
        return None if name in self._weights else self._model.groups(name)

    def part(self, part: Part) -> NDArray[Any]:
        """Return an array of the model's weights."""
        return self._model.part(part)

    def forget(self) -> None:
        """Release the memory of weights that were computed or read."""
        self._weights.forget()
        self._model.forget()

    def changed(self, name: str) -> bool:
        """Return whether a tensor is not that of the model."""
        return name in self._weights


def orthogonal(size: int, seed: int = _SEED) -> NDArray[np.float64]:
    """Return an orthogonal matrix whose elements are of similar size.

    The Kronecker product of the discrete Hartley transform of the odd part of `size` with a
    Hadamard matrix (Sylvester's), rows with random signs.

    Parameters
    ----------
    size : int
    seed : int
        Of the signs.

    Returns
    -------
    ndarray, shape (size, size)
    """
    odd = size // (size & -size)
    angle = 2 * np.pi * np.outer(np.arange(odd), np.arange(odd)) / odd
    result = (np.cos(angle) + np.sin(angle)) / np.sqrt(odd)
    while len(result) < size:
        result = np.kron(result, np.array([[1, 1], [1, -1]]) / np.sqrt(2))
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size)
    return np.asarray(signs[:, None] * result)


class _Stream:
    """The residual stream of a decoder: who writes to it, and through which norms it is read."""

    def __init__(self, description: Description) -> None:
        self.users: dict[str, list[Node]] = {}
        for node in description.nodes:
            for name in node.inputs.values():
                self.users.setdefault(name, []).append(node)
        makers = {node.output: node for node in description.nodes}
        embed = next((n for n in description.nodes if n.operation == "embed"), None)
        self.table = embed.inputs["table"] if embed else ""
        self.writers: list[Node] = []
        self.norms: list[Node] = []
        self.arrays = {embed.output} if embed else set()
        for node in description.nodes:
            if node.operation == "add" and self.arrays & set(node.inputs.values()):
                self.arrays.add(node.output)
        self.rotatable = bool(self.arrays)
        for array in self.arrays:
            for node in self.users.get(array, []):
                if node.operation == "rms_norm" and node.inputs["x"] == array:
                    self.norms.append(node)
                elif node.operation != "add":
                    self.rotatable = False
            maker = makers[array]
            for name in maker.inputs.values() if maker.operation == "add" else ():
                if name not in self.arrays:
                    self._writer(makers.get(name))
        for norm in self.norms:
            readers = self.readers(norm)
            self.rotatable &= all(
                r.operation == "gemm" and r.inputs["x"] == norm.output for r in readers
            )
            self.rotatable &= norm.output not in description.outputs
        self.rotatable &= self._alone() and not self.arrays & set(description.outputs)

    def _writer(self, node: Node | None) -> None:
        if node is None or node.operation != "gemm" or len(self.users[node.output]) > 1:
            self.rotatable = False
        else:
            self.writers.append(node)

    def readers(self, norm: Node) -> list[Node]:
        """Return the consumers of the result of a norm."""
        return self.users.get(norm.output, [])

    def _alone(self) -> bool:
        """Return whether no weights are both read and written with, or by more than one."""
        shared = {norm.inputs["gamma"] for norm in self.norms}
        for node in (*self.writers, *(r for norm in self.norms for r in self.readers(norm))):
            shared.add(node.inputs["weights"])
        tied = {self.table} if len(self.users.get(self.table, [])) == 2 else set()
        return all(len(self.users[name]) == 1 for name in shared - tied)


def rotated(model: Model) -> Changed | None:
    """Return a decoder whose residual stream and values are turned, None if that cannot be.

    It cannot be where the stream is read by something else than an RMS norm with products behind
    it, or written to by something else than the table of tokens and products.
    """
    description = model.description
    stream = _Stream(description)
    if not stream.rotatable:
        return None
    weights = Weights()
    tensors = dict(description.tensors)
    names: dict[str, str] = {}
    width = tensors[stream.table].shape[-1]
    rotation = orthogonal(width)

    def put(name: str, source: str, make: Callable[[Reals], NDArray[Any]]) -> None:
        weights.put(name, lambda: make(model.numbers(source)))
        part = Part(dtype="float32", shape=tensors[source].shape, offset=0)
        tensors[name] = Tensor(values=part, origin="F32", bits=32)

    for norm in stream.norms:
        gamma = model.numbers(norm.inputs["gamma"]).astype(np.float64)
        for node in stream.readers(norm):
            name = node.inputs["weights"]
            new = f"{node.name}.weights" if name == stream.table else name
            names[node.name] = new
            put(new, name, partial(_scaled_product, gamma=gamma, rotation=rotation))
        put(norm.inputs["gamma"], norm.inputs["gamma"], np.ones_like)
    put(stream.table, stream.table, lambda table: rotated_product(table, rotation))
    for node in stream.writers:
        source = node.inputs["weights"]
        put(source, source, lambda matrix: rotation.T @ matrix)
        if "bias" in node.inputs:
            put(node.inputs["bias"], node.inputs["bias"], lambda bias: bias @ rotation)
    nodes = tuple(
        node.model_copy(update={"inputs": {**node.inputs, "weights": names[node.name]}})
        if node.name in names
        else node
        for node in description.nodes
    )
    made = description.model_copy(update={"nodes": nodes, "tensors": tensors})
    result = Changed(model, made, weights)
    _rotate_values(result, stream, weights)
    return result


def rotate_values_only(model: Model) -> Changed | None:
    """Return a decoder whose values are rotated but not its stream, None if none can be.

    Values of attention are rotated head by head, which the product behind attention takes back,
    whatever reads the residual stream.
    """
    description = model.description
    stream, weights = _Stream(description), Weights()
    tensors = dict(description.tensors)
    for pair in _value_products(description, stream):
        for name in pair:
            if len(stream.users[name]) == 1:
                weights.put(name, partial(model.numbers, name))
                part = Part(dtype="float32", shape=tensors[name].shape, offset=0)
                tensors[name] = Tensor(values=part, origin="F32", bits=32)
    result = Changed(model, description.model_copy(update={"tensors": tensors}), weights)
    return result if _rotate_values(result, stream, weights) else None


def _scaled_product(
    matrix: Reals, gamma: NDArray[np.float64], rotation: NDArray[np.float64]
) -> Reals:
    """Return a product whose rotation takes the factors of a norm."""
    return rotated_product(matrix, gamma[:, None] * rotation)


def rotated_product(matrix: Reals, rotation: NDArray[np.float64], rows: int = 4096) -> Reals:
    """Return a product in double precision, rounded, some rows at a time."""
    pieces = [
        (matrix[i : i + rows] @ rotation).astype(np.float32) for i in range(0, len(matrix), rows)
    ]
    return np.concatenate(pieces)


def _value_products(description: Description, stream: _Stream) -> dict[tuple[str, str], Node]:
    """Return each attention by the weights of its values and of the product behind it.

    Only those whose values nothing else takes, and that have no bias.
    """
    makers = {node.output: node for node in description.nodes}
    result = {}
    for node in description.nodes:
        if node.operation != "attention":
            continue
        maker = makers.get(node.inputs["value"])
        users: Sequence[Node] = stream.users.get(node.output, [])
        if (
            maker is not None
            and maker.operation == "gemm"
            and "bias" not in maker.inputs
            and len(users) == 1
            and users[0].operation == "gemm"
            and len(stream.users[maker.output]) == 1
        ):
            result[maker.inputs["weights"], users[0].inputs["weights"]] = node
    return result


def _rotate_values(model: Changed, stream: _Stream, weights: Weights) -> int:
    """Rotate the values of each attention whose products may be changed; return their number."""
    count = 0
    for (before, behind), node in _value_products(model.description, stream).items():
        if model.changed(before) and model.changed(behind):
            heads, kv_heads, elements = sizes_of(node)
            rotation = orthogonal(elements)
            weights.change(before, partial(_of_rows, rotation=rotation, heads=kv_heads))
            weights.change(behind, partial(_of_columns, rotation=rotation, heads=heads))
            count += 1
    return count


def _of_rows(matrix: Reals, rotation: NDArray[np.float64], heads: int) -> NDArray[Any]:
    """Return a matrix whose rows are rotated head by head."""
    return rotation.T @ matrix.reshape(heads, len(rotation), -1)


def _of_columns(matrix: Reals, rotation: NDArray[np.float64], heads: int) -> NDArray[Any]:
    """Return a matrix whose columns are rotated head by head."""
    return matrix.reshape(-1, heads, len(rotation)) @ rotation
