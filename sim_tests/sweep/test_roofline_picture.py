# SPDX-License-Identifier: Apache-2.0
"""Rooflines as pictures: in the data sheet of a core and in the page of a sweep."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cost_model.roofline.picture import Dot, picture
from hwgen.cli import main
from sim_tests.support.paths import ROOT

CONFIGS = ROOT / "configs"
SVG = "{http://www.w3.org/2000/svg}"


def shapes(text: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(text).iter(SVG + tag))


def test_a_picture_by_hand() -> None:
    dots = [Dot("slow <one>", 1.0, 0.01, "memory"), Dot("fast", 100.0, 0.1, "compute")]
    text = picture("all & more", {"ddr4, 10 GB/s": 10.0}, 0.1, dots)
    # From 1 operation a byte, of 0.01 TOPS at 10 GB/s, to the roof of 0.1 TOPS, at 10 a byte; that
    # is the middle of two decades either way up to 1000 a byte.
    slow, fast = shapes(text, "circle")[:2]
    (roof,) = shapes(text, "polyline")
    points = [tuple(map(float, point.split(","))) for point in roof.attrib["points"].split()]
    assert len(points) == 3
    # The dots are on the roofs.
    for dot, (begin, end) in ((slow, points[:2]), (fast, points[1:])):
        x, y = float(dot.attrib["cx"]), float(dot.attrib["cy"])
        share = (x - begin[0]) / (end[0] - begin[0])
        assert 0 <= share <= 1
        assert y == pytest.approx(begin[1] + share * (end[1] - begin[1]), abs=0.3)
    assert "slow <one>" in (slow.findtext(f"{SVG}title") or "")
    assert slow.attrib["fill"] != fast.attrib["fill"]


def test_nothing_is_no_picture() -> None:
    dot = Dot("a", 1.0, 1.0, "g")
    assert picture("t", {}, 1.0, [dot]) == ""
    assert picture("t", {"m": 1.0}, 1.0, []) == ""
    assert picture("t", {"m": 1.0}, None, [Dot("a", 1.0, 0.0, "g")]) == ""
    assert picture("t", {"m": 1e-9, "n": 1e9}, None, [dot])  # roofs out of sight


def test_the_data_sheet_has_a_roofline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["report", "--config", str(CONFIGS / "systolic_ws.yaml")]
    command += ["--workload", "gpt2_decode", "--gemm", "64,64,64"]
    behind = ["--memory", "ddr4", "--gb-s", "2"]
    assert main([*command, *behind, "--output", "core.html"]) == 0
    page = Path("core.html").read_text()
    drawn = re.findall(r'<svg[^>]*class="roofline".*?</svg>', page, re.S)
    assert len(drawn) == 2
    assert not re.search(r"<img|https?://(?!www\.w3\.org/2000/svg)", page)
    assert len(shapes(drawn[1], "circle")) >= 5  # the products, and what their colours mean
    assert "of the bandwidth floor" in page
    assert main([*command, *behind, "--output", "core.md"]) == 0
    text = Path("core.md").read_text()
    names = re.findall(r"!\[Roofline of \w+\]\((.+?)\)", text)
    assert names == ["core.64x64x64.svg", "core.gpt2_decode.svg"]
    assert all(shapes(Path(name).read_text(), "circle") for name in names)
    Path("core.md").unlink()
    Path(names[0]).write_text("my own")
    capsys.readouterr()
    assert main([*command, *behind, "--output", "core.md"]) == 2
    assert names[0] in capsys.readouterr().err
    assert main([*command, "--output", "other.md"]) == 0
    assert "every port is always served" in Path("other.md").read_text()
    assert not list(tmp_path.glob("other.*.svg"))


SWEEP = """\
name: s
family: systolic
parameters: {array: {rows: [4, 8, 16]}}
targets: {memory: %s}
workloads: {w: gpt2_decode, v: [{m: 1, k: 64, n: 64}]}
objectives: {minimize: [area_mm2, latency_ms(w)]}
"""


@pytest.mark.parametrize(
    ("memory", "roofs"), [("[ddr4, hbm2]", 2), ("{gb_s: 3}", 1), ("{}", 0)], ids=str
)
def test_the_page_of_a_sweep_has_rooflines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: str, roofs: int
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(SWEEP % memory + "keep: all\ntop: 9\n")
    assert main(["sweep", "--config", "s.yaml", "--output", "out", "--jobs", "1"]) == 0
    drawn = re.findall(r"<svg[^>]*roofline.*?</svg>", Path("out/report.html").read_text(), re.S)
    assert len(drawn) == (2 if roofs else 0)
    for svg in drawn:
        assert len(shapes(svg, "polyline")) <= roofs
        assert len(shapes(svg, "circle")) >= 3
        assert shapes(svg, "line")
