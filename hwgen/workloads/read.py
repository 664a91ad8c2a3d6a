# SPDX-License-Identifier: Apache-2.0
"""From the text of a network to a `Network`, or to everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hwgen.config.validate import shown
from hwgen.errors import did_you_mean
from hwgen.workloads.network import Attention, Gemm, Layer, Network

MAX_SIZE = 2**31 - 1
"""The largest size of a layer, and the most repeats."""

MAX_MACS = 2**53
"""Multiply-accumulates of a workload: more are not exact in the double precision of its figures."""

MAX_PRODUCTS = 100_000
"""Products of a workload, repeated ones as often as they are there."""

FORM = "{m: M, k: K, n: N}"
"""A product, as files have it."""

RANGE = f"integers of 1 to {MAX_SIZE}"
"""What its sizes are."""

_LAYERS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # by the key that tells: what else must be there, and what may
    "layers": ((), ("repeat",)),
    "k": (("n",), ("m", "repeat")),
    "n": (("k",), ("m", "repeat")),
    "heads": (("head_size",), ("m", "kv_heads", "causal", "repeat")),
    "elements": ((), ("m", "operations", "repeat")),
}

_LAYER = (
    f"a product {FORM}, an attention {{heads: H, head_size: S}}, an operation {{elements: E}} or a"
    " block {repeat: R, layers: [...]}"
)

Path = tuple[str | int, ...]
Complain = Callable[[Path, str], None]


def read_network(data: Any, path: Path, complain: Complain) -> Network | None:
    """Return the network that plain data describes.

    Parameters
    ----------
    data : object
        A list of products, or a group with ``layers`` (or ``gemms``, which is the same), and
        perhaps ``tokens``, ``context`` and ``kv_bits``.
    path : tuple
        Where it stands in its file.
    complain : callable
        Takes the place and the text of each problem.

    Returns
    -------
    Network or None
        None if anything is wrong.
    """
    reader = _Reader(complain)
    if isinstance(data, list):
        data, inner = {"layers": data}, path
    elif isinstance(data, dict) and ("layers" in data) != ("gemms" in data):
        key = "layers" if "layers" in data else "gemms"
        legal = (key, "tokens", "context", "kv_bits")
        reader.keys(data, legal, path)
        data, inner = {**data, "layers": data[key]}, (*path, key)
    else:
        complain(path, f"must have the key layers, a list; each is {_LAYER}, {RANGE}")
        return None
    tokens = reader.size(data, "tokens", None, path)
    context = reader.size(data, "context", 0, path, least=0) or 0
    kv_bits = reader.size(data, "kv_bits", None, path, most=64)
    reader.tokens = tokens
    layers, products = reader.layers(data["layers"], inner)
    if not reader.good:
        return None
    if not products:
        complain(inner, f"has no product; give at least one, {FORM}, {RANGE}")
        return None
    network = Network(tuple(products), tuple(layers), tokens, context, kv_bits)
    if text := too_large(network):
        complain(path, text)
        return None
    return network


def too_large(network: Network) -> str:
    """Return why figures of a network would not be exact, or an empty text."""
    macs = network.macs + network.attention_macs
    if macs <= MAX_MACS:
        return ""
    return (
        f"{macs} multiply-accumulates are more than 2**53 = {MAX_MACS}, up to which"
        " figures are exact; time a part of it"
    )


class _Reader:
    def __init__(self, complain: Complain) -> None:
        self._complain = complain
        self.good = True
        self.tokens: int | None = None
        self.count = 0

    def complain(self, path: Path, text: str) -> None:
        self.good = False
        self._complain(path, text)

    def keys(self, data: Mapping[str, Any], legal: tuple[str, ...], path: Path) -> None:
        for key in data:
            if key not in legal:
                near = did_you_mean(str(key), legal)
                self.complain((*path, key), f"unknown key{near}; legal here: {', '.join(legal)}")

    def size(
        self,
        data: Mapping[str, Any],
        key: str,
        default: int | None,
        path: Path,
        *,
        least: int = 1,
        most: int = MAX_SIZE,
    ) -> int | None:
        value: int | None = data.get(key, default)
        if key in data and not (type(value) is int and least <= value <= most):
            text = f"must be an integer in {least}..{most}, not {shown(value)}"
            self.complain((*path, key), text)
            return default
        return value

    # -- layers --------------------------------------------------------------------------------

    def layers(self, data: Any, path: Path, prefix: str = "") -> tuple[list[Layer], list[Gemm]]:
        """Return the layers of a list, and its products in order."""
        layers: list[Layer] = []
        products: list[Gemm] = []
        if not isinstance(data, list) or not data:
            self.complain(path, f"must be a list of layers; each is {_LAYER}, {RANGE}")
            return layers, products
        for place, item in enumerate(data):
            result, own = self.layer(item, (*path, place), prefix)
            layers += result
            products += own
        return layers, products

    def layer(self, item: Any, path: Path, prefix: str) -> tuple[list[Layer], list[Gemm]]:
        size_key = next((key for key in _LAYERS if isinstance(item, dict) and key in item), None)
        if size_key is None:
            self.complain(path, f"must be {_LAYER}, {RANGE}, not {shown(item)}")
            return [], []
        needed, more = _LAYERS[size_key]
        self.keys(item, ("name", size_key, *needed, *more), path)
        name, repeat = self.name(item, path), self.size(item, "repeat", 1, path) or 1
        if size_key == "layers":
            inner = f"{prefix}{name}." if name else prefix
            return self.block(item, path, inner, repeat)
        rows = self.size(item, "m", self.tokens, path)
        missing = [key for key in needed if key not in item]
        if rows is None and "m" not in item:
            missing = ["m", *missing]
        if missing:
            form = FORM if size_key in "kn" else _LAYER
            self.complain(path, f"{', '.join(missing)} missing: it must be {form}, {RANGE}")
        sizes = {key: self.size(item, key, 1, path) or 1 for key in (size_key, *needed)}
        if not self.good:
            return [], []
        return self.made(size_key, item, path, (prefix, name), repeat, rows or 1, sizes)

    def made(
        self,
        size_key: str,
        item: Mapping[str, Any],
        path: Path,
        named: tuple[str, str],
        repeat: int,
        rows: int,
        sizes: Mapping[str, int],
    ) -> tuple[list[Layer], list[Gemm]]:
        """Return a layer that is no block, `named` after the block that it is in and itself."""
        prefix, name = named
        if size_key == "elements":
            each = self.size(item, "operations", 1, path) or 1
            return [
                Layer(
                    prefix + (name or "elements"),
                    repeat,
                    operations=rows * sizes[size_key] * each,
                )
            ], []
        if size_key == "heads":
            causal = item.get("causal", True)
            if type(causal) is not bool:
                self.complain((*path, "causal"), f"must be true or false, not {shown(causal)}")
            heads = sizes["heads"]
            shared = self.size(item, "kv_heads", heads, path, most=heads) or heads
            attention = Attention(rows, heads, shared, sizes["head_size"], causal)
            return [Layer(prefix + (name or "attention"), repeat, attention=attention)], []
        gemm = Gemm(rows, sizes["k"], sizes["n"])
        layer = Layer(prefix + (name or "x".join(map(str, gemm))), repeat, gemm)
        return [layer], self.several([gemm], repeat, path)

    def block(
        self, item: Mapping[str, Any], path: Path, prefix: str, repeat: int
    ) -> tuple[list[Layer], list[Gemm]]:
        inner, products = self.layers(item["layers"], (*path, "layers"), prefix)
        layers = [
            Layer(each.name, each.repeat * repeat, each.product, each.attention, each.operations)
            for each in inner
        ]
        return layers, self.several(products, repeat, path)

    def several(self, products: list[Gemm], repeat: int, path: Path) -> list[Gemm]:
        if len(products) * repeat > MAX_PRODUCTS:
            self.complain(
                path,
                f"is {len(products) * repeat} products with those that repeat, more than the"
                f" {MAX_PRODUCTS} of a workload; time a part of it",
            )
            return []
        return products * repeat

    def name(self, item: Mapping[str, Any], path: Path) -> str:
        name = item.get("name", "")
        if not isinstance(name, str):
            self.complain((*path, "name"), f"must be text, not {shown(name)}")
            return ""
        return name
