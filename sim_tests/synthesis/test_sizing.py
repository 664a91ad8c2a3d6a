# SPDX-License-Identifier: Apache-2.0
"""Buffer trees and sizes of cells in mapped netlists."""

from __future__ import annotations

import copy
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.design import Design
from flows.build.load import parse_config
from flows.power.netlist_power import measure_power, workload
from flows.synthesis import liberty, synth_cache
from flows.synthesis import standard_cells as synthesis
from flows.synthesis.liberty import Library
from flows.synthesis.sizing.buffer_trees import (
    BufferSize,
    Node,
    Sink,
    balanced,
    best_tree,
    collapse,
    grow,
)
from flows.synthesis.sizing.cell_timing import Edge, families, timed_cells
from flows.synthesis.sizing.netlist_timing import CellTables, Constraints, Netlist, TimingGraph
from flows.synthesis.sizing.sizing import size_cells
from flows.synthesis.synth import synthesize
from hwgen.technologies import cell_library
from hwgen.technologies.model import StandardCells
from sim_tests.synthesis.tools import require_tools

SIZES = (1, 2, 4)
LOADS = (0.0, 100.0)


def pin(name: str, load: float) -> str:
    return f"pin ({name}) {{ direction : input; capacitance : {load}; }}"


def arc(source: str, attribute: str, strength: int, axis: Sequence[float]) -> str:
    """Return an arc whose delay is 10 ps and 4 ps for each fF at strength 1."""
    rows = {
        name: ", ".join(f"{first + 4.0 * load / strength}" for load in axis)
        for name, first in (("cell", 10.0), ("transition", 1.0))
    }
    tables = "".join(
        f'{name} (t) {{ values ("{row}", "{row}"); }}\n'
        for edge in ("rise", "fall")
        for name, row in ((f"cell_{edge}", rows["cell"]), (f"{edge}_transition",
                                                           rows["transition"]))
    )  # fmt: skip
    return f'timing () {{ related_pin : "{source}"; {attribute}\n{tables} }}\n'


def cell(
    name: str, function: str, inputs: str, strength: int, sense: str, axis: Sequence[float]
) -> str:
    pins = "\n".join(pin(each, strength) for each in inputs)
    arcs = "".join(arc(each, f"timing_sense : {sense};", strength, axis) for each in inputs)
    return f"""\
cell ({name}_X{strength}) {{ area : {strength + 1}; {pins}
  pin (Y) {{ direction : output; function : "{function}"; max_capacitance : {25 * strength};
    {arcs} }}
}}
"""


def library_text(loads: Sequence[float] = LOADS) -> str:
    cells = "".join(
        cell(name, function, inputs, strength, sense, loads)
        for strength in SIZES
        for name, function, inputs, sense in (
            ("BUF", "A", "A", "positive_unate"),
            ("INV", "!A", "A", "negative_unate"),
            ("NAND", "!(A & B)", "AB", "negative_unate"),
        )
    )
    register = f"""\
cell (DFF) {{ area : 8; ff (IQ, IQN) {{ clocked_on : "C"; next_state : "D"; }}
  pin (D) {{ direction : input; capacitance : 1; timing () {{ related_pin : "C";
    timing_type : setup_rising; rise_constraint (c) {{ values ("30"); }}
    fall_constraint (c) {{ values ("30"); }} }} }}
  pin (C) {{ direction : input; capacitance : 1; clock : true; }}
  pin (Q) {{ direction : output; function : "IQ"; max_capacitance : 25;
    {arc("C", "timing_type : rising_edge;", 1, loads)} }}
}}
"""
    return f"""\
library (simple) {{
  time_unit : "1ps"; capacitive_load_unit (1, ff);
  lu_table_template (t) {{ variable_1 : input_net_transition;
    variable_2 : total_output_net_capacitance; index_1 ("1, 1000");
    index_2 ("{", ".join(map(str, loads))}"); }}
{cells}{register}
}}
"""


@pytest.fixture(scope="module")
def library() -> Library:
    return liberty.prepare([library_text()])


