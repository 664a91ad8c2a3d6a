# SPDX-License-Identifier: Apache-2.0
"""Collect synthesis results of drawn configurations: ``make surrogate-data``.

Each row is a configuration in a technology, with its estimate, the uncertainty that the estimate
states, and what synthesis measured.  Rows are appended to a journal, so that a run that was stopped
goes on; ``--write`` packs the journal into the shipped Parquet file.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cost_model.netlist.components import components, totals
from cost_model.netlist.netlist import Netlist
from flows.bench.common import parser, run
from flows.bench.cost_points import compare
from flows.bench.draws import USUAL, rough_size, size
from flows.build.design import Design
from flows.calibration.draws import Draw, drawn
from hwgen import __version__
from hwgen.config.dotted import flattened
from hwgen.core.params.base import FamilyConfig
from hwgen.errors import HwgenError

JOURNAL = Path("build/surrogates/synthesis.jsonl")
DATA = Path(__file__).with_name("synthesis.parquet")

QUICK = ("ecp5", "gowin", "machxo2", "gatemate")
SLOW = ("nangate45", "ihp-sg13g2", "ice40")
TECHNOLOGIES = (*SLOW, *QUICK)
"""Technologies of rows; of standard cells Liberty files are needed."""

SLOW_EVERY = 4
"""Of how many rounds of all families one is mapped to slow technologies too."""

FAMILIES = ("adder_tree", "broadcast_2d", "cube", "systolic", "ternary_lut")
"""Families of streams; the others are engines, or larger."""

FIELDS: Mapping[str, str] = {
    "area": "area_mm2", "fmax": "fmax_mhz", "power": "power_w", "luts": "lut", "flip_flops": "ff",
    "dsps": "dsp", "brams": "bram", "carries": "carry", "lutrams": "lutram",
}  # fmt: skip
"""Fields of results by metric; those that wa-hls4ml has are called as there."""

SMALLEST, LARGEST = 20.0, 1000.0
"""Sizes of designs, in bits of registers or as much; see `flows.bench.draws.size`."""

_WIDEST = 6
"""By how much the largest parameter that is a size exceeds the smallest that is legal."""

_CHOICES, _TRIES = 8, 4
"""Configurations of which that of the nearest size is elaborated, and how often at most."""

METADATA = b"hwgen.synthesis"


def row_of(config: FamilyConfig, technology: str) -> dict[str, Any]:
    """Return the row of a configuration: it is synthesized, and estimated at the same clock.

    Raises
    ------
    HwgenError
        If it cannot be.
    """
    point = compare(config, technology)
    netlist = Design.of(config).netlist
    values = flattened(config.resolved())
    return {
        "technology": technology,
        "family": config.family,
        "configuration": json.dumps(values, sort_keys=True, default=str),
        "components": json.dumps({n: float(c) for n, c in totals(netlist).items() if c}),
        "graph": json.dumps(graph_of(netlist)),
        "macs_per_cycle": point.macs,
        "seconds": point.seconds,
        **{f"estimated_{FIELDS[n]}": value for n, value in point.estimated.items()},
        **{f"stated_{FIELDS[n]}": value for n, value in point.stated.items()},
        **{f"measured_{FIELDS[n]}": value for n, value in point.measured.items()},
    }


def graph_of(netlist: Netlist) -> dict[str, Any]:
    """Return the modules of a design: their components, and which contains which how often."""
    names = list(netlist.counts)
    inside = components(netlist)
    edges = []
    for number, name in enumerate(names):
        children = Counter(each.module for each in netlist.modules[name].instances)
        edges += [[number, names.index(child), count] for child, count in children.items()
                  if child in names]  # fmt: skip
    nodes = [{n: float(c) for n, c in inside.get(name, {}).items() if c} for name in names]
    return {"nodes": nodes, "edges": edges, "instances": [netlist.counts[name] for name in names]}


def journal() -> list[dict[str, Any]]:
    """Return the rows so far; a last line that was cut off is none."""
    rows = []
    if JOURNAL.is_file():
        for line in JOURNAL.read_text(encoding="utf-8").splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:
                continue
    return rows


def design(seed: int, number: int) -> FamilyConfig | None:
    """Return the design of a number, families in turn; None if none small enough was drawn."""
    name = FAMILIES[number % len(FAMILIES)]
    rng = random.Random(f"surrogates {seed} {name} {number}")
    wanted = math.exp(rng.uniform(math.log(SMALLEST), math.log(LARGEST / 8)))
    for _ in range(_TRIES):
        some = []
        for _ in range(_CHOICES):
            largest = round(math.exp(rng.uniform(0.0, math.log(_WIDEST))))
            some.append(drawn(name, Draw(rng, largest, USUAL, buffers=True, repair=True)))
        config = min(some, key=lambda each: abs(math.log(rough_size(each) / wanted)))
        real = size(Design.of(config).netlist, config.memories.registers_below)
        if real <= LARGEST:
            return config
        wanted /= 3
    return None


def collect(seed: int, count: int, technologies: Sequence[str], until: float) -> None:
    """Add rows to the journal until there are those of `count` designs, or time is up."""
    JOURNAL.parent.mkdir(parents=True, exist_ok=True)
    done = {(row["technology"], row["seed"], row["number"]) for row in journal()}
    slow = set(SLOW) if tuple(technologies) == TECHNOLOGIES else set()
    with JOURNAL.open("a", encoding="utf-8") as stream:
        stream.write("\n" if JOURNAL.stat().st_size else "")

        def add(row: Mapping[str, Any], number: int) -> None:
            stream.write(json.dumps({**row, "seed": seed, "number": number}) + "\n")
            stream.flush()

        for number in range(count):
            all_of_them = number // len(FAMILIES) % SLOW_EVERY == 0
            missing = [
                each for each in technologies
                if (each, seed, number) not in done and (all_of_them or each not in slow)
            ]  # fmt: skip
            if not missing or (None, seed, number) in done:
                continue
            if time.time() > until:
                break
            config = design(seed, number)
            if config is None:
                add({"technology": None, "failed": "no design as small was drawn"}, number)
                continue
            for technology in missing:
                try:
                    row = row_of(config, technology)
                except HwgenError as error:
                    row = {"technology": technology, "failed": str(error)[:200]}
                add(row, number)


def pack(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return a Parquet file of rows that did not fail, with provenance and a digest."""
    import io

    import pyarrow
    import pyarrow.parquet

    good = sorted(
        (row for row in rows if "failed" not in row),
        key=lambda row: (row["technology"], row["seed"], row["number"]),
    )
    names = sorted({name for row in good for name in row})
    table = pyarrow.table({name: [row.get(name) for row in good] for name in names})
    head = {
        "digest": digest(good),
        "rows": len(good),
        "version": __version__,
        "source": "flows.bench.surrogates.collect: hwgen synth by default, and hwgen estimate",
        "technologies": sorted({str(row["technology"]) for row in good}),
    }
    table = table.replace_schema_metadata({METADATA: json.dumps(head).encode()})
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table, buffer, compression="zstd", compression_level=12)
    return buffer.getvalue()


def digest(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the SHA-256 of rows, without fields that are empty or a time; numbers as floats."""
    plain = [
        {
            name: float(value) if isinstance(value, (int, float)) else value
            for name, value in sorted(row.items())
            if value is not None and name != "seconds"
        }
        for row in rows
    ]
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Collect rows, and pack them if that is asked for."""
    options = parser("surrogates", __doc__)
    options.add_argument("--designs", type=int, default=300, help="how many designs (%(default)s)")
    options.add_argument("--seed", type=int, default=37, help="(%(default)s)")
    options.add_argument("--technology", action="append", help="may be repeated")
    options.add_argument("--minutes", type=float, default=1e6, help="begin none after so many")
    options.add_argument("--write", action="store_true", help="pack the journal")
    chosen = options.parse_args(arguments)
    until = time.time() + 60 * chosen.minutes
    collect(chosen.seed, chosen.designs, chosen.technology or TECHNOLOGIES, until)
    if chosen.write:
        DATA.write_bytes(pack(journal()))
    return 0


if __name__ == "__main__":
    run(main)
