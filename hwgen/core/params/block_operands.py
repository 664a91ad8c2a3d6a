# SPDX-License-Identifier: Apache-2.0
"""Operands in block formats, and in floating point where products are summed exactly.

What a family needs to compute with them: types of its fields, the arithmetic that follows from
them, and the rules between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, PlainSerializer, ValidationError, WithJsonSchema
from pydantic_core import PydanticCustomError

from hwgen.config.document import FORMAT_DIRECTORY
from hwgen.config.parameters import either
from hwgen.core.files.block_formats import read_format
from hwgen.core.params.base import ACCUMULATORS, OPERANDS, format_field
from hwgen.errors import InputError, did_you_mean
from hwgen.formats import TERNARY, Format
from hwgen.formats.block import BlockFormat
from hwgen.formats.block.accumulator import (
    MAX_FRACTION_BITS,
    TENSOR_CORES,
    BlockAccumulator,
    TensorCore,
)
from hwgen.formats.block.factors import TABLE_BITS, Factor
from hwgen.formats.block.file import FormatFile, document_of
from hwgen.formats.block.products import DEPTHS, SCALABLE, BlockProduct
from hwgen.formats.registry import (
    EXACT,
    block_format,
    format_name,
    is_format,
    scalar_format,
    shipped,
)

GROUP_SIZES = (16, 32, 64, 128, 256)
GROUPS = tuple(
    f"{kind}_g{size}{beside}"
    for size in GROUP_SIZES
    for beside in ("", "_min", "_zero")
    for kind in (*(f"int{w}" for w in range(2, 9)), *(["ternary"] if not beside else []))
)
"""Groups of integers that cores take."""

Multiplication = Literal["whole", "hybrid", "terms", "fused"]
"""How elements are multiplied: as integers; significands by integers; term by term; each product
a term by itself."""

LONGEST_SUM = 400
"""Bits of the longest exact sum of products that cores make: not that of two bf16 operands."""

BLOCKS = shipped()
"""Block formats with a file that cores take."""

_PROBLEMS = 4
"""Problems of a format inside a configuration that a message names."""

_ALIGNED = tuple(f"aligned({bits})" for bits in range(1, MAX_FRACTION_BITS + 1))
_SUMS = (
    f"exact, int2..int64, uint2..uint64, fp32, aligned(n) or aligned(n, m) with n of"
    f" 1..{MAX_FRACTION_BITS} and m of 1..23, or {either(tuple(TENSOR_CORES))}"
)
_DRAWN_SUMS = ["exact", *ACCUMULATORS, "fp32", *_ALIGNED]
_INTEGERS = (*OPERANDS, TERNARY.name)
_NAMES = (*_INTEGERS, *EXACT, *BLOCKS, *GROUPS)
_DRAWN = [
    name for name in _NAMES if name not in ("bf16", "q4_1") and not name.endswith(("_min", "_zero"))
]
"""What random designs have: sums of bf16 are hundreds of bits long, minima are few operands'."""

_ENDINGS = [f"_g{size}" for size in GROUP_SIZES]
_WORDS = (
    f"int2..int16, uint2..uint16, {TERNARY}, {', '.join(EXACT)}, {', '.join(BLOCKS)}, or integers"
    f" in groups: int2..int8 or ternary with {either(_ENDINGS)}"
    ", of integers also _min or _zero behind it, or the file of a format of your own (NAME.yaml)"
)


def _operand(value: Any) -> Any:
    if is_format(value) and value.is_block:
        return value
    value = format_name(value)
    if isinstance(value, str) and value in (*BLOCKS, *GROUPS):
        return block_format(value)
    if isinstance(value, str) and value.endswith((".yaml", ".yml")):
        return _of_file(value)
    if isinstance(value, Mapping):
        return _of_contents(value)
    if isinstance(value, str) and value in (*EXACT, *_INTEGERS):
        return scalar_format(value)
    shown, near, why = repr(value)[:80], "", ""
    if isinstance(value, str):
        near, why = did_you_mean(value, _NAMES), _why_not(value)
    raise PydanticCustomError(
        "unusable" if why else "format",
        "must be {allowed}, not {shown}{hint}",
        {"allowed": _WORDS, "shown": shown, "hint": why or near},
    )


