# SPDX-License-Identifier: Apache-2.0
"""Small tokenizers that the Python package sentencepiece trains, with the tokens that it makes.

``python sim_tests/models/make_tokenizers.py`` writes `sim_tests/data/tokenizers`, in an
environment with that package, which the tests do not need.
"""

from __future__ import annotations

import json
from pathlib import Path

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "sim_tests" / "data" / "tokenizers"
SOURCE = ROOT / "configs" / "models" / "texts" / "roofline.txt"
CASES = {
    "bpe": {"model_type": "bpe", "byte_fallback": True, "remove_extra_whitespaces": False,
            "split_digits": True, "allow_whitespace_only_pieces": True},
    "unigram": {"model_type": "unigram", "byte_fallback": False},
}  # fmt: skip
TEXTS = (
    "", " ", "the", "The memory limits the cores.", "  two  blanks, and three   more ",
    "tokens/s 1234 3.14", "na\u00efve caf\u00e9 \u4e16\u754c \U0001f600",
    "line\nnext\t<sep>tab<sep><sep>",
    "<s>not special</s>", "memorymemory" * 20, "\u2581already",
)  # fmt: skip


def forget_paths(path: Path) -> None:
    """Remove the paths of this machine that a trained model has."""
    model = sentencepiece_model_pb2.ModelProto.FromString(path.read_bytes())
    model.trainer_spec.ClearField("input")
    model.trainer_spec.ClearField("model_prefix")
    path.write_bytes(model.SerializeToString())


def main() -> None:
    """Write the tokenizers."""
    FOLDER.mkdir(exist_ok=True)
    for name, settings in CASES.items():
        sentencepiece.SentencePieceTrainer.train(
            **{
                "input": str(SOURCE), "model_prefix": str(FOLDER / name), "vocab_size": 420,
                "character_coverage": 0.999, "normalization_rule_name": "identity",
                "user_defined_symbols": ["<sep>"], "minloglevel": 2, "num_threads": 1, **settings,
            }
        )  # fmt: skip
        (FOLDER / f"{name}.vocab").unlink()
        forget_paths(FOLDER / f"{name}.model")
        by = sentencepiece.SentencePieceProcessor(model_file=str(FOLDER / f"{name}.model"))
        expected = [{"text": text, "tokens": by.encode(text)} for text in TEXTS]
        path = FOLDER / f"{name}.json"
        path.write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
