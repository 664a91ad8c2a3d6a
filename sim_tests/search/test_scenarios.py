# SPDX-License-Identifier: Apache-2.0
"""Scenarios of a search: worst case and mean, and pictures of what changes a short list."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from flows.bench import search_scenarios
from flows.search.charts import bars, lines
from flows.search.complete import Complete, estimate_engine
from flows.search.journal import SearchJournal
from flows.search.output import write_result
from flows.search.result import Request
from flows.search.scenarios import Scenario, parse_scenarios
from flows.search.search import at_nodes, nodes, search
from flows.search.sensitivity import pictures
from hwgen.core.params.off_chip import OffChip
from hwgen.errors import InputError
from hwgen.models.files.store import Model
from sim_tests.search.searching import CONTEXT, Here, request_of
from sim_tests.support.paths import ROOT

SLOW = Scenario("narrow", 4, OffChip(gb_s=0.05), 1.0)
LONG = Scenario("long", CONTEXT, OffChip(gb_s=2.0), 3.0)


def memory_of(*texts: str | None) -> OffChip:
    kind, gb_s, _ = texts
    return OffChip.model_validate({"kind": kind, "gb_s": None if gb_s is None else float(gb_s)})


def test_scenarios_state_context_memory_and_weight() -> None:
    texts = ["chat: context=256, weight=0.7", "books: context=4096, gb-s=8"]
    chat, books = parse_scenarios(texts, 64, memory_of, ("lpddr4x", None, None))
    assert (chat.name, chat.context, chat.weight) == ("chat", 256, 0.7)
    assert chat.memory.kind == "lpddr4x"
    assert (books.context, books.memory.gb_s, books.memory.kind) == (4096, 8.0, None)
    (only,) = parse_scenarios([], 64, memory_of, (None, "2", None))
    assert (only.context, only.weight, only.memory.gb_s) == (64, 1.0, 2.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("context=5", "must be NAME: KEY=VALUE"),
        ("a: contest=5", "did you mean 'context'"),
        ("a: context=5, context=6", "must be stated once"),
        ("a: context=", "must be stated once"),
        ("a: context=2.5", "whole number"),
        ("a: weight=-1", "must be a number above 0"),
        ("a: weight=nan", "must be a number above 0"),
        ("b: context=5", "two called 'b'"),
    ],
)
def test_scenarios_that_are_none_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_scenarios([text, "b: context=5"], 64, memory_of, (None, None, None))


def test_speed_is_that_of_the_worst_scenario(request_both: Request, tmp_path: Path) -> None:
    journal = SearchJournal(tmp_path / "journal.jsonl")
    both = search(request_both, Here(), journal).scores.metrics
    alone = {
        each.name: search(replace(request_both, scenarios=(each,)), Here(), journal).scores.metrics
        for each in (SLOW, LONG)
    }
    journal.close()
    ms = {name: metrics["ms_per_token"] for name, metrics in alone.items()}
    assert both["ms_per_token"].shape == ms["long"].shape
    # The engine of the longer context has room for more keys, whatever it is used for.
    assert np.allclose(both["tokens_per_s: long"], 1e3 / ms["long"])
    assert np.allclose(both["tokens_per_s: narrow"], 1e3 / ms["narrow"], rtol=0.02)
    slow, long = (1e3 / both[f"tokens_per_s: {name}"] for name in ("narrow", "long"))
    assert np.array_equal(both["ms_per_token"], np.maximum(slow, long))
    assert np.allclose(both["mean_ms_per_token"], (slow + 3 * long) / 4)
    assert (slow > long).any()
    assert not np.allclose(both["mean_ms_per_token"], both["ms_per_token"])


@pytest.fixture
def request_both(quick: Model) -> Request:
    request = request_of(quick, "tokens_per_s>=1")
    return replace(request, scenarios=(SLOW, LONG))


def test_a_page_has_pictures_of_scenarios(request_both: Request, tmp_path: Path) -> None:
    journal = SearchJournal(tmp_path / "journal.jsonl")
    result = search(request_both, Here(), journal)
    journal.close()
    for number, engine in enumerate(result.engines):
        engine.by_scenario = {
            each.name: {"tokens_per_s": 10.0 * (number + 1), "j_per_token": None}
            for each in (SLOW, LONG)
        }
    out = tmp_path / "out"
    out.mkdir()
    document = write_result(out, [result], [])
    curves = document["sensitivity"]["bandwidth"]
    assert list(curves) == ["engine 1", "engine 2", "engine 3"]
    for curve in curves.values():
        speeds = [speed for _, speed in curve]
        assert speeds == sorted(speeds)
        assert speeds[0] < speeds[-1]
    drawn = pictures(document["sensitivity"])
    assert len(drawn) == 2
    page = (out / "report.html").read_text(encoding="utf-8")
    assert all(picture in page for picture in drawn)
    assert json.loads((out / "result.json").read_text())["scenarios"][0]["name"] == "narrow"


def test_pictures_are_well_formed_and_to_scale() -> None:
    line = ElementTree.fromstring(lines("a < b", "x", "y", {"one": [(0.5, 10), (1, 20), (2, 20)]}))
    dots = [each for each in line.iter() if each.tag.endswith("circle") and each.get("r") == "3"]
    assert [float(each.attrib["cx"]) for each in dots] == pytest.approx([72, 348, 624])
    low, high, same = (float(each.attrib["cy"]) for each in dots)
    assert high == same
    assert 294 - high == pytest.approx(2 * (294 - low), abs=0.2)
    picture = ElementTree.fromstring(bars("t", "y", {"a": {"p": 1, "q": 3}, "b": {"p": 2, "q": 4}}))
    heights = [float(e.attrib["height"]) for e in picture.iter() if e.tag.endswith("rect")]
    assert [height / heights[0] for height in heights] == pytest.approx([1, 2, 3, 4], abs=0.02)


def test_the_best_engine_is_estimated_at_other_nodes(request_both: Request, tmp_path: Path) -> None:
    journal = SearchJournal(tmp_path / "journal.jsonl")
    result = search(request_both, Here(), journal)
    items = nodes(result, result.engines[0])
    assert {"asap7", "nangate45"} <= set(items)
    assert not {"ecp5", "xcup"} & set(items)

    class Estimates(Here):
        def run(self, function: Any, items: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
            assert function is estimate_engine
            for item in items:
                engine = json.loads(item.engine)
                speed = float(len(engine["target"]["technology"]))
                yield item, Complete(engine, {"tokens_per_s": speed}, {})

    made = at_nodes([result], Estimates(), journal)
    journal.close()
    assert set(made) == set(items)
    assert all(each.metrics["tokens_per_s"] == len(name) for name, each in made.items())


def test_pictures_of_the_page_are_those_of_the_stored_search(tmp_path: Path) -> None:
    search_scenarios.main(["--pictures", str(tmp_path)])
    for name in search_scenarios.NAMES:
        stored = (ROOT / "docs" / "images" / name).read_text(encoding="utf-8")
        assert (tmp_path / name).read_text(encoding="utf-8") == stored, f"{name}: run make docs"
