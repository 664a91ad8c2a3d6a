# SPDX-License-Identifier: Apache-2.0
"""Quantisation of models: integer weights, rows of activations, keys and values.

The result is a model again: its products take integers, made of each row by an operation
``quantise``, and weights that are integers with scales; its attention keeps keys and values as
integers with a scale for each token and head.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hwgen.errors import InputError
from hwgen.models.description import Description, Node
from hwgen.models.engine import Cache, Run
from hwgen.models.float_engine import FloatEngine, rounded
from hwgen.models.gguf_blocks import Groups
from hwgen.models.smoothing import Site, chosen_factors, sites_of
from hwgen.models.store import TOKENIZER, WEIGHTS, Model, Writer, write_description

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Reals = NDArray[np.float32]

Weights = Literal["int8", "int4", "ternary", "kept"]
KINDS_OF_WEIGHTS = ("int8", "int4", "ternary", "kept")
GROUPS = (32, 64, 128)
"""Groups of weights along K that are offered."""

_MARGIN = 1.25  # scales of queries, keys and values may be larger than in calibration


@dataclass(frozen=True)
class Recipe:
    """How a model is quantised.

    Parameters
    ----------
    weights : str
        ``int8``, ``int4``, ``ternary`` by the mean magnitude, or ``kept`` as the file has them.
    group : int or None
        Elements along K that share a scale; None: one scale for each output channel, and of
        ternary weights one for the matrix.
    smooth : bool
        Whether channels are made alike.
    activation_bits, kv_bits : int
    """

    weights: Weights = "int8"
    group: int | None = None
    smooth: bool = True
    activation_bits: int = 8
    kv_bits: int = 8

    @property
    def bits(self) -> int:
        """Bits of a weight; those of weights that are kept are the file's."""
        return {"int8": 8, "int4": 4, "ternary": 2, "kept": 8}[self.weights]

    def of(self, name: str, weights: Reals) -> Groups:
        """Return weights as integers with scales.

        Raises
        ------
        InputError
            If rows are no whole groups.
        """
        rows, k = weights.shape
        if self.group is not None and k % self.group:
            raise InputError(f"{name}: rows of {k} elements are no whole groups of {self.group}")
        grouped = weights.reshape(rows, -1, self.group or k)
        if self.weights == "ternary":
            axis = None if self.group is None else 2
            scale = np.abs(grouped).mean(axis=axis, keepdims=True)
            most = 1
        else:
            most = (1 << (self.bits - 1)) - 1
            scale = np.abs(grouped).max(axis=2, keepdims=True) / np.float32(most)
        scale = np.where(scale > 0, scale, np.float32(1)).astype(np.float32)
        values = np.clip(np.rint(grouped / scale), -most, most).astype(np.int8)
        return Groups(values.reshape(rows, k), scale[..., 0])


@dataclass(frozen=True)
class LayerReport:
    """What quantisation does to a product.

    Parameters
    ----------
    name : str
    error : float
        Root of the mean square of its results' error, relative to that of the results.
    saturated : float
        Share of the weights that are the largest or smallest integer.
    smoothed : bool
    """

    name: str
    error: float
    saturated: float
    smoothed: bool

    def document(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "name": self.name,
            "error": round(self.error, 6),
            "saturated": round(self.saturated, 6),
            "smoothed": self.smoothed,
        }


