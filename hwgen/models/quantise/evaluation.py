# SPDX-License-Identifier: Apache-2.0
"""Comparison of the predictions of two engines on a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.models.run.engine import Engine, Run
from hwgen.models.run.exact_products import one_thread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Reals = NDArray[np.float32]


@dataclass(frozen=True)
class Evaluation:
    """Distance of a model's predictions from another one's, given the same previous tokens.

    Parameters
    ----------
    positions : int
    top1 : float
        Share of the positions where both find the same token the most likely.
    kl : float
        Mean Kullback-Leibler divergence from the reference, in nats.
    loss, reference_loss : float
        Mean of minus the logarithm of the probability of the text's next token, in nats.
    """

    positions: int
    top1: float
    kl: float
    loss: float
    reference_loss: float

    def document(self) -> dict[str, Any]:
        """Return plain values."""
        return {name: round(value, 6) for name, value in asdict(self).items()}


def compare_predictions(reference: Engine, engine: Engine, tokens: Sequence[int]) -> Evaluation:
    """Return the distance of an engine's predictions from those of a reference, on a text."""
    return distance(log_probabilities(engine, tokens), log_probabilities(reference, tokens), tokens)


def log_probabilities(engine: Engine, tokens: Sequence[int]) -> NDArray[np.float64]:
    """Return the logarithm of the probability of each token behind each position of a text."""
    with one_thread():
        return _log_softmax(Run(engine).feed(tokens, every=True))


def distance(
    ours: NDArray[np.float64], wanted: NDArray[np.float64], tokens: Sequence[int]
) -> Evaluation:
    """Return the distance of predictions from others, both as of `log_probabilities`."""
    places = np.arange(len(tokens) - 1), np.asarray(tokens[1:])
    return Evaluation(
        len(tokens),
        float(np.mean(ours.argmax(1) == wanted.argmax(1))),
        float((np.exp(wanted) * (wanted - ours)).sum(1).mean()),
        float(-ours[places].mean()) if len(tokens) > 1 else 0.0,
        float(-wanted[places].mean()) if len(tokens) > 1 else 0.0,
    )


def _log_softmax(logits: Reals) -> NDArray[np.float64]:
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    return np.asarray(wide - np.log(np.exp(wide).sum(axis=1, keepdims=True)))