@pytest.fixture(scope="module")
def tech() -> StandardCells:
    values = cell_library("nangate45").model_dump()
    values["buffer"] = {"cell": "BUF_X4", "input": "A", "output": "Y", "load_ff": 40}
    return StandardCells.model_validate({**values, "driver": "BUF_X2", "load_ff": 2})


def instance(cell_type: str, **connections: int | str) -> dict[str, Any]:
    directions = {pin: "output" if pin in "YQ" else "input" for pin in connections}
    return {"hide_name": 1, "type": cell_type, "parameters": {}, "attributes": {},
            "port_directions": directions,
            "connections": {pin: [bit] for pin, bit in connections.items()}}  # fmt: skip


def wide(sinks: int = 300, chained: int = 16) -> Netlist:
    """Return a register that enables many others, through a chain of buffers as ABC makes it.

    Each of them is a module, and holds the NAND of the enable and of its own register.
    """
    leaf = {
        "ports": {name: {"direction": direction, "bits": [bit]} for name, direction, bit in (
            ("c", "input", 2), ("e", "input", 3), ("q", "output", 5))},
        "netnames": {},
        "cells": {"nand": instance("NAND_X1", A=3, B=5, Y=4),
                  "register": instance("DFF", D=4, C=2, Q=5)},
    }  # fmt: skip
    cells = {"enable": instance("DFF", D=3, C=2, Q=4)}
    net, free = 4, 1000
    for index in range(sinks):
        if index and index % chained == 0:
            cells[f"chain{index}"] = instance("BUF_X1", A=net, Y=free)
            net, free = free, free + 1
        cells[f"leaf{index}"] = instance("leaf", c=2, e=net, q=2000 + index)
    ports = {
        "clk": {"direction": "input", "bits": [2]},
        "d": {"direction": "input", "bits": [3]},
        "q": {"direction": "output", "bits": [2000 + index for index in range(sinks)]},
    }
    return {"modules": {"leaf": leaf, "top": {"ports": ports, "netnames": {}, "cells": cells}}}


CONSTRAINTS = Constraints("clk", 0.4, 0.2)


def path_ns(netlist: Netlist, library: Library, tech: StandardCells) -> float:
    graph = TimingGraph(
        netlist["modules"], "top", CellTables(timed_cells(library)), tech, CONSTRAINTS
    )
    return CONSTRAINTS.period - graph.time().worst


def plain(netlist: Netlist, library: Library) -> dict[str, Any]:
    """Return a netlist without buffers and with the least cell of each family."""
    cells = timed_cells(library)
    least = {name: group[0] for name, group in families(cells).items()}
    modules = copy.deepcopy({k: v for k, v in netlist["modules"].items() if k not in cells})
    for module in modules.values():
        collapse(module, cells)
    return {
        name: (
            {port: entry["bits"] for port, entry in module["ports"].items()},
            {
                cell: (least.get(entry["type"], entry["type"]), entry["connections"])
                for cell, entry in module["cells"].items()
            },
        )
        for name, module in modules.items()
    }


def test_delays_of_cells(library: Library) -> None:
    cells = timed_cells(library)
    groups = families(cells)
    assert groups["NAND_X2"] == ["NAND_X1", "NAND_X2", "NAND_X4"]
    assert groups["INV_X1"] == ["INV_X1", "INV_X2", "INV_X4"]
    assert groups["DFF"] == ["DFF"]
    assert cells["BUF_X1"].buffer_pins == ("A", "Y")
    assert cells["INV_X1"].buffer_pins is None
    assert set(cells["INV_X1"].edges) == {
        Edge("A", "Y", True, False),
        Edge("A", "Y", False, True),
    }
    table = cells["BUF_X2"].edges[Edge("A", "Y", True, True)]
    assert table.at(0.5, 10.0) == pytest.approx((0.030, 0.021))
    assert table.at(0.5, 200.0)[0] == pytest.approx(0.410)  # beyond the table
    assert {key for key, _ in cells["DFF"].setups} == {"D"}
    some = timed_cells(library, ["NAND_X2"])
    assert set(some) == {"NAND_X1", "NAND_X2", "NAND_X4"}


