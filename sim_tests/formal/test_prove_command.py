# SPDX-License-Identifier: Apache-2.0
"""The command ``hwgen prove`` and its certificate."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from flows.formal import prove
from flows.formal.aiger import parse_aiger
from flows.formal.block_proof import BlockProof, Result
from flows.formal.certificate import CERTIFICATE
from flows.tools import toolchain
from hwgen.cli import main
from hwgen.errors import CheckFailed, ToolMissing

CONFIG = "name: tiny\nfamily: systolic\narray: {rows: 2, cols: 2}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(CONFIG)
    return tmp_path


def test_a_certificate_is_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "-c", "tiny.yaml", "-o", "proofs", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    written = json.loads(Path("proofs", CERTIFICATE).read_text())
    assert {**written, "wall_seconds": 0, "results": "proofs"} == {**document, "wall_seconds": 0}
    assert written["status"] == "proven"
    assert written["groups"]["jobs"]["status"] == "absent"
    assert set(written["solvers"]) == {"yosys", "abc"}
    modules = {each["module"]: each for each in written["modules"]}
    assert {"tiny", "tiny_core"} <= modules.keys()
    for module in modules.values():
        assert module["properties"]
        for each in (*module["properties"], *module["covers"]):
            assert each["status"] == "proven"
            assert each["engine"]
            assert each["detail"]
    assert main(["build", "-c", "tiny.yaml", "-o", "built"]) == 0
    emitted = Path("built", written["verilog"]).read_bytes()
    assert hashlib.sha256(emitted).hexdigest() == written["verilog_sha256"]


def result(status: str) -> Result:
    return Result("buffers", "order", "", status, "pdr", "in cycle 3", 1.0, [{"i": 1}, {"i": 0}])  # type: ignore[arg-type]


@pytest.mark.parametrize("status", ["refuted", "unknown"])
def test_what_is_not_proven_has_status_1(
    status: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    proof = BlockProof([result(status)], [], [])
    monkeypatch.setattr(prove, "_prove", lambda *arguments, **options: proof)
    assert main(["prove", "-c", "tiny.yaml", "-o", "proofs"]) == 1
    said = capsys.readouterr().out
    assert f"order: {status} (in cycle 3)" in said
    assert f"tiny: {status}" in said
    (waveform, *_) = Path("proofs").glob("*.vcd")
    assert "$enddefinitions" in waveform.read_text()


def test_a_missing_solver_has_status_3(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HWGEN_ABC", "/nowhere/abc")
    toolchain.forget()
    try:
        assert main(["prove", "-c", "tiny.yaml", "-o", "proofs"]) == ToolMissing.exit_status
    finally:
        monkeypatch.undo()
        toolchain.forget()
    assert "hwgen[formal]" in capsys.readouterr().err
    assert not (folder / "proofs").exists()


@pytest.mark.parametrize("content", [b"", b"aig 1 1 0 0 0 0 0 0 1\n", b"aag 0 0 0 0 0\n"])
def test_a_file_that_is_no_circuit_is_refused(content: bytes) -> None:
    with pytest.raises(CheckFailed, match="not a binary AIGER file"):
        parse_aiger(content)
