# SPDX-License-Identifier: Apache-2.0
"""Train a ternary language model from scratch, on one accelerator or a processor.

    python -m configs.models.training.ternary --text DIR --output DIR [--steps 4000] [--exact]

`DIR` of the text is what `configs.models.training.text` writes.  `weights.npz`, `shape.json` and
`training.json` (loss over the steps, bits per byte of the text held out, seed) are written.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]
from numpy.typing import NDArray

from configs.models.training import command
from configs.models.training.network import Array, Shape, Weights, initial, loss, ternary
from hwgen.errors import InputError


def windows(tokens: NDArray[Any], batch: int, length: int, seed: int) -> Iterator[NDArray[Any]]:
    """Yield batches of random stretches of `length + 1` tokens, without end."""
    rng = np.random.default_rng(seed)
    while True:
        start = rng.integers(0, len(tokens) - length, batch)
        yield tokens[start[:, None] + np.arange(length + 1)]


def validation_loss(
    weights: Weights, tokens: NDArray[Any], shape: Shape, exact: bool, batch: int
) -> float:
    """Return the mean loss a token of the validation text, in consecutive pieces."""
    count = (len(tokens) - 1) // shape.context
    rows = np.stack([tokens[i * shape.context :][: shape.context + 1] for i in range(count)])
    total = 0.0
    for i in range(0, count, batch):
        part = rows[i : i + batch]
        total += float(_evaluate(weights, jnp.asarray(part), shape, exact)) * len(part)
    return total / count


@jax.jit(static_argnums=(2, 3))
def _evaluate(weights: Weights, rows: Array, shape: Shape, exact: bool) -> Array:
    return loss(weights, rows, shape, exact=exact, key=jax.random.key(0), dropout=0.0)


def train(
    text: Path,
    shape: Shape,
    *,
    steps: int,
    batch: int,
    rate: float,
    decay: float,
    dropout: float,
    seed: int,
    exact: bool,
    every: int,
) -> tuple[Weights, dict[str, Any]]:
    """Train; return the weights that were best on the text held out, and a record.

    Parameters
    ----------
    text
        Directory with `train.npy`, `held.npy` and `text.json`.
    shape
        The decoder's sizes; its vocabulary must hold every token.
    steps, batch
        Steps of the optimiser, stretches of `shape.context` tokens in each.
    rate, decay
        Learning rate after the first 2 % of the steps, falling by a cosine to a hundredth; weight
        decay of the matrices over the first half of the steps (BitNet b1.58 2B4T, section 3).
    dropout
        Share of what each part of a layer adds that is left out while training.
    seed
        Of the initial weights, of the stretches drawn, and of what is left out.
    exact
        The reference network: same shape, nothing rounded.
    every
        Steps between two looks at the text held out.

    Raises
    ------
    InputError
        The text has tokens beyond the vocabulary, or is shorter than two stretches.
    """
    parts = {name: np.load(text / f"{name}.npy").astype(np.int32) for name in ("train", "held")}
    counts = json.loads((text / "text.json").read_text(encoding="utf-8"))
    for name, tokens in parts.items():
        if len(tokens) < 2 * shape.context + 2 or tokens.max() >= shape.vocabulary:
            raise InputError(
                f"{text / name}.npy: {len(tokens)} tokens up to {tokens.max()}; at least"
                f" {2 * shape.context + 2} below the vocabulary of {shape.vocabulary} are needed"
            )
    weights = initial(shape, jax.random.key(seed))
    schedule = optax.warmup_cosine_decay_schedule(
        0.0, rate, max(1, steps // 50), steps, end_value=rate / 100
    )
    decays = optax.piecewise_constant_schedule(decay, {max(1, steps // 2): 0.0})
    optimiser = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.scale_by_adam(b1=0.9, b2=0.95),
        optax.inject_hyperparams(optax.add_decayed_weights, static_args=("mask",))(
            weight_decay=decays, mask=lambda tree: jax.tree.map(lambda x: x.ndim >= 2, tree)
        ),
        optax.scale_by_learning_rate(schedule),
    )
    state = optimiser.init(weights)

    @jax.jit(donate_argnums=(0, 1))
    def step(weights: Weights, state: Any, rows: Array, key: Array) -> tuple[Weights, Any, Array]:
        value, slope = jax.value_and_grad(loss)(
            weights, rows, shape, exact=exact, key=key, dropout=dropout
        )
        change, state = optimiser.update(slope, state, weights)
        return optax.apply_updates(weights, change), state, value

    draws = windows(parts["train"], batch, shape.context, seed)
    per_byte = counts["held_tokens"] / counts["held_bytes"] / math.log(2)
    best, least, curve, began = weights, math.inf, [], time.monotonic()
    for i in range(1, steps + 1):
        key = jax.random.fold_in(jax.random.key(seed + 1), i)
        weights, state, value = step(weights, state, jnp.asarray(next(draws)), key)
        if i % every and i != steps:
            continue
        bits = validation_loss(weights, parts["held"], shape, exact, batch) * per_byte
        curve.append({"step": i, "train_nats_token": float(value), "held_bits_byte": bits})
        sys.stdout.write(
            f"step {i:6d}: {float(value):.4f} nats a token, held out {bits:.4f} bits a byte,"
            f" {time.monotonic() - began:.0f} s\n"
        )
        sys.stdout.flush()
        if bits < least:
            best, least = jax.tree.map(np.asarray, weights), bits
    return best, {
        "seed": seed,
        "steps": steps,
        "batch": batch,
        "rate": rate,
        "decay": decay,
        "dropout": dropout,
        "exact": exact,
        "held_bits_byte": least,
        "curve": curve,
        "text": counts,
    }


def shipped(weights: Weights, *, exact: bool) -> dict[str, NDArray[Any]]:
    """Return the contents of `weights.npz`: `layers.NAME.I`, `embedding`, `norm` and `output`.

    Ternary matrices are int8 codes `[K, N]` and, under `NAME.scale`, the number that they are to
    be multiplied by; all else is float32.
    """
    out: dict[str, NDArray[Any]] = {}
    matrices = {"output": weights["output"]}
    for name, stack in weights["layers"].items():
        matrices |= {f"layers.{name}.{i}": x for i, x in enumerate(stack)}
    for name, x in matrices.items():
        if exact or np.ndim(x) < 2:
            out[name] = np.asarray(x, np.float32)
            continue
        codes, scale = ternary(jnp.asarray(x))
        out[name] = np.asarray(codes).astype(np.int8)
        out[f"{name}.scale"] = np.asarray(scale, np.float32)
    return out | {name: np.asarray(weights[name], np.float32) for name in ("embedding", "norm")}


def main(arguments: Sequence[str] | None = None) -> None:
    """Train by the arguments of a command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--text", type=Path, required=True, help="directory that text wrote")
    parser.add_argument("--output", type=Path, required=True, help="directory that is written")
    parser.add_argument("--exact", action="store_true", help="the reference: nothing is rounded")
    for name, value, help_ in (
        ("steps", 4000, "steps of the optimiser"),
        ("batch", 64, "stretches a step"),
        ("rate", 2e-3, "learning rate"),
        ("decay", 0.1, "weight decay over the first half"),
        ("dropout", 0.1, "share left out"),
        ("seed", 1, "seed of everything random"),
        ("every", 200, "steps between two looks at the text held out"),
    ):
        parser.add_argument(f"--{name}", type=type(value), default=value, help=help_)
    for name, value in Shape().as_json().items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    options = vars(parser.parse_args(arguments))
    text, output = options.pop("text"), options.pop("output")
    shape = Shape(**{name: options.pop(name) for name in Shape().as_json()})
    weights, record = train(text, shape, **options)
    output.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(output / "weights.npz", **shipped(weights, exact=options["exact"]))  # type: ignore[arg-type]
    (output / "shape.json").write_text(json.dumps(shape.as_json(), indent=2) + "\n")
    (output / "training.json").write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    command(main)
