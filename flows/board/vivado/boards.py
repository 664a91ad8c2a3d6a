# SPDX-License-Identifier: Apache-2.0
"""Boards that projects of Vivado are written for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FAMILIES = ("artix7", "kintex7", "virtex7", "spartan7", "zynq", "kintexu", "kintexuplus",
            "virtexu", "virtexuplus", "zynquplus", "artixuplus", "versal")  # fmt: skip
"""Families for which the packaged IP is offered, as Vivado calls them: it is plain Verilog."""


@dataclass(frozen=True)
class VivadoBoard:
    """A board.

    Parameters
    ----------
    summary : str
        Maker and name in words.
    part : str
        As Vivado calls it.
    board_part : str
        Pattern of the board's files, from which the processor system has its settings; empty if
        none are needed.
    processor : {"microblaze", "zynq", "zynqmp"}
    control_address : int
        Address of the engine's registers.
    interrupt : tuple of int
        Cells of the device tree, after its parent.
    interrupt_parent : str
        Label of the interrupt controller in the device tree; empty without Linux.
    pins : tuple of (str, str)
        Port of the design and pin, which the constraints have.
    """

    summary: str
    part: str
    board_part: str
    processor: Literal["microblaze", "zynq", "zynqmp"]
    control_address: int
    interrupt: tuple[int, int, int] = (0, 0, 0)
    interrupt_parent: str = ""
    pins: tuple[tuple[str, str], ...] = ()

    @property
    def runs_linux(self) -> bool:
        """Whether its processor runs Linux, for which there is an overlay."""
        return self.processor != "microblaze"


BOARDS = {
    "arty-a7": VivadoBoard(
        "Digilent Arty A7-100T", "xc7a100tcsg324-1", "", "microblaze", 0x44A0_0000,
        pins=(("clk", "E3"), ("resetn", "C2"), ("uart_rxd", "A9"), ("uart_txd", "D10"),
              ("interrupt", "H5")),
    ),
    "pynq-z2": VivadoBoard(
        "TUL PYNQ-Z2", "xc7z020clg400-1", "tul.com.tw:pynq-z2:part0:*", "zynq", 0x43C0_0000,
        (0, 29, 4), "intc", (("interrupt", "R14"),),
    ),
    "kv260": VivadoBoard(
        "AMD Kria KV260", "xck26-sfvc784-2LV-c", "xilinx.com:kv260_som:part0:*", "zynqmp",
        0xA000_0000, (0, 89, 4), "gic", (("interrupt", "H12"),),
    ),
}  # fmt: skip
"""Boards by name; pins are those of litex-boards' files."""
