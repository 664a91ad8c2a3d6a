# SPDX-License-Identifier: Apache-2.0
"""Choice of the next token: the most likely one, or a random one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Sampling:
    """A choice among tokens by their logits; call it with those of one position.

    Parameters
    ----------
    temperature : float
        What logits are divided by before their exponentials are probabilities; 0: the most likely
        token.
    top_k : int or None
        How many of the most likely tokens are drawn from; None: all.
    seed : int
        Of the draws: the same seed and logits give the same tokens.
    """

    temperature: float = 0.0
    top_k: int | None = None
    seed: int = 0
    _random: np.random.Generator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_random", np.random.default_rng(self.seed))

    def __call__(self, logits: NDArray[np.float32]) -> int:
        """Return a token, of logits of shape (vocabulary,)."""
        if not self.temperature:
            return int(logits.argmax())
        order = np.argsort(-logits, kind="stable")[: self.top_k]
        wide = logits[order].astype(np.float64) / self.temperature
        shares = np.cumsum(np.exp(wide - wide[0]))
        place = np.searchsorted(shares, self._random.random() * shares[-1], side="right")
        return int(order[min(int(place), len(order) - 1)])
