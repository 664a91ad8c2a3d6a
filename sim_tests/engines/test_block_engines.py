# SPDX-License-Identifier: Apache-2.0
"""Engines from memory to memory around cores that sum blocks of scaled numbers."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.design import Design
from flows.simulation.bus.job_host import JobHost, open_engine
from flows.simulation.operands import PATTERNS, draw_matrices
from flows.simulation.verilator.verilator import FEW_CYCLES
from hwgen.cli import main
from hwgen.core.files.block_packing import pack_matrix
from hwgen.core.files.packing import pack, unpack
from hwgen.core.params.block_operands import BLOCKS, GROUPS
from hwgen.core.post import ACTIVATIONS, OUTPUTS, ROUNDINGS
from hwgen.errors import InputError
from hwgen.families.gemm_stream.params import GemmStreamConfig
from hwgen.families.gemm_stream.schedule import Plan
from hwgen.formats import SMALL_FLOATS
from hwgen.formats.block import quantise_lines
from sim_tests.contract.contract import Contract, Mutations, Regressions
from sim_tests.support.designs import design_of
from sim_tests.support.engine_jobs import check_cycles, check_results, drawn_job
from sim_tests.support.mutations import Mutation
from sim_tests.support.selection import commit_seed

FLOATS = ("fp16", "bf16", "fp8_e5m2", "fp8_e4m3", *SMALL_FLOATS)

STAYS = {"dataflow": "weight_stationary", "accumulator_depth": 5}


def engine(
    core: tuple[str, str, str, str],
    array: dict[str, Any],
    pe: int,
    memory: dict[str, Any],
    kib: tuple[int, int, int] = (1, 1, 1),
    blocks: int = 1,
    post: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the configuration of a small engine."""
    family, activation, weight, accumulator = core
    return {
        "name": "engine", "family": "gemm_stream",
        "compute": {
            "family": family, "activation": activation, "weight": weight,
            "accumulator": accumulator, "array": array, "pipeline": {"pe": pe}, "max_k": 900,
        },
        "array": {"blocks": blocks},
        "buffers": dict(zip(("activation_kib", "weight_kib", "output_kib"), kib, strict=True)),
        "memory": memory,
        "post": post or {"outputs": ["raw"], "columns": False},
    }  # fmt: skip


ENGINES = {
    "mxfp4": engine(("adder_tree", "mxfp4", "mxfp4", "fp32"), {"cols": 4, "depth": 8}, 0,
                    {"data_width": 64}),
    "nvfp4": engine(("cube", "nvfp4", "nvfp4", "aligned(35)"), {"rows": 3, "cols": 2, "depth": 32},
                    1, {"data_width": 128, "max_burst": 2, "outstanding": 1}, (4, 4, 1), 2,
                    {"outputs": ["fp32", "bf16"], "activations": ["leaky"], "max_lanes": 1}),
    "w4a16": engine(("broadcast_2d", "fp16", "int4_g16", "exact"),
                    {"rows": 2, "cols": 3, "pe": "hybrid"}, 2, {"data_width": 32},
                    post={"outputs": ["int8", "fp16", "raw"], "roundings": ["floor", "half_up"]}),
    "os": engine(("systolic", "mxfp8_e4m3", "mxfp4", "fp32"),
                 {"rows": 3, "cols": 5, "broadcast": 2}, 1,
                 {"data_width": 64, "address_width": 64}, (4, 4, 1)),
    "ws": engine(("systolic", "nvfp4", "nvfp4", "exact"), {"rows": 16, "cols": 3, **STAYS}, 0,
                 {"data_width": 256}, (4, 4, 1), 2),
    "serial": engine(("cube", "int8", "bitmod_fp4", "fp32"),
                     {"rows": 2, "cols": 2, "depth": 8, "pe": "bit_serial"}, 0,
                     {"data_width": 64, "max_burst": 1}, (2, 2, 1)),
    "minima": engine(("adder_tree", "q8_0", "q4_1", "exact"), {"cols": 3, "depth": 32}, 2,
                     {"data_width": 512}, (4, 4, 1)),
    "zeros": engine(("cube", "int4_g16_zero", "fp6_e3m2", "aligned(13)"),
                    {"rows": 2, "cols": 2, "depth": 4}, 1, {"data_width": 32},
                    post={"outputs": ["int32", "uint4"], "columns": False, "max_lanes": 1}),
    "floats": engine(("systolic", "fp8_e5m2", "int4", "fp32"), {"rows": 4, "cols": 3, **STAYS}, 0,
                     {"data_width": 64}),
    "ternary": engine(("systolic", "fp8_e4m3", "ternary", "exact"), {"rows": 3, "cols": 3}, 0,
                      {"data_width": 128}),
    "scalable": engine(("cube", "mxfp4", "mxfp4", "fp32"),
                       {"rows": 3, "cols": 2, "depth": 8, "pe": "scalable"}, 1,
                       {"data_width": 64}, (2, 2, 1)),
    "several": engine(("adder_tree", "int8", "ternary_g16", "exact"), {"cols": 2, "depth": 64}, 1,
                      {"data_width": 64}),
}  # fmt: skip
"""Every family and dataflow, kinds of formats, beats of parts of blocks and of several blocks, and
one engine whose jobs have a format each; results as they are, scaled, and integers."""