def _why_not(name: str) -> str:
    """Return why a block format that there is cannot be taken."""
    try:
        fmt = block_format(name)
    except InputError:
        return ""
    return f"; blocks of {fmt.block} need a name of their own: give it in a file of your own"


def _of_file(name: str) -> BlockFormat:
    """Return the format of a file beside the configuration's."""
    try:
        return read_format(FORMAT_DIRECTORY.get() / name)
    except InputError as error:
        text = "; ".join(str(error).splitlines())
        raise PydanticCustomError("unusable", "{text}", {"text": text}) from None


def _of_contents(contents: Mapping[str, Any]) -> BlockFormat:
    """Return a format that a configuration holds, as a file of it would."""
    try:
        return FormatFile.model_validate(dict(contents)).format()
    except ValidationError as error:
        lines = []
        for item in error.errors(include_url=False):
            place, text = ".".join(map(_shown, item["loc"])), str(item["msg"])
            text = "missing" if item["type"] == "missing" else text
            lines.append(f"{place}: {text}" if place else text)
        if len(lines) > _PROBLEMS:
            lines[_PROBLEMS:] = [f"and {len(lines) - _PROBLEMS} more"]
        raise PydanticCustomError("unusable", "{text}", {"text": "; ".join(lines)}) from None


def _shown(key: Any) -> str:
    """Return a key of the user's for a message of one line."""
    return key if isinstance(key, str) and key.isidentifier() else repr(str(key)[:40])


def _plain(value: Any) -> Any:
    """Return an operand as plain data: its name, or the contents of a format of the user's."""
    if value.is_block and not _is_named(value):
        return document_of(value)
    return str(value)


def _is_named(fmt: BlockFormat) -> bool:
    return fmt.name in (*BLOCKS, *GROUPS) and block_format(fmt.name) == fmt


BlockOrPlainOperand = Annotated[
    Any,
    BeforeValidator(_operand),
    PlainSerializer(_plain),
    WithJsonSchema({"type": "string", "enum": list(_NAMES), "words": _WORDS, "drawn": _DRAWN}),
]
"""An operand: an integer, a floating-point number, or in a block format.

A format of the user's own is named by its file, beside the configuration's, and becomes its
contents, so that the identity of a configuration is of them.
"""


def _accumulator(value: Any) -> Any:
    named = isinstance(value, BlockAccumulator | TensorCore)
    value = str(value) if named else format_name(value)
    if isinstance(value, str) and value in TENSOR_CORES:
        return TENSOR_CORES[value]
    if isinstance(value, str) and (value == "fp32" or value.startswith("aligned")):
        try:
            return BlockAccumulator.named(value)
        except ValueError as error:
            raise PydanticCustomError("format", "{text}", {"text": str(error)}) from None
    return format_field(_SUMS, ACCUMULATORS, "exact")(value)


BlockOrIntegerAccumulator = Annotated[
    Any,
    BeforeValidator(_accumulator),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "enum": [*_DRAWN_SUMS, *TENSOR_CORES]},
                {"type": "string", "pattern": r"^aligned\([0-9]+, ?[0-9]+\)$"},
            ],
            "words": _SUMS,
            "drawn": _DRAWN_SUMS,
        }
    ),
]
"""An accumulator: of integers ``exact`` or a format, of blocks ``exact``, fp32 or aligned(n);
a tensor core of either."""


@lru_cache(maxsize=1024)
def factor_of(fmt: Format) -> Factor:
    """Return an operand's format as a factor of products of blocks.

    It is kept, as what follows from the values of a format's codes takes long to compute.
    """
    return Factor(fmt)


def is_plain(activation: Format, weight: Format) -> bool:
    """Whether products are of integers alone."""
    return activation.is_integer and weight.is_integer


@lru_cache(maxsize=16384)
def _sum_bits(a: Factor, w: Factor, depth: int) -> int:
    """Return the bits of the exact sum of a block's products."""
    length = a.block or w.block or depth
    return BlockProduct(a, w, BlockAccumulator("exact"), length, 1, 1).sum.width


