# SPDX-License-Identifier: Apache-2.0
"""Stimuli and expected results of an engine: contents of memory, and what its host does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from flows.build import files
from flows.build.design import Design
from flows.simulation.bench_jobs import BenchJob
from flows.simulation.placement import place_job, source_core
from flows.simulation.vectors.export import (
    JobVectors,
    drawn_jobs,
    manifest_head,
    testbench_entry,
)
from flows.simulation.vectors.host_script import (
    ACTIONS,
    LIST_BYTES,
    HostScript,
    job_script,
    list_script,
)
from flows.simulation.vectors.memory_testbench import (
    EXPECTED,
    HOST,
    MEMORY,
    memory_testbench,
)
from flows.simulation.vectors.power_up import simulated_text
from hwgen.core.core import Core
from hwgen.core.cycles.basis import Cycles
from hwgen.core.protocols import ListCore
from hwgen.core.registry import core_of
from hwgen.errors import InputError

MAX_BYTES = 1 << 24
"""Largest memory: simulators hold it twice."""

_PAGE = 4096


class _Memory:
    """Bytes from an address on, as golden models of jobs read and write them."""

    def __init__(self, base: int, size: int, rng: np.random.Generator) -> None:
        self.base = base
        # What nothing is put into has random contents, which no result must depend on.
        self.data = bytearray(rng.integers(256, size=size, dtype=np.uint8).tobytes())

    def read(self, address: int, count: int) -> bytes:
        """Return bytes."""
        return bytes(self.data[address - self.base : address - self.base + count])

    def write(self, address: int, data: bytes) -> None:
        """Replace bytes."""
        self.data[address - self.base : address - self.base + len(data)] = data


@dataclass(frozen=True)
class MemoryCase:
    """Jobs of an engine in memory, what its host does, and what stands in memory after it.

    Parameters
    ----------
    jobs : sequence of BenchJob
    script : HostScript
        What the host does, in order.
    base : int
        First address.
    before, after : bytes
        Contents from there on, as many bytes, by the golden model.
    """

    jobs: Sequence[BenchJob]
    script: HostScript
    base: int
    before: bytes
    after: bytes


def memory_case(
    core: Core[Any], jobs: Sequence[JobVectors], rng: np.random.Generator, base: int
) -> MemoryCase:
    """Put jobs of an engine into memory.

    Parameters
    ----------
    core : Core
        An engine with one memory port.
    jobs : sequence of JobVectors
        Of an engine that executes lists, those of the unit that multiplies.
    rng : numpy Generator
        Draws operands, and what memory holds elsewhere.
    base : int
        First address, a multiple of 4,096.

    Raises
    ------
    InputError
        If the jobs are too large.
    """
    config: Any = core.params
    lists = isinstance(core, ListCore)
    engine = core_of(config.job_unit) if lists else core
    drawn = drawn_jobs(source_core(engine), jobs, rng)
    at, placed = base, []
    for each in drawn:
        placed.append(place_job(engine, each, base=at))
        at = -(-placed[-1].end // _PAGE) * _PAGE
    parts = [part for each in placed for part in each.jobs]
    program: list[tuple[int, bytes]] = []
    if lists:
        script, program = list_script(config, parts, at)
        at = max(at, *(address + len(data) for address, data in program))
    else:
        script = job_script(config, parts)
    unit = max(config.memory.data_width // 8, LIST_BYTES)
    size = -(-(at - base) // unit) * unit
    if size > MAX_BYTES:
        raise InputError(
            f"the jobs take {size} bytes of memory; vectors are for at most {MAX_BYTES}. Choose"
            " smaller sizes, or use `hwgen run`"
        )
    memory = _Memory(base, size, rng)
    for part in parts:
        for address, content in part.images():
            memory.write(address, content)
    for address, content in program:
        memory.write(address, content)
    before = bytes(memory.data)
    for part in parts:
        part.perform(memory)
    return MemoryCase(drawn, script, base, before, bytes(memory.data))


def _words(data: bytes, size: int) -> str:
    """Return a word of so many bytes a line, hexadecimal, byte 0 at the right."""
    rows = np.frombuffer(data, np.uint8).reshape(-1, size)[:, ::-1]
    text = np.ascontiguousarray(rows).tobytes().hex()
    return "".join(f"{text[at : at + 2 * size]}\n" for at in range(0, len(text), 2 * size))


def export_memory(design: Design, jobs: Sequence[JobVectors], seed: int) -> dict[str, str]:
    """Return the files of a directory of vectors of an engine: name to text.

    Parameters
    ----------
    design : Design
        Of an engine with one memory port.
    jobs : sequence of JobVectors
        Of an engine that executes lists, those of the unit that multiplies.
    seed : int
        Of operands, and of what memory holds elsewhere.

    Returns
    -------
    dict
        ``memory.hex`` and ``expected.hex``, the memory before and after; ``host.hex``, what the
        host does; the testbench ``NAME_tb.v``, the manifest ``vectors.json``, and the Verilog
        ``NAME.v`` in which registers and memories have start values; ``NAME.vlt`` names warnings
        of Verilator that do not apply to it.

    Raises
    ------
    InputError
        If the jobs are too large.
    """
    core, config = design.core, cast("Any", design.params)
    rng = np.random.default_rng(seed)
    case = memory_case(core, jobs, rng, 1 << config.memory.address_width - 1)  # upper bits count
    cycles = core.cycles([each.job for each in case.jobs])
    width, size = config.memory.data_width // 8, len(case.before)
    bench = memory_testbench(
        core.name, core.buses, base=case.base, words=size // width,
        actions=len(case.script.actions), limit=10_000 + 4 * cycles.number,
    )  # fmt: skip
    return {
        f"{core.name}.v": simulated_text(design, seed, memories=True),
        f"{core.name}.vlt": files.waivers(core),
        f"{core.name}_tb.v": files.header(core, "//") + bench,
        MEMORY: _words(case.before, width),
        EXPECTED: _words(case.after, width),
        HOST: case.script.text,
        "vectors.json": _manifest(core, case.jobs, case.script, case.base, size, seed, cycles),
    }


def _manifest(
    core: Core[Any],
    jobs: Sequence[BenchJob],
    script: HostScript,
    base: int,
    size: int,
    seed: int,
    cycles: Cycles,
) -> str:
    """Return the manifest as JSON."""
    document = {
        **manifest_head(core, jobs, seed, cycles),
        "memory": {
            "base": base,
            "bytes": size,
            "word_bytes": core.params.memory.data_width // 8,
            "before": MEMORY,
            "after": EXPECTED,
            "format": "one word a line, hexadecimal, the byte of the lowest address at the right",
        },
        "host": {
            "file": HOST,
            "actions": len(script.actions),
            "format": "action, register, mask, value: 1, 4, 8 and 8 hexadecimal digits",
            "meaning": {str(code): text for code, text in ACTIONS.items()},
        },
        "testbench": testbench_entry(core.name),
    }
    return json.dumps(document, indent=2) + "\n"
