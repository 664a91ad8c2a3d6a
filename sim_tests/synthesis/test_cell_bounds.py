# SPDX-License-Identifier: Apache-2.0
"""Bounds of the cost of components, and the functions of cells that they come from."""

from __future__ import annotations

import pytest

from cost_model.netlist.components import COMPONENTS
from flows.calibration.bounds import RULES, bounds, bounds_of
from flows.calibration.cell_functions import (
    UnreadableFunctionError,
    smallest_cells,
    truth_table,
)
from flows.calibration.fit import Bound
from flows.calibration.results import QUANTITIES
from flows.synthesis import liberty
from hwgen.technologies import technology_names
from sim_tests.synthesis.tools import require_tools

F, T = False, True


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("A", (F, F, T, T)),
        ("!(A B)", (T, T, T, F)),
        ("(A * B)'", (T, T, T, F)),
        ("A' & B", (F, T, F, F)),
        ("A + B", (F, T, T, T)),
        ("A ^ B", (F, T, T, F)),
        ("A | B & 0", (F, F, T, T)),
        ("((!A) | (!B))", (T, T, T, F)),
        ("A'' B ^ 1", (T, T, T, F)),
    ],
)
def test_functions_of_liberty(text: str, table: tuple[bool, ...]) -> None:
    assert truth_table(text, ("A", "B")) == table


@pytest.mark.parametrize("text", ["", "A &", "A )", "(A", "C", "A ? B", "A B )"])
def test_functions_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UnreadableFunctionError):
        truth_table(text, ("A", "B"))


def test_smallest_cells_have_the_function() -> None:
    cells = """
        library (l) {
          capacitive_load_unit (1, ff);
          cell (big) { area : 3; pin (Y) { direction : output; function : "!(A & B)"; }
            pin (A) { direction : input; } pin (B) { direction : input; } }
          cell (nor) { area : 2; pin (Y) { direction : output; function : "(A | B)'"; }
            pin (A) { direction : input; } pin (B) { direction : input; } }
          cell (add) { area : 9; pin (S) { direction : output; function : "A ^ B"; }
            pin (C) { direction : output; function : "A B"; }
            pin (A) { direction : input; } pin (B) { direction : input; } }
          cell (reset) { area : 5; ff (IQ, IQN) { clocked_on : "CK"; next_state : "D"; }
            pin (D) { direction : input; } pin (CK) { direction : input; }
            pin (R) { direction : input; } }
          cell (plain) { area : 6; ff (IQ, IQN) { clocked_on : "CK"; next_state : "D"; }
            pin (D) { direction : input; } pin (CK) { direction : input; } }
        }
    """
    result = smallest_cells(liberty.prepare([cells]))
    assert result == {"nand2": "nor", "half_adder": "add", "flip_flop": "plain"}


def test_every_component_has_rules() -> None:
    assert RULES.keys() == COMPONENTS.keys()


def test_what_a_library_lacks_is_made_of_other_cells() -> None:
    prices = {"nand2": 2.0, "inverter": 1.0, "flip_flop": 10.0}
    result = bounds_of(prices.get)
    assert result["xor_bit"].high == pytest.approx(1.3 * 4 * 2)
    assert result["register_bit"] == Bound(10.0, 10.0, 13.0)


@pytest.mark.slow
@pytest.mark.rotate(16)
@pytest.mark.parametrize("technology", technology_names("standard_cells"))
def test_bounds_are_in_order(technology: str) -> None:
    require_tools(technology=technology)
    cells = smallest_cells(liberty.load(technology))
    assert {"nand2", "inverter", "xor2", "flip_flop"} <= cells.keys()
    for quantity in QUANTITIES:
        for name, bound in bounds(technology, quantity).items():
            assert 0 <= bound.low <= bound.usual <= bound.high, name
            assert bound.high > 0, name
