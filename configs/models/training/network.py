# SPDX-License-Identifier: Apache-2.0
"""A decoder of BitNet b1.58's kind, as it is trained: rounded forwards, as if not backwards.

Every product of a layer and the output layer takes ternary weights (absolute mean of the matrix,
Ma et al. 2024, section 2) and activations rounded to int8 by each token's largest value;
queries, keys and values are rounded to int8 by token and head.  Gradients pass the rounding
unchanged.  Inner norms precede the output projection of attention and the last product of the
feed-forward part, which gates by a squared ReLU (BitNet b1.58 2B4T, section 2).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp

Array = jax.Array
Weights = dict[str, Any]


@dataclass(frozen=True)
class Shape:
    """The sizes of a decoder; the defaults are those of the model that is shipped."""

    vocabulary: int = 1024
    width: int = 512
    layers: int = 6
    heads: int = 8
    kv_heads: int = 2
    hidden: int = 1280
    context: int = 512
    epsilon: float = 1e-5
    rope_base: float = 10000.0

    @property
    def head(self) -> int:
        """The size of a head."""
        return self.width // self.heads

    def products(self) -> dict[str, tuple[int, int]]:
        """Return K and N of the products of a layer."""
        kv = self.kv_heads * self.head
        return {
            "q": (self.width, self.width),
            "k": (self.width, kv),
            "v": (self.width, kv),
            "o": (self.width, self.width),
            "gate": (self.width, self.hidden),
            "up": (self.width, self.hidden),
            "down": (self.hidden, self.width),
        }

    def norms(self) -> dict[str, int]:
        """Return the lengths of the norms of a layer."""
        return {
            "attn_norm": self.width,
            "attn_sub_norm": self.width,
            "ffn_norm": self.width,
            "ffn_sub_norm": self.hidden,
        }

    def as_json(self) -> dict[str, Any]:
        """Return all sizes by name."""
        return asdict(self)


def initial(shape: Shape, key: Array) -> Weights:
    """Draw weights: normal numbers of deviation 1/sqrt(K), norms of ones."""
    keys = iter(jax.random.split(key, len(shape.products()) + 2))
    layers: Weights = {
        name: jax.random.normal(next(keys), (shape.layers, k, n)) * k**-0.5
        for name, (k, n) in shape.products().items()
    }
    layers |= {name: jnp.ones((shape.layers, n)) for name, n in shape.norms().items()}
    return {
        "embedding": jax.random.normal(next(keys), (shape.vocabulary, shape.width)) * 0.02,
        "output": jax.random.normal(next(keys), (shape.width, shape.vocabulary))
        * shape.width**-0.5,
        "norm": jnp.ones(shape.width),
        "layers": layers,
    }


def straight(rounded: Array, x: Array) -> Array:
    """Return `rounded`, whose gradient is that of `x`."""
    return x + jax.lax.stop_gradient(rounded - x)


def ternary(weight: Array) -> tuple[Array, Array]:
    """Return -1, 0 or 1 for each weight, and the matrix's scale: its mean absolute value."""
    scale = jnp.mean(jnp.abs(weight)) + 1e-8
    return jnp.clip(jnp.round(weight / scale), -1, 1), scale


def rounded_weight(weight: Array) -> Array:
    """Return `weight` as ternary numbers times their scale."""
    codes, scale = ternary(weight)
    return straight(codes * scale, weight)


def rounded_rows(x: Array) -> Array:
    """Return `x` rounded to int8 by the largest absolute value of each row."""
    scale = jnp.max(jnp.abs(x), axis=-1, keepdims=True) / 127 + 1e-12
    return straight(jnp.round(x / scale) * scale, x)


def rms_norm(x: Array, gain: Array, epsilon: float) -> Array:
    """Return rows over the root of their mean square, times a gain."""
    x = x.astype(jnp.float32)
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + epsilon) * gain


def rotate_pairs(x: Array, shape: Shape) -> Array:
    """Rotate neighbours of each head by their position; shape (..., tokens, heads, head)."""
    half = shape.head // 2
    rates = shape.rope_base ** (-jnp.arange(half) / half)
    angle = (jnp.arange(x.shape[-3])[:, None] * rates)[:, None]
    u, w = x[..., 0::2], x[..., 1::2]
    c, s = jnp.cos(angle), jnp.sin(angle)
    return jnp.stack([u * c - w * s, w * c + u * s], axis=-1).reshape(x.shape)


def logits(
    weights: Weights, tokens: Array, shape: Shape, *, exact: bool, key: Array, dropout: float
) -> Array:
    """Return the logits of every position.

    Parameters
    ----------
    weights
        As `initial` gives them.
    tokens
        Integers `[batch, tokens]`.
    shape
        The decoder's sizes.
    exact
        Without any rounding: the reference network of the same shape.
    key, dropout
        Which share of what each part of a layer adds is left out, by which random numbers.

    Returns
    -------
    jax.Array
        float32 `[batch, tokens, vocabulary]`.
    """

    def product(x: Array, weight: Array) -> Array:
        if not exact:
            x, weight = rounded_rows(x), rounded_weight(weight)
        return jnp.matmul(
            x.astype(jnp.bfloat16), weight.astype(jnp.bfloat16), preferred_element_type=jnp.float32
        )

    def rows(x: Array) -> Array:
        return x if exact else rounded_rows(x)

    def drop_out(x: Array, key: Array) -> Array:
        if not dropout:
            return x
        return x * jax.random.bernoulli(key, 1 - dropout, x.shape) / (1 - dropout)

    batch, length = tokens.shape
    mask = jnp.tril(jnp.ones((length, length), bool))

    def layer(x: Array, given: tuple[Weights, Array]) -> tuple[Array, None]:
        w, key = given
        first, second = jax.random.split(key)
        y = rms_norm(x, w["attn_norm"], shape.epsilon)
        q, k, v = (product(y, w[name]).reshape(batch, length, -1, shape.head) for name in "qkv")
        q, k, v = (
            rows(part).astype(jnp.bfloat16)
            for part in (rotate_pairs(q, shape), rotate_pairs(k, shape), v)
        )
        y = jax.nn.dot_product_attention(q, k, v, mask=mask[None, None]).reshape(
            batch, length, shape.width
        )
        x = x + drop_out(product(rms_norm(y, w["attn_sub_norm"], shape.epsilon), w["o"]), first)
        y = rms_norm(x, w["ffn_norm"], shape.epsilon)
        y = jnp.square(jax.nn.relu(product(y, w["gate"]))) * product(y, w["up"])
        return x + drop_out(
            product(rms_norm(y, w["ffn_sub_norm"], shape.epsilon), w["down"]), second
        ), None

    x = weights["embedding"][tokens]
    keys = jax.random.split(key, shape.layers)
    x, _ = jax.lax.scan(jax.checkpoint(layer), x, (weights["layers"], keys))
    return product(rms_norm(x, weights["norm"], shape.epsilon), weights["output"])


def loss(weights: Weights, rows: Array, shape: Shape, **how: Any) -> Array:
    """Return nats a token: the mean of -log p of each token of a row but the first."""
    out = jax.nn.log_softmax(logits(weights, rows[:, :-1], shape, **how))
    return -jnp.mean(jnp.take_along_axis(out, rows[:, 1:, None].astype(jnp.int32), axis=-1))
