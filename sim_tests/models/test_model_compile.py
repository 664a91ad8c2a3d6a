# SPDX-License-Identifier: Apache-2.0
"""Compiled decoders: one list from a prompt to the tokens behind it, equal to golden runs."""

from __future__ import annotations

import ctypes
import json
import logging
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.drivers.model_driver import model_driver
from flows.build.load import load_config
from flows.simulation.models.program_run import run_compiled
from hwgen.cli import main
from hwgen.core.lists.commands import STATES
from hwgen.core.params.base import FamilyConfig
from hwgen.errors import InputError
from hwgen.families.transformer.core import TransformerCore
from hwgen.families.transformer.list_timing import timed_list
from hwgen.families.transformer.params import TransformerConfig
from hwgen.families.transformer.registers import list_registers
from hwgen.families.transformer.trace import trace
from hwgen.models.compile.compilation import Settings
from hwgen.models.compile.decoder_list import register_values
from hwgen.models.compile.list_compilation import ListCompilation
from hwgen.models.compile.list_program import CompiledList, ListProgram, generate
from hwgen.models.compile.placement import IMAGE, LIST, WORK
from hwgen.models.files.store import Model
from hwgen.models.run.block_rows import KEY_FORMATS
from hwgen.models.run.engine import Run
from hwgen.models.run.float_engine import FloatEngine
from hwgen.models.run.golden_engine import GoldenEngine
from hwgen.models.run.shipped import SHIPPED_ENGINES
from hwgen.models.run.units import Units
from sim_tests.emission.test_driver import Device
from sim_tests.emission.test_other_drivers import Registers, library
from sim_tests.engines.decoder_engines import small_engine
from sim_tests.models.model_files import Small
from sim_tests.models.test_model_golden import TOKENS, quantised
from sim_tests.support.c_programs import LOAD, access
from sim_tests.support.paths import ROOT

SMALL = replace(Small(), width=32, hidden=64, heads=2, kv_heads=1)
PROMPT = TOKENS[:5]
WINDOW = {"llama.attention.sliding_window": 3}
GROUPS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "decoder_w4/engine": ({"blocks": "q4_0"}, {"weights": "int4", "group": 32}),
    "decoder_w4/int4": (
        {"blocks": "q4_0", "int4": True}, {"weights": "int4", "group": 32, "activation_bits": 4},
    ),
    "decoder_w4/kv_mxfp8": (
        {"blocks": "q4_0", "keys": "fp8_e4m3"},
        {"weights": "int4", "group": 32, "kv_format": "mxfp8"},
    ),
    "decoder_w4/kv_mxfp4": (
        {"blocks": "q4_0", "keys": "fp4_e2m1"},
        {"weights": "int4", "group": 32, "kv_format": "mxfp4"},
    ),
    "decoder_mxfp4/engine": ({"blocks": "mxfp4"}, {"weights": "mxfp4"}),
    "decoder_mxfp4/mxfp8": (
        {"blocks": "mxfp4", "mxfp8": True}, {"weights": "mxfp4", "activations": "mxfp8"},
    ),
    "decoder_nvfp4/engine": ({"blocks": "nvfp4"}, {"weights": "nvfp4"}),
}  # fmt: skip
"""Shipped engines of weights in groups: small ones alike, and recipes for them."""

ON_TOKEN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return quantised(tmp_path_factory.mktemp("model"), SMALL)


def width_of(recipe: dict[str, Any], head: int = 32) -> int:
    """Return the width of a model of two heads, which are whole blocks if keys are in blocks."""
    return 2 * head if "kv_format" in recipe else SMALL.width


def compiled(model: Model, config: TransformerConfig, path: Path, **settings: Any) -> CompiledList:
    path.mkdir()
    ListCompilation(model, config, Settings(**settings)).write(path)
    return CompiledList(path)


def load_engine(path: Path) -> TransformerConfig:
    result = load_config(path)
    assert isinstance(result, TransformerConfig)
    return result


def number_bits(program: ListProgram, name: str, count: int) -> np.ndarray:
    array = program.compiled.arrays[name]
    return np.frombuffer(program.memory.read(array.address, 4 * count), "<u4")


