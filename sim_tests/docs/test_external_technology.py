# SPDX-License-Identifier: Apache-2.0
"""The technology of ``docs/adding-a-technology.md`` works from a package of its own."""

from __future__ import annotations

import json
import re
import shlex
import typing
from pathlib import Path

import pytest
from pydantic import BaseModel

from flows.tools.toolchain import probe
from hwgen.technologies.fpga_model import Fpga
from hwgen.technologies.model import StandardCells
from sim_tests.docs.installed_page import DOCS, Installed, listings

PAGE = "adding-a-technology.md"
FIELDS = "technology-fields.md"
TITLES: dict[type[BaseModel], str] = {
    StandardCells: "kind: standard_cells",
    Fpga: "kind: fpga",
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install the page's package, with a cache and a calibration of its own."""
    directory = tmp_path_factory.mktemp("technology")
    result = Installed.of(PAGE, directory)
    (result.site / "core.yaml").rename(result.work / "core.yaml")
    result.variables |= {
        "HWGEN_CACHE_DIR": str(directory / "cache"),
        "HWGEN_PDK_DIR": str(directory / "none"),
    }
    return result


def commands() -> list[list[str]]:
    """Return the arguments of the page's ``hwgen`` commands, in order."""
    text = (DOCS / PAGE).read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)
    return [shlex.split(line)[1:] for block in blocks for line in block.splitlines()]


def test_the_page_lists_every_part() -> None:
    assert set(listings(PAGE)) == {
        "pyproject.toml",
        "tiny45/tiny45.lib",
        "tiny45/tiny45.yaml",
        "core.yaml",
    }
    assert [command[0] for command in commands()] == [
        "technologies",
        "synth",
        "calibrate",
        "estimate",
    ]


def groups(annotation: object) -> list[type[BaseModel]]:
    """Return the models that the type of a field holds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in typing.get_args(annotation) for model in groups(part)]


def tables() -> str:
    """Return the tables of the fields of a data file as the page has them; shared fields once."""
    lines: list[str] = []
    shared: set[str] = set()

    def table(title: str, model: type[BaseModel], listed: set[str], prefix: str) -> None:
        inner: dict[type[BaseModel], list[str]] = {}
        lines.extend(["", f"{title}:", "", "| field | needed | meaning |", "| --- | --- | --- |"])
        for name, info in model.model_fields.items():
            if name in listed:
                continue
            below = groups(info.annotation)
            text = info.description or (below[0].__doc__ or "").strip()
            for one in below:
                inner.setdefault(one, []).append(f"`{prefix}{name}`")
            lines.append(f"| `{name}` | {'yes' if info.is_required() else 'no'} | {text} |")
        for one, names in inner.items():
            table(" and ".join(names), one, set(), f"{names[0].strip('`')}.")

    for model, title in TITLES.items():
        table(f"`{title}`", model, shared - {"kind"}, "")
        shared |= set(model.model_fields)
    return "\n".join(lines).strip()


def test_the_page_explains_every_field() -> None:
    assert tables() in (DOCS / FIELDS).read_text(encoding="utf-8")


def test_schema_messages_and_lists_know_it(installed: Installed, tmp_path: Path) -> None:
    schema = json.loads(installed.run("schema").stdout)
    target = schema["$defs"]["systolic.Target"]["properties"]["technology"]
    assert {"tiny45", "nangate45", "gowin"} <= set(target["enum"])
    (entry,) = [
        entry
        for entry in json.loads(installed.run("technologies", "--json").stdout)
        if entry["name"] == "tiny45"
    ]
    assert (entry["kind"], entry["calibrated"]) == ("standard_cells", False)
    assert entry["liberty_files"] == [str(installed.site / "tiny45" / "tiny45.lib")]
    core = tmp_path / "core.yaml"
    core.write_text("name: core\nfamily: systolic\ntarget: {technology: tiny4}\n")
    said = installed.run("estimate", "--config", core, status=2).stderr
    assert f"{core}:3:10: target.technology: must be asap7, " in said
    assert "not 'tiny4' (did you mean 'tiny45'?)" in said


@pytest.mark.slow
@pytest.mark.rotate(8)
def test_the_commands_of_the_page(installed: Installed) -> None:
    if probe("yosys").installation is None:
        pytest.skip(probe("yosys").line)
    for command in commands():
        installed.run(*command)
    done = installed.run("estimate", "--config", "core.yaml", "--json")
    result = json.loads(done.stdout)
    assert result["calibrated"] is True
    measured = result["measured"]["figures"]["area_um2"]
    assert measured["estimated"] == pytest.approx(measured["measured"], rel=0.15)
    table = json.loads((installed.site / "tiny45" / "tiny45.json").read_text())
    assert table["name"] == "tiny45"


@pytest.mark.slow
def test_enables_become_cells_where_the_data_file_says_so(
    installed: Installed, tmp_path: Path
) -> None:
    """The page's library with a flip-flop that has an enable, in a package beside it."""
    if probe("yosys").installation is None:
        pytest.skip(probe("yosys").line)
    text = listings(PAGE)["tiny45/tiny45.lib"].rstrip().removesuffix("}")
    plain = text[text.index("  cell (DFF)") :]
    held = plain.replace("(DFF)", "(DFFE)").replace('"D"', '"(D & E) | (IQ & !E)"')
    enable = "    pin (E) { direction : input;  capacitance : 1.4; }\n"
    library = tmp_path / "enables.lib"
    library.write_text(text + held.replace("    pin (CK)", f"{enable}    pin (CK)", 1) + "}\n")
    data = installed.site / "tiny45" / "tiny45.yaml"
    before = data.read_text()
    arguments = ["synth", "--config", "core.yaml", "--liberty", library, "--json"]
    try:
        without = json.loads(installed.run(*arguments).stdout)
        data.write_text(f"{before}flip_flops: {{enables: true}}\n")
        result = json.loads(installed.run(*arguments).stdout)
    finally:
        data.write_text(before)
    assert "DFFE" not in without["cells"]
    assert result["cells"]["DFFE"] > 50
    assert result["cells"]["DFF"] + result["cells"]["DFFE"] == without["cells"]["DFF"]
    assert result["area_um2"] < without["area_um2"]
