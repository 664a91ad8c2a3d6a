# SPDX-License-Identifier: Apache-2.0
"""Matrices that commands take: their options, and reading them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.support.common import path_option
from hwgen.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hwgen.cli.support.common import F


def operand_options(function: F) -> F:
    """Add ``--activations``, ``--weights`` and ``--n``, as `read_operands` takes them."""
    activations = path_option(
        "--activations", "A.npy",
        "Activations (M, K) to time a product of, whose values serial PEs depend on.",
    )  # fmt: skip
    weights = path_option(
        "--weights", "W.npy",
        "Its weights (K, N), or say --n: no core's time depends on their values.",
    )  # fmt: skip
    columns = click.option(
        "--n", "n", metavar="COLUMNS", type=click.IntRange(1), help="Columns of its weights."
    )
    return activations(weights(columns(function)))


def read_operands(
    core: Any, activations: Path | None, weights: Path | None, n: int | None
) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
    """Return the matrices that `operand_options` name, under the name of the activations.

    Raises
    ------
    InputError
        If too few or too many options are given, or the matrices do not fit the core.
    """
    import numpy as np

    from hwgen.core.jobs import must_multiply
    from hwgen.core.registry import core_of
    from hwgen.core.schedule.product import Product

    if activations is None:
        if weights is not None or n is not None:
            raise InputError("--weights and --n belong to --activations; give that as well")
        return {}
    must_multiply(core, "--activations")
    if (weights is None) == (n is None):
        raise InputError("--activations: give either --weights or --n, the columns of the weights")
    a, _ = load_operand(activations, core.activation, weights=False)
    if weights is not None:
        w, _ = load_operand(weights, core.weight, weights=True)
    else:
        w = np.broadcast_to(np.ones(1, core.weight.dtype), (a.shape[1], n or 1))
    plan = core_of(core).schedule(core_of(core).gemm(a.shape[0], a.shape[1], w.shape[1]))
    assert isinstance(plan, Product)
    plan.check_operands(a, w)
    return {activations.stem: (a, w)}


# -- printing ----------------------------------------------------------------------------------


def load_matrix(path: Path, *, floats: bool = False) -> NDArray[Any]:
    """Read a matrix of integers, or also of floats, or say what is wrong with the file.

    Parameters
    ----------
    path : Path
        A ``.npy`` file.
    floats : bool
        Whether floats are accepted.

    Raises
    ------
    InputError
        If the file is not there, is no array, or one of another kind.
    """
    from hwgen.core.files.arrays import read_npy

    array = read_npy(path)
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"{path}: must be a matrix of at least 1 x 1, not of shape {array.shape}")
    if array.dtype.kind in ("iuf" if floats else "iu"):
        return array
    if floats:
        hint = "; save bf16 and 8-bit floats as float32" if array.dtype.kind == "V" else ""
        raise InputError(f"{path}: must hold integers or floats, not {array.dtype}{hint}")
    raise InputError(
        f"{path}: must hold integers, not {array.dtype}; quantise it, then save it as an"
        " integer type"
    )


def load_operand(
    path: Path, fmt: Any, *, weights: bool
) -> tuple[NDArray[Any], NDArray[np.float32] | None]:
    """Read an operand of a core, quantised if the core takes a block format.

    Parameters
    ----------
    path : Path
        A ``.npy`` file.
    fmt : Format
        What the core takes.
    weights : bool
        Whether it is W, whose blocks run along its columns, or A, with blocks along rows.

    Returns
    -------
    matrix : ndarray
        Numbers, or records of `BlockFormat`.
    second : ndarray of float32 or None
        Second scales, of the matrix, or of each column of W or row of A, of formats that have some.
    """
    from hwgen.formats.block import quantise_lines

    if not fmt.is_block:
        return load_matrix(path, floats=fmt.file_dtype.kind == "f"), None
    matrix = load_matrix(path, floats=True)
    try:
        records, second = quantise_lines(fmt, matrix.T if weights else matrix)
    except InputError as error:
        turned = "" if weights else "transposed, "
        raise InputError(f"{path}: {turned}{error}") from None
    return (records.T if weights else records), (second if fmt.second else None)
