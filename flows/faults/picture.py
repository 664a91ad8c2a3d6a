# SPDX-License-Identifier: Apache-2.0
"""The picture of a fault campaign: registers by bits, coloured by how often results are wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

MOST_ROWS = 28
"""Registers that are drawn, those with the most faults; the others are one row."""
COLUMNS = 32
"""Cells of a row; of wider registers one cell is several bits."""

_LEFT, _CELL, _ROW, _TOP = 350, 14, 17, 92
_WIDTH = _LEFT + COLUMNS * _CELL + 150
_STYLE = (
    ".f{background:#fff}.f text{font:11px system-ui,sans-serif;fill:#1c1917}"
    ".f .head{font-size:14px;font-weight:bold}.f .note{fill:#78716c}"
    ".f .name{font:11px ui-monospace,monospace}"
)
_STEPS = ("#f5f5f4", "#fee2e2", "#fca5a5", "#f87171", "#dc2626", "#7f1d1d")
_LIMITS = (0.0, 0.2, 0.4, 0.6, 0.8)


def picture(document: Mapping[str, Any]) -> str:
    """Return the picture of a campaign as SVG.

    Parameters
    ----------
    document : mapping
        See `flows.faults.campaign.Campaign.document`.

    Raises
    ------
    ValueError
        If the campaign has no flips of flip-flops.
    """
    rows = _rows(document)
    if not rows:
        raise ValueError("no flips of flip-flops in the campaign")
    height = _TOP + len(rows) * _ROW + 16
    title = f"{document['name']}: share of flips that make results wrong, and nothing says so"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}"'
        f' width="{_WIDTH}" class="f" role="img" aria-label="{escape(title)}">'
        f"<style>{_STYLE}</style>"
    )
    columns = f'<text x="{_LEFT + COLUMNS * _CELL + 10}" y="{_TOP - 8}" class="note">'
    return "\n".join(
        [
            head,
            f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
            f'<text x="14" y="24" class="head">{escape(title)}</text>',
            f'<text x="14" y="42" class="note">{escape(_subtitle(document))}</text>',
            *_legend(),
            f'<text x="{_LEFT}" y="{_TOP - 8}" class="note">bit 0</text>',
            f"{columns}silent of faults, bits</text>",
            *(line for index, row in enumerate(rows) for line in _row(index, row)),
            "</svg>",
            "",
        ]
    )


def _rows(document: Mapping[str, Any]) -> list[tuple[str, dict[int, tuple[int, int]]]]:
    """Return the registers: a label, and of each bit its faults and the silent ones."""
    signals = sorted(document["signals"], key=lambda signal: -signal["share"]["faults"])
    rows = []
    for signal in signals[:MOST_ROWS]:
        names = [part for part in (signal["module"], signal["signal"]) if part]
        bits = {int(bit): (count, silent) for bit, (count, silent) in signal["bits"].items()}
        rows.append((".".join(names), bits))
    others: dict[int, tuple[int, int]] = {}
    for signal in signals[MOST_ROWS:]:
        for bit, (count, silent) in signal["bits"].items():
            before = others.get(int(bit), (0, 0))
            others[int(bit)] = (before[0] + count, before[1] + silent)
    if others:
        rows.append((f"{len(signals) - MOST_ROWS} other registers", others))
    return rows


def _subtitle(document: Mapping[str, Any]) -> str:
    flips = document["classes"]["flip"]
    return (
        f"{flips['faults']:,} of {flips['population']:,} flips drawn, {document['flip_flops']:,}"
        f" flip-flops, {document['cycles']:,} cycles; {document['workload']}"
    )


def _legend() -> Iterator[str]:
    labels = ["0", *(f"to {100 * limit:.0f} %" for limit in (0.2, 0.4, 0.6, 0.8, 1.0))]
    for index, (colour, label) in enumerate(zip(_STEPS, labels, strict=True)):
        x = _LEFT + 76 * index
        yield (
            f'<rect x="{x}" y="52" width="12" height="12" fill="{colour}" stroke="#d6d3d1"/>'
            f'<text x="{x + 17}" y="62">{label}</text>'
        )


def _row(index: int, row: tuple[str, dict[int, tuple[int, int]]]) -> Iterator[str]:
    label, bits = row
    y = _TOP + index * _ROW
    shown = label if len(label) <= 52 else f"…{label[-51:]}"
    yield (
        f'<text x="{_LEFT - 8}" y="{y + 12}" text-anchor="end" class="name">{escape(shown)}</text>'
    )
    width = max(bits) + 1
    share = -(-width // COLUMNS)  # bits of a cell
    for column in range(-(-width // share)):
        cells = [bits[bit] for bit in range(column * share, (column + 1) * share) if bit in bits]
        count = sum(cell[0] for cell in cells)
        if count:
            colour = _colour(sum(cell[1] for cell in cells) / count)
            x = _LEFT + column * _CELL
            yield (
                f'<rect x="{x}" y="{y + 1}" width="{_CELL - 1}" height="{_ROW - 2}"'
                f' fill="{colour}" stroke="#e7e5e4" stroke-width=".5"/>'
            )
    count, silent = (sum(cell[i] for cell in bits.values()) for i in (0, 1))
    yield (
        f'<text x="{_LEFT + COLUMNS * _CELL + 10}" y="{y + 12}">{100 * silent / count:.0f} % of'
        f" {count:,}, {width}</text>"
    )


def _colour(share: float) -> str:
    return _STEPS[sum(share > limit for limit in _LIMITS)]
