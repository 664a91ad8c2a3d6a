# SPDX-License-Identifier: Apache-2.0
"""Formats and processing elements have their hardware, and nothing else asks for their classes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hwgen.core.params.processing_elements import PETable
from hwgen.core.params.spatial import PES as SPATIAL_PES
from hwgen.families.systolic.params import PES as SYSTOLIC_PES
from hwgen.formats import Format, integer
from hwgen.formats.fixed import real_format
from hwgen.formats.registry import SCALARS, block_format, shipped
from rtl_templates.arithmetic.registry import ARITHMETIC, CODINGS, arithmetic
from rtl_templates.spatial.pe_table import BLOCK_PES, INTEGER_PES
from rtl_templates.systolic.pe_table import OUTPUT_STATIONARY_PES, STATIONARY_PES
from sim_tests.support.paths import ROOT

FORMATS: list[Format] = [
    *SCALARS.values(),
    *map(integer, ("int4", "uint7")),
    real_format("q2.5"),
    *map(block_format, (*shipped(), "int4_g32_min", "int3_g16_zero", "ternary_g64")),
]

CLASSES = {
    "Format", "ScalarFormat", "NumberFormat", "IntegerFormat", "FloatFormat", "FiniteFormat",
    "FixedFormat", "TernaryFormat", "BinaryFormat", "BlockFormat",
}  # fmt: skip

PACKAGES = ("hwgen", "rtl_templates", "cost_model", "flows", "sim_tests")


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_codes_of_random_values_are_within_the_integers(fmt: Format) -> None:
    rng = np.random.default_rng(1)
    values = fmt.random(rng, (3, 64))
    lines = fmt.lines(values, 64 // (fmt.block or 64) or 1, fmt.block or 64)
    choices = None if lines.chosen is None else lines.chosen[..., None]
    integers = fmt.integers_of(lines.codes, choices)
    low, high = fmt.integer_range
    assert ((integers >= low) & (integers <= high)).all()
    assert (fmt.from_lines(lines, 64) == values).all()


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_lines_in_memory(fmt: Format) -> None:
    whole = fmt.item_terms * -(-64 // fmt.item_terms)
    values = fmt.random(np.random.default_rng(2), (3, 64))
    rows = fmt.pack_lines(values, whole)
    assert rows.shape == (3, whole // fmt.item_terms * fmt.item_bytes)
    unpacked = fmt.unpack_lines(rows, 64)
    assert (unpacked.astype(values.dtype) == values).all()


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_a_format_has_a_decoder(fmt: Format) -> None:
    assert fmt.coding == "float" or fmt.coding in CODINGS


def test_arithmetic_of_a_class_is_that_of_its_base() -> None:
    tiny = SCALARS["fp4_e2m1"]
    assert type(tiny) not in ARITHMETIC
    assert arithmetic(tiny) is arithmetic(SCALARS["fp16"])
    with pytest.raises(NotImplementedError, match="no such arithmetic"):
        arithmetic(real_format("q2.5")).to_real(real_format("q2.5"))


def parallel(table: PETable) -> set[str]:
    """Return the PEs that multiply integers, a beat a cycle."""
    return {pe.name for pe in table.values() if pe.integers and not pe.serial}


def test_processing_elements_have_hardware() -> None:
    assert set(INTEGER_PES) == parallel(SPATIAL_PES)
    assert set(BLOCK_PES) == {pe.name for pe in SPATIAL_PES.values() if pe.blocks}
    assert set(OUTPUT_STATIONARY_PES) == parallel(SYSTOLIC_PES)
    anywhere = {pe.name for pe in SYSTOLIC_PES.values() if not pe.dataflows}
    assert set(STATIONARY_PES) == parallel(SYSTOLIC_PES) & anywhere


def class_tests(path: Path) -> Iterator[str]:
    """Yield the lines of a file that ask for the class of a format."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            names = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
            if names & CLASSES:
                yield f"{path.relative_to(ROOT)}:{node.lineno}"


def test_nothing_else_asks_for_the_class_of_a_format() -> None:
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    asked = [line for file in files for line in class_tests(file)]
    assert [line for line in asked if not line.startswith("hwgen/formats/")] == []
