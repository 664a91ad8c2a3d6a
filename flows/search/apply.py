# SPDX-License-Identifier: Apache-2.0
"""An engine of a short list as hardware: built, simulated, synthesized."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flows.build.build import Build
from flows.build.design import Design
from flows.simulation.models.one_layer import cut
from flows.simulation.models.program_run import run_compiled
from flows.synthesis.verify import measure
from hwgen.families.transformer.list_timing import timed_list
from hwgen.families.transformer.params import TransformerConfig
from hwgen.families.transformer.trace import trace
from hwgen.models.compile.compilation import Settings
from hwgen.models.compile.list_compilation import ListCompilation
from hwgen.models.compile.list_program import CompiledList
from hwgen.models.files.store import Model
from hwgen.progress import report

PROMPT = 3
"""Tokens that the simulated layer takes, one after the other."""

_TOKENS, _POSITIONS = 50, 16


def simulate_layer(model: Model, config: TransformerConfig) -> dict[str, Any]:
    """Simulate the first layer of a model on an engine, with an output layer of a few tokens.

    Parameters
    ----------
    model : Model
        A quantised decoder.
    config : TransformerConfig

    Returns
    -------
    dict
        ``cycles`` of the simulation and ``modelled``, between ``least`` and ``most``; ``compared``
        bytes of memory.

    Raises
    ------
    CheckFailed
        If a byte of memory is not that of the golden model.
    """
    with tempfile.TemporaryDirectory() as directory:
        parts = [Path(directory) / name for name in ("model", "compiled")]
        for part in parts:
            part.mkdir()
        vocabulary = min(_TOKENS, model.description.vocabulary or _TOKENS)
        small = cut(model, 0, range(vocabulary), parts[0])
        ListCompilation(small, config, Settings(1, _POSITIONS)).write(parts[1])
        compiled = CompiledList(parts[1])
        prompt = [number + 1 for number in range(PROMPT)]
        registers = compiled.registers(0, len(prompt), 1)
        events = trace(compiled.config, compiled.address, compiled.data, registers)
        modelled = timed_list(compiled.config, events)
        simulated = run_compiled(compiled, prompt, 1)
    return {
        "cycles": simulated.cycles, "modelled": modelled.cycles, "least": modelled.least,
        "most": modelled.most, "compared": simulated.compared,
    }  # fmt: skip


def apply_engine(
    model: Model, config: TransformerConfig, write: Callable[[dict[str, str]], None]
) -> dict[str, Any]:
    """Build an engine, simulate a layer, synthesize, and set measurements beside estimates.

    Parameters
    ----------
    model : Model
        A quantised decoder.
    config : TransformerConfig
    write : callable
        Takes the files of the build: name to text.

    Returns
    -------
    dict
        ``simulated``, see `simulate_layer`; ``synthesized``, by metric ``estimated``, ``measured``,
        ``difference`` and ``uncertainty``, relative, None where unknown; ``problem``, why nothing
        is synthesized, empty if it is.

    Raises
    ------
    CheckFailed
        If the simulation differs from the golden model.
    ToolMissing
        If Yosys or the Liberty files are missing.
    """
    design = Design.of(config)
    report("building", 0, 3)
    build = Build(design)
    write(build.files)
    report("simulating a layer", 1, 3)
    simulated = simulate_layer(model, config)
    report("synthesizing", 2, 3)
    (measured,) = measure([config], 1, lambda done, total: None)
    entry = build.estimate()
    rows = {}
    for metric, value in measured.metrics.items():
        estimated = entry["metrics"].get(metric)
        known = estimated is not None and value and math.isfinite(value)
        rows[metric] = {
            "estimated": estimated, "measured": value,
            "difference": estimated / value - 1 if known else None,
            "uncertainty": entry["uncertainty"].get(metric),
        }  # fmt: skip
    return {"simulated": simulated, "synthesized": rows, "problem": measured.problem}
