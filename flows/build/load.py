# SPDX-License-Identifier: Apache-2.0
"""Cores of files, with every ``auto`` chosen by the clock limit of their netlists."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwgen.core.core import Core
from hwgen.core.load import load_draft, parse_draft
from hwgen.core.params.base import FamilyConfig
from hwgen.core.resolve import Limit, choose_registers, resolve

if TYPE_CHECKING:
    from flows.build.design import Design


def _limit(core: Core[Any]) -> Limit | None:
    from flows.build.timing import limit  # start-up time: only `auto` needs hardware

    return limit(core)


def load_design(path: str | Path) -> Design:
    """Read a configuration file, and return the hardware of its core.

    Where something is ``auto``, it is the hardware by which that was chosen.

    Raises
    ------
    ConfigError
        With every problem of the file, or if its clock is not reached.
    """
    from flows.build.timing import Trials  # start-up time: some commands need no hardware

    trials = Trials()
    return trials.design_of(resolve(load_draft(path), trials.limit))


def load_config(path: str | Path) -> FamilyConfig:
    """Read and validate a configuration file, and choose what it leaves ``auto``.

    Raises
    ------
    ConfigError
        With every problem of the file, or if its clock is not reached.
    """
    params: FamilyConfig = resolve(load_draft(path), _limit).params
    return params


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
    params: FamilyConfig = resolve(parse_draft(text, filename, quickly=quickly), _limit).params
    return params


def choose(params: FamilyConfig) -> FamilyConfig:
    """Return parameters with every ``auto`` chosen.

    Raises
    ------
    ValueError
        If the clock is not reached.
    """
    core, errors = choose_registers(params, _limit)
    if errors:
        raise ValueError("; ".join(errors))
    chosen: FamilyConfig = core.params
    return chosen
