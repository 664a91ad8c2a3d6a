# SPDX-License-Identifier: Apache-2.0
"""Tokens a second of a quantised decoder by the golden models of hardware.

``python -m flows.bench.tokens DIR --unit FILE ...``: a prompt is read, then each of some tokens is
computed by itself, as when a text is written.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import click


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    from hwgen.core.load import load_config
    from hwgen.models.files.store import Model
    from hwgen.models.graph.units import Units
    from hwgen.models.run.engine import Run
    from hwgen.models.run.golden_engine import GoldenEngine

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path, help="directory of a quantised model")
    parser.add_argument("--unit", type=Path, action="append", required=True)
    parser.add_argument("--prompt", type=int, default=32, help="tokens read before")
    parser.add_argument("--tokens", type=int, default=16, help="tokens that are timed")
    given = parser.parse_args(arguments)
    units = Units([load_config(path) for path in given.unit])
    run = Run(GoldenEngine(Model(given.model), units))
    run.feed([1 + place % 200 for place in range(given.prompt)])
    logits = run.feed([1])  # what is made once for single rows
    wall, cpu = time.monotonic(), time.process_time()
    for _ in range(given.tokens):
        logits = run.feed([int(logits[-1].argmax())])
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    click.echo(
        f"{run.description.name}: {given.tokens / wall:.2f} tokens/s,"
        f" {cpu / given.tokens:.3f} CPU seconds a token, behind {given.prompt} tokens"
    )


if __name__ == "__main__":
    main()
