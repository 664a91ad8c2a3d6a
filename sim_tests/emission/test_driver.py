# SPDX-License-Identifier: Apache-2.0
"""The C driver of an engine: compiled with all warnings, and run against registers in Python."""

from __future__ import annotations

import ctypes
import dataclasses
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.drivers.engine_drivers import gemm_driver
from flows.build.files import c_header
from flows.build.load import parse_config
from flows.simulation.engine_program import compile_model
from flows.tools.toolchain import require
from hwgen.core.post import PostSettings
from hwgen.core.register_map import LAYOUT, MAGIC, STATES
from hwgen.families.gemm_stream.core import GemmStreamCore
from hwgen.families.gemm_stream.params import GemmStreamConfig
from hwgen.families.gemm_stream.schedule import Job, plan_of
from sim_tests.simulation.test_memory_engine import ENGINE
from sim_tests.support.designs import design_of

TERNARY = {"family": "ternary_lut"}
OUTPUT_STATIONARY = {"family": "systolic", "array": {"dataflow": "output_stationary"}}
CONFIGS: list[dict[str, Any]] = [
    {"name": "engine"},
    {"name": "tables", "compute": TERNARY, "memory": {"address_width": 64}, "queue": 2},
    {
        "name": "bare",
        "compute": OUTPUT_STATIONARY,
        "memory": {"address_width": 32},
        "post": {"columns": False, "outputs": ["int8", "fp32"], "activations": ["none", "leaky"]},
        "array": {"blocks": 2},
    },
    {
        "name": "blocks",
        "compute": {"family": "cube", "activation": "int8", "weight": "q4_0",
                    "array": {"rows": 2, "cols": 2, "depth": 8}},
        "post": {"outputs": ["raw", "int8", "bf16"], "activations": ["leaky", "none"]},
    },
    {
        "name": "formats",
        "compute": {"family": "cube", "activation": "mxfp4", "weight": "mxfp4",
                    "array": {"rows": 2, "cols": 2, "depth": 8, "pe": "scalable"}},
        "post": {"columns": False, "outputs": ["raw"]},
        "buffers": {"activation_kib": 8, "weight_kib": 8, "output_kib": 8},
    },
]  # fmt: skip
STATUSES = (
    "TIMEOUT", "FULL", "SIZE", "BLOCK", "STRIDE", "ADDRESS", "POST", "TICKET", "LOST", "DEVICE",
    "READ", "WRITE", "ABORTED",
)  # fmt: skip
CODE = {"OK": 0, "PENDING": 1, **{name: -1 - i for i, name in enumerate(STATUSES)}}
FORMAT = -1 - len(STATUSES)
"""Of engines around cores that take several formats."""

READ = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32)
WRITE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)


class Device(ctypes.Structure):
    _fields_ = (("context", ctypes.c_void_p), ("read", READ), ("write", WRITE))


def post_structure(config: GemmStreamConfig) -> type[ctypes.Structure]:
    fields = [
        (field.name, ctypes.c_int32 if field.signed else ctypes.c_uint32)
        for register in config.job_interface.window
        if register.name.startswith("POST_")
        for field in register.fields
    ]
    return type("Post", (ctypes.Structure,), {"_fields_": fields})


def job_structure(config: GemmStreamConfig, post: type[ctypes.Structure]) -> type[ctypes.Structure]:
    fields: list[tuple[str, Any]] = [(f"{x}_address", ctypes.c_uint64) for x in "awcp"]
    fields += [(f"{x}_stride", ctypes.c_uint32) for x in "awc"]
    several = ["format"] if len(config.formats) > 1 else []
    fields += [(name, ctypes.c_uint32) for name in (*"mkn", *several)]
    fields += [("after", ctypes.c_int), ("least_traffic", ctypes.c_int), ("post", post)]
    return type("Job", (ctypes.Structure,), {"_fields_": fields})


BLOCKS = ("m", "k", "n", "m_inner", "a_whole", "w_whole")


