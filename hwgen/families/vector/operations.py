# SPDX-License-Identifier: Apache-2.0
"""Row operations of vector units: their operands and datapaths.

A row passes up to three stages, perhaps after a Hadamard transform of its blocks:

1. *first*: a reduction of the elements, ``a``: largest, largest magnitude, or sum;
2. *second*: ``v = f(x)`` or ``f(x - a)``, and the sum of ``v`` or of its squares, ``b``;
3. *apply*: ``v * s * g + h``, with ``s`` a function of ``b``, and the conversion of the result.

An operation leaves out what it has no use for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

First = Literal["", "sum", "max", "magnitude", "position"]
Value = Literal["x", "exp", "power", "gate"]
Second = Literal["", "values", "rescaled", "squares", "first", "row"]
Scale = Literal["", "reciprocal", "rsqrt", "inverse_power"]
Factor = Literal["", "p", "y", "rotate"]
Term = Literal["", "p", "y", "rotate"]


@dataclass(frozen=True)
class Datapath:
    """Datapath of an operation: what each stage computes.

    Parameters
    ----------
    summary : str
        What it computes.
    first : str
        What ``a`` is: nothing, the ``sum`` of the row, its largest element (``max``), its largest
        ``magnitude``, or the ``position`` of the largest.
    hadamard : bool
        Whether blocks of elements are multiplied by a Hadamard matrix before anything else.
    mean : bool
        Whether ``a`` is multiplied by `c1`, which is then one over the length.
    centred : bool
        Whether ``a`` is subtracted from the elements.
    value : str
        What ``v`` is: the element, its exponential, the exponential over a power of two
        (``power``), or its gate.
    second : str
        What ``b`` is: nothing, the sum of the ``values``, that of ``power``s which is shifted when
        their power of two rises (``rescaled``), of the ``squares``, ``a`` (``first``), or the
        value of port ``r`` for the row (``row``).
    epsilon : bool
        Whether `c2` is added to ``b * c1``.
    scale : str
        What ``s`` is: `c1` as it is, or a function of ``b * c1 + c2``; ``inverse_power``: one over
        the power of two below ``b * c1``.
    factor, term : str
        Where ``g`` and ``h`` come from: nowhere (1 and nothing), port ``p`` or port ``y``;
        ``rotate``: cosine and sine of port ``p``, for pairs of elements.
    tail : bool
        Whether a beat with ``b * c1``, or the biased exponent of its power of two, follows each
        row.
    last_only : bool
        Whether ``a`` is the only result, one beat a row.
    generic : str
        The operation that this is between formats of its own, empty if it is between those of the
        configuration.
    input, output : str
        The formats of its own.
    """

    summary: str
    first: First = ""
    hadamard: bool = False
    mean: bool = False
    centred: bool = False
    value: Value = "x"
    second: Second = ""
    epsilon: bool = False
    scale: Scale = ""
    factor: Factor = ""
    term: Term = ""
    tail: bool = False
    last_only: bool = False
    generic: str = ""
    input: str = ""
    output: str = ""

    @property
    def evaluated(self) -> bool:
        """Whether ``s`` is computed by a function unit."""
        return self.scale in ("reciprocal", "rsqrt")

    @property
    def exponent(self) -> bool:
        """Whether the beat behind a row has the exponent of its scale, a power of two."""
        return self.scale == "inverse_power"

    @property
    def passes(self) -> int:
        """Reductions that a row waits for, one after the other."""
        return bool(self.first) + self.summed

    @property
    def summed(self) -> bool:
        """Whether ``b`` is a sum of the row."""
        return self.second in ("values", "rescaled", "squares")

    @property
    def stores(self) -> bool:
        """Whether all elements of a row wait for something that the whole row decides."""
        return (bool(self.first) and not self.last_only) or self.summed

    @property
    def exponential(self) -> bool:
        """Whether ``v`` are exponentials: rows of minus infinity, whose sum is zero, give zeros."""
        return self.value in ("exp", "power")

    @property
    def reads_p(self) -> bool:
        """Whether port ``p`` has a beat for each beat of ``x``."""
        return "p" in (self.factor, self.term) or self.factor == "rotate"

    @property
    def reads_r(self) -> bool:
        """Whether port ``r`` has a beat for each row."""
        return self.second == "row"

    @property
    def direct(self) -> bool:
        """Whether ``b`` is valid before the values of the row."""
        return self.second in ("first", "row")

    @property
    def reads_y(self) -> bool:
        """Whether port ``y`` has a beat for each beat of ``x``."""
        return "y" in (self.factor, self.term)


def selects(part: str, value: str) -> Callable[[Datapath], bool]:
    """Return the predicate that a field of a `Datapath` has a value."""
    return lambda path: bool(getattr(path, part) == value)


DATAPATHS: dict[str, Datapath] = {
    "softmax": Datapath(
        "exp(x - max) / sum of these, times `scale`",
        first="max", centred=True, value="exp", second="values", scale="reciprocal",
    ),
    "rms_norm": Datapath(
        "x / sqrt(mean of squares + epsilon), times gamma",
        second="squares", epsilon=True, scale="rsqrt", factor="p",
    ),
    "layer_norm": Datapath(
        "(x - mean) / sqrt(variance + epsilon), times gamma, plus beta",
        first="sum", mean=True, centred=True, second="squares", epsilon=True, scale="rsqrt",
        factor="p", term="p",
    ),
    "rope": Datapath(
        "pairs of neighbours, turned by the angles whose cosines and sines are given",
        factor="rotate", term="rotate",
    ),
    "gated": Datapath("gate(x) times y, times `scale`", value="gate", factor="y"),
    "add": Datapath("x times `scale`, plus y", term="y"),
    "quantise": Datapath(
        "x / (largest magnitude of the row / largest integer), and this scale",
        first="magnitude", second="first", scale="reciprocal", tail=True,
    ),
    "quantise_tensor": Datapath("x times `scale`, one for all rows"),
    "dequantise": Datapath("x times `scale`, times a scale for each column", factor="p"),
    "argmax": Datapath(
        "the position of the first largest element of a row",
        first="position", second="first", last_only=True,
    ),
    "dequantise_rows": Datapath(
        "x times `scale`, times a scale for the row, times a scale for each column",
        second="row", factor="p",
    ),
    "hadamard_quantise": Datapath(
        "blocks of x times a Hadamard matrix, then as `quantise`",
        first="magnitude", hadamard=True, second="first", scale="reciprocal", tail=True,
    ),
    "quantise_block": Datapath(
        "x over a power of two by which the largest magnitude of the row fits, and its exponent",
        first="magnitude", second="first", scale="inverse_power", tail=True,
    ),
}  # fmt: skip
"""The operations, in the order of their codes."""

_BETWEEN = (
    ("quantise", "fp32", "int8"),
    ("quantise", "fp32", "int16"),
    ("dequantise", "fp32", "int16"),
    ("dequantise", "int16", "fp32"),
    ("dequantise_rows", "int32", "fp32"),
)
DATAPATHS |= {
    f"{name}_{source}_{result}": replace(
        DATAPATHS[name], summary=f"`{name}` of {source} with results in {result}",
        generic=name, input=source, output=result,
    )
    for name, source, result in _BETWEEN
}  # fmt: skip

ONLINE_SOFTMAX = replace(
    DATAPATHS["softmax"], first="", centred=False, value="power", second="rescaled"
)
"""`softmax` whose maximum and sum come out of one pass over the row."""

CODES = {name: code for code, name in enumerate(DATAPATHS)}
"""Code of an operation in a command."""

NAMED = tuple(name for name in DATAPATHS if name != "quantise_tensor")
"""What a configuration names; `quantise` stands for both of them."""
