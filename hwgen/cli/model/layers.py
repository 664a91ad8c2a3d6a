# SPDX-License-Identifier: Apache-2.0
"""The table of a compiled model's layers: cycles, bytes, what limits them, how busy units are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hwgen.cli.model.estimate import shortened
from hwgen.reports.terminal import console

if TYPE_CHECKING:
    from hwgen.models.compile.list_compilation import ListCompilation

LAYERS = "layers.json"
MOST_NAME = 48
"""Characters of a name in tables of compiled models."""

_BOUND = 0.9  # of a job's cycles in which the memory moves a beat: it is the memory that limits


def passes_of(compilation: ListCompilation) -> dict[str, Any]:
    """Return the cycles of two passes, ``prefill`` and ``decode``, in all and by operation.

    Notes
    -----
    Modelled, for a memory that answers in the next cycle: see
    `hwgen.families.transformer.list_timing`. Decode is of one token behind a full cache, prefill
    of as many tokens as are taken at once.
    """
    return {
        "prefill": _pass(compilation, compilation.most, 0),
        "decode": _pass(compilation, 1, compilation.context - 1),
    }


def _pass(compilation: ListCompilation, tokens: int, position: int) -> dict[str, Any]:
    from hwgen.families.transformer.list_timing import Share, timed_list
    from hwgen.families.transformer.trace import trace

    config, place = compilation.config, compilation.memory
    registers = compilation.registers(position, position + tokens, 1)
    events = trace(config, place.at("list"), compilation.program, registers)
    timing = timed_list(config, events)
    jobs = {job.index: job for job in compilation.jobs}
    result: dict[tuple[str, str], Share] = {}
    for index, share in timing.shares.items():
        key = jobs[index].node, jobs[index].unit
        result[key] = result.get(key, Share()) + share
    width = config.memory_bytes
    rows = []
    for (node, unit), share in result.items():
        beats = max(share.read_beats, share.write_beats)
        peak = config.units[unit].macs_per_cycle if share.macs else 0.0
        rows.append({
            "operation": node, "unit": unit, "jobs": share.jobs, "cycles": share.cycles,
            "read_bytes": share.read_beats * width, "write_bytes": share.write_beats * width,
            "limit": "memory" if beats >= _BOUND * share.cycles else "unit",
            "memory_share": round(beats / share.cycles, 4),
            "utilisation": round(share.macs / (peak * share.cycles), 4) if peak else None,
        })  # fmt: skip
    return {
        "tokens": tokens, "context": position, "cycles": timing.cycles, "basis": "modelled",
        "least": timing.least, "most": timing.most, "operations": rows,
    }  # fmt: skip


def print_passes(passes: dict[str, Any]) -> None:
    """Print the cycles of passes, and the operations of the last one."""
    from rich.table import Table

    out = console()
    for name, result in passes.items():
        of = f" of {result['tokens']} behind {result['context']}" if "tokens" in result else ""
        text = f"{name}{of}: {result['cycles']:,d} cycles ({_basis(result)})"
        out.print(text, highlight=False, soft_wrap=True)
    last = list(passes)[-1]
    table = Table(box=None, pad_edge=False)
    for heading in (last, "unit", "jobs", "cycles", "bytes", "limit", "memory", "MACs"):
        right = heading not in (last, "unit", "limit")
        table.add_column(heading, justify="right" if right else "left", overflow="fold")
    for row in passes[last]["operations"]:
        used = row["utilisation"]
        table.add_row(
            shortened(row["operation"], MOST_NAME),
            row["unit"],
            f"{row['jobs']:,d}" if row["jobs"] else "",
            f"{row['cycles']:,d}" if row["jobs"] else "",
            f"{row['read_bytes'] + row['write_bytes']:,d}",
            row["limit"],
            f"{100 * row['memory_share']:.1f} %" if row["jobs"] else "",
            "" if used is None else f"{100 * used:.1f} %",
        )
    out.print(table)


def _basis(timing: dict[str, Any]) -> str:
    """Return the basis of the cycles of a pass."""
    if "least" in timing:
        return f"modelled, at least {timing['least']:,d}, at most {timing['most']:,d}"
    return "modelled, of the engine's jobs one after the other, without the host"
