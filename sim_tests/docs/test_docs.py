# SPDX-License-Identifier: Apache-2.0
r"""The commands in README.md and docs/**/*.md do what the text says.

Each fenced block of a file is run, in order, in one directory that starts with a copy of
``configs/``; every command starts there, ``hwgen`` and ``python`` are those of the tests, and the
terminal is 100 columns wide.

- A ``sh`` block is one script; it must succeed.
- A ``console`` block is a session: ``$ command`` lines (continued by ``\`` at the end or ``> `` at
  the beginning of a line), each followed by what it prints.  ``...`` stands for any text, also of
  several lines, and runs of blanks are alike; a command with nothing after it may print anything.
- Any other block is not looked at, but must name its language (``text`` if it has none).

A comment on the line above a block changes that (blank lines may stand between):

- ``<!-- not run: reason -->`` for what a test cannot do;
- ``<!-- exits: 2 -->`` if the block's last command fails, with that status;
- ``<!-- file: core.yaml -->`` writes the block, of any language, to that file.
"""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sim_tests.support.paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TIMEOUT_S = 300

_FENCE = re.compile(r"(?P<indent> *)(?P<ticks>`{3,})(?P<language>[^`\s]*)[^`]*")
_MARK = re.compile(r"<!-- (not run|exits|file): (.+?) -->")
_AFTER = re.compile(r"^<!-- after: ([\w.-]+)#([\w-]+) -->$", re.M)
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)\s]*)?\)")
_SECTION = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)#([^)\s]+)\)")
_SHELLS = {"sh", "console"}
_DISGUISED = {"", "bash", "shell", "zsh", "shell-session", "terminal"}


