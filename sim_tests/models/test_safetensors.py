# SPDX-License-Identifier: Apache-2.0
"""Import of safetensors: the same decoder as from GGUF, packed ternary weights, files that lie."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hwgen.errors import InputError
from hwgen.models.files.import_safetensors import unpacked
from hwgen.models.files.store import Model
from hwgen.models.import_model import import_model
from hwgen.models.run.engine import Run
from hwgen.models.run.float_engine import FloatEngine
from sim_tests.models.model_files import Ggml, Small, write_gguf

CONFIG = {
    "model_type": "qwen2", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 272,
    "max_position_embeddings": 64, "rms_norm_eps": float(np.float32(1e-5)),
    "tie_word_embeddings": True,
}  # fmt: skip
NAMES = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "attn_sub_norm": "self_attn.attn_sub_norm",
    "ffn_sub_norm": "mlp.ffn_sub_norm",
}  # fmt: skip


def write(directory: Path, tensors: dict[str, Any], config: dict[str, Any]) -> None:
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    types = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "uint8": "U8", "int64": "I64"}
    header, body = {}, b""
    for name, array in tensors.items():
        data = array.tobytes()
        header[name] = {
            "dtype": types[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [len(body), len(body) + len(data)],
        }
        body += data
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    data = len(text).to_bytes(8, "little") + text + body
    (directory / "model.safetensors").write_bytes(data)


def named(tensors: dict[str, Any]) -> dict[str, Any]:
    """Return tensors by the names that they have in safetensors."""
    result = {}
    for name, array in tensors.items():
        if name.startswith("blk."):
            _, layer, part, weight_type = name.split(".")
            result[f"model.layers.{layer}.{NAMES[part]}.{weight_type}"] = array
        else:
            own = {"token_embd.weight": "model.embed_tokens.weight"}
            result[own.get(name, "model.norm.weight")] = array
    return result


def imported(source: Path, directory: Path) -> Model:
    directory.mkdir()
    import_model(source, directory)
    return Model(directory)


def refused(source: Path, directory: Path) -> str:
    with pytest.raises(InputError) as caught:
        import_model(source, directory)
    return str(caught.value)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_decoder_is_that_of_its_gguf_file(dtype: Any, tmp_path: Path) -> None:
    small = Small(architecture="qwen2", weight_type=Ggml.F32, embedding=Ggml.F32, bias=True)
    tensors = write_gguf(tmp_path / "small.gguf", small)
    gguf = imported(tmp_path / "small.gguf", tmp_path / "gguf")
    given = {name: array.astype(dtype) for name, array in named(tensors).items()}
    write(tmp_path / "hf", given, CONFIG)
    result = imported(tmp_path / "hf", tmp_path / "model")
    assert result.description.nodes == gguf.description.nodes
    for name in gguf.description.tensors:
        wanted = gguf.numbers(name).astype(dtype).astype(np.float32)
        np.testing.assert_array_equal(result.numbers(name), wanted)


def test_attention_of_mistral_looks_back_so_far(tmp_path: Path) -> None:
    small = Small(weight_type=Ggml.F32, embedding=Ggml.F32)
    tensors = named(write_gguf(tmp_path / "small.gguf", small))
    for number, (weight_type, given, window) in enumerate(
        (("mistral", 5, 5), ("mistral", None, 0), ("qwen2", 5, 0))
    ):
        config = {**CONFIG, "model_type": weight_type, "sliding_window": given}
        write(tmp_path / "hf", tensors, config)
        model = imported(tmp_path / "hf", tmp_path / str(number))
        result = {
            node.attributes.get("window", 0)
            for node in model.description.nodes
            if node.operation == "attention"
        }
        assert result == {window}
    config = {"sliding_window": 5, "use_sliding_window": True, "max_window_layers": 1}
    write(tmp_path / "hf", tensors, {**CONFIG, **config})
    model = imported(tmp_path / "hf", tmp_path / "upper")
    attentions = [node for node in model.description.nodes if node.operation == "attention"]
    assert [node.attributes.get("window", 0) for node in attentions] == [0, 5]


def test_packed_ternary_weights_are_four_rows_a_byte(tmp_path: Path) -> None:
    small = Small(
        architecture="bitnet-25", weight_type=Ggml.F32, embedding=Ggml.F32, sub_norms=True
    )
    tensors = named(write_gguf(tmp_path / "small.gguf", small))
    rng = np.random.default_rng(1)
    wanted = {}
    for name, array in list(tensors.items()):
        if "_proj." not in name:
            continue
        values = rng.integers(-1, 2, array.shape).astype(np.int8)
        quarter = len(values) // 4
        codes = (values + 1).astype(np.uint8).reshape(4, quarter, -1)
        packed = codes[0] | codes[1] << 2 | codes[2] << 4 | codes[3] << 6
        np.testing.assert_array_equal(unpacked(packed), values)
        tensors[name] = packed
        tensors[f"{name}_scale"] = np.array([25.0], ml_dtypes.bfloat16)
        wanted[name] = values / np.float32(25)
    config = {**CONFIG, "model_type": "bitnet", "hidden_act": "relu2"}
    write(tmp_path / "hf", tensors, config)
    model = imported(tmp_path / "hf", tmp_path / "model")
    np.testing.assert_allclose(
        model.numbers("layers.1.down"), wanted["model.layers.1.mlp.down_proj.weight"], rtol=1e-6
    )
    assert model.description.tensors["layers.0.up"].bits == 2
    assert Run(FloatEngine(model)).feed([1, 2, 3]).shape == (1, 272)
    del tensors["model.layers.0.mlp.up_proj.weight_scale"]
    write(tmp_path / "hf", tensors, config)
    (tmp_path / "out").mkdir()
    assert "layers.0.up: packed weights need a weight_scale" in refused(
        tmp_path / "hf", tmp_path / "out"
    )


def test_what_is_not_supported_or_cannot_be_is_named(tmp_path: Path) -> None:
    small = Small(architecture="qwen2", weight_type=Ggml.F32, embedding=Ggml.F32)
    tensors = named(write_gguf(tmp_path / "small.gguf", small))
    source, out = tmp_path / "hf", tmp_path / "out"
    out.mkdir()
    write(source, {**tensors, "model.extra": tensors["model.norm.weight"]}, CONFIG)
    assert "model.extra: no operation takes this tensor" in refused(source, out)
    for change, text in (
        ({"model_type": "gpt9"}, "model_type: 'gpt9' is not supported"),
        ({"hidden_size": -1}, "hidden_size: must be 1..262144"),
        ({"rope_scaling": {"type": "yarn"}}, "factor: must be a positive number, not None"),
        ({"rope_scaling": {"type": "mrope"}}, "rope_type 'mrope': supported are default"),
        ({"num_key_value_heads": 3}, "do not share 3 heads of keys evenly"),
    ):
        write(source, tensors, {**CONFIG, **change})
        assert text in refused(source, out)
    bad = tensors["model.norm.weight"].copy()
    bad[7] = np.nan
    write(source, {**tensors, "model.norm.weight": bad}, CONFIG)
    assert "tensor 'model.norm.weight': element (7,) is nan" in refused(source, out)
    write(source, {**tensors, "model.norm.weight": np.zeros(64, np.int64)}, CONFIG)
    assert "the type I64 is not read" in refused(source, out)
    write(source, tensors, CONFIG)
    file = source / "model.safetensors"
    data = file.read_bytes()
    for changed, text in (
        (data[:4], "header too small"),
        (data[:-8], "file not fully covered"),
        (b"\xff" * 8 + data[8:], "header too large"),
        (data[:8] + b"[" + data[9:], "invalid JSON"),
        (data.replace(b'"shape": [64]', b'"shape": [-4]', 1), "integer `-4`"),
        (data.replace(b'"data_offsets": [0,', b'"data_offsets": [4,', 1), "invalid offset"),
    ):
        file.write_bytes(changed)
        message = refused(source, out)
        assert f"{file} is no readable safetensors file: " in message
        assert text in message
    file.unlink()
    assert "pickled weights" in refused(source, out)
    (source / "config.json").write_text("{")
    assert "not readable JSON" in refused(source, out)


def test_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    small = Small(architecture="qwen2", layers=1, weight_type=Ggml.F32, embedding=Ggml.F32)
    tensors = named(write_gguf(tmp_path / "small.gguf", small))
    source, out = tmp_path / "hf", tmp_path / "out"
    out.mkdir()
    write(source, tensors, {**CONFIG, "num_hidden_layers": 1})
    file = source / "model.safetensors"
    data, rng, refusals = file.read_bytes(), np.random.default_rng(5), 0
    header = 8 + int.from_bytes(data[:8], "little")
    for _ in range(60):
        changed = bytearray(data)
        for at in rng.integers(0, header, 2):
            changed[at] = int(rng.choice(np.frombuffer(b'0123456789,"[]{}\x00\xff', np.uint8)))
        file.write_bytes(bytes(changed))
        try:
            import_model(source, out)
        except InputError:
            refusals += 1
    assert refusals > 30


def test_a_layout_of_other_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--i2s-layout belongs to GGUF files"):
        import_model(tmp_path, tmp_path / "model", "x86")
