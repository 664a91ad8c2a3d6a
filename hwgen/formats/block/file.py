# SPDX-License-Identifier: Apache-2.0
"""Files of block formats."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from hwgen.formats.block.elements import SCALES, Rounding
from hwgen.formats.block.elements import element as element_called
from hwgen.formats.block.format import POWERS, BlockFormat, Rule
from hwgen.formats.floating import FLOATS

MAX_BLOCK = 4096


class Model(BaseModel):
    """Frozen parameters; unknown keys are refused and no value is converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _element_name(name: str) -> str:
    element_called(name)
    return name


class ScaleOf(Model):
    """The scale of a block."""

    format: Literal["e8m0", "uint8", "e4m3", "fp16", "bf16", "fp32"] = Field(
        description="Format; `e8m0` is a power of two."
    )
    rule: Rule = Field(
        description="How it follows from a block's numbers: `floor`, `ceil`, `even` or `rceil` of"
        " `e8m0`, else `absmax`, `mean`, `extreme` or `range`."
    )
    second: Literal["tensor", "column"] | None = Field(
        None, description="What has a second scale, of single precision."
    )


class Special(Model):
    """Numbers of which each block chooses one."""

    code: int = Field(ge=0, le=255, description="Code that stands for it.")
    values: Annotated[tuple[float, ...], Field(strict=False, min_length=2, max_length=256)] = Field(
        description="The numbers."
    )


class Packing(Model):
    """Layout of blocks in images."""

    halves: bool = Field(
        False,
        description="The first half of a block in the low bits of bytes, the second in the high"
        " ones; elements of 4 bits.",
    )
    together: int = Field(
        1, ge=1, le=64, description="Blocks whose scales stand before the elements of all of them."
    )


class FormatFile(Model):
    """A block format."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=40, description="Its name.")
    summary: str = Field("", description="One line for `hwgen formats`.")
    element: Annotated[str, AfterValidator(_element_name)] = Field(
        description="Format of the elements: `e2m1`, `int4`, `int8f6`, `uint4`, `offset4`,"
        " `ternary`, ..."
    )
    block: int = Field(ge=1, le=MAX_BLOCK, description="Numbers of a block.")
    scale: ScaleOf = Field(description="Scale of a block.")
    minimum: Literal["fp16", "bf16", "fp32"] | None = Field(
        None, description="Format of a minimum that is added; with the rule `range`."
    )
    zero_point: Literal["uint2", "uint3", "uint4", "uint5", "uint6", "uint7", "uint8"] | None = (
        Field(
            None,
            description="Format of a zero point, an element that stands for zero and is subtracted"
            " from all; with the rule `range`.",
        )
    )
    special: Special | None = Field(None, description="Special numbers.")
    rounding: Rounding = Field(
        "even",
        description="Of quotients by the scale: to the nearest element,"
        " halves to the `even` code, `away` from zero, `up`, or `inward`, toward zero; or"
        " everything toward `zero`.",
    )
    reciprocal: bool = Field(
        False,
        description="Multiply, in single precision, by the reciprocal of the scale before it is"
        " rounded, as GGUF's packers do.",
    )
    nan: Literal["block", "refuse"] = Field(
        "refuse", description="A NaN or infinity makes its block one of NaNs, or is refused."
    )
    packing: Packing = Field(default_factory=Packing, description="How blocks lie in images.")

    @model_validator(mode="after")
    def _rules(self) -> Self:
        problems = []
        power = self.scale.format == "e8m0"
        if power != (self.scale.rule in POWERS):
            allowed = POWERS if power else ("absmax", "mean", "extreme", "range")
            problems.append(
                f"scale.rule: must be one of {', '.join(allowed)} with the format"
                f" {self.scale.format}, not {self.scale.rule!r}"
            )
        if self.nan == "block" and not power:
            problems.append("nan: must be refuse, only the format e8m0 of scales has such a NaN")
        ranged = self.scale.rule == "range"
        if self.minimum is not None and not ranged:
            problems.append("minimum: belongs to scales of the rule range")
        if self.zero_point is not None and not ranged:
            problems.append("zero_point: belongs to scales of the rule range")
        if ranged and (self.minimum is None) == (self.zero_point is None):
            problems.append("minimum: scales of the rule range need it, or a zero_point, not both")
        if self.zero_point and not element_called(self.element).name.startswith("uint"):
            problems.append("element: must be uint2..uint8 with a zero point")
        if self.zero_point and self.special:
            problems.append("special: must not be given with a zero point")
        if self.scale.rule == "range" and min(element_called(self.element).finite) < 0:
            problems.append("element: must have no negative numbers with the rule range")
        if self.scale.second and (power or self.scale.format not in ("e4m3", "uint8")):
            problems.append("scale.second: belongs to scales of the formats e4m3 and uint8")
        if self.scale.format == "uint8" and not self.scale.second:
            problems.append("scale.second: must be given with scales of the format uint8")
        width = element_called(self.element).width
        if self.packing.halves and (width != 4 or self.block % 2):
            problems.append("packing.halves: needs elements of 4 bits and an even block")
        if self.special and self.special.code >= 1 << width:
            problems.append(f"special.code: must be below {1 << width}, a code of {self.element}")
        if problems:
            raise PydanticCustomError("rules", "{text}", {"text": "\n".join(problems)})
        return self

    def format(self) -> BlockFormat:
        """Return the format."""
        return BlockFormat(
            name=self.name,
            summary=self.summary,
            element=element_called(self.element),
            block=self.block,
            scale=SCALES[self.scale.format],
            rule=self.scale.rule,
            rounding=self.rounding,
            reciprocal=self.reciprocal,
            minimum=FLOATS[self.minimum] if self.minimum else None,
            zero_width=int(self.zero_point.removeprefix("uint")) if self.zero_point else 0,
            second=self.scale.second,
            poisoned=self.nan == "block",
            halves=self.packing.halves,
            together=self.packing.together,
            special=self.special.values if self.special else (),
            special_code=self.special.code if self.special else None,
        )


def document_of(fmt: BlockFormat) -> dict[str, Any]:
    """Return a format as the contents of its file: plain values, defaults left out."""
    special = {"code": fmt.special_code, "values": list(fmt.special)} if fmt.special else None
    contents = {
        "name": fmt.name,
        "summary": fmt.summary,
        "element": fmt.element.name,
        "block": fmt.block,
        "scale": {"format": fmt.scale.name, "rule": fmt.rule, "second": fmt.second},
        "minimum": fmt.minimum.name if fmt.minimum else None,
        "zero_point": f"uint{fmt.zero_width}" if fmt.zero_width else None,
        "special": special,
        "rounding": fmt.rounding,
        "reciprocal": fmt.reciprocal,
        "nan": "block" if fmt.poisoned else "refuse",
        "packing": {"halves": fmt.halves, "together": fmt.together},
    }
    return FormatFile.model_validate(contents).model_dump(mode="json", exclude_defaults=True)
