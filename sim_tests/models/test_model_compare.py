# SPDX-License-Identifier: Apache-2.0
"""``hwgen model compare`` and ``hwgen model show``: what is said of models, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwgen.cli import main
from hwgen.models.quantise.record import read_record, weight_format
from sim_tests.engines.decoder_engines import small_engine
from sim_tests.models.model_files import Small
from sim_tests.models.test_model_runs import made


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a model, the same with int8 and with int4 weights, and their engine."""
    work = tmp_path_factory.mktemp("compare")
    (work / "from").mkdir()
    source = made(work / "from", Small()).path
    text = work / "text.txt"
    text.write_text("in the beginning there was a small text, and it was read by a model")
    for name, options in (
        ("int8", ["--evaluate", str(text)]),
        ("int4", ["--weights", "int4", "--group", "32", "--evaluate", str(text)]),
        ("plain", []),
    ):
        out = ["--output", str(work / name), "--calibration", str(text)]
        assert main(["model", "quantise", str(source), *out, *options]) == 0
    engine = work / "engine.yaml"
    engine.write_text(json.dumps(small_engine().resolved()))
    names = ("int8", "int4", "plain")
    return {"float": source, "engine": engine, **{name: work / name for name in names}}


def compared(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, str, str]:
    status = main(["model", "compare", *map(str, arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.rotate(6)
def test_a_row_for_each_model_with_its_accuracy(
    models: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = [f"{models[name]}={models['engine']}" for name in ("int8", "plain")]
    status, out, _ = compared(capsys, *pairs, "--prompt", "8", "--memory", "lpddr4x")
    assert status == 0
    record = read_record(models["int8"])
    assert record is not None
    heading, first, second, *rest = out.splitlines()
    assert heading.split()[:4] == ["model", "weights", "KL", "top-1"]
    assert f"{record['evaluations'][0]['kl']:.4g}" in first
    assert " int8 " in second
    assert " - " in second
    assert any("text.txt; `-`: not evaluated" in line for line in rest)
    arguments = [*pairs, "--prompt", "8", "--memory", "lpddr4x", "--json"]
    status, out, _ = compared(capsys, *arguments)
    document = json.loads(out)
    assert document["texts"] == ["text.txt"]
    assert [row["kl"] for row in document["pairs"]] == [record["evaluations"][0]["kl"], None]
    rate = document["pairs"][0]["passes"]["decode"]["tokens_per_s"]
    estimate = ["model", "estimate", str(models["int8"]), "-c", str(models["engine"])]
    assert main([*estimate, "--prompt", "8", "--memory", "lpddr4x", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["passes"]["decode"]["tokens_per_s"] == rate


def test_what_cannot_be_compared_is_refused(
    models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = models["engine"]
    for pair, said in (
        ("x", "DIR=CONFIG: must be"),
        (f"={engine}", "DIR=CONFIG: must be"),
        (f"{tmp_path}={engine}", "model.json does not exist"),
        (f"{models['int8']}={tmp_path / 'none.yaml'}", "cannot be read"),
        (f"{models['int4']}={engine}", "engine.yaml"),
    ):
        status, out, err = compared(capsys, pair, "--prompt", "8")
        assert (status, out) == (2, ""), pair
        assert said in err


@pytest.mark.rotate(6)
def test_texts_that_differ_are_said(
    models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.npy"
    np.save(other, np.arange(1, 20))
    out = ["--output", str(tmp_path / "q"), "--calibration", str(other), "--evaluate", str(other)]
    assert main(["model", "quantise", str(models["float"]), *out]) == 0
    capsys.readouterr()
    pairs = [f"{models['int8']}={models['engine']}", f"{tmp_path / 'q'}={models['engine']}"]
    status, text, _ = compared(capsys, *pairs, "--prompt", "8")
    assert status == 0
    assert "different texts and do not compare" in text


@pytest.mark.rotate(8)
def test_a_model_is_shown(
    models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown(path: Path) -> str:
        assert main(["model", "show", str(path)]) == 0
        return capsys.readouterr().out

    assert "not quantised by hwgen" in shown(models["float"])
    text = shown(models["int4"])
    for part in ("weights int4_g32", "keys and values int8", "accuracy on text.txt", "largest"):
        assert part in text
    assert "accuracy: not measured" in shown(models["plain"])
    compiled = tmp_path / "compiled"
    arguments = ["model", "compile", str(models["int8"]), "-c", str(models["engine"])]
    arguments += ["-o", str(compiled), "--context", "16", "--memory", "lpddr4x"]
    assert main(arguments) == 0
    assert "; limited by " in capsys.readouterr().out
    text = shown(compiled)
    for part in ("as a command list", "up to 16 tokens", "image.bin", "weights int8", "top-1"):
        assert part in text
    assert main(["model", "show", str(compiled), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["form"] == "list"
    assert weight_format(document["quantised"]) == "int8"
    (compiled / "quantised.json").write_text('{"recipe": []}')
    assert main(["model", "show", str(compiled)]) == 2
    assert "quantised.json: is no record of a quantisation" in capsys.readouterr().err
    assert main(["model", "show", str(tmp_path)]) == 2
