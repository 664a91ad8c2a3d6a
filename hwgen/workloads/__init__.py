# SPDX-License-Identifier: Apache-2.0
"""Workloads: networks as the work that a pass through them is.

A workload is a YAML file with the key ``layers``: products with weights ``{k: K, n: N}``,
attentions, operations on elements, and blocks of these that repeat; `hwgen.workloads.read` says
what may stand there.  Those beside this module are shipped; each says where its sizes come from.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hwgen.config.document import Document, read_document
from hwgen.config.validate import in_order, problem_at
from hwgen.errors import ConfigError, InputError, Problem, did_you_mean
from hwgen.workloads.network import (
    Attention,
    Gemm,
    Layer,
    Network,
    check_workloads,
    network_of,
)
from hwgen.workloads.read import FORM, MAX_MACS, MAX_SIZE, RANGE, read_network, too_large

__all__ = [
    "FORM", "MAX_MACS", "MAX_SIZE", "RANGE", "Attention", "Gemm", "Layer", "Network", "bounded",
    "check_workloads", "load_workload", "network_of", "parse_gemm", "read_network", "shipped",
    "too_large", "workload_path",
]  # fmt: skip

_DIRECTORY = Path(__file__).parent


def shipped() -> tuple[str, ...]:
    """Return the names of the shipped workloads."""
    return tuple(sorted(path.stem for path in _DIRECTORY.glob("*.yaml")))


def workload_path(name: str, folder: Path = Path()) -> Path | None:
    """Return the file of a workload: one in `folder`, or a shipped one; None if there is none."""
    path = folder / name
    if name in shipped() and not path.is_file():
        path = _DIRECTORY / f"{name}.yaml"
    return path if path.is_file() else None


def load_workload(name: str) -> tuple[str, Network]:
    """Return the name and the network of a workload.

    Parameters
    ----------
    name : str
        Name of a shipped one or of a file; `hwgen.models.workload` also reads models.

    Raises
    ------
    InputError
        If there is none.
    ConfigError
        If it is not a network, with every problem and its place.
    """
    path = workload_path(name)
    if path is None:
        raise InputError(
            f"no workload is called {name!r}{did_you_mean(name, shipped())}, and there is no such"
            f" file; shipped are {', '.join(shipped())}"
        )
    return path.stem, _read(read_document(path))


def _read(document: Document) -> Network:
    problems: list[Problem] = list(document.problems)

    def complain(path: tuple[str | int, ...], text: str) -> None:
        if not document.is_spoilt(path):
            problems.append(problem_at(document, path, text))

    network = read_network(document.data, (), complain)
    if problems or network is None:
        raise ConfigError(in_order(problems))
    return network


def parse_gemm(text: str) -> Gemm:
    """Return the product that ``M,K,N`` describes.

    Raises
    ------
    InputError
        If it describes none.
    """
    try:
        sizes = list(map(int, text.split(",")))
    except ValueError:  # also of a number of thousands of digits
        sizes = []
    if len(sizes) != 3 or not all(1 <= size <= MAX_SIZE for size in sizes):
        raise InputError(f"a product is M,K,N, three {RANGE}, not {text[:80]!r}")
    return Gemm(*sizes)


def bounded(name: str, gemms: Iterable[Gemm]) -> Network:
    """Return products as a network.

    Raises
    ------
    InputError
        If they are more than `MAX_MACS` multiply-accumulates.
    """
    network = network_of(gemms)
    if text := too_large(network):
        raise InputError(f"{name}: {text}")
    return network
