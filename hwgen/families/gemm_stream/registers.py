# SPDX-License-Identifier: Apache-2.0
"""Registers of memory engines that multiply: facts, flags of a job, and the job window."""

from __future__ import annotations

from collections.abc import Sequence

from hwgen.core import post
from hwgen.core.register_map import FORMAT, JOB_FLAGS, JOB_WINDOW, MAGIC, JobInterface, Register


def gemm_interface(
    lanes: tuple[int, int, int],
    formats: Sequence[str],
    features: post.PostFeatures,
    *,
    address_width: int,
    weight_columns: bool,
) -> JobInterface:
    """Return the registers that an engine around cores that multiply adds to those of all engines.

    Parameters
    ----------
    lanes : (int, int, int)
        Rows, terms and columns of a tile of the cores.
    formats : sequence of str
        Formats of A that the cores take.
    features : PostFeatures
        Of the post-processing hardware.
    address_width : int
        Bits of an address of memory.
    weight_columns : bool
        Whether rows of W in memory are its columns.
    """
    m_lanes, k_lanes, n_lanes = lanes
    facts = (
        ("M_LANES", 0x24, m_lanes, "Rows of a tile of the cores."),
        ("K_LANES", 0x28, k_lanes, "Terms of a tile of the cores."),
        ("N_LANES", 0x2C, n_lanes, "Columns of a tile of the cores."),
    )
    flags = _flags(formats)
    return JobInterface(
        MAGIC,
        _window(address_width, weight_columns, flags, post.registers_of(features)),
        flags,
        facts,
    )


def _flags(formats: Sequence[str]) -> tuple[post.Field, ...]:
    """Return the fields of JOB_FLAGS: `JOB_FLAGS`, and the format where there are several."""
    if len(formats) == 1:
        return JOB_FLAGS
    names = ", ".join(f"{number} {each}" for number, each in enumerate(formats))
    bits = (len(formats) - 1).bit_length()
    text = f"Number of the format of A and W: {names}."
    return (*JOB_FLAGS, post.Field(FORMAT, len(JOB_FLAGS), bits, False, text))


def _window(
    address: int,
    weight_columns: bool,
    flags: tuple[post.Field, ...],
    settings: tuple[post.Register, ...],
) -> tuple[Register, ...]:
    wide = {
        "A_ADDRESS": "Address of A",
        "W_ADDRESS": "Address of W, or of its packed image",
        "C_ADDRESS": "Address of C",
        "P_ADDRESS": "Address of the column records",
        "A_M_STEP": "Bytes from one block of rows of A to the next",
        "W_K_STEP": "Bytes from one block of rows of W to the next"
        + (", which are columns of W" if weight_columns else ""),
        "C_M_STEP": "Bytes from one block of rows of C to the next",
    }
    narrow: dict[str, tuple[str, int]] = {
        f"{name}_STRIDE": (f"Bytes from one row of {name} to the next.", 32) for name in "AWC"
    }
    for axis in "MKN":
        narrow |= {
            axis: (f"Size {axis}.", 24),
            f"{axis}T": (f"{axis} in tiles of the cores, rounded up.", 24),
            f"{axis}B": (f"{axis} of a block.", 24),
            f"{axis}BT": ("The same in tiles of the cores.", 24),
        }
    registers: list[Register] = []

    def add(name: str, text: str, bits: int, fields: tuple[post.Field, ...] = ()) -> None:
        registers.append(Register(name, JOB_WINDOW + 4 * len(registers), "rw", text, fields, bits))

    for name, text in wide.items():
        add(f"{name}_LOW", f"{text}, lower 32 bits.", min(32, address))
        add(f"{name}_HIGH", f"{text}, upper bits.", max(0, address - 32))
    for name, (text, bits) in narrow.items():
        add(name, text, bits)
    add("JOB_FLAGS", "How the job runs.", sum(flag.bits for flag in flags), flags)
    for register in settings:
        add(register.name, register.text, 32, register.fields)
    return tuple(registers)
