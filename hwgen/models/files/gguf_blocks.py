# SPDX-License-Identifier: Apache-2.0
"""Types of GGUF tensors: blocks of bytes become integers with scales, or plain numbers.

Integers, scales and offsets are kept apart, so that weights which were quantised reach an
accelerator as they are.  ``values * scales + offsets`` in single precision is what the `gguf`
package's dequantisation gives, bit for bit: the same operations in the same order.  Layouts are
those of ``ggml-quants.c`` of llama.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Reals = NDArray[np.float32]


class Groups(NamedTuple):
    """Rows of integers with a scale for each group along the row.

    Parameters
    ----------
    values : ndarray of int8 or uint8, shape (rows, k)
    scales : ndarray of float32, shape (rows, groups)
    offsets : ndarray of float32, shape (rows, groups), optional
        What is added to the products.
    tensor_scale : float, optional
        Factor that all scales contain, of a format that stores it apart, such as NVFP4.
    """

    values: NDArray[Any]
    scales: Reals
    offsets: Reals | None = None
    tensor_scale: float = 1.0

    def numbers(self) -> Reals:
        """Return the numbers that the integers represent, in single precision, shape (rows, k)."""
        rows, columns = self.values.shape
        grouped = self.values.reshape(rows, self.scales.shape[1], -1).astype(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            result = grouped * self.scales[..., None]
            if self.offsets is not None:
                result = result + self.offsets[..., None]
        return result.reshape(rows, columns)


@dataclass(frozen=True)
class BlockType:
    """A type of GGUF.

    Parameters
    ----------
    name : str
    code : int
        Number in the file.
    elements, bytes : int
        Of a block.
    bits : int
        Of an element, scales not counted; rounded up where digits share bytes.
    unpack : callable or None
        Takes blocks, shape (n, bytes), and returns `Groups` of n rows; None of plain numbers.
    dtype : str
        Of plain numbers.
    group : int
        Elements that share a scale.
    """

    name: str
    code: int
    elements: int
    bytes: int
    bits: int
    unpack: Callable[[Bytes], Groups] | None = None
    dtype: str = ""
    group: int = 32

    def rows(self, data: Bytes) -> Groups | NDArray[Any]:
        """Return rows of a tensor.

        Parameters
        ----------
        data : ndarray of uint8, shape (rows, bytes of a row)

        Returns
        -------
        Groups or ndarray
            Numbers of `dtype` where the type has no scales.
        """
        if self.unpack is None:
            numbers: NDArray[Any] = np.ascontiguousarray(data).view(_dtype(self.dtype))
            return numbers
        shape = (len(data), -1)
        result = self.unpack(np.ascontiguousarray(data).reshape(-1, self.bytes))
        offsets = None if result.offsets is None else result.offsets.reshape(shape)
        return Groups(result.values.reshape(shape), result.scales.reshape(shape), offsets)


def _dtype(name: str) -> Any:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(f"<{np.dtype(name).str[1:]}")


def _half(data: Bytes) -> Reals:
    return np.ascontiguousarray(data).view("<f2").astype(np.float32)


def _nibbles(data: Bytes) -> Bytes:
    """Return the low halves of bytes, then the high ones, of each row."""
    return np.concatenate([data & 15, data >> 4], axis=-1)


def _q8_0(blocks: Bytes) -> Groups:
    return Groups(blocks[:, 2:].view(np.int8), _half(blocks[:, :2]))


def _q4_0(blocks: Bytes) -> Groups:
    return Groups(_nibbles(blocks[:, 2:]).astype(np.int8) - np.int8(8), _half(blocks[:, :2]))


def _q4_1(blocks: Bytes) -> Groups:
    return Groups(_nibbles(blocks[:, 4:]), _half(blocks[:, :2]), _half(blocks[:, 2:4]))


def _fifth_bits(data: Bytes) -> Bytes:
    """Return the bits of four bytes, shape (n, 32), in place of the fifth bit of an element."""
    bits = np.unpackbits(np.ascontiguousarray(data), axis=1, bitorder="little")
    return np.asarray(bits << 4, np.uint8)


def _q5_0(blocks: Bytes) -> Groups:
    values = _nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6])
    return Groups(values.astype(np.int8) - np.int8(16), _half(blocks[:, :2]))


def _q5_1(blocks: Bytes) -> Groups:
    values = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8])
    return Groups(values, _half(blocks[:, :2]), _half(blocks[:, 2:4]))


def _pairs(data: Bytes) -> Bytes:
    """Return four digits of two bits a byte: the lowest ones of 32 bytes, then the next."""
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    digits = data.reshape(len(data), -1, 1, 32) >> shifts & 3
    return np.asarray(digits.reshape(len(data), -1), np.uint8)


def _q2_k(blocks: Bytes) -> Groups:
    """Return super-blocks of 16 groups: a scale and a minimum of 4 bits share a byte."""
    scale, least = _half(blocks[:, 80:82]), _half(blocks[:, 82:84])
    with np.errstate(invalid="ignore"):
        scales = scale * (blocks[:, :16] & 15).astype(np.float32)
        offsets = -(least * (blocks[:, :16] >> 4).astype(np.float32))
    return Groups(_pairs(blocks[:, 16:80]), scales, offsets)


def _q3_k(blocks: Bytes) -> Groups:
    """Return super-blocks of 16 groups with scales of 6 bits; a clear third bit subtracts 4."""
    shifts = np.arange(8, dtype=np.uint8)[:, None]
    third = (blocks[:, None, :32] >> shifts & 1).reshape(len(blocks), -1)
    values = (_pairs(blocks[:, 32:96]) | third << 2).astype(np.int8) - np.int8(4)
    high = blocks[:, None, 104:108] >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    sixes = _nibbles(blocks[:, 96:104]) | high.reshape(len(blocks), -1) << 4
    with np.errstate(invalid="ignore"):
        scales = _half(blocks[:, 108:]) * (sixes.astype(np.float32) - np.float32(32))
    return Groups(values, scales)


def _sixes(blocks: Bytes) -> tuple[Reals, Reals]:
    """Return scales and negative minima of 8 groups, of 6 bits in 12 bytes, times two halves."""
    scale, least = _half(blocks[:, :2]), _half(blocks[:, 2:4])
    low, mid, high = (blocks[:, at : at + 4] for at in (4, 8, 12))
    sixes = np.concatenate([low & 63, (high & 15) | (low >> 2 & 48)], axis=1)
    minima = np.concatenate([mid & 63, (high >> 4) | (mid >> 2 & 48)], axis=1)
    with np.errstate(invalid="ignore"):
        return scale * sixes.astype(np.float32), -(least * minima.astype(np.float32))


def _q4_k(blocks: Bytes) -> Groups:
    """Return super-blocks of 8 groups: scales and minima of 6 bits, each times a half."""
    values = _nibbles(blocks[:, 16:].reshape(-1, 4, 32)).reshape(len(blocks), -1)
    return Groups(values, *_sixes(blocks))


def _q5_k(blocks: Bytes) -> Groups:
    """Return super-blocks of 8 groups, as of Q4_K; a byte has the fifth bit of each group."""
    low = _nibbles(blocks[:, 48:].reshape(-1, 4, 32)).reshape(len(blocks), -1)
    shifts = np.arange(8, dtype=np.uint8)[:, None]
    fifth = (blocks[:, None, 16:48] >> shifts & 1).reshape(len(blocks), -1)
    return Groups(low | fifth << 4, *_sixes(blocks))


_LEVELS = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8
)
"""Integers of the codes of IQ4_NL and IQ4_XS."""


def _iq4_nl(blocks: Bytes) -> Groups:
    return Groups(_LEVELS[_nibbles(blocks[:, 2:])], _half(blocks[:, :2]))


def _iq4_xs(blocks: Bytes) -> Groups:
    """Return super-blocks of 8 groups with scales of 6 bits, less 32."""
    high = np.ascontiguousarray(blocks[:, 2:4]).view("<u2") >> np.arange(0, 16, 2) & 3
    low = np.stack([blocks[:, 4:8] & 15, blocks[:, 4:8] >> 4], axis=-1).reshape(len(blocks), -1)
    sixes = (low | high.astype(np.uint8) << 4).astype(np.float32) - np.float32(32)
    values = _LEVELS[_nibbles(blocks[:, 8:].reshape(-1, 8, 16))].reshape(len(blocks), -1)
    with np.errstate(invalid="ignore"):
        return Groups(values, _half(blocks[:, :2]) * sixes)


def _q6_k(blocks: Bytes) -> Groups:
    """Return super-blocks of 16 groups; two upper bits of four elements share a byte."""
    low = _nibbles(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    high = blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shifts & 3
    values = (low | high << 4).astype(np.int8) - np.int8(32)
    scales = blocks[:, 192:208].view(np.int8).astype(np.float32)
    with np.errstate(invalid="ignore"):
        return Groups(values.reshape(len(blocks), -1), _half(blocks[:, 208:]) * scales)


def _tq1_0(blocks: Bytes) -> Groups:
    """Return ternary digits, five to a byte; the first of them is the most significant."""
    powers = np.array([1, 3, 9, 27, 81], np.uint8)[:, None]
    parts = (blocks[:, :32], powers), (blocks[:, 32:48], powers), (blocks[:, 48:52], powers[:4])
    digits = [(data[:, None] * power).reshape(len(blocks), -1) for data, power in parts]
    raw = np.concatenate(digits, axis=1).astype(np.uint16)
    return Groups((raw * 3 >> 8).astype(np.int8) - np.int8(1), _half(blocks[:, 52:]))


def _tq2_0(blocks: Bytes) -> Groups:
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    codes = blocks[:, :64].reshape(-1, 2, 1, 32) >> shifts & 3
    values = codes.reshape(len(blocks), -1).astype(np.int8) - np.int8(1)
    return Groups(values, _half(blocks[:, 64:]))


_E2M1 = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8)


def _mxfp4(blocks: Bytes) -> Groups:
    """Return elements as twice their value; the scale is half the block's power of two."""
    exponent = blocks[:, :1].astype(np.uint32)
    bits = np.where(exponent < 2, np.uint32(0x00200000) << exponent, (exponent - 1) << 23)
    return Groups(_E2M1[_nibbles(blocks[:, 1:])], bits.astype(np.uint32).view(np.float32))


