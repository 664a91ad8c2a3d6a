# SPDX-License-Identifier: Apache-2.0
"""Statements of the pages that follow from the tool, and files that repositories have."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

import click
import pytest
import yaml

import hwgen
from cost_model.estimate.technology import technology
from flows.build.build import Build
from flows.build.load import parse_config
from flows.demonstration import accuracy
from flows.demonstration.overview import pictures
from flows.demonstration.summaries import PAGE, SOURCE, summarised
from flows.demonstration.words import LONGER, main
from flows.pnr.devices import placed
from hwgen.cli import cli
from hwgen.core.registry import families
from hwgen.formats.registry import shipped
from hwgen.technologies import technology_names
from sim_tests.docs.installed_page import DOCS
from sim_tests.support.designs import estimate_of
from sim_tests.support.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
WORDS = {4: "four", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten", 11: "eleven"}


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_counts_of_the_front_page_are_those_of_the_tool() -> None:
    text = flat(README)
    assert f"{WORDS[len(technology_names('fpga'))]} FPGA families" in text
    assert f"routes it on {WORDS[len(placed())]} of them" in text
    assert f"{WORDS[len(families())].capitalize()} [families]" in text
    assert {"mxfp4", "nvfp4", "q4_0"} <= set(shipped())


def test_every_command_and_shared_option_is_on_the_page_of_the_command_line() -> None:
    text = (DOCS / "command-line.md").read_text(encoding="utf-8")
    rows = " ".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| `"))
    counts: Counter[str] = Counter()
    for name in cli.list_commands(click.Context(cli)):
        assert re.search(rf"[` ]{name}[` ,]", rows), name
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        counts.update({max(option.opts, key=len) for option in command.params})
    shared = {option for option, number in counts.items() if number > 2 and option[:2] == "--"}
    assert not [option for option in shared if f"`{option}" not in rows]


def test_every_family_is_on_its_page_and_on_that_of_features() -> None:
    for page in ("families.md", "features.md"):
        text = (DOCS / page).read_text(encoding="utf-8")
        assert not [name for name in families() if name not in text], page


def test_every_public_name_is_on_the_page_of_the_interface() -> None:
    text = (DOCS / "api" / "load-and-build.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in hwgen.__all__)
    members = [name for name in vars(Build) if not name.startswith("_")]
    assert not [name for name in members if f"`b.{name}" not in text]
    types = (ROOT / "hwgen" / "__init__.pyi").read_text(encoding="utf-8")
    assert all(re.search(rf"\b{name}\b", types) for name in hwgen.__all__)


def test_pages_have_no_more_words_than_they_may(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(ROOT) == 0, capsys.readouterr().out
    assert all((DOCS / name).is_file() for name in LONGER)


def test_generated_pictures_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shown = README + (DOCS / "reports.md").read_text(encoding="utf-8")
    for name, text in pictures().items():
        current = (DOCS / "images" / name).read_text(encoding="utf-8")
        assert current == text, f"{name}: run make docs"
        assert f"images/{name}" in shown


def test_left_out_errors_are_those_of_the_costs() -> None:
    page = (DOCS / "cost-model.md").read_text(encoding="utf-8")
    rows = page.partition("<!-- begin: left-out errors -->")[2].partition("<!-- end")[0]
    expected = []
    for name in ("nangate45", "asap7", "sky130hd", "ihp-sg13g2"):
        provenance = technology(name).structure["provenance"]
        for drawn, number in provenance["designs"].items():
            errors = (provenance["left_out"][drawn][metric] for metric in ("area", "power"))
            cells = " | ".join(
                f"{100 * e['mape']:.1f} % | {100 * e['worst']:+.0f} %" for e in errors
            )
            expected.append(f"| {name} | {number}, {drawn} | {cells} |")
    assert rows.strip().splitlines()[2:] == expected


def test_estimates_beside_measurements_are_those_of_the_tool() -> None:
    """Compare the estimated column of pages whose measured one needs a Liberty file."""
    config = parse_config(
        "name: little\nfamily: systolic\nactivation: int4\nweight: int4\n"
        "array: {rows: 2, cols: 2}\n"
    )
    metrics = estimate_of(config, "nangate45")["metrics"]
    page = (DOCS / "cost-model.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^(area_um2|fmax_mhz) +([\d,.]+) ", page, re.M))
    assert shown == {
        "area_um2": f"{1e6 * metrics['area_mm2']:,.0f}", "fmax_mhz": f"{metrics['fmax_mhz']:.1f}",
    }  # fmt: skip


def test_the_citation_names_this_version_and_licence() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert citation["version"] == hwgen.__version__
    assert citation["license"] == project["license"]
    assert citation["cff-version"] == "1.2.0"


def test_pages_name_no_machine_and_no_registry() -> None:
    front = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CITATION.cff")
    pages = [*(ROOT / name for name in front), *(ROOT / ".github").rglob("*.md")]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"(?<![\w.$~/-])/(work|home|root|tmp|usr)/", text), page
        assert not re.search(r"pypi\.org|pythonhosted|crates\.io|npmjs|localhost", text), page


def test_pictures_that_pages_show_exist() -> None:
    for page in (ROOT / "README.md", *DOCS.rglob("*.md")):
        for target in re.findall(r"!\[[^\]]*\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert Path(page.parent / target).is_file(), f"{page}: {target}"
    shown = {
        Path(target).name
        for page in (ROOT / "README.md", *DOCS.rglob("*.md"))
        for target in re.findall(r"images/[\w.-]+", page.read_text(encoding="utf-8"))
    }
    assert {path.name for path in (DOCS / "images").iterdir()} == shown


def test_summaries_are_those_of_the_tables() -> None:
    page, source = ((DOCS / name).read_text(encoding="utf-8") for name in (PAGE, SOURCE))
    assert summarised(page, source) == page, "run make docs"


def test_the_picture_of_errors_is_that_of_the_tables() -> None:
    source = (DOCS / SOURCE).read_text(encoding="utf-8")
    stored = (DOCS / "images" / "accuracy.svg").read_text(encoding="utf-8")
    assert accuracy.picture(source) == stored, "run make docs"
    assert accuracy.picture(source.replace("| 24 | 3.8 % |", "| 24 | 3.9 % |")) != stored
