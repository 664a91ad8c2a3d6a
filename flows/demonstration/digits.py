# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits: data, a small network, and its quantisation to integer products.

The data are the 1797 scans of 8x8 pixels that scikit-learn ships; 360 of them, never seen in
training, are the test split.  The network has one hidden layer with ReLU.  Weight formats of fewer
than four bits get weights that are ternary already in training, ``s * {-1, 0, 1}`` with one scale
`s` per column (`train`, `wants_ternary`).  `quantise` turns a network into integers of the given
formats so that an accelerator computes the products ``A . W`` and the host does the rest in
integers too:

- pixels 0..16 become activations ``(pixel * limit + 8) // 16``, `limit` the largest value of the
  activation format (activations are never negative, so half of a signed format is unused);
- a weight is ``round(w / s)`` with one scale `s` per column that maps the largest magnitude of
  the column to the largest of the format (ternary weights stay what they are); an unsigned format
  stores it with an offset of half its range, and the host subtracts ``offset * sum(A[m, :])``;
- the bias is ``round(b / (s * activation scale))``, added by the host;
- the next layer's activations are ``clip((max(C + bias, 0) * multiplier + half) >> shift)`` to
  ``0 .. limit``, with an integer multiplier per column, one shift per layer and ``half =
  1 << (shift - 1)``; the scale of the hidden activations maps the largest that the training
  split produces to `limit`;
- the scores of the last layer are ``(C + bias) * multiplier``; the largest is the answer.  Its
  shift makes activations of them as well, about zero, for an engine whose results are all of that
  format (`flows.demonstration.on_engine`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwgen.errors import InputError
from hwgen.formats import IntegerFormat

Integers = NDArray[np.integer]
Floats = NDArray[np.float64]
Product = Callable[[Integers, Integers], Integers]
"""``C = A . W`` of integers: the RTL, the golden model, or NumPy."""

CLASSES = 10
PIXEL_MAX = 16
TEST_IMAGES = 360
NARROWEST = 4
"""Bits of the narrowest format to which a network, trained without regard to it, is rounded."""
MULTIPLIER_BITS = 16

HIDDEN, HIDDEN_TERNARY = 32, 64
"""Widths of the hidden layer."""


@dataclass(frozen=True)
class Digits:
    """The data set, split.

    Parameters
    ----------
    train_pixels, test_pixels : ndarray of int64, shape (images, 64)
        Grey values 0..16, row by row.
    train_labels, test_labels : ndarray of int64, shape (images,)
    """

    train_pixels: Integers
    train_labels: Integers
    test_pixels: Integers
    test_labels: Integers


def load(seed: int = 0) -> Digits:
    """Return the digits, shuffled by `seed` and split."""
    from sklearn.datasets import load_digits

    data = load_digits()
    order = np.random.default_rng(seed).permutation(len(data.target))
    pixels, labels = data.data.astype(np.int64)[order], data.target.astype(np.int64)[order]
    test, train = slice(TEST_IMAGES), slice(TEST_IMAGES, None)
    return Digits(pixels[train], labels[train], pixels[test], labels[test])


def accuracy(predictions: Integers, labels: Integers) -> float:
    """Return the fraction of predictions that are right."""
    return float(np.mean(predictions == labels))


# -- the network in floating point ---------------------------------------------------------------


@dataclass(frozen=True)
class Network:
    """A multilayer perceptron.

    Parameters
    ----------
    weights : tuple of ndarray, shape (inputs, outputs)
    biases : tuple of ndarray, shape (outputs,)
    """

    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]

    def activations(self, pixels: Integers) -> list[Floats]:
        """Return the input of every layer, and last the scores."""
        values = [pixels / PIXEL_MAX]
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            total = _product(values[-1], weight) + bias
            values.append(total if index == len(self.weights) - 1 else np.maximum(total, 0))
        return values

    def classify(self, pixels: Integers) -> Integers:
        """Return the digit of every image."""
        return self.activations(pixels)[-1].argmax(axis=1)


def wants_ternary(weight: Any) -> bool:
    """Return whether a weight format is too narrow for rounding, and holds -1, 0 and 1."""
    return weight.is_integer and 2 <= weight.width < NARROWEST


