# SPDX-License-Identifier: Apache-2.0
"""Jobs in a command's words, and checks of what a core computes."""

from __future__ import annotations

from typing import Any

from hwgen.core.core import Core
from hwgen.core.operation import Job
from hwgen.core.params.base import FamilyConfig
from hwgen.errors import InputError


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


def parse_job(core: Core[Any], text: str) -> Job:
    """Return the job that ``NAME:SIZE=VALUE,...`` describes; scalars may stand among the sizes.

    Raises
    ------
    InputError
        If it describes none that the accelerator can do.
    """
    name, _, rest = text.partition(":")
    operation = core.select_operation(name)
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
