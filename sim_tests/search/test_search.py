# SPDX-License-Identifier: Apache-2.0
"""Searches for engines: tables against plain evaluation, goals and limits, journals."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.load import load_config
from flows.search.accuracy import accurate_models
from flows.search.costs import SUMS, Cost, CostItem, UnitCosts, cost_of
from flows.search.cycles import BaseList, TimedOption, combined
from flows.search.goals import METRICS, objectives, parse_accuracy, parse_goals
from flows.search.journal import SearchJournal
from flows.search.output import write_result
from flows.search.result import Unmet
from flows.search.search import search
from flows.search.space import Frame, Option, Space, needs_of, space_of
from flows.search.tables import FrameTable, Scores
from flows.search.words import limits_of, nearest, rejected
from hwgen.cli import main
from hwgen.core.params.target import Target
from hwgen.errors import InputError
from hwgen.families.transformer.list_timing import timed_list
from hwgen.models.files.store import Model
from hwgen.models.quantise.record import RECORD
from sim_tests.search.searching import CONTEXT, FRAME, Here, request_of


@pytest.fixture(scope="module")
def space(model: Model) -> Space:
    return space_of(needs_of(model, CONTEXT), {"technology": "nangate45"}, (FRAME.data_width,))


def drawn(space: Space, seed: int) -> list[Option]:
    chosen = random.Random(seed)
    return [chosen.choice(options) for options in space.options[FRAME].values()]


def test_cycles_by_tables_are_those_of_the_whole_list(model: Model, space: Space) -> None:
    units = {unit: options[:: max(1, len(options) // 3)] for unit, options in
             space.options[FRAME].items()}  # fmt: skip
    first = [options[0] for options in units.values()]
    base = BaseList(model, space.config("engine", FRAME, first), CONTEXT - 1)
    tables: dict[str, list[TimedOption]] = {}
    for number, (unit, options) in enumerate(units.items()):
        tables[unit] = []
        for option in options:
            changed = [*first[:number], option, *first[number + 1 :]]
            other = BaseList(model, space.config("engine", FRAME, changed), CONTEXT - 1)
            tables[unit].append(other.timed(base, unit))
    cycles, _ = combined(base, tables)
    chosen = random.Random(1)
    ours, plain = [], []
    for _ in range(12):
        index = [chosen.randrange(len(options)) for options in units.values()]
        options = [every[i] for every, i in zip(units.values(), index, strict=True)]
        config = space.config("engine", FRAME, options)
        ours.append(int(cycles[tuple(index)]))
        plain.append(timed_list(config, BaseList(model, config, CONTEXT - 1).events).cycles)
    assert np.allclose(ours, plain, rtol=1e-2)  # of large models 1e-4: lists differ by some words
    apart = [(i, j) for i in range(12) for j in range(12) if plain[i] > 1.02 * plain[j]]
    assert all(ours[i] > ours[j] for i, j in apart)


def test_a_search_notices_jobs_that_take_longer(model: Model, space: Space) -> None:
    config = space.config("engine", FRAME, drawn(space, 0))
    base = BaseList(model, config, CONTEXT - 1)
    tables = {unit: [base.timed(base, unit)] for unit in base.units}
    cycles, moved = combined(base, tables)
    slow = replace(tables["products"][0], cycles=tuple(2 * n for n in tables["products"][0].cycles))
    slower, same = combined(base, {**tables, "products": [slow]})
    assert slower.item() > cycles.item()
    assert same.item() == moved.item()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_costs_by_tables_are_those_of_the_engine(space: Space, seed: int) -> None:
    engines = [drawn(space, seed), drawn(space, seed + 10)]
    few = {
        unit: [each[number] for each in engines] for number, unit in enumerate(space.options[FRAME])
    }

    def run(_: object, function: object, items: dict[str, CostItem], __: object) -> object:
        return {key: cost_of(item) for key, item in items.items()}

    costs = UnitCosts(space, {FRAME: few}, run)  # type: ignore[arg-type]
    costs.sample()
    costs.look_at([(FRAME, each) for each in engines])
    rest, _ = costs.rest(FRAME)
    total = rest
    for option in engines[1]:
        total = total.plus(costs.cost(FRAME, option))
    engine = cost_of(CostItem(json.dumps(space.engine("engine", FRAME, engines[1])), None))
    assert np.allclose(total.sums[:3], engine.sums[:3], rtol=2e-3)
    assert engine.fmax_mhz <= total.fmax_mhz * 1.001


def test_costs_of_a_frame_are_those_of_options_that_both_frames_have(space: Space) -> None:
    """The first option of the narrow frames is not among those of the wide ones."""
    first, second = (
        Option("products", {"n": n}, {"products.cols": n, "products.buffer_kib": 1}) for n in (2, 4)
    )
    frames = {
        (width, burst): Frame(width, max_burst=burst, outstanding=4, queue=1)
        for width in (32, 64) for burst in (8, 16)
    }  # fmt: skip
    options = {
        frame: {"products": [first, second] if width == 32 else [second]}
        for (width, _), frame in frames.items()
    }
    costs = UnitCosts(replace(space, options=options), options, lambda *_: {})
    sizes = [
        ((32, 8), first, 70.0), ((32, 16), first, 80.0),
        ((32, 8), second, 100.0), ((64, 8), second, 150.0),
    ]  # fmt: skip
    for at, option, size in sizes:
        cost = Cost((size, *[1.0] * (len(SUMS) - 1)), 300.0)
        costs._costs[costs._key(frames[at], option)] = cost
    assert costs.cost(frames[64, 16], second).sums[0] == 160.0  # 100, 50 for width, 10 for bursts


def test_what_a_search_calls_legal_is_legal(space: Space) -> None:
    for seed in range(200):
        space.config("engine", FRAME, drawn(space, seed))


def table(space: Space) -> FrameTable:
    """Return a table with invented jobs and costs."""
    chosen = random.Random(3)
    options = {unit: list(every[:2]) for unit, every in space.options[FRAME].items()}
    sizes = list(map(len, options.values()))
    timed, costs = {}, {}
    for n, (unit, every) in enumerate(options.items()):
        cycles = [1000 // (i + 1) for i in range(len(every))]
        timed[unit] = [TimedOption((each,), ((each, 100),), (5, 5)) for each in cycles]
        costs[unit] = [
            Cost((1e5 * (i + 1), *[1.0] * (len(SUMS) - 1)), 400.0 - 20 * i * n)
            for i in range(len(every))
        ]
    shape = [1] * len(sizes)
    total = np.zeros(sizes, np.int64)
    for axis, unit in enumerate(options):
        shape[axis] = sizes[axis]
        total = total + np.array([t.cycles[0] for t in timed[unit]], np.int64).reshape(shape)
        shape[axis] = 1
    moved = np.full(sizes, chosen.randrange(100, 200))
    rest = Cost((0.0,) * len(SUMS), 500.0)
    return FrameTable(FRAME, options, timed, costs, rest, 1.0, total, moved)


def test_rejections_name_each_point_once(space: Space) -> None:
    scores = Scores([table(space)], Target(), 310.0)
    fast = scores.metrics["fmax_mhz"] >= 310
    area = np.median(scores.metrics["area_mm2"][fast])
    goals = parse_goals(["tokens_per_s>=1"], [f"area_mm2={area}"])
    left, reasons = rejected(scores, goals)
    assert left.sum() + sum(entry["points"] for entry in reasons) == scores.points
    assert left.any()
    assert len(reasons) == 2
    for number in range(scores.points):
        each, index = scores.point(number)
        assert scores.number(each, index) == number
        assert left[number] == (fast[number] and scores.metrics["area_mm2"][number] <= area)


def test_the_nearest_says_what_to_relax(space: Space) -> None:
    scores = Scores([table(space)], Target(), None)
    speed, area = scores.metrics["tokens_per_s"], scores.metrics["area_mm2"]
    goals = parse_goals([f"tokens_per_s>={1.1 * speed.max()}"], [f"area_mm2={2 * area.max()}"])
    number, said = nearest(scores, goals)
    assert speed[number] == speed.max()
    assert said[0]["alone"] == pytest.approx(speed.max())
    assert said[0]["factor"] == pytest.approx(1.1)
    assert said[1]["factor"] == 1
    assert limits_of(scores, number, goals)[0].startswith("limited by ")


def test_devices_rule_out_what_does_not_fit(space: Space) -> None:
    target = Target.model_validate({"technology": "ecp5", "device": "ecp5-25f"})
    each = table(space)
    index = SUMS.index("luts")
    for unit, costs in each.costs.items():
        each.costs[unit] = [
            replace(cost, sums=(*cost.sums[:index], 3000.0 + 900 * n, *cost.sums[index + 1 :]))
            for n, cost in enumerate(costs)
        ]
    scores = Scores([each], target, None)
    assert np.isnan(scores.metrics["area_mm2"]).all()
    assert np.isnan(scores.metrics["power_w"]).all()
    left, reasons = rejected(scores, parse_goals(["tokens_per_s>=1"], []))
    assert np.array_equal(left, scores.metrics["luts"] <= 24288)
    assert 0 < left.sum() < scores.points
    assert reasons[0]["reason"] == "needs more than the LUTs of ecp5-25f (24,288)"
    assert objectives(parse_goals(["tokens_per_s>=1"], []), scores.metrics)[0] == "luts"


@pytest.mark.parametrize(
    ("goals", "limits", "message"),
    [
        (["tokens_per_sec>=20"], [], "did you mean 'tokens_per_s'"),
        (["tokens_per_s"], [], "must be METRIC>=NUMBER"),
        (["area_mm2>=nan"], [], "must be a number above 0"),
        ([], ["area_mm2>=2"], "upper limit"),
        (["area_mm2>=3"], ["area_mm2=2"], "contradicts"),
        (["tokens_per_s>=100", "ms_per_token<=5"], ["tokens_per_s=50"], "contradicts"),
        (["ms_per_token>=20", "tokens_per_s>=100"], [], "contradicts"),
    ],
)
def test_goals_that_make_no_sense_are_refused(
    goals: list[str], limits: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        parse_goals(goals, limits)


def test_every_problem_of_goals_is_named_at_once() -> None:
    with pytest.raises(InputError) as caught:
        parse_goals(["speed>=20", "tokens_per_s~3"], ["area=1"])
    assert len(str(caught.value).splitlines()) == 3
    assert all(name in str(caught.value) for name in METRICS)


def test_a_journal_goes_on_after_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = SearchJournal(path, "one")
    journal.store("a", {"cycles": [1]})
    journal.close()
    with path.open("a") as stream:
        stream.write('{"key": "b", "val')
    journal = SearchJournal(path, "one")
    assert journal.entries == {"a": {"cycles": [1]}}
    journal.store("c", 3)
    journal.close()
    journal = SearchJournal(path, "one")
    assert journal.entries == {"a": {"cycles": [1]}, "c": 3}
    journal.close()
    with pytest.raises(InputError, match="was not written by"):
        SearchJournal(path, "two")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing is asked for"),
        (["--goal", "tokens_per_s>=5", "--clock", "fast"], "must be auto, or"),
        (["--goal", "tokens_per_s>=5", "--context", "100000"], "must be 64 or less"),
    ],
)
def test_bad_options_are_refused(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    arguments: list[str], message: str,
) -> None:  # fmt: skip
    out = tmp_path / "out"
    base = ["search", str(model.path), "--target", "nangate45", "--output", str(out)]
    assert main([*base, *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists() or not [p for p in out.iterdir() if p.name[0] != "."]


# -- whole searches, with invented costs -----------------------------------------------------------


def test_a_search_finds_the_smallest_that_is_fast_enough(quick: Model, tmp_path: Path) -> None:
    journal, here = SearchJournal(tmp_path / "journal.jsonl"), Here()
    first = search(request_of(quick, "tokens_per_s>=1"), here, journal)
    computed = here.items
    speed = np.sort(first.scores.metrics["tokens_per_s"])
    wanted = float(speed[len(speed) // 2])
    result = search(request_of(quick, f"tokens_per_s>={wanted}"), here, journal)
    assert here.items - computed <= 40  # units of other engines that may win, and no jobs
    area = result.scores.metrics["area_mm2"]
    fast = result.scores.metrics["tokens_per_s"] >= wanted
    assert result.engines[0].metrics["area_mm2"] == pytest.approx(area[fast].min())
    assert result.feasible == fast.sum()
    assert "optimal over" in result.guarantee
    with pytest.raises(Unmet, match="relax it to") as caught:
        search(request_of(quick, "tokens_per_s>=1e9"), here, journal)
    assert caught.value.document["factor"] > 1
    fastest = search(request_of(quick, limits=[f"area_mm2={np.median(area)}"]), here, journal)
    speeds = fastest.scores.metrics["tokens_per_s"]
    assert fastest.engines[0].metrics["tokens_per_s"] == pytest.approx(
        speeds[fastest.scores.metrics["area_mm2"] <= np.median(area)].max()
    )
    out = tmp_path / "out"
    out.mkdir()
    document = write_result(out, [result, fastest], [])
    journal.close()
    assert [each["engine"] for each in document["engines"]] == [
        f"{n}/engine.yaml" for n in (1, 2, 3)
    ]
    for each in document["engines"]:
        assert load_config(out / each["engine"]).family == "transformer"
    page = (out / "report.html").read_text()
    assert "engine.yaml" in page


def test_a_search_of_a_large_space_finds_the_same(
    quick: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, here = SearchJournal(tmp_path / "journal.jsonl"), Here()
    request = request_of(quick, "tokens_per_s>=1", "clock_mhz>=100")
    ranked = search(request, here, journal)
    monkeypatch.setattr("flows.search.search.EXHAUSTIVE", 10)
    bounded = search(request, here, journal)
    journal.close()
    assert "branch and bound" in bounded.guarantee
    assert [each.metrics["area_mm2"] for each in bounded.engines] == [
        each.metrics["area_mm2"] for each in ranked.engines
    ]


def test_a_model_that_does_not_fit_the_memory_is_refused_at_once(
    quick: Model, tmp_path: Path
) -> None:
    journal, here = SearchJournal(tmp_path / "journal.jsonl"), Here()
    with pytest.raises(Unmet, match="whatever the engine") as caught:
        search(request_of(quick, limits=["memory_mib=0.001"]), here, journal)
    journal.close()
    assert here.items == 0
    (said,) = caught.value.document["goals"]
    assert said["reached"] == pytest.approx(0.001 * said["factor"])


def test_a_device_that_is_too_small_is_no_missed_goal(quick: Model, tmp_path: Path) -> None:
    journal, here = SearchJournal(tmp_path / "journal.jsonl"), Here()
    request = request_of(quick, "tokens_per_s>=1")
    target = Target.model_validate({"technology": "ecp5", "device": "ecp5-25f"})
    fits = search(replace(request, target=target), here, journal)
    assert fits.engines
    items = here.items

    class Large(Here):
        def run(self, function: Any, tasks: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
            for item, cost in super().run(function, tasks):
                large = isinstance(item, CostItem)
                yield item, replace(cost, sums=(9e4,) * len(SUMS)) if large else cost

    large, other = Large(), SearchJournal(tmp_path / "other.jsonl")
    with pytest.raises(Unmet, match=r"no engine for .* fits ecp5-25f") as caught:
        search(replace(request, target=target), large, other)
    # The smallest units, also those beside one unit for all rows, and no jobs.
    assert large.items == 8 < items
    assert "(24,288)" in str(caught.value)
    assert caught.value.document["rejected"][0]["points"] > 10
    other.close()
    journal.close()


class Processes(Here):
    """Processes of the command, which are this one."""

    def __init__(self, _: int) -> None:
        super().__init__()

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_an_interrupted_search_leaves_a_provisional_list(
    quick: Model,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("flows.tools.executors.LocalProcesses", Processes)
    out = tmp_path / "out"
    line = ["search", str(quick.path), "--target", "nangate45", "--context", str(CONTEXT),
            "--output", str(out)]  # fmt: skip

    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("flows.search.search.complete", interrupt)
        assert main([*line, "--goal", "tokens_per_s>=1e9"]) == 1  # refused before estimates
        assert main([*line, "--goal", "tokens_per_s>=1", "--resume"]) == 130
        said = capsys.readouterr().err
        assert "provisional list, by tables: " in said
        assert "continue with --resume" in said
    document = json.loads((out / "provisional" / "result.json").read_text(encoding="utf-8"))
    assert document["provisional"]
    assert [entry["engine"] for entry in document["engines"]] == [
        f"provisional/{number}.yaml" for number in (1, 2, 3)
    ]
    assert load_config(out / "provisional" / "1.yaml").name == "engine_1"
    assert main([*line, "--goal", "tokens_per_s>=1", "--resume"]) == 0
    assert not (out / "provisional").exists()
    assert (out / "1" / "engine.yaml").is_file()


def test_a_search_that_ends_without_an_engine_has_status_1(
    quick: Model,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("flows.tools.executors.LocalProcesses", Processes)
    out = str(tmp_path / "out")
    line = ["search", str(quick.path), "--target", "nangate45", "--context", str(CONTEXT),
            "--output", out]  # fmt: skip
    assert main([*line, "--goal", "tokens_per_s>=1e9"]) == 1
    said = capsys.readouterr().err
    assert "no engine of" in said
    assert "nearest:" in said
    assert main([*line, "--goal", "tokens_per_s>=1"]) == 2
    assert "--resume" in capsys.readouterr().err
    assert main([*line, "--goal", "tokens_per_s>=1", "--resume", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["met"]
    assert len(document["engines"]) == 3
    assert main([*line, "--goal", "tokens_per_s>=1", "--max", "luts=100", "--resume"]) == 2
    assert "luts is not known of nangate45" in capsys.readouterr().err


def test_models_compete_by_accuracy(tmp_path: Path) -> None:
    models = []
    for name, divergence, digest in (("a", 0.01, "x"), ("b", 0.2, "x"), ("c", 0.01, "y")):
        models.append(tmp_path / name)
        models[-1].mkdir()
        entry = {"file": "t", "sha256": digest, "kl": divergence, "top1": 0.9}
        (models[-1] / RECORD).write_text(json.dumps({"recipe": {}, "evaluations": [entry]}))
    conditions = parse_accuracy(["kl <= 0.05"])
    accurate, excluded = accurate_models(models[:2], conditions)
    assert accurate == models[:1]
    assert excluded == [{"model": str(models[1]), "reason": "kl is 0.2, not <= 0.05"}]
    with pytest.raises(InputError, match="different texts"):
        accurate_models(models, conditions)
    (models[1] / RECORD).unlink()
    with pytest.raises(InputError, match="has not been evaluated"):
        accurate_models(models[:2], conditions)
    with pytest.raises(InputError, match="no metric of quantised models"):
        parse_accuracy(["loss<=3"])
