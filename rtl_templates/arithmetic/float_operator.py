# SPDX-License-Identifier: Apache-2.0
"""What operators on two floating-point numbers share: ports, and registers at chosen places."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Module, Value
from amaranth.lib.wiring import In, Out

from hwgen.numerics.floating import FloatFormat
from rtl_templates.hierarchy import Block

from .pipeline import Pipeline


class FloatOperator(Block):
    """A result of two numbers of a format, in the same format.

    Parameters
    ----------
    name : str
        What it does, the beginning of the module's name.
    fmt : FloatFormat
    stages : int
        Latency in cycles; 0 is combinational.
    cuts : sequence of tuple of str
        Where the registers of 0, 1, 2, ... stages are; more follow the result.
    enabled : bool
        Whether the registers load only while `run` is high.

    Members
    -------
    run : In(1)
        Present if `enabled` and there are registers.
    a, b, o : In, In, Out
        Bit patterns; `o` is there `stages` cycles later.

    Raises
    ------
    ValueError
        If `stages` is negative.
    """

    def __init__(
        self,
        name: str,
        fmt: FloatFormat,
        stages: int,
        cuts: Sequence[tuple[str, ...]],
        *,
        enabled: bool,
    ) -> None:
        if stages < 0:
            raise ValueError(f"stages must be 0 or more, not {stages}")
        self.enabled = enabled and stages > 0
        super().__init__(
            f"{name}_{fmt.name}_{stages}{'e' if self.enabled else ''}",
            {
                **({"run": In(1)} if self.enabled else {}),
                "a": In(fmt.width),
                "b": In(fmt.width),
                "o": Out(fmt.width),
            },
        )
        self.fmt, self.stages = fmt, stages
        self._behind = [f"result_{i}" for i in range(stages - len(cuts) + 1)]
        self._cuts = (*cuts[min(stages, len(cuts) - 1)], *self._behind)

    def pipeline(self, m: Module) -> Pipeline:
        """Return what places the registers."""
        return Pipeline(m, self._cuts, self.run if self.enabled else None)

    def give(self, m: Module, pipe: Pipeline, value: Value) -> None:
        """Make `value` the result, behind the registers that are left."""
        for place in self._behind:
            (value,) = pipe.cut(place, value=value)
        m.d.comb += self.o.eq(value)
