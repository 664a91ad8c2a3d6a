# SPDX-License-Identifier: Apache-2.0
"""Decoders compiled to jobs: golden models, the program in C and the RTL give the same tokens."""

from __future__ import annotations

import ctypes
import json
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.drivers.decoder_driver import decoder_driver
from flows.simulation.models.job_run import RtlJobs
from flows.simulation.models.model_run import Record
from hwgen.cli import main
from hwgen.errors import CheckFailed, InputError
from hwgen.families.gemm_stream.core import GemmStreamCore
from hwgen.families.gemm_stream.params import GemmStreamConfig
from hwgen.models.compile.compilation import Settings
from hwgen.models.compile.golden_jobs import GoldenJobs
from hwgen.models.compile.job_compilation import JobCompilation
from hwgen.models.compile.job_program import CompiledJobs, JobProgram, generate
from hwgen.models.compile.placement import IMAGE, WORK
from hwgen.models.files.store import Model
from hwgen.models.run import host_arithmetic as host
from hwgen.models.run import host_functions
from hwgen.models.run.engine import Run
from hwgen.models.run.float_engine import FloatEngine
from sim_tests.models.model_files import Ggml, Small
from sim_tests.models.test_model_compile import ON_TOKEN, compiled_by_command
from sim_tests.models.test_model_golden import TOKENS, quantised
from sim_tests.support.c_programs import JobsInC, built

SMALL = replace(Small(), width=32, hidden=64, heads=2, kv_heads=1)
PROMPT = TOKENS[:5]
MORE = {"llama.attention.sliding_window": 4}


def engine(core: dict[str, Any] | None = None, **changes: Any) -> GemmStreamConfig:
    """Return a small engine around an array, or another core."""
    array = {"rows": 2, "cols": 2, "dataflow": "weight_stationary"}
    kib = dict.fromkeys(("activation_kib", "weight_kib", "output_kib", "column_kib"), 1)
    values = {
        "name": "engine",
        "family": "gemm_stream",
        "compute": {"family": "systolic", "max_k": 65536, "array": array, **(core or {})},
        "buffers": kib,
        "queue": 2,
        "memory": {"data_width": 64, "max_burst": 8, "outstanding": 4, "address_width": 40},
        "post": {"outputs": ["raw"]},
        **changes,
    }
    return GemmStreamConfig.model_validate(values)


def tables() -> GemmStreamConfig:
    """Return an engine for ternary weights, which it reads as an image."""
    core = {"family": "ternary_lut", "accumulator": "int32", "max_k": 65536,
            "array": {"tables": 2, "fetch_ports": 2}}  # fmt: skip
    return engine(compute=core)


