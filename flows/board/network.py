# SPDX-License-Identifier: Apache-2.0
"""A station of a simulated network: Ethernet frames, ARP, and UDP over IPv4."""

from __future__ import annotations

import struct
import zlib
from typing import Protocol

from hwgen.board.datagrams import Address

PREAMBLE = bytes([0x55] * 7 + [0xD5])
"""What comes before a frame, with the delimiter of its start."""

LEAST_BYTES = 60
"""Bytes of a frame at least, without preamble and checksum."""

BROADCAST = b"\xff" * 6

ARP, IPV4, UDP = 0x0806, 0x0800, 17
"""Types of what a frame has, and protocol of what a packet has."""

_ETHERNET_ARP = struct.pack(">HHBB", 1, IPV4, 6, 4)
_REQUEST, _REPLY = 1, 2


class Wire(Protocol):
    """A wire to a board, such as `flows.board.simulation.SimulatedBoard`."""

    @property
    def address(self) -> Address | None:
        """Addresses of the board."""

    def send(self, data: bytes) -> None:
        """Send the bytes of a frame."""

    def receive(self, count: int, timeout: float) -> bytes:
        """Return up to `count` bytes: of each frame its length, in two bytes, and its bytes."""

    def now(self) -> float:
        """Return the time in seconds."""

    def close(self) -> None:
        """End the connection."""


class Station:
    """A host in the network of a board, a carrier of `hwgen.board.datagrams.Datagrams`.

    It knows the board by what the board answers to ARP, as an operating system does.

    Parameters
    ----------
    wire : Wire
    ip, mac : str
        Its own addresses.
    port : int
        Its own UDP port.

    Attributes
    ----------
    board_mac : bytes or None
        What the board has answered to ARP.
    refused : list of str
        Why frames of the board were none.
    """

    def __init__(
        self,
        wire: Wire,
        *,
        ip: str = "192.168.1.7",
        mac: str = "02:00:00:00:00:07",
        port: int = 50_000,
    ) -> None:
        self._wire = wire
        self.ip, self.mac, self.port = ip, mac, port
        self.board_mac: bytes | None = None
        self.refused: list[str] = []
        self._waiting: list[bytes] = []

    @property
    def _local(self) -> tuple[bytes, bytes]:
        address = Address(self.ip, self.port, self.mac)
        return address.mac_bytes, address.ip_bytes

    @property
    def board(self) -> Address:
        """Addresses of the board."""
        address = self._wire.address
        assert address is not None
        return address

    def send(self, data: bytes) -> None:
        """Send a datagram to the board; one that is not known to ARP is asked for first."""
        if self.board_mac is None:
            self._waiting = [data]
            mac, ip = self._local
            body = _arp(_REQUEST, mac, ip, bytes(6), self.board.ip_bytes)
            self.transmit(ethernet(BROADCAST, mac, ARP, body))
        else:
            self.transmit(self.datagram(data))

    def datagram(self, data: bytes) -> bytes:
        """Return the frame with a datagram to the board."""
        mac, ip = self._local
        packet = ipv4(ip, self.board.ip_bytes, udp(self.port, self.board.port, data))
        return ethernet(self.board_mac or self.board.mac_bytes, mac, IPV4, packet)

    def transmit(self, frame: bytes) -> None:
        """Put a frame on the wire, with preamble and checksum."""
        self._wire.send(on_wire(frame))

    def incoming(self, timeout: float) -> bytes | None:
        """Return the next frame that comes, with preamble and checksum."""
        size = self._wire.receive(2, timeout)
        if len(size) < 2:
            return None
        return self._wire.receive(int.from_bytes(size, "little"), 0.0)

    def receive(self, timeout: float) -> bytes | None:
        """Return the next datagram of the board; None if none comes in `timeout` seconds."""
        end = self._wire.now() + timeout
        while (left := end - self._wire.now()) > 0:
            raw = self.incoming(left)
            if raw is None:
                return None
            try:
                data = self._opened(off_wire(raw))
            except ValueError as error:
                self.refused.append(str(error))
                continue
            if data is not None:
                return data
        return None

    def _opened(self, frame: bytes) -> bytes | None:
        """Return the datagram in a frame; answer if it is one of ARP."""
        mac, ip = self._local
        target, source, ethertype = frame[:6], frame[6:12], int.from_bytes(frame[12:14], "big")
        if target not in (mac, BROADCAST):
            raise ValueError(f"a frame for {target.hex(':')}")
        if source != self.board.mac_bytes:
            raise ValueError(f"a frame from {source.hex(':')}")
        if ethertype == IPV4:
            return _datagram_of(frame[14:], self.board, ip, self.port)
        if ethertype != ARP or not frame[14:].startswith(_ETHERNET_ARP):
            raise ValueError(f"a frame of type {ethertype:#06x}")
        operation, their_mac, their_ip, _, wanted = struct.unpack(">H6s4s6s4s", frame[20:42])
        if their_mac != self.board.mac_bytes or their_ip != self.board.ip_bytes:
            raise ValueError("ARP with another address than that of the frame")
        if operation == _REQUEST and wanted == ip:
            body = _arp(_REPLY, mac, ip, their_mac, their_ip)
            self.transmit(ethernet(their_mac, mac, ARP, body))
        elif operation == _REPLY:
            self.board_mac = their_mac
            waiting, self._waiting = self._waiting, []
            for data in waiting:
                self.transmit(self.datagram(data))
        return None

    def now(self) -> float:
        """Return the time in seconds."""
        return self._wire.now()

    def close(self) -> None:
        """End the connection."""
        self._wire.close()


