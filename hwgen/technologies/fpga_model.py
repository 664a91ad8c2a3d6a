# SPDX-License-Identifier: Apache-2.0
"""Data file of an FPGA family; see also `hwgen.technologies.model`."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from string import Formatter
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from hwgen.config.base import Model, check_rules
from hwgen.technologies.base import Count, Positive, Several, TechnologyModel

Resource = Literal[
    "luts", "flip_flops", "carries", "wide_muxes", "dsps", "brams", "lutrams", "urams"
]  # fmt: skip
"""Look-up tables, registers, carry cells, multiplexers behind look-up tables, DSP blocks, block
memories, memories (or shift registers) made of look-up tables, and large memories."""


class CellUse(Model):
    """Resources that the cells of a mapped design use."""

    cells: str = Field(description="Pattern of their names.")
    resource: Resource = Field(
        description="What they are: luts, flip_flops, carries (carry cells), wide_muxes"
        " (multiplexers behind look-up tables), dsps, brams (block memories), lutrams (memories"
        " or shift registers made of look-up tables) or urams (large memories)."
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
    cost: Positive | None = Field(
        None,
        description="What the mapper takes one for, where a bit of a register costs 1; needed where"
        " there are small memories.",
    )


class LutMemory(Model):
    """Small memories made of look-up tables."""

    shapes: Several[Annotated[tuple[int, int], Field(strict=False)]] = Field(
        min_length=1, description="Words and width of one; the first that takes fewest is taken."
    )
    chosen: Annotated[int, Field(ge=2)] = Field(
        description="Parts of a deeper memory among which a look-up table chooses."
    )
    cost: Positive = Field(
        description="What the mapper takes one for, where a bit of a register costs 1."
    )
    cost_by_width: Annotated[float, Field(ge=0)] = Field(
        0, description="The part of it that grows with the bits that are used of a word."
    )


class RegisterMemory(Model):
    """Registers and block memories, where there are no small memories."""

    per_block: Positive = Field(description="Bits of registers that are dearer than a block.")
    more: Annotated[float, Field(ge=0)] = Field(
        description="How many more bits a memory must have before it becomes a block."
    )
    more_at_once: Annotated[float, Field(ge=0)] | None = Field(
        None,
        description="The same of one that is read at once, from an address in a register; default"
        " `more`.",
    )


class LutTrees(Model):
    """Look-up tables of the mapper that are trees of functions of two inputs."""

    pair: Positive = Field(description="One of two inputs.")
    tree: Positive = Field(description="Two pairs of inputs, or one and a further input.")
    long: Positive = Field(description="Such a tree and a further input behind.")
    multiplexer: Positive = Field(description="A multiplexer of two.")
    long_luts: Count = Field(1, description="Look-up tables that one of `long` takes.")


class FabricRules(Model):
    """Thresholds of the mapper for carry cells, DSP blocks and memories; no costs."""

    carry_bits: Count = Field(description="Bits of an adder in one carry cell.")
    last_bit_free: bool = Field(
        False, description="Whether an adder's last bit needs no carry cell."
    )
    carry_pairs: bool = Field(
        False,
        description="Whether carry cells give the carries of pairs of bits only, and look-up tables"
        " the others.",
    )
    carry_feeds: Annotated[int, Field(ge=0)] = Field(
        0, description="Further carry cells of an adder, by which its first carry enters."
    )
    short_counter: Count = Field(description="Bits of the longest counter without carry cells.")
    dsp_bits: Annotated[int, Field(ge=0)] | None = Field(
        None,
        description="Bits of the smallest product that becomes a DSP block; none: none does.",
    )
    dsp_narrow: Count = Field(
        2, description="Bits of the shortest factor of a product that becomes a DSP block."
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
    lut_trees: LutTrees | None = Field(
        None,
        description="Where look-up tables are trees of ones of two inputs; none: they make"
        " whatever their inputs allow.",
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
    register_memory: RegisterMemory | None = None
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
    compare_inputs: Annotated[int, Field(ge=2)] | None = Field(
        None,
        description="Inputs of the look-up tables in front of carry cells by which two numbers are"
        " compared, some bits each; none: they are subtracted.",
    )
    subtracts: bool = Field(
        False, description="Whether a carry cell itself inverts a number that is subtracted."
    )
    reset_enables: bool = Field(
        False,
        description="Whether a register that may keep its value is reset only where it is enabled.",
    )
    resets: bool = Field(
        True,
        description="Whether a register has an input that resets it with the clock; else logic in"
        " front of it does.",
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
    def _check_small_memory(self) -> Self:
        wrong = (self.lut_memory is None) == (self.register_memory is None)
        check_rules(["lut_memory: either this or register_memory must be present"] if wrong else [])
        return self


_PLACEHOLDERS: Mapping[str, tuple[str, ...]] = {
    "part": ("device", "package", "speed"),
    "pin": ("port", "pin"),
    "pins": ("file",),
    "routed": ("file",),
    "pack": ("routed", "bitstream", "device"),
}
"""What stands for something in the options of `PlaceAndRoute`."""


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
    command: str | None = Field(
        None,
        description="The synthesis command for designs that are placed, if it is another: where"
        " pins need pads.",
    )
    open_inputs: Mapping[str, str] = Field(
        default_factory=dict,
        description="Of kinds of cells the input that must be left open where it is constant, as"
        " the first carry of a chain.",
    )
    untimed: Several[Resource] = Field(
        (), description="Resources of which the tool knows no delays; paths end there."
    )
    part: str = Field(
        "--{device} --package {package}",
        description="Options that name a part, of `{device}`, `{package}` and `{speed}`.",
    )
    free_pins: str = Field("", description="Option that lets the tool choose pins, if it has one.")
    frame_pins: Mapping[str, Annotated[tuple[str, str, str], Field(strict=False)]] = Field(
        default_factory=dict,
        description="Where the tool chooses no pins: of each package three, for the clock, the"
        " input and the output of the frame around a core.",
    )
    pin: str = Field("", description="Line of a file of pins, of `{port}` and `{pin}`.")
    pins: str = Field(description="Option that takes `{file}`, a file of pins.")
    large: int = Field(
        1 << 30, description="Cells from which on `large_options` are given, too.",
        json_schema_extra={"unit": "cells"},
    )  # fmt: skip
    large_options: str = Field(
        "", description="Options for such netlists, for which the usual router would take hours."
    )
    routed: str = Field(description="Option that writes the routed design to `{file}`.")
    packer: str | None = Field(
        None, description="The program that makes a bitstream of it; none: no package has one."
    )
    pack: str = Field(
        "{routed} {bitstream}",
        description="Arguments of the packer, of `{routed}`, `{bitstream}` and `{device}`.",
    )
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
        for field, allowed in _PLACEHOLDERS.items():
            used = {name for _, name, _, _ in Formatter().parse(getattr(self, field)) if name}
            broken += [
                f"{field}: {{{name}}} is none of {', '.join(f'{{{a}}}' for a in allowed)}"
                for name in sorted(used - set(allowed))
            ]
        check_rules(broken)
        return self


class Device(Model):
    """Resources of a device, counted as `cells` are."""

    luts: Count = Field(description="Look-up tables.")
    flip_flops: Count = Field(description="Flip-flops.")
    dsps: Annotated[int, Field(ge=0)] = Field(description="DSP blocks.")
    brams: Annotated[int, Field(ge=0)] = Field(description="Block memories of `bram_kbit` each.")
    urams: Annotated[int, Field(ge=0)] = Field(
        0,
        description="Large memories: UltraRAM, by the recipe `uram`; SPRAM, which synthesis does"
        " not infer.",
    )
    placed_as: str | None = Field(
        None, description="What `place_and_route` calls it; none: it cannot be placed."
    )
    fmax_share: Annotated[tuple[float, float], Field(strict=False)] | None = Field(
        None,
        description="Least and most that it reaches of the estimated Fmax, where its fabric is"
        " slower than the one that delays are of.",
    )
    source: str = Field(description="Where the figures are from.")


class DspBlock(Model):
    """Products and sums of a DSP block, as far as synthesis uses them."""

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
    uram: str | None = Field(
        None, description="As `dsp`, and deep memories in large ones; none: there are none."
    )


class Fpga(TechnologyModel):
    """An FPGA family."""

    kind: Literal["fpga"] = Field(description="`fpga`.")
    clock_mhz: Annotated[float, Field(ge=1)] = Field(
        100.0,
        description="Clock target in MHz of configurations that name none: what an array of"
        " 16 x 16 integers reaches, in round numbers.",
    )
    command: str = Field(description="The synthesis command of Yosys.")
    options: Recipes
    products: str = Field(
        "",
        description="Commands of Yosys in front of `command` that make products DSP blocks, by the"
        " recipe `dsp`, where `command` would do something else.",
    )
    recipe: Literal["dsp", "logic"] = Field(
        description="The recipe taken unless another is asked for."
    )
    dsp_bits: Annotated[int, Field(ge=0)] = Field(
        0, description="Bits of the smallest product that Yosys gives a DSP block."
    )
    dsp_narrow: Count = Field(
        2, description="Bits of the shortest factor of a product that Yosys gives a DSP block."
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
        placeable = self.place_and_route.devices if self.place_and_route else {}
        broken = [
            f"devices.{name}: placed_as: must be one of `place_and_route.devices`"
            for name, device in self.devices.items()
            if device.placed_as is not None and device.placed_as not in placeable
        ]
        check_rules(broken)
        return self

    @cached_property
    def _uses(self) -> dict[str, CellUse | None]:
        return {}

    def use_of(self, cell: str) -> CellUse | None:
        """Return the use of a cell; None if it costs nothing."""
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
