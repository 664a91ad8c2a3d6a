# SPDX-License-Identifier: Apache-2.0
"""Waveforms for the documentation, drawn from simulations of tiny arrays.

``python -m sim_tests.simulation.waveforms docs/images`` (``make docs``) writes them anew.
Each simulation is checked against the golden model before its trace is drawn.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from flows.build.load import parse_config
from flows.simulation.runner import compile_design, simulate
from hwgen.core.port import StreamPort
from hwgen.errors import CheckFailed
from sim_tests.support.designs import design_of

Trace = Mapping[str, Sequence[int]]
"""Values by hierarchical name without the top module, one a cycle."""


@dataclass(frozen=True)
class Waveform:
    """One waveform.

    Parameters
    ----------
    name : str
        Of the file.
    title : str
    array : str
        The configuration's ``array``, YAML.
    size : (m, k, n)
        The product.
    inside : dict
        Further signals: label to hierarchical name.
    pauses : tuple of int
        Cycles after the reset in which the output is not ready.
    """

    name: str
    title: str
    array: str
    size: tuple[int, int, int]
    inside: Mapping[str, str]
    pauses: tuple[int, ...] = ()


_OUTPUT_STATIONARY = {"fire": "core.fire", "drain_edge": "core.array.drain_edge"}
WAVEFORMS = (
    Waveform(
        "os_tile",
        "Output-stationary, 3 x 2 PEs: one tile job, K = 4",
        "{rows: 3, cols: 2}",
        (3, 4, 2),
        _OUTPUT_STATIONARY,
    ),
    Waveform(
        "os_overlap",
        "Output-stationary, 3 x 2 PEs: tile 0 drains while tile 1 streams in, K = 4",
        "{rows: 3, cols: 2}",
        (6, 4, 2),
        _OUTPUT_STATIONARY,
    ),
    Waveform(
        "os_stall",
        "Output-stationary, 3 x 2 PEs: the output is not ready for ten cycles, K = 4",
        "{rows: 3, cols: 2}",
        (9, 4, 2),
        {"run": "core.run", "credits": "core.credits", **_OUTPUT_STATIONARY},
        tuple(range(8, 18)),
    ),
    Waveform(
        "ws_pass",
        "Weight-stationary, 2 x 2 PEs: tile 1 loads in the shadow of pass 0, K = 4",
        "{rows: 2, cols: 2, dataflow: weight_stationary}",
        (4, 4, 2),
        {"load": "core.load", "loaded": "core.loaded", "swap": "core.swap", "fire": "core.fire"},
    ),
)


def configuration(waveform: Waveform) -> Any:
    """Return the configuration that a figure simulates."""
    return parse_config(
        f"name: {waveform.name}\nfamily: systolic\nmax_k: 64\narray: {waveform.array}\n"
    )


def render(waveform: Waveform) -> str:
    """Simulate a figure's product and return the waveform as SVG.

    Raises
    ------
    CheckFailed
        If the simulation does not give what the golden model says.
    """
    config = configuration(waveform)
    m, k, n = waveform.size
    a = np.arange(m * k).reshape(m, k) % 9 + 1
    w = np.arange(k * n).reshape(k, n) % 3 - 1
    plan = {"jobs": [{"a": a.tolist(), "w": w.tolist()}], "pauses": waveform.pauses}
    with tempfile.TemporaryDirectory(prefix="hwgen-waveform-") as name:
        work = Path(name)
        build_dir = compile_design(design_of(config), waves="vcd")
        (outcome,) = simulate(
            config, build_dir, "sim_tests.simulation.cocotb_waveforms", plan, work, waves="vcd"
        )
        if not outcome.passed:
            raise CheckFailed(f"{waveform.name}: {outcome.message}")
        with (work / "dump.vcd").open(encoding="ascii") as file:
            trace = sample(file, config.name)
    return draw(waveform, config.ports, trace)


# -- traces ----------------------------------------------------------------------------------------

_VARIABLE = re.compile(r"\$var \w+ \d+ (\S+) (\S+)")


def sample(lines: Iterator[str], top: str) -> Trace:
    """Return the values of every signal below `top` just before each rising edge of ``aclk``."""
    scopes: list[str] = []
    names: dict[str, list[str]] = {}
    for line in map(str.strip, lines):
        if line.startswith("$scope"):
            scopes.append(line.split()[2])
        elif line.startswith("$upscope"):
            scopes.pop()
        elif (match := _VARIABLE.match(line)) and scopes[:1] == [top]:
            names.setdefault(match[1], []).append(".".join([*scopes[1:], match[2]]))
        elif line.startswith("$enddefinitions"):
            break
    trace: dict[str, list[int]] = {name: [] for group in names.values() for name in group}
    clock = next(code for code, group in names.items() if "aclk" in group)
    now, pending = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for line in map(str.strip, lines):
        if line.startswith("#"):
            if pending[clock] and not now[clock]:
                for code, group in names.items():
                    for name in group:
                        trace[name].append(now[code])
            now = dict(pending)
        elif line.startswith("b"):
            value, code = line[1:].split()
            if code in pending:
                pending[code] = int(value, 2)
        elif line[:1] in ("0", "1") and line[1:] in pending:
            pending[line[1:]] = int(line[0])
    return trace


# -- drawing ---------------------------------------------------------------------------------------

_CYCLE, _ROW, _LEFT, _TOP = 46, 24, 150, 44
_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"
 height="{height}" role="img">"""
