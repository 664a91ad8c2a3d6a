# SPDX-License-Identifier: Apache-2.0
"""Quantised models: integers that stand for the weights, and how near predictions stay."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from flows.bench import quantisation
from flows.build.load import parse_config
from hwgen.cli import main
from hwgen.cli.model.quantise import _is_ternary
from hwgen.errors import InputError
from hwgen.formats.registry import block_format
from hwgen.models.files.store import Model
from hwgen.models.quantise import duration
from hwgen.models.quantise import quantise as quantise_module
from hwgen.models.quantise.calibration import Calibration
from hwgen.models.quantise.compensation import compensated, factor, round_to_e2m1
from hwgen.models.quantise.evaluation import compare_predictions
from hwgen.models.quantise.quantise import parts_of, quantise
from hwgen.models.quantise.recipe import Recipe
from hwgen.models.quantise.rotation import orthogonal, rotated
from hwgen.models.quantise.smoothing import sites_of
from hwgen.models.run.block_rows import block_operand, round_blocks
from hwgen.models.run.engine import Run
from hwgen.models.run.float_engine import FloatEngine
from hwgen.models.run.group_weights import misfit
from hwgen.models.run.units import Units
from sim_tests.models.model_files import Ggml, Small
from sim_tests.models.test_model_runs import made

TOKENS = [int(token) for token in np.random.default_rng(4).integers(0, 272, 48)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return made(tmp_path_factory.mktemp("model"), Small())


def quantised(model: Model, directory: Path, **recipe: Any) -> tuple[Model, list[Any]]:
    directory.mkdir()
    reports = quantise(model, directory, TOKENS, Recipe(**recipe))
    return Model(directory), reports


def test_int8_stays_near_the_model_and_wider_activations_nearer(
    model: Model, tmp_path: Path
) -> None:
    near, reports = quantised(model, tmp_path / "a")
    assert [report.name for report in reports][:2] == ["layers.0.query", "layers.0.key"]
    assert len(reports) == 15
    assert all(0 < report.error < 0.03 for report in reports)
    result = compare_predictions(FloatEngine(model), FloatEngine(near), TOKENS)
    assert result.top1 > 0.9
    assert result.kl < 0.02
    wide, _ = quantised(model, tmp_path / "b", activation_bits=16, kv_bits=16, group=32)
    nearer = compare_predictions(FloatEngine(model), FloatEngine(wide), TOKENS)
    assert nearer.kl < result.kl
    same = compare_predictions(FloatEngine(model), FloatEngine(model), TOKENS)
    assert same.top1 == 1
    assert same.kl == 0
    assert same.loss == same.reference_loss


def test_smoothing_helps_where_a_channel_is_large_and_changes_nothing_else(tmp_path: Path) -> None:
    model = made(tmp_path, replace(Small(), weight_type=Ggml.F32))
    gamma = model.description.tensors["layers.0.feed_norm"].values
    with (model.path / "weights.bin").open("r+b") as file:
        file.seek(gamma.offset + 4 * 5)
        file.write(np.float32(60).tobytes())
    model = Model(model.path)
    plainly = {"rotate": False, "compensate": False}
    plain, without = quantised(model, tmp_path / "plain", smooth=False, **plainly)
    smooth, reports = quantised(model, tmp_path / "smooth", **plainly)
    error = {r.name: r.error for r in reports}["layers.0.gate"]
    assert error < 0.6 * {r.name: r.error for r in without}["layers.0.gate"]
    # Factors cancel: without the rounding of activations, products are those of the weights.
    names = ("layers.0.feed_norm", "layers.0.gate")
    for result, tolerance in ((plain, 0.02), (smooth, 0.02)):
        wanted = model.numbers(names[0]) * model.numbers(names[1])
        got = result.numbers(names[0]) * result.numbers(names[1])
        assert np.abs(got - wanted).max() < tolerance * np.abs(wanted).max()


@pytest.mark.parametrize(("weights", "group", "most"), [
    ("int8", None, 127), ("int4", 32, 7), ("ternary", None, 1), ("ternary", 32, 1),
])  # fmt: skip
def test_weights_are_integers_of_the_recipe(
    weights: Any, group: int | None, most: int, model: Model, tmp_path: Path
) -> None:
    result, _ = quantised(model, tmp_path / "q", weights=weights, group=group, smooth=False)
    groups = result.groups("layers.1.up")
    assert groups is not None
    assert np.abs(groups.values.astype(int)).max() == most
    stored = result.description.tensors["layers.1.up"]
    assert stored.scales is not None
    whole = (1, 1) if weights == "ternary" else (96, 1)
    assert stored.scales.shape == ((96, 2) if group else whole)
    if weights == "ternary" and group is None:
        original = model.numbers("layers.1.up")
        scale = np.abs(original).mean(dtype=np.float32)
        np.testing.assert_allclose(groups.scales, scale, rtol=1e-6)
        wanted = np.clip(np.rint(original / groups.scales[0, 0]), -1, 1)
        np.testing.assert_array_equal(groups.values, wanted)


def test_integers_of_the_file_are_preserved(model: Model, tmp_path: Path) -> None:
    result, _ = quantised(model, tmp_path / "q", weights="original")
    mine, given = result.groups("layers.1.down"), model.groups("layers.1.down")
    assert mine is not None
    assert given is not None
    assert mine.offsets is not None
    for one, two in zip(mine, given, strict=True):
        np.testing.assert_array_equal(one, two)
    assert result.description.tensors["layers.1.down"].origin == "Q4_1"


def test_a_scale_that_all_blocks_share_becomes_one_a_row(tmp_path: Path) -> None:
    wide = Small(width=512, hidden=512, heads=8, layers=1, weight_type=Ggml.TQ2_0)
    model = made(tmp_path, wide)
    tensor = model.description.tensors["layers.0.up"]
    assert tensor.scales is not None
    assert tensor.scales.shape == (512, 2)
    with (model.path / "weights.bin").open("r+b") as file:
        file.seek(tensor.scales.offset)
        file.write(np.full(1024, 0.25, np.float32).tobytes())
    result, _ = quantised(Model(model.path), tmp_path / "q", weights="original")
    groups, other = result.groups("layers.0.up"), result.groups("layers.0.down")
    assert groups is not None
    assert other is not None
    assert groups.scales.shape == (512, 1)
    assert other.scales.shape == (512, 2)  # random: they differ
    np.testing.assert_array_equal(groups.numbers(), Model(model.path).numbers("layers.0.up"))


def test_operations_of_a_quantised_model(model: Model, tmp_path: Path) -> None:
    result, _ = quantised(model, tmp_path / "q", rotate=False)
    layer = [node for node in result.description.nodes if node.layer == 0]
    names = [node.operation for node in layer]
    assert names.count("quantise") == 4  # one for queries, keys and values together
    attention = next(node for node in layer if node.operation == "attention")
    assert attention.attributes["bits"] == 8
    assert all(attention.attributes[f"{name}_unit"] for name in ("key", "value"))
    assert "logits.weights" in result.description.tensors  # of its own: the table is not divided
    np.testing.assert_array_equal(result.numbers("embedding"), model.numbers("embedding"))
    with pytest.raises(InputError, match="quantised already"):
        quantise(result, tmp_path, TOKENS, Recipe())
    with pytest.raises(InputError, match="no whole groups of 128"):
        quantised(model, tmp_path / "r", weights="int4", group=128)
    assert Run(FloatEngine(result)).feed(TOKENS[:3]).shape == (1, 272)


def test_earlier_options_name_the_new_ones(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["model", "quantise", str(model.path), "--output", str(tmp_path / "q")]
    arguments += ["--calibration", str(tmp_path / "x.npy")]
    for options, text in (
        (["--judge", "x.txt"], "--judge is called --evaluate"),
        (["--weights", "kept"], "'kept' is called 'original'"),
    ):
        assert main([*arguments, *options]) == 2
        assert text in capsys.readouterr().err


def test_the_command_reports_each_product_and_evaluates(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = tmp_path / "tokens.npy"
    np.save(tokens, np.array(TOKENS))
    text = tmp_path / "text.txt"
    text.write_text("in the beginning there was a small text, and it was read by a model")
    arguments = ["model", "quantise", str(model.path), "--output", str(tmp_path / "q")]
    assert main([*arguments, "--calibration", str(tokens), "--evaluate", str(text), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert len(result["layers"]) == 15
    assert result["evaluations"][str(text)]["kl"] < 0.05
    record = json.loads((tmp_path / "q" / "quantised.json").read_text())
    assert record["recipe"]["weights"] == "int8"
    assert record["recipe"]["rotate"] is True
    weights = (model.path / "weights.bin").read_bytes()
    assert record["source"]["sha256"]["weights.bin"] == hashlib.sha256(weights).hexdigest()
    assert record["calibration"][0]["sha256"] == hashlib.sha256(tokens.read_bytes()).hexdigest()
    assert record["evaluations"][0]["file"] == "text.txt"
    assert record["evaluations"][0]["kl"] == result["evaluations"][str(text)]["kl"]
    assert record["layers"] == result["layers"]
    assert main([*arguments, "--calibration", str(text), "--weights", "int4", "--group", "32",
                 "--evaluate", str(tokens), "--positions", "20",
                 "--calibration", str(tokens)]) == 0  # fmt: skip
    out = capsys.readouterr().out
    assert "20 positions: the same token is the most likely in" in out
    for more, said in (
        (["--positions", "20"], "--positions: belongs to --evaluate FILE"),
        (["--positions", "1000", "--evaluate", str(text)], "use --positions 64 or fewer"),
    ):
        text.write_text("a text that is longer than the context " * 9)
        assert main([*arguments, "--calibration", str(tokens), *more]) == 2
        assert said in capsys.readouterr().err
    np.save(tokens, np.array([1]))
    assert main([*arguments, "--calibration", str(tokens)]) == 2
    assert main([*arguments, "--calibration", str(tmp_path / "none")]) == 2


def test_ternary_weights_are_recognised(model: Model, tmp_path: Path) -> None:
    result, _ = quantised(model, tmp_path / "q", weights="ternary")
    assert _is_ternary(result)
    assert not _is_ternary(model)


@pytest.mark.parametrize("size", [1, 2, 9, 64, 72, 576])
def test_rotations_are_orthogonal_and_spread(size: int) -> None:
    turn = orthogonal(size)
    np.testing.assert_allclose(turn @ turn.T, np.eye(size), atol=1e-12)
    assert np.abs(turn).max() <= np.sqrt(2 / size) + 1e-9


def test_a_rotated_model_is_equivalent_and_no_channel_is_large(model: Model) -> None:
    turned = rotated(model)
    assert turned is not None
    wanted, result = (Run(FloatEngine(one)).feed(TOKENS, every=True) for one in (model, turned))
    np.testing.assert_allclose(result, wanted, atol=2e-4 * np.abs(wanted).max())
    assert np.all(turned.numbers("layers.0.feed_norm") == 1)
    assert "logits.weights" in turned.description.tensors  # the table is turned otherwise


def test_blocks_that_hardware_rotates(tmp_path: Path) -> None:
    model = made(tmp_path, replace(Small(), architecture="qwen2", bias=True, weight_type=Ggml.F32))
    wide, _ = quantised(
        model, tmp_path / "wide", activation_bits=16, kv_bits=16, hadamard=8, compensate=False
    )
    same = compare_predictions(FloatEngine(model), FloatEngine(wide), TOKENS)
    assert same.kl < 1e-4
    near, _ = quantised(model, tmp_path / "near", hadamard=8)
    turned_nodes = [n for n in near.description.nodes if n.attributes.get("hadamard") == 8]
    assert {n.operation for n in turned_nodes} == {"quantise", "attention"}
    plain, _ = quantised(model, tmp_path / "plain", rotate=False, smooth=False, compensate=False)
    result = [
        compare_predictions(FloatEngine(model), FloatEngine(each), TOKENS) for each in (near, plain)
    ]
    assert result[0].kl < result[1].kl
    with pytest.raises(
        InputError, match=r"attention: rows of 16 elements are no whole blocks of 32"
    ):
        quantised(model, tmp_path / "r", hadamard=32)
    with pytest.raises(InputError, match="original weights"):
        Recipe(weights="original", hadamard=8)
    with pytest.raises(InputError, match="rotated either beforehand"):
        Recipe(rotate=True, hadamard=8)


@pytest.mark.parametrize("attributes", [{"hadamard": 3}, {"hadamard": 128}, {"hadamard": 64}])
def test_blocks_that_cannot_be_are_refused(
    model: Model, tmp_path: Path, attributes: dict[str, int]
) -> None:
    result, _ = quantised(model, tmp_path / "q", rotate=False, smooth=False, compensate=False)
    text = json.loads((result.path / "model.json").read_text())
    node = next(n for n in text["nodes"] if n["name"] == "layers.0.gated.quantise")
    node["attributes"].update(attributes)
    (result.path / "model.json").write_text(json.dumps(text))
    with pytest.raises(
        InputError, match=r"layers\.0\.gated\.quantise: (hadamard must be|rows of 96)"
    ):
        Model(result.path)


def test_calibration_does_not_depend_on_threads(model: Model, tmp_path: Path) -> None:
    digests = set()
    for count in (1, 2):
        with threadpool_limits(limits=count, user_api="blas"):
            result, _ = quantised(model, tmp_path / str(count))
        digests.add((result.path / "weights.bin").read_bytes())
    assert len(digests) == 1


def test_a_stream_that_something_else_reads_is_not_rotated(model: Model, tmp_path: Path) -> None:
    nodes = list(model.description.nodes)
    place = next(i for i, node in enumerate(nodes) if node.name == "layers.1.up")
    inputs = {**nodes[place].inputs, "x": "embed:0"}
    nodes[place] = nodes[place].model_copy(update={"inputs": inputs})
    other = Model(model.path)
    other.description = model.description.model_copy(update={"nodes": tuple(nodes)})
    assert rotated(other) is None
    with pytest.raises(InputError, match="cannot be rotated"):
        quantise(other, tmp_path, TOKENS, Recipe(rotate=True))
    with pytest.raises(InputError, match="original weights"):
        Recipe(weights="original", rotate=True)


@pytest.mark.parametrize("groups", [1, 3])
def test_errors_of_rounding_are_made_good(groups: int) -> None:
    rng = np.random.default_rng(7)
    mix = rng.standard_normal((48, 48)) * np.geomspace(1, 0.02, 48)[:, None]
    x = (rng.standard_normal((400, 48)) @ mix).astype(np.float32)
    weights = rng.standard_normal((20, 48)).astype(np.float32)
    scales = np.abs(weights.reshape(20, groups, -1)).max(2) / np.float32(7)
    by_element = np.repeat(scales, 48 // groups, axis=1)
    order, spread = factor(x.T @ x / len(x), 0.0)
    assert sorted(order) == list(range(48))
    damped = np.linalg.inv(spread.astype(float).T @ spread)
    np.testing.assert_allclose(damped, damped.T, rtol=1e-3, atol=1e-3)
    ours = compensated(weights, scales, 7, order, spread)
    plain = np.rint(weights / by_element)
    assert np.abs(ours).max() <= 7
    error, wanted = (
        np.square(x @ (values * by_element - weights).T).mean() for values in (ours, plain)
    )
    assert error < 0.5 * wanted


def test_the_table_of_weight_formats(model: Model, tmp_path: Path) -> None:
    small, _ = quantised(model, tmp_path / "q")
    names = [node.inputs["weights"] for node in small.description.nodes if node.operation == "gemm"]
    rows = [small.description.tensors[name].shape for name in names]
    bits = 8 + 16 * sum(n for n, _ in rows) / sum(n * k for n, k in rows)
    assert quantisation.weight_bits(small.description) == pytest.approx(bits)
    evaluations = ({"top1": 0.9571, "kl": 0.00569}, {"top1": 0.0, "kl": 7.941})
    cells = [quantisation.cell(each) for each in evaluations]
    assert cells == ["95.7 %, 0.0057", "0.0 %, 7.94"]


def test_e2m1_is_rounded_to_the_nearest_number() -> None:
    numbers = np.linspace(-14, 14, 2801, dtype=np.float32)
    grid = np.array([0, 1, 2, 3, 4, 6, 8, 12])
    grid = np.concatenate([-grid[:0:-1], grid])
    result = round_to_e2m1(numbers, 12)
    assert set(result) == set(grid)
    nearest = np.abs(numbers[:, None] - grid).min(1)
    np.testing.assert_allclose(np.abs(result - numbers), nearest, rtol=0, atol=1e-6)


def test_weights_in_mxfp4() -> None:
    rng = np.random.default_rng(3)
    weights = rng.standard_normal((8, 96)).astype(np.float32)
    weights[0, :32] = 0
    groups = Recipe(weights="mxfp4").of("product", weights)
    fraction, _ = np.frexp(groups.scales)
    assert groups.scales.shape == (8, 3)
    assert (fraction == 0.5).all()
    assert {*np.unique(np.abs(groups.values))} <= {0, 1, 2, 3, 4, 6, 8, 12}
    error = np.square(groups.numbers() - weights).mean() / np.square(weights).mean()
    assert error < 0.02
    with pytest.raises(InputError, match="groups of mxfp4 have 32 elements, not 64"):
        Recipe(weights="mxfp4", group=64)


def test_weights_in_nvfp4() -> None:
    rng = np.random.default_rng(3)
    weights = rng.standard_normal((8, 96)).astype(np.float32) * np.exp2(
        rng.integers(-3, 4, (8, 1))
    ).astype(np.float32)
    weights[0, :32] = 0
    groups = Recipe(weights="nvfp4").of("product", weights)
    assert groups.scales.shape == (8, 6)
    assert not misfit(block_format("nvfp4"), groups)
    error = np.square(groups.numbers() - weights).mean(1)
    assert (error[1:] < 0.012 * np.square(weights[1:]).mean(1)).all()
    with pytest.raises(InputError, match="groups of nvfp4 have 16 elements, not 32"):
        Recipe(weights="nvfp4", group=32)
    zeros = Recipe(weights="nvfp4").of("product", np.zeros((2, 32), np.float32))
    assert not zeros.numbers().any()


def test_rows_in_mxfp8() -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((4, 96)).astype(np.float32)
    x[0] *= np.float32(1e-40)
    x[1, :32] = 0
    config = parse_config(
        "name: b\nfamily: vector\ninput: fp32\noutput: fp8_e4m3\n"
        "array: {operations: [quantise_block], longest_row: 32}\n",
        "b.yaml",
    )
    blocks = Units([config]).quantise_block()({"x": x.reshape(-1, 32)})
    operand = block_operand(blocks["result"], blocks["scales"], len(x))
    decoded = block_format("mxfp8_e4m3").decode(operand)
    np.testing.assert_array_equal(decoded.astype(np.float32)[1:], round_blocks(x)[1:])
    for options, text in (
        ({}, "need weights in groups of 32"),
        ({"weights": "nvfp4"}, "need weights in groups of 32"),
        ({"weights": "mxfp4", "hadamard": 8}, "leave out --hadamard"),
    ):
        with pytest.raises(InputError, match=text):
            Recipe(activations="mxfp8", **options)


def test_activations_that_no_unit_takes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["model", "quantise", "nothing", "-o", "out", "--calibration", "none.txt"]
    assert main([*arguments, "--activation-bits", "6"]) == 2
    assert "must be 4 or 8, not 6" in capsys.readouterr().err


def test_calibration_holds_one_layer_at_a_time(model: Model) -> None:
    """The same operands come out as of all layers at once, and none of other layers are kept."""
    sites = sites_of(model.description)
    arrays, tokens = {site.array for site in sites}, [*range(40), *range(3)]
    parts = parts_of(model.description, sites)
    assert len(parts) == model.description.layers + 2  # table of tokens, layers, output
    assert [index for part in parts for index in part] == [*range(len(model.description.nodes))]
    whole, layers = (Calibration(model, [tokens, tokens[:9]], arrays, moments=True) for _ in "ab")
    whole.advance(range(len(model.description.nodes)))
    for part in parts:
        layers.advance(part)
        made = {node.output for node in model.description.nodes[part.start : part.stop]}
        assert {name for name, inputs in layers.operands.items() if inputs.count} == made & arrays
        for name in made & arrays:
            one, other = layers.operands.pop(name), whole.operands[name]
            np.testing.assert_array_equal(one.rows, other.rows)
            np.testing.assert_array_equal(one.moments, other.moments)
    assert not layers.operands


def test_what_is_divided_with_its_products_is_in_one_part(model: Model) -> None:
    nodes = tuple(
        node.model_copy(update={"layer": 7}) if node.operation == "rms_norm" else node
        for node in model.description.nodes
    )
    description = model.description.model_copy(update={"nodes": nodes})
    sites = sites_of(description)
    parts = parts_of(description, sites)
    at = {node.name: index for index, node in enumerate(nodes)}
    for site in sites:
        places = {at[node.name] for node in (*site.products, site.maker) if node is not None}
        assert sum(bool(places & set(part)) for part in parts) == 1


def test_a_long_quantisation_is_estimated_beforehand(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Steps follow the recipe, and their times the measured rates and the sizes."""
    description = model.description
    assert not duration.estimated_steps(description, [64], Recipe())  # short: nothing is measured
    monkeypatch.setattr(duration, "_SHORT", 1)
    rates = duration.Rates(1e-6, 1e-6, 1e-9, 1e-6, 1e-8, 1e-7)
    steps = {
        step.name: step for step in duration.estimated_steps(description, [64], Recipe(), rates)
    }
    assert [*steps] == ["calibration", "rotation", "smoothing", "compensation"]
    longer = duration.estimated_steps(description, [128, 5], Recipe(rotate=False), rates)
    assert [step.name for step in longer] == ["calibration", "smoothing", "compensation"]
    assert 2 < longer[0].seconds / steps["calibration"].seconds < 3
    bare = Recipe(rotate=False, compensate=False, smooth=False)
    (only,) = duration.estimated_steps(description, [64], bare, rates)
    assert only.seconds < steps["calibration"].seconds  # without moments
    real = duration.measured_rates()
    assert all(0 <= getattr(real, name) < 1e-5 for name in vars(real))
    monkeypatch.setattr(duration, "measured_rates", lambda: rates)
    np.save(tmp_path / "tokens.npy", np.array(TOKENS))
    monkeypatch.setattr("hwgen.cli.model.quantise._LONG", 0)
    arguments = ["model", "quantise", str(model.path), "-o", str(tmp_path / "out")]
    assert main([*arguments, "--calibration", str(tmp_path / "tokens.npy")]) == 0
    error = capsys.readouterr().err
    assert "quantising takes about" in error
    assert "compensation, " in error
    assert "less with --no-compensate" in error


