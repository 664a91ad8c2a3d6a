# SPDX-License-Identifier: Apache-2.0
"""Ports of a host to a board: serial ports, buses, and what else carries bytes."""

from __future__ import annotations

import os
import re
import time
from typing import Protocol

from hwgen.errors import CheckFailed, ToolMissing, did_you_mean

BAUD = 1_000_000
"""Bits a second of a link, unless another rate is asked for."""


class BoardError(CheckFailed):
    """A board that does not answer, or answers what it must not."""


class Transport(Protocol):
    """Carrier of bytes to a board and back."""

    def write(self, data: bytes) -> object:
        """Send bytes."""

    def read(self, count: int, timeout: float) -> bytes:
        """Return up to `count` bytes; fewer, or none, after `timeout` seconds."""

    def now(self) -> float:
        """Return the time in seconds by which the board is waited for."""

    def close(self) -> None:
        """End the connection."""


def _reason(name: str, error: Exception) -> str:
    """Return why a port cannot be opened, and which ports there are."""
    from serial.tools.list_ports import comports  # an optional dependency

    number = getattr(error, "errno", None)
    text = os.strerror(number) if number else str(error)
    ports = sorted(port.device for port in comports())
    near = did_you_mean(name, ["simulation"])
    there = f"ports of this machine: {', '.join(ports) or 'none'}"
    return f"{text}{near}; {there}; `simulation` is the simulated board"


class SerialPort:
    """A serial port of the system, by pyserial.

    Parameters
    ----------
    name : str
        ``/dev/ttyUSB1`` or ``COM3``.
    baud : int
        Bits a second.

    Raises
    ------
    ToolMissing
        If pyserial is not installed.
    BoardError
        If the port cannot be opened.
    """

    def __init__(self, name: str, baud: int = BAUD) -> None:
        try:
            import serial  # an optional dependency
        except ImportError:
            raise ToolMissing(
                "pyserial is needed to talk to a board: pip install 'hwgen[board]'"
            ) from None
        self._failure: type[Exception] = serial.SerialException
        try:
            self._port = serial.serial_for_url(name, baudrate=baud, timeout=0, write_timeout=2)
        except (serial.SerialException, ValueError) as error:
            raise BoardError(f"{name}: cannot be opened: {_reason(name, error)}") from None
        self._name = name

    def write(self, data: bytes) -> None:
        """Send bytes."""
        try:
            self._port.write(data)
        except (self._failure, OSError) as error:
            raise BoardError(f"{self._name}: cannot be written: {error}") from None

    def read(self, count: int, timeout: float) -> bytes:
        """Return up to `count` bytes; fewer, or none, after `timeout` seconds."""
        try:
            self._port.timeout = timeout
            return bytes(self._port.read(count))
        except (self._failure, OSError) as error:
            raise BoardError(f"{self._name}: cannot be read: {error}") from None

    def now(self) -> float:
        """Return the time in seconds."""
        return time.monotonic()

    def close(self) -> None:
        """Close the port."""
        self._port.close()


class SpiPort:
    """A serial peripheral bus of the system, by spidev.

    Parameters
    ----------
    name : str
        ``/dev/spidev0.0``: the bus, and the chip on it.
    baud : int
        Bits a second.

    Raises
    ------
    ToolMissing
        If spidev is not installed.
    BoardError
        If the bus cannot be opened.
    """

    PREFIX = "/dev/spidev"

    def __init__(self, name: str, baud: int = BAUD) -> None:
        try:
            import spidev  # an optional dependency
        except ImportError:
            raise ToolMissing(
                "spidev is needed to talk to a board by SPI: pip install 'hwgen[spi]'"
            ) from None
        numbers = re.fullmatch(r"(\d+)\.(\d+)", name.removeprefix(self.PREFIX))
        if numbers is None:
            raise BoardError(f"{name}: must be {self.PREFIX}BUS.CHIP, as {self.PREFIX}0.0")
        self._name, self._pending = name, b""
        self._port = spidev.SpiDev()
        try:
            self._port.open(int(numbers[1]), int(numbers[2]))
            self._port.max_speed_hz, self._port.mode = baud, 0
        except OSError as error:
            raise BoardError(f"{name}: cannot be opened: {error}") from None

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._pending += self._transfer(data)

    def read(self, count: int, timeout: float) -> bytes:
        """Return `count` bytes: those that came while others were sent, and then further ones.

        The board sends a byte for each that it gets, zeros where it has none.
        """
        if not self._pending:
            return self._transfer(bytes(count))
        data, self._pending = self._pending[:count], self._pending[count:]
        return data

    def _transfer(self, data: bytes) -> bytes:
        try:
            return bytes(self._port.xfer2(list(data)))
        except OSError as error:
            raise BoardError(f"{self._name}: cannot be used: {error}") from None

    def now(self) -> float:
        """Return the time in seconds."""
        return time.monotonic()

    def close(self) -> None:
        """Close the bus."""
        self._port.close()
