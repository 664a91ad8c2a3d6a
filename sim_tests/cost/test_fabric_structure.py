# SPDX-License-Identifier: Apache-2.0
"""Estimates of FPGA resources from structure: look-up tables that cover gates, and exact rules."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count as numbers
from itertools import pairwise
from typing import Any

import pytest
from amaranth.hdl import Module as Hardware
from amaranth.hdl import Mux, Signal
from amaranth.lib.memory import Memory as HardwareMemory

from cost_model.estimate.costed import STRUCTURE
from cost_model.estimate.technology import technology
from cost_model.netlist.fabric import elaborate
from cost_model.netlist.fabric.components import COMPONENTS, EXACT, fabric_components
from cost_model.netlist.fabric.fabric import Fabric, Read, fabric
from cost_model.netlist.fabric.gates import FALSE, TRUE, Gates
from cost_model.netlist.fabric.lut_cover import Cover, balanced
from cost_model.netlist.fabric.lut_trees import TreeCover
from cost_model.netlist.model import TOP, Memory, MemoryPort, Module, Port
from cost_model.netlist.netlist import Netlist
from cost_model.netlist.order import in_order, strongly_connected
from cost_model.netlist.rewrite import shift_registers
from flows.build.load import parse_config
from flows.build.netlist_cache import convert
from flows.build.verilog import rtlil_to_netlist
from flows.calibration import fpga
from flows.calibration.draws import NAME
from flows.calibration.structural_fpga import totals
from hwgen.core.operation import Job
from hwgen.core.registry import families
from hwgen.reports.configuration import template
from hwgen.technologies import costs_of, technologies, technology_names
from hwgen.technologies.fpga_model import LutTrees
from sim_tests.cost.test_structure import rtlil_units
from sim_tests.support.designs import design_of, estimate_of
from sim_tests.support.selection import commit_seed

FABRICS = ("ecp5", "ice40")
"""Families whose speed is known too."""

COUNTED = tuple(name for name in technology_names("fpga") if costs_of(name))
"""Families with a table of costs, all of which must be installed."""

CORES = {
    "systolic": "array: {rows: 2, cols: 3}",
    "ternary_lut": "array: {tables: 2, fetch_ports: 4}",
    "cube": "array: {rows: 2, cols: 2, depth: 2}",
    "adder_tree": "array: {rows: 2, cols: 2, depth: 2}",
    "broadcast_2d": "array: {rows: 2, cols: 2}",
    "gemm_stream": "compute: {family: systolic, array: {rows: 2, cols: 3}}\n"
    "buffers: {activation_kib: 1, weight_kib: 1, output_kib: 1, column_kib: 1}\n"
    "memory: {data_width: 32}",
}
SMALL = {
    **CORES,
    "vector": "array: {operations: [softmax, add], lanes: 2, longest_row: 9, function_bits: 8}",
    "attention": "head: 8\nmax_keys: 64\narray: {rows: 8, lanes: 2}",
    "stream_engine": "compute: {family: vector, array: {operations: [softmax, add], lanes: 2,"
    " longest_row: 9, function_bits: 8}}\n"
    "memory: {data_width: 32}",
    "transformer": "units: {only: {family: gemm_stream,"
    " compute: {family: systolic, array: {rows: 2, cols: 2}},"
    " buffers: {activation_kib: 1, weight_kib: 1, output_kib: 1, column_kib: 1}}}\n"
    "memory: {data_width: 32}",
}
"""Small designs of families; of another it is the template."""


DEEP = "array: {rows: 3, cols: 1, dataflow: weight_stationary, accumulator_depth: 64}"
"""Sums in a block memory, which is read around."""


def _luts(size: int, gates: Gates, sinks: list[int]) -> int:
    return len(Cover(*balanced(gates, sinks, size), size).roots())


def test_gates_that_one_reads_are_in_its_look_up_table() -> None:
    gates = Gates()
    a, b, c, d = (gates.input() for _ in range(4))
    one, other = gates.both(a, b), gates.both(c, d)
    either = gates.either(one, other)
    assert _luts(4, gates, [either]) == 1
    assert _luts(3, gates, [either]) == 2
    assert _luts(4, gates, [one, either]) == 2  # one of them is needed by itself
    assert _luts(4, gates, []) == 0


@pytest.mark.parametrize("size", [4, 6])
def test_wide_gates_are_divided(size: int) -> None:
    for bits in range(2, 40):
        gates = Gates()
        wide = gates.all([gates.input() for _ in range(bits)])
        least = -(-(bits - 1) // (size - 1))
        # Trees of two inputs each, as Yosys makes them, do not always fill look-up tables.
        assert least <= _luts(size, gates, [wide]) <= 2 * least


@pytest.mark.parametrize("size", [4, 6])
def test_full_adders_are_two_look_up_tables(size: int) -> None:
    gates = Gates()
    a, b, c = (gates.input() for _ in range(3))
    assert _luts(size, gates, list(gates.full_adder(a, b, c))) == 2
    assert _luts(size, gates, list(gates.full_adder(a, TRUE, FALSE))) == 1  # an inverter
    assert gates.full_adder(a, a ^ 1, c) == (c ^ 1, c)


TREES = LutTrees(pair=10, tree=10, long=12, multiplexer=5, long_luts=2)


def _trees(gates: Gates, *sinks: int) -> int:
    return len(TreeCover(*balanced(gates, list(sinks), 4), TREES).roots())


def test_trees_make_what_reads_each_input_once() -> None:
    gates = Gates()
    a, b, c, d, e = (gates.input() for _ in range(5))
    xors = gates.differ(gates.differ(a, b ^ 1), gates.differ(c, d))
    assert _trees(gates, gates.differ(a, b)) == 1
    assert _trees(gates, xors) == 1
    assert _trees(gates, gates.either(xors, e)) == 2  # one of five inputs
    assert _trees(gates, gates.both(gates.either(gates.both(a, b), c), d)) == 2  # no two pairs
    assert _trees(gates, gates.choose(a, b, c)) == 1
    assert _trees(gates, gates.both(gates.choose(a, b, c), d)) == 2  # nothing behind a multiplexer
    assert _trees(gates, *gates.full_adder(a, b, c)) == 3


def test_trees_are_functions_of_their_inputs() -> None:
    draw = random.Random(commit_seed())
    for _ in range(20):
        gates = Gates()
        known = [gates.input() for _ in range(6)]
        for _ in range(40):
            a, b, c = (bit ^ draw.randrange(2) for bit in draw.sample(known, 3))
            makes: list[Callable[[int, int], int]]
            makes = [gates.both, gates.differ, partial(gates.choose, c)]
            known.append(draw.choice(makes)(a, b))
        cover = TreeCover(*balanced(gates, known[-8:], 4), TREES)
        taken = {node for node in cover.order if cover.reads[node]}
        for node in taken:
            leaves = cover.best[node]
            assert 2 <= len(leaves) <= 5
            assert all(leaf in taken or cover.gates.ands[leaf] is None for leaf in leaves)
            waiting = [node]
            while waiting:
                inside = cover.gates.ands[waiting.pop()]
                assert inside is not None, "it reads what is no leaf"
                waiting += [literal >> 1 for literal in inside if literal >> 1 not in leaves]


def test_equal_gates_and_constants_take_nothing() -> None:
    gates = Gates()
    a, b = gates.input(), gates.input()
    assert gates.both(a, b) == gates.both(b, a)
    assert gates.both(a, TRUE) == a
    assert gates.both(a, gates.both(a, b)) == gates.both(a, b)
    assert gates.differ(a, b ^ 1) == gates.differ(a, b) ^ 1
    assert gates.choose(a, b, b) == b


def _word(gates: Gates, bits: int) -> list[int]:
    return [gates.input() for _ in range(bits)]


def _value(gates: Gates, literal: int, inputs: dict[int, bool]) -> bool:
    inside = gates.ands[literal >> 1]
    if inside is None:
        result = inputs.get(literal >> 1, False)
    else:
        result = all(_value(gates, other, inputs) for other in inside)
    return result ^ bool(literal & 1)


@pytest.mark.parametrize("signed", [False, True])
def test_gates_of_words_have_their_functions(signed: bool) -> None:
    """Comparisons, shifts and sums of several numbers, for all values of small words."""
    gates, bits = Gates(), 3
    words = [_word(gates, bits) for _ in range(3)]
    below = elaborate.less(gates, words[0], words[1], signed=signed, same=False)
    rows = [elaborate.extended(word, bits + 2, signed=signed) for word in words]
    pair = elaborate.compressed(gates, rows, bits + 2)
    choice = elaborate.indexed(gates, [*words[0], *words[1]], words[2][:1], bits)
    for number in range(1 << 3 * bits):
        values = [number >> bits * place & 7 for place in range(3)]
        inputs = {
            literal >> 1: bool(value >> index & 1)
            for value, word in zip(values, words, strict=True)
            for index, literal in enumerate(word)
        }

        def read(word: list[int], inputs: dict[int, bool] = inputs) -> int:
            return sum(_value(gates, bit, inputs) << index for index, bit in enumerate(word))

        numbers = [v - 8 if signed and v >= 4 else v for v in values]
        assert _value(gates, below, inputs) == (numbers[0] < numbers[1])
        assert (read(pair[0]) + read(pair[1])) % 32 == sum(numbers) % 32
        assert read(choice) == values[values[2] & 1]


def test_what_depends_on_itself_comes_in_one_group() -> None:
    result = strongly_connected([[1], [2], [1], [0, 2], [4]])
    assert [sorted(group) for group in result] == [[1, 2], [0], [3], [4]]
    assert in_order([0, 1, 2], [[2], [0], [1]], {1})[-1] == 1


@pytest.mark.parametrize("target", COUNTED)
@pytest.mark.parametrize("family", CORES)
@pytest.mark.rotate(16)
def test_every_family_has_resources(family: str, target: str) -> None:
    config = parse_config(f"name: core\nfamily: {family}\n{CORES[family]}\n")
    result = estimate_of(config, target)
    assert result["costs_of"] == STRUCTURE
    assert not [note for note in result["notes"] if "estimate" in note]
    for resource in ("luts", *EXACT.values()):
        assert result["metrics"][resource] is not None, resource
    assert result["metrics"]["luts"] > 0
    assert result["metrics"]["flip_flops"] > 0


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("ecp5", "family: systolic\narray: {rows: 2, cols: 2}"),
        ("ice40", "family: systolic\nactivation: int4\nweight: int3\narray: {rows: 2, cols: 2}"),
        ("ecp5", f"family: systolic\nactivation: int9\nweight: int5\n{DEEP}"),
    ],
)
def test_structures_agree_with_synthesis(target: str, text: str) -> None:
    """Registers, DSP blocks and memories are what Yosys makes, all as one."""
    config = parse_config(f"name: core\n{text}\n")
    design = design_of(config)
    rules = fabric(target)
    assert rules is not None
    counts = totals(design.netlist, rules)
    used = fpga.mapped(design.verilog, target)["resources"]
    for kind, resource in EXACT.items():
        exact = 0.05 if kind == "carry" else 0
        assert counts.get(kind, 0) == pytest.approx(used[resource], rel=exact), resource
    about = technology(target).structure
    luts = sum(about["costs"]["luts"].get(kind, 0.0) * n for kind, n in counts.items())
    assert luts == pytest.approx(used["luts"], rel=about["uncertainty"]["luts"])


@pytest.mark.parametrize(
    ("length", "made"),
    [(1, (0, 1)), (2, (0, 2)), (3, (1, 0)), (16, (1, 0)), (17, (1, 1)), (32, (1, 0)), (33, (1, 1)),
     (48, (2, 0))],
)  # fmt: skip
def test_registers_in_a_row_are_shift_registers(length: int, made: tuple[int, int]) -> None:
    assert shift_registers(length) == made


@pytest.mark.parametrize(
    ("factors", "blocks"),
    [((18, 18), 1), ((19, 19), 1), ((20, 19), 2), ((22, 19), 2), ((22, 20), 4)],
)
def test_a_part_of_one_bit_takes_no_dsp_block(factors: tuple[int, int], blocks: int) -> None:
    """As many as Yosys makes of products in ecp5."""
    rules = fabric("ecp5")
    assert rules is not None
    assert rules.dsps(*rules.divided(*factors, signed=True)) == blocks


def test_dsp_blocks_of_xc7_contain_adders_and_registers() -> None:
    config = parse_config("name: core\nfamily: cube\narray: {rows: 2, cols: 2, depth: 2}\n")
    counts = {
        name: totals(design_of(config).netlist, rules)
        for name in ("ecp5", "xc7")
        if (rules := fabric(name)) is not None
    }
    assert counts["xc7"]["dsp"] == counts["ecp5"]["dsp"] == 8
    assert not counts["xc7"].get("carry")
    assert counts["xc7"]["flip_flop"] < counts["ecp5"]["flip_flop"]


@pytest.mark.parametrize("target", COUNTED)
def test_every_kind_of_a_structure_has_a_price(target: str) -> None:
    costs = technology(target).structure["costs"]
    assert set(COMPONENTS) == set(costs["luts"])
    assert {kind for kind, resource in EXACT.items() if costs[resource] == {kind: 1.0}} == set(
        EXACT
    )


@pytest.mark.parametrize("target", FABRICS)
def test_metrics_per_second_are_at_fmax(target: str) -> None:
    config = parse_config("name: core\nfamily: systolic\narray: {rows: 2, cols: 3}\n")
    result = estimate_of(config, target, 500.0, {"w": [(4, 8, 4)]})
    fmax = result["metrics"]["fmax_mhz"]
    assert 20 < fmax < 300  # the class of these families
    assert result["clock_basis"] == "fmax"
    assert result["figures_at_mhz"] == fmax
    assert result["metrics"]["tops"] == pytest.approx(2e-6 * config.macs_per_cycle * fmax)
    cycles = result["metrics"]["cycles(w)"]
    assert result["metrics"]["latency_ms(w)"] == pytest.approx(cycles / fmax * 1e-3)
    slow = estimate_of(config, target, 10.0)
    assert slow["clock_basis"] == "asked for"


@pytest.mark.parametrize("target", FABRICS)
def test_delays_state_their_error(target: str) -> None:
    timing = technology(target).timing
    assert timing["provenance"]["held_out"]["designs"] >= 8
    assert 0 < timing["uncertainty"] < 0.3


def tried(family: str) -> list[str]:
    """Return the technologies that a family is estimated for.

    Look-up tables of large designs take long to find: of a fabric, another for each commit.
    """
    if family in CORES and family != "gemm_stream":
        return list(technologies())
    drawn = COUNTED[commit_seed() % len(COUNTED)]
    return [name for name in technologies() if fabric(name) is None or name == drawn]


@pytest.mark.parametrize("family", families())
@pytest.mark.rotate(9)
def test_nothing_is_null_without_a_reason(family: str) -> None:
    small = f"name: core\nfamily: {family}\n{SMALL[family]}\n" if family in SMALL else None
    config = parse_config(small or template(family))
    work: dict[str, Any] = {"workloads": {"w": [(8, 8, 8)]}}
    if not config.multiplies:
        operation = config.operations[0]
        sizes = {size.name: size.natural for size in operation.sizes}
        work = {"jobs": {"w": Job(operation, sizes, operation.check_scalars({}))}}
    for name in tried(family):
        result = estimate_of(config, name, **work)
        null = {metric for metric, value in result["metrics"].items() if value is None}
        assert null == set(result["unknown"]), name


def rules_of(family: str) -> Fabric:
    result = fabric(family)
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("family", "width", "depth", "read", "form", "count"),
    [
        ("ecp5", 75, 16, "at once", "small", 19),
        ("ecp5", 75, 33, "clocked", "small", 57),
        ("ecp5", 75, 64, "clocked", "block", 3),
        ("ecp5", 32, 1025, "clocked", "block", 3),
        ("ecp5", 75, 2049, "clocked", "block", 12),
        ("ecp5", 1, 12, "registered", "registers", 0),
        ("xc7", 75, 28, "at once", "small", 13),
        ("xc7", 75, 64, "clocked", "small", 25),
        ("xc7", 20, 128, "clocked", "small", 14),
        ("xc7", 24, 128, "clocked", "block", 1),
        ("xc7", 37, 1025, "clocked", "block", 4),
        ("ice40", 75, 4, "registered", "registers", 0),
        ("ice40", 577, 6, "registered", "block", 37),
        ("ice40", 577, 6, "at once", "registers", 0),
    ],
)
def test_memories_of_an_fpga(
    family: str, width: int, depth: int, read: Read, form: str, count: int
) -> None:
    rules = rules_of(family)
    result = rules.store(width, depth, [read])
    assert result.form == form
    assert (rules.brams(width, depth) if form == "block" else result.cells) == count


def test_all_ports_of_a_memory_count() -> None:
    """Each port has small memories of its own; five of a job's words cost more than registers."""
    rules = rules_of("ecp5")
    assert rules.store(892, 4, ["registered"]).form == "small"
    assert rules.store(892, 4, ["registered"] * 5).form == "registers"


