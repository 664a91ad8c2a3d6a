# SPDX-License-Identifier: Apache-2.0
"""Operators on two floating-point numbers: ports, and registers at chosen points."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Value
from amaranth.lib.wiring import In, Out

from hwgen.formats.floating import FloatFormat
from rtl_templates.arithmetic.pipeline import Pipeline, named
from rtl_templates.hdl.hierarchy import Block


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
        Where the registers of 0, 1, 2, ... stages are.  Of more, the first follows the result, the
        second holds the operands, and all others follow the result.
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

    a: Value
    b: Value

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
        more = stages - len(cuts) + 1
        self._input_cuts = ["given"] if more > 1 else []
        self._output_cuts = [f"result_{i}" for i in range(more - len(self._input_cuts))]
        inside = cuts[min(stages, len(cuts) - 1)]
        self._cuts = (*self._input_cuts, *inside, *self._output_cuts)

    def pipeline(self, m: Module) -> Pipeline:
        """Return the pipeline that inserts the registers; those of operands are there already."""
        pipe = Pipeline(m, self._cuts, self.run if self.enabled else None)
        for place in self._input_cuts:
            self.a, self.b = pipe.cut(place, a=self.a, b=self.b)
        return pipe

    def drive_output(self, m: Module, pipe: Pipeline, value: Value) -> None:
        """Make `value` the result, behind the registers that are left."""
        for place in self._output_cuts:
            (value,) = pipe.cut(place, value=value)
        m.d.comb += self.o.eq(value)


def encoded(
    m: Module, fmt: FloatFormat, sign: Value, nan: Value, infinite: Value, rounded: Value
) -> Value:
    """Return a result with what overflowed, infinities and NaNs.

    Parameters
    ----------
    m : Module
    fmt : FloatFormat
    sign, nan, infinite : Value
        Sign of the result; it is a NaN; it is infinite at any rate, in a format that has that.
    rounded : Value
        Mantissa and, above it, exponent, with bits to spare for what is too large.
    """
    width = fmt.width - 1
    if not fmt.has_nan:  # the largest number stands for whatever is above it, and for a NaN
        beyond = named(m, "beyond", nan | infinite | rounded[width:].any())
        return Cat(rounded[:width] | beyond.replicate(width), sign & ~nan)
    if not fmt.infinities:
        # The largest magnitude is the NaN, and whatever is above it too.
        nan = named(m, "none", nan | rounded[:width].all() | rounded[width:].any())
        return Cat(rounded[:width] | nan.replicate(width), sign & ~nan)
    exponent = rounded[fmt.mantissa_bits : width]
    beyond = named(m, "beyond", infinite | exponent.all() | rounded[width:].any())
    exponent |= beyond.replicate(fmt.exponent_bits)
    fraction = rounded[: fmt.mantissa_bits] & (~beyond).replicate(fmt.mantissa_bits)
    payload = fmt.nan & ((1 << fmt.mantissa_bits) - 1)
    bits = [bit | nan if payload >> place & 1 else bit for place, bit in enumerate(fraction)]
    quiet = payload == 1 << (fmt.mantissa_bits - 1)
    patterned = Cat(fraction[:-1], fraction[-1] | nan) if quiet else Cat(*bits)
    return Cat(patterned, exponent, sign & ~nan)
