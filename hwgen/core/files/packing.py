# SPDX-License-Identifier: Apache-2.0
"""Weights as images of bytes, with a description that says how to read them.

Two layouts: ``keys`` is what ``pack_weights`` of the family's schedule makes, the beats of port
``wgt``, each once; ``trits`` is independent of the configuration: ternary weights in two's
complement of two bits, row by row (k, then n), the first in the least significant bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hwgen.core.protocols import WeightPacker
from hwgen.core.registry import core_of
from hwgen.errors import InputError
from hwgen.formats import TERNARY
from hwgen.formats.block import quantise_lines
from hwgen.formats.quantise import quantise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hwgen.core.params.base import FamilyConfig
    from hwgen.core.port import Beats

LAYOUTS = ("keys", "trits")
FORMAT = "hwgen packed weights"
VERSION = 1
_TRIT_BITS = 2
_TRITS_PER_BYTE = 4


@dataclass(frozen=True)
class Packed:
    """Packed weights.

    Parameters
    ----------
    image : bytes
    description : dict
        What `unpack` needs and a reader wants to know; plain JSON values.
    weights : ndarray of int, shape (K, N)
        The integers in the image.
    scales : ndarray of float32 or None
        Of weights that were floats; see `hwgen.formats.quantise`.
    """

    image: bytes
    description: dict[str, Any]
    weights: NDArray[np.integer]
    scales: NDArray[np.float32] | None


def pack(
    config: FamilyConfig,
    weights: NDArray[Any],
    *,
    layout: str = "keys",
    per_column: bool = False,
    strict: bool = False,
) -> Packed:
    """Pack weights for a configuration.

    Parameters
    ----------
    config : FamilyConfig
    weights : ndarray, shape (K, N)
        Integers within the configuration's format, or floats, which are quantised to it; for a
        block format always quantised.
    layout : {"keys", "trits"}
    per_column : bool
        Whether floats are given one scale a column.
    strict : bool
        Whether a K that is no multiple of the weights' block is refused.

    Raises
    ------
    InputError
        If the weights do not fit the configuration, or the layout the weights.
    """
    from hwgen.core.jobs import must_multiply
    from hwgen.core.schedule.checks import check_operand

    must_multiply(config, "packing weights")
    scales = None
    beside: dict[str, Any] = {}
    fmt = _format(config)
    if strict:
        _need_whole_blocks(fmt, len(weights))
    if fmt.is_block:
        if per_column:
            raise InputError(f"scales per column are not for {fmt}, whose blocks have scales")
        if weights.dtype.kind in "iuf":
            records, second = quantise_lines(fmt, weights.T)
            weights = records.T
            beside["second_scales"] = [float(scale) for scale in second] * bool(fmt.second)
    elif weights.dtype.kind == "f":
        weights, scales = quantise(weights, _format(config), per_column=per_column)
    elif per_column:
        raise InputError(
            "scales per column are of floating-point weights, which are quantised, not of"
            f" {weights.dtype} weights"
        )
    k, n = weights.shape
    plan = _schedule(config, k, n)
    check_operand("weights", weights, (k, n), _format(config))
    if layout == "trits":
        _need_ternary(config)
        image = pack_trits(weights).tobytes()
        facts: dict[str, Any] = {"bits_per_weight": float(_TRIT_BITS)}
    else:
        beats = plan.pack_weights(weights)
        image = beats.tobytes()
        # Inside an engine the core decides what keys are, the engine how they lie in memory.
        core: Any = getattr(config, "compute", config)
        port = next(port for port in core.ports if port.name == "wgt")
        width, together = getattr(plan, "key", (port.lane_width, 1))
        together = getattr(plan, "weights_per_lane", together)
        planes = getattr(core, "planes", 1)
        size = beats.shape[-1] if config.buses else port.beat_bytes
        facts = {
            "key_bits": width,
            "weights_per_key": together,
            "planes": planes,
            "bits_per_weight": width * planes / together,
            "beats": beats.size // size,
            "beat_bytes": size,
        }
    description = {
        "format": FORMAT,
        "version": VERSION,
        "layout": layout,
        "k": k,
        "n": n,
        "weight": str(_format(config)),
        **facts,
        **beside,
        "bytes": len(image),
        "sha256": hashlib.sha256(image).hexdigest(),
        "digest": config.digest,
        "config": config.resolved(),
    }
    return Packed(image, description, weights, scales)


def unpack(config: FamilyConfig, description: Mapping[str, Any], image: bytes) -> NDArray[Any]:
    """Return the integers that were packed, shape (K, N), the inverse of `pack`.

    Of a block format the numbers, as float64, second scales included.

    Raises
    ------
    InputError
        If the description is not one, is of another configuration, or does not fit the image.
    """
    import numpy as np

    from hwgen.core.schedule.checks import check_operand

    k, n, layout = _check(config, description)
    plan = _schedule(config, k, n)
    if len(image) != description["bytes"]:
        raise InputError(
            f"the image has {len(image)} bytes but its description says {description['bytes']};"
            " pack the weights again"
        )
    if hashlib.sha256(image).hexdigest() != description["sha256"]:
        raise InputError(
            "the image is not the one described: its SHA-256 differs; pack the weights again"
        )
    data = np.frombuffer(image, np.uint8)
    if layout == "trits":
        _need_ternary(config)
        weights: NDArray[np.integer] = unpack_trits(data, k, n)
    else:
        weights = plan.unpack_weights(data)
    check_operand("packed weights", weights, (k, n), _format(config))
    fmt = _format(config)
    if fmt.is_block:
        second = np.array(_second_scales(description, n), np.float32)
        return np.ascontiguousarray(fmt.decode(weights.T, second).T)
    return weights.astype(fmt.dtype)


def pack_trits(weights: NDArray[np.integer]) -> Beats:
    """Return ternary weights in two bits each, four in a byte, zeros after the last."""
    import numpy as np

    codes = np.zeros(-(-weights.size // _TRITS_PER_BYTE) * _TRITS_PER_BYTE, np.uint8)
    codes[: weights.size] = weights.astype(np.int8).reshape(-1) & 3
    places = np.array([1, 4, 16, 64], np.uint8)
    image = (codes.reshape(-1, _TRITS_PER_BYTE) * places).sum(axis=1, dtype=np.uint8)
    return np.asarray(image, np.uint8)


def unpack_trits(image: Beats, k: int, n: int) -> NDArray[np.int8]:
    """Return the weights of `pack_trits`, shape (k, n).

    Raises
    ------
    InputError
        If the number of bytes is not that of k x n weights.
    """
    import numpy as np

    needed = -(-k * n // _TRITS_PER_BYTE)
    if image.size != needed:
        raise InputError(
            f"packed weights: {k} x {n} weights of two bits take {needed} bytes, found {image.size}"
        )
    codes = (image[:, None] >> np.array([0, 2, 4, 6], np.uint8)) & 3
    values = (codes.reshape(-1)[: k * n].astype(np.int8) ^ 2) - 2
    return np.asarray(values.reshape(k, n), np.int8)


# -- checks --------------------------------------------------------------------------------------

_FIELDS: tuple[tuple[str, type, str], ...] = (
    ("layout", str, "text"),
    ("k", int, "an integer"),
    ("n", int, "an integer"),
    ("bytes", int, "an integer"),
    ("sha256", str, "text"),
    ("digest", str, "text"),
)


def _check(config: FamilyConfig, description: Mapping[str, Any]) -> tuple[int, int, str]:
    """Check a description; return K, N and the layout."""
    if description.get("format") != FORMAT:
        raise InputError(f"the description must say format: {FORMAT!r}; `hwgen pack` writes it")
    if description.get("version") != VERSION:
        raise InputError(
            f"the description is of version {description.get('version')!r}, this hwgen reads"
            f" version {VERSION}; pack the weights again"
        )
    for name, kind, words in _FIELDS:
        value = description.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            actual = "missing" if name not in description else f"{value!r:.40}"
            raise InputError(f"the description's {name} must be {words}, not {actual}")
    layout: str = description["layout"]
    if layout not in LAYOUTS:
        raise InputError(f"the description's layout must be keys or trits, not {layout!r:.40}")
    if description["digest"] != config.digest:
        raise InputError(
            f"the weights were packed for another configuration: digest"
            f" {description['digest'][:12]}..., while {config.name!r} has {config.digest[:12]}...;"
            " give the configuration (and use the version of hwgen) they were packed with, or pack"
            " them again"
        )
    return description["k"], description["n"], layout


def _second_scales(description: Mapping[str, Any], n: int) -> list[float]:
    """Return the second scales of a description, 1 of a format without any."""
    scales = description.get("second_scales", [])
    if not isinstance(scales, list) or len(scales) not in (0, 1, n):
        raise InputError(f"the description's second_scales must be a list of 0, 1 or {n} numbers")
    if not all(type(scale) in (int, float) for scale in scales):
        raise InputError("the description's second_scales must be numbers")
    return scales or [1.0]


def _schedule(config: FamilyConfig, k: int, n: int) -> Any:
    """Return the schedule that packs weights; M does not matter to them."""
    core = core_of(config)
    plan = core.schedule(core.gemm(1, k, n))
    if not isinstance(plan, WeightPacker):
        raise InputError(f"the family {config.family!r} does not pack weights")
    return plan


def _format(config: FamilyConfig) -> Any:
    return config.weight


def _need_whole_blocks(fmt: Any, k: int) -> None:
    if not fmt.is_block:
        raise InputError(f"--strict is about blocks, but weights are {fmt}; leave it out")
    if k % fmt.block:
        raise InputError(
            f"K = {k} is no multiple of the block of {fmt}, {fmt.block}; without --strict"
            " zeros fill the last block"
        )


def _need_ternary(config: FamilyConfig) -> None:
    if _format(config) != TERNARY:
        raise InputError(
            f"the layout trits is for ternary weights, but {config.name!r} takes"
            f" {_format(config)}; use the layout keys"
        )