def test_unused_bits_of_memories_are_not_counted() -> None:
    whole, part = (
        totals_of("ecp5", memory_netlist(width=72, depth=512, read_bits=bits)) for bits in (72, 10)
    )
    assert (whole["bram"], part["bram"]) == (2, 1)
    small, registers = (
        totals_of("ecp5", memory_netlist(width=32, depth=4, read_bits=9, ports=ports))
        for ports in (1, 9)
    )
    assert (small["lutram"], small.get("flip_flop", 0)) == (3, 0)
    assert (registers.get("lutram", 0), registers["flip_flop"]) == (0, 4 * 9)


@pytest.mark.parametrize(
    ("target", "depth", "used", "registers"),
    [
        ("xcup", 16, 20, 2 * 14),  # small memories of 14 bits
        ("xcup", 64, 20, 3 * 7 + 20),  # of 7 bits, and what is read is a register
        ("xc7", 16, 20, 4 * 6),
        ("ecp5", 16, 20, 5 * 4),
        ("ecp5", 512, 40, 2 * 72 + 40 + 9 + 2),  # blocks of 36 bits, and what forwards writes
        ("ice40", 256, 20, 2 * 32 + 20 + 8 + 2),
    ],
)
@pytest.mark.rotate(3)
def test_unused_bits_of_words_are_not_written(
    target: str, depth: int, used: int, registers: int
) -> None:
    """Registers whose bits are written to unused slices of a memory only are removed."""
    m, clocked = Hardware(), depth > 16
    m.submodules.words = words = HardwareMemory(shape=90, depth=depth, init=[])
    write = words.write_port()
    read = words.read_port(domain="sync" if clocked else "comb")
    if clocked:
        m.d.comb += read.en.eq(1)
    data, enable, output = Signal(90), Signal(), Signal(used)
    inputs = {
        "data": data, "enable": enable, "to": Signal(len(write.addr)), "at": Signal(len(read.addr))
    }  # fmt: skip
    m.d.sync += write.data.eq(data)
    m.d.comb += [
        write.en.eq(enable),
        write.addr.eq(inputs["to"]),
        read.addr.eq(inputs["at"]),
        output.eq(read.data),
    ]
    assert counts_as_mapped(m, inputs, {"output": output}, target)["flip_flop"] == registers


