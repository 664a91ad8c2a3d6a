# SPDX-License-Identifier: Apache-2.0
"""All files of a project of Vivado around an engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.board.constants import python_file
from flows.board.litex import check_engine
from flows.board.vivado.boards import VivadoBoard
from flows.board.vivado.component import component, identifier
from flows.build import files
from flows.build.design import Design
from flows.build.drivers.engine_drivers import driver
from hwgen.core.core import Core
from hwgen.core.schedule.stream import RAW_RESULTS
from hwgen.errors import InputError
from hwgen.families.gemm_stream.core import GemmStreamCore

DRIVER = "hwgen_driver.py"
"""Name of the Python driver."""

BUFFER_BYTES = 16 << 20
"""Bytes of memory that the overlay sets aside for operands and results."""

SLOWEST, FASTEST = 10.0, 400.0
"""Clocks in MHz that processor systems and clock managers of these boards can make."""

MOST_ADDRESS_BITS = 40

_TEMPLATES = Path(__file__).parent.parent / "templates" / "vivado"


def vivado_files(design: Design, board: VivadoBoard, clock_mhz: float) -> dict[str, str]:
    """Return the files of a project, by path in its directory.

    Parameters
    ----------
    design : Design
    board : VivadoBoard
    clock_mhz : float
        Of the engine.

    Raises
    ------
    InputError
        If the core is no engine on memory, or the clock cannot be made.
    """
    core, name = design.core, design.name
    check_engine(core)
    if not SLOWEST <= clock_mhz <= FASTEST:
        raise InputError(f"--clock: must be {SLOWEST:g}..{FASTEST:g} MHz, not {clock_mhz:g}")
    python = {}
    if isinstance(core, GemmStreamCore):
        python[DRIVER] = python_file(core, "vivado_driver.py", _constants(core))
    overlay = {f"{name}.dtso": _overlay(core, board)} if board.runs_linux else {}
    return {
        "ip/component.xml": component(core),
        f"ip/{name}.v": files.header(core, "//") + "\n" + design.verilog,
        "build.tcl": _build(core, board, clock_mhz),
        "board.xdc": _constraints(core, board),
        f"{name}_regs.h": files.c_header(core),
        **driver(core),
        **python,
        **overlay,
    }


def _build(core: Core[Any], board: VivadoBoard, clock_mhz: float) -> str:
    control = next(bus for bus in core.buses if bus.protocol == "axi_lite")
    memories = [bus for bus in core.buses if bus.protocol == "axi4"]
    values = {
        "name": core.name,
        "part": board.part,
        "board_part": board.board_part,
        "vlnv": identifier(core),
        "clock_mhz": f"{clock_mhz:g}",
        "control": control.prefix,
        "control_address": f"{board.control_address:#x}",
        "memories": " ".join(bus.prefix for bus in memories),
        "data_width": str(max(bus.data_width for bus in memories)),
    }
    lines = [f"set {name} {{{value}}}\n" for name, value in values.items()]
    parts = [(_TEMPLATES / f"{n}.tcl").read_text("utf-8") for n in (board.processor, "build")]
    head = f"# SPDX-License-Identifier: Apache-2.0\n{files.header(core, '#')}# {board.summary}\n\n"
    return head + "".join(lines) + "".join(parts)


def _constraints(core: Core[Any], board: VivadoBoard) -> str:
    """Return the constraints of pins; clocks have theirs from the block design."""
    lines = [
        f"set_property -dict {{PACKAGE_PIN {pin} IOSTANDARD LVCMOS33}} [get_ports {port}]"
        for port, pin in board.pins
    ]
    if board.processor == "microblaze":
        lines += [
            "set_property CFGBVS VCCO [current_design]",
            "set_property CONFIG_VOLTAGE 3.3 [current_design]",
            "set_false_path -from [get_ports {resetn uart_rxd}]",
            "set_false_path -to [get_ports uart_txd]",
        ]
    lines += [
        "set_false_path -to [get_ports interrupt]",
        "set_property BITSTREAM.GENERAL.COMPRESS TRUE [current_design]",
    ]
    return f"{files.header(core, '#')}# {board.summary}\n" + "\n".join([*lines, ""])


def _overlay(core: Core[Any], board: VivadoBoard) -> str:
    """Return the overlay of the device tree: registers and interrupt by UIO, memory."""
    name, address = core.name, board.control_address
    cells = " ".join(map(str, board.interrupt))
    wide = board.processor == "zynqmp"
    reg = f"0x0 {address:#x} 0x0 0x1000" if wide else f"{address:#x} 0x1000"
    return f"""\
// SPDX-License-Identifier: Apache-2.0
{files.header(core, "//")}// Boot with uio_pdrv_genirq.of_id=generic-uio; load u-dma-buf.
/dts-v1/;
/plugin/;

&fpga_full {{
    firmware-name = "{name}.bit.bin";
}};

&amba {{
    #address-cells = <{2 if wide else 1}>;
    #size-cells = <{2 if wide else 1}>;

    {name}: {name}@{address:x} {{
        compatible = "generic-uio";
        linux,uio-name = "{name}";
        reg = <{reg}>;
        interrupt-parent = <&{board.interrupt_parent}>;
        interrupts = <{cells}>;
    }};

    {name}_memory: {name}-memory {{
        compatible = "ikwzm,u-dma-buf";
        device-name = "{name}-memory";
        size = <{BUFFER_BYTES:#x}>;
        sync-mode = <1>;
    }};
}};
"""


# -- the Python driver ----------------------------------------------------------------------------


def _constants(core: GemmStreamCore) -> Mapping[str, object]:
    config = core.params
    raw = RAW_RESULTS.registers(config.result)
    fields = [
        (field.name, field.signed, _field(raw.get(register.name, 0), field))
        for register in config.job_interface.window
        if register.name.startswith("POST_")
        for field in register.fields
    ]
    offsets = {register.name: register.offset for register in core.registers}
    a_type = _type(str(config.activation), config.activation_bytes)
    w_type = _type(str(config.weight), config.weight_bytes)
    return {
        "NAME": core.name,
        "DIGEST": core.digest,
        "POST_FIELDS: tuple[tuple[str, bool, int], ...]": tuple(fields),
        "SEVERAL_FORMATS": len(config.formats) > 1,
        "A_TYPE": "" if config.in_blocks else a_type,
        "W_TYPE": "uint8" if config.loop_nest.image else w_type,
        "C_TYPE": _type(str(config.result), config.result.dtype.itemsize),
        "W_IS_IMAGE": bool(config.loop_nest.image),
        "INTERRUPT_REGISTER": offsets["INTERRUPT"],
        "INTERRUPT_ENABLE_REGISTER": offsets["INTERRUPT_ENABLE"],
    }  # fmt: skip


def _field(contents: int, field: Any) -> int:
    value: int = contents >> field.offset & ((1 << field.bits) - 1)
    return value - (1 << field.bits) if field.signed and value >> (field.bits - 1) else value


def _type(name: str, size: int) -> str:
    """Return NumPy's type of an element in memory; a number that it does not know is a code."""
    if name.startswith("int"):
        return f"int{8 * size}"
    return {"fp16": "float16", "fp32": "float32"}.get(name, f"uint{8 * size}")
