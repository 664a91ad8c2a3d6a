# SPDX-License-Identifier: Apache-2.0
"""Jobs through the pins of a simulated board, and everything that can go wrong on the way."""

from __future__ import annotations

import os
import re
import select
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from flows.board.jobs import random_job_on
from flows.board.simulation import SimulatedBoard, compile_board
from hwgen.board import Board, BoardError, connect
from hwgen.board.protocol import RESPONSE, Code, Frame, Operation, Parser, operation_byte
from hwgen.board.registry import boards
from hwgen.core.operation import gemm_operands
from hwgen.errors import InputError
from sim_tests.board.simulated import TINY, DeafLine, NoisyLine, simulated, tiny

SIZES = ((1, 1, 1), (5, 9, 3), (6, 40, 7))
QUICK: dict[str, Any] = {"timeout": 0.002, "retries": 20}


@pytest.fixture
def line() -> Iterator[SimulatedBoard]:
    with simulated() as board:
        yield board


def check(board: Board, core: Any, seed: int = 0, *, patience: float = 0.01) -> None:
    """Run products and compare them with the golden model."""
    rng = np.random.default_rng(seed)
    for m, k, n in SIZES:
        a, w = core.params.activation.random(rng, (m, k)), core.params.weight.random(rng, (k, n))
        result = board.run(core.gemm(m, k, n), gemm_operands(a, w), patience=patience)["result"]
        assert np.array_equal(result, core.multiply(a, w))


def connected(line: Any, **options: Any) -> Board:
    return connect(line, tiny().design.core, **{**QUICK, **options})


def ask(line: SimulatedBoard, data: bytes) -> list[Frame]:
    """Send bytes and return every response."""
    line.write(data)
    return Parser(RESPONSE).feed(line.read(10_000, 0.0005))


# -- what works ----------------------------------------------------------------------------------


def test_jobs_equal_the_golden_model(line: SimulatedBoard) -> None:
    core = tiny().design.core
    assert not line.lit
    board = connected(line)
    assert line.lit
    assert board.identity.buffer_bytes == 64
    check(board, core)
    status = board.status()
    assert (status.crc_errors, status.overruns, status.framing_errors, status.silences) == (0,) * 4
    assert not status.busy
    assert board.resent == 0
    assert line.broken == 0


@pytest.mark.parametrize("rate", [0.98, 1.02])
def test_a_rate_that_is_a_little_off_does_no_harm(rate: float) -> None:
    with simulated(rate=rate) as line:
        board = connected(line)
        check(board, tiny().design.core)
        assert board.resent == 0


@pytest.mark.parametrize("seed", [0, 1])
def test_noise_costs_time_and_no_result(seed: int) -> None:
    with simulated() as line:
        noisy = NoisyLine(line, seed, 0.002)
        board = connected(noisy)
        for round_number in range(6):
            check(board, tiny().design.core, round_number)
        assert noisy.changed > 5
        assert board.resent > 3


def test_a_lost_response_writes_and_reads_nothing_twice(line: SimulatedBoard) -> None:
    deaf = DeafLine(line, 3)
    board = connected(deaf)
    check(board, tiny().design.core)
    assert deaf.lost > 10
    assert board.resent == deaf.lost


# -- what does not -------------------------------------------------------------------------------


def test_the_core_of_another_configuration_is_refused(line: SimulatedBoard) -> None:
    other = tiny(TINY.replace("max_k: 64", "max_k: 32")).design.core
    with pytest.raises(BoardError, match=r"has the digest \w+, the configuration 'tiny' \w+"):
        connect(line, other, **QUICK)


def test_a_cable_that_is_pulled_is_an_error_soon_and_plugged_in_works_again(
    line: SimulatedBoard,
) -> None:
    core = tiny().design.core
    board = connected(line, retries=3)
    line.plug(connected=False)
    before = line.now()
    with pytest.raises(BoardError, match="does not answer"):
        check(board, core)
    assert line.now() - before < 0.05
    line.plug(connected=True)
    line.run(0.002)
    line.read(1000, 0.001)
    check(connected(line), core)


