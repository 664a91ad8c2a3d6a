# SPDX-License-Identifier: Apache-2.0
"""Training of the ternary language model, small: text, steps, file, what hwgen reads of it."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from configs.models.training import export, text
from hwgen.errors import InputError
from hwgen.models.files.store import TOKENIZER, Model
from hwgen.models.files.tokenizer import Tokenizer
from hwgen.models.import_model import import_model
from hwgen.models.run.engine import Run
from hwgen.models.run.float_engine import FloatEngine
from sim_tests.support.paths import ROOT

SHIPPED = ROOT / "configs" / "models" / "austen-16m.gguf"
SHAPE = {
    "vocabulary": 288, "width": 256, "layers": 1, "heads": 4, "kv_heads": 2, "hidden": 256,
    "context": 32, "rope_base": 100.0,
}  # fmt: skip
LOGITS = """
import json, sys, jax, jax.numpy as jnp, numpy as np
from configs.models.training.network import Shape, logits
directory, shape, output = sys.argv[1], Shape(**json.loads(sys.argv[2])), sys.argv[3]
a = np.load(f"{directory}/weights.npz")
parts = (*shape.products(), *shape.norms())
layers = {n: a[f"layers.{n}.0"][None] * a.get(f"layers.{n}.0.scale", 1.0) for n in parts}
weights = {"embedding": a["embedding"], "norm": a["norm"], "layers": layers,
           "output": a["output"] * a["output.scale"]}
tokens = np.load(f"{directory}/held.npy")[None, :24].astype(int)
found = logits(jax.tree.map(jnp.asarray, weights), tokens, shape, exact=True,
               key=jax.random.key(0), dropout=0.0)
np.save(output, np.asarray(found[0]))
"""
SENTENCES = [
    f"{who} sees the {what}."
    for who in ("Anne", "Jane", "Emma")
    for what in ("rose", "house", "letter", "garden", "carriage")
]


def apart(*arguments: str, status: int = 0) -> str:
    """Run Python in a process of its own: JAX has threads; return what it says on stderr."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == status, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with tokens, weights and the file made of them."""
    directory = tmp_path_factory.mktemp("trained")
    rng = np.random.default_rng(1)
    words = "\n\n".join(" ".join(rng.permutation(SENTENCES)) for _ in range(40))
    (directory / "words.txt").write_text(words, encoding="utf-8")
    text.main(
        ["--text", str(directory / "words.txt"), "--vocabulary", "288", "--output", str(directory)]
    )
    sizes = [f"--{name.replace('_', '-')}={value}" for name, value in SHAPE.items()]
    apart("-m", "configs.models.training.ternary", "--text", str(directory),
          "--output", str(directory), "--steps=30", "--batch=4", "--every=15", "--rate=0.01",
          *sizes)  # fmt: skip
    export.main(["--weights", str(directory), "--text", str(directory), "--name", "small",
                 "--output", str(directory / "small.gguf")])  # fmt: skip
    return directory


@pytest.mark.rotate(6)
def test_training_learns_and_says_what_it_did(trained: Path) -> None:
    record = json.loads((trained / "training.json").read_text(encoding="utf-8"))
    curve = [entry["held_bits_byte"] for entry in record["curve"]]
    assert [entry["step"] for entry in record["curve"]] == [15, 30]
    assert curve[1] < curve[0] < np.log2(288)
    assert record["held_bits_byte"] == min(curve)
    assert record["seed"] == 1
    assert not record["exact"]
    counts = record["text"]
    assert counts["held_bytes"] / (counts["train_bytes"] + counts["held_bytes"]) < 0.1


