# SPDX-License-Identifier: Apache-2.0
"""Decoders of each family, as transformers writes them, against its logits."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from flows.build.load import parse_config
from flows.simulation.models.job_run import RtlJobs
from flows.simulation.models.model_run import Record, RtlEngine
from flows.simulation.models.program_run import run_compiled
from hwgen.cli import main
from hwgen.core.params.base import FamilyConfig
from hwgen.errors import InputError
from hwgen.models.compile.job_program import JobProgram
from hwgen.models.compile.list_program import ListProgram
from hwgen.models.files.safetensors_file import read_checkpoint
from hwgen.models.files.store import Model
from hwgen.models.quantise.rotation import rotate_values_only, rotated
from hwgen.models.run.engine import Run
from hwgen.models.run.float_engine import FloatEngine
from hwgen.models.run.golden_engine import GoldenEngine
from hwgen.models.run.units import Units
from sim_tests.engines.decoder_engines import small_engine
from sim_tests.models.checkpoints import (
    FOLDER,
    NAMES,
    TOLERANCE,
    copied,
    divergence,
    error_of,
    imported,
    log_softmax,
    mutants,
    quantised,
    reference,
)
from sim_tests.models.fuzz_checkpoints import campaign
from sim_tests.models.gguf_checkpoints import write_checkpoint
from sim_tests.models.test_model_compile import assert_same, compiled
from sim_tests.models.test_model_jobs import CModel, compilation, engine, program, written
from sim_tests.support.selection import commit_seed

VECTOR = "{name: %s, family: vector, input: %s, output: %s, parameters: fp32, array: {%s}}"
ARRAY = "operations: [%s], lanes: 4, longest_row: 1024"
PRODUCTS = (
    "{name: products, family: systolic, accumulator: int32, max_k: 1024,"
    " array: {rows: 4, cols: 4, dataflow: weight_stationary}}"
)
ATTENTION = (
    "{name: attention, family: attention, head: 16, max_keys: 64, output: int16,"
    " array: {rows: 4, lanes: 4}}"
)

GOAL = 4e-4
"""Largest divergence of golden runs from transformers, in nats, with default options."""

CAPPED = "gemma2"
"""The checkpoint whose scores have a soft cap, which attention units have not."""


def norm_of(name: str) -> str:
    """Return the operation of a checkpoint's normalisations."""
    return "layer_norm" if name.startswith("stablelm") else "rms_norm"


def gate_of(name: str) -> str:
    """Return the gate of a checkpoint."""
    return "gelu_tanh" if name.startswith("gemma") else "silu"


def hardware(name: str) -> list[FamilyConfig]:
    """Return the units that a checkpoint runs on."""
    return [parse_config(text) for text in unit_texts(norm_of(name), gate_of(name))]


def unit_texts(norm: str, gate: str) -> tuple[str, ...]:
    """Return the configurations of units with a normalisation and a gate."""
    rows = ARRAY % f"{norm}, rope, gated, add" + f", gate: {gate}"
    return (
        VECTOR % ("rows", "fp32", "fp32", rows),
        VECTOR % ("quantise", "fp32", "int8", ARRAY % "quantise"),
        PRODUCTS,
        VECTOR % ("dequantise", "int32", "fp32", ARRAY % "dequantise_rows"),
        ATTENTION,
        VECTOR % ("results", "int16", "fp32", ARRAY % "dequantise"),
    )


@pytest.fixture(scope="module")
def float_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Model]:
    """Return a function that imports a checkpoint, once."""
    folder, models = tmp_path_factory.mktemp("models"), dict[str, Model]()

    def model_of(name: str) -> Model:
        if name not in models:
            models[name] = imported(copied(name, folder / name), folder / f"{name}-model")
        return models[name]

    return model_of


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_transformers(name: str, float_model: Callable[[str], Model]) -> None:
    assert error_of(float_model(name), name) < TOLERANCE
    assert np.exp(log_softmax(reference(name)[1])).max(1).mean() > 0.3


