# SPDX-License-Identifier: Apache-2.0
"""Running models: tokenizers, the reference in single precision."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwgen.cli import main
from hwgen.errors import InputError
from hwgen.models.files.store import Model
from hwgen.models.files.tokenizer import Tokenizer, alphabet, words
from hwgen.models.import_model import import_model
from hwgen.models.run.engine import Run, generate
from hwgen.models.run.float_engine import FloatEngine, gate
from hwgen.models.run.sampling import Sampling
from sim_tests.models.model_files import Ggml, Small, byte_tokens, write_gguf

SENTENCE = "It's 12345 a's 'RE Été\n\n  x=y_1; "


def tokenizer(**changes: Any) -> Tokenizer:
    merges = ["Ġ t", "h e", "Ġt he", "i n", "Ġ Ġ"]
    tokens = ["<|end|>", "<|a|>", *byte_tokens(), *("".join(m.split()) for m in merges)]
    document = {"model": "gpt2", "pre": "smollm", "tokens": tokens, "merges": merges,
                "types": [3, 4] + [1] * (len(tokens) - 2), "end": 0}  # fmt: skip
    return Tokenizer({**document, **changes})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return made(tmp_path_factory.mktemp("model"), Small())


def made(directory: Path, small: Small) -> Model:
    write_gguf(directory / "small.gguf", small)
    (directory / "model").mkdir()
    import_model(directory / "small.gguf", directory / "model")
    return Model(directory / "model")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpt-2", "It|'s| 12345| a|'s| '|RE| Été|\n\n | x|=|y|_|1|;| "),
        ("smollm", "It|'s| |1|2|3|4|5| a|'s| '|RE| Été|\n\n | x|=|y|_|1|;| "),
        ("llama-bpe", "It|'s| |123|45| a|'s| '|RE| Été|\n\n| | x|=y|_|1|;| "),
        ("qwen2", "It|'s| |1|2|3|4|5| a|'s| '|RE| Été|\n\n| | x|=y|_|1|;| "),
    ],
)
def test_words_are_those_of_the_kind(name: str, expected: str) -> None:
    assert words(SENTENCE, name) == expected.split("|")


def test_pairs_are_merged_in_order_and_special_tokens_stand_for_themselves() -> None:
    result = tokenizer()
    names = [result.tokens[n] for n in result.encode("in the<|a|>  hen")]
    assert names == ["in", "Ġthe", "<|a|>", "Ġ", "Ġ", "he", "n"]
    assert result.encode("<|a|>", special=False) != [1]
    assert result.decode(result.encode(SENTENCE)) == SENTENCE
    assert result.decode([1, 0]) == "<|a|><|end|>"


@pytest.mark.parametrize(
    "text", ["日本語 👍🏽 e\u0301\u00a0x", "\udcff", "\x00\x7f" * 5, "a" * 5000, " " * 3000, ""]
)
def test_any_text_is_written_and_read_back(text: str) -> None:
    result = tokenizer()
    expected = text.encode("utf-8", "surrogateescape")
    assert result.decode_bytes(result.encode(text)) == expected


def test_what_a_tokenizer_cannot_be_is_refused() -> None:
    for changes, text in (
        ({"model": "llama"}, "is not supported"),
        ({"pre": "tekken"}, "supported are gpt-2"),
        ({"tokens": 5}, "tokens must be a list"),
        ({"end": 10**6}, "end must be a token"),
        ({"merges": [1]}, "merges must be a list"),
    ):
        with pytest.raises(InputError, match=text):
            tokenizer(**changes)
    few = Tokenizer({"model": "gpt2", "tokens": ["a"], "merges": []})
    with pytest.raises(InputError, match="no token for the byte 98"):
        few.encode("ab")
    assert len(set(alphabet())) == 256


def plainly(model: Model, tokens: list[int]) -> Any:
    """Return the logits of all tokens in double precision, head by head, without a cache."""
    weights = {name: model.numbers(name).astype(np.float64) for name in model.description.tensors}
    values: dict[str, Any] = {"tokens": np.array(tokens)}
    for node in model.description.nodes:
        given: dict[str, Any] = {o: values.get(n, weights.get(n)) for o, n in node.inputs.items()}
        of: dict[str, Any] = node.attributes
        match node.operation:
            case "embed":
                result = given["table"][given["x"]]
            case "rms_norm":
                x = given["x"]
                root = np.sqrt((x**2).mean(1) + of["epsilon"])
                result = x / root[:, None] * given["gamma"]
            case "gemm":
                result = given["x"] @ given["weights"].T + given.get("bias", 0)
            case "rope":
                result = rotate_pairs(given["x"], of["elements"], of["base"])
            case "attention":
                result = attended(given["query"], given["key"], given["value"], of)
            case "gated":
                result = gate(of["gate"], given["x"]).astype(np.float64) * given["y"]
            case "add":
                result = given["x"] + given["y"]
        values[node.output] = result
    return values["logits:0"]


def rotate_pairs(x: Any, elements: int, base: float) -> Any:
    result = x.copy()
    for row in range(len(x)):
        for at in range(0, x.shape[1], 2):
            angle = row * base ** (-(at % elements) / elements)
            c, s = np.cos(angle), np.sin(angle)
            u, w = x[row, at : at + 2]
            result[row, at : at + 2] = u * c - w * s, w * c + u * s
    return result


def attended(query: Any, key: Any, value: Any, of: Any) -> Any:
    size, group = of["elements"], of["heads"] // of["kv_heads"]
    result = np.zeros_like(query)
    for row in range(len(query)):
        for head in range(of["heads"]):
            own = slice(head * size, (head + 1) * size)
            shared = slice(head // group * size, (head // group + 1) * size)
            scores = key[: row + 1, shared] @ query[row, own] / np.sqrt(size)
            weights = np.exp(scores - scores.max())
            result[row, own] = weights @ value[: row + 1, shared] / weights.sum()
    return result


@pytest.mark.parametrize("small", [
    Small(), replace(Small(), architecture="qwen2", bias=True, tied=False),
    replace(Small(), architecture="bitnet-25", weight_type=Ggml.Q8_0, sub_norms=True, kv_heads=1),
])  # fmt: skip
def test_the_reference_is_what_formulas_give(small: Small, tmp_path: Path) -> None:
    one = made(tmp_path, small)
    tokens = [5, 9, 200, 31, 31, 7, 0, 77]
    result = Run(FloatEngine(one)).feed(tokens, every=True)
    np.testing.assert_allclose(result, plainly(one, tokens), rtol=1e-3, atol=1e-4)


def test_tokens_one_by_one_give_what_all_at_once_do(model: Model) -> None:
    tokens = [int(token) for token in np.random.default_rng(0).integers(0, 272, 30)]
    once = Run(FloatEngine(model)).feed(tokens, every=True)
    run = Run(FloatEngine(model))
    parts = [run.feed(tokens[:3]), run.feed(tokens[3:10]), *(run.feed([t]) for t in tokens[10:])]
    rows = [2, 9, *range(10, 30)]
    np.testing.assert_allclose(np.concatenate(parts), once[rows], rtol=1e-3, atol=1e-4)


def test_generation_ends_at_the_context_the_count_or_the_end(model: Model) -> None:
    engine = FloatEngine(model)
    result = list(generate(Run(engine), [1, 2, 3], 5, None))
    assert len(result) == 5
    assert (
        list(generate(Run(engine), [1, 2, 3], 5, result[2]))
        == result[: result.index(result[2]) + 1]
    )
    assert len(list(generate(Run(engine), [1, 2, 3], 62, None))) == 62  # the last is not fed
    for prompt, count in (([1, 2, 3], 63), ([], 1), ([272], 1), ([-1], 1)):
        with pytest.raises(InputError):
            list(generate(Run(engine), prompt, count, None))


def test_the_command_continues_a_text_or_tokens(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["model", "run", str(model.path), "--tokens", "4"]
    assert main([*arguments, "--prompt", "the in", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert len(result["tokens"]) <= 4
    file = tmp_path / "tokens.npy"
    np.save(file, np.array(result["prompt_tokens"]))
    assert main([*arguments, "--prompt-tokens", str(file)]) == 0
    assert capsys.readouterr().out.split() == [str(token) for token in result["tokens"]]
    np.save(file, np.zeros((2, 2)))
    assert main([*arguments, "--prompt-tokens", str(file)]) == 2
    assert main([*arguments, "--prompt", ""]) == 2
    assert main([*arguments]) == 2
    assert main(["model", "run", str(tmp_path), "--prompt", "a"]) == 2


def test_drawn_tokens_follow_their_probabilities() -> None:
    logits = np.log(np.array([0.1, 0.6, 0.0001, 0.3], np.float32))
    draw = Sampling(temperature=1.0, seed=3)
    shares = np.bincount([draw(logits) for _ in range(4000)], minlength=4) / 4000
    np.testing.assert_allclose(shares, [0.1, 0.6, 0, 0.3], atol=0.03)
    among = Sampling(temperature=2.0, top_k=2)
    assert {among(logits) for _ in range(100)} == {1, 3}
    assert {Sampling(temperature=1.0, top_k=1, seed=n)(logits) for n in range(9)} == {1}
    assert Sampling()(logits) == 1
    # Without overflow where all but one probability are nothing.
    assert Sampling(temperature=1e-3)(np.array([1e30, -1e30], np.float32)) == 0


def test_the_command_draws_by_a_seed(model: Model, capsys: pytest.CaptureFixture[str]) -> None:
    def tokens(*options: str) -> Any:
        run = ["model", "run", str(model.path), "--prompt", "in the", "--tokens", "6", "--json"]
        assert main([*run, *options]) == 0
        return json.loads(capsys.readouterr().out)["tokens"]

    drawn = ("--temperature", "5", "--seed", "1")
    assert tokens(*drawn) == tokens(*drawn) != tokens("--temperature", "5", "--seed", "2")
    assert tokens("--temperature", "5", "--top-k", "1") == tokens()
    run = ["model", "run", str(model.path), "--prompt", "in the"]
    assert main([*run, "--top-k", "3"]) == 2
    assert main([*run, "--temperature", "nan"]) == 2
    assert main([*run, "--temperature", "-1"]) == 2
