# SPDX-License-Identifier: Apache-2.0
"""Byte-level byte-pair encoding, as GPT-2 and the models after it have it.

A text is cut at special tokens, each piece into words, each word is written in an alphabet of 256
printable characters, one a byte, and pairs of neighbours are merged in the order of the list of
merges.  The `tokenizers` package reads no GGUF.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import regex

from hwgen.errors import InputError

_CONTROL, _USER, _UNUSED = 3, 4, 5  # types of tokens in GGUF
_MOST_WORD = 1 << 10  # characters that are merged together: time grows with their square

_CONTRACTIONS = "'s|'t|'re|'ve|'m|'ll|'d"
_GPT2 = rf"{_CONTRACTIONS}| ?[\p{{L}}]+| ?[\p{{N}}]+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+"
_LLAMA3 = (
    rf"(?i:{_CONTRACTIONS})|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}]+|[\p{{N}}]{{1,DIGITS}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_WORDS = {
    "gpt-2": (_GPT2,),
    "smollm": (r"[\p{N}]", _GPT2),
    "llama-bpe": (_LLAMA3.replace("DIGITS", "3"),),
    "qwen2": (_LLAMA3.replace("DIGITS", "1"),),
}
"""Expressions that cut a text into words, by their names in GGUF; each cuts the pieces of the one
before."""


@lru_cache
def _expressions(name: str) -> tuple[regex.Pattern[str], ...]:
    """Return the expressions that cut words."""
    return tuple(regex.compile(f"({text})") for text in _WORDS[name])


def words(text: str, name: str) -> list[str]:
    """Return the words of a text, which make it up.

    Parameters
    ----------
    text : str
    name : str
        Of the expressions, as GGUF has it.
    """
    pieces = [text]
    for expression in _expressions(name):
        pieces = [word for piece in pieces for word in expression.split(piece) if word]
    return pieces


@lru_cache
def alphabet() -> str:
    """Return the character of every byte: itself where it can be seen, else one from U+0100 on."""
    seen = {*range(33, 127), *range(161, 173), *range(174, 256)}
    other = iter(range(256, 512))
    return "".join(chr(byte if byte in seen else next(other)) for byte in range(256))


def any_of(texts: Iterable[str]) -> re.Pattern[str] | None:
    """Return the expression of the longest of some texts, None if there are none."""
    names = sorted(texts, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, names))) if names else None


def encode_pieces(
    text: str,
    cut: re.Pattern[str] | None,
    special: Mapping[str, int],
    plain: Callable[[str], list[int]],
) -> list[int]:
    """Return the tokens of a text: special ones where `cut` matches, `plain` of what is between."""
    result: list[int] = []
    at = 0
    for match in cut.finditer(text) if cut else ():
        result += plain(text[at : match.start()])
        result.append(special[match[0]])
        at = match.end()
    return result + plain(text[at:])


def token_number(document: dict[str, Any], key: str, count: int) -> int | None:
    """Return the number of a special token of a document, None if it has none.

    Raises
    ------
    InputError
        If it is none of `count` tokens.
    """
    value = document.get(key)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value < count:
        raise InputError(f"tokenizer: {key} must be a token's number, not {value!r:.40}")
    return value


class Tokenizer:
    """A tokenizer of a model.

    Parameters
    ----------
    document : dict
        Of `tokenizer.json`, as an import writes it.

    Attributes
    ----------
    tokens : list of str
    end : int or None
        Token that ends a text.
    begin : int or None
        Token that every text begins with, if there is one.

    Raises
    ------
    InputError
        If it is of another kind, or its parts do not fit.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        if document.get("model") != "gpt2":
            raise InputError(
                f"tokenizer: {document.get('model')!r:.40} is not supported; supported are"
                " byte-level BPE ('gpt2') and SentencePiece ('llama', 't5'); give tokens by number"
                " with --prompt-tokens"
            )
        self.pre = str(document.get("pre") or "gpt-2")
        if self.pre not in _WORDS:
            raise InputError(
                f"tokenizer: the way to find words {self.pre!r:.40} is not supported; supported are"
                f" {', '.join(_WORDS)}"
            )
        tokens, merges = document.get("tokens"), document.get("merges", [])
        for name, value in (("tokens", tokens), ("merges", merges)):
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise InputError(f"tokenizer: {name} must be a list of texts")
        self.tokens: list[str] = tokens or []
        self._numbers = {token: number for number, token in enumerate(self.tokens)}
        self._ranks = {merge: rank for rank, merge in enumerate(merges)}
        types = document.get("types", [])
        self._types = types if isinstance(types, list) else []
        self.end = token_number(document, "end", len(self.tokens))
        begin = token_number(document, "begin", len(self.tokens))
        self.begin = begin if document.get("add_begin") is True else None
        self.chat_template = str(document.get("chat_template", ""))
        self._cached: dict[str, tuple[int, ...]] = {}

    @cached_property
    def _special(self) -> dict[str, int]:
        """Tokens that stand for themselves in a text."""
        pairs = zip(self.tokens, self._types, strict=False)
        return {
            token: number
            for number, (token, kind) in enumerate(pairs)
            if kind in (_CONTROL, _USER) and token
        }

    @cached_property
    def _cut(self) -> re.Pattern[str] | None:
        return any_of(self._special)

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Return the tokens of a text.

        Parameters
        ----------
        text : str
        special : bool
            Whether special tokens that stand in it are taken for these.

        Raises
        ------
        InputError
            If a character cannot be written by the model's tokens.
        """
        begin = [] if self.begin is None else [self.begin]
        return begin + encode_pieces(
            text, self._cut if special else None, self._special, self._plain
        )

    def _plain(self, text: str) -> list[int]:
        """Return the tokens of a text without special ones."""
        letters = alphabet()
        result: list[int] = []
        for word in words(text, self.pre):
            data = "".join(letters[byte] for byte in word.encode("utf-8", "surrogateescape"))
            for at in range(0, len(data), _MOST_WORD):
                result += self._merged(data[at : at + _MOST_WORD])
        return result

    def _merged(self, word: str) -> tuple[int, ...]:
        """Return the tokens of a word in the alphabet of bytes."""
        if word in self._cached:
            return self._cached[word]
        parts = list(word)
        while len(parts) > 1:
            ranks = [
                self._ranks.get(f"{one} {two}", len(self._ranks)) for one, two in pairwise(parts)
            ]
            best = min(ranks)
            if best == len(self._ranks):
                break
            merged, at = [], 0
            while at < len(parts):
                if at < len(ranks) and ranks[at] == best:
                    merged.append(parts[at] + parts[at + 1])
                    at += 2
                else:
                    merged.append(parts[at])
                    at += 1
            parts = merged
        result = []
        for part in parts:
            numbers = [
                self._numbers.get(piece) for piece in ([part] if part in self._numbers else part)
            ]
            for number, piece in zip(numbers, part, strict=False):
                if number is None:
                    raise InputError(
                        f"the model has no token for the byte {alphabet().index(piece)} of the text"
                    )
                result.append(number)
        self._cached[word] = tuple(result)
        return self._cached[word]

    def decode_bytes(self, tokens: list[int]) -> bytes:
        """Return the bytes that tokens stand for; special ones stand for themselves."""
        values = {letter: byte for byte, letter in enumerate(alphabet())}
        special = set(self._special.values())
        result = bytearray()
        for number in tokens:
            token = self.tokens[number] if 0 <= number < len(self.tokens) else ""
            if number in special or any(letter not in values for letter in token):
                result += token.encode("utf-8", "surrogateescape")
            else:
                result += bytes(values[letter] for letter in token)
        return bytes(result)

    def decode(self, tokens: list[int]) -> str:
        """Return the text of tokens; bytes that are no character become U+FFFD."""
        return self.decode_bytes(tokens).decode("utf-8", "replace")