@dataclass(frozen=True)
class BlockOperands:
    """Operands of which one is in blocks or floating point, and how their products are summed.

    Parameters
    ----------
    activation, weight : Format
    accumulator : BlockAccumulator, IntegerFormat or "exact"
    depth : int
        Products that a PE takes at a time.
    depth_field : str
        The parameter that says so, empty if none does.
    lanes : int
        Multipliers of a PE, each of which makes several products of short formats.
    """

    activation: Format
    weight: Format
    accumulator: Any
    depth: int
    depth_field: str = ""
    lanes: int = 1

    def __str__(self) -> str:
        return f"{self.activation} x {self.weight}"

    @property
    def factors(self) -> tuple[Factor, Factor]:
        """Both operands, as factors of exact products."""
        return factor_of(self.activation), factor_of(self.weight)

    @property
    def terms(self) -> BlockAccumulator | None:
        """The accumulator of terms of these operands, None of one that they do not have."""
        if self.accumulator == "exact":
            return BlockAccumulator("exact")
        if isinstance(self.accumulator, TensorCore):
            return self.accumulator.accumulator(self.activation, self.weight)
        return self.accumulator if isinstance(self.accumulator, BlockAccumulator) else None

    @property
    def block(self) -> int | None:
        """Elements of a block, None without blocks."""
        return self.activation.block or self.weight.block

    @property
    def has_minimum(self) -> bool:
        """Whether an operand has minima."""
        return bool(self.activation.minimum or self.weight.minimum)


def operand_errors(operands: BlockOperands, *, sums: bool = True) -> list[str]:
    """Return the rules between operands, their accumulator and a depth that are broken.

    Parameters
    ----------
    operands : BlockOperands
    sums : bool
        Whether the products of a block are summed exactly.
    """
    (a, w), depth = operands.factors, operands.depth
    activation, weight, accumulator = operands.activation, operands.weight, operands.accumulator
    if str(a) == str(w) and a != w:
        text = (
            f"weight: must have another name than activation, not {w}: they are different formats"
        )
        return [text]
    if sums and (bits := _sum_bits(a, w, depth)) > LONGEST_SUM:
        text = (
            f"weight: must be shorter than {weight} with activation {activation}: exact sums of"
            f" their products have {bits} bits, and {LONGEST_SUM} are the most; take integers, a"
            " block format, or array.pe: fused with accumulator: aligned(24), if the family has it"
        )
        return [text]
    if a.minimum and w.minimum:
        text = (
            f"activation: must have no minimum with weight {weight}, which has one, not"
            f" {activation}: the products of two minima are no sums of elements"
        )
        return [text]
    if a.block and w.block and a.block != w.block:
        text = (
            f"weight: must have blocks of {a.block}, as activation {activation}, not of {w.block},"
            f" as {weight}; or take an activation without blocks"
        )
        return [text]
    errors = []
    terms = operands.terms
    if terms is None:
        errors.append(
            f"accumulator: must be exact, fp32 or aligned(n) with {operands}, not"
            f" {accumulator}; sums of scaled blocks are no integers"
        )
    if operands.has_minimum and terms is not None and terms.method == "aligned":
        errors.append(
            f"accumulator: must be exact or fp32 with {operands}, not {accumulator}:"
            " a term with a minimum has no exponent of its own"
        )
    length = operands.block
    if length and length % depth and depth % length:
        divisors = [d for d in range(1, length + 1) if length % d == 0]
        whole = f"{', '.join(map(str, divisors))} or a multiple of {length}"
        errors.append(
            f"{operands.depth_field or 'weight'}: must be {whole} with blocks of {length}, not"
            f" {depth}"
        )
    several = length and depth > length and depth % length == 0
    if several and terms is not None and terms.method == "fp32":
        errors.append(
            f"{operands.depth_field}: must be at most {length}, a block, with accumulator fp32, not"
            f" {depth}: blocks are added one after the other; use exact or aligned(n)"
        )
    return errors


