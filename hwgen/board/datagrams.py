# SPDX-License-Identifier: Apache-2.0
"""Frames of `hwgen.board.protocol` in datagrams, which a network may lose, double and reorder.

A datagram has one frame:

=========  ==================================================================
bytes      meaning
=========  ==================================================================
0 to 3     `MAGIC`
4 to 7     number of the request, the lowest byte first
8 to 11    the same number, each bit inverted
12 on      the frame of a request, or of the response to it
=========  ==================================================================

Each request has a number, one more than that before it; a request that is sent again keeps it.  A
board serves a number after the last that it has served, serves that one again for its sender, and
drops every other: a datagram that comes late or twice has no effect.  A response has the number of
its request, by which the host drops responses that come late.

A datagram of number 0, with zeros in place of a frame, asks for the last number: the board answers
with it, with zeros in place of a frame.  A host begins with the one after.
"""

from __future__ import annotations

import os
import re
import socket
import time
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from typing import Protocol
from urllib.parse import urlsplit

from hwgen.board.ports import BoardError
from hwgen.board.protocol import MOST_PAYLOAD, OVERHEAD
from hwgen.errors import InputError

MAGIC = b"HWGU"
"""First bytes of a datagram."""

HEADER_BYTES = 12
"""Bytes of a datagram before its frame."""

MOST_BYTES = HEADER_BYTES + OVERHEAD + MOST_PAYLOAD
"""Bytes of the longest datagram."""

SCHEME = "udp://"
"""How the name of a board in a network begins."""

UDP_PORT = 26743
"""UDP port of a board, unless another is asked for."""

_NUMBERS = 1 << 32
_PROBE = bytes(OVERHEAD)
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.IGNORECASE)


@dataclass(frozen=True)
class Address:
    """Addresses of a board in a network.

    Parameters
    ----------
    ip : str
        IPv4 address.
    port : int
        UDP port.
    mac : str
        Six bytes in hexadecimal, with colons between them.

    Raises
    ------
    InputError
        If one of them is not that of a single station.
    """

    ip: str = "192.168.1.50"
    port: int = UDP_PORT
    mac: str = "02:68:77:67:65:6e"

    def __post_init__(self) -> None:
        try:
            number = IPv4Address(self.ip)
        except AddressValueError as error:
            raise InputError(f"--address: {self.ip!r} is no IPv4 address: {error}") from None
        if number.is_multicast or number.is_reserved or number.is_loopback or self.ip[:2] == "0.":
            raise InputError(f"--address: {self.ip} is no address of a single station")
        if self.ip.endswith(".255"):
            raise InputError(f"--address: {self.ip} is sent to all stations of a network: no 255")
        if not 1 <= self.port <= 0xFFFF:
            raise InputError(f"--address: the port must be 1..65535, not {self.port}")
        if not _MAC.fullmatch(self.mac):
            raise InputError(f"--mac: must be six bytes as 02:68:77:67:65:6e, not {self.mac!r}")
        if self.mac_bytes[0] & 1 or not any(self.mac_bytes):
            raise InputError(f"--mac: {self.mac} is no address of a single station")

    @classmethod
    def of(cls, text: str, mac: str) -> Address:
        """Return the address that a text such as ``192.168.1.50:26743`` and a MAC give.

        Raises
        ------
        InputError
            If the text is none.
        """
        ip, colon, port = text.partition(":")
        if colon and not re.fullmatch(r"\d{1,5}", port, re.ASCII):
            raise InputError(f"--address: must be IP or IP:PORT, not {text!r}")
        return cls(ip, int(port) if colon else UDP_PORT, mac)

    @property
    def mac_bytes(self) -> bytes:
        """The six bytes of the MAC address."""
        return bytes.fromhex(self.mac.replace(":", ""))

    @property
    def ip_bytes(self) -> bytes:
        """The four bytes of the IPv4 address."""
        return IPv4Address(self.ip).packed

    @property
    def url(self) -> str:
        """The name by which `hwgen.board.connect` opens it."""
        return f"{SCHEME}{self.ip}:{self.port}"


ADDRESS = Address()
"""Addresses of a board, unless others are asked for."""


def encode(number: int, frame: bytes) -> bytes:
    """Return the datagram with a frame."""
    word = number.to_bytes(4, "little")
    return MAGIC + word + bytes(byte ^ 0xFF for byte in word) + frame


