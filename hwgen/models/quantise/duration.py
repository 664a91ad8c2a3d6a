# SPDX-License-Identifier: Apache-2.0
"""Time of a quantisation, estimated before it starts from its work and measured rates.

Each step of `hwgen.models.quantise.quantise` is a sum of terms of known size. What a unit of a
term takes is measured by the functions that do the work, on small matrices, within a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.models.graph.description import Description, Node, sizes_of
from hwgen.models.quantise.calibration import MOST_CALIBRATION, MOST_OF_A_TEXT, ROWS
from hwgen.models.quantise.compensation import compensated, factor
from hwgen.models.quantise.quantise import THREADS
from hwgen.models.quantise.rotation import rotated_product
from hwgen.models.quantise.smoothing import COST_STEPS, MOST_OUTPUTS, Site, SmoothingCost, sites_of
from hwgen.models.run.exact_products import one_thread

if TYPE_CHECKING:
    from hwgen.models.quantise.recipe import Recipe

_SHORT = 2e11
"""Operations of arithmetic below which nothing is measured: a matter of seconds."""

_LONG = 5000  # a typical length of rows, by which compensation multiplies the weights
_ATTENTION = 3  # operations on scores count as so many multiply-accumulates


@dataclass(frozen=True)
class Step:
    """A step of a quantisation.

    Parameters
    ----------
    name : str
    seconds : float
    option : str
        Option of `hwgen model quantise` that shortens it or leaves it out.
    """

    name: str
    seconds: float
    option: str


@dataclass(frozen=True)
class Rates:
    """Seconds of a unit of work, with one thread.

    Parameters
    ----------
    single, double : float
        A multiply-accumulate of matrices, in single and in double precision.
    factor : float
        Of the cube of the length of a matrix of moments.
    element, term : float
        A weight that is rounded with compensation, and what each element of its row adds.
    cost : float
        An element of the cost of smoothing.
    """

    single: float
    double: float
    factor: float
    element: float
    term: float
    cost: float


def measured_rates() -> Rates:
    """Return the rates of this machine at this moment."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2048, 1024)).astype(np.float32)
    square = x[:1024]
    wide = square.astype(np.float64)
    moments = (x.T @ x / len(x)).astype(np.float64)
    some = 256

    def rounding(k: int) -> float:
        order, spread = factor(moments[:k, :k], 0.01)
        weights = np.ascontiguousarray(x[:, :k])
        scales = np.full((len(x), 1), 0.03, np.float32)
        return _seconds(lambda: compensated(weights, scales, 127, order, spread)) / weights.size

    with one_thread():
        short, long = rounding(some), rounding(len(square))
        term = max(0.0, long - short) / (len(square) - some)
        cost = SmoothingCost(square, [square], np.arange(len(square)))
        at = np.zeros(len(square))
        return Rates(
            single=_seconds(lambda: x[:some] @ square.T) / (some * square.size),
            double=_seconds(lambda: rotated_product(x[:some], wide)) / (some * square.size),
            factor=_seconds(lambda: factor(moments, 0.01)) / len(moments) ** 3,
            element=max(0.0, short - some * term),
            term=term,
            cost=_seconds(lambda: cost(at)) / (2 * square.size),
        )


def _seconds(work: Callable[[], Any]) -> float:
    """Return the shorter of two durations."""
    result = []
    for _ in range(2):
        start = time.perf_counter()
        work()
        result.append(time.perf_counter() - start)
    return min(result)


def estimated_steps(
    description: Description, texts: Sequence[int], recipe: Recipe, rates: Rates | None = None
) -> list[Step]:
    """Return the steps of a quantisation that take time; none where all are short.

    Parameters
    ----------
    description : Description
        Of a decoder in real numbers.
    texts : sequence of int
        Tokens of each text of calibration.
    recipe : Recipe
    rates : Rates, optional
        By default those of this machine, which are measured.
    """
    tokens = min(sum(min(count, MOST_OF_A_TEXT) for count in texts), MOST_CALIBRATION)
    sites = sites_of(description)
    shapes = [_shape(description, node) for site in sites for node in site.products]
    weights = sum(n * k for n, k in shapes)
    if weights * (tokens + (_LONG if recipe.compensates else 0)) < _SHORT:
        return []
    rates = rates or measured_rates()
    result = [_calibration(description, sites, tokens, recipe, rates)]
    if recipe.rotates:
        result.append(_rotation(description, sites, rates))
    if recipe.smooth and not recipe.hadamard and recipe.weights != "original":
        rows = min(tokens, ROWS)
        costs = [
            (site, _length(description, site) * (rows + sum(
                min(_shape(description, node)[0], 2 * MOST_OUTPUTS) for node in site.products
            )))
            for site in sites if site.maker is not None
        ]  # fmt: skip
        seconds = _parallel((site, COST_STEPS * rates.cost * elements) for site, elements in costs)
        result.append(Step("smoothing", seconds, "--no-smooth"))
    if recipe.compensates:
        factors = [(site, rates.factor * _length(description, site) ** 3) for site in sites]
        rounded = [
            (site, n * k * (rates.element + k * rates.term))
            for site in sites
            for n, k in (_shape(description, node) for node in site.products)
        ]
        result.append(
            Step("compensation", _parallel(factors) + _parallel(rounded), "--no-compensate")
        )
    return result


def _shape(description: Description, node: Node) -> tuple[int, int]:
    """Return the rows and the length of rows of a product's weights."""
    rows, length = description.tensors[node.inputs["weights"]].shape
    return rows, length


def _length(description: Description, site: Site) -> int:
    return _shape(description, site.products[0])[1]


def _parallel(terms: Iterable[tuple[Site, float]]) -> float:
    """Return the time of work whose parts of a layer are shared among threads."""
    layers: dict[int | None, list[float]] = {}
    for site, seconds in terms:
        layers.setdefault(site.products[0].layer, []).append(seconds)
    return sum(max(max(each), sum(each) / THREADS) for each in layers.values())


def _calibration(
    description: Description, sites: Sequence[Site], tokens: int, recipe: Recipe, rates: Rates
) -> Step:
    """Return the forward pass, with moments of the inputs of products."""
    elements = 0
    for site in sites:
        if recipe.compensates:
            elements += _length(description, site) ** 2
        for node in site.products:
            n, k = _shape(description, node)
            elements += n * k * (node.output not in description.outputs)
    for node in description.nodes:
        if node.operation == "attention":
            heads, _, length = sizes_of(node)
            elements += _ATTENTION * min(tokens, MOST_OF_A_TEXT) * heads * length
    return Step("calibration", tokens * elements * rates.single, "a shorter text of --calibration")


def _rotation(description: Description, sites: Sequence[Site], rates: Rates) -> Step:
    """Return the products of weights and the rotation, and of the table of tokens and it."""
    embed = next(node for node in description.nodes if node.operation == "embed")
    rows, width = description.tensors[embed.inputs["table"]].shape
    terms = [
        (site, rates.double * width * n * k)
        for site in sites
        for n, k in (_shape(description, node) for node in site.products)
    ]
    return Step("rotation", _parallel(terms) + rates.double * width * rows * width, "--no-rotate")
