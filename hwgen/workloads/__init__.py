# SPDX-License-Identifier: Apache-2.0
"""Workloads: the sizes of the matrix products of well-known networks.

A workload is a YAML file with the key ``gemms``, a list of ``[M, N, K]``.  Those beside this module
are shipped; each says where its sizes come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hwgen.config.document import read_document
from hwgen.errors import InputError, did_you_mean

Gemm = tuple[int, int, int]
"""M, N and K of one product."""

_DIRECTORY = Path(__file__).parent


def shipped() -> tuple[str, ...]:
    """Return the names of the shipped workloads."""
    return tuple(sorted(path.stem for path in _DIRECTORY.glob("*.yaml")))


def load_workload(name: str) -> tuple[str, tuple[Gemm, ...]]:
    """Return the name and the products of a workload.

    Parameters
    ----------
    name : str
        Name of a shipped one, or of a file.

    Raises
    ------
    InputError
        If there is none, or it is not a list of products.
    """
    path = Path(name)
    if name in shipped() and not path.is_file():
        path = _DIRECTORY / f"{name}.yaml"
    if not path.is_file():
        raise InputError(
            f"no workload is called {name!r}{did_you_mean(name, shipped())}, and there is no such"
            f" file; shipped are {', '.join(shipped())}"
        )
    data = read_document(path).data
    gemms = data.get("gemms") if isinstance(data, dict) else None
    if not isinstance(gemms, list) or not gemms or not all(map(_is_gemm, gemms)):
        raise InputError(
            f"{path}: must have the key gemms, a list of products [M, N, K], integers of at least 1"
        )
    return path.stem, tuple((m, n, k) for m, n, k in gemms)


def parse_gemm(text: str) -> Gemm:
    """Return the product that ``M,N,K`` describes.

    Raises
    ------
    InputError
        If it describes none.
    """
    try:
        sizes = tuple(map(int, text.split(",")))
    except ValueError:
        sizes = ()
    if not _is_gemm(list(sizes)):
        raise InputError(f"a product is M,N,K, three integers of at least 1, not {text!r}")
    m, n, k = sizes
    return m, n, k


def named_workloads(
    gemms: Sequence[str], names: Sequence[str], cores: Sequence[Any]
) -> dict[str, tuple[Gemm, ...]]:
    """Return products by name: those of ``M,N,K`` texts and of workloads.

    Raises
    ------
    InputError
        If one is none, or has a longer reduction than a core can do.
    """
    found = {text.replace(",", "x"): (parse_gemm(text),) for text in gemms}
    workloads: dict[str, tuple[Gemm, ...]] = {**found, **dict(map(load_workload, names))}
    longest = max((k for sizes in workloads.values() for _, _, k in sizes), default=0)
    for core in cores:
        if longest > core.max_k:
            raise InputError(
                f"{core.name}: K = {longest} is more than its max_k; raise max_k to compute it"
            )
    return workloads


def _is_gemm(item: object) -> bool:
    return (
        isinstance(item, list) and len(item) == 3 and all(type(x) is int and x >= 1 for x in item)
    )
