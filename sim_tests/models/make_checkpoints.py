# SPDX-License-Identifier: Apache-2.0
"""Small checkpoints that the Python package transformers writes, with the logits that it computes.

``python sim_tests/models/make_checkpoints.py`` writes `sim_tests/data/checkpoints`, in an
environment with torch and transformers 5, neither of which the tests need. ``--old`` adds the
configurations as transformers 4 writes them, in an environment with that version.

Weights are random. Normalisations and biases differ from 1 and 0, and the output layer is scaled to
a mean probability of the most likely token of 0.35: logits that are all alike would hide errors.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

FOLDER = Path(__file__).resolve().parents[1] / "data" / "checkpoints"
CONFIG, OLD_CONFIG, REFERENCE = "config.json", "config_v4.json", "reference.npz"
TOP_1 = 0.33
PART = 0.4
TOKENS = 24

SIZES = {
    "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
HEAD = {"head_dim": 16}
SCALED = {"rope_theta": 100.0, "factor": 4.0}
ORIGINAL = {**SCALED, "original_max_position_embeddings": 16}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama_linear": ("llama", {"rope_parameters": {"rope_type": "linear", **SCALED}}),
    "llama_3": (
        "llama",
        {
            "rope_parameters": {
                "rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0, **ORIGINAL,
            },
        },
    ),
    "llama_yarn": (
        "llama", {"rope_parameters": {"rope_type": "yarn", "beta_fast": 4.0, **ORIGINAL}},
    ),
    "mistral": ("mistral", {"sliding_window": 6}),
    "qwen2": ("qwen2", {"tie_word_embeddings": True}),
    "qwen2_window": (
        "qwen2", {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
    ),
    "qwen3": ("qwen3", HEAD),
    "gemma": ("gemma", HEAD),
    "gemma2": (
        "gemma2",
        {
            **HEAD, "query_pre_attn_scalar": 32, "sliding_window": 6, "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 12.0,
        },
    ),
    "gemma3": (
        "gemma3_text",
        {
            **HEAD, "query_pre_attn_scalar": 24, "sliding_window": 6, "num_hidden_layers": 3,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "rope_theta": 500.0, "factor": 2.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            },
        },
    ),
    "phi3": ("phi3", {"sliding_window": 12}),
    "phi4": (
        "phi3",
        {
            "num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": True,
            "original_max_position_embeddings": 32,
            "rope_parameters": {
                "rope_type": "longrope", "rope_theta": 100.0, "partial_rotary_factor": 0.75,
                "original_max_position_embeddings": 32,
                "short_factor": [1.0, 1.1, 1.3, 1.6, 2.0, 2.5],
                "long_factor": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0],
            },
        },
    ),
    "olmo2": ("olmo2", {}),
    "granite": (
        "granite",
        {
            "embedding_multiplier": 3.0, "residual_multiplier": 0.4, "attention_multiplier": 0.2,
            "logits_scaling": 4.0,
        },
    ),
    "smollm3": ("smollm3", {"num_hidden_layers": 4}),
    "stablelm": (
        "stablelm",
        {
            "use_qkv_bias": True,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5,
            },
        },
    ),
    "stablelm_parallel": ("stablelm", {"use_parallel_residual": True}),
}  # fmt: skip
"""Model types and settings by the names of the checkpoints."""

HALF = ("llama_linear", "qwen2", "phi3", "granite")
"""Checkpoints with weights in float16; those of others are bfloat16."""

SHARDED = "qwen2"
"""Checkpoint of several files."""


def randomise(model: Any, generator: torch.Generator) -> None:
    """Give a model random weights, whose layers change the residual stream by a part of itself."""
    offset = 1.0 if model.config.model_type.startswith("gemma") else 0.0
    has_post_norms = any("post_feedforward" in name for name, _ in model.named_parameters())
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if name.endswith("bias"):
                weight.copy_(0.2 * noise)
            elif weight.dim() == 1:
                size = PART if has_post_norms and "post_" in name else 1.0
                weight.copy_(size * (1.0 + 0.3 * noise) - offset)
            elif "embed" in name:
                weight.copy_(noise * (weight.shape[1] ** -0.5 if offset else 1.0))
            else:
                size = PART if "o_proj" in name or "down_proj" in name else 1.0
                weight.copy_(size * noise / weight.shape[1] ** 0.5)


def top_1(model: Any, tokens: torch.Tensor) -> float:
    """Return the mean probability of the most likely token."""
    with torch.no_grad():
        return float(model(tokens).logits.softmax(-1).max(-1).values.mean())


def scale_logits(model: Any, tokens: torch.Tensor) -> None:
    """Scale the last normalisation to a mean probability of `TOP_1`."""
    norm = model.model.norm
    offset = 1.0 if model.config.model_type.startswith("gemma") else 0.0
    first = norm.weight.detach().clone()
    bias = norm.bias.detach().clone() if getattr(norm, "bias", None) is not None else None
    for factor in np.geomspace(0.05, 20.0, 300):
        with torch.no_grad():
            norm.weight.copy_((first + offset) * factor - offset)
            if bias is not None:
                norm.bias.copy_(bias * factor)
        if top_1(model, tokens) >= TOP_1:
            return


def make(name: str) -> None:
    """Write a checkpoint and its reference."""
    architecture, settings = CASES[name]
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(sum(name.encode()))
    config = transformers.AutoConfig.for_model(architecture, **{**SIZES, **settings})
    if architecture == "gemma2":
        config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    tokens = torch.randint(3, 64, (1, TOKENS), generator=generator)
    randomise(model, generator)
    scale_logits(model, tokens)
    model.to(torch.float16 if name in HALF else torch.bfloat16)
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, max_shard_size="20KB" if name == SHARDED else "1GB")
    (folder / "generation_config.json").unlink(missing_ok=True)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )
    with torch.no_grad():
        logits = loaded(tokens).logits[0].numpy()
    np.savez(folder / REFERENCE, tokens=tokens[0].numpy(), logits=logits.astype(np.float32))
    print(f"{name}: top-1 {top_1(loaded, tokens):.3f}")  # noqa: T201


def add_old_configuration(name: str) -> None:
    """Write the configuration of a checkpoint as transformers 4 does."""
    architecture, settings = CASES[name]
    given = {key: value for key, value in settings.items() if key != "rope_parameters"}
    rope = settings.get("rope_parameters", {})
    if "full_attention" in rope:
        given["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
    scaling = {key: value for key, value in rope.items() if key != "rope_theta"}
    if rope:
        given["rope_theta"] = rope["rope_theta"]
    if "partial_rotary_factor" in scaling:
        given["partial_rotary_factor"] = scaling.pop("partial_rotary_factor")
    if scaling.get("rope_type", "default") != "default":
        if architecture == "phi3":
            scaling = {"type": scaling["rope_type"], **scaling}
            del scaling["rope_type"], scaling["original_max_position_embeddings"]
        given["rope_scaling"] = scaling
    config = transformers.AutoConfig.for_model(architecture, **{**SIZES, **given})
    config.dtype = "float16" if name in HALF else "bfloat16"
    with tempfile.TemporaryDirectory() as directory:
        config.save_pretrained(directory)
        text = (Path(directory) / CONFIG).read_text(encoding="utf-8")
    document = {**json.loads(text), "architectures": json.loads(
        (FOLDER / name / CONFIG).read_text(encoding="utf-8")
    )["architectures"]}  # fmt: skip
    (FOLDER / name / OLD_CONFIG).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Write all checkpoints, or some."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[*CASES], metavar="NAME")
    parser.add_argument("--old", action="store_true", help="write configurations of version 4")
    given = parser.parse_args()
    for name in given.names:
        (add_old_configuration if given.old else make)(name)


if __name__ == "__main__":
    main()
