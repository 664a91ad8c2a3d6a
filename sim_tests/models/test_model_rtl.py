# SPDX-License-Identifier: Apache-2.0
"""Decoders on the RTL of their units."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.load import parse_config
from flows.simulation.models import model_run
from flows.simulation.models.model_run import Record, RtlEngine, digest_of
from flows.simulation.run import JobRun
from hwgen.cli import main
from hwgen.core.cycles.basis import Cycles
from hwgen.errors import CheckFailed, InputError
from hwgen.models.files.store import Model
from hwgen.models.run.engine import Run
from hwgen.models.run.golden_engine import GoldenEngine
from hwgen.models.run.units import Units
from sim_tests.models.model_files import Small
from sim_tests.models.test_model_golden import quantised
from sim_tests.support.cores import golden

VECTOR = "{name: %s, family: vector, input: %s, output: %s, parameters: fp32, array: {%s}}"
ARRAY = "operations: [%s], lanes: 4, longest_row: 1024"
HARDWARE = {
    "rows": VECTOR % ("rows", "fp32", "fp32", ARRAY % "rms_norm, rope, gated, add"),
    "quantise": VECTOR % ("quantise", "fp32", "int8", ARRAY % "quantise"),
    "products": "{name: products, family: systolic, accumulator: int32, max_k: 1024,"
    " array: {rows: 4, cols: 4, dataflow: weight_stationary}}",
    "dequantise": VECTOR % ("dequantise", "int32", "fp32", ARRAY % "dequantise"),
    "attention": "{name: attention, family: attention, head: 16, max_keys: 64, output: int16,"
    " array: {rows: 4, lanes: 4}}",
    "results": VECTOR % ("results", "int16", "fp32", ARRAY % "dequantise"),
}
CONFIGS = [parse_config(text) for text in HARDWARE.values()]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return quantised(tmp_path_factory.mktemp("model"), replace(Small(), layers=2))


def equal(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the golden models stand for the RTL; return the names of what was asked for."""
    asked: list[str] = []

    def operation(design: Any, job: Any, operands: Any) -> Any:
        asked.append(design.name)
        return JobRun(design.core.golden(job, operands), 7, Cycles(7))

    def product(design: Any, a: Any, w: Any) -> Any:
        asked.append(design.name)
        return JobRun({"result": golden(design.params, a, w)}, 11)

    monkeypatch.setattr(model_run, "run_job", operation)
    monkeypatch.setattr(model_run, "run_product", product)
    return asked


@pytest.mark.long  # six designs are compiled
def test_every_operation_of_a_layer_is_simulated(model: Model) -> None:
    """Two tokens, then one more behind them: each bit of each operation of a layer."""
    record = Record(layers={1})
    engine = RtlEngine(model, CONFIGS, record)
    run, golden = Run(engine), Run(GoldenEngine(model, Units(CONFIGS)))
    for tokens in ([3, 200], [17]):
        result, wanted = run.feed(tokens), golden.feed(tokens)
        np.testing.assert_array_equal(result.view(np.uint32), wanted.view(np.uint32))
    assert record.simulated == sum(engine.operations(rows, {1}) for rows in (2, 1))
    assert set(record.cycles) == set(HARDWARE)


def test_which_operations_are_counted(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = equal(monkeypatch)
    record = Record()
    engine = RtlEngine(model, CONFIGS, record)
    Run(engine).feed([5, 6, 7])
    assert record.simulated == len(asked) == engine.operations(3)
    assert record.cycles["products"] == 11 * 15


def test_a_run_goes_on_from_its_journal(
    model: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked, journal = equal(monkeypatch), tmp_path / "journal"
    digest = digest_of(model, CONFIGS)

    class Enough(Exception):
        """Stands for an interrupt."""

    def stop(record: Record) -> None:
        if record.simulated == 20:
            raise Enough

    first = Record(journal=journal, digest=digest, on_operation=stop)
    with pytest.raises(Enough):
        Run(RtlEngine(model, CONFIGS, first)).feed([5, 6])
    text = journal.read_text(encoding="utf-8")
    journal.write_text(text + '{"key": "cut o', encoding="utf-8")
    second = Record(journal=journal, digest=digest)
    engine = RtlEngine(model, CONFIGS, second)
    Run(engine).feed([5, 6])
    total = engine.operations(2)
    assert (second.reused, second.simulated, len(asked)) == (20, total - 20, total)
    whole = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    assert len(whole) == 1 + total
    third = Record(journal=journal, digest=digest)
    Run(RtlEngine(model, CONFIGS, third)).feed([5, 9])  # another token: all that it decides
    assert 0 < third.reused < total
    assert third.reused + third.simulated == total
    with pytest.raises(InputError, match="belongs to another model or other hardware"):
        Record(journal=journal, digest="other")
    journal.write_text("no journal\n", encoding="utf-8")
    with pytest.raises(InputError, match="is no journal of a run"):
        Record(journal=journal, digest=digest)


def wrong_product(real: Callable[..., Any]) -> Callable[..., Any]:
    def run(config: Any, a: Any, w: Any) -> Any:
        result = real(config, a, w)
        result.result[0, 5] += 1
        return result

    return run


def wrong_operation(real: Callable[..., Any]) -> Callable[..., Any]:
    def run(design: Any, job: Any, operands: Any) -> Any:
        result = real(design, job, operands)
        if job.operation.name == "attention":
            result.results["output"].reshape(-1)[3] ^= 1
        return result

    return run


@pytest.mark.parametrize(
    ("name", "wrong", "text"),
    [
        ("run_product", wrong_product, r"layers\.0\.query: .*first result\[0,5\]"),
        ("run_job", wrong_operation, r"layers\.0\.attention: .*1 of \d+ results .* first output"),
    ],
)
def test_a_bit_that_differs_is_noticed(
    model: Model, monkeypatch: pytest.MonkeyPatch, name: str, wrong: Any, text: str
) -> None:
    equal(monkeypatch)
    monkeypatch.setattr(model_run, name, wrong(getattr(model_run, name)))
    with pytest.raises(CheckFailed, match=text):
        Run(RtlEngine(model, CONFIGS, Record())).feed([5])


def test_the_command(
    model: Model,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    equal(monkeypatch)
    named = []
    for name, text in HARDWARE.items():
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
        named += ["--unit", str(tmp_path / f"{name}.yaml")]
    start = ["model", "run", str(model.path), "--prompt", "a", "--tokens", "2", *named]
    assert main([*start, "--engine", "golden", "--json"]) == 0
    golden = json.loads(capsys.readouterr().out)
    assert main([*start, "--engine", "rtl", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["tokens"] == golden["tokens"]
    rows = len(result["prompt_tokens"])
    engine = GoldenEngine(model, Units(CONFIGS))
    wanted = sum(engine.operations(count) for count in (rows, 1))
    assert result["simulated"]["operations"] == wanted
    assert main([*start, "--engine", "rtl", "--layers", "1"]) == 0
    assert "each equal to the golden model in every bit" in capsys.readouterr().out
    assert main([*start, "--engine", "rtl", "--layers", "2"]) == 2
    assert "must be numbers from 0 to 1 with commas, not '2'" in capsys.readouterr().err
    assert main([*start, "--engine", "golden", "--layers", "1"]) == 2
