# SPDX-License-Identifier: Apache-2.0
"""Functions of cells, from their Liberty groups, as truth tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from flows.calibration.cell_functions import UnreadableFunctionError, truth_table
from flows.synthesis.liberty import Library, cell_texts, insides
from hwgen.errors import CheckFailed

_FUNCTION = re.compile(r'(?<!\w)function\s*:\s*"([^"]*)"')
_DIRECTION = re.compile(r'\bdirection\s*:\s*"?(\w+)')
_NAME = re.compile(r"[A-Za-z_]\w*")
_FIELD = re.compile(r'\b(next_state|clocked_on|clear|preset)\s*:\s*"([^"]*)"')


@dataclass(frozen=True)
class Function:
    """A function of pins.

    Parameters
    ----------
    inputs : tuple of str
        Pins; the first is bit 0 of the index into the table.
    table : int
        Bit i is the output for index i.
    """

    inputs: tuple[str, ...]
    table: int


@dataclass(frozen=True)
class Register:
    """The flip-flop of a cell.

    Parameters
    ----------
    next_state, clock : Function
    never : tuple of Function
        Asynchronous clear and preset, which must be constantly 0 to be simulated.
    state, inverse : str
        Names of the state and of its inverse in the functions of the outputs.
    """

    next_state: Function
    clock: Function
    never: tuple[Function, ...]
    state: str
    inverse: str


@dataclass(frozen=True)
class CellModel:
    """A cell as it is simulated.

    Parameters
    ----------
    outputs : mapping
        Function of each output that is connected to anything.
    register : Register or None
    """

    outputs: Mapping[str, Function]
    register: Register | None = field(default=None)


def function_of(expression: str) -> Function:
    """Return the function of a Boolean expression of Liberty.

    Raises
    ------
    UnreadableFunctionError
        If it is none.
    """
    inputs = tuple(dict.fromkeys(_NAME.findall(expression)))
    values = truth_table(expression, inputs[::-1])  # whose first input is the most significant
    return Function(inputs, sum(value << index for index, value in enumerate(values)))


def cell_models(library: Library, names: Iterable[str]) -> dict[str, CellModel]:
    """Return the models of cells of a library.

    Raises
    ------
    CheckFailed
        If a cell has no function that can be simulated.
    """
    wanted = set(names)
    models = {}
    missing = wanted - library.cells.keys()
    for name, text in cell_texts(library):
        if name not in wanted:
            continue
        try:
            models[name] = _model(text)
        except (UnreadableFunctionError, LookupError):
            missing.add(name)
    if missing:
        listed = ", ".join(sorted(missing))
        raise CheckFailed(f"cells without a function in the Liberty files: {listed}")
    return models


def _model(text: str) -> CellModel:
    outputs = {}
    for pin, inside in insides(text, ["pin"]):
        direction, function = _DIRECTION.search(inside), _FUNCTION.search(inside)
        if direction and direction[1] == "output":
            if function is None:
                raise LookupError(pin)
            outputs[pin.strip('" ')] = function_of(function[1])
    if not outputs or next(insides(text, ["latch", "statetable", "ff_bank", "latch_bank"]), None):
        raise LookupError("not a gate or a flip-flop")
    flip_flop = next(insides(text, ["ff"]), None)
    return CellModel(outputs, _register(*flip_flop) if flip_flop else None)


def _register(argument: str, inside: str) -> Register:
    state, inverse = (name.strip('" ') for name in argument.split(","))
    fields = dict(_FIELD.findall(inside))
    never = tuple(function_of(fields[key]) for key in ("clear", "preset") if key in fields)
    return Register(
        function_of(fields["next_state"]), function_of(fields["clocked_on"]), never, state, inverse
    )


def reduced(function: Function, constants: Sequence[int | None]) -> Function:
    """Return a function with some of its inputs constant.

    Parameters
    ----------
    function : Function
    constants : sequence of int or None
        Of each input, None if it is not constant.
    """
    free = [index for index, value in enumerate(constants) if value is None]
    fixed = sum((value or 0) << index for index, value in enumerate(constants))
    table = 0
    for index in range(1 << len(free)):
        position = fixed | sum((index >> i & 1) << free[i] for i in range(len(free)))
        table |= (function.table >> position & 1) << index
    return Function(tuple(function.inputs[i] for i in free), table)