def assert_same(
    model: Model,
    result: CompiledList,
    config: TransformerConfig,
    count: int,
    prompt: list[int] = PROMPT,
) -> None:
    """Compare the logits of each step with those of a golden run on the same units."""
    run, tokens, program = Run(GoldenEngine(model, Units([config]))), prompt, ListProgram(result)
    logits = run.feed(prompt)
    for token in generate(program, prompt, count):
        wanted = logits[-1].view(np.uint32)
        bits = number_bits(program, "logits.result", len(wanted))
        np.testing.assert_array_equal(bits, wanted)
        assert token == int(logits[-1].argmax())
        tokens = [*tokens, token]
        logits = run.feed([token])
    whole = ListProgram(result)
    whole.start(prompt)
    assert whole.run(0, len(prompt), count) == tokens[len(prompt) :]
    last = result.arrays["list"]
    assert whole.memory.read(last.address, last.bytes) == result.data


def test_a_list_computes_what_golden_runs_do(model: Model, tmp_path: Path) -> None:
    config = small_engine()
    result = compiled(model, config, tmp_path / "compiled", tokens=3, context=16)
    assert_same(model, result, config, 3)


@pytest.mark.parametrize("engine", GROUPS)
def test_weights_in_groups(engine: str, tmp_path: Path) -> None:
    small, recipe = GROUPS[engine]
    model = quantised(tmp_path, replace(SMALL, layers=1, width=width_of(recipe)), **recipe)
    config = small_engine(**small)
    result = compiled(model, config, tmp_path / "c", tokens=2, context=8)
    assert_same(model, result, config, 2)


def test_ternary_weights_and_norms_after_attention(tmp_path: Path) -> None:
    small = replace(SMALL, architecture="bitnet-25", sub_norms=True)
    model = quantised(tmp_path, small, weights="ternary")
    config = small_engine(ternary=True, gate="relu2")
    result = compiled(model, config, tmp_path / "c", tokens=1, context=8, base=0x8000_0000)
    assert_same(model, result, config, 1)


def test_one_unit_for_all_operations_on_rows(model: Model, tmp_path: Path) -> None:
    config = small_engine(shared=True)
    assert list(config.units) == ["products", "rows", "heads"]
    result = compiled(model, config, tmp_path / "compiled", tokens=2, context=8)
    assert_same(model, result, config, 2)


@pytest.mark.slow
@pytest.mark.rotate(96)
def test_hardware_computes_a_token_with_one_unit_for_rows(model: Model, tmp_path: Path) -> None:
    config = small_engine(shared=True)
    result = compiled(model, config, tmp_path / "c", tokens=1, context=4)
    simulated = run_compiled(result, PROMPT[:1], 1, stalls=0.2, read_latency=5)
    logits = Run(GoldenEngine(model, Units([config]))).feed(PROMPT[:1])
    assert simulated.tokens == [int(logits[-1].argmax())]
    assert simulated.compared == result.bytes


def test_biases_of_products(tmp_path: Path) -> None:
    model = quantised(tmp_path, replace(SMALL, architecture="qwen2", bias=True, layers=1))
    assert any(name.endswith(".bias") for name in model.description.tensors)
    config = small_engine()
    result = compiled(model, config, tmp_path / "c", tokens=2, context=8)
    assert_same(model, result, config, 1)


def test_blocks_are_rotated_before_they_are_quantised(tmp_path: Path) -> None:
    model = quantised(tmp_path, replace(SMALL, layers=1), hadamard=4)
    config = small_engine(hadamard=4)
    result = compiled(model, config, tmp_path / "c", tokens=2, context=8)
    assert_same(model, result, config, 2)
    with pytest.raises(InputError, match=r"needs hadamard_quantise .* in blocks of 4; .* has 2"):
        ListCompilation(model, small_engine(hadamard=2), Settings())


