# SPDX-License-Identifier: Apache-2.0
"""Families and technologies are named by their own modules and data files, and nowhere else.

What is listed here is allowed for the reason beside it, and must still be true.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

import pytest

from hwgen.core import registry
from hwgen.core.registry import families
from hwgen.technologies import technologies
from sim_tests.docs.names_in_code import naming

OF_FAMILIES: Mapping[str, tuple[str, ...]] = {
    # Datapaths whose parts are proven alone.
    "adder_tree": ("flows/formal/definitions.py",),
    "ternary_lut": ("flows/formal/datapath_blocks.py", "flows/formal/definitions.py"),
    "attention": (
        # The layer of networks and its caches, for whatever computes it.
        "cost_model/roofline/roofline.py",
        "hwgen/cli/support/common.py",
        "hwgen/cli/workloads.py",
        "hwgen/core/params/off_chip.py",
        "hwgen/workloads/",
        "flows/search/space.py",
        # Operations of command lists and of the C of a host.
        "hwgen/models/",
        "flows/build/drivers/decoder_driver.py",
    ),
    "gemm_stream": (
        "flows/formal/contracts.py",  # proofs of addresses
        "flows/formal/regions.py",
        # Networks and decoders are compiled to its jobs, with its tiling and its cycles.
        "hwgen/cli/map.py",
        "hwgen/cli/model/compile.py",
        "hwgen/models/compile/",
        # Its registers and drivers, and the harness that puts memory around it.
        "flows/build/drivers/decoder_driver.py",
        "flows/build/drivers/engine_drivers.py",
        "flows/build/drivers/network_driver.py",
        "flows/build/register_files.py",
        "flows/demonstration/demo.py",
        "flows/demonstration/on_engine.py",
        "flows/demonstration/overview.py",  # the picture of an engine
        "flows/simulation/bus/job_host.py",
        "flows/simulation/cases.py",
        "flows/search/systems.py",  # products on cores that a search tries
        "flows/simulation/placed_products.py",
        "hwgen/families/transformer/params.py",  # the unit of an engine that names none
        "flows/board/litex.py",  # the engines that a SoC takes, in a message
        "flows/board/vivado/package.py",  # whose NumPy driver multiplies matrices
        "hwgen/cli/board.py",  # examples at the end of help texts
    ),
    "stream_engine": (
        "flows/formal/contracts.py",  # proofs of addresses
        "flows/board/litex.py",  # the engines that a SoC takes, in a message
        "hwgen/models/compile/list_builder.py",  # command lists submit its jobs
        # Its driver, and the harness that puts memory around it.
        "flows/build/drivers/engine_drivers.py",
        "flows/simulation/placed_operations.py",
        "flows/simulation/placement.py",
    ),
    "systolic": (
        "hwgen/families/gemm_stream/fields.py",  # the core of an engine that names none
        "flows/demonstration/overview.py",  # the picture of an array
        # Examples at the end of help texts.
        "hwgen/cli/__init__.py",
        "hwgen/cli/families.py",
        "hwgen/cli/init.py",
        "hwgen/cli/explore.py",  # what the page begins with
    ),
    "transformer": (
        # Compiled command lists and their time.
        "hwgen/models/compile/list_builder.py",
        "hwgen/models/compile/timing.py",
        # Its registers and driver, and the harness that puts memory around it.
        "flows/build/drivers/engine_drivers.py",
        "flows/build/register_files.py",
        "flows/simulation/bus/list_bench.py",
        "flows/simulation/bus/list_host.py",
        "flows/simulation/side_by_side.py",
        "flows/simulation/vectors/host_script.py",
        "flows/formal/contracts.py",  # proofs of its registers
        "flows/formal/prove.py",  # what its lists read from memory
        "flows/formal/deadlock.py",  # a list that its host starts
        "hwgen/cli/model/mix.py",  # an engine with a unit for each format
        "flows/search/",  # engines that a search makes
    ),
    "vector": (
        "hwgen/gym/environment.py",  # of Gymnasium: many environments at once
        # Vectors of C++, of IP-XACT, and of Verilog.
        "flows/build/files.py",
        "flows/build/ipxact.py",
        "flows/board/vivado/component.py",
        "flows/simulation/stream_program.py",
        "flows/simulation/verilator/runtime.py",
        "rtl_templates/attention/back.py",
        "rtl_templates/attention/front.py",
        "hwgen/models/compile/list_builder.py",  # codes of commands
        "hwgen/families/stream_engine/params.py",  # the core of an engine that names none
    ),
}
OF_TECHNOLOGIES: Mapping[str, tuple[str, ...]] = {
    "nangate45": (
        "hwgen/technologies/__init__.py",  # that of configurations that name none
        # Examples at the end of help texts.
        "hwgen/cli/calibrate.py",
        "hwgen/cli/search.py",
    ),
    # Examples at the end of help texts.
    "asap7": ("hwgen/cli/model/mix.py",),
    "ecp5": ("hwgen/cli/pnr.py", "hwgen/cli/synth.py", "hwgen/cli/technologies.py"),
    # Extras of the package that are called like the technologies whose tools they install.
    **dict.fromkeys(("gatemate", "gowin", "machxo2", "nexus"), ("flows/tools/toolchain.py",)),
}


@pytest.fixture(scope="module")
def naming_modules() -> Mapping[str, set[str]]:
    return naming([*families(), *technologies()])


def belongs_to_family(module: str, family: str) -> bool:
    """Return whether a module is one of a family's: its file or folder begins with the name.

    Families of one package, as the spatial ones, share its folders.
    """
    package = registry.family(family).__module__.split(".")[2]
    return any(part.startswith((family, package)) for part in PurePath(module).parts)


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
