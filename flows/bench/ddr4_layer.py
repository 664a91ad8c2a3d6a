# SPDX-License-Identifier: Apache-2.0
"""A layer of a language model on an engine with DDR4 memory: ``make bench-ddr4-layer``.

The first layer of a quantised decoder, with its own weights and an output layer of a few tokens, is
compiled for an engine. The list runs on the emitted Verilog with a model of DDR4 SDRAMs at the
memory port (``flows/simulation/cpp/ddr4.h``), and with a memory that answers in the next cycle.
Each byte of the memory must be that of the golden interpreter. Cycles of the whole model are an
estimate. Results are stored in ``ddr4_layer.json`` beside this module, and the table of
``docs/engines-on-boards.md`` is made from them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from flows.bench.common import (
    ROOT,
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
from flows.build.load import load_config
from flows.search.apply import LAYER_PROMPT, LAYER_TOKENS, PROMPT, compiled_layer, layer_timing
from flows.simulation.models.program_run import run_compiled
from hwgen.board.ddr4 import BURST, Ddr4Memory, ddr4_memories
from hwgen.errors import InputError
from hwgen.families.transformer.params import TransformerConfig
from hwgen.models.compile.compilation import Settings
from hwgen.models.compile.list_compilation import ListCompilation
from hwgen.models.compile.timing import list_passes
from hwgen.models.files.store import Model

RESULTS = Path(__file__).with_suffix(".json")
"""Results of the last runs, one for each memory, engine and interconnect."""

SECTION = "ddr4-layer"
INTERCONNECT_NS = (0.0, 100.0)
"""Latencies between the port of the engine and the controller, there and back together."""

CONFIG = ROOT / "configs" / "boards" / "smollm2_kv260.yaml"
CONTEXT = 256
"""Positions of the whole model; its estimate is of the last one."""

_KEY = ("memory", "engine", "interconnect_ns")
_RESOURCES = ("luts", "dsps", "brams")


def measure(
    model: Model,
    config: TransformerConfig,
    name: str,
    interconnects_ns: Sequence[float],
    context: int = CONTEXT,
) -> list[Document]:
    """Simulate a layer with each interconnect to a memory, and compare every byte.

    Parameters
    ----------
    model : Model
        A quantised decoder.
    config : TransformerConfig
    name : str
        One of `ddr4_memories`.
    interconnects_ns : sequence of float
        As `INTERCONNECT_NS`.
    context : int
        Positions of the whole model, for its estimate.

    Raises
    ------
    CheckFailed
        If a byte of memory is not that of the golden interpreter.
    """
    memory, clock_mhz = ddr4_memories()[name], config.target.clock_mhz
    document = {
        "memory": name, "engine": config.name, "clock_mhz": clock_mhz,
        "model": model.description.name, "layers": model.description.layers,
        "prompt_tokens": PROMPT, "vocabulary": LAYER_TOKENS, **_estimate(model, config, context),
    }  # fmt: skip
    result = []
    with compiled_layer(model, config) as compiled:
        modelled = layer_timing(compiled)
        ideal = run_compiled(compiled, LAYER_PROMPT, 1)
        document.update(
            modelled_cycles=modelled.cycles, least_cycles=modelled.least,
            most_cycles=modelled.most, ideal_cycles=ideal.cycles,
        )  # fmt: skip
        for interconnect_ns in interconnects_ns:
            cycles = max(1, round(interconnect_ns * clock_mhz / 1e3))
            simulated = run_compiled(
                compiled, LAYER_PROMPT, 1, ddr4=memory, clock_mhz=clock_mhz,
                read_latency=cycles, write_latency=cycles,
            )  # fmt: skip
            click.echo(
                f"{interconnect_ns:g} ns: {simulated.cycles:,} cycles, bytes golden", err=True
            )
            result.append({
                **document, "interconnect_ns": interconnect_ns, "cycles": simulated.cycles,
                "equal_memory_bytes": simulated.compared,
                "port_bytes": (simulated.read_beats + simulated.write_beats) * config.memory_bytes,
                **asdict(simulated.ddr4),
            })  # fmt: skip
    return result


def _estimate(model: Model, config: TransformerConfig, context: int) -> Document:
    """Return the estimate of the whole model: cycles of a token, and the share of the device."""
    passes = list_passes(ListCompilation(model, config, Settings(1, context)))
    entry = Build(Design.of(config)).estimate()
    device = entry["device"]
    return {
        "context": context, "token_cycles": passes["decode"]["cycles"], "device": device["name"],
        "fits": device["fits"],
        "resources": {each: device["resources"][each] for each in _RESOURCES},
    }  # fmt: skip


def shares_of_peak(document: Mapping[str, Any], memory: Ddr4Memory) -> tuple[float, float]:
    """Return the bytes that the port moved, and those on the bus, as shares of the peak."""
    peak = memory.peak_gb_s * 1e3 / document["clock_mhz"] * document["cycles"]
    bursts = document["reads"] + document["writes"]
    return document["port_bytes"] / peak, bursts * BURST * memory.bus_bytes / peak


def tokens_per_s(document: Mapping[str, Any]) -> tuple[float, float]:
    """Return the estimate of the whole model, and that times the cycles modelled over measured."""
    estimated = 1e6 * document["clock_mhz"] / document["token_cycles"]
    return estimated, estimated * document["modelled_cycles"] / document["cycles"]


def stored() -> list[Document]:
    """Return the stored results."""
    return read_results(RESULTS)


def store(measured: Iterable[Mapping[str, Any]]) -> None:
    """Store results in place of earlier ones of the same memory, engine and interconnect."""
    store_results(RESULTS, _KEY, map(dict, measured))


_HEADINGS = (
    "memory", "latency of the interconnect, ns", "bytes of memory, each golden", "cycles, measured",
    "with memory that answers in the next cycle", "modelled for that", "at most for that",
    "share of the DDR4's peak", "bus of the DDR4 in use", "tokens/s of the whole model, estimated",
    "with the cycles measured",
)  # fmt: skip


def table(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of stored results."""
    rows = []
    for each in documents:
        memory = ddr4_memories()[each["memory"]]
        shares, speeds = shares_of_peak(each, memory), tokens_per_s(each)
        rows.append([
            memory.summary, f"{each['interconnect_ns']:g}", f"{each['equal_memory_bytes']:,}",
            f"{each['cycles']:,}", f"{each['ideal_cycles']:,}", f"{each['modelled_cycles']:,}",
            f"{each['most_cycles']:,}", *(f"{100 * share:.1f} %" for share in shares),
            *(f"{speed:.2f}" for speed in speeds),
        ])  # fmt: skip
    return markdown(_HEADINGS, rows, left=1)


