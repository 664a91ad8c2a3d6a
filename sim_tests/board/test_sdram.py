# SPDX-License-Identifier: Apache-2.0
"""The controller of SDR SDRAMs against a model of the chip made of its data sheet's rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from flows.bench.sdram import CLOCKS_HZ, PATTERNS, SECTIONS, share_cells
from flows.board.sdram.chip import Pins, SdramModel
from flows.board.sdram.simulation import (
    SAMPLED,
    Result,
    Transfer,
    quick,
    random_transfers,
    share_of_peak,
    simulate,
)
from hwgen.board.sdram import RATIOS, WORD_BYTES, SdramChip, SdramError, sdram_chips
from hwgen.board.sdram_pads import PADS, best_phase, margins
from hwgen.core.params.off_chip import OffChip
from rtl_templates.board.sdram import SdramParams
from rtl_templates.board.sdram_timing import SdramCycles, sdram_cycles
from sim_tests.support.paths import ROOT

ISSI, MICRON = sdram_chips()["is42s16160g-7"], sdram_chips()["mt48lc16m16a2-75"]


def random_run(
    chip: SdramChip, clock_hz: float, width: int, *, count: int = 60, stall: float = 0.0,
    inverted: bool = False, cycles: SdramCycles | None = None, seed: int = 3,
) -> Result:  # fmt: skip
    chip = quick(chip)
    transfers = random_transfers(Random(seed), count, width, chip.size)
    return simulate(transfers, chip, clock_hz, width, stall=stall, inverted=inverted, cycles=cycles)


CASES = [
    (ISSI, 100e6, 32, 0.0, False),
    (MICRON, 133e6, 64, 0.3, False),
    (ISSI, 50e6, 32, 0.5, True),
    (ISSI, 142e6, 32, 0.2, False),
    (MICRON, 100e6, 128, 0.1, True),
    (ISSI, 25e6, 64, 0.0, True),
    (MICRON, 100e6, 256, 0.2, False),
    (replace(ISSI, column_bits=10), 100e6, 32, 0.3, False),
]


@pytest.mark.rotate(16)
@pytest.mark.parametrize(("chip", "clock_hz", "width", "stall", "inverted"), CASES)
def test_bytes_are_those_of_a_dictionary(
    chip: SdramChip, clock_hz: float, width: int, stall: float, *, inverted: bool
) -> None:
    """Answers are checked by the manager, rules of the chip by the model."""
    result = random_run(chip, clock_hz, width, stall=stall, inverted=inverted)
    commands = result.model.commands
    assert commands["activate"] > 20
    assert commands["refresh"] > chip.start_up_refreshes
    assert result.beats > 400
    assert result.compared > 200


@pytest.mark.rotate(16)
@pytest.mark.parametrize("seed", range(8))
def test_long_random_traffic(seed: int) -> None:
    random = Random(seed)
    chip, clock_hz, width, _, inverted = random.choice(CASES)
    random_run(chip, clock_hz, width, count=100, stall=random.random() / 2, inverted=inverted,
               seed=seed)  # fmt: skip


DOUBLE = [(ISSI, 37.5e6, 32, 0.0), (ISSI, 71e6, 32, 0.3), (MICRON, 50e6, 64, 0.6)]


@pytest.mark.rotate(9)
@pytest.mark.parametrize(("chip", "clock_hz", "width", "stall"), DOUBLE)
def test_a_port_of_half_the_clock_has_the_bytes_of_a_dictionary(
    chip: SdramChip, clock_hz: float, width: int, stall: float
) -> None:
    chip = quick(chip)
    for seed in range(2):
        transfers = random_transfers(Random(seed), 60, width, chip.size)
        result = simulate(transfers, chip, clock_hz, width, stall=stall, seed=seed, ratio=2)
        assert result.beats > 400
        assert result.compared > 200


@pytest.mark.rotate(4)
def test_a_port_of_half_the_clock_moves_a_beat_in_each_of_its_cycles() -> None:
    for write in (False, True):
        words = (tuple(range(16)), (15,) * 16) if write else ((), ())
        bursts = [Transfer(write, 64 * i, 16, 0, *words) for i in range(40)]
        result = simulate(bursts, quick(ISSI), 37.5e6, ratio=2)
        assert 0.95 < share_of_peak(result, 32, 2) <= 1


@pytest.mark.parametrize("later", [-2, -1, 1, 2])
def test_words_of_twice_the_clock_are_sampled_in_time(later: int) -> None:
    transfers = random_transfers(Random(1), 30, 32, ISSI.size, errors=False)
    capture = PADS["BB"].capture(SAMPLED) + later
    with pytest.raises(AssertionError, match="Transfer"):
        simulate(transfers, quick(ISSI), 37.5e6, capture=capture, ratio=2)


@pytest.mark.rotate(3)
@pytest.mark.parametrize("name", ["rcd", "rfc"])
def test_one_cycle_too_few_is_noticed_at_twice_the_clock(name: str) -> None:
    chip = quick(ISSI)
    cycles = SdramParams(chip, 60e6, 32, 32, PADS["BB"].capture(SAMPLED), ratio=2).timing
    simulate(probing(chip), chip, 60e6, ratio=2)
    less = replace(cycles, **{name: max(0, getattr(cycles, name) - 2)})
    with pytest.raises(SdramError):
        simulate(probing(chip), chip, 60e6, cycles=less, ratio=2)


def test_the_phase_of_the_chips_clock_leaves_margins() -> None:
    period = 1e3 / 75
    phases = [period * step / 64 for step in range(64)]
    phase, left = best_phase(ISSI, PADS["BB"], period, phases)
    assert left.least > 1
    assert left == margins(ISSI, PADS["BB"], period, phase)
    # By hand: pads of 2 to 4 ns and 0.5 to 2; access 6 ns, hold 2.5; 1.5 and 0.8 at inputs.
    assert left.input_setup == pytest.approx(phase - 2 - 1.5)
    assert left.input_hold == pytest.approx(period - phase - 2 - 0.8)
    assert left.word_setup == pytest.approx(2 * period - (phase + 4 + 6 + 2))
    assert left.word_hold == pytest.approx(phase + 2 + period + 2.5 + 0.5 - 2 * period)
    with pytest.raises(ValueError, match="MHz is the fastest"):
        best_phase(ISSI, PADS["BB"], 1e3 / 140, [1e3 / 140 * step / 64 for step in range(64)])


# Bursts in which the time between two commands is the least: rows of one bank and of others, a read
# just after its row is open, a precharge just after a write.
def probing(chip: SdramChip) -> list[Transfer]:
    bank, row = 2 << chip.column_bits, 8 << chip.column_bits
    transfers = []
    for index in range(40):
        address = (index % 7) * row + (index // 3 % 3) * bank
        write = index % 4 == 1
        data = (index,) if write else ()
        transfers.append(Transfer(write, address, 1, data=data, strobes=(15,) * len(data)))
    return transfers


LONG_CYCLE = replace(ISSI, rc=90.0)  # of other chips, the sum of tRAS and tRP is no less than tRC
RULES = [
    ("tRCD", "rcd", ISSI), ("tRP", "rp", ISSI), ("tRC", "rc", LONG_CYCLE), ("tRFC", "rfc", ISSI),
    ("tRAS", "ras", replace(ISSI, ras=67.0)), ("tRRD", "rrd", replace(ISSI, rrd=50.0)),
    ("tWR", "wr", ISSI), ("tMRD", "mrd", replace(ISSI, mrd_clocks=12)),
    ("start-up", "start_up", ISSI),
    ("start-up", "refreshes", ISSI),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "name", "chip"), RULES, ids=[name for _, name, _ in RULES])
def test_one_cycle_too_few_is_noticed(rule: str, name: str, chip: SdramChip) -> None:
    chip = quick(chip)
    cycles = SdramParams(chip, 100e6, 32, 32).timing
    simulate(probing(chip), chip, 100e6)
    less = replace(cycles, **{name: getattr(cycles, name) - 1})
    with pytest.raises(SdramError) as caught:
        simulate(probing(chip), chip, 100e6, cycles=less)
    assert caught.value.rule == rule, str(caught.value)


def test_late_refreshes_are_noticed() -> None:
    chip = quick(ISSI)
    cycles = SdramParams(chip, 100e6, 32, 32).timing
    late = replace(cycles, refresh=cycles.refresh + 16)
    reads = [Transfer(False, 64 * index, 16) for index in range(60)]
    with pytest.raises(SdramError, match="tREFI"):
        simulate(reads, chip, 100e6, cycles=late)


def test_words_that_are_sampled_a_cycle_late_are_noticed() -> None:
    transfers = random_transfers(Random(1), 30, 32, ISSI.size, errors=False)
    with pytest.raises(AssertionError, match="Transfer"):
        simulate(transfers, quick(ISSI), 100e6, capture=1)


def test_start_up_takes_as_long_as_the_data_sheet_says() -> None:
    write = Transfer(True, 0, 1, data=(0x12345678,), strobes=(0b0110,))
    result = simulate([write, Transfer(False, 0, 1)], MICRON, 25e6, inverted=True)
    assert result.compared == 2
    assert result.model.commands["refresh"] == MICRON.start_up_refreshes
    assert result.model.commands["nop"] > 200e-6 * 25e6
    assert set(result.model.words) == {(0, 0, 0), (0, 0, 1)}


def test_bursts_that_the_memory_cannot_serve_are_errors() -> None:
    chip = quick(ISSI)
    ones = (0xFFFFFFFF,) * 4
    beyond = [
        Transfer(write, address, 4, 1, ones if write else (), (15,) * 4 if write else (), burst)
        for write in (True, False)
        for address, burst in ((chip.size, 1), (1 << 31, 1), (0, 0), (0, 2))
    ]
    result = simulate([*beyond, Transfer(False, chip.size - 4, 1)], chip, 100e6)
    assert result.beats == 33
    assert not result.model.words
    assert result.model.commands["activate"] == 1


NAMES = {
    "nop": 0b111, "activate": 0b011, "read": 0b101, "write": 0b100, "precharge": 0b010,
    "refresh": 0b001, "mode": 0b000, "stop": 0b110,
}  # fmt: skip
EVERY = 1 << 10
START = [
    ("precharge", 0, EVERY), ("nop", 7), *[("refresh", 0, 0), ("nop", 9)] * 8, ("mode", 0, 0x21),
    ("nop", 1),
]  # fmt: skip


def played(script: Sequence[tuple[Any, ...]], *, driven: int = 0) -> tuple[SdramModel, list[Any]]:
    """Return a model after commands of (name, bank, address) or ("nop", cycles), and its words."""
    model, words = SdramModel(quick(ISSI), 10.0), []
    model.words = {(0, 0, 6): 0x1111, (0, 0, 7): 0x2222}
    for name, first, *rest in [("nop", 100), *script]:
        for _ in range(first if name == "nop" else 1):
            bank, address = (0, 0) if name == "nop" else (first, rest[0])
            code = NAMES[name]
            levels = code >> 2, code >> 1 & 1, code & 1
            words.append(model.step(Pins(1, 0, *levels, bank, address, 0, 0, driven)))
    return model, words


def test_start_up_in_order_is_accepted() -> None:
    model, _ = played([*START, ("activate", 0, 5), ("nop", 1), ("read", 0, 0)])
    assert model.commands["read"] == 1


FORBIDDEN = [
    ("start-up", [("refresh", 0, 0)]),
    ("start-up", [("precharge", 0, 0)]),
    ("start-up", [*START[:-2], ("activate", 0, 0)]),
    ("start-up", [*START[:4], *START[-2:], ("activate", 0, 0)]),
    ("mode", [*START[:-2], ("mode", 0, 0x27)]),
    ("mode", [*START[:-2], ("mode", 0, 0x11)]),
    ("mode", [*START[:-2], ("mode", 1, 0x21)]),
    ("tMRD", [*START[:-1], ("activate", 0, 0)]),
    ("state", [*START, ("read", 0, 0)]),
    ("state", [*START, ("write", 2, 0)]),
    ("state", [*START, ("activate", 0, 0), ("nop", 9), ("activate", 0, 0)]),
    ("state", [*START, ("activate", 0, 0), ("nop", 9), ("refresh", 0, 0)]),
    ("state", [*START, ("activate", 0, 0), ("nop", 9), ("read", 0, EVERY)]),
    ("command", [*START, ("stop", 0, 0)]),
    ("tREFI", [*START, ("nop", 780)]),
    ("DQ", [*START, ("activate", 0, 0), ("nop", 1), ("write", 0, 0)]),
    ("tRAS", [*START, ("activate", 0, 0), ("nop", 2), ("precharge", 0, 0)]),
]


@pytest.mark.parametrize(("rule", "script"), FORBIDDEN)
def test_what_the_data_sheet_forbids_is_noticed(rule: str, script: list[tuple[Any, ...]]) -> None:
    with pytest.raises(SdramError) as caught:
        played(script)
    assert caught.value.rule == rule, str(caught.value)


def test_two_that_drive_the_pins_are_noticed() -> None:
    opened = [*START, ("activate", 0, 0), ("nop", 1)]
    with pytest.raises(SdramError, match=r"DQ: the controller drives while the chip does"):
        played([*opened, ("read", 0, 0), ("nop", 3)], driven=1)


def test_columns_of_a_burst_wrap() -> None:
    _, words = played([*START, ("activate", 0, 0), ("nop", 1), ("read", 0, 7), ("nop", 3)])
    assert words[-4:] == [None, 0x2222, 0x1111, None]


def test_parameters_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="a clock period must be at least 7 ns, not 5"):
        sdram_cycles(ISSI, 200e6, 2)
    with pytest.raises(ValueError, match="the clock must have at least"):
        sdram_cycles(ISSI, 1e6, 2)
    with pytest.raises(ValueError, match="data_width must be one of"):
        SdramParams(ISSI, 100e6, 16, 32)
    with pytest.raises(ValueError, match="capture must be -1, 0 or 1, not 2"):
        SdramParams(ISSI, 100e6, 32, 32, capture=2)
    with pytest.raises(ValueError, match="address_width must be at least 25, not 24: ISSI"):
        SdramParams(ISSI, 100e6, 32, 24)
    with pytest.raises(ValueError, match="row_bits must be 11 to 13, not 14"):
        replace(ISSI, row_bits=14)
    with pytest.raises(ValueError, match="column_bits must be 8 to 10, not 11"):
        replace(ISSI, column_bits=11)
    with pytest.raises(ValueError, match="bank_bits must be 2, not 3"):
        replace(ISSI, bank_bits=3)


MEMORY_TYPES = {1: "sdr", 2: "sdr_double"}
"""Types of memory for estimates, by the ratio of the chip's clock to that of the controller."""


