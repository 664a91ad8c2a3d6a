# SPDX-License-Identifier: Apache-2.0
"""Mixed formats of weights: their front, their models, and engines that execute them."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.bench import applied, mixed_formats, search_answer
from flows.build.load import load_config
from flows.search.apply import simulate_layer
from flows.search.space import needs_of, space_of
from hwgen.cli import main
from hwgen.models.compile.list_compilation import checked_engine
from hwgen.models.files.store import WEIGHTS, Model
from hwgen.models.quantise.evaluation import compare_predictions
from hwgen.models.quantise.mixing import Mixture, front, layer_groups, spread
from hwgen.models.quantise.quantise import quantise
from hwgen.models.quantise.recipe import Recipe
from hwgen.models.quantise.record import read_record
from hwgen.models.run.float_engine import FloatEngine
from sim_tests.models.model_files import Small
from sim_tests.models.test_model_golden import TOKENS
from sim_tests.models.test_model_runs import made
from sim_tests.search.searching import FRAME
from sim_tests.support.paths import CONFIGS, ROOT

FORMATS = ("int4", "int8")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return made(tmp_path_factory.mktemp("source"), Small(layers=2, hidden=64))


@pytest.fixture(scope="module")
def mixes(source: Model, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    directory = tmp_path_factory.mktemp("mixes")
    for name in ("calibration", "text"):
        np.save(directory / f"{name}.npy", np.array(TOKENS if name == "text" else TOKENS[::-1]))
    output = directory / "mixed"
    assert run(source, directory, output) == 0
    return output, json.loads((output / "mix.json").read_text(encoding="utf-8"))


def run(source: Model, directory: Path, output: Path, *more: str) -> int:
    return main([
        "model", "mix", str(source.path), "--calibration", str(directory / "calibration.npy"),
        "--evaluate", str(directory / "text.npy"), "--parts", "2", "--limit", "2",
        "-o", str(output), *more,
    ])  # fmt: skip


def test_the_front_of_sums_is_that_of_all_mixtures() -> None:
    rng = np.random.default_rng(3)
    bits = {(n, f): float(rng.integers(1, 9)) for n in range(4) for f in "abc"}
    added = {key: float(rng.random()) for key in bits}
    sets = list(itertools.combinations("abc", 2))
    every = [
        (sum(bits[n, f] for n, f in enumerate(formats)),
         1 + sum(added[n, f] for n, f in enumerate(formats)), formats)
        for formats in itertools.product("abc", repeat=4) if len(set(formats)) <= 2
    ]  # fmt: skip
    best = [
        each for each in every
        if not any(o[0] <= each[0] and o[1] <= each[1] and o[:2] != each[:2] for o in every)
    ]  # fmt: skip
    found = front(bits, added, 1.0, sets)
    assert {(m.bits, round(m.kl, 9)) for m in found} == {(b, round(k, 9)) for b, k, _ in best}


def test_mixtures_are_spread_and_mix() -> None:
    mixtures = [Mixture(("a", "b"), float(n), 1.0 / (n + 1)) for n in range(10)]  # at 1.5, 4.5, 7.5
    chosen = spread([Mixture(("a", "a"), 0.0, 2.0), *mixtures], 3)
    assert [m.bits for m in chosen] == [1.0, 4.0, 7.0]


def test_a_mixture_is_what_quantise_makes(
    source: Model, mixes: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    output, document = mixes
    names = [point["model"] for point in document["points"]]
    assert set(FORMATS) < set(names)
    name = next(name for name in names if name.startswith("mixed"))
    record = read_record(output / name)
    assert record is not None
    products = tuple((pattern, fmt) for pattern, fmt in record["recipe"]["products"])
    recipe = Recipe(record["recipe"]["weights"], 32, rotate=record["recipe"]["rotate"],
                    products=products)  # fmt: skip
    quantise(source, tmp_path, TOKENS[::-1], recipe)
    for tensor in Model(tmp_path).description.tensors:
        ours, theirs = Model(output / name).numbers(tensor), Model(tmp_path).numbers(tensor)
        assert np.array_equal(ours, theirs), tensor
    assert (tmp_path / WEIGHTS).stat().st_size == (output / name / WEIGHTS).stat().st_size


def test_divergence_is_measured_and_modelled(
    source: Model, mixes: tuple[Path, dict[str, Any]]
) -> None:
    output, document = mixes
    for point in document["points"]:
        engines = FloatEngine(source), FloatEngine(Model(output / point["model"]))
        assert point["kl"] == pytest.approx(compare_predictions(*engines, TOKENS).kl)
    by_name = {point["model"]: point for point in document["points"]}
    assert by_name["int8"]["predicted_kl"] == pytest.approx(by_name["int8"]["kl"])
    assert by_name["int4"]["bits"] < by_name["int8"]["bits"]
    groups = layer_groups(Model(output / "int8").description, 2)
    assert [entry["group"] for entry in document["groups"]] == [group.name for group in groups]
    assert sum(len(group.products) for group in groups) == sum(
        node.operation == "gemm" for node in source.description.nodes
    )


def test_an_engine_with_two_units_executes_a_mixture(
    mixes: tuple[Path, dict[str, Any]],
) -> None:
    output, document = mixes
    name = next(p["model"] for p in document["points"] if p["model"].startswith("mixed"))
    model = Model(output / name)
    config: Any = load_config(CONFIGS / "decoder_w4" / "mixed.yaml")
    used = {core.name for core in checked_engine(model, config).cores.values()}
    assert used == {"products", "wide"}
    space = space_of(needs_of(model, 16), {"technology": "asap7"}, (64,))
    assert list(space.options[FRAME])[:2] == ["products", "products_int8_g32"]


@pytest.mark.slow
@pytest.mark.rotate(64)
def test_a_layer_of_a_mixture_is_simulated(mixes: tuple[Path, dict[str, Any]]) -> None:
    output, document = mixes
    name = next(p["model"] for p in document["points"] if p["model"].startswith("mixed"))
    model = Model(output / name)
    space = space_of(needs_of(model, 16), {"technology": "asap7"}, (64,))
    options = [every[0] for every in space.options[FRAME].values()]
    simulated = simulate_layer(model, space.config("engine", FRAME, options))
    assert simulated["compared"] > 0
    assert abs(simulated["modelled"] / simulated["cycles"] - 1) < 0.1


def test_what_cannot_be_mixed_is_refused(
    source: Model, mixes: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    output, _ = mixes
    for formats, said in (("int4", "there is one"), ("int4,int3", "'int3' is none")):
        assert run(source, output.parent, output, "--formats", formats) == 2
        assert said in capsys.readouterr().err
    assert main([
        "model", "quantise", str(source.path), "-o", str(output.parent / "x"), "--group", "32",
        "--calibration", str(output.parent / "text.npy"), "--product", "nose=int4",
    ]) == 2  # fmt: skip
    assert "nose: matches no product" in capsys.readouterr().err


def test_stored_results_are_drawn(tmp_path: Path) -> None:
    mixed_formats.main(["--picture", str(tmp_path / "mixed.svg")])
    search_answer.main(["--picture", str(tmp_path / "answer.svg")])
    for name, stored in (("mixed", "mixed-formats"), ("answer", "search-answer")):
        drawn = (tmp_path / f"{name}.svg").read_bytes()
        assert drawn == (ROOT / "docs" / "images" / f"{stored}.svg").read_bytes()


def test_a_page_says_which_units_are_outside_their_interval() -> None:
    def row(estimated: float, measured: float) -> dict[str, float]:
        difference = estimated / measured - 1
        return {"estimated": estimated, "measured": measured, "difference": difference,
                "uncertainty": 0.1}  # fmt: skip

    metrics = {"area_mm2": row(1.05, 1.0), "fmax_mhz": row(150, 100)}
    stored = {"a": {"units": {"rows": {"metrics": metrics}}, "synthesized": {},
                    "simulated": {"compared": 1, "cycles": 100, "modelled": 99}}}  # fmt: skip
    lines = applied.table(stored).splitlines()
    assert "+5.0 %" in lines[2]
    assert lines[2].rstrip("| ").endswith("yes")
    assert lines[3].rstrip("| ").endswith("no")
    assert "-1.0 %" in applied.simulations(stored)
