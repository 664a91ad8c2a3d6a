# SPDX-License-Identifier: Apache-2.0
"""Start values of registers without a reset, for simulators that know unknown bits.

Nothing may depend on what such registers hold after power-up, and the regression starts them at
random values.  A simulator with unknown bits would spread them further than hardware does: a
multiplexer with an unknown select is unknown even where both inputs agree.
"""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING

from flows.build import files

if TYPE_CHECKING:
    from flows.build.design import Design

_MODULE = re.compile(r"^module .*?^endmodule$", re.M | re.S)
_NAME = r"(\\\S+ |[A-Za-z_]\w*)"
_REGISTER = re.compile(rf"^  reg (?:\[(\d+):0\] )?{_NAME} ?;$", re.M)
_WORDS = re.compile(rf"^  reg \[(\d+):0\] {_NAME} ?\[(\d+):0\];$", re.M)
_ASSIGNED = re.compile(rf"(?:^|\) |else )\s*{_NAME}\s*(?:\[[^]]*\])?\s*<= ", re.M)


def initialise_registers(verilog: str, seed: int, *, memories: bool = False) -> str:
    """Return emitted Verilog in which every register of a clock edge has a start value.

    Registers that have one keep it; the others start at pseudo-random values of the seed.

    Parameters
    ----------
    verilog : str
    seed : int
    memories : bool
        Whether words of memories have start values too.  Cores write words before they read them;
        engines multiply words that nothing was written into by zeros.
    """
    rng = Random(seed)
    count = 0

    def memory(match: re.Match[str]) -> str:
        nonlocal count
        width, name, last = int(match[1]) + 1, match[2].strip(), match[3]
        count += 1
        index, words = f"start_{count}", -(-width // 32)
        space = " " * name.startswith("\\")
        value = f"{{{words}{{32'h{rng.getrandbits(32):08x}}}}}"
        return (
            f"{match[0]}\n  integer {index};\n  initial for ({index} = 0; {index} <= {last};"
            f" {index} = {index} + 1) {name}{space}[{index}] = {value};"
        )

    def module(match: re.Match[str]) -> str:
        text = match[0]
        clocked = {name.strip() for name in _ASSIGNED.findall(text)}

        def register(declaration: re.Match[str]) -> str:
            if declaration[2].strip() not in clocked:
                return declaration[0]
            width = int(declaration[1] or 0) + 1
            bits = f"[{declaration[1]}:0] " if declaration[1] else ""
            return f"  reg {bits}{declaration[2]} = {width}'h{rng.getrandbits(width):x};"

        return _REGISTER.sub(register, text)

    text = _MODULE.sub(module, verilog)
    return _WORDS.sub(memory, text) if memories else text


def simulated_text(design: Design, seed: int, *, memories: bool = False) -> str:
    """Return the file with the Verilog of a design that starts at values.

    Parameters are those of `initialise_registers`.
    """
    which = "registers and memories" if memories else "registers without a reset"
    return (
        files.header(design.core, "//")
        + f"// For simulation: {which} start at pseudo-random values.\n\n"
        + initialise_registers(design.verilog, seed, memories=memories)
    )
