# SPDX-License-Identifier: Apache-2.0
"""Mixed formats of weights, found by measured divergence: a front, and its models.

The divergence of each group of products in each format is measured on texts, with all other groups
in the widest format. Sums of these are a model of every mixture; mixtures that nothing surpasses by
it are made, and measured themselves.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flows.search.complete import CompleteItem, estimate_engine
from flows.tools.cache import Document, digest
from hwgen.errors import InputError
from hwgen.families.transformer.params import TransformerConfig
from hwgen.models.compile.list_compilation import checked_engine
from hwgen.models.files.store import Model
from hwgen.models.quantise.evaluation import Evaluation, distance, log_probabilities
from hwgen.models.quantise.mixing import (
    Mixture,
    bits_of,
    front,
    layer_groups,
    mixed,
    spread,
)
from hwgen.models.quantise.record import file_digests
from hwgen.models.run.float_engine import FloatEngine
from hwgen.progress import report

AT_ONCE = 2
"""Formats of weights that one engine has units for; it has at most eight units."""


@dataclass(frozen=True)
class Measured:
    """Mixture with its divergence as measured.

    Parameters
    ----------
    mixture : Mixture
        With the divergence by the additive model.
    evaluations : dict of Evaluation
        By text.
    """

    mixture: Mixture
    evaluations: dict[str, Evaluation]

    @property
    def kl(self) -> float:
        """Divergence of the worst text."""
        return max(each.kl for each in self.evaluations.values())

    @property
    def top1(self) -> float:
        """Share of equal predictions of the worst text."""
        return min(each.top1 for each in self.evaluations.values())


class MixedFormats:
    """Search for mixtures of the formats of quantised models.

    Parameters
    ----------
    source : Model
        The model before it was quantised.
    models : mapping of Model
        Quantised models that differ in the format of their weights, by that format.
    texts : mapping of sequence of int
        Tokens of texts to compare predictions on, by name.
    parts : int
        Parts that the layers are divided into; products of a part with the same role are a group.
    """

    def __init__(
        self,
        source: Model,
        models: Mapping[str, Model],
        texts: Mapping[str, Sequence[int]],
        parts: int,
    ) -> None:
        self.source, self.models, self.texts = source, models, texts
        first = next(iter(models.values()))
        self.groups = layer_groups(first.description, parts)
        self.bits = {
            (number, fmt): bits_of(model, group)
            for fmt, model in models.items() for number, group in enumerate(self.groups)
        }  # fmt: skip
        self.widest = max(models, key=lambda fmt: self._total(fmt))
        self._digests = {name: file_digests(model.path) for name, model in models.items()}
        self._reference: dict[str, Any] = {}

    def _total(self, fmt: str) -> float:
        return sum(self.bits[number, fmt] for number in range(len(self.groups)))

    def measure(self, formats: Sequence[str]) -> dict[str, Evaluation]:
        """Return the distance of a mixture's predictions by text; cached for the user."""
        used = sorted(set(formats))
        return {
            name: self._measure(formats, used, name, tokens) for name, tokens in self.texts.items()
        }

    def _measure(
        self, formats: Sequence[str], used: Sequence[str], name: str, tokens: Sequence[int]
    ) -> Evaluation:
        chosen = [[group.weights, fmt] for group, fmt in zip(self.groups, formats, strict=True)]
        parts = [{fmt: self._digests[fmt] for fmt in used}, file_digests(self.source.path),
                 list(tokens), chosen]  # fmt: skip

        def compute() -> Evaluation:
            if name not in self._reference:
                self._reference[name] = log_probabilities(FloatEngine(self.source), tokens)
                self.source.forget()
            model = mixed({fmt: self.models[fmt] for fmt in used}, self.groups, formats)
            made = distance(
                log_probabilities(FloatEngine(model), tokens), self._reference[name], tokens
            )
            model.forget()
            return made

        document = Document("mixed-formats", digest(parts))
        return document.recall(compute, asdict, lambda value: Evaluation(**value))

    def sensitivities(self) -> tuple[float, dict[tuple[int, str], float]]:
        """Return the divergence in the widest format, and what each group adds in each format."""
        count = len(self.groups)
        uniform = [self.widest] * count
        base = _worst(self.measure(uniform))
        added = {(number, self.widest): 0.0 for number in range(count)}
        wanted = [(n, fmt) for fmt in self.models if fmt != self.widest for n in range(count)]
        for done, (number, fmt) in enumerate(wanted):
            report("measuring groups", done, len(wanted))
            formats = [*uniform[:number], fmt, *uniform[number + 1 :]]
            added[number, fmt] = max(0.0, _worst(self.measure(formats)) - base)
        return base, added

    def search(self, count: int) -> tuple[list[Measured], dict[str, Any]]:
        """Return mixtures and uniform formats as measured, and what the additive model is of.

        Parameters
        ----------
        count : int
            Mixtures.
        """
        base, added = self.sensitivities()
        sets = list(itertools.combinations(self.models, min(AT_ONCE, len(self.models))))
        every = front(self.bits, added, base, sets)
        uniform = [
            Mixture((fmt,) * len(self.groups), self._total(fmt),
                    base + sum(added[n, fmt] for n in range(len(self.groups))))
            for fmt in self.models
        ]  # fmt: skip
        chosen = [*uniform, *spread(every, count)]
        made = []
        for done, mixture in enumerate(chosen):
            report("measuring mixtures", done, len(chosen))
            made.append(Measured(mixture, self.measure(mixture.formats)))
        groups = [
            {"group": group.name, "products": len(group.products), "formats": {
                fmt: {"bits": self.bits[number, fmt], "added_kl": added[number, fmt]}
                for fmt in self.models
            }} for number, group in enumerate(self.groups)
        ]  # fmt: skip
        made.sort(key=lambda each: each.mixture.bits)
        return made, {"kl": base, "widest": self.widest, "groups": groups, "front": len(every)}


