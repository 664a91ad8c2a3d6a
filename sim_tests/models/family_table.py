# SPDX-License-Identifier: Apache-2.0
"""Every family of models in every container: read, quantised, compiled, estimated, and on RTL.

``python -m sim_tests.models.family_table`` measures all of it, in minutes, and writes
`docs/model-families.md`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flows.build.load import parse_config
from flows.simulation.models.job_run import RtlJobs
from flows.simulation.models.model_run import Record, RtlEngine, RtlTensorEngine
from hwgen.cli import main as command
from hwgen.models.compile.job_program import JobProgram
from hwgen.models.files.store import Model
from hwgen.models.run.engine import Run
from hwgen.models.run.float_engine import FloatEngine
from hwgen.models.run.golden_engine import GoldenEngine
from hwgen.models.run.tensor_engine import TensorEngine
from hwgen.models.run.units import Units
from sim_tests.engines.decoder_engines import small_engine
from sim_tests.models.checkpoints import (
    FOLDER,
    NAMES,
    copied,
    divergence,
    error_of,
    imported,
    log_softmax,
    quantised,
    reference,
)
from sim_tests.models.gguf_checkpoints import write_checkpoint
from sim_tests.models.test_checkpoints import (
    ARRAY,
    CAPPED,
    PRODUCTS,
    VECTOR,
    gate_of,
    hardware,
    norm_of,
    unit_texts,
)
from sim_tests.models.test_model_compile import assert_same
from sim_tests.models.test_model_compile import compiled as compiled_list
from sim_tests.models.test_model_jobs import compilation, engine, program, written
from sim_tests.onnx.onnx_files import Net, dynamic_mlp, encoder, qdq_cnn, qlinear_cnn, qonnx_cnn
from sim_tests.onnx.onnx_files import reference as onnx_reference
from sim_tests.onnx.test_network_jobs import compiled, drawn, golden
from sim_tests.onnx.test_network_jobs import quantised as quantised_network
from sim_tests.support.paths import ROOT
from sim_tests.tflite.make_outputs import FOLDER as LITE
from sim_tests.tflite.make_outputs import NETWORKS

PAGE = ROOT / "docs" / "model-families.md"
CORE = ROOT / "configs" / "decoder" / "products.yaml"
NETWORK_UNITS = (
    PRODUCTS.replace("max_k: 1024", "max_k: 4096"),
    VECTOR % ("quantise", "fp32", "int8", ARRAY % "quantise"),
    VECTOR % ("dequantise", "int32", "fp32", ARRAY % "dequantise_rows"),
)
"""Units that networks run on, without any for their rows."""

WITHOUT_GGUF = ("qwen2_window",)
"""Checkpoints with something that GGUF cannot say."""

_HEAD = """# Families of models

Small checkpoints that transformers wrote, the ternary model that comes with hwgen, networks of ONNX and the
int8 networks of MLPerf Tiny, in each container that they come in. `make model-table` measures and writes this page.

- **floats**: largest error of logits or outputs in single precision, relative to the largest one, against transformers or ONNX
  Runtime; "equal": every bit is that of ONNX Runtime's or LiteRT's integers.
- **golden**: mean divergence of golden runs in int8 from transformers, in nats; of the ternary model from its floats,
  on random tokens; of networks the error of their outputs, or "equal".
- **RTL**: operations of one layer that were simulated, all with every bit that of the golden models; files that
  become the same model, byte by byte, are simulated once.
- **compiled**: a command list, whose golden run gave every bit of golden runs of the model; or jobs and their host, whose
  golden run the column "golden" is of then.
- **estimate**: tokens/s, or frames/s, of `hwgen model estimate` with `configs/decoder/products.yaml` on nangate45.

Units have no soft caps of scores, which Gemma 2 has: it is compiled to jobs, whose products run on RTL. The ternary model has
no reference of another program. The stream of OLMo 2, which has no norms before its parts, can be neither rotated nor smoothed,
but its values of attention are rotated. All divergences of checkpoints are below 4e-4.

