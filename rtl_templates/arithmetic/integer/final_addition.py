# SPDX-License-Identifier: Apache-2.0
"""A stream of results whose carries are added in steps, a register between any two."""

from __future__ import annotations

from amaranth.hdl import Module

from hwgen.arithmetic.digit_sums import FinalAddition
from rtl_templates.arithmetic.integer.digit_accumulator import final_add_row
from rtl_templates.hdl.streams import AnyStream, Stream, fields
from rtl_templates.stream.stream import StreamSlice, buffered


def final_add_stream(m: Module, addition: FinalAddition, rows: AnyStream) -> Stream:
    """Return a stream of results from a stream of accumulators.

    Parameters
    ----------
    m : Module
    addition : FinalAddition
    rows : stream
        ``data``, a row of accumulators; ``sign_constant``, the sign-extension constants in it,
        negated; ``last``, whether the row is the last of a tile.

    Returns
    -------
    Stream
        ``data`` and ``last``.
    """
    values, sign_constant = rows.payload.data, rows.payload.sign_constant
    for step in range(addition.steps):
        values = final_add_row(m, values, sign_constant, addition, step)
        if step == addition.registers:
            break
        sign_constant = sign_constant[len(addition.columns(step)) :]
        payload = fields(data=values, sign_constant=sign_constant, last=rows.payload.last)
        rows = buffered(m, f"added_{step}", Stream(payload, rows.valid, rows.ready), StreamSlice)
        values, sign_constant = rows.payload.data, rows.payload.sign_constant
    return Stream(fields(data=values, last=rows.payload.last), rows.valid, rows.ready)
