# SPDX-License-Identifier: Apache-2.0
"""An engine of a short list as hardware: built, simulated, synthesized."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cost_model.estimate.technology import calibrated
from cost_model.estimate.technology import technology as calibration
from flows.build.build import Build
from flows.build.design import Design
from flows.simulation.models.one_layer import cut
from flows.simulation.models.program_run import run_compiled
from flows.synthesis.synth import USUAL_EFFORT
from flows.synthesis.verify import measure
from hwgen.core.params.target import Target
from hwgen.families.transformer.list_timing import ListTiming, timed_list
from hwgen.families.transformer.params import TransformerConfig
from hwgen.families.transformer.trace import trace
from hwgen.models.compile.compilation import Settings
from hwgen.models.compile.list_compilation import ListCompilation
from hwgen.models.compile.list_program import CompiledList
from hwgen.models.files.store import Model
from hwgen.progress import report

PROMPT = 3
"""Tokens that the simulated layer takes, one after the other."""

LAYER_PROMPT = [number + 1 for number in range(PROMPT)]
"""These tokens."""

LAYER_TOKENS = 50
"""Tokens of its output layer, at most."""

_POSITIONS = 16

_EASIER = 0.9  # share of the clock of calibrations from which on synthesis is driven as much


@contextmanager
def compiled_layer(model: Model, config: TransformerConfig) -> Iterator[CompiledList]:
    """Compile the first layer of a model for an engine, with an output layer of a few tokens.

    Parameters
    ----------
    model : Model
        A quantised decoder.
    config : TransformerConfig
    """
    with tempfile.TemporaryDirectory() as directory:
        parts = [Path(directory) / name for name in ("model", "compiled")]
        for part in parts:
            part.mkdir()
        vocabulary = min(LAYER_TOKENS, model.description.vocabulary or LAYER_TOKENS)
        small = cut(model, 0, range(vocabulary), parts[0])
        ListCompilation(small, config, Settings(1, _POSITIONS)).write(parts[1])
        yield CompiledList(parts[1])


def layer_timing(compiled: CompiledList) -> ListTiming:
    """Return the modelled cycles of a compiled layer for the tokens of `LAYER_PROMPT`."""
    registers = compiled.registers(0, PROMPT, 1)
    events = trace(compiled.config, compiled.address, compiled.data, registers)
    return timed_list(compiled.config, events)


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
    with compiled_layer(model, config) as compiled:
        modelled = layer_timing(compiled)
        simulated = run_compiled(compiled, LAYER_PROMPT, 1)
    return {
        "cycles": simulated.cycles, "modelled": modelled.cycles, "least": modelled.least,
        "most": modelled.most, "compared": simulated.compared,
    }  # fmt: skip


def apply_engine(
    model: Model,
    config: TransformerConfig,
    write: Callable[[dict[str, str]], None],
    save: Callable[[dict[str, Any]], None] = lambda applied: None,
) -> dict[str, Any]:
    """Build an engine, simulate a layer, synthesize, and set measurements beside estimates.

    Units are synthesized one after another, since a whole engine takes hours of one run; results
    are kept, so that an interrupted run goes on.

    Parameters
    ----------
    model : Model
        A quantised decoder.
    config : TransformerConfig
    write : callable
        Takes the files of the build: name to text.
    save : callable, optional
        Takes the result as far as it is, after the simulation and after each unit.

    Returns
    -------
    dict
        ``simulated``, see `simulate_layer`; ``units``, see `synthesized_units`; ``synthesized``,
        the same of all units together, see `together`; ``problem``, why units are not
        synthesized, empty if all are.

    Raises
    ------
    CheckFailed
        If the simulation differs from the golden model.
    ToolMissing
        If Yosys or the Liberty files are missing.
    """
    design = Design.of(config)
    report("building", 0, 3)
    write(Build(design).files)
    report("simulating a layer", 1, 3)
    simulated = simulate_layer(model, config)

    def result(units: dict[str, dict[str, Any]]) -> dict[str, Any]:
        problems = [f"{name}: {unit['problem']}" for name, unit in units.items() if unit["problem"]]
        left = [name for name in config.units if name not in units]
        if left:
            problems.append(f"{', '.join(left)}: not yet")
        return {
            "simulated": simulated, "units": units, "synthesized": {} if left else together(units),
            "problem": "; ".join(problems),
        }  # fmt: skip

    save(result({}))
    return result(synthesized_units(config, lambda units: save(result(units))))


def synthesized_units(
    config: TransformerConfig,
    save: Callable[[dict[str, dict[str, Any]]], None] = lambda units: None,
) -> dict[str, dict[str, Any]]:
    """Synthesize the units of an engine one after another, with the effort of `hwgen synth`.

    Parameters
    ----------
    config : TransformerConfig
    save : callable, optional
        Takes the result as far as it is, after each unit; the smallest are first.

    Returns
    -------
    dict
        By unit ``metrics``, of each ``estimated``, ``measured``, ``difference`` and
        ``uncertainty``, relative, None where unknown; and ``problem``, why it is not synthesized.
    """
    target = as_calibrated(config.target)
    alone = {n: unit.model_copy(update={"target": target}) for n, unit in config.units.items()}
    entries = {n: Build(Design.of(unit), target).estimate() for n, unit in alone.items()}
    result: dict[str, dict[str, Any]] = {}
    for number, name in enumerate(sorted(alone, key=lambda name: _size(entries[name]))):
        report(f"synthesizing {name}", number, len(alone))
        (measured,) = measure([alone[name]], 1, lambda done, total: None, USUAL_EFFORT)
        entry = entries[name]
        rows = {
            metric: _row(entry["metrics"].get(metric), value, entry["uncertainty"].get(metric))
            for metric, value in measured.metrics.items()
        }
        result[name] = {"metrics": rows, "problem": measured.problem}
        save({name: result[name] for name in config.units if name in result})
    return {name: result[name] for name in config.units}


def _size(entry: Mapping[str, Any]) -> float:
    """Return the size of a unit by its estimate: area, or look-up tables."""
    metrics = entry["metrics"]
    return metrics.get("area_mm2") or metrics.get("luts") or 0.0


def as_calibrated(target: Target) -> Target:
    """Return a target with a clock that synthesis is driven by as costs are calibrated.

    At an easy clock a mapper makes cells smaller and paths longer until it is just met, so that
    area and clock are not those that estimates are of. Goals of standard cells below that of the
    calibration by more than a tenth are raised to it.
    """
    timing = calibration(target.technology).timing if target.technology in calibrated() else {}
    period_ps = (timing or {}).get("provenance", {}).get("clock_ps")
    if period_ps is None or target.clock_mhz >= _EASIER * 1e6 / period_ps:
        return target
    return target.model_copy(update={"clock_mhz": 1e6 / period_ps})


def together(units: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float | None]]:
    """Return the metrics of all units together: sums, of clocks the slowest.

    Only metrics that are known of every unit; what an engine has beside its units is not in them.
    """
    every = [unit["metrics"] for unit in units.values()]
    names = [name for name in every[0] if all(name in rows for rows in every)]
    result = {}
    for name in names:
        choose: Callable[[list[float]], float] = min if name == "fmax_mhz" else sum
        rows = [rows[name] for rows in every]
        if any(row["estimated"] is None or not math.isfinite(row["measured"]) for row in rows):
            continue
        known = [row["uncertainty"] for row in rows if row["uncertainty"] is not None]
        result[name] = _row(
            choose([row["estimated"] for row in rows]), choose([row["measured"] for row in rows]),
            max(known) if len(known) == len(rows) else None,
        )  # fmt: skip
    return result


def _row(
    estimated: float | None, measured: float, uncertainty: float | None
) -> dict[str, float | None]:
    known = estimated is not None and measured and math.isfinite(measured)
    return {
        "estimated": estimated, "measured": measured,
        "difference": estimated / measured - 1 if known and estimated is not None else None,
        "uncertainty": uncertainty,
    }  # fmt: skip
