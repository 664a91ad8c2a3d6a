# SPDX-License-Identifier: Apache-2.0
"""Models that were imported, as workloads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hwgen.errors import InputError

if TYPE_CHECKING:
    from hwgen.workloads.network import Network


def model_workload(
    directory: Path, context: int | None = None, prompt: int | None = None
) -> Network:
    """Return a pass of a model.

    Parameters
    ----------
    directory : Path
        What `hwgen model import` or `hwgen model quantise` wrote.
    context : int, optional
        Positions before the token of a decode step, by default none.
    prompt : int, optional
        Tokens of a prompt whose pass is wanted, instead of a decode step.

    Raises
    ------
    InputError
        If it is no model, or they do not fit in its context; if both are given, or a context of a
        network that is no decoder.
    """
    from hwgen.models.files.store import Model
    from hwgen.models.graph.passes import passes_of

    description = Model(directory).description
    if context is not None and prompt is not None:
        raise InputError("give the context of a decode step, or the tokens of a prompt, not both")
    passes = passes_of(description, prompt or 1, context or 0)
    if not description.decodes:
        if context is not None:
            raise InputError(f"{description.name} is no decoder: it has no context")
        return passes["pass"]
    return passes["decode" if prompt is None else "prefill"]
