# SPDX-License-Identifier: Apache-2.0
"""Random command lists, and what the golden interpreter makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flows.simulation.operands import draw_matrices, draw_operands, draw_scalars
from flows.simulation.placed_operations import place_operation
from flows.simulation.placed_products import place
from hwgen.core.lists.commands import BYTES, CONDITIONS, OPERATIONS, Program
from hwgen.core.lists.golden import Interpreter, MemoryFault, Outcome
from hwgen.core.register_map import JOB_WINDOW
from hwgen.core.registry import core_of

LIST, SCRATCH, OPERANDS, MISSING = 0x10000, 0x20000, 0x30000, 0x900000
SCRATCH_BYTES = 512
SIZE = 0x80000  # of the memory that is modelled


class Image:
    """A memory in which only some pages exist."""

    def __init__(self, data: bytearray, holes: Sequence[range] = ()) -> None:
        self.data, self.holes = data, holes

    def read(self, address: int, count: int) -> bytes:
        """Return bytes."""
        self._check(address, count)
        return bytes(self.data[address : address + count])

    def write(self, address: int, data: bytes) -> None:
        """Replace bytes."""
        self._check(address, len(data))
        self.data[address : address + len(data)] = data

    def _check(self, address: int, count: int) -> None:
        inside = address + count <= len(self.data)
        if not inside or any(address < h.stop and h.start < address + count for h in self.holes):
            raise MemoryFault(hex(address))


class UnsafeJob(Exception):
    """A job window that nobody has planned: what the engine would do is not to be known."""


@dataclass
class JobUnit:
    """A unit whose jobs are known: it writes what they give."""

    config: Any
    jobs: Sequence[Any]
    memory: Image
    broken: Sequence[int] = ()
    window: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bits = {r.offset: r.bits for r in self.config.job_interface.window}
        self.planned = [
            {offset: word & ((1 << self.bits[offset]) - 1) for offset, word in placed.writes()}
            for placed in self.jobs
        ]

    def put(self, offset: int, word: int) -> bool:
        """Write a register of the job window; say whether there is one."""
        if offset not in self.bits:
            return False
        self.window[offset] = word & ((1 << self.bits[offset]) - 1)
        return True

    def submit(self) -> bool:
        """Write the results of the job in the window; say whether it succeeded."""
        if self.window not in self.planned:
            raise UnsafeJob
        number = self.planned.index(self.window)
        if number in self.broken:
            return False
        self.jobs[number].perform(self.memory)
        return True


@dataclass
class World:
    """An engine with known jobs in its memory."""

    config: Any
    jobs: dict[str, list[Any]]
    image: bytearray

    @classmethod
    def make(cls, config: Any, rng: np.random.Generator, jobs: int = 3) -> World:
        """Return a world with `jobs` random jobs for each unit."""
        image = bytearray(rng.bytes(SIZE))
        at, result = OPERANDS, {}
        for name, unit in config.units.items():
            make = _products if unit.multiplies else _operations
            result[name], at = make(unit, rng, jobs, at)
            for item in result[name]:
                for address, content in item.images():
                    image[address : address + len(content)] = content
        assert at < SIZE
        return cls(config, result, image)

    @property
    def results(self) -> np.ndarray:
        """Mask of the bytes that are results of jobs."""
        inside = np.zeros(SIZE, bool)
        for placed in (item for items in self.jobs.values() for item in items):
            for address, size in placed.written():
                inside[address : address + size] = True
        return inside

    def units(self, memory: Image, broken: dict[str, int] | None = None) -> list[JobUnit]:
        """Return the golden units."""
        return [
            JobUnit(
                unit, self.jobs[name], memory, [broken[name]] if broken and name in broken else []
            )
            for name, unit in self.config.units.items()
        ]


def _products(unit: Any, rng: np.random.Generator, jobs: int, base: int) -> tuple[list[Any], int]:
    """Return random jobs of a unit that multiplies, and the first address behind them."""
    products = []
    for _ in range(jobs):
        m, k, n = (int(x) for x in rng.integers(1, 7, 3))
        products.append(draw_matrices(unit, (m, k, n), "random", rng))
    placed, end = place(unit, products, rng=rng, base=base)
    return list(placed), end


def _operations(unit: Any, rng: np.random.Generator, jobs: int, base: int) -> tuple[list[Any], int]:
    """Return random jobs of another unit, and the first address behind them."""
    placed: list[Any] = []
    while len(placed) < jobs:
        offered = unit.operations
        operation = offered[int(rng.integers(len(offered)))]
        sizes = {
            size.name: int(rng.integers(1, min(4, size.most // size.multiple) + 1)) * size.multiple
            for size in operation.sizes
        }
        arrays = draw_operands(core_of(unit.compute), operation, sizes, "random", rng)
        scalars = draw_scalars(operation, rng)
        each, base = place_operation(
            unit, operation, arrays, scalars, rng=rng, base=base, golden=False
        )
        placed += each.jobs
    return placed[:jobs], base


def draw(world: World, rng: np.random.Generator, length: int = 24) -> bytes:
    """Return a random list: sound code, of which one in three has a descriptor changed."""
    config = world.config
    names = list(config.units)
    program = Program(names, config.lists.registers)
    few = config.lists.registers
    program.set(1, SCRATCH)
    program.set(2, int(rng.integers(1, 4)))
    calls: list[str] = []
    loops = 0

    def register(first: int = 3) -> int:
        return int(rng.integers(first, few))

    def scratch(size: int) -> int:
        return int(rng.integers(0, SCRATCH_BYTES // size)) * size

    while len(program) < length:
        kind = int(rng.integers(0, 11))
        size = 1 << int(rng.integers(0, 4))
        if kind == 0:
            value = int(rng.integers(-(1 << 62), 1 << 62))
            program.add(register(), register(0), register(0), value=value)
        elif kind == 1:
            factor = int(rng.integers(0, 1 << 32)) >> int(rng.integers(0, 32))
            program.multiply(register(), register(0), factor, register(0))
        elif kind in (2, 3):
            program.load(register(), 1, size=size, offset=scratch(size))
        elif kind in (4, 5):
            program.store(register(0), 1, size=size, offset=scratch(size))
        elif kind == 6:
            name = f"skip_{len(program)}"
            condition = CONDITIONS[int(rng.integers(0, len(CONDITIONS)))]
            program.branch(name, condition, register(0), register(0))
            program.add(register(), register(0), value=1)
            program.label(name)
        elif kind == 7 and loops < 2:
            loops += 1
            name = f"loop_{len(program)}"
            program.add(2, value=int(rng.integers(1, 5)))
            program.label(name)
            program.multiply(register(), register(), 3, 2)
            program.store(register(), 1, size=size, offset=scratch(size))
            program.add(2, 2, value=-1)
            program.branch(name, "different", 2, 0)
        elif kind == 8:
            calls.append(f"routine_{len(calls)}")
            program.call(calls[-1])
        else:
            unit = names[int(rng.integers(0, len(names)))]
            _job(program, world, unit, rng)
    program.halt()
    for name in calls:
        program.label(name)
        program.add(register(), register(0), register(0), value=5)
        program.back()
    data = bytearray(program.encode())
    if rng.random() < 1 / 3:
        _spoil(data, rng)
    return bytes(data)


def _job(program: Program, world: World, unit: str, rng: np.random.Generator) -> None:
    """Append a job: its window as words, some of its addresses by registers."""
    placed = world.jobs[unit][int(rng.integers(0, len(world.jobs[unit])))]
    words = dict(placed.writes())
    program.window(unit, JOB_WINDOW, list(words.values()))
    if rng.random() < 0.5:
        window = world.config.units[unit].job_interface.window
        halves = [each.offset for each in window if each.name.endswith("_ADDRESS_LOW")]
        offset = halves[int(rng.integers(len(halves)))]
        base = 3 + int(rng.integers(0, 3))
        program.set(base, (words[offset] | words[offset + 4] << 32) - 8)
        program.put(unit, offset, base, value=8, wide=True)
    others = [name for name in world.config.units if rng.random() < 0.5]
    program.submit(unit, after=others)
    if rng.random() < 0.3:
        program.wait([unit])


def _spoil(data: bytearray, rng: np.random.Generator) -> None:
    """Change a field of a descriptor, the last one perhaps cut off."""
    count = len(data) // BYTES
    at = BYTES * int(rng.integers(0, count))
    choice = int(rng.integers(0, 5))
    if choice == 0:
        data[at] = int(rng.integers(0, 2 * len(OPERATIONS)))
    elif choice == 1:
        data[at + 1 + int(rng.integers(0, 3))] = int(rng.integers(0, 256))
    elif choice == 2:
        data[at + 4 : at + 8] = rng.bytes(4)
    elif choice == 3:
        data[at + 8 : at + 16] = int(rng.choice((1, 2, 3, MISSING))).to_bytes(8, "little")
    else:
        del data[at:]


def interpret(
    world: World,
    data: bytes,
    registers: Sequence[int],
    limit: int,
    *,
    holes: Sequence[range] = (),
    broken: dict[str, int] | None = None,
    address: int = LIST,
) -> tuple[Outcome, bytearray]:
    """Run a list on a copy of the world's memory; return outcome and memory."""
    image = bytearray(world.image)
    image[address : address + len(data)] = data
    memory = Image(image, holes)
    config = world.config
    golden = Interpreter(
        memory, world.units(memory, broken), config.register_width, config.lists.calls,
        list(registers),
    )  # fmt: skip
    return golden.run(address, len(data) // BYTES, limit=limit), image
