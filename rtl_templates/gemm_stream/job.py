# SPDX-License-Identifier: Apache-2.0
"""The descriptor of a job as the engine's sequencers see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Value
from amaranth.lib import data

from hwgen.core.post import REGISTERS, SETTINGS_BITS

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig

SIZE_BITS = 24
"""Bits of M, K, N and what is counted of them."""

STRIDE_BITS = 32
"""Bits of the bytes from one row to the next."""

_POST = {
    field.name: (32 * number + field.offset, field.bits)
    for number, register in enumerate(REGISTERS)
    for field in register.fields
}


def job_layout(config: GemmStreamConfig) -> data.StructLayout:
    """Return the layout of a job's descriptor.

    Addresses and steps between blocks are as wide as an address; ``m``, ``mb``: rows of C and of
    a block; ``mt``, ``mbt``: the same in tiles of the cores; so for ``k`` and ``n``; ``a_whole``,
    ``w_whole``: blocks of A, of W, that take both halves of their buffer; ``format``: of A and W,
    where cores take several.
    """
    address = config.memory.address_width
    sizes = [f"{axis}{kind}" for axis in "mkn" for kind in ("", "t", "b", "bt")]
    return data.StructLayout(
        {
            **dict.fromkeys(("a_address", "w_address", "c_address", "p_address"), address),
            **dict.fromkeys(("a_m_step", "w_k_step", "c_m_step"), address),
            **dict.fromkeys(("a_stride", "w_stride", "c_stride"), STRIDE_BITS),
            **dict.fromkeys(sizes, SIZE_BITS),
            **{flag.name: flag.bits for flag in config.job_interface.flags},
            "post": SETTINGS_BITS,
        }
    )


def post_field(job: Any, name: str) -> Value:
    """Return a field of the settings of post-processing in a descriptor."""
    offset, bits = _POST[name]
    return Value.cast(job.post)[offset : offset + bits]
