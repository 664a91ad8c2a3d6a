# SPDX-License-Identifier: Apache-2.0
"""Demonstration of a decoder, from its file to figures of an engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.build.build import retarget
from flows.build.engine_estimate import engine_estimate
from flows.build.load import load_config, load_design
from flows.simulation.models.model_run import Record, RtlEngine
from hwgen.errors import InputError
from hwgen.models.compile.engine_passes import engine_passes
from hwgen.models.files.store import Model
from hwgen.models.files.tokenizer_json import tokenizer_of
from hwgen.models.graph.hadamard import check_blocks
from hwgen.models.graph.passes import passes_of, speeds
from hwgen.models.import_model import import_model
from hwgen.models.quantise.quantise import quantise
from hwgen.models.quantise.recipe import Recipe
from hwgen.models.run.engine import Run, generate
from hwgen.models.run.golden_engine import GoldenEngine
from hwgen.models.run.units import Units

if TYPE_CHECKING:
    from hwgen.core.params.off_chip import OffChip
    from hwgen.models.graph.description import Description

CONFIGS = Path(__file__).parents[3] / "configs"
"""Shipped configurations of a checkout."""

BLOCK = 8  # elements that the shipped engine for int8 rotates

TEXT = (
    "The river rises in the hills and is fed by many small streams. In spring, when the snow melts,"
    " it covers the meadows on both banks, and the people of the village move their cattle to"
    " higher ground. How far is it from here to the sea? Nobody could tell, but a letter took"
    ' 3 days, and a boat with 12 men at the oars needed almost 5. "We shall see," she said,'
    ' "whether the bridge holds." To compute the mean of a list, add all of its numbers and divide'
    " the sum by how many there are; if the list is empty, return zero."
)
"""Text of the calibration where none is named."""

PROMPT = "The capital of France is"
PROMPT_TOKENS = 6  # of a model without a tokenizer


@dataclass(frozen=True)
class Engine:
    """A shipped engine, and the units of which it consists.

    Parameters
    ----------
    config : Path
        Configuration of the whole engine, which executes command lists.
    units : tuple of Path
        Configurations of separate units of the same operations.
    recipe : Recipe
        Quantisation for it.
    """

    config: Path
    units: tuple[Path, ...]
    recipe: Recipe


@dataclass(frozen=True)
class Request:
    """Options of a demonstration.

    Parameters
    ----------
    source : Path
        A GGUF file or a directory of safetensors.
    prompt : str
    count : int
        Tokens to generate.
    calibration : str
        Text to calibrate with.
    target : str or None
        Technology of the engine instead of the configuration's.
    memory : OffChip
        Memory of weights, keys and values.
    configs : Path
        Directory of the shipped configurations.
    """

    source: Path
    prompt: str
    count: int
    calibration: str
    target: str | None
    memory: OffChip
    configs: Path


def suitable_engine(description: Description, configs: Path) -> Engine:
    """Return the shipped engine for the weights of a decoder.

    Weights of at most 2 bits stay as the file has them, on the engine for ternary weights; others
    become int8.

    Raises
    ------
    InputError
        If the network is no decoder, or the configurations are not there.
    """
    if not description.decodes:
        raise InputError(f"{description.name} is no decoder; the demonstration generates a text")
    products = [node for node in description.nodes if node.operation == "gemm"]
    layers = [node for node in products if node.layer is not None]
    ternary = bool(layers) and all(
        description.tensors[node.inputs["weights"]].bits <= 2 for node in layers
    )
    recipe = Recipe("original")
    if not ternary:
        recipe = Recipe(hadamard=BLOCK if _in_blocks(description) else 0, compensate=False)
    name, folder = ("ternary", "decoder_ternary") if ternary else ("int8", "decoder")
    result = Engine(
        configs / "decoder_engine" / f"{name}.yaml",
        tuple(sorted((configs / folder).glob("*.yaml"))),
        recipe,
    )
    for path, there in ((result.config, result.config.is_file()), (configs / folder, result.units)):
        if not there:
            raise InputError(
                f"{path} does not exist; name the directory `configs` of a checkout by --configs"
            )
    return result


def _in_blocks(description: Description) -> bool:
    """Return whether the engine can rotate all rows of a decoder in its blocks."""
    try:
        check_blocks(description, BLOCK)
    except InputError:
        return False
    return True


def demonstrate(request: Request, directory: Path, tell: Callable[[str], None]) -> dict[str, Any]:
    """Import, quantise, generate a text, simulate a layer, and estimate the engine.

    Parameters
    ----------
    request : Request
    directory : Path
        Takes the model and the quantised model, as `model` and `quantised`.
    tell : callable
        Takes a line on each step that is done.

    Returns
    -------
    dict
        ``model``, ``engine``, ``text`` and ``tokens``, ``simulated``, ``passes``, ``estimate``.

    Raises
    ------
    InputError
        If the file cannot be read, or the engine does not execute the network.
    CheckFailed
        If the simulated layer differs from the golden model.
    """
    for part in ("model", "quantised"):
        (directory / part).mkdir()
    description = import_model(request.source, directory / "model")
    engine = suitable_engine(description, request.configs)
    name = str(engine.config.relative_to(request.configs.parent))
    tell(f"imported: {description.name}, {description.layers} layers; engine {name}")
    model = Model(directory / "model")
    tokenizer = tokenizer_of(model.tokenizer()) if model.has_tokenizer else None
    vocabulary = description.vocabulary or 1
    if tokenizer is None:
        prompt = [number % vocabulary for number in range(1, PROMPT_TOKENS + 1)]
        texts = [number * 7 % vocabulary for number in range(256)]
    else:
        prompt = tokenizer.encode(request.prompt, special=True)
        texts = tokenizer.encode(request.calibration, special=False)
    reports = quantise(model, directory / "quantised", texts, engine.recipe)
    worst = max(reports, key=lambda report: report.error)
    tell(f"quantised: largest error of a product {100 * worst.error:.2f} %, {worst.name}")
    quantised = Model(directory / "quantised")
    passes = passes_of(quantised.description, len(prompt), len(prompt))
    core = load_design(engine.config)
    refusal = f"{request.source}: the shipped engine {name} does not execute this network: "
    try:
        timings = engine_passes(quantised, [core.params], passes)
    except InputError as error:
        raise InputError(f"{refusal}{error}") from None
    if missing := timings["decode"].missing:
        raise InputError(f"{refusal}{missing}; name units of your own: `hwgen model run --unit`")
    units = [load_config(path) for path in engine.units]
    run = Run(GoldenEngine(quantised, Units(units)))
    end = tokenizer.end if tokenizer else None
    tokens = list(generate(run, prompt, request.count, end))
    tell(f"generated {len(tokens)} tokens by golden models")
    record = Record(layers=frozenset({0}))
    Run(RtlEngine(quantised, units, record)).feed(prompt[:1])
    tell(f"simulated layer 0: {record.simulated} operations equal in every bit")
    own = core.params.target
    entry = engine_estimate(
        [core], retarget(own, request.target, None, request.memory), passes, timings
    )
    return {
        "model": description.name,
        "engine": name,
        "prompt": request.prompt if tokenizer else "",
        "tokens": tokens,
        "text": tokenizer.decode(tokens) if tokenizer else "",
        "simulated": {"operations": record.simulated, "cycles": dict(record.cycles)},
        "cycles_per_token": timings["decode"].cycles.number,
        "passes": speeds(entry, passes),
        "estimate": entry,
    }
