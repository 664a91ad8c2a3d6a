# SPDX-License-Identifier: Apache-2.0
"""Definition of floating-point arithmetic in Verilog: the exact real value, rounded.

Numbers are integers in units of the smallest subnormal, so sums and products are plain ``+`` and
``*`` of wide integers.  Nothing is shared with the hardware, which aligns and normalises.
"""

from __future__ import annotations

from hwgen.formats.floating import FloatFormat


def unit_exponent(fmt: FloatFormat) -> int:
    """Return the exponent of the smallest subnormal."""
    return 1 - fmt.bias - fmt.mantissa_bits


def integer_bits(fmt: FloatFormat) -> int:
    """Return the bits of the largest magnitude, and of what is beyond it, as an integer."""
    return fmt.precision + (1 << fmt.exponent_bits) - 2


def decoder(name: str, fmt: FloatFormat, code: str) -> str:
    """Return Verilog that declares the parts of a number.

    These are ``NAME_value``, the magnitude in units of the smallest subnormal, which is
    ``NAME_significand << NAME_shift``, and ``NAME_sign``, ``NAME_nan`` and ``NAME_infinite``.
    """
    mantissa, width = fmt.mantissa_bits, fmt.width
    field = f"{code}[{width - 2}:{mantissa}]"
    fraction = f"{code}[{mantissa - 1}:0]"
    if fmt.infinities:
        nan, infinite = f"&{field} & |{fraction}", f"&{field} & ~|{fraction}"
    else:
        nan, infinite = f"&{code}[{width - 2}:0]", "1'b0"
    bits = integer_bits(fmt)
    return f"""\
wire {name}_sign = {code}[{width - 1}];
wire {name}_nan = {nan};
wire {name}_infinite = {infinite};
wire [{mantissa}:0] {name}_significand = {{{field} != 0, {fraction}}};
wire [{fmt.exponent_bits - 1}:0] {name}_shift = {field} == 0 ? 0 : {field} - 1;
wire [{bits - 1}:0] {name}_value = {name}_significand << {name}_shift;
"""


def rounding(fmt: FloatFormat, bits: int, below: int) -> str:
    """Return Verilog that rounds a magnitude to the nearest number, ties to even.

    It reads ``exact``, of `bits` bits, in units of ``2**-below`` smallest subnormals, and ``sign``,
    ``nan`` and ``infinite``, and declares ``wanted``, the bit pattern.
    """
    mantissa, width = fmt.mantissa_bits, fmt.width
    largest = ((1 << fmt.exponent_bits) - 1) << mantissa if fmt.infinities else fmt.nan
    largest &= (1 << (width - 1)) - 1
    beyond = f"{{sign, {width - 1}'d{largest}}}" if fmt.infinities else f"{width}'d{fmt.nan}"
    first = f"rest = exact & {(1 << below) - 1}; half = {1 << below >> 1};" if below else ""
    return f"""\
reg [{bits + width}:0] code;
reg [{bits - 1}:0] rest, half;
integer step;
always @* begin
  // Up to the first two binades, numbers are the multiples of the smallest subnormal.
  rest = 0; half = 1;
  {first}
  code = exact >> {below};
  for (step = 1; step + {below} + {mantissa} < {bits}; step = step + 1)
    if (exact >> (step + {below} + {mantissa}) != 0) begin
      code = (step << {mantissa}) + (exact >> (step + {below}));
      half = {bits}'d1 << (step + {below - 1});
      rest = exact & ((half << 1) - 1);
    end
  if (rest > half || rest == half && code[0]) code = code + 1;
end
wire [{width - 1}:0] wanted = nan ? {width}'d{fmt.nan}
  : infinite || code >= {largest} ? {beyond} : {{sign, code[{width - 2}:0]}};
"""