@pytest.mark.parametrize("name", NAMES)
def test_configurations_of_version_4_say_the_same(
    name: str, float_model: Callable[[str], Model], tmp_path: Path
) -> None:
    model = imported(copied(name, tmp_path / name, old=True), tmp_path / "model")
    assert model.description.nodes == float_model(name).description.nodes
    assert model.digest() == float_model(name).digest()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "qwen2_window"])
def test_gguf_files_are_the_same_decoders(
    name: str, float_model: Callable[[str], Model], tmp_path: Path
) -> None:
    """Windows of some layers of Qwen2 are nothing that GGUF says."""
    write_checkpoint(FOLDER / name, tmp_path / "model.gguf")
    model, wanted = imported(tmp_path / "model.gguf", tmp_path / "model"), float_model(name)
    assert error_of(model, name) < TOLERANCE
    for node, other in zip(model.description.nodes, wanted.description.nodes, strict=True):
        assert (node.name, node.inputs) == (other.name, other.inputs)
        attributes, others = {**node.attributes}, {**other.attributes}
        assert attributes.pop("gate", None) == others.pop("gate", None)
        assert attributes == pytest.approx(others, rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_every_part_of_an_architecture_counts(
    name: str, float_model: Callable[[str], Model]
) -> None:
    """Leaving out any norm, bias, rotation, window, cap or scale changes the logits."""
    errors = {what: error_of(model, name) for what, model in mutants(float_model(name))}
    assert len(errors) >= 9
    assert {what: error for what, error in errors.items() if not error > 2 * TOLERANCE} == {}


@pytest.mark.parametrize("name", [name for name in NAMES if name != CAPPED])
def test_golden_runs_are_near_transformers(
    name: str, float_model: Callable[[str], Model], tmp_path: Path
) -> None:
    model = quantised(float_model(name), tmp_path / "quantised")
    run = Run(GoldenEngine(model, Units(hardware(name))))
    logits = run.feed(reference(name)[0], every=True)
    assert divergence(logits, name) < GOAL


@pytest.mark.parametrize("name", ["gemma3", "olmo2", "qwen3"])
def test_normalised_queries_are_rotated_by_hardware(
    name: str, float_model: Callable[[str], Model], tmp_path: Path
) -> None:
    model = quantised(float_model(name), tmp_path / "quantised", hadamard=8)
    logits = Run(FloatEngine(model)).feed(reference(name)[0], every=True)
    # Blocks of 8 are the whole of a head of OLMo 2; the default, which rotates values, is nearer.
    assert divergence(logits, name) < (5e-4 if name == "olmo2" else GOAL)


def test_values_are_rotated_where_the_stream_cannot_be(
    float_model: Callable[[str], Model],
) -> None:
    model = float_model("olmo2")
    assert rotated(model) is None
    changed = rotate_values_only(model)
    assert changed is not None
    names = [name for name in model.description.tensors if changed.changed(name)]
    assert len(names) == 2 * model.description.layers
    for name in names:
        assert np.abs(changed.numbers(name) - model.numbers(name)).max() > 0.01
    logits = Run(FloatEngine(changed)).feed(reference("olmo2")[0], every=True)
    assert divergence(logits, "olmo2") < 1e-9


def test_units_have_no_soft_cap_of_scores(
    float_model: Callable[[str], Model], tmp_path: Path
) -> None:
    model = quantised(float_model(CAPPED), tmp_path / "quantised")
    with pytest.raises(InputError, match=r"layers\.0\.attention: attention units have no soft cap"):
        GoldenEngine(model, Units(hardware(CAPPED)))


@pytest.mark.rotate(12)
@pytest.mark.parametrize("name", NAMES)
def test_jobs_and_their_host_in_c_compute_the_same(
    name: str, float_model: Callable[[str], Model], tmp_path: Path
) -> None:
    model, tokens = quantised(float_model(name), tmp_path / "quantised"), reference(name)[0]
    result = compilation(model, engine(), context=32, tokens=3)
    compiled_jobs = written(result, tmp_path / "jobs")
    golden = program(compiled_jobs)
    logits = np.array([golden.feed([token]) for token in tokens])
    assert divergence(logits, name) < GOAL
    in_c, at = CModel(result, compiled_jobs), 0
    for count in (7, 1, 3):
        bits = in_c.logits(at, tokens[at : at + count]).view(np.uint32)
        at += count
        np.testing.assert_array_equal(bits, logits[at - 1].view(np.uint32))


@pytest.mark.rotate(12)
@pytest.mark.parametrize("name", [name for name in NAMES if name != CAPPED])
def test_a_list_computes_what_golden_runs_do(
    name: str, float_model: Callable[[str], Model], tmp_path: Path
) -> None:
    model = quantised(float_model(name), tmp_path / "quantised")
    config = small_engine(gate=gate_of(name), norm=norm_of(name))
    result = compiled(model, config, tmp_path / "list", tokens=3, context=16)
    assert_same(model, result, config, 3, reference(name)[0][:8])


@pytest.mark.long  # an engine is compiled
@pytest.mark.parametrize("name", [name for name in NAMES if name != CAPPED])
def test_hardware_runs_the_list_whole(
    name: str, float_model: Callable[[str], Model], tmp_path: Path
) -> None:
    """From three tokens to the next: every byte of memory is that of the golden interpreter."""
    model = quantised(float_model(name), tmp_path / "quantised")
    config = small_engine(gate=gate_of(name), norm=norm_of(name))
    result = compiled(model, config, tmp_path / "list", tokens=2, context=8)
    prompt = reference(name)[0][:3]
    wanted = ListProgram(result)
    wanted.start(prompt)
    assert run_compiled(result, prompt, 1).tokens == wanted.run(0, len(prompt), 1)


@pytest.mark.long  # an engine is compiled
def test_products_of_a_capped_layer_run_on_rtl(
    float_model: Callable[[str], Model], tmp_path: Path
) -> None:
    model = quantised(float_model(CAPPED), tmp_path / "quantised")
    result = compilation(model, engine(), context=16, tokens=3)
    files, record = written(result, tmp_path / "jobs"), Record(layers={0})
    with closing(RtlJobs(files, record)) as rtl:
        logits = JobProgram(files, rtl).feed(reference(CAPPED)[0][:3])
    np.testing.assert_array_equal(logits, program(files).feed(reference(CAPPED)[0][:3]))
    assert record.simulated == 14


@pytest.mark.rotate(68)
@pytest.mark.slow  # six designs are compiled
@pytest.mark.parametrize("name", [name for name in NAMES if name != CAPPED])
def test_a_layer_runs_on_rtl(
    name: str, float_model: Callable[[str], Model], tmp_path: Path
) -> None:
    """Two tokens, then one more: every bit of every operation of the last layer."""
    model = quantised(float_model(name), tmp_path / "quantised")
    configs, tokens = hardware(name), reference(name)[0]
    record = Record(layers={model.description.layers - 1})
    run, golden = Run(RtlEngine(model, configs, record)), Run(GoldenEngine(model, Units(configs)))
    for part in (tokens[:2], tokens[2:3]):
        bits, wanted = (each.feed(part).view(np.uint32) for each in (run, golden))
        np.testing.assert_array_equal(bits, wanted)
    assert record.simulated > 0
    assert set(record.cycles) == {config.name for config in configs}


def refused(source: Path, directory: Path) -> str:
    with pytest.raises(InputError) as caught:
        imported(source, directory)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}},
         "rope_type 'dynamic': supported are default, linear, llama3, yarn, longrope"),
        ("llama_3", {"rope_parameters": {"rope_type": "llama3"}}, "factor: must be a positive"),
        ("llama", {"hidden_act": "tanh"}, "hidden_act 'tanh': supported are silu"),
        ("gemma2", {"hidden_activation": 3}, "hidden_activation 3: supported are"),
        ("gemma3", {"layer_types": ["chunked_attention"] * 3}, "layer_types: 'chunked_attention'"),
        ("gemma3", {"layer_types": ["full_attention"]}, "must be a list of 3 names"),
        ("phi4", {"rope_parameters": {"rope_type": "longrope", "short_factor": [1.0]}},
         "short_factor: must be a list of 8 positive numbers"),
        ("stablelm", {"qk_layernorm": True}, "qk_layernorm"),
        ("smollm3", {"no_rope_layers": [1]}, "no_rope_layers: must be a list of 4 flags"),
        ("llama", {"tie_word_embeddings": False, "vocab_size": 65}, "must be of shape (65, 32)"),
        ("phi3", {"num_key_value_heads": 4}, "must have 32 + 32 + 32 rows, not (64, 32)"),
        ("qwen2", {"tie_word_embeddings": False}, "the tensor of output is missing"),
        ("llama", {"model_type": "mamba"}, "model_type: 'mamba' is not supported"),
    ],
)  # fmt: skip
def test_configurations_that_cannot_be_are_named(
    name: str, changes: dict[str, object], words: str, tmp_path: Path
) -> None:
    source = copied(name, tmp_path / name)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    (source / "config.json").write_text(json.dumps({**config, **changes}), encoding="utf-8")
    assert words in refused(source, tmp_path / "model")


