# SPDX-License-Identifier: Apache-2.0
"""Fuzzing of tokenizers: mutated files are read or refused, and what is read encodes and decodes.

``python -m sim_tests.models.fuzz_tokenizers --files 5000`` runs a campaign; the tests run a part.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from hwgen.errors import InputError
from hwgen.models.files.tokenizer_json import tokenizer_document, tokenizer_of
from sim_tests.models.fuzz_checkpoints import mutated_json
from sim_tests.models.fuzz_models import main, mutate, run_campaign
from sim_tests.support.paths import ROOT

FOLDER = ROOT / "sim_tests" / "data" / "tokenizers"
TEXT = "The quick brown fox, 12 of them: <s>é\u3042 \n\t</s> jumps."
_VOCABULARY = 1 << 12


def seeds() -> list[tuple[str, bytes]]:
    """Return the name that a file must have, and contents to mutate."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    result = []
    for path in sorted(FOLDER.iterdir()):
        if path.suffix == ".model":
            result.append(("tokenizer.model", path.read_bytes()))
    words = [TEXT, "lower lowest newer newest wider widest"] * 3
    for model, trainer in (
        (
            models.BPE(),
            trainers.BpeTrainer(
                vocab_size=300, special_tokens=["<s>", "</s>"], show_progress=False
            ),
        ),
        (
            models.Unigram(),
            trainers.UnigramTrainer(vocab_size=80, special_tokens=["<s>"], show_progress=False),
        ),
        (
            models.WordPiece(),
            trainers.WordPieceTrainer(
                vocab_size=120, special_tokens=["[UNK]"], show_progress=False
            ),
        ),
    ):
        tokenizer = Tokenizer(model)
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.train_from_iterator(words, trainer)
        result.append(("tokenizer.json", tokenizer.to_str().encode()))
    return result


def change(name: str, data: bytes, rng: np.random.Generator) -> bytes:
    """Return a file with a few things changed; half of those of JSON stay JSON."""
    if name.endswith(".json") and rng.random() < 0.6:
        return json.dumps(mutated_json(json.loads(data), rng)).encode()
    return mutate(data, rng, len(data))


def attempt(directory: Path) -> str:
    """Read a tokenizer, use it, and return how that ended."""
    try:
        document = tokenizer_document(directory, _VOCABULARY)
        assert document is not None
        tokenizer = tokenizer_of(json.loads(json.dumps(document)))
    except InputError:
        return "refused"
    try:
        tokens = tokenizer.encode(TEXT)
        tokenizer.decode(tokens)
        tokenizer.decode([*range(0, 64, 7), 1 << 20])
    except InputError:
        return "refused when used"
    return "used"


def campaign(directory: Path, files: int, seed: int) -> Counter[str]:
    """Read mutated tokenizers and return how many were used and how many refused."""
    originals = seeds()
    (directory / "config.json").write_text("{}", encoding="utf-8")

    def prepare(number: int, rng: np.random.Generator) -> Path:
        name, data = originals[number % len(originals)]
        path = directory / name
        path.write_bytes(change(name, data, rng))
        return path

    return run_campaign(files, seed, prepare, lambda path: attempt(path.parent))


if __name__ == "__main__":
    sys.exit(main(campaign, __doc__))
