# SPDX-License-Identifier: Apache-2.0
"""Kept results: found if they are about the same hardware and tools, and only then."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from flows.build import fingerprint
from flows.build.design import Design
from flows.build.load import parse_config
from flows.calibration import mapping_cache
from flows.synthesis import synth_cache as kept
from flows.synthesis.mapping import Job, Method
from flows.synthesis.result import SynthesisResult
from flows.synthesis.standard_cells import Mapped, Part
from flows.synthesis.synth import synthesize
from flows.synthesis.synth_cache import cached_results
from flows.synthesis.verify import cached_result, pair_metrics
from flows.tools.cache import Archive, Document, text_digest
from hwgen.cli import main
from hwgen.core.registry import core_of

SOURCE = """\
name: tiny
family: systolic
activation: int4
weight: int4
array: {rows: 2, cols: 2}
"""
CONFIG = parse_config(SOURCE)
CORE = core_of(CONFIG)
TECH = "nangate45"
LIBRARY = "nangate45_typ.lib"


@dataclass
class Tools:
    """Stand-ins for what emits Verilog and maps it."""

    verilog: str = "module tiny; endmodule\n"
    versions: dict[str, str] = field(default_factory=lambda: {"yosys": "1"})
    emitted: int = 0
    mapped: list[Method] = field(default_factory=list)

    def emit(self, units: Any) -> str:
        self.emitted += 1
        return self.verilog

    def map(self, job: Job, options: Method, work: Path) -> SynthesisResult:
        self.mapped.append(options)
        return SynthesisResult(
            name=job.top, target=job.target, recipe=options.recipe, full_adders=options.full_adders,
            hierarchy=options.hierarchy, clock_target_mhz=job.clock_mhz, area_um2=2000.0,
            sequential_area_um2=800.0, combinational_area_um2=1200.0, modules=(), cells={},
            flip_flops=212, luts=None, carries=None, wide_muxes=None, dsps=None, brams=None,
            lutrams=None, urams=None, bram_kbit=None, critical_path_ns=1.25, logic_levels=None,
            path_start=None, path_end=None, timing_source="opensta", timing_note="",
            fmax_mhz=800.0, tools={}, library={}, wall_seconds=0.0,
            source_digest=text_digest(job.verilog, 64), netlist_digest="", scripts=(),
            files={"netlist.v": b"module"},
        )  # fmt: skip


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    """Replace the tools; an empty cache, and a Liberty file."""
    fake = Tools()
    monkeypatch.setenv("HWGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HWGEN_PDK_DIR", str(tmp_path / "pdk"))
    (tmp_path / "pdk").mkdir()
    (tmp_path / "pdk" / LIBRARY).write_text("library (a) {}")
    monkeypatch.setattr("flows.build.verilog.rtlil_to_verilog", fake.emit)
    monkeypatch.setattr("flows.synthesis.synth.require", lambda name: None)
    monkeypatch.setattr(kept, "tool_versions", lambda names: dict(fake.versions))
    monkeypatch.setattr(kept, "map_design", fake.map)
    return fake


def test_a_result_is_cached(tools: Tools, tmp_path: Path) -> None:
    assert cached_results(Design(CORE), TECH) == []
    assert tools.emitted == 0, "looking emits nothing"
    result = synthesize(Design(CORE), TECH)
    assert cached_results(Design(CORE), TECH) == [result]
    assert cached_results(Design(CORE), "asap7") == cached_results(Design(CORE), "ecp5") == []
    assert cached_results(Design.of(CONFIG.model_copy(update={"max_k": 128})), TECH) == []
    assert synthesize(Design(CORE), TECH) == result
    assert (tools.emitted, len(tools.mapped)) == (2, 1)
    assert list(result.library) == [LIBRARY]
    # The same library elsewhere is the same library.
    other = tmp_path / "other.lib"
    (tmp_path / "pdk" / LIBRARY).rename(other)
    assert cached_results(Design(CORE), TECH) == []
    assert synthesize(Design(CORE), TECH, liberty_files=[other]) == result
    assert len(tools.mapped) == 1


def test_a_library_that_was_chosen_counts(tools: Tools, tmp_path: Path) -> None:
    chosen = tmp_path / "chosen.lib"
    chosen.write_text("library (chosen) {}")
    result = synthesize(Design(CORE), TECH, liberty_files=[chosen])
    assert cached_results(Design(CORE), TECH) == [result]
    chosen.unlink()
    assert cached_results(Design(CORE), TECH) == []


@pytest.mark.parametrize("what", ["tool", "library", "flow", "entry", "version"])
def test_a_stale_result_is_not_used(
    tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    synthesize(Design(CORE), TECH)
    (path,) = (tmp_path / "cache" / "synth" / TECH).rglob("*.zip")
    if what == "tool":
        tools.versions["yosys"] = "2"
    elif what == "library":
        (tmp_path / "pdk" / LIBRARY).write_text("library (b) {}")
    elif what == "flow":
        monkeypatch.setattr(kept, "sources_digest", lambda: "changed")
    elif what == "entry":
        path.write_bytes(path.read_bytes()[:-20])
    else:  # a result with fields that are no longer known
        entry = Archive(f"synth/{TECH}/{path.parent.name}", path.stem)
        entry.write({"result": {**entry.read()["result"], "colour": 1}, "liberty": []}, {"x": b""})
    assert cached_results(Design(CORE), TECH) == []
    result = synthesize(Design(CORE), TECH)
    assert len(tools.mapped) == 2
    assert cached_results(Design(CORE), TECH) == [result]


def test_hardware_that_changed_within_a_version(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = synthesize(Design(CORE), TECH)
    monkeypatch.setattr(fingerprint, "_sources_digest", lambda: "another generator")
    tools.verilog = "module tiny; wire changed; endmodule\n"
    assert cached_results(Design(CORE), TECH) == [], "of a generator that has emitted nothing yet"
    new = synthesize(Design(CORE), TECH)
    assert cached_results(Design(CORE), TECH) == [new]
    assert old.source_digest != new.source_digest
    # A change that leaves the hardware as it is costs no second mapping.
    monkeypatch.setattr(fingerprint, "_sources_digest", lambda: "a third one")
    assert synthesize(Design(CORE), TECH) == new
    assert cached_results(Design(CORE), TECH) == [new]
    assert len(tools.mapped) == 2


def test_sources_of_generators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_family"
    package.mkdir()
    for name in ("__init__.py", "rtl.py", "table.json", "notes.txt"):
        (package / name).write_text("")
    (tmp_path / "lone_family.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    names = [name for name, _ in fingerprint.sources("some_family")]
    assert names == ["__init__.py", "rtl.py", "table.json"]
    assert [name for name, _ in fingerprint.sources("lone_family")] == ["lone_family.py"]
    assert list(fingerprint.sources("no_family")) == []
    monkeypatch.setenv("YOSYS", "")
    monkeypatch.setenv("AMARANTH_USE_YOSYS", "builtin")
    assert "builtin" in fingerprint.converter_versions()[-1]


def test_which_result_is_compared(tools: Tools) -> None:
    speed = synthesize(Design(CORE), TECH, clock_mhz=500, recipe="speed")
    assert cached_result(Design(CORE), TECH, 700) == speed
    usual = synthesize(Design(CORE), TECH, clock_mhz=500)
    assert cached_result(Design(CORE), TECH, 700) == usual
    faster = synthesize(Design(CORE), TECH, clock_mhz=600, recipe="area")
    assert cached_result(Design(CORE), TECH, 700) == faster
    assert cached_result(Design(CORE), TECH, 500) == usual
    figures = pair_metrics({"area_mm2": 0.0019, "fmax_mhz": None, "luts": 3}, usual)
    assert figures["area_um2"]["estimated"] == pytest.approx(1900)
    assert figures["area_um2"]["difference_percent"] == pytest.approx(-5)
    unknown = {"estimated": None, "measured": 800.0, "difference_percent": None}
    assert figures["fmax_mhz"] == unknown
    assert set(figures) == {"area_um2", "fmax_mhz", "flip_flops"}
    assert pair_metrics({"dsps": 0}, replace(usual, dsps=0))["dsps"]["difference_percent"] is None


def test_estimate_shows_measured_results(
    tools: Tools, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(SOURCE)
    arguments = ["estimate", "--config", str(path)]
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["measured"] is None
    assert main(arguments) == 0
    assert "measured" not in capsys.readouterr().out
    assert tools.emitted == 0
    result = synthesize(Design(CORE), TECH)
    assert main([*arguments, "--json"]) == 0
    actual = json.loads(capsys.readouterr().out)
    measured, area = actual["measured"], actual["metrics"]["area_mm2"]
    assert (measured["recipe"], measured["clock_target_mhz"]) == ("nf", 500)
    assert measured["tools"] == {"yosys": "1"}
    assert measured["library"] == result.library
    assert measured["figures"]["area_um2"]["measured"] == 2000
    assert measured["figures"]["area_um2"]["estimated"] == pytest.approx(area * 1e6)
    assert main([*arguments, "--compare", str(path)]) == 0
    text = capsys.readouterr().out
    assert text.count("recipe nf, full adders, repeated modules kept, 500 MHz asked for") == 2
    assert "yosys 1" in text
    assert LIBRARY in text
    assert main([*arguments, "--target", "ecp5"]) == 0
    assert "measured" not in capsys.readouterr().out
    assert (tools.emitted, len(tools.mapped)) == (1, 1)


def test_an_estimate_needs_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "tiny.yaml").write_text(SOURCE)
    monkeypatch.setenv("HWGEN_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert main(["estimate", "--config", str(tmp_path / "tiny.yaml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["measured"] is None


def test_documents_are_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWGEN_CACHE_DIR", str(tmp_path))
    document = Document("test", "name")
    assert document.read() is None
    document.write({"a": 1})
    assert document.read() == {"a": 1}
    assert [path.name for path in (tmp_path / "test").iterdir()] == ["name.json"]
    document.path.write_text("{")
    assert document.read() is None
    (tmp_path / "full").write_text("")
    Document("full", "name").write(1)  # a file is where the folder should be


def test_cached_mappings_keep_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour of mappings is in users' caches, under names that a change here must not change."""
    mapped = Mapped(
        TECH, "nf", True, 500.0, 2.0, 1.0, {"x": Part(1, 2.0, 1.0)}, {"DFF_X1": 2}, None, "none"
    )
    runs: list[str] = []

    def map_core(*arguments: Any, **options: Any) -> Mapped:
        runs.append(str(arguments[1]))
        return mapped

    monkeypatch.setenv("HWGEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(mapping_cache, "_flow", lambda: "flow")
    monkeypatch.setattr(mapping_cache, "_library", lambda technology, chosen: "library")
    monkeypatch.setattr(mapping_cache, "map_core", map_core)
    for _ in range(2):
        result = mapping_cache.map_cached(
            "module x; endmodule\n", "x", TECH, "nf", 500.0, ("pe",), full_adders=True
        )
        assert result == mapped
    assert runs == ["x"]
    (path,) = (tmp_path / "mapped").iterdir()
    assert path.name == "3bef99b537c25c77fce2a472.json"
