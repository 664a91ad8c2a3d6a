# SPDX-License-Identifier: Apache-2.0
"""An error, an abort or a reset at every position of a small job: the next job is right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import pytest

from flows.build.design import Design
from flows.build.load import parse_config
from flows.simulation.bus.job_host import JobHost, open_engine
from flows.simulation.operands import draw_matrices
from flows.simulation.placed_products import Placed, place
from hwgen.families.gemm_stream.params import GemmStreamConfig

ENGINE = """\
name: dut
family: gemm_stream
compute:
  family: systolic
  max_k: 256
  array: {rows: 2, cols: 2, accumulator_depth: 64, dataflow: weight_stationary}
buffers: {activation_kib: 1, weight_kib: 1, output_kib: 1, column_kib: 1}
memory: {data_width: 64, max_burst: 4, outstanding: 2}
"""
SIZE = (5, 9, 6)
PATIENCE = 20_000
BEAT = 8

pytestmark = [pytest.mark.slow, pytest.mark.rotate(6)]

Ready = tuple[JobHost, Placed]


@pytest.fixture(scope="module")
def ready() -> Iterator[Ready]:
    config = parse_config(ENGINE)
    assert isinstance(config, GemmStreamConfig)
    host = open_engine(Design.of(config), read_latency=2, write_latency=3)
    rng = np.random.default_rng(1)
    (placed,), _ = place(config, [draw_matrices(config, SIZE, "random", rng)], rng=rng)
    with host.model:
        yield host, placed


def start(host: JobHost, placed: Placed) -> int:
    """Submit the job; what was in the place of its results is overwritten."""
    host.put(placed)
    for address, size in placed.written():
        host.model.store(address, bytes([0xA5]) * size)
    return host.submit(placed.job)


def check_next_job(host: JobHost, placed: Placed) -> None:
    """Run the job and compare its results."""
    assert host.wait(start(host, placed), PATIENCE) == "done"
    assert (host.results(placed) == placed.expected).all()
    host.write("INTERRUPT", 3)


def beats_of(placed: Placed) -> tuple[list[int], list[int]]:
    """Return the addresses of the beats that the job reads and of those that it writes."""
    read = {(address + i) // BEAT for address, data in placed.images() for i in range(len(data))}
    written = {(address + i) // BEAT for address, size in placed.written() for i in range(size)}
    return sorted(beat * BEAT for beat in read), sorted(beat * BEAT for beat in written)


@pytest.mark.parametrize("response", ["SLVERR", "DECERR"])
def test_an_error_of_every_beat(ready: Ready, response: Literal["SLVERR", "DECERR"]) -> None:
    host, placed = ready
    read, written = beats_of(placed)
    assert len(read) > 12
    assert len(written) > 12
    for beats, state in ((read, "read_error"), (written, "write_error")):
        for address in beats:
            host.model.fault(address, BEAT, response)
            assert host.wait(start(host, placed), PATIENCE) == state, hex(address)
            host.model.fault(address, BEAT, "OKAY")
            host.write("INTERRUPT", 3)
            check_next_job(host, placed)


@pytest.mark.parametrize("event", ["abort", "reset"])
def test_an_end_in_every_cycle(ready: Ready, event: str) -> None:
    """After an abort the job is aborted, or was done before; no later than after its last beat."""
    host, placed = ready
    before = host.counter("BUSY")
    check_next_job(host, placed)
    cycles = host.counter("BUSY") - before
    assert cycles > 50
    states = set()
    for cycle in range(1, cycles + 2):
        job = start(host, placed)
        host.model.run(cycle)
        if event == "abort":
            host.write("ABORT", 1)
            states.add(host.wait(job, PATIENCE))
            host.write("INTERRUPT", 3)
        else:
            host.model.reset(1 + cycle % 3)
            host.submitted = host.read("SUBMITTED")
            host.write("INTERRUPT_ENABLE", 3)
        check_next_job(host, placed)
    assert states == ({"aborted", "done"} if event == "abort" else set())
