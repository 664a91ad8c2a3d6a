# SPDX-License-Identifier: Apache-2.0
"""Running a decoder, operation by operation, by whatever arithmetic an engine has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hwgen.errors import InputError
from hwgen.models.files.store import Model
from hwgen.models.graph.description import Node, real

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Reals = NDArray[np.float32]

PREFILL = 256
"""Tokens of a prompt that are computed at once."""


class Engine(ABC):
    """Arithmetic of the operations of a network.

    An operation is a method of its name. It takes the node, operands by name, and the positions
    of the tokens, and returns the result, a row for each token.

    Parameters
    ----------
    model : Model
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._cached: dict[str, Any] = {}

    def weights(self, name: str) -> Reals:
        """Return a tensor in single precision; it is kept."""
        if name not in self._cached:
            self._cached[name] = self.model.numbers(name)
        result: Reals = self._cached[name]
        return result

    def forget(self) -> None:
        """Give back the memory of weights that are kept."""
        self._cached.clear()

    def last(self, x: Any) -> Any:
        """Return the last row of an array, as an engine keeps it."""
        return x[-1:]

    def embed(self, node: Node, x: NDArray[Any]) -> Reals:
        """Return rows of a table, times its scale."""
        rows = self.weights(node.inputs["table"])[x]
        return np.asarray(rows * np.float32(real(node, "scale", 1.0)))

    def rope_angles(self, node: Node, positions: NDArray[Any]) -> Reals:
        """Return cosines and sines in turn, of each position, shape (rows, elements)."""
        elements = int(real(node, "elements"))
        rotated = int(real(node, "rotated")) or elements
        pair = np.arange(rotated // 2)
        step = real(node, "base") ** (-2.0 * pair / rotated)
        if "factors" in node.inputs:
            step = step / self.weights(node.inputs["factors"])
        angles = positions[:, None] * step * real(node, "scale", 1.0)
        amplitude = real(node, "amplitude", 1.0)
        result = np.zeros((len(positions), elements), np.float32)
        result[:, ::2] = 1
        result[:, :rotated:2] = amplitude * np.cos(angles)
        result[:, 1:rotated:2] = amplitude * np.sin(angles)
        return result

    def enter(self, node: Node) -> None:  # noqa: B027 - most engines need not know
        """Take notice of the operation that is computed next."""

    @abstractmethod
    def gemm(self, node: Node, x: Reals) -> Reals:
        """Return x times weights, plus bias."""

    @abstractmethod
    def rms_norm(self, node: Node, x: Reals) -> Reals:
        """Return rows, or heads, divided by the root of their mean square, times gamma."""

    @abstractmethod
    def layer_norm(self, node: Node, x: Reals) -> Reals:
        """Return rows of mean 0 and variance 1, times gamma, plus beta."""

    @abstractmethod
    def rope(self, node: Node, x: Reals, positions: NDArray[Any]) -> Reals:
        """Return rows with pairs of neighbours turned."""

    @abstractmethod
    def attention(self, node: Node, cache: Cache, query: Reals, key: Reals, value: Reals) -> Reals:
        """Return attention of rows behind what is in a cache, which takes their keys and values."""

    @abstractmethod
    def gated(self, node: Node, x: Reals, y: Reals) -> Reals:
        """Return gate(x) times y."""

    @abstractmethod
    def add(self, node: Node, x: Reals, y: Reals) -> Reals:
        """Return x times scale, plus y."""

    @abstractmethod
    def soft_cap(self, node: Node, x: Reals) -> Reals:
        """Return cap * tanh(x / cap)."""


class Cache:
    """Keys and values of an attention, in whatever form an engine keeps them.

    Parameters
    ----------
    context : int
        Positions that there is room for.

    Attributes
    ----------
    length : int
        Positions that are stored.
    """

    def __init__(self, context: int) -> None:
        self.context = context
        self.length = 0
        self._arrays: dict[str, NDArray[Any]] = {}

    def append(self, **rows: NDArray[Any]) -> None:
        """Take rows, the first index of which counts tokens, into arrays by name."""
        count = len(next(iter(rows.values())))
        for name, array in rows.items():
            stored = self._arrays.get(name)
            if stored is None or len(stored) < self.length + count:
                capacity = min(self.context, max(64, 2 * (self.length + count)))
                grown = np.zeros((capacity, *array.shape[1:]), array.dtype)
                if stored is not None:
                    grown[: self.length] = stored[: self.length]
                self._arrays[name] = stored = grown
            stored[self.length : self.length + count] = array
        self.length += count

    def rows(self, name: str) -> NDArray[Any]:
        """Return the rows of an array."""
        return self._arrays[name][: self.length]


class Run:
    """A decoder at work: tokens go in, logits come out, keys and values stay.

    Parameters
    ----------
    engine : Engine
    context : int, optional
        Most positions; default those of the model.

    Raises
    ------
    InputError
        If the model is no decoder.
    """

    def __init__(self, engine: Engine, context: int | None = None) -> None:
        description = engine.model.description
        if not description.decodes:
            raise InputError(f"{description.name} is no decoder: it makes no tokens")
        self.engine = engine
        self.description = description
        self.context = min(context or (1 << 30), description.context or (1 << 30))
        self.position = 0
        self._caches: dict[str, Cache] = {}
        self._last_use = last_uses(description.nodes, description.outputs)

    def feed(self, tokens: Sequence[int], *, every: bool = False) -> Reals:
        """Compute tokens behind those that were fed before.

        Parameters
        ----------
        tokens : sequence of int
            At least one.
        every : bool
            Whether logits of every token are wanted, not of the last one alone.

        Returns
        -------
        ndarray of float32, shape (tokens or 1, vocabulary)

        Raises
        ------
        InputError
            If there is no token, one is not in the vocabulary, or they do not fit in the cache.
        """
        self.check(tokens)
        result = [self._pass(part, every) for part in pieces_of(tokens)]
        return np.concatenate(result) if every else result[-1]

    def check(self, tokens: Sequence[int]) -> None:
        """Refuse tokens that cannot be fed; see `feed`."""
        if not len(tokens):
            raise InputError("there is no token to compute: the prompt is empty")
        most = self.description.vocabulary or 0
        wrong = next((token for token in tokens if not 0 <= token < most), None)
        if wrong is not None:
            raise InputError(f"token {wrong} is not one of the model's {most}")
        if self.position + len(tokens) > self.context:
            raise InputError(
                f"{self.position + len(tokens)} tokens do not fit in the context of {self.context};"
                " use a shorter prompt, or ask for fewer tokens"
            )

    def _pass(self, tokens: NDArray[Any], every: bool) -> Reals:
        positions = np.arange(self.position, self.position + len(tokens))
        values: dict[str, Any] = {self.description.inputs[0]: tokens}
        self.operate(range(len(self.description.nodes)), values, positions, every=every)
        self.position += len(tokens)
        result: Reals = values[self.description.outputs[0]]
        return result

    def operate(
        self, indices: range, values: dict[str, Any], positions: NDArray[Any], *, every: bool
    ) -> None:
        """Compute some operations of the network for some tokens.

        Parameters
        ----------
        indices : range
            Of the operations.
        values : dict
            Arrays by name; results are added, what no later operation needs is removed.
        positions : ndarray
            Of the tokens.
        every : bool
            See `feed`.
        """
        logits = self.description.logits
        for index in indices:
            node = self.description.nodes[index]
            operands = {
                operand: values[name] for operand, name in node.inputs.items() if name in values
            }
            if node.output in logits and not every:
                operands = {operand: self.engine.last(array) for operand, array in operands.items()}
            values[node.output] = self._operate(node, operands, positions)
            for name in self._last_use[index]:
                values.pop(name, None)

    def forget(self) -> None:
        """Give back the memory of keys and values."""
        self._caches.clear()

    def _operate(self, node: Node, operands: dict[str, Any], positions: NDArray[Any]) -> Any:
        method = getattr(self.engine, node.operation, None)
        if method is None:
            raise InputError(f"{node.name}: {node.operation} is not run by this engine")
        self.engine.enter(node)
        if node.operation == "attention":
            cache = self._caches.setdefault(node.name, Cache(self.context))
            return method(node, cache, **operands)
        if node.operation == "rope":
            return method(node, positions=positions, **operands)
        return method(node, **operands)


def pieces_of(tokens: Sequence[int]) -> list[NDArray[np.int64]]:
    """Return tokens in the pieces in which they are computed."""
    return [
        np.array(tokens[start : start + PREFILL], np.int64)
        for start in range(0, len(tokens), PREFILL)
    ]


def generate(
    run: Run,
    prompt: Sequence[int],
    count: int,
    end: int | None,
    choose: Callable[[Reals], int] | None = None,
) -> Iterator[int]:
    """Yield tokens that follow a prompt.

    Parameters
    ----------
    run : Run
        Nothing has been fed to it.
    prompt : sequence of int
    count : int
        Most tokens.
    end : int or None
        Token after which nothing follows.
    choose : callable, optional
        Takes the logits of a position and returns the token; default the most likely one.
    """
    if len(prompt) + count > run.context + 1:
        raise InputError(
            f"a prompt of {len(prompt)} tokens and {count} more do not fit in the context of"
            f" {run.context}; use a shorter prompt, or ask for fewer tokens"
        )
    logits = run.feed(prompt)
    for left in range(count, 0, -1):
        token = choose(logits[-1]) if choose else int(logits[-1].argmax())
        yield token
        if token == end or left == 1:
            return
        logits = run.feed([token])


class Reader(Protocol):
    """A step of a network that reads arrays."""

    @property
    def inputs(self) -> Mapping[str, str]:
        """Arrays by operand."""


def last_uses(nodes: Sequence[Reader], outputs: Collection[str]) -> list[list[str]]:
    """Return the arrays that nothing behind a node needs, for each of the nodes."""
    last = {name: index for index, node in enumerate(nodes) for name in node.inputs.values()}
    result: list[list[str]] = [[] for _ in nodes]
    for name, index in last.items():
        if name not in outputs:
            result[index].append(name)
    return result
