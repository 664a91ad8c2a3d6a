# SPDX-License-Identifier: Apache-2.0
"""Quantisation of models: integer weights, rows of activations, keys and values.

The result is a model again: its products take integers, made of each row by an operation
``quantise``, and weights that are integers with scales; its attention keeps keys and values as
integers with a scale for each token and head.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from hwgen.arithmetic.hadamard import hadamard_transform
from hwgen.errors import InputError
from hwgen.models.files.gguf_blocks import Groups
from hwgen.models.files.store import TOKENIZER, WEIGHTS, Model, Writer, write_description
from hwgen.models.graph.description import Description, Node, sizes_of
from hwgen.models.graph.hadamard import check_blocks, query_makers
from hwgen.models.quantise.calibration import Calibration
from hwgen.models.quantise.key_channels import key_factors, makers_of_scores, scale_channels
from hwgen.models.quantise.recipe import Recipe
from hwgen.models.quantise.rotation import Changed, rotate_values_only, rotated
from hwgen.models.quantise.smoothing import (
    NORMS,
    Site,
    balanced_factors,
    chosen_factors,
    sites_of,
)
from hwgen.models.run.block_rows import BLOCK
from hwgen.models.run.exact_products import one_thread
from hwgen.progress import steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Reals = NDArray[np.float32]

T = TypeVar("T")
U = TypeVar("U")

_MARGIN = 1.25  # scales of queries, keys and values may be larger than in calibration
THREADS = 2
"""Products that are computed at a time; more would need more memory."""

_REPORTED = 256  # rows of calibration that errors are reported of


@dataclass(frozen=True)
class LayerReport:
    """Effect of quantisation on a product.

    Parameters
    ----------
    name : str
    error : float
        Root of the mean square of its results' error, relative to that of the results.
    saturated : float or None
        Share of the weights that are the largest or smallest integer; None of ternary weights.
    smoothed : bool
    """

    name: str
    error: float
    saturated: float | None
    smoothed: bool

    def document(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "name": self.name,
            "error": round(self.error, 6),
            "saturated": None if self.saturated is None else round(self.saturated, 6),
            "smoothed": self.smoothed,
        }


def quantise(
    model: Model,
    directory: Path,
    tokens: Sequence[int],
    recipe: Recipe,
    more: Sequence[Sequence[int]] = (),
) -> list[LayerReport]:
    """Write a quantised model into a directory.

    Parameters
    ----------
    model : Model
        A decoder that is not quantised.
    directory : Path
        Empty.
    tokens : sequence of int
        To calibrate with.
    recipe : Recipe
    more : sequence of sequences of int
        Other texts to calibrate with; see `hwgen.models.quantise.calibration` for how much is read.

    Returns
    -------
    list of LayerReport
        One for each product.

    Raises
    ------
    InputError
        If the model is quantised already, or is to be turned and cannot be.
    """
    with one_thread():
        return _quantised(model, directory, tokens, recipe, more)


def _quantised(
    model: Model,
    directory: Path,
    tokens: Sequence[int],
    recipe: Recipe,
    more: Sequence[Sequence[int]],
) -> list[LayerReport]:
    if any(node.operation == "quantise" for node in model.description.nodes):
        raise InputError(f"{model.path} is quantised already; quantise the model it was made from")
    turned = rotated(model) if recipe.rotates else None
    if recipe.rotate and turned is None:
        raise InputError(
            f"{model.path}: its residual stream cannot be rotated: not RMS norms alone read it"
        )
    if recipe.rotates and turned is None and not all(s.maker for s in sites_of(model.description)):
        turned = rotate_values_only(model)  # where smoothing does not reach all products either
    model = turned or model
    description = model.description
    sites = sites_of(description)
    inputs = {site.array for site in sites}
    if recipe.hadamard:
        check_blocks(description, recipe.hadamard)
    _check_patterns(recipe, [node.name for site in sites for node in site.products])
    calibration = Calibration(
        model, [tokens, *more], inputs, moments=recipe.compensates,
        block=0 if recipe.keys_in_blocks else recipe.hadamard,
    )  # fmt: skip
    work = _Work(model, recipe, calibration, sites)
    with (directory / WEIGHTS).open("wb") as file:
        work.writer = Writer(file)
        for part in steps("layers", parts_of(description, sites)):
            work.prepare(part)
            calibration.advance(part)
            work.write(part)
    nodes = tuple(work.nodes(sites))
    arrays = dict(description.arrays)
    for node in nodes:
        if node.operation == "quantise":
            arrays[node.output] = arrays[node.inputs["x"]]
    made = description.model_copy(
        update={"nodes": nodes, "arrays": arrays, "tensors": work.writer.tensors}
    )
    write_description(directory, Description.model_validate(made.model_dump()))
    if model.has_tokenizer:
        (directory / TOKENIZER).write_bytes((model.path / TOKENIZER).read_bytes())
    return work.reports


def _check_patterns(recipe: Recipe, products: Sequence[str]) -> None:
    """Refuse patterns that name no product."""
    for pattern, _ in recipe.products:
        if not any(fnmatchcase(name, pattern) for name in products):
            first = ", ".join(products[:7])
            raise InputError(
                f"{pattern}: matches no product of the model; there are {first} and so on"
            )


def parts_of(description: Description, sites: Sequence[Site]) -> list[range]:
    """Return the operations in parts, layer by layer, that are quantised one after another.

    What is changed together, the products of a site and the operation whose channels are divided,
    is in one part.
    """
    nodes = description.nodes
    at = {node.name: index for index, node in enumerate(nodes)}
    starts = {
        index for index in range(1, len(nodes)) if nodes[index].layer != nodes[index - 1].layer
    }
    for site in sites:
        places = [at[node.name] for node in (*site.products, site.maker) if node is not None]
        starts -= set(range(min(places) + 1, max(places) + 1))
    bounds = [0, *sorted(starts), len(nodes)]
    return [range(start, end) for start, end in itertools.pairwise(bounds)]


def _in_threads(function: Callable[[T], U], items: Sequence[T]) -> list[U]:
    """Return the results of a function for items, of which some are computed at a time."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(function, items))


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

    def __init__(
        self, model: Model, recipe: Recipe, calibration: Calibration, sites: Sequence[Site]
    ) -> None:
        self.model = model
        self.recipe = recipe
        self.operands = calibration.operands
        self.largest = calibration.largest
        self._sites = sites
        self.reports: list[LayerReport] = []
        self._changed: dict[str, Reals] = {}
        self._names: dict[str, str] = {}
        self._sources: dict[str, str] = {}
        self._smoothed: set[str] = set()
        self._scores = makers_of_scores(model.description) if recipe.keys_in_blocks else {}
        self.writer: Writer
        shared = {
            name for node in model.description.nodes for operand, name in node.inputs.items()
            if operand != "weights"
        }  # fmt: skip
        for site in sites:
            for node in site.products:
                weights = node.inputs["weights"]
                self._names[node.name] = f"{node.name}.weights" if weights in shared else weights
                self._sources[self._names[node.name]] = weights

    def _weights(self, name: str) -> Reals:
        return self._changed[name] if name in self._changed else self.model.numbers(name)

    def prepare(self, part: range) -> None:
        """Compute the changed weights of operations, which calibration and rounding take."""
        if isinstance(self.model, Changed):
            nodes = self.model.description.nodes[part.start : part.stop]
            names = {name for node in nodes for name in node.inputs.values()}
            _in_threads(self.model.numbers, sorted(filter(self.model.changed, names)))

    def write(self, part: range) -> None:
        """Write the weights of operations, those of products as integers, and report errors."""
        nodes = self.model.description.nodes[part.start : part.stop]
        names = {node.name for node in nodes}
        sites = [site for site in self._sites if site.products[0].name in names]
        if self.recipe.smooth and self.recipe.weights != "original":
            # Those of a site depend on its own products, which no other site has changed yet.
            for site, factors in zip(sites, _in_threads(self._factors, sites), strict=True):
                if factors is not None:
                    self._smooth(site, factors)
        if self.recipe.hadamard:
            self._rotate(sites, names)
        if self.recipe.keys_in_blocks and self.recipe.weights != "original":
            for node in nodes:
                if node.name in self._scores:
                    self._equalise_keys(node, *self._scores[node.name])
        if self.recipe.compensates and self.recipe.weights != "original":
            inputs = [self.operands[site.array] for site in sites]
            _in_threads(lambda each: each.factor(self.recipe.activation_bits), inputs)
        products = {node.name: site for site in sites for node in site.products}
        own = {
            self._names[name]: node for node in reversed(nodes) if (name := node.name) in products
        }
        chosen = [node for name, node in own.items() if name not in self.writer.tensors]
        made = _in_threads(lambda node: self._product(node, products[node.name]), chosen)
        products_made = dict(zip((node.name for node in chosen), made, strict=True))
        for node in nodes:
            for operand, name in node.inputs.items():
                if node.name in products and operand == "weights":
                    if node.name in products_made:
                        self._write_product(node, *products_made.pop(node.name))
                elif name in self.model.description.tensors and name not in self.writer.tensors:
                    self._other(self.writer, name)
        self._changed.clear()
        for site in sites:
            del self.operands[site.array]
        self.model.forget()

    def _rotate(self, sites: Sequence[Site], names: Collection[str]) -> None:
        """Turn the weights of products back, whose inputs hardware turns in blocks."""
        block = self.recipe.hadamard
        for site in sites:
            self.operands[site.array].rotate(block)
            for node in site.products:
                name = self._names[node.name]
                weights = name if name in self._changed else node.inputs["weights"]
                self._changed[name] = hadamard_transform(
                    self._weights(weights), block
                ) / np.float32(block)
        if self.recipe.keys_in_blocks:  # hardware turns neither queries nor keys
            return
        for node in query_makers(self.model.description).values():
            if node.name not in names:
                continue
            changed = [self._names[node.name] if node.operation == "gemm" else node.inputs["gamma"]]
            if "bias" in node.inputs:
                changed.append(node.inputs["bias"])
            for name in changed:
                self._changed[name] = self._weights(name) / np.float32(block)

    def _equalise_keys(self, node: Node, query: Node, key: Node) -> None:
        """Divide channels of keys by their size, and multiply those of queries by it."""
        heads, kv_heads, elements = sizes_of(node)
        of_a_head = any(
            maker.operation != "gemm"
            and self.model.description.tensors[maker.inputs["gamma"]].shape == (elements,)
            for maker in (query, key)
        )
        factors = key_factors(node, self.largest[f"{node.name}.key"], of_a_head=of_a_head)
        of_queries = np.repeat(factors, heads // kv_heads, axis=0)
        for maker, each in ((key, np.float32(1) / factors), (query, of_queries)):
            self._changed |= scale_channels(maker, each, self._current, self._names)

    def _current(self, name: str) -> Reals:
        """Return weights by the name that they are written by, changed ones as they are now."""
        return self._weights(name if name in self._changed else self._sources.get(name, name))

    def _factors(self, site: Site) -> Reals | None:
        """Return the factors that channels of a site's maker are divided by, None if by none."""
        if site.maker is None:
            return None
        weights = [self._weights(node.inputs["weights"]) for node in site.products]
        rows = self.operands[site.array].rows
        if self.recipe.hadamard:
            return balanced_factors(site, np.square(rows).mean(0), weights)
        return chosen_factors(site, rows, weights)

    def _smooth(self, site: Site, factors: Reals) -> None:
        maker = site.maker
        assert maker is not None
        weights = [self._weights(node.inputs["weights"]) for node in site.products]
        if maker.operation in NORMS:
            for operand in ("gamma", "beta"):
                if operand in maker.inputs:
                    name = maker.inputs[operand]
                    self._changed[name] = self._weights(name) / factors
        else:
            name = maker.inputs["weights"]
            self._changed[name] = self._weights(name) / factors[:, None]
            if "bias" in maker.inputs:
                bias = maker.inputs["bias"]
                self._changed[bias] = self._weights(bias) / factors
            if site.heads is not None:
                self.largest[f"{site.array.removesuffix(':0')}.value"] /= factors
        spread = site.spread(factors)
        self.operands[site.array].divide(spread)
        for node, matrix in zip(site.products, weights, strict=True):
            self._changed[self._names[node.name]] = matrix * spread
            self._smoothed.add(node.name)

    def _other(self, writer: Writer, name: str) -> None:
        tensor = self.model.description.tensors[name]
        groups = self.model.groups(name)
        if groups is not None:
            writer.groups(name, [groups], tensor.shape, tensor.origin, tensor.bits)
        elif name in self._changed:
            writer.numbers(name, [self._changed[name]], tensor.shape, "F32")
        elif isinstance(self.model, Changed) and self.model.changed(name):
            numbers = self.model.numbers(name)
            # A table of tokens was int8 or wider: a rounding to 11 bits is none beside that.
            half = numbers.ndim == 2 and float(np.abs(numbers).max()) < np.finfo(np.float16).max
            dtype = np.float16 if half else np.float32
            writer.numbers(name, [numbers.astype(dtype)], tensor.shape, "F16" if half else "F32")
        else:
            part = self.model.part(tensor.values)
            writer.numbers(name, [part], tensor.shape, tensor.origin)

    def _product(self, node: Node, site: Site) -> tuple[Groups, str, int, LayerReport]:
        """Return the weights of a product, where from, their bits, and their errors."""
        source, name = node.inputs["weights"], self._names[node.name]
        tensor = self.model.description.tensors[source]
        groups = self.model.groups(source) if self.recipe.weights == "original" else None
        groups = groups and _joined(groups)
        origin, bits = tensor.origin, tensor.bits
        weights = self._weights(name) if name in self._changed else self._weights(source)
        inputs = self.operands[site.array]
        if groups is None:
            recipe = Recipe(compensate=False)
            if self.recipe.weights != "original":
                recipe = self.recipe.of_product(node.name)
            groups = recipe.of(node.name, weights, inputs if recipe.compensates else None)
            origin, bits = recipe.weights, recipe.bits
        x = inputs.rows[:: max(1, len(inputs.rows) // _REPORTED)]
        wanted = x @ weights.T
        result = self.recipe.round_rows(x) @ groups.numbers().T
        size = float(np.square(wanted).mean())
        limits = groups.values.max(), groups.values.min()
        report = LayerReport(
            node.name,
            math.sqrt(float(np.square(result - wanted).mean()) / max(size, 1e-30)),
            float(np.isin(groups.values, limits).mean()) if groups.values.max() > 1 else None,
            node.name in self._smoothed,
        )
        return groups, origin, bits, report

    def _write_product(
        self, node: Node, groups: Groups, origin: str, bits: int, report: LayerReport
    ) -> None:
        shape = self.model.description.tensors[node.inputs["weights"]].shape
        self.writer.groups(self._names[node.name], [groups], shape, origin, bits)
        self.reports.append(report)

    def nodes(self, sites: Sequence[Site]) -> list[Node]:
        """Return the operations, with integers before products."""
        arrays = {site.array for site in sites}
        products = {node.name for site in sites for node in site.products}
        result = []
        made: set[str] = set()
        for node in self.model.description.nodes:
            x = node.inputs.get("x", "")
            if node.name in products and x in arrays:
                name = f"{x.removesuffix(':0')}.quantise"
                if x not in made:
                    made.add(x)
                    result.append(
                        Node(
                            name=name, operation="quantise", inputs={"x": x}, output=f"{name}:0",
                            attributes={**self.recipe.row_format, **self._blocks},
                            layer=node.layer,
                        )
                    )  # fmt: skip
                inputs = {**node.inputs, "x": f"{name}:0", "weights": self._names[node.name]}
                node = node.model_copy(update={"inputs": inputs})
            elif node.operation == "attention":
                node = self._attention(node)
            result.append(node)
        return result

    @property
    def _blocks(self) -> dict[str, int]:
        return {"hadamard": self.recipe.hadamard} if self.recipe.hadamard else {}

    def _attention(self, node: Node) -> Node:
        """Return an attention of integers, with what the largest scales of tokens stand for.

        Blocks of keys and values have scales that stand for themselves.
        """
        keys, bits = self.recipe.keys, self.recipe.kv_bits
        if "key_format" in keys:
            elements = sizes_of(node)[2]
            if elements % BLOCK:
                raise InputError(
                    f"{node.name}: heads of {elements} elements are no whole blocks of {BLOCK};"
                    " keep keys and values as integers"
                )
            return node.model_copy(update={"attributes": {**node.attributes, **keys}})
        most = (1 << (bits - 1)) - 1
        units: dict[str, float] = {
            f"{name}_unit": (float(self.largest[f"{node.name}.{name}"].max()) or 1.0)
            / most
            * _MARGIN
            for name in ("query", "key", "value")
        }
        made = {**node.attributes, **keys, **units}
        return node.model_copy(update={"attributes": made})