def test_attention_that_looks_back_so_far(tmp_path: Path) -> None:
    model = quantised(tmp_path, replace(SMALL, more=WINDOW))
    attention = [node for node in model.description.nodes if node.operation == "attention"]
    assert {node.attributes["window"] for node in attention} == {3}
    config = small_engine()
    result = compiled(model, config, tmp_path / "c", tokens=3, context=16)
    assert_same(model, result, config, 4)


def test_golden_runs_on_scales_of_hardware_are_near_the_reference(model: Model) -> None:
    golden = Run(GoldenEngine(model, Units([small_engine()]))).feed(TOKENS, every=True)
    reference = Run(FloatEngine(model)).feed(TOKENS, every=True)
    for row, wanted in zip(golden, reference, strict=True):
        assert np.corrcoef(row, wanted)[0, 1] > 0.998


def test_memory_is_mapped(model: Model, tmp_path: Path) -> None:
    result = compiled(model, small_engine(), tmp_path / "compiled", context=16)
    places = sorted(
        (array.address + n * array.stride, array.bytes)
        for array in result.arrays.values()
        for n in range(array.count)
    )
    for (address, size), (following, _) in pairwise(places):
        assert address % 64 == 0
        assert address + size <= following
    assert {array.region for array in result.arrays.values()} == {IMAGE, LIST, WORK}
    keys = result.arrays["layer.attention.keys"]
    assert (keys.bytes, keys.count) == (16 * 24, 2)


def test_what_does_not_fit_says_by_how_much(model: Model) -> None:
    config = small_engine()
    size = ListCompilation(model, config, Settings()).memory.end
    ListCompilation(model, config, Settings(memory_bytes=size))
    with pytest.raises(InputError, match=f"takes {size:,d} bytes, 10 more than the"):
        ListCompilation(model, config, Settings(memory_bytes=size - 10))
    narrow = small_engine(memory={"data_width": 64, "max_burst": 8, "address_width": 32})
    with pytest.raises(InputError, match=f"ends {size - 4096:,d} bytes behind the last address of"):
        ListCompilation(model, narrow, Settings(base=(1 << 32) - 4096))


def test_what_cannot_be_compiled_is_said(model: Model, tmp_path: Path) -> None:
    for settings, text in (
        ({"base": 8}, "--base: must be a multiple of 64"),
        ({"context": 65}, "--context: must be 64 or less"),
    ):
        with pytest.raises(InputError, match=text):
            ListCompilation(model, small_engine(), Settings(**settings))
    for config, text in (
        (small_engine(lists={"registers": 8}), "lists.registers: must be 16"),
        (small_engine(without="scales"), "offers dequantise with x fp32, result int16"),
        (small_engine(gate="gelu"), "its gate is silu, that of rows is gelu"),
    ):
        with pytest.raises(InputError, match=text):
            ListCompilation(model, config, Settings())
    description = model.description
    for change, text in (({"query_unit": 0.0}, "has no query_unit"),):
        nodes = tuple(
            node.model_copy(update={"attributes": {**node.attributes, **change}})
            if node.operation == "attention"
            else node
            for node in description.nodes
        )
        other = Model(model.path)
        other.description = description.model_copy(update={"nodes": nodes})
        with pytest.raises(InputError, match=text):
            ListCompilation(other, small_engine(), Settings())


def test_engines_that_take_other_weights_are_named(model: Model, tmp_path: Path) -> None:
    int8, w4, ternary = (
        load_engine(ROOT / "configs" / name)
        for name in ("decoder_engine/int8.yaml", "decoder_w4/engine.yaml",
                     "decoder_engine/ternary.yaml")
    )  # fmt: skip
    for name in ("rows", "groups"):
        (tmp_path / name).mkdir()
    rows = quantised(tmp_path / "rows", SMALL, weights="int4")
    groups = quantised(tmp_path / "groups", SMALL, weights="int4", group=32)
    for each, config, text in (
        (model, w4, r"by q4_0; compile it for configs/decoder_engine/int8\.yaml$"),
        (rows, w4, r"quantise the model with --group 32, or compile it for configs/decoder_engine"),
        (groups, int8, r"compile it for configs/decoder_w4/engine\.yaml, for an engine whose core"),
        (model, ternary, r"compile it for configs/decoder_engine/int8\.yaml$"),
    ):
        with pytest.raises(InputError, match=text) as refusal:
            ListCompilation(each, config, Settings())
        assert "--unit" not in str(refusal.value)


