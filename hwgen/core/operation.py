# SPDX-License-Identifier: Apache-2.0
"""Operations: what an accelerator computes, by operands, results, sizes and work.

A family's configuration names its operations (`hwgen.core.params.base.FamilyConfig.operations`).
Of a product of matrices, `gemm`, everything follows from what such a family has anyway; any other
operation is carried out by three functions of the family's parts:

- schedule: ``job(config, operation, operands, scalars)`` returns a plan, see `Plan`;
- golden: ``operate(config, operation, operands, scalars)`` returns the results by name;
- cost: ``cycles_of_jobs(config, jobs)`` returns the exact cycles of jobs that follow each other
  without a pause, each ``(operation, sizes, scalars)``.

There `operation` is an `Operation`, `operands` are arrays by name, `scalars` numbers by name, with
nothing missing, and `sizes` are integers by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from hwgen.errors import InputError, did_you_mean
from hwgen.formats import NumberFormat

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.params.base import FamilyConfig
    from hwgen.core.port import Beats, StreamPort

    Arrays = Mapping[str, NDArray[Any]]
    Sizes = Mapping[str, int]
    Job = tuple["Operation", Sizes, Mapping[str, float]]

GEMM = "gemm"
"""Name of the product of matrices."""

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
    """What an accelerator can be asked for.

    Parameters
    ----------
    name, summary : str
    operands, results : tuple of Tensor
        In the order of their ports.
    sizes : tuple of Size
    work : callable
        Takes sizes by name and returns the number of arithmetic operations.
    scalars : tuple of Scalar
    """

    name: str
    summary: str
    operands: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    sizes: tuple[Size, ...]
    work: Callable[[Sizes], int] = field(compare=False)
    scalars: tuple[Scalar, ...] = ()

    @property
    def block(self) -> int:
        """What the length of rows must be a multiple of."""
        return next((size.multiple for size in self.sizes if size.name == "length"), 1)

    def bytes_of(self, sizes: Sizes) -> dict[str, int]:
        """Return the bytes of every operand and result, by name, each moved once."""
        found = {}
        for tensor in (*self.operands, *self.results):
            count = 1
            for length in lengths_of(tensor, sizes):
                count *= length
            found[tensor.name] = -(-count * tensor.format.width // 8)
        return found

    def check_sizes(self, sizes: Sizes) -> dict[str, int]:
        """Return sizes in order.

        Raises
        ------
        InputError
            If one is missing, unknown or out of range.
        """
        known = [size.name for size in self.sizes]
        for name in sizes:
            if name not in known:
                raise InputError(
                    f"{self.name} has no size {name!r}{did_you_mean(name, known)}; it has"
                    f" {', '.join(known)}"
                )
        found = {}
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
            found[size.name] = value
        return found

    def check_scalars(self, scalars: Mapping[str, float]) -> dict[str, float]:
        """Return every scalar of the operation, defaults where none is given.

        Raises
        ------
        InputError
            If one is unknown or out of range.
        """
        known = [scalar.name for scalar in self.scalars]
        for name in scalars:
            if name not in known:
                there = f"; it has {', '.join(known)}" if known else "; it has none"
                raise InputError(
                    f"{self.name} has no scalar {name!r}{did_you_mean(name, known)}{there}"
                )
        found = {}
        for scalar in self.scalars:
            value = scalars.get(scalar.name, scalar.default)
            if not scalar.low <= value <= scalar.high:
                raise InputError(
                    f"{self.name}: {scalar.name} must be {scalar.low:g}..{scalar.high:g},"
                    f" not {value:g}"
                )
            if scalar.whole and value != int(value):
                raise InputError(f"{self.name}: {scalar.name} must be an integer, not {value:g}")
            found[scalar.name] = value
        return found

    def check_operands(self, operands: Arrays) -> dict[str, int]:
        """Return the sizes of arrays.

        Raises
        ------
        InputError
            If an operand is missing or unknown, shapes do not agree, or a value is not of the
            format.
        """
        known = [tensor.name for tensor in self.operands]
        for name in operands:
            if name not in known:
                raise InputError(
                    f"{self.name} has no operand {name!r}{did_you_mean(name, known)}; it has"
                    f" {', '.join(known)}"
                )
        sizes: dict[str, int] = {}
        for tensor in self.operands:
            if tensor.name not in operands:
                raise InputError(f"{self.name} needs the operand {tensor.name}")
            self._check_shape(tensor, operands[tensor.name], sizes)
        found = self.check_sizes(sizes)
        for tensor in self.operands:
            try:
                tensor.format.check(operands[tensor.name])
            except ValueError as error:
                raise InputError(f"{tensor.name}: {error}") from None
        return found

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


class Plan(Protocol):
    """The beats of a job that is no product of matrices."""

    @property
    def sizes(self) -> Sizes:
        """The sizes of the job."""

    @property
    def output_beats(self) -> int:
        """Beats of results."""

    def stream(self, port: StreamPort, blocks: Any = None) -> Iterator[tuple[Beats, bool]]:
        """Yield the beats of an input port in order, and whether the final one has ``tlast``.

        Beats are of shape (count, bytes); `blocks` is not used.
        """

    def output_last(self) -> Iterator[bool]:
        """Yield ``tlast`` of every result beat, False where the port has none."""

    def unpack(self, beats: Beats) -> dict[str, NDArray[Any]]:
        """Return the results by name from result beats, shape (output_beats, bytes)."""

    def locate(self, name: str, index: tuple[int, ...]) -> int:
        """Return the result beat that holds an element of a result."""


def lengths_of(tensor: Tensor, sizes: Sizes) -> tuple[int, ...]:
    """Return the shape of an operand or result."""
    return tuple(sizes[name] if isinstance(name, str) else name for name in tensor.shape)


def gemm(config: FamilyConfig) -> Operation:
    """Return the product of matrices on a core, whose sizes are called M, K and N."""
    m, k, n = config.natural_sizes
    return Operation(
        GEMM,
        "C = post(A W)",
        (
            Tensor("activations", "act", ("M", "K"), config.activation),
            Tensor("weights", "wgt", ("K", "N"), config.weight),
        ),
        (Tensor("result", "out", ("M", "N"), config.result),),
        (Size("M", natural=m), Size("K", config.max_k, natural=k), Size("N", natural=n)),
        lambda sizes: 2 * sizes["M"] * sizes["K"] * sizes["N"],
    )


def multiplies(config: FamilyConfig) -> bool:
    """Return whether an accelerator multiplies matrices."""
    return config.multiplies


def operation_of(config: FamilyConfig, name: str | None = None) -> Operation:
    """Return an operation of a configuration; without a name `gemm`, or the only one.

    Raises
    ------
    InputError
        If there is none of that name, or several and none is named.
    """
    offered = {operation.name: operation for operation in config.operations}
    if name is None:
        if GEMM in offered:
            return offered[GEMM]
        if len(offered) == 1:
            return next(iter(offered.values()))
        raise InputError(
            f"{config.name!r} does not multiply matrices; name one of its operations with"
            f" --operation: {', '.join(offered)}"
        )
    if name not in offered:
        raise InputError(
            f"--operation: {config.name!r} has no operation {name!r}{did_you_mean(name, offered)};"
            f" it has {', '.join(offered)}"
        )
    return offered[name]


def must_multiply(config: FamilyConfig, what: str) -> None:
    """Refuse what is only for products of matrices.

    Raises
    ------
    InputError
        If the accelerator multiplies none; `what` says what was asked for.
    """
    if not multiplies(config):
        names = ", ".join(operation.name for operation in config.operations)
        raise InputError(
            f"{what} is for products of matrices, but {config.name!r}, a {config.family}, computes"
            f" {names}"
        )


def must_not_multiply(config: FamilyConfig, what: str) -> None:
    """Refuse what is not for products of matrices.

    Raises
    ------
    InputError
        If the accelerator multiplies matrices; `what` says what was asked for.
    """
    if multiplies(config):
        raise InputError(
            f"{what} is for operations that are no products of matrices, but {config.name!r}, a"
            f" {config.family}, multiplies them; use --gemm M,K,N"
        )


def parse_job(config: FamilyConfig, text: str) -> Job:
    """Return the job that ``NAME:SIZE=VALUE,...`` describes; scalars may stand among the sizes.

    Raises
    ------
    InputError
        If it describes none that the accelerator can do.
    """
    name, _, rest = text.partition(":")
    operation = operation_of(config, name)
    scalars, sizes = {scalar.name for scalar in operation.scalars}, {}
    given: dict[str, float] = {}
    for part in filter(None, rest.split(",")):
        key, _, value = part.partition("=")
        try:
            if key in scalars:
                given[key] = float(value)
            else:
                sizes[key] = int(value)
        except ValueError:
            raise InputError(
                f"a job is NAME:SIZE=VALUE,SIZE=VALUE, not {text[:80]!r}: {value[:40]!r} is no"
                " number"
            ) from None
    return operation, operation.check_sizes(sizes), operation.check_scalars(given)
