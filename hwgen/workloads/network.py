# SPDX-License-Identifier: Apache-2.0
"""A network as work: its layers, how often each is there, and what it keeps in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import NamedTuple, overload


class Gemm(NamedTuple):
    """Sizes of one product ``C[m,n] = A[m,k] . W[k,n]``."""

    m: int
    k: int
    n: int

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return self.m * self.k * self.n


@dataclass(frozen=True)
class Attention:
    """The two products of activations with activations of an attention: scores and values.

    Parameters
    ----------
    m : int
        Positions that are computed.
    heads, kv_heads, head_size : int
        Heads of the queries; of keys and values, each shared by some of those; elements of each.
    causal : bool
        Whether a position looks at itself and those before it, which a cache holds, or at all that
        are computed with it, and no cache is there.
    """

    m: int
    heads: int
    kv_heads: int
    head_size: int
    causal: bool = True

    def macs(self, context: int) -> int:
        """Return the multiply-accumulates behind `context` earlier positions."""
        seen = self.m * context + self.m * (self.m + 1) // 2 if self.causal else self.m * self.m
        return 2 * seen * self.heads * self.head_size

    def cached(self, positions: int) -> int:
        """Return the elements of keys and values of some positions, none without a cache."""
        return 2 * positions * self.kv_heads * self.head_size * self.causal


@dataclass(frozen=True)
class Layer:
    """A layer: a product with weights, an attention, or an operation on elements.

    Parameters
    ----------
    name : str
        With that of the block that it is in.
    repeat : int
        How often the network has it.
    product : Gemm, optional
    attention : Attention, optional
    operations : int
        Of one time, of a layer that is neither.
    """

    name: str
    repeat: int
    product: Gemm | None = None
    attention: Attention | None = None
    operations: int = 0


@dataclass(frozen=True)
class Network(Sequence[Gemm]):
    """The work of one pass through a network; as a sequence, its products with weights in order.

    Parameters
    ----------
    products : tuple of Gemm
        Repeated ones as often as they are there.
    layers : tuple of Layer
    tokens : int or None
        Tokens that a pass computes; None of a network that has none.
    context : int
        Positions before those of the pass, whose keys and values are in the cache.
    kv_bits : int or None
        Of an element of that cache; None for those of the accelerator's activations.
    """

    products: tuple[Gemm, ...]
    layers: tuple[Layer, ...]
    tokens: int | None = None
    context: int = 0
    kv_bits: int | None = None

    @overload
    def __getitem__(self, index: int) -> Gemm: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Gemm, ...]: ...

    def __getitem__(self, index: int | slice) -> Gemm | tuple[Gemm, ...]:
        """Return products by their place."""
        return self.products[index]

    def __len__(self) -> int:
        """Return the number of products."""
        return len(self.products)

    def __iter__(self) -> Iterator[Gemm]:
        """Iterate over the products."""
        return iter(self.products)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of products with weights."""
        return sum(layer.repeat * layer.product.macs for layer in self.layers if layer.product)

    @property
    def attention_macs(self) -> int:
        """Multiply-accumulates of products of activations with activations."""
        return sum(
            layer.repeat * layer.attention.macs(self.context)
            for layer in self.layers
            if layer.attention
        )

    @property
    def operations(self) -> int:
        """Operations on elements."""
        return sum(layer.repeat * layer.operations for layer in self.layers)

    @property
    def weights(self) -> int:
        """Elements of all weights."""
        return sum(
            layer.repeat * layer.product.k * layer.product.n
            for layer in self.layers
            if layer.product
        )

    @property
    def kv_moved(self) -> int:
        """Elements of the cache that a pass reads, of earlier positions, and writes, of its own."""
        return sum(self.kv_of(layer) * layer.repeat for layer in self.layers)

    def kv_of(self, layer: Layer) -> int:
        """Return the elements of the cache that a layer reads and writes, once."""
        attention = layer.attention
        return attention.cached(self.context + attention.m) if attention else 0

    def with_context(self, context: int) -> Network:
        """Return the network behind another number of earlier positions."""
        return replace(self, context=context)


def network_of(sizes: Iterable[tuple[int, int, int]]) -> Network:
    """Return products that follow one another as a network; a network as it is."""
    if isinstance(sizes, Network):
        return sizes
    products = tuple(Gemm(*size) for size in sizes)
    counts = dict.fromkeys(products, 0)
    for gemm in products:
        counts[gemm] += 1
    layers = tuple(Layer("x".join(map(str, gemm)), n, gemm) for gemm, n in counts.items())
    return Network(products, layers)


def check_workloads(workloads: object) -> None:
    """Check that workloads are a mapping of names to sequences of sizes (M, K, N).

    Raises
    ------
    TypeError
        If they are not; the text shows what is expected.
    """
    form = "such as {'layer': [(1, 64, 64)]} or dict([load_workload('minilm_l6')])"
    if not isinstance(workloads, Mapping):
        raise TypeError(f"workloads are a mapping {form}, not {type(workloads).__name__}")
    for name, sizes in workloads.items():
        if not isinstance(name, str):
            raise TypeError(f"the name of a workload is a text, not {name!r}; workloads are {form}")
        if isinstance(sizes, Network):
            continue
        if not isinstance(sizes, Sequence) or not all(map(_is_product, sizes)):
            raise TypeError(f"workload {name!r} is a list of sizes (M, K, N), {form}")


def _is_product(sizes: object) -> bool:
    """Return whether an object is three integers."""
    return (
        isinstance(sizes, Sequence)
        and len(sizes) == 3
        and all(isinstance(size, Integral) and not isinstance(size, bool) for size in sizes)
    )
