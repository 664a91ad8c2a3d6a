# SPDX-License-Identifier: Apache-2.0
"""The model of DDR4 memories: its commands by the rules of JESD79-4, and the times of accesses."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import astuple, replace
from pathlib import Path
from random import Random

import pytest

from flows.simulation.ddr4_rules import COMMANDS, Ddr4Command, Ddr4Rules
from flows.simulation.engine_program import Model
from flows.simulation.stream_program import HARNESS
from flows.tools.toolchain import require
from hwgen.board.ddr4 import Ddr4Clocks, ddr4_memories
from hwgen.board.sdram import SdramError
from hwgen.technologies.off_chip import memory_types
from sim_tests.simulation.test_memory_engine import copy, data, library

__all__ = ["library"]

KV260 = ddr4_memories()["kv260"]
CLOCKS = KV260.clocks
RATIO = 4.0
"""Clocks of the memory in a cycle of the engine."""

Access = tuple[int, bool, int]
"""Address, whether it writes, and cycle."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    result = tmp_path_factory.mktemp("ddr4") / "trace"
    source = Path(__file__).parent / "ddr4_trace.cpp"
    (compiler,) = require("g++").argv
    command = [compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{HARNESS}"]
    subprocess.run([*command, str(source), "-o", str(result)], check=True)
    return result


def serve(
    program: Path, accesses: Iterable[Access], clocks: Ddr4Clocks = CLOCKS
) -> tuple[list[int], list[Ddr4Command]]:
    """Return the cycle after each access, and all commands by their clocks."""
    accesses = list(accesses)
    lines = [" ".join(map(str, astuple(clocks))), str(RATIO)]
    lines += [f"{address} {int(write)} {cycle}" for address, write, cycle in accesses]
    done = subprocess.run(
        [str(program)], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    output = [[int(word) for word in line.split()] for line in done.stdout.splitlines()]
    ends = [line[0] for line in output[: len(accesses)]]
    commands = [Ddr4Command(at, COMMANDS[code], *rest) for at, code, *rest in output[len(ends) :]]
    return ends, sorted(commands, key=lambda command: command.clock)


def address(row: int = 0, bank: int = 0, column: int = 0, group: int = 0) -> int:
    """Return the address of a line."""
    line = ((row * CLOCKS.banks + bank) * (CLOCKS.columns // 8) + column) * CLOCKS.bank_groups
    return (line + group) * 64


def random_accesses(seed: int, count: int = 6000) -> list[Access]:
    """Return accesses to a few rows, in busy phases, idle ones and runs in one bank group."""
    random, cycle = Random(seed), 0
    result: list[Access] = []
    while len(result) < count:
        writes, step, few = random.random(), random.choice((0, 1, 2, 10)), random.random() < 0.5
        for _ in range(random.randrange(1, 60)):
            row, group = random.randrange(2 if few else 40), random.randrange(2)
            at = address(row, random.randrange(4), random.randrange(128), group if few else 0)
            result.append((at, random.random() < writes, cycle))
            cycle += random.randrange(step + 1)
        cycle += random.choice((0, 0, 100, 9000))
    return result


def test_sizes_and_peak() -> None:
    assert KV260.size == 4 << 30
    assert KV260.peak_gb_s == memory_types()["ddr4"].peak_gb_s
    assert astuple(CLOCKS)[5:] == (
        17, 12, 17, 17, 39, 9, 18, 3, 9, 4, 6, 7, 8, 36, 420, 9360,
    )  # fmt: skip


def test_commands_follow_the_rules(program: Path) -> None:
    for seed in range(3):
        ends, commands = serve(program, random_accesses(seed))
        Ddr4Rules(KV260).check(commands)
        assert {command.name for command in commands} == set(COMMANDS)
        assert len(ends) == sum(command.name in ("read", "write") for command in commands)


RULES = {
    "rcd": "tRCD", "rp": "tRP", "ras": "tRAS", "rtp": "tRTP", "wr": "tWR", "wtr_s": "tWTR_S",
    "wtr_l": "tWTR_L", "ccd_s": "data bus", "ccd_l": "tCCD_L", "rrd_s": "tRRD_S",
    "rrd_l": "tRRD_L", "faw": "tFAW", "rfc": "tRFC",
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_a_time_that_is_too_short_is_noticed(program: Path, name: str) -> None:
    """Each time of the model is one clock less than that of the chips."""
    shorter = replace(CLOCKS, **{name: getattr(CLOCKS, name) - 1})
    rules = set()
    for seed in range(3):
        try:
            Ddr4Rules(KV260).check(serve(program, random_accesses(seed), shorter)[1])
        except SdramError as error:
            rules.add(error.rule)
    assert rules == {RULES[name]}


def test_a_latency_that_is_too_short_is_noticed(program: Path) -> None:
    """Words of a read come earlier than a write after it expects: pins are driven by both."""
    shorter = replace(CLOCKS, cl=CLOCKS.cl - 1)
    with pytest.raises(SdramError, match="data bus"):
        Ddr4Rules(KV260).check(serve(program, random_accesses(1), shorter)[1])


def test_late_refreshes_are_noticed(program: Path) -> None:
    late = replace(CLOCKS, refi=10 * CLOCKS.refi)
    with pytest.raises(SdramError, match="tREFI"):
        Ddr4Rules(KV260).check(serve(program, random_accesses(1), late)[1])


def test_broken_states_are_noticed() -> None:
    for commands in (
        [("read", 0)], [("activate", 0), ("activate", 0)], [("activate", 0), ("refresh", 0)],
        [("activate", 1 << 16)], [("activate", 0), ("read", 128)],
    ):  # fmt: skip
        sequence = [Ddr4Command(100 * i, name, 0, v) for i, (name, v) in enumerate(commands)]
        with pytest.raises(SdramError, match="state"):
            Ddr4Rules(KV260).check(sequence)
    twice = [Ddr4Command(5, "activate", bank, 0) for bank in range(2)]
    with pytest.raises(SdramError, match="command bus"):
        Ddr4Rules(KV260).check(twice)


def test_times_of_accesses_by_hand(program: Path) -> None:
    """Clocks of the first access, of one to the open row, and of one to another row of its bank."""
    reads = [(address(), False, 0), (address(column=1), False, 100)]
    reads.append((address(row=1), False, 200))
    ends, _ = serve(program, reads)
    wanted = (1 + 17 + 17 + 4, 401 + 17 + 4, 801 + 17 + 17 + 17 + 4)
    assert ends == [int(clocks // RATIO) + 1 for clocks in wanted]


def share(program: Path, accesses: list[Access]) -> float:
    """Return the share of the peak: a line in four clocks."""
    ends, _ = serve(program, accesses)
    return len(ends) * 4 / (ends[-1] * RATIO)


def test_shares_of_the_peak(program: Path) -> None:
    """Lines one after the other use the bus all the time but for refreshes; rows cost tRC."""
    count = 20_000
    after_another = [(64 * index, False, 0) for index in range(count)]
    # Rows are closed before a refresh, and opened after it.
    refreshes = 1 - (CLOCKS.rtp + CLOCKS.rp + CLOCKS.rfc + CLOCKS.rcd) / CLOCKS.refi
    assert share(program, after_another) == pytest.approx(refreshes, abs=0.01)
    one_group = [(address(index // 128, 0, index % 128), False, 0) for index in range(count)]
    assert share(program, one_group) == pytest.approx(4 / 6 * refreshes, abs=0.03)
    one_bank = [(address(index % 999), False, 0) for index in range(count)]
    assert share(program, one_bank) == pytest.approx(4 / 56 * refreshes, abs=0.002)


def test_an_engine_has_the_times(library: Path) -> None:
    """Copies are right, and take the cycles of the memory beside those of the way to it."""
    cycles, sent = {}, data(8192, 1)
    for name, ddr4 in {"none": None, "kv260": KV260}.items():
        with Model(library, read_latency=1, write_latency=1, ddr4=ddr4, clock_mhz=300,
                   log=True) as model:  # fmt: skip
            model.store(0, sent)
            before = model.traffic.cycles
            assert copy(model, 0, 1 << 20, 8192) == 0
            cycles[name] = model.traffic.cycles - before
            assert (model.load(1 << 20, 8192) == sent).all()
            traffic, commands = model.ddr4_traffic, model.ddr4_commands
    Ddr4Rules(KV260).check(commands)
    assert traffic.reads >= 128
    assert traffic.writes >= 128
    assert len(commands) >= traffic.reads + traffic.writes + traffic.activations
    assert cycles["kv260"] > cycles["none"]


def test_a_clock_is_needed(library: Path) -> None:
    with pytest.raises(ValueError, match="clock_mhz of the engine must be above 0, not 0"):
        Model(library, ddr4=KV260)