@cache
def config_of(name: str) -> GemmStreamConfig:
    return GemmStreamConfig.model_validate(ENGINES[name])


def check(config: GemmStreamConfig, seed: int, jobs: int, most: int) -> None:
    """Run jobs on memories that pause and on one that never does."""
    rng, text = np.random.default_rng(seed), design_of(config).verilog
    for stalls, latency in ((0.4, 3), (0.0, int(rng.integers(1, 40)))):
        with open_engine(
            design_of(config).with_verilog(text), cycles=FEW_CYCLES, read_latency=latency,
            write_latency=latency, stalls=stalls, seed=seed,
        ).model as model:  # fmt: skip
            host = JobHost(config, model)
            check_results(host, jobs, rng, most, 300, PATTERNS)
            if not stalls:
                timed = [drawn_job(config, rng, most, number=number) for number in range(3)]
                timed.append(drawn_job(config, rng, most, number=-1, size=(3, 900, 5)))
                for placed, _ in timed:
                    check_cycles(host, placed, read_latency=latency, write_latency=latency)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.slow
@pytest.mark.rotate(36)
def test_covering_set(name: str) -> None:
    check(config_of(name), 7, 8, 20)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
def test_many_jobs(name: str) -> None:
    check(config_of(name), 8, 100, 60)


def drawn(rng: np.random.Generator) -> GemmStreamConfig:
    """Return an engine around a core drawn from the schema, small enough to simulate."""
    while True:
        family = str(rng.choice(["cube", "adder_tree", "broadcast_2d", "systolic"]))
        weight = str(rng.choice([*BLOCKS, *GROUPS]))
        activation = str(rng.choice([weight, *FLOATS, *BLOCKS, "int8", "uint5"]))
        array: dict[str, Any] = {"cols": int(rng.integers(1, 5))}
        array |= {"rows": int(rng.integers(1, 4))} if family != "adder_tree" else {}
        if family in ("cube", "adder_tree"):
            array["depth"] = int(2 ** rng.integers(0, 7))
        if family != "systolic":
            array["pe"] = str(rng.choice(["mac", "hybrid", "bit_serial", "fused"]))
        elif rng.random() < 0.5:
            array |= {**STAYS, "rows": int(rng.choice([16, 32]))}
        accumulator = str(rng.choice(["exact", "fp32", "aligned(25)"]))
        memory = {"data_width": int(rng.choice([32, 64, 128, 256, 512]))}
        post = {
            name: rng.permutation(words)[: rng.integers(1, len(words) + 1)].tolist()
            for name, words in (
                ("outputs", OUTPUTS),
                ("activations", ACTIVATIONS),
                ("roundings", ROUNDINGS),
            )
        }
        if post["activations"] == ["leaky"]:  # raw results have none
            post["activations"] = ["leaky", "relu"]
        more = {"columns": bool(rng.integers(2)), "max_lanes": int(rng.integers(1, 5))}
        try:
            return GemmStreamConfig.model_validate(
                engine((family, activation, weight, accumulator), array, int(rng.integers(3)),
                       memory, (2, 4, 1), int(rng.integers(1, 3)), {**post, **more})
            )  # fmt: skip
        except ValueError:
            continue


