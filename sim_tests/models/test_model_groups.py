# SPDX-License-Identifier: Apache-2.0
"""Weights in groups on cores whose weights are blocks: as the model has them, to the last bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.load import load_config, parse_config
from flows.simulation.models import model_run
from flows.simulation.models.model_run import Record, RtlEngine
from flows.simulation.run import JobRun
from hwgen.core.params.base import FamilyConfig
from hwgen.errors import InputError
from hwgen.formats.registry import block_format
from hwgen.models.files.gguf_blocks import Groups
from hwgen.models.files.store import Model
from hwgen.models.run.engine import Run
from hwgen.models.run.float_engine import FloatEngine
from hwgen.models.run.golden_engine import GoldenEngine
from hwgen.models.run.group_weights import difference, misfit, records, suggested
from hwgen.models.run.units import Units
from sim_tests.models.model_files import Ggml, Small
from sim_tests.models.test_model_golden import TOKENS, UNITS, quantised
from sim_tests.support.cores import golden

SMALL = Small()


def core(weight: str, name: str = "blocks", **changes: Any) -> FamilyConfig:
    """Return a core that multiplies int8 by blocks."""
    lines = {"family": "adder_tree", "activation": "int8", "accumulator": "fp32", **changes}
    lines = {"array": "{cols: 4, depth: 32}", **lines}
    text = "\n".join(f"{key}: {value}" for key, value in lines.items())
    array = "target: {technology: nangate45, clock_mhz: 50}"
    return parse_config(f"name: {name}\n{text}\nweight: {weight}\n{array}\n", "core.yaml")


def back() -> FamilyConfig:
    """Return a unit that turns sums in single precision into numbers."""
    array = "array: {operations: [dequantise_rows], lanes: 2, longest_row: 512}"
    formats = "input: fp32\noutput: fp32\nparameters: fp32"
    return parse_config(f"name: back\nfamily: vector\n{formats}\n{array}\n", "back.yaml")


@pytest.fixture(scope="module")
def shipped() -> list[FamilyConfig]:
    return [load_config(path) for path in UNITS]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return quantised(tmp_path_factory.mktemp("model"), SMALL, weights="int4", group=32)


def test_estimates_say_that_a_core_has_another_format(model: Model, tmp_path: Path) -> None:
    plain = core("int8", "plain", accumulator="int32")
    assert difference(model, plain) == (
        "weights of the model are -7..7 in groups of 32; plain multiplies by int8, and times and"
        " traffic are those of int8; a core with weight: int4_g32 has them as they are"
    )
    assert difference(model, core("int4_g32")) == ""
    whole = quantised(tmp_path, SMALL, weights="int8")
    assert difference(whole, plain) == ""
    assert "-127..127; narrow multiplies by int4" in difference(
        whole, core("int4", "narrow", accumulator="int32")
    )


@pytest.mark.parametrize(
    ("weight_type", "recipe", "weights"),
    [
        ("Q4_1", {"weights": "int4", "group": 32}, ("int4_g32",)),
        ("Q4_0", {"weights": "original"}, ("q4_0", "q4_1")),
        ("MXFP4", {"weights": "original"}, ("mxfp4", "q4_1")),
        ("Q4_1", {"weights": "mxfp4"}, ("mxfp4",)),
        ("Q4_1", {"weights": "nvfp4"}, ("nvfp4",)),
    ],
)
def test_golden_runs_take_groups(
    weight_type: str,
    recipe: dict[str, Any],
    weights: tuple[str, ...],
    tmp_path: Path,
    shipped: list[FamilyConfig],
) -> None:
    model = quantised(
        tmp_path,
        replace(SMALL, weight_type=Ggml[weight_type], embedding=Ggml.Q4_1),
        **recipe,
    )
    cores = [
        core(weight, f"core{number}", array=f"{{cols: 4, depth: {block_format(weight).block}}}")
        for number, weight in enumerate(weights)
    ]
    engine = GoldenEngine(model, Units([*cores, back(), *shipped]))
    used = {
        engine.cores[node.inputs["weights"]].name
        for node in model.description.nodes
        if node.operation == "gemm"
    }
    assert used == {each.name for each in cores}
    result = Run(engine).feed(TOKENS[:6], every=True)
    reference = Run(FloatEngine(model)).feed(TOKENS[:6], every=True)
    for row, wanted in zip(result, reference, strict=True):
        assert np.corrcoef(row, wanted)[0, 1] > 0.998


def test_scales_of_tensors_are_applied_after_the_core(
    tmp_path: Path, shipped: list[FamilyConfig]
) -> None:
    small = replace(SMALL, hidden=128, embedding=Ggml.Q4_1, weight_type=Ggml.NVFP4, layers=1)
    scale = 0.37
    model = quantised(tmp_path, replace(small, tensor_scale=scale), weights="original")
    cores = [core("q4_1", "logits"), core("nvfp4", "layers", array="{cols: 4, depth: 16}")]
    engine = GoldenEngine(model, Units([*cores, back(), *shipped]))
    for name, used in engine.cores.items():
        groups = model.groups(name)
        assert groups is not None
        wanted = np.float32(scale) if used.name == "layers" else np.float32(1)
        assert (engine.column_scales(name) == wanted).all()
        weight: Any = used.weight
        decoded = weight.decode(np.ascontiguousarray(engine.matrix(name).T))
        np.testing.assert_allclose(decoded * wanted, groups.numbers(), rtol=1e-6)
    result = Run(engine).feed(TOKENS[:6], every=True)
    reference = Run(FloatEngine(model)).feed(TOKENS[:6], every=True)
    for row, wanted_row in zip(result, reference, strict=True):
        assert np.corrcoef(row, wanted_row)[0, 1] > 0.998


def test_blocks_stand_for_the_weights_that_they_are_made_of() -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(-7, 8, (6, 128)).astype(np.int8)
    scales = rng.random((6, 2)).astype(np.float16).astype(np.float32)
    offsets = rng.standard_normal((6, 2)).astype(np.float16).astype(np.float32)
    for name, groups in (
        ("int4_g32", Groups(values, scales)),
        ("q4_1", Groups(values + 8, scales, offsets)),
        ("q4_1", Groups(values + 8, scales)),
    ):
        operand: Any = core(name).weight
        assert not misfit(operand, groups)
        result = records(operand, groups)
        assert result.shape == (128, 6)
        decoded = operand.decode(np.ascontiguousarray(result.T), np.ones(1, np.float32))
        np.testing.assert_array_equal(decoded.astype(np.float32), groups.numbers())


def test_what_no_core_takes_is_said(model: Model, shipped: list[FamilyConfig]) -> None:
    for cores, text in (
        ([], r"query: the model needs gemm of int8 by -7\.\.7 in groups of 32 with scales: prod"),
        ([], r"products takes int8 by int8; name a core with weight: int4_g32 by --unit"),
        ([core("int4_g64")], "blocks of 64, which groups of 32 are no multiples of"),
        ([core("int4_g32_zero")], "has zero points"),
        ([core("ternary_g32")], "has no element -7"),
        ([core("int4_g32", max_k=64)], r"layers\.0\.down: .*blocks adds up at most 64"),
        ([core("int4_g32", activation="fp16")], "blocks takes fp16 by int4_g32"),
    ):
        with pytest.raises(InputError, match=text):
            GoldenEngine(model, Units([*cores, back(), *shipped]))
    with pytest.raises(InputError, match="needs dequantise with x in fp32"):
        GoldenEngine(model, Units([core("int4_g32"), *shipped]))
    for value, minima, name in ((-8, False, "q4_0"), (15, True, "int4_g32_min"), (-128, False, "")):
        scale = np.ones((1, 1), np.float32)
        groups = Groups(np.full((1, 32), value, np.int8), scale, scale if minima else None)
        assert suggested(groups) == name
    operand: Any = core("int4_g32").weight
    ones = np.ones((1, 32), np.int8)
    assert "hold not all" in misfit(operand, Groups(ones, np.full((1, 1), 1.0001, np.float32)))
    both = Groups(ones, *(np.ones((1, 1), np.float32),) * 2)
    assert "has no minima" in misfit(operand, both)


def test_scales_of_groups_are_those_of_cores(model: Model) -> None:
    for tensor in model.description.tensors.values():
        if tensor.scales is not None and tensor.scales.shape[1] > 1:
            scales = model.part(tensor.scales)
            np.testing.assert_array_equal(scales.astype(np.float16).astype(np.float32), scales)


def test_the_rtl_gets_blocks(
    model: Model, shipped: list[FamilyConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def product(design: Any, a: Any, w: Any) -> Any:
        asked.append((design.name, w.dtype))
        return JobRun({"result": golden(design.params, a, w)}, 11)

    def operation(design: Any, job: Any, operands: Any) -> Any:
        return JobRun(design.core.golden(job, operands), 7)

    monkeypatch.setattr(model_run, "run_product", product)
    monkeypatch.setattr(model_run, "run_job", operation)
    record = Record(layers={0})
    blocks = core("int4_g32")
    engine = RtlEngine(model, [blocks, back(), *shipped], record)
    Run(engine).feed([5, 6])
    assert record.simulated == engine.operations(2, {0})
    assert asked == [("blocks", blocks.weight.dtype)] * 7


@pytest.mark.long
def test_hardware_multiplies_by_groups(model: Model, shipped: list[FamilyConfig]) -> None:
    record = Record(layers={1})
    blocks = core("int4_g32")
    engine = RtlEngine(model, [blocks, back(), *shipped], record)
    Run(engine).feed([5, 6])
    assert record.cycles["blocks"] > 0
    assert record.cycles["back"] > 0
