# SPDX-License-Identifier: Apache-2.0
"""The cocotb side of an engine on the memory model of cocotbext-axi, which is not ours."""

from __future__ import annotations

import itertools
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam

from flows.simulation.bus.job_bench import FILL
from flows.simulation.bus.stream_bench import start_clock
from flows.simulation.operands import draw_matrices
from flows.simulation.placed_products import place
from hwgen.core.register_map import STATES
from hwgen.core.registry import family

PLAN = json.loads(Path(os.environ["HWGEN_PLAN"]).read_text(encoding="utf-8"))
CONFIG: Any = family(PLAN["config"]["family"]).params_class.model_validate(PLAN["config"])
REGISTERS = {register.name: register.offset for register in CONFIG.registers}
LIMIT = 200_000


def pauses(seed: int, share: float) -> Iterator[int]:
    """Yield at random whether a channel pauses in a cycle."""
    rng = np.random.default_rng(seed)
    return (int(rng.random() < share) for _ in itertools.count())


@cocotb.test()
@cocotb.parametrize(index=range(len(PLAN["pauses"])))
async def jobs(dut: Any, index: int) -> None:
    """Queue a job of each size, and compare all of the memory afterwards."""
    start_clock(dut)
    reset = {"reset_active_level": False}
    for name in ("m_axi_mem", "s_axi_control"):
        logging.getLogger(f"cocotb.{dut._name}.{name}").setLevel(logging.ERROR)
    memory = AxiBus.from_prefix(dut, "m_axi_mem")
    rng = np.random.default_rng(PLAN["seed"])
    placed, end = [], 0
    for size in PLAN["sizes"]:
        (one,), end = place(
            CONFIG, [draw_matrices(CONFIG, tuple(size), "random", rng)], rng=rng, base=end
        )
        placed.append(one)
    ram = AxiRam(memory, dut.aclk, dut.aresetn, size=1 << (end + 4096).bit_length(), **reset)
    host = AxiLiteMaster(
        AxiLiteBus.from_prefix(dut, "s_axi_control"), dut.aclk, dut.aresetn, **reset
    )
    channels = (
        ram.write_if.aw_channel,
        ram.write_if.w_channel,
        ram.write_if.b_channel,
        ram.read_if.ar_channel,
        ram.read_if.r_channel,
    )
    if PLAN["pauses"][index]:
        for number, channel in enumerate(channels):
            channel.set_pause_generator(pauses(number, PLAN["pauses"][index]))
    expected = bytearray([FILL]) * ram.size
    ram.write(0, bytes(expected))
    for one in placed:
        for address, content in one.images():
            ram.write(address, content)
            expected[address : address + len(content)] = content
        rows, size, stride, address = one.job.regions["C"]
        assert one.expected is not None
        for row, values in enumerate(one.expected.reshape(rows, -1)):
            content = values.astype(values.dtype.newbyteorder("<")).tobytes()
            expected[address + row * stride : address + row * stride + size] = content

    dut.aresetn.value = 0
    for _ in range(3):
        await RisingEdge(dut.aclk)
    dut.aresetn.value = 1
    await RisingEdge(dut.aclk)
    for one in placed:
        for offset, value in one.job.writes():
            await host.write_dword(offset, value)
        await host.write_dword(REGISTERS["SUBMIT"], 1)
    for _ in range(LIMIT):
        if int(await host.read_dword(REGISTERS["FINISHED"])) == len(placed):
            break
    for number in range(len(placed)):
        state = STATES[int(await host.read_dword(REGISTERS[f"JOB_STATUS_{number}"]))]
        assert state == "done", f"job {number} is {state}"
    assert ram.read(0, ram.size) == bytes(expected), "memory differs"
