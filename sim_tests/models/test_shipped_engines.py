# SPDX-License-Identifier: Apache-2.0
"""The table of shipped engines says what their files say, and which models they take."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.load import load_config
from hwgen.cli import main
from hwgen.errors import InputError
from hwgen.models.files.store import Model
from hwgen.models.quantise.quantise import quantise
from hwgen.models.quantise.recipe import Recipe
from hwgen.models.run.shipped import (
    SHIPPED_ENGINES,
    ShippedEngine,
    engines_for,
    engines_named,
    naming_engines,
)
from sim_tests.models.model_files import Small
from sim_tests.models.test_model_runs import made
from sim_tests.support.paths import CONFIGS

TOKENS = [int(t) for t in np.random.default_rng(5).integers(1, 90, 24)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return made(tmp_path_factory.mktemp("model"), Small())


@pytest.mark.parametrize("engine", SHIPPED_ENGINES, ids=lambda engine: engine.file)
def test_an_engine_is_what_its_file_says(engine: ShippedEngine) -> None:
    config: Any = load_config(CONFIGS / engine.file)
    core = config.job_unit.compute
    assert str(core.weight) == engine.weight
    assert str(core.activation) == engine.activation
    cores = {name: unit.compute for name, unit in config.units.items()}
    rows = [core for core in cores.values() if "gated" in getattr(core.array, "operations", ())]
    assert [core.array.gate for core in rows] == [engine.gate]
    turning = {
        core.array.hadamard
        for core in cores.values()
        if "hadamard_quantise" in getattr(core.array, "operations", ())
    }
    assert turning == ({engine.hadamard} if engine.hadamard else set())
    (attention,) = (core for core in cores.values() if core.family == "attention")
    assert (attention.scales == "block") == bool(engine.keys)


@pytest.mark.parametrize(
    ("recipe", "file"),
    [
        ({}, "decoder_engine/int8.yaml"),
        ({"weights": "int4", "group": 32}, "decoder_w4/engine.yaml"),
        ({"weights": "mxfp4"}, "decoder_mxfp4/engine.yaml"),
        ({"weights": "nvfp4"}, "decoder_nvfp4/engine.yaml"),
        ({"weights": "ternary"}, "decoder_engine/int8.yaml"),  # the other one has another gate
    ],
)
def test_engines_are_named_for_models_that_they_take(
    recipe: dict[str, Any], file: str, model: Model, tmp_path: Path
) -> None:
    quantise(model, tmp_path, TOKENS, Recipe(**recipe))
    named = engines_for(Model(tmp_path))
    assert f"configs/{file}" in named
    assert "configs/decoder_engine/ternary.yaml" not in named
    assert engines_named(Model(tmp_path)) == named
    for said in (["no"], ["no", *named]):  # once, even where the refusal names it already
        with pytest.raises(InputError) as refused, naming_engines(Model(tmp_path)):
            raise InputError(" ".join(said))
        assert all(str(refused.value).count(each) == 1 for each in named)


def test_a_gate_that_an_engine_lacks_is_noticed(tmp_path: Path) -> None:
    squared = made(tmp_path, Small(architecture="bitnet-b1.58", sub_norms=True))
    for number, (weights, files) in enumerate(
        {"int8": [], "ternary": ["configs/decoder_engine/ternary.yaml"]}.items()
    ):
        directory = tmp_path / str(number)
        directory.mkdir()
        quantise(squared, directory, TOKENS, Recipe(weights=weights))  # type: ignore[arg-type]
        assert engines_for(Model(directory)) == files
        copy = "a copy of configs/decoder_engine/int8.yaml with `gate: relu2` in its unit rows"
        assert engines_named(Model(directory)) == (files or [copy])


def test_quantise_lists_engines_and_refusals_name_them(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, out = tmp_path / "tokens.npy", tmp_path / "q"
    np.save(text, np.array(TOKENS))
    line = ["model", "quantise", str(model.path), "-o", str(out), "--calibration", str(text)]
    assert main([*line, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["engines"] == ["configs/decoder_engine/int8.yaml"]
    other = str(CONFIGS / "decoder_ternary" / "products.yaml")
    line = ["model", "run", str(out), "--engine", "golden", "--unit", other]
    assert main([*line, "--prompt", "a", "--tokens", "1"]) == 2
    error = capsys.readouterr().err
    assert other in error
    assert "this model runs on configs/decoder_engine/int8.yaml" in error


def test_tables_of_several_designs_say_what_they_include(
    model: Model,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    quantise(model, tmp_path, TOKENS, Recipe())
    line = [
        "model",
        "estimate",
        str(tmp_path),
        "--memory",
        "lpddr4x",
        "--context",
        "32",
        "--prompt",
        "8",
    ]
    products = str(CONFIGS / "decoder" / "products.yaml")
    whole = str(CONFIGS / "decoder_engine" / "int8.yaml")
    assert main([*line, "-c", products, "-c", whole]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^design .* W .* includes +limited by", out, re.M)
    assert re.search(r"^decoder/products.yaml .* products +compute", out, re.M)
    assert re.search(r"^decoder_engine/int8.yaml .* all +compute", out, re.M)
    assert "products.yaml: not in these figures: attention and operations on rows" in out