def train(
    digits: Digits,
    hidden: int = 32,
    *,
    ternary: bool = False,
    epochs: int = 200,
    batch: int = 64,
    seed: int = 1,
) -> Network:
    """Train a network with one hidden layer: cross-entropy, Adam, cosine learning rate.

    Ternary training is quantisation-aware: every step ternarises the real weights (`ternarise`),
    computes with the ternary ones, and applies the gradients with respect to those to the real
    ones (the straight-through estimator).  Activations stay real: rounding them afterwards, to four
    bits or more, costs next to nothing.

    Parameters
    ----------
    digits : Digits
    hidden : int
        Width of the hidden layer.
    ternary : bool
        Whether every weight is to be -1, 0 or 1 times the scale of its column.
    epochs, batch : int
    seed : int
        Of the first weights and of the order of the images; the same seed gives the same network
        (see `_product`).
    """
    rng = np.random.default_rng(seed)
    sizes = (digits.train_pixels.shape[1], hidden, CLASSES)
    weights = tuple(rng.normal(0, np.sqrt(2 / a), (a, b)) for a, b in pairwise(sizes))
    biases = tuple(np.zeros(size) for size in sizes[1:])
    adam = _Adam([*weights, *biases])

    def network() -> Network:
        return Network(tuple(map(ternarise, weights)) if ternary else weights, biases)

    targets = np.eye(CLASSES)[digits.train_labels]
    for epoch in range(epochs):
        rate = 1.5e-3 * (1 + np.cos(np.pi * epoch / epochs))
        order = rng.permutation(len(targets))
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            adam.step(_gradients(network(), digits.train_pixels[chosen], targets[chosen]), rate)
    return network()


def ternarise(weight: Floats) -> Floats:
    """Round to -1, 0 and 1 times the mean magnitude of each column, as BitNet b1.58 does."""
    # The means by `_product`, whose sums are the same on every machine.
    mean = _product(np.ones((1, len(weight))), np.abs(weight))[0] / len(weight)
    scale = np.where(mean > 0, mean, 1.0)
    return np.clip(np.rint(weight / scale), -1, 1) * scale


def _gradients(network: Network, pixels: Integers, targets: Floats) -> list[Floats]:
    """Return the gradients of the mean cross-entropy, and of a little weight decay."""
    values = network.activations(pixels)
    odds = np.exp(values[-1] - values[-1].max(axis=1, keepdims=True))
    error = (odds / odds.sum(axis=1, keepdims=True) - targets) / len(targets)
    weights: list[Floats] = []
    biases: list[Floats] = []
    for value, weight in zip(values[-2::-1], network.weights[::-1], strict=True):
        weights.insert(0, _product(value.T, error) + 1e-4 * weight)
        biases.insert(0, _product(np.ones((1, len(error))), error)[0])
        error = _product(error, weight.T) * (value > 0)
    return [*weights, *biases]


def _product(a: Floats, b: Floats) -> Floats:
    """Multiply with both operands rounded to 18 significant bits of their largest element.

    Every partial sum is then exact in float64, so that its order, which is the linear algebra
    library's choice, does not matter: training, which would magnify the last bit a millionfold,
    ends in the same network on every machine.
    """

    def rounded(x: Floats) -> Floats:
        step = 2.0 ** (int(np.frexp(np.abs(x).max())[1]) - 18)
        return np.rint(x / step) * step

    return rounded(a) @ rounded(b)


class _Adam:
    """The optimiser: changes the parameters in place."""

    def __init__(self, parameters: Sequence[Floats]) -> None:
        self._parameters = parameters
        self._mean = [np.zeros_like(p) for p in parameters]
        self._square = [np.zeros_like(p) for p in parameters]
        self._steps = 0

    def step(self, gradients: Sequence[Floats], rate: float) -> None:
        self._steps += 1
        state = zip(self._parameters, self._mean, self._square, gradients, strict=True)
        for parameter, mean, square, gradient in state:
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            size = np.sqrt(square / (1 - 0.999**self._steps)) + 1e-8
            parameter -= rate * mean / (1 - 0.9**self._steps) / size


# -- the network in integers ---------------------------------------------------------------------


@dataclass(frozen=True)
class Layer:
    """One quantised layer; the module's docstring gives its arithmetic.

    Parameters
    ----------
    weight : ndarray, shape (K, N)
        What the accelerator multiplies by, in the weight format.
    offset : int
        What was added to every weight to make it unsigned.
    bias, multiplier : ndarray of int64, shape (N,)
    shift : int
        At least 1.
    """

    weight: Integers
    offset: int
    bias: Integers
    multiplier: Integers
    shift: int

    def totals(self, a: Integers, c: Integers) -> Integers:
        """Return ``C`` with the bias and without the offset of the weights."""
        return c.astype(np.int64) - self.offset * a.sum(axis=1, dtype=np.int64)[:, None] + self.bias

    def requantise(self, totals: Integers, limit: int) -> Integers:
        """Return the next layer's activations, before they take their storage type."""
        scaled = np.maximum(totals, 0) * self.multiplier
        return np.minimum((scaled + (1 << (self.shift - 1))) >> self.shift, limit)


