# SPDX-License-Identifier: Apache-2.0
"""Block diagrams, timing of jobs, and the page of the data sheet in a browser."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from flows.build.block_diagram import block_diagram
from flows.build.design import Design
from flows.build.load import load_config, parse_config
from flows.simulation.job_trace import trace_job, typical_job
from hwgen.cli import main
from hwgen.core.protocols import TileCore
from hwgen.core.registry import core_of
from hwgen.reports import diagram, job_timing
from sim_tests.support.browser import WIDTHS, launch_browser, open_page
from sim_tests.support.paths import ROOT

SHIPPED = sorted(path.name for path in (ROOT / "configs").glob("*.yaml"))
SIZES = "{rows: 3, cols: 5}"


def elements(svg: str, tag: str, style: str) -> list[Any]:
    """Return the elements of a picture, which must be valid XML, by tag and class."""
    found = ElementTree.fromstring(svg).iter(f"{{http://www.w3.org/2000/svg}}{tag}")
    return [each for each in found if style in each.get("class", "").split()]


def test_an_array_is_drawn_with_its_pes_between_its_ports() -> None:
    design = Design.of(parse_config(f"name: a\nfamily: systolic\narray: {SIZES}\n"))
    blocks = block_diagram(design)
    boxes = {box.label: box for box in blocks.boxes}
    assert boxes["array"].repeated == 15
    assert boxes["array"].lines[0] == "15 x pe"
    links = {(link.source, link.target): link.bits for link in blocks.links}
    ends = {box.label: box.key for box in blocks.boxes}
    assert links[ends["s_axis_act"], ends["act_buffer"]] == 24  # 3 x int8
    assert links[ends["s_axis_wgt"], ends["wgt_buffer"]] == 5 * 8
    assert any(target == ends["m_axis_out"] for _, target in links)
    svg = diagram.draw(blocks)
    assert len(elements(svg, "g", "array")) == 1
    again = json.loads(json.dumps(blocks.document()))
    assert diagram.draw(diagram.Diagram.of_document(again)) == svg


@pytest.mark.slow
@pytest.mark.rotate(16)
@pytest.mark.parametrize("name", SHIPPED)
def test_diagrams_are_readable(name: str) -> None:
    design = Design.of(load_config(ROOT / "configs" / name))
    blocks = block_diagram(design)
    roles = Counter(box.role for box in blocks.boxes)
    assert min(roles["input"], roles["output"]) > 0
    assert 4 <= len(blocks.boxes) <= 32
    reached = {link.target for link in blocks.links}
    assert all(box.key in reached for box in blocks.boxes if box.role == "output")
    layout = diagram.layout_of(blocks)
    frames = [layout.frame(box.key) for box in blocks.boxes]
    assert layout.width <= 1400
    for index, (x, y, width, height) in enumerate(frames):
        for left, top, wide, high in frames[:index]:
            apart = x >= left + wide or left >= x + width or y >= top + high or top >= y + height
            assert apart, blocks.boxes[index].label
    elements(diagram.draw(blocks), "path", "link")


@pytest.mark.parametrize("name", SHIPPED)
def test_traces_agree_with_counted_cycles(name: str) -> None:
    core = core_of(load_config(ROOT / "configs" / name))
    job = typical_job(core)
    trace = trace_job(core, job)
    assert trace.cycles == core.cycles([job]).number
    # The flow of beats does not know of totals that come late.
    late = getattr(core.params.pipeline, "accumulate", 0) if isinstance(core, TileCore) else 0
    if not late:
        assert trace.timed == (isinstance(core, TileCore) and trace.basis == "exact")
    for lane in trace.lanes:
        runs = lane.runs or ()
        assert lane.runs is None or sum(n for _, n, moves in runs if moves) == lane.beats
        assert all(one[0] + one[1] <= two[0] for one, two in pairwise(runs))
    if trace.timed:
        last = trace.lanes[-1].runs
        assert last
        assert last[-1][0] + last[-1][1] == trace.cycles
    svg = job_timing.draw(trace)
    assert len(elements(svg, "rect", "track")) == len(trace.lanes)
    again = json.loads(json.dumps(trace.document()))
    assert job_timing.JobTrace.of_document(again) == trace


def test_only_the_diagram(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, picture = tmp_path / "a.yaml", tmp_path / "a.svg"
    config.write_text(f"name: a\nfamily: systolic\narray: {SIZES}\n")
    arguments = ["report", "--config", str(config), "--diagram"]
    assert main([*arguments, str(picture)]) == 0
    assert "a.svg: block diagram of a" in capsys.readouterr().out.replace("\n", "")
    assert elements(picture.read_text(), "g", "box")
    assert main([*arguments, str(picture)]) == 2
    assert "exists" in capsys.readouterr().err
    assert main([*arguments, str(tmp_path / "a.png")]) == 2
    assert "--diagram: must end in .svg, not 'a.png'" in capsys.readouterr().err


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launch_browser() as result:
        yield result


@pytest.fixture(scope="module")
def sheets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the pages of a core and an engine."""
    folder = tmp_path_factory.mktemp("sheets")
    for family in ("systolic", "gemm_stream"):
        config = folder / f"{family}.yaml"
        config.write_text(f"name: {family}\nfamily: {family}\n")
        arguments = ["--gemm", "64,64,64", "--output", str(folder / f"{family}.html")]
        assert main(["report", "--config", str(config), *arguments]) == 0
    return folder


@pytest.mark.slow
@pytest.mark.rotate(8)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("family", ["systolic", "gemm_stream"])
def test_the_page_in_a_browser(browser: Any, sheets: Path, family: str, width: int) -> None:
    address = (sheets / f"{family}.html").as_uri()
    with open_page(browser, address, width, color_scheme="dark") as tab:
        labels = tab.locator(".tile span").all_inner_texts()
        assert labels == ["purpose", "size", "speed", "64x64x64", "power", "meets its clock"]
        assert "mm²" in tab.locator(".tile b").nth(1).inner_text()
        headings = tab.locator("h2").all_inner_texts()
        assert headings[:3] == ["Blocks", "Timing of a job", "Interface"]
        assert headings[-1] == ("Registers" if family == "gemm_stream" else "Configuration")
        assert tab.locator("svg.blocks .box").count() >= 6
        assert tab.locator("svg.timing .track").count() == (2 if family == "gemm_stream" else 3)
        text = tab.inner_text("body")
        assert "nangate45" in text
        assert "ecp5" not in text
        assert len(tab.pdf()) > 10_000
