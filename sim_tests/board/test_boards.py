# SPDX-License-Identifier: Apache-2.0
"""Data files of boards: each fits a device that there is, and broken ones are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hwgen.board.registry import board, boards
from hwgen.cli import main
from hwgen.errors import ConfigError, InputError
from hwgen.technologies import fpga_family, technology_of

BROKEN = """\
name: {name}
summary: a board
device: {device}
package: p
clock: {{pin: "1", mhz: {mhz}}}
uart: {{rx: "2", tx: "{tx}"}}
constraints: {{pin: "{line}"}}
bitstream: bit
loader: x
source: nowhere
"""


def test_there_are_six_boards_of_four_families() -> None:
    families = {technology_of(board(name).device) for name in boards()}
    assert len(boards()) >= 6
    assert len(families) >= 4


@pytest.mark.parametrize("name", boards())
def test_device_package_and_speed_are_those_of_place_and_route(name: str) -> None:
    data = board(name)
    own = technology_of(data.device)
    assert own is not None
    family = fpga_family(own)
    placer = family.place_and_route
    assert placer is not None
    device = family.devices[data.device].placed_as
    assert device is not None
    assert data.package in placer.devices[device]
    assert data.speed is None or data.speed in placer.speeds
    assert bool(placer.speeds) == bool(data.speed)


@pytest.mark.parametrize("name", boards())
def test_the_constraints_name_every_pin_once(name: str) -> None:
    data = board(name)
    text = data.constraint_file()
    for port, pin in data.pins.items():
        assert sum(port in line and pin in line for line in text.splitlines()) >= 1
    assert len(set(data.pins.values())) == len(data.pins)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "other"}, "must be mine, as its entry point or file says"),
        ({"device": "ecp5-99f"}, "no device is called"),
        ({"tx": "2"}, "2 is used more than once"),
        ({"line": "{port} {site}"}, "{site} is none of {port}, {pin}, {standard}"),
        ({"line": "{port"}, "constraints.pin"),
        ({"mhz": "fast"}, "clock.mhz"),
    ],
)
def test_a_broken_file_is_refused(
    changes: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"name": "mine", "device": "ecp5-25f", "mhz": "25", "tx": "3", "line": "{port} {pin}"}
    (tmp_path / "mine.yaml").write_text(BROKEN.format(**values | changes))
    monkeypatch.setenv("HWGEN_BOARDS", str(tmp_path))
    with pytest.raises(ConfigError) as error:
        board("mine")
    assert message in str(error.value)
    assert "mine.yaml" in str(error.value)


def test_a_board_of_a_directory_is_one_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"name": "mine", "device": "ecp5-25f", "mhz": "25", "tx": "3", "line": "{port} {pin}"}
    (tmp_path / "mine.yaml").write_text(BROKEN.format(**values))
    monkeypatch.setenv("HWGEN_BOARDS", str(tmp_path))
    assert board("mine").constraint_file() == "clk 1\nrx 2\ntx 3\n"
    monkeypatch.setenv("HWGEN_BOARDS", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="is not a directory"):
        boards()


def test_an_unknown_board_is_answered_with_a_near_one() -> None:
    with pytest.raises(InputError, match="did you mean 'icebreaker'"):
        board("icebraker")


def test_the_list_has_every_board(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["board", "list", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in entries] == list(boards())
    assert all({"clk", "rx", "tx"} <= entry["pins"].keys() for entry in entries)
    assert main(["board", "list"]) == 0
    table = capsys.readouterr().out
    assert all(name in table for name in boards())
