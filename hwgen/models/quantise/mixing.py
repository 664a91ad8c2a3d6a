# SPDX-License-Identifier: Apache-2.0
"""Mixed formats of weights: groups of products, an additive model of divergence, and its front.

Quantisations of one model that differ in the format of weights alone share rotation, smoothing and
scales of keys and values, so that a mixture takes the weights of each product from one of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hwgen.errors import InputError
from hwgen.models.files.store import WEIGHTS, Model, Writer, write_description
from hwgen.models.graph.description import Description, Node

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from hwgen.models.files.gguf_blocks import Groups

ROLES = {
    "query": "attention", "key": "attention", "value": "attention",
    "attention_output": "attention", "gate": "gate", "up": "gate", "down": "down",
}  # fmt: skip
"""Groups that products of a layer belong to, by the last part of their names."""


@dataclass(frozen=True)
class LayerGroup:
    """Products that have one format.

    Parameters
    ----------
    name : str
    products : tuple of str
        Names of the operations.
    weights : tuple of str
        Names of their weights.
    """

    name: str
    products: tuple[str, ...]
    weights: tuple[str, ...]


def layer_groups(description: Description, parts: int) -> list[LayerGroup]:
    """Return the groups of a quantised decoder's products, by role and depth.

    Parameters
    ----------
    description : Description
    parts : int
        Parts that the layers are divided into.
    """
    result: dict[str, list[Node]] = {}
    parts = min(parts, description.layers)
    for node in description.nodes:
        if node.operation != "gemm":
            continue
        if node.layer is None:
            name = node.name
        else:
            role = node.name.rpartition(".")[2]
            part = node.layer * parts // description.layers
            first, last = (-(-n * description.layers // parts) for n in (part, part + 1))
            layers = f" of layers {first} to {last - 1}" if parts > 1 else ""
            name = f"{ROLES.get(role, role)}{layers}"
        result.setdefault(name, []).append(node)
    return [
        LayerGroup(
            name, tuple(node.name for node in nodes),
            tuple(node.inputs["weights"] for node in nodes),
        )
        for name, nodes in result.items()
    ]  # fmt: skip


class MixedModel(Model):
    """A quantised model with some weights of others.

    Parameters
    ----------
    base : Model
    others : mapping of Model
        By the name of weights; quantised like the base but for the format of weights.
    """

    def __init__(self, base: Model, others: Mapping[str, Model]) -> None:
        self.path = base.path
        self._base, self._others = base, others
        tensors = {
            name: others[name].description.tensors[name] if name in others else tensor
            for name, tensor in base.description.tensors.items()
        }
        self.description = base.description.model_copy(update={"tensors": tensors})

    def numbers(self, name: str) -> NDArray[np.float32]:
        """Return a tensor in single precision."""
        return self._others.get(name, self._base).numbers(name)

    def groups(self, name: str) -> Groups | None:
        """Return a tensor as integers with scales; None if it is plain numbers."""
        return self._others.get(name, self._base).groups(name)

    def forget(self) -> None:
        """Release the memory of weights that were read."""
        for model in (self._base, *self._others.values()):
            model.forget()

    def write(self, directory: Path) -> None:
        """Write the model into an empty directory, without the record of its quantisation."""
        with (directory / WEIGHTS).open("wb") as file:
            writer = Writer(file)
            for name, tensor in self.description.tensors.items():
                groups = self.groups(name)
                if groups is not None:
                    writer.groups(name, [groups], tensor.shape, tensor.origin, tensor.bits)
                else:
                    values = self._base.part(tensor.values)
                    writer.numbers(name, [values], tensor.shape, tensor.origin)
        made = self.description.model_copy(update={"tensors": writer.tensors})
        write_description(directory, Description.model_validate(made.model_dump()))


def mixed(
    models: Mapping[str, Model], groups: Sequence[LayerGroup], formats: Sequence[str]
) -> MixedModel:
    """Return a model with a format for each group.

    Parameters
    ----------
    models : mapping of Model
        Of one format each, by its name.
    groups : sequence of LayerGroup
    formats : sequence of str
        Of the groups.

    Raises
    ------
    InputError
        If the models differ in something else.
    """
    base = models[formats[0]]
    for name, model in models.items():
        if model.description.nodes != base.description.nodes:
            raise InputError(f"{model.path} ({name}) and {base.path} differ in operations")
    others = {
        name: models[fmt]
        for group, fmt in zip(groups, formats, strict=True) for name in group.weights
    }  # fmt: skip
    return MixedModel(base, others)


def bits_of(model: Model, group: LayerGroup) -> float:
    """Return the bits of a group's weights, scales included, which are 16 bits wide at most."""
    total = 0.0
    for name in group.weights:
        tensor = model.description.tensors[name]
        rows, length = tensor.shape
        scales = tensor.scales.shape[1] if tensor.scales else 0
        each = 8 if tensor.origin in ("mxfp4", "nvfp4") else 16
        total += rows * (length * tensor.bits + scales * each)
    return total


