# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of SentencePiece: the tokens of the package itself, from files of both containers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from hwgen.cli import main
from hwgen.errors import InputError
from hwgen.models.files.sentencepiece import SentencePieceTokenizer
from hwgen.models.files.sentencepiece_file import sentencepiece_document
from hwgen.models.files.store import Model
from hwgen.models.files.tokenizer_json import tokenizer_document, tokenizer_of
from hwgen.models.import_model import import_model
from sim_tests.models.checkpoints import copied, imported
from sim_tests.models.model_files import Ggml, shapes
from sim_tests.models.test_model_compile import SMALL
from sim_tests.models.test_model_jobs import engine
from sim_tests.support.paths import ROOT

FOLDER = ROOT / "sim_tests" / "data" / "tokenizers"
NAMES = ("bpe", "unigram")
VOCABULARY = 420


def document(name: str, **changes: Any) -> dict[str, Any]:
    return {**sentencepiece_document(FOLDER / f"{name}.model", VOCABULARY), **changes}


def expected(name: str) -> list[dict[str, Any]]:
    """Return texts and the tokens that the package makes of them."""
    result: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return result


@pytest.mark.parametrize("name", NAMES)
def test_tokens_are_those_of_the_package(name: str) -> None:
    tokenizer = tokenizer_of(document(name, add_begin=False))
    for case in expected(name):
        assert tokenizer.encode(case["text"], special=False) == case["tokens"]
    with_begin = tokenizer_of(document(name))
    assert with_begin.encode("the", special=False)[0] == with_begin.begin == 1


def test_texts_come_back() -> None:
    tokenizer = tokenizer_of(document("bpe", add_begin=False))
    for case in expected("bpe"):
        if "\u2581" not in case["text"] and case["text"]:
            assert tokenizer.decode(case["tokens"]) == " " + case["text"]
    assert tokenizer.decode([9999]) == ""
    half = tokenizer.encode("\u4e16")[:2]
    assert tokenizer.decode(half) == " \ufffd"


def test_special_tokens_stand_for_themselves_and_bytes_are_preserved() -> None:
    tokenizer = tokenizer_of(document("bpe", add_begin=False))
    end = tokenizer.end
    assert tokenizer.encode("a</s>") == [*tokenizer.encode("a"), end]
    odd = b"a\xff\xfe".decode("utf-8", "surrogateescape")
    assert isinstance(tokenizer, SentencePieceTokenizer)
    assert tokenizer.decode_bytes(tokenizer.encode(odd)) == b" a\xff\xfe"
    without = document("unigram")
    del without["unknown"]
    with pytest.raises(InputError, match="no token for"):
        tokenizer_of(without).encode("\u4e16")


def test_documents_that_do_not_fit_are_refused() -> None:
    for changes, words in (
        ({"tokens": None}, "tokens must be a list"),
        ({"scores": [1.0]}, "scores must be 420 numbers"),
        ({"types": "x"}, "types must be 420 numbers"),
        ({"end": 420}, "end must be a token's number"),
        ({"normalises": True}, "normalises texts by a table of its own"),
    ):
        with pytest.raises(InputError, match=words):
            tokenizer_of(document("bpe", **changes))
    with pytest.raises(InputError, match="--prompt-tokens"):
        tokenizer_of(document("bpe", model="bert"))


def test_files_that_lie_are_refused(tmp_path: Path) -> None:
    data, path = (FOLDER / "bpe.model").read_bytes(), tmp_path / "tokenizer.model"
    for changed, words in (
        (data[:-3], "is no readable model"),
        (b"", "it has no pieces"),
        (b"\x0f", "a field of type 7"),
        (b"\x80" * 12, "more than 64 bits"),
        (b"\x0a\x02\x08\x01" + data, "a piece that is no text"),
        (data.replace(b"\x18\x02", b"\x18\x03", 1) + b"\x12\x02\x18\x03", "algorithm 3"),
    ):
        path.write_bytes(changed)
        with pytest.raises(InputError, match=words):
            sentencepiece_document(path, VOCABULARY)
    with pytest.raises(InputError, match=r"has 420 tokens, more than the model's 64"):
        sentencepiece_document(FOLDER / "bpe.model", 64)
    path.write_bytes(data + b"\x1a\x03\x12\x01x")  # a table of the normaliser
    assert sentencepiece_document(path, VOCABULARY)["normalises"]
    rng = np.random.default_rng(1)
    for _ in range(300):
        changed_data = bytearray(data)
        for at in rng.integers(0, len(data), 3):
            changed_data[at] = rng.integers(0, 256)
        path.write_bytes(changed_data)
        try:
            tokenizer_of(sentencepiece_document(path, VOCABULARY)).encode("the memory")
        except InputError:
            continue


