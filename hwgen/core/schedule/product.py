# SPDX-License-Identifier: Apache-2.0
"""Common parts of the schedules of all products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hwgen.core.schedule.checks import check_operand, check_sizes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.operation import Sizes
    from hwgen.core.params.base import FamilyConfig


@dataclass(frozen=True)
class Product:
    """One product ``C[m,n] = A[m,k] . W[k,n]`` on a core.

    Parameters
    ----------
    config : ProductConfig
    m, k, n : int
        Sizes, each at least 1, `k` at most ``config.max_k``.

    Raises
    ------
    InputError
        If a size is out of range.
    """

    config: FamilyConfig
    m: int
    k: int
    n: int

    def __post_init__(self) -> None:
        check_sizes(self.sizes, self.config.max_k, self.config.name)

    @property
    def sizes(self) -> Sizes:
        """M, K and N by name."""
        return {"M": self.m, "K": self.k, "N": self.n}

    @property
    def macs(self) -> int:
        """Useful multiply-accumulates."""
        return self.m * self.k * self.n

    @property
    def exact_terms(self) -> int:
        """Terms added at once, in integers exactly, before each accumulation."""
        return 1

    def check_operands(self, a: NDArray[Any], w: NDArray[Any]) -> None:
        """Check shapes, dtypes and values of both operands.

        Raises
        ------
        InputError
            Naming the operand, what is allowed and what was found.
        """
        check_operand("activations", a, (self.m, self.k), self.config.activation)
        check_operand("weights", w, (self.k, self.n), self.config.weight)
