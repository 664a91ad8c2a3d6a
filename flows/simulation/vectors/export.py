# SPDX-License-Identifier: Apache-2.0
"""Stimuli and expected results of jobs, as files that any testbench can read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.build import files
from flows.build.design import Design
from flows.simulation.bench_jobs import BenchJob, make_job
from flows.simulation.operands import draw_operands
from flows.simulation.vectors.power_up import simulated_text
from flows.simulation.vectors.result_beats import pack_results
from flows.simulation.vectors.testbench import PortVectors, testbench
from hwgen import __version__
from hwgen.core.core import Core
from hwgen.core.cycles.basis import Cycles
from hwgen.core.operation import RECORDS, Job, lengths_of
from hwgen.core.port import StreamPort
from hwgen.core.post import Columns
from hwgen.errors import InputError

MAX_ELEMENTS = 1 << 22
"""Most elements of an operand or a result of a job."""

MAX_BEATS = 1 << 20
"""Most beats of a port: simulators hold a file in memory."""


@dataclass(frozen=True)
class JobVectors:
    """A job whose vectors are exported.

    Parameters
    ----------
    job : Job
    columns : Columns, optional
        Records of columns, if the post-processing of the job uses them.
    operands : mapping, optional
        Operands by name; default random ones.
    """

    job: Job
    columns: Columns | None = None
    operands: Mapping[str, NDArray[Any]] | None = None


def export_vectors(design: Design, jobs: Sequence[JobVectors], seed: int) -> dict[str, str]:
    """Return the files of a directory of vectors: name to text.

    Parameters
    ----------
    design : Design
        Of a core with stream ports; see `export_memory` for engines.
    jobs : sequence of JobVectors
        They follow each other without a pause.
    seed : int
        Of the operands of jobs without some, which are random over the range of their formats.

    Returns
    -------
    dict
        A file ``PORT.hex`` for each port, ``PORT.mask.hex`` for the port of results, the testbench
        ``NAME_tb.v``, the manifest ``vectors.json``, and the Verilog ``NAME.v`` in which registers
        without a reset have start values; ``NAME.vlt`` names warnings of Verilator that do not
        apply to it.

    Raises
    ------
    InputError
        If the jobs are too large.
    """
    core = design.core
    rng = np.random.default_rng(seed)
    drawn = drawn_jobs(core, jobs, rng)
    ports = [
        _input(port, drawn) if port.direction == "in" else _output(core, port, drawn)
        for port in core.ports
    ]
    cycles = core.cycles([each.job for each in drawn], [each.operands for each in drawn])
    limit = 1000 + 4 * (cycles.most or cycles.number)
    texts = {
        f"{core.name}.v": simulated_text(design, seed),
        f"{core.name}.vlt": files.waivers(core),
        f"{core.name}_tb.v": files.header(core, "//") + testbench(core.name, ports, limit),
    }
    for port in ports:
        texts |= port.files
    return {**texts, "vectors.json": _manifest(core, ports, drawn, seed, cycles)}


def drawn_jobs(
    core: Core[Any], jobs: Sequence[JobVectors], rng: np.random.Generator
) -> list[BenchJob]:
    """Return jobs with operands, random ones unless they have some, and golden results.

    Raises
    ------
    InputError
        If an operand or a result is too large.
    """
    for each in jobs:
        _check_size(each.job)
    return [_draw(core, each, rng) for each in jobs]


def _check_size(job: Job) -> None:
    sizes = job.operation.check_sizes(job.sizes)
    for tensor in (*job.operation.operands, *job.operation.results):
        count = int(np.prod([float(each) for each in lengths_of(tensor, sizes)]))
        if count > MAX_ELEMENTS:
            raise InputError(
                f"{job.title}: {tensor.name} has {count} elements; vectors are for at most"
                f" {MAX_ELEMENTS}. Choose smaller sizes, or use `hwgen run`"
            )


def _draw(core: Core[Any], each: JobVectors, rng: np.random.Generator) -> BenchJob:
    """Return a job with golden results, of random operands unless it has some."""
    job = each.job
    if each.operands is not None:
        operands = dict(each.operands)
    else:
        operands = draw_operands(core, job.operation, job.sizes, "random", rng)
    if each.columns is not None:
        operands[RECORDS] = each.columns.encode()
    return make_job(core, operands, job.scalars, operation=job.operation.name, post=job.post)


def _input(port: StreamPort, jobs: Sequence[BenchJob]) -> PortVectors:
    words: list[str] = []
    counts = []
    for job in jobs:
        before = len(words)
        for beats, last in job.plan.pack(job.operands)[port.name]:
            lines = _hexadecimal(beats.reshape(-1, port.beat_bytes))
            ends = [False] * len(lines)
            if lines:
                ends[-1] = last
            words += _with_last(port, lines, ends)
            _check_beats(port, len(words))
        counts.append(len(words) - before)
    return PortVectors(port, words, counts)


def _output(core: Core[Any], port: StreamPort, jobs: Sequence[BenchJob]) -> PortVectors:
    words: list[str] = []
    masks: list[str] = []
    counts = []
    for job in jobs:
        _check_beats(port, len(words) + job.plan.output_beats)
        beats, mask = pack_results(core, job.job, job.expected)
        ends = list(job.plan.output_last())
        words += _with_last(port, _hexadecimal(beats), ends)
        masks += _with_last(port, _hexadecimal(mask), [True] * len(ends))
        counts.append(len(ends))
    return PortVectors(port, words, counts, masks)


def _check_beats(port: StreamPort, count: int) -> None:
    if count > MAX_BEATS:
        raise InputError(
            f"port {port.name} has more than {MAX_BEATS} beats; choose smaller sizes, or use"
            " `hwgen run`"
        )


def _hexadecimal(beats: np.ndarray) -> list[str]:
    """Return the hexadecimal digits of each beat, shape (count, bytes), byte 0 at the right."""
    count, size = beats.shape
    text, digits = np.ascontiguousarray(beats[:, ::-1]).tobytes().hex(), 2 * size
    return [text[start : start + digits] for start in range(0, count * digits, digits)]


def _with_last(port: StreamPort, lines: list[str], ends: Iterable[bool]) -> list[str]:
    """Put ``tlast`` before each line, as a digit of its own, if the port has it."""
    if not port.last:
        return lines
    return [f"{end:d}{line}" for end, line in zip(ends, lines, strict=True)]


def manifest_head(
    core: Core[Any], jobs: Sequence[BenchJob], seed: int, cycles: Cycles
) -> dict[str, Any]:
    """Return the first entries of a manifest as JSON values: design, jobs, cycles."""
    return {
        "generator": "hwgen",
        "version": __version__,
        "core": core.name,
        "family": core.family_name(),
        "digest": core.digest,
        "seed": seed,
        "clock": "aclk",
        "reset": {"name": "aresetn", "active": "low", "synchronous": True},
        "jobs": [
            {
                "operation": job.job.operation.name,
                "sizes": dict(job.job.sizes),
                "scalars": dict(job.job.scalars),
            }
            for job in jobs
        ],
        "cycles": cycles.number,
        "cycles_basis": cycles.basis,
    }


def testbench_entry(name: str) -> dict[str, Any]:
    """Return the entry of a manifest about the testbench of a core, as JSON values."""
    return {
        "file": f"{name}_tb.v",
        "module": f"{name}_tb",
        "sources": [f"{name}.v"],
        "passed": "PASS",
        "failed": "FAIL",
    }


def _manifest(
    core: Core[Any],
    ports: Sequence[PortVectors],
    jobs: Sequence[BenchJob],
    seed: int,
    cycles: Cycles,
) -> str:
    """Return the manifest as JSON."""
    streams = {each["prefix"]: each for each in files.description(core)["streams"]}
    document = {
        **manifest_head(core, jobs, seed, cycles),
        "format": "one beat a line, hexadecimal, element 0 in the least significant bits; of a port"
        " with tlast, the first digit of a line is tlast; of a mask, bits that are 0 are not"
        " compared",
        "ports": [
            {
                **streams[each.port.prefix],
                "file": each.file,
                **({"mask_file": each.mask_file} if each.masks else {}),
                "word_bits": each.word_bits,
                "beats": len(each.words),
                "beats_of_jobs": list(each.counts),
            }
            for each in ports
        ],
        "testbench": testbench_entry(core.name),
    }
    return json.dumps(document, indent=2) + "\n"
