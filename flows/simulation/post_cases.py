# SPDX-License-Identifier: Apache-2.0
"""Post-processing in regressions: settings and column records of jobs."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from hwgen.core.operation import StreamPlan
from hwgen.core.params.post import PostProcessing
from hwgen.core.post import FLOATS, RAW, PostSettings, output_format
from hwgen.core.post.records import Columns
from hwgen.core.schedule.stream import StreamProduct


class PostConfig(Protocol):
    """An accelerator with post-processing."""

    @property
    def post(self) -> PostProcessing:
        """The post-processing that the hardware offers."""

    @property
    def result(self) -> Any:
        """Format of the accumulators."""


def settings_of(config: PostConfig) -> list[PostSettings]:
    """Return settings of post-processing, among them every output, activation and rounding."""
    post, settings = config.post, []
    single = config.result.is_float
    count = max(len(post.outputs), len(post.activations), len(post.roundings))
    for i in range(count):
        output = post.outputs[i % len(post.outputs)]
        activation = post.activations[i % len(post.activations)]
        rounding = post.roundings[i % len(post.roundings)]
        if output == RAW and activation == "leaky":
            activation = post.activations[(i + 1) % len(post.activations)]
        scaled = output != RAW
        # Scales that leave the results of random operands within the output's range, and beyond.
        spread = 2.0 ** (8 - config.result.width // 2)
        for columns in (False, True) if post.columns else (False,):
            if columns:
                settings.append(
                    PostSettings(output, activation, rounding, columns=True, single=single)
                )
            elif scaled:
                leaky = {"slope": 0.125} if activation == "leaky" else {}
                if output not in FLOATS:
                    leaky["rounding"] = rounding
                settings.append(
                    PostSettings.scaled(
                        output,
                        spread,
                        activation=activation,
                        single=single,
                        **leaky,  # type: ignore[arg-type]
                    )
                )
            else:
                settings.append(PostSettings(output, activation))
    return settings


def columns_of(
    settings: PostSettings, n: int, config: PostConfig, rng: np.random.Generator
) -> Columns | None:
    """Return random records of `n` columns, None if the settings have none."""
    if not settings.columns:
        return None
    spread = 2.0 ** (8 - config.result.width // 2)
    scales = rng.uniform(0.1, 2, n) * spread
    bias: Any = rng.integers(-(1 << 12), 1 << 12, n)
    single = config.result.is_float
    if single:  # of the size of sums, and far below them
        bias = rng.standard_normal(n) * 2.0 ** rng.integers(-16, 8, n)
    slopes = rng.uniform(0, 1, n) if settings.activation == "leaky" else 0.0
    return Columns.scaled(settings.output, scales, bias=bias, slopes=slopes, single=single)


def badly_extended(plan: StreamPlan, image: np.ndarray) -> int:
    """Return the number of post-processed results that are not extended to the width of a lane."""
    if not isinstance(plan, StreamProduct) or (settings := plan.processing) is None:
        return 0
    fmt = output_format(settings.output, plan.config.result)
    size = fmt.lane_width // 8
    lanes = image.reshape(len(image), plan.config.ports[-1].lanes, -1)
    negative = lanes[..., size - 1 : size] >> 7 if fmt.is_integer else 0
    above = negative * fmt.signed * np.uint8(0xFF)
    return int((lanes[..., size:] != above).any(axis=-1).sum())
