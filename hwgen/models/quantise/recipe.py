# SPDX-License-Identifier: Apache-2.0
"""Recipe of a quantisation, and weights quantised by it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

import numpy as np

from hwgen.errors import InputError
from hwgen.models.files.gguf_blocks import Groups
from hwgen.models.quantise.compensation import (
    clipped,
    compensated,
    e4m3_scales,
    power_scales,
    round_to_e2m1,
    round_to_integers,
)
from hwgen.models.run.block_rows import BLOCK, BLOCK_ROWS, KEY_FORMATS, round_blocks
from hwgen.models.run.float_engine import rounded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.models.quantise.calibration import Inputs

    Reals = NDArray[np.float32]

Weights = Literal["int8", "int4", "mxfp4", "nvfp4", "ternary", "original"]
_ROUNDED = ("int8", "int4", "mxfp4", "nvfp4")
GROUPS = (32, 64, 128)
"""Groups of weights along K that are offered."""

BLOCKS = {"mxfp4": 32, "nvfp4": 16}
"""Elements that share a scale, of formats in which their number is fixed."""

_CLIPPED = 4  # up to so many bits, scales smaller than those of the largest magnitude pay


@dataclass(frozen=True)
class Recipe:
    """Recipe of a quantisation.

    Parameters
    ----------
    weights : str
        ``int8``, ``int4``, ``mxfp4``, ``nvfp4``, ``ternary`` by the mean magnitude, or
        ``original`` as the file has them.
    group : int or None
        Elements along K that share a scale; None: one scale for each output channel, and of
        ternary weights one for the matrix. Of mxfp4 it is 32, of nvfp4 16.
    smooth : bool
        Whether channels are made alike.
    activation_bits, kv_bits : int
        Of integers, of which keys and values have a scale for each token and head.
    kv_format : str
        ``integers``, or the blocks of keys and values: ``mxfp8`` or ``mxfp4``.
    rotate : bool, optional
        Whether the residual stream and values are rotated; default if weights are int8, int4,
        mxfp4 or nvfp4 and hardware rotates nothing. Weights that were trained to be ternary would
        not stay so.
    compensate : bool, optional
        Whether errors of rounding are made good by other weights; default whether weights are
        int8, int4, mxfp4 or nvfp4.
    activations : str
        ``int8``: integers of `activation_bits` with a scale for each row; ``mxfp8``: blocks of 32
        elements of E4M3 with powers of two.
    hadamard : int
        Elements of blocks that hardware rotates before it quantises them; 0: none. Then nothing is
        rotated beforehand.
    products : tuple of (str, str)
        Formats of the weights of some products: patterns of their names, as of files, and
        formats; of several patterns that match the last one holds.

    Raises
    ------
    InputError
        If original weights are to be changed, or channels to be rotated twice.
    """

    weights: Weights = "int8"
    group: int | None = None
    smooth: bool = True
    activation_bits: int = 8
    kv_bits: int = 8
    rotate: bool | None = None
    compensate: bool | None = None
    activations: Literal["int8", "mxfp8"] = "int8"
    hadamard: int = 0
    kv_format: Literal["integers", "mxfp8", "mxfp4"] = "integers"
    products: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.weights in BLOCKS:
            block = BLOCKS[self.weights]
            if self.group not in (None, block):
                raise InputError(
                    f"groups of {self.weights} have {block} elements, not {self.group}"
                )
            object.__setattr__(self, "group", block)
        if self.weights == "original" and (self.rotate or self.compensate):
            raise InputError("original weights cannot be rotated or compensated")
        if self.weights == "original" and self.hadamard:
            raise InputError("original weights cannot be rotated in blocks of `hadamard`")
        if self.activations == "mxfp8":
            if self.group != BLOCK:
                raise InputError(
                    f"activations in mxfp8 need weights in groups of {BLOCK}, as blocks of both are"
                    f" equally long: take --weights mxfp4, or --group {BLOCK}"
                )
            if self.hadamard:
                raise InputError(
                    "hardware rotates rows before it makes integers of them, not before mxfp8:"
                    " leave out --hadamard; the residual stream is then rotated beforehand"
                )
        if self.rotate and self.hadamard:
            raise InputError(
                "the model is rotated either beforehand (rotate) or by hardware, in blocks"
            )
        if self.products and self.weights in ("original", "ternary"):
            raise InputError(f"{self.weights} weights are not mixed with other formats")
        for pattern, weights in self.products:
            if weights not in (*_ROUNDED, "ternary"):
                raise InputError(
                    f"{pattern}={weights}: the format must be one of"
                    f" {', '.join((*_ROUNDED, 'ternary'))}"
                )
            self._with(weights)

    def of_product(self, name: str) -> Recipe:
        """Return the recipe of a product, by its name."""
        for pattern, weights in reversed(self.products):
            if fnmatchcase(name, pattern):
                return self._with(weights)
        return self

    def _with(self, weights: str) -> Recipe:
        group = None if weights in BLOCKS else self.group
        return replace(
            self, weights=weights, group=group, products=(),  # type: ignore[arg-type]  # checked
            rotate=self.rotates, compensate=self.compensates and weights in _ROUNDED,
        )  # fmt: skip

    @property
    def bits(self) -> int:
        """Bits of a weight; those of original weights are the file's."""
        return {"int4": 4, "mxfp4": 4, "nvfp4": 4, "ternary": 2}.get(self.weights, 8)

    @property
    def rotates(self) -> bool:
        """Whether the residual stream and values are rotated."""
        if self.rotate is None:
            return self.weights in _ROUNDED and not self.hadamard
        return self.rotate

    @property
    def compensates(self) -> bool:
        """Whether errors of rounding are made good by other weights."""
        return self.weights in _ROUNDED if self.compensate is None else self.compensate

    def round_rows(self, x: Reals) -> Reals:
        """Return rows of activations as they are after quantisation."""
        return round_blocks(x) if self.activations == "mxfp8" else rounded(x, self.activation_bits)

    @property
    def row_format(self) -> dict[str, int | str]:
        """Attributes of the operations that quantise rows."""
        result: dict[str, int | str] = {"bits": self.activation_bits}
        return result | ({"format": BLOCK_ROWS} if self.activations == "mxfp8" else {})

    @property
    def keys_in_blocks(self) -> bool:
        """Whether keys and values are in blocks with powers of two."""
        return self.kv_format in KEY_FORMATS

    @property
    def keys(self) -> dict[str, int | str]:
        """Attributes of attention, by the format of keys and values."""
        if self.keys_in_blocks:
            return {"bits": KEY_FORMATS[self.kv_format].width, "key_format": self.kv_format}
        return {"bits": self.kv_bits, **({"hadamard": self.hadamard} if self.hadamard else {})}

    def of(self, name: str, weights: Reals, inputs: Inputs | None = None) -> Groups:
        """Return weights as integers with scales.

        Parameters
        ----------
        name : str
            Of the product.
        weights : ndarray, shape (n, k)
        inputs : Inputs, optional
            What the product takes in calibration, if errors are to be made good by it.

        Raises
        ------
        InputError
            If rows are no whole groups.
        """
        rows, k = weights.shape
        if self.group is not None and k % self.group:
            raise InputError(f"{name}: rows of {k} elements are no whole groups of {self.group}")
        grouped = weights.reshape(rows, -1, self.group or k)
        nearest, tensor_scale = round_to_integers, 1.0
        if self.weights == "ternary":
            axis = None if self.group is None else 2
            scale = np.abs(grouped).mean(axis=axis, keepdims=True)
            most = 1
        elif self.weights in BLOCKS:
            most, nearest = 12, round_to_e2m1
            sizes = None if inputs is None else inputs.sizes.reshape(grouped.shape[1:])
            largest = np.abs(grouped).max(axis=2, keepdims=True)
            if self.weights == "mxfp4":
                scale = power_scales(grouped, largest, most, sizes)
            else:
                scale, tensor_scale = e4m3_scales(grouped, largest, most, sizes)
        else:
            most = (1 << (self.bits - 1)) - 1
            largest = np.abs(grouped).max(axis=2, keepdims=True)
            if inputs is not None and self.bits <= _CLIPPED:
                sizes = inputs.sizes.reshape(grouped.shape[1:])
                scale = clipped(grouped, largest, most, sizes)
            else:
                scale = largest / np.float32(most)
        scale = np.where(scale > 0, scale, np.float32(1)).astype(np.float32)
        if self.group is not None and self.weights not in BLOCKS:
            scale = fp16_scales(scale)
        if inputs is not None:
            factor = inputs.factor(self.activation_bits)
            values = compensated(weights, scale[..., 0], most, *factor, nearest)
        else:
            values = nearest(grouped / scale, most).astype(np.int8)
        return Groups(values.reshape(rows, k), scale[..., 0], tensor_scale=tensor_scale)


def fp16_scales(scale: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return scales of groups as fp16 holds them, as GGUF's and those of cores are; above 0."""
    limits = np.finfo(np.float16)
    limited = np.clip(scale, limits.smallest_subnormal, limits.max)
    return limited.astype(np.float16).astype(np.float32)
