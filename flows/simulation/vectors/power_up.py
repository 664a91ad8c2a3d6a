# SPDX-License-Identifier: Apache-2.0
"""Start values of registers without a reset, for simulators that know unknown bits.

Nothing may depend on what such registers hold after power-up, and the regression starts them at
random values.  A simulator with unknown bits would spread them further than hardware does: a
multiplexer with an unknown select is unknown even where both inputs agree.
"""

from __future__ import annotations

import re
from random import Random

_MODULE = re.compile(r"^module .*?^endmodule$", re.M | re.S)
_NAME = r"(\\\S+ |[A-Za-z_]\w*)"
_REGISTER = re.compile(rf"^  reg (?:\[(\d+):0\] )?{_NAME} ?;$", re.M)
_ASSIGNED = re.compile(rf"(?:^|\) |else )\s*{_NAME}\s*(?:\[[^]]*\])?\s*<= ", re.M)


def initialise_registers(verilog: str, seed: int) -> str:
    """Return emitted Verilog in which every register of a clock edge has a start value.

    Registers that have one keep it; the others start at pseudo-random values of the seed.
    Memories are left as they are: their words are written before they are read.
    """
    rng = Random(seed)

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

    return _MODULE.sub(module, verilog)
