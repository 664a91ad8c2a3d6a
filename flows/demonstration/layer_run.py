# SPDX-License-Identifier: Apache-2.0
"""One layer of the demonstration on the RTL."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerRun:
    """One layer on the RTL.

    Parameters
    ----------
    m, k, n : int
        Sizes of the product.
    cycles, model_cycles : int
        Of the simulation and of the cost model.
    utilisation : float
        Useful multiply-accumulates in relation to what the core could do in `cycles`.
    moved : int or None
        Bytes over the memory port, of an engine that has one.
    most_cycles : int or None
        What values could have taken at most, of a core whose cycles depend on them.
    """

    m: int
    k: int
    n: int
    cycles: int
    model_cycles: int
    utilisation: float
    moved: int | None = None
    most_cycles: int | None = None

    @property
    def size(self) -> str:
        """The sizes in words."""
        return f"{self.m} x {self.k} x {self.n}"
