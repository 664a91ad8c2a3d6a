# SPDX-License-Identifier: Apache-2.0
"""The SDRAM of simulated boards against the model of the chip in Python, edge by edge."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import astuple, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from flows.board.sdram import simulation
from flows.board.sdram.chip import Pins, SdramModel
from flows.board.sdram.simulation import quick, random_transfers, simulate
from flows.board.simulation import sdram_times
from flows.simulation.stream_program import HARNESS
from hwgen.board.sdram import SdramChip, SdramError
from rtl_templates.board.sdram import SdramParams
from sim_tests.board import test_sdram
from sim_tests.board.test_sdram import CASES, FORBIDDEN, ISSI, RULES, START, played, probing

LIBRARY = """
#include "sdram.h"
using hwgen::Sdram;
extern "C" {
Sdram* sdram_open(const hwgen::SdramTimes* times) { return new Sdram(*times); }
int sdram_step(Sdram* chip, const hwgen::SdramPins* pins) { return chip->step(*pins); }
const char* sdram_error(Sdram* chip) { return chip->error.c_str(); }
void sdram_close(Sdram* chip) { delete chip; }
}
"""


class Times(ctypes.Structure):
    """``hwgen::SdramTimes``."""

    _fields_ = [
        ("geometry", ctypes.c_int * 2), ("ns", ctypes.c_double * 11), ("counts", ctypes.c_int * 2),
        ("least_clock", ctypes.c_double * 4),
    ]  # fmt: skip


@cache
def library(folder: Path) -> ctypes.CDLL:
    """Return the model in C++."""
    source, out = folder / "chip.cpp", folder / "chip.so"
    source.write_text(LIBRARY)
    line = [
        "g++",
        "-std=c++17",
        "-O1",
        "-shared",
        "-fPIC",
        f"-I{HARNESS}",
        str(source),
        "-o",
        str(out),
    ]
    subprocess.run(line, check=True)
    loaded = ctypes.CDLL(str(out))
    loaded.sdram_open.restype = ctypes.c_void_p
    loaded.sdram_error.restype = ctypes.c_char_p
    for function in (loaded.sdram_step, loaded.sdram_error, loaded.sdram_close):
        function.argtypes = [ctypes.c_void_p]
    loaded.sdram_step.argtypes = [ctypes.c_void_p, ctypes.c_int * 10]
    return loaded


@pytest.fixture(scope="module")
def chip_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return library(tmp_path_factory.mktemp("chip"))


@pytest.fixture(autouse=True)
def both(chip_library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let simulations step the two models at once."""

    class Both(SdramModel):
        def __init__(self, chip: SdramChip, clock_ns: float) -> None:
            super().__init__(chip, clock_ns)
            geometry, ns, counts, least = sdram_times(chip, 1e9 / clock_ns)
            times = Times((ctypes.c_int * 2)(*geometry), (ctypes.c_double * 11)(*ns),
                          (ctypes.c_int * 2)(*counts), (ctypes.c_double * 4)(*least))  # fmt: skip
            self._other = chip_library.sdram_open(ctypes.byref(times))

        def step(self, pins: Pins) -> int | None:
            failure, word = None, None
            try:
                word = super().step(pins)
            except SdramError as error:
                failure = error
            other = chip_library.sdram_step(self._other, (ctypes.c_int * 10)(*astuple(pins)))
            rule = chip_library.sdram_error(self._other).decode().partition(":")[0]
            assert rule == ("" if failure is None else failure.rule)
            if failure is not None:
                chip_library.sdram_close(self._other)
                raise failure
            assert other == (-1 if word is None else word)
            return word

    for module in (simulation, test_sdram):
        monkeypatch.setattr(module, "SdramModel", Both)


@pytest.mark.parametrize(("rule", "name", "chip"), RULES, ids=[name for _, name, _ in RULES])
def test_both_notice_one_cycle_too_few(rule: str, name: str, chip: SdramChip) -> None:
    chip = quick(chip)
    cycles = SdramParams(chip, 100e6, 32, 32).timing
    less = replace(cycles, **{name: getattr(cycles, name) - 1})
    with pytest.raises(SdramError) as caught:
        simulate(probing(chip), chip, 100e6, cycles=less)
    assert caught.value.rule == rule


@pytest.mark.parametrize(("rule", "script"), FORBIDDEN)
def test_both_notice_what_the_data_sheet_forbids(rule: str, script: list[tuple[Any, ...]]) -> None:
    with pytest.raises(SdramError) as caught:
        played(script)
    assert caught.value.rule == rule


def test_both_notice_two_that_drive_the_pins() -> None:
    script = [*START, ("activate", 0, 0), ("nop", 1), ("read", 0, 0), ("nop", 3)]
    with pytest.raises(SdramError, match="DQ"):
        played(script, driven=1)


@pytest.mark.rotate(8)
@pytest.mark.parametrize("seed", range(8))
def test_both_return_the_same_words(seed: int) -> None:
    random = Random(seed)
    chip, clock_hz, width, _, inverted = CASES[seed]
    transfers = random_transfers(random, 60, width, chip.size)
    result = simulate(transfers, quick(chip), clock_hz, width, stall=random.random() / 2,
                      inverted=inverted, seed=seed)  # fmt: skip
    assert result.compared > 20


def test_a_model_that_lacks_a_rule_is_noticed() -> None:
    """Of the two models one allows a read just after an activation."""
    model: SdramModel = vars(test_sdram)["SdramModel"](quick(ISSI), 10.0)
    play(model, [("nop", 100), *START, ("activate", 0, 0)])
    model.chip = replace(model.chip, rcd=1.0)
    with pytest.raises(AssertionError, match="tRCD"):
        play(model, [("read", 0, 0)])


def play(model: SdramModel, script: list[tuple[Any, ...]]) -> None:
    """Let a model see commands, as `played` does."""
    for name, first, *rest in script:
        bank, address = (0, 0) if name == "nop" else (first, rest[0])
        code = test_sdram.NAMES[name]
        levels = code >> 2, code >> 1 & 1, code & 1
        for _ in range(first if name == "nop" else 1):
            model.step(Pins(1, 0, *levels, bank, address, 0, 0, 0))
