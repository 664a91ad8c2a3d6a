# SPDX-License-Identifier: Apache-2.0
"""Jobs over Ethernet, at the pins of a transceiver, through networks that lose and spoil frames."""

from __future__ import annotations

import random
import re
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from flows.board.build import pll_of
from flows.board.ethernet import LEAST_MHZ, ethernet_verilog
from flows.board.network import (
    BROADCAST,
    IPV4,
    Station,
    ethernet,
    ipv4,
    off_wire,
    on_wire,
    udp,
)
from flows.board.simulation import SimulatedBoard, compile_board
from hwgen.board import Board, BoardError, connect
from hwgen.board.datagrams import (
    HEADER_BYTES,
    MOST_BYTES,
    Address,
    DatagramLine,
    UdpSocket,
    decode,
    encode,
)
from hwgen.board.protocol import Frame, Operation, operation_byte
from hwgen.board.registry import board
from hwgen.cli import main
from hwgen.core.operation import gemm_operands
from hwgen.errors import InputError, ToolMissing
from sim_tests.board.simulated import TINY, library, tiny

QUICK: dict[str, Any] = {"timeout": 0.0002, "retries": 30}
IDENTIFY = operation_byte(Operation.IDENTIFY)
STATUS = operation_byte(Operation.STATUS)


def on_network(mhz: float = 50, **options: Any) -> Any:
    pll = pll_of(board("colorlight-i5"), mhz)
    return tiny(name="colorlight-i5", link="udp", pll=pll, **options)


def powered(design: Any = None, **options: Any) -> SimulatedBoard:
    design = design or on_network()
    line = SimulatedBoard(design, library=library(design), **options)
    line.run(0.00005)
    return line


@pytest.fixture
def wire() -> Iterator[SimulatedBoard]:
    with powered() as line:
        yield line


CORE = on_network().design.core


