# SPDX-License-Identifier: Apache-2.0
"""Key control of the core, its input buffers, and selection among rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import wiring

from rtl_templates.arithmetic.pipeline import named
from rtl_templates.hdl.hierarchy import place
from rtl_templates.hdl.streams import Stream
from rtl_templates.stream.drain import ColumnDrain
from rtl_templates.stream.stream import StreamBuffer

if TYPE_CHECKING:
    from hwgen.families.attention.params import AttentionConfig


class Keys:
    """Signals of the front for the softmax units and the back.

    Attributes
    ----------
    ends : Signal
        A key's last beat leaves its buffer.
    first, last, none : Signal
        It is the first, the last key of a job; there is no key, as the job has none.
    scales : dict
        Scales of the key and of its value.
    rows : Signal
        Rows of the job.
    pop_scales : Value
        Scales of the key and of its value leave their buffers.
    value_scale, value_scale_valid : Signal
        Only of floating point: the scale of the key's value, from the back.
    """

    def __init__(self, config: AttentionConfig) -> None:
        self.ends = Signal(name="key_ends")
        self.first, self.last = Signal(name="key_first"), Signal(name="key_last")
        self.none = Signal(name="key_none")
        self.scales: dict[str, Value] = {}
        self.rows = Signal(range(config.array.rows + 1), name="job_rows")
        self.pop_scales: Value = Const(0, 1)
        if config.floating:
            self.value_scale = Signal(config.exponent_bits("value") + 1, name="value_scale_head")
            self.value_scale_valid = Signal(name="value_scale_valid")


class Choice(ColumnDrain):
    """`ColumnDrain` named by its width, as a core has several."""

    def __init__(self, width: int, rows: int) -> None:
        super().__init__(width, rows)
        self.module_name = f"choice_{width}_x{rows}"


def last_of(m: Module, count: int, step: str, last: str, advance: Value) -> Value:
    """Count steps; return whether it is the last of `count`.

    Parameters
    ----------
    m : Module
    count : int
    step, last : str
        Names of the counter and of the result.
    advance : Value
        Go to the next step.
    """
    counter = Signal(range(count), name=step)
    is_last = named(m, last, counter == count - 1)
    with m.If(advance):
        m.d.sync += counter.eq(Mux(is_last, 0, counter + 1))
    return is_last


def pop_input(m: Module, core: wiring.Component, name: str, pop: Value) -> Stream:
    """Return the beats of an input port of a core after a buffer; its ready is `pop`."""
    port = next(port for port in core.config.ports if port.name == name)
    beats = getattr(core, name)
    width = port.lanes * port.lane_width
    head = Stream(Signal(width, name=f"{name}_head"), Signal(name=f"{name}_valid"), pop)
    source = Stream(beats.payload.data[:width], beats.valid, beats.ready)
    place(m, f"{name}_buffer", StreamBuffer(width), i=source, o=head)
    return head