def test_shards_that_are_missing_or_differ_from_their_index_are_named(tmp_path: Path) -> None:
    source = copied("qwen2", tmp_path / "checkpoint")
    index, (first, second) = source / "model.safetensors.index.json", sorted(
        source.glob("*.safetensors")
    )  # fmt: skip
    document = json.loads(index.read_text(encoding="utf-8"))
    data = second.read_bytes()
    second.write_bytes(data[:-40])
    text = refused(source, tmp_path / "truncated")
    assert f"{second} is no readable safetensors file" in text
    second.unlink()
    words = f"{second.name} missing: the checkpoint is not complete"
    assert words in refused(source, tmp_path / "missing")
    index.unlink()
    assert words in refused(source, tmp_path / "without index")
    second.write_bytes(data)
    assert imported(source, tmp_path / "all").description.layers == 2
    for number, (place, words) in enumerate(
        (
            ("../other.safetensors", "must be the name of a file beside the index"),
            (7, "must be the name of a file beside the index"),
            (first.name, f"is not in {first.name}"),
        )
    ):
        places = {**document["weight_map"]}
        name = next(key for key, value in places.items() if value == second.name)
        index.write_text(json.dumps({"weight_map": {**places, name: place}}), encoding="utf-8")
        assert words in refused(source, tmp_path / str(number))
    index.write_text("[]", encoding="utf-8")
    assert "must be an object" in refused(source, tmp_path / "list")
    index.write_text('{"weight_map": []}', encoding="utf-8")
    assert "weight_map: must be an object" in refused(source, tmp_path / "empty")


