# SPDX-License-Identifier: Apache-2.0
"""Formats of the scales that blocks share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hwgen.formats.floating import FLOATS, FloatFormat
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

E8M0_BIAS = 127
E8M0_NAN = 0xFF


@dataclass(frozen=True)
class Scale:
    """A format of scales: floating point, or where `floating` is None as the name says.

    Parameters
    ----------
    name : str
        ``e8m0``, an exponent alone; ``uint8``; or the name of `floating`.
    width : int
    floating : FloatFormat or None
    """

    name: str
    width: int = 8
    floating: FloatFormat | None = None

    @property
    def max(self) -> float:
        """Largest scale that is not a power of two."""
        return self.floating.max if self.floating else float((1 << self.width) - 1)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of bit patterns."""
        return self.floating.bits_dtype if self.floating else np.dtype(np.uint8)

    def round(self, values: NDArray[np.float64]) -> NDArray[Any]:
        """Return the bit patterns nearest to values, ties to even; not of exponents."""
        if self.floating:
            return self.floating.round(values)
        return np.clip(np.round(values), 0, self.max).astype(np.uint8)

    def decode(self, bits: NDArray[Any]) -> NDArray[np.float64]:
        """Return the values of bit patterns; the sign of an e4m3 scale is ignored."""
        if self.floating:
            values = self.floating.to_float64(bits)
            return np.abs(values) if self.name == "e4m3" else values
        if self.name == "e8m0":
            values = np.ldexp(1.0, bits.astype(np.int32) - E8M0_BIAS)
            return np.where(bits == E8M0_NAN, np.nan, values)
        return bits.astype(np.float64)


SCALES = {
    scale.name: scale
    for scale in (
        Scale("e8m0"),
        Scale("uint8"),
        Scale("e4m3", 8, FLOATS["fp8_e4m3"]),
        *(Scale(name, FLOATS[name].width, FLOATS[name]) for name in ("fp16", "bf16", "fp32")),
    )
}
"""Formats of scales by name."""
