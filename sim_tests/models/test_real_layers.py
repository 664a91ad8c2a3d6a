# SPDX-License-Identifier: Apache-2.0
"""Real models, compiled: a layer of SmolLM2-135M, fetched by `make demo-llm`, and the ternary one.

``python -m pytest -m long sim_tests/models/test_real_layers.py``
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flows.build.load import load_config
from flows.simulation.models.one_layer import cut
from flows.simulation.models.program_run import run_compiled
from hwgen.families.transformer.list_timing import timed_list
from hwgen.families.transformer.trace import trace
from hwgen.models.compile.compilation import Settings
from hwgen.models.compile.list_compilation import ListCompilation
from hwgen.models.compile.list_program import CompiledList, ListProgram
from hwgen.models.files.store import Model
from hwgen.models.files.tokenizer import Tokenizer
from hwgen.models.import_model import import_model
from hwgen.models.quantise.quantise import quantise
from hwgen.models.quantise.recipe import Recipe
from hwgen.models.run.engine import Run
from hwgen.models.run.golden_engine import GoldenEngine
from hwgen.models.run.units import Units
from sim_tests.models.real_layers import DoubleEngine
from sim_tests.support.paths import ROOT

MODELS = ROOT / "build" / "llm"
TEXT = "The capital of France is Paris, a city on the river Seine."


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(float).ravel(), b.astype(float).ravel()
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def rotation_of_stream(full: Model, quantised: Model) -> np.ndarray:
    """Return the rotation of the residual stream by quantisation, from the embeddings."""
    name = full.description.nodes[0].inputs["table"]
    before, after = (model.numbers(name).astype(float) for model in (full, quantised))
    result: np.ndarray = np.linalg.lstsq(before[:4096], after[:4096], rcond=None)[0]
    np.testing.assert_allclose(result @ result.T, np.eye(len(result)), atol=1e-3)
    return result


@pytest.mark.long
@pytest.mark.skipif(not (MODELS / "int8").exists(), reason="`make demo-llm` has not run")
def test_the_first_layer_of_a_published_model(tmp_path: Path) -> None:
    """Tokens of a text: near double precision, and the RTL as the golden interpreter."""
    full, quantised = Model(MODELS / "model"), Model(MODELS / "int8")
    text = Tokenizer(full.tokenizer()).encode(TEXT)
    known = sorted({*text, *range(50)})
    tokens = [known.index(token) for token in text]
    for name in ("full", "quantised", "compiled"):
        (tmp_path / name).mkdir()
    double = DoubleEngine(cut(full, 0, known, tmp_path / "full"))
    Run(double).feed(tokens, every=True)
    model = cut(quantised, 0, known, tmp_path / "quantised")
    config = load_config(ROOT / "configs" / "decoder_engine" / "int8.yaml")
    ListCompilation(model, config, Settings(tokens=len(tokens), context=64)).write(  # type: ignore[arg-type]
        tmp_path / "compiled"
    )
    compiled = CompiledList(tmp_path / "compiled")
    program = ListProgram(compiled)
    program.start(tokens)
    program.run(0, len(tokens), 1)
    x = compiled.arrays["x"]
    result = np.frombuffer(program.memory.read(x.address, x.bytes), "<f4").reshape(len(tokens), -1)
    rotation = rotation_of_stream(full, quantised)
    before, after = double.streams[0] @ rotation, double.streams[-1] @ rotation
    assert cosine(result, after) > 0.999
    assert cosine(result - before, after - before) > 0.999
    simulated = run_compiled(compiled, tokens, 1)
    registers = compiled.registers(0, len(tokens), 1)
    events = trace(compiled.config, compiled.address, compiled.data, registers)
    modelled = timed_list(compiled.config, events)
    assert modelled.least <= simulated.cycles <= modelled.most
    assert abs(modelled.cycles - simulated.cycles) < 0.05 * simulated.cycles


@pytest.mark.long
def test_a_token_of_the_shipped_ternary_model(tmp_path: Path) -> None:
    """All layers, embeddings and the output layer: one list, every byte of memory."""
    for name in ("model", "quantised", "compiled"):
        (tmp_path / name).mkdir()
    import_model(ROOT / "configs" / "models" / "austen-16m.gguf", tmp_path / "model")
    model = Model(tmp_path / "model")
    encode = Tokenizer(model.tokenizer()).encode
    text = (ROOT / "configs" / "models" / "emma.txt").read_text(encoding="utf-8")
    quantise(model, tmp_path / "quantised", encode(text)[:256], Recipe(weights="original"))
    config = load_config(ROOT / "configs" / "decoder_engine" / "ternary.yaml")
    compilation = ListCompilation(Model(tmp_path / "quantised"), config, Settings(context=64))  # type: ignore[arg-type]
    compilation.write(tmp_path / "compiled")
    simulated = run_compiled(CompiledList(tmp_path / "compiled"), encode("Emma"), 1)
    run = Run(GoldenEngine(Model(tmp_path / "quantised"), Units([config])))
    assert simulated.tokens == [int(run.feed(encode("Emma"))[-1].argmax())]
