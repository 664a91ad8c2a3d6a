# SPDX-License-Identifier: Apache-2.0
"""The data sheet: it has what is known, says nothing of what is not, and is a page of its own."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from flows.build.build import Build, retarget
from flows.build.design import Design
from flows.build.load import parse_config
from flows.pnr import pnr
from flows.synthesis import synth_cache as kept
from flows.synthesis.mapping import Job, Method
from flows.synthesis.result import PnrResult, SeedResult
from hwgen.cli import main
from hwgen.cli.report import sheet_of
from hwgen.reports.datasheet import markdown
from hwgen.reports.datasheet_page import page
from hwgen.workloads import network_of
from sim_tests.synthesis.test_synth_cache import SOURCE, Tools

ENGINE = "name: engine\nfamily: gemm_stream\n"


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWGEN_CACHE_DIR", str(tmp_path / "cache"))


def test_missing_results_are_left_out() -> None:
    build = Build(Design.of(parse_config(SOURCE)))
    text = markdown(sheet_of(build, {"layer": network_of([(1, 2, 3), (4, 5, 6)])}))
    assert text.startswith("# tiny\n")
    assert "weight: int4" in text
    assert "| `s_axis_act` | in | 2 x int4 |" in text
    assert "| layer |" in text
    assert "## Estimate" in text
    assert "## Synthesis" not in text
    assert "## Place and route" not in text
    assert "None" not in text


@pytest.mark.rotate(6)
def test_engines_have_registers() -> None:
    text = markdown(sheet_of(Build(Design.of(parse_config(ENGINE))), {}))
    assert "| `STATUS` | 0x008 | ro |" in text
    assert "AXI4-Stream" not in text


def test_cached_results_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job("module", "tiny", "aclk", "nangate45", 500.0, 1.0)
    mapped = Tools().map(job, Method("nf", True, "keep", ()), Path())
    seed = SeedResult(1, 88.25, 11.3, "a", "b", None, 1.0)
    placed = PnrResult(
        "tiny", "ecp5", "25k", "CABGA256", "6", "dsp", 100.0, "frame", 88.25, 88.25, 88.25, (seed,),
        {"TRELLIS_COMB": {"used": 1234, "available": 24288}}, 10, 20, {"nextpnr": "1"}, 1.0, "", "",
    )  # fmt: skip
    assert PnrResult.of_document(json.loads(json.dumps(placed.document()))) == placed
    of_cells = {"nangate45": [mapped]}
    monkeypatch.setattr(kept, "cached_results", lambda core, t: of_cells.get(t, []))
    monkeypatch.setattr(pnr, "cached_results", lambda core, t: [placed] if t == "ecp5" else [])
    design = Design.of(parse_config(SOURCE))
    text = markdown(sheet_of(Build(design), {}))
    assert "| nangate45 | 500 | nf, full adders, keep | 2,000 µm² | 212 flip-flops | 800 |" in text
    assert "ecp5" not in text  # only the target of the configuration
    text = markdown(sheet_of(Build(design, retarget(design.params.target, "ecp5")), {}))
    assert "nangate45 | 500" not in text
    assert "| ecp5 | 25k CABGA256 6 | 100 | 88.25 | 88.25 | 88.25 | 1 | 1,234 of 24,288" in text


def test_the_page_stands_alone() -> None:
    text = page("# a < b\n\n| x | y |\n| --- | --- |\n| `1\\|2` | <script> |\n", "a & b")
    tags: list[str] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append(tag)

    Tags().feed(text)
    assert "a &amp; b" in text
    assert "<code>1|2</code>" in text
    assert {"table", "h1", "title"} <= set(tags)
    assert not {"script", "link", "img"} & set(tags)


@pytest.mark.parametrize("name", ["sheet.md", "sheet.html"])
def test_the_command(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, output = tmp_path / "tiny.yaml", tmp_path / name
    config.write_text(SOURCE)
    arguments = ["report", "--config", str(config), "--output", str(output), "--gemm", "5,6,7"]
    assert main(arguments) == 0
    assert "5x6x7" in output.read_text()
    assert main([*arguments, "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.split("\n", 1)[1])["manifest"]["name"] == "tiny"
    assert main(["report", "--config", str(config)]) == 0


def test_wrong_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "tiny.yaml"
    config.write_text(SOURCE)
    assert main(["report", "--config", str(config), "--output", str(tmp_path / "a.pdf")]) == 2
    assert "must end in .md or .html, not 'a.pdf'" in capsys.readouterr().err
    assert main(["report", "--config", str(config), "--gemm", "1,2"]) == 2
    assert main(["report", "--config", str(config), "--gemm", "1,99999999,1"]) == 2
    assert "raise max_k" in capsys.readouterr().err
    assert not list(tmp_path.glob("a.*"))
