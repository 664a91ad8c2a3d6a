# SPDX-License-Identifier: Apache-2.0
"""Factors by which scaled rotations divide the angles of their pairs.

Pair i of `elements` rotated elements turns by ``base^(-2 i / elements)`` a position; its wavelength
is the number of positions of a full turn.
"""

from __future__ import annotations

import math

LOW_FREQUENCY, HIGH_FREQUENCY = 1.0, 4.0
"""Wavelengths in the original context between which ``llama3`` interpolates, by default."""

BETA_FAST, BETA_SLOW = 32.0, 1.0
"""Turns in the original context between which ``yarn`` interpolates, by default."""


def llama3_factors(
    base: float,
    elements: int,
    factor: float,
    original: int,
    low: float = LOW_FREQUENCY,
    high: float = HIGH_FREQUENCY,
) -> tuple[float, ...]:
    """Return the factors of Llama 3.1: long wavelengths are scaled, short ones are not.

    Parameters
    ----------
    base : float
    elements : int
    factor : float
        Of long wavelengths.
    original : int
        Positions before scaling.
    low, high : float
        Full turns in the original context up to which all is scaled, and from which nothing is.
    """
    result = []
    for pair in range(elements // 2):
        turns = original * base ** (-2 * pair / elements) / (2 * math.pi)
        share = min(1.0, max(0.0, (turns - low) / (high - low)))
        result.append(1 / (share + (1 - share) / factor))
    return tuple(result)


def yarn_factors(
    base: float,
    elements: int,
    factor: float,
    original: int,
    fast: float = BETA_FAST,
    slow: float = BETA_SLOW,
    *,
    whole: bool = True,
) -> tuple[float, ...]:
    """Return the factors of YaRN (Peng et al. 2023, arXiv 2309.00071).

    Parameters
    ----------
    base : float
    elements : int
    factor : float
        Of pairs with few turns.
    original : int
        Positions before scaling.
    fast, slow : float
        Full turns in the original context from which nothing is scaled, and up to which all is.
    whole : bool
        Whether the limits are rounded outwards to whole pairs.
    """

    def pair_of(rotations: float) -> float:
        return elements * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))

    first, last = pair_of(fast), pair_of(slow)
    if whole:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, elements - 1)
    result = []
    for pair in range(elements // 2):
        share = min(1.0, max(0.0, (pair - first) / ((last - first) or 0.001)))
        result.append(1 / (1 - share + share / factor))
    return tuple(result)


def yarn_amplitude(factor: float, weight: float = 1.0) -> float:
    """Return the amplitude of YaRN's rotations: growth of scores with the length of contexts."""
    return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0


def long_amplitude(factor: float, original: int) -> float:
    """Return the amplitude of LongRoPE's rotations."""
    return math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
