# SPDX-License-Identifier: Apache-2.0
"""Post-processing of products that are run or estimated, with second scales of operands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwgen.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hwgen.core.core import Core
    from hwgen.core.post import Columns, PostFeatures, PostSettings
    from hwgen.workloads import Network

Processing = tuple[()] | tuple["PostSettings", "Columns | None"]
"""Settings and records of post-processing, nothing without."""


def post_processing(
    core: Any,
    post: Path | None,
    n: int,
    of_rows: NDArray[np.float32] | None = None,
    of_columns: NDArray[np.float32] | None = None,
) -> Processing:
    """Return the post-processing of results.

    Parameters
    ----------
    core : FamilyConfig
    post : Path or None
        A file that says it.
    n : int
        Columns of C.
    of_rows, of_columns : ndarray of float32, optional
        Second scales of A, one or one of each row, and of W, one or one of each column.  Hardware
        that scales sums multiplies by them; who asks for nothing then gets its fp32 results.

    Raises
    ------
    InputError
        If the hardware does not offer it.
    """
    from hwgen.core.post import RAW, PostSettings
    from hwgen.core.post.settings_file import load_post

    features = core.post_features
    if features is None:
        if post is not None:
            raise InputError(
                f"--post: {core.name!r} has no post-processing; name post.outputs in its"
                " configuration, or leave the option out"
            )
        return ()
    second = _factor(of_rows, of_columns)
    if post is not None:
        requested = load_post(post, features, n, second)
        if second is None and of_rows is not None and requested[0].output != RAW:
            raise InputError(
                "--post: rows of A have second scales, which are no factors of columns; take raw"
                " results, or a format of A with one scale for the tensor"
            )
        return requested
    choices: list[tuple[PostSettings, Columns | None]] = [(PostSettings(RAW), None)]
    if second is not None and features.single:
        choices = _scaled(features, second, n) + choices
    for settings, columns in choices:
        try:
            settings.check(features)
        except InputError:
            continue
        return settings, columns
    raise InputError(
        f"{core.name!r} gives no raw results but {', '.join(features.outputs)}; say with --post"
        " what is done with them"
    )


def requested_settings(
    core: Core[Any], post: Path | None, workloads: Mapping[str, Network]
) -> PostSettings | None:
    """Return the post-processing of estimated products that a file says, None without a file.

    Of the settings only the format of the results, and whether columns have records, matter there;
    a file says the same of every product.

    Raises
    ------
    InputError
        If the hardware does not offer it, or the file does not fit the columns of a product.
    """
    if post is None:
        return None
    columns = sorted({gemm.n for network in workloads.values() for gemm in network})
    if not columns:
        raise InputError("--post: belongs to products; name one with --gemm or --activations")
    requested = [post_processing(core.params, post, n) for n in columns]
    return requested[0][0] if requested[0] else None


def _scaled(
    features: PostFeatures, second: NDArray[np.float64], n: int
) -> list[tuple[PostSettings, Columns | None]]:
    """Return settings with which hardware multiplies by second scales, the best first."""
    import numpy as np

    from hwgen.core.post import FLOATS, RAW, SINGLE, Columns, PostSettings

    offered = [SINGLE.name] if RAW in features.outputs else FLOATS
    result: list[tuple[PostSettings, Columns | None]] = []
    for output in offered:
        if second.ndim:
            columns = Columns.scaled(output, np.broadcast_to(second, n), single=True)
            result.append((PostSettings(output, columns=True, single=True), columns))
        else:
            result.append((PostSettings.scaled(output, float(second), single=True), None))
    return result


def _factor(
    of_rows: NDArray[np.float32] | None, of_columns: NDArray[np.float32] | None
) -> NDArray[np.float64] | None:
    """Return the second scales of both operands as a factor, or one of each column, if any.

    None as well where rows of A have their own.
    """
    requested = [scales for scales in (of_rows, of_columns) if scales is not None]
    if not requested or (of_rows is not None and of_rows.size > 1):
        return None
    factor = requested[0].astype("float64")
    for scales in requested[1:]:
        factor = factor * scales
    return factor.reshape(()) if factor.size == 1 else factor


def with_second_scales(
    c: NDArray[Any],
    of_rows: NDArray[np.float32] | None,
    of_columns: NDArray[np.float32] | None,
    processing: Processing,
) -> NDArray[Any]:
    """Return results times the second scales of the operands, in their type.

    Parameters
    ----------
    c : ndarray
        Results.
    of_rows, of_columns : ndarray of float32 or None
        Second scales of A and of W.
    processing : tuple
        What has been done with the results: what was scaled has these scales.
    """
    from hwgen.core.post import RAW

    if processing and processing[0].output != RAW:
        return c
    if of_rows is not None:
        c = c * of_rows[:, None]
    return c if of_columns is None else c * of_columns
