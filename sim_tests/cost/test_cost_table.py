# SPDX-License-Identifier: Apache-2.0
"""A user's own table of costs as a technology."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from cost_model.netlist.components import COMPONENTS
from cost_model.timing.arcs import STEPS
from hwgen.errors import ConfigError
from hwgen.technologies import read
from hwgen.technologies.cost_table import ComponentCosts, CostTable, Step
from sim_tests.support.paths import DOCS

PAGE = (DOCS / "cost-table.md").read_text(encoding="utf-8")
TABLE = re.findall(r"^<!-- file: my-table.yaml -->\n```yaml\n(.*?)^```$", PAGE, re.M | re.S)[0]


def table(text: str, folder: Path) -> Path:
    path = folder / "my-table.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_table_has_all_components_and_steps() -> None:
    assert set(ComponentCosts.model_fields) == set(COMPONENTS)
    assert set(get_args(Step)) == set(STEPS)
    for name, (text, _) in COMPONENTS.items():
        assert f"| `{name}` | {text} |\n" in PAGE
        described = ComponentCosts.model_fields[name].description or ""
        assert described.rstrip(".").casefold() == text.casefold()
    assert all(f"| `{name}` | {text} |\n" in PAGE for name, text in STEPS.items())


REFUSED = {
    "negative": ("half_adder: 2,", "half_adder: -2,", r":9:3: area_um2\.half_adder: must be 0"),
    "text": ("half_adder: 2,", "half_adder: two,", r":9:\d+: area_um2\.half_adder: must be"),
    "infinite": ("half_adder: 2,", "half_adder: .inf,", r":9:\d+: area_um2\.half_adder: must be"),
    "missing": (" half_adder: 2,", "", r"area_um2\.half_adder: missing"),
    "unknown": ("half_adder: 2,", "half_adder: 2, halfadder: 2,",
                r":9:\d+: area_um2\.halfadder: .*did you mean 'half_adder'"),
    "no energies": ("energy_fj:", "power_fj:", r"energy_fj: missing"),
    "no source": ("source: synthesis of small blocks, process team, revision 3\n", "",
                  r"source: missing"),
    "step missing": ("gate: 0.015, ", "", r":\d+:\d+: delays\.ns: gate missing"),
    "step unknown": ("gate: 0.015, ", "gates: 0.015, ", r":\d+:\d+: delays\.ns"),
    "outside": ("outside: 0.2", "outside: 1.5", r":\d+:\d+: delays\.outside: must be 0\.\.0\.9"),
    "a library's field": ("delays:", "liberty: []\ndelays:", r"liberty: has no meaning"),
    "costs": ("delays:", "costs: x.json\ndelays:", r"costs: has no meaning"),
    "kind": ("kind: cost_table", "kind: table", r":2:\d+: kind: must be .* cost_table, not"),
    "another name": ("name: my-table", "name: mine", r":1:\d+: name: must be my-table"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), REFUSED.values(), ids=REFUSED)
def test_a_malformed_table_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in TABLE
    with pytest.raises(ConfigError) as refused:
        read(table(TABLE.replace(old, new, 1), tmp_path), "my-table")
    assert re.search(message, str(refused.value)), str(refused.value)


def run(folder: Path, *arguments: str, status: int = 0) -> str:
    environment = {**os.environ, "HWGEN_TECHNOLOGIES": str(folder), "COLUMNS": "120"}
    done = subprocess.run(
        [sys.executable, "-m", "hwgen", *arguments], cwd=folder, env=environment, text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def test_many_missing_keys_are_one_line(tmp_path: Path) -> None:
    text = re.sub(r"area_um2: {.*?}", "area_um2: {register_bit: 4.5}", TABLE, flags=re.S)
    text = re.sub(r"  ns: {.*?}", "  ns: {gate: 0.1}", text, flags=re.S)
    with pytest.raises(ConfigError) as refused:
        read(table(text, tmp_path), "my-table")
    lines = str(refused.value).splitlines()
    count = len(ComponentCosts.model_fields) - 1
    missing = (
        f"area_um2: {count} fields are missing: enable_bit, reset_bit, read_bit, adder_bit, ..."
    )
    steps = (
        f"delays.ns: {len(get_args(Step)) - 1} steps are missing: register, xor, mux, select, ..."
    )
    assert [line.partition(": ")[2] for line in lines] == [
        f"{missing}; see docs/cost-table.md", f"{steps}; see docs/cost-table.md",
    ]  # fmt: skip


@pytest.mark.rotate(6)
def test_what_needs_a_library_refuses_a_table(tmp_path: Path) -> None:
    table(TABLE, tmp_path)
    line = ["--target", "my-table"]
    (tmp_path / "a.yml").write_text("name: a\nfamily: systolic\narray: {rows: 2, cols: 2}\n")
    for arguments in (["synth", "-c", "a.yml", *line], ["calibrate", *line]):
        assert "my-table is not a standard-cell technology" in run(tmp_path, *arguments, status=2)
    assert "cost table" in run(tmp_path, "technologies")
    text = TABLE[: TABLE.index("leakage_nw")]
    table(text, tmp_path)
    said = run(tmp_path, "estimate", "-c", "a.yml", *line)
    assert re.search(r"Fmax +unknown", said)
    table(text.replace("xor_bit: 1.5", "xor_bit: -1"), tmp_path)
    said = run(tmp_path, "estimate", "-c", "a.yml", *line, status=2)
    assert re.search(r"my-table.yaml:\d+:\d+: area_um2.xor_bit: must be 0", said)


@pytest.mark.rotate(4)
def test_large_memories_without_macros_are_reported(tmp_path: Path) -> None:
    table(TABLE, tmp_path)
    array = "array: {rows: 2, cols: 2, dataflow: weight_stationary, accumulator_depth: DEPTH}\n"
    for depth, told in ((1024, True), (4, False)):
        core = f"name: a\nfamily: systolic\n{array.replace('DEPTH', str(depth))}"
        (tmp_path / "a.yml").write_text(core)
        said = run(tmp_path, "estimate", "-c", "a.yml", "--target", "my-table")
        assert ("note: my-table has no SRAM macros: 1 memory of" in said) == told


def test_costs_are_those_of_the_table(tmp_path: Path) -> None:
    tech = read(table(TABLE, tmp_path), "my-table")
    assert isinstance(tech, CostTable)
    assert tech.area_um2.half_adder == 2
    assert tech.leakage_nw is not None
    assert tech.delays is not None
    assert tech.delays.ns["register"] == 0.18
