# SPDX-License-Identifier: Apache-2.0
"""Time and memory of ``hwgen build``, and of verilating the result: ``make bench-build``.

The baseline is a straightforward generator of an array without edges, drain and streams, in the
same run: PE and row elaborated once, one row instance for each row.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from amaranth.back import verilog
from amaranth.hdl import ClockSignal, Elaboratable, Instance, Module, Signal, signed

from flows.bench.common import ROOT, Row, measure, parser, report, run
from flows.build.design import Design
from flows.tools.toolchain import require
from hwgen.families.systolic.params import SystolicConfig

BASELINE_SIZE = 64

SIZES = {8: None, 16: 1.5 / 1.8, 64: 3.0 / 1.8, 256: 10.0 / 1.8}
"""Array sizes, and the goal for the wall time in units of the baseline."""

VERILATED = 32


class Pe(Elaboratable):
    """Multiplier, accumulator and two registers."""

    def __init__(self) -> None:
        self.a, self.w = Signal(signed(8)), Signal(signed(8))
        self.a_out, self.w_out = Signal(signed(8)), Signal(signed(8))
        self.acc = Signal(signed(32))

    def elaborate(self, platform: object) -> Module:
        """Describe it."""
        m = Module()
        m.d.sync += [
            self.a_out.eq(self.a),
            self.w_out.eq(self.w),
            self.acc.eq(self.acc + self.a * self.w),
        ]
        return m


class PeRow(Elaboratable):
    """Row of instances of `Pe`."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.a, self.w = Signal(8), Signal(8 * size)
        self.w_out, self.acc = Signal(8 * size), Signal(32 * size)

    def elaborate(self, platform: object) -> Module:
        """Describe it."""
        m = Module()
        a = self.a
        for c in range(self.size):
            a_out = Signal(8, name=f"a_{c}")
            m.submodules[f"col_{c}"] = Instance(
                "pe", i_clk=ClockSignal(), i_a=a, i_w=self.w.word_select(c, 8), o_a_out=a_out,
                o_w_out=self.w_out.word_select(c, 8), o_acc=self.acc.word_select(c, 32),
            )  # fmt: skip
            a = a_out
        return m


class PeArray(Elaboratable):
    """Rows one above the other."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.a, self.w = Signal(8 * size), Signal(8 * size)
        # A port of all accumulators would be wider than Amaranth accepts.
        self.accs = [Signal(32 * size, name=f"acc_{r}") for r in range(size)]

    def elaborate(self, platform: object) -> Module:
        """Describe it."""
        m = Module()
        w = self.w
        for r, acc in enumerate(self.accs):
            w_out = Signal(8 * self.size, name=f"w_{r}")
            m.submodules[f"row_{r}"] = Instance(
                "row", i_clk=ClockSignal(), i_a=self.a.word_select(r, 8), i_w=w, o_w_out=w_out,
                o_acc=acc,
            )  # fmt: skip
            w = w_out
        return m


def baseline(size: int) -> str:
    """Return the Verilog of a bare `size` x `size` array."""
    pe, row, array = Pe(), PeRow(size), PeArray(size)
    text = verilog.convert(pe, name="pe", ports=[pe.a, pe.w, pe.a_out, pe.w_out, pe.acc])
    text += verilog.convert(row, name="row", ports=[row.a, row.w, row.w_out, row.acc])
    return text + verilog.convert(array, name="array", ports=[array.a, array.w, *array.accs])


def rows(work: Path) -> Iterator[Row]:
    """Build an array of each size."""
    base = measure(["-m", "flows.bench.build", "--baseline", str(BASELINE_SIZE)], ROOT)
    label = f"bare rows, {BASELINE_SIZE} x {BASELINE_SIZE}"
    yield {"array": label, "wall s": base.wall_s, "of baseline": 1.0, "goal": None,
           "peak MiB": base.peak_mib, "Verilog KiB": None}  # fmt: skip
    for size, goal in SIZES.items():
        name = f"array_{size}"
        config = work / f"{name}.yaml"
        config.write_text(
            f"name: {name}\nfamily: systolic\narray: {{rows: {size}, cols: {size}}}\n"
        )
        usage = measure(["-m", "hwgen", "build", "--config", str(config)], work)
        yield {
            "array": f"{size} x {size}",
            "wall s": usage.wall_s,
            "of baseline": usage.wall_s / base.wall_s,
            "goal": goal,
            "peak MiB": usage.peak_mib,
            "Verilog KiB": (work / "build" / name / f"{name}.v").stat().st_size / 1024,
        }


def verilated(work: Path) -> Row:
    """Measure the translation of an array to C++."""
    config = SystolicConfig.model_validate(
        {"name": "verilated", "array": {"rows": VERILATED, "cols": VERILATED}}
    )
    (work / "verilated.v").write_text(Design.of(config).verilog)
    tool = require("verilator")
    start = time.perf_counter()
    subprocess.run(
        [*tool.argv, "--cc", "-Wno-fatal", "-Wno-lint", "--Mdir", "obj", "verilated.v"],
        cwd=work,
        env={**os.environ, **tool.environment},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return {"array": f"{VERILATED} x {VERILATED}", "seconds to C++": time.perf_counter() - start}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print ratios to the baseline."""
    options = parser("build", __doc__)
    options.add_argument("--baseline", type=int, metavar="SIZE", help="only emit the baseline")
    chosen = options.parse_args(arguments)
    if chosen.baseline:
        click.echo(baseline(chosen.baseline))
        return
    with tempfile.TemporaryDirectory() as name:
        specs = {"wall s": ".2f", "of baseline": ".2f", "peak MiB": ".0f", "Verilog KiB": ".1f"}
        report("hwgen build", rows(Path(name)), specs, as_json=chosen.json)
        report("verilating", [verilated(Path(name))], as_json=chosen.json)


if __name__ == "__main__":
    run(main)
