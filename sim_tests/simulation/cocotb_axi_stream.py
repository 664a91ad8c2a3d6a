# SPDX-License-Identifier: Apache-2.0
"""The cocotb side of a core between sources and a sink of cocotbext-axi, which are not ours."""

from __future__ import annotations

import itertools
import json
import logging
import os
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge, with_timeout
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource

from flows.simulation.bench_jobs import make_job
from flows.simulation.bus.stream_bench import start_clock
from flows.simulation.bus.wires import bytes_of
from flows.simulation.operands import draw_matrices
from hwgen.core.operation import gemm_operands
from hwgen.core.registry import family

PLAN = json.loads(Path(os.environ["HWGEN_PLAN"]).read_text(encoding="utf-8"))
FAMILY = family(PLAN["config"]["family"])
CONFIG: Any = FAMILY.params_class.model_validate(PLAN["config"])


@cocotb.test()
@cocotb.parametrize(index=range(len(PLAN["pauses"])))
async def jobs(dut: Any, index: int) -> None:
    """Send jobs back to back; frames of results end where ``tlast`` is set."""
    start_clock(dut)
    rng = np.random.default_rng(PLAN["seed"])
    ends = {}
    for port in CONFIG.ports:
        logging.getLogger(f"cocotb.{dut._name}.{port.prefix}").setLevel(logging.ERROR)
        kind = AxiStreamSource if port.direction == "in" else AxiStreamSink
        bus = AxiStreamBus.from_prefix(dut, port.prefix)
        end = kind(bus, dut.aclk, dut.aresetn, reset_active_level=False, byte_lanes=1)
        drawn = rng.random(997) < PLAN["pauses"][index]
        end.set_pause_generator(itertools.cycle(drawn.tolist()))
        ends[port.name] = end
    dut.aresetn.value = 0
    for _ in range(3):
        await RisingEdge(dut.aclk)
    dut.aresetn.value = 1
    result = [
        make_job(FAMILY(CONFIG), gemm_operands(*draw_matrices(CONFIG, tuple(size), "random", rng)))
        for size in PLAN["sizes"]
    ]
    for job in result:
        for name, beats in job.beats.items():
            frame: list[int] = []
            for place, (bits, last) in enumerate(beats, 1):
                frame.append(int(bits, 2))
                if last or place == len(beats):
                    ends[name].send_nowait(AxiStreamFrame(frame))
                    frame = []
    out = CONFIG.ports[-1]
    for job in result:
        image: list[int] = []
        for _ in range(sum(job.plan.output_last())):
            image += (await with_timeout(ends["out"].recv(), 100, "us")).tdata
        texts = [f"{beat:0{8 * out.beat_bytes}b}" for beat in image]
        assert len(texts) == job.plan.output_beats
        assert job.mismatch(bytes_of(texts, out.beat_bytes)) is None
