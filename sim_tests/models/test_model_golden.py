# SPDX-License-Identifier: Apache-2.0
"""Golden runs: a quantised decoder by the golden models of hardware units."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.load import load_config
from hwgen.cli import main
from hwgen.core.registry import core_of
from hwgen.errors import InputError
from hwgen.models.files.store import Model
from hwgen.models.quantise.quantise import quantise
from hwgen.models.quantise.recipe import Recipe
from hwgen.models.run.engine import Run
from hwgen.models.run.exact_products import ExactWeights
from hwgen.models.run.float_engine import FloatEngine
from hwgen.models.run.golden_engine import GoldenEngine, Rows
from hwgen.models.run.units import Units
from sim_tests.models.model_files import Small
from sim_tests.models.test_model_runs import made
from sim_tests.support.paths import ROOT

UNITS = sorted((ROOT / "configs" / "decoder").glob("*.yaml"))
TOKENS = [int(token) for token in np.random.default_rng(4).integers(0, 272, 24)]


def quantised(directory: Path, small: Small, **recipe: Any) -> Model:
    model = made(directory, small)
    out = directory / "quantised"
    out.mkdir()
    quantise(model, out, TOKENS, Recipe(**recipe))
    return Model(out)


@pytest.fixture(scope="module")
def units() -> Units:
    return Units(load_config(path) for path in UNITS)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return quantised(tmp_path_factory.mktemp("model"), Small())


def test_a_golden_run_is_near_the_reference_and_the_same_in_any_pieces(
    model: Model, units: Units
) -> None:
    engine = GoldenEngine(model, units)
    once = Run(engine).feed(TOKENS, every=True)
    reference = Run(FloatEngine(model)).feed(TOKENS, every=True)
    for row, wanted in zip(once, reference, strict=True):
        assert np.corrcoef(row, wanted)[0, 1] > 0.998
    run = Run(engine)
    parts = [run.feed(TOKENS[:5]), run.feed(TOKENS[5:9]), *(run.feed([t]) for t in TOKENS[9:])]
    rows = [4, 8, *range(9, len(TOKENS))]
    np.testing.assert_array_equal(np.concatenate(parts).view(np.uint32), once[rows].view(np.uint32))


def test_other_kinds_of_decoders_run(tmp_path: Path, units: Units) -> None:
    small = replace(Small(), architecture="qwen2", bias=True, kv_heads=1, tied=False)
    model = quantised(tmp_path, small, weights="ternary")
    golden = Run(GoldenEngine(model, units)).feed(TOKENS, every=True)
    reference = Run(FloatEngine(model)).feed(TOKENS, every=True)
    assert np.corrcoef(golden.reshape(-1), reference.reshape(-1))[0, 1] > 0.998


def test_products_are_those_of_the_core_and_of_the_unit_after_it(
    model: Model, units: Units
) -> None:
    engine = GoldenEngine(model, units)
    node = next(n for n in model.description.nodes if n.name == "layers.1.down")
    rng = np.random.default_rng(2)
    for rows in (1, 3):
        values = rng.integers(-127, 128, (rows, 96)).astype(np.int8)
        scales = rng.random(rows).astype(np.float32)
        actual = engine.gemm(node, Rows(values, scales))
        groups = model.groups("layers.1.down")
        assert groups is not None
        core = units.core(-127, 127, 96)
        product = core_of(core).multiply
        sums = product(values, np.ascontiguousarray(groups.values.T))
        unit = units.find("dequantise_rows", x="int32", result="fp32")
        columns = np.ascontiguousarray(groups.scales[:, 0])
        wanted = unit({"x": sums, "row_scales": scales, "scales": columns}, scale=1.0)["result"]
        np.testing.assert_array_equal(actual, wanted)


def test_a_unit_without_scales_of_rows_takes_a_job_for_each_row(
    model: Model, units: Units, tmp_path: Path
) -> None:
    path = next(path for path in UNITS if path.stem == "dequantise")
    other = tmp_path / "other.yaml"
    other.write_text(path.read_text().replace("dequantise_rows", "dequantise"))
    others = [*(load_config(path) for path in UNITS if path.stem != "dequantise")]
    single = GoldenEngine(model, Units([*others, load_config(other)]))
    result = Run(single).feed(TOKENS[:6], every=True)
    wanted = Run(GoldenEngine(model, units)).feed(TOKENS[:6], every=True)
    assert np.corrcoef(result.reshape(-1), wanted.reshape(-1))[0, 1] > 0.9999


def test_long_sums_are_exact(tmp_path: Path, units: Units) -> None:
    engine = GoldenEngine(quantised(tmp_path, Small()), units)
    name = "layers.0.down"
    weights = np.full((2, 5000), 127, np.int8)
    weights[1, ::2] = -127
    engine._cached[f"{name}.values"] = ExactWeights(weights)
    for rows in (1, 2):
        x = np.full((rows, 5000), -127, np.int8)
        expected = x.astype(np.int64) @ weights.T.astype(np.int64)
        np.testing.assert_array_equal(engine._product(x, name), expected)


def test_blocks_are_rotated_by_the_unit_that_has_them(tmp_path: Path, units: Units) -> None:
    model = quantised(tmp_path, Small(), hadamard=8)
    golden = Run(GoldenEngine(model, units)).feed(TOKENS, every=True)
    reference = Run(FloatEngine(model)).feed(TOKENS, every=True)
    assert np.corrcoef(golden.reshape(-1), reference.reshape(-1))[0, 1] > 0.999
    (tmp_path / "other").mkdir()
    other = quantised(tmp_path / "other", Small(), hadamard=4)
    with pytest.raises(InputError, match="in blocks of 4; quantise has 8, to int8; name a config"):
        GoldenEngine(other, units)


def test_what_the_units_cannot_do_is_said(tmp_path: Path, model: Model, units: Units) -> None:
    small = made(tmp_path, Small())
    with pytest.raises(InputError, match="not in int8 or int4; run `hwgen model quantise`"):
        GoldenEngine(small, units)
    for index, (recipe, text) in enumerate(
        (
            ({"weights": "int4", "group": 32}, "name a core with weight: int4_g32"),
            ({"activation_bits": 16}, "quantise with x in fp32, result in int16"),
            ({"kv_bits": 4}, "keys and values"),
        )
    ):
        out = tmp_path / str(index)
        out.mkdir()
        quantise(small, out, TOKENS, Recipe(**recipe))  # type: ignore[arg-type]
        with pytest.raises(InputError, match=text):
            GoldenEngine(Model(out), units)
    without = {
        "rows": "needs (rms_norm|add|rope|gated) with x in fp32",
        "attention": "needs attention",
        "products": "no unit multiplies matrices",
        "quantise": "needs quantise",
        "results": "needs dequantise with x in int16",
        "dequantise": "needs dequantise with x in int32",
    }
    for name, text in without.items():
        fewer = Units(load_config(path) for path in UNITS if path.stem != name)
        with pytest.raises(InputError, match=text):
            GoldenEngine(model, fewer)


def test_the_command_runs_on_hardware_that_is_named(
    model: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["model", "run", str(model.path), "--prompt", "the", "--tokens", "2"]
    named = [text for path in UNITS for text in ("--unit", str(path))]
    assert main([*arguments, "--engine", "golden", *named]) == 0
    assert capsys.readouterr().out.startswith("the")
    assert main([*arguments, "--engine", "golden"]) == 2
    assert main([*arguments, *named]) == 2
