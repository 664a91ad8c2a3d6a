# SPDX-License-Identifier: Apache-2.0
"""A beat of port ``post``: what is done with some beats of results, for each of their columns.

32-bit words, the first in the least significant bits: `WORDS`, then, in hardware with column
records, the records of the columns of a beat of results, four words each.
"""

from __future__ import annotations

from hwgen.core.post.records import RECORD_BYTES
from hwgen.core.post.words import REGISTERS, Field, Register

WORD_BITS = 32

WORDS = (
    *REGISTERS,
    Register(
        "POST_REPEAT",
        "How long the settings and records last.",
        (Field("repeat", 0, WORD_BITS, False, "Beats of results they are for, less one."),),
    ),
)
"""The words before the records."""

HEAD_BITS = WORD_BITS * len(WORDS)

MAX_BEATS = 1 << WORD_BITS
"""Most beats of results that a beat of port ``post`` is for."""

RECORD_WORDS = 8 * RECORD_BYTES // WORD_BITS
