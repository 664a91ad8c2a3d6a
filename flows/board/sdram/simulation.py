# SPDX-License-Identifier: Apache-2.0
"""Simulations of the controller and the model of its chip, with a manager that checks all data."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator

from flows.board.sdram.chip import Pins, SdramModel
from flows.board.sdram.pads import PadRegisters
from hwgen.board.sdram import SDRAM_OUTPUTS, SdramChip, SdramError
from hwgen.board.sdram_pads import PADS
from rtl_templates.board.sdram import SdramController, SdramParams
from rtl_templates.board.sdram_timing import SdramCycles

ADDRESS_WIDTH = 32

_OUTPUTS = ("awready", "wready", "bvalid", "bid", "bresp", "arready", "rvalid", "rid", "rresp",
            "rlast", "rdata")  # fmt: skip
_PADS = PADS["BB"]
SAMPLED = 2
"""Edges after which pads sample a word, with a ratio of 2."""

_LATEST = 100_000  # cycles that a simulation may last after start-up


@dataclass(frozen=True)
class Transfer:
    """A burst.

    Parameters
    ----------
    write : bool
    address : int
        Of the first beat, a multiple of its bytes.
    beats : int
    name : int
        The ID, 0 or 1.
    data, strobes : tuple of int
        Beats of a write, and a bit for each of their bytes.
    burst, size : int
        ``AxBURST``, and ``AxSIZE`` if it is not that of the port.
    """

    write: bool
    address: int
    beats: int
    name: int = 0
    data: tuple[int, ...] = ()
    strobes: tuple[int, ...] = ()
    burst: int = 1
    size: int | None = None


class Manager:
    """A manager that sends bursts and checks the answers against a dictionary of bytes.

    Bursts begin in order; one waits while an unfinished one of the other direction touches its
    bytes, as AXI does not order them.

    Parameters
    ----------
    transfers : iterable of Transfer
    beat_bytes : int
    size : int
        Bytes of the memory.
    stall : float
        Share of the cycles in which each channel waits.
    seed : int
    """

    def __init__(
        self, transfers: Iterable[Transfer], beat_bytes: int, size: int, stall: float, seed: int
    ) -> None:
        self._waiting = iter(transfers)
        self._next = next(self._waiting, None)
        self._bytes, self._size, self._stall = beat_bytes, size, stall
        self._random = Random(seed)
        self._reads: deque[Transfer] = deque()
        self._writes: deque[Transfer] = deque()
        self._beats: deque[tuple[int, int, int]] = deque()
        self._read_beat = 0
        self.memory: dict[int, int] = {}
        self.beats = 0
        self.compared = 0
        self.inputs = dict.fromkeys(
            ("awvalid", "wvalid", "bready", "arvalid", "rready", "wdata", "wstrb", "wlast"), 0
        )

    @property
    def done(self) -> bool:
        """Whether every burst has been answered."""
        return not (self._next or self._reads or self._writes)

    def _is_error(self, transfer: Transfer) -> bool:
        return transfer.address >= self._size or transfer.burst != 1 or transfer.size is not None

    def _overlaps(self, transfer: Transfer) -> bool:
        others = self._reads if transfer.write else self._writes
        length = transfer.beats * self._bytes
        return any(
            other.address < transfer.address + length
            and transfer.address < other.address + other.beats * self._bytes
            for other in others
        )

    def step(self, outputs: dict[str, int]) -> dict[str, int]:
        """Return the inputs of the next cycle, of the outputs of this one."""
        inputs = self.inputs
        for channel in ("aw", "ar"):
            if inputs[f"{channel}valid"] and outputs[f"{channel}ready"]:
                inputs[f"{channel}valid"] = 0
        if inputs["wvalid"] and outputs["wready"]:
            inputs["wvalid"] = 0
            self._beats.popleft()
        if inputs["bready"] and outputs["bvalid"]:
            self._answer(outputs)
        if inputs["rready"] and outputs["rvalid"]:
            self._beat(outputs)
        self._issue()
        if not inputs["wvalid"] and self._beats and self._goes_on():
            inputs["wvalid"] = 1
            inputs["wdata"], inputs["wstrb"], inputs["wlast"] = self._beats[0]
        inputs["bready"], inputs["rready"] = int(self._goes_on()), int(self._goes_on())
        return inputs

    def _goes_on(self) -> bool:
        return not self._stall or self._random.random() >= self._stall

    def _issue(self) -> None:
        transfer, inputs = self._next, self.inputs
        if transfer is None or not self._goes_on() or self._overlaps(transfer):
            return
        channel = "aw" if transfer.write else "ar"
        if inputs[f"{channel}valid"]:
            return
        size = (self._bytes.bit_length() - 1) if transfer.size is None else transfer.size
        fields = {"valid": 1, "addr": transfer.address, "len": transfer.beats - 1,
                  "id": transfer.name, "burst": transfer.burst, "size": size}  # fmt: skip
        inputs.update({f"{channel}{name}": value for name, value in fields.items()})
        if transfer.write:
            self._writes.append(transfer)
            for index, (data, strobe) in enumerate(
                zip(transfer.data, transfer.strobes, strict=True)
            ):
                self._beats.append((data, strobe, int(index == transfer.beats - 1)))
        else:
            self._reads.append(transfer)
        self._next = next(self._waiting, None)

    def _answer(self, outputs: dict[str, int]) -> None:
        transfer = self._writes.popleft()
        error = self._is_error(transfer)
        assert (outputs["bid"], outputs["bresp"]) == (transfer.name, 2 * error), transfer
        self.beats += transfer.beats
        if error:
            return
        for beat, (data, strobe) in enumerate(zip(transfer.data, transfer.strobes, strict=True)):
            for index in range(self._bytes):
                if strobe >> index & 1:
                    address = transfer.address + beat * self._bytes + index
                    self.memory[address] = data >> 8 * index & 0xFF

    def _beat(self, outputs: dict[str, int]) -> None:
        transfer = self._reads[0]
        error = self._is_error(transfer)
        start = transfer.address + self._read_beat * self._bytes
        data = bytes(self.memory.get(start + index, 0) for index in range(self._bytes))
        expected = 0 if error else int.from_bytes(data, "little")
        last = self._read_beat == transfer.beats - 1
        result = tuple(outputs[name] for name in ("rdata", "rresp", "rid", "rlast"))
        assert result == (expected, 2 * error, transfer.name, last), (transfer, self._read_beat)
        self._read_beat = 0 if last else self._read_beat + 1
        self.beats += 1
        self.compared += sum(start + index in self.memory for index in range(self._bytes))
        if last:
            self._reads.popleft()


@dataclass(frozen=True)
class Result:
    """Outcome of a simulation.

    Parameters
    ----------
    cycles : int
        From the end of start-up to the last answer.
    beats : int
        Beats that were read and written.
    compared : int
        Bytes that were read after they had been written.
    model : SdramModel
    """

    cycles: int
    beats: int
    compared: int
    model: SdramModel


def simulate(
    transfers: Iterable[Transfer],
    chip: SdramChip,
    clock_hz: float,
    data_width: int = 32,
    *,
    stall: float = 0.0,
    seed: int = 1,
    inverted: bool = False,
    cycles: SdramCycles | None = None,
    capture: int | None = None,
    ratio: int = 1,
) -> Result:
    """Simulate bursts until each is answered.

    Parameters
    ----------
    transfers : iterable of Transfer
    chip : SdramChip
    clock_hz : float
    data_width : int
        Bits of the port.
    stall : float
        Share of the cycles in which each channel of the manager waits.
    seed : int
    inverted : bool
        Whether the chip has the inverted clock.
    cycles : SdramCycles, optional
        Timing of the controller, instead of that of the chip.
    capture : int, optional
        When the controller samples words, instead of what fits the clock of the chip.
    ratio : int
        Cycles of the chip in a cycle of the controller; with 2 there are registers of pads between.

    Raises
    ------
    SdramError
        If the controller breaks a rule of the chip.
    AssertionError
        If an answer is wrong, or late beyond all measure.
    """
    if capture is None:
        capture = -1 if inverted else 0
        if ratio > 1:
            capture = _PADS.capture(SAMPLED)
    params = SdramParams(chip, clock_hz, data_width, ADDRESS_WIDTH, capture, cycles, ratio)
    controller = SdramController(params)
    clock_ns = 1e9 / clock_hz
    model = SdramModel(chip, clock_ns / ratio)
    registers = PadRegisters(model, SAMPLED)
    manager = Manager(transfers, data_width // 8, chip.size, stall, seed)
    m = Module()
    m.submodules.controller = controller
    m.domains.chip = ClockDomain(reset_less=True)
    pins = [getattr(controller, name) for name in SDRAM_OUTPUTS]
    outputs = [getattr(controller.bus, name) for name in _OUTPUTS]
    passed = 0
    failure: Exception | None = None

    async def drive_pads(ctx: Any) -> None:
        nonlocal failure
        while True:
            _, _, *levels = await ctx.tick("chip").sample(*pins)
            try:
                ctx.set(controller.dq_i, registers.step(levels))
            except SdramError as error:
                failure = error
                return

    async def drive_chip(ctx: Any) -> None:
        nonlocal failure
        last: int | None = None
        while True:
            _, _, *levels = await ctx.tick("chip").sample(*pins)
            try:
                word = model.step(Pins(*levels))
            except SdramError as error:
                failure = error
                return
            # The pins have no definite level while nobody drives them.
            level = 0xDEAD if word is None else word
            if level != last:
                ctx.set(controller.dq_i, level)
                last = level

    async def drive_bus(ctx: Any) -> None:
        nonlocal passed, failure
        previous: dict[str, int] = {}
        await ctx.tick().until(controller.ready)
        while not (manager.done or failure):
            _, _, *levels = await ctx.tick().sample(*outputs)
            try:
                inputs = manager.step(dict(zip(_OUTPUTS, levels, strict=True)))
                assert passed < _LATEST, "not all bursts are answered"
            except AssertionError as error:
                failure = error
                return
            for name, value in inputs.items():
                if previous.get(name) != value:
                    ctx.set(getattr(controller.bus, name), value)
            previous = dict(inputs)
            passed += 1

    simulator = Simulator(m)
    simulator.add_clock(clock_ns * 1e-9, phase=clock_ns * 0.5e-9)
    simulator.add_clock(
        clock_ns * 1e-9, phase=clock_ns * (0.0 if inverted else 0.5) * 1e-9, domain="chip"
    )
    simulator.add_testbench(drive_pads if ratio > 1 else drive_chip, background=True)
    simulator.add_testbench(drive_bus)
    simulator.run()
    if failure is not None:
        raise failure
    return Result(passed, manager.beats, manager.compared, model)


def quick(chip: SdramChip) -> SdramChip:
    """Return a chip whose start-up lasts 1 us, for simulations."""
    return replace(chip, start_up_us=1.0)


def random_transfers(
    random: Random, count: int, data_width: int, size: int, *, errors: bool = True
) -> Iterator[Transfer]:
    """Yield random reads and writes of a few rows in all banks, one in twenty an error.

    Parameters
    ----------
    random : Random
    count : int
    data_width : int
        Bits of the port.
    size : int
        Bytes of the memory.
    errors : bool
        Whether there are errors.
    """
    beat_bytes = data_width // 8
    # Bursts cross the end of a row, in the middle of these ranges, or touch that of the memory.
    row = 2 << 9
    regions = [random.randrange(size // 4096) * 4096 + row - 24 * beat_bytes for _ in range(4)]
    regions.append(size - 88 * beat_bytes)
    for _ in range(count):
        beats = random.choice((1, 1, 2, 3, 7, 16, 16, 40))
        start = random.randrange(49) * beat_bytes
        address = random.choice(regions) + start
        burst, narrow = 1, None
        if errors and random.random() < 0.05:
            error = random.randrange(3)
            address += size * random.randrange(1, 5) if error == 0 else 0
            burst = 0 if error == 1 else 1
            narrow = 0 if error == 2 else None
        write = random.random() < 0.5
        full = (1 << beat_bytes) - 1
        strobes = tuple(
            random.choice((full, full, random.randrange(full + 1))) for _ in range(beats)
        )
        data = tuple(random.randrange(1 << data_width) for _ in range(beats))
        yield Transfer(
            write, address, beats, random.randrange(2), data if write else (),
            strobes if write else (), burst, narrow,
        )  # fmt: skip


def share_of_peak(result: Result, data_width: int, ratio: int = 1) -> float:
    """Return the bytes that were moved, as a share of a word in each cycle of the chip."""
    return result.beats * data_width / (16 * ratio * result.cycles)
