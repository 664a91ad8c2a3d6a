# SPDX-License-Identifier: Apache-2.0
"""Jobs of an engine: where the matrices lie in memory, and what its registers then hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hwgen.core.post import PostSettings, element_bytes
from hwgen.core.post.records import RECORD_BYTES
from hwgen.core.register_map import FORMAT, job_window
from hwgen.core.schedule.stream import RAW_RESULTS
from hwgen.errors import InputError
from hwgen.families.gemm_stream.schedule import Plan

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig

    JobEngine = GemmStreamConfig
    """Configuration of an engine whose jobs are products."""

__all__ = ["Job", "Plan", "plan_of", "weight_stride"]

_ADDRESSES = ("a_address", "w_address", "c_address", "p_address")
_STRIDES = ("a_stride", "w_stride", "c_stride")


@dataclass(frozen=True)
class Job:
    """One product in memory.

    Parameters
    ----------
    plan : Plan
        Its sizes and blocks; see `job_of`.
    a_address, w_address, c_address : int
        Byte addresses of the first elements of A, of W or its image, and of C; any alignment.
    p_address : int
        Byte address of the column records, if ``settings.columns``.
    a_stride, w_stride, c_stride : int, optional
        Bytes from one row to the next; by default rows follow each other.
    settings : PostSettings
        Post-processing.
    after : bool
        Whether the job waits for all earlier ones, because it reads what one of them writes.

    Raises
    ------
    InputError
        If the engine has no such post-processing, or something lies outside the address space,
        or rows overlap.
    """

    plan: Plan
    a_address: int
    w_address: int
    c_address: int
    p_address: int = 0
    a_stride: int | None = None
    w_stride: int | None = None
    c_stride: int | None = None
    settings: PostSettings = field(default=RAW_RESULTS)
    after: bool = False

    def __post_init__(self) -> None:
        config = self.plan.config
        self.settings.check(config.post_features)
        space = 1 << config.memory.address_width
        for name, (rows, row_bytes, stride, address) in self.regions.items():
            if rows > 1 and name == "C" and stride < row_bytes:
                raise InputError(
                    f"{name.lower()}_stride: must be at least the {row_bytes} bytes of a row, not"
                    f" {stride}"
                )
            if not 0 <= stride < 1 << 32:
                raise InputError(f"{name.lower()}_stride: must be 0..{(1 << 32) - 1}, not {stride}")
            end = address + (rows - 1) * stride + row_bytes
            if address < 0 or end > space:
                raise InputError(
                    f"{name.lower()}_address: {name} would end at {end:#x}, beyond the"
                    f" {config.memory.address_width} bits of an address"
                )

    @property
    def regions(self) -> dict[str, tuple[int, int, int, int]]:
        """Rows, bytes of a row, stride and address of A, W, C and, if needed, the records (P)."""
        plan = self.plan
        a, w = plan.activation_row_bytes, plan.weight_row_bytes
        c = plan.n * plan.result_bytes
        regions = {
            "A": (plan.m, a, a if self.a_stride is None else self.a_stride, self.a_address),
            "W": (
                plan.weight_image_rows,
                w,
                w if self.w_stride is None else self.w_stride,
                self.w_address,
            ),
            "C": (plan.m, c, c if self.c_stride is None else self.c_stride, self.c_address),
        }
        if self.settings.columns:
            size = plan.n * RECORD_BYTES
            regions["P"] = (1, size, size, self.p_address)
        return regions

    def registers(self) -> dict[str, int]:
        """Return the contents of the job window by register; addresses are whole numbers."""
        plan, config = self.plan, self.plan.config
        m, k, n = plan.tiles
        mbt, kbt, nbt = plan.block_tiles
        mb, kb, nb = plan.block
        stride = {name: values[2] for name, values in self.regions.items()}
        nest = config.loop_nest
        weight_rows = nb if nest.weight_columns else kbt if nest.image else kb
        flags = {
            "m_inner": plan.m_inner,
            "after": self.after,
            "a_whole": plan.a_whole,
            "w_whole": plan.w_whole,
            FORMAT: config.format_number,
        }
        return {
            "A_ADDRESS": self.a_address,
            "W_ADDRESS": self.w_address,
            "C_ADDRESS": self.c_address,
            "P_ADDRESS": self.p_address,
            "A_STRIDE": stride["A"],
            "W_STRIDE": stride["W"],
            "C_STRIDE": stride["C"],
            "M": plan.m,
            "N": plan.n,
            "K": plan.k,
            "MT": m,
            "NT": n,
            "KT": k,
            "MB": mb,
            "NB": nb,
            "KB": kb,
            "MBT": mbt,
            "NBT": nbt,
            "KBT": kbt,
            "A_M_STEP": mb * stride["A"],
            "W_K_STEP": weight_rows * stride["W"],
            "C_M_STEP": mb * stride["C"],
            "JOB_FLAGS": sum(
                flags[flag.name] << flag.offset for flag in config.job_interface.flags
            ),
            **self.settings.registers(config.result),
        }

    def writes(self) -> list[tuple[int, int]]:
        """Return what is written to the job window: offset and contents of each register."""
        contents = self.registers()
        writes = []
        for register in job_window(self.plan.config):
            name, _, part = register.name.rpartition("_")
            if part in ("LOW", "HIGH"):
                value = contents[name] >> (32 * (part == "HIGH"))
            else:
                value = contents[register.name]
            writes.append((register.offset, value & 0xFFFFFFFF))
        return writes


def plan_of(
    config: GemmStreamConfig,
    m: int,
    k: int,
    n: int,
    settings: PostSettings = RAW_RESULTS,
    *,
    least_traffic: bool = False,
) -> Plan:
    """Return the plan of a product whose results are post-processed; see `Plan`."""
    records = RECORD_BYTES if settings.columns else 0
    size = element_bytes(settings.output, config.result)
    return Plan(
        config, m, k, n, record_bytes=records, result_bytes=size, least_traffic=least_traffic
    )


def weight_stride(plan: Plan) -> int:
    """Return the bytes from a row of weights in memory to the next: whole beats."""
    width: int = plan.config.memory_bytes
    return -(-plan.weight_row_bytes // width) * width