@pytest.mark.parametrize("number", range(4))
@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
def test_engines_drawn_at_random(number: int) -> None:
    check(drawn(np.random.default_rng([commit_seed(), number])), number, 10, 30)


# -- memory ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ENGINES)
def test_rows_come_back(name: str) -> None:
    config, rng = config_of(name), np.random.default_rng(3)
    for size in ((3, min(config.max_k, 70), 5), (1, 1, 1), (2, config.max_k, 3)):
        plan = Plan(config, *size)
        a, w = draw_matrices(config, size, "random", rng)
        rows, columns = plan.pack_activations(a), plan.pack_weights(w)
        assert rows.shape == (plan.m, plan.activation_row_bytes)
        assert columns.shape == (plan.n, plan.weight_row_bytes)
        assert (plan.unpack_activations(rows) == a).all()
        assert (plan.unpack_weights(columns.reshape(-1)) == w).all()


@pytest.mark.parametrize("name", [n for n in ENGINES if n not in ("floats", "ternary")])
def test_weights_are_the_images_of_their_formats(name: str) -> None:
    """Weights packed for an engine are the bytes that ``hwgen pack --format`` writes."""
    config, rng = config_of(name), np.random.default_rng(5)
    fmt = config.weight if config.weight.is_block else config.activation
    matrix = rng.normal(0, 0.02, (2 * config.k_lanes, 7)).astype(np.float32)
    image = pack_matrix(fmt, matrix).image
    if fmt is config.weight:
        packed = pack(config, matrix)
        assert packed.image == image
        assert unpack(config, packed.description, packed.image).shape == matrix.shape
    else:
        lines, _ = quantise_lines(fmt, matrix.T)
        assert Plan(config, 7, len(matrix), 1).pack_activations(lines).tobytes() == image


def test_limits_of_reductions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # A stationary array needs all of it at once; one that computes tile after tile goes on.
    held = config_of("ws")
    longest = held.stored_k
    with pytest.raises(InputError, match=rf"K = {longest + 1} is longer than the buffers hold"):
        Plan(held, 1, longest + 1, 1)
    with pytest.raises(InputError, match=rf"K = 901 exceeds max_k = {longest}"):
        Plan(held, 1, 901, 1)
    config = config_of("mxfp4")
    for size in ((1, 1, 1), (500, 224, 300), (3, 100, 900)):
        assert Plan(config, *size).blocks[1] == 1
    with pytest.raises(InputError, match=r"K = 901 exceeds max_k = 900"):
        Plan(config, 1, 901, 1)
    plan = Plan(config, 5, 900, 7)
    assert plan.blocks[1] > 1
    assert plan.block_tiles[::2] == (1, 1)
    np.save(tmp_path / "w.npy", np.ones((33, 2), np.float32))
    (tmp_path / "e.yaml").write_text(json.dumps(ENGINES["mxfp4"]), encoding="utf-8")
    files = [f"--config={tmp_path / 'e.yaml'}", f"--weights={tmp_path / 'w.npy'}"]
    assert main(["pack", *files, f"--output={tmp_path / 'o'}", "--strict"]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "K = 33 is no multiple of the block of mxfp4, 32" in message
    assert not (tmp_path / "o").exists()


REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    (
        {"array": {"cascade": 2}},
        r"array\.cascade: must be 1 with mxfp4 x mxfp4, not 2.*",
    ),
    (
        {"post": {"outputs": ["raw"], "activations": ["leaky"]}},
        r"post\.activations: leaky scales negative numbers, but raw outputs are not scaled.*",
    ),
    (
        {"buffers": {"column_kib": 1}, "array": {"blocks": 16}},
        r"buffers\.column_kib: must hold two blocks of at least one tile; raise it",
    ),
    (
        {"memory": {"data_width": 512}, "array": {"blocks": 16}},
        r"buffers\.weight_kib: must hold two blocks of at least one tile; raise it",
    ),
)