class Blocks(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32 if len(name) == 1 else ctypes.c_int) for name in BLOCKS)


class Engine:
    """Registers of an engine without the engine, and its driver."""

    def __init__(self, config: GemmStreamConfig, library: ctypes.CDLL) -> None:
        self.config, self.library = config, library
        self.offsets = {register.name: register.offset for register in config.registers}
        self.names = {offset: name for name, offset in self.offsets.items()}
        self.values = dict.fromkeys(self.offsets, 0)
        self.values |= {"ID": MAGIC, "LAYOUT": LAYOUT, "QUEUE": config.queue}
        for axis in "mkn":
            self.values[f"{axis.upper()}_LANES"] = getattr(config, f"{axis}_lanes")
        self.values["STATUS"] = config.queue << 8
        self.log: list[tuple[str, int]] = []
        self.refuse = False
        self.reads: dict[str, int] = dict.fromkeys(self.offsets, 0)
        self.when_read: dict[str, Any] = {}
        self.device = Device(None, READ(self._read), WRITE(self._write))
        self.job_type = job_structure(config, post_structure(config))

    def _read(self, _: Any, offset: int) -> int:
        name = self.names[offset]
        self.reads[name] += 1
        if name in self.when_read:
            self.when_read[name]()
        return self.values[name]

    def _write(self, _: Any, offset: int, value: int) -> None:
        name = self.names[offset]
        self.log.append((name, value))
        if name == "SUBMIT" and not self.refuse:
            self.values["SUBMITTED"] = (self.values["SUBMITTED"] + 1) & 0xFFFFFFFF

    def call(self, name: str, *arguments: Any) -> int:
        function = getattr(self.library, f"{self.config.name}_{name}")
        return int(function(ctypes.byref(self.device), *arguments))

    def submit(self, job: Any) -> tuple[int, int]:
        ticket = ctypes.c_uint32(0xFFFFFFFF)
        return self.call("submit", ctypes.byref(job), ctypes.byref(ticket)), ticket.value

    def submit_blocks(self, job: Any, blocks: Blocks) -> tuple[int, int]:
        ticket = ctypes.c_uint32(0xFFFFFFFF)
        pointers = map(ctypes.byref, (job, blocks, ticket))
        return self.call("submit_blocks", *pointers), ticket.value

    def described(self, job: Job) -> Any:
        """Return a job as the driver takes it."""
        plan = job.plan
        result = self.job_type(
            m=plan.m, k=plan.k, n=plan.n, after=job.after, p_address=job.p_address
        )
        if len(self.config.formats) > 1:
            result.format = plan.config.format_number
        for name in "awc":
            setattr(result, f"{name}_address", job.regions[name.upper()][3])
            setattr(result, f"{name}_stride", job.regions[name.upper()][2])
        contents = job.registers()
        for register in self.config.job_interface.window:
            if register.name.startswith("POST_"):
                for field in register.fields:
                    value = contents[register.name] >> field.offset & ((1 << field.bits) - 1)
                    setattr(result.post, field.name, value)
        return result