def page_rows(ratio: int) -> list[list[str]]:
    page, name = (ROOT / "docs" / "sdram.md").read_text(encoding="utf-8"), SECTIONS[ratio]
    section = page.split(f"<!-- begin: {name} -->")[1].split(f"<!-- end: {name} -->")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.strip().splitlines()[2:]
    ]


@pytest.mark.parametrize("ratio", RATIOS)
def test_estimates_use_the_share_of_the_page(ratio: int) -> None:
    assert [row[0] for row in page_rows(ratio)] == list(PATTERNS)
    least = min(float(cell.removesuffix(" %")) for row in page_rows(ratio)[:2] for cell in row[1:])
    memory = OffChip(kind=MEMORY_TYPES[ratio])
    assert 0.8 <= memory.share <= least / 100 < memory.share + 0.01
    assert memory.about is not None
    assert f"at least {least} %" in memory.about.efficiency_source
    assert memory.peak_gb_s == pytest.approx(WORD_BYTES * ratio * CLOCKS_HZ[ratio] / 1e9)


@pytest.mark.rotate(12)
@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("pattern", list(PATTERNS))
def test_shares_on_the_page_are_those_of_simulations(pattern: str, ratio: int) -> None:
    assert share_cells(pattern, ratio) in page_rows(ratio)
