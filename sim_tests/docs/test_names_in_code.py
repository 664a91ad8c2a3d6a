# SPDX-License-Identifier: Apache-2.0
"""Families and technologies are named by their own modules and data files, and nowhere else.

What is listed here is allowed for the reason beside it, and must still be true.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

import pytest

from hwgen.core.registry import families
from hwgen.technologies import technologies
from sim_tests.docs.names_in_code import naming

OF_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "attention": (
        # The layer of networks and its caches, which whatever computes it has to read.
        "cost_model/roofline/roofline.py",
        "hwgen/cli/support/common.py",
        "hwgen/core/params/off_chip.py",
        # Operations that command lists are built of.
        "hwgen/models/compile/list_builder.py",
        "hwgen/models/",
        # And that the C of a host does.
        "flows/build/drivers/decoder_driver.py",
        "hwgen/workloads/",
    ),
    "gemm_stream": (
        # Parts of the engine in rooms without a module of the family's name: cycles, registers,
        # jobs, loop nest, driver, and the harness that puts memory around it.
        "cost_model/engine/",
        "flows/demonstration/on_engine.py",
        "flows/simulation/engine_",
        "flows/build/drivers/engine_drivers.py",
        "flows/build/register_files.py",
        "hwgen/families/transformer/params.py",  # the unit of an engine that names none
        "hwgen/families/gemm_stream/schedule.py",
        "hwgen/core/register_map.py",
        "hwgen/families/gemm_stream/blocks.py",
    ),
    "stream_engine": (
        # Jobs, and the harness that puts memory around it.
        "flows/simulation/stream_jobs.py",
        "hwgen/families/stream_engine/jobs.py",
    ),
    "systolic": (
        "flows/calibration/points.py",  # the cores that FPGA families are calibrated on
        "hwgen/families/gemm_stream/params.py",  # the core of an engine that names none
    ),
    "ternary_lut": (
        "flows/calibration/points.py",
        "hwgen/families/ternary_lut/golden.py",  # its sums of floating-point numbers
    ),
    "transformer": (
        # Registers, random lists and their harness.
        "flows/simulation/engine_matrices.py",
        "flows/simulation/list_regression.py",
        "flows/build/register_files.py",
        "hwgen/models/compile/list_builder.py",
        "hwgen/families/transformer/registers.py",
    ),
    "vector": (
        # Vectors of C++, of IP-XACT, and of Verilog.
        "flows/simulation/stream_program.py",
        "flows/simulation/verilator/runtime.py",
        "flows/build/files.py",
        "flows/build/ipxact.py",
        "hwgen/models/compile/list_builder.py",  # codes of commands
        "hwgen/families/stream_engine/params.py",  # the core of an engine that names none
    ),
}
OF_TECHNOLOGIES: Mapping[str, tuple[str, ...]] = {
    "nangate45": ("hwgen/technologies/__init__.py",),  # that of configurations that name none
    # Extras of the package that are called like the technologies whose tools they install.
    **dict.fromkeys(("gatemate", "gowin", "machxo2", "nexus"), ("flows/tools/toolchain.py",)),
}


@pytest.fixture(scope="module")
def naming_modules() -> Mapping[str, set[str]]:
    return naming([*families(), *technologies()])


def belongs_to_family(module: str, family: str) -> bool:
    """Return whether a module is one of a family's: its file or folder begins with the name."""
    return any(part.startswith(family) for part in PurePath(module).parts)


@pytest.mark.parametrize("family", families())
def test_a_familys_name_stands_in_its_own_modules(
    family: str, naming_modules: Mapping[str, set[str]]
) -> None:
    allowed = set(OF_FAMILIES.get(family, ()))
    elsewhere = {
        next((entry for entry in allowed if module.startswith(entry)), module)
        for module in naming_modules[family]
        if not belongs_to_family(module, family)
    }
    assert elsewhere <= allowed, f"{sorted(elsewhere - allowed)} ask the contract instead"
    assert allowed <= elsewhere, f"{sorted(allowed - elsewhere)} need not be listed any longer"


@pytest.mark.parametrize("technology", technologies())
def test_a_technologys_name_stands_in_its_data_file(
    technology: str, naming_modules: Mapping[str, set[str]]
) -> None:
    allowed = set(OF_TECHNOLOGIES.get(technology, ()))
    elsewhere = naming_modules.get(technology, set())
    assert elsewhere <= allowed, f"{sorted(elsewhere - allowed)} ask the data file instead"
    assert allowed <= elsewhere
