# SPDX-License-Identifier: Apache-2.0
"""Mapping Verilog to FPGAs with Yosys.

Each entry of `FAMILIES` is a script of Yosys (its own ``synth_*`` command) and what is to be
counted in the result.  Memories become block or distributed memories as Yosys decides, products
DSP blocks under the recipe ``dsp`` and logic under ``logic``.  No pads and no clock buffers are
inserted: a core is measured as it would be inside a larger design.

Two things differ from the defaults of Yosys, both measured on processing elements and columns:

* Products in logic are sums of two halves down to single rows (`PRODUCTS`), on carry chains.
  Yosys's own trees of compressors take about twice the look-up tables (an 8 x 8 bit element on
  ice40: 376 against 195).
* Look-up tables of more inputs than the device has (``-nowidelut``) are not built where they cost
  whole look-up tables each (ecp5, gowin): with them a ternary-LUT column is twice as large.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal

from flows import levels, process
from flows.levels import Kind, Longest
from flows.toolchain import Found
from hwgen.errors import CheckFailed, InputError, did_you_mean

Resource = Literal["luts", "flip_flops", "carries", "wide_muxes", "dsps", "brams", "lutrams"]
"""Look-up tables, registers, carry cells, multiplexers behind look-up tables, DSP blocks, block
memories, and memories (or shift registers) made of look-up tables."""

RESOURCES: tuple[Resource, ...] = (
    "luts", "flip_flops", "carries", "wide_muxes", "dsps", "brams", "lutrams",
)  # fmt: skip

RECIPES: Mapping[str, str] = {
    "dsp": "products in DSP blocks where Yosys finds it worth one",
    "logic": "no DSP blocks",
}


@dataclass(frozen=True)
class Family:
    """An FPGA family.

    Parameters
    ----------
    name : str
    command : str
        The synthesis command of Yosys.
    options : mapping
        Further options by recipe.
    recipe : str
        The one taken unless another is asked for.
    cells : tuple of tuple
        Pattern of cell names, resource, and how many of it one is; the first that fits counts.
    read_ports : mapping
        Pattern of small memories: pattern of the ports from which a path leads through them.
    bram_kbit : int
        Kilobits of what counts as one block memory.
    dsp_bits : int
        Bits of the smallest product that Yosys gives a DSP block.
    """

    name: str
    command: str
    options: Mapping[str, str]
    recipe: str
    cells: tuple[tuple[str, Resource, int], ...]
    read_ports: Mapping[str, str] = field(default_factory=dict)
    bram_kbit: int = 18
    dsp_bits: int = 0

    def resource(self, cell: str) -> tuple[Resource, int] | None:
        """Return what a cell is and how many, None for what costs nothing."""
        for pattern, resource, count in self.cells:
            if fnmatchcase(cell, pattern):
                return resource, count
        return None

    def kind(self, cell: str) -> Kind:
        """Return what a cell is on a path."""
        resource = self.resource(cell)
        kinds: Mapping[Resource, Kind] = {
            "luts": "logic", "carries": "carry", "dsps": "logic", "wide_muxes": "free",
        }  # fmt: skip
        if resource is None:
            return "free"
        # The DSP blocks of Xilinx hold registers that Yosys makes use of.
        return "state" if cell.startswith("DSP48") else kinds.get(resource[0], "state")

    def through(self, cell: str, port: str) -> bool:
        """Return whether a path leads from a port through a small memory."""
        return any(
            fnmatchcase(cell, cells) and fnmatchcase(port, ports)
            for cells, ports in self.read_ports.items()
        )


_XILINX: tuple[tuple[str, Resource, int], ...] = (
    ("LUT[1-6]", "luts", 1), ("FD[RSCP]E*", "flip_flops", 1), ("LD[CP]E", "flip_flops", 1),
    ("CARRY[48]", "carries", 1), ("MUXF[789]", "wide_muxes", 1), ("DSP48*", "dsps", 1),
    ("RAMB36*", "brams", 2), ("RAMB18*", "brams", 1), ("URAM288*", "brams", 16),
    ("RAM*", "lutrams", 1), ("SRL*", "lutrams", 1),
)  # fmt: skip


def _xilinx(name: str) -> Family:
    command = f"synth_xilinx -family {name} -flatten -noiopad -noclkbuf"
    return Family(
        name, command, {"dsp": "", "logic": "-nodsp"}, "dsp", _XILINX,
        {"RAM[1-9]*": "*A*", "SRL*": "A*"}, dsp_bits=9,
    )  # fmt: skip


FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        Family(
            "ecp5", "synth_ecp5 -nowidelut", {"dsp": "", "logic": "-nodsp"}, "dsp",
            (
                ("LUT4", "luts", 1), ("TRELLIS_FF", "flip_flops", 1), ("CCU2C", "carries", 1),
                ("PFUMX", "wide_muxes", 1), ("L6MUX21", "wide_muxes", 1),
                ("MULT*", "dsps", 1), ("ALU54B", "dsps", 1),
                ("DP16KD", "brams", 1), ("PDPW16KD", "brams", 1), ("TRELLIS_DPR*", "lutrams", 1),
            ),
            {"TRELLIS_DPR*": "RAD"},
        ),
        Family(
            # HX and LP devices have no DSP blocks, those of UltraPlus have.
            "ice40", "synth_ice40", {"dsp": "-dsp -device u", "logic": ""}, "logic",
            (
                ("SB_LUT4", "luts", 1), ("SB_DFF*", "flip_flops", 1), ("SB_CARRY", "carries", 1),
                ("SB_MAC16", "dsps", 1), ("SB_RAM40*", "brams", 1), ("SB_SPRAM*", "brams", 64),
            ),
            bram_kbit=4, dsp_bits=11,
        ),
        _xilinx("xc7"),
        _xilinx("xcup"),
        Family(
            "gowin", "synth_gowin -noiopads -nowidelut", {"dsp": "", "logic": "-nodsp"}, "dsp",
            (
                ("LUT[1-4]", "luts", 1), ("DFF*", "flip_flops", 1), ("ALU", "carries", 1),
                ("MUX2_LUT*", "wide_muxes", 1), ("MULT*", "dsps", 1), ("ALU54D", "dsps", 1),
                ("PADD*", "dsps", 1), ("RAM16S*", "lutrams", 1), ("SP*", "brams", 1),
                ("SDP*", "brams", 1), ("DP*", "brams", 1),
            ),
            {"RAM16S*": "*AD*"},
        ),
    )
}  # fmt: skip

PRODUCTS = """\
(* techmap_celltype = "$mul $__product" *)
module product(A, B, Y);
  parameter A_SIGNED = 0;
  parameter B_SIGNED = 0;
  parameter A_WIDTH = 1;
  parameter B_WIDTH = 1;
  parameter Y_WIDTH = 1;
  input [A_WIDTH-1:0] A;
  input [B_WIDTH-1:0] B;
  output [Y_WIDTH-1:0] Y;
  localparam LOW = B_WIDTH / 2;
  localparam HIGH = B_WIDTH - LOW;
  localparam FULL = A_WIDTH + B_WIDTH;
  wire a_sign = A_SIGNED && A[A_WIDTH-1];
  wire [FULL-1:0] full;
  generate
    if (A_WIDTH < B_WIDTH) begin
      \\$__product #(.A_SIGNED(B_SIGNED), .B_SIGNED(A_SIGNED), .A_WIDTH(B_WIDTH),
        .B_WIDTH(A_WIDTH), .Y_WIDTH(FULL)) swapped(.A(B), .B(A), .Y(full));
    end else if (B_WIDTH == 1) begin
      if (B_SIGNED)
        assign full = B[0] ? -{a_sign, A} : 0;
      else
        assign full = {a_sign, A} & {FULL{B[0]}};
    end else begin
      wire [A_WIDTH+LOW-1:0] low;
      wire [A_WIDTH+HIGH-1:0] rest, sum;
      assign rest = {{(HIGH + 1){A_SIGNED && low[A_WIDTH+LOW-1]}}, low} >> LOW;
      \\$__product #(.A_SIGNED(A_SIGNED), .B_SIGNED(0), .A_WIDTH(A_WIDTH), .B_WIDTH(LOW),
        .Y_WIDTH(A_WIDTH + LOW)) lower(.A(A), .B(B[LOW-1:0]), .Y(low));
      if (HIGH == 1 && B_SIGNED) begin
        // The row of the sign is subtracted.
        wire [A_WIDTH:0] last = {a_sign, A} & {(A_WIDTH + 1){B[LOW]}};
        assign sum = rest - last;
      end else begin
        wire [A_WIDTH+HIGH-1:0] high;
        \\$__product #(.A_SIGNED(A_SIGNED), .B_SIGNED(B_SIGNED), .A_WIDTH(A_WIDTH),
          .B_WIDTH(HIGH), .Y_WIDTH(A_WIDTH + HIGH)) upper(.A(A), .B(B[B_WIDTH-1:LOW]), .Y(high));
        assign sum = rest + high;
      end
      assign full = {sum, low[LOW-1:0]};
    end
    if (Y_WIDTH <= FULL)
      assign Y = full[Y_WIDTH-1:0];
    else
      assign Y = {{(Y_WIDTH - FULL){(A_SIGNED || B_SIGNED) && full[FULL-1]}}, full};
  endgenerate