def test_arcs_between_outputs_are_left_out() -> None:
    # The sum of full adders of asap7 depends on their carry.
    arcs = [arc("A", "timing_sense : positive_unate;", 1, LOADS) for _ in range(2)]
    arcs.append(arc("S", "timing_sense : positive_unate;", 1, LOADS))
    text = library_text().rstrip().removesuffix("}")
    text += f"""\
cell (TWO) {{ area : 1; {pin("A", 1)}
  pin (S) {{ direction : output; function : "A"; {arcs[0]} }}
  pin (T) {{ direction : output; function : "A"; {arcs[1]} {arcs[2]} }}
}} }}"""
    two = timed_cells(liberty.prepare([text]), ["TWO"])["TWO"]
    assert {(edge.source, edge.output) for edge in two.edges} == {("A", "S"), ("A", "T")}


def test_the_longest_path_is_that_of_the_chain(library: Library, tech: StandardCells) -> None:
    # From the clock: the register and 18 buffers drive 16 NANDs and a buffer each, the last 12.
    register, buffer, last = 10 + 4 * 17, 10 + 4 * 17, 10 + 4 * 12
    nand, setup = 10 + 4 * 1, 30
    expected = register + 17 * buffer + last + nand + setup
    assert path_ns(wide(), library, tech) == pytest.approx(expected / 1000)


def depths(nodes: list[Sink | Node], depth: int = 0) -> Iterator[tuple[Sink, int]]:
    for node in nodes:
        if isinstance(node, Sink):
            yield node, depth
        else:
            yield from depths(node.inside, depth + 1)


def of_size(capacity: float) -> BufferSize:
    return BufferSize("BUF", "A", "Y", 1.0, 1.0, capacity, lambda load: 1 + load / capacity)


@pytest.mark.parametrize(("count", "capacity"), [(10, 10), (100, 10), (300, 10), (1000, 10),
                                                 (500, 4)])  # fmt: skip
def test_trees_are_as_deep_as_the_logarithm(count: int, capacity: int) -> None:
    sinks = [Sink([index], 0, 1.0, 50.0) for index in range(count)]
    tree = best_tree(sinks, [of_size(capacity)], lambda load: 0.0, capacity, 0.0, -1000.0, 0.1)
    assert tree.load <= capacity
    reached = list(depths(tree.roots))
    assert sorted(sink.bits[0] for sink, _ in reached) == list(range(count))
    least = math.ceil(math.log(count / capacity, capacity))
    assert max(depth for _, depth in reached) <= least + 1
    waiting = list(tree.roots)
    while waiting:
        node = waiting.pop()
        if isinstance(node, Node):
            assert len(node.inside) <= capacity
            waiting += node.inside


def test_critical_sinks_stay_near_the_driver() -> None:
    sinks = [Sink([index], 0, 1.0, 10.0 if index < 3 else 90.0) for index in range(200)]
    tree = best_tree(sinks, [of_size(10.0)], lambda load: load, 10.0, 0.0, 0.0, 0.1)
    level = {sink.bits[0]: depth for sink, depth in depths(tree.roots)}
    assert [level[index] for index in range(3)] == [0, 0, 0]
    assert tree.required - tree.load >= 0  # in time


def test_sinks_that_wait_for_ever_make_no_chain() -> None:
    rng = np.random.default_rng(1)
    sinks = [Sink([index], 0, 1.0, float(rng.uniform(0, 1e6))) for index in range(400)]
    tree = best_tree(balanced(sinks, 2.0), [of_size(10.0)], lambda load: 0.0, 10.0, 0.0, -1e9, 0.1)
    assert max(depth for _, depth in depths(tree.roots)) <= 4
    buffers = [tree.area for tree in grow(sinks, of_size(10.0))]
    assert len(buffers) >= 40