@pytest.mark.rotate(3)
def test_memories_share_the_registers_of_what_is_written() -> None:
    """Writes of memories of ecp5 happen a cycle later; data and address are stored once."""
    m = Hardware()
    inputs = {"data": Signal(36), "to": Signal(9), "at": Signal(9)}
    outputs = {}
    for number in range(3):
        m.submodules[f"words_{number}"] = words = HardwareMemory(shape=36, depth=512, init=[])
        write, read = words.write_port(), words.read_port()
        inputs[f"enable_{number}"] = enable = Signal()
        outputs[f"output_{number}"] = output = Signal(36)
        m.d.comb += [
            read.en.eq(1), read.addr.eq(inputs["at"]), output.eq(read.data), write.en.eq(enable),
            write.addr.eq(inputs["to"]), write.data.eq(inputs["data"]),
        ]  # fmt: skip
    counts = counts_as_mapped(m, inputs, outputs, "ecp5")
    assert counts["flip_flop"] == 36 + 9 + 36 + 3 * 2


@pytest.mark.parametrize(("elsewhere", "made"), [(False, (8, 8)), (True, (8, 0))])
@pytest.mark.rotate(3)
def test_shared_multiplexers_are_no_resets(elsewhere: bool, made: tuple[int, int]) -> None:
    """A register that a constant is loaded into is reset if nothing else reads what it loads."""
    m = Hardware()
    select, data, output, other = Signal(), Signal(8), Signal(8), Signal(8)
    value = Signal(8)
    m.d.comb += value.eq(Mux(select, 0x40, data))
    row = [Signal(8, reset_less=True) for _ in range(4)]
    for before, after in pairwise([value, *row]):
        m.d.sync += after.eq(before)
    m.d.comb += output.eq(row[-1])
    outputs = {"output": output}
    if elsewhere:
        m.d.comb += other.eq(value)
        outputs["other"] = other
    counts = counts_as_mapped(m, {"select": select, "data": data}, outputs, "xcup")
    assert (counts["lutram"], counts.get("flip_flop", 0)) == made


