# SPDX-License-Identifier: Apache-2.0
"""Timing of the passes of a model on an engine: everything that the engine executes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hwgen.core.cycles.basis import Cycles
from hwgen.core.protocols import ListCore
from hwgen.core.registry import core_of
from hwgen.errors import InputError
from hwgen.families.gemm_stream.core import GemmStreamCore
from hwgen.models.compile.compilation import Settings
from hwgen.models.compile.job_compilation import JobCompilation
from hwgen.models.compile.list_compilation import ListCompilation, checked_engine
from hwgen.models.compile.network_compilation import NetworkCompilation
from hwgen.models.compile.timing import decoder_jobs, decoder_list, network_frame
from hwgen.models.run.timed_units import decoder_passes, frame_cycles
from hwgen.workloads.timing import MEMORY_PORT, PassTiming, TimedOperation

if TYPE_CHECKING:
    from hwgen.core.params.base import FamilyConfig
    from hwgen.models.files.store import Model
    from hwgen.workloads.network import Network

HOST = "operations of the host between products"
PRODUCTS = "attention and operations on rows: name their units by --unit"


def timing_of(document: Mapping[str, Any], missing: str = "") -> PassTiming:
    """Return the timing of a pass as `hwgen.models.compile.timing` describes it."""
    bounds = {key: document[key] for key in ("least", "most") if key in document}
    operations = tuple(
        TimedOperation(
            f"{row['operation']}: {row['unit']}", row["cycles"],
            row["read_bytes"] + row["write_bytes"], row["macs"],
            row["limit"] == MEMORY_PORT,
        )
        for row in document["operations"] if row["jobs"]
    )  # fmt: skip
    return PassTiming(Cycles(document["cycles"], "modelled", **bounds), operations, missing=missing)


def engine_passes(
    model: Model,
    configs: Sequence[FamilyConfig],
    passes: Mapping[str, Network],
    at_once: int = 4,
) -> dict[str, PassTiming]:
    """Return the timing of each pass.

    On an engine of several units it is that of a command list, on an engine that multiplies in
    memory that of its jobs, without the host; on other units each operation is a job that begins
    when the one before has ended.

    Parameters
    ----------
    model : Model
    configs : sequence of FamilyConfig
        The engine, or one that multiplies and the units beside it.
    passes : mapping
        ``prefill`` and ``decode``, or ``pass``.
    at_once : int
        Tokens of a prompt that a list, or the jobs, take at once.

    Returns
    -------
    dict
        By pass. `PassTiming.missing` says what is not in it.

    Raises
    ------
    InputError
        If an engine cannot execute a quantised decoder: its weights have another format, say.
    """
    first = core_of(configs[0])
    try:
        if isinstance(first, ListCore):
            return _list(model, first.params, passes, at_once)
        if isinstance(first, GemmStreamCore):
            return _jobs(model, first.params, passes, at_once)
        return _units(model, configs, passes)
    except InputError as error:
        engine, quantised = isinstance(first, ListCore | GemmStreamCore), model_is_quantised(model)
        if engine and quantised and "decode" in passes:
            raise  # the engine computes decoders, and not this one: see what `compile` says
        reason = str(error).splitlines()[0]
        missing = PRODUCTS if len(configs) == 1 and quantised and not engine else (
            f"everything but products of weights: {reason}"
        )  # fmt: skip
    return {
        name: PassTiming(_products(configs[0], network), missing=missing)
        for name, network in passes.items()
    }


def check_engine(
    model: Model, configs: Sequence[FamilyConfig], passes: Mapping[str, Network]
) -> None:
    """Refuse a quantised decoder that an engine cannot execute, before anything is compiled.

    Parameters
    ----------
    model : Model
    configs : sequence of FamilyConfig
        As those of `engine_passes`.
    passes : mapping

    Raises
    ------
    InputError
        If the engine has not what the model needs; it names shipped engines that have it.
    """
    first = core_of(configs[0])
    if "decode" not in passes or not model_is_quantised(model):
        return
    if isinstance(first, ListCore):
        checked_engine(model, first.params)


def model_is_quantised(model: Model) -> bool:
    """Return whether products of a model are products of integers."""
    operations = {node.operation for node in model.description.nodes}
    return bool(operations & {"quantise", "integer_gemm", "integer_matmul"})


def _products(config: FamilyConfig, network: Network) -> Cycles:
    """Return the cycles of products, each of which begins when the one before has ended."""
    core, total, basis = core_of(config), 0, "exact"
    for layer in network.layers:
        if layer.product is not None:
            cycles = core.cycles([core.gemm(*layer.product)])
            total += layer.repeat * cycles.number
            if cycles.basis != "exact":
                basis = cycles.basis
    return Cycles(total, basis)  # type: ignore[arg-type]  # of a basis of cycles


def _decoding(passes: Mapping[str, Network]) -> tuple[int, int]:
    """Return the tokens of the prompt and the positions before the step of decoding."""
    return passes["prefill"].tokens or 1, passes["decode"].context


def _list(
    model: Model, config: Any, passes: Mapping[str, Network], at_once: int
) -> dict[str, PassTiming]:
    if "decode" not in passes:
        raise InputError(f"{model.description.name} is no decoder; lists are of decoders")
    prompt, context = _decoding(passes)
    settings = Settings(min(at_once, prompt), max(prompt, context + 1))
    compilation = ListCompilation(model, config, settings)
    return {
        "prefill": timing_of(decoder_list(compilation, prompt, 0)),
        "decode": timing_of(decoder_list(compilation, 1, context)),
    }


def _jobs(
    model: Model, config: Any, passes: Mapping[str, Network], at_once: int
) -> dict[str, PassTiming]:
    if "decode" not in passes:
        network = NetworkCompilation(model, config, Settings())
        return {name: timing_of(network_frame(network)["frame"], HOST) for name in passes}
    prompt, context = _decoding(passes)
    settings = Settings(min(at_once, prompt), max(prompt, context + 1))
    compilation = JobCompilation(model, config, settings)
    return {
        name: timing_of(document, HOST)
        for name, document in decoder_jobs(compilation, prompt, context).items()
    }


def _units(
    model: Model, configs: Sequence[FamilyConfig], passes: Mapping[str, Network]
) -> dict[str, PassTiming]:
    if "decode" not in passes:
        cycles = frame_cycles(model, configs)
        return {name: PassTiming(Cycles(cycles, "modelled"), missing=HOST) for name in passes}
    timed = decoder_passes(model, configs, *_decoding(passes))
    return {
        name: PassTiming(Cycles(cycles, "modelled"), attention_cycles=attention)
        for name, (cycles, attention) in timed.items()
    }
