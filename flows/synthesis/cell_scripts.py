# SPDX-License-Identifier: Apache-2.0
"""Scripts by which Yosys and ABC map a design to standard cells, and the Verilog beside them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hwgen.technologies.model import FullAdder, StandardCells

_PREPARE = ("strash", "ifraig", "scorr", "dc2")
_SIZE = ("topo", "upsize -D {D}", "dnsize -D {D}", "stime -p")
_MAPPERS: Mapping[str, tuple[str, ...]] = {
    "nf": ("&get -n", "&dch -f", "&nf -D {D}", "&put"),
    "amap": ("dch -f", "amap -m"),
    # The mapper's own netlist, taken apart again, is a better start than the original one.
    "map": ("dch -f", "map -B 0.9 -D {D}", "topo", "strash", "dch -f", "map -B 0.9 -D {D}"),
}


@dataclass(frozen=True)
class Recipe:
    """Recipe of ABC.

    Parameters
    ----------
    name : str
    purpose : str
        What it is good for.
    preserved, rest : str
        Mappers of the kept modules and of everything else: keys of `_MAPPERS`.
    """

    name: str
    purpose: str
    preserved: str
    rest: str


RECIPES: Mapping[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe("nf", "area and speed balanced", "nf", "map"),
        Recipe("area", "smallest", "amap", "amap"),
        Recipe("speed", "fastest", "map", "map"),
    )
}


def scripts(
    top: str,
    tech: StandardCells,
    recipe: Recipe,
    keep: Sequence[str],
    clock_ps: float,
    *,
    full_adders: bool,
    boxes: bool,
) -> dict[str, str]:
    """Return the scripts of Yosys and ABC by the names of their files."""
    mapping, joining = yosys_scripts(top, tech, keep, clock_ps, full_adders=full_adders)
    if boxes:
        library = "read_liberty -lib cells.lib\n"
        mapping, joining = (
            script.replace(library, f"{library}read_verilog -lib macros.v\n", 1)
            for script in (mapping, joining)
        )
    return {
        "map.constr": f"set_driving_cell {tech.driver}\nset_load {tech.load_ff}\n",
        "kept.abc": abc_script(recipe.preserved, clock_ps),
        "rest.abc": abc_script(recipe.rest, clock_ps),
        "map.ys": mapping,
        "join.ys": joining,
    }


def abc_script(mapper: str, clock_ps: float) -> str:
    """Return ABC's script for a mapper of `_MAPPERS`."""
    commands = (*_PREPARE, *_MAPPERS[mapper], *_SIZE)
    return "\n".join(commands).replace("{D}", f"{clock_ps:.0f}") + "\n"


def yosys_scripts(
    top: str, tech: StandardCells, keep: Sequence[str], clock_ps: float, *, full_adders: bool
) -> tuple[str, str]:
    """Return the two scripts of Yosys; their files are those that `map_core` writes.

    The first maps the kept modules, then the rest, and leaves the whole design in ``mapped.json``.
    The second takes ``sized.json`` and leaves ``parts.json``, the cells of each module,
    ``flat.json``, the cells of the whole, and ``netlist.v``, the whole with ports of single bits.
    """
    patterns = " ".join(f"{prefix}*" for prefix in keep)
    abc = f"abc -liberty cells.lib -constr map.constr -D {clock_ps:.0f}"
    opt = "opt -nosdff" if tech.flip_flops.enables else "opt -nodffe -nosdff"
    first = [
        "read_liberty -lib cells.lib",
        "read_verilog design.v",
        f"hierarchy -check -top {top}",
        "techmap -map explicit.v" if full_adders else "",
        "proc",
        "opt_expr",
        "opt_clean",
        f"setattr -mod -set keep_hierarchy 1 {patterns}" if patterns else "",
        "flatten",
        opt,
        "memory",
        "wreduce",
        "peepopt",
        "opt_clean",
        "booth",
        "alumacc",
        opt,
        "techmap -map adders.v" if full_adders else "",
        "techmap",
        f"{opt} -fast",
        "dfflibmap -liberty cells.lib",
        opt,
        f"{abc} -script kept.abc A:keep_hierarchy",
        "opt_clean -purge",
        f"{abc} -script rest.abc {top}",
        "opt_clean -purge",
        "write_json mapped.json",
    ]
    constants = f"-hicell {tech.high.cell} {tech.high.pin} -locell {tech.low.cell} {tech.low.pin}"
    second = [
        "read_liberty -lib cells.lib",
        "read_json sized.json",
        f"hierarchy -top {top}",
        "opt_clean -purge",
        # Standard output ends with ABC where Yosys is a WASM program, hence files.
        "tee -q -o parts.json stat -json",
        "setattr -mod -unset keep_hierarchy *",
        "flatten",
        "splitnets -ports",
        "opt_clean -purge",
        f"hilomap -singleton {constants}",
        "opt_clean -purge",
        "tee -q -o flat.json stat -json",
        "write_verilog -noattr -noexpr -nohex -nodec netlist.v",
    ]
    return _lines(first), _lines(second)


def _lines(steps: Sequence[str]) -> str:
    return "\n".join(step for step in steps if step) + "\n"


def explicit_adders(verilog: str) -> str:
    """Return the Verilog that makes Yosys's full adders of a design's own, which are modules.

    They are called ``full_adder`` behind the prefix of the design.
    """
    adders = re.findall(r"^module (\w+_full_adder)\b", verilog, re.MULTILINE)
    return f"""\
(* techmap_celltype = "{" ".join(adders)}" *)
module explicit(clk, a, b, c, sum, carry);
  input clk, a, b, c;
  output sum, carry;
  \\$fa #(.WIDTH(1)) _TECHMAP_REPLACE_ (.A(a), .B(b), .C(c), .Y(sum), .X(carry));
endmodule
"""


def adder_map(adder: FullAdder) -> str:
    """Return the Verilog that maps Yosys's full adder to a cell.

    Adders with a constant input are left to ABC, which makes less of them.
    """
    a, b, carry_in = adder.inputs
    sign = "~" if adder.inverted else ""
    constant = " || ".join(f"_TECHMAP_CONSTMSK_{port}_[i]" for port in "ABC")
    masks = "".join(
        f"  parameter _TECHMAP_CONSTMSK_{port}_ = 0;\n" for port in "ABC"
    )  # one bit for each bit of the port: whether it is constant
    return f"""\
(* techmap_celltype = "$fa" *)
module full_adder(A, B, C, X, Y);
  parameter WIDTH = 1;
{masks}\
  input [WIDTH-1:0] A, B, C;
  output [WIDTH-1:0] X, Y;
  wire [WIDTH-1:0] carry, total;
  genvar i;
  generate
    for (i = 0; i < WIDTH; i = i + 1) begin : bits
      if ({constant}) begin
        assign Y[i] = A[i] ^ B[i] ^ C[i];
        assign X[i] = (A[i] & B[i]) | (C[i] & (A[i] | B[i]));
      end else begin
        {adder.cell} cell_i(.{a}(A[i]), .{b}(B[i]), .{carry_in}(C[i]),
          .{adder.carry}(carry[i]), .{adder.sum}(total[i]));
        assign X[i] = {sign}carry[i];
        assign Y[i] = {sign}total[i];
      end
    end
  endgenerate
endmodule
"""