endmodule
"""
"""What makes a product of logic, for ``techmap``: of its two halves, and these of theirs."""


def family(name: str) -> Family:
    """Return the FPGA family called `name`, or raise `InputError`."""
    try:
        return FAMILIES[name]
    except KeyError:
        raise InputError(
            f"{name!r} is not an FPGA family{did_you_mean(name, FAMILIES)}; those known are"
            f" {', '.join(FAMILIES)}"
        ) from None


@dataclass(frozen=True)
class Mapped:
    """A design mapped to an FPGA.

    Parameters
    ----------
    family, recipe : str
    resources : mapping
        How many of each of `RESOURCES`.
    parts : mapping
        For each kept module, and the rest under the name of the top module: instances, and the
        resources of one.
    cells : mapping
        Number of each cell.
    longest : Longest or None
        The longest path.
    """

    family: str
    recipe: str
    resources: Mapping[str, int]
    parts: Mapping[str, tuple[int, Mapping[str, int]]]
    cells: Mapping[str, int]
    longest: Longest | None

    def document(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return asdict(self)


def script(chosen: Family, recipe: str, top: str, keep: Sequence[str]) -> str:
    """Return the script of Yosys.

    It reads ``design.v`` and ``products.v`` and leaves ``parts.json``, the cells of each module,
    and the flat netlist in ``netlist.json`` and ``netlist.v``.
    """
    command = " ".join([chosen.command, chosen.options[recipe], f"-top {top}"])
    kept = " ".join(keep)
    products = "t:$mul" if recipe == "logic" else f"t:$mul r:Y_WIDTH<{chosen.dsp_bits} %i"
    steps = [
        "read_verilog design.v",
        f"hierarchy -check -top {top}",
        f"setattr -mod -set keep_hierarchy 1 {kept}" if kept else "",
        "proc",
        "opt_expr",
        "wreduce",
        "opt_clean",
        f"techmap -map products.v {products}",
        " ".join(command.split()),
        "delete t:$scopeinfo",
        # Standard output ends with ABC where Yosys is a WASM program, hence files.
        "tee -q -o parts.json stat -json",
        "setattr -mod -unset keep_hierarchy *",
        "flatten",
        "delete t:$scopeinfo",
        "opt_clean",
        f"select {top}",
        "write_json -selected netlist.json",
        "write_verilog -noattr -selected netlist.v",
    ]
    return "\n".join(step for step in steps if step) + "\n"


def map_fpga(
    yosys: Found,
    verilog: str,
    top: str,
    chosen: Family,
    recipe: str,
    keep: Sequence[str],
    work: Path,
    timeout: float,
) -> Mapped:
    """Map a design.

    Parameters
    ----------
    yosys : Found
    verilog : str
        Text of all its modules.
    top : str
        The top module.
    chosen : Family
    recipe : str
        A key of `RECIPES`.
    keep : sequence of str
        Modules mapped once each; all else is flattened.
    work : Path
        Directory for script, log and netlists.
    timeout : float
        Seconds.

    Raises
    ------
    CheckFailed
        If Yosys fails or takes too long.
    """
    work.mkdir(parents=True, exist_ok=True)
    (work / "design.v").write_text(verilog, encoding="utf-8")
    (work / "products.v").write_text(PRODUCTS, encoding="utf-8")
    (work / "map.ys").write_text(script(chosen, recipe, top, keep), encoding="utf-8")
    process.run(yosys, ["-q", "-T", "map.ys"], work, "map.log", timeout)
    modules = _parts(work / "parts.json")
    counts = _instances(modules, top)
    flat = Counter[str]()
    parts = {}
    for name, count in counts.items():
        own = {cell: n for cell, n in modules[name].items() if cell not in counts}
        for cell, n in own.items():
            flat[cell] += count * n
        parts[name] = (count, resources(chosen, own))
    netlist = json.loads((work / "netlist.json").read_text(encoding="utf-8"))
    module = netlist["modules"][top]
    path = levels.longest(module, cache(chosen.kind), chosen.through)
    return Mapped(
        chosen.name, recipe, resources(chosen, flat), parts, dict(sorted(flat.items())), path
    )


def resources(chosen: Family, cells: Mapping[str, int]) -> dict[str, int]:
    """Return how many of each resource cells take."""
    found: dict[str, int] = dict.fromkeys(RESOURCES, 0)
    for cell, count in cells.items():
        if what := chosen.resource(cell):
            found[what[0]] += what[1] * count
    return found


def _parts(path: Path) -> dict[str, dict[str, int]]:
    try:
        modules = json.loads(path.read_text(encoding="utf-8"))["modules"]
        return {
            name.lstrip("\\"): {
                cell.lstrip("\\"): int(count) for cell, count in module["num_cells_by_type"].items()
            }
            for name, module in modules.items()
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckFailed(f"{path.name}: not the statistics of Yosys ({error})") from None


def _instances(modules: Mapping[str, Mapping[str, int]], top: str) -> dict[str, int]:
    counts = Counter({top: 1})
    waiting = [(top, 1)]
    while waiting:
        name, times = waiting.pop()
        for cell, count in modules[name].items():
            if cell in modules:
                counts[cell] += times * count
                waiting.append((cell, times * count))
    return dict(counts)
