# SPDX-License-Identifier: Apache-2.0
"""Tokenizers beside safetensors: what the package gives, and files that it cannot read."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors

from hwgen.cli import main
from hwgen.errors import InputError, ToolMissing
from hwgen.models.files.tokenizer import Tokenizer
from hwgen.models.files.tokenizer_json import JsonTokenizer, tokenizer_document, tokenizer_of
from sim_tests.models.model_files import Ggml, Small, byte_tokens, write_gguf
from sim_tests.models.test_safetensors import CONFIG, imported, named, write

TEXT = "The cat, 42 mats – and ünïcode\n"
BEGIN, END = 257, 258


def by_bytes() -> Any:
    """Return a tokenizer of bytes that begins every text."""
    vocabulary = {token: number for number, token in enumerate([*byte_tokens(), "th"])}
    result = tokenizers.Tokenizer(models.BPE(vocabulary, [("t", "h")], fuse_unk=False))
    result.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    result.decoder = decoders.ByteLevel()
    result.add_special_tokens(["<s>", "</s>"])
    result.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", BEGIN)])
    return result


def by_pieces() -> Any:
    """Return a tokenizer whose words begin with a blank that decoders leave out in front."""
    pieces = [("<unk>", -9.0), *((f"\u2581{word}", -1.0) for word in ("the", "cat", "sat"))]
    result = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=False))
    result.pre_tokenizer = pre_tokenizers.Metaspace()
    result.decoder = decoders.Metaspace()
    return result


def document(tokenizer: Any, **more: Any) -> dict[str, Any]:
    return {"model": "tokenizers", "json": json.loads(tokenizer.to_str()), **more}


def test_tokens_are_those_of_the_package() -> None:
    theirs = by_bytes()
    ours = tokenizer_of(document(theirs, end=END))
    assert isinstance(ours, JsonTokenizer)
    assert ours.encode(TEXT) == theirs.encode(TEXT).ids
    assert ours.encode(TEXT)[0] == BEGIN
    assert ours.decode(ours.encode(TEXT)[1:]) == TEXT
    assert ours.end == END
    assert ours.encode("</s>")[-1] == END
    assert END not in ours.encode("</s>", special=False)
    assert ours.encode("\udcff") == ours.encode("\ufffd")
    assert isinstance(tokenizer_of({"model": "gpt2", "tokens": ["a"], "merges": []}), Tokenizer)


def test_what_follows_keeps_its_blank() -> None:
    ours = JsonTokenizer(document(by_pieces()))
    tokens = ours.encode("the cat sat")
    assert ours.decode(tokens[1:]) == " cat sat"
    assert ours.decode([]) == ""


def directory(path: Path, tokenizer: Any) -> Path:
    small = Small(architecture="qwen2", weight_type=Ggml.F32, embedding=Ggml.F32)
    write(
        path / "hf",
        named(write_gguf(path / "small.gguf", small)),
        {**CONFIG, "eos_token_id": [END]},
    )
    if tokenizer is not None:
        (path / "hf" / "tokenizer.json").write_text(tokenizer.to_str())
    return path / "hf"


def test_a_model_from_safetensors_takes_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = imported(directory(tmp_path, by_bytes()), tmp_path / "model")
    assert model.tokenizer()["end"] == END
    run = ["model", "run", str(model.path), "--prompt", "the"]
    assert main([*run, "--tokens", "2", "--json"]) == 0
    ran = json.loads(capsys.readouterr().out)
    assert ran["prompt_tokens"] == by_bytes().encode("the").ids
    assert len(ran["tokens"]) <= 2
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ToolMissing, match=r"pip install 'hwgen\[models\]'"):
        tokenizer_of(model.tokenizer())
    assert main(run) == 3
    assert tokenizer_document(tmp_path / "hf", 272) is not None


def test_files_that_are_no_tokenizers(tmp_path: Path) -> None:
    source = directory(tmp_path, None)
    assert tokenizer_document(source, 272) is None
    file = source / "tokenizer.json"
    text = by_bytes().to_str()
    for wrong, message in (
        ("[]", "must be an object"),
        ("{", "not readable JSON"),
        ("{}", "tokenizer:"),
        (text.replace('"BPE"', '"XYZ"'), "tokenizer:"),
    ):
        file.write_text(wrong)
        with pytest.raises(InputError, match=message):
            tokenizer_document(source, 272)
    file.write_text(text)
    with pytest.raises(InputError, match="has 259 tokens, more than the model's 258"):
        tokenizer_document(source, 258)
    with pytest.raises(InputError, match="end must be a token's number"):
        JsonTokenizer(document(by_bytes(), end="x"))
    rng = np.random.default_rng(5)
    data = bytearray(text.encode())
    for _ in range(150):  # each is read, or refused
        mutated = bytearray(data)
        for place in rng.integers(0, len(data), 3):
            mutated[place] = int(rng.integers(32, 127))
        file.write_bytes(mutated)
        try:
            tokenizer_document(source, 1 << 20)
        except InputError:
            continue
