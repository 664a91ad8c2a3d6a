# SPDX-License-Identifier: Apache-2.0
"""Stream cores that multiply matrices."""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

from hwgen.core.core import Core
from hwgen.core.golden.stream import multiply
from hwgen.core.operation import Array, Arrays, Job
from hwgen.core.params.product import ProductConfig
from hwgen.core.schedule.stream import StreamProduct

P = TypeVar("P", bound=ProductConfig)


class GemmCore(Core[P]):
    """A stream core whose operation is ``gemm``."""

    @abstractmethod
    def schedule(self, job: Job) -> StreamProduct:
        """Return the beats of a product."""

    def golden(self, job: Job, operands: Arrays) -> dict[str, Array]:
        """Return the product as the hardware computes it."""
        plan = self.schedule(job).with_records(operands)
        return {"result": multiply(plan, operands["activations"], operands["weights"])}
