# SPDX-License-Identifier: Apache-2.0
"""The picture of what a model wrote, and the table of what a token takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from flows.bench.models import lines
from flows.demonstration.written import energy_text, picture
from flows.demonstration.written import main as draw
from hwgen.cli import main
from sim_tests.models.test_gguf import estimating


@pytest.fixture
def targets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return the estimates of a small model on two targets."""
    arguments, _ = estimating(tmp_path)
    named = ["--memory", "ddr4", "--target", "nangate45", "--target", "ecp5", "--json"]
    assert main([*arguments, *named]) == 0
    result: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["targets"]
    return result


RUN = {
    "model": "a <small> model",
    "prompt_tokens": [1, 2, 3],
    "tokens": [4, 5],
    "text": " & wrote\n\nthis",
    "simulated": {"operations": 1234, "cycles": {"rows": 1000, "products": 500}},
}


def test_the_picture_has_text_layers_and_speeds(targets: list[dict[str, Any]]) -> None:
    root = ElementTree.fromstring(picture("it <read>", RUN, targets, 12.0))
    words = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"it <read> & wrote", "this"} <= set(words)
    assert any("1,234 operations" in each and "1,500 cycles" in each for each in words)
    layers = targets[0]["estimate"]["roofline"]["workloads"]["decode"]["layers"]
    for layer in layers:
        if layer["total_ms"]:
            assert f"{layer['repeat']} x {layer['name'].replace('_', ' ')}" in words
            assert f"{1e3 * layer['total_ms']:.1f}" in words
    assert words.count("not known") == 1  # joules of the FPGA
    assert {"12", "not measured"} <= set(words)


def test_energies_say_how_far_off_they_may_be() -> None:
    assert energy_text(0.00039, {"uncertainty": {}}) == "0.39 mJ"
    wide = {"uncertainty": {"j_per_token(decode)": 1.9}}
    assert energy_text(0.00039, wide) == "0.39 mJ, to a factor of 2.9"


def test_the_picture_is_drawn_from_files(targets: list[dict[str, Any]], tmp_path: Path) -> None:
    written, estimated = tmp_path / "run.json", tmp_path / "estimate.json"
    written.write_text(json.dumps(RUN))
    estimated.write_text(json.dumps({"targets": targets}))
    (model,) = (path.parent for path in tmp_path.rglob("model.json"))
    files = ["--estimate", str(estimated), "--stored", str(tmp_path / "stored.json")]
    measured = ["--run", str(written), "--model", str(model)]
    draw([*files, *measured, "--output", str(tmp_path / "it.svg")])
    assert ElementTree.parse(tmp_path / "it.svg").getroot() is not None
    draw([*files, "--output", str(tmp_path / "again.svg")])
    assert (tmp_path / "again.svg").read_text() == (tmp_path / "it.svg").read_text()
    with pytest.raises(SystemExit):
        draw([*files, measured[0], measured[1], "--output", str(tmp_path / "it.svg")])


def test_the_table_has_a_line_for_each_target(targets: list[dict[str, Any]]) -> None:
    cells, fabric = lines("core.yaml", targets)
    decode = targets[0]["passes"]["decode"]
    limit = targets[0]["estimate"]["roofline"]["workloads"]["decode"]["limit"]
    assert cells[:2] == (targets[0]["model"], "`core.yaml`")
    assert cells[2].startswith("nangate45, ")
    assert cells[3].endswith(" mm²")
    assert float(cells[4].replace(",", "")) == pytest.approx(decode["tokens_per_s"], rel=1e-3)
    assert cells[6] == limit
    assert fabric[:2] == ("", "")
    assert "LUTs" in fabric[3]
    assert fabric[5] == "not known"
