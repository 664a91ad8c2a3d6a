# SPDX-License-Identifier: Apache-2.0
"""``hwgen run`` for operations that are no products of matrices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.support.common import emit_json
from hwgen.cli.support.outputs import check_file, npy_bytes, write_file
from hwgen.reports.terminal import console, cycle_progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.cycles.basis import Cycles
    from hwgen.core.operation import Operation


def run(
    core: Any,
    operation: Operation,
    operands: tuple[str, ...],
    scalars: tuple[str, ...],
    output: Path,
    *,
    check: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Carry out an operation, write its results and say how long it took.

    Parameters
    ----------
    core : FamilyConfig
    operation : Operation
    operands, scalars : tuple of str
        ``NAME=FILE.npy`` and ``NAME=VALUE``, as options have them.
    output : Path
        File for the first result; others go beside it.
    check : bool
        Whether results are compared with the golden model.
    force, as_json : bool
    """
    import time

    from flows.build.design import Design
    from flows.simulation.run import check_results, run_job
    from hwgen.core.operation import sizes_text
    from hwgen.core.registry import core_of

    files = [output]
    files += [output.with_suffix(f".{t.name}.npy") for t in operation.results[1:]]
    for file in files:
        check_file(file, force=force)
    arrays = _arrays(operation, operands)
    accelerator = core_of(core)
    job = accelerator.job(arrays, _numbers(scalars), operation=operation.name)
    start = time.monotonic()
    with cycle_progress(quiet=as_json) as update:
        outcome = run_job(Design(accelerator), job, arrays, on_progress=update)
    seconds = time.monotonic() - start
    model = outcome.model
    assert model is not None
    if check:
        check_results(f"{output} is not written", outcome.results, accelerator.golden(job, arrays))
    for file, tensor in zip(files, operation.results, strict=True):
        result = outcome.results[tensor.name].astype(tensor.format.file_dtype)
        write_file(file, npy_bytes(result), force=force)
    work = operation.work(job.sizes)
    share = work / (core.operations_per_cycle * outcome.cycles)
    if as_json:
        emit_json(
            {
                "outputs": {
                    tensor.name: str(file)
                    for file, tensor in zip(files, operation.results, strict=True)
                },
                "operation": operation.name,
                "sizes": dict(job.sizes),
                "cycles": outcome.cycles,
                "cycle_model": {"cycles": model.number, **model.document()},
                "utilisation": share,
                "checked": check,
                "wall_seconds": round(seconds, 3),
            }
        )
        return
    out = console()
    checked = ", equal to the golden model" if check else ""
    out.print(
        f"{', '.join(map(str, files))}: {operation.name} of {sizes_text(job.sizes)} on"
        f" {core.name}{checked}"
    )
    out.print(
        f"  {outcome.cycles} cycles, {_agrees(model)},"
        f" {work / outcome.cycles:.3g} operations a cycle",
        soft_wrap=True,
    )


def _agrees(expected: Cycles) -> str:
    if expected.basis == "exact":
        return "as the cycle model says"
    return f"where the cycle model says {expected}"


def _arrays(operation: Operation, texts: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Return operands by name from ``NAME=FILE`` texts."""
    from hwgen.core.files.arrays import read_npy

    formats = {tensor.name: tensor.format for tensor in operation.operands}
    result: dict[str, NDArray[Any]] = {}
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals or not file:
            raise click.UsageError(f"--operand: must be NAME=FILE.npy, not {text[:80]!r}")
        if name in result:
            raise click.UsageError(f"--operand: {name} is given twice")
        array = read_npy(Path(file))
        result[name] = formats[name].cast(array) if name in formats else array
    return result


def _numbers(texts: tuple[str, ...]) -> dict[str, float]:
    """Return scalars by name from ``NAME=VALUE`` texts."""
    result = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            result[name] = float(value)
        except ValueError:
            raise click.UsageError(f"--set: must be NAME=VALUE, not {text[:80]!r}") from None
    return result