@pytest.mark.parametrize("target", ["ecp5", "gowin", "ice40", "nexus", "xcup"])
@pytest.mark.parametrize("operators", ["<", "<= >", "< - >="])
@pytest.mark.rotate(10)
def test_comparisons_share_carry_chains(target: str, operators: str) -> None:
    """Comparisons are subtractions, shared with others, or look-up tables before carry cells."""
    m = Hardware()
    inputs = {"a": Signal(23), "b": Signal(23)}
    functions: dict[str, Callable[..., Any]] = {
        "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
        "-": operator.sub,
    }  # fmt: skip
    outputs = {}
    for number, name in enumerate(operators.split()):
        outputs[f"o{number}"] = output = Signal(23 if name == "-" else 1)
        m.d.comb += output.eq(functions[name](inputs["a"], inputs["b"]))
    _assert_carries_and_luts_as_mapped(m, inputs, outputs, target)


@pytest.mark.parametrize("target", ["ecp5", "xcup"])
@pytest.mark.parametrize("limit", [0x1000, 0x7F8000, 0x7FFFFF])
@pytest.mark.rotate(6)
def test_comparisons_with_constants_are_short(target: str, limit: int) -> None:
    """Low zeros of a number take no carry cell where it is subtracted."""
    m, value, output = Hardware(), Signal(24), Signal()
    m.d.comb += output.eq(value >= limit)
    _assert_carries_and_luts_as_mapped(m, {"value": value}, {"output": output}, target)