def decode(data: bytes) -> tuple[int, bytes] | None:
    """Return number and frame of a datagram; None if it is none of this format."""
    if not HEADER_BYTES + OVERHEAD <= len(data) <= MOST_BYTES or not data.startswith(MAGIC):
        return None
    number = int.from_bytes(data[4:8], "little")
    if number ^ int.from_bytes(data[8:12], "little") != _NUMBERS - 1:
        return None
    return number, data[HEADER_BYTES:]


class Datagrams(Protocol):
    """Carrier of datagrams to a board and back."""

    def send(self, data: bytes) -> None:
        """Send a datagram."""

    def receive(self, timeout: float) -> bytes | None:
        """Return the next datagram; None if none comes in `timeout` seconds."""

    def now(self) -> float:
        """Return the time in seconds by which the board is waited for."""

    def close(self) -> None:
        """End the connection."""


class DatagramLine:
    """Frames through datagrams, a `hwgen.board.Transport`.

    What is written at once must be a frame; written again, it has the same number.

    Parameters
    ----------
    carrier : Datagrams

    Attributes
    ----------
    dropped : int
        Datagrams that came late or twice, or were none of the format.
    """

    def __init__(self, carrier: Datagrams) -> None:
        self._carrier = carrier
        self._number: int | None = None
        self._frame = self._data = b""
        self.dropped = 0

    def write(self, data: bytes) -> None:
        """Send a frame; before the first, the board is asked for a number."""
        if self._number is not None and data != self._frame:
            self._number = _after(self._number)
        self._frame, self._data = data, b""
        self._send()

    def _send(self) -> None:
        if self._number is None:
            self._carrier.send(encode(0, _PROBE))
        else:
            self._carrier.send(encode(self._number, self._frame))

    def read(self, count: int, timeout: float) -> bytes:
        """Return up to `count` bytes; none after `timeout` seconds."""
        end = self._carrier.now() + timeout
        while not self._data:
            left = end - self._carrier.now()
            answer = self._carrier.receive(left) if left > 0 else None
            if answer is None:
                return b""
            self._accept(answer)
        data, self._data = self._data[:count], self._data[count:]
        return data

    def _accept(self, answer: bytes) -> None:
        """Note the last number, or the response to the request under way."""
        decoded = decode(answer)
        if decoded is not None and self._number is None:
            self._number = _after(decoded[0])
            self._send()
        elif decoded is not None and decoded[0] == self._number and decoded[1] != _PROBE:
            self._data = decoded[1]
        else:
            self.dropped += 1

    def now(self) -> float:
        """Return the time in seconds."""
        return self._carrier.now()

    def close(self) -> None:
        """End the connection."""
        self._carrier.close()


def _after(number: int) -> int:
    """Return the number of the next request: 0 is none."""
    return (number + 1) % _NUMBERS or 1


class UdpSocket:
    """Datagrams of the system's network.

    Parameters
    ----------
    name : str
        ``udp://ADDRESS:PORT``; the port may be missing.

    Raises
    ------
    BoardError
        If the name is none, or leads nowhere.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        try:
            parts = urlsplit(name)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise BoardError(f"{name}: must be {SCHEME}ADDRESS:PORT: {error}") from None
        if not host or parts.path.strip("/") or parts.query or port == 0:
            raise BoardError(f"{name}: must be {SCHEME}ADDRESS:PORT, as {ADDRESS.url}")
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.connect((host, port or UDP_PORT))
        except OSError as error:
            self._socket.close()
            raise BoardError(f"{name}: cannot be opened: {_reason(error)}") from None

    def send(self, data: bytes) -> None:
        """Send a datagram."""
        try:
            self._socket.send(data)
        except OSError as error:
            raise BoardError(f"{self._name}: cannot be written: {_reason(error)}") from None

    def receive(self, timeout: float) -> bytes | None:
        """Return the next datagram; None if none comes in `timeout` seconds."""
        self._socket.settimeout(timeout)
        try:
            return self._socket.recv(MOST_BYTES + 1)
        except TimeoutError:
            return None
        except OSError as error:
            raise BoardError(f"{self._name}: cannot be read: {_reason(error)}") from None

    def now(self) -> float:
        """Return the time in seconds."""
        return time.monotonic()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
