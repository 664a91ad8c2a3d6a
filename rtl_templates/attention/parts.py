# SPDX-License-Identifier: Apache-2.0
"""What the parts of the core share: input buffers, the key that goes past, choices among rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Const, Module, Mux, Signal, Value

from rtl_templates.arithmetic.pipeline import named
from rtl_templates.hdl.hierarchy import place
from rtl_templates.stream.drain import ColumnDrain
from rtl_templates.stream.stream import StreamBuffer

if TYPE_CHECKING:
    from hwgen.families.attention.params import AttentionConfig


class Keys:
    """Signals of the front that the other parts look at.

    Parameters
    ----------
    ends : Signal
        A key's last beat is taken.
    first, last, none : Signal
        It is the first, the last key of a job; it is no key at all, of a job without keys.
    scales : dict
        Scales of the key and of its value.
    rows : Signal
        Rows of the job.
    taken : Value
        Scales of the key and of its value are taken.
    value_scale, value_there : Signal
        Only of floating point: what the back says of the scale of the key's value.
    """

    def __init__(self, config: AttentionConfig) -> None:
        self.ends = Signal(name="key_ends")
        self.first, self.last = Signal(name="key_first"), Signal(name="key_last")
        self.none = Signal(name="key_none")
        self.scales: dict[str, Value] = {}
        self.rows = Signal(range(config.array.rows + 1), name="job_rows")
        self.taken: Value = Const(0, 1)
        if config.floating:
            self.value_scale = Signal(config.value.exponent_bits + 1, name="value_scale_head")
            self.value_there = Signal(name="value_scale_there")


class Choice(ColumnDrain):
    """`ColumnDrain`, of which a core has several of different widths."""

    def __init__(self, width: int, rows: int) -> None:
        super().__init__(width, rows)
        self.module_name = f"choice_{width}_x{rows}"


def last_of(m: Module, count: int, step: str, last: str, advance: Value) -> Value:
    """Return whether it is the last of `count` steps, one whenever `advance` is set.

    Parameters
    ----------
    m : Module
    count : int
    step, last : str
        Names of the counter and of what is returned.
    advance : Value
    """
    counter = Signal(range(count), name=step)
    is_last = named(m, last, counter == count - 1)
    with m.If(advance):
        m.d.sync += counter.eq(Mux(is_last, 0, counter + 1))
    return is_last


def take(m: Module, core: Any, name: str, ready: Value) -> tuple[Value, Value]:
    """Buffer an input port of a core; return what it holds and whether it holds something."""
    port = next(port for port in core.config.ports if port.name == name)
    beats = getattr(core, name)
    width = port.lanes * port.lane_width
    head, valid = Signal(width, name=f"{name}_head"), Signal(name=f"{name}_valid")
    place(
        m,
        f"{name}_buffer",
        StreamBuffer(width),
        i_data=beats.payload.data[:width],
        i_valid=beats.valid,
        i_ready=beats.ready,
        o_data=head,
        o_valid=valid,
        o_ready=ready,
    )
    return head, valid
