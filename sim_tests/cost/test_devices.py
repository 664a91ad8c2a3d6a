# SPDX-License-Identifier: Apache-2.0
"""Named FPGA devices: what a core takes of one, and whether it fits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cost_model.configurations.metrics import shares
from flows.build.build import retarget
from flows.build.load import parse_config
from hwgen.cli import main
from hwgen.errors import ConfigError, InputError
from hwgen.technologies import devices, fpga_family, target_of, technology_of
from hwgen.technologies.utilization import smallest, utilization

CORE = "name: core\nfamily: systolic\narray: {rows: 4, cols: 4}\n"
SWEEP = """\
name: sweep
family: systolic
parameters: {array: {rows: {from: 4, to: 12, step: 4}, cols: array.rows}}
targets: TARGETS
specs: [SPEC]
objectives: {maximize: tops}
keep: all
"""


def test_device_sets_the_technology() -> None:
    core = parse_config(f"{CORE}target: {{device: xc7a100t}}\n")
    assert core.target.technology == "xc7"
    assert parse_config(f"{CORE}target: {{device: ecp5-85f, technology: ecp5}}\n")


def test_no_device_leaves_the_digest() -> None:
    assert "device" not in parse_config(CORE).resolved()["target"]


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("{device: ecp5-85}", r"4:10: target.device: .* \(did you mean 'ecp5-85f'\?\)"),
        ("{device: 3}", "4:10: target.device: must be text or null, not 3"),
        ("{technology: ice40, device: xck26}", "4:29: target.device: 'xck26' is of xcup, not of"),
        ("{technology: nangate45, device: xck26}", "4:33: target.device: .*there is: none"),
    ],
)
def test_devices_that_are_refused(target: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        parse_config(f"{CORE}target: {target}\n")


@pytest.mark.parametrize("name", devices())
def test_data_of_devices(name: str) -> None:
    family = fpga_family(str(technology_of(name)))
    device = family.devices[name]
    assert device.source
    assert device.luts >= 1000
    if device.placed_as:
        assert family.place_and_route
        assert device.placed_as in family.place_and_route.devices


def test_utilization() -> None:
    result = utilization("ecp5-25f", {"luts": 1000, "carries": 100, "dsps": 28, "flip_flops": 0})
    assert result["resources"]["luts"] == {"used": 1200, "available": 24288, "share": 1200 / 24288}
    assert result["fits"] is True
    assert utilization("ecp5-25f", {"luts": 0, "dsps": 29})["fits"] is False
    assert utilization("ecp5-25f", {"luts": None, "dsps": 29})["fits"] is False
    assert utilization("ecp5-25f", {"luts": None, "dsps": 2})["fits"] is None
    assert utilization("ice40hx8k", {"dsps": 1})["fits"] is False  # it has none


def test_verdict_says_what_is_lacking() -> None:
    verdict = {dsps: utilization("ecp5-85f", {"luts": 9, "dsps": dsps})["verdict"]
               for dsps in (256, 156, None)}  # fmt: skip
    assert verdict == {256: "no (256 of 156 DSP blocks)", 156: "yes", None: "unknown"}
    assert smallest("ecp5", {"luts": 30_000}) == "ecp5-45f"
    assert smallest("ecp5", {"dsps": 256}) == "ecp5-85f"
    assert smallest("nangate45", {}) is None


def test_one_warning_of_devices_that_are_nearly_full(run: Run, tmp_path: Path) -> None:
    assert utilization("ecp5-25f", {"luts": 19_000, "dsps": 22})["warning"] is None
    warning = utilization("ecp5-85f", {"luts": 9, "dsps": 144})["warning"]
    assert warning.startswith("the core needs 92 % of its DSP blocks on ecp5-85f; above 80 %")
    path, output = tmp_path / "core.yaml", tmp_path / "out"
    for rows, needs in ((5, "needs 89 % of its DSP blocks"), (13, "does not fit ecp5-25f")):
        path.write_text(f"name: core\nfamily: systolic\narray: {{rows: {rows}, cols: 5}}\n"
                        "target: {technology: ecp5-25f}\n")  # fmt: skip
        text = " ".join(run("estimate", "--config", str(path))[1].split())
        warning = json.loads(run("estimate", "--config", str(path), "--json")[1])["device"][
            "warning"
        ]
        assert needs in warning
        assert f"warning: {warning}" in text
        several = run("estimate", "--config", str(path), "--compare", str(path))[1]
        assert " ".join(several.split()).count(f"warning: {warning}") == 1
        code, out, err = run("build", "--config", str(path), "--output", str(output), "--json",
                             "--force")  # fmt: skip
        assert (code, err) == (0, f"warning: {warning}\n")
        assert json.loads(out)["warnings"] == [warning]


@pytest.mark.parametrize("name", devices())
def test_every_device_is_a_target(name: str) -> None:
    core = parse_config(f"{CORE}target: {{technology: {name}}}\n")
    assert (core.target.technology, core.target.device) == (technology_of(name), name)
    assert target_of(name.upper()) == (technology_of(name), name)
    assert retarget(parse_config(CORE).target, name).device == name
    assert retarget(core.target, "nangate45").device is None


@pytest.mark.parametrize("part", ["LFE5U-85F", "LFE5UM-85F-6BG381C", "lfe5u_85f"])
def test_part_numbers_suggest_their_device(part: str) -> None:
    with pytest.raises(InputError, match=r"did you mean 'ecp5-85f'\?"):
        target_of(part)


def test_one_total_of_look_up_tables(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "core.yaml"
    path.write_text("name: core\nfamily: systolic\narray: {rows: 13, cols: 13}\n")
    code, out, _ = run("estimate", "--config", str(path), "--target", "ecp5", "--json")
    assert code == 0
    entry = json.loads(out)
    used = entry["metrics"]["luts_used"]
    assert used == entry["device"]["resources"]["luts"]["used"] > entry["metrics"]["luts"]
    assert entry["device"]["verdict"] == "no (169 of 156 DSP blocks)"
    assert not entry["device"]["named"]
    code, out, _ = run("estimate", "--config", str(path), "--target", "ecp5-25f")
    assert code == 0
    assert "ecp5-25f: fits: no " in out
    assert "169 of 28 DSP blocks" in out
    assert "± 0.0 %" not in out
    # Parts add up to the totals, DSP blocks as well as look-up tables.
    lines = out.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("part "))
    assert re.split(r"  +", lines[first])[1:4] == ["LUTs", "%", "DSP blocks"]
    rows = [re.findall(r"[\d,.]+", line[:70]) for line in lines[first + 1 :] if "pe" in line]
    assert any("169" in row for row in rows)


def test_unknown_speed_is_not_a_clock_that_is_met(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "core.yaml"
    path.write_text(CORE)
    code, out, _ = run("estimate", "--config", str(path), "--target", "xck26")
    assert code == 0
    assert "Fmax" in out
    assert "unknown" in out
    assert "whether the clock" in " ".join(out.split())


def test_shares_agree_with_utilization() -> None:
    used = {"luts": 30000.0, "flip_flops": 10.0, "carries": 7.0, "dsps": 0.0, "brams": 3.0,
            "lutrams": 2.0}  # fmt: skip
    for name in devices():
        one, several = utilization(name, used), shares(name, used)
        assert bool(several["fits"] == 1) == one["fits"], name
        for resource, row in one["resources"].items():
            if row["share"] is not None:
                assert several[f"{resource}_share"] == pytest.approx(row["share"])


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command and returns its status, output and errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        return code, *capsys.readouterr()

    return run


def test_sweep_takes_devices_as_technologies(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    for targets, problem in (("{technology: [xck26, xczu3eg]}", ""),
                             ("{technology: [xck26, ecp5]}", "not both")):  # fmt: skip
        path.write_text(SWEEP.replace("TARGETS", targets).replace("SPEC", "fits"))
        options = ["--output", str(tmp_path / "out"), "--force", "--jobs", "1", "--json"]
        code, _, errors = run("sweep", "--config", str(path), *options)
        assert (code, problem in errors) == (2 if problem else 0, True)


def test_estimate_of_a_device(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "core.yaml"
    path.write_text(f"{CORE}target: {{device: xc7a35t}}\n")
    code, out, _ = run("estimate", "--config", str(path), "--json")
    assert code == 0
    entry = json.loads(out)
    assert entry["device"]["name"] == "xc7a35t"
    assert entry["device"]["fits"] is True
    assert entry["metrics"]["fits"] == 1
    assert entry["clock_basis"] == "assumed"
    assert entry["certainty"]["tops"] == {"basis": "assumed"}
    code, out, _ = run("estimate", "--config", str(path))
    assert code == 0
    assert "xc7a35t: fits" in out
    assert "no speed of this core in xc7 is known" in " ".join(out.split())
    code, out, _ = run("estimate", "--config", str(path), "--json", "--target", "nangate45")
    assert json.loads(out)["device"] is None
    assert json.loads(out)["clock_basis"] in ("asked for", "fmax")


def _sweep(run: Run, tmp_path: Path, targets: str, spec: str) -> tuple[int, str, str]:
    path = tmp_path / "sweep.yaml"
    path.write_text(SWEEP.replace("TARGETS", targets).replace("SPEC", spec))
    return run(
        "sweep", "--config", str(path), "--output", str(tmp_path / "out"), "--jobs", "1", "--json"
    )


def test_sweep_over_devices(run: Run, tmp_path: Path) -> None:
    code, out, err = _sweep(run, tmp_path, "{device: [ecp5-25f, xc7a35t]}", "fits")
    assert code == 0, err
    summary = json.loads(out)
    # 64 products of 8 bits take more DSP blocks than the smaller device has.
    assert summary["best"][0]["parameters"]["target.device"] == "xc7a35t"
    assert summary["removed"]["specs"][0]["points"] > 0
    assert summary["assumed_clock"] == summary["kept"]
    config = next((tmp_path / "out" / "configs").glob("*.yaml")).read_text()
    assert "device: xc7a35t" in config
    assert parse_config(config).target.technology == "xc7"


@pytest.mark.parametrize(
    ("targets", "spec", "text"),
    [
        ("{device: ecp5-12}", "fits", "4:11: targets.device: must be the name of a device"),
        ("{device: ecp5-12f, technology: ice40}", "fits", "'ecp5-12f' is of ecp5, not of ice40"),
        ("{technology: ecp5}", "fits", "fits is of a device: add `targets: "),
        ("{device: ecp5-12f}", "fits > 1 +", "specs"),
    ],
)
def test_sweeps_that_are_refused(
    run: Run, tmp_path: Path, targets: str, spec: str, text: str
) -> None:
    code, _, err = _sweep(run, tmp_path, targets, spec)
    assert code == 2
    assert text in err
