# SPDX-License-Identifier: Apache-2.0
"""Small simulated boards for tests, and lines that lose or change bytes."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

from flows.board.design import BoardDesign
from flows.board.simulation import SimulatedBoard, compile_board
from flows.board.surroundings import Surroundings
from flows.build.design import Design
from flows.build.load import parse_config
from hwgen.board.registry import board

TINY = """name: tiny
family: systolic
activation: int4
weight: int4
max_k: 64
array: {rows: 2, cols: 2}
"""

BAUD = 3_000_000


@cache
def tiny(text: str = TINY, name: str = "icebreaker", **options: Any) -> BoardDesign:
    """Return a board with a core, its buffers small and its patience short."""
    settings = {"baud": BAUD, "buffer_bytes": 64, "silence_s": 0.001} | options
    return BoardDesign(Design.of(parse_config(text)), board(name), **settings)


@cache
def library(design: Surroundings) -> Path:
    """Return the compiled simulation of a board, for few cycles."""
    return compile_board(design, cycles=10_000)


def simulated(design: Surroundings | None = None, **options: Any) -> SimulatedBoard:
    """Return a simulated board after its power-up."""
    design = design or tiny()
    result = SimulatedBoard(design, library=library(design), **options)
    result.run(0.0001)
    return result


class NoisyLine:
    """A transport that changes, loses and doubles bytes at random.

    Parameters
    ----------
    board : SimulatedBoard
    seed : int
    chance : float
        That something happens to a byte.
    """

    def __init__(self, board: SimulatedBoard, seed: int, chance: float) -> None:
        self._board, self._random, self._chance = board, random.Random(seed), chance
        self.changed = 0

    def _spoil(self, data: bytes) -> bytes:
        result = bytearray()
        for byte in data:
            if self._random.random() >= self._chance:
                result.append(byte)
                continue
            self.changed += 1
            fault = self._random.randrange(3)
            if fault == 0:
                result.append(byte ^ (1 << self._random.randrange(8)))
            elif fault == 1:
                result += bytes([byte, byte])
        return bytes(result)

    def write(self, data: bytes) -> None:
        self._board.write(self._spoil(data))

    def read(self, count: int, timeout: float) -> bytes:
        data = self._board.read(count, timeout)
        return self._spoil(data) or data

    def now(self) -> float:
        return self._board.now()

    def close(self) -> None:
        self._board.close()


class DeafLine:
    """A transport that loses some responses as a whole, so that every request may be repeated."""

    def __init__(self, board: SimulatedBoard, every: int) -> None:
        self._board, self._every = board, every
        self._requests = self.lost = 0

    def write(self, data: bytes) -> None:
        self._requests += 1
        self._board.write(data)

    def read(self, count: int, timeout: float) -> bytes:
        if self._requests % self._every == 0:
            self.lost += 1
            self._board.run(timeout)
            while self._board.read(1000, 1e-6):
                pass
            return b""
        return self._board.read(count, timeout)

    def now(self) -> float:
        return self._board.now()

    def close(self) -> None:
        self._board.close()