def on_wire(frame: bytes) -> bytes:
    """Return a frame with preamble, padding and checksum."""
    padded = frame.ljust(LEAST_BYTES, b"\0")
    return PREAMBLE + padded + zlib.crc32(padded).to_bytes(4, "little")


def off_wire(raw: bytes) -> bytes:
    """Return a frame without preamble and checksum.

    Raises
    ------
    ValueError
        If one of them is wrong, or the frame is too short.
    """
    if not raw.startswith(PREAMBLE):
        raise ValueError(f"a preamble {raw[:8].hex()}")
    frame, checksum = raw[8:-4], raw[-4:]
    if len(frame) < LEAST_BYTES:
        raise ValueError(f"a frame of {len(frame)} bytes")
    if zlib.crc32(frame).to_bytes(4, "little") != checksum:
        raise ValueError("a frame with a wrong checksum")
    return frame


def ethernet(target: bytes, source: bytes, ethertype: int, body: bytes) -> bytes:
    """Return a frame without preamble and checksum."""
    return target + source + ethertype.to_bytes(2, "big") + body


def ipv4(source: bytes, target: bytes, body: bytes, protocol: int = UDP) -> bytes:
    """Return a packet of IPv4."""
    head = struct.pack(
        ">BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 0, 0x4000, 64, protocol, 0, source, target
    )
    return head[:10] + checksum_of(head).to_bytes(2, "big") + head[12:] + body


def udp(source: int, target: int, data: bytes) -> bytes:
    """Return a datagram of UDP without a checksum, which IPv4 allows."""
    return struct.pack(">HHHH", source, target, 8 + len(data), 0) + data


def checksum_of(head: bytes) -> int:
    """Return the checksum of a header of IPv4; 0 if one with its checksum is right."""
    total: int = sum(struct.unpack(f">{len(head) // 2}H", head))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def _arp(operation: int, mac: bytes, ip: bytes, target_mac: bytes, target_ip: bytes) -> bytes:
    return _ETHERNET_ARP + operation.to_bytes(2, "big") + mac + ip + target_mac + target_ip


def _datagram_of(packet: bytes, board: Address, ip: bytes, port: int) -> bytes:
    """Return the datagram in a packet of a board; raise `ValueError` if there is none."""
    version, size, protocol = packet[0], int.from_bytes(packet[2:4], "big"), packet[9]
    if version != 0x45 or protocol != UDP or checksum_of(packet[:20]) or size > len(packet):
        raise ValueError(f"a packet with the header {packet[:20].hex()}")
    if (packet[12:16], packet[16:20]) != (board.ip_bytes, ip):
        raise ValueError(f"a packet with the header {packet[:20].hex()}")
    source, target, length, _ = struct.unpack(">HHHH", packet[20:28])
    if (source, target) != (board.port, port) or length != size - 20:
        raise ValueError(f"a datagram with the header {packet[20:28].hex()}")
    return packet[28:size]
