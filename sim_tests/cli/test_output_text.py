# SPDX-License-Identifier: Apache-2.0
"""Output of commands: names of files as they are, in any encoding."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from hwgen.cli import main
from hwgen.reports.terminal import console

LUT = "name: lut\nfamily: ternary_lut\narray: {group_size: 2, tables: 2, fetch_ports: 2}\n"

NAMES = ("b[/x]", "b[red]", "a:smile:", "[bold]b[/bold]", "grün €", os.fsdecode(b"\xff"))


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_of_files_are_printed_as_they_are(
    name: str, encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lut.yaml").write_text(LUT)
    np.save("w.npy", np.ones((4, 4), int))
    commands = (
        ["pack", "--config", "lut.yaml", "--weights", "w.npy", "--output", name],
        ["unpack", "--config", "lut.yaml", "--input", f"{name}/w.json", "--output", f"{name}.npy"],
        ["report", "--config", "lut.yaml", "--output", f"{name}.md"],
    )
    shown = name.encode(encoding, "backslashreplace")
    for command in commands:
        stream = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(stream, encoding=encoding))
        status = main(command)
        sys.stdout.flush()
        assert status == 0, command
        assert shown in stream.getvalue().replace(b"\n", b" ")
    assert np.array_equal(np.load(f"{name}.npy"), np.ones((4, 4)))


def test_tables_hold_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table

    table = Table("a[/x]", box=None)
    table.add_row("b[red] :smile:")
    console().print(table)
    assert capsys.readouterr().out.split() == ["a[/x]", "b[red]", ":smile:"]
