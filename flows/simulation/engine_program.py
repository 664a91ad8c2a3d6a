# SPDX-License-Identifier: Apache-2.0
"""Simulating an engine that works on memory, with no Python in the simulation.

`compile_model` makes a library of an engine, a memory and a master of its registers, for C by
``cpp/model.h`` and for Python by `Model`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import numpy as np

from flows.simulation.ddr4_rules import COMMANDS, Ddr4Command
from flows.simulation.registry import simulator
from flows.simulation.simulator import ModelCompiler
from flows.simulation.stream_program import HARNESS
from hwgen.board.ddr4 import Ddr4Clocks, Ddr4Memory
from hwgen.core.bus import BusPort
from hwgen.errors import CheckFailed

T = TypeVar("T")

SOURCES = ("model.cpp", "axi.cpp")
HEADERS = ("model.h", "axi.h", "memory.h", "ddr4.h", "recorder.h")

INTERRUPT = "interrupt"
"""Name of the output that `Model.wait` waits for."""

SHARE = 1 << 18
"""Cycles between two reports of progress."""

Response = Literal["OKAY", "SLVERR", "DECERR"]
"""What a bus answers."""

_RESPONSES: dict[str, int] = {"OKAY": 0, "SLVERR": 2, "DECERR": 3}
_LIMIT, _VIOLATION = 1, -1


def compile_model(
    top: str,
    verilog: str,
    buses: Iterable[BusPort],
    *,
    cycles: int | None = None,
    activity: bool = False,
    compiler: ModelCompiler | None = None,
) -> Path:
    """Return a directory with the library ``TOP`` of an engine and its header ``model.h``.

    Parameters
    ----------
    top : str
        The top module.
    verilog : str
        The emitted text.
    buses : iterable of BusPort
        Its ports beside clock and reset: any number of AXI4 ports, at most one AXI4-Lite port,
        and outputs, of which `INTERRUPT` is watched.
    cycles : int, optional
        How many it is for: a library for few is compiled sooner and runs slower.
    activity : bool
        Whether `Model.record` writes how signals switch.
    compiler : ModelCompiler, optional
        What compiles it; default the simulator.
    """
    sources = {name: (HARNESS / name).read_text(encoding="utf-8") for name in SOURCES + HEADERS}
    sources |= {f"{top}.v": verilog, "design.h": _connections(buses)}
    return (compiler or simulator()).compile_library(
        top, sources, SOURCES, cycles=cycles, activity=activity
    )


def _connections(buses: Iterable[BusPort]) -> str:
    """Return the C++ function that says where the ports are."""
    unused = {"axi4": ("cache", "prot"), "axi_lite": ()}
    targets = {"axi4": ("Axi4", "memories"), "axi_lite": ("AxiLite", "controls")}
    lines = []
    for bus in buses:
        if bus.protocol == "output":
            if bus.name == INTERRUPT:
                lines.append("    ports.interrupt = interrupt_of(top, 0);")
            continue
        kind, target = targets[bus.protocol]
        lines += ["    {", f"        {kind} port{{}};", f'        port.name = "{bus.prefix}";']
        lines += [
            f"        port.{name} = wire(top.{bus.prefix}_{name});"
            for name, _, _ in bus.signals
            if not name.endswith(unused[bus.protocol])
        ]
        if bus.protocol == "axi4":
            lines.append(f"        port.beat_bytes = {bus.data_width // 8};")
        lines += [f"        ports.{target}.push_back(port);", "    }"]
    return "\n".join(
        ["static void connect(Vtop& top, Ports& ports) {", *lines, "}", ""],
    )


@dataclass(frozen=True)
class Traffic:
    """Traffic since the start.

    Parameters
    ----------
    cycles : int
        The reset included.
    read_bursts, read_beats, write_bursts, write_beats, write_bytes : int
        Of all AXI4 ports together.
    """

    cycles: int
    read_bursts: int
    read_beats: int
    write_bursts: int
    write_beats: int
    write_bytes: int


class _Counters(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in Traffic.__dataclass_fields__)


class _Ddr4Times(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in Ddr4Clocks.__dataclass_fields__)


@dataclass(frozen=True)
class Ddr4Traffic:
    """Commands of a DDR4 memory since the start; a read or write moves 8 words of its bus.

    Parameters
    ----------
    reads, writes, activations, refreshes : int
    """

    reads: int
    writes: int
    activations: int
    refreshes: int


class _Ddr4Counters(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in Ddr4Traffic.__dataclass_fields__)


class _Ddr4Command(ctypes.Structure):
    _fields_ = (
        ("clock", ctypes.c_int64), ("code", ctypes.c_int32), ("bank", ctypes.c_uint32),
        ("value", ctypes.c_uint32),
    )  # fmt: skip


class BusError(CheckFailed):
    """A register access that the engine refused.

    Attributes
    ----------
    response : {"SLVERR", "DECERR"}
    """

    def __init__(self, access: str, response: str) -> None:
        super().__init__(f"{access} was answered with {response}")
        self.response = response


class Model:
    """A simulated engine after its reset.  The clock runs only while a method waits.

    Parameters
    ----------
    directory : Path
        From `compile_model`.
    read_latency, write_latency : int
        Cycles from an address to its first beat, and from the last beat to the response.
    outstanding : int
        Bursts that may wait for their data or response, each way.
    longest_burst : int
        Beats; a longer one is a violation.
    stalls : float or dict
        Share of the cycles, below 1, in which a channel idles at random; or of some of ``read``,
        ``write`` and ``control``.
    seed : int
        Of stalls, and of registers without a reset.
    ddr4 : Ddr4Memory, optional
        Adds the times of such a memory to the latencies, which are then those of the way to it;
        with ``clock_mhz``.
    clock_mhz : float
        Clock of the engine, for `ddr4`.
    log : bool
        Whether commands of `ddr4` are recorded; see `ddr4_commands`.
    sibling : Model, optional
        One of the same directory, whose memory is shared.  Each has ports and time of its own,
        which passes while its methods wait.

    Raises
    ------
    CheckFailed
        By every method that waits: if the engine violates AXI, or does not answer.
    """

    def __init__(
        self,
        directory: Path,
        *,
        read_latency: int = 4,
        write_latency: int = 4,
        outstanding: int = 64,
        longest_burst: int = 256,
        stalls: float | dict[str, float] = 0.0,
        seed: int = 0,
        ddr4: Ddr4Memory | None = None,
        clock_mhz: float = 0.0,
        log: bool = False,
        sibling: Model | None = None,
    ) -> None:
        self._library = _load(directory / directory.name.rpartition("-")[0])
        if sibling is None:
            self._model = self._library.hwgen_open(seed & 0xFFFFFFFF)
        else:
            self._model = self._library.hwgen_open_beside(sibling._model, seed & 0xFFFFFFFF)
        if not isinstance(stalls, dict):
            stalls = dict.fromkeys(("read", "write", "control"), stalls)
        settings = [read_latency, write_latency, outstanding, longest_burst]
        settings += [round(1000 * stalls.get(name, 0)) for name in ("read", "write", "control")]
        for setting, value in enumerate(settings):
            if self._library.hwgen_set(self._model, setting, value):
                self.close()
                raise ValueError(f"setting {setting} of the memory cannot be {value!r}")
        if ddr4 is not None:
            self._set_ddr4(ddr4, clock_mhz, log)

    def _set_ddr4(self, ddr4: Ddr4Memory, clock_mhz: float, log: bool) -> None:
        if not clock_mhz > 0:
            self.close()
            raise ValueError(f"clock_mhz of the engine must be above 0, not {clock_mhz!r}")
        times = _Ddr4Times(**asdict(ddr4.clocks))
        clocks = 1e3 / clock_mhz / ddr4.chip.clock_ns
        self._library.hwgen_set_ddr4(self._model, ctypes.byref(times), clocks, log)

    def close(self) -> None:
        """End the simulation; no other method may be called afterwards."""
        if self._model:
            self._library.hwgen_close(self._model)
            self._model = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- registers and time --------------------------------------------------------------------

    def write32(self, address: int, value: int) -> None:
        """Write a register; raise `BusError` if the engine refuses."""
        status = self._library.hwgen_write32(self._model, address, value)
        self._check(status, f"writing register {address:#x}")

    def read32(self, address: int) -> int:
        """Read a register; raise `BusError` if the engine refuses."""
        value = ctypes.c_uint32()
        status = self._library.hwgen_read32(self._model, address, ctypes.byref(value))
        self._check(status, f"reading register {address:#x}")
        return value.value

    def wait(self, limit: int, on_progress: Callable[[int], None] | None = None) -> bool:
        """Run until the interrupt, at most `limit` cycles; say whether it came.

        Parameters
        ----------
        limit : int
            Cycles.
        on_progress : callable, optional
            Gets the cycles that have passed, now and then.
        """
        done = 0
        while True:
            share = min(limit - done, SHARE)
            status = self._library.hwgen_wait(self._model, share)
            if status != _LIMIT:
                self._check(status, "waiting for the interrupt")
                return True
            done += share
            if on_progress:
                on_progress(done)
            if done >= limit:
                return False

    def run(self, cycles: int) -> None:
        """Run so many cycles."""
        self._check(self._library.hwgen_run(self._model, cycles), "running")

    def reset(self, cycles: int = 1) -> None:
        """Hold the reset; bursts under way are forgotten, memory stays."""
        self._check(self._library.hwgen_reset(self._model, cycles), "the reset")

    def record(self, file: Path | None) -> None:
        """Write how signals switch from now on into a file, which is complete after `None`.

        Only of a model that `compile_model` made for that.
        """
        self._library.hwgen_record(self._model, None if file is None else os.fsencode(file))

    @property
    def interrupt(self) -> bool:
        """The output of that name."""
        return bool(self._library.hwgen_interrupt(self._model))

    @property
    def traffic(self) -> Traffic:
        """Traffic since the start."""
        return self._counted(Traffic, _Counters(), self._library.hwgen_count)

    @property
    def ddr4_traffic(self) -> Ddr4Traffic:
        """Commands of the DDR4 memory since the start, zeros if there is none."""
        return self._counted(Ddr4Traffic, _Ddr4Counters(), self._library.hwgen_count_ddr4)

    def _counted(self, result: type[T], counters: ctypes.Structure, count: Any) -> T:
        """Read counters of the library, into a class with the same fields."""
        count(self._model, ctypes.byref(counters))
        return result(*(getattr(counters, name) for name, *_ in counters._fields_))

    @property
    def ddr4_commands(self) -> list[Ddr4Command]:
        """Recorded commands of the DDR4 memory, in the order of their clocks."""
        count = self._library.hwgen_ddr4_commands(self._model, None, 0)
        commands = (_Ddr4Command * count)()
        self._library.hwgen_ddr4_commands(self._model, commands, count)
        return sorted(
            (
                Ddr4Command(each.clock, COMMANDS[each.code], each.bank, each.value)
                for each in commands
            ),
            key=lambda command: command.clock,
        )

    def _check(self, status: int, access: str) -> None:
        if status == _VIOLATION:
            message = self._library.hwgen_message(self._model).decode()
            raise CheckFailed(f"{access}: {message} (cycle {self.traffic.cycles})")
        for name, number in _RESPONSES.items():
            if status == number != 0:
                raise BusError(access, name)

    # -- memory --------------------------------------------------------------------------------

    def store(self, address: int, values: np.ndarray | bytes) -> None:
        """Put the bytes of an array, in C order, into memory."""
        data = values if isinstance(values, bytes) else np.ascontiguousarray(values).tobytes()
        self._library.hwgen_store(self._model, address, data, len(data))

    def load(self, address: int, shape: int | tuple[int, ...], dtype: Any = np.uint8) -> np.ndarray:
        """Return an array from memory."""
        values = np.empty(shape, dtype)
        pointer = values.ctypes.data_as(ctypes.c_void_p)
        self._library.hwgen_load(self._model, address, pointer, values.nbytes)
        return values

    def map(self, address: int, count: int) -> None:
        """Let the 4 KiB pages of `count` bytes exist; after a first call no others do."""
        self._library.hwgen_map(self._model, address, count)

    def fault(self, address: int, count: int, response: Response) -> None:
        """Let the engine's accesses to `count` bytes be answered with `response`."""
        self._library.hwgen_fault(self._model, address, count, _RESPONSES[response])


