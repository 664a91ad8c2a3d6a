# SPDX-License-Identifier: Apache-2.0
"""Results of tensor cores for tests: files of measured ones, and operands of seeds.

Measured vectors lie in ``HWGEN_VECTORS_DIR``, else in ``shared/vectors`` beside the checkout.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flows.bench.tensor_cores.operations import Instruction, by_operation
from hwgen.errors import InputError
from hwgen.formats import number_format

FP8_FILE = "hopper/hopper_fp8_wgmma.npz"

DIGESTS = {
    "hopper/fp16.bin": "414215efd3c97e340e6c3ac1f7ec70701d99c33b45e2726f3ec1131a2571289f",
    "hopper/bf16.bin": "10af86c80e4809be7afc7279859c9ef63bb47ecc40376746b19334832f3b82e2",
    FP8_FILE: "fef9bd5163599afe063007be50e62c44f5d3721aa41b4d8c10f785bb62698219",
}
"""SHA-256 of the files of measured vectors."""

TILE = np.dtype(
    [("a", "u1", (16, 32)), ("b", "u1", (8, 32)), ("c", "<u4", (16, 8)), ("d", "<u4", (16, 8))]
)
"""A tile of the files of fp16 and bf16."""

BYTES = {"hopper/fp16.bin": 400 * TILE.itemsize, "hopper/bf16.bin": 400 * TILE.itemsize}


class Measured(NamedTuple):
    """Results of a chain of steps.

    Parameters
    ----------
    instruction : Instruction
    a, b : ndarray of uint8, shape (m, bytes), (n, bytes)
        Rows of A and columns of B.
    c : ndarray of uint32, shape (m, n), or None
        What accumulators began with; None is 0.
    d : ndarray of uint32, shape (m, n)
    """

    instruction: Instruction
    a: NDArray[np.uint8]
    b: NDArray[np.uint8]
    c: NDArray[np.uint32] | None
    d: NDArray[np.uint32]


def vectors_directory() -> Path:
    """Return the directory of measured vectors; it need not exist."""
    if chosen := os.environ.get("HWGEN_VECTORS_DIR"):
        return Path(chosen).expanduser().absolute()
    return Path(__file__).resolve().parents[4] / "shared" / "vectors"


def read_checked(directory: Path, name: str) -> bytes:
    """Return the contents of a file of measured vectors.

    Raises
    ------
    InputError
        If it cannot be read, or is another version.
    """
    path = directory / name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror}; set HWGEN_VECTORS_DIR to the directory of the vectors"
        ) from None
    digest = hashlib.sha256(content).hexdigest()
    if digest != DIGESTS[name]:
        size = BYTES.get(name)
        length = f", and has {len(content):,} bytes instead of {size:,}" if size else ""
        length = "" if size == len(content) else length
        raise InputError(
            f"{path}: is not the version of these vectors that is known: its SHA-256 is"
            f" {digest[:16]}... instead of {DIGESTS[name][:16]}...{length}"
        )
    return content


def measured_vectors(directory: Path) -> Iterator[Measured]:
    """Yield the measured results of Hopper.

    Raises
    ------
    InputError
        If a file is missing or another version.
    """
    for name in ("fp16", "bf16"):
        content = read_checked(directory, f"hopper/{name}.bin")
        for tile in np.frombuffer(content, TILE):
            yield Measured(
                by_operation()[f"mma_{name}"], tile["a"], tile["b"], tile["c"], tile["d"]
            )
    with np.load(io.BytesIO(read_checked(directory, FP8_FILE))) as arrays:
        for key in arrays:
            if key.endswith("_d"):
                a, b, d = (arrays[f"{key[:-2]}_{part}"] for part in "abd")
                pair = "_".join(key.split("_")[:2])
                yield Measured(by_operation()[f"wgmma_{pair}"], a, b, None, d.view(np.uint32))


# -- operands of seeds -------------------------------------------------------------------------

SPECIAL_EVERY = 16
"""One line in so many has any bit patterns, NaNs and infinities among them."""


def drawn_lines(fmt_name: str, lines: int, elements: int, seed: str) -> NDArray[np.uint8]:
    """Return lines of elements, the same wherever they are drawn.

    Bits are those of SHAKE-256.  Lines are by turns of any finite numbers, of numbers near one, of
    subnormal ones in half of the places, and of numbers with the same exponent.
    """
    fmt = number_format(fmt_name)
    width = fmt.width // 8
    stream = hashlib.shake_256(f"{fmt_name} {lines} {elements} {seed}".encode())
    raw = np.frombuffer(stream.digest(lines * elements * (width + 1)), np.uint8)
    choice = raw[lines * elements * width :].reshape(lines, elements)
    bits = raw[: lines * elements * width].view(f"<u{width}").reshape(lines, elements).copy()
    if fmt.is_integer:
        return bits.view(np.uint8)
    kind = np.arange(lines)[:, None] % SPECIAL_EVERY
    fraction = (1 << fmt.mantissa_bits) - 1
    rest = bits & np.array(fmt.sign_mask | fraction, bits.dtype)
    near = (fmt.bias - 2 + choice % 4).astype(bits.dtype) << fmt.mantissa_bits
    finite = np.where(
        (bits & fmt.magnitude_mask) > fmt.max_finite, bits ^ (1 << fmt.mantissa_bits), bits
    )
    subnormal = np.where(choice % 2, rest, finite)
    same = np.where(choice % 16, rest | fmt.bias << fmt.mantissa_bits, rest & fmt.sign_mask)
    chosen = np.select(
        [kind == 0, kind % 4 == 1, kind % 4 == 2, kind % 4 == 3],
        [bits, rest | near, subnormal, same],
        finite,
    )
    return np.ascontiguousarray(chosen.astype(bits.dtype)).view(np.uint8)


PRODUCT = (768, 256, 64)
"""Rows, columns, and bytes of K of the products whose results are known by their digest."""


def drawn_product(instruction: Instruction) -> tuple[Any, Any]:
    """Return the rows of A and the columns of B of the product of an instruction."""
    m, n, size = PRODUCT
    elements = size // instruction.element_bytes
    return (
        drawn_lines(instruction.activation, m, elements, "A"),
        drawn_lines(instruction.weight, n, elements, "B"),
    )


def digest_of(results: NDArray[np.uint32]) -> str:
    """Return the digest of results."""
    return hashlib.sha256(np.ascontiguousarray(results, "<u4").tobytes()).hexdigest()
