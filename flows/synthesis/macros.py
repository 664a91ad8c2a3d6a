# SPDX-License-Identifier: Apache-2.0
"""SRAM macros in synthesis for standard cells: wrappers, black boxes and a library for the timer.

A memory of a design is a module with a behavioural body (`hwgen.core.memories`).  `choose` says
which of them are made of macros, by the same rules as estimates do, and `replaced` writes their
bodies with instances of these macros in one of the arrangements of `cost_model.memories.macros`.
Figures are those of the technology's data file: `liberty_text` makes a library of them that a
timer reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from cost_model.estimate import technology as technologies
from cost_model.memories.macros import Composition, composed
from cost_model.memories.memories import smaller
from flows.synthesis.liberty import Cell
from hwgen.core.memories import ram_of
from hwgen.technologies.model import Macro, Memories

_MODULE = re.compile(r"^module (\w+)\(.*?^endmodule\n", re.MULTILINE | re.DOTALL)
_CONSTANT = ("mask", "high", "low")

Chosen = Mapping[str, Composition]
"""Modules that are made of macros."""


def choose(
    verilog: str, top: str, memories: Memories, technology: str, registers_below: int
) -> dict[str, Composition]:
    """Return the memories of a design that are made of macros.

    Parameters
    ----------
    verilog, top : str
        Text of all modules; name of the top module.
    memories : Memories
        The macros.
    technology : str
        Its costs say which memories are smaller as registers.
    registers_below : int
        Bits of a memory from which on macros are taken.
    """
    prices = prices_of(technology)
    result = {}
    for name in re.findall(r"^module (\w+)\(", verilog, re.MULTILINE):
        ram = ram_of(name) if name.startswith(f"{top}_ram_") else None
        if ram is None or ram.capacity < registers_below:
            continue
        made = composed(ram, memories, prices)
        if made is not None and (not prices or smaller(made, prices)):
            result[name] = made
    return result


def prices_of(technology: str) -> Mapping[str, float]:
    """Return the area of a component of each kind, by which macros and registers compare."""
    if not technologies.is_calibrated(technology):
        return {}
    costs = technologies.technology(technology).structure.get("costs", {})
    return dict(costs.get("area_um2", {}))


def replaced(verilog: str, chosen: Chosen, memories: Memories) -> str:
    """Return Verilog with wrappers around macros in the place of the bodies of memories."""

    def body(match: re.Match[str]) -> str:
        name = match[1]
        return wrapper(name, chosen[name], memories) if name in chosen else match[0]

    return _MODULE.sub(body, verilog)


def wrapper(name: str, made: Composition, memories: Memories) -> str:
    """Return the Verilog of a memory that is made of macros."""
    ram, macro = made.ram, made.macro
    bits, inner = ram.address_bits, (macro.words - 1).bit_length()
    halves = made.arrangement == "halves"
    low = bits - halves  # bits of the address within a half
    lines = [
        f"module {name}(input clk, input r_en, input [{bits - 1}:0] r_addr,",
        f"    output [{ram.bits - 1}:0] r_data, input w_en, input [{bits - 1}:0] w_addr,",
        f"    input [{ram.bits - 1}:0] w_data);",
    ]
    for port in "rw":
        address, banks = f"{port}_addr", max(1, low - inner)
        lines += [
            f"  wire [{inner - 1}:0] {port}_low = {_inner(address, low, inner)};",
            f"  wire [{banks - 1}:0] {port}_bank = {_bank(address, low, inner)};",
        ]
    lines += _groups(made, bits)
    for group in range(made.groups):
        for bank in range(made.deep):
            lines += _bank_of(made, memories, group, bank)
    lines += [*_result(made, memories), "endmodule", ""]
    return "\n".join(lines)


def _inner(address: str, low: int, inner: int) -> str:
    """Return the address within a macro."""
    if low >= inner:
        return f"{address}[{inner - 1}:0]"
    return f"{{{inner - low}'d0, {address}[{low - 1}:0]}}" if low else f"{inner}'d0"


def _bank(address: str, low: int, inner: int) -> str:
    return f"{address}[{low - 1}:{inner}]" if low > inner else "1'd0"


def _groups(made: Composition, bits: int) -> list[str]:
    """Return the expressions that select the half or copy that is read, and that is written."""
    if made.arrangement == "ports":
        return []
    if made.arrangement == "halves":
        return [f"  wire r_group = r_addr[{bits - 1}], w_group = w_addr[{bits - 1}];"]
    return [
        f"  reg [{made.ram.words - 1}:0] latest;  // which copy has the latest value of a word",
        "  wire r_group = latest[r_addr], w_group = ~r_group;",
        "  always @(posedge clk) if (w_en) latest[w_addr] <= w_group;",
    ]


def _bank_of(made: Composition, memories: Memories, group: int, bank: int) -> list[str]:
    """Return the macros of a bank."""
    name = f"{group}_{bank}"
    lines = []
    for signal, port in (("read", "r"), ("write", "w")):
        conditions = [f"{port}_en"]
        if made.groups > 1:
            conditions.append(f"{port}_group == 1'd{group}")
        if made.deep > 1:
            conditions.append(f"{port}_bank == {bank}")
        lines.append(f"  wire {signal}_{name} = {' & '.join(f'({c})' for c in conditions)};")
    macro, width = made.macro, made.macro.width
    padded = made.wide * width
    pad = f"{{{padded - made.ram.bits}'d0, w_data}}" if padded > made.ram.bits else "w_data"
    lines += [
        f"  wire [{padded - 1}:0] d_{name} = {pad};",
        f"  wire [{padded - 1}:0] q_{name};",
    ]
    if macro.ports == "1rw":
        inner = (macro.words - 1).bit_length() - 1
        lines.append(f"  wire [{inner}:0] a_{name} = write_{name} ? w_low : r_low;")
    for part in range(made.wide):
        span = f"[{(part + 1) * width - 1}:{part * width}]"
        signals = {
            "clock": "clk", "enable": f"read_{name} | write_{name}", "read": f"read_{name}",
            "write": f"write_{name}", "not_read": f"~read_{name}", "not_write": f"~write_{name}",
            "address": f"a_{name}", "read_address": "r_low", "write_address": "w_low",
            "data": f"d_{name}{span}", "mask": f"{{{width}{{1'b1}}}}", "result": f"q_{name}{span}",
            "high": "1'b1", "low": "1'b0",
        }  # fmt: skip
        pins = ", ".join(f".{pin}({signals[role]})" for pin, role in pins_of(macro, memories))
        lines.append(f"  {macro.name} macro_{name}_{part}({pins});")
    return lines


def _result(made: Composition, memories: Memories) -> list[str]:
    """Return the word that was read."""
    width, names = made.ram.bits, []
    for group in range(made.groups):
        names += [f"q_{group}_{bank}[{width - 1}:0]" for bank in range(made.deep)]
    lines = []
    word = names[-1]
    if len(names) > 1:
        chosen = (len(names) - 1).bit_length()
        position = []
        if made.groups > 1:
            position.append(f"r_group * {made.deep}" if made.deep > 1 else "r_group")
        if made.deep > 1:
            position.append("r_bank")
        lines += [
            f"  reg [{chosen - 1}:0] chosen;",
            f"  always @(posedge clk) if (r_en) chosen <= {' + '.join(position)};",
        ]
        for index in reversed(range(len(names) - 1)):
            word = f"(chosen == {index}) ? {names[index]} : {word}"
    lines.append(f"  wire [{width - 1}:0] word = {word};")
    if memories.holds:
        return [*lines, "  assign r_data = word;"]
    return [
        *lines,
        "  reg was_read;",
        f"  reg [{width - 1}:0] held;",
        "  always @(posedge clk) was_read <= r_en;",
        "  always @(posedge clk) if (was_read) held <= word;",
        "  assign r_data = was_read ? word : held;",
    ]


def pins_of(macro: Macro, memories: Memories) -> list[tuple[str, str]]:
    """Return the pins of a macro and what each is connected to."""
    return [
        (pin, role)
        for pin, role in memories.ports[macro.ports].items()
        if not any(fnmatchcase(pin, pattern) for pattern in macro.lacks)
    ]


def _width(macro: Macro, role: str) -> int:
    if role in ("data", "mask", "result"):
        return macro.width
    return (macro.words - 1).bit_length() if role.endswith("address") else 1


def used(chosen: Chosen) -> list[Macro]:
    """Return the macros of some memories, each once."""
    return sorted({made.macro.name: made.macro for made in chosen.values()}.values(),
                  key=lambda macro: macro.name)  # fmt: skip


def black_boxes(macros: Sequence[Macro], memories: Memories) -> str:
    """Return the Verilog declarations of macros."""
    text = []
    for macro in macros:
        ports = ", ".join(
            f"{'output' if role == 'result' else 'input'} [{_width(macro, role) - 1}:0] {pin}"
            for pin, role in pins_of(macro, memories)
        )
        text.append(f"(* blackbox *)\nmodule {macro.name}({ports});\nendmodule\n")
    return "".join(text)


def cells_of(macros: Sequence[Macro], memories: Memories) -> dict[str, Cell]:
    """Return macros as cells of a library."""
    return {
        macro.name: Cell(macro.area_um2, True, {
            pin: memories.clock_ff if role == "clock" else memories.input_ff
            for pin, role in pins_of(macro, memories) if role != "result"
        })
        for macro in macros
    }  # fmt: skip


def liberty_text(macros: Sequence[Macro], memories: Memories) -> str:
    """Return a library of macros: areas, loads, clock to data, setup times.

    Delays do not depend on slew and load; there is no power.
    """
    text = [_HEADER]
    widths = {_width(macro, role) for macro in macros for _, role in pins_of(macro, memories)}
    for width in sorted(widths - {1}):
        text.append(
            f"  type (bus_{width}) {{ base_type : array; data_type : bit; bit_width : {width};"
            f" bit_from : {width - 1}; bit_to : 0; }}\n"
        )
    for macro in macros:
        text.append(f"  cell ({macro.name}) {{\n    area : {macro.area_um2};\n")
        text += [_pin(macro, memories, pin, role) for pin, role in pins_of(macro, memories)]
        text.append("  }\n")
    return "".join([*text, "}\n"])


_HEADER = """\
library (macros) {
  delay_model : table_lookup;
  time_unit : "1ns";
  voltage_unit : "1V";
  current_unit : "1mA";
  capacitive_load_unit (1, ff);
  leakage_power_unit : "1nW";
  pulling_resistance_unit : "1kohm";
  nom_voltage : 1.0;
  nom_process : 1.0;
  nom_temperature : 25.0;
"""


def _pin(macro: Macro, memories: Memories, pin: str, role: str) -> str:
    """Return a pin of a cell in Liberty."""
    width = _width(macro, role)
    kind, more = ("pin", "") if width == 1 else ("bus", f" bus_type : bus_{width};")
    clock = next(p for p, r in pins_of(macro, memories) if r == "clock")
    if role == "clock":
        inside = f"direction : input; clock : true; capacitance : {memories.clock_ff};"
    elif role == "result":
        edge = "falling_edge" if memories.falling else "rising_edge"
        delays = "".join(
            f' {name} (scalar) {{ values ("{value}"); }}'
            for name, value in (
                ("cell_rise", macro.clk_to_q_ns), ("cell_fall", macro.clk_to_q_ns),
                ("rise_transition", 0.02), ("fall_transition", 0.02),
            )
        )  # fmt: skip
        inside = (
            f'direction : output; timing () {{ related_pin : "{clock}"; timing_type : {edge};'
            f"{delays} }}"
        )
    elif role in _CONSTANT:
        inside = f"direction : input; capacitance : {memories.input_ff};"
    else:
        checks = "".join(
            f' {name} (scalar) {{ values ("{memories.setup_ns}"); }}'
            for name in ("rise_constraint", "fall_constraint")
        )
        inside = (
            f"direction : input; capacitance : {memories.input_ff}; timing () {{"
            f' related_pin : "{clock}"; timing_type : setup_rising;{checks} }}'
        )
    return f"    {kind} ({pin}) {{{more} {inside} }}\n"
