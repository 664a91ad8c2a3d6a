# SPDX-License-Identifier: Apache-2.0
"""Operands of a model's products, observed on some text."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.arithmetic.hadamard import hadamard_transform
from hwgen.models.quantise.compensation import factor
from hwgen.models.run.engine import Cache, Run, pieces_of
from hwgen.models.run.float_engine import FloatEngine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.models.files.store import Model
    from hwgen.models.graph.description import Node

    Reals = NDArray[np.float32]

MOST_CALIBRATION = 8192
"""Tokens of calibration in all; what comes behind them is left out."""

MOST_OF_A_TEXT = 2048
"""Tokens that are read of each text."""

ROWS = 3000
"""Rows that are kept of each array."""


class Inputs:
    """Operands of products in calibration.

    Attributes
    ----------
    rows : ndarray, shape (rows, k)
        Some of the rows.
    moments : ndarray or None, shape (k, k)
        Sum of x xᵀ over all rows.
    count : int
        Rows of the sum.
    """

    def __init__(self) -> None:
        self.rows: Reals = np.zeros((0, 0), np.float32)
        self.moments: Reals | None = None
        self.count = 0
        self._pieces: list[Reals] = []
        self._factor: tuple[NDArray[np.intp], Reals] | None = None

    def add(self, x: Reals, share: float, *, moments: bool) -> None:
        """Take rows, and keep a share of them."""
        step = max(1, round(1 / share))
        self._pieces.append(x[-self.count % step :: step].copy())
        self.count += len(x)
        if moments:
            sums = x.T @ x
            self.moments = sums if self.moments is None else self.moments + sums

    def done(self) -> None:
        """Put what was kept together, if there is something."""
        if self._pieces:
            self.rows, self._pieces = np.concatenate(self._pieces), []

    def divide(self, factors: Reals) -> None:
        """Divide channels."""
        self.rows = self.rows / factors
        if self.moments is not None:
            self.moments = self.moments / (factors[:, None] * factors)

    def rotate(self, block: int) -> None:
        """Turn blocks of channels, as hardware does before it quantises them."""
        self.rows = hadamard_transform(self.rows, block)
        if self.moments is not None:
            self.moments = hadamard_transform(hadamard_transform(self.moments, block).T, block)

    @property
    def sizes(self) -> Reals:
        """Mean squares of the channels."""
        assert self.moments is not None
        return np.asarray(np.diagonal(self.moments) / np.float32(self.count))

    def factor(self, bits: int) -> tuple[NDArray[np.intp], Reals]:
        """Return the error factor of `hwgen.models.quantise.compensation.factor`, cached.

        Parameters
        ----------
        bits : int
            Of the integers that the inputs become, whose rounding counts as noise.
        """
        if self._factor is None:
            assert self.moments is not None
            step = np.abs(self.rows).max(1) / ((1 << (bits - 1)) - 1)
            moments = self.moments.astype(np.float64) / self.count
            self._factor = factor(moments, float(np.square(step).mean()) / 12)
        return self._factor


class _Watching(FloatEngine):
    """Keeps what products take, and the largest magnitudes of queries, keys and values."""

    def __init__(
        self, model: Model, arrays: Collection[str], share: float, moments: bool, block: int
    ) -> None:
        super().__init__(model)
        self.operands = {name: Inputs() for name in arrays}
        self.largest: dict[str, Reals] = {}
        self._share, self._moments, self._block = share, moments, block
        self._last = ""

    def begin(self) -> None:
        """Take notice that other rows follow."""
        self._last = ""

    def gemm(self, node: Node, x: Reals) -> Reals:
        """Return the product, and keep x; logits, which nothing follows, are not computed."""
        name = node.inputs["x"]
        if name != self._last:  # products that take the same array follow one another
            self.operands[name].add(x, self._share, moments=self._moments)
        self._last = name
        if node.output in self.model.description.outputs:
            return np.zeros((len(x), 1), np.float32)
        return super().gemm(node, x)

    def attention(self, node: Node, cache: Cache, query: Reals, key: Reals, value: Reals) -> Reals:
        """Return the attention, and keep the largest magnitudes of channels."""
        block = self._block
        seen = {"query": query, "key": key, "value": value}
        if block:
            seen |= {
                "query": hadamard_transform(query, block) / np.float32(block),
                "key": hadamard_transform(key, block),
            }
        for operand, rows in seen.items():
            name = f"{node.name}.{operand}"
            result = np.abs(rows).max(0)
            self.largest[name] = np.maximum(self.largest.get(name, result), result)
        return super().attention(node, cache, query, key, value)


class Calibration:
    """Operands of products on texts, and the range of queries, keys and values.

    The operations are computed some at a time, for all texts, so that no more weights and operands
    are in memory than those of a layer.

    Parameters
    ----------
    model : Model
        A decoder in real numbers.
    texts : sequence of sequences of int
        Tokens, `MOST_OF_A_TEXT` of each and `MOST_CALIBRATION` in all.
    arrays : collection of str
        What products take.
    moments : bool
        Whether moments of second order are wanted.
    block : int
        Elements of blocks in which hardware turns queries, divided by as many, and keys; 0: none.

    Attributes
    ----------
    operands : dict of Inputs
        By array; those of the operations that have been computed.
    largest : dict of ndarray
        Largest magnitude of each channel by ``NODE.query``, ``NODE.key`` and ``NODE.value``.

    Raises
    ------
    InputError
        If a text cannot be fed to the model.
    """

    def __init__(
        self,
        model: Model,
        texts: Sequence[Sequence[int]],
        arrays: Collection[str],
        *,
        moments: bool,
        block: int = 0,
    ) -> None:
        most = min(MOST_OF_A_TEXT, model.description.context or MOST_OF_A_TEXT)
        chosen, count = [], 0
        for text in texts:
            chosen.append(text[: min(most, MOST_CALIBRATION - count)])
            count += len(chosen[-1])
        self._engine = _Watching(model, arrays, min(1.0, ROWS / count), moments, block)
        self.operands, self.largest = self._engine.operands, self._engine.largest
        self._texts: list[tuple[Run, list[tuple[dict[str, Any], NDArray[Any]]]]] = []
        for tokens in filter(len, chosen):
            run, at = Run(self._engine), 0
            run.check(tokens)
            pieces = []
            for piece in pieces_of(tokens):
                values = {model.description.inputs[0]: piece}
                pieces.append((values, np.arange(at, at + len(piece))))
                at += len(piece)
            self._texts.append((run, pieces))

    def advance(self, indices: range) -> None:
        """Compute the next operations for all texts; what their products take is in `operands`."""
        for run, pieces in self._texts:
            for values, positions in pieces:
                self._engine.begin()
                run.operate(indices, values, positions, every=True)
            run.forget()
        self._engine.forget()
        for inputs in self.operands.values():
            inputs.done()