def write_gguf(path: Path) -> None:
    """Write a small decoder with a vocabulary of SentencePiece."""
    rng, parts = np.random.default_rng(2), document("bpe")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(SMALL.layers)
    writer.add_context_length(64)
    writer.add_embedding_length(SMALL.width)
    writer.add_feed_forward_length(SMALL.hidden)
    writer.add_head_count(SMALL.heads)
    writer.add_head_count_kv(SMALL.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(parts["tokens"])
    writer.add_token_scores(parts["scores"])
    writer.add_token_types(parts["types"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    for name, shape in shapes(SMALL).items():
        rows = (VOCABULARY, *shape[1:]) if name == "token_embd.weight" else shape
        noise = rng.standard_normal(rows).astype(np.float32) * 0.1
        if len(shape) == 1:
            writer.add_tensor(name, 1 + noise)
        else:
            data = gguf.quants.quantize(noise, Ggml.Q8_0)
            writer.add_tensor(name, data, raw_dtype=Ggml.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_models_of_gguf_are_quantised_compiled_and_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, text = tmp_path / "small.gguf", tmp_path / "text.txt"
    write_gguf(source)
    text.write_text("the memory limits the cores " * 3, encoding="utf-8")
    (tmp_path / "engine.yaml").write_text(json.dumps(engine().resolved()), encoding="utf-8")
    model, made, jobs = (str(tmp_path / name) for name in ("model", "int8", "jobs"))
    assert main(["model", "import", str(source), "--output", model]) == 0
    read = tokenizer_of(Model(Path(model)).tokenizer())
    for case in expected("bpe"):
        assert read.encode(case["text"], special=False) == [1, *case["tokens"]]
    options = ["--calibration", str(text), "--evaluate", str(text)]
    assert main(["model", "quantise", model, "--output", made, *options]) == 0
    config = ["--config", str(tmp_path / "engine.yaml"), "--context", "16"]
    assert main(["model", "compile", made, *config, "--output", jobs]) == 0
    capsys.readouterr()
    assert main(["model", "run", jobs, "--prompt", "the memory", "--tokens", "2"]) == 0
    assert "the memory" in capsys.readouterr().out


def test_checkpoints_have_a_tokenizer_model(tmp_path: Path) -> None:
    source = copied("llama", tmp_path / "checkpoint")
    shutil.copy(FOLDER / "bpe.model", source / "tokenizer.model")
    with pytest.raises(InputError, match=r"tokenizer\.model: has 420 tokens, more than the model"):
        imported(source, tmp_path / "model")
    assert not (tmp_path / "model" / "model.json").exists()
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    settings = {"add_bos_token": False, "chat_template": "{{ x }}"}
    (source / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    grown = json.dumps({**config, "vocab_size": VOCABULARY})
    (source / "config.json").write_text(grown, encoding="utf-8")
    with pytest.raises(InputError, match=r"must be of shape \(420, 32\), not \(64, 32\)"):
        import_model(source, tmp_path / "model")
    tokenizer = tokenizer_of(tokenizer_document(source, VOCABULARY) or {})
    assert (tokenizer.begin, tokenizer.end, tokenizer.chat_template) == (None, 2, "{{ x }}")
    template = source / "chat_template.jinja"  # of transformers 5
    template.write_text("{{ y }}", encoding="utf-8")
    tokenizer = tokenizer_of(tokenizer_document(source, VOCABULARY) or {})
    assert tokenizer.chat_template == "{{ y }}"
    template.write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"chat_template\.jinja is not readable text"):
        tokenizer_document(source, VOCABULARY)
