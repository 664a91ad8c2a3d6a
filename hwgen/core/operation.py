# SPDX-License-Identifier: Apache-2.0
"""Operations and jobs: what an accelerator computes, by operands, results, sizes and work.

An `Operation` is what a core can be asked for, ``gemm``, the product of matrices, among others.
A `Job` is one use of it with sizes and scalars.  A `Plan` says how the operands of a job become
beats of the core's ports, and beats become results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from hwgen.core.port import Beats
from hwgen.errors import InputError, did_you_mean
from hwgen.formats import NumberFormat
from hwgen.lazy import NDArray

if TYPE_CHECKING:
    from hwgen.core.post import Columns, PostSettings

Array = NDArray[Any]

Arrays = Mapping[str, Array]
"""Operands or results by name."""

Sizes = Mapping[str, int]
"""Sizes by name."""

Chunks = Iterator[tuple[Beats, bool]]
"""Beats of a port in order, and whether the final one of a chunk has ``tlast``."""

GEMM = "gemm"
"""Name of the product of matrices."""

RECORDS = "records"
"""Operand of a product: records of columns, shape (N, 16), if its post-processing uses them."""

LARGEST = 1 << 30
"""Default of the largest value of a size."""


@dataclass(frozen=True)
class Tensor:
    """An operand or a result.

    Parameters
    ----------
    name : str
        As ``--operand NAME=FILE`` has it.
    port : str
        Name of the stream port that carries it; empty if it stays in the memory of an engine.
    shape : tuple of str or int
        Names of sizes, or fixed lengths.
    format : NumberFormat
        Of its elements.
    scales : str
        What its elements are to be multiplied with, empty if they are the numbers themselves.
    """

    name: str
    port: str
    shape: tuple[str | int, ...]
    format: NumberFormat
    scales: str = ""


@dataclass(frozen=True)
class Scalar:
    """A number that goes with a job.

    Parameters
    ----------
    name, description : str
    default : float
    low, high : float
        Bounds, both included.
    whole : bool
        Whether only integers will do.
    """

    name: str
    description: str
    default: float = 0.0
    low: float = -3.4028234663852886e38
    high: float = 3.4028234663852886e38
    whole: bool = False


@dataclass(frozen=True)
class Size:
    """A size that is chosen at run time.

    Parameters
    ----------
    name : str
    most : int
        Largest value; the smallest is 1.
    natural : int
        Value that fills the hardware once: regressions try lengths around it.
    multiple : int
        What it must be a multiple of.
    """

    name: str
    most: int = LARGEST
    natural: int = 1
    multiple: int = 1


@dataclass(frozen=True)
class Operation:
    """Operation that can be requested of an accelerator.

    Parameters
    ----------
    name, summary : str
    operands, results : tuple of Tensor
        In the order of their ports.
    sizes : tuple of Size
    work : callable
        Takes sizes by name and returns the number of arithmetic operations.
    scalars : tuple of Scalar
    generic : str
        The operation that this is between formats of its own, if a core offers it between several.
    """

    name: str
    summary: str
    operands: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    sizes: tuple[Size, ...]
    work: Callable[[Sizes], int] = field(compare=False)
    scalars: tuple[Scalar, ...] = ()
    generic: str = ""

    @property
    def common_name(self) -> str:
        """Its name between any formats."""
        return self.generic or self.name

    @property
    def natural_sizes(self) -> dict[str, int]:
        """The natural length of each size, by name."""
        return {size.name: size.natural for size in self.sizes}

    @property
    def block(self) -> int:
        """Number that the length of rows must be a multiple of."""
        return next((size.multiple for size in self.sizes if size.name == "length"), 1)

    def bytes_of(self, sizes: Sizes) -> dict[str, int]:
        """Return the bytes of every operand and result, by name, each moved once."""
        result = {}
        for tensor in (*self.operands, *self.results):
            count = 1
            for length in lengths_of(tensor, sizes):
                count *= length
            result[tensor.name] = -(-count * tensor.format.width // 8)
        return result

    def check_sizes(self, sizes: Sizes) -> dict[str, int]:
        """Return sizes in order.

        Raises
        ------
        InputError
            If one is missing, unknown or out of range.
        """
        names = [size.name for size in self.sizes]
        for name in sizes:
            if name not in names:
                raise InputError(
                    f"{self.name} has no size {name!r}{did_you_mean(name, names)}; it has"
                    f" {', '.join(names)}"
                )
        result = {}
        for size in self.sizes:
            if size.name not in sizes:
                raise InputError(f"{self.name} needs the size {size.name}")
            value = sizes[size.name]
            if not 1 <= value <= size.most:
                raise InputError(f"{self.name}: {size.name} must be 1..{size.most}, not {value}")
            if value % size.multiple:
                raise InputError(
                    f"{self.name}: {size.name} must be a multiple of {size.multiple}, not {value}"
                )
            result[size.name] = value
        return result

    def check_scalars(self, scalars: Mapping[str, float]) -> dict[str, float]:
        """Return every scalar of the operation, defaults where none is given.

        Raises
        ------
        InputError
            If one is unknown or out of range.
        """
        names = [scalar.name for scalar in self.scalars]
        for name in scalars:
            if name not in names:
                there = f"; it has {', '.join(names)}" if names else "; it has none"
                raise InputError(
                    f"{self.name} has no scalar {name!r}{did_you_mean(name, names)}{there}"
                )
        result = {}
        for scalar in self.scalars:
            value = scalars.get(scalar.name, scalar.default)
            if not scalar.low <= value <= scalar.high:
                raise InputError(
                    f"{self.name}: {scalar.name} must be {scalar.low:g}..{scalar.high:g},"
                    f" not {value:g}"
                )
            if scalar.whole and value != int(value):
                raise InputError(f"{self.name}: {scalar.name} must be an integer, not {value:g}")
            result[scalar.name] = value
        return result

    def check_operands(self, operands: Arrays) -> dict[str, int]:
        """Return the sizes of arrays.

        Raises
        ------
        InputError
            If an operand is missing or unknown, shapes do not agree, or a value is not of the
            format.
        """
        names = [tensor.name for tensor in self.operands]
        for name in operands:
            if name not in names:
                raise InputError(
                    f"{self.name} has no operand {name!r}{did_you_mean(name, names)}; it has"
                    f" {', '.join(names)}"
                )
        sizes: dict[str, int] = {}
        for tensor in self.operands:
            if tensor.name not in operands:
                raise InputError(f"{self.name} needs the operand {tensor.name}")
            self._check_shape(tensor, operands[tensor.name], sizes)
        result = self.check_sizes(sizes)
        for tensor in self.operands:
            try:
                tensor.format.check(operands[tensor.name])
            except ValueError as error:
                raise InputError(f"{tensor.name}: {error}") from None
        return result

    def _check_shape(self, tensor: Tensor, array: NDArray[Any], sizes: dict[str, int]) -> None:
        """Check a shape against the sizes that are known, and add those that it says."""
        text = " x ".join(map(str, tensor.shape))
        if array.ndim != len(tensor.shape):
            raise InputError(f"{tensor.name}: must be {text}, not of shape {array.shape}")
        for length, name in zip(array.shape, tensor.shape, strict=True):
            wanted = sizes.setdefault(name, length) if isinstance(name, str) else name
            if length != wanted:
                what = f"{name} = {wanted}" if isinstance(name, str) else str(wanted)
                raise InputError(
                    f"{tensor.name}: must be {text} with {what}, not of shape {array.shape}"
                )


@dataclass(frozen=True)
class Job:
    """One use of an operation.

    Parameters
    ----------
    operation : Operation
    sizes : mapping of int
        Every size by name.
    scalars : mapping of float
        Every scalar by name.
    post : PostSettings, optional
        Post-processing of a product; records of columns are the operand `RECORDS`.
    """

    operation: Operation
    sizes: Sizes
    scalars: Mapping[str, float] = field(default_factory=dict)
    post: PostSettings | None = None

    @property
    def gemm_size(self) -> tuple[int, int, int]:
        """M, K and N of a product of matrices."""
        return self.sizes["M"], self.sizes["K"], self.sizes["N"]

    @property
    def title(self) -> str:
        """The job in words."""
        if self.operation.name == GEMM:
            return " x ".join(map(str, self.gemm_size))
        return f"{self.operation.name} of {sizes_text(self.sizes)}"


class Plan(Protocol):
    """Schedule of a job on a core."""

    @property
    def sizes(self) -> Sizes:
        """The sizes of the job."""


@runtime_checkable
class StreamPlan(Plan, Protocol):
    """The beats of a job on the ports of a stream core."""

    @property
    def output_beats(self) -> int:
        """Beats of results."""

    def pack(self, operands: Arrays) -> dict[str, Chunks]:
        """Return the beats of every input port by name; beats are of shape (count, bytes).

        Raises
        ------
        InputError
            If operands do not fit the job.
        """

    def output_last(self) -> Iterator[bool]:
        """Yield ``tlast`` of every result beat, False where the port has none."""

    def unpack(self, beats: Beats) -> dict[str, Array]:
        """Return the results by name from result beats, shape (output_beats, bytes)."""

    def locate(self, name: str, index: tuple[int, ...]) -> int:
        """Return the result beat that holds an element of a result."""


def gemm_operands(a: Array, w: Array, columns: Columns | None = None) -> dict[str, Array]:
    """Return the operands of a product by name.

    Parameters
    ----------
    a : ndarray, shape (m, k)
    w : ndarray, shape (k, n)
    columns : Columns, optional
        Records of the n columns, if post-processing uses them.
    """
    operands: dict[str, Array] = {"activations": a, "weights": w}
    if columns is not None:
        operands[RECORDS] = columns.encode()
    return operands


def sizes_text(sizes: Sizes) -> str:
    """Return sizes in words."""
    return ", ".join(f"{name} {size}" for name, size in sizes.items())


def lengths_of(tensor: Tensor, sizes: Sizes) -> tuple[int, ...]:
    """Return the shape of an operand or result."""
    return tuple(sizes[name] if isinstance(name, str) else name for name in tensor.shape)


def gemm_operation(
    natural: tuple[int, int, int],
    max_k: int,
    activation: NumberFormat,
    weight: NumberFormat,
    result: NumberFormat,
) -> Operation:
    """Return the product of matrices, whose sizes are called M, K and N.

    Parameters
    ----------
    natural : (int, int, int)
        M, K and N that fill the hardware once.
    max_k : int
        Longest reduction.
    activation, weight, result : NumberFormat
        Of A, W and the accumulators.
    """
    m, k, n = natural
    return Operation(
        GEMM,
        "C = post(A W)",
        (
            Tensor("activations", "act", ("M", "K"), activation),
            Tensor("weights", "wgt", ("K", "N"), weight),
        ),
        (Tensor("result", "out", ("M", "N"), result),),
        (Size("M", natural=m), Size("K", max_k, natural=k), Size("N", natural=n)),
        lambda sizes: 2 * sizes["M"] * sizes["K"] * sizes["N"],
    )
