# SPDX-License-Identifier: Apache-2.0
"""Jobs through a serial peripheral bus, on boards and on chips with few pins, and broken ones."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from flows.board import jobs
from flows.board.chip import ChipDesign
from flows.board.simulation import SimulatedBoard, compile_board
from flows.build.design import Design
from flows.build.load import parse_config
from hwgen.board import Board, BoardError, connect
from hwgen.board.pinout import MOST_PINS, Pinout, load_pinout
from hwgen.board.protocol import RESPONSE, Code, Frame, Operation, Parser, operation_byte
from hwgen.board.registry import board, boards
from hwgen.cli import main
from hwgen.core.operation import gemm_operands
from hwgen.errors import ConfigError, InputError, ToolMissing
from sim_tests.board.simulated import TINY, NoisyLine, simulated, tiny

BAUD = 1_500_000
QUICK: dict[str, Any] = {"timeout": 0.003, "retries": 20}
TILE = """\
module: tt_um_tiny
clock_mhz: 12
ports:
  - {name: ui_in, direction: in, width: 8}
  - {name: uo_out, direction: out, width: 8}
  - {name: uio_oe, direction: out, width: 8}
  - {name: clk, direction: in}
  - {name: rst_n, direction: in}
pins:
  {clk: clk, reset: rst_n, cs: "ui_in[0]", sck: "ui_in[1]", mosi: "ui_in[2]", miso: "uo_out[3]",
   led: "uo_out[0]"}