def _worst(evaluations: Mapping[str, Evaluation]) -> float:
    return max(each.kl for each in evaluations.values())


def surpassed(points: Sequence[Mapping[str, Any]], cost: str) -> list[bool]:
    """Return of each point whether another one is at least as good in cost and divergence."""
    return [
        any(
            other[cost] <= each[cost] and other["kl"] <= each["kl"]
            and (other[cost], other["kl"]) != (each[cost], each["kl"])
            for other in points
        )
        for each in points
    ]  # fmt: skip


def first_estimate(model: Path, engines: Sequence[tuple[str, str]], scenarios: Any) -> Any:
    """Return the cheapest estimate of a model on engines that execute it.

    Units that multiply by a format which the model does not have are left out.

    Parameters
    ----------
    model : Path
    engines : sequence of (str, str)
        Names, and the JSON of their parameters.
    scenarios : tuple of Scenario

    Returns
    -------
    (str, Complete)

    Raises
    ------
    InputError
        If no engine executes it.
    """
    reasons, result = [], []
    for name, text in engines:
        try:
            used = _used_units(Model(model), json.loads(text))
            made = estimate_engine(CompleteItem(model, json.dumps(used), None, scenarios))
        except InputError as error:
            reasons.append(f"{name}: {str(error).splitlines()[0]}")
            continue
        result.append((name, made))
    if not result:
        raise InputError("\n".join([f"no engine executes {model}", *reasons]))
    cost = "j_per_token" if result[0][1].metrics["j_per_token"] is not None else "ms_per_token"
    return min(result, key=lambda pair: pair[1].metrics[cost] or 0.0)


def _used_units(model: Model, engine: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of an engine without units that multiply and have nothing to do."""
    config = TransformerConfig.model_validate(engine)
    used = {core.name for core in checked_engine(model, config).cores.values()}
    names = [name for name, unit in config.units.items() if name in used or not unit.multiplies]
    return {**engine, "units": {name: engine["units"][name] for name in names}}
