# SPDX-License-Identifier: Apache-2.0
"""Time and memory of a decoder of 1.1 billion random weights: ``make bench-large-model``.

The checkpoint of `flows.bench.random_checkpoint` is imported, quantised and compiled; each command
is a process, whose largest resident memory includes mapped pages of files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from flows.bench.common import ROOT, markdown, measure, parser, run
from flows.bench.random_checkpoint import SMALL, Shape, write_checkpoint

ENGINE = "configs/decoder_engine/int8.yaml"
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("import", "checkpoint", "-o", "m1b"),
    ("quantise", "m1b", "--calibration", "tokens.npy", "-o", "q1b"),
    ("compile", "q1b", "--config", str(ROOT / ENGINE), "-o", "c1b"),
)
"""Commands of ``hwgen model``, in order."""

_TOKENS = 2048


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parser("large_model", __doc__)
    options.add_argument("--small", action="store_true", help="shape of SmolLM2 135M, not 1.1B")
    chosen = options.parse_args(arguments)
    shape = SMALL if chosen.small else Shape()
    rows = []
    with tempfile.TemporaryDirectory(prefix="hwgen-large-model-") as name:
        directory = Path(name)
        write_checkpoint(directory / "checkpoint", shape)
        tokens = np.random.default_rng(0).integers(0, shape.vocab_size, _TOKENS)
        np.save(directory / "tokens.npy", tokens)
        for command in COMMANDS:
            usage = measure(["-m", "hwgen", "model", *command], directory, repeat=1)
            shown = " ".join(command).replace(f"{ROOT}/", "")
            minutes, seconds = divmod(round(usage.wall_s), 60)
            gigabytes = usage.peak_mib * 1.048576e-3
            rows.append(
                (f"`hwgen model {shown}`", f"{minutes}:{seconds:02}", f"{gigabytes:.1f} GB")
            )
    click.echo(markdown(("command", "time", "largest resident memory"), rows), nl=False)


if __name__ == "__main__":
    run(main)
