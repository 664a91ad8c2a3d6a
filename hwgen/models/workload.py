# SPDX-License-Identifier: Apache-2.0
"""Workloads by name: products, files, and imported models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hwgen.core.jobs import must_multiply
from hwgen.core.params.base import FamilyConfig
from hwgen.errors import InputError
from hwgen.models.files.store import Model
from hwgen.models.graph.passes import passes_of
from hwgen.workloads import Network, bounded, load_workload, parse_gemm, workload_path


def model_workload(
    directory: Path, context: int | None = None, prompt: int | None = None
) -> Network:
    """Return a pass of a model.

    Parameters
    ----------
    directory : Path
        Directory that `hwgen model import` or `hwgen model quantise` wrote.
    context : int, optional
        Positions before the token of a decode step, by default none.
    prompt : int, optional
        Tokens of a prompt whose pass is wanted, instead of a decode step.

    Raises
    ------
    InputError
        If it is no model, or they do not fit in its context; if both are passed, or a context of a
        network that is no decoder.
    """
    description = Model(directory).description
    if context is not None and prompt is not None:
        raise InputError("give the context of a decode step, or the tokens of a prompt, not both")
    passes = passes_of(description, prompt or 1, context or 0)
    if not description.decodes:
        if context is not None:
            raise InputError(f"{description.name} is no decoder: it has no context")
        return passes["pass"]
    return passes["decode" if prompt is None else "prefill"]


def load_network(name: str) -> tuple[str, Network]:
    """Return the name and the network of a workload, or a decode step of a model's directory.

    Raises
    ------
    InputError
        If there is none.
    ConfigError
        If it is not a network, with every problem and its place.
    """
    if workload_path(name) is None and Path(name).is_dir():
        return Path(name).resolve().name, model_workload(Path(name))
    return load_workload(name)


def named_workloads(
    gemms: Sequence[str],
    names: Sequence[str],
    cores: Sequence[FamilyConfig],
    context: int | None = None,
) -> dict[str, Network]:
    """Return networks by name: products of ``M,K,N`` texts, and workloads.

    Parameters
    ----------
    gemms, names : sequence of str
    cores : sequence of FamilyConfig
        Accelerators that are to compute them.
    context : int, optional
        Earlier positions in place of those of the networks.

    Raises
    ------
    InputError
        If one is none, is too large, or has a longer reduction than a core can do.
    """
    workloads: dict[str, Network] = {}
    for text in gemms:
        gemm = parse_gemm(text)
        workloads["x".join(map(str, gemm))] = bounded(text, [gemm])
    for name in names:
        stem, network = load_network(name)
        if context is not None:
            network = bounded(name, network.with_context(context))
        workloads[stem] = network
    longest = max((gemm.k for sizes in workloads.values() for gemm in sizes), default=0)
    for core in cores:
        if workloads:
            must_multiply(core, "a workload")
        if workloads and longest > core.max_k:
            raise InputError(
                f"{core.name}: K = {longest} is more than its max_k; raise max_k to compute it"
            )
    return workloads
