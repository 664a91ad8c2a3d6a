# SPDX-License-Identifier: Apache-2.0
"""The widest cores: what fits is elaborated, what does not is refused where it is said."""

from __future__ import annotations

import pytest
from amaranth.hdl import Module, Value
from amaranth.lib.wiring import In, Out

from flows.build.load import parse_config
from flows.build.verilog import core_rtlil
from hwgen.core.registry import core_of
from hwgen.errors import ConfigError, InputError
from rtl_templates.hdl.generators import generate
from rtl_templates.hdl.hierarchy import Block, emit_block

REFUSED = {
    "family: cube\narray: {rows: 64, cols: 64, depth: 64}": (
        r"3:\d+: array\.depth: must be at most 63 with 64 rows of int8 and 64 columns of int8,"
    ),
    "family: cube\nactivation: int16\nweight: int16\narray: {rows: 32, cols: 64, depth: 64}": (
        r"5:\d+: array\.depth: must be at most 42 with 32 rows of int16 and 64 columns of int16,"
    ),
    "family: ternary_lut\narray: {tables: 64, fetch_ports: 256}": (
        r"3:\d+: array\.fetch_ports: must be at most 229 with 64 tables of 2 weights, not 256"
    ),
    "family: ternary_lut\narray: {tables: 6, group_size: 7}": (
        r"3:\d+: array\.tables: must be at most 5 with tables of 12,023 bits, not 6"
    ),
    "family: gemm_stream\ncompute: {family: systolic, array: {cols: 256}}\narray: {blocks: 16}\n"
    "buffers: {weight_kib: 4096, output_kib: 16384, column_kib: 1024}": (
        r"4:\d+: array\.blocks: must be fewer, not 16: the cores of an engine have at most 61,440"
    ),
}

WIDEST = [
    "family: cube\nactivation: int16\nweight: int16\narray: {rows: 1, cols: 64, depth: 62}",
    "family: ternary_lut\narray: {tables: 64, fetch_ports: 229}",
]


@pytest.mark.parametrize("text", REFUSED)
def test_cores_with_modules_that_are_too_wide_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=REFUSED[text]):
        parse_config(f"name: wide\n{text}\n")


@pytest.mark.parametrize("text", WIDEST)
@pytest.mark.slow
@pytest.mark.rotate(6)
def test_the_widest_cores_are_elaborated(text: str) -> None:
    config = parse_config(f"name: wide\n{text}\n")
    assert core_rtlil(generate(core_of(config)), config.name)


class Wide(Block):
    """Of another package, whose configuration does not know the limit."""

    i: Value
    o: Value

    def build(self, m: Module) -> None:
        m.d.comb += self.o.eq(self.i)


@pytest.mark.parametrize(("into", "out"), [(65536, 1), (1, 65535)])
def test_a_block_that_is_too_wide_is_refused(into: int, out: int) -> None:
    block = Wide("wide", {"i": In(into), "o": Out(out)})
    with pytest.raises(InputError, match=r"module, wide; they must be at most 65,534"):
        list(emit_block(block, "top"))
