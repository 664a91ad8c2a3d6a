# SPDX-License-Identifier: Apache-2.0
"""Products in DSP blocks of FPGAs: packed, over-packed and one each, by synthesis.

A broadcast array of 4 x 12 processing elements with exact accumulators; all make as many products.
Look-up tables and registers are those of the whole core, its ports included.  Ternary weights
without packing take no DSP block: a processing element is one adder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from flows.bench.common import Row, parser, report, run
from flows.build.design import Design
from flows.synthesis.synth import synthesize
from hwgen.arithmetic.product_packing import packed_products
from hwgen.families.spatial.params import Broadcast2dConfig
from hwgen.technologies import fpga_family

TECHNOLOGIES = ("ecp5", "xc7", "xcup")
OPERANDS = (
    ("int8", "int8"), ("int4", "int4"), ("int8", "int4"), ("int8", "ternary"), ("int4", "ternary"),
)  # fmt: skip
SIZES = {"rows": 4, "cols": 12}
PRODUCTS = SIZES["rows"] * SIZES["cols"]

Packing = Literal["exact", "over"]


def configuration(
    technology: str, operands: Sequence[str], packing: Packing | None
) -> Broadcast2dConfig | None:
    """Return the configuration of a core, None if its products cannot be packed so."""
    base = {
        "name": "bench", "activation": operands[0], "weight": operands[1],
        "target": {"technology": technology},
    }  # fmt: skip
    plain = Broadcast2dConfig.model_validate({**base, "array": SIZES})
    if packing is None:
        return plain
    block = fpga_family(technology).dsp_block
    if block is None or not packed_products(
        plain.activation, plain.weight, SIZES["cols"], block.factors, packing
    ):
        return None
    return Broadcast2dConfig.model_validate({**base, "array": {**SIZES, "packing": packing}})


def rows(technologies: Sequence[str]) -> Iterator[Row]:
    """Synthesise the cores of some technologies."""
    for technology in technologies:
        for operands in OPERANDS:
            for packing in (None, *get_args(Packing)):
                config = configuration(technology, operands, packing)
                if config is None:
                    continue
                used = synthesize(Design.of(config), technology)
                luts, layout = used.luts or 0, config.packing
                yield {
                    "target": technology,
                    "operands": " x ".join(operands),
                    "packing": packing or "none",
                    "DSP blocks": used.dsps,
                    "products a block": PRODUCTS / used.dsps if used.dsps else None,
                    "LUTs": luts,
                    "LUTs a product": luts / PRODUCTS,
                    "flip-flops": used.flip_flops,
                    "error of a product": "{}..{}".format(*layout.error) if layout else "none",
                }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parser("product_packing", __doc__)
    options.add_argument("--technology", action="append", choices=TECHNOLOGIES)
    chosen = options.parse_args(arguments)
    title, specs = "48 products a cycle, broadcast_2d, 4 x 12", {"LUTs a product": ".1f"}
    report(title, rows(chosen.technology or TECHNOLOGIES), specs, as_json=chosen.json)


if __name__ == "__main__":
    run(main)