def statement(documents: Sequence[Mapping[str, Any]]) -> str:
    """Say what was simulated, and what is an estimate."""
    each = documents[0]
    uses = {name: each["resources"][name] for name in _RESOURCES}
    used = {name: f"{use['used']:,} of {use['available']:,}" for name, use in uses.items()}
    fits = "fits" if each["fits"] else "does not fit"
    return (
        f"Simulated: layer 0 of {each['layers']} of {each['model']} with its own weights, and an"
        f" output layer of {each['vocabulary']} tokens, for {each['prompt_tokens']} tokens, as one"
        f" list on the emitted Verilog of `{each['engine']}` at {each['clock_mhz']:g} MHz."
        f" Estimated: the whole model, {each['token_cycles']:,} cycles of a token behind"
        f" {each['context'] - 1} others; that the engine {fits} an {each['device']}:"
        f" {used['luts']} look-up tables, {used['dsps']} DSP blocks, {used['brams']} block"
        " memories; and that it reaches the clock, which is assumed. The latency of the"
        " interconnect is assumed, too: none of a KV260 is in it. The last column is the estimate"
        " times the cycles of this list, modelled over measured."
    )


def section(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return the section of the page."""
    return f"{statement(documents)}\n\n{table(documents)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure or read what is stored, and print the table or write it into a page."""
    options = parser("ddr4_layer", __doc__)
    options.add_argument("--memory", default="kv260", choices=list(ddr4_memories()),
                         help="default %(default)s")  # fmt: skip
    options.add_argument("--config", type=Path, metavar="FILE", default=CONFIG,
                         help="engine, default configs/boards/smollm2_kv260.yaml")  # fmt: skip
    options.add_argument("--model", type=Path, metavar="DIR",
                         default=ROOT / "build" / "llm" / "int8-plain",
                         help="quantised decoder, default build/llm/int8-plain")  # fmt: skip
    options.add_argument("--interconnect", type=float, nargs="+", metavar="NS",
                         default=INTERCONNECT_NS,
                         help="latencies of the interconnect, default 0 100")  # fmt: skip
    options.add_argument("--stored", action="store_true", help="measure nothing")
    options.add_argument("--write", type=Path, metavar="PAGE", help="docs/engines-on-boards.md")
    chosen = options.parse_args(arguments)
    if not chosen.stored:
        config = load_config(chosen.config)
        if not isinstance(config, TransformerConfig):
            raise InputError(f"{chosen.config}: family: must be one that executes command lists")
        store(measure(Model(chosen.model), config, chosen.memory, chosen.interconnect))
    documents = stored()
    click.echo(json.dumps(documents, indent=1) if chosen.json else section(documents))
    if chosen.write:
        write_sections(chosen.write, {SECTION: section(documents)})
    return 0


if __name__ == "__main__":
    run(main)
