# SPDX-License-Identifier: Apache-2.0
"""Functions that a closed-form cost model of a family consists of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from cost_model.closed_forms.component_counts import Part
from cost_model.closed_forms.numbers import Counts, Number
from cost_model.closed_forms.space import View

Size = tuple[int, int, int]
"""M, K and N of one product."""


class ClosedForms(Protocol):
    """A module of closed forms."""

    @property
    def RULES(self) -> tuple[str, ...]:  # noqa: N802 (a constant of a module)
        """Numeric parameters that rules between fields look at."""

    def parts(self, config: Any) -> tuple[Part, ...]:
        """Return the parts of a core; none of a core that closed forms do not cover."""

    def paths(self, v: View) -> list[Counts]:
        """Return the operators on the longest paths."""

    def cycles_at(self, v: View, sizes: Sequence[Size]) -> Number:
        """Return the cycles of products for every configuration of a view."""

    def macs_at(self, v: View) -> Number:
        """Return the multiply-accumulates of a full cycle."""

    def port_bits_at(self, v: View) -> Number:
        """Return the bits of a beat of all ports together."""

    def traffic_at(self, v: View, size: Size) -> dict[str, Number]:
        """Return the bytes of the beats of each port for one product, by what they carry."""

    def weight_bits_at(self, v: View) -> Number:
        """Return the bits of a weight on its port."""