def test_weights_that_were_read_are_released(model: Model) -> None:
    """Released pages are read again, the same."""
    name = next(iter(model.description.tensors))
    before = model.numbers(name)
    model.forget()
    np.testing.assert_array_equal(model.numbers(name), before)


def with_a_large_channel(model: Model, directory: Path) -> Model:
    """Return an equal model with a pair of channels of keys that are large, of queries small."""
    shutil.copytree(model.path, directory)
    with (directory / "weights.bin").open("r+b") as file:
        for name, heads, factor in (("key", 1, 40.0), ("query", 2, 1 / 40)):
            tensor = f"layers.0.{name}"
            matrix = model.numbers(tensor).reshape(heads, 32, -1).copy()
            matrix[:, 2:4] *= np.float32(factor)
            file.seek(model.description.tensors[tensor].values.offset)
            file.write(matrix.astype("<f4").tobytes())
    return Model(directory)


def test_channels_of_keys_are_made_alike_for_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large channel would leave the others of its block nothing."""
    small = Small(width=64, heads=2, kv_heads=1, weight_type=Ggml.F32, layers=1, tensor_scale=4.0)
    model = made(tmp_path, small)
    large = with_a_large_channel(model, tmp_path / "large")
    recipe = {"weights": "int8", "activation_bits": 16, "compensate": False, "rotate": False}

    def divergence(source: Model, name: str) -> float:
        result, _ = quantised(source, tmp_path / name, kv_format="mxfp4", **recipe)
        return compare_predictions(FloatEngine(source), FloatEngine(result), TOKENS).kl

    usual, alike = divergence(model, "usual"), divergence(large, "alike")
    monkeypatch.setattr(
        quantise_module, "key_factors", lambda node, largest, of_a_head: np.ones((1, 32), "f4")
    )
    apart = divergence(large, "apart")
    assert alike < 1.5 * usual
    assert apart > 2 * alike