def check(connection: Board, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for m, k, n in ((1, 1, 1), (5, 9, 3), (6, 40, 7)):
        a, w = CORE.params.activation.random(rng, (m, k)), CORE.params.weight.random(rng, (k, n))
        result = connection.run(CORE.gemm(m, k, n), gemm_operands(a, w), patience=0.02)["result"]
        assert np.array_equal(result, CORE.multiply(a, w))


class FaultyStation(Station):
    """A station whose frames, in either direction, a function replaces by none or by several."""

    def __init__(self, wire: SimulatedBoard, fault: Callable[[bytes], list[bytes]]) -> None:
        super().__init__(wire)
        self._fault, self._come = fault, list[bytes]()

    def transmit(self, frame: bytes) -> None:
        if frame[12:14] != IPV4.to_bytes(2, "big"):
            return super().transmit(frame)  # the board waits 100 ms before it asks again
        for raw in self._fault(on_wire(frame)):
            self._wire.send(raw)
        return None

    def incoming(self, timeout: float) -> bytes | None:
        if not self._come:
            raw = super().incoming(timeout)
            if raw is None or raw[20:22] != IPV4.to_bytes(2, "big"):
                return raw
            self._come = self._fault(raw)
        return self._come.pop(0) if self._come else None


def spoiled(raw: bytes, rng: random.Random) -> bytes:
    """Return a frame with a changed byte behind the preamble."""
    data = bytearray(raw)
    data[rng.randrange(8, len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def test_jobs_equal_the_golden_model(wire: SimulatedBoard) -> None:
    assert not wire.lit
    connection = connect(wire, CORE, **QUICK)
    assert wire.lit
    check(connection)
    status = connection.status()
    assert (status.crc_errors, status.overruns, status.framing_errors, status.silences) == (0,) * 4
    assert (connection.resent, wire.broken) == (0, 0)


@pytest.mark.rotate(4)
@pytest.mark.parametrize("seed", range(3))
def test_a_bad_network_costs_time_and_no_result(seed: int, wire: SimulatedBoard) -> None:
    rng = random.Random(seed)
    former: list[bytes] = []
    done = {"lost": 0, "doubled": 0, "spoiled": 0, "late": 0, "old": 0}

    def fault(raw: bytes) -> list[bytes]:
        happens = rng.choice(["lost", "doubled", "spoiled", "late", "old", *[""] * 10])
        former.append(raw)
        if happens:
            done[happens] += 1
        if happens == "late":  # one before it comes behind it
            return [raw, former[-2]] if len(former) > 1 else [raw]
        if happens == "old":
            return [rng.choice(former), raw]
        return {"lost": [], "doubled": [raw, raw], "spoiled": [spoiled(raw, rng)]}.get(
            happens, [raw]
        )

    station = FaultyStation(wire, fault)
    connection = connect(DatagramLine(station), CORE, **QUICK)
    for number in range(6):
        check(connection, number)
    assert min(done.values()) > 2
    assert connection.resent > 5
    assert not connection.status().busy
    assert wire.broken == 0


def counted(connection: Board, line: Station, number: int, frame: bytes) -> bytes | None:
    """Send a request, and return the frame of what comes."""
    line.send(encode(number, frame))
    answer = line.receive(0.0001)
    decoded = decode(answer) if answer else None
    assert decoded is None or decoded[0] == number
    return decoded[1] if decoded else None


def test_no_request_is_executed_twice_or_late(wire: SimulatedBoard) -> None:
    station = Station(wire)
    line = DatagramLine(station)
    connection = connect(line, CORE, **QUICK)
    (number,) = (decoded[0] for decoded in [decode(_question(station))] if decoded)
    first = Frame(operation_byte(Operation.WRITE, 0), 200, bytes(24)).encode()
    second = Frame(operation_byte(Operation.WRITE, 0), 201, bytes(16)).encode()
    answers = [counted(connection, station, number + 1, first) for _ in range(3)]
    assert answers[0] is not None
    # What is free of the buffer rises while the core consumes beats.
    assert {answer and answer[:6] for answer in answers} == {answers[0][:6]}
    assert counted(connection, station, number + 2, second) is not None
    # The first once more, and a reset from long ago: neither of them is done.
    reset = Frame(operation_byte(Operation.RESET), 1).encode()
    for late, frame in ((number + 1, first), (number - 1, reset), (number, reset)):
        assert counted(connection, station, late, frame) is None
    # Nor does another station repeat a request, or one that is half the numbers ahead.
    other = Station(wire, ip="192.168.1.8", mac="02:00:00:00:00:08")
    other.board_mac = station.board_mac
    assert counted(connection, other, number + 2, second) is None
    assert counted(connection, station, number + 2 ^ 1 << 31, second) is None
    answer = counted(connection, station, number + 3, Frame(STATUS, 9).encode())
    assert answer is not None
    free = int.from_bytes(answer[11:13], "little")
    assert 64 - 24 - 16 <= free < 64 - 24  # the core has consumed some
    assert counted(connection, station, number + 3, Frame(STATUS, 9).encode()) is not None


def _question(station: Station) -> bytes:
    """Return the answer of the board to the question for its last number."""
    station.send(encode(0, bytes(6)))
    answer = station.receive(0.0001)
    assert answer is not None
    return answer


def test_what_is_no_request_is_dropped(wire: SimulatedBoard) -> None:
    connection = connect(wire, CORE, **QUICK)
    station = Station(wire)
    assert _asked(station)
    number = decode(_question(station))
    assert number is not None
    following = number[0] + 1
    frame = Frame(IDENTIFY, 7).encode()
    good = encode(following, frame)
    mac, ip = station._local
    board_mac, board_ip, port = (
        station.board.mac_bytes, station.board.ip_bytes, station.board.port
    )  # fmt: skip
    rng = random.Random(3)

    def packet(data: bytes, target: bytes = board_ip, to: int = port) -> bytes:
        return ipv4(ip, target, udp(station.port, to, data))

    def framed(body: bytes, target: bytes = board_mac, ethertype: int = IPV4) -> bytes:
        return on_wire(ethernet(target, mac, ethertype, body))

    broken = bytearray(framed(packet(good)))
    broken[-1] ^= 1
    header = bytearray(packet(good))
    header[9] = 6  # TCP, and the checksum is wrong
    strangers = {
        "another IP": framed(packet(good, target=bytes([192, 168, 1, 51]))),
        "the broadcast IP": framed(packet(good, target=b"\xff" * 4), target=BROADCAST),
        "another port": framed(packet(good, to=port + 1)),
        "another type": framed(packet(good), ethertype=0x86DD),
        "a wrong FCS": bytes(broken),
        "a wrong header": framed(bytes(header)),
        "no magic": framed(packet(b"x" + good[1:])),
        "numbers that differ": framed(packet(good[:8] + b"\0" + good[9:])),
        "no frame": framed(packet(good[:HEADER_BYTES])),
        "half a frame": framed(packet(good[:-3])),
        "more than a frame": framed(packet(good + b"!")),
        "a response": framed(packet(encode(following, Frame(0, 7).encode(0x5A)))),
        "a long one": framed(packet(good + bytes(MOST_BYTES))),
        "the longest": framed(packet(good + bytes(1472 - len(good)))),
        "an empty one": framed(packet(b"")),
        "a short frame": framed(packet(good))[:30],
        "a wrong preamble": b"\x55" * 3 + framed(packet(good))[9:],
    }
    tries = {}
    for what, raw in strangers.items():
        wire.send(raw)
        assert station.receive(0.00005) is None, what
        tries[what] = _tries(station, following)
        following += 1
        good = encode(following, frame)
    for size in (1, 14, 33, 60, 61, 62, 63, 64, 200, 1518):
        wire.send(on_wire(rng.randbytes(size)))
        wire.send(rng.randbytes(size))
        assert station.receive(0.00005) is None
        tries[f"{size} random bytes"] = _tries(station, following)
        following += 1
    # LiteEth loses the frame after one that is shorter than Ethernet's shortest; it is sent again.
    assert {what: count for what, count in tries.items() if count > 1} == {"a short frame": 2}
    answer = counted(connection, station, following, Frame(STATUS, 7).encode())
    assert answer is not None
    assert answer[7] == 10  # datagrams that were dropped are counted, as broken bytes are
    check(connect(DatagramLine(Station(wire)), CORE, **QUICK))


def _asked(station: Station) -> bool:
    """Return whether the board answers to ARP; `station` knows it then."""
    station.send(encode(0, bytes(6)))
    return station.receive(0.0001) is not None


def _tries(station: Station, number: int) -> int:
    """Count the times that a request is sent until the board answers."""
    return next(count for count in range(1, 6) if _again(station, number))


def _again(station: Station, number: int) -> bool:
    """Return whether the board answers a request."""
    station.send(encode(number, Frame(IDENTIFY, 7).encode()))
    answer = station.receive(0.0001)
    return answer is not None and b"HWGN" in answer


def test_a_request_with_a_wrong_checksum_of_its_own_has_no_response(wire: SimulatedBoard) -> None:
    connection = connect(wire, CORE, **QUICK)
    station = Station(wire)
    decoded = decode(_question(station))
    assert decoded is not None
    wrong = bytearray(Frame(IDENTIFY, 7).encode())
    wrong[-1] ^= 1
    assert counted(connection, station, decoded[0] + 1, bytes(wrong)) is None
    assert _again(station, decoded[0] + 2)
    again = connect(DatagramLine(Station(wire)), CORE, **QUICK)
    check(again)
    # The former connection has other numbers now: its requests are late.
    with pytest.raises(BoardError, match="does not answer"):
        connection.status()


def test_a_cable_that_is_pulled_is_an_error_soon_and_plugged_in_works_again(
    wire: SimulatedBoard,
) -> None:
    connection = connect(wire, CORE, timeout=0.0002, retries=3)
    wire.plug(connected=False)
    before = wire.now()
    with pytest.raises(BoardError, match="does not answer"):
        check(connection)
    assert wire.now() - before < 0.005
    wire.plug(connected=True)
    check(connection)
    wire.press(pressed=True)
    wire.run(0.00005)
    assert not wire.lit
    wire.press(pressed=False)
    wire.run(0.00005)
    check(connect(wire, CORE, **QUICK))


@pytest.mark.rotate(4)
@pytest.mark.parametrize("mhz", [LEAST_MHZ, 50.005, 90])
def test_clocks_of_design_and_transceiver_are_independent(mhz: float) -> None:
    with powered(rate=50 / mhz) as line:
        connection = connect(line, CORE, **QUICK)
        check(connection)
        assert (connection.resent, line.broken) == (0, 0)


@pytest.mark.rotate(12)
@pytest.mark.long
def test_addresses_are_those_of_the_build() -> None:
    address = Address("10.1.2.3", 7, "02:00:5e:10:00:09")
    with powered(on_network(address=address)) as line:
        station = Station(line)
        connection = connect(DatagramLine(station), CORE, **QUICK)
        check(connection)
        assert station.board_mac == address.mac_bytes
        assert not station.refused


@pytest.mark.rotate(12)
@pytest.mark.long
def test_a_broken_design_is_noticed() -> None:
    design = on_network()
    text = design.verilog
    # The bytes of words of the response are in another order.
    broken = re.sub(r"(\.sink_payload_data *\()(\S+)\)", r"\1{\2[7:0], \2[31:8]})", text, count=1)
    assert broken != text
    made = compile_board(design, verilog=broken, cycles=1)
    with SimulatedBoard(design, library=made) as line:
        line.run(0.00005)
        with pytest.raises(BoardError, match="does not answer"):
            connect(line, CORE, timeout=0.0002, retries=1)


# -- addresses, and the system's network ---------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "mac", "message"),
    [
        ("192.168.1", "02:00:00:00:00:01", "--address: '192.168.1' is no IPv4 address"),
        ("224.0.0.1", "02:00:00:00:00:01", "no address of a single station"),
        ("127.0.0.1", "02:00:00:00:00:01", "no address of a single station"),
        ("0.0.0.0", "02:00:00:00:00:01", "no address of a single station"),
        ("10.0.0.255", "02:00:00:00:00:01", "sent to all stations"),
        ("10.0.0.1:0", "02:00:00:00:00:01", r"port must be 1\.\.65535, not 0"),
        ("10.0.0.1:65536", "02:00:00:00:00:01", r"port must be 1\.\.65535"),
        ("10.0.0.1:x", "02:00:00:00:00:01", "must be IP or IP:PORT"),
        ("10.0.0.1", "02:00:00:00:00", "--mac: must be six bytes"),
        ("10.0.0.1", "01:00:00:00:00:01", "--mac: .* no address of a single station"),
        ("10.0.0.1", "00:00:00:00:00:00", "--mac: .* no address of a single station"),
    ],
)
def test_addresses_are_checked(text: str, mac: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Address.of(text, mac)


def test_what_a_board_and_clock_lack_is_named() -> None:
    with pytest.raises(InputError, match="icebreaker names no Ethernet transceiver"):
        tiny(link="udp", pll=pll_of(board("icebreaker"), 34))
    with pytest.raises(InputError, match="--link: udp needs a clock of 32 MHz or more, not of 25"):
        tiny(name="colorlight-i5", link="udp")


def test_without_liteeth_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "liteeth.core", None)
    with pytest.raises(ToolMissing, match=r"pip install 'hwgen\[litex-boards\]'"):
        ethernet_verilog("missing_ethernet", Address(), 50_000_000)


def test_the_core_is_the_same_each_day_and_everywhere() -> None:
    text = ethernet_verilog("some_ethernet", Address(), 50_000_000)
    assert text.startswith("// LiteEth ")
    assert "Date" not in text
    assert "sha1" not in text
    assert "Auto-Generated" not in text
    assert "readmem" not in text
    ethernet_verilog.cache_clear()
    assert text == ethernet_verilog("some_ethernet", Address(), 50_000_000)


def test_the_commands_check_addresses(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY)
    fpga = ["board", "test", "--board", "colorlight-i5", "-c", "tiny.yaml", "--clock", "50"]
    for options, message in (
        (["--link", "udp", "--address", "1.2.3"], "no IPv4 address"),
        (["--link", "udp", "--mac", "1"], "must be six bytes"),
        (["--address", "1.2.3.4"], "--link udp"),
    ):
        assert main([*fpga, *options]) == 2
        assert message in capsys.readouterr().err


class EchoBoard(threading.Thread):
    """A board in the system's network that answers by a function."""

    def __init__(self, answer: Callable[[bytes], list[bytes]]) -> None:
        super().__init__(daemon=True)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._answer = answer
        self.name_of_port = f"udp://127.0.0.1:{self._socket.getsockname()[1]}"
        self.start()

    def run(self) -> None:
        while True:
            try:
                data, sender = self._socket.recvfrom(2000)
            except OSError:
                return
            for answer in self._answer(data):
                self._socket.sendto(answer, sender)


def test_the_system_s_network_carries_frames() -> None:
    def answer(data: bytes) -> list[bytes]:
        decoded = decode(data)
        assert decoded is not None
        number, frame = decoded
        if number == 0:
            return [b"garbage", encode(41, bytes(6)), encode(41, bytes(6))]
        return [encode(number - 1, b"former"), encode(number, b"<" + frame + b">")]

    line = DatagramLine(UdpSocket(EchoBoard(answer).name_of_port))
    line.write(b"a frame")
    assert line.read(100, 5.0) == b"<a frame>"
    line.write(b"another")
    assert line.read(3, 5.0) == b"<an"
    assert line.read(100, 5.0) == b"other>"
    assert line.read(1, 0.01) == b""
    assert line.dropped > 2
    line.close()


def test_names_of_boards_in_a_network_are_checked() -> None:
    for name, message in (
        ("udp://", "must be udp://ADDRESS:PORT"),
        ("udp://10.0.0.1:99999", "must be udp://ADDRESS:PORT"),
        ("udp://10.0.0.1:0", "must be udp://ADDRESS:PORT"),
        ("udp://10.0.0.1/x", "must be udp://ADDRESS:PORT"),
        ("udp://nowhere.invalid:5", "cannot be opened"),
    ):
        with pytest.raises(BoardError, match=message):
            connect(name, CORE)
    silent = EchoBoard(lambda data: [])
    with pytest.raises(BoardError, match="does not answer"):
        connect(silent.name_of_port, CORE, timeout=0.01, retries=1)


def test_frames_have_padding_and_checksum() -> None:
    assert off_wire(on_wire(b"abc"))[:4] == b"abc\0"
    for change in (0, 20, -1):
        data = bytearray(on_wire(b"abc"))
        data[change] ^= 1
        with pytest.raises(ValueError, match=r"preamble|checksum"):
            off_wire(bytes(data))
