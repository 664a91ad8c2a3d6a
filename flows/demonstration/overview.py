# SPDX-License-Identifier: Apache-2.0
"""Pictures of the README and of pages: a configuration and its array, blocks; and badges.

``python -m flows.demonstration.overview DIR`` writes them; ``make docs`` does so, and ``make
docs-check`` compares them with those in the repository.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path

import yaml

from flows.build.block_diagram import block_diagram
from flows.build.build import Build, retarget
from flows.build.load import load_design
from hwgen.core.params.off_chip import OffChip
from hwgen.families.systolic.params import SystolicConfig
from hwgen.models.workload import named_workloads
from hwgen.reports.diagram import draw
from hwgen.reports.roofline import number

CONFIG = Path("configs/systolic_ws.yaml")
ENGINE = Path("configs/gemm_stream.yaml")
WORKLOAD, MEMORY = "gpt2_decode", "lpddr4x"

_WIDTH, _HEIGHT, _LINE, _PITCH = 860, 270, 19, 19
_STYLE = (
    ".o{background:#fff}.o text{font:13px system-ui,sans-serif;fill:#1c1917}"
    ".o .code{font:12px ui-monospace,monospace}.o .head{font-weight:bold}"
    ".o .note{font-size:11px;fill:#78716c}.o .value{font-size:17px;font-weight:bold}"
    ".o .box{fill:#f5f5f4;stroke:#d6d3d1}.o .pe{fill:#dbeafe;stroke:#2563eb}"
    ".o .edge{fill:#fef3c7;stroke:#d97706}.o .sum{fill:#d1fae5;stroke:#059669}"
    ".o .arrow{stroke:#78716c;stroke-width:2;fill:none;marker-end:url(#tip)}"
)
_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
    ' orient="auto"><path d="M0 0L8 4L0 8z" fill="#78716c"/></marker></defs>'
)


def picture(config: Path = CONFIG) -> str:
    """Return the picture of a configuration of a systolic array."""
    design = load_design(config)
    core = design.params
    assert isinstance(core, SystolicConfig)
    target = retarget(core.target, memory=OffChip(kind=MEMORY))
    workloads = named_workloads((), (WORKLOAD,), [core])
    metrics = Build(design, target).estimate(workloads)["metrics"]
    label = f"{config.name}, its array, and estimates"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
        f' width="{_WIDTH}" class="o" role="img" aria-label="{escape(label)}">'
        f"<style>{_STYLE}</style>{_TIP}"
    )
    facts = [
        (number(metrics[f"cycles({WORKLOAD})"]), f"cycles, exact ({WORKLOAD})"),
        (f"{number(metrics['area_mm2'])} mm²", f"area, estimated ({target.technology})"),
        (f"{number(metrics['fmax_mhz'])} MHz", "highest clock, estimated"),
        (f"{number(metrics[f'tokens_per_s({WORKLOAD})'])} tokens/s",
         f"at {target.clock_mhz:g} MHz, weights in {MEMORY.upper()}"),
    ]  # fmt: skip
    parts = [
        *_configuration(config),
        '<path class="arrow" d="M252 140H292"/>',
        *_array(core.array.rows, core.array.cols),
        '<path class="arrow" d="M552 140H592"/>',
        *_facts(facts),
    ]
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, style: str = "") -> str:
    blanks = ' xml:space="preserve"' if text.startswith(" ") else ""
    return f'<text x="{x:g}" y="{y:g}" class="{style}"{blanks}>{escape(text)}</text>'


def _configuration(path: Path) -> Iterator[str]:
    """Yield the lines of the file, without comments."""
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    lines = yaml.safe_dump(data, sort_keys=False).splitlines()
    yield _text(10, 24, "configuration", "head")
    yield f'<rect class="box" x="10" y="36" width="234" height="{_LINE * len(lines) + 16}" rx="6"/>'
    for index, line in enumerate(lines):
        yield _text(20, 56 + _LINE * index, line, "code")


def _array(rows: int, cols: int) -> Iterator[str]:
    """Yield the array: operands at the left, weights in the PEs, sums at the foot."""
    left, top, size = 340, 40, _PITCH - 4
    yield _text(300, 24, f"{rows} x {cols} array, Verilog and golden model", "head")
    for row in range(rows):
        y = top + _PITCH * row
        yield f'<rect class="edge" x="{left - 32}" y="{y}" width="22" height="{size}"/>'
        for col in range(cols):
            x = left + _PITCH * col
            yield f'<rect class="pe" x="{x}" y="{y}" width="{size}" height="{size}"/>'
    foot = top + _PITCH * rows + 8
    for col in range(cols):
        x = left + _PITCH * col
        yield f'<rect class="sum" x="{x}" y="{foot}" width="{size}" height="12"/>'
    yield _text(300, foot + 34, "A: int8 rows stream in; W: int4 stays;", "note")
    yield _text(300, foot + 50, "sums leave at the foot", "note")


def _facts(facts: list[tuple[str, str]]) -> Iterator[str]:
    """Yield what hwgen says, a line each."""
    yield _text(604, 24, "cycles, area, speed", "head")
    for index, (value, about) in enumerate(facts):
        y = 36 + 56 * index
        yield f'<rect class="box" x="604" y="{y}" width="246" height="48" rx="6"/>'
        yield _text(614, y + 20, value, "value")
        yield _text(614, y + 38, about, "note")


def badge(name: str, value: str) -> str:
    """Return a badge: a name and its value side by side."""
    left, right = (12 + 7 * len(text) for text in (name, value))
    width = left + right
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img"'
        f' aria-label="{escape(f"{name}: {value}")}"><rect width="{width}" height="20" rx="3"'
        f' fill="#57534e"/><rect x="{left}" width="{right}" height="20" rx="3" fill="#2563eb"/>'
        f'<g fill="#fff" font-family="Verdana,sans-serif" font-size="11">'
        f'<text x="6" y="14">{escape(name)}</text>'
        f'<text x="{left + 6}" y="14">{escape(value)}</text></g></svg>\n'
    )


def pictures() -> dict[str, str]:
    """Return the pictures by the names of their files."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = [
        name.removeprefix(_PYTHON)
        for name in project["classifiers"]
        if name.startswith(f"{_PYTHON}3.")
    ]
    return {
        "overview.svg": picture(),
        "blocks.svg": f"{draw(block_diagram(load_design(ENGINE)))}\n",
        "badge-python.svg": badge("python", f"{versions[0]} to {versions[-1]}"),
        "badge-licence.svg": badge("licence", project["license"]),
    }


_PYTHON = "Programming Language :: Python :: "


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in pictures().items():
        (folder / file).write_text(text, encoding="utf-8")
