# SPDX-License-Identifier: Apache-2.0
"""``hwgen model demo``: each step, what it leaves behind, and files that no engine executes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwgen.cli import main
from hwgen.models.files.store import Model
from sim_tests.models.model_files import Small, write_gguf
from sim_tests.models.test_model_rtl import equal

FITS = replace(Small(), width=128, heads=2, kv_heads=1, layers=2)


def written(directory: Path, small: Small) -> Path:
    """Return a GGUF file of a small decoder."""
    path = directory / "small.gguf"
    write_gguf(path, small)
    return path


@pytest.mark.rotate(8)
def test_a_file_becomes_text_and_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = equal(monkeypatch)
    source, keep = written(tmp_path, FITS), tmp_path / "kept"
    command = ["model", "demo", str(source), "--prompt", "in", "--tokens", "2"]
    assert main([*command, "--keep", str(keep), "--json"]) == 0
    said = capsys.readouterr()
    result: dict[str, Any] = json.loads(said.out)
    assert 1 <= len(result["tokens"]) <= 2
    assert result["simulated"]["operations"] == len(asked) > 20
    assert {"rows", "products", "attention"} <= set(asked)
    decode, metrics = result["passes"]["decode"], result["estimate"]["metrics"]
    assert decode["tokens_per_s"] == pytest.approx(1e3 / decode["ms"])
    assert decode["j_per_token"] > 0
    assert metrics["area_mm2"] > 10  # of the whole engine
    assert result["cycles_per_token"] == metrics["cycles(decode)"]
    steps = ("imported", "quantised", "generated", "simulated layer 0")
    for line, step in zip(said.err.splitlines(), steps, strict=True):
        assert line.split("s  ")[1].startswith(step)
    assert Model(keep / "quantised").description.decodes
    before = sorted(tmp_path.rglob("*"))
    capsys.readouterr()
    assert main([*command, "--target", "sky130hd"]) == 0
    text = capsys.readouterr().out
    assert "decoder_engine/int8.yaml on sky130hd at " in text
    assert "cycles/token" in text
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(("small", "words"), [
    (replace(Small(), width=640, heads=2, kv_heads=1), "does not execute this network: "),
    (None, "the version: must be 2 or 3"),
])  # fmt: skip
def test_a_file_that_no_engine_executes_leaves_nothing(
    small: Small | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, keep = written(tmp_path, small or FITS), tmp_path / "kept"
    if small is None:
        source.write_bytes(b"GGUF" + source.read_bytes()[100:])
    assert main(["model", "demo", str(source), "--keep", str(keep)]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert not said.out
    assert [path.name for path in tmp_path.iterdir()] == ["small.gguf"]


def test_options_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    source = written(tmp_path, FITS)
    assert main(["model", "demo", str(source), "--force"]) == 2
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "notes.txt").write_text("mine")
    assert main(["model", "demo", str(source), "--keep", str(foreign)]) == 2
    assert [path.name for path in foreign.iterdir()] == ["notes.txt"]
    assert main(["model", "demo", str(source), "--configs", str(tmp_path)]) == 2
