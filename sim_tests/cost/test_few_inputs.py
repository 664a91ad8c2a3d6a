# SPDX-License-Identifier: Apache-2.0
"""Functions of a few bits: truth tables are what cells compute, and count as little as it takes."""

import random
from collections.abc import Callable

import pytest

from cost_model.netlist import model
from cost_model.netlist.components import components
from cost_model.netlist.few_inputs import FEW, few_input_counts, function_of
from cost_model.netlist.liveness import Liveness
from cost_model.netlist.model import Cell, Module, Port
from flows.build.load import parse_config
from sim_tests.support.designs import design_of

WIDTH = 3

OPERATORS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a, b: -a,
    "and": lambda a, b: a & b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a, b: ~a,
    "lt": lambda a, b: a < b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "reduce_or": lambda a, b: a != 0,
    "shl": lambda a, b: a << b,
    "mux": lambda a, b: a if a % 2 else b,
}


def _component_type(operator: str) -> str:
    return next(kind for kind, types in model.OPERATORS.items() if operator in types)


def _drawn(rng: random.Random, inputs: int, cells: int) -> tuple[Module, Callable[[int], int]]:
    """Return a module of operators in a row, and what it computes of its input."""
    nets = list(range(inputs))
    steps: list[tuple[str, list[int], list[int], list[int]]] = []
    made: list[Cell] = []
    for _ in range(cells):
        operator = rng.choice(list(OPERATORS))
        a, b = (rng.choices(nets[-2 * WIDTH :] + nets, k=WIDTH) for _ in "ab")
        single = operator in ("lt", "ge", "eq", "reduce_or")
        y = list(range(len(nets), len(nets) + (1 if single else WIDTH)))
        nets += y
        pins = {"a": tuple(a), "b": tuple(b), "y": tuple(y)}
        if operator == "mux":  # `b` is the value for 1
            pins |= {"a": tuple(b), "b": tuple(a), "s": (a[0],)}
        if operator in ("neg", "not", "reduce_or"):
            del pins["b"]
        made.append(Cell(_component_type(operator), operator, (False, False), pins))
        steps.append((operator, a, b, y))
    out = nets[-WIDTH - 1 :]
    ports = (Port("i", False, tuple(range(inputs))), Port("o", True, tuple(out)))

    def compute(value: int) -> int:
        bits = [value >> n & 1 for n in range(inputs)] + [0] * (len(nets) - inputs)
        for operator, a, b, y in steps:
            x, z = (sum(bits[net] << n for n, net in enumerate(word)) for word in (a, b))
            result = int(OPERATORS[operator](x, z))
            for n, net in enumerate(y):
                bits[net] = result >> n & 1
        return sum(bits[net] << n for n, net in enumerate(out))

    return Module("drawn", ports, tuple(made)), compute


def test_truth_tables_are_what_the_cells_compute() -> None:
    rng = random.Random(91)
    for _ in range(60):
        inputs = rng.randint(1, 7)
        module, compute = _drawn(rng, inputs, rng.randint(1, 6))
        live = Liveness(module, {})
        function = function_of(module, live)
        assert function is not None
        count, tables = function
        mine = [compute(value) for value in range(1 << inputs)]
        # Inputs that no bit depends on are left out: the tables take the others in order.
        reads = [n for n in range(inputs) if n in live.nets]
        for index, table in enumerate(tables):
            result = {table >> sub & 1 for sub in range(1 << count)}
            assert result == {value >> index & 1 for value in mine}
        if count == inputs == len(reads):
            spread = [
                sum((t >> v & 1) << n for n, t in enumerate(tables)) for v in range(1 << count)
            ]
            assert spread == mine


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ([0b1000], {"mask_bit": 1}),  # and
        ([0b1110, 0b0001], {"mask_bit": 1}),  # or, and its inverse
        ([0b0110], {"xor_bit": 1}),
        ([0b1100], {}),  # an input
        ([0b1111, 0], {}),  # constants
        ([0b0011], {"not_bit": 1}),
    ],
)
def test_functions_of_two_bits(tables: list[int], expected: dict[str, int]) -> None:
    assert few_input_counts(2, tables) == expected


def test_a_better_variable_order_is_selected() -> None:
    # Three ands of pairs, ored: two nodes a pair if pairs stay together, many if they do not.
    pairs = [(0, 3), (1, 4), (2, 5)]
    table = sum(any(value >> a & value >> b & 1 for a, b in pairs) << value for value in range(64))
    assert sum(few_input_counts(6, [table]).values()) <= 8


def test_what_keeps_something_or_reads_much_is_no_function_of_a_few_bits() -> None:
    wide = FEW + 1
    ports = (Port("i", False, tuple(range(wide))), Port("o", True, (wide,)))
    cell = Cell("reduce_xor", "reduce_xor", (False, False), {"a": tuple(range(wide)), "y": (wide,)})
    module = Module("wide", ports, (cell,))
    assert function_of(module, Liveness(module, {})) is None
    kept = Cell("register", "dff", (False, False), {"clk": (0,), "d": (1,), "q": (2,)})
    ports = (Port("i", False, (0, 1)), Port("o", True, (2,)))
    module = Module("kept", ports, (kept,))
    assert function_of(module, Liveness(module, {})) is None


def test_tables_of_terms_and_unsigned_elements_cost_little() -> None:
    design = design_of(
        parse_config(
            "{name: core, family: cube, activation: uint16, weight: int6_g64,"
            " array: {pe: bit_serial, rows: 1, cols: 1}}",
            "core.yaml",
        )
    ).netlist
    result = components(design)
    # 64 codes of 3 digits of 4 bits each: a table has hundreds of multiplexers as it is written.
    assert result["terms_int6_g64"]["mux_bit"] < 40
    assert result["decode_uint16"] == {}
