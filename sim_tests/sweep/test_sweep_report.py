# SPDX-License-Identifier: Apache-2.0
"""The page of a sweep: in a JavaScript engine with a small document, and in a browser.

The browser is the machine's Chromium, or the one that ``playwright install chromium`` has put
there; without any, its tests are skipped and say so.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from py_mini_racer import MiniRacer

from hwgen.cli import main
from sim_tests.sweep.sweep_costs import use_made_up_costs

SWEEP = """\
name: page
families:
  ternary_lut:
    parameters: {array: {group_size: [1, 2, 3], tables: {from: 1, to: 64, log: 2}}}
  systolic:
    parameters: {array: {rows: {from: 64, to: 256, step: 16}, cols: 64}}
parameters: {activation: [int4, int8]}
workloads: {decode: [{m: 1, k: 768, n: 768}]}
objectives: {minimize: [area_mm2, latency_ms(decode)], maximize: [tops]}
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of a sweep of made-up costs."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "sweep.yaml").write_text(SWEEP)
    with pytest.MonkeyPatch.context() as patch:
        use_made_up_costs(patch)
        arguments = ["--config", str(folder / "sweep.yaml"), "--output", str(folder / "out")]
        assert main(["sweep", *arguments, "--jobs", "1"]) == 0
    return folder / "out" / "report.html"


@pytest.fixture(scope="module")
def data(page: Path) -> dict[str, Any]:
    """Return the data in the page."""
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text())
    assert match
    result: dict[str, Any] = json.loads(match[1])
    return result


def test_the_page_holds_everything_and_loads_nothing(page: Path, data: dict[str, Any]) -> None:
    text = page.read_text()
    assert not re.search(r"(src|href)\s*=|https?://(?!www\.w3\.org/2000/svg)|@import|url\(", text)
    summary = json.loads((page.parent / "summary.json").read_text())
    assert len(data["rows"]) == summary["kept"]
    names = [column["name"] for column in data["columns"]]
    assert {"area_mm2", "latency_ms(decode)", "array.rows", "config", "pareto"} <= set(names)
    assert data["breakdowns"]["area_mm2"] == [
        {"name": "area_mm2[tables]", "part": "tables"},
        {"name": "area_mm2[columns]", "part": "columns"},
    ]


# -- logic ---------------------------------------------------------------------------------------


class Logic:
    """Calls functions of the page's ``Logic`` with plain data."""

    def __init__(self) -> None:
        self.engine = MiniRacer()
        asset = files("cost_model.sweep.output") / "page" / "logic.js"
        self.engine.eval(asset.read_text(encoding="utf-8").replace("const Logic", "var Logic"))

    def __call__(self, expression: str, **values: Any) -> Any:
        given = "".join(f"var {k} = {json.dumps(v)};" for k, v in values.items())
        return json.loads(str(self.engine.eval(f"{given} JSON.stringify({expression})")))


@pytest.fixture(scope="module")
def logic() -> Iterator[Logic]:
    result = Logic()
    yield result
    result.engine.close()


