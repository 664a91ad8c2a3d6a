# SPDX-License-Identifier: Apache-2.0
"""An engine for a SoC of LiteX: its module, Verilog, C driver, and a SoC that tests it."""

from __future__ import annotations

from typing import Any

from flows.board.constants import python_file
from flows.board.litex_test import soc_files
from flows.build import files
from flows.build.design import Design
from flows.build.drivers.engine_drivers import driver
from hwgen.core.core import Core
from hwgen.errors import InputError

MODULE = "hwgen_engine.py"
"""Name of the file that a SoC imports."""


def check_engine(core: Core[Any]) -> None:
    """Raise `InputError` if a core has no memory port and registers."""
    protocols = [bus.protocol for bus in core.buses]
    if protocols.count("axi_lite") != 1 or "axi4" not in protocols:
        raise InputError(
            f"{core.name!r} has no memory port and registers: an engine is needed, such as one of"
            " the family gemm_stream, or stream_engine around a core with streams"
        )


def litex_files(design: Design) -> dict[str, str]:
    """Return the files of an engine for LiteX, name to text.

    Parameters
    ----------
    design : Design

    Raises
    ------
    InputError
        If it is no engine on memory.
    """
    core, name = design.core, design.name
    check_engine(core)
    control = next(bus for bus in core.buses if bus.protocol == "axi_lite")
    constants = {
        "MODULE": name,
        "DIGEST": core.digest,
        "CONTROL: tuple[str, int]": (control.prefix, control.address_width),
        "MEMORIES: dict[str, tuple[str, int, int]]": {
            bus.name: (bus.prefix, bus.data_width, bus.address_width)
            for bus in core.buses
            if bus.protocol == "axi4"
        },
        "OUTPUTS: tuple[str, ...]": tuple(b.name for b in core.buses if b.protocol == "output"),
    }
    return {
        MODULE: python_file(core, MODULE, constants),
        f"{name}.v": files.header(core, "//") + "\n" + design.verilog,
        f"{name}_regs.h": files.c_header(core),
        f"{name}_litex.h": _glue(core),
        **driver(core),
        **soc_files(core),
    }


def _glue(core: Core[Any]) -> str:
    """Return the C header that connects the driver to the registers in the SoC."""
    name, guard = core.name, f"{core.name.upper()}_LITEX_H"
    return f"""\
/* SPDX-License-Identifier: Apache-2.0 */
/*
{files.header(core, " *")} */
/* The driver on a SoC of LiteX. Define {name.upper()}_BASE if add_engine got another name than
 * "engine". Call flush_cpu_dcache() before a job is submitted and after it has ended, on processors
 * whose cache does not see what the engine writes. */
#ifndef {guard}
#define {guard}

#include <generated/mem.h>

#include "{name}_driver.h"

#ifndef {name.upper()}_BASE
#define {name.upper()}_BASE ENGINE_CONTROL_BASE
#endif

static inline uint32_t {name}_litex_read(void *context, uint32_t offset) {{
    return *(volatile uint32_t *)((uintptr_t)context + offset);
}}

static inline void {name}_litex_write(void *context, uint32_t offset, uint32_t value) {{
    *(volatile uint32_t *)((uintptr_t)context + offset) = value;
}}

/* Return the engine, for the functions of {name}_driver.h. */
static inline {name}_device {name}_litex(void) {{
    {name}_device device = {{(void *)(uintptr_t){name.upper()}_BASE, {name}_litex_read,
                          {name}_litex_write}};
    return device;
}}

#endif
"""
