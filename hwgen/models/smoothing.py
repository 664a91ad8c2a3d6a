# SPDX-License-Identifier: Apache-2.0
"""Channels of activations made alike before they are quantised, at no cost at run time.

Few channels of a transformer are many times as large as the others and leave a row's other
elements few integers.  Such a channel is divided by a factor where it is made, and its weights are
multiplied by it where it is used (SmoothQuant, Xiao et al. 2023, arXiv 2211.10438): a norm has a
factor for each channel anyway, values of attention and the second factor of a gate are results of
products whose rows can be divided.  The strength is searched, for each place, by the error of the
products' results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hwgen.models.description import Description, Node
from hwgen.models.engine import sizes_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Reals = NDArray[np.float32]

STRENGTHS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
"""Shares of a channel's size that are moved into the weights; the best is taken."""

_CHANNELS = 512


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

    def spread(self, factors: Reals) -> Reals:
        """Return the factors of the array's channels from those of the maker's."""
        if self.heads is None:
            return factors
        heads, kv_heads, elements = self.heads
        groups = factors.reshape(kv_heads, 1, elements)
        shape = (kv_heads, heads // kv_heads, elements)
        return np.broadcast_to(groups, shape).reshape(-1)

    def gathered(self, largest: Reals) -> Reals:
        """Return the largest of those channels of the array that share a factor."""
        if self.heads is None:
            return largest
        heads, kv_heads, elements = self.heads
        return np.asarray(largest.reshape(kv_heads, heads // kv_heads, elements).max(1).reshape(-1))


def sites_of(description: Description) -> list[Site]:
    """Return the places where activations are quantised."""
    makers = {node.output: node for node in description.nodes}
    users: dict[str, list[Node]] = {}
    for node in description.nodes:
        for name in node.inputs.values():
            users.setdefault(name, []).append(node)
    found = []
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
        found.append(site)
    return found


def _with_maker(
    site: Site, maker: Node, makers: Mapping[str, Node], users: Mapping[str, Sequence[Node]]
) -> Site:
    """Return a site with what can be divided before it."""
    if maker.operation == "rms_norm" and len(users[maker.inputs["gamma"]]) == 1:
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


def chosen_factors(
    site: Site,
    x: Reals,
    weights: Sequence[Reals],
    quantised: Callable[[Reals], Reals],
    activations: Callable[[Reals], Reals],
) -> Reals | None:
    """Return factors for the maker's channels, None if none is better than 1.

    Parameters
    ----------
    site : Site
    x : ndarray, shape (rows, k)
        What the products take in calibration.
    weights : sequence of ndarray, shape (n, k)
    quantised, activations : callable
        Weights and rows as integers have them, in real numbers.
    """
    largest = site.gathered(np.maximum(np.abs(x).max(0), 1e-5))
    of_weights = site.gathered(np.maximum(np.max([np.abs(w).max(0) for w in weights], 0), 1e-5))
    # Some output channels tell enough of an error, those of logits are many.
    weights = [w[:: max(1, len(w) // _CHANNELS)] for w in weights]
    wanted = [x @ w.T for w in weights]
    best, found = np.inf, None
    for strength in STRENGTHS:
        factors = np.ones_like(largest)
        if strength:
            moved = largest**strength / of_weights ** (1 - strength)
            factors = np.asarray(moved / np.exp(np.log(moved).mean()), np.float32)
        spread = site.spread(factors)
        rows = activations(x / spread)
        error = sum(
            float(
                np.square(rows @ quantised(w * spread).T - y).sum() / max(1e-30, np.square(y).sum())
            )
            for w, y in zip(weights, wanted, strict=True)
        )
        if error < best:
            best, found = error, (factors if strength else None)
    return found
