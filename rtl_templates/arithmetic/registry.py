# SPDX-License-Identifier: Apache-2.0
"""Arithmetic hardware by number format: the only place that chooses one by the other.

A format is looked up by its class; `CODINGS` has the decoders of elements, by `Format.coding`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Protocol, TypeVar

from amaranth.hdl import Cat, Module, Signal, Value

from hwgen.core.post import PostFeatures
from hwgen.formats import FloatFormat, Format, IntegerFormat, TernaryFormat
from hwgen.formats.block.products import BlockProduct
from hwgen.formats.fixed import FixedFormat
from rtl_templates.arithmetic.block.accumulators import AlignedTotal, ExactTotal
from rtl_templates.arithmetic.float.real import (
    RealToInteger,
    float_to_real,
    integer_to_real,
    real_to_float,
)
from rtl_templates.arithmetic.functions.arguments import (
    FixedArgument,
    FloatArgument,
    FunctionArgument,
)
from rtl_templates.arithmetic.functions.results import FixedResult, FloatResult, FunctionResult
from rtl_templates.arithmetic.integer.multiply import Addend, multiply, select
from rtl_templates.arithmetic.post.integer_lane import IntegerLane
from rtl_templates.arithmetic.post.lane import PostLane
from rtl_templates.arithmetic.post.single_lane import SingleLane
from rtl_templates.hdl.hierarchy import Block

Entry = TypeVar("Entry")


def _missing(*args: object, **kwargs: object) -> NoReturn:
    raise NotImplementedError("there is no such arithmetic of this format")


class Multiply(Protocol):
    """Exact product of an activation and a weight; see `integer.multiply.multiply`."""

    def __call__(
        self,
        m: Module,
        term: int,
        x: Signal,
        w: Signal,
        product: IntegerFormat,
        *,
        registered: bool,
    ) -> Addend:
        """Return a product, and a bit that is to be added to it."""


@dataclass(frozen=True)
class Arithmetic:
    """Arithmetic of a sort of number formats; what it lacks is an error to use.

    Parameters
    ----------
    multiply : callable
        Products of integers by weights of the format.
    to_real, from_real : callable
        Converters between the format and single precision, of a format; None if it is the same.
    argument, result : callable
        `FunctionArgument` and `FunctionResult`, of function units.
    post_lane : callable
        A lane of post-processing of accumulators of the format.
    """

    multiply: Multiply = _missing
    to_real: Callable[[Any], Block] = _missing
    from_real: Callable[[Any], Block | None] = _missing
    argument: Callable[[], FunctionArgument] = _missing
    result: Callable[[], FunctionResult] = _missing
    post_lane: Callable[[PostFeatures], PostLane] = _missing


_INTEGER = Arithmetic(
    multiply=multiply,
    to_real=integer_to_real,
    from_real=RealToInteger,
    post_lane=IntegerLane,
)

ARITHMETIC: Mapping[type[Format], Arithmetic] = {
    IntegerFormat: _INTEGER,
    TernaryFormat: replace(_INTEGER, multiply=select),
    FixedFormat: Arithmetic(argument=FixedArgument, result=FixedResult),
    FloatFormat: Arithmetic(
        to_real=float_to_real,
        from_real=real_to_float,
        argument=FloatArgument,
        result=FloatResult,
        post_lane=SingleLane,
    ),
}
"""Arithmetic by class of formats; one without an entry has that of its base."""

CODINGS: Mapping[str, Callable[[Module, Value], Value]] = {
    "signed": lambda m, code: code.as_signed(),
    "unsigned": lambda m, code: code,
    "offset": lambda m, code: Cat(code[:-1], ~code[-1]).as_signed(),
}
"""Integers of the codes of elements, by coding; floating point has fields of its own."""


TERM_TOTALS: Mapping[str, Callable[[BlockProduct], Block]] = {
    "exact": ExactTotal,
    "aligned": AlignedTotal,
}
"""Accumulation of the terms of blocks, by the accumulator; fp32 has an adder of that format."""


def for_format(table: Mapping[type[Format], Entry], fmt: Format) -> Entry:
    """Return the entry of a table for a format: that of its class, or of the nearest base."""
    return next(table[base] for base in type(fmt).__mro__ if base in table)


def arithmetic(fmt: Format) -> Arithmetic:
    """Return the arithmetic of a format."""
    return for_format(ARITHMETIC, fmt)


def term_total(product: BlockProduct) -> Block:
    """Return the adder of terms to a total that is not in single precision."""
    return TERM_TOTALS[product.accumulator.method](product)
