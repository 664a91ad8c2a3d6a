# SPDX-License-Identifier: Apache-2.0
"""Values some cycles later."""

from __future__ import annotations

from amaranth.hdl import Module, Signal, Value


def delayed(m: Module, name: str, value: Value, cycles: int, *, reset: bool = False) -> Value:
    """Return a value `cycles` later; only tokens need a `reset`."""
    for cycle in range(cycles):
        register = Signal(value.shape(), name=f"{name}_{cycle + 1}", reset_less=not reset)
        m.d.sync += register.eq(value)
        value = register
    return value
