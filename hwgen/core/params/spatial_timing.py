# SPDX-License-Identifier: Apache-2.0
"""Latencies of beats and results in the spatial families.

All numbers may be integers, or NumPy arrays of them: of one core, or of many in a sweep.
"""

from __future__ import annotations

from typing import Any

from hwgen.arithmetic.sparse_digits import FINAL_STEPS


def lead(pe: Any) -> Any:
    """Return the cycles from a beat's slot to the accumulators: those of the edge and the PE."""
    return 1 + pe


def block_lead(pe: Any) -> Any:
    """Return the same as `lead` of PEs that multiply blocks: also the sum and the term of one."""
    return lead(pe) + 2


def output_registers(digits: bool, final_adder: Any) -> Any:
    """Return the registers with a handshake from where rows leave to the port, its own included.

    With accumulators of digits there is one in front of the final adders, and those inside.
    """
    return 1 + digits * (1 + final_adder)


def core_latency(pe: Any, digits: bool, final_adder: Any) -> Any:
    """Return the cycles from the last input beat of a reduction to its first results.

    One in the input buffer, one until the drain, `lead`, and `output_registers`.
    """
    return 2 + lead(pe) + output_registers(digits, final_adder)


def serial_lead(pe: Any) -> Any:
    """Return the cycles from a tile's last digits to its results in the accumulators.

    Those of serial PEs: a register of the encoder, one of the accumulator, and the PE's.
    """
    return 2 + pe


def serial_latency(pe: Any) -> Any:
    """Return the same as `core_latency` of serial PEs, without digits that take cycles.

    One in the slot, `serial_lead`, one until a row leaves, a register behind each step of the final
    addition, and that of the port.
    """
    return 1 + serial_lead(pe) + 1 + FINAL_STEPS + 1
