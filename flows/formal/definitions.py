# SPDX-License-Identifier: Apache-2.0
"""Arithmetic definitions of datapaths, of any width."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from flows.formal.datapath_blocks import (
    ClampedSum,
    DigitProduct,
    OperandSum,
    TableRead,
    TernaryProduct,
)
from flows.formal.datapaths import Datapath
from flows.formal.float_definition import decoder, integer_bits, rounding, unit_exponent
from hwgen.arithmetic.digits import Encoding
from hwgen.core.post import PostFeatures
from hwgen.core.registry import family
from hwgen.formats.block.factors import Factor
from hwgen.formats.floating import FLOATS, SMALL_FLOATS, FloatFormat, floating
from hwgen.formats.integer import IntegerFormat
from rtl_templates.arithmetic.block.elements import ElementDecoder, ElementForm
from rtl_templates.arithmetic.float.adder import FloatAdder
from rtl_templates.arithmetic.float.from_integer import IntegerToFloat
from rtl_templates.arithmetic.float.multiplier import FloatMultiplier
from rtl_templates.arithmetic.float.narrow import FloatNarrow
from rtl_templates.arithmetic.float.widen import FloatWiden
from rtl_templates.arithmetic.integer.recode import Recoder
from rtl_templates.arithmetic.post.integer_lane import IntegerLane
from rtl_templates.hdl.hierarchy import Block
from rtl_templates.spatial.pe import MultiplierPE

_WHOLE = 9
"""Bits of the widest floating-point format whose exponents are not cases."""


class Series(NamedTuple):
    """Datapaths of a type, from narrow to wide.

    Parameters
    ----------
    make : callable
        Returns a datapath by its case.
    cases : tuple of str
    """

    make: Callable[[str], Datapath]
    cases: tuple[str, ...]


def _int(case: str) -> IntegerFormat:
    return IntegerFormat(int(case.lstrip("uint")), case.startswith("i"))


def _signed(name: str, fmt: IntegerFormat, bits: str) -> str:
    """Return Verilog that declares a wide number with the value of some bits."""
    value = f"$signed({bits})" if fmt.signed else f"$signed({{1'b0, {bits}}})"
    return f"wire signed [79:0] {name} = {value};\n"


def _operand_sum(case: str) -> Datapath:
    operands, width = (int(each) for each in case.split(" x int"))
    block = OperandSum(operands, width)
    terms = " + ".join(f"$signed(x[{width * i + width - 1}:{width * i}])" for i in range(operands))
    total = f"wire signed [79:0] total = {terms};\n"
    return Datapath("compressor tree", case, block, f"{total}wire right = $signed(o) == total;")


def _recoder(block: Recoder) -> Datapath:
    fmt = block.fmt
    digits = [
        f"(negative[{i}] ? -80'sd1 : 80'sd1) * (one[{i}] + 2 * two[{i}]) * {4**i}"
        for i in range(block.digits)
    ]
    definition = f"""\
{_signed("number", fmt, "x")}wire signed [79:0] total = {" + ".join(digits)};
wire right = total == number && !(one & two) && !(negative & ~(one | two));"""
    return Datapath(f"{block.encoding} recoder", f"{fmt}", block, definition)


def _digit_product(encoding: Encoding, case: str) -> Datapath:
    fmt = _int(case)
    definition = f"""\
{_signed("a", fmt, "x")}{_signed("b", IntegerFormat(fmt.width, True), "w")}
wire right = $signed(o) == a * b;"""
    return Datapath(f"{encoding} product", case, DigitProduct(encoding, fmt), definition)


def _clamped_sum(case: str) -> Datapath:
    fmt = _int(case)
    definition = f"""\
{_signed("a", fmt, "total")}{_signed("b", fmt, "addend")}{_signed("result", fmt, "o")}
wire signed [79:0] sum = a + b + $signed({{1'b0, carry}});
wire right = result == (sum > {fmt.max} ? {fmt.max} : sum < {fmt.min} ? {fmt.min} : sum);"""
    return Datapath("saturating sum", case, ClampedSum(fmt), definition)


def _ternary_product(case: str) -> Datapath:
    fmt = _int(case)
    definition = f"""\
{_signed("a", fmt, "x")}wire signed [79:0] result = $signed(o) + $signed({{1'b0, carry}});
wire right = w == 2 || result == a * $signed(w);"""
    return Datapath("ternary product", case, TernaryProduct(fmt), definition)


def _table_read(case: str) -> Datapath:
    group, activation = case.split(" x ")
    values = {"name": "core", "family": "ternary_lut", "activation": activation, "max_k": 256,
              "array": {"tables": 2, "fetch_ports": 2, "group_size": int(group)}}  # fmt: skip
    config: Any = family("ternary_lut").params_class.model_validate(values)
    block = TableRead(config)
    fmt = _int(activation)
    lines = [
        _signed(f"x_{i}", fmt, f"x[{fmt.width * i + fmt.width - 1}:{fmt.width * i}]")
        for i in range(int(group))
    ]
    entries = [" + ".join(f"{digit} * x_{i}" for i, digit in enumerate(pattern))
               for pattern in config.stored_patterns]  # fmt: skip
    index = f"key[{config.index_width - 1}:0]"
    chosen = "".join(f"{index} == {i} ? {entry} : " for i, entry in enumerate(entries))
    lines.append(f"""\
wire signed [79:0] entry = {chosen}0;
wire signed [79:0] result = $signed(o) + $signed({{1'b0, carry}}) * {1 << block.low};
wire negative = key[{config.key_width - 1}];
wire right = {index} > {len(entries)} || result == (negative ? -entry : entry);""")
    return Datapath("ternary table", case, block, "".join(lines))


def _beat_sum(case: str) -> Datapath:
    depth, activation = case.split(" x ")
    values = {"name": "core", "family": "adder_tree", "activation": activation,
              "weight": activation, "array": {"cols": 2, "depth": int(depth)}}  # fmt: skip
    config: Any = family("adder_tree").params_class.model_validate(values)
    fmt = _int(activation)
    lines, products = [], []
    for i in range(int(depth)):
        bits = f"[{fmt.width * i + fmt.width - 1}:{fmt.width * i}]"
        lines += [_signed(f"x_{i}", fmt, f"x{bits}"), _signed(f"w_{i}", fmt, f"w{bits}")]
        products.append(f"x_{i} * w_{i}")
    lines.append(f"wire right = $signed(total) == {' + '.join(products)};")
    block = MultiplierPE(config)
    return Datapath("sum of products", case, block, "".join(lines), (("clear", "1'b1"),))


_SUM = """\
wire nan = x_nan | y_nan | x_infinite & y_infinite & (x_sign != y_sign);
wire infinite = x_infinite | y_infinite;
wire signed [{top}:0] total = (x_sign ? -$signed({{2'b0, x_value}}) : $signed({{2'b0, x_value}}))
  + (y_sign ? -$signed({{2'b0, y_value}}) : $signed({{2'b0, y_value}}));
wire sign = x_infinite ? x_sign : y_infinite ? y_sign : total == 0 ? x_sign & y_sign : total < 0;
wire [{top}:0] exact = total < 0 ? -total : total;
"""

_PRODUCT = """\
wire nan = x_nan | y_nan | x_infinite & y_value == 0 | y_infinite & x_value == 0;
wire infinite = x_infinite | y_infinite;
wire sign = x_sign ^ y_sign;
wire [{half}:0] product = x_significand * y_significand;
wire [{top}:0] exact = product << ({{1'b0, x_shift}} + y_shift);
"""


def _float_sum(block: FloatAdder) -> Datapath:
    fmt = block.fmt
    bits = integer_bits(fmt) + 2
    exact = f"{decoder('x', fmt, 'a')}{decoder('y', fmt, 'b')}{_SUM.format(top=bits - 1)}"
    return _rounded("floating-point sum", fmt.name, block, fmt, exact, bits, 0, _exponents(fmt))


def _float_product(block: FloatMultiplier) -> Datapath:
    fmt = block.fmt
    bits = 2 * integer_bits(fmt)
    operands = f"{decoder('x', fmt, 'a')}{decoder('y', fmt, 'b')}"
    exact = operands + _PRODUCT.format(top=bits - 1, half=2 * fmt.precision - 1)
    below = -unit_exponent(fmt)
    return _rounded(
        "floating-point product", fmt.name, block, fmt, exact, bits, below, _exponents(fmt)
    )


def _conversion(block: FloatNarrow | FloatWiden) -> Datapath:
    source, target = block.src, block.dst
    case = f"{source} to {target}"
    below = unit_exponent(target) - unit_exponent(source)
    bits = integer_bits(source) + max(0, -below)
    exact = f"""\
{decoder("x", source, "i")}wire nan = x_nan{"" if target.infinities else " | x_infinite"};
wire infinite = x_infinite, sign = x_sign;
wire [{bits - 1}:0] exact = {{{bits}'d0, x_value}} << {max(0, -below)};
"""
    name = "narrower float" if isinstance(block, FloatNarrow) else "wider float"
    return _rounded(name, case, block, target, exact, bits, max(0, below))


def _from_integer(block: IntegerToFloat) -> Datapath:
    fmt, result = block.source, block.fmt
    shift = -unit_exponent(result)
    bits = fmt.width + shift
    exact = f"""\
{_signed("x", fmt, "i")}wire nan = 0, infinite = 0, sign = x < 0;
wire [{bits - 1}:0] exact = {{{bits}'d0, x < 0 ? -x : x}} << {shift};
"""
    return _rounded("integer to float", f"{fmt} to {result}", block, result, exact, bits, 0)


def _rounded(
    name: str,
    case: str,
    block: Block,
    fmt: FloatFormat,
    exact: str,
    bits: int,
    below: int,
    split: tuple[str, ...] = (),
) -> Datapath:
    definition = f"{exact}{rounding(fmt, bits, below)}wire right = o == wanted;"
    return Datapath(name, case, block, definition, split=split)


def _exponents(fmt: FloatFormat) -> tuple[str, ...]:
    """Return the exponents of both operands, bit by bit, of formats that are not decided whole."""
    if fmt.width <= _WHOLE:
        return ()
    fields = range(fmt.mantissa_bits, fmt.width - 1)
    return tuple(f"{operand}[{bit}]" for operand in "ab" for bit in fields)


def _element(block: ElementDecoder) -> Datapath:
    form = block.form
    fmt = SMALL_FLOATS.get(f"{form.factor}") or floating(f"{form.factor}")
    scale = form.factor.below_unit
    finite = "!x_nan" if form.factor.has_nan else "1"
    definition = f"""\
{decoder("x", fmt, "i")}wire signed [79:0] number = x_value << {scale};
wire right = !({finite}) || $signed(o) == (x_sign ? -number : number);"""
    return Datapath("element of a block", fmt.name, block, definition)


def _requantised(case: str) -> Datapath:
    fmt = _int(case.partition(" ")[0])
    features = PostFeatures(fmt, ("int8",), ("none",), ("half_even",), columns=False)
    definition = f"""\
wire signed [{fmt.width - 1}:0] sum = acc;
wire signed [{fmt.width + 31}:0] product = sum * $signed(multiplier);
wire signed [127:0] floor = $signed(product) >>> shift[5:0];
wire signed [127:0] rest = $signed(product) - (floor <<< shift[5:0]);
wire signed [127:0] half = (128'sd1 <<< shift[5:0]) >>> 1;
wire up = shift[5:0] != 0 && (rest > half || rest == half && floor[0]);
wire signed [127:0] moved = floor + $signed({{1'b0, up}}) + $signed(zero);
wire signed [127:0] lowest = $signed(minimum), highest = $signed(maximum);
wire right = $signed(o) == (moved < lowest ? lowest : moved > highest ? highest : moved);"""
    shifts = tuple(f"shift[{bit}]" for bit in range(6))
    return Datapath("requantisation", case, IntegerLane(features), definition, split=shifts)


def float_format(name: str) -> FloatFormat:
    """Return a format by its name, or, as ``e4m5``, by its exponent and mantissa bits."""
    if not name.startswith("e"):
        return floating(name)
    exponent, mantissa = (int(each) for each in name[1:].split("m"))
    return FloatFormat(name, exponent, mantissa)


def _float_case(
    of: Callable[[Any], Datapath], block: Callable[[FloatFormat], Block]
) -> Callable[[str], Datapath]:
    return lambda case: of(block(float_format(case)))


def _conversion_case(case: str) -> Datapath:
    source, target = (float_format(each) for each in case.split(" to "))
    narrower = target.width < source.width
    return _conversion(FloatNarrow(source, target) if narrower else FloatWiden(source, target))


def _integer_case(case: str) -> Datapath:
    source, target = case.split(" to ")
    return _from_integer(IntegerToFloat(_int(source), float_format(target)))


def _element_case(case: str) -> Datapath:
    fmt = SMALL_FLOATS.get(case) or floating(case)
    return _element(ElementDecoder(ElementForm(Factor(fmt), split=False)))


SERIES: Mapping[str, Series] = {
    "compressor tree": Series(
        _operand_sum, ("4 x int4", "4 x int8", "8 x int4", "4 x int16", "8 x int8", "16 x int8")
    ),
    "booth4 recoder": Series(
        lambda case: _recoder(Recoder("booth4", _int(case))), ("int4", "int8", "int16")
    ),
    "ent recoder": Series(
        lambda case: _recoder(Recoder("ent", _int(case))), ("int4", "int8", "uint8", "int16")
    ),
    "booth4 product": Series(
        lambda case: _digit_product("booth4", case), ("int4", "int6", "int8", "int10", "int12")
    ),
    "ent product": Series(
        lambda case: _digit_product("ent", case), ("int4", "int6", "int8", "int10", "int12")
    ),
    "saturating sum": Series(_clamped_sum, ("int8", "uint8", "int16", "int32", "int64")),
    "ternary product": Series(_ternary_product, ("int4", "uint8", "int8", "int16")),
    "ternary table": Series(
        _table_read, ("2 x int4", "2 x int8", "3 x int8", "4 x int8", "5 x int8")
    ),
    "sum of products": Series(
        _beat_sum, ("2 x int4", "4 x int4", "2 x int8", "8 x int8", "16 x int8")
    ),
    "floating-point sum": Series(
        _float_case(_float_sum, FloatAdder),
        ("fp8_e4m3", "fp8_e5m2", "e5m3", "e5m6", "fp16"),
    ),
    "floating-point product": Series(
        _float_case(_float_product, FloatMultiplier),
        ("fp8_e4m3", "fp8_e5m2", "e5m3", "e5m6", "fp16"),
    ),
    "narrower float": Series(_conversion_case, ("fp16 to fp8_e4m3", "fp16 to fp8_e5m2")),
    "wider float": Series(_conversion_case, ("fp8_e4m3 to fp16", "fp8_e5m2 to fp16")),
    "integer to float": Series(
        _integer_case, ("int8 to fp16", "int16 to fp16", "int24 to fp16", "uint32 to fp16")
    ),
    "element of a block": Series(_element_case, ("fp4_e2m1", "fp6_e2m3", "fp6_e3m2", "fp8_e4m3")),
    "requantisation": Series(
        _requantised, ("int4 to int8", "int8 to int8", "int16 to int8", "int25 to int8")
    ),
}
"""Types of datapaths by name."""

_OF_BLOCKS: Mapping[type[Block], Callable[[Any], Datapath]] = {
    Recoder: _recoder,
    FloatAdder: _float_sum,
    FloatMultiplier: _float_product,
    FloatNarrow: _conversion,
    FloatWiden: _conversion,
    IntegerToFloat: _from_integer,
    ElementDecoder: _element,
}


def datapath_of(block: Block) -> Datapath | None:
    """Return a block of a design with its definition, None if it has none."""
    make = _OF_BLOCKS.get(type(block))
    if make is None or (isinstance(block, ElementDecoder) and not _is_float(block.form)):
        return None
    return make(block)


def _is_float(form: ElementForm) -> bool:
    """Return whether elements are floating-point numbers that are decoded to integers."""
    return not form.split and f"{form.factor}" in (*SMALL_FLOATS, *FLOATS)
