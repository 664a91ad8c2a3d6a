# SPDX-License-Identifier: Apache-2.0
"""Timing of a pass on an engine: all operations that it executes, and their traffic."""

from __future__ import annotations

from dataclasses import dataclass

from hwgen.core.cycles.basis import Cycles

MEMORY_PORT = "memory port"
"""What limits where a beat moves in nearly every cycle, and the port that its bytes go through."""

COMPUTE = "compute"
"""What limits an operation that the memory does not."""


@dataclass(frozen=True)
class TimedOperation:
    """Operation of a pass, all its jobs together.

    Parameters
    ----------
    name : str
    cycles : int
        In which its unit works.
    moved : int
        Bytes over the memory port.
    macs : int
        Multiply-accumulates.
    fills_port : bool
        Whether the width of the memory port limits it.
    """

    name: str
    cycles: int
    moved: int
    macs: int = 0
    fills_port: bool = False


@dataclass(frozen=True)
class PassTiming:
    """Cycles of a pass, in place of those of its products.

    Parameters
    ----------
    cycles : Cycles
        From the first to the last operation.
    operations : tuple of TimedOperation
        Of an engine with one memory port; else empty, and the traffic is that of the products.
    attention_cycles : float
        Of one attention, where there are no operations.
    missing : str
        What the cycles do not include; empty: nothing is missing.
    """

    cycles: Cycles
    operations: tuple[TimedOperation, ...] = ()
    attention_cycles: float = 0.0
    missing: str = ""