ones: ["uio_oe[6]"]
"""


def spi(**options: Any) -> Any:
    return tiny(baud=BAUD, link="spi", **options)


@cache
def chip(text: str = TILE, **options: Any) -> ChipDesign:
    pinout = Pinout.model_validate(yaml.safe_load(text))
    settings = {"baud": BAUD, "buffer_bytes": 64, "silence_s": 0.001} | options
    return ChipDesign(Design.of(parse_config(TINY)), pinout, **settings)


def check(connection: Board, core: Any, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for m, k, n in ((1, 1, 1), (5, 9, 3), (6, 40, 7)):
        a, w = core.params.activation.random(rng, (m, k)), core.params.weight.random(rng, (k, n))
        result = connection.run(core.gemm(m, k, n), gemm_operands(a, w), patience=0.02)["result"]
        assert np.array_equal(result, core.multiply(a, w))


@pytest.fixture(params=["board", "chip"])
def line(request: pytest.FixtureRequest) -> Iterator[SimulatedBoard]:
    with simulated(spi() if request.param == "board" else chip()) as simulation:
        yield simulation


@pytest.fixture
def bus() -> Iterator[SimulatedBoard]:
    with simulated(spi()) as simulation:
        yield simulation


CORE = tiny().design.core


def ask(line: SimulatedBoard, data: bytes) -> list[Frame]:
    """Send bytes, listen for others, and return every response."""
    line.write(data)
    return Parser(RESPONSE).feed(line.read(len(data) + 60, 0.01))


def test_jobs_equal_the_golden_model(line: SimulatedBoard) -> None:
    assert not line.lit
    connection = connect(line, CORE, **QUICK)
    assert line.lit
    check(connection, CORE)
    status = connection.status()
    assert (status.crc_errors, status.overruns, status.framing_errors, status.silences) == (0,) * 4
    assert not status.busy
    assert connection.resent == 0


@pytest.mark.parametrize("rate", [0.37, 0.93])
def test_the_host_sets_the_rate(rate: float) -> None:
    with simulated(spi(), rate=rate) as line:
        check(connect(line, CORE, timeout=0.01), CORE)


@pytest.mark.parametrize("seed", [0, 1])
def test_noise_costs_time_and_no_result(seed: int, bus: SimulatedBoard) -> None:
    noisy = NoisyLine(bus, seed, 0.002)
    connection = connect(noisy, CORE, **QUICK)
    for round_number in range(4):
        check(connection, CORE, round_number)
    assert noisy.changed > 5
    assert connection.resent > 3


def test_broken_frames_have_no_response_and_are_counted(line: SimulatedBoard) -> None:
    connection = connect(line, CORE, **QUICK)
    wrong = bytearray(Frame(operation_byte(Operation.WRITE, 0), 5, b"abcd").encode())
    wrong[5] ^= 4
    assert ask(line, bytes(wrong)) == []
    assert ask(line, bytes(range(256)).replace(b"\xa5", b"")) == []
    cut = Frame(operation_byte(Operation.WRITE, 0), 6, bytes(40)).encode()
    line.write(cut[:9])
    line.run(0.003)
    status = connection.status()
    assert (status.crc_errors, status.silences, status.free[0]) == (1, 1, 64)
    (answer,) = ask(line, Frame(operation_byte(Operation.WRITE, 1), 200, bytes(65)).encode())
    assert answer.head == Code.FULL
    (answer,) = ask(line, Frame(0xF0, 3).encode())
    assert answer.head == Code.UNKNOWN
    check(connection, CORE)


def test_a_request_before_the_response_was_read_is_dropped_and_counted(bus: SimulatedBoard) -> None:
    connection = connect(bus, CORE, **QUICK)
    identify = Frame(operation_byte(Operation.IDENTIFY), 1).encode()
    write = Frame(operation_byte(Operation.WRITE, 0), 2, b"x").encode()
    (answer,) = ask(bus, identify + write)
    assert answer.sequence == 1
    assert (connection.status().overruns, connection.status().free[0]) == (1, 64)


def test_a_cable_that_is_pulled_is_an_error_soon_and_plugged_in_works_again(
    line: SimulatedBoard,
) -> None:
    connection = connect(line, CORE, timeout=0.003, retries=3)
    line.write(Frame(operation_byte(Operation.STATUS), 9).encode())
    line.run(0.00001)
    line.plug(connected=False)
    before = line.now()
    with pytest.raises(BoardError, match="does not answer"):
        check(connection, CORE)
    assert line.now() - before < 0.05
    line.plug(connected=True)
    line.run(0.002)
    check(connect(line, CORE, **QUICK), CORE)


def test_the_core_of_another_configuration_is_refused(line: SimulatedBoard) -> None:
    other = tiny(TINY.replace("max_k: 64", "max_k: 32")).design.core
    with pytest.raises(BoardError, match=r"has the digest \w+"):
        connect(line, other, **QUICK)


def test_a_reset_ends_a_job(line: SimulatedBoard) -> None:
    connection = connect(line, CORE, **QUICK)
    assert ask(line, Frame(operation_byte(Operation.WRITE, 0), 99, b"abc").encode())
    line.press(pressed=True)
    line.run(0.0005)
    assert not line.lit
    line.press(pressed=False)
    line.run(0.0005)
    assert connection.status().free == (64, 64)
    check(connect(line, CORE, **QUICK), CORE)


@pytest.mark.rotate(12)
@pytest.mark.parametrize("name", boards())
def test_every_board_runs_jobs_by_spi(name: str) -> None:
    design = tiny(name=name, baud=1_200_000, link="spi")
    with simulated(design) as line:
        check(connect(line, design.design.core, timeout=0.005), design.design.core)
    assert set(board(name).pins_of("spi")) >= {"clk", "cs", "sck", "mosi", "miso"}


@pytest.mark.rotate(12)
def test_a_port_that_consumes_bytes_too_early_is_noticed() -> None:
    design = spi()
    text = design.verilog
    # Bytes are accepted although the host has not read them.
    broken = re.sub(r"(assign \\?\S*tx_ready\S* = )[^;]*;", r"\g<1>1'h1;", text)
    assert broken != text
    with SimulatedBoard(design, library=compile_board(design, verilog=broken, cycles=1)) as line:
        line.run(0.0001)
        with pytest.raises((AssertionError, BoardError)):
            check(connect(line, CORE, timeout=0.003, retries=1), CORE)


# -- pins ----------------------------------------------------------------------------------------


def test_a_chip_has_the_ports_of_its_pinout_and_no_values_at_power_up() -> None:
    text = chip().verilog
    assert "output wire [7:0] uio_oe" in text
    assert "assign uio_oe[6] = 1'b1;" in text
    assert "assign uio_oe[5] = 1'b0;" in text
    assert len(chip().wires) == 7 <= MOST_PINS
    registers = re.findall(r"^\s*reg .*=.*;", text, re.MULTILINE)
    assert [each for each in registers if "auto$" not in each] == []
    assert "initial" not in text


@pytest.mark.rotate(12)
def test_a_chip_by_its_serial_port() -> None:
    design = chip("module: m\nclock_mhz: 12\nreset_low: false\n"
                  "pins: {clk: c, reset: r, rx: i, tx: o}\n", link="uart")  # fmt: skip
    with simulated(design) as line:
        check(connect(line, CORE, timeout=0.003), CORE)
    with pytest.raises(InputError, match="no pins for rx, tx of uart"):
        chip(link="uart")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"ui_in[0]"', '"ui_in[8]"', "pins.cs: ui_in has bits 0..7"),
        ('"ui_in[0]"', '"ui_in"', r"write ui_in\[BIT\]"),
        ('"ui_in[0]"', '"ui_in[1]"', r"ui_in\[1\] is used twice"),
        ('"ui_in[0]"', '"uo_out[1]"', "uo_out is an output, an input is needed"),
        ('"ui_in[0]"', '"other[1]"', "no port is called other"),
        ('"ui_in[0]"', '"3"', "must be a port or"),
        ("led:", "light:", "pins.light: has no direction"),
        ("reset: rst_n,", "", "pins.reset: is needed"),
        ("clk, direction: in}", "rst_n, direction: in}", "ports: rst_n stands twice"),
        ("clock_mhz: 12", "clock_mhz: 0", "clock_mhz"),
        ("clk: clk", 'clk: "clk[0]"', "clk has one bit: write clk"),
    ],
)
def test_a_broken_pinout_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in TILE
    path = tmp_path / "tile.yaml"
    path.write_text(TILE.replace(old, new))
    with pytest.raises(ConfigError, match=message):
        load_pinout(path)


def test_pins_of_a_board_are_a_parameter() -> None:
    data = board("icebreaker").with_pins("spi", {"cs": "43"})
    assert "set_io cs 43\nset_io sck 45\n" in data.constraint_file("spi")
    for changes, message in (
        ({"rx": "43"}, "'rx' is no port of spi; its ports are cs, sck, mosi, miso"),
        ({"cs": "35"}, "35 of icebreaker would be used more than once"),
    ):
        with pytest.raises(InputError, match=message):
            board("icebreaker").with_pins("spi", changes)
    without = board("icebreaker").model_copy(update={"spi": None})
    with pytest.raises(InputError, match="no pins for spi: add --pin cs=PIN"):
        without.pins_of("spi")
    with pytest.raises(InputError, match="pins for sck, mosi, miso of spi are missing"):
        without.with_pins("spi", {"cs": "43"})


def test_the_command_writes_and_tests_a_chip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(TINY)
    Path("tile.yaml").write_text(TILE)
    options = ["-c", "tiny.yaml", "--pinout", "tile.yaml", "--link", "spi"]
    assert main(["board", "wrap", *options, "-o", "out", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["pins"]["cs"] == "ui_in[0]"
    assert "module tt_um_tiny(" in Path("out/tt_um_tiny.v").read_text()
    monkeypatch.setattr(jobs, "SimulatedBoard", lambda design: simulated(chip()))
    assert main(["board", "test", *options, "--buffer", "64", "--baud", str(BAUD), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"] > 0
    assert main(["board", "test", *options, "--board", "icebreaker"]) == 2
    assert main(["board", "test", *options, "--divide", "2"]) == 2
    assert main(["board", "test", *options, "--baud", "1500001"]) == 2
    assert "1200..1500000 at 12 MHz, an eighth of the clock" in capsys.readouterr().err
    fpga = ["board", "test", "--board", "icebreaker", "-c", "tiny.yaml", "--link", "spi"]
    for pin in ("cs", "cs=", "nc=1"):
        assert main([*fpga, "--pin", pin]) == 2
    assert main([*fpga, "--pin", "cs=1", "--pin", "cs=2"]) == 2


# -- a bus of the system -------------------------------------------------------------------------


def test_a_bus_of_the_system_runs_jobs(
    bus: SimulatedBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Device:
        """Has the interface of spidev's class."""

        def open(self, number: int, select: int) -> None:
            if number:
                raise FileNotFoundError(2, "No such file or directory")

        def xfer2(self, data: list[int]) -> list[int]:
            if not hasattr(self, "mode"):
                raise OSError(5, "Input/output error")
            bus.write(bytes(data))
            return list(bus.read(len(data), 1.0))

        def close(self) -> None:
            pass

    monkeypatch.setitem(sys.modules, "spidev", SimpleNamespace(SpiDev=Device))
    with connect("/dev/spidev0.0", CORE, baud=BAUD, timeout=2) as connection:
        check(connection, CORE)
        monkeypatch.setattr(Device, "xfer2", lambda *_: (_ for _ in ()).throw(OSError("gone")))
        with pytest.raises(BoardError, match="cannot be used: gone"):
            connection.status()
    for name, message in (("1.0", "cannot be opened"), ("0", "must be /dev/spidevBUS.CHIP")):
        with pytest.raises(BoardError, match=message):
            connect(f"/dev/spidev{name}", CORE)
    monkeypatch.setitem(sys.modules, "spidev", None)
    with pytest.raises(ToolMissing, match=r"pip install 'hwgen\[spi\]'"):
        connect("/dev/spidev0.0", CORE)
