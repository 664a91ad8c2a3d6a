# SPDX-License-Identifier: Apache-2.0
"""Cycles of `cube`, `adder_tree` and `broadcast_2d`, and the flow of beats for an engine.

The counts follow from the sequencer of the core (`rtl_templates.spatial.core`); the regression
compares them with every simulation that runs at full rate.  Cycles of serial PEs depend on values:
see `serial_cycles`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hwgen.core.cycles.basis import Cycles
from hwgen.core.cycles.core_flow import Queue, Slices
from hwgen.core.cycles.counting import Number, as_integer, ceil_div
from hwgen.families.spatial import serial_cycles
from hwgen.families.spatial.schedule import Schedule
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.params.spatial import SpatialConfig

Size = tuple[int, int, int]
"""M, K and N of one product."""


def gemm_cycles(config: SpatialConfig, sizes: Iterable[Size], sigma: float | None = None) -> int:
    """Return the cycles of products that follow each other without a pause.

    Exact, unless PEs are serial: their cycles depend on A.  Then this is the expectation for
    random activations, interpolated between those of samples.

    Parameters
    ----------
    config : SpatialConfig
    sizes : iterable of (m, k, n)
        At least one.
    sigma : float, optional
        Activations of serial PEs are normally distributed with this deviation, rounded and clipped
        to their format; by default ``target.activation_sigma``, and uniformly without.

    Notes
    -----
    A tile takes as many slots as it has beats.  Its drain starts at the slot behind them, and the
    next one not before this one's rows have left: a tile of fewer beats takes ``rows + lead``
    slots, but for the first one, which nothing holds up.
    """
    if config.array.serial:
        return serial_cycles.expected_cycles(config, sizes, sigma or config.target.activation_sigma)
    plans = [Schedule(config, *size) for size in sizes]
    products = [(plan.m, plan.k, plan.n) for plan in plans]
    beats = {plan.k: plan.blocks[1] * config.slots for plan in plans}
    return as_integer(
        count_cycles((config.rows, config.cols), config.lead, config.latency, products, beats)
    )


def count_cycles(
    shape: tuple[Number, Number],
    lead: Number,
    latency: Number,
    sizes: Sequence[Size],
    beats_of: Mapping[int, Number],
) -> Number:
    """Return the cycles of `gemm_cycles` of arrays of rows and columns of PEs.

    `beats_of` says how many beats a reduction of K takes.
    """
    rows, cols = shape
    shortest = rows + lead
    slots: Number = 0
    for (m, k, n), repeats in Counter(sizes).items():
        beats = np.maximum(beats_of[k], shortest)
        slots = slots + repeats * ceil_div(m, rows) * ceil_div(n, cols) * beats
    first = beats_of[sizes[0][1]]
    last_drain = first + slots - np.maximum(first, shortest)
    return last_drain + rows + latency - 1


def operand_cycles(
    config: SpatialConfig, operands: Sequence[tuple[NDArray[Any], NDArray[Any]]]
) -> int:
    """Return the exact cycles of products of given matrices that follow each other.

    Parameters
    ----------
    config : SpatialConfig
    operands : sequence of (ndarray, ndarray)
        A, shape (m, k), and W, shape (k, n), of at least one product.
    """
    if config.array.serial:
        return serial_cycles.counted_cycles(config, operands)
    return gemm_cycles(config, [(a.shape[0], a.shape[1], w.shape[1]) for a, w in operands])


def most_cycles(config: SpatialConfig, sizes: Iterable[Size]) -> int:
    """Return the cycles of products of the values that take most: no digit is zero."""
    if config.array.serial:
        return serial_cycles.most_cycles(config, [Schedule(config, *size) for size in sizes])
    return gemm_cycles(config, sizes)


def classified_cycles(config: SpatialConfig, sizes: Sequence[Size]) -> Cycles:
    """Return the cycles of products of any values: exact, of serial PEs expected."""
    number = gemm_cycles(config, sizes)
    if not config.array.serial:
        return Cycles(number)
    return Cycles(number, "expected", most=most_cycles(config, sizes))


class Spatial:
    """Tiles; the rows of one leave while the next one streams in."""

    def __init__(self, config: SpatialConfig) -> None:
        self._act, self._wgt = Queue(), Queue()
        self._finished = False
        self._lead = config.lead
        self._in_flight = self._waiting = 0  # a bit for each place, the next to leave the highest
        self._last_row = config.rows - 1
        self._slots, self._slot = config.slots, 0  # of a beat
        self._slices = Slices(config.output_registers)

    def cycle(
        self, act: bool, act_last: bool, wgt: bool, wgt_last: bool, pop: bool
    ) -> tuple[bool, bool, bool]:
        """Pass a cycle; see `CoreFlow`."""
        x, y, slices = self._act, self._wgt, self._slices
        arrives = self._in_flight >> (self._lead - 1) & 1
        leaves = bool(arrives or self._waiting)
        gives = slices.full > 0
        ready = slices.pass_cycle(leaves, pop)
        free = ready and not self._in_flight and not self._waiting
        drain = self._finished and free
        fire = x.count > 0 and y.count > 0 and (not self._finished or free)
        if fire and self._slots > 1:  # a beat leaves with its last term
            self._slot = (self._slot + 1) % self._slots
            fire = self._slot == 0
        self._finished = (self._finished and not drain) or (fire and bool(x.lasts & 1))
        self._in_flight = (self._in_flight << 1 | drain) & ((1 << self._lead) - 1)
        if arrives or ready:
            self._waiting = (self._waiting << 1 | arrives) & ((1 << self._last_row) - 1)
        act_room = x.pass_cycle(act, act_last, fire)
        wgt_room = y.pass_cycle(wgt, False, fire)
        return act_room, wgt_room, gives

    def state(self) -> tuple[int, ...]:
        """Return all that the next cycles depend on."""
        x, y = self._act, self._wgt
        return (
            x.count, x.lasts, y.count, self._finished, self._in_flight, self._waiting,
            self._slot, *self._slices.state(),
        )  # fmt: skip

    def restore(self, state: tuple[int, ...]) -> None:
        """Return to a state."""
        x, y = self._act, self._wgt
        (
            x.count, x.lasts, y.count, finished, self._in_flight, self._waiting, self._slot,
            *slices,
        ) = state  # fmt: skip
        self._finished = bool(finished)
        self._slices.restore(tuple(slices))
