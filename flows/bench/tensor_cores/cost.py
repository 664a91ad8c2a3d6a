# SPDX-License-Identifier: Apache-2.0
"""Accumulators of tensor cores against exact and single-precision ones: area, clock and energy.

``python -m flows.bench.tensor_cores.cost [--technology T] [--energy] [--json]``

Cubes of 2 x 2 processing elements, each of which takes a step of Hopper's tensor core a cycle: 16
products of fp16 or bf16, 32 of fp8 or int8.  *PE* is the area of one; the core has decoders, ports
and registers around four.  Energies are of simulations of the netlist of a core of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flows.bench.common import Row, parser, report, run, synthesised
from hwgen.formats.block.accumulator import TENSOR_CORES, TensorCoreStep

ACCUMULATORS = (
    ("fp16", "exact"), ("fp16", "fp32"), ("fp16", "aligned(25)"), ("fp16", "hopper"),
    ("bf16", "aligned(25)"), ("bf16", "hopper"),
    ("fp8_e4m3", "exact"), ("fp8_e4m3", "fp32"), ("fp8_e4m3", "aligned(25)"),
    ("fp8_e4m3", "aligned(13)"), ("fp8_e4m3", "hopper"),
    ("fp8_e5m2", "exact"), ("fp8_e5m2", "fp32"), ("fp8_e5m2", "aligned(13)"),
    ("fp8_e5m2", "hopper"),
    ("int8", "hopper"),
)  # fmt: skip
"""Formats of both operands and accumulators; exact sums of bf16 are too long for a core."""

CLOCK_MHZ = {"nangate45": 200, "asap7": 700}

SPECS = {"PE um2": ",.0f", "core um2": ",.0f", "MHz": ".0f", "fJ a product": ",.0f",
         "um2 a product": ",.0f"}  # fmt: skip


def hopper_step(name: str) -> TensorCoreStep:
    """Return the step of Hopper's tensor core with both operands in a format."""
    step = TENSOR_CORES["hopper"].step(name, name)
    assert step is not None
    return step


def configuration(
    technology: str, name: str, accumulator: str, array: dict[str, int]
) -> dict[str, object]:
    """Return the parameters of a core of an accumulator."""
    step = hopper_step(name)
    fused = accumulator not in ("exact", "fp32") and step.accumulator is not None
    return {
        "name": "bench", "family": "cube", "activation": name, "weight": name,
        "accumulator": accumulator, "max_k": 4096, "pipeline": {"pe": 2},
        "array": {**array, "depth": step.depth, "pe": "fused" if fused else "mac"},
        "target": {"technology": technology, "clock_mhz": CLOCK_MHZ[technology]},
    }  # fmt: skip


def rows(technology: str, chosen: Sequence[str], *, energy: bool) -> Iterator[Row]:
    """Yield formats and accumulators."""
    for name, accumulator in ACCUMULATORS:
        if chosen and f"{name}:{accumulator}" not in chosen:
            continue
        document = synthesised(configuration(technology, name, accumulator, {"rows": 2, "cols": 2}))
        pe = next(m["area_um2"] for m in document["modules"] if m["name"] == "bench_pe")
        products = hopper_step(name).depth
        spent = None
        if energy:
            one = configuration(technology, name, accumulator, {"rows": 1, "cols": 1})
            simulated = synthesised(one, "--activity", "random:2,512,4")
            spent = 2 * simulated["power"]["energy_per_operation_fj"]
        yield {
            "operands": name,
            "accumulator": accumulator,
            "products": products,
            "PE um2": pe,
            "um2 a product": pe / products,
            "core um2": document["area_um2"],
            "MHz": document["fmax_mhz"],
            "fJ a product": spent,
        }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parser("tensor_cores.cost", __doc__)
    options.add_argument("--technology", default="nangate45", choices=CLOCK_MHZ)
    options.add_argument("--energy", action="store_true", help="simulate netlists, too")
    options.add_argument("--only", nargs="*", default=(), metavar="FORMAT:ACCUMULATOR")
    chosen = options.parse_args(arguments)
    title = f"a step of a tensor core a cycle, {chosen.technology}"
    measured = rows(chosen.technology, chosen.only, energy=chosen.energy)
    report(title, measured, SPECS, as_json=chosen.json)


if __name__ == "__main__":
    run(main)