FORMS: dict[str, tuple[Small, dict[str, Any], GemmStreamConfig]] = {
    "int8": (SMALL, {}, engine()),
    "groups": (SMALL, {"weights": "int4", "group": 32}, engine({"weight": "int4"})),
    "kept": (SMALL, {"weights": "original"}, engine()),
    "kept, lowered": (
        replace(SMALL, embedding=Ggml.Q4_1), {"weights": "original"}, engine({"weight": "int4"}),
    ),
    "biases": (replace(SMALL, architecture="qwen2", bias=True), {}, engine()),
    "ternary": (
        replace(SMALL, architecture="bitnet-25", sub_norms=True), {"weights": "ternary"}, tables(),
    ),
    "window": (replace(SMALL, more=MORE), {}, engine()),
    "turned": (replace(SMALL, architecture="qwen2", bias=True), {"hadamard": 16}, engine()),
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return quantised(tmp_path_factory.mktemp("model"), SMALL)


def compilation(model: Model, config: GemmStreamConfig, **settings: Any) -> JobCompilation:
    return JobCompilation(model, config, Settings(**{"tokens": 3, "context": 16, **settings}))


def written(result: JobCompilation, path: Path) -> CompiledJobs:
    path.mkdir(exist_ok=True)
    result.write(path)
    return CompiledJobs(path)


def program(compiled: CompiledJobs) -> JobProgram:
    return JobProgram(compiled, GoldenJobs(compiled))


class CModel(JobsInC):
    """The program in C of a decoder."""

    def __init__(self, result: JobCompilation, compiled: CompiledJobs, *options: str) -> None:
        options = options or ("-std=c99",)
        super().__init__(compiled, built(decoder_driver(result), compiled.path, *options))
        self.compiled = compiled

    def logits(self, position: int, tokens: list[int]) -> np.ndarray:
        result = ctypes.POINTER(ctypes.c_float)()
        array = (ctypes.c_uint32 * len(tokens))(*tokens)
        assert self.call("feed", position, array, len(tokens), ctypes.byref(result)) == 0
        return np.ctypeslib.as_array(result, (self.compiled.vocabulary,)).copy()


class Sampling(ctypes.Structure):
    _fields_ = (
        ("temperature", ctypes.c_double),
        ("top_k", ctypes.c_uint32),
        ("state", ctypes.c_uint64),
    )


@pytest.mark.parametrize("form", FORMS)
def test_the_program_in_c_gives_the_golden_logits(form: str, tmp_path: Path) -> None:
    small, recipe, config = FORMS[form]
    model = quantised(tmp_path, small, **recipe)
    result = compilation(model, config)
    compiled = written(result, tmp_path / "compiled")
    in_c, golden, reference = CModel(result, compiled), program(compiled), Run(FloatEngine(model))
    at = 0
    for count in (7, 1, 3):
        tokens = TOKENS[at : at + count]
        logits = golden.feed(tokens)
        np.testing.assert_array_equal(
            in_c.logits(at, tokens).view(np.uint32), logits.view(np.uint32)
        )
        assert np.corrcoef(logits, reference.feed(tokens)[-1])[0, 1] > 0.999
        at += count
    assert in_c.engine.most_waiting == config.queue


def test_no_compiler_fuses_what_is_rounded_twice(model: Model, tmp_path: Path) -> None:
    if " fma " not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        pytest.skip("this processor has no fused multiplications")
    result = compilation(model, engine())
    compiled = written(result, tmp_path / "compiled")
    logits = CModel(result, compiled, "-std=gnu99", "-O3", "-mfma").logits(0, PROMPT)
    wanted = program(compiled).feed(PROMPT)
    np.testing.assert_array_equal(logits.view(np.uint32), wanted.view(np.uint32))


def test_a_prompt_has_the_same_result_in_any_pieces(model: Model, tmp_path: Path) -> None:
    result = [written(compilation(model, engine(), tokens=n), tmp_path / f"{n}") for n in (1, 4)]
    once, pieces = (program(compiled).feed(PROMPT) for compiled in result)
    np.testing.assert_array_equal(once.view(np.uint32), pieces.view(np.uint32))


def test_tokens_in_c_are_those_of_golden_runs(model: Model, tmp_path: Path) -> None:
    result = compilation(model, engine())
    compiled = written(result, tmp_path / "compiled")
    in_c = CModel(result, compiled)
    made: list[int] = []

    def on_token(_: Any, token: int) -> int:
        made.append(token)
        return 1

    prompt, count = (ctypes.c_uint32 * 5)(*PROMPT), ctypes.c_uint32()

    def generate_in_c(length: int, most: int, sampling: Sampling | None = None) -> int:
        by = ctypes.byref(sampling) if sampling else None
        made.clear()
        return in_c.call(
            "generate", prompt, length, most, by, ON_TOKEN(on_token), ctypes.byref(count)
        )

    assert generate_in_c(5, 4) == 0
    assert made == list(generate(program(compiled), PROMPT, 4))
    assert count.value == len(made)
    for top_k in (0, 1, 5, 400):
        assert generate_in_c(5, 8, Sampling(1.5, top_k, 3)) == 0
        draws = host.Draws(1.5, top_k or None, 3)
        assert made == list(generate(program(compiled), PROMPT, 8, draws))
    assert generate_in_c(5, 13) == generate_in_c(0, 1) == -100
    prompt[1] = compiled.vocabulary
    assert generate_in_c(5, 1) == -101


def test_the_host_computes_what_functions_of_the_library_do() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-700, 700, 20_000)
    np.testing.assert_allclose(host_functions.exponential(x), np.exp(x), rtol=4e-16)
    x = 2.0 ** rng.uniform(-60, 60, 20_000)
    np.testing.assert_allclose(host_functions.inverse_root(x), 1 / np.sqrt(x), rtol=5e-16)
    from hwgen.models.run.float_engine import gate

    rows = rng.standard_normal((4, 64)).astype(np.float32) * 4
    for name in host_functions.GATES:
        result, wanted = host.gated(name, rows, rows), gate(name, rows) * rows
        np.testing.assert_allclose(result, wanted, rtol=2e-6, atol=1e-6)


