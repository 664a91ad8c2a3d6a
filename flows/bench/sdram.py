# SPDX-License-Identifier: Apache-2.0
"""Share of its peak that an SDR SDRAM gives through the controller, by pattern of access.

``python -m flows.bench.sdram [--write docs/sdram.md]`` simulates the controller with the model of
the chip on its pins (minutes).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from flows.bench.common import markdown, parser, run, write_sections
from flows.board.sdram.simulation import Transfer, quick, share_of_peak, simulate
from hwgen.board.sdram import sdram_chips

CHIP, WIDTHS, BEATS = "is42s16160g-7", (32, 64, 128), 16
SECTIONS = {1: "sdram", 2: "sdram-double"}
CLOCKS_HZ = {1: 100e6, 2: 37.5e6}
"""Clocks of the controller, by the ratio of the chip's to it."""

WORDS = 4096
"""Words that each simulation moves."""

PATTERNS = {
    "reads, one after the other": (False, False, BEATS),
    "writes, one after the other": (True, False, BEATS),
    "reads and writes in alternation, each one after the other": (None, False, BEATS),
    "reads of random addresses": (False, True, BEATS),
    "reads and writes of random addresses": (None, True, BEATS),
    "reads of random single beats": (False, True, 1),
}
"""Pattern to whether it writes (None: alternately), has random addresses, and beats of a burst."""


def pattern_transfers(pattern: str, data_width: int) -> Iterator[Transfer]:
    """Yield the bursts of a pattern.

    Parameters
    ----------
    pattern : str
        One of `PATTERNS`.
    data_width : int
        Bits of the port.
    """
    writes, scattered, beats = PATTERNS[pattern]
    random, size = Random(1), sdram_chips()[CHIP].size
    length = beats * data_width // 8
    full = (1 << data_width // 8) - 1
    for index in range(max(16, 2 * WORDS // length // (4 if beats == 1 else 1))):
        write = index % 2 == 1 if writes is None else writes
        half = size // 2 if write else 0
        step = index if writes is not None else index // 2
        if scattered:
            step = random.randrange(size // 2 // length)
        data = tuple(random.randrange(1 << data_width) for _ in range(beats)) if write else ()
        yield Transfer(write, half + step * length, beats, data=data, strobes=(full,) * len(data))


def pattern_share(pattern: str, data_width: int, ratio: int = 1) -> float:
    """Return the share of the peak of a pattern.

    Parameters
    ----------
    pattern : str
        One of `PATTERNS`.
    data_width : int
        Bits of the port.
    ratio : int
        Cycles of the chip in one of the controller, of `SECTIONS`.
    """
    chip = quick(sdram_chips()[CHIP])
    transfers = pattern_transfers(pattern, data_width)
    result = simulate(transfers, chip, CLOCKS_HZ[ratio], data_width, ratio=ratio)
    return share_of_peak(result, data_width, ratio)


def share_cells(pattern: str, ratio: int = 1) -> list[str]:
    """Return the row of a pattern."""
    return [pattern, *(f"{100 * pattern_share(pattern, width, ratio):.1f} %" for width in WIDTHS)]


def share_table(ratio: int = 1) -> str:
    """Return the table of all patterns and widths."""
    headings = ("bursts of 16 beats", *(f"{width}-bit port" for width in WIDTHS))
    return markdown(headings, [share_cells(pattern, ratio) for pattern in PATTERNS])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables, or write them into a page."""
    options = parser("sdram", __doc__)
    options.add_argument("--write", type=Path, metavar="PAGE", help="docs/sdram.md")
    chosen = options.parse_args(arguments)
    tables = {section: share_table(ratio) for ratio, section in SECTIONS.items()}
    sys.stdout.write("\n".join(f"{table}\n" for table in tables.values()))
    if chosen.write:
        write_sections(chosen.write, tables)
    return 0


if __name__ == "__main__":
    run(main)
