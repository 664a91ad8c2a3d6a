# SPDX-License-Identifier: Apache-2.0
"""`config.json` of checkpoints of the Python package transformers, versions 4 and 5."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hwgen.errors import InputError, did_you_mean
from hwgen.models.files.checkpoint_rotation import RotationReader
from hwgen.models.files.import_common import positive_real, refused
from hwgen.models.files.store import read_object
from hwgen.models.graph.decoder_shape import DecoderShape

ACTIVATIONS = {
    "silu": "silu", "swish": "silu", "relu2": "relu2", "gelu": "gelu", "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
}  # fmt: skip
"""Gates by the names of activations in `config.json`."""


@dataclass(frozen=True)
class Family:
    """Properties of the decoders of a ``model_type``.

    Parameters
    ----------
    activation, epsilon : str
        Default activation, and the key of the epsilon of normalisations.
    norm, sub_norms, pre_norms, post_norms, head_norms
        See `DecoderShape`.
    norm_offset : float
        What factors of normalisations are more than their tensors.
    fused : bool
        Whether queries, keys and values, and gate and up, are one matrix each.
    windows : str
        Layers with a sliding window, where no ``layer_types`` are listed: ``none``, ``all``,
        ``upper`` from ``max_window_layers`` on, ``even``, ``unrotated``, or by ``pattern`` all but
        each sixth.
    elements : int
        Default ``head_dim``; 0: the width over the heads.
    base : float
        Default ``rope_theta``.
    rotated : float
        Default ``partial_rotary_factor``.
    multipliers : str
        Which scales the configuration has: none, those of ``gemma``, or those of ``granite``.
    """

    activation: str = "silu"
    epsilon: str = "rms_norm_eps"
    norm: Literal["rms_norm", "layer_norm"] = "rms_norm"
    sub_norms: bool = False
    pre_norms: bool = True
    post_norms: bool = False
    head_norms: Literal["none", "head", "row"] = "none"
    norm_offset: float = 0.0
    fused: bool = False
    windows: Literal["none", "all", "upper", "even", "unrotated", "pattern"] = "none"
    elements: int = 0
    base: float = 10000.0
    rotated: float = 1.0
    multipliers: Literal["", "gemma", "granite"] = ""


_GELU = "gelu_pytorch_tanh"

FAMILIES = {
    "llama": Family(),
    "mistral": Family(windows="all"),
    "qwen2": Family(windows="upper"),
    "qwen3": Family(windows="upper", head_norms="head", elements=128),
    "gemma": Family(activation=_GELU, norm_offset=1.0, elements=256, multipliers="gemma"),
    "gemma2": Family(
        activation=_GELU, norm_offset=1.0, elements=256, multipliers="gemma", post_norms=True,
        windows="even",
    ),
    "gemma3_text": Family(
        activation=_GELU, norm_offset=1.0, elements=256, multipliers="gemma", post_norms=True,
        head_norms="head", windows="pattern", base=1e6,
    ),
    "phi3": Family(fused=True, windows="all"),
    "olmo2": Family(pre_norms=False, post_norms=True, head_norms="row"),
    "granite": Family(multipliers="granite"),
    "smollm3": Family(windows="unrotated", base=2e6),
    "stablelm": Family(norm="layer_norm", epsilon="layer_norm_eps", rotated=0.25),
    "bitnet": Family(activation="relu2", sub_norms=True),
}  # fmt: skip
"""Decoders by ``model_type``."""

_PATTERN = 6  # every so-many-th layer of Gemma 3 attends to the whole context


class CheckpointConfig:
    """A `config.json`.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    path : Path
    values : mapping
    family : Family

    Raises
    ------
    InputError
        If it is no JSON object, or its ``model_type`` is not supported.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values: Mapping[str, Any] = read_object(path)
        self.model_type = self.values.get("model_type")
        if not isinstance(self.model_type, str) or self.model_type not in FAMILIES:
            raise InputError(
                f"{path}: model_type: {self.model_type!r:.60} is not supported"
                f"{did_you_mean(str(self.model_type), FAMILIES)}; supported are"
                f" {', '.join(FAMILIES)}"
            )
        self.family = FAMILIES[self.model_type]

    def integer(self, key: str, default: int | None = None, most: int = 1 << 24) -> int:
        """Return a number from 1 on."""
        value = self.values.get(key)
        value = default if value is None else value
        if type(value) is not int or not 1 <= value <= most:
            raise InputError(f"{self.path}: {key}: must be 1..{most}, not {value!r:.40}")
        return value

    def real(self, key: str, default: float | None = None) -> float:
        """Return a positive number."""
        value = self.values.get(key)
        value = default if value is None else value
        result = positive_real(value)
        if result is None:
            raise InputError(f"{self.path}: {key}: must be a positive number, not {value!r:.40}")
        return result

    def _optional(self, key: str) -> float:
        """Return a positive number, 0 where there is none."""
        return 0.0 if self.values.get(key) is None else self.real(key)

    @property
    def tied(self) -> bool | None:
        """Whether the table of tokens gives the logits; None: if there is no other one."""
        value = self.values.get("tie_word_embeddings")
        return value if isinstance(value, bool) else None

    def shape(self) -> DecoderShape:
        """Return the decoder's sizes.

        Raises
        ------
        InputError
            If a size is wrong, or something is not supported: then all of that is listed.
        """
        family = self.family
        width, heads = (
            self.integer("hidden_size", most=1 << 18),
            self.integer("num_attention_heads", most=1 << 12),
        )
        layers = self.integer("num_hidden_layers", most=1 << 12)
        elements = self.integer("head_dim", family.elements or max(1, width // heads), most=1 << 14)
        problems: list[str] = []
        windowed = self._windowed(layers, problems)
        positions = self.integer("max_position_embeddings", most=1 << 30)
        rotations = RotationReader(self.values, positions, elements, family.base, family.rotated)
        if family.windows == "pattern":
            rotation, local = rotations.by_layers()
        else:
            rotation, local = rotations.one(), None
        problems += rotations.problems
        shape = DecoderShape(
            layers=layers,
            width=width,
            hidden=self.integer("intermediate_size", most=1 << 20),
            heads=heads,
            kv_heads=self.integer("num_key_value_heads", heads, most=1 << 12),
            elements=elements,
            vocabulary=self.integer("vocab_size"),
            context=rotations.context,
            epsilon=self.real(family.epsilon, 1e-5 if family.norm == "layer_norm" else 1e-6),
            rotation=rotation,
            local_rotation=local,
            unrotated=self._unrotated(layers, problems),
            factors=rotations.factors,
            gate=self._gate(problems),
            pairs="halves",
            norm=family.norm,
            sub_norms=family.sub_norms,
            pre_norms=family.pre_norms,
            post_norms=family.post_norms,
            head_norms=family.head_norms,
            parallel=self.values.get("use_parallel_residual") is True,
            window=self.integer("sliding_window", most=1 << 30) if windowed else 0,
            windowed=windowed if len(windowed) < layers else None,
            **self._scales(width),
        )
        problems += shape.problems()
        if self.values.get("qk_layernorm") is True:
            problems.append(
                "qk_layernorm: normalisations with other factors for each head are not supported"
            )
        if self.values.get("use_bidirectional_attention"):
            problems.append("use_bidirectional_attention: only causal attention is supported")
        if problems:
            raise refused(self.path, problems)
        return shape

    def logit_scale(self) -> float:
        """Return the factor of logits."""
        return 1.0 / self.real("logits_scaling", 1.0)

    def _scales(self, width: int) -> dict[str, float]:
        """Return scales and caps by the names of the fields of `DecoderShape`."""
        if self.family.multipliers == "granite":
            return {
                "embedding_scale": self.real("embedding_multiplier", 1.0),
                "residual_scale": self.real("residual_multiplier", 1.0),
                "score_scale": self.real("attention_multiplier", 1.0),
            }
        if self.family.multipliers == "gemma":
            scale = self._optional("query_pre_attn_scalar")
            return {
                "embedding_scale": math.sqrt(width),
                "score_scale": scale and scale**-0.5,
                "score_cap": self._optional("attn_logit_softcapping"),
                "logit_cap": self._optional("final_logit_softcapping"),
            }
        return {}

    def _gate(self, problems: list[str]) -> str:
        """Return the gate of the feed-forward part."""
        key = "hidden_act"
        if self.values.get("hidden_activation") is not None:
            key = "hidden_activation"
        value = self.values.get(key)
        value = self.family.activation if value is None else value
        if not isinstance(value, str) or value not in ACTIVATIONS:
            problems.append(f"{key} {value!r:.40}: supported are {', '.join(ACTIVATIONS)}")
            return "silu"
        if value == "gelu" and self.model_type == "gemma":
            return "gelu_tanh"  # early files say gelu and mean its approximation
        return ACTIVATIONS[value]

    def _unrotated(self, layers: int, problems: list[str]) -> frozenset[int]:
        """Return the layers without rotation."""
        if self.family.windows != "unrotated":
            return frozenset()
        flags = self.values.get("no_rope_layers")
        if flags is None:
            interval = self.integer("no_rope_layer_interval", 4, most=1 << 12)
            return frozenset(range(interval - 1, layers, interval))
        if not isinstance(flags, list) or len(flags) != layers:
            problems.append(f"no_rope_layers: must be a list of {layers} flags, one a layer")
            return frozenset()
        return frozenset(layer for layer, rotates in enumerate(flags) if not rotates)

    def _windowed(self, layers: int, problems: list[str]) -> frozenset[int]:
        """Return the layers with a sliding window."""
        rule = self.family.windows
        by_flag = rule in ("upper", "unrotated")
        if (
            rule == "none"
            or self.values.get("sliding_window") is None
            or (by_flag and self.values.get("use_sliding_window") is not True)
        ):
            return frozenset()
        types = self.values.get("layer_types")
        if types is not None and rule != "all":
            return self._typed(types, layers, problems)
        if rule == "unrotated":
            return self._unrotated(layers, [])
        if rule == "upper":
            first = self.values.get("max_window_layers")
            return frozenset(range(first if type(first) is int and first >= 0 else 28, layers))
        step = {"all": 0, "even": 2, "pattern": self._pattern()}[rule]
        return frozenset(layer for layer in range(layers) if not step or (layer + 1) % step)

    def _pattern(self) -> int:
        for key in ("sliding_window_pattern", "_sliding_window_pattern"):
            if self.values.get(key) is not None:
                return self.integer(key, most=1 << 12)
        return _PATTERN

    def _typed(self, types: Any, layers: int, problems: list[str]) -> frozenset[int]:
        """Return the layers that ``layer_types`` says have a window."""
        names = ("full_attention", "sliding_attention")
        if not isinstance(types, list) or len(types) != layers:
            problems.append(f"layer_types: must be a list of {layers} names, one a layer")
            return frozenset()
        wrong = next((name for name in types if name not in names), None)
        if wrong is not None:
            problems.append(f"layer_types: {wrong!r:.40}: supported are {', '.join(names)}")
        return frozenset(layer for layer, name in enumerate(types) if name == names[1])
