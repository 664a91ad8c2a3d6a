# SPDX-License-Identifier: Apache-2.0
"""A picture of what a decoder wrote on simulated hardware, its layers, and its speed, as SVG.

``python -m flows.demonstration.written --estimate ESTIMATE.json --output FILE.svg`` draws it:
ESTIMATE is what `hwgen model estimate --json` prints for several targets; what the run wrote is
stored in ``written.json`` beside this module.  With ``--run RUN.json --model DIR`` that file is
written first, from what `hwgen model run --engine rtl --json` prints.  The reference in single
precision is timed then, by the processor's time.
"""

from __future__ import annotations

import argparse
import json
import os
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from hwgen.reports.roofline import number

WIDTH, LEFT, BAR, LINE = 780, 20, 200, 20
_WRAP = 84  # characters in a line of text
STORED = Path(__file__).with_suffix(".json")
"""Record of a run: ``prompt``, ``run``, and the ``cpu_tokens_per_s`` of the reference."""

_XMLNS = 'xmlns="http://www.w3.org/2000/svg"'
_STYLE = (
    ".written{background:#fff}.written text{font:12px system-ui,sans-serif;fill:#1c1917}"
    ".written .given,.written tspan.given{fill:#78716c}.written .head{font-weight:bold}"
    ".written .said{font:14px Georgia,serif}.written .note{fill:#78716c;font-size:11px}"
)
_MODEL, _CHIP, _CPU = "#059669", "#2563eb", "#a8a29e"


def tokens_per_cpu_second(directory: Path, prompt: Sequence[int], count: int = 32) -> float:
    """Return the tokens that the reference generates per second of processor time."""
    from hwgen.models.files.store import Model
    from hwgen.models.run.engine import Run
    from hwgen.models.run.float_engine import FloatEngine

    run = Run(FloatEngine(Model(directory)))
    logits = run.feed(prompt)
    start = time.process_time()
    for _ in range(count):
        logits = run.feed([int(logits[-1].argmax())])
    return count / (time.process_time() - start)


def energy_text(joules: float, entry: Mapping[str, Any]) -> str:
    """Return the energy of a token, and how far off it may be if that is more than usual.

    Parameters
    ----------
    joules : float
    entry : mapping
        What `hwgen model estimate --json` says of the target: its ``estimate``.
    """
    within = entry["uncertainty"].get("j_per_token(decode)")
    return f"{1e3 * joules:.3g} mJ" + (
        "" if within is None else f", to a factor of {1 + within:.2g}"
    )


def picture(
    prompt: str, run: Mapping[str, Any], targets: Sequence[Mapping[str, Any]], cpu: float
) -> str:
    """Return the picture.

    Parameters
    ----------
    prompt : str
        What the model was given.
    run : mapping
        What `hwgen model run --engine rtl --json` prints.
    targets : sequence of mapping
        Of `hwgen model estimate --json`, the first one's layers are drawn.
    cpu : float
        Tokens that the reference writes in a second of the processor's time.
    """
    drawn: list[str] = []
    y = LINE
    for part in (_text(prompt, run), _layers(targets[0]), _speeds(targets, cpu)):
        for height, shapes in part:
            drawn.append(f'<g transform="translate({LEFT} {y})">{shapes}</g>')
            y += height
        y += LINE
    label = escape(f"{run['model']} on simulated hardware")
    head = (
        f'<svg {_XMLNS} viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" class="written" role="img"'
        f' aria-label="{label}"><style>{_STYLE}</style>'
    )
    return "\n".join([head, *drawn, "</svg>"]) + "\n"


Row = tuple[int, str]
"""What a line of the picture takes in height, and its shapes."""


def _words(x: float, text: str, style: str = "") -> str:
    shown = "".join(each if each.isprintable() else "\ufffd" for each in text)  # as XML allows
    return f'<text x="{x:.1f}" class="{style}">{escape(shown)}</text>'


