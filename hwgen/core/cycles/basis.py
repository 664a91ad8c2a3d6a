# SPDX-License-Identifier: Apache-2.0
"""Basis of a figure: counted, expected or modelled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

Basis = Literal["exact", "expected", "modelled", "assumed"]
"""What a figure is.

exact
    The hardware's own; every simulation at full rate is compared with it.
expected
    The expectation over random operands, of hardware whose cycles depend on their values.
modelled
    An approximation; how far off it may be is said beside it, where that is known.
assumed
    A figure per second at the clock that was asked for, of hardware whose speed is not known.
"""

BASES: tuple[Basis, ...] = get_args(Basis)
"""From the strongest to the weakest."""


@dataclass(frozen=True)
class Cycles:
    """The cycles of some products, and what the figure is.

    Parameters
    ----------
    number : int
    basis : {"exact", "expected", "modelled"}
    least, most : int, optional
        What the hardware takes for certain at least and at most, of a figure that is not exact;
        None if there is no such bound.
    """

    number: int
    basis: Basis = "exact"
    least: int | None = None
    most: int | None = None

    def allows(self, counted: int) -> bool:
        """Return whether the hardware may have taken so many."""
        if self.basis == "exact":
            return counted == self.number
        return (self.least or 0) <= counted and (self.most is None or counted <= self.most)

    def __str__(self) -> str:
        if self.basis == "exact":
            return f"{self.number}"
        bounds = (("at least", self.least), ("at most", self.most))
        words = [f"{word} {number}" for word, number in bounds if number is not None]
        return ", ".join([f"{self.number} {self.basis}", *words])

    def document(self) -> dict[str, Any]:
        """Return the basis and the bounds of the figure, for programs."""
        bounds = {"least": self.least, "most": self.most}
        return {"basis": self.basis, **{name: n for name, n in bounds.items() if n is not None}}
