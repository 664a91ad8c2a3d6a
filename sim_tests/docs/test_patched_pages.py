# SPDX-License-Identifier: Apache-2.0
"""The pages about number formats and processing elements work on a copy of the sources.

A listing ``# PATH`` is a new file.  A ``diff`` block begins with ``--- PATH``; its lines with a
blank or a minus are one passage of that file, which those with a blank or a plus replace.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from sim_tests.docs.installed_page import DOCS, listings
from sim_tests.docs.test_docs import run_page
from sim_tests.support.paths import ROOT

PACKAGES = ("hwgen", "rtl_templates", "cost_model", "flows")

_DIFF = re.compile(r"^```diff\n--- (\S+)\n(.*?)^```$", re.M | re.S)
_MARK = re.compile(r"<!-- not run: sim_tests/docs/test_patched_pages\.py [^\n]*\n")
_NAMED = re.compile(r"^\| `([\w/]+\.py)` \|", re.M)

PAGES = {
    "adding-a-number-format.md": 3,
    "adding-a-processing-element.md": 3,
}


def edits(page: str) -> list[tuple[str, str, str]]:
    """Return the edits of a page: path, passage, and what replaces it."""
    result = []
    for path, body in _DIFF.findall((DOCS / page).read_text(encoding="utf-8")):
        lines = body.splitlines()
        old, new = ([line[1:] for line in lines if line[:1] in f" {sign}"] for sign in "-+")
        result.append((path, "\n".join(old) + "\n", "\n".join(new) + "\n"))
    return result


def changed_files(page: str) -> set[str]:
    """Return the files that a page adds or edits."""
    return set(listings(page)) | {path for path, _, _ in edits(page)}


def patch(page: str, tree: Path) -> None:
    """Copy the sources to `tree`, and apply a page to them."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tree / package, ignore=ignored)
    for path, text in listings(page).items():
        assert not (tree / path).exists(), f"{path} is no new file"
        (tree / path).write_text(text, encoding="utf-8")
    for path, old, new in edits(page):
        text = (tree / path).read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{path} holds this passage {text.count(old)} times:\n{old}"
        (tree / path).write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(("page", "count"), PAGES.items())
def test_the_page_names_every_file_it_changes(page: str, count: int) -> None:
    named = set(_NAMED.findall((DOCS / page).read_text(encoding="utf-8")))
    assert named == changed_files(page)
    assert len(named) == count


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.rotate(12)
def test_its_commands_run_on_patched_sources(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, work = tmp_path / "source", tmp_path / "work"
    patch(page, tree)
    work.mkdir()
    monkeypatch.setenv("PYTHONPATH", os.fspath(tree))
    text = (DOCS / page).read_text(encoding="utf-8")
    assert run_page(_MARK.sub("", text), work) > 1
