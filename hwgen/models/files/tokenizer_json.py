# SPDX-License-Identifier: Apache-2.0
"""Tokenizers beside safetensors, and of whatever kind a model has.

Those of `tokenizer.json` files are read by the package `tokenizers`, which defines the format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hwgen.errors import InputError, ToolMissing
from hwgen.models.files.sentencepiece import ALGORITHMS, SentencePieceTokenizer
from hwgen.models.files.sentencepiece_file import FILE as SENTENCEPIECE
from hwgen.models.files.sentencepiece_file import sentencepiece_document
from hwgen.models.files.store import read_object, read_text
from hwgen.models.files.tokenizer import Tokenizer

PACKAGE = "tokenizers"
"""What a model's document says under ``model``."""

FILE = "tokenizer.json"
_SETTINGS, _TEMPLATE = "tokenizer_config.json", "chat_template.jinja"
_MOST_BYTES = 1 << 26
_MOST_TOKENS = 1 << 24


class JsonTokenizer:
    """A tokenizer of a `tokenizer.json` file.

    Parameters
    ----------
    document : mapping
        `PACKAGE`, the file's contents under ``json``, and perhaps numbers of the tokens ``begin``
        and ``end``.

    Attributes
    ----------
    end : int or None
        Token that ends a text.
    begin : int or None
        None: the file says what texts begin with.
    chat_template : str

    Raises
    ------
    InputError
        If the package cannot read the file.
    ToolMissing
        If the package is not installed.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        try:
            import tokenizers
        except ImportError:
            raise ToolMissing(
                f"{FILE}: tokenizers of such files need the Python package tokenizers: pip install"
                " 'hwgen[models]'; --prompt-tokens takes tokens by number without it"
            ) from None
        text = json.dumps(document.get("json"))
        self._by = _guarded(lambda: tokenizers.Tokenizer.from_str(text))
        self.count = 1 + max(self._by.get_vocab().values(), default=-1)
        self.end = self._token(document, "end")
        self.begin = None
        self.chat_template = str(document.get("chat_template", ""))

    def _token(self, document: Mapping[str, Any], key: str) -> int | None:
        value = document.get(key)
        if value is not None and (type(value) is not int or not 0 <= value < _MOST_TOKENS):
            raise InputError(f"tokenizer: {key} must be a token's number, not {value!r:.40}")
        return value

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Return the tokens of a text.

        Parameters
        ----------
        text : str
            Bytes that are no UTF-8, as surrogates, are replaced by U+FFFD: these files have texts.
        special : bool
            Whether special tokens that stand in it are taken for these.
        """
        whole = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        self._by.encode_special_tokens = not special
        result: list[int] = _guarded(lambda: self._by.encode(whole).ids)
        return result

    def decode(self, tokens: list[int]) -> str:
        """Return the text of tokens that follow others; special ones stand for themselves."""
        if not tokens:
            return ""
        # Decoders leave out the blank that a text begins with, and this is not where it begins.
        first, both = (self._text([*tokens[:1], *more]) for more in ([], tokens))
        return both[len(first) :] if both.startswith(first) else self._text(tokens)

    def _text(self, tokens: list[int]) -> str:
        result: str = _guarded(lambda: self._by.decode(tokens, skip_special_tokens=False))
        return result


AnyTokenizer = Tokenizer | JsonTokenizer | SentencePieceTokenizer
"""A tokenizer of any kind of file."""


def tokenizer_of(document: dict[str, Any]) -> AnyTokenizer:
    """Return a model's tokenizer by its document, which an import wrote."""
    model = document.get("model")
    if model == PACKAGE:
        return JsonTokenizer(document)
    if isinstance(model, str) and model in ALGORITHMS:
        return SentencePieceTokenizer(document)
    return Tokenizer(document)


def tokenizer_document(path: Path, vocabulary: int) -> dict[str, Any] | None:
    """Return the document of the tokenizer beside a model's files, None if there is none.

    Parameters
    ----------
    path : Path
        Directory with `tokenizer.json` or `tokenizer.model`, and perhaps `tokenizer_config.json`
        and `config.json`.
    vocabulary : int
        Tokens of the model.

    Raises
    ------
    InputError
        If it cannot be read, or has more tokens than the model.
    """
    file, pieces = path / FILE, path / SENTENCEPIECE
    if file.exists():
        document: dict[str, Any] = {"model": PACKAGE, "json": _object(file)}
    elif pieces.exists():
        document = sentencepiece_document(pieces, vocabulary)
    else:
        return None
    settings = _object(path / _SETTINGS) if (path / _SETTINGS).exists() else {}
    template = settings.get("chat_template")
    if (path / _TEMPLATE).exists():
        template = read_text(path / _TEMPLATE)
    if isinstance(settings.get("add_bos_token"), bool):
        document["add_begin"] = settings["add_bos_token"]
    if isinstance(template, str):
        document["chat_template"] = template
    ends = _object(path / "config.json").get("eos_token_id")
    end = ends[0] if isinstance(ends, list) and ends else ends
    if type(end) is int and 0 <= end < vocabulary:
        document["end"] = end
    if not file.exists():
        return document
    try:
        count = JsonTokenizer(document).count
    except ToolMissing:
        return document  # whoever uses it is told what is missing
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    if count > vocabulary:
        raise InputError(f"{file}: has {count} tokens, more than the model's {vocabulary}")
    return document


def _object(file: Path) -> dict[str, Any]:
    """Return the object that a JSON file holds."""
    if file.is_file() and file.stat().st_size > _MOST_BYTES:
        raise InputError(f"{file} has {file.stat().st_size} bytes, more than {_MOST_BYTES}")
    return read_object(file)


def _guarded(call: Any) -> Any:
    """Return the result of a function of the package; its exceptions are errors of the file."""
    try:
        return call()
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # the package's own panics are no Exception
        raise InputError(f"tokenizer: {str(error)[:200]}") from None