@pytest.fixture(scope="module", params=CONFIGS, ids=lambda values: values["name"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler is installed")
    config = GemmStreamConfig.model_validate(request.param)
    return Engine(config, compiled_driver(config, compiler, tmp_path_factory.mktemp(config.name)))


def compiled_driver(config: GemmStreamConfig, compiler: str, work: Path) -> ctypes.CDLL:
    core = GemmStreamCore(config)
    for name, text in {**gemm_driver(core), f"{config.name}_regs.h": c_header(core)}.items():
        assert config.digest in text
        (work / name).write_text(text, encoding="utf-8")
    strict = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-pedantic"]
    source = str(work / f"{config.name}_driver.c")
    for options in (
        ["-x", "c++", "-std=c++11", "-fsyntax-only"],
        ["-std=c99", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error", "-fPIC",
         "-shared", "-o", str(work / "driver.so")],
    ):  # fmt: skip
        subprocess.run([compiler, *strict, *options, source], check=True, timeout=60)
    return ctypes.CDLL(str(work / "driver.so"))


@pytest.fixture
def fresh(engine: Engine) -> Engine:
    return Engine(engine.config, engine.library)


def random_job(config: GemmStreamConfig, rng: np.random.Generator) -> Job:
    config = config.formats[rng.integers(len(config.formats))]
    features = config.post_features
    output = str(rng.choice(features.outputs))
    activation = str(
        rng.choice([a for a in features.activations if (output, a) != ("raw", "leaky")])
    )
    settings = PostSettings(
        output,
        activation,
        str(rng.choice(features.roundings)),
        columns=bool(rng.integers(2)) and features.columns,
        single=features.single,
    )
    if not settings.columns and output in ("int8", "int16"):
        multiplier, shift = int(rng.integers(-(1 << 31), 1 << 31)), int(rng.integers(64))
        scales: dict[str, Any] = {"multiplier": multiplier, "shift": shift}
        settings = dataclasses.replace(
            settings,
            **({"scale": multiplier * 2.0**-shift} if features.single else scales),
            zero=-3,
            minimum=-100,
            maximum=int(rng.integers(0, 100)),
        )
    m, n = (int(2 ** rng.uniform(0, 13)) for _ in range(2))
    k = min(int(2 ** rng.uniform(0, 13)), config.max_k)
    plan = plan_of(config, m, k, n, settings)
    top = min((1 << config.memory.address_width) - (1 << 31), 1 << 62)
    where: dict[str, Any] = {f"{x}_address": int(rng.integers(top)) for x in "awcp"}
    job = Job(plan, settings=settings, after=bool(rng.integers(2)), **where)
    padded: dict[str, Any] = {
        f"{name.lower()}_stride": stride + int(rng.integers(5000))
        for name, (_, _, stride, _) in job.regions.items()
        if name != "P"
    }
    return dataclasses.replace(job, **padded)


def test_jobs_are_written_as_the_planner_would(fresh: Engine) -> None:
    rng = np.random.default_rng(1)
    for number in range(60):
        job = random_job(fresh.config, rng)
        fresh.log.clear()
        assert fresh.submit(fresh.described(job)) == (CODE["OK"], number)
        assert fresh.log.pop()[0] == "SUBMIT"
        wanted = {fresh.names[offset]: value for offset, value in job.writes()}
        assert dict(fresh.log) == wanted
        assert len(fresh.log) == len(wanted)


def test_what_is_refused(fresh: Engine) -> None:
    rng = np.random.default_rng(2)
    config = fresh.config
    good = fresh.described(random_job(config, rng))

    def refused(status: str, post: Any = None, /, **changes: int) -> None:
        job = fresh.job_type.from_buffer_copy(good)
        for name, value in changes.items():
            setattr(job, name, value)
        for name, value in (post or {}).items():
            setattr(job.post, name, value)
        assert fresh.submit(job) == (CODE[status], 0xFFFFFFFF), (status, changes, post)
        assert fresh.log == []

    for axis in "mkn":
        refused("SIZE", **{axis: 0})
        refused("SIZE", **{axis: 1 << 24})
    if (most := max(each.max_k for each in config.formats)) < 1 << 24:
        refused("SIZE", k=most + 1)
    if len(config.formats) > 1:
        job = fresh.job_type.from_buffer_copy(good)
        job.format = len(config.formats)
        assert fresh.submit(job) == (FORMAT, 0xFFFFFFFF)
        assert fresh.log == []
    refused("STRIDE", m=2, c_stride=0)
    refused("POST", {"kind": 7})
    refused("POST", {"activation": 3})
    refused("POST", {"rounding": 3})
    refused("POST", {"size": 4})
    refused("POST", {"kind": 0, "size": 0})
    refused("POST", {"columns": 1 + config.post.columns})
    last = (1 << config.memory.address_width) - 1
    for name in "awc":
        refused("ADDRESS", m=1, **{f"{name}_address": last})
    if config.memory.address_width < 64:
        refused("ADDRESS", c_address=last + 1)
    if config.post.columns:
        refused("ADDRESS", {"columns": 1}, p_address=last)


def test_blocks_that_are_refused(fresh: Engine) -> None:
    config = fresh.config
    drawn = random_job(config, np.random.default_rng(2))
    job = fresh.described(drawn)
    whole = drawn.plan.tiles[1] if config.in_blocks else 1
    tile = {"m": config.m_lanes, "k": whole * config.k_lanes, "n": config.n_lanes}
    for axis, lanes in tile.items():
        for wrong in (0, lanes + 1 if lanes > 1 else 0, lanes << 20):
            result = fresh.submit_blocks(job, Blocks(**{**tile, axis: wrong}))
            assert result == (CODE["BLOCK"], 0xFFFFFFFF)
            assert fresh.log == []
    assert fresh.submit_blocks(job, Blocks(**tile)) == (CODE["OK"], 0)


def test_the_largest_blocks_are_those_that_the_planner_takes(fresh: Engine) -> None:
    """Enlarging any axis of a plan's block, where only buffers bound it, is refused or fits."""
    config = fresh.config
    nest = config.loop_nest
    plan = plan_of(config, 4096, min(4096, config.max_k), 4096)
    if "raw" not in config.post_features.outputs:
        plan = plan_of(config, 4096, min(4096, config.max_k), 4096, PostSettings("int8"))
    settings = PostSettings("raw" if "raw" in config.post_features.outputs else "int8")
    job = Job(plan, 0, 0, 0, settings=settings)
    described = fresh.described(job)
    for axis, lanes in (("m", config.m_lanes), ("k", config.k_lanes), ("n", config.n_lanes)):
        blocks = Blocks(*plan.block, plan.m_inner)
        for _ in range(200):
            tiles = [
                blocks.m // config.m_lanes,
                blocks.k // config.k_lanes,
                blocks.n // config.n_lanes,
            ]
            mt, kt, nt = tiles
            fits = (
                mt * nest.m_lanes * nt <= config.out_depth
                and mt <= nest.max_rows
                and nt <= nest.max_column_tiles
                and config.weight_words(kt, nt) <= config.wgt_depth
                and config.row_words(kt) * mt <= config.act_depth
            )
            status, _ = fresh.submit_blocks(described, blocks)
            assert status == CODE["OK" if fits else "BLOCK"], tiles
            setattr(blocks, axis, getattr(blocks, axis) + lanes * max(1, tiles[0] // 50))


def test_a_queue_without_room(fresh: Engine) -> None:
    job = fresh.described(random_job(fresh.config, np.random.default_rng(3)))
    for status in (0x001, 0x003 | fresh.config.queue << 8):
        fresh.values["STATUS"] = status
        assert fresh.submit(job)[0] == CODE["FULL"]
        assert fresh.log == []
    fresh.values["STATUS"], fresh.refuse = 0x100, True
    assert fresh.submit(job)[0] == CODE["FULL"]


@pytest.mark.parametrize("start", [0, 0xFFFFFFFD])
def test_how_jobs_end(fresh: Engine, start: int) -> None:
    queue = fresh.config.queue
    job = fresh.described(random_job(fresh.config, np.random.default_rng(4)))
    fresh.values["SUBMITTED"] = fresh.values["FINISHED"] = start
    tickets = [fresh.submit(job)[1] for _ in range(queue)]
    assert tickets[0] == start
    assert fresh.call("poll", (tickets[-1] + 1) & 0xFFFFFFFF) == CODE["TICKET"]
    for ticket in tickets:
        fresh.values[f"JOB_STATUS_{ticket % queue}"] = STATES.index("unfinished")
        assert fresh.call("poll", ticket) == CODE["PENDING"]
        before = fresh.reads["FINISHED"]
        assert fresh.call("wait", ticket, 5) == CODE["TIMEOUT"]
        assert fresh.reads["FINISHED"] == before + 6
    ends = {"done": "OK", "read_error": "READ", "write_error": "WRITE", "aborted": "ABORTED"}
    for ticket, (state, status) in zip(tickets, ends.items(), strict=False):
        fresh.values["FINISHED"] = (fresh.values["FINISHED"] + 1) & 0xFFFFFFFF
        fresh.values[f"JOB_STATUS_{ticket % queue}"] = STATES.index(state)
        assert fresh.call("wait", ticket, 0) == CODE[status]
        assert fresh.call("poll", ticket) == CODE[status]
    for _ in range(queue):
        assert fresh.submit(job)[0] == CODE["OK"]
    assert fresh.call("poll", tickets[0]) == CODE["LOST"]


def test_waiting_ends_when_the_job_does(fresh: Engine) -> None:
    job = fresh.described(random_job(fresh.config, np.random.default_rng(5)))
    _, ticket = fresh.submit(job)
    fresh.values["JOB_STATUS_0"] = STATES.index("unfinished")

    def later() -> None:
        if fresh.reads["FINISHED"] == 8:
            fresh.values |= {"FINISHED": 1, "JOB_STATUS_0": STATES.index("done")}

    fresh.when_read["FINISHED"] = later
    assert fresh.call("wait", ticket, 100) == CODE["OK"]
    assert fresh.reads["FINISHED"] == 8


def test_the_rest(fresh: Engine) -> None:
    assert fresh.call("probe") == CODE["OK"]
    for name in ("ID", "LAYOUT", "QUEUE", "M_LANES", "K_LANES", "N_LANES"):
        fresh.values[name] += 1
        assert fresh.call("probe") == CODE["DEVICE"]
        fresh.values[name] -= 1
    fresh.values |= {"READS_LOW": 0x89ABCDEF, "READS_HIGH": 0x4567}
    counter = getattr(fresh.library, f"{fresh.config.name}_counter")
    counter.restype = ctypes.c_uint64
    offset = fresh.offsets["READS_LOW"]
    assert counter(ctypes.byref(fresh.device), offset) == 0x456789ABCDEF
    fresh.call("abort")
    assert [name for name, _ in fresh.log] == ["ABORT"]
    message = getattr(fresh.library, f"{fresh.config.name}_message")
    message.restype = ctypes.c_char_p
    texts = [message(code) for code in (*CODE.values(), 77)]
    assert len(set(texts)) == len(texts)


def test_on_the_engine(tmp_path: Path) -> None:
    """The driver, compiled as C, makes the RTL compute; errors and aborts come back."""
    config: Any = parse_config(ENGINE)
    library = compile_model(config.name, design_of(config).verilog, config.buses, cycles=0)
    core = GemmStreamCore(config)
    files: dict[str, str] = {**gemm_driver(core), f"{config.name}_regs.h": c_header(core)}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (compiler,) = require("g++").argv
    subprocess.run(
        [compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{library}", f"-I{tmp_path}",
         "-x", "c", Path(__file__).with_name("gemm_driver.c"),
         "-x", "c", tmp_path / "eng_driver.c",
         "-x", "none", library / config.name, f"-Wl,-rpath,{library}", "-o", tmp_path / "work"],
        check=True, timeout=100,
    )  # fmt: skip
    done = subprocess.run(
        [tmp_path / "work"], check=True, capture_output=True, text=True, timeout=100
    )
    assert done.stdout.splitlines() == [
        "probe: done",
        "9 of 9 products are right",
        "the queue was full",
        "counted: 1",
        "fault: reading from memory failed",
        "abort: aborted",
        "lost: finished, but how is not known any more",
        "after: done",
        "bus: ''",
    ]