def test_filters(logic: Logic, data: dict[str, Any]) -> None:
    rows = data["rows"]
    names = [column["name"] for column in data["columns"]]
    area, family, tables = (names.index(n) for n in ("area_mm2", "family", "array.tables"))
    assert logic("Logic.select(rows, {})", rows=rows) == list(range(len(rows)))
    bound = sorted(row[area] for row in rows)[len(rows) // 2]
    filters = {area: {"low": 0, "high": bound}, family: {"values": ["systolic"]}}
    expected = [i for i, row in enumerate(rows) if row[area] <= bound and row[family] == "systolic"]
    assert logic("Logic.select(rows, f)", rows=rows, f=filters) == expected
    # What a family does not have is out as soon as its column is filtered.
    ranged = {tables: {"low": 1, "high": 4, "unknown": False}}
    expected = [i for i, row in enumerate(rows) if row[tables] in (1, 2, 4)]
    assert 0 < len(expected) < len(rows)
    assert logic("Logic.select(rows, f)", rows=rows, f=ranged) == expected


def test_scales_ticks_and_texts(logic: Logic) -> None:
    assert logic("Logic.extent([[3], [null], [-1]], 0)") == [-1, 3]
    assert logic("Logic.extent([[null]], 0)") is None
    assert logic("Logic.scale([0, 8], false)(2)") == 0.25
    assert logic("Logic.scale([1, 100], true)(10)") == pytest.approx(0.5)
    assert logic("Logic.scale([1, 100], true).invert(0.5)") == pytest.approx(10)
    assert logic("Logic.scale([3, 3], true)(3)") == 0.5
    assert logic("Logic.ticks([0, 10], false)") == [0, 2, 4, 6, 8, 10]
    assert logic("Logic.ticks([0.31, 0.52], false)") == [0.35, 0.4, 0.45, 0.5]
    assert logic("Logic.ticks([0.005, 20], true)") == [0.01, 0.1, 1, 10]
    assert logic("Logic.ticks([5, 5], false)") == [5]
    assert logic("[null, 3, 0.123456, true, 'x', 123456789].map(Logic.text)") == [
        "–", "3", "0.1235", "true", "x", "123500000",
    ]  # fmt: skip


def test_order_and_breakdown(logic: Logic) -> None:
    rows = [[2, 1], [None, 2], [1, 3], [2, 4]]
    assert logic("Logic.sort(rows, [0, 1, 2, 3], 0, false)", rows=rows) == [2, 0, 3, 1]
    assert logic("Logic.sort(rows, [0, 1, 2, 3], 0, true)", rows=rows) == [0, 3, 2, 1]
    parts = [{"name": n, "column": c} for n, c in (("a", 0), ("b", 1), ("c", 2), ("d", 3))]
    result = logic("Logic.breakdown(row, parts)", row=[1, 3, 0, None], parts=parts)
    assert result == [
        {"name": "b", "value": 3, "share": 0.75},
        {"name": "a", "value": 1, "share": 0.25},
    ]


# -- the whole page, without a browser -----------------------------------------------------------


@pytest.fixture
def ask(page: Path) -> Iterator[Callable[[str], Any]]:
    """Run the page's scripts on a document of our own; return a function that asks it."""
    text = page.read_text()
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    data = re.search(r'id="data">(.*?)</script>', text)
    assert data
    ids = {name: tag for tag, name in re.findall(r'<(\w+)[^>]*? id="(\w+)"', text)}
    engine = MiniRacer()
    engine.eval(f"var ids = {json.dumps(ids)}, dataText = {json.dumps(data[1])};")
    for script in ((Path(__file__).parent / "dom.js").read_text(encoding="utf-8"), *scripts):
        engine.eval(script)
    yield lambda call: json.loads(str(engine.eval(f"JSON.stringify(ask.{call} ?? null)")))
    engine.close()


def test_clicks_and_filters_without_a_browser(
    ask: Callable[[str], Any], data: dict[str, Any]
) -> None:
    rows = data["rows"]
    names = [column["name"] for column in data["columns"]]

    def shown() -> int:
        visible = ask("visible()")
        assert ask("count()") == f"{visible} of {len(rows)} points"
        assert ask("lines()") == min(visible, 200)
        return int(visible)

    assert shown() == len(rows)
    ask("box('ternary_lut', false)")
    systolic = sum(row[names.index("family")] == "systolic" for row in rows)
    assert 0 < shown() == systolic < len(rows)
    ask("press('reset')")
    areas = [row[names.index("area_mm2")] for row in rows]
    ask("slide('area_mm2', 'most', 0)")
    assert shown() == areas.count(min(areas))
    ask("press('reset')")
    assert shown() == len(rows)
    assert "Click a point" in ask("details()")
    ask("point(3)")
    assert f"configs/{rows[3][names.index('config')]}" in ask("details()")
    assert re.search(r"columns \S+ \(\d+\.\d %\)", ask("details()"))
    ask("head('tops')")
    ask("head('tops')")
    tops = [row[names.index("tops")] for row in rows]
    assert tops[int(ask("first()"))] == max(tops)
    before = ask("place(3)")
    ask(f"axis('x', {names.index('power_w')})")
    assert ask("place(3)") != before


# -- the whole page, in a browser ----------------------------------------------------------------


def chromium() -> str | None:
    """Return the Chromium of this machine, None if there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    result = [os.environ.get("HWGEN_CHROMIUM"), *map(shutil.which, names)]
    return next((name for name in result if name), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as playwright:
        # Without its sandbox: a container has none to give, and the page is our own.
        try:
            result = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        except Error as error:
            if chromium() is not None:
                raise
            pytest.skip(
                "no Chromium: install it (apt install chromium, or playwright install chromium),"
                f" or set HWGEN_CHROMIUM; {str(error).splitlines()[0]}"
            )
        yield result
        result.close()


@pytest.fixture
def tab(browser: Any, page: Path) -> Iterator[Any]:
    """Open the page; any error in it, and any request to a network, fails the test."""
    result = browser.new_page(viewport={"width": 1400, "height": 1000})
    problems: list[str] = []
    result.on("pageerror", lambda error: problems.append(str(error)))
    result.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    result.on("request", lambda r: problems.append(r.url) if r.url[:5] != "file:" else None)
    result.goto(page.as_uri())
    yield result
    result.close()
    assert problems == []


def shown(tab: Any) -> int:
    """Return the points in the scatter, which the count must agree with."""
    visible = int(tab.locator("#scatter circle:visible").count())
    assert tab.inner_text("#count").startswith(f"{visible} of ")
    return visible


@pytest.mark.slow
def test_filters_change_the_count(tab: Any, data: dict[str, Any]) -> None:
    every = len(data["rows"])
    assert shown(tab) == every
    names = [column["name"] for column in data["columns"]]
    family = names.index("family")
    systolic = sum(row[family] == "systolic" for row in data["rows"])
    assert 0 < systolic < every
    tab.uncheck("#filters input[value=ternary_lut]")
    assert shown(tab) == systolic
    assert tab.locator("#table tbody tr").count() == min(systolic, 200)
    slider = tab.locator("#filters input.most[data-column='area_mm2']")
    slider.focus()
    slider.press("Home")  # only the smallest is left
    tab.check("#filters input[value=ternary_lut]")
    area = names.index("area_mm2")
    least = min(row[area] for row in data["rows"])
    assert shown(tab) == sum(row[area] == least for row in data["rows"])
    tab.click("#reset")
    assert shown(tab) == every


@pytest.mark.slow
def test_points_can_be_clicked(tab: Any, data: dict[str, Any]) -> None:
    assert "Click a point" in tab.inner_text("#details")
    names = [column["name"] for column in data["columns"]]
    number = next(
        n for n, row in enumerate(data["rows"]) if row[names.index("family")] == "ternary_lut"
    )
    row = data["rows"][number]
    blank = tab.evaluate("document.getElementById('parallel').toDataURL()")
    tab.locator(f"#scatter circle[data-row='{number}']").click(force=True)
    details = tab.inner_text("#details")
    assert row[names.index("config")] in details
    assert f"hwgen build --config configs/{row[names.index('config')]}" in details
    assert re.search(r"area_mm2\ncolumns|area_mm2\ntables|columns .*%", details)
    assert tab.locator("#details .bar span").count() == 2
    assert tab.locator("#table tr.chosen").count() == 1
    assert tab.evaluate("document.getElementById('parallel').toDataURL()") != blank
    # A click into the table chooses, too.
    tab.locator("#table tbody tr").first.click()
    assert tab.locator("#scatter circle.chosen").get_attribute("data-row") == "0"


@pytest.mark.slow
def test_axes_colours_and_order(tab: Any, data: dict[str, Any]) -> None:
    names = [column["name"] for column in data["columns"]]
    before = tab.locator("#scatter circle").nth(5).get_attribute("cx")
    tab.select_option("#x", label="power_w")
    tab.uncheck("#xlog")
    assert tab.locator("#scatter circle").nth(5).get_attribute("cx") != before
    tab.select_option("#colour", label="tops")
    colours = tab.evaluate(
        "new Set([...document.querySelectorAll('circle')].map(c => c.getAttribute('fill'))).size"
    )
    assert colours > 2
    tab.locator("#table th", has_text="tops").first.click()
    tab.locator("#table th", has_text="tops").first.click()
    first = int(tab.locator("#table tbody tr").first.get_attribute("data-row"))
    tops = [row[names.index("tops")] for row in data["rows"]]
    assert tops[first] == max(tops)
