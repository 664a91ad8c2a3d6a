# SPDX-License-Identifier: Apache-2.0
"""The simulation of memory engines, tried on an engine that copies."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.load import parse_config
from flows.build.verilog import to_verilog
from flows.simulation.engine_program import BusError, Model, compile_model
from flows.simulation.operands import draw_matrices
from flows.simulation.run import run_product
from flows.tools.toolchain import require
from hwgen.errors import CheckFailed, InputError
from sim_tests.simulation import copy_engine as engine
from sim_tests.support.cores import cycles
from sim_tests.support.designs import design_of

FAR = 0x12_3456_7000


@pytest.fixture(scope="module")
def library() -> Path:
    return compile_model(
        "copier", to_verilog(engine.CopyEngine(), "copier"), engine.BUSES, cycles=0
    )


def begin(model: Model, source: int, target: int, count: int, mode: str = "plain") -> None:
    for register, value in ((engine.SOURCE, source), (engine.TARGET, target)):
        model.write32(register, value & 0xFFFFFFFF)
        model.write32(register + 4, value >> 32)
    model.write32(engine.BYTES, count)
    model.write32(engine.MODE, engine.MODES.index(mode))
    model.write32(engine.START, 1)


def copy(model: Model, source: int, target: int, count: int, mode: str = "plain") -> int:
    """Copy and return the status."""
    begin(model, source, target, count, mode)
    assert model.wait(100 * count + 1000)
    model.write32(engine.CLEAR, 0)
    assert not model.interrupt
    return model.read32(engine.START)


def data(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, count, np.uint8)


@pytest.mark.parametrize("stalls", [0.0, 0.3, 0.9, {"read": 0.5}, {"write": 0.5}])
@pytest.mark.parametrize("mode", ["plain", "data_first"])
def test_copies(library: Path, stalls: Any, mode: str) -> None:
    for seed, (count, offset) in enumerate([(8, 0), (64, 24), (4096, 4088), (1000, 3200)]):
        with Model(
            library, stalls=stalls, seed=seed, read_latency=1 + 9 * seed, write_latency=1 + seed
        ) as model:
            sent = data(count, seed)
            model.store(FAR, sent)
            model.store(offset - offset % 8 + 8, b"\xee" * (count + 16))
            assert copy(model, FAR, offset - offset % 8 + 16, count, mode) == 0
            got = model.load(offset - offset % 8 + 8, count + 16)
            assert (got[8:-8] == sent).all()
            assert (got[:8] == 0xEE).all()
            assert (got[-8:] == 0xEE).all()
            traffic = model.traffic
            assert (traffic.read_beats, traffic.write_beats) == (count // 8, count // 8)
            assert traffic.write_bytes == count


def test_strobes(library: Path) -> None:
    with Model(library) as model:
        model.store(0, bytes(range(1, 17)))
        begin(model, 0, 64, 16)
        assert model.wait(1000)
        assert (model.load(64, 16) == np.arange(1, 17)).all()
        model.store(64, bytes(16))
        model.write32(engine.MODE, 0xF0 << 8)
        model.write32(engine.START, 1)
        model.run(200)
        assert model.load(64, 16).tolist() == [1, 2, 3, 4, 0, 0, 0, 0, 9, 10, 11, 12, 0, 0, 0, 0]


def test_latency_is_counted_exactly(library: Path) -> None:
    cycles = {}
    for latencies in ((1, 1), (11, 1), (1, 31)):
        with Model(library, read_latency=latencies[0], write_latency=latencies[1]) as model:
            begin(model, 0, 64, 8)
            start = model.traffic.cycles
            assert model.wait(1000)
            cycles[latencies] = model.traffic.cycles - start
    assert cycles[11, 1] - cycles[1, 1] == 10
    assert cycles[1, 31] - cycles[1, 1] == 30


def test_a_seed_repeats_a_run(library: Path) -> None:
    seen = []
    for seed in (1, 1, 2):
        with Model(library, stalls=0.5, seed=seed) as model:
            copy(model, 0, 4096, 512)
            seen.append(model.traffic.cycles)
    assert seen[0] == seen[1] != seen[2]


def test_models_do_not_share_anything(library: Path) -> None:
    with Model(library) as first, Model(library) as second:
        first.store(0, data(64))
        begin(first, 0, 4096, 64)
        assert copy(second, 0, 4096, 64) == 0
        assert not second.load(4096, 64).any()
        assert first.wait(1000)
        assert (first.load(4096, 64) == data(64)).all()


def test_errors_of_the_memory(library: Path) -> None:
    with Model(library) as model:
        for address in (0, 4096):
            model.fault(address, 8, "SLVERR")
            model.store(4096, data(64, 1))
            assert copy(model, 0, 4096, 64) == 2
            model.fault(address, 8, "OKAY")
        assert (model.load(4096, 8) == data(64, 1)[:8]).all()  # the write that failed is dropped
        model.map(0, 64)
        assert copy(model, 0, 64, 64) == 0
        assert copy(model, 0, 4096, 64) == 2
        model.map(4096, 1)
        assert copy(model, 0, 4096, 64) == 0


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("boundary", r"AW: a burst crosses 4 KiB \(address 0x1fe0, 8 beats\)"),
        ("wlast", "W: the last beat has no wlast"),
        ("unstable", "W: a waiting beat changed"),
        ("falls", "AW: valid fell before ready"),
        ("size", r"AW: beats are not as wide as the bus \(address 0x1fe0, 4 beats\)"),
        ("fixed", "AW: a burst is not INCR"),
    ],
)
def test_violations(library: Path, mode: str, message: str) -> None:
    with Model(library, stalls={"write": 0.7}) as model:
        begin(model, 0, 0x1FE0, 256, mode)
        with pytest.raises(CheckFailed, match=rf"^waiting .*: m_axi_mem, {message}.*\(cycle \d+\)"):
            model.wait(2000)
        with pytest.raises(CheckFailed, match=message):
            model.run(1)


def test_bursts_may_be_too_long(library: Path) -> None:
    message = r"AW: a burst is longer than allowed \(address 0x1000, 8 beats\)"
    with Model(library, longest_burst=4) as model, pytest.raises(CheckFailed, match=message):
        copy(model, 0, 4096, 64)


def test_registers_that_do_not_answer(library: Path) -> None:
    with Model(library, stalls={"control": 0.8}) as model:
        for value in range(20):
            model.write32(engine.BYTES, value)
            assert model.read32(engine.BYTES) == value
        with pytest.raises(BusError, match=r"^writing register 0x20 was answered with SLVERR$"):
            model.write32(0x20, 1)
        with pytest.raises(BusError, match=r"^reading register 0xffc was"):
            model.read32(0xFFC)
        model.write32(engine.MODE, engine.MODES.index("silent"))
        with pytest.raises(CheckFailed, match="0x10: an access of a register is not answered"):
            model.read32(engine.BYTES)


def test_waiting_has_a_limit(library: Path) -> None:
    seen: list[int] = []
    with Model(library) as model:
        start = model.traffic.cycles
        assert not model.wait(600_000, seen.append)
        assert model.traffic.cycles == start + 600_000
    assert seen == sorted(seen)
    assert seen[-1] == 600_000
    assert len(seen) == 3


def test_reset_in_the_middle(library: Path) -> None:
    for count in range(1, 60, 7):
        with Model(library, stalls=0.2, seed=count) as model:
            model.store(0, data(512))
            begin(model, 0, 4096, 512)
            model.run(count)
            model.reset()
            assert model.read32(engine.START) == 0
            assert copy(model, 0, 8192, 512) == 0
            assert (model.load(8192, 512) == data(512)).all()


@pytest.mark.parametrize(
    "settings",
    [{"read_latency": 0}, {"outstanding": 0}, {"longest_burst": 257}, {"stalls": 1.0}],
)
def test_settings_that_cannot_be(library: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="of the memory cannot be"):
        Model(library, **settings)


def test_a_driver_in_c(library: Path, tmp_path: Path) -> None:
    program = tmp_path / "driver"
    (compiler,) = require("g++").argv
    name = library.name.rpartition("-")[0]
    subprocess.run(
        [compiler, "-x", "c", "-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{library}",
         Path(__file__).with_name("copy_driver.c"), "-x", "none", library / name,
         f"-Wl,-rpath,{library}", "-o", program],
        check=True, timeout=100,
    )  # fmt: skip
    done = subprocess.run([program], check=True, capture_output=True, text=True, timeout=100)
    assert done.stdout.splitlines() == [
        "copy 0",
        "equal 1 interrupt 0",
        "fault 1",
        "bytes 4160 message ''",
    ]


# -- an engine of the tool -------------------------------------------------------------------------

ENGINE = """\
name: eng
family: gemm_stream
compute: {family: systolic, array: {rows: 4, cols: 4, dataflow: weight_stationary}}
buffers: {activation_kib: 4, weight_kib: 4, output_kib: 4}
memory: {data_width: 64, address_width: 40}
"""


def test_matrices_through_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of any size; and a job that ends with an error, or does not end."""
    config: Any = parse_config(ENGINE)
    for size in ((1, 1, 1), (37, 21, 19), (64, 64, 64)):
        a, w = draw_matrices(config, size, "random", np.random.default_rng(0))
        result = run_product(design_of(config), a, w)
        assert (result.result == a.astype(int) @ w.astype(int)).all()
        model = cycles(config, *size)
        assert abs(result.cycles - model) <= 4 * max(size)  # rows that are not aligned take longer
    with pytest.raises(InputError, match="'eng' works on memory; use --driver fast"):
        run_product(design_of(config), a, w, engine="cocotb")
    with monkeypatch.context() as patch:
        patch.setattr(Model, "map", lambda model, at, _: model.fault(at, 8, "SLVERR"))
        with pytest.raises(CheckFailed, match=r"^the job ended with read_error$"):
            run_product(design_of(config), a, w)
    monkeypatch.setattr(Model, "wait", lambda *_: False)
    with pytest.raises(
        CheckFailed, match=r"^the engine hangs: nothing was read or written for \d+ cycles$"
    ):
        run_product(design_of(config), a, w)
