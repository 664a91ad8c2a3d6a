# SPDX-License-Identifier: Apache-2.0
"""Costs of multipliers whose factors differ much in width, fitted to mapped multipliers.

``python -m flows.calibration.multipliers TECHNOLOGY ... [--write]``

The designs that `flows.calibration.structural` is fitted to have factors of 2 to 16 bits.  In cores
of blocks one factor may have 42 bits and the other 4: the mapper makes both as wide as the wider
one, and where sums are made of cells that are full adders, the rows of signs remain.  So the price
of the bits by which factors differ, and of their square, are fitted to multipliers alone, the price
of the bits of both factors being that of the technology.  Energy and leakage are in proportion to
the area, as of ``booth_extension`` before.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cost_model import technologies
from flows.calibration.mapping_cache import map_cached
from flows.calibration.measure import RECIPE
from hwgen.technologies import cell_library

WIDTHS = (
    (8, 4), (12, 4), (16, 4), (24, 4), (32, 4), (42, 4), (16, 8), (24, 8), (42, 8), (57, 12),
    (24, 12), (42, 16),
)  # fmt: skip
"""Bits of both factors."""

CLOCK_PS = 5000.0

FILES = Path(technologies.__path__[0])
"""Directory of the tables."""


def area(technology: str, wide: int, narrow: int) -> float:
    """Return the area of a mapped multiplier, in um2."""
    verilog = (
        f"module m(input clk, input signed [{wide - 1}:0] a, input signed [{narrow - 1}:0] b,"
        f" output signed [{wide + narrow - 1}:0] y); assign y = a * b; endmodule"
    )
    adders = cell_library(technology).full_adder is not None
    return map_cached(
        verilog, "m", technology, RECIPE, CLOCK_PS, full_adders=adders, clock="clk"
    ).area


def fitted(technology: str, bit: float) -> tuple[float, float, float]:
    """Return the prices of a bit of difference and of its square, and the mean error of areas.

    Relative errors are least; `bit` is the price of a bit of both factors.
    """
    areas = np.array([area(technology, *widths) for widths in WIDTHS])
    rows = np.array([(wide - narrow, (wide - narrow) ** 2) for wide, narrow in WIDTHS], float)
    common = np.array([bit * wide * narrow for wide, narrow in WIDTHS])
    result, *_ = np.linalg.lstsq(rows / areas[:, None], (areas - common) / areas, rcond=None)
    error = np.abs(rows @ result + common - areas) / areas
    return float(result[0]), float(result[1]), float(error.mean())


def repriced(document: dict[str, Any], technology: str) -> float:
    """Change the prices in the document of a technology; return the mean error of areas."""
    costs = document["structure"]["costs"]
    extension, square, error = fitted(technology, costs["area_um2"]["booth_bit"])
    before = costs["area_um2"]["booth_extension"]
    for prices in costs.values():
        share = prices["booth_extension"] / before
        prices["booth_extension"] = float(f"{extension * share:.6g}")
        prices["booth_square"] = float(f"{square * share:.6g}")
    return error


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit and print, or write."""
    parser = argparse.ArgumentParser(prog="python -m flows.calibration.multipliers")
    parser.add_argument("technology", nargs="+")
    parser.add_argument("--write", action="store_true", help="change the technologies' files")
    options = parser.parse_args(arguments)
    for technology in options.technology:
        path = FILES / f"{technology}.json"
        document = json.loads(path.read_text())
        error = repriced(document, technology)
        prices = document["structure"]["costs"]["area_um2"]
        sys.stdout.write(
            f"{technology}: {prices['booth_extension']:g} um2 a bit, {prices['booth_square']:g} a"
            f" square; areas within {100 * error:.1f} % on average\n"
        )
        if options.write:
            path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
