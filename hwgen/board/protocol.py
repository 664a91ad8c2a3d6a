# SPDX-License-Identifier: Apache-2.0
"""The frames between a host and the bridge on a board.

A host sends a request and waits for the response to it:

====================  =========================================================
request               ``A5``, operation, sequence, length, payload, CRC (2 bytes)
response              ``5A``, code, sequence, length, payload, CRC (2 bytes)
====================  =========================================================

The upper four bits of the byte of an operation are an `Operation`, the lower three the input port
of a `WRITE`, and bit 3 says that its payload ends with a beat that has ``tlast``.  The CRC is
CRC-16 of polynomial 0x1021, begun at 0xFFFF, over everything between it and the first byte,
its upper byte first.  A request with a wrong CRC has no response; the bridge counts it.

A request whose response does not arrive is sent again *with its sequence number*.  The bridge does
not write or read again what it has already written or read under that number.
"""

from __future__ import annotations

import struct
from binascii import crc_hqx
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

VERSION = 1
"""Version of the protocol, which a bridge states."""

REQUEST, RESPONSE = 0xA5, 0x5A
"""First byte of a request and of a response."""

MAGIC = b"HWGN"
"""First bytes of an identity."""

CRC_START = 0xFFFF
HEADER, OVERHEAD = 4, 6
"""Bytes before the payload, and in all beside it."""

MOST_PAYLOAD = 255
"""Bytes of the longest payload."""

LAST = 0x08
"""Bit of the byte of an operation: the payload ends with a beat that has ``tlast``."""

MOST_PORTS = 8
"""Input ports that a request can name."""

DIGEST_BYTES = 8
"""Bytes of the digest of a configuration that an identity has."""


class Operation(IntEnum):
    """Request of a host."""

    IDENTIFY = 1
    RESET = 2
    STATUS = 3
    WRITE = 4
    READ = 5


class Code(IntEnum):
    """Outcome of a request."""

    OK = 0
    FULL = 1
    """The payload did not fit the port's buffer; nothing of it was written."""
    UNKNOWN = 2
    """There is no such operation or port, or the payload has another length."""


@dataclass(frozen=True)
class Identity:
    """Version, digest and sizes of a bridge.

    Parameters
    ----------
    version : int
        `VERSION` of the protocol.
    digest : bytes
        The first `DIGEST_BYTES` of the digest of the core's configuration.
    buffer_bytes : int
        Bytes of the buffer of each port, a power of two.
    beat_bytes : tuple of int
        Bytes of a beat, of each input port and last of the output port.
    """

    version: int
    digest: bytes
    buffer_bytes: int
    beat_bytes: tuple[int, ...]

    def encode(self) -> bytes:
        """Return the payload of the response to `Operation.IDENTIFY`."""
        head = MAGIC + bytes([self.version]) + self.digest
        sizes = struct.pack(f"<{len(self.beat_bytes)}H", *self.beat_bytes)
        return head + bytes([self.buffer_bytes.bit_length() - 1, len(self.beat_bytes)]) + sizes

    @classmethod
    def decode(cls, payload: bytes) -> Identity:
        """Return the identity in a payload.

        Raises
        ------
        ValueError
            If it is none.
        """
        fixed = len(MAGIC) + 1 + DIGEST_BYTES + 2
        if len(payload) < fixed or not payload.startswith(MAGIC):
            raise ValueError("no identity of a bridge of hwgen")
        version, digest = payload[4], payload[5 : 5 + DIGEST_BYTES]
        size, count = payload[fixed - 2 : fixed]
        if len(payload) != fixed + 2 * count or size > 31:
            raise ValueError("an identity of another length than it says")
        return cls(version, digest, 1 << size, struct.unpack(f"<{count}H", payload[fixed:]))


@dataclass(frozen=True)
class Status:
    """Counters and buffers of a bridge; counters stop at 255 and are cleared by a reset.

    Parameters
    ----------
    busy : bool
        Whether anything is in a buffer of the bridge.
    crc_errors : int
        Requests with a wrong CRC.
    overruns : int
        Requests that came before the response to an earlier one had been sent, and were dropped.
    framing_errors : int
        Bytes without a stop bit.
    silences : int
        Requests that ended in the middle.
    available : int
        Bytes of results in the buffer of the output port.
    free : tuple of int
        Free bytes in the buffer of each input port.
    """

    busy: bool
    crc_errors: int
    overruns: int
    framing_errors: int
    silences: int
    available: int
    free: tuple[int, ...]

    def encode(self) -> bytes:
        """Return the payload of the response to `Operation.STATUS`."""
        counters = (self.crc_errors, self.overruns, self.framing_errors, self.silences)
        words = struct.pack(f"<{1 + len(self.free)}H", self.available, *self.free)
        return bytes([int(self.busy), *counters]) + words

    @classmethod
    def decode(cls, payload: bytes) -> Status:
        """Return the status in a payload; raise `ValueError` if it is none."""
        if len(payload) < 7 or len(payload) % 2 == 0:
            raise ValueError("no status of a bridge")
        busy, crc, overruns, framing, silences = payload[:5]
        available, *free = struct.unpack(f"<{(len(payload) - 5) // 2}H", payload[5:])
        return cls(bool(busy & 1), crc, overruns, framing, silences, available, tuple(free))


@dataclass(frozen=True)
class Frame:
    """A request or a response.

    Parameters
    ----------
    head : int
        Byte of the operation, or the code.
    sequence : int
        0 to 255.
    payload : bytes
    """

    head: int
    sequence: int
    payload: bytes = b""

    def encode(self, start: int = REQUEST) -> bytes:
        """Return the bytes of the frame.

        Parameters
        ----------
        start : int
            `REQUEST` or `RESPONSE`.
        """
        body = bytes([self.head, self.sequence, len(self.payload)]) + self.payload
        return bytes([start]) + body + crc_hqx(body, CRC_START).to_bytes(2, "big")


def operation_byte(operation: Operation, port: int = 0, *, last: bool = False) -> int:
    """Return the byte of an operation."""
    return operation << 4 | (LAST if last else 0) | port


class Parser:
    """Finds frames in a stream of bytes; what is none is skipped.

    Parameters
    ----------
    start : int
        `REQUEST` or `RESPONSE`.
    """

    def __init__(self, start: int = RESPONSE) -> None:
        self._start = start
        self._bytes = bytearray()

    def clear(self) -> None:
        """Forget what has come so far."""
        self._bytes.clear()

    @property
    def missing(self) -> int:
        """Bytes that the frame under way lacks at least; 1 or more."""
        pending = self._bytes
        length = OVERHEAD + (pending[3] if len(pending) >= HEADER else 0)
        return max(1, length - len(pending))

    def feed(self, data: Sequence[int]) -> list[Frame]:
        """Return the frames that are complete with further bytes."""
        self._bytes.extend(data)
        frames = []
        while (frame := self._next()) is not None:
            frames.append(frame)
        return frames

    def _next(self) -> Frame | None:
        pending = self._bytes
        while pending:
            at = pending.find(self._start)
            if at < 0:
                pending.clear()
                return None
            del pending[:at]
            if len(pending) < HEADER or len(pending) < (size := OVERHEAD + pending[3]):
                return None
            body, crc = (
                bytes(pending[1 : size - 2]),
                int.from_bytes(pending[size - 2 : size], "big"),
            )
            if crc_hqx(body, CRC_START) == crc:
                del pending[:size]
                return Frame(body[0], body[1], body[3:])
            del pending[0]  # no frame begins here
        return None