@dataclass(frozen=True)
class QuantisedNetwork:
    """A network in integers.

    Parameters
    ----------
    layers : tuple of Layer
    activation : IntegerFormat
    """

    layers: tuple[Layer, ...]
    activation: IntegerFormat

    def inputs(self, pixels: Integers) -> Integers:
        """Return pixels as activations of the first layer."""
        scaled = (pixels * self.activation.max + PIXEL_MAX // 2) // PIXEL_MAX
        return scaled.astype(self.activation.dtype)

    def classify(self, pixels: Integers, product: Product) -> Integers:
        """Return the digit of every image, with `product` called once a layer."""
        limit, dtype = self.activation.max, self.activation.dtype
        a = self.inputs(pixels)
        for layer in self.layers[:-1]:
            a = layer.requantise(layer.totals(a, product(a, layer.weight)), limit).astype(dtype)
        last = self.layers[-1]
        return (last.totals(a, product(a, last.weight)) * last.multiplier).argmax(axis=1)


def quantise(
    network: Network, pixels: Integers, activation: Any, weight: Any, accumulator: Any
) -> QuantisedNetwork:
    """Quantise a trained network.

    Parameters
    ----------
    network : Network
        Trained ternary if the weight format wants that (`wants_ternary`).
    pixels : ndarray, shape (images, 64)
        Images that show how large activations become; of the training split.
    activation, weight, accumulator : IntegerFormat
        Formats of the accelerator.

    Raises
    ------
    InputError
        If a format is not an integer that the network can use, or a sum may exceed the
        accumulator.
    """
    for name, fmt, narrowest in (("activation", activation, NARROWEST), ("weight", weight, 2)):
        if not fmt.is_integer or fmt.width < narrowest:
            raise InputError(
                f"{name}: the network cannot use {fmt}; choose a configuration whose activations"
                f" are integers of at least {NARROWEST} bits and whose weights are integers of two"
                " bits or more"
            )
    values = network.activations(pixels)
    # The real value of one step of every layer's input, and last of the scores, of both signs.
    steps = [value.max() / activation.max for value in values[:-1]]
    steps[0] = 1 / activation.max
    steps.append(np.abs(values[-1]).max() / (activation.max - middle(activation)))
    layers = []
    for index, (real, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        signed, scale = _quantise_weights(real, weight)
        offset = 0 if weight.signed else 1 << (weight.width - 1)
        stored = (signed + offset).astype(weight.dtype)
        _check_range(index, stored, activation.max, accumulator)
        factor = steps[index] * scale / steps[index + 1]
        shift = max(1, MULTIPLIER_BITS - int(np.frexp(factor.max())[1]))
        layers.append(
            Layer(
                weight=stored,
                offset=offset,
                bias=_round(bias / (steps[index] * scale)),
                multiplier=_round(factor * 2.0**shift),
                shift=shift,
            )
        )
    return QuantisedNetwork(tuple(layers), activation)


def middle(fmt: IntegerFormat) -> int:
    """Return the number that stands for zero in scores of a format."""
    return (fmt.min + fmt.max + 1) // 2


def _quantise_weights(real: Floats, fmt: IntegerFormat) -> tuple[Integers, Floats]:
    """Return symmetric integers and the scale of every column."""
    largest = (1 << (fmt.width - 1)) - 1
    peak = np.abs(real).max(axis=0)
    scale = np.where(peak > 0, peak, 1.0) / largest
    return _round(real / scale), scale


def _round(values: Floats) -> Integers:
    return np.rint(values).astype(np.int64)


def _check_range(index: int, weight: Integers, limit: int, accumulator: IntegerFormat) -> None:
    """Check that no sum of the layer, in whatever order, leaves the accumulator's range."""
    wide = weight.astype(np.int64)
    low = limit * int(np.minimum(wide, 0).sum(axis=0).min())
    high = limit * int(np.maximum(wide, 0).sum(axis=0).max())
    if low < accumulator.min or high > accumulator.max:
        raise InputError(
            f"accumulator: sums of layer {index + 1} reach {low}..{high}, but {accumulator} holds"
            f" {accumulator.min}..{accumulator.max}; choose a wider accumulator, or exact"
        )
