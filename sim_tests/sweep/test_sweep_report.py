# SPDX-License-Identifier: Apache-2.0
"""The page of a sweep: in a JavaScript engine with a small document, and in a browser."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from py_mini_racer import MiniRacer

from cost_model.sweep.output.report import label_of
from hwgen.cli import main
from sim_tests.support.browser import WIDTHS, launch_browser, open_page
from sim_tests.sweep.sweep_costs import PAGE_SWEEP, use_made_up_costs

SWEEP = f"{PAGE_SWEEP}parameters: {{activation: [int4, int8]}}\n"


def swept(folder: Path, text: str) -> Path:
    """Return the page of a sweep of made-up costs."""
    (folder / "sweep.yaml").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        use_made_up_costs(patch)
        arguments = ["--config", str(folder / "sweep.yaml"), "--output", str(folder / "out")]
        assert main(["sweep", *arguments, "--jobs", "1"]) == 0
    return folder / "out" / "report.html"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return swept(tmp_path_factory.mktemp("page"), SWEEP)


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return swept(tmp_path_factory.mktemp("grouped"), f"{SWEEP}group_by: activation\n")


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    technologies = "targets: {technology: [nangate45, asap7]}\ngroup_by: target.technology\n"
    return swept(tmp_path_factory.mktemp("several"), SWEEP + technologies)


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


def test_power_says_its_activity(page: Path, data: dict[str, Any]) -> None:
    """In the page, beside each figure that follows from it, in the table and in the summary."""
    about = "assumed activity of 0.15 rises a cycle"
    notes = {column["name"]: column["note"] for column in data["columns"]}
    assert {name for name, note in notes.items() if note} == {"power_w", "tops_per_w"}
    assert notes["power_w"] == f"at the {about}"
    header = re.search(r"<header>(.*?)</header>", page.read_text(), re.S)
    assert header
    assert f"is at the {about}, without the energy inside cells" in header[1]
    with (page.parent / "pareto.csv").open(newline="") as file:
        assert {row["power_activity"] for row in csv.DictReader(file)} == {about}
    activity = json.loads((page.parent / "summary.json").read_text())["activity"]
    assert activity == {"name": "assumed", "about": about, "simulated": True}


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
    assert logic("Logic.ticks([1.5, 40], true)") == [2, 5, 10, 20]
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


def test_defaults_of_the_page(logic: Logic) -> None:
    rows = [[1, "a", None, 7], [2, "a", 5, None], [3, "b", 6, 7], [4, "b", 9, 7]]
    assert logic("[0, 1, 2, 3].map((i) => Logic.isConstant(rows, i))", rows=rows) == [
        False, False, False, True,
    ]  # fmt: skip
    assert logic("Logic.mostVaried(rows, [1, 2])", rows=rows) == 1  # 2 is not known of all
    assert logic("Logic.mostVaried(rows, [1, 0])", rows=rows) == 0
    assert logic("Logic.mostVaried(rows, [2, 3])", rows=rows) == 2
    assert logic("[[1, 31], [1, 30], [-1, 99], null].map(Logic.asksForLog)") == [
        True, False, False, False,
    ]  # fmt: skip
    points = [[1, 9], [2, 5], [3, 6], [4, 1], [4, 2], [0, None]]
    call = "Logic.front(rows, [5, 4, 3, 2, 1, 0], [0, 1], {})"
    assert logic(call.format("[1, 1]"), rows=points) == [0, 1, 3]
    assert logic(call.format("[1, -1]"), rows=points) == [0]
    assert logic(call.format("[-1, -1]"), rows=points) == [4, 2, 0]
    goals = [{"column": 0, "sign": 1}, {"column": 1, "sign": 1}]
    assert logic("Logic.nearest(rows, [0, 1, 2, 3, 5], goals)", rows=points, goals=goals) == 1
    assert logic("Logic.nearest(rows, [5], goals)", rows=points, goals=goals) is None


def test_labels_and_units(data: dict[str, Any]) -> None:
    shown = {column["name"]: (column["label"], column["unit"]) for column in data["columns"]}
    assert shown["area_mm2"] == ("area", "mm²")
    assert shown["latency_ms(decode)"] == ("latency of decode", "ms")
    assert shown["tops_per_w"] == ("TOPS/W", "")
    assert shown["array.rows"] == ("array.rows", "PEs")
    assert shown["area_mm2[tables]"] == ("area in tables", "mm²")
    assert label_of("area_mm2 * power_w", {}) == ("area_mm2 * power_w", "")


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
    assert "Preselected" in ask("details()")
    ask("point(3)")
    assert "Preselected" not in ask("details()")
    assert f"configs/{rows[3][names.index('config')]}" in ask("details()")
    assert re.search(r"columns \S+ \(\d+\.\d %\)", ask("details()"))
    ask("head('throughput')")
    ask("head('throughput')")
    tops = [row[names.index("tops")] for row in rows]
    assert tops[int(ask("first()"))] == max(tops)
    before = ask("place(3)")
    ask(f"axis('x', {names.index('power_w')})")
    assert ask("place(3)") != before


# -- the whole page, in a browser ----------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launch_browser() as result:
        yield result


@pytest.fixture
def tab(browser: Any, page: Path) -> Iterator[Any]:
    with open_page(browser, page.as_uri(), 1400) as result:
        yield result


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
    assert not tab.is_visible("#filters")  # collapsed at first
    tab.click("#side summary")
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
    assert "Preselected" in tab.inner_text("#details")
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
    assert re.search(r"area \(mm²\)\s+(columns|tables) .*%", details)
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
    tab.select_option("#x", label="power (W)")
    tab.uncheck("#xlog")
    assert tab.locator("#scatter circle").nth(5).get_attribute("cx") != before
    tab.select_option("#colour", label="throughput (TOPS)")
    colours = tab.evaluate(
        "new Set([...document.querySelectorAll('circle')].map(c => c.getAttribute('fill'))).size"
    )
    assert colours > 2
    tab.locator("#table th", has_text="throughput").first.click()
    tab.locator("#table th", has_text="throughput").first.click()
    first = int(tab.locator("#table tbody tr").first.get_attribute("data-row"))
    tops = [row[names.index("tops")] for row in data["rows"]]
    assert tops[first] == max(tops)


@pytest.mark.slow
@pytest.mark.rotate(4)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_as_it_opens(browser: Any, grouped: Path, width: int, scheme: str) -> None:
    with open_page(browser, grouped.as_uri(), width, color_scheme=scheme) as tab:
        assert tab.input_value("#colour") == tab.get_attribute(
            "#colour option:has-text('activation')", "value"
        )
        assert tab.is_checked("#xlog")
        assert tab.locator("#legend .entry").all_inner_texts() == ["int4", "int8"]
        fronts = tab.locator("#scatter .front")
        assert [each.get_attribute("data-group") for each in fronts.all()] == ["int4", "int8"]
        assert all(int(each.get_attribute("data-points") or 0) > 2 for each in fronts.all())
        assert "area (mm²)" in tab.locator("#scatter text").all_text_contents()
        assert tab.locator("#scatter circle.chosen").count() == 1
        assert not tab.is_visible("#filters")
        heads = tab.locator("#table th").all_inner_texts()
        assert not any(head.startswith(("pareto", "array.cols")) for head in heads)
        assert "array.cols 64 PEs" in tab.inner_text("#constants")
        # Texts of the scatter are as large as they are drawn.
        scale = tab.evaluate(
            "document.getElementById('scatter').getBoundingClientRect().width"
            " / document.getElementById('scatter').viewBox.baseVal.width"
        )
        assert 0.9 < scale < 1.1
        colours = "(e => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor])"
        ink, paper = tab.evaluate(f"{colours}(document.body)")
        dark = [sum(map(int, re.findall(r"\d+", each)[:3])) for each in (ink, paper)]
        assert (dark[0] > dark[1]) == (scheme == "dark")
        tab.select_option("#x", label="Fmax (MHz)")
        assert not tab.is_checked("#xlog")
        assert fronts.count() == 0


@pytest.mark.slow
@pytest.mark.rotate(4)
@pytest.mark.parametrize("width", WIDTHS)
def test_each_technology_has_a_chart_with_common_axes(
    browser: Any, several: Path, page: Path, width: int
) -> None:
    with open_page(browser, several.as_uri(), width) as tab:
        charts = tab.locator("#multiples svg")
        every = tab.locator("#scatter circle").count()
        names = [chart.get_attribute("aria-label") or "" for chart in charts.all()]
        counts = [chart.locator("circle").count() for chart in charts.all()]
        assert names == [
            f"{t}: {n} points" for t, n in zip(("asap7", "nangate45"), counts, strict=True)
        ]
        assert sum(counts) == every
        axes = [
            [(each.text_content(), each.get_attribute("x"), each.get_attribute("y"))
             for each in chart.locator(".tick").all()] for chart in charts.all()
        ]  # fmt: skip
        assert axes[0] == axes[1]
        assert len(axes[0]) >= 4
        for number in (0, 1):
            texts = charts.nth(number).locator("text").all_text_contents()
            assert {"area (mm²)", "latency of decode (ms)", names[number]} <= set(texts)
            assert charts.nth(number).locator(".front").count() == 1
        point = charts.nth(1).locator("circle:not(.chosen)").first
        row = point.get_attribute("data-row")
        point.dispatch_event("click")
        for chart in ("#scatter", "#multiples"):
            assert tab.get_attribute(f"{chart} .chosen", "data-row") == row
        # Only the table scrolls sideways, within its section.
        wide = tab.evaluate(
            "[...document.querySelectorAll('section')].filter(e => e.scrollWidth > e.clientWidth)"
            ".map(e => e.querySelector('#table') ? 'table' : e.id)"
        )
        assert wide in ([], ["table"])
        tab.select_option("#x", label="power (W)")
        assert "power (W)" in charts.first.locator("text").all_text_contents()
    with open_page(browser, page.as_uri(), width) as tab:
        assert not tab.is_visible("#multiples")