def test_golden_jobs_are_those_of_the_engine(model: Model, tmp_path: Path) -> None:
    for number, config in enumerate((engine(), engine({"weight": "int4"}))):
        if number:
            model = quantised(tmp_path, SMALL, weights="int4", group=32)
        compiled = written(compilation(model, config), tmp_path / f"{number}")
        jobs = GoldenJobs(compiled)
        rng = np.random.default_rng(1)
        for job in compiled.program()[:: 3 + number]:
            rows = rng.integers(-128, 128, (job.registers["M"], job.registers["A_STRIDE"]), np.int8)
            jobs.store(job.address("A"), rows.tobytes()[: rows.size - rows.shape[1] + 32])
            before = bytes(jobs.memory.data)
            jobs.run([job], "")
            by_jobs, jobs.memory.data[:] = bytes(jobs.memory.data), before
            GemmStreamCore(config).execute(job.registers, jobs.memory)
            assert bytes(jobs.memory.data) == by_jobs != before


def test_memory_is_mapped(model: Model) -> None:
    result = compilation(model, engine(), base=0x8000_0000)
    for places, alignment in ((result.memory, 64), (result.host, 64), (result.work, 64)):
        ends = sorted(
            (array.address + n * array.stride, array.bytes)
            for array in places.arrays.values()
            for n in range(array.count)
        )
        for (address, size), (following, _) in pairwise(ends):
            assert address % alignment == 0
            assert address + size <= following
    names = [name for name, array in result.memory.arrays.items() if array.region == IMAGE]
    assert names == [step.inputs["weights"] for step in result.steps.products]
    assert result.work.arrays["layer.attention.keys"].bytes == 16 * 16
    assert result.memory.arrays["layer.gate.sums"].region == WORK


def test_what_does_not_fit_says_by_how_much(model: Model) -> None:
    size = compilation(model, engine()).memory.end
    compilation(model, engine(), memory_bytes=size)
    with pytest.raises(InputError, match=f"takes {size:,d} bytes, 10 more than the"):
        compilation(model, engine(), memory_bytes=size - 10)
    narrow = engine(memory={"data_width": 64, "max_burst": 8, "address_width": 32})
    with pytest.raises(InputError, match=f"ends {size - 4096:,d} bytes behind the last address of"):
        compilation(model, narrow, base=(1 << 32) - 4096)


