# SPDX-License-Identifier: Apache-2.0
"""Result beats that a core must send, and which of their bits are specified."""

from __future__ import annotations

from typing import Any

import numpy as np

from hwgen.core.core import Core
from hwgen.core.operation import Arrays, Job, StreamPlan
from hwgen.core.port import Beats, StreamPort
from hwgen.core.post import output_format
from hwgen.core.protocols import ResultPacker
from hwgen.core.schedule.stream import StreamProduct
from hwgen.errors import InputError
from hwgen.formats import differences


def pack_results(core: Core[Any], job: Job, results: Arrays) -> tuple[Beats, Beats]:
    """Return the result beats of a job, and a mask of the bits that the results define.

    Lanes past the end of a row or column have no mask: a core may send anything there.

    Parameters
    ----------
    core : Core
        With stream ports.
    job : Job
    results : mapping of ndarray
        By name, as the golden model returns them.

    Returns
    -------
    beats, mask : ndarray of uint8, shape (output_beats, bytes)

    Raises
    ------
    InputError
        If the plan of the family neither packs results nor holds each in a lane of its own.
    """
    plan, port = core.schedule(job), core.ports[-1]
    assert isinstance(plan, StreamPlan)
    if isinstance(plan, ResultPacker):
        beats, mask = plan.pack_results(results)
    else:
        beats, mask = _lanes_of(plan, job, port, results)
    again = plan.unpack(beats)
    if any(len(differences(again[name], right)) for name, right in results.items()):
        raise InputError(
            f"{core.name!r}: the result beats of a {core.family_name()} cannot be made from its"
            " results; its plan needs `pack_results` (hwgen.core.protocols.ResultPacker)"
        )
    return beats, mask


def _lanes_of(plan: StreamPlan, job: Job, port: StreamPort, results: Arrays) -> tuple[Beats, Beats]:
    """Write each result into the lane that `unpack` reads it from."""
    lanes = plan.output_beats * port.lanes
    codes = np.zeros(lanes, np.uint64)
    mask = np.zeros(lanes, np.uint64)
    full = np.uint64((1 << port.lane_width) - 1)
    where = _locate(plan, port)
    for tensor in job.operation.results:
        fmt: Any = tensor.format
        if isinstance(plan, StreamProduct) and plan.processing is not None:
            fmt = output_format(plan.processing.output, plan.config.result)
        values = fmt.encode(results[tensor.name])
        if values.dtype.kind == "i":
            values = values.astype(np.int64)  # extends the sign
        codes[where[tensor.name]] = values.astype(np.uint64) & full
        mask[where[tensor.name]] = full
    return _beats(codes, port), _beats(mask, port)


def _locate(plan: StreamPlan, port: StreamPort) -> dict[str, np.ndarray]:
    """Return the lane of each result, counted over all result beats.

    In pass `i` the lowest bit of a lane is bit `i` of its number: the results that it changes are
    those of lanes whose number has that bit.
    """
    count = plan.output_beats * port.lanes
    numbers = np.arange(count, dtype=np.uint64)
    none = plan.unpack(_beats(np.zeros(count, np.uint64), port))
    where = {name: np.zeros(array.shape, np.int64) for name, array in none.items()}
    for bit in range(count.bit_length()):
        seen = plan.unpack(_beats(numbers >> np.uint64(bit) & np.uint64(1), port))
        for name, array in seen.items():
            where[name] += (array != none[name]).astype(np.int64) << bit
    return where


def _beats(lanes: np.ndarray, port: StreamPort) -> Beats:
    """Return the beats of bits of lanes, shape (beats * lanes,)."""
    shifts = np.arange(port.lane_width, dtype=np.uint64)
    bits = (lanes[:, None] >> shifts & np.uint64(1)).astype(np.uint8)
    return np.packbits(bits.reshape(-1, port.lanes * port.lane_width), axis=-1, bitorder="little")
