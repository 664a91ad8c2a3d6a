# SPDX-License-Identifier: Apache-2.0
"""Modules with other nets and other pins of registers, of the same function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from cost_model.netlist.model import UNDEFINED, Bits, Cell, Module


class Choices:
    """The multiplexers of a module, and how often its nets are read.

    Attributes
    ----------
    muxes : dict
        For each net that one drives: what it is for 0, for 1, and the select.
    uses : Counter
        How often each net is read by what is used.

    Parameters
    ----------
    module : Module
    used : sequence of collection of int
        Which bits of the results of its cells are used.
    """

    def __init__(self, module: Module, used: Sequence[Collection[int]]) -> None:
        self.muxes: dict[int, tuple[int, int, int]] = {}
        self.uses: Counter[int] = Counter()
        for cell, live in zip(module.cells, used, strict=True):
            if not live:
                continue
            for _, bits in cell.operands:
                self.uses.update(bits)
            if cell.operator == "mux":
                for a, b, y in zip(*(cell.pins[pin] for pin in "aby"), strict=True):
                    self.muxes[y] = (a, b, cell.pins["s"][0])
        for bits in module.read_outside():
            self.uses.update(bits)


def with_choices(module: Module) -> Module:
    """Return a module whose registers take what they would keep from multiplexers, if these exist.

    A register that may keep its value is a multiplexer of the value and what is new before it is
    one with an enable; if another cell is the same multiplexer, they are joined before that.
    """
    muxes = {
        (cell.pins["a"], cell.pins["b"], cell.pins["s"]): cell.pins["y"]
        for cell in module.cells
        if cell.operator == "mux"
    }
    cells = list(module.cells)
    for number, cell in enumerate(cells):
        if cell.operator != "register" or "en" not in cell.pins:
            continue
        pins = dict(cell.pins)
        values = (pins["q"], pins["d"])
        a, b = reversed(values) if "en" in cell.low else values
        result = muxes.get((a, b, pins["en"]))
        if result is not None:
            del pins["en"]
            cells[number] = replace(cell, pins={**pins, "d": result})
    return replace(module, cells=tuple(cells))


def without_undefined(module: Module) -> Module:
    """Return a module whose multiplexers choose among defined values only.

    A value that is undefined, as what a register would be loaded with while it is not enabled, may
    be any other one; synthesis makes it that of the last choice (``opt_expr -mux_undef``).
    """
    replaced: set[int] = set()  # cells whose results nothing reads any more
    while True:
        cells = list(module.cells)
        same: dict[int, int] = {}
        for number, cell in enumerate(cells):
            if (cell.operator != "mux" and cell.type != "pmux") or number in replaced:
                continue
            result = _defined(cell)
            if isinstance(result, Cell):
                cells[number] = result
            else:
                same.update(zip(cell.result, result, strict=True))
                replaced.add(number)
        module = replace(module, cells=tuple(cells))
        if not same:
            return module
        module = renamed(module, _resolved(same))


def _defined(cell: Cell) -> Cell | Bits:
    """Return a multiplexer without undefined values, or the only value that is left."""
    usual, select = cell.pins["a"], cell.pins["s"]
    width = len(usual)
    values = [cell.pins["b"][index * width :][:width] for index in range(len(select))]
    choices = [
        (value, by) for value, by in zip(values, select, strict=True) if not _is_undefined(value)
    ]
    if _is_undefined(usual) and choices:
        usual, _ = choices.pop()
    if not choices:
        return usual
    if len(choices) == len(select):
        return cell
    kind = "mux" if len(choices) == 1 else "pmux"
    pins = {
        "a": usual, "b": tuple(net for value, _ in choices for net in value),
        "s": tuple(by for _, by in choices), "y": cell.pins["y"],
    }  # fmt: skip
    return replace(cell, operator=kind, type=kind, pins=pins)


def _is_undefined(bits: Bits) -> bool:
    return all(net == UNDEFINED for net in bits)


def _resolved(same: dict[int, int]) -> dict[int, int]:
    """Follow nets that stand for others to their ends."""
    result = {}
    for net in same:
        end = same[net]
        while end in same:
            end = same[end]
        result[net] = end
    return result


def renamed(module: Module, same: dict[int, int]) -> Module:
    """Return a module with other nets, or constants, in place of nets that it reads."""

    def new(bits: Bits) -> Bits:
        return tuple(same.get(net, net) for net in bits)

    def pins(cell: Cell) -> dict[str, Bits]:
        return {pin: bits if pin in ("y", "q") else new(bits) for pin, bits in cell.pins.items()}

    return replace(
        module,
        cells=tuple(replace(cell, pins=pins(cell)) for cell in module.cells),
        ports=tuple(
            replace(port, bits=new(port.bits)) if port.output else port for port in module.ports
        ),
        memories=tuple(
            replace(
                memory,
                reads=tuple(
                    replace(port, address=new(port.address), enable=new(port.enable))
                    for port in memory.reads
                ),
                writes=tuple(
                    replace(
                        port, address=new(port.address), enable=new(port.enable),
                        data=new(port.data),
                    )
                    for port in memory.writes
                ),
            )
            for memory in module.memories
        ),
        instances=tuple(
            replace(each, connections={name: new(bits) for name, bits in each.connections.items()})
            for each in module.instances
        ),
    )  # fmt: skip


def shift_registers(length: int) -> tuple[int, int]:
    """Count the shift registers and registers of a row of registers on 7 series.

    A shift register holds 32 bits; where a row is one longer than 16 or a multiple of 32, that one
    is a register, and rows of less than three stay what they are.
    """
    if length < 3:
        return 0, length
    whole, rest = divmod(length, 32)
    if rest in (1, 17):
        return whole + (rest == 17), 1
    return whole + (rest > 0), 0
