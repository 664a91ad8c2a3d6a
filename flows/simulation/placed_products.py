# SPDX-License-Identifier: Apache-2.0
"""Products in the memory of an engine: where operands are put, and what must stand there after.

Nothing here knows how the engine is simulated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hwgen.core.post import PostSettings, output_format
from hwgen.core.post.records import Columns
from hwgen.core.registry import core_of
from hwgen.core.schedule.stream import RAW_RESULTS
from hwgen.families.gemm_stream.params import GemmStreamConfig
from hwgen.families.gemm_stream.schedule import Job, plan_of

LARGEST_ADDRESS = 62
"""Bits of an address that is drawn, at most: NumPy counts in 64 bits with a sign."""


@dataclass(frozen=True)
class Placed:
    """A job with its operands.

    Parameters
    ----------
    job : Job
    a : ndarray or None
        None if an earlier job writes A.
    w : ndarray
    columns : Columns or None
    expected : ndarray, shape (m, n), or None
        Results by the golden model; None if they are not needed.
    """

    job: Job
    a: np.ndarray | None
    w: np.ndarray
    columns: Columns | None
    expected: np.ndarray | None

    def images(self) -> Iterator[tuple[int, bytes]]:
        """Yield what is to be put into memory: address and bytes."""
        plan, regions = self.job.plan, self.job.regions
        images = {"W": plan.pack_weights(self.w)}
        if self.a is not None:
            images["A"] = plan.pack_activations(self.a)
        if self.columns is not None:
            images["P"] = self.columns.encode().reshape(1, -1)
        for name, rows in images.items():
            _, _, stride, address = regions[name]
            for index, row in enumerate(rows):
                yield address + index * stride, row.tobytes()

    def writes(self) -> list[tuple[int, int]]:
        """Return the writes to the job window: offset and contents."""
        return self.job.writes()

    def perform(self, memory: Any) -> None:
        """Do what the job does: write its results."""
        assert self.expected is not None
        raw = np.ascontiguousarray(self.expected.astype(self._dtype.newbyteorder("<")))
        for row, (address, size) in zip(raw, self.written(), strict=True):
            memory.write(address, row.tobytes()[:size])

    def spoiled(self, rng: np.random.Generator) -> list[tuple[int, int]]:
        """Return the same: nothing is noticed."""
        return self.writes()

    def written(self) -> list[tuple[int, int]]:
        """Return the regions that the job writes: address and bytes."""
        return self._rows("C")

    def read(self) -> list[tuple[int, int]]:
        """Return the regions of A: address and bytes."""
        return self._rows("A")

    def _rows(self, name: str) -> list[tuple[int, int]]:
        rows, size, stride, address = self.job.regions[name]
        return [(address + row * stride, size) for row in range(rows)]

    def results(self, read: Any) -> np.ndarray:
        """Return C from memory; `read` takes an address and a length."""
        rows, size, stride, address = self.job.regions["C"]
        raw = b"".join(bytes(read(address + row * stride, size)) for row in range(rows))
        array = np.frombuffer(raw, self._dtype.newbyteorder("<"))
        return array.reshape(rows, -1).astype(self._dtype)

    @property
    def _dtype(self) -> np.dtype[Any]:
        """The type of results."""
        result = self.job.plan.config.result
        return np.dtype(output_format(self.job.settings.output, result).dtype)


def place_product(
    config: GemmStreamConfig,
    a: np.ndarray,
    w: np.ndarray,
    settings: PostSettings | None = None,
    columns: Columns | None = None,
    *,
    expected: np.ndarray | None = None,
    rng: np.random.Generator | None = None,
    base: int = 0,
    align: int = 64,
    least_traffic: bool = False,
    scattered: bool = False,
) -> tuple[Placed, int]:
    """Put a product into memory.

    Parameters
    ----------
    config : GemmStreamConfig
    a : ndarray, shape (m, k)
    w : ndarray, shape (k, n)
    settings : PostSettings, optional
        Default raw results.
    columns : Columns, optional
        If the settings ask for them.
    expected : ndarray, optional
        Results by the golden model, if they are needed.
    rng : numpy Generator, optional
        Draws odd addresses and strides; without it they are aligned.
    base : int
        First address.
    align : int
        Without `rng`: what regions begin at multiples of.
    least_traffic : bool
        See `Plan`.
    scattered : bool
        With `rng`: whether rows lie anywhere in the address space; they may overlap.

    Returns
    -------
    Placed, int
        And the first address behind it.
    """
    settings = settings or RAW_RESULTS
    plan = plan_of(
        config, a.shape[0], a.shape[1], w.shape[1], settings, least_traffic=least_traffic
    )
    plan.check_operands(a, w)
    sizes = {
        "a": (plan.m, plan.activation_row_bytes),
        "w": (plan.weight_image_rows, plan.weight_row_bytes),
        "c": (plan.m, plan.n * plan.result_bytes),
        "p": (1, plan.n * plan.record_bytes),
    }
    at, where = base, {}
    for name, (rows, size) in sizes.items():
        if scattered and rng is not None:
            half = 1 << min(32, config.memory.address_width) - 1
            stride = int(rng.integers(size, max(size + 1, half // (rows + 1))))
            space = (1 << min(LARGEST_ADDRESS, config.memory.address_width)) - half
            where[f"{name}_address"] = int(rng.integers(space))
            if name != "p":
                where[f"{name}_stride"] = stride
            continue
        slack, pad = (int(x) for x in rng.integers(0, 70, 2)) if rng is not None else (0, 0)
        at = -(-at // align) * align + slack
        where[f"{name}_address"] = at
        if name != "p":
            where[f"{name}_stride"] = size + pad
        at += rows * (size + pad) + 1
    job = Job(plan, settings=settings, **where)  # type: ignore[arg-type]
    return Placed(job, a, w, columns, expected), at


def place(
    config: GemmStreamConfig,
    products: Sequence[tuple[np.ndarray, np.ndarray]],
    *,
    settings: PostSettings = RAW_RESULTS,
    columns: Columns | None = None,
    rng: np.random.Generator | None = None,
    base: int = 0,
    least_traffic: bool = False,
) -> tuple[list[Placed], int]:
    """Put products (a, w) one after the other into memory; see `place_product`.

    Returns
    -------
    list of Placed, int
        And the first address behind everything.
    """
    placed, at = [], base
    for a, w in products:
        product, at = place_product(
            config, a, w, settings, columns,
            expected=core_of(config).multiply(a, w, settings, columns),
            rng=rng, base=at, least_traffic=least_traffic,
        )  # fmt: skip
        placed.append(product)
    return placed, at