def _bar(x: float, length: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="-10" width="{max(length, 1):.1f}" height="11" fill="{colour}"/>'


def _text(prompt: str, run: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the text: what was given, and what the hardware wrote."""
    simulated = run["simulated"]
    cycles = sum(simulated["cycles"].values())
    yield LINE, _words(0, f"{run['model']}, every operation by simulated RTL", "head")
    for paragraph in f"{prompt}{run['text']}".split("\n"):
        for line in textwrap.wrap(paragraph, _WRAP) or [""]:
            shapes = _words(0, line, "said")
            if prompt:  # it stands at the beginning, unless a line ends in it
                mark = escape(prompt)
                shapes = shapes.replace(mark, f'<tspan class="given">{mark}</tspan>', 1)
                prompt = ""
            yield (LINE if line else LINE // 2), shapes
    yield (
        LINE,
        _words(
            0,
            f"{len(run['tokens'])} tokens, {simulated['operations']:,} operations simulated, each"
            f" equal to the golden model in every bit; {cycles:,} cycles of the units in all",
            "note",
        ),
    )


def _layers(target: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the layers of a decode step, and what each takes of its time."""
    entry = target["estimate"]
    decode = entry["roofline"]["workloads"]["decode"]
    layers = [layer for layer in decode["layers"] if layer["total_ms"]]
    most = max(layer["total_ms"] for layer in layers)
    title = (
        f"a token behind {decode['context']} others on {entry['technology']}, {_clock(entry)} MHz"
    )
    yield LINE, _words(0, f"{title}: microseconds, and what limits them", "head")
    for layer in layers:
        m, k, n = layer["size"] or (0, 0, 0)
        size = f"{k:,} to {n:,}" if m else "cached keys and values"
        yield (
            LINE - 3,
            _words(0, f"{layer['repeat']} x {layer['name'].replace('_', ' ')}")
            + _words(140, size, "given")
            + _bar(290, BAR * layer["total_ms"] / most, _MODEL)
            + _words(300 + BAR, f"{1e3 * layer['total_ms']:.1f}")
            + _words(350 + BAR, layer["limit"], "given"),
        )


def _speeds(targets: Sequence[Mapping[str, Any]], cpu: float) -> Iterator[Row]:
    """Yield tokens a second and joules a token of targets, and what the processor does."""
    rows = [
        (f"{one['estimate']['technology']}, {_clock(one['estimate'])} MHz",
         one["passes"]["decode"]["tokens_per_s"], _energy(one), _CHIP)
        for one in targets
    ]  # fmt: skip
    rows.append(("one CPU core, NumPy, single precision", cpu, "not measured", _CPU))
    most = max(speed for _, speed, _, _ in rows)
    kind = targets[0]["estimate"]["roofline"]["memory"]["kind"] or "a memory"
    yield LINE, _words(0, f"tokens a second, weights behind {kind}; joules a token", "head")
    for name, speed, energy, colour in rows:
        yield (
            LINE - 3,
            _words(0, name)
            + _bar(290, BAR * speed / most, colour)
            + _words(300 + BAR, number(round(speed)))
            + _words(350 + BAR, energy, "given"),
        )
    yield (
        LINE,
        _words(
            0,
            "Estimated: products of weights; those of activations and row operations take no time."
            " CPU: measured.",
            "note",
        ),
    )


def _energy(target: Mapping[str, Any]) -> str:
    joules = target["passes"]["decode"]["j_per_token"]
    return "not known" if joules is None else energy_text(joules, target["estimate"])


def _clock(entry: Mapping[str, Any]) -> str:
    return f"{entry['figures_at_mhz'] or entry['clock_mhz']:.4g}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw."""
    # Threads of the library wait by spinning, which would count as time that it took.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", type=Path)
    parser.add_argument("--model", type=Path, help="as it was imported")
    parser.add_argument("--estimate", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--stored", type=Path, default=STORED)
    chosen = parser.parse_args(arguments)
    if (chosen.run is None) != (chosen.model is None):
        parser.error("--run and --model go together")
    if chosen.run is not None:
        measured = measure(json.loads(chosen.run.read_text("utf-8")), chosen.model)
        chosen.stored.write_text(f"{json.dumps(measured, indent=2)}\n", encoding="utf-8")
    stored = json.loads(chosen.stored.read_text("utf-8"))
    estimate = json.loads(chosen.estimate.read_text("utf-8"))
    targets = estimate.get("targets", [estimate])
    drawn = picture(stored["prompt"], stored["run"], targets, stored["cpu_tokens_per_s"])
    chosen.output.write_text(drawn, encoding="utf-8")


def measure(run: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Return the record of a run, for `STORED`; the model is in a directory."""
    from hwgen.models.files.store import Model
    from hwgen.models.files.tokenizer_json import tokenizer_of

    tokenizer, tokens = tokenizer_of(Model(directory).tokenizer()), run["prompt_tokens"]
    parts = ("operations", "cycles")
    return {
        "prompt": tokenizer.decode(tokens[tokens[0] == tokenizer.begin :]),
        "run": {
            **{name: run[name] for name in ("model", "text", "tokens")},
            "simulated": {name: run["simulated"][name] for name in parts},
        },
        "cpu_tokens_per_s": tokens_per_cpu_second(directory, tokens),
    }


if __name__ == "__main__":
    main()
