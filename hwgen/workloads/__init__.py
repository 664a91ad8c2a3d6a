# SPDX-License-Identifier: Apache-2.0
"""Workloads: the sizes of the matrix products of well-known networks.

A workload is a YAML file with the key ``gemms``, a list of ``{m: M, k: K, n: N}``.  Those beside
this module are shipped; each says where its sizes come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hwgen.config.document import read_document
from hwgen.errors import InputError, did_you_mean

MAX_SIZE = 2**31 - 1
"""The largest M, K and N."""

MAX_MACS = 2**53
"""Multiply-accumulates of a workload: more are not exact in the double precision of its figures."""

FORM = "{m: M, k: K, n: N}"
"""A product, as files have it."""

RANGE = f"integers of 1 to {MAX_SIZE}"
"""What its sizes are."""

_DIRECTORY = Path(__file__).parent


class Gemm(NamedTuple):
    """Sizes of one product ``C[m,n] = A[m,k] . W[k,n]``."""

    m: int
    k: int
    n: int


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
    entries = data.get("gemms") if isinstance(data, dict) else None
    gemms = [gemm_of(item) for item in entries] if isinstance(entries, list) else []
    if not gemms or None in gemms:
        raise InputError(f"{path}: must have the key gemms, a list of products {FORM}, {RANGE}")
    return path.stem, bounded(str(path), filter(None, gemms))


def gemm_of(item: object) -> Gemm | None:
    """Return the product that ``{m: M, k: K, n: N}`` of a file describes, None if it is none."""
    if not isinstance(item, dict) or set(item) != set(Gemm._fields):
        return None
    return _gemm([item[name] for name in Gemm._fields])


def parse_gemm(text: str) -> Gemm:
    """Return the product that ``M,K,N`` describes.

    Raises
    ------
    InputError
        If it describes none.
    """
    try:
        gemm = _gemm(list(map(int, text.split(","))))
    except ValueError:  # also of a number of thousands of digits
        gemm = None
    if gemm is None:
        raise InputError(f"a product is M,K,N, three {RANGE}, not {text[:80]!r}")
    return gemm


def named_workloads(
    gemms: Sequence[str], names: Sequence[str], cores: Sequence[Any]
) -> dict[str, tuple[Gemm, ...]]:
    """Return products by name: those of ``M,K,N`` texts and of workloads.

    Raises
    ------
    InputError
        If one is none, is too large, or has a longer reduction than a core can do.
    """
    workloads: dict[str, tuple[Gemm, ...]] = {}
    for text in gemms:
        gemm = parse_gemm(text)
        workloads["x".join(map(str, gemm))] = bounded(text, [gemm])
    workloads.update(map(load_workload, names))
    longest = max((gemm.k for sizes in workloads.values() for gemm in sizes), default=0)
    for core in cores:
        if longest > core.max_k:
            raise InputError(
                f"{core.name}: K = {longest} is more than its max_k; raise max_k to compute it"
            )
    return workloads


def bounded(name: str, gemms: Iterable[Gemm]) -> tuple[Gemm, ...]:
    """Return the products of a workload.

    Raises
    ------
    InputError
        If they are more than `MAX_MACS` multiply-accumulates.
    """
    bounded_gemms = tuple(gemms)
    macs = sum(gemm.m * gemm.k * gemm.n for gemm in bounded_gemms)
    if macs > MAX_MACS:
        raise InputError(
            f"{name}: {macs} multiply-accumulates are more than 2**53 = {MAX_MACS}, up to which"
            " figures are exact; time a part of it"
        )
    return bounded_gemms


def _gemm(sizes: Sequence[object]) -> Gemm | None:
    valid = [size for size in sizes if type(size) is int and 1 <= size <= MAX_SIZE]
    return Gemm(*valid) if len(sizes) == len(valid) == len(Gemm._fields) else None
