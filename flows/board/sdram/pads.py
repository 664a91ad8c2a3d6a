# SPDX-License-Identifier: Apache-2.0
"""Registers of pads that work at both edges of a clock, around a model of an SDRAM.

They are those of ECP5 as their library of simulation models describes them: ODDRX1F has three
stages of registers and puts out D0 while the clock is high, then D1; IDDRX1F has what was at its
pin at a rising edge, and at the falling edge after it, from the next rising edge on.
"""

from __future__ import annotations

from collections import deque

from flows.board.sdram.chip import Pins, SdramModel
from hwgen.board.sdram import SDRAM_OUTPUTS, SDRAM_PORTS

OUTPUT_STAGES = 3
NOBODY = 0xDEAD
"""Levels of the data pins while nobody drives them."""

_REST = (0, 1, 1, 1, 1, 0, 0, 3, 0, 0)


class PadRegisters:
    """Pads between the ports of a controller and a chip with twice its clock.

    Parameters
    ----------
    model : SdramModel
    sampled : int
        Edges after the one that a chip's edge follows, at which a word that the chip drives from
        there on is sampled.
    """

    def __init__(self, model: SdramModel, sampled: int) -> None:
        self._model = model
        rest = Pins(*_REST)
        self._outputs = deque([(rest, rest)] * OUTPUT_STAGES)
        self._words = deque([NOBODY] * (sampled + 2))

    def step(self, levels: list[int]) -> int:
        """Return the inputs of the controller after a rising edge.

        Parameters
        ----------
        levels : list of int
            Outputs of the controller before that edge.
        """
        self._outputs.append((self._pins(levels, 0), self._pins(levels, 1)))
        self._outputs.popleft()
        result = self._words[0] | self._words[1] << 16
        for pins in self._outputs[0]:
            word = self._model.step(pins)
            self._words.append(NOBODY if word is None else word)
            self._words.popleft()
        return result

    @staticmethod
    def _pins(levels: list[int], half: int) -> Pins:
        """Return the pins in one half of a cycle, of outputs that have two levels but for one."""
        result = []
        for name, level in zip(SDRAM_OUTPUTS, levels, strict=True):
            bits = SDRAM_PORTS[name]
            shift = 0 if name == "dq_oe" else half * bits
            result.append(level >> shift & ((1 << bits) - 1))
        return Pins(*result)
