# SPDX-License-Identifier: Apache-2.0
"""Mapping the cores that an FPGA family is calibrated or checked on."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from flows.calibration.draws import NAME
from flows.calibration.mapping_cache import versions
from flows.synthesis import fpga, levels
from flows.synthesis.standard_cells import TIMEOUT
from flows.tools.cache import Archive, digest, text_digest
from flows.tools.toolchain import require
from hwgen.technologies import fpga_family


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
        "kept_modules": "those that each family lists",
        "tools": {"yosys": versions()["yosys"]},
    }


@cache
def _flow() -> str:
    """Return a name for Yosys and for the part of this package that drives it."""
    sources = [Path(str(module.__file__)).read_text(encoding="utf-8") for module in (fpga, levels)]
    return text_digest("\n".join([*sources, versions()["yosys"]]))
