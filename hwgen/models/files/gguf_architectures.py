# SPDX-License-Identifier: Apache-2.0
"""Architectures of decoders in GGUF files, and their sizes by the metadata."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from hwgen.models.files.gguf_file import GgufFile
from hwgen.models.files.import_common import refused
from hwgen.models.graph.decoder_shape import DecoderShape, Rotation
from hwgen.models.graph.rope_scaling import (
    BETA_FAST,
    BETA_SLOW,
    yarn_amplitude,
    yarn_factors,
)


@dataclass(frozen=True)
class Architecture:
    """Properties of an architecture of decoders.

    Parameters
    ----------
    pairs, gate, norm, sub_norms, pre_norms, post_norms, head_norms
        See `DecoderShape`.
    tied : bool
        Whether the product of the logits always takes the embedding.
    windows : str
        Layers with a sliding window: ``all``, ``even``, or ``pattern``, all but each sixth.
    unrotated : int
        Every so-many-th layer is not rotated; 0: all are.
    gemma : bool
        Whether rows of the embedding are multiplied by the root of their length.
    scaled_layers : int
        Layers of the model whose scores are scaled by the width over the heads; 0: none.
    score_cap, logit_cap : float
        Soft caps where the metadata have none.
    """

    pairs: Literal["neighbours", "halves"] = "neighbours"
    gate: str = "silu"
    norm: Literal["rms_norm", "layer_norm"] = "rms_norm"
    sub_norms: bool = False
    pre_norms: bool = True
    post_norms: bool = False
    head_norms: Literal["none", "head", "row"] = "none"
    tied: bool = False
    windows: Literal["all", "even", "pattern"] = "all"
    unrotated: int = 0
    gemma: bool = False
    scaled_layers: int = 0
    score_cap: float = 0.0
    logit_cap: float = 0.0


_GELU = "gelu_tanh"

ARCHITECTURES = {
    "llama": Architecture(),
    "qwen2": Architecture(pairs="halves"),
    "qwen3": Architecture(pairs="halves", head_norms="head"),
    "gemma": Architecture(pairs="halves", gate=_GELU, gemma=True),
    "gemma2": Architecture(
        pairs="halves", gate=_GELU, gemma=True, post_norms=True, windows="even", scaled_layers=46,
        score_cap=50.0, logit_cap=30.0,
    ),
    "gemma3": Architecture(
        pairs="halves", gate=_GELU, gemma=True, post_norms=True, head_norms="head",
        windows="pattern", scaled_layers=62,
    ),
    "phi3": Architecture(pairs="halves"),
    "olmo2": Architecture(pairs="halves", pre_norms=False, post_norms=True, head_norms="row"),
    "granite": Architecture(),
    "smollm3": Architecture(unrotated=4),
    "stablelm": Architecture(pairs="halves", norm="layer_norm"),
    "bitnet": Architecture(pairs="halves", sub_norms=True, tied=True),
    "bitnet-25": Architecture(pairs="halves", gate="relu2", sub_norms=True, tied=True),
    "bitnet-b1.58": Architecture(pairs="halves", gate="relu2", sub_norms=True),
}  # fmt: skip
"""Decoders by ``general.architecture``."""

ROPE_TYPES = ("none", "linear", "yarn", "longrope")
"""Types of scaled rotations that are read; factors of Llama 3 are a tensor."""

FACTORS, SHORT_FACTORS = "rope_freqs.weight", "rope_factors_short.weight"
"""Tensors of factors of rotations."""

_LOCAL_BASE = 10000.0  # of layers with a window of Gemma 3


def shape_of(file: GgufFile, name: str) -> DecoderShape:
    """Return a decoder's sizes.

    Parameters
    ----------
    file : GgufFile
    name : str
        Its architecture, one of `ARCHITECTURES`.

    Raises
    ------
    InputError
        If a size is wrong, or something is not supported: then all of that is listed.
    """
    return _Reader(file, name).shape()


class _Reader:
    """Reader of the metadata of a decoder."""

    def __init__(self, file: GgufFile, name: str) -> None:
        self.file, self.name, self.architecture = file, name, ARCHITECTURES[name]
        self.problems: list[str] = []

    def _integer(self, key: str, default: int | None = None, most: int = 1 << 24) -> int:
        return self.file.integer(f"{self.name}.{key}", default, most)

    def _real(self, key: str, default: float | None = None) -> float:
        return self.file.real(f"{self.name}.{key}", default)

    def _optional(self, key: str, default: float = 0.0) -> float:
        """Return a positive number, 0 where it is 0."""
        value = self.file.metadata.get(f"{self.name}.{key}", default)
        return 0.0 if value == 0 else self._real(key, default)

    def shape(self) -> DecoderShape:
        """Return the decoder's sizes."""
        architecture = self.architecture
        heads = self._integer("attention.head_count", most=1 << 12)
        width = self._integer("embedding_length", most=1 << 18)
        layers = self._integer("block_count", most=1 << 12)
        elements = self._integer("attention.key_length", max(1, width // heads), most=1 << 14)
        values = self._integer("attention.value_length", elements, most=1 << 14)
        if values != elements:
            self.problems.append(f"values have {values} elements a head, keys {elements}")
        rotation, factors, context = self._rotation(elements)
        table = self.file.tensors.get("token_embd.weight")
        epsilon = "layer_norm" if architecture.norm == "layer_norm" else "layer_norm_rms"
        window = self._integer("attention.sliding_window", 1 << 30, most=1 << 30) % (1 << 30)
        parallel = self.file.metadata.get(f"{self.name}.use_parallel_residual")
        shape = DecoderShape(
            layers=layers,
            width=width,
            hidden=self._integer("feed_forward_length", most=1 << 20),
            heads=heads,
            kv_heads=self._integer("attention.head_count_kv", heads, most=1 << 12),
            elements=elements,
            vocabulary=self._integer("vocab_size", table.shape[0] if table is not None else 1),
            context=context,
            epsilon=self._real(f"attention.{epsilon}_epsilon"),
            rotation=rotation,
            local_rotation=self._local(rotation),
            unrotated=frozenset(
                range(architecture.unrotated - 1, layers, architecture.unrotated)
                if architecture.unrotated
                else ()
            ),
            factors=factors,
            gate=architecture.gate,
            pairs=architecture.pairs,
            norm=architecture.norm,
            sub_norms=architecture.sub_norms,
            pre_norms=architecture.pre_norms,
            post_norms=architecture.post_norms,
            head_norms=architecture.head_norms,
            parallel=parallel is True,
            window=window,
            windowed=self._windowed(layers),
            embedding_scale=(
                math.sqrt(width) if architecture.gemma else self._real("embedding_scale", 1.0)
            ),
            residual_scale=self._real("residual_scale", 1.0),
            score_scale=(
                (heads / width) ** 0.5
                if layers == architecture.scaled_layers
                else self._optional("attention.scale")
            ),
            score_cap=self._optional("attn_logit_softcapping", architecture.score_cap),
            logit_cap=self._optional("final_logit_softcapping", architecture.logit_cap),
        )
        self.problems += shape.problems()
        if self.file.metadata.get(f"{self.name}.expert_count"):
            self.problems.append(
                "experts: the layer that a token takes is chosen at run time; use a dense model"
            )
        if self.problems:
            raise refused(self.file.path, self.problems)
        return shape

    def logit_scale(self) -> float:
        """Return the factor of logits."""
        return 1.0 / (self._optional("logit_scale") or 1.0)

    def _windowed(self, layers: int) -> frozenset[int] | None:
        """Return the layers with a sliding window, None for all."""
        if self.architecture.windows == "all":
            return None
        step = {"even": 2, "pattern": 6}[self.architecture.windows]
        key = "attention.sliding_window_pattern"
        pattern = self.file.metadata.get(f"{self.name}.{key}")
        if isinstance(pattern, list):  # a flag for each layer
            if len(pattern) != layers:
                self.problems.append(f"{key}: must be {layers} flags, not {len(pattern)}")
            return frozenset(layer for layer, flag in enumerate(pattern[:layers]) if flag)
        if pattern is not None:
            step = self._integer(key, most=1 << 12)
        return frozenset(layer for layer in range(layers) if (layer + 1) % step)

    def _local(self, rotation: Rotation) -> Rotation | None:
        """Return the rotation of layers with a window, None if it is that of the others."""
        if self.architecture.windows != "pattern":
            return None
        return Rotation(self._real("rope.freq_base_swa", _LOCAL_BASE), 1.0, rotation.elements)

    def _rotation(self, elements: int) -> tuple[Rotation, tuple[float, ...], int]:
        """Return the rotation, factors that are no tensor, and the most positions."""
        base = self._real("rope.freq_base", 10000.0)
        rotated = self._integer("rope.dimension_count", elements, most=1 << 14)
        context = self._integer("context_length", most=1 << 30)
        kind = self.file.text(f"{self.name}.rope.scaling.type", "none")
        if SHORT_FACTORS in self.file.tensors:
            kind = "longrope"  # of which files do not always have the name
        if base <= 1:
            self.problems.append(f"rope.freq_base: must be above 1, not {base:g}")
            base = 10000.0
        if kind not in ROPE_TYPES:
            self.problems.append(
                f"rope.scaling.type {kind!r:.40}: supported are {', '.join(ROPE_TYPES)}"
            )
        if kind == "linear":
            scale = 1.0 / self._real("rope.scaling.factor")
            return Rotation(base, scale, rotated, factors=self._has_factors()), (), context
        original = self._integer("rope.scaling.original_context_length", context, most=1 << 30)
        amplitude = self._real("rope.scaling.attn_factor", 1.0)
        if kind == "longrope":
            context = min(context, original)
            return Rotation(base, 1.0, rotated, amplitude, factors=True), (), context
        if kind != "yarn":
            return Rotation(base, 1.0, rotated, factors=self._has_factors()), (), context
        if self._has_factors():
            self.problems.append(f"{FACTORS} beside rope.scaling.type 'yarn' is not supported")
        factor = self._real("rope.scaling.factor")
        factors = yarn_factors(
            base,
            rotated,
            factor,
            original,
            self._real("rope.scaling.yarn_beta_fast", BETA_FAST),
            self._real("rope.scaling.yarn_beta_slow", BETA_SLOW),
        )
        amplitude *= yarn_amplitude(factor)
        return Rotation(base, 1.0, rotated, amplitude, factors=True), factors, context

    def _has_factors(self) -> bool:
        return FACTORS in self.file.tensors


def logit_scale_of(file: GgufFile, name: str) -> float:
    """Return the factor of the logits of a decoder."""
    return _Reader(file, name).logit_scale()
