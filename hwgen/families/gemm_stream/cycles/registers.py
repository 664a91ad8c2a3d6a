# SPDX-License-Identifier: Apache-2.0
"""Cycles and traffic of the job that a job window describes."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, gcd
from typing import TYPE_CHECKING

from hwgen.core.cycles.unit_job import UnitJob, bursts_of, port_latency
from hwgen.core.post import REGISTERS
from hwgen.core.post.records import RECORD_BYTES
from hwgen.core.register_map import JOB_FLAGS
from hwgen.families.gemm_stream.blocks import Blocks
from hwgen.families.gemm_stream.cycles.job import job_cycles
from hwgen.families.gemm_stream.cycles.steps import Load, Region, Regions, loads_of, stored_at
from hwgen.families.gemm_stream.schedule import Plan

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig


def register_cycles(config: GemmStreamConfig, registers: Mapping[str, int]) -> UnitJob:
    """Return the cycles and beats of a job on a unit that shares its memory, by its job window.

    Parameters
    ----------
    config : GemmStreamConfig
    registers : mapping of int
        Contents by register name.

    Notes
    -----
    The shared port lets the beats of a burst of writes begin a cycle later, which does not matter
    to some of them: the bounds are with it at none and at all.
    """
    plan = _plan(config, registers)
    regions = Regions(*(_region(config, registers, name) for name in "AWCP"))
    shared = port_latency(config.memory)
    least, most = (
        job_cycles(plan, regions, read_latency=shared, write_latency=latency)
        for latency in (shared - 1, shared)
    )
    beats = {"reads": 0, "writes": 0}
    bursts = 0
    for block in plan.steps():
        rows = [("reads", load) for load in loads_of(plan, regions, block)]
        if block.last:
            stored, size = stored_at(plan, regions, block), block.n * plan.result_bytes
            rows.append(("writes", Load("c", block.m, stored, regions.c.stride, size)))
        for direction, load in rows:
            result = _beats(config, load)
            beats[direction] += result[0]
            bursts += result[1]
    work = max(ceil(plan.macs / config.macs_per_cycle), *beats.values())
    return UnitJob(most, least, most, work, **beats, bursts=bursts)


def _plan(config: GemmStreamConfig, registers: Mapping[str, int]) -> Plan:
    """Return the plan of the job that a job window describes.

    Parameters
    ----------
    config : GemmStreamConfig
    registers : mapping of int
        Contents by register name.
    """
    post = {field.name: registers["POST_FLAGS"] >> field.offset & ((1 << field.bits) - 1)
            for field in REGISTERS[0].fields}  # fmt: skip
    flags = {flag.name: bool(registers["JOB_FLAGS"] >> flag.offset & 1) for flag in JOB_FLAGS}
    records = RECORD_BYTES if post["columns"] else 0
    plan = Plan(
        config.of_job(registers), registers["M"], registers["K"], registers["N"],
        record_bytes=records, result_bytes=1 << post["size"],
    )  # fmt: skip
    blocks = Blocks(
        registers["MBT"],
        registers["KBT"],
        registers["NBT"],
        flags["m_inner"],
        flags["a_whole"],
        flags["w_whole"],
    )
    return plan.cut(blocks)


def _region(config: GemmStreamConfig, registers: Mapping[str, int], name: str) -> Region:
    """Return the region of a matrix, its address modulo the longest burst."""
    longest = config.longest_burst_bytes
    stride = registers.get(f"{name}_STRIDE", 0)
    return Region(registers[f"{name}_ADDRESS_LOW"] % longest, stride)


def _beats(config: GemmStreamConfig, load: Load) -> tuple[int, int]:
    """Return the beats and the bursts of rows."""
    bus, longest = config.memory_bytes, config.longest_burst_bytes
    period = longest // gcd(longest, load.stride)  # rows behind which all is as before
    beats = bursts = 0
    for row in range(min(period, load.rows)):
        result = bursts_of((load.address + row * load.stride) % longest, load.size, bus, longest)
        times = len(range(row, load.rows, period))
        beats, bursts = beats + times * sum(result), bursts + times * len(result)
    return beats, bursts
