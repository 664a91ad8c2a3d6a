# SPDX-License-Identifier: Apache-2.0
"""Several products that share a factor, made by one multiplier.

Weights ``w_i`` of `lanes` columns stand ``spacing`` bits apart in one factor,
``W = sum(w_i << (i * spacing))``, so that its product with an activation x is
``P = sum(p_i << (i * spacing))`` with ``p_i = w_i * x``.  A product longer than the spacing borrows
from the one above, or carries into it: with ``b_0 = 0`` and ``t_i = p_i + b_i``, the field of lane
i in P holds the low bits of ``t_i``, and ``b_{i+1} = t_i >> spacing``.

``b_{i+1}`` is found from a few low bits of ``p_{i+1}``, which are made apart: it is their
difference to the low bits of the field of lane i + 1.  As many bits suffice as ``b`` has.  Where
products fit the spacing up to their sign, ``b`` is -1 or 0: one bit of logic, and ``t_i - b_i`` is
exact by the carry that the next adder takes anyway (the published scheme of two 8-bit products a
block adds the top bit of the lower one in the same way).  In a tighter, *over-packed* spacing
``t_i`` is taken for ``p_i``, with the error ``b_i``.

Sums may also be added up as one packed number, and be taken apart at the end: then the low bits
are compared before and after each addition, and what has been carried is counted, see `count`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from hwgen.formats.integer import IntegerFormat, enclosing_format
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PackingMode = Literal["exact", "over"]

Range = tuple[int, int]
"""Least and largest value."""


@dataclass(frozen=True)
class PackedProducts:
    """Products with the same activation in one multiplier.

    Parameters
    ----------
    activation, weight : IntegerFormat
    columns : int
        Columns of the array, which are grouped from the first one on.
    lanes : int
        Products of a multiplier.
    spacing : int
        Bits from a product to the next.
    exact : bool
        Whether what lanes take from each other is corrected.
    """

    activation: IntegerFormat
    weight: IntegerFormat
    columns: int
    lanes: int
    spacing: int
    exact: bool

    @property
    def groups(self) -> int:
        """Multipliers of a row of the array; the last one's upper lanes may be unused."""
        return -(-self.columns // self.lanes)

    @property
    def offsets(self) -> tuple[int, ...]:
        """Lowest bit of each lane."""
        return tuple(lane * self.spacing for lane in range(self.lanes))

    @cached_property
    def products(self) -> Range:
        """Least and largest product."""
        a, w = self.activation, self.weight
        corners = [x * y for x in (a.min, a.max) for y in (w.min, w.max)]
        return min(corners), max(corners)

    @cached_property
    def borrowed(self) -> tuple[Range, ...]:
        """Least and largest ``b`` of each lane: what it takes from those below."""
        (low, high), result = self.products, [(0, 0)]
        for _ in range(self.lanes - 1):
            least, most = result[-1]
            result.append(((low + least) >> self.spacing, (high + most) >> self.spacing))
        return tuple(result)

    @cached_property
    def error(self) -> Range:
        """Least and largest error of a product."""
        if self.exact:
            return 0, 0
        return min(b[0] for b in self.borrowed), max(b[1] for b in self.borrowed)

    @property
    def values(self) -> Range:
        """Least and largest number that a product is taken for."""
        (low, high), (least, most) = self.products, self.error
        return low + least, high + most

    @cached_property
    def low_bits(self) -> int:
        """Low bits of products that are made apart, which tell what was borrowed."""
        return _enclosing(self.borrowed).width if any(map(any, self.borrowed)) else 0

    @cached_property
    def factor(self) -> IntegerFormat:
        """Format of the packed weights."""
        least, most = (
            sum(b << at for at in self.offsets) for b in (self.weight.min, self.weight.max)
        )
        return enclosing_format(least, most)

    @cached_property
    def product(self) -> IntegerFormat:
        """Format of the packed product."""
        least, most = (sum(b << at for at in self.offsets) for b in self.products)
        return enclosing_format(least, most)

    def count(self, terms: int, width: int) -> IntegerFormat:
        """Return the format of a count of what sums of up to `terms` products have borrowed.

        Sums themselves are wanted modulo ``2**width``, and so is no more of what they borrow.
        """
        (low, high), result = self.products, [(0, 0)]
        for _ in range(self.lanes - 1):
            least, most = result[-1]
            result.append(
                ((terms * low + least) >> self.spacing, (terms * high + most) >> self.spacing)
            )
        whole = _enclosing(result)
        return IntegerFormat(min(width, whole.width), whole.signed)

    @cached_property
    def step(self) -> IntegerFormat:
        """Format of what one addition to packed sums borrows, which as many low bits tell.

        A field of a sum is any number of `spacing` bits, so an addition may borrow or carry.
        """
        (low, high), result = self.products, [(0, 0)]
        top = (1 << self.spacing) - 1
        for _ in range(self.lanes - 1):
            least, most = result[-1]
            result.append(((low + least) >> self.spacing, (high + top + most) >> self.spacing))
        return _enclosing(result)

    def dot(self, a: NDArray[np.integer], w: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return ``A . W`` with the errors of its products.

        Parameters
        ----------
        a : ndarray of int, shape (m, k)
        w : ndarray of int, shape (k, n)

        Returns
        -------
        ndarray of int64, shape (m, n)
        """
        total = a.astype(np.int64) @ w.astype(np.int64)
        if self.exact:
            return total
        columns = self._columns(w.shape[1])
        # Upper lanes that no column has hold zeros, and what they borrow is dropped.
        weights = np.pad(w.astype(np.int64), ((0, 0), (0, 1)))[:, columns]
        result = np.pad(total, ((0, 0), (0, 1)))
        rows = max(1, (1 << 22) // max(1, w.size))
        for start in range(0, a.shape[0], rows):
            part = slice(start, start + rows)
            x = a[part].astype(np.int64)[:, :, None]
            borrowed: Any = 0
            for lane in range(self.lanes - 1):
                borrowed = (x * weights[..., lane] + borrowed) >> self.spacing
                result[part, columns[:, lane + 1]] += borrowed.sum(axis=1)
        return np.ascontiguousarray(result[:, :-1])

    def _columns(self, n: int) -> NDArray[np.integer]:
        """Return the columns of n that multipliers have, shape (multipliers, lanes); n for none."""
        tiles = -(-n // self.columns)
        of_tile = np.arange(self.groups * self.lanes)
        columns = np.arange(tiles)[:, None] * self.columns + of_tile
        columns = np.where((of_tile < self.columns) & (columns < n), columns, n)
        return columns.reshape(-1, self.lanes)


def _enclosing(ranges: Iterable[Range]) -> IntegerFormat:
    """Return the narrowest format that holds several ranges."""
    ends = [end for ends in ranges for end in ends]
    return enclosing_format(min(ends), max(ends))


def packed_products(
    activation: IntegerFormat,
    weight: IntegerFormat,
    columns: int,
    factors: tuple[int, int],
    mode: PackingMode,
) -> PackedProducts | None:
    """Return the packing of most products to a multiplier, None if it makes one only.

    Parameters
    ----------
    activation, weight : IntegerFormat
    columns : int
        Columns of the array.
    factors : (int, int)
        Bits of the signed factors of a multiplier; weights are packed into the longer one.
    mode : {"exact", "over"}
        Exact products, or one more than that, as far apart as there is room; the low bits that
        are made apart are no more than the spacing.
    """
    longest, shortest = max(factors), min(factors)
    if activation.width + (not activation.signed) > shortest:
        return None

    def fits(packing: PackedProducts) -> bool:
        width = packing.factor.width + (not packing.factor.signed)
        return packing.lanes <= columns and width <= longest

    exact = PackedProducts(activation, weight, columns, 2, 1, True)
    while not all(low >= -1 and high <= 0 for low, high in exact.borrowed):
        exact = replace(exact, spacing=exact.spacing + 1)
    while fits(replace(exact, lanes=exact.lanes + 1)):
        exact = replace(exact, lanes=exact.lanes + 1)
    if mode == "exact":
        return exact if fits(exact) else None
    lanes = exact.lanes + 1 if fits(exact) else 2
    for spacing in range(exact.spacing - 1, 0, -1):
        over = PackedProducts(activation, weight, columns, lanes, spacing, False)
        if fits(over):
            return over if over.low_bits <= spacing else None
    return None