| model | container | floats | golden | RTL | compiled | estimate |
| --- | --- | --- | --- | --- | --- | --- |
"""  # noqa: E501


@dataclass
class Row:
    """A line of the table; cells that were not reached are empty."""

    model: str
    container: str
    floats: str = ""
    golden: str = ""
    rtl: str = ""
    compiled: str = ""
    estimate: str = ""


_SIMULATED: dict[str, int] = {}
"""Operations that were simulated of models, by their digests: the same model is simulated once."""


def estimated(model: Model) -> str:
    """Return tokens or frames per second."""
    out = io.StringIO()
    arguments = ["model", "estimate", str(model.path), "--config", str(CORE), "--json"]
    if model.description.context is not None:
        arguments += ["--prompt", "16"]
    with contextlib.redirect_stdout(out):
        status = command([*arguments, "--target", "nangate45"])
    assert status == 0, out.getvalue()
    passes = json.loads(out.getvalue())["passes"]
    if "decode" in passes:
        return f"{passes['decode']['tokens_per_s']:,.0f} tokens/s"
    return f"{passes['pass']['frames_per_s']:,.0f} frames/s"


# -- decoders ------------------------------------------------------------------------------------


def decoder(name: str, model: Model, work: Path, row: Row) -> None:
    """Fill in the line of a checkpoint."""
    tokens, _ = reference(name)
    row.floats = f"{error_of(model, name):.1e}"
    small = quantised(model, work / "int8")
    if name == CAPPED:
        capped(name, small, work, row)
    else:
        units = Units(hardware(name))
        logits = Run(GoldenEngine(small, units)).feed(tokens, every=True)
        row.golden = f"{divergence(logits, name):.1e}"
        config = small_engine(gate=gate_of(name), norm=norm_of(name))
        result = compiled_list(small, config, work / "list", tokens=3, context=16)
        assert_same(small, result, config, 2, tokens[:6])
        row.compiled = "list"
        key = small.digest()
        if key not in _SIMULATED:
            _SIMULATED[key] = decoder_rtl(small, hardware(name), tokens[:1])
        row.rtl = f"{_SIMULATED[key]} equal"
    row.estimate = estimated(small)


def decoder_rtl(model: Model, configs: list[Any], tokens: list[int]) -> int:
    """Run the last layer on RTL, compare it, and return its operations."""
    record = Record(layers={model.description.layers - 1})
    bits = Run(RtlEngine(model, configs, record)).feed(tokens).view(np.uint32)
    wanted = Run(GoldenEngine(model, Units(configs))).feed(tokens).view(np.uint32)
    np.testing.assert_array_equal(bits, wanted)
    return record.simulated


def capped(name: str, model: Model, work: Path, row: Row) -> None:
    """Fill in what a decoder is that only runs as jobs."""
    tokens, _ = reference(name)
    files = written(compilation(model, engine(), context=32, tokens=3), work / "jobs")
    run = program(files)
    logits = np.array([run.feed([token]) for token in tokens])
    row.golden, row.compiled = f"{divergence(logits, name):.1e}", "jobs"
    record = Record(layers={0})
    with closing(RtlJobs(files, record)) as rtl:
        bits = JobProgram(files, rtl).feed(tokens[:3])
    np.testing.assert_array_equal(bits, program(files).feed(tokens[:3]))
    row.rtl = f"{record.simulated} equal"


def checkpoints(work: Path) -> Iterator[tuple[Row, Callable[[Row], None]]]:
    """Yield the lines of checkpoints, and what fills them in."""
    for name in NAMES:
        for container in ("safetensors, transformers 5", "safetensors, transformers 4", "GGUF"):
            folder = work / f"{name} {container}"
            if container == "GGUF" and name in WITHOUT_GGUF:
                continue

            def fill(row: Row, name: str = name, folder: Path = folder) -> None:
                folder.mkdir()
                source = folder / "model.gguf"
                if row.container == "GGUF":
                    write_checkpoint(FOLDER / name, source)
                else:
                    source = copied(name, folder / "hf", old=row.container.endswith("4"))
                decoder(name, imported(source, folder / "model"), folder, row)

            yield Row(name, container), fill


def ternary(work: Path, row: Row) -> None:
    """Fill in the line of the ternary model."""
    model = imported(ROOT / "configs" / "models" / "austen-16m.gguf", work / "austen")
    small = quantised(model, work / "austen int8", weights="original")
    (head,) = {n.attributes["elements"] for n in model.description.nodes if n.operation == "rope"}
    texts = [
        text.replace("head: 16", f"head: {head}").replace("1024", "4096")
        for text in unit_texts("rms_norm", "relu2")
    ]
    configs = [parse_config(text) for text in texts]
    tokens = [9, 27, 301, 52, 18, 77, 5, 90]
    floats = log_softmax(Run(FloatEngine(model)).feed(tokens, every=True))
    row.rtl = f"{decoder_rtl(small, configs, tokens[:1])} equal"
    run = program(written(compilation(small, engine(), context=32, tokens=3), work / "jobs"))
    jobs = log_softmax(np.array([run.feed([token]) for token in tokens]))
    row.golden = f"{float((np.exp(floats) * (floats - jobs)).sum(1).mean()):.1e}"
    row.floats, row.compiled = "its own", "jobs"
    row.estimate = estimated(small)


# -- networks ------------------------------------------------------------------------------------


def network(model: Model, work: Path, row: Row, inputs: dict[str, Any], wanted: Any) -> None:
    """Fill in the line of a network on arrays."""
    (result,) = TensorEngine(model).run(inputs).values()
    row.floats = _near(result, wanted)
    if any(node.operation in ("gemm", "matmul") for node in model.description.nodes):
        model = quantised_network(model, work)
    jobs = compiled(model, engine(), work / "jobs", base=0x4000_0000)[1]
    (ours,) = golden(jobs).run(inputs).values()
    row.golden, row.compiled = _near(ours, wanted), "jobs"
    configs = [parse_config(text) for text in NETWORK_UNITS]
    record = Record(layers={model.description.layers - 1})
    (bits,) = RtlTensorEngine(model, configs, record).run(inputs).values()
    (same,) = TensorEngine(model, Units(configs)).run(inputs).values()
    np.testing.assert_array_equal(bits, same)
    row.rtl = f"{record.simulated} equal"
    row.estimate = estimated(model)


def _near(result: Any, wanted: Any) -> str:
    if np.array_equal(result, wanted):
        return "equal"
    wide = np.asarray(wanted, np.float64)
    return f"{np.abs(result - wide).max() / np.abs(wide).max():.1e}"


def networks(work: Path) -> Iterator[tuple[Row, Callable[[Row], None]]]:
    """Yield the lines of networks, and what fills them in."""
    nets: dict[str, Callable[[], Net]] = {
        "convolutions, QDQ": lambda: qdq_cnn(1), "convolutions, QLinear": lambda: qlinear_cnn(3),
        "convolutions, QONNX": lambda: qonnx_cnn(1), "perceptron, dynamic": lambda: dynamic_mlp(5),
        "encoder, QDQ": lambda: encoder(7), "encoder, floats": lambda: encoder(8, False),
    }  # fmt: skip
    for name, make in nets.items():

        def fill(row: Row, name: str = name, make: Callable[[], Net] = make) -> None:
            net, folder = make(), work / name
            folder.mkdir()
            model = imported(net.write(folder / "net.onnx"), folder / "model")
            inputs = drawn(model, np.random.default_rng(1))
            if name.endswith("QONNX"):  # ONNX Runtime does not have these operators
                (wanted,) = TensorEngine(model).run(inputs).values()
            else:
                (wanted,) = onnx_reference(net.model(), inputs)
            network(model, folder, row, inputs, wanted)
            if name.endswith("QONNX"):
                row.floats = "by tests of operators"

        yield Row(name, "ONNX"), fill
    outputs = np.load(LITE / "outputs.npz")
    for name in NETWORKS:

        def lite(row: Row, name: str = name) -> None:
            folder = work / name
            folder.mkdir()
            model = imported(LITE / f"{name}.tflite", folder / "model")
            (key,) = model.description.inputs
            shape = tuple(int(length) for length in model.description.arrays[key])
            frame = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
            network(model, folder, row, {key: frame}, outputs[name][0])

        yield Row(name, "TensorFlow Lite"), lite


def present() -> dict[tuple[str, str], Row]:
    """Return the lines that the page has."""
    lines = [line.strip("| ").split(" | ") for line in PAGE.read_text("utf-8").splitlines()]
    rows = [Row(*cells) for cells in lines if len(cells) == 7 and cells[0] not in ("model", "---")]
    return {(row.model, row.container): row for row in rows}


def main() -> int:
    """Measure lines, write the page, and say which failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="measure lines with this text, keep the others")
    only = parser.parse_args().only
    failed = 0
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        austen = Row("austen-16m, ternary", "GGUF")
        others = [*networks(work)]
        todo = [*checkpoints(work), (austen, lambda row: ternary(work, row)), *others]
        kept = present() if only else {}
        for row, fill in todo:
            key = (row.model, row.container)
            if only and only not in " ".join(key) and key in kept:
                rows.append(kept[key])
                continue
            start = time.monotonic()
            try:
                fill(row)
            except Exception as error:
                failed += 1
                row.estimate = f"failed: {type(error).__name__}: {str(error)[:200]}"
            rows.append(row)
            cells = " | ".join(astuple(row))
            sys.stderr.write(f"{cells} ({time.monotonic() - start:.0f} s)\n")
    lines = [f"| {' | '.join(astuple(row))} |" for row in rows]
    PAGE.write_text(_HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