def test_engines_that_are_shipped_are_as_their_files_say() -> None:
    for engine in SHIPPED_ENGINES:
        units = Units([load_engine(ROOT / "configs" / engine.file)]).configs
        parts: Any = [getattr(config, "compute", config) for config in units]
        product: Any = next(config for config in units if config.multiplies)
        assert str(product.activation) == engine.activation
        weights = "ternary" if product.compute.family == "ternary_lut" else str(product.weight)
        assert weights == engine.weight
        assert product.max_k == engine.longest
        heads = next(part for part in parts if part.family == "attention")
        key = KEY_FORMATS[engine.keys].name if engine.keys else "int8"
        assert (str(heads.key), heads.head) == (key, 64)
        arrays = [part.array for part in parts if part.family == "vector"]
        assert {a.gate for a in arrays if "gated" in a.operations} == {engine.gate}
        turned = {a.hadamard for a in arrays if "hadamard_quantise" in a.operations}
        assert (turned or {0}) == {engine.hadamard}
    files = {engine.file for engine in SHIPPED_ENGINES}
    assert files == {
        str(path.relative_to(ROOT / "configs"))
        for path in (ROOT / "configs").glob("decoder_*/*.yaml")
        if "family: transformer" in path.read_text()
    }


def test_rows_that_are_too_long_name_the_unit(model: Model) -> None:
    engine = small_engine()
    tree = engine.model_dump(mode="json", exclude_unset=True)
    tree["units"]["sums"]["compute"]["array"]["longest_row"] = 128  # enough for all but logits
    with pytest.raises(
        InputError, match=r"units\.sums\.compute\.array\.longest_row to 272 or more"
    ):
        ListCompilation(model, TransformerConfig.model_validate(tree), Settings())


def test_an_operation_that_is_not_compiled_is_named(model: Model) -> None:
    nodes = list(model.description.nodes)
    norm = next(node for node in nodes if node.name == "output_norm")
    changes = {"operation": "softmax", "inputs": {"x": norm.inputs["x"]}, "attributes": {"axis": 1}}
    changed = norm.model_copy(update=changes)
    other = Model(model.path)
    other.description = model.description.model_copy(
        update={"nodes": tuple(changed if node is norm else node for node in nodes)}
    )
    with pytest.raises(InputError, match="output_norm: softmax is no operation of compiled"):
        ListCompilation(other, small_engine(), Settings())


def test_layers_that_are_not_alike_are_compiled_together(model: Model, tmp_path: Path) -> None:
    nodes = list(model.description.nodes)
    place = next(i for i, node in enumerate(nodes) if node.name == "layers.1.feed_norm")
    nodes[place] = nodes[place].model_copy(update={"attributes": {"epsilon": 0.5}})
    other = Model(model.path)
    other.description = model.description.model_copy(update={"nodes": tuple(nodes)})
    config = small_engine()
    result = compiled(other, config, tmp_path / "compiled", tokens=3, context=16)
    assert_same(other, result, config, 2)
    assert result.document["layers"] == 1
    assert {"layer.0.feed_norm.gamma", "layer.1.feed_norm.gamma"} < set(result.arrays)