@pytest.mark.parametrize("target", ["ecp5", "ice40", "xcup"])
@pytest.mark.rotate(3)
def test_values_that_nothing_keeps_are_any_value(target: str) -> None:
    """A register that is not enabled may load anything, which takes no look-up table."""
    m = Hardware()
    inputs = {name: Signal(24) for name in ("first", "step")}
    inputs |= {name: Signal() for name in ("start", "busy", "go", "again")}
    value = Signal(24)
    with m.FSM():
        with m.State("idle"), m.If(inputs["start"]):
            m.d.sync += value.eq(inputs["first"])
            m.next = "run"
        with m.State("run"), m.If(inputs["go"] & ~inputs["busy"]):
            following = Mux(inputs["again"], inputs["first"], value - inputs["step"])
            m.d.sync += value.eq(following)
            m.next = "idle"
    _assert_carries_and_luts_as_mapped(m, inputs, {"value": value}, target)


def _assert_carries_and_luts_as_mapped(
    m: Hardware, inputs: dict[str, Signal], outputs: dict[str, Signal], target: str
) -> None:
    counts, used = _counted_and_mapped(m, inputs, outputs, target)
    assert counts.get("carry", 0) == pytest.approx(used["carries"], abs=1)
    luts = technology(target).structure["costs"]["luts"]
    estimated = sum(luts.get(kind, 0.0) * n for kind, n in counts.items())
    assert estimated == pytest.approx(used["luts"], rel=0.1, abs=9)


