# SPDX-License-Identifier: Apache-2.0
"""Products in DSP blocks of FPGAs: packed, over-packed and one each, by synthesis.

``python -m flows.bench.product_packing [--json] [--technology T] [--operands A W]``

A broadcast array of 4 x 12 processing elements with exact accumulators; all make as many products.
Look-up tables and registers are those of the whole core, its ports included, so differences are the
cost of telling products apart.  Ternary weights without packing take no DSP block: a processing
element is one adder.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from flows.build.design import Design
from flows.synthesis.synth import synthesize
from hwgen.arithmetic.product_packing import packed_products
from hwgen.core.registry import family
from hwgen.technologies import fpga_family

TECHNOLOGIES = ("ecp5", "xc7", "xcup")
OPERANDS = (
    ("int8", "int8"), ("int4", "int4"), ("int8", "int4"), ("int8", "ternary"),
    ("int4", "ternary"),
)  # fmt: skip
SIZES = {"rows": 4, "cols": 12}


def configuration(technology: str, operands: Sequence[str], packing: str) -> Any:
    """Return the configuration of a core, None if products cannot be packed so."""
    model: Any = family("broadcast_2d").config
    base = {
        "name": "bench", "activation": operands[0], "weight": operands[1],
        "target": {"technology": technology},
    }  # fmt: skip
    plain = model.model_validate({**base, "array": SIZES})
    block = fpga_family(technology).dsp_block
    if packing == "none":
        return plain
    if block is None or packing not in ("exact", "over"):
        return None
    kind: Any = packing
    layout = packed_products(plain.activation, plain.weight, SIZES["cols"], block.factors, kind)
    if layout is None:
        return None
    return model.model_validate({**base, "array": {**SIZES, "packing": packing}})


def measured(technology: str, operands: Sequence[str], packing: str) -> dict[str, Any] | None:
    """Return what synthesis says of a core, None if products cannot be packed so."""
    config = configuration(technology, operands, packing)
    if config is None:
        return None
    used = synthesize(Design(config), technology)
    products, layout, luts = SIZES["rows"] * SIZES["cols"], config.packing, used.luts or 0
    return {
        "technology": technology,
        "operands": " x ".join(operands),
        "packing": packing,
        "dsps": used.dsps,
        "products_per_dsp": products / used.dsps if used.dsps else None,
        "luts": luts,
        "luts_per_product": luts / products,
        "flip_flops": used.flip_flops,
        "carries": used.carries,
        "error": list(layout.error) if layout else [0, 0],
        "added_in_blocks": bool(config.packed_sum),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.bench.product_packing",
        description="Products in DSP blocks of FPGAs, by synthesis.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, a line a core")
    parser.add_argument("--technology", action="append", choices=TECHNOLOGIES)
    parser.add_argument("--operands", nargs=2, metavar=("A", "W"), help="only these formats")
    options = parser.parse_args(arguments)
    headings = ("target", "operands", "packing", "DSP blocks", "products a block", "LUTs",
                "LUTs a product", "flip-flops", "error of a product")  # fmt: skip
    table = Table(*headings, title="48 products a cycle, broadcast_2d, 4 x 12")
    for technology in options.technology or TECHNOLOGIES:
        for operands in [options.operands] if options.operands else OPERANDS:
            for packing in ("none", "exact", "over"):
                row = measured(technology, operands, packing)
                if row is None:
                    continue
                if options.json:
                    sys.stdout.write(json.dumps(row) + "\n")
                    sys.stdout.flush()
                low, high = row["error"]
                each = row["products_per_dsp"]
                table.add_row(
                    technology, row["operands"], packing, f"{row['dsps']:g}",
                    "-" if each is None else f"{each:g}", f"{row['luts']:,}",
                    f"{row['luts_per_product']:.1f}", f"{row['flip_flops']:,}",
                    f"{low}..{high}" if low or high else "none",
                )  # fmt: skip
    if not options.json:
        Console(width=120).print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
