# SPDX-License-Identifier: Apache-2.0
"""Resources of engines on FPGAs, estimated and synthesized: ``make bench-fpga-engines``.

No engine of the list was used to fit costs or to find rules of mapping. Results of synthesis are
stored in ``fpga_engines.json`` beside this module; the table of ``docs/cost-internals.md`` is made
from them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from flows.bench.common import (
    Document,
    markdown,
    parser,
    read_results,
    run,
    store_results,
    write_sections,
)
from flows.build.build import Build
from flows.build.design import Design
from flows.build.load import parse_config
from flows.synthesis.synth import synthesize
from hwgen.core.params.base import FamilyConfig

RESULTS = Path(__file__).with_suffix(".json")
"""Results of the last runs, one for each engine and target."""

SECTION = "fpga-engines"
TARGETS = ("ecp5",)
RESOURCES = ("luts", "flip_flops", "carries", "lutrams", "brams", "dsps")

_BUFFERS = "buffers: {activation_kib: 2, weight_kib: 4, output_kib: 2, column_kib: 1}"
_RAW = "post: {outputs: [raw]}"
ENGINES: Mapping[str, str] = {
    "systolic, 4 x 4": f"""\
family: gemm_stream
{_RAW}
{_BUFFERS}
compute: {{family: systolic, array: {{rows: 4, cols: 4}}}}
memory: {{data_width: 64}}
""",
    "systolic, weight-stationary": f"""\
family: gemm_stream
post: {{outputs: [int8]}}
{_BUFFERS}
compute:
  family: systolic
  array: {{rows: 4, cols: 4, dataflow: weight_stationary, accumulator_depth: 64}}
memory: {{data_width: 64}}
""",
    "adder tree, 4 x 4 x 4": f"""\
family: gemm_stream
post: {{outputs: [int8]}}
{_BUFFERS}
compute: {{family: adder_tree, array: {{rows: 4, cols: 4, depth: 4}}}}
memory: {{data_width: 64}}
""",
    "ternary tables": f"""\
family: gemm_stream
post: {{outputs: [int8]}}
{_BUFFERS}
compute: {{family: ternary_lut, array: {{tables: 4, fetch_ports: 4}}}}
memory: {{data_width: 64}}
""",
    "rows, bf16": """\
family: stream_engine
compute:
  family: vector
  input: bf16
  output: bf16
  array: {operations: [softmax, layer_norm, add], lanes: 2, longest_row: 256}
memory: {data_width: 64}
""",
    "attention": """\
family: stream_engine
compute: {family: attention, head: 32, max_keys: 128, array: {rows: 1, lanes: 8}}
memory: {data_width: 64}
""",
    "command lists": f"""\
family: transformer
units:
  products:
    family: gemm_stream
    {_RAW}
    {_BUFFERS}
    compute: {{family: systolic, array: {{rows: 2, cols: 4}}}}
  rows:
    family: stream_engine
    compute: {{family: vector, array: {{operations: [softmax, add], longest_row: 64}}}}
memory: {{data_width: 32}}
""",
}
"""Configurations by a name."""


def config_of(name: str) -> FamilyConfig:
    """Return one of `ENGINES`."""
    return parse_config(f"name: engine\n{ENGINES[name]}")


def estimated(name: str, target: str) -> dict[str, float]:
    """Return the resources that an engine is estimated to take."""
    config = config_of(name)
    design = Design.of(config)
    on_fpga = config.target.model_copy(update={"technology": target, "device": None})
    metrics = Build(design, on_fpga).estimate()["metrics"]
    return {resource: metrics[resource] for resource in RESOURCES}


def measured(name: str, target: str) -> dict[str, float]:
    """Return the resources that synthesis makes of an engine, mapped as one."""
    made = synthesize(Design.of(config_of(name)), target)
    return {resource: getattr(made, resource) for resource in RESOURCES}


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """Return estimates beside measurements, and the difference where there is one."""
    headings = {
        "luts": "look-up tables of logic", "flip_flops": "flip-flops", "carries": "carry cells",
        "lutrams": "small memories", "brams": "block memories", "dsps": "DSP blocks",
    }  # fmt: skip
    rows = []
    for each in results:
        cells = []
        for resource in RESOURCES:
            estimate, made = each["estimated"][resource], each["measured"][resource]
            off = f" ({100 * (estimate / made - 1):+.1f} %)" if made and estimate != made else ""
            cells.append(f"{estimate:,.0f}, {made:,.0f}{off}")
        rows.append([each["engine"], each["target"], *cells])
    return markdown(["engine", "target", *headings.values()], rows, left=2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure engines, or estimate those again that are stored, and write the table."""
    options = parser("fpga_engines", __doc__)
    options.add_argument("--engine", choices=list(ENGINES), action="append",
                         help="default all; may be repeated")  # fmt: skip
    options.add_argument("--target", choices=TARGETS, action="append",
                         help="default all; may be repeated")  # fmt: skip
    options.add_argument("--stored", action="store_true", help="synthesize nothing")
    options.add_argument("--estimate", action="store_true",
                         help="synthesize nothing, but estimate again")  # fmt: skip
    options.add_argument("--write", type=Path, metavar="PAGE", help="docs/cost-internals.md")
    chosen = options.parse_args(arguments)
    if chosen.estimate:
        store(
            {**each, "estimated": estimated(each["engine"], each["target"])}
            for each in read_results(RESULTS)
        )
    elif not chosen.stored:
        for name in chosen.engine or ENGINES:
            for target in chosen.target or TARGETS:
                click.echo(f"{name}, {target}", err=True)
                store([{
                    "engine": name, "target": target, "estimated": estimated(name, target),
                    "measured": measured(name, target),
                }])  # fmt: skip
    results = read_results(RESULTS)
    click.echo(json.dumps(results, indent=1) if chosen.json else table(results))
    if chosen.write:
        write_sections(chosen.write, {SECTION: table(results)})
    return 0


def store(results: Iterable[Document]) -> None:
    """Store results in place of earlier ones of the same engine and target."""
    store_results(RESULTS, ("engine", "target"), results)


if __name__ == "__main__":
    run(main)
