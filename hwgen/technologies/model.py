# SPDX-License-Identifier: Apache-2.0
"""Data file of a technology.

Cells and pins are names of the library or of the mapper; patterns of names are those of a shell
(``*``, ``?``, ``[1-6]``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from hwgen.config.base import Model, check_rules
from hwgen.technologies.base import Count, Positive, Several, TechnologyModel
from hwgen.technologies.fpga_model import Fpga

Ports = Literal["1rw", "1rw1r", "2rw"]
"""Ports of a macro: one for both, one for both and one that reads, two for both."""

Role = Literal[
    "clock", "enable", "read", "write", "not_read", "not_write", "address", "read_address",
    "write_address", "data", "mask", "result", "high", "low",
]  # fmt: skip
"""What a pin of a macro is connected to."""


class Macro(Model):
    """A published SRAM macro, typical corner."""

    name: str = Field(pattern=r"^[A-Za-z_]\w*$", description="Name of the cell.")
    ports: Ports = Field(
        "1rw", description="`1rw` (one port), `1rw1r` (and one that reads) or `2rw` (two ports)."
    )
    words: Count = Field(description="Words of one macro.")
    width: Count = Field(description="Bits of a word.")
    area_um2: Positive = Field(description="Area in um2.")
    read_pj: Positive | None = Field(None, description="Energy of a read in pJ.")
    write_pj: Positive | None = Field(None, description="Energy of a write in pJ.")
    write_through_pj: Positive | None = Field(
        None, description="Energy in pJ of a write whose word is read at once."
    )
    leakage_nw: Positive | None = Field(None, description="Leakage in nW.")
    clk_to_q_ns: Positive = Field(description="From the clock edge to the data, in ns.")
    min_period_ns: Positive | None = Field(None, description="Shortest clock period in ns.")
    lacks: Several[str] = Field((), description="Patterns of pins of `ports` that it has not.")


class Memories(Model):
    """SRAM macros that memories are made of."""

    source: str = Field(description="Where the figures are from.")
    no_energy: str | None = Field(
        None,
        description="Why energies are not known; needed if those of a macro are missing"
        " and no other macro has any.",
    )
    energy_source: str | None = Field(
        None, description="Where energies and leakage are from, if they are modelled elsewhere."
    )
    energy_factor: float | None = Field(
        None,
        gt=1,
        description="With `energy_source`: the factor that they may be off by, either way.",
    )
    setup_ns: Positive = Field(description="Setup time of the inputs in ns.")
    input_ff: Positive = Field(description="Load of an input in fF.")
    clock_ff: Positive = Field(description="Load of a clock in fF.")
    holds: bool = Field(
        description="Whether the data stay until the next read; else a register holds them."
    )
    falling: bool = Field(
        False, description="Whether `clk_to_q_ns` begins with the falling edge of the clock."
    )
    ports: Mapping[Ports, Mapping[str, Role]] = Field(
        description="Of macros with these ports, what each pin is connected to: `clock`; `enable`"
        " (of either access), `read`, `write`, `not_read`, `not_write`; `address`, or"
        " `read_address` and `write_address`; `data`, `mask` (all ones), `result`; `high`, `low`."
    )
    macros: Several[Macro] = Field(description="At least three, of different words and widths.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        broken = []
        if len(self.macros) < 3:
            broken.append("macros: must be three or more, a fit has three terms")
        missing = {macro.ports for macro in self.macros} - self.ports.keys()
        if missing:
            broken.append(f"ports: the pins of {', '.join(sorted(missing))} are missing")
        if self.no_energy is None and not any(macro.read_pj for macro in self.macros):
            broken.append("no_energy: missing; no macro has energies, say why")
        if (self.energy_source is None) != (self.energy_factor is None):
            broken.append("energy_factor: needed with energy_source, and only with it")
        check_rules(broken)
        return self


class Pin(Model):
    """A pin of a cell."""

    cell: str = Field(description="Name of the cell.")
    pin: str = Field(description="Its output.")


class FullAdder(Model):
    """The full-adder cell."""

    cell: str = Field(description="Name of the cell.")
    inputs: Annotated[tuple[str, str, str], Field(strict=False)] = Field(
        description="The three inputs, the carry last."
    )
    carry: str = Field(description="Output of the carry.")
    sum: str = Field(description="Output of the sum.")
    inverted: bool = Field(False, description="Whether both outputs are inverted.")


class Buffer(Model):
    """The largest buffer that trees for nets with many sinks are made of."""

    cell: str = Field(description="Name of the cell.")
    input: str = Field(description="Its input.")
    output: str = Field(description="Its output.")
    load_ff: Positive = Field(description="Load in fF that it drives quickly.")


class Wires(Model):
    """Wires between cells that were placed."""

    source: str = Field(description="Where the figures are from.")
    ff_per_um: Positive = Field(description="Capacitance of a signal's wire in fF per um.")
    ohm_per_um: Positive = Field(description="Resistance of a signal's wire in ohm per um.")
    utilisation: float = Field(
        0.7, gt=0, le=1, description="Share of the core that cells usually fill."
    )


class FlipFlops(Model):
    """Mapping of registers."""

    enables: bool = Field(
        False,
        description="Whether registers with an enable become cells that have one; else the enable"
        " becomes a multiplexer in front, which is smaller where such cells are large.",
    )


class StandardCells(TechnologyModel):
    """A standard-cell library: what a synthesis flow must know beside its Liberty files."""

    kind: Literal["standard_cells"] = Field(description="`standard_cells`.")
    liberty: Several[str] = Field(
        min_length=1,
        description="Liberty files that make the library, compressed or not: relative to the PDK"
        " directory, or beside this file.",
    )
    liberty_origin: str = Field(
        "", description="Where the Liberty files come from, for people who lack them."
    )
    unusable: Several[str] = Field(
        (),
        description="Patterns of cells that a mapper must not pick: scan, clock gates, tristate,"
        " delay, fill, and those that do not route well.",
    )
    mapper_clock_ps: Positive = Field(
        description="Clock period in ps that calibration lets the mapper aim at: so short that it"
        " makes everything about as fast as it can, and area and delay follow from the structure of"
        " a design rather than from its slack.",
    )
    driver: str = Field(description="A buffer of ordinary strength, which drives the inputs.")
    load_ff: Positive = Field(description="Load of an output in fF: a few gate inputs.")
    high: Pin = Field(description="The constant one.")
    low: Pin = Field(description="The constant zero.")
    buffer: Buffer
    full_adder: FullAdder | None = Field(None, description="The full-adder cell, if there is one.")
    wires: Wires | None = Field(
        None, description="Wires between placed cells, for `hwgen synth --wires`."
    )
    flip_flops: FlipFlops = Field(default_factory=FlipFlops)
    memories: Memories | None = Field(
        None, description="Published SRAM macros, which buffers of engines are estimated by."
    )

    @property
    def needed_cells(self) -> tuple[str, ...]:
        """The cells that the library must have."""
        adder = [self.full_adder.cell] if self.full_adder else []
        return (self.driver, self.buffer.cell, self.high.cell, self.low.cell, *adder)


Technology = StandardCells | Fpga

MODELS: Mapping[str, type[StandardCells] | type[Fpga]] = {
    "standard_cells": StandardCells,
    "fpga": Fpga,
}
"""The models by what ``kind`` says."""
