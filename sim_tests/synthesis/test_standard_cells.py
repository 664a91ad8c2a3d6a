# SPDX-License-Identifier: Apache-2.0
"""Liberty preparation and mapping to standard cells."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from flows.bench import area, common
from flows.synthesis import liberty
from flows.synthesis import standard_cells as synthesis
from flows.synthesis.liberty import Cell
from flows.tools import process
from flows.tools.toolchain import Installation, probe
from hwgen.errors import CheckFailed, InputError, ToolMissing
from hwgen.families.systolic.params import SystolicConfig
from hwgen.technologies import cell_library
from sim_tests.support.designs import design_of

COMBINATIONAL = """\
/* a brace in a comment: { */
library ("first") {
  comment : "a brace in a string: {";
  capacitive_load_unit (2,pf);
  default_wire_load : "large";
  wire_load ("large") { resistance : 1; }
  lu_table_template (table) { index_1 ("1, 2"); }
  cell (INV) {
    area : 1.5;
    pin (A) { direction : input; capacitance : 0.001; }
    pin (Y) { direction : "output"; function : "!A"; }
  }
  cell (FILL_1) { area : 9; }
}
"""
SEQUENTIAL = """\
library (second) {
  lu_table_template (table) {
    index_1 ("1, 2");
  }
  cell ("DFF") { area : 6; ff (IQ, IQN) { clocked_on : "C"; } }
}
"""


def test_liberty_texts_become_one_library() -> None:
    library = liberty.prepare([COMBINATIONAL, SEQUENTIAL], ["FILL_*"])
    assert dict(library.cells) == {"INV": Cell(1.5, False, {"A": 2.0}), "DFF": Cell(6.0, True)}
    assert "wire_load" not in library.text
    assert "FILL" not in library.text
    assert library.text.count("lu_table_template") == 1
    # What came out is a library again, the same one.
    assert liberty.prepare([library.text]) == library


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it has no library"),
        ("module top; endmodule", "it has no library"),
        (COMBINATIONAL.rstrip()[:-1], "ends within a group"),
        (COMBINATIONAL.replace("cell (INV)", "cell"), "a group has no name: line 8"),
        (COMBINATIONAL.replace("1.5", "1e"), "cell INV: its area"),
        (COMBINATIONAL.replace("2,pf", "2,apples"), "unit of capacitance"),
    ],
)
def test_what_is_not_liberty_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"^x\.lib: .*{message}"):
        liberty.prepare([text], [], ["x.lib"])


def test_libraries_must_belong_together() -> None:
    with pytest.raises(InputError, match="cell DFF is there twice"):
        liberty.prepare([SEQUENTIAL, SEQUENTIAL])
    with pytest.raises(InputError, match="lu_table_template"):
        liberty.prepare([COMBINATIONAL, SEQUENTIAL.replace("1, 2", "1, 3")])


def test_files_are_read_compressed_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tech = cell_library("nangate45")
    monkeypatch.setenv("HWGEN_PDK_DIR", str(tmp_path))
    with pytest.raises(ToolMissing, match=r"nangate45_typ\.lib .*Set HWGEN_PDK_DIR .*--liberty"):
        liberty.liberty_files(tech)
    packed = tmp_path / "nangate45_typ.lib.gz"
    packed.write_bytes(gzip.compress(COMBINATIONAL.encode()))
    assert liberty.liberty_files(tech) == (packed,)
    assert liberty.read(packed) == COMBINATIONAL
    with pytest.raises(InputError, match="not the library of nangate45, cells BUF_X2"):
        liberty.load("nangate45")
    packed.write_bytes(packed.read_bytes()[:40])
    with pytest.raises(InputError, match="cannot be read"):
        liberty.read(packed)
    with pytest.raises(InputError, match="no such Liberty file"):
        liberty.liberty_files(tech, [tmp_path / "other.lib"])


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'nangate45'"):
        cell_library("nangate")
    with pytest.raises(InputError, match="'quick' is not a recipe"):
        synthesis.map_core("", "top", "nangate45", "quick", 1000)
    with pytest.raises(InputError, match="no full-adder cell"):
        synthesis.map_core("", "top", "ihp-sg13g2", "nf", 1000, full_adders=True)


def test_a_tool_that_hangs_is_killed(tmp_path: Path) -> None:
    sleeper = Installation("sleeper", (), "sleeper", "override", ("/bin/sh", "-c"))
    with pytest.raises(CheckFailed, match=r"took more than 0\.3 s:\nstarted"):
        process.run(sleeper, ["echo started; sleep 60 & wait"], tmp_path, "log", 0.3)
    with pytest.raises(CheckFailed, match=r"failed.*:\nERROR: that"):
        process.run(sleeper, ["echo this; echo ERROR: that; exit 1"], tmp_path, "log", 10)


def test_the_goal_of_the_benchmark() -> None:
    def row(um2: float, ns: float | None) -> common.Row:
        return {"array": "output_stationary", "um2 per PE": um2, "ns": ns,
                "worst path ends at": "no timer"}  # fmt: skip

    assert area.verdict([row(700, 1.9), row(940, 1.7), row(960, 1.6)])[0] is True
    assert area.verdict([row(700, 1.9), row(960, 1.6)])[0] is False
    assert area.verdict([row(700, 1.9)])[0] is False
    met, sentence = area.verdict([row(700, None)])
    assert met is None
    assert "no timer" in sentence


def require_pdk(name: str) -> None:
    """Skip the test unless the Liberty files and Yosys are there."""
    try:
        liberty.liberty_files(cell_library(name))
    except ToolMissing as missing:
        pytest.skip(str(missing))
    status = probe("yosys")
    if status.installation is None:
        pytest.skip(status.line)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("technology", "recipe", "full_adders", "clock_ps"),
    [
        ("nangate45", "nf", False, 1000.0),
        ("nangate45", "speed", True, 1000.0),
        ("asap7", "area", True, 500.0),
        ("sky130hd", "nf", True, 4000.0),
        ("ihp-sg13g2", "nf", False, 4000.0),
    ],
)
@pytest.mark.rotate(9)
def test_a_small_array_maps(
    technology: str, recipe: str, full_adders: bool, clock_ps: float, tmp_path: Path
) -> None:
    require_pdk(technology)
    config = SystolicConfig.model_validate(
        {
            "name": "tiny",
            "family": "systolic",
            "activation": "int4",
            "weight": "int4",
            "accumulator": "int16",
            "array": {"rows": 2, "cols": 2},
        }
    )
    mapped = synthesis.map_core(
        design_of(config).verilog,
        "tiny",
        technology,
        recipe,
        clock_ps,
        ("tiny_pe", "tiny_drain"),
        full_adders=full_adders,
        work=tmp_path / "a directory",
    )
    assert {name: part.count for name, part in mapped.parts.items()} == {
        "tiny": 1,
        "tiny_pe": 4,
        "tiny_drain_x2": 2,
    }
    parts = sum(part.count * part.area for part in mapped.parts.values())
    assert mapped.area == pytest.approx(parts, rel=0.005)  # but for the cells of constants
    registers = sum(part.count * part.sequential for part in mapped.parts.values())
    assert mapped.sequential_area == pytest.approx(registers)
    assert 0.1 < mapped.sequential_area / mapped.area < 0.9
    adder = cell_library(technology).full_adder
    if adder:
        assert (adder.cell in mapped.cells) == full_adders
    json.dumps(mapped.document())
    if mapped.timing is None:
        assert "opensta" in mapped.note
    else:
        assert 0.1 < mapped.timing.path_ns < 10
        assert mapped.timing.end[0] != "_"


@pytest.mark.slow
def test_verilog_that_is_none_is_reported() -> None:
    require_pdk("nangate45")
    with pytest.raises(CheckFailed, match="yosys failed"):
        synthesis.map_core("module top(input aclk); oops", "top", "nangate45", "nf", 1000)
