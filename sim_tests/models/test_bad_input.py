# SPDX-License-Identifier: Apache-2.0
"""Bad model files: exit status 2 within seconds, a message that names the cause, and no output."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from hwgen.cli import main
from sim_tests.models.checkpoints import FOLDER
from sim_tests.models.fuzz_tokenizers import campaign
from sim_tests.models.gguf_checkpoints import write_checkpoint
from sim_tests.onnx.onnx_files import encoder
from sim_tests.support.paths import ROOT
from sim_tests.support.selection import commit_seed
from sim_tests.tflite.lite_files import random_net

AUSTEN = ROOT / "configs" / "models" / "austen-16m.gguf"

Case = tuple[Callable[[Path], Path], str]
Tensors = dict[str, Any]


def refused(source: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the message of an import that must fail, and leave nothing."""
    before = sorted(path.name for path in out.parent.iterdir())
    start = time.monotonic()
    status = main(["model", "import", str(source), "--output", str(out)])
    assert status == 2
    assert time.monotonic() - start < 5
    assert sorted(path.name for path in out.parent.iterdir()) == before
    return capsys.readouterr().err


def checkpoint(change: Callable[[Path], None], name: str = "llama") -> Callable[[Path], Path]:
    """Return a maker of a checkpoint with a change."""

    def make(work: Path) -> Path:
        source = work / "checkpoint"
        shutil.copytree(FOLDER / name, source)
        change(source)
        return source

    return make


def settings(name: str = "llama", **changes: Any) -> Callable[[Path], Path]:
    """Return a maker of a checkpoint with another configuration."""

    def change(source: Path) -> None:
        file = source / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))

    return checkpoint(change, name)


def weights(change: Callable[[Tensors], None], shards: int = 1) -> Callable[[Path], Path]:
    """Return a maker of a checkpoint with other tensors, perhaps in several files with an index."""

    def apply(source: Path) -> None:
        file = source / "model.safetensors"
        tensors = {name: array.copy() for name, array in load_file(file).items()}
        change(tensors)
        names = sorted(tensors)
        if shards == 1:
            save_file(tensors, file)
            return
        file.unlink()
        places = {name: f"model-{i % shards + 1:05}-of-{shards:05}.safetensors"
                  for i, name in enumerate(names)}  # fmt: skip
        for place in sorted(set(places.values())):
            save_file({n: tensors[n] for n in names if places[n] == place}, source / place)
        index = {"metadata": {}, "weight_map": places}
        (source / "model.safetensors.index.json").write_text(json.dumps(index))

    return checkpoint(apply)


def sharded(change: Callable[[Path], None]) -> Callable[[Path], Path]:
    """Return a maker of a checkpoint of three files, changed behind that."""

    def make(work: Path) -> Path:
        source = weights(lambda tensors: None, 3)(work)
        change(source / "model-00002-of-00003.safetensors")
        return source

    return make


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def with_nan(tensors: Tensors) -> None:
    tensors["model.layers.1.mlp.up_proj.weight"].reshape(-1)[5] = np.nan


def gguf(change: Callable[[bytes], bytes]) -> Callable[[Path], Path]:
    """Return a maker of a changed GGUF file."""

    def make(work: Path) -> Path:
        path = work / "net.gguf"
        write_checkpoint(FOLDER / "llama", path)
        path.write_bytes(change(path.read_bytes()))
        return path

    return make


def onnx_with_nan(work: Path) -> Path:
    net = encoder(1, quantised=False)
    name = next(name for name, array in net.constants.items() if np.size(array) > 100)
    net.constants[name] = net.constants[name].copy()
    net.constants[name].reshape(-1)[3] = np.nan
    return net.write(work / "net.onnx")


def lite_cut(work: Path) -> Path:
    path = work / "net.tflite"
    path.write_bytes(random_net(3)[0][:-2000])
    return path


def tokenizer(source: Path) -> None:
    from tokenizers import Tokenizer, models

    vocabulary = {str(number): number for number in range(5000)}
    file = source / "tokenizer.json"
    file.write_text(Tokenizer(models.WordLevel(vocabulary, "0")).to_str())


def embedding(tensors: Tensors) -> None:
    tensors["model.embed_tokens.weight"] = tensors["model.embed_tokens.weight"][:-3]


CASES: dict[str, Case] = {
    "a cut shard": (sharded(cut), "model-00002-of-00003.safetensors is no readable safetensors"),
    "a missing shard": (sharded(Path.unlink), "model-00002-of-00003.safetensors missing: the"),
    "a cut file": (checkpoint(lambda path: cut(path / "model.safetensors")), "fetch it again"),
    "a missing tensor": (
        weights(lambda tensors: tensors.pop("model.layers.0.mlp.up_proj.weight")),
        "the tensor of layers.0.up is missing",
    ),
    "a tokenizer of another model": (checkpoint(tokenizer), "has 5000 tokens, more than the"),
    "an embedding of another model": (weights(embedding), "model.embed_tokens.weight: must be of"),
    "a rotation": (
        settings(rope_parameters={"rope_type": "mrope", "rope_theta": 1e4}),
        "rope_type 'mrope': supported are default, ",
    ),
    "an activation": (settings(hidden_act="mish"), "hidden_act 'mish': supported are silu, "),
    "a model type": (settings(model_type="gpt9"), "model_type: 'gpt9' is not supported"),
    "a NaN": (
        weights(with_nan), "'model.layers.1.mlp.up_proj.weight': element (0, 5) is nan",
    ),
    "a cut GGUF file": (gguf(lambda data: data[:-500]), "net.gguf"),
    "a type of GGUF": (
        gguf(lambda data: data.replace(b"\x05\x00\x00\x00\x00\x00\x00\x00llama",
                                       b"\x05\x00\x00\x00\x00\x00\x00\x00lamma")),
        "'lamma' is not supported",
    ),
    "a NaN in ONNX": (onnx_with_nan, "is nan; the file is damaged"),
    "a cut TensorFlow Lite file": (lite_cut, "it ends at"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_bad_file_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, expected = CASES[name]
    source = make(tmp_path)
    assert expected in refused(source, tmp_path / "out", capsys)


_LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
from hwgen.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="no such limit here")
def test_a_full_disk_is_named(tmp_path: Path) -> None:
    model, out = tmp_path / "model", tmp_path / "int8"
    assert main(["model", "import", str(AUSTEN), "--output", str(model)]) == 0
    command = ["model", "quantise", str(model), "--output", str(out), "--weights", "original"]
    command += ["--calibration", str(AUSTEN.with_name("emma.txt"))]
    limited = [sys.executable, "-c", _LIMITED, "500000", *command]
    result = subprocess.run(limited, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2
    assert f"{out} cannot be written: File too large" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_mutated_tokenizers_are_read_or_refused(tmp_path: Path) -> None:
    counts = campaign(tmp_path, 300, commit_seed())
    assert counts["refused"] > 100
    assert counts["used"] > 2


@pytest.mark.long
def test_many_mutated_tokenizers_are_read_or_refused(tmp_path: Path) -> None:
    assert sum(campaign(tmp_path, 5000, 2).values()) == 5000
