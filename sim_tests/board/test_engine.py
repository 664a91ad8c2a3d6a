# SPDX-License-Identifier: Apache-2.0
"""Engines on memory on a board: jobs through the pins, with the SDRAM at the other ones."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.board.build import pll_of
from flows.board.design import BoardDesign
from flows.board.jobs import random_job_on, run_on
from flows.board.sdram.simulation import quick
from flows.board.simulation import SimulatedBoard, compile_board
from flows.build.design import Design
from flows.build.load import parse_config
from flows.simulation.bench_jobs import BenchJob
from flows.simulation.placement import place_job
from hwgen.board import BoardError, EngineBoard, connect, connect_engine
from hwgen.board.memory_commands import Command, command_words
from hwgen.board.registry import board
from hwgen.board.sdram import SdramChip
from hwgen.cli import main
from hwgen.core.operation import gemm_operands
from hwgen.errors import InputError
from sim_tests.board.simulated import BAUD, DeafLine, NoisyLine
from sim_tests.board.simulated import simulated as small_board
from sim_tests.support.paths import ROOT

GEMM = """name: eng
family: gemm_stream
compute: {{family: systolic, array: {{rows: 2, cols: 2, dataflow: weight_stationary}}}}
buffers: {{activation_kib: 1, weight_kib: 1, output_kib: 1, column_kib: 1}}
memory: {{data_width: {width}, address_width: {bits}, max_burst: 8, outstanding: 2}}
post: {{outputs: [raw]}}
"""
ROWS = """name: rows
family: stream_engine
compute: {family: vector, input: fp32, output: fp32, array: {operations: [softmax], lanes: 1}}
memory: {data_width: 32, address_width: 32}
"""
LISTS = """name: lists
family: transformer
units:
  one:
    family: gemm_stream
    compute: {family: ternary_lut, array: {tables: 2, fetch_ports: 2}}
    buffers: {activation_kib: 1, weight_kib: 1, output_kib: 1, column_kib: 1}
    post: {outputs: [raw]}