def _load(path: Path) -> Any:
    library = ctypes.CDLL(str(path))
    model, number, large = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
    signatures: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "open": (model, (number,)),
        "open_beside": (model, (model, number)),
        "close": (None, (model,)),
        "set": (ctypes.c_int, (model, ctypes.c_int, number)),
        "write32": (ctypes.c_int, (model, large, number)),
        "read32": (ctypes.c_int, (model, large, ctypes.c_void_p)),
        "record": (None, (model, ctypes.c_char_p)),
        "wait": (ctypes.c_int, (model, large)),
        "interrupt": (ctypes.c_int, (model,)),
        "run": (ctypes.c_int, (model, large)),
        "reset": (ctypes.c_int, (model, large)),
        "store": (None, (model, large, ctypes.c_void_p, ctypes.c_size_t)),
        "load": (None, (model, large, ctypes.c_void_p, ctypes.c_size_t)),
        "map": (None, (model, large, large)),
        "fault": (None, (model, large, large, ctypes.c_int)),
        "count": (None, (model, ctypes.c_void_p)),
        "message": (ctypes.c_char_p, (model,)),
        "set_ddr4": (None, (model, ctypes.c_void_p, ctypes.c_double, ctypes.c_int)),
        "count_ddr4": (None, (model, ctypes.c_void_p)),
        "ddr4_commands": (ctypes.c_size_t, (model, ctypes.c_void_p, ctypes.c_size_t)),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"hwgen_{name}")
        function.restype, function.argtypes = result, arguments
    return library
