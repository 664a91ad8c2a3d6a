# SPDX-License-Identifier: Apache-2.0
"""Signals of the top module for testbenches that look at them in every clock cycle.

cocotb's ``handle.value`` makes an object of logic values at each access, which takes several times
as long as the access itself (microseconds for reading one bit, reading 512 bits and writing 128
bits: 1.1, 5.0 and 3.4; by what is below 0.1, 2.6 and 0.7).  The functions here are those that
``handle.value`` itself ends in.  Verilator knows 0 and 1 only, so nothing is lost.

Values of vectors are strings of bits, the most significant first, because simulators give and take
wide values so; `bits_of` and `bytes_of` turn whole arrays of beats into them and back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

_DEPOSIT = 0  # written when the simulator has evaluated the present time step


def has_signal(dut: Any, name: str) -> bool:
    """Return whether there is a signal; cocotb offers no other question."""
    return hasattr(dut, name)


def reader(dut: Any, name: str) -> Callable[[], int]:
    """Return a function that reads a signal of at most 31 bits."""
    get: Callable[[], int] = getattr(dut, name)._handle.get_signal_val_long
    return get


def value_reader(dut: Any, name: str) -> Callable[[], int]:
    """Return a function that reads a signal of any width."""
    if len(getattr(dut, name)) <= 31:
        return reader(dut, name)
    bits = bits_reader(dut, name)
    return lambda: int(bits(), 2)


def value_writer(dut: Any, name: str) -> Callable[[int], None]:
    """Return a function that writes a signal of any width."""
    if (width := len(getattr(dut, name))) <= 31:
        return writer(dut, name)
    put = bits_writer(dut, name)
    return lambda value: put(f"{value:0{width}b}")


def bits_reader(dut: Any, name: str) -> Callable[[], str]:
    """Return a function that reads the bits of a signal."""
    get: Callable[[], str] = getattr(dut, name)._handle.get_signal_val_binstr
    return get


def writer(dut: Any, name: str) -> Callable[[int], None]:
    """Return a function that writes a signal of at most 31 bits."""
    return partial(getattr(dut, name)._handle.set_signal_val_int, _DEPOSIT)


def bits_writer(dut: Any, name: str) -> Callable[[str], None]:
    """Return a function that writes a signal from its bits, as many as it has."""
    return partial(getattr(dut, name)._handle.set_signal_val_binstr, _DEPOSIT)


def bits_of(beats: np.ndarray) -> list[str]:
    """Return the bits of each beat.

    Parameters
    ----------
    beats : ndarray of uint8, shape (beats, bytes)
        Byte 0 is the least significant.
    """
    rows, size = beats.shape
    bits = np.unpackbits(beats[:, ::-1], axis=1) + np.uint8(ord("0"))
    text, width = bits.tobytes().decode("ascii"), size * 8
    return [text[start : start + width] for start in range(0, rows * width, width)]


def bytes_of(beats: Sequence[str], size: int) -> np.ndarray:
    """Return beats of `size` bytes as an array of uint8, shape (beats, bytes)."""
    text = np.frombuffer("".join(beats).encode("ascii"), np.uint8).reshape(len(beats), size * 8)
    return np.packbits(text - np.uint8(ord("0")), axis=1)[:, ::-1]
