# SPDX-License-Identifier: Apache-2.0
"""``hwgen model run``: a decoder by the reference, by golden models, or by simulated hardware."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from hwgen.cli.support.common import emit_json, task_progress
from hwgen.progress import steps
from hwgen.reports.terminal import console

if TYPE_CHECKING:
    from flows.simulation.models.model_run import Record
    from hwgen.core.params.base import FamilyConfig
    from hwgen.models.files.store import Model
    from hwgen.models.files.tokenizer_json import AnyTokenizer
    from hwgen.models.run.sampling import Sampling
    from hwgen.models.run.units import Units


@dataclass(frozen=True)
class Request:
    """Arguments of a run; see the options of ``hwgen model run``."""

    source: Path
    prompt: str | None
    prompt_tokens: Path | None
    count: int
    engine: str
    units: tuple[Path, ...]
    layers: str | None
    journal: Path | None
    sampling: Sampling | None = None


def run(request: Request, *, as_json: bool) -> None:
    """Continue a text and print it, and what was simulated."""
    from hwgen.models.files.store import Model
    from hwgen.models.files.tokenizer_json import tokenizer_of
    from hwgen.models.run.engine import Run, generate

    model = Model(request.source)
    tokenizer = tokenizer_of(model.tokenizer()) if request.prompt is not None else None
    prompt = (
        tokenizer.encode(request.prompt or "")
        if tokenizer
        else token_numbers(request.prompt_tokens)
    )
    result: list[int] = []
    start = time.monotonic()
    with task_progress(doing(request), quiet=as_json) as update:
        engine, record = engine_of(
            model, request, _engines(model, len(prompt), request.count), update
        )
        end = tokenizer.end if tokenizer else None
        tokens = generate(Run(engine), prompt, request.count, end, request.sampling)
        result.extend(tokens if record else steps("tokens", tokens, request.count))
    continuation = Continuation(
        request, model.description.name, tokenizer, prompt, result, time.monotonic() - start
    )
    if record is None:
        continuation.tell(as_json=as_json)
    else:
        continuation.tell(simulated_counts(record), simulated_line(record), as_json=as_json)


def doing(request: Any) -> str:
    """Return the label of a run for lines of progress."""
    return "simulating" if request.engine == "rtl" else "computing"


@dataclass(frozen=True)
class Continuation:
    """Continuation of a prompt by a model.

    Parameters
    ----------
    request : Request
    name : str
        Of the model.
    tokenizer : Tokenizer or None
        None: tokens are numbers.
    prompt, tokens : list of int
        Tokens of the prompt, and those behind it.
    seconds : float
        How long it took.
    """

    request: Request
    name: str
    tokenizer: AnyTokenizer | None
    prompt: list[int]
    tokens: list[int]
    seconds: float

    def tell(
        self, simulated: Mapping[str, Any] | None = None, line: str = "", *, as_json: bool
    ) -> None:
        """Print it, and what was simulated of it: as JSON, or as a line behind the text."""
        text = self.tokenizer.decode(self.tokens) if self.tokenizer else ""
        document: dict[str, Any] = {
            "model": self.name,
            "engine": self.request.engine,
            "prompt_tokens": self.prompt,
            "tokens": self.tokens,
            "text": text,
            "wall_seconds": round(self.seconds, 3),
        }
        if simulated is not None:
            document["simulated"] = simulated
        if as_json:
            emit_json(document)
            return
        numbers = " ".join(map(str, self.tokens))
        click.echo(f"{self.request.prompt}{text}" if self.tokenizer else numbers)
        if line:
            console().print(line, markup=False, highlight=False, soft_wrap=True)


def simulated_counts(record: Record) -> dict[str, Any]:
    """Return the counts of simulated operations, for `--json`."""
    return {
        "operations": record.simulated + record.reused,
        "of_journal": record.reused,
        "cycles": dict(record.cycles),
    }


def simulated_line(record: Record) -> str:
    """Return a line on simulated operations."""
    reused = f", {record.reused} of them before" if record.reused else ""
    cycles = ", ".join(f"{name} {count:,d}" for name, count in record.cycles.items())
    return (
        f"{record.simulated + record.reused} operations simulated{reused}, each equal to the golden"
        f" model in every bit; cycles: {cycles}"
    )


@dataclass(frozen=True)
class Engines:
    """Constructors of the engines of decoders or of networks on arrays.

    Parameters
    ----------
    floating, golden, simulated : callable
        Of nothing; of the hardware's units; of configurations and the record of what is simulated.
    operations : callable
        Of the last, and of the layers that are simulated: how many operations that will be.
    """

    floating: Callable[[], Any]
    golden: Callable[[Units], Any]
    simulated: Callable[[Sequence[FamilyConfig], Record], Any]
    operations: Callable[[Any, frozenset[int] | None], int]


class Chosen(Protocol):
    """The options of ``hwgen model run`` that name an engine."""

    @property
    def engine(self) -> str:
        """Its name: float, golden or rtl."""

    @property
    def units(self) -> tuple[Path, ...]:
        """Configurations of the hardware."""

    @property
    def layers(self) -> str | None:
        """Layers to simulate; default all."""

    @property
    def journal(self) -> Path | None:
        """Journal of simulated operations."""


def check_layers(request: Chosen) -> None:
    """Refuse options that only simulations have."""
    if request.engine != "rtl" and (request.layers is not None or request.journal is not None):
        raise click.UsageError("--layers and --journal belong to --engine rtl")


def engine_of(model: Model, request: Chosen, engines: Engines, update: Any) -> tuple[Any, Any]:
    """Return the engine that a request names, and the record of what is simulated.

    Raises
    ------
    click.UsageError
        If the options do not go together.
    """
    check_layers(request)
    if request.engine == "float":
        if request.units:
            raise click.UsageError("--unit belongs to --engine golden and --engine rtl")
        return engines.floating(), None
    if not request.units:
        raise click.UsageError(f"--engine {request.engine} needs the hardware: give --unit FILE")
    from flows.build.load import load_config

    configs = [load_config(path) for path in request.units]
    if request.engine == "golden":
        from hwgen.models.run.units import Units

        with _refusals_named(model, request.units):
            return engines.golden(Units(configs)), None
    from flows.simulation.models.model_run import Record, digest_of

    layers = layers_of(request.layers, model.description.layers)
    digest = digest_of(model, configs) if request.journal else ""
    record = Record(layers, request.journal, digest)
    with _refusals_named(model, request.units):
        engine = engines.simulated(configs, record)
    show_progress(record, engines.operations(engine, layers), update)
    return engine, record


@contextmanager
def _refusals_named(model: Model, units: Sequence[Path]) -> Iterator[None]:
    """Name in a refusal the configuration, if it is one, and shipped engines that take a model."""
    from hwgen.errors import InputError
    from hwgen.models.run.shipped import naming_engines

    try:
        with naming_engines(model):
            yield
    except InputError as error:
        if len(units) > 1:
            raise
        raise InputError(f"{units[0]}: {error}") from None


def show_progress(record: Record, total: int, update: Any) -> None:
    """Let a record show how far it is, of a number of operations."""

    def show(record: Record) -> None:
        done = record.simulated + record.reused
        update(record.node, done, max(total, done + 1))

    record.on_operation = show


def _engines(model: Model, prompt: int, count: int) -> Engines:
    """Return the engines of a decoder that continues a prompt by some tokens."""

    def floating() -> Any:
        from hwgen.models.run.float_engine import FloatEngine

        return FloatEngine(model)

    def golden(units: Units) -> Any:
        from hwgen.models.run.golden_engine import GoldenEngine

        return GoldenEngine(model, units)

    def simulated(configs: Sequence[FamilyConfig], record: Record) -> Any:
        from flows.simulation.models.model_run import RtlEngine

        return RtlEngine(model, configs, record)

    def operations(engine: Any, layers: frozenset[int] | None) -> int:
        later: int = engine.operations(1, layers) * (count - 1)
        total: int = engine.operations(prompt, layers) + later
        return total

    return Engines(floating, golden, simulated, operations)


def layers_of(text: str | None, count: int) -> frozenset[int] | None:
    """Return the layers that an option names."""
    if text is None:
        return None
    try:
        result = frozenset(int(part) for part in text.split(","))
    except ValueError:
        result = frozenset({-1})
    if not all(0 <= layer < count for layer in result):
        raise click.UsageError(
            f"--layers: must be numbers from 0 to {count - 1} with commas, not {text[:40]!r}"
        )
    return result


def token_numbers(path: Path | None) -> list[int]:
    """Return tokens of a file."""
    from hwgen.core.files.arrays import read_npy
    from hwgen.errors import InputError

    assert path is not None
    array = read_npy(path)
    if array.ndim != 1 or array.dtype.kind not in "iu" or len(array) > 1 << 24:
        raise InputError(f"{path}: must be integers in one row, not {array.dtype} {array.shape}")
    return [int(number) for number in array]
