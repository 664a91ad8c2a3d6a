# SPDX-License-Identifier: Apache-2.0
"""Which configurations of a covering set are simulated in every run of the tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest


def sampled(
    configs: Sequence[Any], every: int = 2, costly: Callable[[Any], bool] = lambda config: False
) -> list[Any]:
    """Return parameters of a test: one configuration of `every`, the others marked ``long``.

    Of those that are `costly` only the first is simulated in every run.
    """
    chosen = [config for i, config in enumerate(configs) if i % every == 0]
    skipped = [config for config in chosen if costly(config)][1:]
    usual = {config.name for config in chosen} - {config.name for config in skipped}
    return [
        pytest.param(config, id=config.name, marks=[pytest.mark.long] * (config.name not in usual))
        for config in configs
    ]
