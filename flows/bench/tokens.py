# SPDX-License-Identifier: Apache-2.0
"""Tokens a second of a quantised decoder by the golden models of hardware: ``make bench-tokens``.

``python -m flows.bench.tokens DIR --unit FILE ...``: after a prompt each token is computed alone,
as when a text is written.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from flows.bench.common import Row, parser, report, run
from flows.build.load import load_config
from hwgen.models.files.store import Model
from hwgen.models.run.engine import Run
from hwgen.models.run.golden_engine import GoldenEngine
from hwgen.models.run.units import Units

PROMPT, TOKENS = 32, 16


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parser("tokens", __doc__)
    options.add_argument("model", type=Path, help="directory of a quantised model")
    options.add_argument("--unit", type=Path, action="append", required=True)
    chosen = options.parse_args(arguments)
    units = Units([load_config(path) for path in chosen.unit])
    decoder = Run(GoldenEngine(Model(chosen.model), units))
    decoder.feed([1 + number % 200 for number in range(PROMPT)])
    logits = decoder.feed([1])  # computes what single rows share
    wall, cpu = time.monotonic(), time.process_time()
    for _ in range(TOKENS):
        logits = decoder.feed([int(logits[-1].argmax())])
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    row: Row = {
        "model": decoder.description.name,
        "tokens/s": TOKENS / wall,
        "CPU seconds a token": cpu / TOKENS,
    }
    report(f"golden models, context of {PROMPT} tokens", [row], as_json=chosen.json)


if __name__ == "__main__":
    run(main)
