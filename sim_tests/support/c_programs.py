# SPDX-License-Identifier: Apache-2.0
"""Programs in C of compiled models, in this process, with an engine by its golden model."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwgen.core.register_map import STATES
from hwgen.families.gemm_stream.core import GemmStreamCore
from hwgen.models.compile.compiled_files import JobFiles
from hwgen.models.compile.golden_jobs import Bytes, GoldenJobs
from sim_tests.emission.test_driver import Device
from sim_tests.emission.test_other_drivers import Registers

LOAD = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint32)

STRICT = "-Wall -Wextra -Wconversion -Wshadow -Werror -pedantic -fPIC -shared"


def built(files: Mapping[str, str], work: Path, *options: str, compiler: str = "cc") -> ctypes.CDLL:
    """Compile a program with all warnings and return it as a library."""
    for name, text in files.items():
        (work / name).write_text(text, encoding="utf-8")
    command = shutil.which(compiler)
    if command is None:
        pytest.skip("no C compiler is installed")
    out = f"program{len(list(work.glob('*.so')))}.so"  # one that is loaded stays as it is
    sources = [name for name in files if name.endswith(".c")]
    arguments = [command, *options, *STRICT.split(), "-o", out, *sources]
    subprocess.run(arguments, cwd=work, check=True, timeout=120)
    return ctypes.CDLL(str(work / out))


def access(memory: Bytes) -> tuple[Any, Any]:
    """Return the functions by which a program loads from a memory and stores, which is not zero."""
    memory.data[:] = b"\xff" * len(memory.data)

    def load(_: Any, address: int, data: int, count: int) -> None:
        ctypes.memmove(data, memory.read(address, count), count)

    def store(_: Any, address: int, data: int, count: int) -> None:
        memory.write(address, ctypes.string_at(data, count))

    return LOAD(load), LOAD(store)


class FakeEngine(Registers):
    """Registers and memory of an engine, whose jobs the golden model does while one waits."""

    def __init__(self, compiled: JobFiles, driver: ctypes.CDLL) -> None:
        super().__init__(compiled.config.name, compiled.config.registers, driver)
        self.config, self.jobs = compiled.config, GoldenJobs(compiled)
        self.window = list(compiled.program()[0].registers)
        self.waiting: list[dict[str, int]] = []
        self.most_waiting = 0
        self.on_write = self._put

    def _put(self, name: str, value: int) -> None:
        self.values[name] = value
        if name == "SUBMIT":
            self.waiting.append({each: self.values[each] for each in self.window})
            assert len(self.waiting) <= self.config.queue
            self.most_waiting = max(self.most_waiting, len(self.waiting))
            self.values["SUBMITTED"] += 1

    def _read(self, context: Any, offset: int) -> int:
        if self.names[offset] == "FINISHED" and self.waiting:
            GemmStreamCore(self.config).execute(self.waiting.pop(0), self.jobs.memory)
            slot = self.values["FINISHED"] % self.config.queue
            self.values[f"JOB_STATUS_{slot}"] = STATES.index("done")
            self.values["FINISHED"] += 1
        self.values["STATUS"] = (self.config.queue - len(self.waiting)) << 8
        return super()._read(context, offset)


class Host(ctypes.Structure):
    _fields_ = (
        ("device", ctypes.POINTER(Device)), ("context", ctypes.c_void_p), ("load", LOAD),
        ("store", LOAD), ("program", ctypes.c_void_p), ("constants", ctypes.c_void_p),
        ("work", ctypes.c_void_p), ("polls", ctypes.c_uint32),
    )  # fmt: skip


class JobsInC:
    """A program in C of what is compiled to jobs, with registers and memory of its engine."""

    def __init__(self, compiled: JobFiles, library: ctypes.CDLL) -> None:
        self.files, self.library = compiled, library
        self.engine = FakeEngine(compiled, library)
        work = np.full(compiled.document["work_bytes"], 0xFF, np.uint8)
        names = ("program.bin", "host.bin")
        files = [np.fromfile(compiled.path / name, np.uint8) for name in names]
        self.keep = [*files, work]
        self.host = Host(
            ctypes.pointer(self.engine.device),
            None,
            *access(self.engine.jobs.memory),
            *(array.ctypes.data for array in self.keep),
            9,
        )
        self.call("prepare", compiled.image())

    def call(self, name: str, *arguments: Any) -> int:
        function = getattr(self.library, f"{self.files.config.name}_{name}")
        return int(function(ctypes.byref(self.host), *arguments))
