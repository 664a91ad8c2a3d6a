# SPDX-License-Identifier: Apache-2.0
"""Column records: bias, scale and slope of every column of C, 16 bytes each.

Little endian: ``int32 bias``, ``int32 multiplier``, ``int32 slope_multiplier``, ``uint8 shift``,
``uint8 slope_shift``, two bytes of zero.  With a floating-point output the multipliers are fp32
numbers and the shifts are unused; with sums in single precision so they are with every output, and
the bias is an fp32 number as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hwgen.core.post.words import BIAS, FLOATS, INTEGERS, SINGLE, Field
from hwgen.errors import InputError
from hwgen.formats.scale import MAX_SHIFT, SHIFT_BITS, multiplier_and_shift

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

RECORD_BYTES = 16

RECORD = (
    Field("bias", 0, 32, True, "Added to the accumulator, an fp32 number to one of fp32."),
    Field("multiplier", 32, 32, True, "Multiplier, or fp32 scale."),
    Field("slope", 64, 32, True, "Multiplier, or fp32 scale, of negative numbers with leaky."),
    Field("shift", 96, SHIFT_BITS, False, "Shift to the right."),
    Field("slope_shift", 104, SHIFT_BITS, False, "Shift of negative numbers with leaky."),
)
"""Fields of a record; bits between them are zero."""


@dataclass(frozen=True)
class Columns:
    """Post-processing parameters of each column, as arrays of shape (n,).

    Parameters
    ----------
    bias : ndarray of int32
        Of sums in single precision the bits of fp32 numbers.
    multiplier, slope_multiplier : ndarray of int32
        Of floating-point outputs and sums the bits of fp32 numbers.
    shift, slope_shift : ndarray of uint8
        0 to 63.

    Raises
    ------
    InputError
        If the arrays are not of these types, of one length, or a shift is too large.
    """

    bias: NDArray[np.int32]
    multiplier: NDArray[np.int32]
    shift: NDArray[np.uint8]
    slope_multiplier: NDArray[np.int32]
    slope_shift: NDArray[np.uint8]

    def __post_init__(self) -> None:
        for name, dtype in _DTYPES.items():
            array = getattr(self, name)
            if array.dtype != dtype or array.shape != self.bias.shape or array.ndim != 1:
                raise InputError(
                    f"{name}: must be {dtype} of shape {self.bias.shape[:1]}, not {array.dtype} of"
                    f" shape {array.shape}"
                )
        for name in ("shift", "slope_shift"):
            _check(name, getattr(self, name), 0, MAX_SHIFT)

    def __len__(self) -> int:
        return len(self.bias)

    @classmethod
    def scaled(
        cls,
        output: str,
        scales: ArrayLike = 1.0,
        *,
        bias: ArrayLike = 0,
        slopes: ArrayLike = 0.0,
        single: bool = False,
    ) -> Columns:
        """Return the columns of real scales.

        Parameters
        ----------
        output : str
            Output format, which decides how a scale is written.
        scales : array_like of float, shape (n,) or ()
            What is multiplied by; see `hwgen.formats.scale`.
        bias : array_like of int, shape (n,) or ()
            Added to the accumulators, in their unit: a real bias divided by the scale, rounded; of
            sums in single precision real numbers.
        slopes : array_like of float, shape (n,) or ()
            What negative numbers are multiplied by as well, with the activation `leaky`.
        single : bool
            Whether the accumulators are in single precision.

        Raises
        ------
        InputError
            If the shapes do not match, or a value is out of range.
        """
        import numpy as np

        arrays = [np.asarray(values) for values in (scales, bias, slopes)]
        try:
            wide, offsets, leaks = np.broadcast_arrays(*(np.atleast_1d(g) for g in arrays))
        except ValueError:
            wide = offsets = leaks = np.zeros((0, 0))
        if wide.ndim != 1:
            raise InputError(
                "scales, bias, slopes: must be one number or one for each column, not of shapes"
                f" {', '.join(str(g.shape) for g in arrays)}"
            )
        if single:
            added = _single(offsets.astype(np.float64), "bias")
        elif offsets.dtype.kind not in "iu":
            raise InputError(
                f"bias: must be integers, not {offsets.dtype}; divide it by the scale and round it"
            )
        else:
            _check("bias", offsets, BIAS.min, BIAS.max)
            added = offsets.astype(np.int32)
        factors = wide.astype(np.float64), wide.astype(np.float64) * leaks.astype(np.float64)
        none = np.zeros(wide.shape, np.uint8)
        if output in FLOATS or (single and output in INTEGERS):
            pairs = [(_single(values), none) for values in factors]
        elif output in INTEGERS:
            pairs = [multiplier_and_shift(values, "scales") for values in factors]
        else:
            pairs = [(np.ones(wide.shape, np.int32), none)] * 2
        (multiplier, shift), (slope, slope_shift) = pairs
        return cls(added, multiplier, shift, slope, slope_shift)

    def encode(self) -> NDArray[np.uint8]:
        """Return the records as bytes, shape (n, 16)."""
        import numpy as np

        records = np.zeros(len(self), _record_dtype())
        for name in _DTYPES:
            records[name] = getattr(self, name)
        return records.view(np.uint8).reshape(-1, RECORD_BYTES)

    @classmethod
    def decode(cls, image: NDArray[np.uint8]) -> Columns:
        """Return the columns of records, any array of bytes that is a multiple of 16 long.

        Raises
        ------
        InputError
            If it is not, or a shift is too large.
        """
        import numpy as np

        if image.size % RECORD_BYTES:
            raise InputError(
                f"column records: must be a multiple of {RECORD_BYTES} bytes, not {image.size}"
            )
        records = np.ascontiguousarray(image, np.uint8).reshape(-1).view(_record_dtype())
        return cls(**{name: records[name].astype(dtype) for name, dtype in _DTYPES.items()})


_DTYPES = {
    "bias": "int32",
    "multiplier": "int32",
    "shift": "uint8",
    "slope_multiplier": "int32",
    "slope_shift": "uint8",
}


def _record_dtype() -> np.dtype[Any]:
    import numpy as np

    offsets = {f.name: f.offset // 8 for f in RECORD}
    offsets["slope_multiplier"] = offsets.pop("slope")
    return np.dtype(
        {
            "names": list(_DTYPES),
            "formats": [np.dtype(dtype).newbyteorder("<") for dtype in _DTYPES.values()],
            "offsets": [offsets[name] for name in _DTYPES],
            "itemsize": RECORD_BYTES,
        }
    )


def _check(name: str, values: NDArray[Any], low: int, high: int) -> None:
    if values.size and (int(values.min()) < low or int(values.max()) > high):
        raise InputError(
            f"{name}: must be {low}..{high}, found {int(values.min())}..{int(values.max())}"
        )


def _single(values: NDArray[np.float64], name: str = "scales") -> NDArray[np.int32]:
    import numpy as np

    bits = SINGLE.encode(values)
    if not np.isfinite(SINGLE.decode(bits)).all():
        raise InputError(f"{name}: must be finite numbers of single precision")
    return np.asarray(bits.view(np.int32))
