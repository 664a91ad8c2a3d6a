# SPDX-License-Identifier: Apache-2.0
"""Configurations with every ``auto`` chosen by the clock limit of their netlists."""

from __future__ import annotations

from pathlib import Path

from hwgen.core.load import load_draft, parse_draft
from hwgen.core.params.base import FamilyConfig
from hwgen.core.resolve import Limit, choose_registers, resolve


def _limit(params: FamilyConfig) -> Limit | None:
    from flows.build.timing import limit  # start-up time: only `auto` needs hardware

    return limit(params)


def load_config(path: str | Path) -> FamilyConfig:
    """Read and validate a configuration file, and choose what it leaves ``auto``.

    Raises
    ------
    ConfigError
        With every problem of the file, or if its clock is not reached.
    """
    return resolve(load_draft(path), _limit)


def parse_config(
    text: str | bytes, filename: str = "config.yaml", *, quickly: bool = False
) -> FamilyConfig:
    """Validate the text of a configuration, and choose what it leaves ``auto``.

    `filename` is for messages.  With `quickly`, libyaml reads the text where it is installed, for
    texts of which there are many.

    Raises
    ------
    ConfigError
        With every problem of the text, or if its clock is not reached.
    """
    return resolve(parse_draft(text, filename, quickly=quickly), _limit)


def choose(params: FamilyConfig) -> FamilyConfig:
    """Return parameters with every ``auto`` chosen.

    Raises
    ------
    ValueError
        If the clock is not reached.
    """
    chosen, errors = choose_registers(params, _limit)
    if errors:
        raise ValueError("; ".join(errors))
    return chosen
