# SPDX-License-Identifier: Apache-2.0
"""Exhaustive tables: figures of the cost model for every point of a space, and its illegal points.

A point is a digit for each parameter; its row is their number in mixed radix, the last parameter
varying fastest.  Tables are Parquet files whose metadata holds axes, rules and a digest.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwgen.errors import InputError, ToolMissing

Points = NDArray[np.int64]
Floats = NDArray[np.float64]

_BITS = 15
"""Bits of significands: figures are rounded so that the last bits of a fit decide nothing."""

_METADATA = b"hwgen.table"


@dataclass(frozen=True)
class Axis:
    """A parameter and its values, in order.

    Parameters
    ----------
    name : str
        Dotted name.
    values : tuple
        Plain data.
    """

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Table:
    """Figures of every point of a space.

    Parameters
    ----------
    name : str
    axes : tuple of Axis
    metrics : mapping
        Name with unit, such as ``area_mm2``, to an array with a figure for each row, in float32;
        NaN for illegal points.
    rule : array of uint8
        0 for legal points, else one more than the place of the broken rule in `rules`.
    rules : tuple of str
    workload : mapping
        Its name and features: ``macs``, ``weights``, ``tokens``.
    provenance : mapping
        What made the table.
    """

    name: str
    axes: tuple[Axis, ...]
    metrics: Mapping[str, NDArray[np.float32]]
    rule: NDArray[np.uint8]
    rules: tuple[str, ...]
    workload: Mapping[str, Any]
    provenance: Mapping[str, Any]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each axis."""
        return tuple(len(axis.values) for axis in self.axes)

    @property
    def size(self) -> int:
        """The number of points, legal or not."""
        return math.prod(self.sizes)

    @cached_property
    def strides(self) -> Points:
        """By how many rows a step of each digit moves."""
        return np.array([math.prod(self.sizes[at + 1 :]) for at in range(len(self.sizes))])

    @cached_property
    def legal(self) -> NDArray[np.bool_]:
        """True for each legal row."""
        result: NDArray[np.bool_] = self.rule == 0
        return result

    def rows(self, points: Points) -> Points:
        """Return the rows of points, shape (n, axes).

        Raises
        ------
        InputError
            If a digit is out of its bounds.
        """
        points = np.asarray(points)
        if points.ndim != 2 or points.shape[1] != len(self.axes):
            raise InputError(f"points of {self.name} have {len(self.axes)} digits each")
        if ((points < 0) | (points >= self.sizes)).any():
            bounds = ", ".join(
                f"{a.name} 0..{n - 1}" for a, n in zip(self.axes, self.sizes, strict=True)
            )
            raise InputError(f"a digit is out of its bounds; {self.name} has {bounds}")
        result: Points = points @ self.strides
        return result

    def point(self, row: int) -> dict[str, Any]:
        """Return the parameters of a row."""
        digits = np.unravel_index(row, self.sizes)
        return {axis.name: axis.values[int(d)] for axis, d in zip(self.axes, digits, strict=True)}

    def broken_rule(self, row: int) -> str:
        """Return the rule that a row breaks, empty if it is legal."""
        code = int(self.rule[row])
        return self.rules[code - 1] if code else ""

    def mask(self, prefix: Sequence[int] = ()) -> NDArray[np.bool_]:
        """Mark the values of the next parameter with which there is a legal point.

        Parameters
        ----------
        prefix : sequence of int
            The digits of the parameters before it.

        Raises
        ------
        InputError
            If all digits are given already.
        """
        if len(prefix) >= len(self.sizes):
            raise InputError(f"{self.name} has {len(self.sizes)} parameters; none is left to mask")
        result: NDArray[np.bool_] = self._masks(len(prefix))[tuple(prefix)]
        return result

    def _masks(self, position: int) -> NDArray[np.bool_]:
        """Mark the prefixes of ``position + 1`` digits that have a legal point."""
        if position not in self._mask_cache:
            if position == len(self.sizes) - 1:
                self._mask_cache[position] = self.legal.reshape(self.sizes)
            else:
                self._mask_cache[position] = np.asarray(self._masks(position + 1).any(axis=-1))
        return self._mask_cache[position]

    @cached_property
    def _mask_cache(self) -> dict[int, NDArray[np.bool_]]:
        return {}

    def draw(self, count: int, generator: np.random.Generator) -> Points:
        """Return random legal points, each digit drawn among the legal ones behind those before."""
        points = np.empty((count, len(self.sizes)), np.int64)
        for position in range(len(self.sizes)):
            masks = self._masks(position)[tuple(points[:, :position].T)]
            masks = np.broadcast_to(masks, (count, self.sizes[position]))
            order = generator.random((count, self.sizes[position]))
            points[:, position] = np.where(masks, order, -1.0).argmax(axis=1)
        return points

    # -- identity and files ------------------------------------------------------------------

    @cached_property
    def digest(self) -> str:
        """SHA-256 of axes, rules, legality and figures; how a file stores them does not matter."""
        total = hashlib.sha256()
        head = {"axes": [[a.name, list(a.values)] for a in self.axes], "rules": list(self.rules)}
        total.update(json.dumps(head, sort_keys=True).encode())
        total.update(np.ascontiguousarray(self.rule).tobytes())
        for name in sorted(self.metrics):
            total.update(name.encode())
            total.update(np.ascontiguousarray(self.metrics[name], "<f4").tobytes())
        return total.hexdigest()

    def encode(self) -> bytes:
        """Return the bytes of a Parquet file."""
        arrow, parquet = _arrow()
        head = {
            "name": self.name,
            "axes": [[axis.name, list(axis.values)] for axis in self.axes],
            "rules": list(self.rules),
            "workload": dict(self.workload),
            "provenance": dict(self.provenance),
            "digest": self.digest,
        }
        columns = {**self.metrics, "rule": self.rule}
        table = arrow.table({name: arrow.array(column) for name, column in columns.items()})
        table = table.replace_schema_metadata({_METADATA: json.dumps(head).encode()})
        amounts = list(self.metrics)
        buffer = io.BytesIO()
        parquet.write_table(
            table, buffer, compression="zstd", compression_level=12,
            use_dictionary=["rule"], use_byte_stream_split=amounts,
        )  # fmt: skip
        return buffer.getvalue()

    @classmethod
    def read(cls, path: Path, expected: str | None = None) -> Table:
        """Read a table and check its digest.

        Parameters
        ----------
        path : Path
        expected : str, optional
            The digest that it must have; by default the one that it states.

        Raises
        ------
        InputError
            If the file is no table, or its digest is another.
        """
        arrow, parquet = _arrow()
        try:
            read = parquet.read_table(path)
            head = json.loads(read.schema.metadata[_METADATA])
            metrics = {
                name: read.column(name).to_numpy().astype(np.float32, copy=False)
                for name in read.column_names
                if name != "rule"
            }
            table = cls(
                head["name"],
                tuple(Axis(name, tuple(values)) for name, values in head["axes"]),
                metrics,
                read.column("rule").to_numpy().astype(np.uint8, copy=False),
                tuple(head["rules"]),
                head["workload"],
                head["provenance"],
            )
            stated = head["digest"]
        except (OSError, arrow.ArrowException, KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{path}: no table of hwgen: {error}; `hwgen gym table` writes one"
            ) from None
        for wanted, whose in ((stated, "the file states"), (expected, "the benchmark is of")):
            if wanted is not None and table.digest != wanted:
                raise InputError(
                    f"{path}: the digest of its figures is {table.digest[:16]}, {whose}"
                    f" {wanted[:16]}: it is damaged, or of another cost model; make it again with"
                    " `hwgen gym table`"
                )
        return table


def rounded(amounts: NDArray[Any]) -> NDArray[np.float32]:
    """Round figures to significands of 15 bits, a relative error of at most 3.1e-5."""
    significand, exponent = np.frexp(np.asarray(amounts, np.float64))
    scale = float(1 << _BITS)
    return np.ldexp(np.rint(significand * scale) / scale, exponent).astype(np.float32)


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ToolMissing("tables need pyarrow; pip install 'hwgen[gym]'") from None
    return pyarrow, pyarrow.parquet
