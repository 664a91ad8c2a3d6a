# SPDX-License-Identifier: Apache-2.0
"""Estimates of whole passes: everything that an engine executes, as simulations count it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.bench.random_checkpoint import Shape, write_checkpoint
from flows.bench.whole_engines import BOUND, NETWORKS, comparisons, table
from flows.build.load import load_config
from flows.simulation.bus.job_host import JobHost, open_engine
from flows.simulation.models.job_run import RtlJobs
from flows.simulation.models.model_run import Record
from hwgen.cli import main
from hwgen.core.registry import core_of
from hwgen.families.gemm_stream.cycles.job import job_cycles, queue_cycles
from hwgen.families.gemm_stream.cycles.steps import Regions
from hwgen.families.gemm_stream.schedule import Job, plan_of, weight_stride
from hwgen.models.compile.compilation import Settings
from hwgen.models.compile.engine_passes import engine_passes
from hwgen.models.compile.job_compilation import JobCompilation
from hwgen.models.compile.job_program import CompiledJobs, JobProgram
from hwgen.models.files.store import Model
from hwgen.models.graph.passes import passes_of
from hwgen.models.run.timed_units import CycleCounter, decoder_passes
from sim_tests.models.model_files import Small
from sim_tests.models.test_model_golden import quantised
from sim_tests.models.test_model_jobs import SMALL, engine
from sim_tests.support.designs import design_of
from sim_tests.support.paths import ROOT


@pytest.mark.slow
@pytest.mark.rotate(104)
@pytest.mark.parametrize("network", NETWORKS)
def test_estimates_of_whole_passes_are_within_the_bound(network: str) -> None:
    for row in comparisons([network]):
        assert abs(row.error) <= BOUND, table([row])


def jobs_of(m: int, k: int, n: int, parts: int) -> list[Job]:
    """Return the jobs of a product of several parts."""
    plan = plan_of(engine(), m, k, n)
    return [
        Job(
            plan, a_address=part * k, w_address=0x10000 + part * plan.extent.w,
            c_address=0x20000 + part * m * n * 4, a_stride=k * parts, w_stride=weight_stride(plan),
        )
        for part in range(parts)
    ]  # fmt: skip


def simulated(host: JobHost, jobs: list[Job]) -> int:
    """Return the cycles of jobs in the queue, while one is unfinished."""
    before = host.counter("BUSY")
    waiting: list[int] = []
    for job in jobs:
        if len(waiting) == host.config.queue:
            assert host.wait(waiting.pop(0), 1 << 20) == "done"
        waiting.append(host.submit(job))
    for number in waiting:
        assert host.wait(number, 1 << 20) == "done"
    return host.counter("BUSY") - before


@pytest.mark.slow
@pytest.mark.rotate(9)
def test_cycles_of_a_queue_are_those_of_the_simulation() -> None:
    host = open_engine(design_of(engine()), cycles=0, read_latency=1, write_latency=1)
    with closing(host.model):
        host.model.map(0, 1 << 18)
        for size in ((1, 32, 24, 1), (1, 32, 24, 5), (20, 9, 1, 16), (8, 16, 8, 3), (30, 40, 9, 2)):
            jobs = jobs_of(*size)
            regions = [Regions.of(job.regions) for job in jobs]
            counted, alone = (
                simulated(host, jobs),
                sum(job_cycles(jobs[0].plan, r) for r in regions),
            )
            assert queue_cycles(jobs[0].plan, regions) == pytest.approx(counted, rel=0.02), size
            if size[-1] > 1:
                assert counted < 0.98 * alone, size


def test_jobs_of_a_long_queue_take_as_long_as_those_that_are_followed() -> None:
    jobs = jobs_of(1, 32, 24, 40)
    regions = [Regions.of(job.regions) for job in jobs]
    cycles = [queue_cycles(jobs[0].plan, regions[:count]) for count in (20, 30, 40)]
    assert cycles[2] - cycles[1] == pytest.approx(cycles[1] - cycles[0], rel=0.01)


@pytest.mark.rotate(4)
def test_a_small_pass_takes_the_cycles_of_the_simulation(tmp_path: Path) -> None:
    model = quantised(tmp_path, SMALL)
    compilation = JobCompilation(model, engine(), Settings())
    (tmp_path / "jobs").mkdir()
    compilation.write(tmp_path / "jobs")
    record, jobs = Record(), CompiledJobs(tmp_path / "jobs")
    with closing(RtlJobs(jobs, record)) as simulated:
        JobProgram(jobs, simulated).feed([1])
    timing = engine_passes(model, [engine()], passes_of(model.description, 1, 0))["decode"]
    assert timing.cycles.number == record.cycles.total()


def test_every_job_has_its_constant_cost(tmp_path: Path) -> None:
    model = quantised(tmp_path, Small())
    config = load_config(ROOT / "configs" / "decoder" / "products.yaml")
    core = core_of(config)
    passes = passes_of(model.description, 5, 5)
    layers = [(layer.product, layer.repeat) for layer in passes["decode"].layers if layer.product]
    alone, together, jobs, counter = 0, 0, 0, CycleCounter()
    for product, repeat in layers:
        job = core.gemm(*product)
        one, two = core.cycles([job]).number, core.cycles([job, job]).number
        alone += repeat * one
        together += repeat * (two - one)
        jobs += repeat
        for _ in range(repeat):
            counter.product(config, *product)
    constant = (
        2 * core.cycles([core.gemm(1, 1, 1)]).number - core.cycles([core.gemm(1, 1, 1)] * 2).number
    )
    assert constant > 10
    estimated = engine_passes(model, [config], passes)["decode"].cycles.number
    assert estimated == counter.cycles.total() == alone >= together + jobs * constant


def test_separate_units_execute_everything(tmp_path: Path) -> None:
    model = quantised(tmp_path, Small())
    names = ("products", "rows", "quantise", "dequantise", "attention", "results")
    configs = [load_config(ROOT / "configs" / "decoder" / f"{name}.yaml") for name in names]
    passes = passes_of(model.description, 5, 5)
    timings = engine_passes(model, configs, passes)
    assert not timings["decode"].missing
    products = engine_passes(model, configs[:1], passes)
    assert "name their units" in products["decode"].missing
    assert timings["decode"].cycles.number > products["decode"].cycles.number
    attention = decoder_passes(model, configs, 5, 20)["decode"][1]
    assert attention > timings["decode"].attention_cycles > 0


def test_a_model_that_is_not_quantised_is_estimated_by_its_products(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_checkpoint(tmp_path / "checkpoint", Shape(1, 64, 96, 2, 1, 64), context=32)
    model = str(tmp_path / "model")
    assert main(["model", "import", str(tmp_path / "checkpoint"), "--output", model]) == 0
    np.save(tmp_path / "tokens.npy", np.arange(32))
    int8, calibration = str(tmp_path / "int8"), str(tmp_path / "tokens.npy")
    assert main(["model", "quantise", model, "--output", int8, "--calibration", calibration]) == 0
    capsys.readouterr()
    results: dict[str, Any] = {}
    engines = ROOT / "configs" / "gemm_stream.yaml"
    for path in (model, int8):
        arguments = ["model", "estimate", path, "--config", str(engines), "--prompt", "8", "--json"]
        assert main(arguments) == 0
        results[path] = json.loads(capsys.readouterr().out)
    assert "products of weights" in results[model]["missing"]
    assert results[int8]["missing"] == "operations of the host between products"
    watts = []
    for activity, basis in (("assumed", "assumed activity"), ("typical", "typical operands in")):
        arguments = ["model", "estimate", int8, "--config", str(engines), "--prompt", "8"]
        assert main([*arguments, "--activity", activity]) == 0
        line = next(t for t in capsys.readouterr().out.splitlines() if t.startswith("area "))
        assert f"; energies by {basis}" in line
        watts.append(float(line.split("power ")[1].split()[0]))
    assert watts[1] > watts[0]
    assert Model(Path(int8)).description.decodes
    assert main(["model", "compile", int8, "-c", str(engines), "-o", str(tmp_path / "jobs")]) == 0
    printed = capsys.readouterr().out
    assert "tokens/s" in printed
    assert "J/token on nangate45" in printed
