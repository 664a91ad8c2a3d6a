# SPDX-License-Identifier: Apache-2.0
"""Choice of an operation by name, and jobs in a command's words."""

from __future__ import annotations

from hwgen.core.operation import GEMM, Job, Operation
from hwgen.core.params.base import FamilyConfig
from hwgen.errors import InputError, did_you_mean


def select_operation(config: FamilyConfig, name: str | None = None) -> Operation:
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
    if not config.multiplies:
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
    if config.multiplies:
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
    operation = select_operation(config, name)
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
    return Job(operation, operation.check_sizes(sizes), operation.check_scalars(given))
