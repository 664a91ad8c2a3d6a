# SPDX-License-Identifier: Apache-2.0
"""Import of directories with `config.json` and safetensors: Llama and BitNet b1.58 decoders."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from hwgen.core.files.arrays import check_regular
from hwgen.errors import InputError, ToolMissing, did_you_mean
from hwgen.models.files.gguf_blocks import Groups
from hwgen.models.files.import_common import described, readable, refused
from hwgen.models.files.store import TOKENIZER, WEIGHTS, Writer, read_object, write_description
from hwgen.models.files.tokenizer_json import tokenizer_document
from hwgen.models.graph.decoder import DecoderShape, has_rope_rows, neighbours, weights_of
from hwgen.models.graph.description import Description, Source

_GATES = {"silu": "silu", "relu2": "relu2", "gelu": "gelu", "gelu_pytorch_tanh": "gelu_tanh"}
DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "U8": np.uint8}
"""Types of tensors that are read; ml_dtypes must be imported for bf16 to be a type of NumPy."""

MODEL_TYPES = ("llama", "mistral", "qwen2", "bitnet")
"""Kinds of decoders by ``model_type``."""

_NAMES = {
    "model.embed_tokens.weight": "embedding",
    "model.norm.weight": "output_norm",
    "lm_head.weight": "output",
}
_PARTS = {
    "input_layernorm": "attention_norm", "post_attention_layernorm": "feed_norm",
    "self_attn.attn_sub_norm": "attention_sub_norm", "mlp.ffn_sub_norm": "feed_sub_norm",
    "self_attn.q_proj": "query", "self_attn.k_proj": "key", "self_attn.v_proj": "value",
    "self_attn.o_proj": "attention_output", "mlp.gate_proj": "gate", "mlp.up_proj": "up",
    "mlp.down_proj": "down",
}  # fmt: skip
_LAYER = re.compile(r"model\.layers\.(0|[1-9][0-9]{0,5})\.(.+)\.(weight|bias|weight_scale)")


@dataclass(frozen=True)
class Stored:
    """A tensor of a file.

    Parameters
    ----------
    path : Path
    name, dtype : str
        As the file has them.
    shape : tuple of int
    file : safe_open
        The open file, mapped into memory.
    """

    path: Path
    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Any

    def array(self) -> NDArray[Any]:
        """Return the numbers, of a type of `DTYPES`."""
        array: NDArray[Any] = self.file.get_tensor(self.name)
        return array

    def __str__(self) -> str:
        return f"{self.path}: tensor {self.name[:80]!r}"


def read_safetensors(path: Path) -> dict[str, Stored]:
    """Return the tensors of a file by name.

    Raises
    ------
    InputError
        If the file is none, is truncated, or its header is wrong.
    ToolMissing
        If the package is not installed.
    """
    try:
        from safetensors import safe_open  # an optional dependency
    except ImportError:
        raise ToolMissing(
            f"{path}: needs the Python package safetensors: pip install 'hwgen[models]'"
        ) from None
    check_regular(path, "models")
    try:
        file: Any = safe_open(path, framework="numpy")
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # the package's own panics are no Exception
        text = str(error).removeprefix("Error while deserializing header: ")
        raise InputError(f"{path} is no readable safetensors file: {text[:200]}") from None
    return {
        name: Stored(path, name, each.get_dtype(), tuple(each.get_shape()), file)
        for name, each in slices.items()
    }


def import_safetensors(path: Path, directory: Path) -> Description:
    """Write a model that a directory of safetensors holds into another directory.

    Parameters
    ----------
    path : Path
        With `config.json` and one or more files of safetensors.
    directory : Path
        Where the model's files are written.

    Raises
    ------
    InputError
        If a file cannot be read, or something is not supported: then all of that is listed.
    """
    config = _Config(path / "config.json")
    shape = config.shape()
    tokenizer = tokenizer_document(path, shape.vocabulary)
    stored: dict[str, Stored] = {}
    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise InputError(
            f"{path} has no *.safetensors; pickled weights (*.bin, *.pt) are not read: convert them"
        )
    for file in files:
        for name, tensor in read_safetensors(file).items():
            if name in stored:
                raise InputError(f"{file}: tensor {name[:80]!r} is in {stored[name].path}, too")
            stored[name] = tensor
    result, scales = _assigned(path, stored, shape)
    if config.values.get("tie_word_embeddings") is True:
        result.pop("output", None)
    with (directory / WEIGHTS).open("wb") as out:
        writer = Writer(out)
        for name, tensor in result.items():
            _write(writer, name, tensor, shape, scales.get(name))
    kind = str(config.values["model_type"])
    source = Source(format="safetensors", file=files[0].name, architecture=kind)
    description = described(shape, writer.tensors, readable(path.resolve().name), source)
    write_description(directory, description)
    if tokenizer is not None:
        text = json.dumps(tokenizer)
        (directory / TOKENIZER).write_text(text + "\n", encoding="utf-8")
    return description


class _Config:
    """`config.json`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values: Mapping[str, Any] = read_object(path)

    def integer(self, key: str, default: int | None = None, most: int = 1 << 24) -> int:
        value = self.values.get(key)
        value = default if value is None else value
        if type(value) is not int or not 1 <= value <= most:
            raise InputError(f"{self.path}: {key}: must be 1..{most}, not {value!r:.40}")
        return value

    def real(self, key: str, default: float | None = None) -> float:
        value = self.values.get(key, default)
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise InputError(f"{self.path}: {key}: must be a positive number, not {value!r:.40}")
        return float(value)

    def _windows(self) -> bool:
        """Return whether attention looks back so many positions only."""
        by_default = self.values.get("model_type") == "mistral"
        wanted = bool(self.values.get("use_sliding_window", by_default))
        return wanted and self.values.get("sliding_window") is not None

    def shape(self) -> DecoderShape:
        """Return the decoder's sizes."""
        kind = self.values.get("model_type")
        if kind not in MODEL_TYPES:
            raise InputError(
                f"{self.path}: model_type: {kind!r:.60} is not supported"
                f"{did_you_mean(str(kind), MODEL_TYPES)}; supported are {', '.join(MODEL_TYPES)}"
            )
        width, heads = (
            self.integer("hidden_size", most=1 << 18),
            self.integer("num_attention_heads", most=1 << 12),
        )
        act = self.values.get("hidden_act", "silu")
        shape = DecoderShape(
            layers=self.integer("num_hidden_layers", most=1 << 12),
            width=width,
            hidden=self.integer("intermediate_size", most=1 << 20),
            heads=heads,
            kv_heads=self.integer("num_key_value_heads", heads, most=1 << 12),
            elements=self.integer("head_dim", max(1, width // heads), most=1 << 14),
            vocabulary=self.integer("vocab_size"),
            context=self.integer("max_position_embeddings", most=1 << 30),
            epsilon=self.real("rms_norm_eps"),
            base=self.real("rope_theta", 10000.0),
            gate=_GATES.get(act, "silu") if isinstance(act, str) else "silu",
            pairs="halves",
            sub_norms=kind == "bitnet",
            window=self.integer("sliding_window", most=1 << 30) if self._windows() else 0,
        )
        problems = shape.problems()
        if act not in _GATES:
            problems.append(f"hidden_act {act!r:.40}: supported are {', '.join(_GATES)}")
        for key in ("rope_scaling", "rope_parameters"):
            if self.values.get(key):
                problems.append(f"{key}: scaled rotations are not supported; use a GGUF file")
        if self._windows() and kind != "mistral":
            problems.append("sliding_window is supported of mistral, where all layers have it")
        if problems:
            raise refused(self.path, problems)
        return shape


def _canonical(name: str) -> tuple[str, bool]:
    """Return hwgen's name of a tensor, empty if there is none, and whether it is its scale."""
    if name in _NAMES:
        return _NAMES[name], False
    match = _LAYER.fullmatch(name)
    if match is None or match[2] not in _PARTS:
        return "", False
    bias = ".bias" if match[3] == "bias" else ""
    return f"layers.{match[1]}.{_PARTS[match[2]]}{bias}", match[3] == "weight_scale"


def _assigned(
    path: Path, stored: Mapping[str, Stored], shape: DecoderShape
) -> tuple[dict[str, Stored], dict[str, Stored]]:
    """Return tensors, and scales of packed ones, by hwgen's names."""
    expected = weights_of(shape)
    result: dict[str, Stored] = {}
    scales: dict[str, Stored] = {}
    problems = []
    for name, tensor in stored.items():
        own, is_scale = _canonical(name)
        if name.endswith("rotary_emb.inv_freq"):
            continue
        if own not in expected:
            problems.append(f"{name[:80]}: no operation takes this tensor")
            continue
        (scales if is_scale else result)[own] = tensor
        wanted = expected[own][0]
        packed = tensor.dtype == "U8" and len(wanted) == 2
        if packed:
            wanted = (-(-wanted[0] // 4), wanted[1])
        if tensor.dtype not in DTYPES or (tensor.dtype == "U8" and not packed):
            problems.append(
                f"{name[:80]}: its type {tensor.dtype} is not read; supported are F32, F16, BF16,"
                " and U8 of packed ternary weights"
            )
        elif is_scale and math.prod(tensor.shape) != 1:
            problems.append(f"{name[:80]}: must be one number, not {tensor.shape}")
        elif not is_scale and tensor.shape != wanted:
            problems.append(f"{name[:80]}: must be of shape {wanted}, not {tensor.shape}")
        elif packed and expected[own][0][0] % 4:
            problems.append(f"{name[:80]}: {expected[own][0][0]} rows cannot be packed by four")
    for own, (_, needed) in expected.items():
        if needed and own not in result:
            problems.append(f"the tensor of {own} is missing")
        elif own in result and result[own].dtype == "U8" and own not in scales:
            problems.append(f"{own}: packed weights need a weight_scale")
    if problems:
        raise refused(path, problems)
    return {own: result[own] for own in expected if own in result}, scales


def _write(
    writer: Writer, name: str, tensor: Stored, shape: DecoderShape, scale: Stored | None
) -> None:
    """Write a tensor, rows of heads in the order in which neighbours are turned."""
    array = tensor.array()
    if tensor.dtype == "U8":
        array = unpacked(array)
        if array.max() > 1:
            raise InputError(f"{tensor}: has the code 3, which is no ternary weight")
    if has_rope_rows(name):
        array = array[neighbours(len(array), shape.elements)]
    if tensor.dtype == "U8":
        assert scale is not None
        divisor = scale.array().astype(np.float32).reshape(1, 1)
        if not np.isfinite(divisor).all() or divisor[0, 0] == 0:
            raise InputError(f"{scale}: must be a number that is not zero, not {divisor[0, 0]}")
        writer.groups(name, [Groups(array, np.float32(1) / divisor)], array.shape, "U8 x 4", 2)
        return
    finite = np.isfinite(array.astype(np.float32))
    if not finite.all():
        place = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise InputError(f"{tensor}: element {place} is {array[place]}")
    writer.numbers(name, [array], array.shape, tensor.dtype)


def unpacked(data: Any) -> Any:
    """Return ternary weights of four rows a byte.

    Parameters
    ----------
    data : ndarray of uint8, shape (rows / 4, k)
        Row r, r + rows / 4, ... in bits 0, 2, 4 and 6, each one more than its value.

    Returns
    -------
    ndarray of int8, shape (rows, k)
    """
    parts = [(data >> shift & 3).astype(np.int8) - np.int8(1) for shift in (0, 2, 4, 6)]
    return np.concatenate(parts)