def test_a_net_of_hundreds_of_sinks(library: Library, tech: StandardCells) -> None:
    chained = wide()
    sized = copy.deepcopy(chained)

    result = size_cells(sized, "top", library, tech, CONSTRAINTS)

    assert result is not None
    assert result.removed == 18
    assert result.path_ns == pytest.approx(path_ns(sized, library, tech))
    assert plain(sized, library) == plain(chained, library)
    assert set(sized["modules"]) == {"leaf", "top"}
    cells = sized["modules"]["top"]["cells"].values()
    timed = timed_cells(library)
    loads: dict[int, float] = defaultdict(float)
    source: dict[int, tuple[int, str]] = {}
    users: Counter[int] = Counter()
    leaf = sized["modules"]["leaf"]["cells"]["nand"]["type"]
    for each in cells:
        cell_type, connections = each["type"], each["connections"]
        if cell_type == "leaf":
            users[connections["e"][0]] += 1
            loads[connections["e"][0]] += timed[leaf].inputs["A"]
        elif cell_type.startswith("BUF"):
            loads[connections["A"][0]] += timed[cell_type].inputs["A"]
            source[connections["Y"][0]] = connections["A"][0], cell_type

    def depth(bit: int) -> int:
        return 1 + depth(source[bit][0]) if bit in source else 0

    assert sum(users.values()) == 300
    assert max(map(depth, users)) <= 4
    for bit, (_, cell_type) in source.items():
        assert loads[bit] <= timed[cell_type].limits["Y"]
    assert loads[4] <= timed["DFF"].limits["Q"]
    assert path_ns(sized, library, tech) < 0.35 * path_ns(chained, library, tech)


def test_nothing_that_is_light_changes(library: Library, tech: StandardCells) -> None:
    before = wide(sinks=4)
    netlist = copy.deepcopy(before)
    relaxed = CONSTRAINTS._replace(period=4.0)
    result = size_cells(netlist, "top", library, tech, relaxed)
    assert result is not None
    assert (result.removed, result.inserted) == (0, 0)
    assert netlist == before


def test_a_library_without_loads_is_left_alone(tech: StandardCells) -> None:
    library, netlist = liberty.prepare([library_text(loads=(0.0,))]), wide(sinks=40)
    before = copy.deepcopy(netlist)
    assert size_cells(netlist, "top", library, tech, CONSTRAINTS) is None
    assert netlist == before


def test_results_of_other_versions_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    digest = synth_cache.sources_digest.__wrapped__
    before = digest()
    read = Path.read_text

    def changed(path: Path, *args: Any, **options: Any) -> str:
        return read(path, *args, **options) + ("#" if path.name == "buffer_trees.py" else "")

    monkeypatch.setattr(Path, "read_text", changed)
    assert digest() != before


DESIGNS: Mapping[str, str] = {
    "stationary_core": """\
family: systolic
activation: int4
weight: int4
max_k: 64
array: {rows: 2, cols: 4, dataflow: weight_stationary, accumulator_depth: 4}
""",
    "table_core": """\
family: ternary_lut
activation: int4
weight: ternary
max_k: 64
array: {method: lut, group_size: 2, tables: 4, fetch_ports: 8}
""",
    "cube_core": """\
family: cube
activation: int4
weight: int4
max_k: 64
array: {rows: 2, cols: 2, depth: 4}
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.rotate(24)
def test_designs_compute_the_same(name: str, tmp_path: Path) -> None:
    """Compare a mapped design before and after, and its results with the golden model's."""
    require_tools("yosys", "verilator", technology="nangate45")
    text = f"name: {name}\n{DESIGNS[name]}target: {{technology: nangate45, clock_mhz: 500}}\n"
    config = parse_config(text)
    design = Design.of(config)
    synthesis.map_core(
        design.verilog, name, "nangate45", "nf", 2000.0, full_adders=True, work=tmp_path
    )
    library = liberty.load("nangate45")
    before, after = (
        json.loads((tmp_path / file).read_text(encoding="utf-8"))
        for file in ("mapped.json", "sized.json")
    )
    assert plain(before, library) == plain(after, library)
    result = synthesize(design, "nangate45", memories="registers")
    measure_power(config, result, workload(config, "random:6,8,6"))  # compares results
