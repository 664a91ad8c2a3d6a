# SPDX-License-Identifier: Apache-2.0
"""From a family's generator to Verilog-2001 text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from amaranth._toolchain.yosys import find_yosys
from amaranth.lib.wiring import Component

from flows.tools.warm_yosys import run_script
from rtl_templates.hdl.hierarchy import Block, emit, emit_block
from rtl_templates.hdl.shell import AxiShell

_DOTTED_MODULE = re.compile(r"^\s*(?:module|cell) \\[\w.]+", re.MULTILINE)
_PRESERVED_MODULE = re.compile(
    r"^attribute \\keep_hierarchy 1\n(?:attribute .*\n)*module \\(\w+)", re.MULTILINE
)

_SCRIPT = """\
proc
# A memory here is always written before it is read, so its initial contents say nothing; left in,
# they would be one statement a word.
delete t:$meminit t:$meminit_v2
# State is reset, data is never looked at before it was written: no power-up values.
attrmap -remove init
opt_expr
opt_clean -purge
opt_dff
opt_clean -purge
memory_collect
attrmap -remove generator -remove top -remove src -remove keep_hierarchy
attrmap -remove amaranth.hierarchy -remove amaranth.decoding -remove single_bit_vector
write_verilog -noattr
"""


def core_rtlil(core: Component, name: str) -> list[str]:
    """Return the RTLIL of `core` in the AXI shell, every distinct module once.

    Parameters
    ----------
    core : wiring.Component
        A family's core; see `rtl_templates.hdl.shell.AxiShell`.
    name : str
        Name of the top module and prefix of all others.
    """
    shell = AxiShell(core)
    return list(emit(shell, name, shell.ports))


def to_verilog(core: Component, name: str) -> str:
    """Return the Verilog of what `core_rtlil` returns."""
    return rtlil_to_verilog(core_rtlil(core, name))


def block_to_verilog(block: Block, prefix: str) -> str:
    """Return the Verilog of a block alone, the module ``PREFIX_NAME``, and of those below it."""
    return rtlil_to_verilog(emit_block(block, prefix))


def rtlil_to_verilog(modules: Iterable[str]) -> str:
    """Return the Verilog of modules in RTLIL, as `rtl_templates.hdl.hierarchy.emit` yields them."""
    return _converted(_undotted(modules), _SCRIPT)


def rtlil_to_netlist(modules: Iterable[str]) -> tuple[str, dict[str, Any]]:
    """Return the Verilog of modules in RTLIL, and the same as a netlist of word-level cells.

    Returns
    -------
    verilog : str
        As `rtlil_to_verilog` returns it.
    netlist : dict
        Name of each module: its entry in what ``write_json`` of Yosys writes, and whether it is
        ``kept``, i.e. has the attribute ``keep_hierarchy``.
    """
    rtlil = _undotted(modules)
    verilog, brace, netlist = _converted(rtlil, f"{_SCRIPT}write_json\n").partition("\n{\n")
    cells = json.loads(brace + netlist)["modules"]
    separate = set(_PRESERVED_MODULE.findall(rtlil))
    return f"{verilog}\n", {
        name: {**module, "kept": name in separate} for name, module in cells.items()
    }


def netlist_key() -> str:
    """Return the part of a cache key of netlists that is not RTLIL."""
    return _SCRIPT


def _undotted(modules: Iterable[str]) -> str:
    # Amaranth joins the names of nested modules with dots, which Verilog would have to escape.
    return "\n".join(
        _DOTTED_MODULE.sub(lambda match: match[0].replace(".", "_"), text) for text in modules
    )


def _converted(rtlil: str, script: str) -> str:
    """Return the output of Yosys, beginning with Verilog."""
    text = _yosys(f"read_rtlil <<rtlil\n{rtlil}\nrtlil\n{script}")
    # The first line names the Yosys at hand; the output must not depend on where it was made.
    text = text.split("\n", 1)[1].lstrip("\n")
    for cached in _PRESERVED_MODULE.findall(rtlil):
        # The one attribute that says something about the design.
        text = re.sub(rf"^module {cached}\(", "(* keep_hierarchy *)\n\\g<0>", text, flags=re.M)
    return text


def _yosys(script: str) -> str:
    """Run a script and return what Yosys prints."""
    yosys: Any = find_yosys(lambda version: version >= (0, 40))
    if not hasattr(yosys, "YOSYS_PACKAGE"):  # one of the system, which Amaranth was told to use
        return str(yosys.run(["-q", "-"], script, ignore_warnings=True))
    return run_script(script)
