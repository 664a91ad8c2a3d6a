# SPDX-License-Identifier: Apache-2.0
"""``make bench-build``: time, memory and text of ``hwgen build``, and of verilating the result.

The baseline is what a straightforward generator of an array without edges, drain and streams
takes in the same run: PE and row elaborated once, one row instance for each row.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from flows.bench.measure import measure, parser, report
from flows.build.design import Design

BASELINE_SIZE = 64

SIZES = {8: None, 16: 1.5 / 1.8, 64: 3.0 / 1.8, 256: 10.0 / 1.8}
"""Array sizes, and the goal for the wall time in units of the baseline."""


def baseline(size: int) -> None:
    """Emit a bare `size` x `size` array: PE once, row once, a row instance for each row."""
    from amaranth.back import verilog
    from amaranth.hdl import ClockSignal, Elaboratable, Instance, Module, Signal, signed

    class Pe(Elaboratable):
        def __init__(self) -> None:
            self.a, self.w = Signal(signed(8)), Signal(signed(8))
            self.a_out, self.w_out = Signal(signed(8)), Signal(signed(8))
            self.acc = Signal(signed(32))

        def elaborate(self, platform: object) -> Module:
            m = Module()
            m.d.sync += [
                self.a_out.eq(self.a),
                self.w_out.eq(self.w),
                self.acc.eq(self.acc + self.a * self.w),
            ]
            return m

    class Row(Elaboratable):
        def __init__(self) -> None:
            self.a, self.w = Signal(8), Signal(8 * size)
            self.w_out, self.acc = Signal(8 * size), Signal(32 * size)

        def elaborate(self, platform: object) -> Module:
            m = Module()
            a = self.a
            for c in range(size):
                a_out = Signal(8, name=f"a_{c}")
                m.submodules[f"col_{c}"] = Instance(
                    "pe", i_clk=ClockSignal(), i_a=a, i_w=self.w.word_select(c, 8), o_a_out=a_out,
                    o_w_out=self.w_out.word_select(c, 8), o_acc=self.acc.word_select(c, 32),
                )  # fmt: skip
                a = a_out
            return m

    class Array(Elaboratable):
        def __init__(self) -> None:
            self.a, self.w = Signal(8 * size), Signal(8 * size)
            # A port of all accumulators would be wider than Amaranth takes.
            self.accs = [Signal(32 * size, name=f"acc_{r}") for r in range(size)]

        def elaborate(self, platform: object) -> Module:
            m = Module()
            w = self.w
            for r in range(size):
                w_out = Signal(8 * size, name=f"w_{r}")
                m.submodules[f"row_{r}"] = Instance(
                    "row",
                    i_clk=ClockSignal(),
                    i_a=self.a.word_select(r, 8),
                    i_w=w,
                    o_w_out=w_out,
                    o_acc=self.accs[r],
                )
                w = w_out
            return m

    pe, row, array = Pe(), Row(), Array()
    text = verilog.convert(pe, name="pe", ports=[pe.a, pe.w, pe.a_out, pe.w_out, pe.acc])
    text += verilog.convert(row, name="row", ports=[row.a, row.w, row.w_out, row.acc])
    text += verilog.convert(array, name="array", ports=[array.a, array.w, *array.accs])
    if len(text) < size:
        raise SystemExit("the baseline emitted nothing")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print ratios to the baseline."""
    options = parser("build", __doc__)
    options.add_argument(
        "--baseline", type=int, metavar="SIZE", help="only emit the baseline of this size"
    )
    chosen = options.parse_args(arguments)
    if chosen.baseline:
        baseline(chosen.baseline)
        return
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        root = Path(__file__).resolve().parents[2]
        base = measure(["-m", "flows.bench.build", "--baseline", str(BASELINE_SIZE)], root)
        rows = []
        for size, goal in SIZES.items():
            top = f"array_{size}"
            config = work / f"{top}.yaml"
            config.write_text(
                f"name: {top}\nfamily: systolic\narray: {{rows: {size}, cols: {size}}}\n"
            )
            usage = measure(["-m", "hwgen", "build", "--config", str(config)], work)
            text = (work / "build" / top / f"{top}.v").stat().st_size / 1024
            ratio = usage.wall_s / base.wall_s
            rows.append([f"{size} x {size}", usage.wall_s, ratio, goal or "", usage.peak_mib, text])
        report(
            f"hwgen build; baseline (bare rows, {BASELINE_SIZE} x {BASELINE_SIZE}):"
            f" {base.wall_s:.2f} s",
            ["array", "wall s", "of baseline", "goal", "peak MiB", "Verilog KiB"],
            rows,
            as_json=chosen.json,
        )
        columns = ["array", "seconds to C++"]
        report("verilating", columns, [_verilate(work, 32)], as_json=chosen.json)


def _verilate(work: Path, size: int) -> list[object]:
    """Measure how long Verilator takes to translate an array."""
    import os
    import subprocess

    from flows.tools.toolchain import require
    from hwgen.families.systolic.params import SystolicConfig

    config = SystolicConfig.model_validate(
        {"name": "verilated", "array": {"rows": size, "cols": size}}
    )
    (work / "verilated.v").write_text(Design(config).verilog)
    tool = require("verilator")
    start = time.perf_counter()
    subprocess.run(
        [*tool.argv, "--cc", "-Wno-fatal", "-Wno-lint", "--Mdir", "obj", "verilated.v"],
        cwd=work,
        env={**os.environ, **tool.environment},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return [f"{size} x {size}", time.perf_counter() - start]


if __name__ == "__main__":
    main()
