# SPDX-License-Identifier: Apache-2.0
"""Registry of simulators; other modules of `flows` get the one that is selected from here."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache

from flows.simulation.simulator import Simulator
from flows.simulation.verilator.simulator import Verilator
from hwgen.errors import InputError, did_you_mean

SIMULATORS: Mapping[str, Callable[[], Simulator]] = {"verilator": Verilator}
"""Class of each simulator, by name."""

DEFAULT = "verilator"
VARIABLE = "HWGEN_SIMULATOR"
"""Environment variable that names another one."""


def simulator() -> Simulator:
    """Return the simulator that `VARIABLE` names, by default Verilator.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    return _load(os.environ.get(VARIABLE) or DEFAULT)


@cache
def _load(name: str) -> Simulator:
    if name not in SIMULATORS:
        raise InputError(
            f"{VARIABLE}: there is no simulator {name!r}{did_you_mean(name, SIMULATORS)};"
            f" there are {', '.join(SIMULATORS)}"
        )
    return SIMULATORS[name]()
