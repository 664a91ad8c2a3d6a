# SPDX-License-Identifier: Apache-2.0
"""Clocks of phase-locked loops: their settings, boards that run on them, and the choice of one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flows.board import build
from flows.board.build import build_fastest, pll_of, with_clock
from flows.board.simulation import SimulatedBoard, compile_board
from hwgen.board import BoardError, connect
from hwgen.board.pll import GRID_HZ, Pll, pll_below, plls
from hwgen.board.registry import board, boards
from hwgen.cli import main
from hwgen.errors import CheckFailed, InputError
from rtl_templates.board.pll import model
from sim_tests.board.simulated import TINY, simulated, tiny
from sim_tests.board.test_build import routed
from sim_tests.board.test_link import check


def output_hz(pll: Pll, input_hz: int) -> float:
    """Return the frequency that the settings make, by the data sheets' equations."""
    values: dict[str, Any] = dict(pll.parameters)
    if pll.primitive == "SB_PLL40_PAD":
        return input_hz / (values["DIVR"] + 1) * (values["DIVF"] + 1) / 2 ** values["DIVQ"]
    if pll.primitive == "EHXPLLL":
        assert 400e6 <= pll.hz * values["CLKOP_DIV"] <= 800e6
        return input_hz / values["CLKI_DIV"] * values["CLKFB_DIV"]
    if pll.primitive == "rPLL":
        assert 400e6 <= pll.hz * values["ODIV_SEL"] <= 1200e6
        assert float(values["FCLKIN"]) * 1e6 == input_hz
        return input_hz / (values["IDIV_SEL"] + 1) * (values["FBDIV_SEL"] + 1)
    assert float(values["REF_CLK"]) * 1e6 == input_hz
    return 1e6 * float(values["OUT_CLK"])


@pytest.mark.parametrize("mhz", [12.5, 37.5, 50, 62.5, 100])
def test_a_second_output_has_twice_the_frequency(mhz: float) -> None:
    data = board("ulx3s-85f")
    pll = pll_of(data, mhz)
    assert pll is not None
    for phase in (pll.phases_ns[0], pll.phases_ns[len(pll.phases_ns) // 3]):
        double = pll.doubled(phase)
        values: dict[str, Any] = dict(double.parameters)
        assert output_hz(double, data.clock_hz) == pll.hz == 1e6 * mhz
        assert values["CLKOP_DIV"] == 2 * values["CLKOS_DIV"]
        assert values["CLKOP_CPHASE"] == values["CLKOP_DIV"] - 1  # in phase
        cycles = values["CLKOS_CPHASE"] - (values["CLKOS_DIV"] - 1) + values["CLKOS_FPHASE"] / 8
        assert cycles * 1e9 / (pll.hz * values["CLKOP_DIV"]) == pytest.approx(phase)
        assert values["CLKOS_CPHASE"] < 128


@pytest.mark.parametrize("name", boards())
def test_settings_make_the_frequency(name: str) -> None:
    data = board(name)
    assert data.pll is not None
    made = list(plls(data.pll, data.clock_hz))
    assert len(made) > 40
    assert len({pll.hz for pll in made}) == len(made)
    for pll in made:
        assert output_hz(pll, data.clock_hz) == pll.hz
        assert pll.hz % GRID_HZ == 0
    limit = 1.7 * data.clock_hz
    best = pll_below(data.pll, data.clock_hz, limit)
    assert 1.2 * data.clock_hz < best.hz <= limit
    with pytest.raises(InputError, match=r"makes no clock of 0\.01 MHz or less"):
        pll_below(data.pll, data.clock_hz, 1e4)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "ulx3s-85f" else pytest.mark.rotate(12))
        for name in boards()
    ],
)
def test_a_board_runs_jobs_with_its_pll(name: str) -> None:
    design = with_clock(tiny(name=name, baud=1_000_000), 1.9 * board(name).clock.mhz)
    assert design.pll is not None
    assert design.pll.primitive in design.verilog
    with simulated(design) as line:
        check(connect(line, design.design.core, timeout=0.005), design.design.core)


def test_a_pll_that_does_not_lock_is_an_error_soon() -> None:
    design = with_clock(tiny(name="ulx3s-85f", baud=1_000_000), 40)
    assert design.pll is not None
    sound = model(design.pll)
    broken = design.verilog + model(design.pll, locks=False)
    assert sound in design.models

    class Without(type(design)):  # type: ignore[misc]
        models = ""

    bare = Without(**{name: getattr(design, name) for name in design.__dataclass_fields__})
    library = compile_board(bare, verilog=broken, cycles=1)
    with SimulatedBoard(bare, library=library) as line:
        line.run(0.0005)
        assert not line.lit
        with pytest.raises(BoardError, match="does not answer"):
            connect(line, design.design.core, timeout=0.001, retries=2)


# -- the choice ----------------------------------------------------------------------------------


def chosen(monkeypatch: pytest.MonkeyPatch, reach: Any) -> Any:
    """Let `reach` say what place and route reaches for a clock in MHz, and return the build."""
    design = tiny()
    monkeypatch.setattr(
        build, "place_and_route", lambda *_, clock_mhz, **__: routed(reach(clock_mhz))
    )
    monkeypatch.setattr(build, "bitstream", lambda result: b"bits")
    return build_fastest(design)


def test_the_fastest_clock_that_is_met_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    built = chosen(monkeypatch, lambda mhz: 30.0)
    assert built.design.pll is not None
    assert 29 < built.design.clock_mhz <= 30
    assert built.document["clock_mhz"] == built.design.clock_mhz
    assert [reached for _, reached in built.tried] == [30.0] * len(built.tried)
    assert len(built.tried) <= build.CLOCKS
    slow = chosen(monkeypatch, lambda mhz: 100.0 if mhz < 60 else 50.0)
    assert slow.design.clock_mhz < 60
    assert slow.document["pll"]["FEEDBACK_PATH"] == "SIMPLE"


def test_a_clock_that_is_never_met_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckFailed, match=r"not the [\d.]+ MHz of its clock.*slower clock"):
        chosen(monkeypatch, lambda mhz: 0.97 * mhz)
    with pytest.raises(InputError, match="SB_PLL40_PAD makes no clock of"):
        chosen(monkeypatch, lambda mhz: 5.0)


def test_the_clock_of_the_board_needs_no_pll() -> None:
    assert with_clock(tiny(), 12).pll is None
    without = tiny().board.model_copy(update={"pll": None})
    with pytest.raises(InputError, match="names no PLL"):
        with_clock(replace(tiny(), board=without), 24)
    with pytest.raises(InputError, match="made by a PLL or divided, not both"):
        with_clock(tiny(baud=100_000, divider=2), 24)


@pytest.mark.parametrize("value", ["fast", "0", "-3", "nan", "2000"])
def test_a_clock_that_is_none_is_refused(
    value: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY)
    arguments = ["board", "test", "--board", "icebreaker", "-c", "tiny.yaml", "--clock"]
    assert main([*arguments, value]) == 2
    assert "must be a frequency in MHz" in capsys.readouterr().err
    assert main([*arguments, "auto"]) == 2
    assert "is for build" in capsys.readouterr().err
