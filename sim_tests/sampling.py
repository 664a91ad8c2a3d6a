# SPDX-License-Identifier: Apache-2.0
"""Which configurations of a covering set are simulated in every run of the tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def sampled(configs: Sequence[Any], every: int = 2) -> list[Any]:
    """Return parameters of a test: one configuration of `every`, the others marked ``long``."""
    return [
        pytest.param(config, id=config.name, marks=[pytest.mark.long] * (i % every != 0))
        for i, config in enumerate(configs)
    ]
