# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of transformers as GGUF files, by the conventions of llama.cpp.

The names of tensors are those of the `gguf` package's own table.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from hwgen.models.files.safetensors_file import read_checkpoint

ARCHITECTURES = {
    "mistral": "llama", "gemma3_text": "gemma3",
}  # fmt: skip
"""Architectures of GGUF by model types with other names."""

_INTERLEAVED = ("llama", "mistral", "granite", "smollm3")
"""Model types whose rotated pairs are neighbours in GGUF."""


def write_checkpoint(source: Path, path: Path) -> None:
    """Write a checkpoint as a GGUF file."""
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    model_type = config["model_type"]
    architecture = ARCHITECTURES.get(model_type, model_type)
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in {**_sizes(config), **_rotation(config), **_scales(config)}.items():
        name = f"{architecture}.{key}"
        writer.add_key_value(name, value, gguf.GGUFValueType.get_type(value))
    kind = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == architecture)
    names = gguf.get_tensor_name_map(kind, config["num_hidden_layers"])
    for name, tensor in read_checkpoint(source).items():
        array = tensor.array().astype(np.float32)
        if model_type in _INTERLEAVED and any(part in name for part in ("q_proj", "k_proj")):
            array = _interleaved(array, _elements(config))
        if model_type.startswith("gemma") and name.endswith("norm.weight"):
            array = array + np.float32(1)
        own = names.get_name(name, (".weight", ".bias"))
        assert own is not None
        writer.add_tensor(own, array)
    for name, values in _factors(config).items():
        writer.add_tensor(name, np.array(values, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _elements(config: dict[str, Any]) -> int:
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def _interleaved(array: NDArray[Any], elements: int) -> NDArray[Any]:
    halves = array.reshape(-1, 2, elements // 2, *array.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(array.shape))


def _sizes(config: dict[str, Any]) -> dict[str, Any]:
    norm = "layer_norm" if "layer_norm_eps" in config else "layer_norm_rms"
    result = {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": _elements(config),
        "attention.value_length": _elements(config),
        f"attention.{norm}_epsilon": config.get("rms_norm_eps", config.get("layer_norm_eps")),
        "vocab_size": config["vocab_size"],
    }
    if config.get("sliding_window"):
        result["attention.sliding_window"] = config["sliding_window"]
    if config["model_type"] == "gemma3_text":
        result["attention.sliding_window_pattern"] = 3
    if "use_parallel_residual" in config:
        result["use_parallel_residual"] = config["use_parallel_residual"]
    return result


def _parameters(config: dict[str, Any]) -> dict[str, Any]:
    """Return the rotation of layers that attend to everything."""
    parameters = config["rope_parameters"]
    return parameters.get("full_attention", parameters)


def _rotation(config: dict[str, Any]) -> dict[str, Any]:
    parameters = _parameters(config)
    result: dict[str, Any] = {"rope.freq_base": parameters["rope_theta"]}
    share = parameters.get("partial_rotary_factor", 1.0)
    result["rope.dimension_count"] = int(_elements(config) * share)
    local = config["rope_parameters"].get("sliding_attention")
    if local:
        result["rope.freq_base_swa"] = local["rope_theta"]
    original = parameters.get("original_max_position_embeddings")
    match parameters["rope_type"]:
        case "linear":
            result |= {"rope.scaling.type": "linear", "rope.scaling.factor": parameters["factor"]}
        case "yarn":
            result |= {
                "rope.scaling.type": "yarn",
                "rope.scaling.factor": parameters["factor"],
                "rope.scaling.original_context_length": original,
                "rope.scaling.yarn_beta_fast": parameters["beta_fast"],
            }
        case "longrope":
            assert original is not None
            factor = config["max_position_embeddings"] / original
            amplitude = math.sqrt(1 + math.log(factor) / math.log(original))
            result |= {
                "rope.scaling.original_context_length": original,
                "rope.scaling.attn_factor": amplitude,
            }
    return result


def _scales(config: dict[str, Any]) -> dict[str, Any]:
    result = {
        key: config[name]
        for key, name in (
            ("attn_logit_softcapping", "attn_logit_softcapping"),
            ("final_logit_softcapping", "final_logit_softcapping"),
            ("embedding_scale", "embedding_multiplier"),
            ("residual_scale", "residual_multiplier"),
            ("attention.scale", "attention_multiplier"),
            ("logit_scale", "logits_scaling"),
        )
        if config.get(name) is not None
    }
    if "query_pre_attn_scalar" in config:
        result["attention.scale"] = config["query_pre_attn_scalar"] ** -0.5
    return result


def _factors(config: dict[str, Any]) -> dict[str, Any]:
    """Return tensors of factors of rotations."""
    parameters = _parameters(config)
    if parameters["rope_type"] == "longrope":
        return {f"rope_factors_{x}.weight": parameters[f"{x}_factor"] for x in ("long", "short")}
    if parameters["rope_type"] != "llama3":
        return {}
    low, high = parameters["low_freq_factor"], parameters["high_freq_factor"]
    original, factor = parameters["original_max_position_embeddings"], parameters["factor"]
    factors = []
    for pair in range(0, _elements(config), 2):
        length = 2 * math.pi * parameters["rope_theta"] ** (pair / _elements(config))
        if length < original / high:
            factors.append(1.0)
        elif length > original / low:
            factors.append(factor)
        else:
            smooth = (original / length - low) / (high - low)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return {"rope_freqs.weight": factors}
