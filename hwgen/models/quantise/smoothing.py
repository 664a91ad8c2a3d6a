# SPDX-License-Identifier: Apache-2.0
"""Channels of activations made alike before they are quantised, at no cost at run time.

Few channels of a transformer are many times as large as the others and leave a row's other
elements few integers.  Such a channel is divided by a factor where it is made, and its weights are
multiplied by it where it is used (SmoothQuant, Xiao et al. 2023, arXiv 2211.10438): a norm has a
factor for each channel anyway, values of attention and the second factor of a gate are results of
products whose rows can be divided.

The factors f are those that make the error of the products' results small.  A row x of activations
is rounded with a step of max |x_k / f_k|, a row w of weights with one of max |w_k f_k|; errors of
a uniform distribution of that width have a mean square of

    mean over rows (max_k x_k^2 / f_k^2) * sum_k f_k^2 |W_k|^2
    + sum over rows of W (max_k w_k^2 f_k^2) * sum_k mean(x_k^2) / f_k^2

but for a constant.  That is convex in the logarithms of f, and so has one minimum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.models.graph.description import Description, Node, sizes_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Reals = NDArray[np.float32]

WEIGHT = 3.0
"""What an error of weights counts against one of activations: texts that were not calibrated with
find other channels large, so that moderate factors do better there."""

NORMS = ("rms_norm", "layer_norm")
"""Operations whose parameters can be divided, channel by channel."""

_MOST_FACTOR = math.log(1e4)

COST_STEPS, MOST_OUTPUTS = 100, 1024
"""Evaluations of the cost, and output channels of a product that it takes about as many of."""

_RATE, _MOMENTS = 0.3, (0.9, 0.999)
_CACHED = 1 << 16  # numbers that are scaled at a time


@dataclass(frozen=True)
class Site:
    """Products that take the same array, and where its channels can be divided.

    Parameters
    ----------
    products : tuple of Node
    array : str
        The array that they take.
    maker : Node or None
        The norm whose gamma, or the product whose rows, are divided; None if nothing can be.
    heads : tuple of int
        Heads of queries, of keys, and elements, where the array is an attention's.
    """

    products: tuple[Node, ...]
    array: str
    maker: Node | None = None
    heads: tuple[int, int, int] | None = None

    def spread(self, factors: NDArray[Any]) -> NDArray[Any]:
        """Return the factors of the array's channels from those of the maker's."""
        if self.heads is None:
            return factors
        heads, kv_heads, elements = self.heads
        groups = factors[: kv_heads * elements].reshape(kv_heads, 1, elements)
        shape = (kv_heads, heads // kv_heads, elements)
        return np.broadcast_to(groups, shape).reshape(-1)

    def shared(self, channels: int) -> NDArray[np.intp]:
        """Return the factor of each channel of the array, by number."""
        return self.spread(np.arange(channels))


def sites_of(description: Description) -> list[Site]:
    """Return the places where activations are quantised."""
    makers = {node.output: node for node in description.nodes}
    users: dict[str, list[Node]] = {}
    for node in description.nodes:
        for name in node.inputs.values():
            users.setdefault(name, []).append(node)
    result = []
    for array, nodes in users.items():
        products = tuple(
            node for node in nodes if node.operation == "gemm" and node.inputs["x"] == array
        )
        if not products:
            continue
        maker = makers.get(array)
        site = Site(products, array)
        if maker is not None and len(products) == len(nodes):
            site = _with_maker(site, maker, makers, users)
        result.append(site)
    return result


def _with_maker(
    site: Site, maker: Node, makers: Mapping[str, Node], users: Mapping[str, Sequence[Node]]
) -> Site:
    """Return a site with what can be divided before it."""
    if maker.operation in NORMS and len(users[maker.inputs["gamma"]]) == 1:
        return Site(site.products, site.array, maker)
    operand = {"gated": "y", "attention": "value"}.get(maker.operation)
    if operand is None:
        return site
    product = makers.get(maker.inputs[operand])
    if product is None or product.operation != "gemm" or len(users[product.output]) > 1:
        return site
    if len(users[product.inputs["weights"]]) > 1:
        return site
    heads = sizes_of(maker) if maker.operation == "attention" else None
    return Site(site.products, site.array, product, heads)


def chosen_factors(site: Site, x: Reals, weights: Sequence[Reals]) -> Reals | None:
    """Return factors for the maker's channels, None if none are better than 1.

    Parameters
    ----------
    site : Site
    x : ndarray, shape (rows, k)
        What the products take in calibration.
    weights : sequence of ndarray, shape (n, k)
    """
    share = site.shared(x.shape[1])
    cost = SmoothingCost(x, weights, share)
    at = np.zeros(int(share.max()) + 1)
    best, result = cost(at)[0], None
    largest = np.zeros(len(at))
    np.maximum.at(largest, share, cost.squares.max(0))
    at = 0.25 * np.log(largest)
    at -= at.mean()
    slope, square = np.zeros_like(at), np.zeros_like(at)
    for step in range(COST_STEPS):
        value, gradient = cost(at)
        if value < best:
            best, result = value, at.copy()
        slope = _MOMENTS[0] * slope + (1 - _MOMENTS[0]) * gradient  # Adam
        square = _MOMENTS[1] * square + (1 - _MOMENTS[1]) * gradient**2
        of_slope = slope / (1 - _MOMENTS[0] ** (step + 1))
        of_square = square / (1 - _MOMENTS[1] ** (step + 1))
        rate = _RATE * (1 - 0.98 * step / COST_STEPS)
        at = at - rate * of_slope / (np.sqrt(of_square) + 1e-8)
    if result is None:
        return None
    return np.asarray(np.exp(result - result.mean()), np.float32)


def balanced_factors(site: Site, sizes: Reals, weights: Sequence[Reals]) -> Reals:
    """Return factors for the maker's channels where blocks of them are turned before rounding.

    The errors of a block's elements are then alike, and those of results are as the product of
    sum_k mean(x_k^2) / f_k^2 and sum_k f_k^2 |W_k|^2, for inputs as for weights. It is smallest
    where the terms of both sums are equal.

    Parameters
    ----------
    site : Site
    sizes : ndarray, shape (k,)
        Mean squares of what the products take in calibration.
    weights : sequence of ndarray, shape (n, k)
    """
    share = site.shared(len(sizes))
    columns = sum(np.square(matrix).sum(0, dtype=np.float64) for matrix in weights)
    of_x, of_weights = (np.bincount(share, each) for each in (sizes, columns))
    at = np.zeros(len(of_x))
    both = (of_x > 0) & (of_weights > 0)
    at[both] = 0.25 * np.log(of_x[both] / of_weights[both])
    at[both] -= at[both].mean()
    return np.asarray(np.exp(np.clip(at, -_MOST_FACTOR, _MOST_FACTOR)), np.float32)


class SmoothingCost:
    """The logarithm of the error by that of the factors, and its gradient."""

    def __init__(self, x: Reals, weights: Sequence[Reals], share: NDArray[np.intp]) -> None:
        self.squares = np.square(x) + np.float32(1e-20)
        rows = []
        for matrix in weights:
            some = matrix[:: max(1, len(matrix) // MOST_OUTPUTS)]
            size = float(np.square(x @ some.T).mean()) * len(some) / len(matrix)
            rows.append(np.square(some) / np.float32(max(size, 1e-30)))
        self._weights: Reals = np.concatenate(rows).astype(np.float32, copy=False)
        self._sizes = self.squares.mean(0)
        self._columns = self._weights.sum(0)
        self._share = share

    def __call__(self, at: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return the value and its gradient (of a maximum, that of the largest)."""
        square = np.exp(2 * at)[self._share].astype(np.float32)
        steps, by_step = _largest(self.squares, square, 1 / len(self.squares), np.divide)
        grown = self._columns * square
        tall, by_tall = _largest(self._weights, square, WEIGHT, np.multiply)
        shrunk = self._sizes / square
        wide, small = float(grown.sum()), float(shrunk.sum())
        value = steps * wide + tall * small
        slope = (grown * steps - by_step * wide + by_tall * small - shrunk * tall) * (2 / value)
        gradient = np.bincount(self._share, slope, len(at)).astype(np.float64)
        return float(np.log(value)), gradient


def _largest(
    array: Reals, square: Reals, weight: float, scaled: np.ufunc
) -> tuple[float, NDArray[np.float64]]:
    """Return the sum of the largest of scaled rows, times a weight, and by which column it came.

    Some rows are scaled at a time, which stay in the cache of the processor.
    """
    rows, columns = array.shape
    at_once = max(1, _CACHED // columns)
    buffer = np.empty((min(at_once, rows), columns), np.float32)
    places = np.empty(rows, np.intp)
    largest = np.empty(rows, np.float64)
    for start in range(0, rows, at_once):
        end = min(rows, start + at_once)
        some = scaled(array[start:end], square, out=buffer[: end - start])
        places[start:end] = found = some.argmax(1)
        largest[start:end] = some[np.arange(end - start), found]
    result = weight * largest
    return float(result.sum()), np.bincount(places, result, columns).astype(np.float64)