def _nvfp4(blocks: Bytes) -> Groups:
    """Return elements as twice their value; the scale is half an E4M3 number without sign."""
    code = blocks[:, :4]
    exponent = (code >> 3 & 15).astype(np.float32)
    fraction = (code & 7).astype(np.float32)
    normal = (np.float32(1) + fraction / np.float32(8)) * np.exp2(exponent - np.float32(7))
    scales = np.where(exponent == 0, fraction * np.float32(2.0**-9), normal) * np.float32(0.5)
    scales = np.where((code == 0) | (code == 0x7F), np.float32(0), scales)
    values = _E2M1[_nibbles(blocks[:, 4:].reshape(-1, 4, 8))].reshape(len(blocks), -1)
    return Groups(values, scales.astype(np.float32))


TYPES: dict[int, BlockType] = {
    each.code: each
    for each in (
        BlockType("F32", 0, 1, 4, 32, dtype="float32"),
        BlockType("F16", 1, 1, 2, 16, dtype="float16"),
        BlockType("BF16", 30, 1, 2, 16, dtype="bfloat16"),
        BlockType("Q4_0", 2, 32, 18, 4, _q4_0),
        BlockType("Q4_1", 3, 32, 20, 4, _q4_1),
        BlockType("Q5_0", 6, 32, 22, 5, _q5_0),
        BlockType("Q5_1", 7, 32, 24, 5, _q5_1),
        BlockType("Q8_0", 8, 32, 34, 8, _q8_0),
        BlockType("Q2_K", 10, 256, 84, 2, _q2_k, group=16),
        BlockType("Q3_K", 11, 256, 110, 3, _q3_k, group=16),
        BlockType("Q4_K", 12, 256, 144, 4, _q4_k),
        BlockType("Q5_K", 13, 256, 176, 5, _q5_k),
        BlockType("Q6_K", 14, 256, 210, 6, _q6_k, group=16),
        BlockType("IQ4_NL", 20, 32, 18, 4, _iq4_nl),
        BlockType("IQ4_XS", 23, 256, 136, 4, _iq4_xs),
        BlockType("TQ1_0", 34, 256, 54, 2, _tq1_0, group=256),
        BlockType("TQ2_0", 35, 256, 66, 2, _tq2_0, group=256),
        BlockType("MXFP4", 39, 32, 17, 4, _mxfp4),
        BlockType("NVFP4", 40, 64, 36, 4, _nvfp4, group=16),
    )
}
"""The types that are read, by number."""