@pytest.mark.rotate(6)
def test_the_file_is_the_trained_network(trained: Path, tmp_path: Path) -> None:
    """The reference gives the logits of the network that was trained, but for its rounding."""
    import_model(trained / "small.gguf", tmp_path)
    model = Model(tmp_path)
    tokens = np.load(trained / "held.npy")[:24].astype(np.int64)
    result = Run(FloatEngine(model)).feed(tokens.tolist(), every=True)
    apart("-c", LOGITS, str(trained), json.dumps(SHAPE), str(tmp_path / "logits.npy"))
    wanted = np.load(tmp_path / "logits.npy")
    assert np.corrcoef(result.ravel(), wanted.ravel())[0, 1] > 0.999
    kept = model.description.tensors["layers.0.query"]
    assert kept.origin == "TQ1_0"


@pytest.mark.rotate(6)
def test_tokens_are_those_of_the_library_that_made_them(trained: Path, tmp_path: Path) -> None:
    from tokenizers import Tokenizer as Library

    library = Library.from_file(str(trained / "tokenizer.json"))
    import_model(trained / "small.gguf", tmp_path)
    result = Tokenizer(json.loads((tmp_path / TOKENIZER).read_text(encoding="utf-8")))
    sentence = 'Anne sees "the" house--it\'s  12 of them;\n\nEmma, letter'
    wanted = library.encode(sentence).ids
    assert result.encode(sentence)[-len(wanted) :] == wanted


def test_what_is_shipped_is_small_and_ternary(tmp_path: Path) -> None:
    description = import_model(SHIPPED, tmp_path)
    assert SHIPPED.stat().st_size <= 4 << 20
    matrices = [t for t in description.tensors.values() if len(t.shape) == 2]
    assert [t.origin for t in matrices].count("TQ1_0") == len(matrices) - 1  # the table of tokens
    record = json.loads(SHIPPED.with_suffix(".json").read_text(encoding="utf-8"))
    assert record["ternary"]["held_bits_byte"] < 1.02 * record["reference"]["held_bits_byte"]


def test_novels_are_read_from_the_data_of_a_package(tmp_path: Path) -> None:
    """A record as R writes it: a vector of strings in XDR, compressed, behind its length."""
    lines = ["EMMA", "", "One line", "and another.", "", "The end."]

    def number(value: int) -> bytes:
        return value.to_bytes(4, "big")

    record = b"X\n" + number(2) + number(0x030500) + number(0x020300) + number(16)
    record += number(len(lines))
    for line in lines:
        record += number(0x00040009) + number(len(line)) + line.encode()
    (tmp_path / "Rdata.rdb").write_bytes(number(len(record)) + zlib.compress(record))
    assert list(text.novels(tmp_path / "Rdata.rdb")) == [
        "EMMA\n\nOne line and another.\n\nThe end."
    ]
    (tmp_path / "Rdata.rdb").write_bytes(number(9) + b"no stream")
    with pytest.raises(InputError, match=r"Rdata\.rdb: byte 4: no zlib stream"):
        list(text.novels(tmp_path / "Rdata.rdb"))


def test_verses_lose_their_numbers(tmp_path: Path) -> None:
    source = 'bible = Bible(\n    """\n1. In the beginning. 2. And it [was] so.\n""",\n)\n'
    (tmp_path / "bible.py").write_text(source, encoding="utf-8")
    assert list(text.bible(tmp_path / "bible.py")) == ["In the beginning. And it was so."]
    (tmp_path / "bible.py").write_text("nothing", encoding="utf-8")
    with pytest.raises(InputError, match="holds no text between triple quotes"):
        list(text.bible(tmp_path / "bible.py"))


@pytest.mark.rotate(6)
def test_what_cannot_be_trained_or_written_is_refused(trained: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "train.npy", np.zeros(10, np.uint16))
    np.save(tmp_path / "held.npy", np.zeros(10, np.uint16))
    (tmp_path / "text.json").write_text((trained / "text.json").read_text(encoding="utf-8"))
    said = apart("-m", "configs.models.training.ternary", "--text", str(tmp_path), "--output",
                 str(tmp_path), "--context=32", status=2)  # fmt: skip
    assert "10 tokens up to 0; at least 66 below the vocabulary" in said
    with pytest.raises(InputError, match="rows of 100 weights are no whole blocks of 256"):
        export.packed(np.zeros((2, 100)), 1.0)