memory: {data_width: 32, address_width: 32, registered: true}
"""
PATIENT: dict[str, Any] = {"timeout": 0.002, "retries": 20}


class QuickBoard(BoardDesign):
    """A board whose SDRAM starts in a microsecond."""

    @property
    def chip(self) -> SdramChip:
        """The SDRAM."""
        return quick(super().chip)


def engine(text: str, **options: Any) -> BoardDesign:
    """Return a board with an engine of a configuration."""
    settings = {"baud": BAUD, "buffer_bytes": 64, "silence_s": 0.001} | options
    return QuickBoard(Design.of(parse_config(text)), board("ulx3s-85f"), **settings)


@cache
def gemm(width: int = 32, bits: int = 26) -> tuple[BoardDesign, Path]:
    """Return a board with a small engine, and its simulation."""
    design = engine(GEMM.format(width=width, bits=bits))
    return design, compile_board(design, cycles=10_000)


def opened(width: int = 32, bits: int = 26) -> tuple[EngineBoard, SimulatedBoard]:
    """Return a simulated board with an engine, connected."""
    design, library = gemm(width, bits)
    simulated = SimulatedBoard(design, library=library)
    return connect_engine(simulated, design.design.core, **PATIENT), simulated


def product(shape: tuple[int, int, int], seed: int) -> tuple[Any, dict[str, np.ndarray]]:
    """Return a job of the small engine with random operands."""
    core = gemm()[0].design.core
    rng, (m, k, n) = np.random.default_rng(seed), shape
    a = rng.integers(-128, 128, (m, k), dtype=np.int8)
    w = rng.integers(-128, 128, (k, n), dtype=np.int8)
    return core.gemm(m, k, n), gemm_operands(a, w)


def check(connection: EngineBoard, simulated: SimulatedBoard, seed: int = 0) -> None:
    """Run two products and compare them with the golden model."""
    core = gemm()[0].design.core
    for number, shape in enumerate(((1, 1, 1), (5, 9, 3))):
        job, operands = product(shape, seed + number)
        result = run_on(connection, core, job, operands)["result"]
        assert np.array_equal(result, core.golden(job, operands)["result"])
    assert simulated.memory_error == ""


@pytest.mark.rotate(16)
def test_products_go_through_an_sdram_of_twice_the_clock() -> None:
    pll = pll_of(board("ulx3s-85f"), 37.5)
    design = engine(GEMM.format(width=32, bits=26), pll=pll, memory_ratio=2)
    simulated = SimulatedBoard(design, library=compile_board(design, cycles=10_000))
    with connect_engine(simulated, design.design.core, **PATIENT) as connection:
        data = bytes(range(256))
        connection.write_memory(0x1003, data)
        assert connection.read_memory(0x1003, 256) == data
        check(connection, simulated)
        connection.reset()
        check(connection, simulated, seed=7)


def test_two_clocks_of_a_memory_are_for_engines(capsys: pytest.CaptureFixture[str]) -> None:
    config = str(ROOT / "configs" / "lut_w2.yaml")
    command = ["board", "estimate", "--board", "ulx3s-85f", "--config", config]
    assert main([*command, "--memory-ratio", "2"]) == 2
    assert "--memory-ratio is for engines on memory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("width", "bits"), [(32, 26), pytest.param(128, 40, marks=pytest.mark.rotate(32))]
)
def test_bytes_and_products_go_through_the_sdram(width: int, bits: int) -> None:
    connection, simulated = opened(width, bits)
    rng = np.random.default_rng(width)
    images = {4 * 1024 - 7: rng.bytes(33), 25_000_001: rng.bytes(6), (1 << 25) - 9: rng.bytes(9)}
    for address, data in images.items():
        connection.write_memory(address, data)
    for address, data in images.items():
        assert connection.read_memory(address, len(data)) == data
    check(connection, simulated, width)
    assert connection.state()[0]
    assert connection.read_register("ID") == 0x68774753


@pytest.mark.rotate(16)
@pytest.mark.parametrize("text", [ROWS, LISTS])
def test_other_engines_compute_on_a_board(text: str) -> None:
    assert random_job_on(engine(text), None, 3)["results"] > 0


@pytest.mark.rotate(16)
def test_a_line_that_spoils_bytes_spoils_no_result() -> None:
    design, library = gemm()
    simulated = SimulatedBoard(design, library=library)
    line = NoisyLine(simulated, 5, 0.004)
    check(connect_engine(line, design.design.core, **PATIENT), simulated)
    assert line.changed


@pytest.mark.rotate(16)
def test_commands_whose_answers_are_lost_are_executed_once() -> None:
    design, library = gemm()
    simulated = SimulatedBoard(design, library=library)
    line = DeafLine(simulated, 7)
    connection = connect_engine(line, design.design.core, **PATIENT)
    check(connection, simulated)
    assert line.lost
    assert connection.read_register("SUBMITTED") == 2


@pytest.mark.rotate(16)
def test_a_reset_in_the_middle_of_a_job_is_recovered_from() -> None:
    connection, simulated = opened()
    core = gemm()[0].design.core
    for seed in range(4):
        job, operands = product((6, 17, 5), seed)
        placed = place_job(core, BenchJob(core, job, operands, {}))
        for part in placed.jobs:
            connection.write_images(part.images())
            for offset, value in part.writes():
                connection.write_register(offset, value)
        connection.write_register("SUBMIT", 1)
        connection.reset()
        check(connection, simulated, seed)


def test_the_simulated_memory_is_preloaded_and_inspected_without_its_pins() -> None:
    connection, simulated = opened()
    connection.write_memory(0, bytes(4))  # the memory has started
    images = {4 * 1024 - 7: b"odd", 25_000_002: b"even and long", (1 << 25) - 2: b"up"}
    moved = simulated.words_moved
    for address, data in images.items():
        simulated.preload(address, data)
        assert simulated.inspect(address - 1, len(data) + 1) == bytes(1) + data
    assert simulated.words_moved == moved
    for address, data in images.items():
        assert connection.read_memory(address, len(data)) == data
    connection.write_memory(8191, b"by pins")
    assert simulated.inspect(8190, 9) == b"\0by pins\0"
    assert simulated.words_moved > moved
    for address, size in (((1 << 25) - 1, 2), (1 << 25, 1), ((1 << 64) - 1, 2)):
        with pytest.raises(InputError, match=rf"{size} bytes at {address:#x} are not in an SDRAM"):
            simulated.preload(address, bytes(size))
        with pytest.raises(InputError, match="are not in an SDRAM of the simulated board"):
            simulated.inspect(address, size)
    connection.reset()
    assert connection.read_memory(8191, 7) == bytes(7)


def test_a_board_without_a_memory_has_none_to_preload() -> None:
    with pytest.raises(InputError, match="1 bytes at 0x0 are not in an SDRAM"):
        small_board().preload(0, b"x")


def test_errors_of_accesses_and_of_jobs_are_reported() -> None:
    connection, simulated = opened()
    with pytest.raises(BoardError, match=r"read memory of 1 words at 0x2000000: access error"):
        connection.read_memory(1 << 25, 4)
    with pytest.raises(BoardError, match="write memory of 2 words at 0x3fffffc: decode error"):
        connection.write_memory((1 << 26) - 4, bytes(8))
    with pytest.raises(BoardError, match="write registers of 1 words at 0x1000: decode error"):
        connection.write_register(0x1000, 1)
    with pytest.raises(BoardError, match="write registers of 1 words at 0xffc: access error"):
        connection.write_register(0xFFC, 1)
    with pytest.raises(InputError, match="has no register 'NOTHING'; it has ID, LAYOUT"):
        connection.read_register("NOTHING")
    job, operands = product((2, 3, 2), 1)
    core = gemm()[0].design.core
    (part,) = place_job(core, BenchJob(core, job, operands, {}), base=1 << 25).jobs
    with pytest.raises(BoardError, match="the job ended with read_error"):
        connection.run_writes(part.writes())
    check_wide = place_job(core, BenchJob(core, job, operands, {}))
    connection.run_jobs(check_wide.jobs)
    result = check_wide.results(connection.read_memory)["result"]
    assert np.array_equal(result, core.golden(job, operands)["result"])
    assert simulated.memory_error == ""


def test_commands_are_words_in_their_range() -> None:
    assert command_words(Command.READ_REGISTERS, 8, 3) == (0x03000003, 8)
    for address, count in ((2, 1), (0, 0), (0, 1 << 16), (1 << 32, 1)):
        with pytest.raises(ValueError, match=r"command is for|address is a multiple"):
            command_words(Command.READ_MEMORY, address, count)


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "options", "message"),
    [
        (GEMM.format(width=32, bits=25), "icebreaker", {}, "boards with one are ulx3s-85f"),
        (GEMM.format(width=32, bits=16), "ulx3s-85f", {}, "address_width must be at least 25"),
        (GEMM.format(width=32, bits=25), "ulx3s-85f", {"divider": 2}, "is not divided"),
        (GEMM.format(width=32, bits=25), "ulx3s-85f", {"memory_ratio": 2}, "needs a PLL"),
        (GEMM.format(width=32, bits=25), "ulx3s-85f", {"memory_ratio": 3}, "must be 1 or 2"),
    ],
)
def test_engines_that_a_board_cannot_serve_are_refused(
    text: str, name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        BoardDesign(Design.of(parse_config(text)), board(name), baud=BAUD, **options)


def test_each_connection_is_for_its_own_cores() -> None:
    design, library = gemm()
    with pytest.raises(InputError, match="connect_engine` connects to it"):
        connect(SimulatedBoard(design, library=library), design.design.core)


def test_the_pads_have_the_pins_of_the_memory() -> None:
    design = gemm()[0]
    text = design.board.constraint_file(memory=True)
    names = set(re.findall(r'COMP "([^"]+)"', text))
    assert {"sdram_clk", "sdram_a[12]", "sdram_ba[1]", "sdram_dqm[0]", "sdram_dq[15]"} <= names
    head = design.pads.split(");", 1)[0]
    for name in {each.split("[")[0] for each in names}:
        assert re.search(rf"\b{name}\b", head), name
    assert text.count("SLEWRATE=FAST") == 1 + 1 + 4 + 1 + 2 + 13 + 2 + 16 - 1


@pytest.mark.rotate(16)
def test_a_simulated_board_runs_a_job_of_an_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "eng.yaml"
    config.write_text(GEMM.format(width=32, bits=25))
    line = ["board", "test", "--board", "ulx3s-85f", "-c", str(config), "--baud", str(BAUD)]
    assert main(line) == 0
    assert "results equal the golden model" in capsys.readouterr().out
