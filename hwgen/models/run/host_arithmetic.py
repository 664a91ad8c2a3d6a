# SPDX-License-Identifier: Apache-2.0
"""Operations of a decoder that the host of an engine computes, defined to the last bit.

Everything is made of additions, subtractions, multiplications and divisions in double precision, in
the order that stands here, and rounded to single precision once.  Sums run from the first element
to the last.  The C that `flows.build.drivers.decoder_driver` emits does the same operations in the
same order, so that its results are equal in every bit wherever ``double`` is that of IEEE 754; for
`hwgen.models.run.host_functions` it is translated from the source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hwgen.arithmetic.hadamard import hadamard_transform
from hwgen.models.run.host_functions import GATES, exponential, inverse_root, rounded, tanh

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Reals = NDArray[np.float32]
    Wide = NDArray[np.float64]

CODE_MOST = 127
"""Largest magnitude of an integer that a row is turned into."""


def total(x: Wide) -> Wide:
    """Return sums along the last axis, added up from its first element on."""
    result: Wide = np.cumsum(x, axis=-1)[..., -1]
    return result


def rms_norm(x: Reals, gamma: Reals, epsilon: float) -> Reals:
    """Return rows divided by the root of their mean square, times gamma."""
    wide = x.astype(np.float64)
    mean = total(wide * wide) / float(x.shape[1])
    factor = inverse_root(mean + epsilon)[:, None]
    return np.asarray(wide * factor * gamma.astype(np.float64), np.float32)


def head_norm(x: Reals, gamma: Reals, epsilon: float) -> Reals:
    """Return heads of rows divided by the root of their mean square, times gamma."""
    return rms_norm(x.reshape(-1, len(gamma)), gamma, epsilon).reshape(x.shape)


def layer_norm(x: Reals, gamma: Reals, beta: Reals, epsilon: float) -> Reals:
    """Return rows of mean 0 and variance 1, times gamma, plus beta."""
    wide = x.astype(np.float64)
    centred = wide - (total(wide) / float(x.shape[1]))[:, None]
    factor = inverse_root(total(centred * centred) / float(x.shape[1]) + epsilon)[:, None]
    return np.asarray(
        centred * factor * gamma.astype(np.float64) + beta.astype(np.float64), np.float32
    )


def quantise(x: Reals, block: int = 0) -> tuple[NDArray[np.int8], Reals]:
    """Return rows as integers up to `CODE_MOST`, and their scales, 1 of rows of zeros.

    Blocks of so many elements are turned before, see `hwgen.arithmetic.hadamard`, in single
    precision.
    """
    x = hadamard_transform(x, block)
    scales = np.abs(x).max(axis=-1) / np.float32(CODE_MOST)
    scales = np.where(scales > 0, scales, np.float32(1))
    codes = rounded(x.astype(np.float64) / scales.astype(np.float64)[..., None])
    limited = np.minimum(np.maximum(codes, -CODE_MOST), CODE_MOST)
    return limited.astype(np.int8), scales


def dequantise(
    sums: NDArray[np.int32],
    row_scales: Reals,
    scales: Reals,
    offsets: Wide | None,
    codes: NDArray[np.int8],
) -> Reals:
    """Return the numbers that the sums of a product represent.

    Parameters
    ----------
    sums : ndarray of int32, shape (groups, rows, n)
    row_scales : ndarray of float32, shape (rows,)
    scales : ndarray of float32, shape (groups, n)
        Of the weights.
    offsets : ndarray of float64, shape (groups, n), or None
        What each weight is more than its integer times its scale.
    codes : ndarray of int8, shape (rows, k)
        What was multiplied.
    """
    result = np.zeros(sums.shape[1:], np.float64)
    groups = codes.reshape(len(codes), len(sums), -1)
    for group, part in enumerate(sums):
        result = result + part * scales[group].astype(np.float64)
        if offsets is not None:
            added = groups[:, group].sum(axis=1, dtype=np.int64).astype(np.float64)
            result = result + added[:, None] * offsets[group]
    return np.asarray(result * row_scales.astype(np.float64)[:, None], np.float32)


def rope(x: Reals, table: Reals) -> Reals:
    """Return rows with pairs of neighbours turned.

    Parameters
    ----------
    x : ndarray of float32, shape (rows, heads * elements)
    table : ndarray of float32, shape (rows, elements)
        Cosines and sines in turn.
    """
    heads = x.reshape(len(x), -1, table.shape[1]).astype(np.float64)
    wide = table.astype(np.float64)[:, None]
    u, w, c, s = heads[..., ::2], heads[..., 1::2], wide[..., ::2], wide[..., 1::2]
    result = np.empty(heads.shape, np.float32)
    result[..., ::2], result[..., 1::2] = u * c - w * s, w * c + u * s
    return result.reshape(x.shape)


def gated(name: str, x: Reals, y: Reals) -> Reals:
    """Return gate(x) times y, of one of `GATES`."""
    wide, other = x.astype(np.float64), y.astype(np.float64)
    return np.asarray(GATES[name](wide) * other, np.float32)


def add(x: Reals, y: Reals, scale: float = 1.0) -> Reals:
    """Return x times scale, plus y."""
    if scale == 1.0:
        return np.asarray(x + y, np.float32)
    return np.asarray(x.astype(np.float64) * scale + y.astype(np.float64), np.float32)


def soft_cap(x: Reals, cap: float) -> Reals:
    """Return cap * tanh(x / cap)."""
    return np.asarray(tanh(x.astype(np.float64) / cap) * cap, np.float32)


def attend(
    query: NDArray[np.int8],
    query_scales: Reals,
    keys: NDArray[np.int8],
    key_scales: Reals,
    values: NDArray[np.int8],
    value_scales: Reals,
    scale: float,
    cap: float = 0.0,
) -> Reals:
    """Return attention of one position.

    Parameters
    ----------
    query : ndarray of int8, shape (kv_heads, group, elements)
        Heads of queries by the head of keys that they look at.
    query_scales : ndarray of float32, shape (kv_heads, group)
    keys, values : ndarray of int8, shape (kv_heads, positions, elements)
        Those that are looked at.
    key_scales, value_scales : ndarray of float32, shape (kv_heads, positions)
    scale : float
        Factor of scores.
    cap : float
        Soft cap of scores; 0: none.

    Returns
    -------
    ndarray of float32, shape (kv_heads, group, elements)
    """
    # Integers: exact in double precision, in any order.
    products = query.astype(np.float64) @ keys.astype(np.float64).transpose(0, 2, 1)
    each = query_scales.astype(np.float64) * scale
    scores = products * (each[..., None] * key_scales.astype(np.float64)[:, None])
    if cap:
        scores = tanh(scores / cap) * cap
    weights = exponential(scores - scores.max(axis=-1, keepdims=True))
    scaled = weights * value_scales.astype(np.float64)[:, None]
    wide = values.astype(np.float64)
    result = np.empty(query.shape, np.float32)
    for head in range(len(query)):
        for member in range(query.shape[1]):
            parts = scaled[head, member][:, None] * wide[head]
            sums = np.cumsum(parts, axis=0)[-1]
            result[head, member] = sums / total(weights[head, member])
    return result


class Draws:
    """Tokens drawn by their probabilities, from numbers of SplitMix64.

    Parameters
    ----------
    temperature : float
        What logits are divided by, above 0.
    top_k : int or None
        How many of the most likely tokens are drawn from, and those as likely as the last of them.
    seed : int
    """

    def __init__(self, temperature: float, top_k: int | None, seed: int) -> None:
        self.temperature, self.top_k = temperature, top_k
        self._state = seed & _WORD

    def __call__(self, logits: Reals) -> int:
        """Return a token, of logits of shape (vocabulary,)."""
        least = -np.inf
        if self.top_k is not None and self.top_k < len(logits):
            least = np.partition(logits, -self.top_k)[-self.top_k]
        wide = (logits.astype(np.float64) - float(logits.max())) / self.temperature
        shares = np.cumsum(np.where(logits >= least, exponential(wide), 0.0))
        place = int(np.searchsorted(shares, self._uniform() * shares[-1], side="right"))
        return min(place, int(np.flatnonzero(logits >= least)[-1]))

    def _uniform(self) -> float:
        """Return a number of 53 bits in 0..1, by SplitMix64 (doi 10.1145/2660193.2660195)."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _WORD
        word = self._state
        word = ((word ^ word >> 30) * 0xBF58476D1CE4E5B9) & _WORD
        word = ((word ^ word >> 27) * 0x94D049BB133111EB) & _WORD
        return float((word ^ word >> 31) >> 11) * 2.0**-53


_WORD = (1 << 64) - 1
