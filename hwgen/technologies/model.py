# SPDX-License-Identifier: Apache-2.0
"""What the data file of a technology holds.

Cells and pins are names of the library or of the mapper; patterns of names are those of a shell
(``*``, ``?``, ``[1-6]``).
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field, model_validator

from hwgen.config.model import Model, check_rules

T = TypeVar("T")

Several = Annotated[tuple[T, ...], Field(strict=False)]
"""A list in the file."""

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]

Resource = Literal["luts", "flip_flops", "carries", "wide_muxes", "dsps", "brams", "lutrams"]
"""Look-up tables, registers, carry cells, multiplexers behind look-up tables, DSP blocks, block
memories, and memories (or shift registers) made of look-up tables."""

# -- memories ----------------------------------------------------------------------------------


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
        return check_rules(self, broken)


# -- technologies ------------------------------------------------------------------------------


class _Technology(Model):
    """What every technology has."""

    name: str = Field(pattern=r"^[a-z][a-z0-9._-]*$", description="Value of `target.technology`.")
    summary: str = Field(description="One line for `hwgen technologies`.")
    costs: str | None = Field(
        None,
        description="Name of the table of costs beside this file, which `hwgen calibrate` writes;"
        " without it the technology is not calibrated.",
    )

    @model_validator(mode="after")
    def _beside(self) -> Self:
        away = self.costs is not None and ("/" in self.costs or "\\" in self.costs)
        return check_rules(
            self, ["costs: must be the name of a file beside this one"] if away else []
        )

    @property
    def mapping(self) -> str:
        """What shapes a mapped design, as text: part of the name of results that are kept."""
        return self.model_dump_json(exclude=_BESIDE_MAPPING)


_BESIDE_MAPPING = {
    "summary", "costs", "liberty", "mapper_clock_ps", "memories", "rules", "place_and_route",
    "devices", "luts_in", "dsp_block",
}  # fmt: skip
"""Fields that shape no mapped design; the Liberty files count by what they hold."""


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
    """A strong buffer, for signals that fan out to many modules."""

    cell: str = Field(description="Name of the cell.")
    input: str = Field(description="Its input.")
    output: str = Field(description="Its output.")
    load_ff: Positive = Field(description="Load in fF that it drives quickly.")


class FlipFlops(Model):
    """How registers are mapped."""

    enables: bool = Field(
        False,
        description="Whether registers with an enable become cells that have one; else the enable"
        " becomes a multiplexer in front, which is smaller where such cells are large.",
    )


class StandardCells(_Technology):
    """A standard-cell library: what a synthesis flow must know beside its Liberty files."""

    kind: Literal["standard_cells"] = Field(description="`standard_cells`.")
    liberty: Several[str] = Field(
        min_length=1,
        description="Liberty files that make the library, compressed or not: relative to the PDK"
        " directory, or beside this file.",
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
    flip_flops: FlipFlops = Field(default_factory=FlipFlops)
    memories: Memories | None = Field(
        None, description="Published SRAM macros, which buffers of engines are estimated by."
    )

    @property
    def needed_cells(self) -> tuple[str, ...]:
        """The cells that the library must have."""
        adder = [self.full_adder.cell] if self.full_adder else []
        return (self.driver, self.buffer.cell, self.high.cell, self.low.cell, *adder)


# -- FPGAs -------------------------------------------------------------------------------------


class CellUse(Model):
    """What cells of a mapped design are."""

    cells: str = Field(description="Pattern of their names.")
    resource: Resource = Field(
        description="What they are: luts, flip_flops, carries (carry cells), wide_muxes"
        " (multiplexers behind look-up tables), dsps, brams (block memories) or lutrams (memories"
        " or shift registers made of look-up tables)."
    )
    count: Count = Field(1, description="How many of the resource one is.")
    registered: bool = Field(
        False,
        description="Whether the mapper makes use of registers in it, so that paths end there;"
        " flip-flops and memories always do.",
    )


class BlockMemory(Model):
    """The shape of a block memory: `lanes` columns of `words` words of `lane_bits` bits."""

    words: Count = Field(description="Words of a column.")
    lane_bits: Count = Field(description="Bits of a word of a column.")
    lanes: Count = Field(description="Columns of one block memory.")


class LutMemory(Model):
    """Small memories made of look-up tables."""

    shapes: Several[Annotated[tuple[int, int], Field(strict=False)]] = Field(
        min_length=1, description="Words and width of one; the first that takes fewest is taken."
    )
    chosen: Annotated[int, Field(ge=2)] = Field(
        description="Parts of a deeper memory among which a look-up table chooses."
    )
    per_block: Positive = Field(description="Small memories that are dearer than a block memory.")


class HeldMemory(Model):
    """Registers and block memories, where there are no small memories."""

    per_block: Positive = Field(description="Bits of registers that are dearer than a block.")
    more: Annotated[float, Field(ge=0)] = Field(
        description="How many more bits a memory must have before it becomes a block."
    )


class FabricRules(Model):
    """What becomes a carry cell, a DSP block, a memory: thresholds of the mapper, no costs."""

    carry_bits: Count = Field(description="Bits of an adder in one carry cell.")
    last_bit_free: bool = Field(
        False, description="Whether an adder's last bit needs no carry cell."
    )
    short_counter: Count = Field(description="Bits of the longest counter without carry cells.")
    dsp_bits: Annotated[int, Field(ge=0)] | None = Field(
        None,
        description="Bits of the smallest product that becomes a DSP block; none: none does.",
    )
    dsp_factors: Annotated[tuple[int, int, int, int], Field(strict=False)] | None = Field(
        None,
        description="Bits of the longer and the shorter factor of a DSP block, bits of a part of"
        " longer ones, and 1 if factors are signed only.",
    )
    lut_inputs: Annotated[int, Field(ge=2)] = Field(description="Inputs of a look-up table.")
    lut_costs: Several[float] = Field(
        (),
        description="What the mapper takes a look-up table of no inputs, of one, of two and so on"
        " for; default all alike.",
    )
    drain: Several[int] = Field(
        (),
        description="Look-up tables by which one bit of 0, 1, 2 ... words drains, each word with a"
        " select signal; of more words, as many as a tree needs.",
    )
    few: Several[float] = Field(
        min_length=1,
        description="Look-up tables by which a bit of a table of one entry, of two and so on is"
        " chosen; half a one if the adder behind chooses one of its two operands.",
    )
    block_memory: BlockMemory
    lut_memory: LutMemory | None = None
    held_memory: HeldMemory | None = None
    brams_read_first: bool = Field(
        False,
        description="Whether a block memory reads what was there before it is written in the same"
        " cycle; else there is logic around it for that.",
    )
    dsp_adds: bool = Field(
        False,
        description="Whether a DSP block contains the adder behind the product, and registers"
        " between them, behind, and in front if nothing else reads them.",
    )
    signed_rows_free: bool = Field(
        False,
        description="Whether the sum of two signed rows of a product needs no carry cell for its"
        " last bit.",
    )
    sums_outside: bool = Field(
        False,
        description="Whether look-up tables in front of a carry cell add the bits of an adder.",
    )
    subtracts: bool = Field(
        False, description="Whether a carry cell itself inverts a number that is subtracted."
    )
    reset_enables: bool = Field(
        False,
        description="Whether a register that may keep its value is reset only where it is enabled.",
    )
    adders_choose: bool = Field(
        False,
        description="Whether the look-up tables of an adder choose one of its operands as well.",
    )
    ends_free: bool = Field(
        False,
        description="Whether an adder needs no look-up table for the bit where a carry enters,"
        " and for the one above the signs of both its operands.",
    )
    inverters: bool = Field(
        False,
        description="Whether an inverter in front of a register is a cell that is no look-up"
        " table.",
    )
    shifts: bool = Field(
        False,
        description="Whether three registers and more, one behind the other and without reset,"
        " become a shift register.",
    )

    @model_validator(mode="after")
    def _one_kind_of_small_memory(self) -> Self:
        wrong = (self.lut_memory is None) == (self.held_memory is None)
        return check_rules(
            self, ["lut_memory: either this or held_memory must be there"] if wrong else []
        )


class PlaceAndRoute(Model):
    """Place and route with nextpnr."""

    tool: str = Field(description="The program, as `hwgen doctor` calls it.")
    devices: Mapping[str, Several[str]] = Field(
        min_length=1,
        description="Packages of each device, the first one taken unless another is asked for.",
    )
    device: str = Field(description="The one taken unless another is asked for: the largest.")
    timed_on: str | None = Field(
        None, description="The device that delays are calibrated on; default `device`."
    )
    dsp_devices: str = Field("*", description="Pattern of the devices that have DSP blocks.")
    speeds: Several[str] = Field(
        (), description="Speed grades, slowest first; empty where the device says it."
    )
    free_pins: str = Field(description="Option that lets the tool choose pins.")
    pins: str = Field(description="Option that takes a file of pins.")
    routed: str = Field(description="Option that writes the routed design for the packer.")
    packer: str = Field(description="The program that makes a bitstream of it.")
    usual_ns: Mapping[str, Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict,
        description="How long steps of `cost_model.timing.network` usually take, about: delays of"
        " cells and of wires of a few loads as the tool reports them. Calibration stays near them"
        " where designs say little.",
    )

    @model_validator(mode="after")
    def _devices(self) -> Self:
        broken = [] if self.device in self.devices else ["device: must be one of `devices`"]
        broken += [
            f"devices.{name}: must have a package" for name, p in self.devices.items() if not p
        ]
        return check_rules(self, broken)


class Device(Model):
    """What a device has, counted as `cells` are."""

    luts: Count = Field(description="Look-up tables.")
    flip_flops: Count = Field(description="Flip-flops.")
    dsps: Annotated[int, Field(ge=0)] = Field(description="DSP blocks.")
    brams: Annotated[int, Field(ge=0)] = Field(description="Block memories of `bram_kbit` each.")
    urams: Annotated[int, Field(ge=0)] = Field(
        0, description="Large memories, which synthesis does not infer: UltraRAM, SPRAM."
    )
    placed_as: str | None = Field(
        None, description="What `place_and_route` calls it; none: it cannot be placed."
    )
    source: str = Field(description="Where the figures are from.")


class DspBlock(Model):
    """What a DSP block multiplies and adds, as far as synthesis makes use of it."""

    factors: Annotated[tuple[Count, Count], Field(strict=False)] = Field(
        description="Bits of its signed factors, the longer one first."
    )
    accumulator: Count | None = Field(
        None,
        description="Bits of the accumulator behind the product; none where synthesis has adders"
        " and registers beside the block.",
    )


class Recipes(Model):
    """Options of the synthesis command by recipe."""

    dsp: str = Field(description="Products in DSP blocks where the mapper finds it worth one.")
    logic: str = Field(description="No DSP blocks.")


class Fpga(_Technology):
    """An FPGA family."""

    kind: Literal["fpga"] = Field(description="`fpga`.")
    command: str = Field(description="The synthesis command of Yosys.")
    options: Recipes
    recipe: Literal["dsp", "logic"] = Field(
        description="The recipe taken unless another is asked for."
    )
    dsp_bits: Annotated[int, Field(ge=0)] = Field(
        0, description="Bits of the smallest product that Yosys gives a DSP block."
    )
    dsp_block: DspBlock | None = Field(
        None, description="The DSP block, which `array.packing` fills with several products."
    )
    bram_kbit: Count = Field(18, description="Kilobits of what counts as one block memory.")
    cells: Several[CellUse] = Field(
        min_length=1, description="What cells are; the first whose pattern fits counts."
    )
    read_ports: Mapping[str, str] = Field(
        default_factory=dict,
        description="Pattern of small memories: pattern of the ports from which a path leads"
        " through them.",
    )
    rules: FabricRules | None = Field(
        None,
        description="What components become there; without them areas cannot be estimated.",
    )
    place_and_route: PlaceAndRoute | None = Field(
        None, description="Place and route with nextpnr, if there is one for the family."
    )
    devices: Mapping[str, Device] = Field(
        default_factory=dict, description="Devices by the name that `target.device` takes."
    )
    luts_in: Mapping[Resource, Count] = Field(
        default_factory=dict,
        description="Look-up tables of a device that one of another resource takes at most: a carry"
        " cell, a memory made of look-up tables.",
    )

    @model_validator(mode="after")
    def _placeable(self) -> Self:
        known = self.place_and_route.devices if self.place_and_route else {}
        broken = [
            f"devices.{name}: placed_as: must be one of `place_and_route.devices`"
            for name, device in self.devices.items()
            if device.placed_as is not None and device.placed_as not in known
        ]
        return check_rules(self, broken)

    @cached_property
    def _uses(self) -> dict[str, CellUse | None]:
        return {}

    def use_of(self, cell: str) -> CellUse | None:
        """Return what a cell is, None for what costs nothing."""
        if cell not in self._uses:
            fits = (use for use in self.cells if fnmatchcase(cell, use.cells))
            self._uses[cell] = next(fits, None)
        return self._uses[cell]

    def through(self, cell: str, port: str) -> bool:
        """Return whether a path leads from a port through a small memory."""
        return any(
            fnmatchcase(cell, cells) and fnmatchcase(port, ports)
            for cells, ports in self.read_ports.items()
        )


Technology = StandardCells | Fpga

KINDS: Mapping[str, type[StandardCells] | type[Fpga]] = {
    "standard_cells": StandardCells,
    "fpga": Fpga,
}
"""The models by what ``kind`` says."""