def hybrid_errors(operands: BlockOperands) -> list[str]:
    """Return why significands of one operand cannot be multiplied by integers of the other."""
    floats = [factor for factor in operands.factors if factor.fields is not None]
    others = [factor for factor in operands.factors if factor.fields is None]
    if len(floats) != 1:
        why = "both are floating point" if floats else "none is floating point"
    elif operands.has_minimum:
        why = "the sum of the other operand's elements, for minima, takes whole numbers"
    elif others[0].special_width and not others[0].zero_width:
        why = f"{others[0]} has special numbers"
    else:
        return []
    return [f"array.pe: must be mac with {operands}, not hybrid: {why}"]


def term_errors(operands: BlockOperands) -> list[str]:
    """Return why elements of W cannot be taken term by term."""
    a, w = operands.factors
    if w.has_nan or w.has_infinities:
        why = f"not every {w} is finite"
    elif w.zero_width or w.width + w.special_width > TABLE_BITS:
        why = f"the terms of {w} depend on more than {TABLE_BITS} bits"
    elif a.special_width:
        why = f"{a} has special numbers or zero points"
    elif operands.has_minimum:
        why = "the sum of the other operand's elements, for minima, takes whole numbers"
    else:
        return []
    return [f"array.pe: must not be bit_serial with {operands}: {why}"]


def fused_errors(operands: BlockOperands) -> list[str]:
    """Return why products of these operands cannot be aligned each by itself."""
    a, w = operands.factors
    accumulator, depth = operands.accumulator, operands.depth
    scales = [factor.scale for factor in (a, w) if factor.scale is not None]
    errors = []
    if a.fields is None or w.fields is None or a.special_width or w.special_width:
        other = a if a.fields is None or a.special_width else w
        why = f"{other} is not floating point"
    elif any(scale.range != (1, 1) for scale in scales) or operands.has_minimum:
        why = "scales must be powers of two"
    else:
        why = ""
    if why:
        errors.append(f"array.pe: must not be fused with {operands}: {why}")
    if operands.terms is None or operands.terms.method != "aligned":
        errors.append(
            "accumulator: must be aligned(n), aligned(n, m) or a tensor core with array.pe fused,"
            f" not {accumulator}"
        )
    length = operands.block or 1
    if depth % length:
        field = operands.depth_field or "array.pe"
        errors.append(
            f"{field}: must be a multiple of {length}, a block of {operands}, with array.pe fused,"
            f" not {depth}: each product has the scale of its block"
        )
    return errors


def scalable_errors(operands: BlockOperands) -> list[str]:
    """Return why a datapath of several formats cannot have these operands, sums and lanes."""
    both, names = (operands.activation, operands.weight), either(tuple(SCALABLE))
    errors = []
    if str(both[0]) != str(both[1]) or str(both[0]) not in SCALABLE:
        errors.append(
            f"array.pe: must not be scalable with {operands}: it multiplies {names} with itself"
        )
    elif any(operand != _operand(str(operand)) for operand in both):
        errors.append(f"array.pe: must not be scalable with a format of your own, {operands}")
    if str(operands.accumulator) != "fp32":
        errors.append(
            f"accumulator: must be fp32 with array.pe scalable, not {operands.accumulator}"
        )
    if not operands.depth_field:
        errors.append(
            f"array.pe: must not be scalable without array.depth, {either(tuple(map(str, DEPTHS)))}"
            " terms of each sum; take a family whose PEs have it"
        )
    elif operands.lanes not in DEPTHS:
        errors.append(
            f"array.depth: must be {either(tuple(map(str, DEPTHS)))} with array.pe scalable, not"
            f" {operands.lanes}: the scale of a block comes in equal parts with its beats"
        )
    return errors


def block_product(
    operands: BlockOperands, max_k: int, multiplies: Multiplication = "whole"
) -> BlockProduct:
    """Return the arithmetic of products of blocks; without any, of what a PE takes at a time."""
    a, w = operands.factors
    length = operands.block or operands.depth
    step = max(1, operands.depth // length)
    blocks = -(-max_k // (length * step)) * step
    terms = operands.terms or BlockAccumulator("exact")
    return BlockProduct(
        a,
        w,
        terms,
        length,
        step,
        blocks,
        hybrid=multiplies == "hybrid",
        serial=multiplies == "terms",
        fused=multiplies == "fused",
    )
