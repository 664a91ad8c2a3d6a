# SPDX-License-Identifier: Apache-2.0
"""A user's own table of costs as a technology: area, energy and delay without a library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, model_validator

from hwgen.config.base import Model, check_rules
from hwgen.technologies.model import Buffer, Pin, StandardCells

Cost = Annotated[float, Field(ge=0, le=1e9)]
Share = Annotated[float, Field(ge=0, le=10)]


class ComponentCosts(Model):
    """A cost of each component of a netlist."""

    register_bit: Cost = Field(description="Bit of a register or of a memory made of registers.")
    enable_bit: Cost = Field(description="Bit of them that may keep its value.")
    reset_bit: Cost = Field(description="Bit of them with a reset.")
    read_bit: Cost = Field(description="Bit of a word that a port of a memory chooses from.")
    adder_bit: Cost = Field(description="Bit of an adder.")
    adder_level: Cost = Field(description="Bit of an adder, for each level of its tree of carries.")
    increment_bit: Cost = Field(description="Bit of an adder of which one operand is constant.")
    sum_bit: Cost = Field(description="Bit of a number more than two in a sum of several.")
    less_bit: Cost = Field(description="Bit of a comparison by size.")
    equal_bit: Cost = Field(
        description="Bit of a comparison for equality, behind its exclusive or."
    )
    product_bit: Cost = Field(description="Bit of one narrow factor by a bit of the other.")
    product_extension: Cost = Field(
        description="Bit by which a row of a signed product is narrower than its sum."
    )
    booth_bit: Cost = Field(description="Bit of one factor by a bit of the other.")
    booth_extension: Cost = Field(description="Bit by which one of these factors is narrower.")
    booth_square: Cost = Field(
        description="Square of these bits: rows of the narrow factor's sign, widened."
    )
    full_adder: Cost = Field(description="Full adder of the design's own.")
    half_adder: Cost = Field(description="The same, one of its inputs constant.")
    mux_bit: Cost = Field(description="Multiplexer of two bits.")
    mask_bit: Cost = Field(description="Multiplexer of a bit and a constant.")
    select_bit: Cost = Field(description="Bit that one of several select signals lets through.")
    and_bit: Cost = Field(description="And, or of two bits.")
    reduce_bit: Cost = Field(description="Bit more than one of an and, an or of many bits.")
    xor_bit: Cost = Field(description="Exclusive or of two bits.")
    not_bit: Cost = Field(description="Inverter.")
    buffer: Cost = Field(description="Load of a signal by sixteen gates.")


Step = Literal[
    "register",
    "gate",
    "xor",
    "mux",
    "select",
    "adder",
    "adder_level",
    "adder_bit",
    "increment_bit",
    "compress",
    "full_adder_sum",
    "full_adder_carry",
    "multiplier",
    "multiplier_level",
    "multiplier_bit",
    "shift",
    "read",
    "fanout",
]
"""Steps of paths that have a delay."""


class Delays(Model):
    """Delays of paths."""

    ns: Mapping[Step, Cost] = Field(description="Delay of each step in ns.")
    outside: Annotated[float, Field(ge=0, le=0.9)] = Field(
        description="Share of the clock period that is gone before inputs arrive, and that outputs"
        " need."
    )
    uncertainty: Share = Field(description="Share by which a clock may be off, either way.")

    @model_validator(mode="after")
    def _check_steps(self) -> Self:
        missing = [name for name in get_args(Step) if name not in self.ns]
        names = ", ".join(missing[:4]) + (", ..." if len(missing) > 4 else "")
        number = f"{len(missing)} steps are missing: " if len(missing) > 4 else ""
        check_rules([f"ns: {number}{names}{'' if number else ' missing'}"] if missing else [])
        return self


class Uncertainty(Model):
    """Shares by which figures may be off, either way, as the author of the table states."""

    area: Share = Field(description="Of the area.")
    power: Share = Field(description="Of the power.")


_NO_CELL = "none"


class CostTable(StandardCells):
    """Standard cells that are known by a table of costs alone; nothing can be mapped to them."""

    kind: Literal["cost_table"] = Field(description="`cost_table`.")  # type: ignore[assignment]
    source: str = Field(
        min_length=1, description="Where the figures are from; estimates and sweeps print it."
    )
    area_um2: ComponentCosts = Field(description="Area of each component in um2.")
    energy_fj: ComponentCosts = Field(
        description="Energy of each component in fJ per clock cycle, at the activity of the user's"
        " designs."
    )
    leakage_nw: ComponentCosts | None = Field(
        None, description="Leakage of each component in nW; without it there is none."
    )
    delays: Delays | None = Field(
        None, description="Delays; without them the clock limit is unknown."
    )
    uncertainty: Uncertainty

    # What only a mapper needs.
    liberty: tuple[()] = ()
    mapper_clock_ps: float = 1000.0
    driver: str = _NO_CELL
    load_ff: float = 1.0
    high: Pin = Pin(cell=_NO_CELL, pin=_NO_CELL)
    low: Pin = Pin(cell=_NO_CELL, pin=_NO_CELL)
    buffer: Buffer = Buffer(cell=_NO_CELL, input=_NO_CELL, output=_NO_CELL, load_ff=1.0)

    @model_validator(mode="before")
    @classmethod
    def _refuse_library(cls, data: Any) -> Any:
        own = {"name", "summary"} | set(cls.__annotations__) - _MAPPER_FIELDS
        if isinstance(data, Mapping):
            check_rules(
                f"{name}: has no meaning in a table of costs; remove it"
                for name in cls.model_fields
                if name in data and name not in own
            )
        return data


_MAPPER_FIELDS = {"liberty", "mapper_clock_ps", "driver", "load_ff", "high", "low", "buffer"}
