# SPDX-License-Identifier: Apache-2.0
"""Fields that the data files of all technologies have."""

from __future__ import annotations

from typing import Annotated, Self, TypeVar

from pydantic import Field, model_validator

from hwgen.config.base import Model, check_rules

T = TypeVar("T")

Several = Annotated[tuple[T, ...], Field(strict=False)]
"""A list in the file."""

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]


class TechnologyModel(Model):
    """Base of all technologies."""

    name: str = Field(pattern=r"^[a-z][a-z0-9._-]*$", description="Value of `target.technology`.")
    summary: str = Field(description="One line for `hwgen technologies`.")
    costs: str | None = Field(
        None,
        description="Name of the table of costs beside this file, which `hwgen calibrate` writes;"
        " without it the technology is not calibrated.",
    )

    @model_validator(mode="after")
    def _check_costs(self) -> Self:
        away = self.costs is not None and ("/" in self.costs or "\\" in self.costs)
        check_rules(["costs: must be the name of a file beside this one"] if away else [])
        return self

    @property
    def mapping(self) -> str:
        """The settings that shape a mapped design, as text: part of the key of cached results."""
        return self.model_dump_json(exclude=_NON_MAPPING_FIELDS)


_NON_MAPPING_FIELDS = {
    "summary", "costs", "liberty", "mapper_clock_ps", "memories", "rules", "place_and_route",
    "devices", "luts_in", "dsp_block", "clock_mhz", "liberty_origin",
}  # fmt: skip
"""Fields that shape no mapped design; the Liberty files count by what they hold."""
