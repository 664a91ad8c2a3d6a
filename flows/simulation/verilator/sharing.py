# SPDX-License-Identifier: Apache-2.0
"""Choice of the designs whose equal instances should share code in Verilator.

A signal that leads into an instance is read where it comes from, so that each instance of a module
has code of its own.  Without the optimisations that do this, equal instances share their code, but
there are more variables, and simpler designs become larger.  C++ without and with sharing, in MB:
configs/cube.yaml 5.9 2.3, lut_core.yaml 9.8 2.5, serial.yaml 3.6 1.8; adder_tree.yaml 2.9 3.3,
systolic.yaml 0.6 1.2, gemm_stream.yaml 4.7 9.9.  Modules within the columns of a core of floating
point are put in place of their instances, and then each column is code again: lut_core_fp16.yaml
32.2 41.7, and 10.0 if no module is put in place of its instances; lut_core.yaml then 9.7.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache

SHARING = ("-fno-dfg-scoped",)
"""Options of Verilator with which, beside those that are always there, instances share code."""

APART = (*SHARING, "-fno-inline")
"""The same where modules within what is repeated are large themselves."""

REPEATED = 0.8
"""Share of a design that the instances of one module are, from which on it is worth it."""

INSTANCES, UNIT_BYTES = 4, 24_000
"""Least instances of that module, and least text of each with all that is in it."""

NESTED, NESTED_INSTANCES, NESTED_BYTES = 0.5, 16, 2_000
"""Share of a design that is instances of modules of so many bytes, less than `UNIT_BYTES`, and of
so many instances, from which on they are large."""

GROWTH = 5.0
"""Bytes of C++ per byte of Verilog, each instance counted, beyond which it was not worth it."""

_MODULE = re.compile(r"^module (\S+?) ?\(.*?^endmodule", re.MULTILINE | re.DOTALL)
_INSTANCE = re.compile(r"^  (\S+) \S+ \($", re.MULTILINE)


@dataclass(frozen=True)
class Repeated:
    """A design most of which is instances of one module.

    Parameters
    ----------
    bytes : int
        Its text, each instance counted.
    attempts : tuple of tuple of str
        Options to try, one after the other, as long as there is too much code.
    """

    bytes: int
    attempts: tuple[tuple[str, ...], ...]


def repeated(verilog: str, top: str) -> Repeated | None:
    """Return the options to try for a design, None if sharing is not promising.

    Parameters
    ----------
    verilog : str
        As Yosys writes it: an instance begins with a line of its own.
    top : str
        The top module.
    """
    bodies = {result[1]: result[0] for result in _MODULE.finditer(verilog)}
    if top not in bodies:
        return None
    inside = {
        name: Counter(child for child in _INSTANCE.findall(body) if child in bodies)
        for name, body in bodies.items()
    }

    @cache
    def size(name: str) -> int:
        return len(bodies[name]) + sum(n * size(child) for child, n in inside[name].items())

    @cache
    def instances(name: str) -> int:
        if name == top:
            return 1
        return sum(n[name] * instances(parent) for parent, n in inside.items() if n[name])

    whole = size(top)
    result = (
        instances(name) * size(name) >= REPEATED * whole
        for name in bodies
        if instances(name) >= INSTANCES and size(name) >= UNIT_BYTES
    )
    if not any(result):
        return None
    nested = sum(
        instances(name) * len(bodies[name])
        for name in bodies
        if instances(name) >= NESTED_INSTANCES and NESTED_BYTES <= size(name) < UNIT_BYTES
    )
    return Repeated(whole, (APART,) if nested >= NESTED * whole else (SHARING, APART))
