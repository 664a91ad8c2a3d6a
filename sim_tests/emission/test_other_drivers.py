# SPDX-License-Identifier: Apache-2.0
"""C drivers of stream engines and of engines that execute lists, against registers in Python."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.drivers.engine_drivers import list_driver, stream_driver
from flows.build.files import c_header
from flows.tools.toolchain import require
from hwgen.core.lists.commands import STATE_TEXTS, STATES
from hwgen.core.registry import core_of
from hwgen.core.schedule.memory import SIZE_BITS
from hwgen.families.stream_engine.core import StreamEngineCore
from hwgen.families.stream_engine.jobs import TAIL, RowRegion, StreamJob
from hwgen.families.stream_engine.params import StreamEngineConfig
from hwgen.families.transformer.core import TransformerCore
from hwgen.families.transformer.registers import LAYOUT, MAGIC, list_registers, start_writes
from sim_tests.emission.test_driver import READ, WRITE, Device
from sim_tests.engines.decoder_engines import rows, small_engine

BUSY, DONE = 1, STATES.index("done") << 8


class Registers:
    """Registers without an engine behind them, and the driver of one."""

    def __init__(self, name: str, registers: Any, library: ctypes.CDLL) -> None:
        self.name, self.library = name, library
        self.offsets = {register.name: register.offset for register in registers}
        self.names = {offset: each for each, offset in self.offsets.items()}
        self.values = dict.fromkeys(self.offsets, 0)
        self.log: list[tuple[str, int]] = []
        self.on_write: Callable[[str, int], None] = lambda name, value: None
        self.device = Device(None, READ(self._read), WRITE(self._write))

    def _read(self, _: Any, offset: int) -> int:
        return self.values[self.names[offset]]

    def _write(self, _: Any, offset: int, value: int) -> None:
        name = self.names[offset]
        self.log.append((name, value))
        self.on_write(name, value)

    def call(self, name: str, *arguments: Any) -> int:
        function = getattr(self.library, f"{self.name}_{name}")
        return int(function(ctypes.byref(self.device), *arguments))

    def message(self, status: int) -> str:
        function = getattr(self.library, f"{self.name}_message")
        function.restype = ctypes.c_char_p
        text: bytes = function(status)
        return text.decode()


def library(config: Any, files: dict[str, str], work: Path) -> ctypes.CDLL:
    compiler = require("g++").argv[0]
    for name, text in {**files, f"{config.name}_regs.h": c_header(core_of(config))}.items():
        (work / name).write_text(text, encoding="utf-8")
    strict = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-pedantic"]
    sources = [name for name in files if name.endswith(".c")]
    for language in (["-x", "c++", "-std=c++11"], ["-x", "c", "-std=c99"]):
        for name in sources:
            subprocess.run([compiler, *language, *strict, "-fPIC", "-c", name, "-o", f"{name}.o"],
                           cwd=work, check=True, timeout=120)  # fmt: skip
    out = str(work / "driver.so")
    objects = [f"{name}.o" for name in sources]
    subprocess.run([compiler, "-shared", "-o", out, *objects], cwd=work, check=True, timeout=120)
    return ctypes.CDLL(out)


class List(ctypes.Structure):
    _fields_ = (
        ("address", ctypes.c_uint64),
        ("descriptors", ctypes.c_uint32),
        ("step_limit", ctypes.c_uint32),
    )


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> Registers:
    config = small_engine()
    result = library(config, list_driver(TransformerCore(config)), tmp_path_factory.mktemp("lists"))
    return Registers(config.name, list_registers(config), result)


def test_lists_are_started_as_they_should(lists: Registers) -> None:
    config = small_engine()
    lists.values |= {"ID": MAGIC, "LAYOUT": LAYOUT, "UNITS": len(config.units), "STATUS": 0}
    assert lists.call("probe") == 0
    lists.values["UNITS"] += 1
    assert lists.message(lists.call("probe")) == "no such engine"
    address, data = 0x12_3456_7880, bytes(16 * 99)
    contents = [0, *(7 * i << 30 for i in range(1, config.lists.registers))]
    lists.log.clear()
    for number, value in enumerate(contents):
        wrong = lists.call("set", number, ctypes.c_uint64(value))
        assert bool(wrong) == (number == 0)
    assert lists.call("start", ctypes.byref(List(address, 99, 5))) == 0
    written = dict(lists.log)
    for offset, value in start_writes(config, address, data, registers=contents, limit=5):
        name = lists.names[offset]
        if name != "INTERRUPT_ENABLE":
            assert written.pop(name) == value, name
    assert written == {"INTERRUPT": 1}
    assert lists.log[-1] == ("START", 1)


def test_lists_that_are_refused(lists: Registers) -> None:
    lists.values["STATUS"] = 0
    lists.log.clear()
    last = (1 << 40) - 64
    for address, count in ((8, 1), (0, 0), (last, 5), (1 << 40, 1), (0, 1 << 24)):
        status = lists.call("start", ctypes.byref(List(address, count, 0)))
        assert lists.message(status) == "misaligned, empty, or beyond the address space"
    assert lists.message(lists.call("set", 16, ctypes.c_uint64(0))).startswith("no such register")
    assert lists.message(lists.call("set", 1, ctypes.c_uint64(1 << 40))).startswith("no such reg")
    lists.values["STATUS"] = BUSY
    assert lists.message(lists.call("start", ctypes.byref(List(0, 1, 0)))) == "another list runs"
    assert lists.log == []
    assert lists.call("start", ctypes.byref(List(last, 4, 0))) != 0
    lists.values["STATUS"] = 0
    assert lists.call("start", ctypes.byref(List(last, 4, 0))) == 0


def test_how_lists_end(lists: Registers) -> None:
    lists.values["STATUS"] = BUSY | STATES.index("running") << 8
    assert lists.message(lists.call("poll")) == "not finished"
    assert lists.message(lists.call("wait", 3)) == "not finished in time"
    seen = set()
    for code, state in enumerate(STATES):
        if state not in ("idle", "running"):
            lists.values["STATUS"] = code << 8
            status = lists.call("wait", 0)
            assert lists.message(status) == ("done" if state == "done" else STATE_TEXTS[state])
            assert (status == 0) == (state == "done")
            seen.add(status)
    assert len(seen) == len(STATES) - 2
    lists.values |= {"STATUS": 0, "CYCLES_LOW": 5, "CYCLES_HIGH": 2, "R3_LOW": 7, "R3_HIGH": 1}
    assert lists.message(lists.call("poll")) == "no list was started"
    for name, wanted, arguments in (("cycles", 5 + (2 << 32), ()), ("get", 7 + (1 << 32), (3,))):
        function = getattr(lists.library, f"{lists.name}_{name}")
        function.restype = ctypes.c_uint64
        assert function(ctypes.byref(lists.device), *arguments) == wanted


def stream_config(variant: str) -> StreamEngineConfig:
    values = rows(["quantise", "dequantise"], "fp32", "int8")
    if variant in ("heads", "pages"):
        values = {"family": "stream_engine", "compute": {"family": "attention"}}
    if variant == "pages":
        values["paged"] = ["key", "value_scale"]
    memory = {"max_burst": 8}
    return StreamEngineConfig.model_validate({"name": variant, "memory": memory, **values})


class CRegion(ctypes.Structure):
    _fields_ = (
        ("address", ctypes.c_uint64),
        *((name, ctypes.c_uint32) for name in ("row_bytes", "rows", "blocks", "stride", "step")),
    )


class CPages(ctypes.Structure):
    _fields_ = (
        ("place", CRegion),
        ("table", ctypes.c_uint64),
        ("skip", ctypes.c_uint32),
        ("last", ctypes.c_uint32),
    )


def job_type(config: StreamEngineConfig) -> type[ctypes.Structure]:
    fields: list[tuple[str, Any]] = [
        (port.name, ctypes.c_uint32 * -(-port.beat_bytes // 4)) for port in config.commands
    ]
    names = [port.name for port in (*config.operands, *config.results)]
    names += [TAIL] * bool(config.results[0].tail_bytes)
    fields += [(name, CPages if name in config.paged else CRegion) for name in names]
    return type("Job", (ctypes.Structure,), {"_fields_": [*fields, ("after", ctypes.c_int)]})


def random_job(config: StreamEngineConfig, rng: np.random.Generator) -> StreamJob:
    def place(rows: int, blocks: int, most: int = 1 << SIZE_BITS) -> RowRegion:
        size = int(rng.integers(1, most))
        stride, step = (int(rng.integers(1 << 20)) for _ in range(2))
        return RowRegion(int(rng.integers(1 << 30)), size, rows, stride, blocks, step)

    shape = [int(n) for n in rng.integers(1, 99, 2)]
    names = [port.name for port in config.operands if rng.random() < 0.8]
    places = {name: place(*(int(n) for n in rng.integers(1, 99, 2))) for name in names}
    for port in config.tables:
        if port.name in places and rng.random() < 0.8:
            size, count = port.beat_bytes * int(rng.integers(4, 99)), int(rng.integers(1, 99))
            pages = config.memory_bytes * rng.integers(0, 1 << 20, count)
            places[port.name] = RowRegion.paged(
                int(rng.integers(1 << 30)),
                size,
                [int(page) for page in pages],
                4 * int(rng.integers(1, 1 << 28)),
                skip=2 * port.beat_bytes,
                last=3 * port.beat_bytes,
            )
    out = config.results[0]
    places[out.name] = place(shape[0], shape[1])
    if out.tail_bytes:
        places[TAIL] = place(shape[0], shape[1], out.tail_bytes + 1)
    beats = {port.name: rng.bytes(port.beat_bytes) for port in config.commands}
    return StreamJob(config, beats, places, bool(rng.integers(2)))


def described(config: StreamEngineConfig, job: StreamJob) -> Any:
    """Return a job as the driver takes it."""
    result = job_type(config)(after=job.after)
    for name, beat in job.commands.items():
        words = np.frombuffer(beat, "<u4")
        for index, word in enumerate(words):
            getattr(result, name)[index] = int(word)
    for name, place in job.regions.items():
        values = (
            place.address,
            place.row_bytes,
            place.rows,
            place.blocks,
            place.stride,
            place.step,
        )
        rows = CRegion(*values)
        pages = CPages(rows, place.table, place.skip, place.last)
        setattr(result, name, pages if name in config.paged else rows)
    return result


@pytest.mark.parametrize("variant", ["integers", "heads", "pages"])
def test_jobs_of_stream_engines(variant: str, tmp_path: Path) -> None:
    config = stream_config(variant)
    result = library(config, stream_driver(StreamEngineCore(config)), tmp_path)
    engine = Registers(config.name, config.registers, result)
    engine.values |= {"STATUS": config.queue << 8, "QUEUE": config.queue}
    engine.values |= {"ID": config.job_interface.magic, "LAYOUT": 1}
    assert engine.call("probe") == 0

    def submitted(name: str, value: int) -> None:
        engine.values["SUBMITTED"] += name == "SUBMIT"

    engine.on_write = submitted
    rng = np.random.default_rng(3)
    for number in range(20):
        job, ticket = random_job(config, rng), ctypes.c_uint32()
        engine.log.clear()
        status = engine.call("submit", ctypes.byref(described(config, job)), ctypes.byref(ticket))
        assert (status, ticket.value) == (0, number)
        assert engine.log.pop() == ("SUBMIT", 1)
        wanted = {engine.names[offset]: value for offset, value in job.writes()}
        assert dict(engine.log) == {name: wanted[name] for name, _ in engine.log}
        rest = set(wanted) - {name for name, _ in engine.log}
        assert not any(wanted[name] for name in rest)
    out = config.results[0].name
    good = described(config, random_job(config, rng))
    top = (1 << config.memory.address_width) - 1
    changes = (("row_bytes", 0, "too wide"), ("rows", 1 << 24, "too wide"), ("blocks", 0, "wide"),
               ("address", top, "beyond"), ("address", 2 * top, "beyond"))  # fmt: skip
    engine.log.clear()
    for name, value, text in changes:
        job = type(good).from_buffer_copy(good)
        setattr(getattr(job, out), name, value)
        if name == "address":
            getattr(job, out).row_bytes = 2
        assert text in engine.message(engine.call("submit", ctypes.byref(job), None))
    page = CRegion(64, 32, 0, 2, 0, 0)
    for values, text in (
        ((64, 32, 0), "too wide"),
        ((64, 0, 40), "too wide"),
        ((66, 0, 32), "beyond"),
        ((2 * top - 1, 0, 32), "beyond"),
    ):
        for port in config.tables:
            job = type(good).from_buffer_copy(good)
            setattr(job, port.name, CPages(page, *values))
            assert text in engine.message(engine.call("submit", ctypes.byref(job), None))
    assert engine.log == []
    states = config.job_interface.states
    for state, text in (("done", "done"), ("mismatch", "do not agree"), ("aborted", "aborted")):
        engine.values["FINISHED"] = engine.values["SUBMITTED"]
        slot = (engine.values["SUBMITTED"] - 1) % config.queue
        engine.values[f"JOB_STATUS_{slot}"] = states.index(state)
        status = engine.call("wait", engine.values["SUBMITTED"] - 1, 0)
        assert text in engine.message(status)
