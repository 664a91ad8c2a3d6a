# SPDX-License-Identifier: Apache-2.0
"""A stream of results whose carries are added in steps, a register between any two."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal, Value

from hwgen.arithmetic.digit_sums import FinalAddition
from rtl_templates.arithmetic.integer.digit_accumulator import final_add_row
from rtl_templates.hdl.hierarchy import place
from rtl_templates.stream.stream import StreamSlice


def final_add_stream(
    m: Module,
    addition: FinalAddition,
    values: Value,
    sign_constant: Value,
    last: Value,
    valid: Value,
    ready: Signal,
) -> tuple[Value, Value, Value, Signal]:
    """Return a stream of results from a stream of what accumulators hold.

    Parameters
    ----------
    m : Module
    addition : FinalAddition
    values, sign_constant, last, valid : Value
        A row of accumulators, the sign-extension constants in it, negated, and whether the row is
        the last of a tile; whether there is one.
    ready : Signal
        The row is taken; driven here unless there are no registers.

    Returns
    -------
    values, last, valid : Value
    ready : Signal
        To be driven.
    """
    for step in range(addition.steps):
        values = final_add_row(m, values, sign_constant, addition, step)
        if step == addition.registers:
            break
        sign_constant = sign_constant[len(addition.columns(step)) :]
        fields = (values, sign_constant, last)
        payload = Signal(sum(map(len, fields)), name=f"found_{step}")
        valid_after, ready_after = (
            Signal(name=f"found_{step}_valid"),
            Signal(name=f"found_{step}_ready"),
        )
        place(
            m, f"found_slice_{step}", StreamSlice(len(payload)),
            i_data=Cat(*fields), i_valid=valid, i_ready=ready,
            o_data=payload, o_valid=valid_after, o_ready=ready_after,
        )  # fmt: skip
        values, sign_constant = payload[: len(values)], payload[len(values) : -1]
        last, valid, ready = payload[-1], valid_after, ready_after
    return values, last, valid, ready
