# SPDX-License-Identifier: Apache-2.0
"""Post-processing settings of a job."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from hwgen.core.post.features import PostFeatures, check_word, element_bytes
from hwgen.core.post.words import (
    ACTIVATIONS,
    FLOATS,
    INTEGERS,
    OUTPUT_TYPES,
    OUTPUTS,
    RAW,
    REGISTERS,
    ROUNDINGS,
    SINGLE,
)
from hwgen.errors import InputError
from hwgen.formats.floating import FloatFormat
from hwgen.formats.integer import IntegerFormat, integer
from hwgen.formats.scale import MAX_SHIFT, MULTIPLIER_BITS, multiplier_and_shift

_MULTIPLIER = IntegerFormat(MULTIPLIER_BITS, True)


@dataclass(frozen=True)
class PostSettings:
    """Post-processing of the accumulators of a job; see the package's description.

    Parameters
    ----------
    output : str
        One of `OUTPUTS`.
    activation : str
        One of `ACTIVATIONS`.
    rounding : str
        One of `ROUNDINGS`, of integer outputs.
    columns : bool
        Whether bias, scales and slopes are those of column records; the next six are unused then.
    multiplier, shift : int
        Scale of integer outputs, ``multiplier / 2**shift``: int32, and 0 to 63.
    slope_multiplier, slope_shift : int
        Scale of negative numbers with `leaky`.
    scale, slope_scale : float
        The same of floating-point outputs, rounded to single precision.
    zero : int
        Zero point of integer outputs, a number of their format.
    minimum, maximum : int, optional
        Limits of integer outputs; by default those of the format.
    single : bool
        Whether accumulators are in single precision; then integer outputs have `scale`, too.

    Raises
    ------
    InputError
        Naming the field, what is allowed and what was given.
    """

    output: str
    activation: str = "none"
    rounding: str = "half_even"
    columns: bool = False
    multiplier: int = 1
    shift: int = 0
    slope_multiplier: int = 1
    slope_shift: int = 0
    scale: float = 1.0
    slope_scale: float = 1.0
    zero: int = 0
    minimum: int | None = None
    maximum: int | None = None
    single: bool = False

    def __post_init__(self) -> None:
        check_word("output", self.output, OUTPUTS)
        check_word("activation", self.activation, ACTIVATIONS)
        check_word("rounding", self.rounding, ROUNDINGS)
        integers = self.output in INTEGERS
        if self.output == RAW and self.activation == "leaky":
            raise InputError("activation: raw outputs are not scaled; use none or relu, not leaky")
        self._refuse_unused(integers)
        for name in ("multiplier", "slope_multiplier"):
            _check_range(name, getattr(self, name), _MULTIPLIER.min, _MULTIPLIER.max)
        for name in ("shift", "slope_shift"):
            _check_range(name, getattr(self, name), 0, MAX_SHIFT)
        for name in ("scale", "slope_scale"):
            _check_single(name, getattr(self, name))
        if integers:
            fmt = integer(self.output)
            for name, value in (("zero", self.zero), *zip(_LIMITS, self.limits, strict=True)):
                _check_range(name, value, fmt.min, fmt.max, f" ({fmt})")
            if self.limits[0] > self.limits[1]:
                raise InputError(
                    f"minimum: must not exceed maximum = {self.limits[1]}, not {self.limits[0]}"
                )

    def _refuse_unused(self, integers: bool) -> None:
        """Refuse values that would have no effect."""
        floats, scaled = self._real, integers and not self.single
        none = f"{self.output} outputs have none"
        if integers and self.single:
            none = f"{self.output} outputs of sums in {SINGLE} have none; give scale instead"
        for parts, used, why in (
            (_LIMITS, integers, f"{self.output} outputs have no limits"),
            (("zero",), integers, f"{self.output} outputs have no zero point"),
            (("multiplier", "shift"), scaled, none),
            (("slope_multiplier", "slope_shift"), scaled, none),
            (("scale", "slope_scale"), floats, f"{self.output} outputs have none"),
            (_SCALES, not self.columns, "with columns it is that of the column records"),
            (_SLOPES, self.activation == "leaky", "only activation leaky has a slope"),
        ):
            for name in parts:
                if not used and getattr(self, name) != _DEFAULTS[name]:
                    raise InputError(f"{name}: {why}; leave it out")

    @classmethod
    def scaled(
        cls,
        output: str,
        scale: float = 1.0,
        *,
        activation: str = "none",
        slope: float = 0.0,
        rounding: str = "half_even",
        zero: int = 0,
        minimum: int | None = None,
        maximum: int | None = None,
        single: bool = False,
    ) -> PostSettings:
        """Return settings of one scale for all columns, given as real numbers.

        Parameters
        ----------
        output, activation, rounding, zero, minimum, maximum, single
            As in `PostSettings`.
        scale : float
            What `t` is multiplied by; see `hwgen.formats.scale` for its integer form.
        slope : float
            What negative numbers are multiplied by as well, with `leaky`.
        """
        fields: dict[str, float] = {}
        leaky = activation == "leaky"
        if output in FLOATS or (single and output in INTEGERS):
            fields = {"scale": scale, **({"slope_scale": scale * slope} if leaky else {})}
        elif output in INTEGERS:
            for prefix, value in (("", scale), *((("slope_", scale * slope),) if leaky else ())):
                multiplier, shift = multiplier_and_shift(value)
                fields |= {f"{prefix}multiplier": int(multiplier), f"{prefix}shift": int(shift)}
        elif scale != 1:
            raise InputError(f"scale: {output} outputs are not scaled; leave it out")
        if slope and not leaky:
            raise InputError("slope: only activation leaky has a slope; leave it out")
        return cls(
            output,
            activation,
            rounding,
            zero=zero,
            minimum=minimum,
            maximum=maximum,
            single=single,
            **fields,  # type: ignore[arg-type]
        )

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest result of an integer output; of others zeros."""
        if self.output not in INTEGERS:
            return 0, 0
        fmt = integer(self.output)
        return (
            fmt.min if self.minimum is None else self.minimum,
            fmt.max if self.maximum is None else self.maximum,
        )

    @property
    def output_type(self) -> str:
        """The output's entry of `OUTPUT_TYPES`."""
        return "integer" if self.output in INTEGERS else self.output

    @property
    def _real(self) -> bool:
        """Whether scales are numbers in single precision."""
        return self.output in FLOATS or (self.single and self.output in INTEGERS)

    @property
    def factors(self) -> tuple[int, int]:
        """Contents of POST_MULTIPLIER and POST_SLOPE: integers, or the bits of fp32 numbers."""
        if not self._real:
            return self.multiplier, self.slope_multiplier
        bits = SINGLE.encode([self.scale, self.slope_scale])
        return int(bits[0]), int(bits[1])

    def check(self, features: PostFeatures) -> None:
        """Check that hardware offers what is asked.

        Raises
        ------
        InputError
            Naming the field and what there is.
        """
        for name, value, offered in (
            ("output", self.output, features.outputs),
            ("activation", self.activation, features.activations),
            ("rounding", self.rounding, features.roundings),
        ):
            used = name != "rounding" or self.output in INTEGERS
            if used and value not in offered:
                raise InputError(
                    f"{name}: this hardware has {', '.join(offered)}, not {value}; build it with"
                    f" {value}, or change the job"
                )
        if self.output in INTEGERS and self.single != features.single:
            wanted = "scale and single" if features.single else "multiplier and shift, not single"
            raise InputError(
                f"single: accumulators of this hardware are {features.accumulator}; its"
                f" {self.output} outputs take {wanted}"
            )
        if self.columns and not features.columns:
            raise InputError("columns: this hardware has no column records; use one scale for all")
        if not (self.columns or features.tensor):
            raise InputError("columns: this hardware takes its scales from column records only")

    def registers(self, accumulator: IntegerFormat | FloatFormat) -> dict[str, int]:
        """Return the contents of the registers as unsigned 32-bit numbers.

        Parameters
        ----------
        accumulator : IntegerFormat or FloatFormat
            Of the hardware; it decides how large a raw element is.
        """
        multiplier, slope = self.factors
        minimum, maximum = self.limits
        values = {
            "kind": OUTPUT_TYPES.index(self.output_type),
            "activation": ACTIVATIONS.index(self.activation),
            "rounding": ROUNDINGS.index(self.rounding),
            "columns": int(self.columns),
            "size": element_bytes(self.output, accumulator).bit_length() - 1,
            "multiplier": multiplier,
            "slope": slope,
            "shift": self.shift,
            "slope_shift": self.slope_shift,
            "zero": self.zero,
            "minimum": minimum,
            "maximum": maximum,
        }
        return {
            register.name: sum(
                (values[field.name] & ((1 << field.bits) - 1)) << field.offset
                for field in register.fields
            )
            for register in REGISTERS
        }

    def packed(self, accumulator: IntegerFormat | FloatFormat) -> int:
        """Return the registers as one number of `SETTINGS_BITS`, in the order of `REGISTERS`."""
        words = self.registers(accumulator).values()
        return sum(word << (32 * i) for i, word in enumerate(words))


_LIMITS = ("minimum", "maximum")
_SLOPES = ("slope_multiplier", "slope_shift", "slope_scale")
_SCALES = ("multiplier", "shift", "scale", *_SLOPES)
_DEFAULTS = {field.name: field.default for field in fields(PostSettings)}


def _check_range(name: str, value: object, low: int, high: int, unit: str = "") -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InputError(f"{name}: must be an integer of {low}..{high}{unit}, not {value!r}")


def _check_single(name: str, value: float) -> None:
    if not isinstance(value, (int, float)) or not abs(value) < _SINGLE_LIMIT:
        raise InputError(f"{name}: must be a finite number of single precision, not {value!r}")


_SINGLE_LIMIT = math.ldexp(2 - 2.0**-24, 127)  # and above: rounded to infinity
