# SPDX-License-Identifier: Apache-2.0
"""Rotations of `config.json`: `rope_parameters` of transformers 5, `rope_scaling` of 4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwgen.models.files.import_common import positive_real
from hwgen.models.graph.decoder_shape import Rotation
from hwgen.models.graph.rope_scaling import (
    BETA_FAST,
    BETA_SLOW,
    HIGH_FREQUENCY,
    LOW_FREQUENCY,
    llama3_factors,
    long_amplitude,
    yarn_amplitude,
    yarn_factors,
)

_ALIASES = {"su": "longrope"}
_LOCAL_BASE = 10000.0  # of layers with a window of Gemma 3

ROPE_TYPES = ("default", "linear", "llama3", "yarn", "longrope")
"""Types of rotations that are read."""


class RotationReader:
    """Reader of the rotations of a configuration.

    Parameters
    ----------
    values : mapping
        Contents of the file.
    positions : int
        Its ``max_position_embeddings``.
    elements : int
        Of a head.
    base : float
        Default base.
    rotated : float
        Default share of a head that is rotated.

    Attributes
    ----------
    problems : list of str
        What is wrong or not supported.
    factors : tuple of float
        See `DecoderShape`.
    context : int
        Most positions.
    """

    def __init__(
        self, values: Mapping[str, Any], positions: int, elements: int, base: float, rotated: float
    ) -> None:
        self.problems: list[str] = []
        self.factors: tuple[float, ...] = ()
        self.context = positions
        self._values, self._positions, self._elements = values, positions, elements
        self._base, self._share = base, rotated
        self._key = "rope_parameters" if values.get("rope_parameters") else "rope_scaling"

    def one(self) -> Rotation:
        """Return the rotation of all layers."""
        return self._rotation(self._object(self._values.get(self._key)))

    def by_layers(self) -> tuple[Rotation, Rotation]:
        """Return the rotation of layers that attend to everything, and of those with a window."""
        given = self._object(self._values.get(self._key))
        if not {"full_attention", "sliding_attention"} & set(given):
            base = self._values.get("rope_local_base_freq")
            base = _LOCAL_BASE if base is None else base
            return self._rotation(given), self._local({"rope_theta": base})
        full, local = (
            self._object(given.get(name)) for name in ("full_attention", "sliding_attention")
        )
        return self._rotation(full), self._local({"rope_theta": _LOCAL_BASE, **local})

    def _local(self, parameters: Mapping[str, Any]) -> Rotation:
        """Return the rotation of layers with a window, which have no factors."""
        name = parameters.get("rope_type", parameters.get("type", "default"))
        if name not in ("default", "linear"):
            self.problems.append(
                f"{self._key}: sliding_attention: rope_type {name!r:.40}: supported are default and"
                " linear"
            )
            return Rotation()
        return self._rotation(parameters)

    def _object(self, value: Any) -> Mapping[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.problems.append(f"{self._key}: must be an object, not {value!r:.40}")
            return {}
        return value

    def _number(self, parameters: Mapping[str, Any], key: str, default: float | None) -> float:
        """Return a positive number of some parameters, or else of the file."""
        value = parameters.get(key)
        value = self._values.get(key) if value is None else value
        value = default if value is None else value
        result = positive_real(value)
        if result is None:
            self.problems.append(
                f"{self._key}: {key}: must be a positive number, not {value!r:.40}"
            )
            return 1.0
        return result

    def _rotation(self, parameters: Mapping[str, Any]) -> Rotation:
        name = parameters.get("rope_type", parameters.get("type", "default"))
        name = _ALIASES.get(name, name) if isinstance(name, str) else name
        base = self._number(parameters, "rope_theta", self._base)
        share = self._number(parameters, "partial_rotary_factor", self._share)
        elements = int(min(share, 2.0) * self._elements)
        if base <= 1:
            self.problems.append(f"{self._key}: rope_theta: must be above 1, not {base:g}")
            base = self._base
        if name == "default":
            return Rotation(base, 1.0, elements)
        if name == "linear":
            return Rotation(base, 1.0 / self._number(parameters, "factor", None), elements)
        if name not in ROPE_TYPES:
            self.problems.append(
                f"{self._key}: rope_type {name!r:.40}: supported are {', '.join(ROPE_TYPES)}"
            )
            return Rotation(base)
        original = self._original(parameters)
        if name == "llama3":
            low = self._number(parameters, "low_freq_factor", LOW_FREQUENCY)
            high = self._number(parameters, "high_freq_factor", HIGH_FREQUENCY)
            if high <= low:
                self.problems.append(f"{self._key}: high_freq_factor must exceed low_freq_factor")
                return Rotation(base)
            factor = self._number(parameters, "factor", None)
            self.factors = llama3_factors(base, elements, factor, original, low, high)
            return Rotation(base, 1.0, elements, factors=True)
        key = "original_max_position_embeddings"
        grown = key in parameters or key in self._values
        factor = self._number(parameters, "factor", self._positions / original if grown else None)
        if name == "yarn":
            self.factors = yarn_factors(
                base,
                elements,
                factor,
                original,
                self._number(parameters, "beta_fast", BETA_FAST),
                self._number(parameters, "beta_slow", BETA_SLOW),
                whole=parameters.get("truncate", True) is not False,
            )
            amplitude = self._yarn_amplitude(parameters, factor)
        else:
            self.factors = self._short(parameters, elements)
            amplitude = long_amplitude(factor, original)
        if parameters.get("attention_factor") is not None:
            amplitude = self._number(parameters, "attention_factor", None)
        return Rotation(base, 1.0, elements, amplitude, factors=True)

    def _original(self, parameters: Mapping[str, Any]) -> int:
        """Return the positions before scaling."""
        key = "original_max_position_embeddings"
        value = self._values.get(key)
        value = parameters.get(key, self._positions) if value is None else value
        if type(value) is not int or not 2 <= value <= 1 << 30:
            self.problems.append(f"{self._key}: {key}: must be 2..{1 << 30}, not {value!r:.40}")
            return self._positions
        return value

    def _yarn_amplitude(self, parameters: Mapping[str, Any], factor: float) -> float:
        weights = [parameters.get(key) for key in ("mscale", "mscale_all_dim")]
        if all(weights):
            of, over = (self._number(parameters, key, None) for key in ("mscale", "mscale_all_dim"))
            return yarn_amplitude(factor, of) / yarn_amplitude(factor, over)
        return yarn_amplitude(factor)

    def _short(self, parameters: Mapping[str, Any], elements: int) -> tuple[float, ...]:
        """Return the factors of contexts that are not longer than the original one."""
        values = parameters.get("short_factor")
        if (
            not isinstance(values, list)
            or len(values) != elements // 2
            or not all(positive_real(value) for value in values)
        ):
            self.problems.append(
                f"{self._key}: short_factor: must be a list of {elements // 2} positive numbers"
            )
            return (1.0,) * (elements // 2)
        self.context = min(self._positions, self._original(parameters))
        return tuple(map(float, values))