def test_a_host_that_stops_in_a_request_or_a_job_blocks_nobody(line: SimulatedBoard) -> None:
    core = tiny().design.core
    connected(line)
    # In the middle of a request, whose payload is never written.
    request = Frame(operation_byte(Operation.WRITE, 0), 77, bytes(range(20))).encode()
    line.write(request[:15])
    line.run(0.003)
    board = Board(line, core, timeout=0.002, retries=0)
    # In the middle of a job: beats of one port are in the core.
    assert ask(line, request)[0].head == Code.OK
    check(Board(line, core, timeout=0.002, retries=0), core)
    assert not board.status().busy


def test_a_request_that_ends_in_the_middle_is_counted(line: SimulatedBoard) -> None:
    board = connected(line)
    line.write(Frame(operation_byte(Operation.STATUS), 9).encode()[:3])
    line.run(0.003)
    assert board.status().silences == 1


def test_garbage_has_no_response_and_is_counted(line: SimulatedBoard) -> None:
    board = connected(line)
    wrong = bytearray(Frame(operation_byte(Operation.WRITE, 0), 5, b"abcd").encode())
    wrong[5] ^= 4
    assert ask(line, bytes(wrong)) == []
    assert ask(line, bytes(range(256)).replace(b"\xa5", b"")) == []
    status = board.status()
    assert status.crc_errors == 1
    assert status.free[0] == 64
    check(board, tiny().design.core)


def test_a_request_during_a_response_is_dropped_and_counted(line: SimulatedBoard) -> None:
    board = connected(line)
    identify = Frame(operation_byte(Operation.IDENTIFY), 1).encode()
    write = Frame(operation_byte(Operation.WRITE, 0), 2, b"x").encode()
    (answer,) = ask(line, identify + write)
    assert answer.sequence == 1
    status = board.status()
    assert (status.overruns, status.free[0]) == (1, 64)


def test_more_than_a_buffer_holds_is_refused_as_a_whole(line: SimulatedBoard) -> None:
    board = connected(line)
    (answer,) = ask(line, Frame(operation_byte(Operation.WRITE, 1), 200, bytes(65)).encode())
    assert answer.head == Code.FULL
    assert board.status().free == (64, 64)


@pytest.mark.parametrize(
    ("head", "payload"),
    [(0xF0, b""), (0x00, b""), (operation_byte(Operation.WRITE, 7), b"a"),
     (operation_byte(Operation.READ), b""), (operation_byte(Operation.READ), b"ab")],
)  # fmt: skip
def test_an_unknown_request_is_answered_with_that(
    head: int, payload: bytes, line: SimulatedBoard
) -> None:
    (answer,) = ask(line, Frame(head, 3, payload).encode())
    assert (answer.head, answer.sequence, answer.payload) == (Code.UNKNOWN, 3, b"")


def test_the_button_resets_everything(line: SimulatedBoard) -> None:
    core = tiny().design.core
    board = connected(line)
    assert ask(line, Frame(operation_byte(Operation.WRITE, 0), 99, b"abc").encode())
    line.press(pressed=True)
    line.run(0.001)
    assert not line.lit
    line.press(pressed=False)
    line.run(0.001)
    assert board.status().free == (64, 64)
    check(connected(line), core)


def test_a_board_that_answers_garbage_is_an_error_soon() -> None:
    class Garbage:
        time = 0.0

        def write(self, data: bytes) -> None:
            pass

        def read(self, count: int, timeout: float) -> bytes:
            self.time += 0.0001
            return bytes([RESPONSE, 0, 7, 3, 1, 2, 3, 9, 9])

        def now(self) -> float:
            return self.time

        def close(self) -> None:
            self.time = -1.0

    garbage = Garbage()
    with pytest.raises(BoardError, match="does not answer"):
        connected(garbage)
    assert garbage.time == -1.0


def test_a_core_that_accepts_nothing_is_an_error_soon() -> None:
    design = tiny()
    broken = re.sub(r"(\.s_axis_act_tvalid)\(\w+\)", r"\1(1'b0)", design.verilog)
    assert broken != design.verilog
    with SimulatedBoard(design, library=compile_board(design, verilog=broken, cycles=1)) as line:
        line.run(0.0001)
        board = connected(line)
        with pytest.raises(BoardError, match="the job has stopped: 0 of 8 bytes of results"):
            check(board, design.design.core)
        assert line.now() < 0.2
        assert board.status().free == (64, 64)