@dataclass
class Block:
    """One fenced block: its language, the number of its first line, and the mark above it."""

    language: str
    line: int
    lines: list[str] = field(default_factory=list)
    mark: str = ""
    value: str = ""

    @property
    def commands(self) -> list[tuple[str, str]]:
        """Commands to run and their output; an empty text accepts any."""
        if self.language == "sh":
            return [("\n".join(self.lines), "")]
        result: list[tuple[str, list[str]]] = []
        open_line = False
        for line in self.lines:
            if line.startswith("$ "):
                result.append((line[2:], []))
            elif not result:
                raise ValueError(f"line {self.line}: a console block begins with `$ command`")
            elif open_line or (line.startswith("> ") and not result[-1][1]):
                command = result[-1][0]
                result[-1] = (f"{command}\n{line.removeprefix('> ')}", [])
            else:
                result[-1][1].append(line)
            open_line = not result[-1][1] and line.endswith("\\")
        return [(command, "\n".join(output).strip("\n")) for command, output in result]


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a Markdown text."""
    result: list[Block] = []
    fence, indent, mark = "", 0, ("", "")
    for number, line in enumerate(text.splitlines(), 1):
        if fence:
            if line.strip() == fence:
                fence = ""
            else:
                result[-1].lines.append(line[min(indent, len(line) - len(line.lstrip())) :])
        elif match := _FENCE.fullmatch(line):
            fence, indent = match["ticks"], len(match["indent"])
            result.append(Block(match["language"], number + 1, [], *mark))
            mark = ("", "")
        elif match := _MARK.fullmatch(line.strip()):
            mark = (match[1], match[2])
        elif line.strip():
            mark = ("", "")
    if fence:
        raise ValueError(f"the block at line {result[-1].line} does not end")
    return result


def environment() -> dict[str, str]:
    dropped = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "FORCE_COLOR", "CLICOLOR_FORCE"}
    kept = {k: v for k, v in os.environ.items() if k not in dropped}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {
        **kept,
        "PATH": path,
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "HWGEN_PROGRESS": "none",
    }


def beginning(page: Path, anchor: str) -> str:
    """Return a page up to the end of a section of the second level."""
    sections = re.split(r"^(?=## )", page.read_text(encoding="utf-8"), flags=re.M)
    titles = [section.partition("\n")[0].removeprefix("## ") for section in sections]
    anchors = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
    return "".join(sections[: anchors.index(anchor) + 1])


def run_page(text: str, directory: Path) -> int:
    """Run the blocks of a page in a directory; return how many commands ran.

    ``<!-- after: PAGE#SECTION -->`` runs another page before, up to the end of a section.
    """
    count = 0
    if after := _AFTER.search(text):
        count += run_page(beginning(ROOT / "docs" / after[1], after[2]), directory)
    for block in blocks(text):
        if block.mark == "file":
            (directory / block.value).write_text("\n".join(block.lines) + "\n")
        if block.mark in ("file", "not run") or block.language not in _SHELLS:
            continue
        commands = block.commands
        for index, (command, expected) in enumerate(commands):
            last = index == len(commands) - 1
            status = int(block.value) if block.mark == "exits" and last else 0
            _run(command, expected, status, directory, f"block at line {block.line}: {command}")
            count += 1
    return count


def _run(command: str, expected: str, status: int, directory: Path, where: str) -> None:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=directory,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=TIMEOUT_S,
    )
    report = f"{where}\nexpected:\n{expected}\ngot (status {done.returncode}):\n{done.stdout}"
    assert done.returncode == status, report
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert not expected or doctest.OutputChecker().check_output(expected, done.stdout, flags), (
        report
    )


# -- pages ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
@pytest.mark.rotate(48)
def test_commands_of_a_page(page: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    run_page(page.read_text(encoding="utf-8"), tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_name_their_language(page: Path) -> None:
    disguised = [
        block.line
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.language in _DISGUISED
    ]
    assert not disguised, f"lines {disguised}: use sh, console or text"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_within_the_repository(page: Path) -> None:
    targets = _LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings of a page, as the site and the forge make them."""
    result: list[str] = re.findall(r'id="([\w-]+)"', text)
    text = re.sub(r"^ *(`{3,}).*?^ *\1", "", text, flags=re.M | re.S)
    for title in re.findall(r"^#+ (.*)", text, re.M):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        anchor = re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-")
        result.append(f"{anchor}-{result.count(anchor)}" if anchor in result else anchor)
    return set(result)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_sections_that_links_name_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target, anchor in _SECTION.findall(text):
        other = page.parent / target if target else page
        if other.suffix == ".md":
            assert anchor in anchors(other.read_text(encoding="utf-8")), f"{target}#{anchor}"


# -- the reader of pages -------------------------------------------------------------------------

PAGE = """\
<!-- file: greeting.txt -->
```yaml
hello: world
```

```sh
cp greeting.txt copy.txt
```

1. In a list:

   ```console
   $ cat copy.txt \\
       greeting.txt
   hello: ...
   $ true
   ```

<!-- not run: there is no such command -->

```sh
no-such-command
```

<!-- exits: 3 -->
```console
$ echo "failed because of this"; exit 3
failed ... this
```
"""


def test_a_page_runs_in_order_and_shares_files(tmp_path: Path) -> None:
    assert run_page(PAGE, tmp_path) == 4
    assert (tmp_path / "copy.txt").read_text() == "hello: world\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("hello: ...", "goodbye: ..."),
        ("<!-- not run: there is no such command -->", "Some text."),
        ("exits: 3", "exits: 2"),
        ("$ true", "$ false"),
        ("failed ... this", "failed ... this and more"),
    ],
)
def test_a_wrong_page_fails(tmp_path: Path, old: str, new: str) -> None:
    with pytest.raises(AssertionError):
        run_page(PAGE.replace(old, new), tmp_path)


def test_a_malformed_page_is_refused() -> None:
    with pytest.raises(ValueError, match="does not end"):
        blocks("```sh\ntrue\n")
    with pytest.raises(ValueError, match="begins with"):
        _ = blocks("```console\noutput\n```\n")[0].commands