_STYLE = """\
text { font: 11px monospace; fill: #222 } .title { font: bold 13px sans-serif }
.inside { font-style: italic; fill: #555 } .cycle { fill: #777; text-anchor: middle }
.value { text-anchor: middle } .grid { stroke: #e4e4e4 }
.wire { fill: none; stroke: #222; stroke-width: 1.3 }
.taken { fill: #cfe6ff; stroke: #222 } .waits { fill: #ffe0b8; stroke: #222 }
.plain { fill: #eee; stroke: #222 }"""


@dataclass(frozen=True)
class _Line:
    """One line of a figure: the texts and kinds of its cycles if it is a bus, else its levels."""

    label: str
    values: Sequence[int]
    styles: Sequence[str] = ()
    texts: Sequence[str] = ()
    inside: bool = False


def draw(waveform: Waveform, ports: Sequence[StreamPort], trace: Trace) -> str:
    """Return the SVG of a trace, from the cycle before the first beat to the one after the last."""

    def transfers(port: StreamPort) -> list[int]:
        valid, ready = (trace[f"{port.prefix}_{name}"] for name in ("tvalid", "tready"))
        return [cycle for cycle, both in enumerate(zip(valid, ready, strict=True)) if all(both)]

    reset = trace["aresetn"].index(1)
    beats = [cycle for port in ports for cycle in transfers(port) if cycle >= reset]
    first, last = min(beats), max(beats)
    window = slice(max(0, first - 1), last + 2)
    lines = [line for port in ports for line in _port_lines(port, trace, window)]
    lines += [
        _inside_line(label, trace[name][window], waveform)
        for label, name in waveform.inside.items()
    ]
    cycles = range(window.start - first, window.stop - first)
    return _svg(waveform.title, lines, cycles)


def _port_lines(port: StreamPort, trace: Trace, window: slice) -> Iterator[_Line]:
    wires = {name: trace[f"{port.prefix}_{name}"][window] for name in ("tvalid", "tready", "tdata")}
    for name in ("tvalid", "tready"):
        yield _Line(f"{port.prefix}_{name}", wires[name])
    styles, texts = [], []
    for valid, ready, data in zip(*wires.values(), strict=True):
        image = np.frombuffer(data.to_bytes(port.beat_bytes, "little"), np.uint8)
        texts.append(" ".join(str(element) for element in port.unpack(image[None])[0]))
        styles.append("" if not valid else "taken" if ready else "waits")
    yield _Line(f"{port.prefix}_tdata", wires["tdata"], styles, texts)
    if port.last:
        yield _Line(f"{port.prefix}_tlast", trace[f"{port.prefix}_tlast"][window])


def _inside_line(label: str, values: Sequence[int], waveform: Waveform) -> _Line:
    if max(values) <= 1 and label != "drain_edge":
        return _Line(label, values, inside=True)
    if label == "drain_edge":  # one hot: the row that drains
        texts = [f"row {value.bit_length() - 1}" if value else "" for value in values]
    else:
        texts = [str(value) for value in values]
    return _Line(label, values, ["plain" if text else "" for text in texts], texts, inside=True)


def _svg(title: str, lines: Sequence[_Line], cycles: range) -> str:
    width = _LEFT + _CYCLE * len(cycles) + 10
    height = _TOP + _ROW * (len(lines) + 1) + 8
    parts = [
        "<!-- Generated: make docs -->",
        _HEAD.format(width=width, height=height),
        f"<title>{escape(title)}</title>",
        f"<style>\n{_STYLE}\n</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text class="title" x="8" y="18">{escape(title)}</text>',
    ]
    for index, cycle in enumerate(cycles):
        x = _LEFT + index * _CYCLE
        parts.append(f'<text class="cycle" x="{x + _CYCLE // 2}" y="36">{cycle}</text>')
        parts.append(f'<path class="grid" d="M{x} {_TOP}V{height - 8}"/>')
    clock = _Line("aclk", [])
    for index, line in enumerate((clock, *lines)):
        top = _TOP + index * _ROW
        kind = ' class="inside"' if line.inside else ""
        parts.append(f'<text{kind} x="8" y="{top + 16}">{line.label}</text>')
        if line is clock:
            half = _CYCLE // 2
            path = f"M{_LEFT} {top + 19}" + f"v-14h{half}v14h{_CYCLE - half}" * len(cycles)
            parts.append(f'<path class="wire" d="{path}"/>')
        else:
            parts += _bus(line, top) if line.styles else [_wire(line, top)]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _wire(line: _Line, top: int) -> str:
    path = ""
    for index, value in enumerate(line.values):
        y = top + (5 if value else 19)
        path += f"V{y}h{_CYCLE}" if index else f"M{_LEFT} {y}h{_CYCLE}"
    return f'<path class="wire" d="{path}"/>'


def _bus(line: _Line, top: int) -> Iterator[str]:
    """Draw one box for each beat taken, and one for a value that stays or waits."""
    start = 0
    for end in range(1, len(line.styles) + 1):
        kind, text = line.styles[start], line.texts[start]
        goes_on = end < len(line.styles) and (line.styles[end], line.texts[end]) == (kind, text)
        if goes_on and kind != "taken":
            continue
        x, wide = _LEFT + start * _CYCLE, (end - start) * _CYCLE
        if kind:
            yield f'<rect class="{kind}" x="{x}" y="{top + 4}" width="{wide}" height="16"/>'
            yield f'<text class="value" x="{x + wide // 2}" y="{top + 16}">{text}</text>'
        else:
            yield f'<path class="wire" d="M{x} {top + 12}h{wide}"/>'
        start = end


def main(directory: str) -> None:
    """Write every figure into a directory."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    for waveform in WAVEFORMS:
        (target / f"{waveform.name}.svg").write_text(render(waveform), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