@pytest.mark.rotate(12)
def test_a_bridge_that_forgets_sequence_numbers_is_noticed() -> None:
    design = tiny()
    broken = re.sub(r"\bseen <= [^;]*;", "seen <= 0;", design.verilog)
    assert broken != design.verilog
    with SimulatedBoard(design, library=compile_board(design, verilog=broken, cycles=1)) as line:
        line.run(0.0001)
        board = connected(DeafLine(line, 3))
        with pytest.raises((AssertionError, BoardError)):
            check(board, design.design.core)


def test_a_core_on_memory_is_refused() -> None:
    with pytest.raises(InputError, match="works on memory, and icebreaker has none"):
        tiny("name: engine\nfamily: gemm_stream\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"baud": 3_000_001}, r"--baud: must be 1200\.\.3000000 at 12 MHz"),
        ({"divider": 3}, "--divide: must be one of 1, 2, 4, 8, 16, not 3"),
        ({"divider": 2}, r"--baud: must be 1200\.\.1500000 at 6 MHz"),
        ({"buffer_bytes": 100}, "--buffer: must be a power of two"),
    ],
)
def test_settings_that_a_board_has_not_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tiny(**options)


# -- other boards and cores ----------------------------------------------------------------------

CORES = {
    "ternary": "family: ternary_lut\nmax_k: 64\n"
    "array: {method: lut, group_size: 2, tables: 2, fetch_ports: 4, accumulator_depth: 8}\n",
    "cube": "family: cube\nactivation: int8\nweight: int8\nmax_k: 64\narray: {rows: 2, cols: 2}\n",
    "post": "family: systolic\nmax_k: 64\narray: {rows: 2, cols: 2}\n"
    "post: {outputs: [raw, int8], columns: false}\n",
}


OPERATIONS = {
    "vector": "array: {operations: [add, rms_norm], lanes: 1, longest_row: 16}\n",
    "attention": "head: 4\nmax_keys: 16\narray: {rows: 2, lanes: 2}\n",
}


@pytest.mark.rotate(12)
@pytest.mark.parametrize("name", boards())
def test_every_board_runs_jobs(name: str) -> None:
    design = tiny(name=name, baud=2_000_000)
    with simulated(design) as line:
        board = connect(line, design.design.core, **QUICK)
        check(board, design.design.core)
        assert board.resent == 0


@pytest.mark.rotate(12)
@pytest.mark.parametrize("divider", [2, 16])
def test_a_divided_clock_runs_jobs(divider: int) -> None:
    design = tiny(name="orangecrab-85f", baud=500_000, divider=divider)
    with simulated(design) as line:
        check(connect(line, design.design.core, timeout=0.01), design.design.core)


@pytest.mark.rotate(12)
@pytest.mark.parametrize("name", CORES)
def test_other_cores_run_jobs(name: str) -> None:
    design = tiny(f"name: {name}_core\n{CORES[name]}")
    with simulated(design) as line:
        check(connect(line, design.design.core, **QUICK), design.design.core)


@pytest.mark.rotate(30)
@pytest.mark.parametrize("family", ["vector", "attention"])
def test_other_operations_run_jobs(family: str) -> None:
    text = f"name: {family}_core\nfamily: {family}\n{OPERATIONS[family]}"
    design = tiny(text, buffer_bytes=256)
    done = random_job_on(design, None)
    assert done["results"] > 0


# -- a serial port of the system -----------------------------------------------------------------


@contextmanager
def pseudo_terminal(line: SimulatedBoard) -> Iterator[str]:
    """Carry the bytes of a simulated board to a terminal of the system, and yield its name."""
    import pty  # not on every system

    outer, inner = pty.openpty()
    ended = threading.Event()

    def carry() -> None:
        while not ended.is_set():
            if select.select([outer], [], [], 0.001)[0]:
                line.write(os.read(outer, 4096))
            if data := line.read(4096, 0.0002):
                os.write(outer, data)

    thread = threading.Thread(target=carry)
    thread.start()
    try:
        yield os.ttyname(inner)
    finally:
        ended.set()
        thread.join()
        os.close(outer)
        os.close(inner)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_serial_port_of_the_system_runs_jobs(line: SimulatedBoard) -> None:
    core = tiny().design.core
    with pseudo_terminal(line) as name:
        with connect(name, core, baud=115_200, timeout=2) as board:
            check(board, core, patience=20)
        with pytest.raises(BoardError, match="cannot be opened"):
            connect(f"{name}-not-there", core)