@dataclass(frozen=True)
class Mixture:
    """Formats of groups, and what the additive model says of them.

    Parameters
    ----------
    formats : tuple of str
        Of the groups, in their order.
    bits : float
        Of all weights.
    kl : float
        Divergence, by the additive model.
    """

    formats: tuple[str, ...]
    bits: float
    kl: float


def front(
    bits: Mapping[tuple[int, str], float],
    added: Mapping[tuple[int, str], float],
    base: float,
    sets: Iterable[Sequence[str]],
) -> list[Mixture]:
    """Return the mixtures that no other one surpasses in bits and divergence, the smallest first.

    Sums over groups are extended group by group, and what is surpassed is dropped: exact, since
    both are sums.

    Parameters
    ----------
    bits, added : mapping
        By number of the group and format: bits, and divergence beyond that of the base.
    base : float
        Divergence where nothing is added.
    sets : iterable of sequence of str
        Formats that one engine has units for.
    """
    count = 1 + max(number for number, _ in bits)
    every: list[Mixture] = []
    for formats in sets:
        partial = [Mixture((), 0.0, base)]
        for number in range(count):
            partial = undominated(
                Mixture((*m.formats, f), m.bits + bits[number, f], m.kl + added[number, f])
                for m, f in itertools.product(partial, formats)
            )
        every += partial
    return undominated(every)


def undominated(mixtures: Iterable[Mixture]) -> list[Mixture]:
    """Return the mixtures that no other one surpasses, the smallest first."""
    result: list[Mixture] = []
    for each in sorted(mixtures, key=lambda m: (m.bits, m.kl)):
        if not result or each.kl < result[-1].kl:
            result.append(each)
    return result


def spread(mixtures: Sequence[Mixture], count: int) -> list[Mixture]:
    """Return some of the mixtures of more than one format, at about equal distances in bits."""
    inner = [each for each in mixtures if len(set(each.formats)) > 1]
    if len(inner) <= count:
        return inner
    low, high = inner[0].bits, inner[-1].bits
    chosen: dict[int, Mixture] = {}
    for step in range(count):
        wanted = low + (high - low) * (step + 0.5) / count
        index = min(range(len(inner)), key=lambda i: abs(inner[i].bits - wanted))
        chosen[index] = inner[index]
    return [chosen[index] for index in sorted(chosen)]


def patterns(groups: Sequence[LayerGroup], mixture: Sequence[str]) -> tuple[str, Any]:
    """Return the most frequent format, and the products of the others: names and formats."""
    pairs = [(name, fmt) for group, fmt in zip(groups, mixture, strict=True)
             for name in group.products]  # fmt: skip
    counts = {fmt: sum(f == fmt for _, f in pairs) for _, fmt in pairs}
    base = max(counts, key=lambda fmt: counts[fmt])
    return base, tuple((name, fmt) for name, fmt in pairs if fmt != base)