OTHERS = {
    9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
    21: "IQ3_S", 22: "IQ2_S", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64",
    29: "IQ1_M", 36: "I2_S", 41: "Q1_0",
}  # fmt: skip
"""Names of types that are not read, by number."""

I2_S = 36
"""A type of BitNet's fork of llama.cpp; `i2_s` reads it where its layout is named."""

I2_S_LAYOUTS = {"x86": 128, "arm": 64}
"""Weights that are interleaved, by the layout's name."""

I2_S_TAIL = 32
"""Bytes behind the weights, of which the first four are the scale."""


def i2_s(data: Bytes, layout: str) -> NDArray[np.int8]:
    """Return ternary weights of type I2_S in the order of the tensor.

    Parameters
    ----------
    data : ndarray of uint8, shape (bytes,)
        Of whole interleaved groups.
    layout : str
        One of `I2_S_LAYOUTS`: so many weights share a quarter of as many bytes, a quarter of them
        at bits 6 and 7, the next at bits 4 and 5, and so on.
    """
    shifts = np.array([6, 4, 2, 0], np.uint8)[:, None]
    codes = data.reshape(-1, 1, I2_S_LAYOUTS[layout] // 4) >> shifts & 3
    return np.asarray(codes.reshape(-1).astype(np.int8) - np.int8(1))
