# SPDX-License-Identifier: Apache-2.0
"""Mapping the cores that an FPGA family is calibrated or checked on."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from flows.build.design import Design
from flows.calibration.mapping_cache import versions
from flows.calibration.parts import separate_modules
from flows.calibration.points import NAME, config_of
from flows.synthesis import fpga, levels
from flows.synthesis.standard_cells import TIMEOUT
from flows.tools.cache import Archive, digest, text_digest
from flows.tools.toolchain import require
from hwgen.technologies import fpga_family


@dataclass(frozen=True)
class Used:
    """A core mapped to an FPGA.

    Parameters
    ----------
    values : mapping
        Its dotted parameters.
    resources : mapping
        How many of each of `flows.synthesis.fpga.RESOURCES` it takes.
    parts : mapping
        For each module that is mapped on its own, and the rest under the name of the core: its
        instances, and the resources of one.
    """

    values: Mapping[str, Any]
    resources: Mapping[str, int]
    parts: Mapping[str, tuple[int, Mapping[str, int]]]


def measure(values: Mapping[str, Any], target: str) -> Used:
    """Map the core that dotted parameters describe; results are kept in the user's cache."""
    config = config_of(values)
    keep = [f"{NAME}_{prefix}*" for prefix in separate_modules(config)]
    document = mapped(Design.of(config).verilog, target, keep)
    parts = {name: (count, of_one) for name, (count, of_one) in document["parts"].items()}
    return Used(values, document["resources"], parts)


def mapped(verilog: str, target: str, keep: Sequence[str] = ()) -> dict[str, Any]:
    """Return the document of a design called `NAME`, mapped; it is kept in the user's cache.

    Without modules to keep it is what ``hwgen synth`` makes by default, all in one.
    """
    chosen = fpga_family(target)
    key = digest([_flow(), text_digest(verilog), NAME, chosen.mapping, chosen.recipe, list(keep)])
    entry = Archive("mapped-fpga", key)
    document: dict[str, Any] | None = entry.read()
    if document is None:
        with tempfile.TemporaryDirectory(prefix="hwgen-map-") as work:
            result = fpga.map_fpga(
                require("yosys"), verilog, NAME, chosen, chosen.recipe, keep, Path(work), TIMEOUT
            )
        document = json.loads(json.dumps(result.document()))
        entry.write(document, {})
    return document


def provenance(target: str) -> dict[str, Any]:
    """Return the settings and tools of measurements of an FPGA family."""
    chosen = fpga_family(target)
    return {
        "recipe": chosen.recipe,
        "command": fpga.command_of(chosen, chosen.recipe),
        "kept_modules": "those of the parts of each family's bill",
        "tools": {"yosys": versions()["yosys"]},
    }


@cache
def _flow() -> str:
    """Return a name for Yosys and for the part of this package that drives it."""
    sources = [Path(str(module.__file__)).read_text(encoding="utf-8") for module in (fpga, levels)]
    return text_digest("\n".join([*sources, versions()["yosys"]]))
