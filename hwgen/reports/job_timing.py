# SPDX-License-Identifier: Apache-2.0
"""The timing diagram of a job: which ports transfer a beat in which cycles, as SVG.

`flows.simulation.job_trace` computes a `JobTrace`; here it is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, Self

from hwgen.core.cycles.basis import Basis

Run = tuple[int, int, bool]
"""First cycle, number of cycles, and whether beats are transferred (or wait for ``ready``)."""


@dataclass(frozen=True)
class Lane:
    """A port of the core during the job.

    Parameters
    ----------
    label : str
    beats : int
        Beats that the port transfers.
    runs : tuple of Run, or None
        Cycles in which ``valid`` is set; None where only their number is computed.
    """

    label: str
    beats: int
    runs: tuple[Run, ...] | None = None


@dataclass(frozen=True)
class JobTrace:
    """One job at full rate: no port of the surroundings makes it wait.

    Parameters
    ----------
    job : str
        Operation and sizes.
    cycles : int
    basis : Basis
    lanes : tuple of Lane
    """

    job: str
    cycles: int
    basis: Basis
    lanes: tuple[Lane, ...]

    @property
    def timed(self) -> bool:
        """Whether the cycle of every beat is computed."""
        return all(lane.runs is not None for lane in self.lanes)

    def document(self) -> dict[str, Any]:
        """Return the trace as plain values."""
        return asdict(self)

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the trace of plain values."""
        lanes = tuple(
            Lane(lane["label"], lane["beats"], None if lane["runs"] is None else
                 tuple(map(tuple, lane["runs"])))
            for lane in document["lanes"]
        )  # fmt: skip
        return cls(document["job"], document["cycles"], document["basis"], lanes)


_WIDTH, _TOP, _ROW = 940, 52, 26
_MARGIN, _LETTER = 10, 6.6  # beside and in texts, of wide fonts too
_STYLE = (
    ".timing{background:#fff}.timing text{font:11px system-ui,sans-serif;fill:#1c1917}"
    ".timing .name{font-size:12px;font-weight:bold}.timing .grid{stroke:#e7e5e4}"
    ".timing .transfer{fill:#2563eb}.timing .wait{fill:#fbbf24}.timing .share{fill:#93c5fd}"
    ".timing .track{fill:#f5f5f4}.timing .tick{text-anchor:middle;fill:#57534e}"
)
_LEGENDS = {
    True: (("transfer", "one beat a cycle"), ("wait", "valid, not ready")),
    False: (("share", "cycles with a beat, of all cycles; when they occur is not shown"),),
}
_LEAST_PIXELS = 5  # of a cycle, for its beat to have an outline


def draw(trace: JobTrace) -> str:
    """Return the timing diagram of a job as SVG, without a newline at its end."""
    basis = "" if trace.basis == "exact" else f" ({trace.basis})"
    title = f"{trace.job}: {trace.cycles:,} cycles{basis}"
    left = 2 * _MARGIN + round(_LETTER * max(12, *(len(lane.label) for lane in trace.lanes)))
    right = round(_LETTER * max(len(_share(lane, trace.cycles)) for lane in trace.lanes))
    plot = _WIDTH - left - right - 2 * _MARGIN
    scale = plot / max(1, trace.cycles)
    base = _TOP + _ROW * len(trace.lanes)
    width, height = _WIDTH, base + 34
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" class="timing" role="img" aria-label="{escape(title)}">'
        f"<style>{_STYLE}</style>"
    )
    parts = [
        head,
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text class="name" x="10" y="18">{escape(title)}</text>',
    ]
    for cycle in ticks(trace.cycles):
        x = left + cycle * scale
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP - 6}V{base}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{_TOP - 10}">{cycle:,}</text>')
    for index, lane in enumerate(trace.lanes):
        parts += _lane(lane, trace.cycles, left, plot, _TOP + _ROW * index)
    at = left
    for style, text in _LEGENDS[trace.timed]:
        parts.append(
            f'<rect class="{style}" x="{at}" y="{height - 20}" width="12" height="10"/>'
            f'<text x="{at + 17}" y="{height - 11}">{text}</text>'
        )
        at += 40 + round(6.2 * len(text))
    return "\n".join([*parts, "</svg>"])


def ticks(cycles: int) -> list[int]:
    """Return round cycles to mark, from 0 to at most `cycles`: about ten."""
    step = next(
        factor * 10**power
        for power in range(20)
        for factor in (1, 2, 5)
        if cycles <= 12 * factor * 10**power
    )
    return list(range(0, cycles + 1, step))


def _share(lane: Lane, cycles: int) -> str:
    share = 100 * lane.beats / max(1, cycles)
    return f"{lane.beats:,} beat{'s' if lane.beats != 1 else ''}, {share:.0f} % of cycles"


def _lane(lane: Lane, cycles: int, left: int, plot: int, top: int) -> Iterator[str]:
    scale = plot / max(1, cycles)
    yield f'<text x="{_MARGIN}" y="{top + 15}">{escape(lane.label)}</text>'
    track = f'x="{left}" y="{top + 4}" width="{plot}" height="15"'
    yield f'<rect class="track" {track}/>'
    if lane.runs is None:
        wide = min(1.0, lane.beats / max(1, cycles)) * plot
        yield f'<rect class="share" x="{left}" y="{top + 4}" width="{wide:.1f}" height="15"/>'
    outline = ""
    for start, length, transfer in lane.runs or ():
        x, style = left + start * scale, "transfer" if transfer else "wait"
        yield (
            f'<rect class="{style}" x="{x:.1f}" y="{top + 4}" width="{length * scale:.1f}"'
            f' height="15"><title>cycles {start:,} to {start + length - 1:,}</title></rect>'
        )
        if transfer and scale >= _LEAST_PIXELS:
            outline += "".join(f"M{x + n * scale:.1f} {top + 4}v15" for n in range(1, length))
    if outline:
        yield f'<path d="{outline}" stroke="#fff"/>'
    yield f'<text x="{left + plot + _MARGIN}" y="{top + 15}">{_share(lane, cycles)}</text>'
