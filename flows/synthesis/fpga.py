# SPDX-License-Identifier: Apache-2.0
"""Mapping Verilog to FPGAs with Yosys.

The data file of an FPGA family names its synthesis command of Yosys and what is to be counted in
the result.  Memories become block or distributed memories as Yosys decides, products DSP blocks
under the recipe ``dsp`` and logic under ``logic``.  No pads and no clock buffers are inserted: a
core is measured as it would be inside a larger design.

Products in logic are sums of two halves down to single rows (`PRODUCTS`), on carry chains.  Yosys's
own trees of compressors take about twice the look-up tables (an 8 x 8 bit element of look-up tables
of four inputs: 376 against 195).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

from flows.synthesis import levels
from flows.synthesis.levels import Longest, Role
from flows.tools import process
from flows.tools.toolchain import Installation
from hwgen.errors import CheckFailed
from hwgen.technologies.fpga_model import Fpga, Resource

RESOURCES: tuple[Resource, ...] = get_args(Resource)

RECIPES: Mapping[str, str] = {
    "dsp": "products in DSP blocks where Yosys finds it worth one",
    "logic": "no DSP blocks",
    "uram": "as dsp, and deep memories in large ones, where the family has such",
}


_ROLES: Mapping[Resource, Role] = {
    "luts": "logic",
    "carries": "carry",
    "dsps": "logic",
    "wide_muxes": "free",
}
"""What cells are on a path; those that are not here hold state."""


def role_of(family: Fpga, cell: str) -> Role:
    """Return the role of a cell on a path."""
    use = family.use_of(cell)
    if use is None:
        return "free"
    return "state" if use.registered else _ROLES.get(use.resource, "state")


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


def recipes_of(chosen: Fpga) -> list[str]:
    """Return the names of the recipes of a family."""
    return [name for name in RECIPES if getattr(chosen.options, name) is not None]


def command_of(chosen: Fpga, recipe: str) -> str:
    """Return the synthesis command of Yosys with the options of a recipe."""
    return " ".join([chosen.command, getattr(chosen.options, recipe)]).strip()


def script(chosen: Fpga, recipe: str, top: str, keep: Sequence[str], *, whole: bool = False) -> str:
    """Return the script of Yosys.

    It reads ``design.v`` and ``products.v`` and leaves ``parts.json``, the cells of each module,
    and the flat netlist in ``netlist.json`` and ``netlist.v``.
    """
    command = " ".join([command_of(chosen, recipe), f"-top {top}"])
    separate = " ".join(keep)
    products = "t:$mul" if recipe == "logic" else f"t:$mul r:Y_WIDTH<{chosen.dsp_bits} %i"
    if recipe != "logic" and chosen.dsp_narrow > 2:
        narrow = [f"t:$mul r:{side}_WIDTH<{chosen.dsp_narrow} %i %u" for side in "AB"]
        products = " ".join([products, *narrow])
    steps = [
        "read_verilog design.v",
        f"hierarchy -check -top {top}",
        f"setattr -mod -set keep_hierarchy 1 {separate}" if separate else "",
        "setattr -mod -unset keep_hierarchy *" if whole else "",
        "proc",
        "opt_expr",
        "wreduce",
        "opt_clean",
        f"techmap -map products.v {products}",
        chosen.products if recipe != "logic" else "",
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
    yosys: Installation,
    verilog: str,
    top: str,
    chosen: Fpga,
    recipe: str,
    keep: Sequence[str],
    work: Path,
    timeout: float,
    *,
    whole: bool = False,
) -> Mapped:
    """Map a design.

    Parameters
    ----------
    yosys : Installation
    verilog : str
        Text of all its modules.
    top : str
        The top module.
    chosen : Fpga
    recipe : str
        A key of `RECIPES`.
    keep : sequence of str
        Modules mapped once each; all else is flattened.
    work : Path
        Directory for script, log and netlists.
    timeout : float
        Seconds.
    whole : bool
        Whether no module stays one by itself, whatever its Verilog says: some commands give the
        ports of each pads.

    Raises
    ------
    CheckFailed
        If Yosys fails or takes too long.
    """
    work.mkdir(parents=True, exist_ok=True)
    (work / "design.v").write_text(verilog, encoding="utf-8")
    (work / "products.v").write_text(PRODUCTS, encoding="utf-8")
    (work / "map.ys").write_text(script(chosen, recipe, top, keep, whole=whole), encoding="utf-8")
    process.run(yosys, ["-q", "-T", "map.ys"], work, "map.log", timeout)
    modules = _parts(work / "parts.json")
    counts = _instances(modules, top)
    flat = Counter[str]()
    parts = {}
    for name, count in counts.items():
        local = {cell: n for cell, n in modules[name].items() if cell not in counts}
        for cell, n in local.items():
            flat[cell] += count * n
        parts[name] = (count, resources(chosen, local))
    netlist = json.loads((work / "netlist.json").read_text(encoding="utf-8"))
    module = netlist["modules"][top]
    path = levels.longest(module, partial(role_of, chosen), chosen.through)
    return Mapped(
        chosen.name, recipe, resources(chosen, flat), parts, dict(sorted(flat.items())), path
    )


def resources(chosen: Fpga, cells: Mapping[str, int]) -> dict[str, int]:
    """Count the resources that cells take."""
    counts: dict[str, int] = dict.fromkeys(RESOURCES, 0)
    for cell, count in cells.items():
        if use := chosen.use_of(cell):
            counts[use.resource] += use.count * count
    return counts


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