def compiled_by_command(
    model: Model, config: FamilyConfig, work: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[Path, str]:
    """Compile by the command, which refuses too little memory; return where to and the output."""
    engine, out = work / "engine.yaml", work / "out"
    engine.write_text(json.dumps(config.resolved()))
    arguments = ["model", "compile", str(model.path), "--config", str(engine), "--output", str(out)]
    assert main([*arguments, "--context", "16", "--memory-bytes", "1_000"]) == 2
    assert "more than the 1,000 of the memory" in capsys.readouterr().err
    assert main([*arguments, "--context", "16"]) == 0
    return out, capsys.readouterr().out


@pytest.mark.rotate(6)
def test_commands(model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, printed = compiled_by_command(model, small_engine(), tmp_path, capsys)
    for text in ("layer.attention.keys", "prefill of 4 behind 0", "decode of 1 behind 15"):
        assert text in printed
    layers = json.loads((out / "layers.json").read_text())
    decode, limits = layers["decode"], layers["limits"]["decode"]
    total = sum(row["cycles"] for row in decode["operations"])
    assert total == limits["cycles"] == sum(limits["by_unit"].values())
    assert set(limits["by_limit"]) <= {"memory port", "compute"}
    assert layers["speed"]["passes"]["decode"]["tokens_per_s"] > 0
    by_node = {(row["operation"], row["unit"]): row for row in decode["operations"]}
    assert by_node["logits", "products"]["read_bytes"] >= 272 * 32
    assert by_node["layer.gate", "products"]["jobs"] == 2
    assert decode["least"] < decode["cycles"]
    run = ["model", "run", str(out), "--prompt", "the", "--tokens"]
    assert main([*run, "1"]) == 0
    assert capsys.readouterr().out.startswith("the")
    for wrong in (["99"], ["1", "--engine", "float"], ["1", "--layers", "0"]):
        assert main([*run, *wrong]) == 2
    other = ["model", "compile", str(model.path), "--config", "configs/systolic.yaml"]
    assert main([*other, "--output", str(tmp_path / "other")]) == 2
    assert "must be one that executes command lists" in capsys.readouterr().err


def test_compiled_files_that_do_not_belong_together(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "compiled"
    document = compiled(model, small_engine(), path, context=8).document
    for name, key, value, text in (
        ("x", "bytes", 1 << 30, "ends at 0x"),
        ("x", "address", -1, "cannot be"),
        ("x", "count", 0, "cannot be"),
        ("x", "stride", "1", "cannot be"),
        ("tokens", "bytes", 4, "no room for 8 tokens"),
        ("list", "address", 64, "is not where"),
    ):
        arrays = [{**a, key: value} if a["name"] == name else a for a in document["arrays"]]
        (path / "compiled.json").write_text(json.dumps({**document, "arrays": arrays}))
        with pytest.raises(InputError, match=text):
            CompiledList(path)
    (path / "compiled.json").write_text(json.dumps(document))
    (path / "image.bin").write_bytes(b"")
    with pytest.raises(InputError, match="has 0 bytes, not"):
        CompiledList(path)
    (path / "compiled.json").write_text('{"hwgen_compiled": 2}')
    with pytest.raises(InputError, match="is not complete"):
        CompiledList(path)


class Host(ctypes.Structure):
    _fields_ = (
        ("device", ctypes.POINTER(Device)),
        ("context", ctypes.c_void_p),
        ("load", LOAD),
        ("store", LOAD),
    )


class FakeEngine(Registers):
    """Registers and a memory, in which lists are executed by the golden interpreter."""

    def __init__(self, result: CompiledList, library: ctypes.CDLL) -> None:
        super().__init__(result.config.name, list_registers(result.config), library)
        self.program = ListProgram(result)
        self.on_write = self._started
        self.host = Host(ctypes.pointer(self.device), None, *access(self.program.memory))

    def _started(self, name: str, value: int) -> None:
        self.values[name] = value
        if name == "START":
            registers = [self.values.get(f"R{i}_LOW", 0) for i in range(5)]
            self.program.run(registers[1], registers[2], registers[3] - registers[2] + 1)
            self.values["STATUS"] = STATES.index("done") << 8


def test_the_program_in_c_generates_tokens(model: Model, tmp_path: Path) -> None:
    """Compiled as C and as C++, with the engine by its golden interpreter."""
    config, path = small_engine(), tmp_path / "compiled"
    result = compiled(model, config, path, context=8)
    files = model_driver(TransformerCore(config), result.document)
    engine = FakeEngine(result, library(config, files, path))
    name, host = config.name, ctypes.byref(engine.host)
    image = (path / "image.bin").read_bytes()
    getattr(engine.library, f"{name}_prepare")(host, image, result.data)
    made: list[int] = []

    def on_token(_: Any, token: int) -> int:
        made.append(token)
        return 1

    prompt, count = (ctypes.c_uint32 * 5)(*PROMPT), ctypes.c_uint32()

    def generate_in_c(length: int, most: int) -> int:
        function = getattr(engine.library, f"{name}_generate")
        return int(function(host, prompt, length, most, 0, ON_TOKEN(on_token), ctypes.byref(count)))

    assert generate_in_c(5, 2) == 0
    assert made == list(generate(ListProgram(result), PROMPT, 2))
    assert count.value == 2
    assert generate_in_c(5, 5) == generate_in_c(0, 1) == -100
    prompt[1] = result.vocabulary
    assert generate_in_c(5, 1) == -101


@pytest.mark.parametrize("engine", GROUPS)
def test_shipped_engines_of_groups(engine: str, tmp_path: Path) -> None:
    config: Any = load_config(ROOT / "configs" / f"{engine}.yaml")
    recipe = GROUPS[engine][1]
    turned = {} if recipe.keys() & {"activations", "activation_bits"} else {"hadamard": 8}
    width = width_of(recipe, 64)
    model = quantised(tmp_path, replace(SMALL, layers=1, width=width), **turned, **recipe)
    result = compiled(model, config, tmp_path / "c", tokens=2, context=8)
    assert_same(model, result, config, 1)
    (tmp_path / "int8").mkdir()
    integers = quantised(tmp_path / "int8", SMALL)
    with pytest.raises(
        InputError, match=r"products takes (int4|int8|mxfp8_e4m3) by (q4_0|mxfp4|nvfp4)"
    ):
        ListCompilation(integers, config, Settings())


@pytest.mark.slow
@pytest.mark.rotate(240)
@pytest.mark.parametrize("engine", GROUPS)
def test_hardware_computes_a_token_with_groups(engine: str, tmp_path: Path) -> None:
    small, recipe = GROUPS[engine]
    config = small_engine(**small)
    model = quantised(tmp_path, replace(SMALL, layers=1, width=width_of(recipe)), **recipe)
    result = compiled(model, config, tmp_path / "c", tokens=1, context=4)
    simulated = run_compiled(result, PROMPT[:1], 1)
    logits = Run(GoldenEngine(model, Units([config]))).feed(PROMPT[:1])
    assert simulated.tokens == [int(logits[-1].argmax())]
    assert simulated.compared == result.bytes


@pytest.mark.long
@pytest.mark.parametrize("variant", ["int8", "ternary", "window", "turned"])
def test_hardware_runs_the_list_whole(variant: str, tmp_path: Path) -> None:
    """From the tokens of a prompt to those behind it: every byte of memory."""
    ternary = variant == "ternary"
    small = (
        replace(SMALL, kv_heads=2, architecture="bitnet-25", sub_norms=True) if ternary else SMALL
    )
    if variant == "window":
        small = replace(SMALL, more=WINDOW)
    block = 4 if variant == "turned" else 0
    model = quantised(tmp_path, small, weights="ternary" if ternary else "int8", hadamard=block)
    gate = "relu2" if ternary else "silu"
    config = small_engine(ternary=ternary, gate=gate, hadamard=block)
    result = compiled(model, config, tmp_path / "c", tokens=3, context=16)
    plain = run_compiled(result, PROMPT, 3)
    # A trace loads zeros, which must not be the token at which generation ends.
    events = trace(
        config, result.address, result.data, register_values(config, None, 0, len(PROMPT), 3)
    )
    modelled = timed_list(config, events)
    # docs/transformer-engine.md has these figures, in this order.
    figures = modelled.least, modelled.cycles, plain.cycles, modelled.most
    logging.getLogger(__name__).info("%s: %d %d %d %d", variant, *figures)
    assert modelled.least <= plain.cycles <= modelled.most
    assert abs(modelled.cycles - plain.cycles) < 0.05 * plain.cycles
    stalled = run_compiled(result, PROMPT, 3, stalls=0.3, read_latency=9)
    assert plain.tokens == stalled.tokens
    assert plain.cycles < stalled.cycles