def test_a_number_that_is_none_is_named_with_its_place(tmp_path: Path) -> None:
    source = copied("phi3", tmp_path / "checkpoint")
    path = source / "model.safetensors"
    stored = read_checkpoint(source)
    names = "model.layers.1.self_attn.qkv_proj.weight", "model.norm.weight"
    arrays = {name: tensor.array().copy() for name, tensor in stored.items()}
    for number, (name, place) in enumerate(zip(names, ((50, 3), (7,)), strict=True)):
        broken = {key: array.copy() for key, array in arrays.items()}
        broken[name][place] = np.nan
        save_file(broken, path)
        text = refused(source, tmp_path / str(number))
        assert f"{path}: tensor '{name}': element {place} is nan" in text


def test_the_command_leaves_nothing_of_a_refused_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = copied("llama", tmp_path / "checkpoint")
    path = source / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-2])
    arguments = ["model", "import", str(source), "--output", str(tmp_path / "out")]
    assert main(arguments) == 2
    assert "is no readable safetensors file" in capsys.readouterr().err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["checkpoint"]


def test_mutated_checkpoints_are_read_or_refused(tmp_path: Path) -> None:
    counts = campaign(tmp_path, files=400, seed=commit_seed())
    assert sum(counts.values()) == 400
    assert min(counts["read"], counts["refused"]) > 40


@pytest.mark.long
def test_many_mutated_checkpoints_are_read_or_refused(tmp_path: Path) -> None:
    assert sum(campaign(tmp_path, files=6000, seed=3).values()) == 6000
