# SPDX-License-Identifier: Apache-2.0
"""Parts of DSP blocks besides products: adders after them, and registers around them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from cost_model.netlist.model import Bits, Cell, Module
from cost_model.netlist.sums import Sum

_OUTSIDE = -1
"""Reader that is no cell and no sum."""


@dataclass
class Packing:
    """Cells that are part of DSP blocks.

    Parameters
    ----------
    adders : dict
        For each sum, by its result, how many of its adders.
    registers : set of int
        Bits of registers.
    muxes : dict
        Multiplexers, by their results: the total that is added to, or not.
    """

    adders: dict[Bits, int] = field(default_factory=dict)
    registers: set[int] = field(default_factory=set)
    muxes: dict[Bits, Bits] = field(default_factory=dict)


def packing(
    module: Module,
    products: Sequence[tuple[Cell, Collection[int]]],
    totals: Sequence[Sum],
    others: Collection[int],
) -> Packing:
    """Find the cells that are part of the DSP blocks of a module.

    Parameters
    ----------
    module : Module
    products : sequence of (Cell, collection of int)
        The products that are one DSP block each, and which bits of their results are used.
    totals : sequence of Sum
    others : collection of int
        The cells that are used and are part of no sum.
    """
    return _Packer(module, totals, others).result(products)


class _Packer:
    def __init__(self, module: Module, totals: Sequence[Sum], others: Collection[int]) -> None:
        self.cells, self.totals = module.cells, totals
        self.readers: dict[int, set[int]] = {}
        self.driver: dict[int, Cell] = {}
        self.first_sum = len(module.cells)
        for number, cell in enumerate(module.cells):
            if number not in others:
                continue
            self.driver.update(dict.fromkeys(cell.result, cell))
            for _, bits in cell.operands:
                self._read(bits, number)
        for number, result in enumerate(totals):
            for row in result.rows:
                self._read(row, self.first_sum + number)
        for bits in module.read_outside():
            self._read(bits, _OUTSIDE)
        self.packing = Packing()

    def _read(self, bits: Bits, reader: int) -> None:
        for net in bits:
            if net >= 0:
                self.readers.setdefault(net, set()).add(reader)

    def _only_reader(self, nets: Collection[int]) -> int:
        result: set[int] = set()
        for net in nets:
            result |= self.readers.get(net, set())
        return result.pop() if len(result) == 1 else _OUTSIDE

    def _registers_after(self, nets: Collection[int]) -> list[int]:
        """Return the outputs of registers that alone read nets; empty if there are none."""
        reader = self._only_reader(nets)
        if not 0 <= reader < self.first_sum or self.cells[reader].operator != "register":
            return []
        pins, wanted = self.cells[reader].pins, set(nets)
        if not wanted.isdisjoint((*pins.get("en", ()), *pins.get("srst", ()))):
            return []
        return [q for d, q in zip(pins["d"], pins["q"], strict=True) if d in wanted and q >= 0]

    def result(self, products: Sequence[tuple[Cell, Collection[int]]]) -> Packing:
        """See `packing`."""
        count: dict[int, int] = {}
        for cell, used in products:
            for pin in ("a", "b"):
                self._in_front(cell, cell.pins[pin])
            nets = [cell.pins["y"][index] for index in used]
            stages = 0
            while stages < 2 and (registers := self._registers_after(nets)):
                self.packing.registers.update(registers)
                nets, stages = registers, stages + 1
            if stages == 2:  # behind the multiplier, and behind the adder, which adds nothing
                continue
            reader = self._only_reader(nets)
            if reader >= self.first_sum:
                count[reader] = count.get(reader, 0) + 1
        for reader, inside in count.items():
            self._add(self.totals[reader - self.first_sum], inside)
        return self.packing

    def _in_front(self, product: Cell, nets: Bits) -> None:
        """Take registers that nothing but a product reads."""
        live = {net for net in nets if net >= 0}
        drivers = {self.driver[net].result: self.driver[net] for net in live if net in self.driver}
        if len(drivers) != 1 or not live <= set(next(iter(drivers))):
            return
        reader = self._only_reader(live)
        registers = next(iter(drivers.values())).operator == "register"
        if registers and 0 <= reader < self.first_sum and self.cells[reader] is product:
            self.packing.registers |= live

    def _add(self, total: Sum, products: int) -> None:
        rows = [row for row in total.rows if any(net >= 0 for net in row)]
        adders = max(0, len(rows) - 1)
        self.packing.adders[total.result] = min(products, adders)
        if products < adders:
            return
        registers = self._registers_after(total.result)
        self.packing.registers.update(registers)
        if not adders:
            self.packing.registers.update(self._registers_after(registers))
        if not registers or adders != 1:
            return
        for row in rows:
            mux = self.driver.get(row[0])
            if mux is not None and mux.operator == "mux":
                for pin in ("a", "b"):
                    if mux.pins[pin][0] == registers[0]:
                        self.packing.muxes[mux.result] = mux.pins[pin]