def test_what_cannot_be_compiled_is_said(model: Model, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--base: must be a multiple of 64"):
        compilation(model, engine(), base=8)
    for config, text in (
        (engine(post={"outputs": ["int8"]}), "post.outputs: must have raw"),
        (
            engine({"weight": "int4"}),
            r"layers\.0\.query cannot .*: must hold -127\.\.127, not int4",
        ),
        (
            engine({"accumulator": "int16"}),
            "must hold sums up to 516,128 in",
        ),
        (engine({"max_k": 32}), "max_k: must be at least 64, not 32"),
    ):
        with pytest.raises(InputError, match=text):
            compilation(model, config)
    other = Model(model.path)
    nodes = tuple(
        node.model_copy(update={"attributes": {"gate": "gelu"}})
        if node.operation == "gated"
        else node
        for node in model.description.nodes
    )
    other.description = model.description.model_copy(update={"nodes": nodes})
    with pytest.raises(InputError, match=r"layers\.0\.gated: its gate is gelu; the host"):
        compilation(other, engine())
    other.description = model.description.model_copy(update={"context": None})
    with pytest.raises(InputError, match=r"is no decoder: .*`hwgen model run DIR --input"):
        compilation(other, engine())
    (tmp_path / "plain").mkdir()
    plain = quantised(tmp_path / "plain", SMALL).path.parent / "model"
    with pytest.raises(InputError, match="hwgen model quantise"):
        compilation(Model(plain), engine())


def test_commands(model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, printed = compiled_by_command(model, engine(), tmp_path, capsys)
    for text in ("layer.attention.keys", "host image", "decode of 1 behind 15", "without the host"):
        assert text in printed
    passes = json.loads((out / "layers.json").read_text())
    for name, tokens in (("prefill", 4), ("decode", 1)):
        rows = {row["operation"]: row for row in passes[name]["operations"]}
        assert rows["logits"]["read_bytes"] >= 272 * 32
        assert rows["layer.gate"]["jobs"] == 2
        assert rows["layer.attention"]["cycles"] is None
        assert rows["layer.feed_norm"]["write_bytes"] == 2 * tokens * 4 * 32
        assert passes[name]["cycles"] == sum(row["cycles"] or 0 for row in rows.values())
    run = ["model", "run", str(out), "--prompt", "the", "--tokens"]
    assert main([*run, "2"]) == 0
    assert capsys.readouterr().out.startswith("the")
    assert main([*run, "2", "--temperature", "2", "--top-k", "3", "--seed", "4"]) == 0
    for wrong in (["99"], ["1", "--engine", "float"], ["1", "--layers", "0"], ["1", "--seed", "1"]):
        assert main([*run, *wrong]) == 2


def test_compiled_files_that_do_not_belong_together(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "compiled"
    document = written(compilation(model, engine()), path).document
    for key, changes, text in (
        ("arrays", {"bytes": 1 << 30}, "ends behind"),
        ("arrays", {"address": -1}, "cannot be"),
        ("host_arrays", {"count": 0}, "cannot be"),
        ("host_arrays", {"bytes": 1 << 30}, "ends"),
    ):
        arrays = [{**document[key][0], **changes}, *document[key][1:]]
        (path / "compiled.json").write_text(json.dumps({**document, key: arrays}))
        with pytest.raises(InputError, match=text):
            CompiledJobs(path)
    for change, text in (
        ({"steps": {"layer": [{}], "after": []}}, "is not complete"),
        ({"bytes": 8}, "cannot be"),
        ({"program": {**document["program"], "words": 3}}, "have 3 words"),
        ({"form": "x"}, "is of another version"),
    ):
        (path / "compiled.json").write_text(json.dumps({**document, **change}))
        with pytest.raises(InputError, match=text):
            CompiledJobs(path)
    (path / "compiled.json").write_text(json.dumps(document))
    (path / "host.bin").write_bytes(b"")
    with pytest.raises(InputError, match=r"host\.bin: has 0 bytes, not"):
        CompiledJobs(path)


@pytest.mark.rotate(16)
def test_hardware_does_the_jobs(model: Model, tmp_path: Path) -> None:
    """Every job of a run on the RTL, whose results the golden model's must equal."""
    compiled = written(compilation(model, engine()), tmp_path / "compiled")
    wanted = list(generate(program(compiled), PROMPT, 2))
    journal, seen = tmp_path / "journal", []
    record = Record(None, journal, "a", lambda record: seen.append(record.node))
    with closing(RtlJobs(compiled, record)) as rtl:
        assert list(generate(JobProgram(compiled, rtl), PROMPT, 2)) == wanted
        assert len(seen) == record.simulated == compiled.products_of(len(PROMPT), 2)
        assert record.cycles["engine"] > 0
        job = compiled.program()[0]
        rtl._model.store(job.address("W"), b"\x55" * 64)
        with pytest.raises(CheckFailed, match=r"^odd: row 0 of its sums differs"):
            rtl.run([job], "odd", 0)
    again, some = Record(None, journal, "a"), Record({1})
    for each in (again, some):
        with closing(RtlJobs(compiled, each)) as rtl:
            assert list(generate(JobProgram(compiled, rtl), PROMPT, 2)) == wanted
    assert (again.simulated, again.reused) == (0, len(seen) - 1)
    assert some.simulated == compiled.products_of(len(PROMPT), 2, {1})


@pytest.mark.long
@pytest.mark.parametrize("form", ["groups", "ternary"])
def test_hardware_does_jobs_of_all_forms(form: str, tmp_path: Path) -> None:
    small, recipe, config = FORMS[form]
    model = quantised(tmp_path, small, **recipe)
    compiled = written(compilation(model, config), tmp_path / "compiled")
    with closing(RtlJobs(compiled, stalls=0.2, read_latency=7)) as rtl:
        result = list(generate(JobProgram(compiled, rtl), PROMPT, 2))
    assert result == list(generate(program(compiled), PROMPT, 2))
