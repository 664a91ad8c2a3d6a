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
from flows.demonstration.overview import pictures
from flows.demonstration.summaries import PAGE, SOURCE, summarised
from flows.demonstration.words import LONGER, main
from flows.pnr.devices import placed
from hwgen.cli import cli
from hwgen.core.registry import families
from hwgen.formats.registry import shipped
from hwgen.technologies import technology_names
from sim_tests.docs.installed_page import DOCS
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


def test_pages_have_no_more_words_than_they_may(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(ROOT) == 0, capsys.readouterr().out
    assert all((DOCS / name).is_file() for name in LONGER)


def test_pictures_of_the_front_page_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for name, text in pictures().items():
        current = (DOCS / "images" / name).read_text(encoding="utf-8")
        assert current == text, f"{name}: run make docs"
        assert f"docs/images/{name}" in README


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