class _Watching(FloatEngine):
    """Keeps what products take, and the largest magnitudes of queries, keys and values."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.taken: dict[str, Reals] = {}
        self.largest: dict[str, float] = {}

    def gemm(self, node: Node, x: Reals) -> Reals:
        """Return the product, and keep x."""
        self.taken[node.inputs["x"]] = x
        return super().gemm(node, x)

    def attention(self, node: Node, cache: Cache, query: Reals, key: Reals, value: Reals) -> Reals:
        """Return the attention, and keep magnitudes."""
        for name, rows in (("query", query), ("key", key), ("value", value)):
            self.largest[f"{node.name}.{name}"] = float(np.abs(rows).max())
        return super().attention(node, cache, query, key, value)


MOST_CALIBRATION = 256
"""Tokens of calibration: what products take of as many is kept."""


def quantise(
    model: Model, directory: Path, tokens: Sequence[int], recipe: Recipe
) -> list[LayerReport]:
    """Write a quantised model into a directory.

    Parameters
    ----------
    model : Model
        A decoder that is not quantised.
    directory : Path
        Empty.
    tokens : sequence of int
        To calibrate with, at most `MOST_CALIBRATION` of them.
    recipe : Recipe

    Returns
    -------
    list of LayerReport
        One for each product.
    """
    description = model.description
    if any(node.operation == "quantise" for node in description.nodes):
        raise InputError(f"{model.path} is quantised already; quantise the model it was made from")
    watching = _Watching(model)
    Run(watching).feed(tokens[:MOST_CALIBRATION], every=True)
    work = _Work(model, recipe, watching)
    sites = sites_of(description)
    with (directory / WEIGHTS).open("wb") as file:
        work.prepare(sites)
        work.write(Writer(file), sites)
    nodes = tuple(work.nodes(sites))
    arrays = dict(description.arrays)
    for node in nodes:
        if node.operation == "quantise":
            arrays[node.output] = arrays[node.inputs["x"]]
    made = description.model_copy(
        update={"nodes": nodes, "arrays": arrays, "tensors": work.writer.tensors}
    )
    write_description(directory, Description.model_validate(made.model_dump()))
    if (model.path / TOKENIZER).exists():
        (directory / TOKENIZER).write_bytes((model.path / TOKENIZER).read_bytes())
    return work.reports


def _joined(groups: Groups) -> Groups:
    """Return weights with one scale a row where all groups of each row have the same.

    Ternary networks are trained with one scale a matrix, which block formats repeat.
    """
    first = groups.scales[:, :1]
    if groups.offsets is not None or not (groups.scales == first).all():
        return groups
    return Groups(groups.values, np.ascontiguousarray(first))


class _Work:
    """Weights on their way to integers."""

    def __init__(self, model: Model, recipe: Recipe, watching: _Watching) -> None:
        self.model = model
        self.recipe = recipe
        self.taken = watching.taken
        self.largest = watching.largest
        self.reports: list[LayerReport] = []
        self._changed: dict[str, Reals] = {}
        self._names: dict[str, str] = {}
        self._smoothed: set[str] = set()
        self.writer: Writer

    def _weights(self, name: str) -> Reals:
        return self._changed[name] if name in self._changed else self.model.numbers(name)

    def prepare(self, sites: Sequence[Site]) -> None:
        """Name the weights of products, and divide channels where that helps."""
        shared = {
            name for node in self.model.description.nodes for operand, name in node.inputs.items()
            if operand != "weights"
        }  # fmt: skip
        for site in sites:
            for node in site.products:
                weights = node.inputs["weights"]
                self._names[node.name] = f"{node.name}.weights" if weights in shared else weights
        if not self.recipe.smooth or self.recipe.weights == "kept":
            return
        for site in sites:
            self._smooth(site)

    def _smooth(self, site: Site) -> None:
        maker = site.maker
        if maker is None:
            return
        recipe = self.recipe
        weights = [self._weights(node.inputs["weights"]) for node in site.products]
        factors = chosen_factors(
            site,
            self.taken[site.array],
            weights,
            lambda w: recipe.of(site.array, w).numbers(),
            lambda x: rounded(x, recipe.activation_bits),
        )
        if factors is None:
            return
        if maker.operation == "rms_norm":
            gamma = maker.inputs["gamma"]
            self._changed[gamma] = self._weights(gamma) / factors
        else:
            name = maker.inputs["weights"]
            self._changed[name] = self._weights(name) / factors[:, None]
            if "bias" in maker.inputs:
                bias = maker.inputs["bias"]
                self._changed[bias] = self._weights(bias) / factors
        spread = site.spread(factors)
        self.taken[site.array] = self.taken[site.array] / spread
        for node, matrix in zip(site.products, weights, strict=True):
            self._changed[self._names[node.name]] = matrix * spread
            self._smoothed.add(node.name)

    def write(self, writer: Writer, sites: Sequence[Site]) -> None:
        """Write all weights, those of products as integers, and report their errors."""
        self.writer = writer
        products = {node.name: site for site in sites for node in site.products}
        for node in self.model.description.nodes:
            for operand, name in node.inputs.items():
                if node.name in products and operand == "weights":
                    self._product(writer, node, products[node.name])
                elif name in self.model.description.tensors and name not in writer.tensors:
                    self._other(writer, name)

    def _other(self, writer: Writer, name: str) -> None:
        tensor = self.model.description.tensors[name]
        groups = self.model.groups(name)
        if groups is not None:
            writer.groups(name, [groups], tensor.shape, tensor.origin, tensor.bits)
        elif name in self._changed:
            writer.numbers(name, [self._changed[name]], tensor.shape, "F32")
        else:
            part = self.model.part(tensor.values)
            writer.numbers(name, [part], tensor.shape, tensor.origin)

    def _product(self, writer: Writer, node: Node, site: Site) -> None:
        source, name = node.inputs["weights"], self._names[node.name]
        if name in writer.tensors:
            return
        tensor = self.model.description.tensors[source]
        groups = self.model.groups(source) if self.recipe.weights == "kept" else None
        groups = groups and _joined(groups)
        origin, bits = tensor.origin, tensor.bits
        weights = self._weights(name) if name in self._changed else self._weights(source)
        if groups is None:
            recipe = self.recipe if self.recipe.weights != "kept" else Recipe()
            groups = recipe.of(node.name, weights)
            origin, bits = recipe.weights, recipe.bits
        writer.groups(name, [groups], tensor.shape, origin, bits)
        x = self.taken[site.array]
        wanted = x @ weights.T
        found = rounded(x, self.recipe.activation_bits) @ groups.numbers().T
        size = float(np.square(wanted).mean())
        limits = groups.values.max(), groups.values.min()
        self.reports.append(
            LayerReport(
                node.name,
                math.sqrt(float(np.square(found - wanted).mean()) / max(size, 1e-30)),
                float(np.isin(groups.values, limits).mean()),
                node.name in self._smoothed,
            )
        )

    def nodes(self, sites: Sequence[Site]) -> list[Node]:
        """Return the operations, with integers before products."""
        taken = {site.array for site in sites}
        products = {node.name for site in sites for node in site.products}
        found = []
        made: set[str] = set()
        for node in self.model.description.nodes:
            x = node.inputs.get("x", "")
            if node.name in products and x in taken:
                name = f"{x.removesuffix(':0')}.quantise"
                if x not in made:
                    made.add(x)
                    found.append(
                        Node(
                            name=name, operation="quantise", inputs={"x": x}, output=f"{name}:0",
                            attributes={"bits": self.recipe.activation_bits}, layer=node.layer,
                        )
                    )  # fmt: skip
                inputs = {**node.inputs, "x": f"{name}:0", "weights": self._names[node.name]}
                node = node.model_copy(update={"inputs": inputs})
            elif node.operation == "attention":
                node = self._attention(node)
            found.append(node)
        return found

    def _attention(self, node: Node) -> Node:
        """Return an attention of integers, with what the largest scales of tokens stand for."""
        bits = self.recipe.kv_bits
        most = (1 << (bits - 1)) - 1
        units: dict[str, float] = {
            f"{name}_unit": (self.largest[f"{node.name}.{name}"] or 1.0) / most * _MARGIN
            for name in ("query", "key", "value")
        }
        return node.model_copy(update={"attributes": {**node.attributes, "bits": bits, **units}})
