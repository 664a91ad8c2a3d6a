# SPDX-License-Identifier: Apache-2.0
"""A simulated board: the complete design in Verilator, reached through its pins bit by bit."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, Self

from flows.board.network import Station
from flows.board.surroundings import Surroundings
from flows.simulation.registry import simulator
from flows.simulation.stream_program import HARNESS
from hwgen.board.datagrams import DatagramLine
from hwgen.board.model import LINKS
from hwgen.board.pinout import Wire
from hwgen.board.sdram import SDRAM_OUTPUTS, SDRAM_PORTS, SdramChip
from hwgen.errors import CheckFailed, InputError
from rtl_templates.board.top import POWER_UP_CYCLES

RESET_CYCLES = 16
"""Cycles for which a chip is reset before anything else."""

CYCLES = 10_000_000
"""Cycles that a model is compiled for, about."""


def compile_board(
    design: Surroundings, *, verilog: str | None = None, cycles: int = CYCLES
) -> Path:
    """Return the library that simulates a board at its pins.

    Parameters
    ----------
    design : Surroundings
    verilog : str, optional
        Another text of the design, for mutations.
    cycles : int
        About how many cycles it is for: a library for few is compiled sooner and runs slower.
    """
    sources = {
        f"{design.name}.v": f"{verilog or design.verilog}\n{design.models}",
        "board.cpp": (HARNESS / "board.cpp").read_text(encoding="utf-8"),
        "board_pins.h": _pins(design),
    }
    if design.link == "udp":
        sources["rgmii.h"] = (HARNESS / "rgmii.h").read_text(encoding="utf-8")
    if design.on_memory:
        sources["sdram.h"] = (HARNESS / "sdram.h").read_text(encoding="utf-8")
    folder = simulator().compile_library(design.name, sources, ["board.cpp"], cycles=cycles)
    return folder / design.name


def _pins(design: Surroundings) -> str:
    """Return the C++ functions that drive and read the pins."""
    wires, params = design.wires, design.params
    button = params.button_low
    lines = [f"#define HWGEN_{design.link.upper()}"]
    for name, direction in (("clk", "in"), *LINKS[design.link].items()):
        wire = wires[name]
        if direction == "in":
            lines.append(f"inline void set_{name}(Vtop& top, int level) {{ {_drive(wire)} }}")
        else:
            lines.append(f"inline int get_{name}(Vtop& top) {{ return {_read(wire)}; }}")
    press = "(void)top; (void)pressed;"
    if button is not None:
        press = f"const int level = pressed != {int(button)}; {_drive(wires['button'])}"
    lit = "0" if params.led_low is None else f"{_read(wires['led'])} != {int(params.led_low)}"
    lines += [
        f"inline void press(Vtop& top, bool pressed) {{ {press} }}",
        f"inline int lit(Vtop& top) {{ (void)top; return {lit}; }}",
    ]
    if design.on_memory:
        lines += _memory(design)
    return "\n".join([*lines, ""])


def sdram_times(
    chip: SdramChip, clock_hz: float
) -> tuple[list[int], list[float], list[int], list[float]]:
    """Return the fields of ``hwgen::SdramTimes``: geometry, times in ns, counts, clocks by CAS."""
    times = (1e9 / clock_hz, chip.rcd, chip.rp, chip.rc, chip.rfc, chip.ras, chip.ras_longest,
             chip.rrd, chip.wr, chip.refi, 1e3 * chip.start_up_us)  # fmt: skip
    return (
        [chip.row_bits, chip.column_bits], [float(time) for time in times],
        [chip.mrd_clocks, chip.start_up_refreshes],
        [float(chip.least_clock_ns.get(cas, 0.0)) for cas in range(4)],
    )  # fmt: skip


def _memory(design: Surroundings) -> list[str]:
    """Return the C++ that describes the SDRAM and reads its pins."""
    geometry, times, counts, least = sdram_times(design.chip, design.ratio * design.clock_hz)
    numbers = ", ".join(map(repr, (*geometry, *times, *counts)))
    listed = ", ".join(map(repr, least))
    levels = ", ".join(f"top.sdram_{name}" for name in SDRAM_OUTPUTS)
    halves = []
    if design.ratio > 1:
        levels = ", ".join(
            "top.sdram_dq_oe" if name == "dq_oe"
            else f"static_cast<int>(top.sdram_{name} >> half * {bits} & {(1 << bits) - 1}u)"
            for name, bits in ((name, SDRAM_PORTS[name]) for name in SDRAM_OUTPUTS)
        )  # fmt: skip
        halves = [f"#define HWGEN_SDRAM_DOUBLE {design.sampled_edges}"]
    half = ", int half" if halves else ""
    return [
        *halves,
        "#define HWGEN_SDRAM",
        '#include "sdram.h"',
        f"static const hwgen::SdramTimes SDRAM_TIMES = {{{numbers}, {{{listed}}}}};",
        f"inline hwgen::SdramPins read_sdram(const Vtop& top{half}) {{ return {{{levels}}}; }}",
    ]


def _drive(wire: Wire) -> str:
    """Return the statement that sets a bit of a port to `level`."""
    port, bit = f"top.{wire.port}", wire.bit
    if wire.width == 1:
        return f"{port} = level;"
    return f"{port} = ({port} & ~(1ull << {bit})) | (static_cast<uint64_t>(level & 1) << {bit});"


def _read(wire: Wire) -> str:
    """Return the expression of a bit of a port."""
    return f"static_cast<int>((top.{wire.port} >> {wire.bit}) & 1)"


class SimulatedBoard:
    """A board in simulation, a `hwgen.board.Transport`.

    Time passes only while bytes are waited for.

    Parameters
    ----------
    design : Surroundings
    library : Path, optional
        From `compile_board`; default that of `design`.
    rate : float
        Rate of the adapter's bits relative to that of the design.
    seed : int
        Of registers without a value at power-up.

    Attributes
    ----------
    address : Address or None
        Addresses of the board in a network, where it is on one.
    ratio : int
        Cycles of the SDRAM in a cycle of the design.
    """

    def __init__(
        self,
        design: Surroundings,
        *,
        library: Path | None = None,
        rate: float = 1.0,
        seed: int = 1,
    ) -> None:
        self._library = _load(library or compile_board(design))
        self._clock_hz = design.oscillator_hz
        self.ratio = design.ratio
        self._board = self._library.hwgen_board_open(self._clock_hz / design.bit_rate / rate, seed)
        if design.needs_reset:
            self.press(pressed=True)
            self.run(RESET_CYCLES / self._clock_hz)
            self.press(pressed=False)
            self.run(RESET_CYCLES / self._clock_hz)
        else:  # what is sent before the reset after power-up has ended is lost
            self.run(2 * POWER_UP_CYCLES / (1e6 * design.clock_mhz))
        self.address = design.address
        self._line = DatagramLine(Station(self)) if design.link == "udp" else None

    def write(self, data: bytes) -> None:
        """Send bytes, through a network those of a frame."""
        (self._line.write if self._line else self.send)(data)

    def read(self, count: int, timeout: float) -> bytes:
        """Return up to `count` bytes; fewer after `timeout` simulated seconds without sending."""
        return (self._line.read if self._line else self.receive)(count, timeout)

    def send(self, data: bytes) -> None:
        """Send bytes at the pins, through a network those of an Ethernet frame."""
        self._library.hwgen_board_send(self._board, data, len(data))

    def receive(self, count: int, timeout: float) -> bytes:
        """Return up to `count` bytes from the pins; fewer after `timeout` seconds without sending.

        Those of an Ethernet frame follow its length in two bytes.
        """
        limit = max(1, round(timeout * self._clock_hz))
        count = min(count, self._library.hwgen_board_run(self._board, count, limit))
        data = ctypes.create_string_buffer(count)
        self._library.hwgen_board_receive(self._board, data, count)
        return data.raw

    def run(self, seconds: float) -> None:
        """Let time pass, and send what is still to be sent."""
        self._library.hwgen_board_wait(self._board, round(seconds * self._clock_hz))

    def plug(self, *, connected: bool) -> None:
        """Plug the serial cable in, or out."""
        self._library.hwgen_board_plug(self._board, int(connected))

    def press(self, *, pressed: bool) -> None:
        """Press the button, or release it."""
        self._library.hwgen_board_press(self._board, int(pressed))

    @property
    def lit(self) -> bool:
        """Whether the light is on."""
        return bool(self._library.hwgen_board_lit(self._board))

    @property
    def cycles(self) -> int:
        """Cycles of the oscillator since power-up."""
        return int(self._library.hwgen_board_cycles(self._board))

    def now(self) -> float:
        """Return the simulated seconds since power-up."""
        return self.cycles / self._clock_hz

    @property
    def memory_error(self) -> str:
        """The first rule of the SDRAM that was broken, with its time; empty if there is none."""
        return str(self._library.hwgen_board_memory_error(self._board).decode())

    def check_memory(self) -> None:
        """Raise `CheckFailed` if the SDRAM was used against its data sheet."""
        if self.memory_error:
            raise CheckFailed(f"the SDRAM is used against its data sheet: {self.memory_error}")

    def preload(self, address: int, data: bytes) -> None:
        """Set bytes of the SDRAM in no time, as no real board can.

        A reset of the design loses them like all contents, so connect first.

        Parameters
        ----------
        address : int
            That of the engine's memory port.
        data : bytes

        Raises
        ------
        InputError
            If the SDRAM does not have them all, or there is none.
        """
        if not self._library.hwgen_board_preload(self._board, address, data, len(data)):
            raise InputError(_beyond(address, len(data)))

    def inspect(self, address: int, size: int) -> bytes:
        """Return bytes of the SDRAM in no time; see `preload`."""
        data = ctypes.create_string_buffer(size)
        if not self._library.hwgen_board_inspect(self._board, address, data, size):
            raise InputError(_beyond(address, size))
        return data.raw

    @property
    def words_moved(self) -> int:
        """Words that have gone over the data pins of the SDRAM since power-up."""
        return int(self._library.hwgen_board_words_moved(self._board))

    @property
    def broken(self) -> int:
        """Bytes of the board without a stop bit; a link that the host clocks has none."""
        return int(self._library.hwgen_board_broken(self._board))

    def close(self) -> None:
        """End the simulation."""
        if self._board:
            self._library.hwgen_board_close(self._board)
            self._board = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _beyond(address: int, size: int) -> str:
    """Return the message for bytes that no SDRAM has."""
    return f"{size} bytes at {address:#x} are not in an SDRAM of the simulated board"


def _load(path: Path) -> Any:
    library = ctypes.CDLL(str(path))
    board, size = ctypes.c_void_p, ctypes.c_size_t
    signatures: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "open": (board, (ctypes.c_double, ctypes.c_int)),
        "close": (None, (board,)),
        "send": (None, (board, ctypes.c_char_p, size)),
        "wait": (None, (board, ctypes.c_uint64)),
        "run": (size, (board, size, ctypes.c_uint64)),
        "receive": (None, (board, ctypes.c_char_p, size)),
        "cycles": (ctypes.c_uint64, (board,)),
        "broken": (ctypes.c_uint64, (board,)),
        "memory_error": (ctypes.c_char_p, (board,)),
        "words_moved": (ctypes.c_uint64, (board,)),
        "preload": (ctypes.c_int, (board, ctypes.c_uint64, ctypes.c_char_p, size)),
        "inspect": (ctypes.c_int, (board, ctypes.c_uint64, ctypes.c_char_p, size)),
        "plug": (None, (board, ctypes.c_int)),
        "press": (None, (board, ctypes.c_int)),
        "lit": (ctypes.c_int, (board,)),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"hwgen_board_{name}")
        function.restype, function.argtypes = result, arguments
    return library
