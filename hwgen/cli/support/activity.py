# SPDX-License-Identifier: Apache-2.0
"""The option ``--activity`` of estimates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from cost_model.estimate.activity import Activity
    from flows.build.build import Build

F = TypeVar("F", bound=Callable[..., Any])

OF_FILES = "assumed|typical|worst|FILE"
"""Choices of commands that take operands from a file as well."""


def activity_option(choices: str, more: str = "", **options: Any) -> Callable[[F], F]:
    """Return a decorator that adds ``--activity`` (parameter `activity`)."""
    if choices == OF_FILES:
        more = ", or that of the operands in an .npz file (activations, weights)"
    return click.option(
        "--activity", metavar=choices, default="assumed", show_default=True,
        help="By which switching activity power of standard cells is: one that is assumed, that of"
        f" typical or of the busiest operands in simulated netlists{more}.", **options,
    )  # fmt: skip


def requested_activity(build: Build, text: str) -> Activity:
    """Return the activity that ``--activity`` says, if power of the target can be by it.

    Raises
    ------
    InputError
        If no energies of the technology were fitted to simulations, or the operands of a file do
        not fit the core.
    """
    from flows.power.estimated_activity import activity_of

    return activity_of(build.design.core, build.target.technology, text)