def test_blocks_of_an_odd_number_of_beats_are_refused() -> None:
    own = {"name": "own", "summary": "own", "element": "int3", "block": 24,
           "scale": {"format": "bf16", "rule": "absmax"}}  # fmt: skip
    values = engine(("adder_tree", "int8", own, "exact"), {"cols": 2, "depth": 8}, 0, {})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"compute\.array\.depth: blocks of own take 3 beats"):
        GemmStreamConfig.model_validate(values)
    values["compute"]["array"]["depth"] = 12
    assert GemmStreamConfig.model_validate(values).k_lanes == 24


# -- tests of the tests ----------------------------------------------------------------------------


MUTATIONS = [
    Mutation("parts of scales of A are swapped", "engine",
             r"act_gather_o_data\[7:6\](.*?)act_gather_o_data\[5:4\]",
             r"act_gather_o_data[5:4]\1act_gather_o_data[7:6]",
             ENGINES["mxfp4"]),
    Mutation("a part of a scale of W is another", "engine", r"wgt_gather_o_data\[3:2\]",
             "wgt_gather_o_data[1:0]", ENGINES["mxfp4"]),
    Mutation("blocks of columns are all the first", "engine_loader", r"w_n \+ job_data\[239:200\]",
             "w_n", ENGINES["mxfp4"]),
    Mutation("rows are a byte a block too short", "engine_loader", "\\* 5'h11", "* 5'h10",
             ENGINES["mxfp4"]),
    Mutation("columns of W stand in one bank", "engine_wgt_buffer", r"\{ bank\[2:0\], bank\[3\] \}",
             "bank", ENGINES["mxfp4"]),
    Mutation("parts of a reduction begin where the first did", "engine_loader",
             r"w_k \+ (?!w_n)\w+", "w_k", ENGINES["mxfp4"]),
    Mutation("a part of a reduction ends it", "engine_act_buffer", r"last_2 & k_last;",
             "last_2;", ENGINES["mxfp4"]),
    Mutation("words of a row are those of another format", "engine",
             r"\.row_format\(routes_format\)", ".row_format(2'h3)", ENGINES["scalable"]),
    Mutation("what a row leaves is turned as in the next row's format",
             "gather_64_1_8_34_33_33_25_34", "previous <= row_format", "previous <= 2'h3",
             ENGINES["scalable"]),
    Mutation("beats have the format of the last job", "engine_wgt_buffer",
             r"format <= job_data\[669:668\]", "format <= 2'h0", ENGINES["scalable"]),
    Mutation("words of W are found as in another format", "engine_wgt_buffer",
             r"job_data\[669:668\] == 2'h3", "1'b0", ENGINES["scalable"]),
    Mutation("rows of all formats are a byte a block too short", "engine_loader", "24'h861651",
             "24'h820610", ENGINES["scalable"]),
]  # fmt: skip


def check_mutant(design: Design) -> None:
    host = open_engine(design, cycles=FEW_CYCLES, read_latency=1, write_latency=1)
    with host.model:
        check_results(host, 16, np.random.default_rng(1), 30, 300, PATTERNS)


CONTRACT = Contract(
    "block_engines",
    "gemm_stream",
    regressions=(
        Regressions(
            [
                GemmStreamConfig.model_validate({**values, "name": f"engine_{name}"})
                for name, values in ENGINES.items()
            ],
            seed=0,
            long=True,
        ),
    ),
    mutations=(Mutations(GemmStreamConfig, (), MUTATIONS, long=True, check=check_mutant),),
    refused=[
        (json.dumps({**ENGINES["mxfp4"], **changes}), f": {message}$")
        for changes, message in REFUSED
    ],
)
