# SPDX-License-Identifier: Apache-2.0
"""Commands that reach the memory and the registers of an engine on a board.

The bridge of a board carries words of 32 bits in both directions.  A command is two words, and the
words that it writes:

==========  =====================================================================================
first word  number of words in bits 0 to 15, `Command` in bits 24 to 31
second      address in bytes, a multiple of 4
==========  =====================================================================================

Its answer is the words that it reads, and an `Outcome`.
"""

from __future__ import annotations

from enum import IntEnum

WORD_BYTES = 4
"""Bytes of a word."""

MOST_WORDS = 0xFFFF
"""Words of a command at most."""


class Command(IntEnum):
    """Access of a host to words at successive addresses."""

    WRITE_MEMORY = 0
    READ_MEMORY = 1
    WRITE_REGISTERS = 2
    READ_REGISTERS = 3
    STATE = 4
    """Read one word: bit 0, whether the memory has started; bit 1, the interrupt."""


class Outcome(IntEnum):
    """End of a command: the responses of all its accesses, by OR."""

    OK = 0
    ACCESS_ERROR = 2
    """An access was answered with SLVERR."""
    DECODE_ERROR = 3
    """An access was answered with DECERR."""
    UNKNOWN = 4
    """There is no such command."""


def command_words(command: Command, address: int, count: int) -> tuple[int, int]:
    """Return the two words of a command.

    Parameters
    ----------
    command : Command
    address : int
        In bytes, a multiple of `WORD_BYTES`.
    count : int
        Words, 1 to `MOST_WORDS`.

    Raises
    ------
    ValueError
        If the address or the number is none.
    """
    if not 1 <= count <= MOST_WORDS:
        raise ValueError(f"a command is for 1..{MOST_WORDS} words, not {count}")
    if address % WORD_BYTES or not 0 <= address < 1 << 32:
        raise ValueError(f"an address is a multiple of {WORD_BYTES} of 32 bits, not {address:#x}")
    return command << 24 | count, address
