# SPDX-License-Identifier: Apache-2.0
"""The registry of technologies, and what is said of data files that cannot be used."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from cost_model.netlist.fabric.fabric import fabric
from flows.pnr import devices
from hwgen import technologies as registry
from hwgen.cli import main
from hwgen.config.document import read_document
from hwgen.errors import ConfigError, InputError
from hwgen.plugins import Registry
from hwgen.technologies import (
    costs_of,
    file_of,
    read,
    technologies,
    technology,
    technology_names,
)
from hwgen.technologies.model import Technology

CELLS, FPGA = (file_of(name).read_text(encoding="utf-8") for name in ("nangate45", "ice40"))


def test_every_shipped_file_can_be_used() -> None:
    for name in technologies():
        result = technology(name)
        assert result.name == name
        assert result.summary
        assert file_of(name).parent.name == "technologies"
    assert {"asap7", "nangate45", "sky130hd", "ihp-sg13g2"} <= set(
        technology_names("standard_cells")
    )
    assert {"ecp5", "ice40", "xc7", "xcup", "gowin", "nexus", "machxo2"} <= set(
        technology_names("fpga")
    )
    assert costs_of("nangate45") == file_of("nangate45").with_suffix(".json")
    assert all(
        costs_of(name) == file_of(name).with_suffix(".json") for name in technology_names("fpga")
    )


@pytest.mark.parametrize(
    ("text", "old", "new", "said"),
    [
        (CELLS, "driver: ", "drivr: ", "16:1: drivr: unknown key (did you mean 'driver'?)"),
        (CELLS, "driver: ", "drivr: ", "driver: missing; add `driver: ...` (A buffer of"),
        (CELLS, "load_ff: 5", "load_ff: -5", "17:1: load_ff: must be more than 0, not -5"),
        (CELLS, "load_ff: 5", "load_ff: '5'", "load_ff: must be a number, not the text '5'; rem"),
        (CELLS, "kind: standard_cells", "kind: cells", "4:1: kind: must be standard_cells or fpga"),
        (CELLS, "kind: standard_cells\n", "", "kind: must be standard_cells or fpga"),
        (CELLS, "clk: clock", "clk: klok", "memories.ports.1rw.clk: must be 'clock', 'enable', "),
        (CELLS, "    1rw:", "    2rw:", "memories.ports: the pins of 1rw are missing"),
        (CELLS, "32, words: 32", "32, word: 32", "44:31: memories.macros.0.word: unknown key\n"),
        (CELLS, "[A, B, CI]", "[A, B]", "full_adder.inputs: too short: item 3 is missing"),
        (CELLS, "name: n", "name: m", "3:1: name: must be nangate45, as its entry point or"),
        (CELLS, "costs: ", "costs: ../", "costs: must be the name of a file beside this one"),
        (FPGA, "recipe: logic", "recipe: fast", "recipe: must be dsp or logic, not 'fast'"),
        (
            FPGA,
            "  register_memory",
            "  #",
            "rules.lut_memory: either this or register_memory must be",
        ),
        (FPGA, "device: hx8k", "device: x", "place_and_route.device: must be one of `devices`"),
        (FPGA, "hx4k: [tq144, bg", "hx4k: []\n    x: [bg", "devices.hx4k: must have a package"),
        (FPGA, "resource: luts", "resource: lut", "17:22: cells.0.resource: must be 'luts', "),
        (FPGA, "name: ice40", "name: ice40\nname: ice40", "4:1: the key 'name' is already on"),
    ],
)
def test_what_is_wrong_with_a_file(
    tmp_path: Path, text: str, old: str, new: str, said: str
) -> None:
    path = tmp_path / "x.yaml"
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read(path, "nangate45" if text is CELLS else "ice40")
    assert said in f"{caught.value}\n"
    assert all(problem.file == str(path) and problem.line for problem in caught.value.problems)


def points(monkeypatch: pytest.MonkeyPatch, *found: tuple[str, str]) -> Registry[Technology]:
    shipped = EntryPoint(registry.DEFAULT, "cost_model.technologies", registry.GROUP)
    others = [EntryPoint(name, value, registry.GROUP) for name, value in found]
    monkeypatch.setattr("hwgen.plugins.entry_points", lambda group: [shipped, *others])
    return technologies.__wrapped__()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no_such_package", "'bad' .no_such_package.: there is no such package; repair or"),
        ("no_such_package.inner", "'bad' .no_such_package.inner. is not there: No module named"),
        ("json.decoder", "'bad' .json.decoder.: there is no such package"),
        ("cost_model.technologies", r"'bad' .* has no data file\n.*bad\.yaml: there is no such"),
    ],
)
def test_a_broken_package_is_named(
    monkeypatch: pytest.MonkeyPatch, value: str, message: str
) -> None:
    result = points(monkeypatch, ("bad", value))
    assert list(result) == ["bad", registry.DEFAULT]  # only what is asked for is looked at
    with pytest.raises(InputError, match=message):
        result["bad"]


def test_two_packages_cannot_share_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="'x': a and b; uninstall one"):
        points(monkeypatch, ("x", "a"), ("x", "b"))


def test_an_outdated_installation_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hwgen.plugins.entry_points", lambda group: [])
    with pytest.raises(InputError, match="install it again"):
        technologies.__wrapped__()


def test_a_broken_file_does_not_hide_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = points(monkeypatch, ("bad", "no_such_package"))
    monkeypatch.setattr(registry, "technologies", lambda: result)
    assert main(["technologies", "--json"]) == 0
    bad, good = json.loads(capsys.readouterr().out)
    assert "no_such_package" in bad["problem"]
    assert (good["name"], good["calibrated"]) == (registry.DEFAULT, True)
    assert main(["technologies"]) == 0
    assert "there is no such package" in " ".join(capsys.readouterr().out.split())


def test_one_technology_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["technologies", "ice40"]) == 0
    assert "lut_inputs: 4" in capsys.readouterr().out
    assert main(["technologies", "icf40"]) == 2
    assert "did you mean 'ice40'?" in capsys.readouterr().err


def test_what_cannot_be_calibrated_is_said(
    without_rules: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert costs_of(without_rules) is None
    assert main(["calibrate", "--target", without_rules]) == 2
    assert f"{without_rules}.yaml names no table" in capsys.readouterr().err
    assert main(["calibrate", "--target", without_rules, "--output", "x.json"]) == 2
    assert "its data file has no `rules`" in capsys.readouterr().err


def test_unsupported_tools_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "odd_fpga"
    package.mkdir()
    text = FPGA.replace("name: ice40", "name: odd").replace("tool: nextpnr-", "tool: nextpr-")
    (package / "odd.yaml").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    result = points(monkeypatch, ("odd", "odd_fpga"))
    for module in (registry, devices):
        monkeypatch.setattr(module, "technologies", lambda: result)
    with pytest.raises(InputError, match=r"odd\.yaml: .*'nextpr-ice40' .*did you mean 'nextpnr-ic"):
        devices.placer("odd")


def test_a_tree_drains_more_words_than_a_table_has() -> None:
    whole = fabric("xc7")
    assert whole is not None
    short = whole.model_copy(update={"drain": whole.drain[:5]})
    rows = np.arange(17)
    assert whole.drained(rows).tolist() == list(whole.drain)
    tree = whole.model_copy(update={"drain": ()}).drained(rows)
    assert short.drained(rows).tolist() == [*whole.drain[:5], *tree[5:]]


def test_both_parsers_read_the_same() -> None:
    for path in map(file_of, technologies()):
        assert read_document(path, quickly=True) == read_document(path), path.name