def counts_as_mapped(
    m: Hardware, inputs: dict[str, Signal], outputs: dict[str, Signal], target: str
) -> Mapping[str, float]:
    """Return the components of hardware, after comparing them with those that Yosys makes."""
    counts, used = _counted_and_mapped(m, inputs, outputs, target)
    for kind in ("flip_flop", "lutram", "bram"):
        assert counts.get(kind, 0) == used[EXACT[kind]], kind
    return counts


def _counted_and_mapped(
    m: Hardware, inputs: dict[str, Signal], outputs: dict[str, Signal], target: str
) -> tuple[Mapping[str, float], Mapping[str, Any]]:
    """Return the components of hardware, and the resources that Yosys makes of it."""
    units = rtlil_units(m, inputs, outputs, NAME)
    counts = totals(convert(units, NAME).netlist, rules_of(target))
    return counts, fpga.mapped(rtlil_to_netlist(units)[0], target)["resources"]


def memory_netlist(width: int, depth: int, read_bits: int, ports: int = 1) -> Netlist:
    """Return a module that is a memory with clocked ports, of whose words some bits are used."""
    nets = numbers(1)

    def new(bits: int) -> tuple[int, ...]:
        return tuple(next(nets) for _ in range(bits))

    bits = (depth - 1).bit_length()
    clocked = depth > 4
    write = MemoryPort(new(bits), new(width), new(1) * width, clocked=True)
    reads = tuple(MemoryPort(new(bits), new(width), new(1), clocked) for _ in range(ports))
    inputs = (write.address, write.data, write.enable[:1], *(read.address for read in reads),
              *(read.enable for read in reads))  # fmt: skip
    module = Module(
        TOP,
        (
            *(Port(f"i{n}", output=False, bits=each) for n, each in enumerate(inputs)),
            *(Port(f"o{n}", output=True, bits=read.data[:read_bits])
              for n, read in enumerate(reads)),
        ),
        (),
        (Memory("words", width, depth, reads, (write,)),),
    )  # fmt: skip
    return Netlist({TOP: module})


def totals_of(family: str, netlist: Netlist) -> dict[str, float]:
    """Return the components of a netlist of one module."""
    return fabric_components(netlist, rules_of(family))[TOP]
